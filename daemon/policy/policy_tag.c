/* policy_tag.c -- tarn.tag and tarn.purge_tag. */
#include "daemon/base/terr.h"
#include "daemon/cache/invalidation.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/http/tags.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/fetch_policy.h"
#include "daemon/proxy/req.h"

/* In words, with a space between them: what is stored of them else is hashes. */
static int
tag_keep_text(struct fetch *f, struct slice more)
{
    struct slice had = f->vcl->at.tag_text;
    char *text = arena_alloc(&f->arena, had.len + more.len + 2);

    if (text == NULL)
        return TERR_NOMEM;
    if (had.len > 0) {
        memcpy(text, had.ptr, had.len);
        text[had.len] = ' ';
    }
    memcpy(text + had.len + (had.len > 0), more.ptr, more.len);
    f->vcl->at.tag_text = slice_of(text, had.len + (had.len > 0) + more.len);
    return 0;
}

int
policy_tag(struct vcl_run *r, const struct vcl_value *args)
{
    struct policy_ctx *ctx = r->ctx;
    struct fetch *f = ctx->fetch;

    tassert(f != NULL); /* the compiler has refused it on the client's side */
    if (f->vcl->at.tags == NULL) {
        /* Of this attempt: a retry begins without tags (proxy/README 42). */
        f->vcl->at.tags = arena_alloc(&f->arena, sizeof(*f->vcl->at.tags));
        if (f->vcl->at.tags == NULL)
            return TERR_NOMEM;
        tags_init(f->vcl->at.tags);
    }
    tags_add(f->vcl->at.tags, policy_string(&args[0]), TAG_SPACES | TAG_COMMAS);
    if (f->proxy->peers != NULL && tag_keep_text(f, policy_string(&args[0])) != 0)
        return TERR_NOMEM;
    return 0;
}

/* One more than may be is enough to know that there are too many. */
static unsigned
policy_count_tags(struct slice text)
{
    struct slice tag;
    unsigned n = 0;

    while (n <= TAG_PURGE_MAX && tag_next(&text, TAG_SPACES | TAG_COMMAS, &tag))
        n++;
    tassert(n <= TAG_PURGE_MAX + 1);
    return n;
}

/* How many there are is known when everything has been looked at, and a run does not wait for that:
 * it gets the number of tags that are purged. */
int
policy_purge_tag(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out)
{
    struct policy_ctx *ctx = r->ctx;
    struct invalidation inv = {.kind = INVALIDATION_TAGS, .soft = args[1].i != 0};
    struct slice rest = policy_string(&args[0]), *tags;
    unsigned n = policy_count_tags(rest);
    struct invalidation_result done = {.wait = NULL};
    int err;

    out->i = ctx->explains ? (int64_t)n : 0;
    /* vcl_init has no cache to purge. */
    if (n == 0 || ctx->proxy == NULL || ctx->explains)
        return 0;
    if (policy_is_early(ctx))
        return policy_fail(r, "a purge in early data");
    tags = arena_alloc(r->arena, n * sizeof(*tags));
    if (tags == NULL)
        return TERR_NOMEM;
    for (unsigned i = 0; i < n; i++) {
        bool more = tag_next(&rest, TAG_SPACES | TAG_COMMAS, &tags[i]);

        tassert(more); /* they were counted in the same text */
    }
    inv.tags = tags;
    inv.ntags = n;
    err = invalidation_make(ctx->proxy->cache, &inv, ctx->clock, &done);
    if (err == 0 && ctx->req != NULL)
        req_note_purge(ctx->req, &done);
    out->i = err == 0 ? (int64_t)n : -1;
    if (err != 0)
        elog(ELOG_WARN, "policy %s: tarn.purge_tag(): %s", ctx->policy->name,
            err == TERR_INVALID ? "more tags, or longer ones, than a purge takes" : terr_text(err));
    return 0;
}
