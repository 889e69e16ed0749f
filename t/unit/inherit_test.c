/* inherit_test.c -- sockets that a process is started with: found by their address, shared by
 * loops. */
#include "t/unit/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/log/elog.h"
#include "daemon/net/inherit.h"
#include "daemon/net/listener.h"

static const char *const no_lines[] = {"", "1 -1 3", "2 -1 3 a", "1 -2 3 a", "1 -1 3, a",
    "1 -1 -1 a", "1 -1 3x a", "1 -1 99999999999 a", "1 -1 3 \n", "-1 -1 3 a", "1 -1 , a"};

TEST(inherit, what_is_written_is_read)
{
    struct listen_sockets in = {.ours = true, .lock_fd = 7, .nfds = 3, .fds = {4, 5, 16}}, out;
    const char *address;
    char text[64];
    size_t len = inherit_print(text, sizeof(text), &in, "unix:/a b,1");

    CHECK_STR("1 7 4,5,16 unix:/a b,1\n", text);
    CHECK_EQ(strlen(text), len);
    CHECK(inherit_scan(text, &out, &address, &len));
    CHECK_EQ(11, len);
    CHECK_MEM("unix:/a b,1", address, len);
    CHECK(out.ours);
    CHECK_EQ(7, out.lock_fd);
    CHECK_EQ(3, out.nfds);
    CHECK_EQ(16, out.fds[2]);
    for (size_t room = 0; room < sizeof("1 7 4,5,16 unix:/a b,1\n"); room++)
        CHECK_EQ(0, inherit_print(text, room, &in, "unix:/a b,1"));
}

TEST(inherit, what_is_no_line_is_told_from_one)
{
    struct listen_sockets out;
    const char *address;
    size_t len;

    for (size_t i = 0; i < sizeof(no_lines) / sizeof(no_lines[0]); i++)
        CHECK(!inherit_scan(no_lines[i], &out, &address, &len));
}

/* A listening socket at a free port, as systemd makes them. */
static int
listening(struct sockaddr_in *in)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof(*in);

    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(0, bind(fd, (struct sockaddr *)in, sizeof(*in)));
    CHECK_EQ(0, listen(fd, 4));
    CHECK_EQ(0, getsockname(fd, (struct sockaddr *)in, &len));
    return fd;
}

static struct conf_address
address_of(const char *text, struct sockaddr_storage *addr, socklen_t *len, uint16_t port)
{
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};

    *addr = (struct sockaddr_storage){0};
    memcpy(addr, &in, sizeof(in));
    *len = sizeof(in);
    return (struct conf_address){
        .text = text, .addrs = addr, .addr_lens = len, .naddrs = 1, .port = port};
}

TEST(inherit, sockets_are_found_by_what_they_are_bound_to)
{
    struct sockaddr_storage addr;
    struct listen_sockets got;
    struct sockaddr_in in;
    struct conf_address at;
    int fd = listening(&in), other = socket(AF_INET, SOCK_STREAM, 0);
    char text[64];
    socklen_t len;

    elog_init(ELOG_ERROR, 1);
    snprintf(text, sizeof(text), "0 -1 %d -\n1 -1 %d -\nnonsense\n", fd, other);
    setenv("TARN_LISTEN_FDS", text, 1);
    inherit_load();
    CHECK(getenv("TARN_LISTEN_FDS") == NULL);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    at = address_of("127.0.0.1:0", &addr, &len, 0);
    CHECK(!inherit_take(&at, &got)); /* a free port is known by its text */
    at = address_of("a:1", &addr, &len, (uint16_t)(ntohs(in.sin_port) ^ 1));
    CHECK(!inherit_take(&at, &got));
    at = address_of("b:2", &addr, &len, ntohs(in.sin_port));
    CHECK(inherit_take(&at, &got));
    CHECK_EQ(fd, got.fds[0]);
    CHECK(!got.ours);
    CHECK(!inherit_take(&at, &got)); /* once */
    CHECK(!inherit_take_any(&got));  /* `other` does not listen, and was left alone */
    close(fd);
    CHECK_EQ(0, close(other));
    inherit_close();
}

