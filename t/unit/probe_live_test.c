/* probe_live_test.c -- a probe on a real loop, of a server on a Unix socket. */
#include "t/unit/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/log/elog.h"
#include "daemon/net/netloop.h"
#include "daemon/origin/probe.h"
#include "t/unit/origin_fixture.h"

enum {
    LIVE_LOOK_MS = 20,
    LIVE_LOOKS_MAX = 500, /* then something hangs */
    LIVE_GOOD = 3         /* answers, then bad ones */
};

static struct live {
    char dir[64], path[96];
    int listener;
    pthread_t server;
    struct net_loop *net;
    struct loop *loop;
    struct registry *rg;
    struct director *d;
    struct task task;
    struct timer timer;
    unsigned looks;
    bool was_sick, was_well, is_sick_again;
} live;

static void *
live_serve(void *arg)
{
    static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    static const char bad[] = "HTTP/1.0 500 No\r\n\r\n";
    char in[512];
    int fd;

    (void)arg;
    for (unsigned n = 0; (fd = accept(live.listener, NULL, NULL)) >= 0; n++) {
        const char *text = n < LIVE_GOOD ? good : bad;

        if (recv(fd, in, sizeof(in), 0) > 0)
            (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static void
live_listen(void)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    snprintf(live.dir, sizeof(live.dir), "%s/tarn-test-XXXXXX", P_tmpdir);
    CHECK(mkdtemp(live.dir) != NULL);
    snprintf(live.path, sizeof(live.path), "%s/s", live.dir);
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", live.path);
    live.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(0, bind(live.listener, (struct sockaddr *)&sa, sizeof(sa)));
    CHECK_EQ(0, listen(live.listener, 8));
    CHECK_EQ(0, pthread_create(&live.server, NULL, live_serve, NULL));
}

static void
live_on_look(struct task *t)
{
    bool well = director_healthy(live.d, NULL);

    (void)t;
    live.looks++;
    if (!live.was_sick)
        live.was_sick = !well;
    else if (!live.was_well)
        live.was_well = well;
    else
        live.is_sick_again = !well;
    if (!live.is_sick_again && live.looks < LIVE_LOOKS_MAX) {
        timer_set(&live.loop->wheel, &live.timer, loop_deadline(live.loop, LIVE_LOOK_MS));
        return;
    }
    probes_stop(live.rg);
    net_loop_stop(live.net);
}

TEST(probe, a_real_server_is_well_while_it_answers_well)
{
    static const struct h1_conf h1 = {
        .fields_max = 64, .resp_field_max = 8192, .resp_head_max = 32768};
    struct conf_backend at = {.name = "b", .host_header = ""};
    struct probe_conf c = PROBE_CONF_DEFAULT;

    elog_init(ELOG_ERROR, 1);
    live_listen();
    c.interval_ms = 100;
    at.address =
        (struct conf_address){.text = "unix", .is_unix = true, .path = live.path, .host = ""};
    CHECK_EQ(0, net_loop_open(&live.net, 0));
    live.loop = net_loop_base(live.net);
    CHECK_EQ(0, registry_open(&live.rg, picks_conf()));
    CHECK_EQ(0, backend_new(&live.d, live.rg, &at, &c, "b", "boot.b"));
    CHECK_EQ(0, probes_start(live.rg, live.loop, h1_origin_protocol(&h1)));
    task_init(&live.task, &live.loop->tasks, live_on_look);
    timer_init(&live.timer, &live.task);
    task_wake(&live.task);
    net_loop_run(live.net);
    CHECK(live.was_sick && live.was_well && live.is_sick_again);
    director_drop(&live.d);
    registry_close(&live.rg);
    net_loop_close(&live.net);
    shutdown(live.listener, SHUT_RDWR);
    pthread_join(live.server, NULL);
    close(live.listener);
    unlink(live.path);
    rmdir(live.dir);
}

TEST_MAIN(TEST_ENTRY(probe, a_real_server_is_well_while_it_answers_well))
