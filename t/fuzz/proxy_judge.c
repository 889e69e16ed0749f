/* proxy_judge.c -- is what the proxy sent right, given what it read? */
#include "t/fuzz/proxy_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/limits.h"
#include "daemon/base/tassert.h"
#include "t/fuzz/proxy_net.h"
#include "t/fuzz/proxy_strict.h"

enum {
    JUDGE_REQUESTS = 1024, /* of a client; an input has 64 KiB at most, a request 18 bytes */
    JUDGE_ASKED = 1024,
};

/* A request as a client sent it. */
struct judge_request {
    enum strict_result rc;
    bool used;      /* a request to an origin came of it */
    bool may_retry; /* and that one may be tried again */
    size_t end;     /* of it, in what the client sent */
    struct strict_message m;
};

/* A request as an origin got it, and its answer. */
struct judge_asked {
    unsigned wire;
    bool answered;        /* a byte of an answer was read */
    bool whole;           /* all of it was */
    bool tunnel;          /* and all that follows on the connection is another protocol's */
    size_t out_at, in_at; /* where that begins */
    enum strict_result rc;
    struct strict_message m, answer;
};

static struct judge {
    bool same_host;
    struct arena_pool pool;
    struct arena arena;
    struct judge_request requests[WIRE_CLIENTS][JUDGE_REQUESTS];
    unsigned nrequests[WIRE_CLIENTS];
    struct judge_asked asked[JUDGE_ASKED];
    unsigned nasked;
} judge;

/* ---- When it is not right ---- */

static void
judge_print(const char *title, struct slice bytes)
{
    fprintf(stderr, "  %s, %zu bytes:\n    ", title, bytes.len);
    for (size_t i = 0; i < bytes.len && i < 4096; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];

        if (c == '\n')
            fprintf(stderr, "\\n\n    ");
        else if (c == '\r')
            fprintf(stderr, "\\r");
        else if (c < 0x20 || c > 0x7e)
            fprintf(stderr, "\\x%02x", c);
        else
            fputc(c, stderr);
    }
    fputc('\n', stderr);
}

static _Noreturn void
judge_fail(const struct wire *at, size_t pos, const char *what, const char *why)
{
    fprintf(stderr, "judge: wire %u, at byte %zu of what the proxy sent: %s%s%s\n", at->index, pos,
        what, why != NULL ? ": " : "", why != NULL ? why : "");
    for (unsigned i = 0; i < wires.n; i++) {
        const struct wire *w = &wires.wire[i];

        fprintf(stderr, "wire %u, %s; end %d%s%s%s\n", i, i < WIRE_CLIENTS ? "client" : "origin",
            w->in_end, w->end_seen ? " seen" : "", w->shut ? ", shut by us" : "",
            w->was_reset ? ", reset by us" : "");
        judge_print("the proxy read", slice_of(w->in.ptr, w->in_at));
        judge_print("the proxy sent", slice_of(w->out.ptr, w->out.len));
    }
    abort();
}

/* ---- What came in from clients ---- */

static void
judge_read_requests(unsigned client)
{
    const struct wire *w = &wires.wire[client];
    size_t at = 0, heard = w->shut ? w->in_at_shut : w->in_at;

    judge.nrequests[client] = 0;
    while (at < heard && judge.nrequests[client] < JUDGE_REQUESTS) {
        struct judge_request *q = &judge.requests[client][judge.nrequests[client]++];

        *q = (struct judge_request){.used = false};
        q->rc = strict_request(
            slice_of(w->in.ptr + at, heard - at), STRICT_FOREIGN, &judge.arena, &q->m);
        at += q->m.used;
        q->end = at;
        if (q->rc != STRICT_WHOLE || !q->m.persists)
            break; /* no byte behind it is interpreted */
    }
}

/* ---- What went to origins, and what they answered ---- */

