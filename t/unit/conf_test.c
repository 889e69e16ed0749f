/* conf_test.c -- what the loader takes, and what it gives back. */
#include "t/unit/conf_fixture.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include "conf/conf_doc.h"
#include "conf/conf_priv.h"

/* Allocations of the whole program fail from the fault_at-th on, libyaml's too.  Sanitizers
 * bring their own malloc, so those builds go without. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#endif
#ifndef OWN_MALLOC
#define OWN_MALLOC 1
#endif

#if OWN_MALLOC
static long fault_at = -1, fault_live; /* -1: none fails, nothing is counted */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void __libc_free(void *p);

static bool
fault_now(void)
{
    if (fault_at < 0)
        return false;
    if (fault_at == 0)
        return true;
    fault_at--;
    fault_live++;
    return false;
}

void *
malloc(size_t size)
{
    return fault_now() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
    return fault_now() ? NULL : __libc_calloc(n, size);
}

void *
realloc(void *p, size_t size)
{
    if (p == NULL)
        return malloc(size);
    return fault_at == 0 ? NULL : __libc_realloc(p, size);
}

void
free(void *p)
{
    if (p != NULL && fault_at >= 0)
        fault_live--;
    __libc_free(p);
}
#endif

/* The file two directories above this one's, wherever the tests run. */
static char *
read_shipped(const char *name)
{
    char path[4096], *text = calloc(1, 131072);
    const char *end = strstr(__FILE__, "t/unit/conf_test.c");
    FILE *f;

    snprintf(path, sizeof(path), "%.*sconf/%s", (int)(end - __FILE__), __FILE__, name);
    f = fopen(path, "r");
    assert_non_null(f);
    CHECK(fread(text, 1, 131071, f) < 131071);
    fclose(f);
    return text;
}

TEST(conf, a_file_with_a_backend_alone_gets_the_defaults)
{
    const struct conf *c = load(BACKEND);

    CHECK_STR("t.yaml", c->path);
    CHECK_EQ(1, c->nlistens);
    CHECK_STR("listen0", c->listens[0].name);
    CHECK_STR("127.0.0.1:8080", c->listens[0].address.text);
    CHECK_EQ(8080, c->listens[0].address.port);
    CHECK_EQ(1, c->listens[0].address.naddrs);
    CHECK_EQ(0, c->workers);
    CHECK_EQ(1, c->nstorages);
    CHECK_STR("main", c->storages[0].name);
    CHECK_STR("malloc", c->storages[0].engine);
    CHECK_STR("", c->storages[0].fault);
    CHECK_STR("s3-fifo", c->storages[0].eviction);
    CHECK_EQ(256 << 20, c->storages[0].size);
    CHECK_EQ(1, c->nbackends);
    CHECK_STR("o", c->backends[0].name);
    CHECK_STR("", c->backends[0].host_header);
    CHECK_EQ(c->params.connect_timeout, c->backends[0].connect_timeout);
    CHECK_EQ(0, c->backends[0].max_connections);
    CHECK_EQ(64, c->backends[0].max_idle);
    CHECK_EQ(0, c->nroutes);
    CHECK_EQ(0, c->default_backend);
    CHECK_EQ(0, c->index.bits);
    CHECK_EQ(8, c->index.slots);
#define NUMBER_IS(name, def)                 CHECK_EQ(def, c->params.name);
#define STRING_IS(name, def)                 CHECK_STR(def, c->params.name);
#define IS_MS                                NUMBER_IS
#define IS_BYTES                             NUMBER_IS
#define IS_POW2                              NUMBER_IS
#define IS_COUNT                             NUMBER_IS
#define IS_BOOL                              NUMBER_IS
#define IS_PERCENT                           NUMBER_IS
#define IS_TEXT                              STRING_IS
#define IS_ASCII                             STRING_IS
#define IS_TOKEN                             STRING_IS
#define IS_LEVEL                             STRING_IS
#define IS_FORMAT                            STRING_IS
#define IS_OUTPUT                            STRING_IS
#define IS_SYSLOG                            STRING_IS
#define IS_FORWARDED                         STRING_IS
#define IS_CHOICE                            STRING_IS
#define IS_COOKIES                           STRING_IS
#define IS_MODE                              NUMBER_IS
#define IS_WORDS                             STRING_IS
#define X(name, type, def, least, most, doc) IS_##type(name, def)
    CONF_PARAM_TABLE(X)
#undef X
    conf_free(&c);
    CHECK(c == NULL);
    conf_free(&c);
}

