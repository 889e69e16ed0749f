/* admin_tags.c -- purges by tag, and of everything: answered when everything has been looked at. */
#include <stdlib.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/cache/invalidation.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/http/tags.h"

static void
tags_leave(struct admin_call *c)
{
    struct tag_purge *p = c->waits;

    /* The ban stays in the list, and the walk goes on: only nothing is woken any more. */
    tag_purge_end(c->admin->env.cache, p);
    free(p);
    c->waits = NULL;
}

/* The task is woken for other reasons, too. */
static void
tags_resume(struct admin_call *c)
{
    uint64_t how_many;
    json_t *o;

    if (!tag_purge_is_done(c->waits, &how_many))
        return;
    o = json_object();
    json_put(o, "purged", json_integer((json_int_t)how_many));
    admin_answer_logged(c, 200, o);
}

static void
tags_refuse(struct admin_call *c, int err)
{
    if (err == TERR_INVALID)
        admin_fail(c, 400, "as in {\"tags\": [\"shoes\", \"brand 7\"]}",
            "a purge takes 1 to %d tags, each of 1 to %d bytes, %d together", TAG_PURGE_MAX,
            TAGS_BYTES_MAX, TAG_PURGE_TEXT_MAX);
    else if (err == TERR_LIMIT)
        admin_fail(c, 503, NULL, "too many bans and purges by tag are in the list");
    else
        admin_fail_terr(c, err, "purge");
}

/* From invalidation_make() on the purge counts, whatever becomes of this request: the walk only
 * counts and removes what a lookup would refuse by then. */
static void
tags_start(struct admin_call *c, const struct invalidation *inv)
{
    const struct admin_env *env = &c->admin->env;
    struct tag_purge *p = calloc(1, sizeof(*p));
    struct invalidation_result done = {.wait = p};
    int err = TERR_NOMEM;

    if (p != NULL) {
        p->task = c->task;
        err = admin_invalidate(c, inv, &done);
    }
    if (err != 0) {
        free(p);
        tags_refuse(c, err);
        return;
    }
    c->waits = p;
    c->resume = tags_resume;
    c->leave = tags_leave;
    env->host->walk_tags(env->host_ctx);
}

/* `tags` is borrowed until this returns: what is needed of a record is copied. */
void
admin_purge_tags(struct admin_call *c, const json_t *tags, bool soft)
{
    size_t n = json_is_array(tags) ? json_array_size(tags) : 1;
    struct slice list[TAG_PURGE_MAX];
    struct invalidation inv = {.kind = INVALIDATION_TAGS, .soft = soft, .tags = list};

    /* A list that is too long is not read at all: what it has is refused below. */
    for (size_t i = 0; i < n && n <= TAG_PURGE_MAX; i++) {
        const json_t *tag = json_is_array(tags) ? json_array_get(tags, i) : tags;

        if (!json_is_string(tag)) {
            admin_fail(c, 400, NULL, "a tag must be text");
            return;
        }
        list[i] = slice_of(json_string_value(tag), json_string_length(tag));
    }
    inv.ntags = (unsigned)n;
    if (n > TAG_PURGE_MAX)
        tags_refuse(c, TERR_INVALID);
    else
        tags_start(c, &inv);
}

void
admin_purge_all(struct admin_call *c, bool soft)
{
    const struct invalidation inv = {.kind = INVALIDATION_ALL, .soft = soft};

    tags_start(c, &inv);
}