/* The answer to `a`, after interim ones, from `*at`.  False: no more can be told from here. */
static bool
judge_read_answer(const struct wire *w, struct judge_asked *a, size_t *at)
{
    bool bare = a->m.method.len == 4 && memcmp(a->m.method.ptr, "HEAD", 4) == 0;
    enum strict_result rc;

    a->answered = *at < w->in_at;
    for (;;) {
        rc = strict_response(slice_of(w->in.ptr + *at, w->in_at - *at), STRICT_FOREIGN, bare,
            &judge.arena, &a->answer);
        if (rc != STRICT_WHOLE || a->answer.status >= 200 || a->answer.status == 101)
            break;
        *at += a->answer.used;
    }
    if (!a->answer.has_head)
        return false;
    a->whole = rc == STRICT_WHOLE;
    if (rc == STRICT_PART && a->answer.until_close)
        a->whole = w->end_seen && !w->hears_nothing;
    *at += a->answer.used;
    return rc == STRICT_WHOLE;
}

static void
judge_read_asked(const struct wire *w)
{
    size_t at = 0, answer_at = 0;
    bool answers = true;

    while (at < w->out.len && judge.nasked < JUDGE_ASKED) {
        struct judge_asked *a = &judge.asked[judge.nasked];

        *a = (struct judge_asked){.wire = w->index};
        a->rc = strict_request(
            slice_of(w->out.ptr + at, w->out.len - at), STRICT_OURS, &judge.arena, &a->m);
        if (a->rc == STRICT_BAD)
            judge_fail(w, at, "to an origin: a bad request", a->m.why);
        judge.nasked++;
        if (answers)
            answers = judge_read_answer(w, a, &answer_at);
        if (!a->m.has_head)
            return; /* the connection broke as it was sent; perhaps with an early answer */
        at += a->m.used;
        a->tunnel = a->answer.status == 101 && a->m.upgrades && a->rc == STRICT_WHOLE;
        a->out_at = at;
        a->in_at = answer_at;
        if (a->tunnel)
            return;
        if (a->rc == STRICT_PART)
            return;
    }
}

/* ---- Requests: none that no client sent ---- */

static bool
judge_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static bool
judge_begins(struct slice whole, struct slice part)
{
    return part.len <= whole.len && (part.len == 0 || memcmp(whole.ptr, part.ptr, part.len) == 0);
}

static bool
judge_same_host(struct slice a, struct slice b)
{
    return !judge.same_host ||
           (a.len == b.len && (a.len == 0 || strncasecmp(a.ptr, b.ptr, a.len) == 0));
}

static bool
judge_came_of(const struct judge_asked *a, const struct judge_request *q, struct slice method)
{
    if (!q->m.has_head || !judge_eq(q->m.method, method) || !judge_eq(q->m.path, a->m.path) ||
        !judge_same_host(q->m.host, a->m.host))
        return false;
    if (a->rc == STRICT_WHOLE)
        return q->rc == STRICT_WHOLE && judge_eq(q->m.body, a->m.body);
    return judge_begins(q->m.body, a->m.body);
}

static bool
judge_is_idempotent(struct slice method)
{
    static const struct slice others[] = {{"POST", 4}, {"PATCH", 5}, {"LOCK", 4}};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (judge_eq(method, others[i]))
            return false;
    return true;
}

/* RFC 9112 9.3.1, and the proxy's own rule; or it asked for the rest, or whether what is stored is
 * still good, and the answer did not help: then for the whole. */
static bool
judge_may_retry(const struct judge_asked *a)
{
    bool used_before = a > judge.asked && a[-1].wire == a->wire;

    if (a->m.asks_less && a->answer.has_head)
        return true;
    return used_before && !a->answered && judge_is_idempotent(a->m.method) && a->m.body.len == 0 &&
           !a->m.chunked;
}

static bool
judge_find_source(const struct judge_asked *a, unsigned client, struct slice method, bool again)
{
    for (unsigned i = 0; i < judge.nrequests[client]; i++) {
        struct judge_request *q = &judge.requests[client][i];

        if (q->used != again || (again && !q->may_retry) || !judge_came_of(a, q, method))
            continue;
        q->used = true;
        q->may_retry = judge_may_retry(a);
        return true;
    }
    return false;
}