TEST(conf, edges_are_read)
{
    const struct conf *c = load(
        "listen:\n"
        "  - {address: '*:0', proxy_protocol: required, trusted: [10.0.0.0/8, '::1', unix]}\n"
        "  - {address: unix:/run/a.sock, mode: 0660, user: www-data, group: 33,\n"
        "     max_req_body: 1MiB}\n"
        "trusted_proxies: 192.0.2.0/24\n"
        "backends: {o: {address: '127.0.0.1:9', proxy_header: 2}}\n"
        "limits:\n"
        "  - {host: A.test, path: /login, rate: 10, per: 1m, burst: 20, except: [10.0.0.0/8]}\n"
        "  - {}\n"
        "parameters: {forwarded: both}\n");

    CHECK(conf_listen_is_proxied(&c->listens[0]) && !conf_listen_is_proxied(&c->listens[1]));
    CHECK_EQ(3, c->listens[0].trusted.set.n);
    CHECK_EQ(104, c->listens[0].trusted.set.nets[0].bits);
    CHECK_EQ(128, c->listens[0].trusted.set.nets[1].bits);
    CHECK(address_is_unix(c->listens[0].trusted.set.nets[2].addr));
    CHECK_EQ(0, c->listens[1].trusted.set.n);
    CHECK_EQ(0660, c->listens[1].mode);
    CHECK_STR("www-data", c->listens[1].user);
    CHECK_STR("33", c->listens[1].group);
    CHECK_EQ(0666, c->listens[0].mode);
    CHECK_EQ(1 << 20, c->listens[1].max_req_body);
    CHECK_EQ(0, c->listens[0].max_req_body);
    CHECK_EQ(1, c->trusted_proxies.set.n);
    CHECK_EQ(120, c->trusted_proxies.set.nets[0].bits);
    CHECK_EQ(2, c->backends[0].proxy_header);
    CHECK_EQ(2, c->nlimits);
    CHECK_STR("a.test", c->limits[0].host);
    CHECK_STR("/login", c->limits[0].path);
    CHECK_EQ(10, c->limits[0].rate);
    CHECK_EQ(60000, c->limits[0].per);
    CHECK_EQ(20, c->limits[0].burst);
    CHECK_EQ(1, c->limits[0].except.set.n);
    CHECK_EQ(100, c->limits[1].rate);
    CHECK_EQ(0, c->limits[1].except.set.n);
    CHECK_STR("both", c->params.forwarded);
    conf_free(&c);
}

TEST(conf, every_section_is_read)
{
    const struct conf *c = load(
        "listen:\n"
        "  - {address: '*:0', name: web}\n"
        "  - address: unix:/run/tarn.sock\n"
        "workers: 3\n"
        "storage:\n"
        "  main: {engine: malloc, size: 1GiB}\n"
        "  bad: {engine: fault, size: 64k, fault: 'delay=5ms', eviction: sieve}\n"
        "backends:\n"
        "  img: {address: '[::1]:81', connect_timeout: 2s, max_idle: 0, host_header: 'a.b:81'}\n"
        "  default: {address: unix:/tmp/o, idle_timeout: 1h, max_connections: 9}\n"
        "routes:\n"
        "  - {host: IMG.Example.com, path: /thumbs/, backend: img}\n"
        "  - {backend: default}\n"
        "index: {bits: 20, slots: 4}\n"
        "parameters: {backend_idle_timeout: 7s, http_cache_status: off, http_server: 'a b'}\n");

    CHECK_EQ(2, c->nlistens);
    CHECK_STR("web", c->listens[0].name);
    CHECK_EQ(0, c->listens[0].address.port);
    CHECK_EQ(AF_INET6, c->listens[0].address.addrs[0].ss_family);
    CHECK_STR("listen1", c->listens[1].name);
    CHECK(c->listens[1].address.is_unix);
    CHECK_STR("/run/tarn.sock", c->listens[1].address.path);
    CHECK_EQ(3, c->workers);
    CHECK_EQ(2, c->nstorages);
    CHECK_EQ(1 << 30, c->storages[0].size);
    CHECK_STR("bad", c->storages[1].name);
    CHECK_STR("delay=5ms", c->storages[1].fault);
    CHECK_STR("sieve", c->storages[1].eviction);
    CHECK_STR("::1", c->backends[0].address.host);
    CHECK_EQ(2000, c->backends[0].connect_timeout);
    CHECK_EQ(0, c->backends[0].max_idle);
    CHECK_EQ(7000, c->backends[0].idle_timeout);
    CHECK_STR("a.b:81", c->backends[0].host_header);
    CHECK_EQ(3600000, c->backends[1].idle_timeout);
    CHECK_EQ(9, c->backends[1].max_connections);
    CHECK_STR("img.example.com", c->routes[0].host);
    CHECK_STR("/thumbs/", c->routes[0].path);
    CHECK_EQ(0, c->routes[0].backend);
    CHECK_STR("", c->routes[1].host);
    CHECK_EQ(1, c->default_backend);
    CHECK_EQ(20, c->index.bits);
    CHECK_EQ(4, c->index.slots);
    CHECK_EQ(0, c->params.http_cache_status);
    CHECK_STR("a b", c->params.http_server);
    conf_free(&c);
}

