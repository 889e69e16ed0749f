/* proxy.h -- one worker's proxy: what its requests and fetches share.
 *
 * Threads: one worker's, but for what the members' own headers share.
 */
#ifndef TARN_PROXY_H
#define TARN_PROXY_H

#include "conf/conf.h"
#include "daemon/base/loop.h"
#include "daemon/cache/cache.h"
#include "daemon/http/exchange.h"
#include "daemon/http/uri.h"
#include "daemon/origin/origin.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/log.h"
#include "storage/storage.h"

struct fetch;
struct req;

struct proxy_host {
    size_t len, normal_len; /* len 0: none yet */
    char text[HTTP_AUTHORITY_MAX], normal[HTTP_AUTHORITY_MAX];
};

#define PROXY_MAGIC OBJ_TAG('p', 'r', 'o', 'x')
struct proxy {
    uint32_t magic;
    unsigned nreqs, nfetches;
    struct list fetches; /* under way */
    struct loop *loop;
    const struct conf *conf;
    struct cache *cache;
    struct storage *storage; /* bodies and heads */
    struct storage *synth;   /* answers of our own */
    uint64_t storage_bytes;
    struct origins *origins;
    struct counter_set *counters;
    struct shmlog *log;
    void (*on_idle)(void *ctx); /* draining: the last request or fetch has gone */
    void *on_idle_ctx;
    struct slice hit_line; /* what Cache-Status begins with on a hit; in hit_text */
    char hit_text[96];
    struct req *idle_reqs; /* memory of ended requests */
    unsigned nidle_reqs;
    struct proxy_host last_host;
    char key_text[HTTP_AUTHORITY_MAX + 8 + LIMIT_HEAD_BYTES]; /* of the lookup under way */
};

/* Borrows conf until proxy_fini(). */
void proxy_init(struct proxy *p, const struct conf *conf);
/* Ends every fetch: nobody is left who waits. */
void proxy_cut(struct proxy *p);
bool proxy_is_idle(const struct proxy *p);
void proxy_fini(struct proxy *p);

/* exchange_start_f; ctx is the proxy. */
void req_start(void *ctx, struct exchange *x);

#endif