static void
judge_source(const struct judge_asked *a)
{
    const struct wire *w = &wires.wire[a->wire];
    struct slice get = SLICE_LIT("GET"), head = SLICE_LIT("HEAD");
    bool is_get = judge_eq(a->m.method, get);
    unsigned client;

    if (a->m.client.len != 9 || memcmp(a->m.client.ptr, "192.0.2.", 8) != 0)
        judge_fail(w, 0, "to an origin: X-Forwarded-For is not the client's address", NULL);
    client = (unsigned)(a->m.client.ptr[8] - '1');
    if (client >= WIRE_CLIENTS)
        judge_fail(w, 0, "to an origin: X-Forwarded-For names nobody", NULL);
    if (!judge_find_source(a, client, a->m.method, false) &&
        !(is_get && judge_find_source(a, client, head, false)) &&
        !judge_find_source(a, client, a->m.method, true) &&
        !(is_get && judge_find_source(a, client, head, true)))
        judge_fail(
            w, 0, "to an origin: a request that its client did not send, or not so often", NULL);
}

/* ---- Responses ---- */

static bool
judge_is_own_page(const struct strict_message *m)
{
    static const char top[] = "<!DOCTYPE html>";

    if (m->status == 416 && m->body.len == 0)
        return true;
    return m->status >= 400 && judge_eq(m->server, SLICE_LIT("tarn")) &&
           judge_begins(slice_of(top, sizeof(top) - 1),
               slice_of(
                   m->body.ptr, m->body.len < sizeof(top) - 1 ? m->body.len : sizeof(top) - 1));
}

/* Is there an answer to the same question that this can be, whole or a beginning of it? */
static bool
judge_is_answer(const struct judge_request *q, const struct strict_message *m, bool whole)
{
    for (unsigned i = 0; i < judge.nasked; i++) {
        const struct judge_asked *a = &judge.asked[i];

        if (!a->answer.has_head)
            continue;
        if (a->m.has_head &&
            (!judge_eq(a->m.path, q->m.path) || !judge_same_host(a->m.host, q->m.host)))
            continue;
        if (a->answer.status == 206)
            return true; /* parts may be put together: the bytes are not judged here */
        if (whole ? a->whole && judge_eq(a->answer.body, m->body)
                  : judge_begins(a->answer.body, m->body))
            return true;
    }
    return false;
}

static void
judge_final(const struct wire *w, size_t at, const struct judge_request *q,
    const struct strict_message *m, bool whole)
{
    bool bare = m->status == 204 || m->status == 206 || m->status == 304 ||
                judge_eq(q->m.method, SLICE_LIT("HEAD"));

    if (m->chunked && q->m.minor == 0)
        judge_fail(w, at, "to a client: chunks for HTTP/1.0", NULL);
    if (m->until_close && (q->m.minor == 1 || !q->m.has_head))
        judge_fail(w, at, "to a client: a response that only the connection ends", NULL);
    if ((!q->m.has_head || !q->m.persists) && !m->closes)
        judge_fail(
            w, at, "to a client: close was asked for, or must follow, and is not said", NULL);
    if (bare || judge_is_own_page(m))
        return;
    if (!q->m.has_head)
        judge_fail(w, at, "to a client: an answer to a malformed request", NULL);
    if (!judge_is_answer(q, m, whole))
        judge_fail(w, at,
            whole ? "to a client: a whole response that no origin gave whole"
                  : "to a client: bytes of a response that no origin gave",
            NULL);
}

/* Does it answer HEAD?  Of a broken request, and of one that was too slow, the proxy may have
 * understood less than the judge. */
static bool
judge_is_bare(const struct wire *w, const struct judge_request *q, size_t at)
{
    struct slice rest = slice_of(w->out.ptr + at, w->out.len - at);
    struct strict_message m;

    if (!judge_eq(q->m.method, SLICE_LIT("HEAD")))
        return false;
    strict_response(rest, STRICT_OURS, true, &judge.arena, &m);
    return (q->m.has_head && m.status != 408) || m.used == rest.len;
}

