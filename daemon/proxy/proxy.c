/* proxy.c -- what the requests of a worker share: parameters in force, and memory for the next ones. */
#include "daemon/proxy/proxy.h"

#include <stdio.h>

#include "daemon/http/field_line.h"
#include "daemon/proxy/req_priv.h"

void
req_free_memory(struct req *r)
{
    struct usage *usage = &r->proxy->loop->usage;

    /* The page is the storage's, and only this memory refers to it. */
    if (r->page != NULL)
        stobj_unref(&r->page);
    usage_free(usage, USAGE_REQUEST, r);
}

void
proxy_init(struct proxy *p, const struct conf *conf)
{
    int n;

    p->magic = PROXY_MAGIC;
    p->forwards = proxy_forwards_of(conf->params.forwarded);
    p->params = conf->params;
    p->says_ids = p->params.request_id_header[0] != '\0' || p->params.http_x_varnish;
    /* Put together once: a hit copies it in one piece. */
    n = snprintf(p->hit_text, sizeof(p->hit_text),
        FIELD_NAME("Cache-Status") "%s; hit; ttl=", conf->params.http_via);
    tassert(n > 0 && (size_t)n < sizeof(p->hit_text));
    p->hit_line = slice_of(p->hit_text, (size_t)n);
    list_init(&p->fetches);
}

bool
proxy_is_idle(const struct proxy *p)
{
    return p->nreqs == 0 && p->nfetches == 0 && recode_is_idle(&p->recode);
}

/* Of a worker, of a kind.  To pack takes 230 kB each, to unpack 98 kB and rooms of 16 to 64; charged. */
enum {
    CODECS_MOST = 1024
};

struct codec *
proxy_codec(struct proxy *p, enum codec_kind kind, unsigned most)
{
    if (p->codecs == NULL)
        p->codecs = codec_pool_new(&p->loop->usage, CODECS_MOST);
    if (p->codecs == NULL || codec_pool_used(p->codecs, kind) >= most)
        return NULL;
    return codec_new(p->codecs, kind);
}

/* Memory of ended requests only: none of them is on a list of the loop. */
static void
proxy_trim_to(struct proxy *p, unsigned keep)
{
    while (p->nidle_reqs > keep) {
        struct req *r = p->idle_reqs;

        p->idle_reqs = r->next_idle;
        p->nidle_reqs--;
        req_free_memory(r);
    }
    tassert((p->nidle_reqs == 0) == (p->idle_reqs == NULL));
}

void
proxy_trim(struct proxy *p)
{
    OBJ_CHECK(p, PROXY_MAGIC);
    proxy_trim_to(p, p->nidle_reqs / 2);
    if (p->codecs != NULL)
        codec_pool_trim(p->codecs, 0);
}

void
proxy_fini(struct proxy *p)
{
    OBJ_CHECK(p, PROXY_MAGIC);
    tassert(proxy_is_idle(p));
    tassert(list_empty(&p->fetches));
    policy_leave_all(p); /* behind the last request: each has its use of one */
    proxy_trim_to(p, 0);
    if (p->codecs != NULL)
        codec_pool_free(&p->codecs);
    OBJ_BURY(p);
}

exchange_start_f *
req_start_of(const struct conf *conf, bool early)
{
    /* Clients'; of nodes of the fleet see req_start_peered(). */
    if (conf->routes_act || conf->listens_act)
        return req_start_ruled;
    return early || conf->trusted_proxies.set.n > 0 || conf->nlimits > 0 ? req_start_checked
                                                                         : req_start;
}