static unsigned
default_of(const char *yaml)
{
    const struct conf *c = load(yaml);
    unsigned got = c->default_backend;

    conf_free(&c);
    return got;
}

TEST(conf, default_backend_is_the_only_one_or_named_default_or_routed_without_conditions)
{
#define TWO(a, b) "backends: {" a ": {address: '1.2.3.4:1'}, " b ": {address: '1.2.3.4:2'}}\n"
    CHECK_EQ(0, default_of(BACKEND "routes: [{host: a, backend: o}]"));
    CHECK_EQ(CONF_NO_BACKEND, default_of(TWO("a", "b") "routes: [{path: /x, backend: b}]"));
    CHECK_EQ(1, default_of(TWO("a", "default")));
    CHECK_EQ(1, default_of(TWO("a", "b") "routes: [{path: /x, backend: a}, {backend: b}]"));
}

static int64_t
size_of(const char *text)
{
    char yaml[256];
    const struct conf *c;
    int64_t got;

    snprintf(yaml, sizeof(yaml), BACKEND "parameters: {max_req_body: %s}", text);
    c = load(yaml);
    got = c->params.max_req_body;
    conf_free(&c);
    return got;
}

TEST(conf, sizes_take_units_and_decimals)
{
    const int64_t k = 1024;

    CHECK_EQ(0, size_of("0"));
    CHECK_EQ(77, size_of("77"));
    CHECK_EQ(77, size_of("77B"));
    CHECK_EQ(2 * k, size_of("2k"));
    CHECK_EQ(2 * k, size_of("2KB"));
    CHECK_EQ(2 * k, size_of("2KiB"));
    CHECK_EQ(3 * k * k, size_of("3m"));
    CHECK_EQ(3 * k * k, size_of("3MB"));
    CHECK_EQ(3 * k * k, size_of("3MIB"));
    CHECK_EQ(3 * k * k * k, size_of("3G"));
    CHECK_EQ(3 * k * k * k, size_of("3GB"));
    CHECK_EQ(3 * k * k * k / 2, size_of("1.5GiB"));
    CHECK_EQ(5 * k * k * k * k, size_of("5TiB"));
    CHECK_EQ(5 * k * k * k * k, size_of("5t"));
    CHECK_EQ(102, size_of("0.1k")); /* 102.4: rounded down */
    CHECK_EQ(INT64_MAX, size_of("9223372036854775807"));
}

static int64_t
time_of(const char *text)
{
    char yaml[256];
    const struct conf *c;
    int64_t got;

    snprintf(yaml, sizeof(yaml), BACKEND "parameters: {default_ttl: %s}", text);
    c = load(yaml);
    got = c->params.default_ttl;
    conf_free(&c);
    return got;
}

TEST(conf, times_take_units_and_decimals)
{
    const int64_t d = 86400000;

    CHECK_EQ(0, time_of("0s"));
    CHECK_EQ(15, time_of("15ms"));
    CHECK_EQ(3500, time_of("3.5s"));
    CHECK_EQ(1001, time_of("1.0019s"));
    CHECK_EQ(90000, time_of("1.5m"));
    CHECK_EQ(7200000, time_of("2h"));
    CHECK_EQ(d, time_of("1d"));
    CHECK_EQ(14 * d, time_of("'2w'"));
    CHECK_EQ(365 * d, time_of("1y"));
    CHECK_EQ(3650 * d, time_of("10y"));
}

