/* policy_purge.c -- purge by URL: the key that a plain GET for it would have. */
#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/proxy/nobody.h"
#include "daemon/proxy/why.h"

int
policies_purge_url(struct policies *ps, struct slice url, const struct why_field *fields,
    unsigned nfields, bool soft, unsigned *how_many, const char **why)
{
    struct nobody *w;
    struct req *r;
    int err = nobody_new(&w, ps, url, why);

    if (err != 0)
        return err;
    r = &w->req;
    for (unsigned i = 0; i < nfields && err == 0; i++)
        err = nobody_set(w, fields[i].name, fields[i].value);
    if (err == 0)
        err = nobody_admit(w);
    if (err != 0) {
        *why = err == TERR_SYNTAX ? "a field's name or value is not valid" : NULL;
        nobody_free(&w);
        return err;
    }
    if (ps->active != NULL && !ps->active->hashes_as_builtin) {
        *why = "vcl_hash failed for this url";
        err = req_policy_key(r) == 0 ? 0 : TERR_SYNTAX;
        r->key = hash_bytes(r->policy.key.ptr, r->policy.key.len);
    } else {
        *why = "the url's host is not valid";
        err = req_make_key(r) == 0 ? 0 : TERR_SYNTAX;
        r->key = hash_bytes(w->proxy.key_text, r->key_len);
    }
    if (err == 0)
        *how_many =
            soft ? cache_purge_soft(ps->cache, &r->key, (int64_t)w->loop.clock.mono_ms, 0, -1, -1)
                 : cache_purge(ps->cache, &r->key);
    nobody_free(&w);
    return err;
}
