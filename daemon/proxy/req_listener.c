/* req_listener.c -- what a fetch says to the request that started it, and what it asks of it. */
#include "daemon/base/terr.h"
#include "daemon/origin/origin.h"
#include "daemon/proxy/req_priv.h"

static struct req *
req_of_fetch(void *ctx)
{
    struct req *r = ctx;

    /* fetch_has_listener() was asked before, so the request is there: it abandons the entry before
     * it goes. */
    OBJ_CHECK(r, REQ_MAGIC);
    tassert(r->x != NULL && r->attempt.leader);
    return r;
}

static void
req_on_backend(void *ctx, unsigned number)
{
    struct req *r = ctx; /* while it starts the fetch, too: it leads from then on */

    OBJ_CHECK(r, REQ_MAGIC);
    r->backend_number = number;
}

/* The exchange copies it: the message is in the fetch's arena. */
static void
req_on_interim(void *ctx, const struct http_message *m)
{
    struct exchange *x = req_of_fetch(ctx)->x;

    x->ops->interim(x, m);
}

static void
req_on_tunnel(void *ctx, struct origin_conn *conn)
{
    struct req *r = req_of_fetch(ctx);

    tassert(r->tunnel == NULL);
    r->tunnel = conn;
    /* What comes on the connection wakes the request from now on, not the fetch, which ends. */
    origin_exchange(conn)->task = &r->task;
}

static bool
req_on_expect(void *ctx)
{
    return req_expect(req_of_fetch(ctx));
}

static int
req_on_gather(void *ctx)
{
    return req_gather_upload(req_of_fetch(ctx));
}

static struct stobj *
req_on_upload(void *ctx)
{
    struct req *r = req_of_fetch(ctx);

    if (r->upload == NULL && req_open_upload(r) != 0)
        return NULL;
    task_wake(&r->task); /* to read on */
    /* A reference of the fetch's own: the request may end first, and fails the object then. */
    return stobj_ref(r->upload);
}

static const struct fetch_listener_ops req_listener_ops = {
    .backend = req_on_backend,
    .interim = req_on_interim,
    .tunnel = req_on_tunnel,
    .expect = req_on_expect,
    .gather = req_on_gather,
    .upload = req_on_upload,
};

struct fetch_listener
req_listener(struct req *r)
{
    return (struct fetch_listener){&req_listener_ops, r};
}

void
req_share_rules(const struct req *r, struct fetch_spec *spec)
{
    const struct req_rules *rules = req_rules(r);

    spec->compress = req_compress(r);
    spec->esi = req_esi(r);
    if (spec->esi) /* a part of such a page is of no use */
        spec->nranges = 0;
    if (rules == NULL)
        return;
    /* Borrowed: fetch_init() holds it for as long as the fetch lives. */
    spec->snapshot = rules->snapshot;
    spec->route = rules->route;
}
