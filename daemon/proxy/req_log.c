/* req_log.c -- one record in the shared-memory log for each request that is over. */
#include "daemon/base/terr.h"
#include "daemon/http/field_line.h"
#include "daemon/proxy/req_priv.h"

static struct slice
req_field(const struct http_message *h, enum http_field_id id)
{
    const struct http_field *f = http_has(h, id) ? http_find(h, id, NULL) : NULL;

    return f == NULL ? slice_of(NULL, 0) : http_value(h, f);
}

/* Subroutines with an answer known without running them: said here, so that a reader of the log
 * sees the whole way. */
static void
req_log_trivial(const struct req *r)
{
    const struct policy *pol = r->policy.ref->policy;
    const struct {
        enum vcl_sub sub;
        bool came;
    } ways[] = {
        {VCL_SUB_HASH, r->key_len > 0},
        {VCL_SUB_HIT, (r->log_flags & SHMLOG_REQ_HIT) != 0},
        {VCL_SUB_MISS, (r->log_flags & SHMLOG_REQ_MISS) != 0},
        {VCL_SUB_PASS, (r->log_flags & SHMLOG_REQ_PASS) != 0},
        {VCL_SUB_DELIVER, r->policy.delivered},
        {VCL_SUB_SYNTH, r->policy.synth},
    };

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        bool known = ways[i].sub == VCL_SUB_HASH ? pol->hashes_as_builtin
                                                 : policy_is_trivial(pol, ways[i].sub);

        if (ways[i].came && known)
            shmlog_printf(r->proxy->log, SHMLOG_Policy, "%s %s", vcl_sub_name(ways[i].sub),
                ways[i].sub == VCL_SUB_HASH
                    ? "lookup"
                    : vcl_action_name((enum vcl_action)pol->action[ways[i].sub]));
    }
}

/* The Host field; of a good head in origin-form that is known (RFC 9112 3.2.1). */
static struct slice
req_host(const struct exchange *x)
{
    const struct http_message *h = &x->head;

    return x->err == 0 && h->base[h->target_off] == '/' ? http_host(h) : req_field(h, HTTP_F_HOST);
}

/* The head as it was sent: its own fields, then those that were written for this answer. */
static void
req_log_response(const struct req *r)
{
    struct slice extra = slice_of(r->x->extra, r->x->extra_len), name, value;
    /* req_response() may have to make the message, in the request's arena. */
    const struct http_message *m = req_response((struct req *)(uintptr_t)r);
    struct shmlog *log = r->proxy->log;

    shmlog_num(log, SHMLOG_RespStatus, r->resp.status);
    if (m != NULL && m->reason_len > 0)
        shmlog_text(log, SHMLOG_RespReason, http_reason_of(m));
    for (unsigned i = 0; m != NULL && i < m->nfields; i++)
        shmlog_field(
            log, SHMLOG_RespHeader, http_name(m, &m->fields[i]), http_value(m, &m->fields[i]));
    while (field_line_next(&extra, &name, &value))
        shmlog_field(log, SHMLOG_RespHeader, name, value);
}

/* What an attached reader wants to know besides, in a chunk before the request's record: that
 * is the end of what is said of it. */
static __attribute__((noinline, cold)) void
req_log_details(const struct req *r)
{
    const struct http_message *h = &r->x->head;
    struct shmlog *log = r->proxy->log;

    shmlog_begin(
        log, r->x->xid, SHMLOG_KIND_REQ, r->x->place != NULL ? r->x->place->parent->xid : 0);
    if (r->attempt.err != 0)
        shmlog_text(log, SHMLOG_Error, slice_str(terr_text(r->attempt.err)));
    if (r->policy.ref != NULL)
        req_log_trivial(r);
    shmlog_text(log, SHMLOG_ReqProtocol, http_version_text(h));
    for (unsigned i = 0; i < h->nfields; i++)
        shmlog_field(
            log, SHMLOG_ReqHeader, http_name(h, &h->fields[i]), http_value(h, &h->fields[i]));
    if (r->head_sent) /* before that its entry may have been given back */
        req_log_response(r);
    shmlog_end(log);
}

static void
req_count(const struct req *r, uint64_t took_us)
{
    enum request_result result = shmlog_result(r->log_flags);

    /* It is an index into rows of counters. */
    tassert(r->resp.status < 1000); /* what is sent has three digits */
    latency_add(&r->proxy->latency->row[result], took_us);
    counter_add(r->proxy->counters, counter_of_response(result, r->resp.status), 1);
}

/* "METHOD target": as HTTP/1 sent it, or put together. */
static inline struct slice
req_log_line(const struct http_message *h, struct proxy *p)
{
    size_t len = (size_t)h->method_len + 1 + h->target_len;
    /* The worker's scratch for keys is free: no lookup is under way while a request ends. */
    char *to = p->key_text;

    if (__builtin_expect(h->target_off == h->method_off + h->method_len + 1, 1))
        return http_slice(h, h->method_off, (uint16_t)len);
    tassert(len <= sizeof(p->key_text));
    to = mempcpy(to, h->base + h->method_off, h->method_len);
    *to++ = ' ';
    memcpy(to, h->base + h->target_off, h->target_len);
    return slice_of(p->key_text, len);
}