TEST(conf, switches_take_four_words)
{
    static const struct {
        const char *word;
        int64_t value;
    } rows[] = {{"on", 1}, {"off", 0}, {"true", 1}, {"False", 0}};
    char yaml[256];

    for (unsigned i = 0; i < 4; i++) {
        const struct conf *c;

        snprintf(yaml, sizeof(yaml), BACKEND "parameters: {http_cache_status: %s}", rows[i].word);
        c = load(yaml);
        CHECK_EQ(rows[i].value, c->params.http_cache_status);
        conf_free(&c);
    }
}

TEST(conf, a_unix_path_fits_its_socket_address)
{
    char yaml[512], path[109] = "/";
    const struct conf *c;

    memset(path + 1, 'x', 107);
    snprintf(yaml, sizeof(yaml), "backends: {o: {address: 'unix:%.107s'}}", path);
    c = load(yaml);
    CHECK_EQ(107, strlen(c->backends[0].address.path));
    CHECK_STR("", c->backends[0].address.host);
    conf_free(&c);
    snprintf(yaml, sizeof(yaml), "backends: {o: {address: 'unix:%s'}}", path);
    expect_errors(yaml,
        "1:25 address: 'unix:/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' has a "
        "path of 108 bytes: a socket's has at most 107\n");
}

/* "twice" has two addresses, all other names none. */
static int
fake_resolve(
    const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo numeric = *hints;
    struct addrinfo *second;
    int err;

    if (strcmp(host, "twice") != 0)
        return EAI_NONAME;
    numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    err = getaddrinfo("127.0.0.1", service, &numeric, out);
    if (err == 0)
        err = getaddrinfo("::1", service, &numeric, &second);
    if (err == 0)
        (*out)->ai_next = second;
    return err;
}

TEST(conf, a_name_gets_all_its_addresses)
{
    const struct conf *c = load_with("backends: {o: {address: 'twice:81'}}", fake_resolve);
    const struct conf_address *a = &c->backends[0].address;

    CHECK_STR("twice", a->host);
    CHECK_EQ(2, a->naddrs);
    CHECK_EQ(AF_INET, a->addrs[0].ss_family);
    CHECK_EQ(sizeof(struct sockaddr_in), a->addr_lens[0]);
    CHECK_EQ(81, ntohs(((const struct sockaddr_in *)&a->addrs[0])->sin_port));
    CHECK_EQ(AF_INET6, a->addrs[1].ss_family);
    CHECK_EQ(sizeof(struct sockaddr_in6), a->addr_lens[1]);
    conf_free(&c);
}

TEST(conf, a_name_without_address_is_a_mistake_with_dns_required_only)
{
    struct conf_source src = {.name = "t.yaml",
        .text = slice_str("backends: {o: {address: 'nowhere:81'}}\nparameters: {dns_required: on}"),
        .resolve = fake_resolve};
    const struct conf *c = NULL;
    struct conf_error *errors;

    CHECK_EQ(TERR_CONFIG, conf_load_source(&c, &src, &errors));
    CHECK_STR(
        "address: 'nowhere:81' cannot be resolved: host 'nowhere': Name or service not known; "
        "with `dns_required: off` tarnd starts without it",
        errors->message);
    CHECK(errors->next == NULL);
    conf_errors_free(&errors);
    c = load_with(
        "backends: {default: {address: 'nowhere:81'}, p: {address: 'twice:81'}}", fake_resolve);
    CHECK_EQ(0, c->backends[0].address.naddrs);
    CHECK_EQ(81, c->backends[0].address.port);
    CHECK_STR("Name or service not known", c->backends[0].address.unresolved);
    CHECK_EQ(2, c->backends[1].address.naddrs);
    CHECK(c->backends[1].address.unresolved == NULL);
    conf_free(&c);
    src.text = slice_str("listen: [{address: 'nowhere:81'}]\nbackends: {o: {address: 'twice:81'}}");
    CHECK_EQ(TERR_CONFIG, conf_load_source(&c, &src, &errors)); /* there is nothing to bind */
    conf_errors_free(&errors);
}

TEST(conf, a_text_is_loaded_without_resolving_names)
{
    const struct conf *c = load("backends: {o: {address: 'nowhere.invalid:81'}}");

    CHECK_EQ(0, c->backends[0].address.naddrs);
    CHECK_STR("nowhere.invalid", c->backends[0].address.host);
    CHECK_EQ(81, c->backends[0].address.port);
    conf_free(&c);
}

