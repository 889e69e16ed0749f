/* req_synth.c -- the answers Tarn makes itself: a plain, honest page, by reference. */
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/http/field_line.h"
#include "daemon/http/message_out.h"
#include "daemon/proxy/req_priv.h"

enum {
    RETRY_AFTER_S = 5, /* what is not there may be by then */
    SYNTH_FIELDS = 8,
    SYNTH_HEAD_BYTES = 512, /* of these, except the route's own */
};

#define PAGE_TOP                                                        \
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">" \
    "<meta name=\"viewport\" content=\"width=device-width\"><title>"
#define PAGE_STYLE                                                                 \
    "</title><style>body{font:1rem/1.5 sans-serif;max-width:40em;margin:4em auto;" \
    "padding:0 1em;color-scheme:light dark}</style></head>\n<body><h1>"

/* As whole as the others, except for the request's id: one piece, so that it costs nothing. */
#define PAGE_ABSENT(status_and_reason, sentence)                                  \
    PAGE_TOP status_and_reason PAGE_STYLE status_and_reason "</h1>\n<p>" sentence \
                                                            "</p></body></html>\n"

/* What a visitor reads; an operator finds more in the log under the request's id. */
static const char *
req_sentence(unsigned status)
{
    switch (status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return "The page is at another address.";
    case 400:
        return "The request was malformed, so it was not passed on.";
    case 401:
        return "This page asks for a name and a password.";
    case 405:
        return "This method is not allowed here.";
    case 408:
        return "The request took too long to arrive.";
    case 413:
        return "The request's body is larger than this server accepts.";
    case 414:
        return "The address in the request is longer than this server accepts.";
    case 417:
        return "The request expects something that this server does not know.";
    case 429:
        return "You have asked too often in a short time. Please try again in a moment.";
    case 431:
        return "The request's header fields are larger than this server accepts.";
    case 501:
        return "The request uses a method or coding that this server does not know.";
    case 502:
        return "The server behind this one could not be reached, or gave no valid answer.";
    case 503:
        return "The service is not available at the moment.";
    case 504:
        return "The server behind this one did not answer in time.";
    case 505:
        return "The request uses a version of HTTP that this server does not speak.";
    case 508:
        return "The request came back to this server, which had sent it on before.";
    default:
        return "The request could not be answered.";
    }
}

static struct slice
req_date(const struct proxy *p)
{
    return slice_str(p->loop->clock.http_date);
}

static void
req_synth_fields(struct req *r, struct message_out *o)
{
    const struct req_rules *rules = req_rules(r);
    const struct conf_page *page = req_error_page(r);
    unsigned status = r->synth_status;
    bool named = rules != NULL && rules->name.len > 0;

    MESSAGE_OUT_FIELD(o, SERVER, "Server", slice_str(r->proxy->params.http_server));
    /* RFC 9110 6.6.1: we are the origin of this one. */
    MESSAGE_OUT_FIELD(o, DATE, "Date", req_date(r->proxy));
    if (status != 204)
        MESSAGE_OUT_FIELD(o, CONTENT_TYPE, "Content-Type",
            page != NULL && page->plain ? SLICE_LIT("text/plain; charset=utf-8")
                                        : SLICE_LIT("text/html; charset=utf-8"));
    /* A redirection of a route is the same for all; an error is of the moment. */
    if (status / 100 != 3)
        MESSAGE_OUT_FIELD(o, CACHE_CONTROL, "Cache-Control", SLICE_LIT("no-store"));
    /* RFC 9110 15.5.6 wants Allow with a 405, and 9.3.7 with an answer to OPTIONS. */
    if (named)
        message_out_field(
            o, http_field_id(rules->name.ptr, rules->name.len), rules->name, rules->value);
    else if (status == 405 || status == 204)
        MESSAGE_OUT_FIELD(
            o, OTHER, "Allow", SLICE_LIT("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"));
    if (r->policy.hop && r->attempt.err != 0 && (status == 502 || status == 504))
        req_hop_say_failed(r, o);
    /* 429 has the moment when the bucket allows it, 503 a guess. */
    if (status == 503 || status == 429) {
        message_out_open(o, HTTP_F_OTHER, SLICE_LIT("Retry-After"));
        message_out_number(o, status == 503 ? RETRY_AFTER_S : r->retry_after_s);
        message_out_close(o);
    }
}

