/* origin_test.c -- pools of connections to backends that come and go. */
#include "t/unit/test.h"

#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/origin/origin.h"
#include "daemon/origin/origins_priv.h"
#include "daemon/shm/counters.h"
#include "t/unit/fake_stream.h"
#include "t/unit/origin_fixture.h"
#include "t/unit/request_text.h"

static const struct h1_conf h1 = {.fields_max = 20, .resp_field_max = 200, .resp_head_max = 400};
static const struct origin_want any; /* an idle one, or a new one */
static const struct director_ask nothing;

struct pooling {
    struct loop loop;
    struct counters *counters;
    struct registry *rg;
    struct origins *os;
    struct task user;
    struct conf_backend conf;
};

static void
pooling_on_user(struct task *t)
{
    (void)t; /* the test asks when it wants to know */
}

static void
pooling_open(struct pooling *p)
{
    *p = (struct pooling){.conf = picks_conf()->backends[0]};
    p->conf.max_idle = 2;
    p->conf.idle_timeout = 60000;
    fake_loop_open(&p->loop);
    task_init(&p->user, &p->loop.tasks, pooling_on_user);
    CHECK_EQ(0, counters_open(&p->counters, NULL, 1));
    CHECK_EQ(0, registry_open(&p->rg, picks_conf()));
    CHECK_EQ(0,
        origins_open(&p->os, &p->loop, h1_origin_protocol(&h1), counters_worker(p->counters, 0)));
}

static void
pooling_close(struct pooling *p)
{
    origins_close(&p->os);
    registry_close(&p->rg);
    task_cancel(&p->user);
    counters_close(&p->counters);
    fake_loop_close(&p->loop);
}

static struct director *
pooling_backend(struct pooling *p)
{
    struct director *d = NULL;

    CHECK_EQ(0, backend_new(&d, p->rg, &p->conf, NULL, "b", "boot.b"));
    return d;
}

static int
pooling_take(struct pooling *p, struct origin_conn **out, struct director *d)
{
    return origin_take(out, p->os, director_pick(d, &nothing), &any, &p->user);
}

/* It carries one request, to its end. */
static void
pooling_exchange(struct pooling *p, struct origin_conn *oc, struct stream *s)
{
    static const char response[] = "HTTP/1.1 204 No Content\r\n\r\n";
    struct origin_exchange *x = origin_exchange(oc);
    const struct http_message *head;
    char room[16];

    x->ops->begin(x, &(struct origin_request){.head = &request_get});
    CHECK_EQ(0, x->ops->send(x, NULL, 0, ORIGIN_END));
    fake_arrive(s, response, sizeof(response) - 1);
    fake_run(&p->loop);
    CHECK_EQ(0, x->ops->head(x, &head));
    CHECK_EQ(0, x->ops->body(x, (struct span){room, sizeof(room)}));
}

/* A new connection that has carried one. */
static struct origin_conn *
pooling_used(struct pooling *p, struct director *d)
{
    struct origin_conn *oc = NULL;

    CHECK_EQ(0, pooling_take(p, &oc, d));
    fake_connect(fake_newest, 0);
    fake_run(&p->loop);
    pooling_exchange(p, oc, fake_newest);
    return oc;
}

