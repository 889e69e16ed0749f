/* names_test.c -- backends given by name: their addresses change, or cannot be had.
 *
 * fake_resolve.c answers here; t/e2e/names.py tries the real lookups with a name server.
 */
#include "t/unit/conf_fixture.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/origin.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/shm/counters.h"
#include "t/unit/fake_resolve.h"
#include "t/unit/fake_stream.h"
#include "t/unit/request_text.h"

static const struct h1_conf h1 = {.fields_max = 20, .resp_field_max = 200, .resp_head_max = 400};
static const struct origin_want any; /* an idle one, or a new one */
static const struct director_ask nothing;

static void
server_says(const char *a, const char *b)
{
    fake_resolve_addrs[0] = a;
    fake_resolve_addrs[1] = b;
}

/* For the load. */
static int
server_answer(
    const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo numeric = *hints, **tail = out;
    int err = fake_resolve_addrs[0] == NULL ? EAI_NONAME : 0;

    (void)host;
    numeric.ai_flags = AI_NUMERICHOST | (hints->ai_flags & AI_NUMERICSERV);
    *out = NULL;
    for (unsigned i = 0; fake_resolve_addrs[i] != NULL && err == 0; i++) {
        err = getaddrinfo(fake_resolve_addrs[i], service, &numeric, tail);
        while (err == 0 && *tail != NULL)
            tail = &(*tail)->ai_next;
    }
    return err;
}

struct naming {
    const struct conf *conf;
    struct counters *counters;
    struct registry *rg;
    struct loop loop;
    struct origins *os;
    struct task user;
    struct backend *b;
    uint64_t now_ms;
};

static void
naming_on_user(struct task *t)
{
    (void)t;
}

/* So much time passes; a lookup that is due then is answered. */
static void
naming_pass(struct naming *n, uint64_t ms)
{
    n->now_ms += ms;
    registry_tick(n->rg, n->now_ms);
    registry_tick(n->rg, n->now_ms);
}

static void
naming_open(struct naming *n, const char *yaml)
{
    *n = (struct naming){.now_ms = 5000};
    n->conf = load_with(yaml, server_answer);
    fake_loop_open(&n->loop);
    task_init(&n->user, &n->loop.tasks, naming_on_user);
    CHECK_EQ(0, counters_open(&n->counters, NULL, 1));
    CHECK_EQ(0, registry_open(&n->rg, n->conf));
    registry_set_counters(n->rg, n->counters);
    CHECK_EQ(0, resolver_open(&n->rg->resolver, &n->loop, &n->user, ""));
    CHECK_EQ(0,
        origins_open(&n->os, &n->loop, h1_origin_protocol(&h1), counters_worker(n->counters, 0)));
    n->b = director_pick(snapshot_nth(registry_snapshot(n->rg), 0), &nothing);
    fake_resolve_asked = 0;
    fake_resolve_silent = false;
    fake_resolve_ttl_ms = RESOLVE_NO_TTL;
    naming_pass(n, 0); /* the first lookup */
}

static void
naming_close(struct naming *n)
{
    origins_close(&n->os);
    for (unsigned i = 0; i < n->rg->nslots; i++)
        backend_forget_lookup(n->rg->slots[i]);
    resolver_close(&n->rg->resolver);
    registry_close(&n->rg);
    counters_close(&n->counters);
    task_cancel(&n->user);
    fake_loop_close(&n->loop);
    conf_free(&n->conf);
}

/* The last byte of the nth address. */
static unsigned
nth_is(struct naming *n, unsigned nth)
{
    struct backend_place place;
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&place.target.addr;

    backend_place_of(n->b, nth, &place);
    CHECK(place.target.path == NULL);
    CHECK_EQ(AF_INET, in->sin_family);
    CHECK_EQ(81, ntohs(in->sin_port));
    return ntohl(in->sin_addr.s_addr) & 0xff;
}

#define NAMED "backends: {o: {address: 'o.test:81', dns_ttl: 30s}}\n"

TEST(names, a_name_is_asked_again_after_its_time)
{
    struct naming n;

    server_says("127.0.0.1", NULL);
    naming_open(&n, NAMED);
    CHECK_EQ(1, nth_is(&n, 0));
    CHECK_EQ(1, fake_resolve_asked); /* at once: the load does not know the TTL */
    server_says("127.0.0.2", "127.0.0.3");
    naming_pass(&n, 29999);
    CHECK_EQ(1, fake_resolve_asked);
    CHECK_EQ(1, backend_naddrs(n.b));
    naming_pass(&n, 1);
    CHECK_EQ(2, fake_resolve_asked);
    CHECK_EQ(2, backend_naddrs(n.b));
    CHECK_EQ(2, nth_is(&n, 0));
    CHECK_EQ(3, nth_is(&n, 1));
    CHECK_EQ(2, nth_is(&n, 2));
    CHECK_EQ(1, counters_sum(n.counters, COUNTER_backend_dns_changed));
    server_says("127.0.0.3", "127.0.0.2"); /* the same, turned around */
    naming_pass(&n, 30000);
    CHECK_EQ(3, fake_resolve_asked);
    CHECK_EQ(2, nth_is(&n, 0));
    CHECK_EQ(1, counters_sum(n.counters, COUNTER_backend_dns_changed));
    server_says("127.0.0.3", NULL); /* one is lost */
    naming_pass(&n, 30000);
    CHECK_EQ(1, backend_naddrs(n.b));
    CHECK_EQ(3, nth_is(&n, 0));
    CHECK_EQ(2, counters_sum(n.counters, COUNTER_backend_dns_changed));
    naming_close(&n);
}

