/* policy_purge.c -- purge by URL: the key that a plain GET for it would have. */
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/http/token.h"
#include "daemon/http/uri.h"
#include "daemon/proxy/policies_priv.h"
#include "daemon/proxy/req_priv.h"

/* A request that nobody sent, for vcl_hash to look at. */
struct purge_world {
    struct loop loop;
    struct proxy proxy;
    struct exchange x;
    struct req req;
    struct http_field host;
};

static void
purge_local(struct exchange *x, uint8_t addr[16], uint16_t *port)
{
    (void)x;
    memset(addr, 0, 16);
    *port = 0;
}

static const struct exchange_ops purge_ops = {.local = purge_local};

/* "http://HOST/PATH" into its parts; the path may be missing. */
static int
purge_split(struct slice url, struct slice *host, struct slice *path, const char **why)
{
    const char *slash;

    *why = "the url must be absolute, as http://www.example.com/page";
    if (url.len < 8 || strncasecmp(url.ptr, "http://", 7) != 0 || url.len > LIMIT_HEAD_BYTES / 2)
        return TERR_SYNTAX;
    *host = slice_of(url.ptr + 7, url.len - 7);
    slash = memchr(host->ptr, '/', host->len);
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

/* GET path, Host: host, in one text. */
static int
purge_make_request(struct purge_world *w, struct slice host, struct slice path)
{
    struct http_head *h = &w->x.head;
    char *text = arena_alloc(&w->x.arena, 7 + host.len + path.len);

    if (text == NULL)
        return TERR_NOMEM;
    memcpy(text, "GETHost", 7);
    memcpy(text + 7, host.ptr, host.len);
    memcpy(text + 7 + host.len, path.ptr, path.len);
    *h = (struct http_head){
        .base = text,
        .fields = &w->host,
        .present = HTTP_BIT(HTTP_F_HOST),
        .nfields = 1,
        .max_fields = 1,
        .len = (uint16_t)(7 + host.len + path.len),
        .minor = 1,
        .method = HTTP_M_GET,
        .method_len = 3,
        .path_off = (uint16_t)(7 + host.len),
        .path_len = (uint16_t)path.len,
        .host_off = 7,
        .host_len = (uint16_t)host.len,
    };
    w->host = (struct http_field){.name_off = 3,
        .name_len = 4,
        .value_off = 7,
        .value_len = (uint16_t)host.len,
        .id = HTTP_F_HOST};
    return 0;
}

static int
purge_key(struct purge_world *w, struct policies *ps, struct hash128 *key, const char **why)
{
    static const struct exchange_conn conn = {"", ""};
    static const uint8_t nobody[16];
    struct policy_use use = {.policy = ps->active, .users = 1};
    struct req *r = &w->req;
    int err;

    w->proxy.magic = PROXY_MAGIC;
    w->proxy.params = policies_conf(ps)->params;
    w->proxy.loop = &w->loop;
    w->proxy.cache = ps->cache;
    w->proxy.bans = cache_bans(ps->cache);
    policy_prepare(&w->proxy);
    w->x.ops = &purge_ops;
    w->x.peer_addr = nobody;
    w->x.conn = &conn;
    r->magic = REQ_MAGIC;
    r->proxy = &w->proxy;
    r->x = &w->x;
    r->head = &w->x.head;
    r->policy.ban_error = "";
    if (ps->active != NULL && !ps->active->hashes_as_builtin) {
        r->policy.use = &use;
        if (req_policy_key(r) != 0) {
            *why = "vcl_hash failed for this url";
            return TERR_SYNTAX;
        }
        *key = hash_bytes(r->policy.key.ptr, r->policy.key.len);
        return 0;
    }
    err = req_make_key(r);
    *why = "the url's host is not valid";
    if (err == 0)
        *key = hash_bytes(w->proxy.key_text, r->key_len);
    return err == 0 ? 0 : TERR_SYNTAX;
}

int
policies_purge_url(
    struct policies *ps, struct slice url, bool soft, unsigned *how_many, const char **why)
{
    struct purge_world *w;
    struct arena_pool pool;
    struct slice host, path;
    struct hash128 key;
    struct timespec now;
    int err = purge_split(url, &host, &path, why);

    if (err != 0)
        return err;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return TERR_NOMEM;
    arena_pool_init(&pool, 0, NULL);
    arena_init(&w->x.arena, &pool);
    clock_gettime(CLOCK_REALTIME, &now);
    w->loop.clock.wall_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    clock_gettime(CLOCK_MONOTONIC, &now);
    w->loop.clock.mono_ms = (uint64_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
    err = shmlog_open(&w->proxy.log, NULL, 0, SHMLOG_RING_MIN); /* for what the policy logs */
    if (err == 0)
        err = purge_make_request(w, host, path);
    if (err == 0)
        err = purge_key(w, ps, &key, why);
    if (err == 0)
        *how_many =
            soft ? cache_purge_soft(ps->cache, &key, (int64_t)w->loop.clock.mono_ms, 0, -1, -1)
                 : cache_purge(ps->cache, &key);
    if (w->proxy.log != NULL)
        shmlog_close(&w->proxy.log);
    arena_fini(&w->x.arena);
    arena_pool_fini(&pool);
    free(w);
    return err;
}
