/* origin_queue_test.c -- fetches that wait for one of max_connections, on two loops. */
#include "t/unit/test.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/origin/origin.h"
#include "daemon/shm/counters.h"
#include "t/unit/fake_stream.h"
#include "t/unit/origin_fixture.h"
#include "t/unit/request_text.h"

static const struct h1_conf h1 = {.fields_max = 20, .resp_field_max = 200, .resp_head_max = 400};
static const struct origin_want any; /* an idle one, or a new one */
static const struct director_ask nothing;

struct side {
    struct loop loop;
    struct origins *os;
};

/* Two workers, and a backend with so many connections. */
struct queueing {
    struct side one, two;
    struct counters *counters;
    struct registry *rg;
    struct conf_backend conf;
    struct director *d;
    struct backend *b;
};

/* One that wants a connection. */
struct guest {
    struct side *at;
    struct task task;
    struct origin_turn turn;
    struct origin_conn *oc;
    unsigned called;
};

static void
guest_on_task(struct task *t)
{
    struct guest *g = container_of(t, struct guest, task);

    g->called++;
}

static void
guest_init(struct guest *g, struct side *at)
{
    *g = (struct guest){.at = at};
    task_init(&g->task, &at->loop.tasks, guest_on_task);
    origin_turn_init(&g->turn, &at->loop, &g->task);
}

static void
queueing_open(struct queueing *q, int64_t connections)
{
    *q = (struct queueing){.conf = picks_conf()->backends[0]};
    q->conf.max_idle = 8;
    q->conf.idle_timeout = 60000;
    q->conf.max_connections = connections;
    q->conf.queue_timeout = 1000;
    q->conf.queue_max = 2;
    fake_loop_open(&q->one.loop);
    fake_loop_open(&q->two.loop);
    CHECK_EQ(0, counters_open(&q->counters, NULL, 2));
    CHECK_EQ(0, registry_open(&q->rg, picks_conf()));
    CHECK_EQ(0, origins_open(&q->one.os, &q->one.loop, h1_origin_protocol(&h1),
                    counters_worker(q->counters, 0)));
    CHECK_EQ(0, origins_open(&q->two.os, &q->two.loop, h1_origin_protocol(&h1),
                    counters_worker(q->counters, 1)));
    CHECK_EQ(0, backend_new(&q->d, q->rg, &q->conf, NULL, "b", "boot.b"));
    q->b = director_pick(q->d, &nothing);
}

static void
queueing_close(struct queueing *q)
{
    CHECK_EQ(0, backend_queued(q->b));
    origins_close(&q->one.os);
    origins_close(&q->two.os);
    director_drop(&q->d);
    registry_close(&q->rg);
    counters_close(&q->counters);
    fake_loop_close(&q->one.loop);
    fake_loop_close(&q->two.loop);
}

/* What has been sent from loop to loop lands, and its tasks run. */
static void
queueing_run(struct queueing *q)
{
    for (unsigned i = 0; i < 3; i++) {
        inbox_drain(&q->one.loop.inbox);
        fake_run(&q->one.loop);
        inbox_drain(&q->two.loop.inbox);
        fake_run(&q->two.loop);
    }
}

/* As a fetch does: a connection, or a place in the queue. */
static int
guest_take(struct queueing *q, struct guest *g)
{
    int err = TERR_BUSY;

    if (!origin_must_queue(q->b, &g->turn))
        err = origin_take(&g->oc, g->at->os, q->b, &any, &g->task);
    if (err == 0)
        origin_leave_queue(g->at->os, q->b, &g->turn);
    return err == TERR_BUSY && origin_queue(g->at->os, q->b, &g->turn, false) == 0 ? TERR_AGAIN
                                                                                   : err;
}

static void
guest_leave(struct queueing *q, struct guest *g)
{
    if (g->oc != NULL)
        origin_discard(&g->oc);
    origin_leave_queue(g->at->os, q->b, &g->turn);
    queueing_run(q);
    CHECK(!waiter_pending(&g->turn.waiter));
    task_cancel(&g->task);
}

/* Its connection carries one request, and is given back. */
static void
guest_use(struct guest *g)
{
    static const char response[] = "HTTP/1.1 204 No Content\r\n\r\n";
    struct origin_exchange *x = origin_exchange(g->oc);
    const struct http_message *head;
    char room[16];

    fake_connect(fake_newest, 0);
    fake_run(&g->at->loop);
    x->ops->begin(x, &(struct origin_request){.head = &request_get});
    CHECK_EQ(0, x->ops->send(x, NULL, 0, ORIGIN_END));
    fake_arrive(fake_newest, response, sizeof(response) - 1);
    fake_run(&g->at->loop);
    CHECK_EQ(0, x->ops->head(x, &head));
    CHECK_EQ(0, x->ops->body(x, (struct span){room, sizeof(room)}));
    origin_give(&g->oc);
}

TEST(origin_queue, who_waits_is_called_in_order)
{
    struct guest g[4];
    struct queueing q;

    queueing_open(&q, 1);
    for (unsigned i = 0; i < 4; i++)
        guest_init(&g[i], &q.one);
    CHECK_EQ(0, guest_take(&q, &g[0]));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &g[1]));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &g[2]));
    CHECK_EQ(TERR_BUSY, guest_take(&q, &g[3])); /* queue_max */
    CHECK_EQ(2, backend_queued(q.b));
    CHECK_EQ(2, counters_sum(q.counters, COUNTER_backend_queued));
    CHECK_EQ(1, counters_sum(q.counters, COUNTER_backend_busy));
    queueing_run(&q);
    g[1].called = 0; /* what opened the connection woke nobody who waits */
    origin_discard(&g[0].oc);
    queueing_run(&q);
    CHECK(g[1].called > 0 && g[2].called == 0);
    CHECK(origin_must_queue(q.b, &g[3].turn)); /* it is not for who comes now */
    CHECK_EQ(0, guest_take(&q, &g[1]));
    CHECK_EQ(0, g[2].called);
    origin_discard(&g[1].oc);
    queueing_run(&q);
    CHECK(g[2].called > 0);
    CHECK_EQ(0, guest_take(&q, &g[2]));
    for (unsigned i = 0; i < 4; i++)
        guest_leave(&q, &g[i]);
    queueing_close(&q);
}