/* A head in the request's arena.  In the arena, with room for the longest answer: only a route's
 * own field has no bound. */
static int
req_synth_head(struct req *r, const char *reason)
{
    const struct req_rules *rules = req_rules(r);
    size_t bytes = SYNTH_HEAD_BYTES + (rules != NULL ? rules->name.len + rules->value.len : 0);
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));
    struct message_out o;
    int err;

    if (m == NULL || message_out_begin(&o, m, &r->x->arena, bytes, SYNTH_FIELDS) != 0)
        return TERR_NOMEM;
    message_out_status(&o, r->synth_status, slice_str(reason));
    req_synth_fields(r, &o);
    err = message_out_end(&o);
    tassert(err == 0);
    r->resp.message = m;
    return err;
}

/* The body for a page of our own.  One that is not used any more is kept for the next: see
 * req_drop_page. */
int
req_take_page(struct req *r)
{
    struct stobj *page = r->page;

    tassert_slow(!r->own_body); /* one at a time, or the first would be lost */
    /* The request's memory has none yet, or a connection still sends from the last one. */
    if (page == NULL && stobj_synth_new(&page, r->proxy->synth) != 0)
        return TERR_NOMEM;
    r->page = NULL;
    r->rep.body = page;
    r->own_body = true;
    return 0;
}

void
req_drop_page(struct req *r)
{
    tassert(r->own_body && r->page == NULL);
    r->own_body = false;
    /* Only if the connection has no reference to its pieces any more. */
    if (stobj_synth_reset(r->rep.body))
        r->page = r->rep.body;
    else
        stobj_unref(&r->rep.body);
    r->rep.body = NULL;
}

/* In one piece, which lives as long as the configuration that the request holds. */
static int
req_synth_page(struct req *r, const struct conf_page *page)
{
    if (req_take_page(r) != 0)
        return TERR_NOMEM;
    r->resp.length = page->body.len;
    if (page->body.len == 0)
        return 0;
    return stobj_synth_add(r->rep.body, page->body) == 0 ? 0 : TERR_NOMEM;
}

static int
req_synth_body(struct req *r, const char *reason)
{
    const struct conf_page *page = req_error_page(r);
    char text[96];
    /* No text of the client's is on the page, so nothing needs to be escaped. */
    struct slice pieces[] = {
        SLICE_LIT(PAGE_TOP),
        slice_str(reason),
        SLICE_LIT(PAGE_STYLE),
        {NULL, 0}, /* status and reason */
        SLICE_LIT("</h1>\n<p>"),
        slice_str(req_sentence(r->synth_status)),
        SLICE_LIT("</p>\n<p><small>"),
        {NULL, 0}, /* the request's id */
        SLICE_LIT("</small></p></body></html>\n"),
    };
    int err = 0;

    if (page != NULL)
        return req_synth_page(r, page);
    snprintf(text, sizeof(text), "%u %s", r->synth_status, reason);
    pieces[3] = arena_copy(&r->x->arena, slice_str(text));
    /* As in the log, so that an operator finds what a visitor quotes. */
    snprintf(text, sizeof(text), "Request %016llx", (unsigned long long)r->x->xid);
    pieces[7] = arena_copy(&r->x->arena, slice_str(text));
    /* The arena outlives the body, which only refers to its pieces (README 34). */
    if (pieces[3].ptr == NULL || pieces[7].ptr == NULL)
        return TERR_NOMEM;
    if (req_take_page(r) != 0)
        return TERR_NOMEM;
    r->resp.length = 0;
    for (size_t i = 0; i < ARRAY_LEN(pieces) && err == 0; i++) {
        err = stobj_synth_add(r->rep.body, pieces[i]);
        r->resp.length += pieces[i].len;
    }
    return err == 0 ? 0 : TERR_NOMEM;
}

