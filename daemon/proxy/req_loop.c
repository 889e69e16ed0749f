/* req_loop.c -- a request that has been here before: 508, before it asks a backend or waits for itself.
 *
 * The cache is asked first, so a hit costs nothing and is served.  What came is looked at, not what a
 * policy made of it: no policy can hide a loop (RFC 8586 2). */
#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/http/cdn_loop.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/req_priv.h"

enum {
    /* Members of Via with our pseudonym, which other tarnds have too: more are a loop that lost its
     * CDN-Loop on the way. */
    LOOP_VIA_MAX = 8,
    LOOP_QUOTE_MAX = 255, /* bytes of each field in the log */
};

/* How often it was here. */
static unsigned
loop_count(const struct proxy *p, const struct http_message *came, bool hop)
{
    if (!http_has(came, HTTP_F_CDN_LOOP))
        return 0;
    return cdn_loop_count(came, p->loop_id) - (hop && cdn_loop_is_last(came, p->loop_id));
}

bool
req_was_here(const struct proxy *p, const struct http_message *came, bool hop)
{
    return loop_count(p, came, hop) > 0;
}

bool
req_loops(const struct proxy *p, const struct http_message *came, bool hop)
{
    const struct conf_params *params = &p->params;

    if (loop_count(p, came, hop) > (uint64_t)params->loop_limit)
        return true;
    return http_has(came, HTTP_F_VIA) &&
           cdn_loop_count_via(came, slice_str(params->http_via)) > LOOP_VIA_MAX;
}

static int
loop_quoted(struct slice s)
{
    return (int)(s.len < LOOP_QUOTE_MAX ? s.len : LOOP_QUOTE_MAX);
}

enum req_next
req_refuse_loop(struct req *r)
{
    const struct http_message *h = &r->x->head;
    const struct http_field *cdn = http_find(h, HTTP_F_CDN_LOOP, NULL);
    const struct http_field *f = cdn != NULL ? cdn : http_find(h, HTTP_F_VIA, NULL);
    struct slice host = http_host(h), url = http_path(h), value = http_value(h, f);
    char client[ADDRESS_TEXT_MAX];

    counter_add(r->proxy->counters, COUNTER_req_loop, 1);
    address_text(r->x->conn->client_addr, client);
    elog(ELOG_WARN, "loop: status=508 client=%s host=%.*s url=%.*s %s=\"%.*s\"", client,
        loop_quoted(host), host.ptr, loop_quoted(url), url.ptr, cdn != NULL ? "cdn-loop" : "via",
        loop_quoted(value), value.ptr);
    return req_synth(r, 508, TERR_LOOP);
}