/* The worker's one record, written over: what is not set here stays zero. */
static inline struct shmlog_req *
req_log_fill(struct req *r, uint64_t took_us)
{
    const struct exchange *x = r->x;
    const struct http_message *h = &x->head;
    struct proxy *p = r->proxy;
    struct shmlog_req *rec = &p->log_req;

    rec->ids.xid = x->xid;
    /* The test spares a hit the division. */
    rec->fixed.start_ms = p->loop->clock.wall_ms - (int64_t)(took_us < 1000 ? 0 : took_us / 1000);
    rec->fixed.bytes_in = h->len;
    rec->fixed.body_bytes = r->accepted;
    rec->fixed.head_bytes = x->head_bytes;
    rec->fixed.duration_us = (uint32_t)took_us;
    /* Without a time of its own the head left with the body, in one piece. */
    rec->fixed.ttfb_us = r->ttfb_us != 0 ? r->ttfb_us : r->head_sent ? (uint32_t)took_us : 0;
    rec->fixed.flags = r->log_flags;
    memcpy(rec->fixed.addr, x->conn->client_addr, sizeof(rec->fixed.addr));
    rec->fixed.port = (uint16_t)x->conn->client_port;
    rec->fixed.status = (uint16_t)r->resp.status;
    rec->fixed.method = h->method;
    rec->fixed.version =
        (uint8_t)(((unsigned)h->version_major << 4 & SHMLOG_HTTP_2_0) | h->version_minor);
    rec->fixed.backend = (uint16_t)r->backend_number;
    if (__builtin_expect(h->len > 0, 1)) {
        rec->line = req_log_line(h, p);
        rec->host = req_host(x);
        rec->referer = req_field(h, HTTP_F_REFERER);
        rec->agent = req_field(h, HTTP_F_USER_AGENT);
    } else {
        /* No head came whole: the connection ended, or its first line was malformed. */
        rec->line = rec->host = rec->referer = rec->agent = slice_of(NULL, 0);
    }
    return rec;
}

/* What the handshake said goes with each request of the connection. */
static void
req_log_secure(struct shmlog *log, struct shmlog_req *rec, const struct conn_secure *s)
{
    const char *const texts[SHMLOG_TLS_COUNT] = {
        [SHMLOG_TLS_version] = s->version,
        [SHMLOG_TLS_cipher] = s->cipher,
        [SHMLOG_TLS_reused] = s->resumed ? "r" : ".",
        [SHMLOG_TLS_server_name] = s->server_name,
        [SHMLOG_TLS_client_serial] = s->client_serial,
        [SHMLOG_TLS_client_fingerprint] = s->client_fingerprint,
        [SHMLOG_TLS_client_subject] = s->client_subject,
        [SHMLOG_TLS_client_issuer] = s->client_issuer,
    };
    char packed[SHMLOG_TLS_MAX];

    rec->tls = slice_of(packed, shmlog_tls_pack(packed, texts));
    tassert_slow(rec->tls.len <= sizeof(packed));
    shmlog_req_any(log, rec);
    rec->tls = slice_of(NULL, 0);
}

/* Any request that is no plain hit, or came by https: kept out of the code of the plain hit. */
static __attribute__((noinline, cold)) void
req_log_other(struct req *r, uint64_t took_us)
{
    const struct conn_secure *secure = r->x->conn->listener->secure;
    struct shmlog_req *rec;

    req_count(r, took_us);
    /* Where no key was made, nothing has looked at the scheme. */
    if (r->x->scheme == HTTP_SCHEME_HTTPS)
        r->log_flags |= SHMLOG_REQ_HTTPS;
    rec = req_log_fill(r, took_us);
    if (r->x->place != NULL)
        rec->ids.parent_xid = r->x->place->parent->xid;
    if (secure != NULL)
        req_log_secure(r->proxy->log, rec, secure);
    else
        shmlog_req_any(r->proxy->log, rec);
    rec->ids.parent_xid = 0; /* the record is the next request's */
}

void
req_log(struct req *r)
{
    struct proxy *p = r->proxy;
    uint64_t took_us = clock_read_us(&p->loop->clock) - r->x->start_us;

    tassert_slow(r->magic == REQ_MAGIC);
    if (__builtin_expect(shmlog_readers(p->log), 0))
        req_log_details(r);
    if (__builtin_expect(r->log_flags != SHMLOG_REQ_HIT || r->resp.status != 200, 0)) {
        req_log_other(r, took_us);
        return;
    }
    latency_add(&p->latency->row[LATENCY_hit], took_us);
    counter_add(p->counters, COUNTER_responses_hit_2xx, 1);
    shmlog_req(p->log, req_log_fill(r, took_us));
}