TEST(origin, an_idle_connection_is_adopted_by_a_backend_at_the_same_address_only)
{
    struct director *a, *b, *elsewhere;
    struct origin_conn *oc;
    struct stream *of_a;
    struct pooling p;

    pooling_open(&p);
    a = pooling_backend(&p);
    p.conf.max_connections = 1;
    b = pooling_backend(&p);
    p.conf.address.path = "/other";
    elsewhere = pooling_backend(&p);
    oc = pooling_used(&p, a);
    of_a = fake_newest;
    origin_give(&oc);
    CHECK_EQ(0, pooling_take(&p, &oc, elsewhere));
    CHECK(fake_newest != of_a && !origin_exchange(oc)->reused);
    origin_discard(&oc);
    CHECK_EQ(0, pooling_take(&p, &oc, b));
    CHECK(origin_exchange(oc)->reused);
    director_drop(&a); /* it has no connection any more, and may go */
    registry_sweep(p.rg);
    pooling_exchange(&p, oc, of_a);
    origin_give(&oc);
    CHECK(!fake_is_closed(of_a));
    CHECK_EQ(0, pooling_take(&p, &oc, b));
    CHECK(origin_exchange(oc)->reused);
    origin_discard(&oc);
    CHECK(fake_is_closed(of_a));
    CHECK_EQ(0, pooling_take(&p, &oc, b)); /* its one connection was counted, and given back */
    origin_discard(&oc);
    director_drop(&b);
    director_drop(&elsewhere);
    pooling_close(&p);
}

TEST(origin, a_backend_that_may_have_no_more_connections_adopts_none)
{
    struct director *a, *b;
    struct origin_conn *mine = NULL, *oc = NULL;
    struct pooling p;

    pooling_open(&p);
    a = pooling_backend(&p);
    p.conf.max_connections = 1;
    b = pooling_backend(&p);
    CHECK_EQ(0, pooling_take(&p, &mine, b));
    oc = pooling_used(&p, a);
    origin_give(&oc);
    CHECK_EQ(TERR_BUSY, pooling_take(&p, &oc, b));
    origin_discard(&mine);
    CHECK_EQ(0, pooling_take(&p, &oc, b));
    CHECK(origin_exchange(oc)->reused);
    origin_discard(&oc);
    director_drop(&a);
    director_drop(&b);
    pooling_close(&p);
}

TEST(origin, a_connection_that_told_who_the_client_is_serves_no_other)
{
    struct director *d;
    struct origin_conn *oc;
    struct stream *first;
    struct pooling p;

    pooling_open(&p);
    p.conf.proxy_header = 2;
    d = pooling_backend(&p);
    oc = pooling_used(&p, d);
    first = fake_newest;
    origin_give(&oc);
    CHECK(fake_is_closed(first));
    CHECK_EQ(0, pooling_take(&p, &oc, d));
    CHECK(fake_newest != first && !origin_exchange(oc)->reused);
    origin_discard(&oc);
    director_drop(&d);
    pooling_close(&p);
}

TEST(origin, a_backend_that_left_keeps_no_idle_connections)
{
    struct director *d;
    struct origin_conn *oc;
    struct pooling p;

    pooling_open(&p);
    d = pooling_backend(&p);
    oc = pooling_used(&p, d);
    origin_give(&oc);
    origins_tick(p.os);
    CHECK(!fake_is_closed(fake_newest)); /* it has not left yet */
    director_drop(&d);
    registry_sweep(p.rg); /* the connection keeps its memory */
    for (unsigned i = 0; i < ORIGIN_RETIRED_TICKS; i++) {
        origins_tick(p.os); /* another at its address may want them */
        CHECK(!fake_is_closed(fake_newest));
    }
    origins_tick(p.os);
    CHECK(fake_is_closed(fake_newest));
    registry_sweep(p.rg);
    pooling_close(&p);
}

TEST(origin, a_connection_in_use_outlives_its_backend_and_is_then_closed)
{
    struct director *d;
    struct origin_conn *oc;
    unsigned number;
    struct pooling p;

    pooling_open(&p);
    d = pooling_backend(&p);
    number = backend_number(director_pick(d, &nothing));
    oc = pooling_used(&p, d);
    director_drop(&d);
    origins_tick(p.os);
    d = pooling_backend(&p); /* sweeps: the number is still taken */
    CHECK(backend_number(director_pick(d, &nothing)) != number);
    CHECK(!fake_is_closed(fake_newest));
    origin_give(&oc);
    CHECK(fake_is_closed(fake_newest));
    director_drop(&d);
    d = pooling_backend(&p);
    CHECK_EQ(number, backend_number(director_pick(d, &nothing)));
    oc = pooling_used(&p, d); /* from the pool of the one before, which is empty */
    origin_discard(&oc);
    director_drop(&d);
    pooling_close(&p);
}

