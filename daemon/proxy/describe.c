/* describe.c -- what a panic says of the request and the fetch that ran. */
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_priv.h"
#include "daemon/proxy/req_priv.h"

_Thread_local struct proxy_here proxy_here;

static void
describe_message(const struct http_message *m)
{
    /* A request that failed while it was read has no head. */
    if (m == NULL || m->base == NULL)
        return;
    tassert_say_text("method", m->base + m->method_off, m->method_len);
    tassert_say_text("host", m->base + m->authority_off, m->authority_len);
    tassert_say_text("path", m->base + m->path_off, m->path_len);
}

/* By the time of the turn: a panic reads no clock. */
static long long
describe_age_ms(const struct proxy *p, uint64_t start_us)
{
    return (long long)(p->loop->clock.mono_us - start_us) / 1000;
}

/* Runs in a panic, so nothing is taken for granted: after a stray write each pointer may be wrong,
 * and the magic is looked at before any of them is followed. */
static void
describe_req(const struct req *r)
{
    const struct exchange *x = r->x;
    char client[ADDRESS_TEXT_MAX] = "";

    if (r->magic != REQ_MAGIC) {
        tassert_say("request at %p: its magic is %08x", (const void *)r, r->magic);
        return;
    }
    tassert_say("request in state %s: error %s, backend %s, %llu body bytes accepted",
        req_state_name(r->state), terr_name(r->attempt.err),
        r->backend != NULL ? director_name(r->backend) : "none", (unsigned long long)r->accepted);
    /* Released already: the rest is the exchange's. */
    if (x == NULL)
        return;
    if (x->conn != NULL)
        address_text(x->conn->client_addr, client);
    tassert_say("  id %llu, age %lld ms, client %s port %u, connection %llu%s",
        (unsigned long long)x->xid, describe_age_ms(r->proxy, x->start_us), client,
        x->conn != NULL ? (unsigned)x->conn->client_port : 0,
        x->conn != NULL ? (unsigned long long)x->conn->session : 0, x->gone ? ", gone" : "");
    describe_message(r->head != NULL ? r->head : &x->head);
}

static void
describe_fetch(const struct fetch *f)
{
    /* As with the request: nothing of it is read if it is none. */
    if (f->magic != FETCH_MAGIC) {
        tassert_say("fetch at %p: its magic is %08x", (const void *)f, f->magic);
        return;
    }
    tassert_say(
        "fetch in state %s: error %s, retries %u, backend %s, for request %llu, age %lld ms",
        fetch_state_name(f->state), terr_name(f->attempt.err), f->attempt.address,
        f->backend != NULL ? backend_full_name(f->backend) : "none", (unsigned long long)f->xid,
        describe_age_ms(f->proxy, f->start_us));
    describe_message(&f->req);
}

/* Both may be set: a fetch's step may call its request's listener. */
void
proxy_describe(void)
{
    if (proxy_here.req != NULL)
        describe_req(proxy_here.req);
    if (proxy_here.fetch != NULL)
        describe_fetch(proxy_here.fetch);
}