TEST(conf, a_file_is_loaded_from_disk_with_names_resolved)
{
    char path[] = "/tmp/tarn-conf-test-XXXXXX";
    const char yaml[] = "backends: {o: {address: 'localhost:81'}}\n";
    int fd = mkstemp(path);
    const struct conf *c = NULL;
    struct conf_error *errors;

    CHECK(fd >= 0);
    CHECK_EQ(sizeof(yaml) - 1, write(fd, yaml, sizeof(yaml) - 1));
    close(fd);
    CHECK_EQ(0, conf_load(&c, path, &errors));
    CHECK(errors == NULL);
    CHECK_STR(path, c->path);
    CHECK(c->backends[0].address.naddrs > 0);
    conf_free(&c);
    unlink(path);
}

TEST(conf, defaults_obey_their_own_rows)
{
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++) {
        for (unsigned i = 0; i < s->nkeys; i++) {
            const struct conf_key *k = &s->keys[i];

            CHECK(k->doc[0] != '\0');
            CHECK(k->least <= k->most);
            if (k->required || k->def == CONF_FROM_PARAM)
                continue;
            if (k->def_text != NULL)
                CHECK(k->type == CONF_TYPE_LEVEL || k->type == CONF_TYPE_ENGINE ||
                      k->type == CONF_TYPE_EVICTION || k->type == CONF_TYPE_TABLE ||
                      (strlen(k->def_text) >= (size_t)k->least &&
                          strlen(k->def_text) <= (size_t)k->most));
            else if (k->type != CONF_TYPE_AUTO)
                CHECK(k->def >= k->least && k->def <= k->most);
        }
    }
}

TEST(conf, shipped_yaml_loads_and_holds_the_defaults)
{
    char *text = read_shipped("tarn.yaml");
    const struct conf *c = load(text), *d = load("backends: {origin: {address: '127.0.0.1:9000'}}");

    CHECK_EQ(d->nlistens, c->nlistens);
    CHECK_STR(d->listens[0].name, c->listens[0].name);
    CHECK_STR(d->listens[0].address.text, c->listens[0].address.text);
    CHECK_EQ(d->workers, c->workers);
    CHECK_STR(d->storages[0].name, c->storages[0].name);
    CHECK_STR(d->storages[0].engine, c->storages[0].engine);
    CHECK_EQ(d->storages[0].size, c->storages[0].size);
    CHECK_STR(d->backends[0].host_header, c->backends[0].host_header);
    CHECK_EQ(d->backends[0].connect_timeout, c->backends[0].connect_timeout);
    CHECK_EQ(d->backends[0].first_byte_timeout, c->backends[0].first_byte_timeout);
    CHECK_EQ(d->backends[0].between_bytes_timeout, c->backends[0].between_bytes_timeout);
    CHECK_EQ(d->backends[0].idle_timeout, c->backends[0].idle_timeout);
    CHECK_EQ(d->backends[0].max_idle, c->backends[0].max_idle);
    CHECK_EQ(d->default_backend, c->default_backend);
    CHECK_EQ(d->index.bits, c->index.bits);
    CHECK_EQ(d->index.slots, c->index.slots);
#define NUMBERS_SAME(name)                   CHECK_EQ(d->params.name, c->params.name);
#define STRINGS_SAME(name)                   CHECK_STR(d->params.name, c->params.name);
#define SAME_MS                              NUMBERS_SAME
#define SAME_BYTES                           NUMBERS_SAME
#define SAME_POW2                            NUMBERS_SAME
#define SAME_COUNT                           NUMBERS_SAME
#define SAME_BOOL                            NUMBERS_SAME
#define SAME_PERCENT                         NUMBERS_SAME
#define SAME_TEXT                            STRINGS_SAME
#define SAME_ASCII                           STRINGS_SAME
#define SAME_TOKEN                           STRINGS_SAME
#define SAME_WORDS                           SAME_TOKEN
#define SAME_MODE                            SAME_COUNT
#define SAME_LEVEL                           STRINGS_SAME
#define SAME_FORMAT                          STRINGS_SAME
#define SAME_OUTPUT                          STRINGS_SAME
#define SAME_SYSLOG                          STRINGS_SAME
#define SAME_FORWARDED                       STRINGS_SAME
#define SAME_CHOICE                          STRINGS_SAME
#define SAME_COOKIES                         STRINGS_SAME
#define X(name, type, def, least, most, doc) SAME_##type(name)
    CONF_PARAM_TABLE(X)
#undef X
    conf_free(&c);
    conf_free(&d);
    free(text);
}

