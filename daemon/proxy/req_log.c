/* req_log.c -- one record in the shared-memory log for each request that is over. */
#include "daemon/base/terr.h"
#include "daemon/proxy/req_priv.h"

static struct slice
req_field(const struct http_head *h, enum http_field_id id)
{
    const struct http_field *f = http_has(h, id) ? http_find(h, id, NULL) : NULL;

    return f == NULL ? slice_of(NULL, 0) : http_value(h, f);
}

/* Subroutines whose answer was known without running them: said here, so that who reads the log
 * sees the whole way. */
static void
req_log_trivial(const struct req *r)
{
    const struct policy *pol = r->policy.use->policy;
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
    const struct http_head *h = &x->head;

    return x->err == 0 && h->base[h->target_off] == '/' ? http_host(h) : req_field(h, HTTP_F_HOST);
}

void
req_log(struct req *r)
{
    const struct exchange *x = r->x;
    const struct http_head *h = &x->head;
    struct proxy *p = r->proxy;
    uint64_t took_us = clock_read_us(&p->loop->clock) - x->start_us;
    struct shmlog_req *rec = &p->log_req;

    rec->ids.xid = x->xid;
    rec->fixed.start_ms = p->loop->clock.wall_ms - (int64_t)(took_us < 1000 ? 0 : took_us / 1000);
    rec->fixed.bytes_in = h->len;
    rec->fixed.body_bytes = r->accepted;
    rec->fixed.head_bytes = (uint32_t)(r->head_sent ? r->resp.block.len + x->extra_len : 0);
    rec->fixed.duration_us = (uint32_t)took_us;
    rec->fixed.flags = r->log_flags;
    memcpy(rec->fixed.addr, x->peer_addr, sizeof(rec->fixed.addr));
    rec->fixed.port = x->peer_port;
    rec->fixed.status = (uint16_t)r->resp.status;
    rec->fixed.method = h->method;
    rec->fixed.minor = h->minor;
    rec->fixed.backend = (uint16_t)r->backend_number;
    rec->line = rec->host = rec->referer = rec->agent = slice_of(NULL, 0);
    if (h->len > 0) {
        rec->line =
            http_slice(h, h->method_off, (uint16_t)(h->target_off + h->target_len - h->method_off));
        rec->host = req_host(x);
        rec->referer = req_field(h, HTTP_F_REFERER);
        rec->agent = req_field(h, HTTP_F_USER_AGENT);
    }
    shmlog_req(p->log, rec);
    if (!shmlog_readers(r->proxy->log))
        return;
    shmlog_begin(r->proxy->log, x->xid, SHMLOG_KIND_REQ, 0);
    if (r->err != 0)
        shmlog_text(r->proxy->log, SHMLOG_Error, slice_str(terr_text(r->err)));
    if (r->policy.use != NULL)
        req_log_trivial(r);
    for (unsigned i = 0; i < h->nfields; i++)
        shmlog_field(r->proxy->log, SHMLOG_ReqHeader, http_name(h, &h->fields[i]),
            http_value(h, &h->fields[i]));
    shmlog_end(r->proxy->log);
}
