/* req_esi.c -- a stored page that is put together for its client, and requests that are for such a page. */
#include "daemon/base/terr.h"
#include "daemon/http/conn_server.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/rep_esi.h"
#include "daemon/proxy/req_priv.h"

int
req_begin_esi(struct req *r)
{
    const struct esi_page_spec spec = {r->proxy, r->x, r->policy.esi_off};
    int err;

    tassert(r->entry != NULL && !r->head_sent && r->rep.filter == NULL);
    /* Its includes would be refused one by one (RFC 8470 5.2), in a page that looks good. */
    if (r->early && req_is_early(r))
        return TERR_AGAIN;
    if (r->resp.bodyless)
        return 0;
    err = rep_esi(&r->rep, &spec);
    return err != 0 ? err : req_begin_packed(r);
}

enum req_next
req_refuse_early_page(struct req *r)
{
    tassert(!r->head_sent && r->rep.filter == NULL);
    rep_forget(&r->rep);
    r->begun = false;
    r->resp = (struct exchange_response){.status = 0};
    r->x->extra_len = 0;
    r->log_flags &= ~(unsigned)(SHMLOG_REQ_HIT | SHMLOG_REQ_STALE);
    return req_refuse_early(r);
}

bool
req_esi(const struct req *r)
{
    unsigned number = 0;
    const struct conf_route *route;

    if (!snapshot_conf(registry_snapshot(r->proxy->registry))->has_esi)
        return false;
    route = req_route(r, &number);
    return route != NULL && route->esi != 0;
}

uint64_t
esi_next_xid(struct proxy *p)
{
    if (p->next_xid == 0)
        p->next_xid = conn_server_first_xid(CONN_NONE, p->loop->id, p->loop->clock.wall_ms);
    return ++p->next_xid;
}

/* As req_start_ruled(), where it is needed; but the client is known, and the request is woken and not run: it was
 * started by another one's run, however deep. */
void
req_start_include(struct proxy *p, struct exchange *x)
{
    const struct conf *conf = snapshot_conf(registry_snapshot(p->registry));
    struct req *r = req_open(p, x);
    int err = 0;

    if (r == NULL)
        return;
    r->log_flags = x->place->level * SHMLOG_REQ_LEVEL;
    /* It is read when its turn in the page comes: in a window all others would wait for that. */
    r->no_window = true;
    if (conf->routes_act)
        err = req_take_rules(r, true);
    if (err != 0)
        req_synth(r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), err);
    else if (conf->nlimits > 0)
        req_check_limits(r);
    req_note_early(r);
    /* As there. */
    if (r->state == REQ_RECV && req_rules(r) != NULL)
        r->state = REQ_ADMIT;
    task_wake(&r->task);
}
