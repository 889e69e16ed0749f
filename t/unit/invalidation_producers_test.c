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
    return told.n;
}

static void
told_nothing(void *ctx)
{
    (void)ctx;
}

static const struct invalidation_log told_log = {
    .append = told_append, .begin = told_nothing, .end = told_nothing, .wants_text = true};

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
    TEST_ENTRY(producers, a_key_of_the_policys_own_is_told_as_it_was_made),
    TEST_ENTRY(producers, what_a_policy_purges_is_what_was_looked_up),
    TEST_ENTRY(producers, also_of_requests_that_waited_for_the_fetch_of_another),
    TEST_ENTRY(producers, bans_and_tags_of_a_policy_are_told_once),
    TEST_ENTRY(producers, a_url_is_purged_by_the_policys_own_key))