TEST(names, while_there_is_no_answer_it_stays_where_it_was)
{
    struct naming n;

    server_says("127.0.0.1", NULL);
    naming_open(&n, NAMED);
    server_says("127.0.0.2", NULL);
    naming_pass(&n, 30000);
    server_says(NULL, NULL);
    naming_pass(&n, 30000);
    naming_pass(&n, 30000);
    CHECK_EQ(2, nth_is(&n, 0));
    CHECK_EQ(2, counters_sum(n.counters, COUNTER_backend_dns_failed));
    server_says("127.0.0.4", NULL);
    naming_pass(&n, 30000);
    CHECK_EQ(4, nth_is(&n, 0));
    naming_close(&n);
}

TEST(names, only_names_with_a_time_are_asked_again)
{
    static const char *const rows[] = {
        "backends: {o: {address: 'o.test:81', dns_ttl: 0s}}\n",
        "backends: {o: {address: '127.0.0.1:81'}}\n",
        "backends: {o: {address: '[::1]:81'}}\n",
        "backends: {o: {address: 'unix:/o'}}\n",
        "backends: {o: {address: 'o.test:81'}}\nparameters: {dns_ttl: 0s}\n",
    };

    server_says("127.0.0.1", NULL);
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct naming n;

        naming_open(&n, rows[i]);
        naming_pass(&n, 1000000000);
        CHECK_EQ(0, fake_resolve_asked);
        CHECK_EQ(1, backend_naddrs(n.b));
        naming_close(&n);
    }
}

/* Within 1 s and dns_ttl; an answer from /etc/hosts has no TTL. */
TEST(names, the_ttl_of_a_record_says_when_it_is_looked_up_again)
{
    static const struct {
        int64_t ttl_ms;
        uint64_t next_ms;
    } rows[] = {{5000, 5000}, {0, 1000}, {30000, 30000}, {3600000, 30000}, {RESOLVE_NO_TTL, 30000}};

    server_says("127.0.0.1", NULL);
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct naming n;

        naming_open(&n, NAMED);
        fake_resolve_ttl_ms = rows[i].ttl_ms;
        naming_pass(&n, 30000);
        fake_resolve_asked = 0;
        naming_pass(&n, rows[i].next_ms - 1);
        CHECK_EQ(0, fake_resolve_asked);
        naming_pass(&n, 1);
        CHECK_EQ(1, fake_resolve_asked);
        server_says(NULL, NULL); /* no answer, so no TTL */
        naming_pass(&n, rows[i].next_ms);
        naming_pass(&n, 29999);
        CHECK_EQ(2, fake_resolve_asked);
        server_says("127.0.0.1", NULL);
        naming_pass(&n, 1);
        CHECK_EQ(3, fake_resolve_asked);
        naming_close(&n);
    }
}

TEST(names, a_lookup_under_way_holds_up_nothing)
{
    struct naming n;

    server_says("127.0.0.1", NULL);
    naming_open(&n, NAMED);
    fake_resolve_silent = true;
    server_says("127.0.0.2", NULL);
    naming_pass(&n, 30000);
    naming_pass(&n, 30000);
    CHECK_EQ(1, n.rg->nlookups);
    CHECK_EQ(2, fake_resolve_asked); /* one at a time */
    CHECK_EQ(1, nth_is(&n, 0));
    naming_close(&n);
}

/* More backends than lookups may be under way: each has its turn. */
TEST(names, many_names_are_looked_up_in_turn)
{
    enum {
        NAMES = 200
    };
    static char yaml[NAMES * 64] = "backends:\n";
    struct naming n;
    size_t len = strlen(yaml);

    for (unsigned i = 0; i < NAMES; i++)
        len += (size_t)snprintf(
            yaml + len, sizeof(yaml) - len, "  b%u: {address: 'o.test:%u'}\n", i, 1000 + i);
    snprintf(yaml + len, sizeof(yaml) - len, "routes: [{backend: b0}]\n");
    server_says("127.0.0.1", NULL);
    naming_open(&n, yaml);
    CHECK(fake_resolve_asked < NAMES && n.rg->nlookups < NAMES);
    for (unsigned i = 0; i < 10; i++)
        naming_pass(&n, 0);
    CHECK_EQ(NAMES, fake_resolve_asked);
    CHECK_EQ(0, n.rg->nlookups);
    naming_close(&n);
}