TEST(origin, a_sick_backend_is_not_connected_to)
{
    struct origin_conn *oc = NULL;
    struct director *d, *none;
    struct pooling p;

    pooling_open(&p);
    d = pooling_backend(&p);
    oc = pooling_used(&p, d);
    origin_give(&oc); /* an idle connection changes nothing */
    backend_set_admin(director_pick(d, &nothing), BACKEND_SICK);
    CHECK_EQ(TERR_NOBACKEND, pooling_take(&p, &oc, d));
    CHECK_EQ(0, backend_new(&none, p.rg, NULL, NULL, "n", "boot.n"));
    CHECK_EQ(TERR_NOBACKEND, pooling_take(&p, &oc, none));
    CHECK(oc == NULL);
    CHECK_EQ(2, counters_sum(p.counters, COUNTER_backend_unhealthy));
    backend_set_admin(director_pick(d, &nothing), BACKEND_AUTO);
    CHECK_EQ(0, pooling_take(&p, &oc, d));
    CHECK(origin_exchange(oc)->reused);
    origin_give(&oc);
    director_drop(&none);
    director_drop(&d);
    pooling_close(&p);
}

TEST(origin, max_connections_holds_for_all_pools_together)
{
    struct origin_conn *oc[3] = {NULL, NULL, NULL};
    struct director *d;
    struct origins *other;
    struct pooling p;

    pooling_open(&p);
    CHECK_EQ(
        0, origins_open(&other, &p.loop, h1_origin_protocol(&h1), counters_worker(p.counters, 0)));
    p.conf.max_connections = 2;
    d = pooling_backend(&p);
    CHECK_EQ(0, pooling_take(&p, &oc[0], d));
    CHECK_EQ(0, origin_take(&oc[1], other, director_pick(d, &nothing), &any, &p.user));
    CHECK_EQ(TERR_BUSY, pooling_take(&p, &oc[2], d));
    origin_discard(&oc[1]);
    CHECK_EQ(0, pooling_take(&p, &oc[2], d));
    origin_discard(&oc[0]);
    origin_discard(&oc[2]);
    director_drop(&d);
    origins_close(&other);
    pooling_close(&p);
}

TEST(origin, as_many_idle_ones_are_kept_as_the_backend_says)
{
    struct origin_conn *oc[3];
    struct stream *s[3];
    struct director *d;
    struct pooling p;

    pooling_open(&p);
    d = pooling_backend(&p);
    for (unsigned i = 0; i < 3; i++) {
        oc[i] = pooling_used(&p, d);
        s[i] = fake_newest;
    }
    for (unsigned i = 0; i < 3; i++)
        origin_give(&oc[i]);
    CHECK(!fake_is_closed(s[0]) && !fake_is_closed(s[1]) && fake_is_closed(s[2]));
    fake_pass(&p.loop, 60000 + TIMER_TICK_MS); /* and no longer */
    CHECK(fake_is_closed(s[0]) && fake_is_closed(s[1]));
    director_drop(&d);
    pooling_close(&p);
}

TEST_MAIN(TEST_ENTRY(origin, an_idle_connection_is_adopted_by_a_backend_at_the_same_address_only),
    TEST_ENTRY(origin, a_backend_that_may_have_no_more_connections_adopts_none),
    TEST_ENTRY(origin, a_backend_that_left_keeps_no_idle_connections),
    TEST_ENTRY(origin, a_connection_in_use_outlives_its_backend_and_is_then_closed),
    TEST_ENTRY(origin, a_sick_backend_is_not_connected_to),
    TEST_ENTRY(origin, max_connections_holds_for_all_pools_together),
    TEST_ENTRY(origin, a_connection_that_told_who_the_client_is_serves_no_other),
    TEST_ENTRY(origin, as_many_idle_ones_are_kept_as_the_backend_says))