static const struct listen_how how = {.depth = 4, .mode = 0600, .user = "", .group = ""};

TEST(inherit, a_free_port_stays_the_same_one)
{
    struct sockaddr_storage addr;
    struct listen_sockets kept[2], again;
    struct conf_address at;
    struct bound *b[2];
    char why[128] = "", text[512];
    size_t n = 0;
    socklen_t len;

    at = address_of("127.0.0.1:0", &addr, &len, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(0, listen_bind(&b[i], &at, &how, why, sizeof(why)));
        CHECK(!listen_is_inherited(b[i]));
        CHECK_EQ(0, listen_share(b[i], 2));
        listen_sockets(b[i], &kept[i]);
        CHECK_EQ(2, kept[i].nfds);
        CHECK(kept[i].lock_fd >= 0);
        for (unsigned k = 0; k < 2; k++)
            kept[i].fds[k] = dup(kept[i].fds[k]);
        kept[i].lock_fd = dup(kept[i].lock_fd);
        n += inherit_print(text + n, sizeof(text) - n, &kept[i], at.text);
    }
    setenv("TARN_LISTEN_FDS", text, 1);
    inherit_load();
    for (int i = 0; i < 2; i++) {
        char was[64];

        snprintf(was, sizeof(was), "%s", listen_address(b[i]));
        listen_release(&b[i]);
        CHECK_EQ(0, listen_bind(&b[i], &at, &how, why, sizeof(why)));
        CHECK(listen_is_inherited(b[i]));
        CHECK_STR(was, listen_address(b[i]));
        CHECK_EQ(0, listen_share(b[i], 3)); /* one more worker */
        listen_sockets(b[i], &again);
        CHECK_EQ(3, again.nfds);
        CHECK_EQ(kept[i].fds[0], again.fds[0]);
        CHECK_EQ(kept[i].lock_fd, again.lock_fd);
    }
    for (int i = 0; i < 2; i++)
        listen_release(&b[i]);
    inherit_close();
}

TEST(inherit, a_unix_socket_that_is_shared_keeps_its_file)
{
    char dir[] = "/tmp/tarn-inherit.XXXXXX", path[64], text[80], why[128] = "", line[128];
    struct conf_address at = {.is_unix = true, .path = path, .text = text, .host = ""};
    struct listen_sockets kept;
    struct bound *b;

    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(text, sizeof(text), "unix:%s", path);
    CHECK_EQ(0, listen_bind(&b, &at, &how, why, sizeof(why)));
    CHECK_EQ(0, listen_share(b, 1));
    listen_sockets(b, &kept);
    kept.fds[0] = dup(kept.fds[0]);
    CHECK(inherit_print(line, sizeof(line), &kept, text) > 0);
    listen_release(&b);
    CHECK_EQ(0, access(path, F_OK));
    setenv("TARN_LISTEN_FDS", line, 1);
    inherit_load();
    CHECK_EQ(0, listen_bind(&b, &at, &how, why, sizeof(why)));
    CHECK(listen_is_inherited(b));
    CHECK_STR(text, listen_address(b));
    listen_release(&b);
    CHECK_EQ(0, unlink(path));
    CHECK_EQ(0, rmdir(dir));
    inherit_close();
}

TEST_MAIN(TEST_ENTRY(inherit, what_is_written_is_read),
    TEST_ENTRY(inherit, what_is_no_line_is_told_from_one),
    TEST_ENTRY(inherit, sockets_are_found_by_what_they_are_bound_to),
    TEST_ENTRY(inherit, a_free_port_stays_the_same_one),
    TEST_ENTRY(inherit, a_unix_socket_that_is_shared_keeps_its_file))