TEST(origin_queue, a_connection_of_the_same_worker_is_handed_on)
{
    struct guest a, b;
    struct stream *s;
    struct queueing q;

    queueing_open(&q, 1);
    guest_init(&a, &q.one);
    guest_init(&b, &q.one);
    CHECK_EQ(0, guest_take(&q, &a));
    s = fake_newest;
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &b));
    guest_use(&a);
    queueing_run(&q);
    CHECK(b.called > 0 && !fake_is_closed(s));
    CHECK_EQ(0, guest_take(&q, &b));
    CHECK(origin_exchange(b.oc)->reused && fake_newest == s);
    guest_leave(&q, &a);
    guest_leave(&q, &b);
    queueing_close(&q);
}

TEST(origin_queue, one_of_another_worker_is_closed_for_who_waits)
{
    struct guest a, b;
    struct stream *s;
    struct queueing q;

    queueing_open(&q, 1);
    guest_init(&a, &q.two);
    guest_init(&b, &q.one);
    CHECK_EQ(0, guest_take(&q, &a));
    s = fake_newest;
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &b));
    guest_use(&a); /* in use when b came */
    CHECK(fake_is_closed(s));
    queueing_run(&q);
    CHECK(b.called > 0);
    CHECK_EQ(0, guest_take(&q, &b));
    CHECK(fake_newest != s);
    guest_use(&b);
    s = fake_newest;
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &a)); /* idle when a came */
    CHECK(!fake_is_closed(s));
    queueing_run(&q);
    CHECK(fake_is_closed(s));
    CHECK_EQ(0, guest_take(&q, &a));
    guest_leave(&q, &a);
    guest_leave(&q, &b);
    queueing_close(&q);
}

TEST(origin_queue, who_gives_up_leaves_his_turn_to_the_next)
{
    struct guest a, b, c;
    struct queueing q;

    queueing_open(&q, 1);
    guest_init(&a, &q.one);
    guest_init(&b, &q.two);
    guest_init(&c, &q.one);
    CHECK_EQ(0, guest_take(&q, &a));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &b));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &c));
    origin_discard(&a.oc);
    CHECK_EQ(WAITER_POSTED, waiter_state(&b.turn.waiter));
    origin_leave_queue(b.at->os, q.b, &b.turn); /* called, and did not hear it */
    queueing_run(&q);
    CHECK(c.called > 0);
    CHECK_EQ(0, guest_take(&q, &c));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &a));
    guest_leave(&q, &a); /* not called at all */
    CHECK_EQ(0, backend_queued(q.b));
    guest_leave(&q, &b);
    guest_leave(&q, &c);
    queueing_close(&q);
}

TEST(origin_queue, who_is_called_for_nothing_keeps_his_place)
{
    struct guest a, b, c, thief;
    struct queueing q;

    queueing_open(&q, 1);
    guest_init(&a, &q.one);
    guest_init(&b, &q.one);
    guest_init(&c, &q.one);
    guest_init(&thief, &q.one);
    CHECK_EQ(0, guest_take(&q, &a));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &b));
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &c));
    origin_discard(&a.oc);
    CHECK_EQ(0, origin_take(&thief.oc, q.one.os, q.b, &any, &thief.task)); /* against the rules */
    queueing_run(&q);
    CHECK_EQ(TERR_AGAIN, guest_take(&q, &b));
    b.called = c.called = 0;
    guest_leave(&q, &thief);
    CHECK(b.called > 0 && c.called == 0);
    guest_leave(&q, &a);
    guest_leave(&q, &b);
    guest_leave(&q, &c);
    queueing_close(&q);
}

TEST(origin_queue, who_needs_a_fresh_one_takes_the_place_of_an_idle_one)
{
    struct guest a;
    struct stream *s;
    struct queueing q;

    queueing_open(&q, 1);
    guest_init(&a, &q.one);
    CHECK_EQ(0, guest_take(&q, &a));
    s = fake_newest;
    guest_use(&a);
    CHECK(!fake_is_closed(s));
    CHECK_EQ(0, origin_take(&a.oc, q.one.os, q.b, &(struct origin_want){.fresh = true}, &a.task));
    CHECK(fake_is_closed(s) && !origin_exchange(a.oc)->reused);
    guest_leave(&q, &a);
    queueing_close(&q);
}

TEST_MAIN(TEST_ENTRY(origin_queue, who_waits_is_called_in_order),
    TEST_ENTRY(origin_queue, a_connection_of_the_same_worker_is_handed_on),
    TEST_ENTRY(origin_queue, one_of_another_worker_is_closed_for_who_waits),
    TEST_ENTRY(origin_queue, who_gives_up_leaves_his_turn_to_the_next),
    TEST_ENTRY(origin_queue, who_is_called_for_nothing_keeps_his_place),
    TEST_ENTRY(origin_queue, who_needs_a_fresh_one_takes_the_place_of_an_idle_one))
