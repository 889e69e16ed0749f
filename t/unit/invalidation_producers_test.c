/* invalidation_producers_test.c -- what requests and policies put into the log of invalidations: a
 * whole worker in memory (t/fuzz/proxy_world.h), and policies over it. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/base/rcu.h"
#include "daemon/cache/invalidation.h"
#include "daemon/policy/policies.h"
#include "daemon/policy/policy.h"
#include "daemon/proxy/proxy.h"
#include "t/fuzz/proxy_net.h"
#include "t/fuzz/proxy_world.h"
#include "vcl-lite/vcl.h"

/* ---- A log that copies, as logs do ---- */

enum {
    TOLD_MAX = 8,
};

static struct {
    unsigned n;
    struct {
        struct invalidation inv;
        char text[200];
        size_t len;
        struct hash128 key; /* of its text */
    } list[TOLD_MAX];
    bool full;                        /* it takes nothing */
    bool holds;                       /* it does not answer by itself */
    struct invalidation_watch *watch; /* that waits for an answer */
} told;

static uint64_t
told_append(void *ctx, const struct invalidation *inv)
{
    (void)ctx;
    CHECK(told.n < TOLD_MAX && inv->text.len < sizeof(told.list[0].text));
    told.list[told.n].inv = *inv;
    told.list[told.n].len = inv->text.len;
    memcpy(told.list[told.n].text, inv->text.ptr != NULL ? inv->text.ptr : "", inv->text.len);
    told.list[told.n].text[inv->text.len] = '\0';
    told.list[told.n].key = hash_bytes(inv->text.ptr, inv->text.len);
    if (inv->key != NULL)
        CHECK(hash128_eq(*inv->key, told.list[told.n].key));
    told.n++;
    return told.full ? 0 : told.n;
}

static void
told_nothing(void *ctx)
{
    (void)ctx;
}

/* The log answers a watch. */
static void
watch_answer(struct invalidation_watch *w, bool logged, bool proven, const char *missing)
{
    w->logged = logged;
    w->proven = proven;
    snprintf(w->token, sizeof(w->token), "%s", logged ? "7-1.01234567" : "");
    snprintf(w->missing, sizeof(w->missing), "%s", missing);
    snprintf(w->why, sizeof(w->why), "%s", logged && (proven || !w->all) ? "" : "a \"word\"\n");
    waiter_notify(w->waiter);
}

static void
told_watch(void *ctx, struct invalidation_watch *w)
{
    (void)ctx;
    CHECK(!told.full);
    CHECK_EQ(told.n, w->ticket); /* that of the last one */
    list_init(&w->waiting);
    waiter_arm(w->waiter, &w->waiting);
    if (told.holds)
        told.watch = w;
    else
        watch_answer(w, true, w->all, "");
}

static const struct invalidation_log told_log = {.append = told_append,
    .begin = told_nothing,
    .end = told_nothing,
    .watch = told_watch,
    .wants_text = true};

static void
expect_key(unsigned i, const char *text, bool soft, bool changed)
{
    CHECK(i < told.n);
    CHECK(told.list[i].inv.kind == INVALIDATION_KEY);
    CHECK_STR(text, told.list[i].text);
    CHECK_EQ(strlen(text), told.list[i].len);
    CHECK_EQ(soft, told.list[i].inv.soft);
    CHECK_EQ(changed, told.list[i].inv.changed);
}

/* ---- A worker, its clients, its origin ---- */

static struct policies *ps;

/* NULL: without a policy. */
static void
open_world(const char *policy)
{
    struct proxy *p;
    struct vcl_error *errors;

    memset(&told, 0, sizeof(told));
    world_open(0);
    p = world_proxy();
    cache_set_invalidation_log(p->cache, &told_log);
    if (policy == NULL)
        return;
    rcu_online();
    CHECK_EQ(0, policies_open(&ps, p->registry, p->cache, p->storage));
    if (policies_load(ps, "p", "p.vcl", slice_str(policy), &errors) != 0)
        fail_msg("%u: %s", errors->line, errors->message);
    vcl_errors_free(&errors);
    CHECK_EQ(0, policies_use(ps, "p"));
    p->policies = policies_set(ps);
    policy_prepare(p);
    rcu_offline();
}