TEST(conf, shipped_yaml_is_what_the_generator_prints)
{
    struct memo *m = memo_new();
    char *text = read_shipped("tarn.yaml");

    conf_doc_yaml(&m->sink);
    CHECK_STR(m->text, text);
    free(text);
    free(m);
}

TEST(conf, schema_is_what_the_generator_prints)
{
    struct memo *m = memo_new();
    char *text = read_shipped("tarn.schema.json");

    conf_doc_schema(&m->sink);
    CHECK_STR(m->text, text);
    free(text);
    free(m);
}

TEST(conf, reference_is_what_the_generator_prints)
{
    struct memo *m = memo_new();
    char *text = read_shipped("README.md");
    char *begin = strstr(text, CONF_DOC_BEGIN), *end = strstr(text, CONF_DOC_END);

    CHECK(begin != NULL && end != NULL);
    *end = '\0';
    conf_doc_reference(&m->sink);
    CHECK_STR(m->text, begin + strlen(CONF_DOC_BEGIN));
    free(text);
    free(m);
}

#if OWN_MALLOC
/* The n-th allocation and all after it fail, for every n that the load reaches. */
static void
fail_each_allocation(const char *yaml, int otherwise)
{
    int err = TERR_NOMEM;
    long n;

    for (n = 0; err == TERR_NOMEM; n++) {
        const struct conf *conf = NULL;
        struct conf_error *errors = NULL;

        CHECK(n < 10000);
        fault_live = 0;
        fault_at = n;
        err = conf_load_text(&conf, "t.yaml", yaml, strlen(yaml), &errors);
        if (err == TERR_NOMEM && (conf != NULL || errors != NULL))
            err = 1;
        conf_free(&conf);
        conf_errors_free(&errors);
        fault_at = -1;
        CHECK_EQ(0, fault_live);
    }
    CHECK_EQ(otherwise, err);
    CHECK(n > 10);
}
#endif

TEST(conf, every_allocation_can_fail)
{
#if OWN_MALLOC
    char *text = read_shipped("tarn.yaml");

    fail_each_allocation(text, 0);
    fail_each_allocation(
        BACKEND "compress: {types: [text/css, font/ttf]}\nroutes: [{compress: on}]\n", 0);
    fail_each_allocation(BACKEND
        "fleet: {name: a, node: b, engine: ['redis://h', 'redis://u@[::1]/1'], "
        "tls: {ca: a.pem}}\n",
        TERR_CONFIG);
    fail_each_allocation(BACKEND "fleet: {name: a, engine: ['rediss://u@127.0.0.1', "
                                 "'rediss://u@h:1']}\n",
        0);
    fail_each_allocation(
        BACKEND "fleet: {name: a, engine: 'redis://:p@h', password: p}\n", TERR_CONFIG);
    fail_each_allocation("workers: 0\nx: 1\nbackends: {o: {address: a}}\nlisten: [", TERR_CONFIG);
    free(text);
#else
    skip();
#endif
}

TEST_MAIN(TEST_ENTRY(conf, a_file_with_a_backend_alone_gets_the_defaults),
    TEST_ENTRY(conf, every_section_is_read),
    TEST_ENTRY(conf, default_backend_is_the_only_one_or_named_default_or_routed_without_conditions),
    TEST_ENTRY(conf, sizes_take_units_and_decimals),
    TEST_ENTRY(conf, times_take_units_and_decimals), TEST_ENTRY(conf, switches_take_four_words),
    TEST_ENTRY(conf, a_unix_path_fits_its_socket_address),
    TEST_ENTRY(conf, a_name_gets_all_its_addresses),
    TEST_ENTRY(conf, a_name_without_address_is_a_mistake_with_dns_required_only),
    TEST_ENTRY(conf, a_text_is_loaded_without_resolving_names),
    TEST_ENTRY(conf, a_file_is_loaded_from_disk_with_names_resolved),
    TEST_ENTRY(conf, edges_are_read), TEST_ENTRY(conf, defaults_obey_their_own_rows),
    TEST_ENTRY(conf, shipped_yaml_loads_and_holds_the_defaults),
    TEST_ENTRY(conf, shipped_yaml_is_what_the_generator_prints),
    TEST_ENTRY(conf, schema_is_what_the_generator_prints),
    TEST_ENTRY(conf, reference_is_what_the_generator_prints),
    TEST_ENTRY(conf, every_allocation_can_fail))
