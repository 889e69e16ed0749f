/* policy_purge.c -- purge by URL: the key that a GET for it would have, as `why` finds it. */
#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/why/synthetic.h"
#include "daemon/why/why.h"

/* As a request would go: vcl_recv, again where it restarts, in the policy that a label stands for; then
 * vcl_hash.  0, or TERR_SYNTAX and *why. */
static int
purge_make_key(struct policies *ps, struct synthetic_request *w, const char **why)
{
    struct req *r = &w->req;
    enum vcl_action act = VCL_ACT_HASH;
    struct policy_tag *tag;
    bool again = r->policy.ref != NULL;
    int err;

    if (!again) {
        *why = "the url's host is not valid";
        err = req_make_key(r) == 0 ? 0 : TERR_SYNTAX;
        r->key = hash_bytes(w->proxy.key_text, r->key_len);
        return err;
    }
    while (again) {
        /* A policy that restarts without end is stopped as it is on a request. */
        tassert(r->policy.restarts <= w->proxy.params.max_restarts);
        /* That of the round before. */
        r->policy.key = slice_of(NULL, 0);
        err = req_policy_ask(r, &act);
        *why = err == TERR_POLICY ? "vcl_hash failed for this url" : "the url's host is not valid";
        if (err != 0)
            return TERR_SYNTAX;
        again = act == VCL_ACT_RESTART && r->policy.restarts++ < w->proxy.params.max_restarts;
        if (act != VCL_ACT_VCL)
            continue;
        tag =
            policies_find_label(ps, vcl_label_name(r->policy.ref->policy->vcl, w->proxy.run.label));
        *why = "vcl_recv goes to a label that is gone";
        if (tag == NULL)
            return TERR_SYNTAX;
        synthetic_take_policy(w, tag->policy);
        again = true;
    }
    *why = "vcl_hash failed for this url";
    return synthetic_finish_key(w, act) ? 0 : TERR_SYNTAX;
}

/* On the management thread, within one turn.  What it removes is under one key: all variants of
 * it, of every client. */
int
policies_purge_url(struct policies *ps, struct slice url, const struct why_field *fields,
    unsigned nfields, bool soft, unsigned *how_many, const char **why)
{
    struct synthetic_request *w;
    struct req *r;
    int err = synthetic_new(&w, ps, url, why);

    if (err != 0)
        return err;
    tassert(ps->cache != NULL); /* only a check of a configuration has none */
    r = &w->req;
    for (unsigned i = 0; i < nfields && err == 0; i++)
        err = synthetic_set(w, fields[i].name, fields[i].value);
    if (err != 0) {
        *why = err == TERR_SYNTAX ? "a field's name or value is not valid" : NULL;
        synthetic_free(&w);
        return err;
    }
    /* Before vcl_recv, as on a request: what a route strips is no part of the key. */
    err = synthetic_admit(w);
    if (err != 0) {
        *why = err == TERR_SYNTAX
                   ? "backends may read the url's path as that of another route: requests "
                     "for it are answered 400, and nothing is stored"
                   : NULL;
        synthetic_free(&w);
        return err;
    }
    err = purge_make_key(ps, w, why);
    /* Only now: nothing is purged for a url that has no key of its own. */
    if (err == 0)
        *how_many =
            soft ? cache_purge_soft(ps->cache, &r->key, (int64_t)w->loop.clock.mono_ms, 0, -1, -1)
                 : cache_purge(ps->cache, &r->key);
    synthetic_free(&w);
    return err;
}