static void
close_world(void)
{
    for (unsigned i = 0; i < wires.n; i++)
        if (wires.wire[i].stream != NULL)
            wire_end(&wires.wire[i]);
    world_settle();
    while (!world_is_idle()) {
        CHECK(world_advance_to_deadline());
        world_settle();
    }
    if (ps != NULL) {
        rcu_online();
        policy_leave_all(world_proxy());
        world_proxy()->policies = NULL;
        rcu_offline();
        policies_close(&ps);
    }
    world_close();
    wires_close();
}

static void
ask(unsigned client, const char *request)
{
    wire_send(&wires.wire[client], slice_str(request));
    world_settle();
}

/* The newest connection to the origin. */
static void
answer(const char *response)
{
    CHECK(wires.n > WIRE_CLIENTS);
    wire_send(&wires.wire[wires.n - 1], slice_str(response));
    world_settle();
}

static size_t
count_of(unsigned client, const char *text)
{
    const struct wire_bytes *out = &wires.wire[client].out;
    size_t n = 0, len = strlen(text);

    for (size_t at = 0; at + len <= out->len; at++)
        n += memcmp(out->ptr + at, text, len) == 0;
    return n;
}

#define HOST "Host: a.test\r\n\r\n"
#define GOOD "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok"
#define VCL  "vcl 4.1; import purge; import tarn;\n"

