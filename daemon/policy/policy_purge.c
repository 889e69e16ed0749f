/* policy_purge.c -- purge by URL: the key that a GET for it would have, as `why` finds it. */
#include "daemon/base/terr.h"
#include "daemon/why/synthetic.h"

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

/* On the management thread, within one turn.  It is one key: of all variants, of every client. */
int
policies_resolve(void *ctx, const struct invalidation *inv, struct hash128 *key, const char **why)
{
    struct policies *ps = ctx;
    struct synthetic_request *w;
    int err = synthetic_new(&w, ps, inv->text, why);

    if (err != 0)
        return err;
    tassert(ps->cache != NULL); /* only a check of a configuration has none */
    for (unsigned i = 0; i < inv->nfields && err == 0; i++)
        err = synthetic_set(w, inv->fields[i].name, inv->fields[i].value);
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
    if (err == 0)
        *key = w->req.key;
    synthetic_free(&w);
    return err;
}