/* The page is not of the entry: nothing may keep a fetch going for it. */
static void
req_leave_failed_entry(struct req *r)
{
    if (r->entry != NULL)
        req_leave_entry(r); /* as a reader of what was being filled, too */
    r->attempt.leader = false;
}

/* SYNTH -- we make the response. */
enum req_next
req_do_synth(struct req *r)
{
    const char *reason;

    req_leave_failed_entry(r);
    r->log_flags |= SHMLOG_REQ_SYNTH | (r->attempt.err != 0 ? (unsigned)SHMLOG_REQ_ERROR : 0);
    if (r->policy.synth && r->policy.purged != NULL && !req_settle_purge(r))
        return REQ_WAIT;
    if (r->policy.synth)
        return req_policy_synth(r);
    reason = http_reason(r->synth_status);
    r->resp.status = r->synth_status;
    r->resp.bodyless = r->x->head.method == HTTP_M_HEAD || r->synth_status == 204;
    /* Behind a malformed request it is not known where the next one begins. */
    r->resp.close = r->x->err != 0 || r->policy.close;
    if (req_synth_head(r, reason) != 0 || req_synth_body(r, reason) != 0) {
        /* There is no memory even for an error page: the client sees the exchange end. */
        r->x->ops->reset(r->x, TERR_NOMEM);
        return req_goto(r, REQ_CLOSE);
    }
    if (r->synth_status == 204) /* RFC 9110 8.6: never with a Content-Length */
        r->resp.length = EXCHANGE_LENGTH_UNKNOWN;
    return req_goto(r, REQ_DELIVER);
}

/* The fields before Age and Cache-Status.  Via, because the origin said it. */
static void
req_absent_fields(const struct proxy *p, struct message_out *o)
{
    MESSAGE_OUT_FIELD(o, SERVER, "Server", slice_str(p->params.http_server));
    MESSAGE_OUT_FIELD(o, DATE, "Date", req_date(p));
    message_out_open(o, HTTP_F_VIA, SLICE_LIT("Via"));
    MESSAGE_OUT_LIT(o, "1.1 ");
    message_out_put(o, slice_str(p->params.http_via));
    message_out_close(o);
    MESSAGE_OUT_FIELD(o, CONTENT_TYPE, "Content-Type", SLICE_LIT("text/html; charset=utf-8"));
    MESSAGE_OUT_FIELD(o, CACHE_CONTROL, "Cache-Control", SLICE_LIT("no-store"));
}

/* The whole head as a message.  NULL: no memory. */
static struct http_message *
req_absent_message(struct req *r, const struct negative_answer *a)
{
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));
    char text[REQ_ABSENT_MAX];
    struct slice own, name, value;
    struct message_out o;

    if (m == NULL || message_out_begin(
                         &o, m, &r->x->arena, SYNTH_HEAD_BYTES + REQ_ABSENT_MAX, SYNTH_FIELDS) != 0)
        return NULL;
    message_out_status(&o, a->status, slice_str(http_reason(a->status)));
    req_absent_fields(r->proxy, &o);
    /* The same lines as in the rendered form, taken apart again: one place writes them. */
    own = slice_of(text, (size_t)(req_put_absent(r, a, text) - text));
    tassert(own.len <= sizeof(text));
    while (field_line_next(&own, &name, &value))
        message_out_field(&o, http_field_id(name.ptr, name.len), name, value);
    return message_out_end(&o) == 0 ? m : NULL;
}

