/* fetch_log.c -- what a fetch says in the shared-memory log while it has a reader of details.
 *
 * Its chunks bear the id of the request that it was started for, and the kind FETCH.  Nothing here
 * runs without a reader (fetch_is_logged).
 */
#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_priv.h"

static const char *
fetch_log_why(const struct fetch *f)
{
    if (f->kind == FETCH_PASS)
        return "pass";
    if (f->kind == FETCH_REST)
        return "rest";
    /* Varnish's words, which its users search for. */
    return f->listener.ops != NULL ? "fetch" : "bgfetch";
}

void
fetch_log_begin(const struct fetch *f)
{
    shmlog_begin(f->proxy->log, f->xid, SHMLOG_KIND_FETCH, 0);
    shmlog_text(f->proxy->log, SHMLOG_Begin, slice_str(fetch_log_why(f)));
    shmlog_end(f->proxy->log);
}

/* With f->conn: whether it was reused is the connection's to say. */
void
fetch_log_request(const struct fetch *f)
{
    const struct http_message *m = &f->request;
    struct shmlog *log = f->proxy->log;

    shmlog_begin(log, f->xid, SHMLOG_KIND_FETCH, 0);
    shmlog_text(log, SHMLOG_Backend, slice_str(f->conf->name));
    shmlog_printf(log, SHMLOG_BackendOpen, "%s %s %s", f->conf->name, f->conf->address.text,
        fetch_exchange(f)->reused ? "reused" : "new");
    shmlog_text(log, SHMLOG_BereqMethod, http_slice(m, m->method_off, m->method_len));
    shmlog_text(log, SHMLOG_BereqURL, http_path(m));
    shmlog_field(log, SHMLOG_BereqHeader, SLICE_LIT("Host"), http_host(m));
    for (unsigned i = 0; i < m->nfields; i++)
        shmlog_field(
            log, SHMLOG_BereqHeader, http_name(m, &m->fields[i]), http_value(m, &m->fields[i]));
    shmlog_end(log);
}

/* As it came, before the route and the policy change it. */
void
fetch_log_response(const struct fetch *f, const struct http_message *head)
{
    struct shmlog *log = f->proxy->log;

    shmlog_begin(log, f->xid, SHMLOG_KIND_FETCH, 0);
    shmlog_text(log, SHMLOG_BerespProtocol, http_version_text(head));
    shmlog_num(log, SHMLOG_BerespStatus, head->status);
    shmlog_text(log, SHMLOG_BerespReason, http_slice(head, head->reason_off, head->reason_len));
    for (unsigned i = 0; i < head->nfields; i++)
        shmlog_field(log, SHMLOG_BerespHeader, http_name(head, &head->fields[i]),
            http_value(head, &head->fields[i]));
    shmlog_end(log);
}

void
fetch_log_verdict(const struct fetch *f, const struct fresh_verdict *v)
{
    struct shmlog *log = f->proxy->log;

    shmlog_begin(log, f->xid, SHMLOG_KIND_FETCH, 0);
    if (fetch_is_shared(f) && v->storable)
        shmlog_printf(log, SHMLOG_TTL, "%lld %lld %lld %s", (long long)v->ttl_ms,
            (long long)v->grace_ms, (long long)v->keep_ms, fresh_origin_name(v->origin));
    else
        shmlog_printf(log, SHMLOG_TTL, "not stored: %s",
            !fetch_is_shared(f) ? "it was passed" : fresh_refusal_text(v->refusal));
    shmlog_end(log);
}

void
fetch_log_end(const struct fetch *f)
{
    struct shmlog *log = f->proxy->log;

    shmlog_begin(log, f->xid, SHMLOG_KIND_FETCH, 0);
    if (f->body != NULL)
        shmlog_num(log, SHMLOG_Length, stobj_len(f->body));
    if (f->attempt.err != 0)
        shmlog_text(log, SHMLOG_FetchError, slice_str(terr_text(f->attempt.err)));
    /* The clock is read anew: that of the turn may be as old as the turn is long. */
    shmlog_num(log, SHMLOG_End, clock_read_us(&f->proxy->loop->clock) - f->start_us);
    shmlog_end(log);
}
