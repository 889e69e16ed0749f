/* synthetic.c -- a request that no client sent. */
#include "daemon/why/synthetic.h"

#include <stdlib.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/http/token.h"
#include "daemon/http/uri.h"

static void
synthetic_local(struct exchange *x, uint8_t addr[16], uint16_t *port)
{
    (void)x;
    memset(addr, 0, 16);
    *port = 0;
}

/* No other operation: a policy reads of the exchange, and a call that would send something ends
 * in a NULL pointer here, at once. */
static const struct exchange_ops synthetic_ops = {.local = synthetic_local};

/* "http://HOST/PATH", or https, into its parts; the path may be missing.
 * The result refers to `url`, which must outlive the request's making. */
static int
synthetic_split(
    struct slice url, struct slice *host, struct slice *path, bool *https, const char **why)
{
    const char *slash;
    size_t at;

    *why = "the url must be absolute, as http://www.example.com/page";
    *https = url.len > 8 && strncasecmp(url.ptr, "https://", 8) == 0;
    at = *https ? 8 : 7;
    if (url.len <= at || (!*https && strncasecmp(url.ptr, "http://", 7) != 0) ||
        /* Offsets into a head have 16 bits, and host and path are both in it. */
        url.len > LIMIT_HEAD_BYTES / 2)
        return TERR_SYNTAX;
    *host = slice_of(url.ptr + at, url.len - at);
    slash = memchr(host->ptr, '/', host->len);
    /* RFC 9110 4.2.3: an empty path is "/". */
    *path = SLICE_LIT("/");
    if (slash != NULL) {
        *path = slice_of(slash, url.len - (size_t)(slash - url.ptr));
        host->len = (size_t)(slash - host->ptr);
    }
    if (!http_target_bytes_ok(*path)) {
        *why = "the url's path has a space or a byte that must be percent-encoded";
        return TERR_SYNTAX;
    }
    return 0;
}

/* GET path, Host: host, in one text.
 * The layout is what a parser would have left: method, one field, path; offsets count from the
 * method. */
static int
synthetic_make_request(struct synthetic_request *w, struct slice host, struct slice path)
{
    struct http_message *h = &w->x.head;
    char *text = arena_alloc(&w->x.arena, 7 + host.len + path.len);

    if (text == NULL)
        return TERR_NOMEM;
    /* Offsets into one text are all that a message needs: nothing is parsed. */
    memcpy(text, "GETHost", 7);
    memcpy(text + 7, host.ptr, host.len);
    memcpy(text + 7 + host.len, path.ptr, path.len);
    *h = (struct http_message){
        .base = text,
        .fields = &w->host,
        .present = HTTP_BIT(HTTP_F_HOST),
        .nfields = 1,
        .max_fields = 1,
        .len = (uint16_t)(7 + host.len + path.len),
        .version_major = 1,
        .version_minor = 1,
        .method = HTTP_M_GET,
        .method_len = 3,
        .path_off = (uint16_t)(7 + host.len),
        .path_len = (uint16_t)path.len,
        .authority_off = 7,
        .authority_len = (uint16_t)host.len,
    };
    w->host = (struct http_field){.name_off = 3,
        .name_len = 4,
        .value_off = 7,
        .value_len = (uint16_t)host.len,
        .id = HTTP_F_HOST};
    return 0;
}