/* A connection that has carried one request. */
static struct origin_conn *
naming_used(struct naming *n)
{
    static const char response[] = "HTTP/1.1 204 No Content\r\n\r\n";
    struct origin_conn *oc = NULL;
    struct origin_exchange *x;
    const struct http_message *head;
    char room[16];

    CHECK_EQ(0, origin_take(&oc, n->os, n->b, &any, &n->user));
    fake_connect(fake_newest, 0);
    fake_run(&n->loop);
    x = origin_exchange(oc);
    x->ops->begin(x, &(struct origin_request){.head = &request_get});
    CHECK_EQ(0, x->ops->send(x, NULL, 0, ORIGIN_END));
    fake_arrive(fake_newest, response, sizeof(response) - 1);
    fake_run(&n->loop);
    CHECK_EQ(0, x->ops->head(x, &head));
    CHECK_EQ(0, x->ops->body(x, (struct span){room, sizeof(room)}));
    return oc;
}

TEST(names, connections_to_an_address_that_is_no_more_end_when_idle)
{
    struct origin_conn *idle, *busy;
    struct stream *of_idle, *of_busy;
    struct naming n;

    server_says("127.0.0.1", NULL);
    naming_open(&n, NAMED);
    idle = naming_used(&n);
    of_idle = fake_newest;
    busy = naming_used(&n);
    of_busy = fake_newest;
    origin_give(&idle);
    server_says("127.0.0.2", "127.0.0.1"); /* it is one of two now */
    naming_pass(&n, 30000);
    origins_tick(n.os);
    CHECK(!fake_is_closed(of_idle));
    server_says("127.0.0.2", NULL);
    naming_pass(&n, 30000);
    origins_tick(n.os);
    CHECK(fake_is_closed(of_idle) && !fake_is_closed(of_busy));
    origin_give(&busy);
    CHECK(fake_is_closed(of_busy));
    busy = naming_used(&n);
    of_busy = fake_newest;
    origin_give(&busy);
    origins_tick(n.os);
    CHECK(!fake_is_closed(of_busy));
    naming_close(&n);
}

/* Without dns_ttl it is not asked again, once it is known. */
TEST(names, an_unresolved_backend_is_unhealthy_until_its_name_is_resolved)
{
    static const char *const rows[] = {
        NAMED, "backends: {o: {address: 'o.test:81', dns_ttl: 0s}}\n"};

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct origin_conn *oc;
        struct naming n;

        server_says(NULL, NULL);
        naming_open(&n, rows[i]);
        n.b = n.rg->slots[0];
        CHECK(!backend_healthy(n.b));
        CHECK_EQ(0, backend_naddrs(n.b));
        CHECK_EQ(TERR_NOBACKEND, origin_take(&oc, n.os, n.b, &any, &n.user));
        backend_set_admin(n.b, BACKEND_HEALTHY); /* there is nothing to connect to */
        CHECK_EQ(TERR_NOBACKEND, origin_take(&oc, n.os, n.b, &any, &n.user));
        backend_set_admin(n.b, BACKEND_AUTO);
        naming_pass(&n, 1999);
        CHECK_EQ(1, fake_resolve_asked); /* at once, and in vain */
        server_says("127.0.0.5", NULL);
        naming_pass(&n, 1);
        CHECK_EQ(2, fake_resolve_asked);
        CHECK(backend_healthy(n.b));
        CHECK_EQ(5, nth_is(&n, 0));
        naming_pass(&n, 29999);
        CHECK_EQ(2, fake_resolve_asked);
        naming_pass(&n, 1);
        CHECK_EQ(i == 0 ? 3 : 2, fake_resolve_asked);
        naming_close(&n);
    }
}

TEST_MAIN(TEST_ENTRY(names, an_unresolved_backend_is_unhealthy_until_its_name_is_resolved),
    TEST_ENTRY(names, a_name_is_asked_again_after_its_time),
    TEST_ENTRY(names, while_there_is_no_answer_it_stays_where_it_was),
    TEST_ENTRY(names, only_names_with_a_time_are_asked_again),
    TEST_ENTRY(names, the_ttl_of_a_record_says_when_it_is_looked_up_again),
    TEST_ENTRY(names, a_lookup_under_way_holds_up_nothing),
    TEST_ENTRY(names, many_names_are_looked_up_in_turn),
    TEST_ENTRY(names, connections_to_an_address_that_is_no_more_end_when_idle))