TEST(producers, an_unsafe_request_tells_its_key_and_what_it_names_of_the_same_origin)
{
    open_world(NULL);
    ask(0, "POST /form HTTP/1.1\r\nContent-Length: 1\r\n" HOST);
    ask(0, "x");
    answer("HTTP/1.1 201 Created\r\nLocation: /new?a=1\r\n"
           "Content-Location: http://other.test/x\r\nContent-Length: 0\r\n\r\n");
    CHECK_EQ(2, told.n);
    expect_key(0, "http://a.test/form", false, true);
    expect_key(1, "http://a.test/new?a=1", false, true);
    /* What failed has changed nothing, nor has a safe method. */
    ask(0, "DELETE /form HTTP/1.1\r\n" HOST);
    answer("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    ask(0, "GET /form HTTP/1.1\r\n" HOST);
    answer(GOOD);
    CHECK_EQ(2, told.n);
    CHECK_EQ(1, count_of(0, " 201 "));
    CHECK_EQ(1, count_of(0, " 200 "));
    close_world();
}

TEST(producers, return_purge_tells_the_keys_of_both_schemes)
{
    open_world(VCL "sub vcl_recv { if (req.method == \"PURGE\") { return (purge); } }");
    ask(0, "PURGE /p?q HTTP/1.1\r\nhost: A.test\r\n\r\n");
    CHECK_EQ(2, told.n);
    expect_key(0, "http://a.test/p?q", false, false);
    expect_key(1, "https://a.test/p?q", false, false);
    CHECK_EQ(1, count_of(0, "Purge-Token: 7-1.01234567\r\nPurge-Proof: none\r\n"));
    close_world();
}

#define PURGES                                                                              \
    VCL "sub vcl_recv { if (req.http.wait) { tarn.purge_wait(3s); }\n"                      \
        "  if (req.http.do == \"purge\") { return (purge); }\n"                             \
        "  if (req.http.do == \"ban\") { ban(\"obj.status == 200\");\n"                     \
        "    ban(\"obj.status == 201\"); return (synth(299, \"Banned\")); }\n"              \
        "  if (req.http.do == \"tag\") { tarn.purge_tag(\"a b\"); return (synth(200)); }\n" \
        "  return (synth(200, \"None\")); }\n"
#define DO(what) "GET /p HTTP/1.1\r\nDo: " what "\r\n"

TEST(producers, the_answer_of_a_policy_waits_for_the_log)
{
    static const char *const requests[] = {DO("purge") HOST, DO("ban") HOST, DO("tag") HOST};

    open_world(PURGES);
    told.holds = true;
    for (unsigned i = 0; i < ARRAY_LEN(requests); i++) {
        ask(0, requests[i]);
        CHECK_EQ(i, count_of(0, "HTTP/1.1 "));
        CHECK(told.watch != NULL && !told.watch->all);
        CHECK_EQ(0, told.watch->timeout_ms);
        watch_answer(told.watch, true, false, "");
        world_settle();
        CHECK_EQ(i + 1, count_of(0, "Purge-Token: 7-1.01234567\r\nPurge-Proof: none\r\n"));
    }
    CHECK_EQ(1, count_of(0, "HTTP/1.1 299 Banned\r\n"));
    /* What purges nothing does not wait. */
    ask(0, DO("none") "Wait: 1\r\n" HOST);
    CHECK_EQ(1, count_of(0, "HTTP/1.1 200 None\r\n"));
    CHECK_EQ(6, count_of(0, "Purge-"));
    close_world();
}

TEST(producers, what_is_to_be_proven_and_is_not_is_no_success)
{
    open_world(PURGES);
    told.holds = true;
    ask(0, DO("ban") "Wait: 1\r\n" HOST);
    CHECK(told.watch->all);
    CHECK_EQ(3000, told.watch->timeout_ms);
    watch_answer(told.watch, true, true, "");
    world_settle();
    CHECK_EQ(1, count_of(0, "HTTP/1.1 299 Banned\r\n"));
    CHECK_EQ(1, count_of(0, "Purge-Proof: all\r\n"));
    ask(0, DO("ban") "Wait: 1\r\n" HOST);
    watch_answer(told.watch, true, false, "b, c");
    world_settle();
    CHECK_EQ(1, count_of(0, "HTTP/1.1 202 Accepted\r\n"));
    CHECK_EQ(1, count_of(0, "Purge-Proof: none; missing=\"b, c\"; why=\"a  word  \"\r\n"));
    ask(0, DO("ban") "Wait: 1\r\n" HOST);
    watch_answer(told.watch, false, false, "");
    world_settle();
    CHECK_EQ(1, count_of(0, "HTTP/1.1 503 Service Unavailable\r\n"));
    /* Without a room in the log there is nothing to wait for. */
    told.full = true;
    ask(0, DO("ban") HOST);
    CHECK_EQ(2, count_of(0, "HTTP/1.1 299 Banned\r\n"));
    CHECK_EQ(1, count_of(0, "Purge-Proof: none; why=\"the fleet's log could not take it: it counts "
                            "at this node alone\"\r\n"));
    CHECK_EQ(2, count_of(0, "Purge-Token"));
    close_world();
}

TEST(producers, vcl_synth_sees_what_became_of_it_and_may_begin_anew)
{
    open_world(
        PURGES "sub vcl_synth { if (req.restarts == 0 && req.http.again) { return (restart); }\n"
               "  set resp.http.proof = resp.http.Purge-Proof;\n"
               "  unset resp.http.Purge-Token; return (deliver); }");
    ask(0, DO("purge") "Again: 1\r\nWait: 1\r\n" HOST);
    CHECK_EQ(4, told.n);
    CHECK_EQ(1, count_of(0, "HTTP/1.1 "));
    CHECK_EQ(1, count_of(0, "proof: all\r\n"));
    CHECK_EQ(1, count_of(0, "Purge-Proof: all\r\n"));
    CHECK_EQ(0, count_of(0, "Purge-Token"));
    close_world();
}

/* What was proven before says nothing of what is purged behind a restart. */
TEST(producers, each_round_of_a_request_is_asked_for_anew)
{
    open_world(VCL "sub vcl_recv { if (req.restarts == 1) { tarn.purge_wait(2s); }\n"
                   "  if (req.restarts == 0 || req.http.more) { ban(\"obj.status == 200\"); }\n"
                   "  return (synth(200, \"Done\")); }\n"
                   "sub vcl_synth { if (req.restarts == 0) { return (restart); } }");
    told.holds = true;
    ask(0, "GET / HTTP/1.1\r\nMore: 1\r\n" HOST);
    watch_answer(told.watch, true, true, "");
    told.watch = NULL;
    world_settle();
    CHECK(told.watch != NULL && told.watch->all); /* of the second one */
    watch_answer(told.watch, true, false, "b");
    world_settle();
    CHECK_EQ(1, count_of(0, "HTTP/1.1 202 Accepted\r\n"));
    /* Without another purge, what was made before is to be proven. */
    ask(0, "GET / HTTP/1.1\r\n" HOST);
    CHECK(!told.watch->all);
    watch_answer(told.watch, true, false, "");
    told.watch = NULL;
    world_settle();
    CHECK(told.watch != NULL && told.watch->all);
    watch_answer(told.watch, true, true, "");
    world_settle();
    CHECK_EQ(1, count_of(0, "Purge-Proof: all\r\n"));
    /* The log is full by then. */
    ask(0, "GET / HTTP/1.1\r\nMore: 1\r\n" HOST);
    told.full = true;
    watch_answer(told.watch, true, true, "");
    world_settle();
    CHECK_EQ(1, count_of(0, "HTTP/1.1 503 "));
    CHECK_EQ(2, count_of(0, "Purge-Token"));
    close_world();
}

TEST(producers, what_vcl_synth_purges_behind_a_proof_is_not_said_to_be_proven)
{
    open_world(PURGES "sub vcl_synth { set resp.http.seen = resp.http.Purge-Proof;\n"
                      "  ban(\"obj.status == 202\"); return (deliver); }");
    ask(0, DO("ban") "Wait: 1\r\n" HOST);
    CHECK_EQ(3, told.n);
    CHECK_EQ(1, count_of(0, "seen: all\r\n"));
    CHECK_EQ(0, count_of(0, "Purge-"));
    close_world();
}

/* It does not wait for itself, and what it says is of before. */
TEST(producers, what_vcl_synth_purges_has_no_token)
{
    open_world(PURGES "sub vcl_synth { ban(\"obj.status == 202\"); return (deliver); }");
    ask(0, DO("none") HOST);
    CHECK_EQ(1, told.n);
    CHECK_EQ(1, count_of(0, "HTTP/1.1 200 None\r\n"));
    CHECK_EQ(0, count_of(0, "Purge-"));
    close_world();
}

TEST(producers, a_client_that_leaves_is_waited_for_by_the_log_alone)
{
    struct invalidation_watch *w;

    open_world(PURGES);
    told.holds = true;
    ask(0, DO("purge") "Wait: 1\r\n" HOST);
    w = told.watch;
    CHECK(w != NULL && !w->unwanted);
    wire_end(&wires.wire[0]);
    world_settle();
    CHECK(w->unwanted);
    CHECK(!proxy_is_idle(world_proxy()));
    watch_answer(w, true, false, "b");
    world_settle();
    CHECK(proxy_is_idle(world_proxy()));
    close_world();
}

TEST(producers, a_key_of_the_policys_own_is_told_as_it_was_made)
{
    open_world(VCL "sub vcl_recv { if (req.method == \"PURGE\") { return (purge); } }\n"
                   "sub vcl_hash { hash_data(req.url); hash_data(\"x\"); return (lookup); }\n"
                   "sub vcl_hit { set req.url = \"/other\"; purge.hard(); }");
    ask(0, "PURGE /p HTTP/1.1\r\n" HOST);
    CHECK_EQ(1, told.n);
    CHECK_EQ(6, told.list[0].len);
    CHECK_MEM("\"/p\0x\0", told.list[0].text, 6);
    ask(0, "GET /p HTTP/1.1\r\n" HOST);
    answer(GOOD);
    ask(0, "GET /p HTTP/1.1\r\n" HOST);
    CHECK_EQ(2, told.n);
    CHECK_MEM("\"/p\0x\0", told.list[1].text, 6);
    close_world();
}

/* The head was changed meanwhile, and the worker's scratch has other keys: what is told is what was
 * looked up. */
TEST(producers, what_a_policy_purges_is_what_was_looked_up)
{
    open_world(VCL "sub vcl_hit { set req.url = \"/hit\"; set req.http.host = \"h.test\";\n"
                   "  purge.soft(0s, 10s, -1s); }\n"
                   "sub vcl_miss { set req.url = \"/miss\"; purge.hard(); }");
    ask(0, "GET /a HTTP/1.1\r\n" HOST);
    CHECK_EQ(1, told.n);
    expect_key(0, "http://a.test/a", false, false);
    answer(GOOD);
    close_world();

    open_world(VCL "sub vcl_hit { set req.url = \"/hit\"; set req.http.host = \"h.test\";\n"
                   "  purge.soft(0s, 10s, -1s); }");
    ask(0, "GET /a HTTP/1.1\r\n" HOST);
    answer(GOOD);
    ask(1, "GET /a HTTP/1.1\r\n" HOST);
    CHECK_EQ(1, told.n);
    expect_key(0, "http://a.test/a", true, false);
    CHECK_EQ(0, told.list[0].inv.ttl_ms);
    CHECK_EQ(10000, told.list[0].inv.grace_ms);
    CHECK_EQ(-1, told.list[0].inv.keep_ms);
    close_world();
}

TEST(producers, also_of_requests_that_waited_for_the_fetch_of_another)
{
    open_world(VCL "sub vcl_deliver { if (req.restarts == 0 && req.http.again) {\n"
                   "    set req.url = req.url + \"?again\"; return (restart); } }\n"
                   "sub vcl_hit { purge.hard(); }\n"
                   "sub vcl_miss { if (req.restarts > 0) { purge.hard(); } }");
    ask(0, "GET /slow HTTP/1.1\r\n" HOST);
    ask(1, "GET /slow HTTP/1.1\r\nAgain: 1\r\n" HOST);
    CHECK_EQ(0, told.n);
    answer(GOOD);
    /* The second one waited, found it, and began again under another key. */
    CHECK_EQ(2, told.n);
    expect_key(0, "http://a.test/slow", false, false);
    expect_key(1, "http://a.test/slow?again", false, false);
    answer(GOOD);
    CHECK_EQ(1, count_of(1, " 200 "));
    close_world();
}

TEST(producers, bans_and_tags_of_a_policy_are_told_once)
{
    open_world(VCL "sub vcl_recv {\n"
                   "  if (req.url == \"/ban\") { ban(\"obj.http.x == \" + req.http.x); }\n"
                   "  if (req.url == \"/tag\") { tarn.purge_tag(\"a b\", true); }\n"
                   "  return (synth(200)); }");
    ask(0, "GET /ban HTTP/1.1\r\nX: 7\r\n" HOST);
    CHECK_EQ(1, told.n);
    CHECK(told.list[0].inv.kind == INVALIDATION_BAN);
    CHECK_STR("obj.http.x == 7", told.list[0].text);
    ask(0, "GET /ban HTTP/1.1\r\n" HOST); /* no expression: refused */
    CHECK_EQ(1, told.n);
    ask(0, "GET /tag HTTP/1.1\r\n" HOST);
    CHECK_EQ(2, told.n);
    CHECK(told.list[1].inv.kind == INVALIDATION_TAGS && told.list[1].inv.soft);
    CHECK_EQ(2, told.list[1].inv.ntags);
    close_world();
}

/* As an operator's purge finds it: by vcl_recv and vcl_hash. */
TEST(producers, a_url_is_purged_by_the_policys_own_key)
{
    const struct invalidation inv = {
        .kind = INVALIDATION_URL, .text = SLICE_LIT("http://a.test/p")};
    const struct invalidation bad = {.kind = INVALIDATION_URL, .text = SLICE_LIT("no url")};
    struct invalidation_result out = {.wait = NULL};
    struct proxy *p;

    open_world(VCL "sub vcl_hash { hash_data(req.url); return (lookup); }");
    p = world_proxy();
    ask(0, "GET /p HTTP/1.1\r\n" HOST);
    answer(GOOD);
    rcu_online();
    CHECK_EQ(0, invalidation_make(p->cache, &inv, &p->loop->clock, &out));
    CHECK_EQ(1, out.how_many);
    CHECK_EQ(1, told.n);
    CHECK(told.list[0].inv.kind == INVALIDATION_URL);
    CHECK_STR("http://a.test/p", told.list[0].text);
    CHECK(invalidation_make(p->cache, &bad, &p->loop->clock, &out) != 0);
    CHECK(out.why[0] != '\0');
    CHECK_EQ(1, told.n);
    rcu_offline();
    close_world();
}

TEST_MAIN(
    TEST_ENTRY(producers, an_unsafe_request_tells_its_key_and_what_it_names_of_the_same_origin),
    TEST_ENTRY(producers, return_purge_tells_the_keys_of_both_schemes),
    TEST_ENTRY(producers, the_answer_of_a_policy_waits_for_the_log),
    TEST_ENTRY(producers, what_is_to_be_proven_and_is_not_is_no_success),
    TEST_ENTRY(producers, vcl_synth_sees_what_became_of_it_and_may_begin_anew),
    TEST_ENTRY(producers, each_round_of_a_request_is_asked_for_anew),
    TEST_ENTRY(producers, what_vcl_synth_purges_behind_a_proof_is_not_said_to_be_proven),
    TEST_ENTRY(producers, what_vcl_synth_purges_has_no_token),
    TEST_ENTRY(producers, a_client_that_leaves_is_waited_for_by_the_log_alone),
    TEST_ENTRY(producers, a_key_of_the_policys_own_is_told_as_it_was_made),
    TEST_ENTRY(producers, what_a_policy_purges_is_what_was_looked_up),
    TEST_ENTRY(producers, also_of_requests_that_waited_for_the_fetch_of_another),
    TEST_ENTRY(producers, bans_and_tags_of_a_policy_are_told_once),
    TEST_ENTRY(producers, a_url_is_purged_by_the_policys_own_key))
