/* conf_loops_test.c -- a backend that is one of our listeners. */
#include "t/unit/conf_fixture.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is wrong with this backend beside these listeners; "": nothing. */
static const char *
verdict_with(const char *listeners, const char *backend, conf_resolve_f *resolve)
{
    static char got[1024];
    char yaml[1024];
    struct conf_source src = {.name = "t.yaml", .resolve = resolve};
    const struct conf *conf = NULL;
    struct conf_error *errors;

    snprintf(yaml, sizeof(yaml), "%sbackends:\n  b: {address: \"%s\"}\n", listeners, backend);
    src.text = slice_str(yaml);
    got[0] = '\0';
    if (conf_load_source(&conf, &src, &errors) != 0) {
        CHECK(errors->next == NULL);
        snprintf(got, sizeof(got), "%u:%u %s", errors->line, errors->column, errors->message);
        conf_errors_free(&errors);
    }
    conf_free(&conf);
    return got;
}

static bool
loops(const char *listener, const char *backend)
{
    char listeners[512];
    const char *got;

    snprintf(listeners, sizeof(listeners), "listen: [ { name: in, address: \"%s\" } ]\n", listener);
    got = verdict_with(listeners, backend, NULL);
    if (got[0] != '\0' && strstr(got, "is the listener 'in' (") == NULL)
        fail_msg("%s beside %s: %s", backend, listener, got);
    return got[0] != '\0';
}

TEST(conf_loops, a_backend_that_is_a_listener_is_refused_with_its_place)
{
    CHECK_STR(
        "3:16 address: '127.0.0.1:81' is the listener 'listen1' (127.0.0.1:81) of this tarnd, "
        "so its requests would loop: write the address of the site itself",
        verdict_with("listen: [{address: \"127.0.0.1:80\"}, {address: \"127.0.0.1:81\"}]\n",
            "127.0.0.1:81", NULL));
    CHECK_STR("2:16 address: '127.0.0.1:8080' is the listener 'listen0' (127.0.0.1:8080) of this "
              "tarnd, so its requests would loop: write the address of the site itself",
        verdict_with("", "127.0.0.1:8080", NULL));
}

TEST(conf_loops, an_address_is_one_in_all_of_its_spellings)
{
    CHECK(loops("127.0.0.1:80", "127.0.0.1:80"));
    CHECK(loops("127.0.0.1:80", "[::ffff:127.0.0.1]:80"));
    CHECK(loops("127.0.0.1:80", "0.0.0.0:80")); /* connect(2) takes it for the loopback */
    CHECK(loops("[::1]:80", "[::]:80"));
    CHECK(!loops("127.0.0.1:80", "127.0.0.1:81"));
    CHECK(!loops("127.0.0.1:80", "127.0.0.2:80"));
    CHECK(!loops("127.0.0.1:80", "[::1]:80"));
    CHECK(!loops("127.0.0.1:0", "127.0.0.1:80"));
}

TEST(conf_loops, a_listener_of_any_address_has_every_local_one)
{
    CHECK(loops("*:80", "127.0.0.1:80"));
    CHECK(loops("*:80", "127.9.9.9:80"));
    CHECK(loops("*:80", "[::1]:80"));
    CHECK(loops("[::]:80", "127.0.0.1:80"));
    CHECK(loops("0.0.0.0:80", "127.0.0.1:80"));
    CHECK(!loops("0.0.0.0:80", "[::1]:80"));
    CHECK(!loops("*:80", "192.0.2.1:80"));
    CHECK(!loops("*:80", "127.0.0.1:8080"));
}

TEST(conf_loops, the_addresses_of_interfaces_are_local)
{
    struct ifaddrs *list;
    char text[INET_ADDRSTRLEN], backend[64];

    CHECK_EQ(0, getifaddrs(&list));
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        struct sockaddr_in v4;

        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&v4, i->ifa_addr, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
        snprintf(backend, sizeof(backend), "%s:80", text);
        CHECK(loops("*:80", backend));
        CHECK(loops("0.0.0.0:80", backend));
    }
    freeifaddrs(list);
}

static int
resolve_to_us(
    const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo numeric = *hints;

    (void)host;
    numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    return getaddrinfo("127.0.0.1", port, &numeric, out);
}

TEST(conf_loops, a_name_is_what_it_resolves_to)
{
    CHECK(strstr(verdict_with("", "www.example.com:8080", resolve_to_us),
              "address: 'www.example.com:8080' is the listener 'listen0'") != NULL);
    CHECK_STR("", verdict_with("", "www.example.com:8081", resolve_to_us));
}

TEST(conf_loops, a_unix_socket_is_one_behind_every_symbolic_link)
{
    char dir[] = "/tmp/conf_loops_XXXXXX", real[64], link[64], a[96], b[96];

    CHECK(mkdtemp(dir) != NULL);
    snprintf(real, sizeof(real), "%s/real", dir);
    snprintf(link, sizeof(link), "%s/link", dir);
    CHECK_EQ(0, symlink(dir, link));
    snprintf(a, sizeof(a), "unix:%s/s", dir);
    snprintf(b, sizeof(b), "unix:%s/s", link);
    CHECK(loops(a, a));
    CHECK(loops(a, b)); /* neither is there yet */
    snprintf(b, sizeof(b), "unix:%s/t", dir);
    CHECK(!loops(a, b));
    CHECK(!loops(a, "127.0.0.1:80"));
    CHECK(!loops("127.0.0.1:80", a));
    CHECK(loops("unix:/nowhere/at/all/s", "unix:/nowhere/at/all/s"));
    CHECK(!loops("unix:/nowhere/at/all/s", "unix:/nowhere/at/all/t"));
    CHECK_EQ(0, unlink(link));
    CHECK_EQ(0, rmdir(dir));
}

TEST_MAIN(TEST_ENTRY(conf_loops, a_backend_that_is_a_listener_is_refused_with_its_place),
    TEST_ENTRY(conf_loops, an_address_is_one_in_all_of_its_spellings),
    TEST_ENTRY(conf_loops, a_listener_of_any_address_has_every_local_one),
    TEST_ENTRY(conf_loops, the_addresses_of_interfaces_are_local),
    TEST_ENTRY(conf_loops, a_name_is_what_it_resolves_to),
    TEST_ENTRY(conf_loops, a_unix_socket_is_one_behind_every_symbolic_link))