/* The same, rendered: except Age and Cache-Status it is made once a second. */
static struct slice
req_absent_rendered(struct req *r, const struct negative_answer *a)
{
    struct proxy *p = r->proxy;
    struct proxy_absent *memo = &p->last_absent;
    int64_t second = p->loop->clock.wall_ms / 1000;
    char *out;

    /* Date is the only thing in it that changes. */
    if (memo->status != a->status || memo->second != second) {
        struct http_message m;
        struct message_out o;
        size_t len;

        if (message_out_begin(&o, &m, &r->x->arena, sizeof(memo->text), SYNTH_FIELDS) != 0)
            return slice_of(NULL, 0);
        message_out_status(&o, a->status, slice_of("", 0));
        req_absent_fields(p, &o);
        len = p->rendering->prefix(memo->text, a->status, slice_str(http_reason(a->status))).len;
        /* Names of 64 bytes fit: what is longer is not rendered, and the request fails instead of
         * being cut. */
        if (message_out_end(&o) != 0 || len + message_lines(&m).len > sizeof(memo->text))
            return slice_of(NULL, 0);
        memcpy(memo->text + len, message_lines(&m).ptr, message_lines(&m).len);
        memo->second = second;
        memo->status = (uint16_t)a->status;
        memo->len = (uint16_t)(len + message_lines(&m).len);
    }
    out = arena_alloc(&r->x->arena, memo->len + (size_t)REQ_ABSENT_MAX);
    if (out == NULL)
        return slice_of(NULL, 0);
    tassert_slow(memo->len <= sizeof(memo->text));
    memcpy(out, memo->text, memo->len);
    return slice_of(out, (size_t)(req_put_absent(r, a, out + memo->len) - out));
}

/* The answer without a policy: made before, except its age. */
static int
req_make_absent(struct req *r, const struct negative_answer *a)
{
    static const char not_found[] =
        PAGE_ABSENT("404 Not Found", "There is nothing at this address.");
    static const char gone[] =
        PAGE_ABSENT("410 Gone", "What was at this address has been removed.");
    struct slice page = a->status == 410 ? slice_of(gone, sizeof(gone) - 1)
                                         : slice_of(not_found, sizeof(not_found) - 1);

    tassert(a->status == 404 || a->status == 410); /* the negative cache stores no other */
    /* A reader of the log wants the fields, which only a message has. */
    if (req_is_ready_made(r))
        r->resp.rendered = req_absent_rendered(r, a);
    else
        r->resp.message = req_absent_message(r, a);
    if (r->resp.rendered.len == 0 && r->resp.message == NULL)
        return TERR_NOMEM;
    if (req_take_page(r) != 0 || stobj_synth_add(r->rep.body, page) != 0)
        return TERR_NOMEM;
    r->resp.status = r->synth_status = a->status;
    r->resp.length = page.len;
    r->resp.bodyless = r->x->head.method == HTTP_M_HEAD;
    return 0;
}

enum req_next
req_answer_absent(struct req *r, const struct negative_answer *a)
{
    enum req_next next;

    counter_add(r->proxy->counters, COUNTER_negative_hits, 1);
    if (r->policy.ref != NULL) { /* vcl_synth has its say, as on all answers of our own */
        /* `a` is borrowed for the call, and vcl_synth comes in a later step. */
        struct negative_answer *copy = arena_alloc(&r->x->arena, sizeof(*copy));

        if (copy == NULL)
            return req_synth(r, 503, TERR_NOMEM);
        *copy = *a;
        next = req_synth_by_policy(r, a->status, slice_of(NULL, 0), 0);
        r->policy.absent = copy;
        /* Behind req_synth_by_policy(), which clears what an earlier way to an answer left. */
        r->log_flags |= SHMLOG_REQ_ABSENT;
        return next;
    }
    if (req_make_absent(r, a) != 0) {
        if (r->own_body)
            req_drop_page(r);
        return req_synth(r, 503, TERR_NOMEM);
    }
    r->log_flags |= SHMLOG_REQ_SYNTH | SHMLOG_REQ_ABSENT;
    return req_goto(r, REQ_DELIVER);
}
