/* vcl_query.c -- what a policy does, without running it.
 *
 * Decided at the load, so the core may ask for each request: whether a sub need be run at all,
 * and which messages it may change.  All of these may be called by any thread.
 */
#include "vcl-lite/vcl_code.h"

#include "daemon/base/obj.h"

bool
vcl_is_trivial(const struct vcl *v, enum vcl_sub sub, enum vcl_action *out)
{
    OBJ_CHECK(v, VCL_MAGIC);
    if (v->subs[sub].entry == UINT32_MAX) {
        /* A sub that is nowhere: a text without builtin.vcl need not have each. */
        *out = VCL_ACT_NONE;
        return true;
    }
    *out = v->subs[sub].action;
    return v->subs[sub].trivial;
}

/* Decided at the load: then the core makes the key itself, without a run. */
bool
vcl_hashes_as_builtin(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    return v->hashes_as_builtin;
}

bool
vcl_reads_hits(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    return v->reads_hits;
}

bool
vcl_reads_tls(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    return v->reads_tls;
}

bool
vcl_touches(const struct vcl *v, enum vcl_sub sub, enum vcl_http http)
{
    OBJ_CHECK(v, VCL_MAGIC);
    /* Collected when the code was made, with all that it calls. */
    return (v->subs[sub].touches & 1u << http) != 0;
}

void
vcl_place(const struct vcl *v, unsigned n, struct vcl_place *out)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nplaces);
    *out = v->places[n];
}

/* A walk over all code: for a load or a report, not for a request. */
bool
vcl_calls(const struct vcl *v, unsigned fn)
{
    OBJ_CHECK(v, VCL_MAGIC);
    for (uint32_t i = 0; i < v->ncode; i++)
        if (v->code[i].op == VCL_OP_FUNC && v->code[i].b == fn)
            return true;
    return false;
}

bool
vcl_calls_at(const struct vcl *v, unsigned fn, struct vcl_place *out)
{
    struct vcl_place at = {.file = "", .sub = ""};

    OBJ_CHECK(v, VCL_MAGIC);
    for (uint32_t i = 0; i < v->ncode; i++) {
        if (v->code[i].op == VCL_OP_TRACE)
            /* The last trace before it: the line of its statement or block. */
            at = v->places[v->code[i].c];
        if (v->code[i].op == VCL_OP_FUNC && v->code[i].b == fn) {
            *out = at;
            return true;
        }
    }
    return false;
}

bool
vcl_is_literal(const struct vcl *v, struct slice text)
{
    OBJ_CHECK(v, VCL_MAGIC);
    for (uint32_t i = 0; i < v->nconsts; i++)
        /* By address: a literal lives as long as the policy, an equal text of a run does not. */
        if (v->consts[i].s == text.ptr && v->consts[i].len == text.len)
            return true;
    return false;
}