static void
synthetic_set_clock(struct clock *clock)
{
    struct timespec now;

    /* No loop turns here: the clock is read once, and stands while the answer is made. */
    clock_gettime(CLOCK_REALTIME, &now);
    clock->wall_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock->mono_ms = (uint64_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
    clock->mono_us = (uint64_t)(now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

/* A URL does not say by which listener its request comes.  Where each without TLS redirects to https, it
 * is redirected. */
static bool
synthetic_is_redirected(const struct conf *conf)
{
    unsigned plain = 0;

    for (unsigned i = 0; i < conf->nlistens; i++) {
        if (conf->listens[i].tls.said)
            continue;
        if (strcmp(conf->listens[i].redirect, "https") != 0)
            return false;
        plain++;
    }
    return plain > 0;
}

/* Only what a policy reads is set: no storage, no origins.  A fetch from here would find them
 * NULL. */
static void
synthetic_join_world(struct synthetic_request *w, struct policies *ps)
{
    struct proxy *p = &w->proxy;
    struct req *r = &w->req;

    synthetic_set_clock(&w->loop.clock);
    p->magic = PROXY_MAGIC;
    p->params = policies_conf(ps)->params;
    p->loop = &w->loop;
    p->cache = ps->cache;
    p->loop_id = ps->loop_id;
    p->peers = ps->peers;
    p->registry = ps->registry;
    policy_prepare(p);
    /* From here on nothing of the policy has an effect: no ban, no purge, no turn of a director. */
    p->run_ctx.explains = true;
    w->x.ops = &synthetic_ops;
    w->listener = (struct conn_listener){
        .name = "", .endpoint = "", .to_https = synthetic_is_redirected(policies_conf(ps))};
    w->conn = (struct conn_facts){.listener = &w->listener, .is_unix = true};
    w->x.conn = &w->conn;
    w->x.start_us = w->loop.clock.mono_us;
    r->magic = REQ_MAGIC;
    r->proxy = p;
    r->x = &w->x;
    r->head = &w->x.head;
    r->policy.ban_error = "";
    r->policy.grace_ms = r->policy.max_age_ms = REQ_UNSAID;
    /* Uncounted: this is the management thread, which alone frees policies. */
    if (ps->active != NULL)
        synthetic_take_policy(w, ps->active);
}

/* What the policy logs goes to a private log.  A reader is attached, so the lines are recorded.
 * Without a reader attached a worker's log takes no details (shm/README): attaching is what
 * switches them on. */
static int
synthetic_open_log(struct synthetic_request *w)
{
    int err = shmlog_open(&w->proxy.log, NULL, 0, SHMLOG_RING_MIN);

    if (err == 0)
        err = shmlog_reader_open_here(&w->reader, w->proxy.log, SHMLOG_FROM_NOW);
    return err == 0 ? shmlog_attach(w->reader) : err;
}

/* What a policy may ask of its TLS.  The name is the host's, without a port (RFC 6066 3). */
static void
synthetic_secure(struct synthetic_request *w, struct slice host)
{
    const char *port = memrchr(host.ptr, ':', host.len);
    size_t len = port != NULL ? (size_t)(port - host.ptr) : host.len;

    if (len >= sizeof(w->server_name) || host.ptr[0] == '[')
        len = 0;
    for (size_t i = 0; i < len; i++)
        w->server_name[i] =
            (char)(host.ptr[i] >= 'A' && host.ptr[i] <= 'Z' ? host.ptr[i] + 32 : host.ptr[i]);
    w->secure = (struct conn_secure){.version = "TLSv1.3",
        .cipher = "TLS_AES_128_GCM_SHA256",
        .server_name = w->server_name,
        .protocol = "http/1.1",
        .client_subject = "",
        .client_issuer = "",
        .client_serial = "",
        .client_fingerprint = ""};
    w->listener.secure = &w->secure;
    w->x.scheme = HTTP_SCHEME_HTTPS;
}

/* On the management thread, within one turn: entries and policies that are found may be borrowed
 * until it ends. */
int
synthetic_new(
    struct synthetic_request **out, struct policies *ps, struct slice url, const char **why)
{
    struct slice host, path;
    struct synthetic_request *w;
    bool https;
    int err = synthetic_split(url, &host, &path, &https, why);

    if (err != 0)
        return err;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return TERR_NOMEM;
    arena_pool_init(&w->pool, 0, NULL);
    arena_init(&w->x.arena, &w->pool);
    err = synthetic_open_log(w);
    if (err == 0)
        err = synthetic_make_request(w, host, path);
    if (err != 0) {
        synthetic_free(&w);
        return err;
    }
    synthetic_join_world(w, ps);
    if (https)
        synthetic_secure(w, host);
    *out = w;
    return 0;
}

/* RFC 9110 7.8: Connection names the field. */
static bool
synthetic_asks_upgrade(const struct http_message *h)
{
    const struct http_field *f = http_find(h, HTTP_F_CONNECTION, NULL);
    struct http_list_iter it;
    struct slice member;

    if (f == NULL)
        return false;
    http_list_init(&it, http_value(h, f));
    while (http_list_next(&it, &member))
        if (slice_eq_nocase(member, SLICE_LIT("upgrade")))
            return true;
    return false;
}

/* In the request's own edit, as if the client had sent the field: vcl_recv sees it so. */
int
synthetic_set(struct synthetic_request *w, struct slice name, struct slice value)
{
    int err;

    /* As a client's field is refused when it is parsed. */
    if (!http_token_ok(name) || !http_value_ok(value))
        return TERR_SYNTAX;
    err = req_edit(&w->req);
    if (err == 0)
        err = message_edit_set(w->req.policy.req, name, http_field_id(name.ptr, name.len), value);
    if (err == 0)
        /* Asked anew with each field: Upgrade and Connection come one by one. */
        w->x.upgrade = http_has(w->req.head, HTTP_F_UPGRADE) && synthetic_asks_upgrade(w->req.head);
    return err;
}

/* As ADMIT, without limits and passwords: those are of the client. */
int
synthetic_admit(struct synthetic_request *w)
{
    int err = req_take_rules(&w->req, false);

    return err == 0 && req_rules(&w->req) != NULL ? req_apply_rules(&w->req) : err;
}

void
synthetic_take_policy(struct synthetic_request *w, struct policy *pol)
{
    /* A ref of its own: no worker counts this one. */
    w->ref = (struct policy_ref){.policy = pol, .users = 1};
    w->req.policy.ref = &w->ref;
    w->req.backend = pol->default_backend;
    w->req.policy.hinted = false;
}

/* vcl_hash runs here for outcomes that a request would reach without it (pass, synth): what is
 * stored under the key is shown in any case. */
bool
synthetic_finish_key(struct synthetic_request *w, enum vcl_action act)
{
    struct vcl_run said = w->proxy.run; /* what vcl_recv answered with */
    struct req *r = &w->req;
    int err = 0;

    /* req_policy_ask() has made it. */
    if (act == VCL_ACT_HASH)
        return true;
    if (r->policy.ref != NULL && !r->policy.ref->policy->hashes_as_builtin &&
        r->policy.key.ptr == NULL)
        err = req_policy_key(r);
    /* Status and reason of vcl_recv are still to be told. */
    w->proxy.run = said;
    if (err != 0)
        return false;
    if (r->policy.key.ptr != NULL) {
        r->key = hash_bytes(r->policy.key.ptr, r->policy.key.len);
        return true;
    }
    if (req_make_key(r) != 0)
        return false;
    r->key = hash_bytes(w->proxy.key_text, r->key_len);
    return true;
}

void
synthetic_free(struct synthetic_request **np)
{
    struct synthetic_request *w = *np;

    *np = NULL;
    /* Before the log that it reads. */
    if (w->reader != NULL)
        shmlog_reader_close(&w->reader);
    if (w->proxy.log != NULL)
        shmlog_close(&w->proxy.log);
    arena_fini(&w->x.arena);
    arena_pool_fini(&w->pool);
    free(w);
}