/* Both directions of a tunnel carry what came in at its other end, and nothing else. */
static bool
judge_is_tunnel(const struct wire *w, const struct judge_request *q, size_t at)
{
    struct slice got = slice_of(w->out.ptr + at, w->out.len - at);
    struct slice gave = slice_of(w->in.ptr + q->end, w->in_at - q->end);

    for (unsigned i = 0; i < judge.nasked; i++) {
        const struct judge_asked *a = &judge.asked[i];
        const struct wire *o = &wires.wire[a->wire];

        if (a->tunnel && judge_eq(a->m.path, q->m.path) &&
            judge_begins(slice_of(o->in.ptr + a->in_at, o->in_at - a->in_at), got) &&
            judge_begins(gave, slice_of(o->out.ptr + a->out_at, o->out.len - a->out_at)))
            return true;
    }
    return false;
}

/* The response to request number k, from `*at`; false: nothing may follow. */
static bool
judge_response(const struct wire *w, unsigned k, size_t *at)
{
    struct judge_request *q = &judge.requests[w->index][k];
    bool bare = judge_is_bare(w, q, *at);
    struct strict_message m;

    for (unsigned interim = 0; *at < w->out.len; interim++) {
        enum strict_result rc;
        bool whole;

        rc = strict_response(
            slice_of(w->out.ptr + *at, w->out.len - *at), STRICT_OURS, bare, &judge.arena, &m);
        if (rc == STRICT_BAD)
            judge_fail(w, *at, "to a client: a bad response", m.why);
        if (!m.has_head)
            return false; /* it left, or was too slow */
        if (m.status >= 200) {
            whole = rc == STRICT_WHOLE || (m.until_close && !w->was_reset);
            judge_final(w, *at, q, &m, whole);
            *at += m.used;
            return rc == STRICT_WHOLE && !m.closes;
        }
        if (q->m.minor == 0 || !q->m.has_head || interim > LIMIT_INTERIM)
            judge_fail(w, *at, "to a client: an interim response too many", NULL);
        if (m.status == 101) {
            if (!q->m.upgrades)
                judge_fail(w, *at, "to a client: 101 that was not asked for", NULL);
            if (!judge_is_tunnel(w, q, *at + m.used))
                judge_fail(w, *at, "to a client: a tunnel that alters what it carries", NULL);
            judge.nrequests[w->index] = k + 1; /* what follows is no request */
            *at = w->out.len;
            return false;
        }
        *at += m.used;
    }
    return false;
}

static void
judge_responses(unsigned client)
{
    const struct wire *w = &wires.wire[client];
    bool more = true;
    size_t at = 0;

    for (unsigned k = 0; more && k < judge.nrequests[client]; k++)
        more = judge_response(w, k, &at);
    if (more && at < w->out.len)
        judge_fail(w, at, "to a client: a response that nobody asked for", NULL);
    if (!more && at < w->out.len) {
        struct arena *arena = &judge.arena;
        struct strict_message m;

        /* The last one was not whole; anything behind a whole one is too much. */
        if (strict_response(slice_of(w->out.ptr + at, w->out.len - at), STRICT_OURS, false, arena,
                &m) != STRICT_PART ||
            m.has_head)
            judge_fail(w, at, "to a client: something behind the last response", NULL);
    }
}

void
judge_wires(bool same_host)
{
    judge.same_host = same_host;
    judge.nasked = 0;
    arena_pool_init(&judge.pool, 16, NULL);
    arena_init(&judge.arena, &judge.pool);
    for (unsigned i = 0; i < WIRE_CLIENTS; i++)
        judge_read_requests(i);
    for (unsigned i = WIRE_CLIENTS; i < wires.n; i++)
        judge_read_asked(&wires.wire[i]);
    for (unsigned i = 0; i < WIRE_CLIENTS; i++)
        judge_responses(i);
    for (unsigned i = 0; i < judge.nasked; i++)
        if (judge.asked[i].m.has_head)
            judge_source(&judge.asked[i]);
    arena_fini(&judge.arena);
    arena_pool_fini(&judge.pool);
}
