/* recode_store.c -- a form that was made, into the store: its body, its head, its place beside the response. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/http/derive.h"
#include "daemon/http/tags.h"
#include "daemon/http/vary.h"
#include "daemon/proxy/recode_priv.h"

int
recode_store(struct recode *rc)
{
    size_t len = rc->packed_room - rc->out.len, done = 0;
    struct proxy *p = recode_proxy(rc);
    int err = 0;

    if (rc->body == NULL)
        err = stobj_new(&rc->body, p->storage, STOBJ_KEPT, len, 0);
    if (err == 0)
        err = space_reserve(rc->body, len, &rc->wait);
    while (err == 0 && done < len) {
        struct span room;

        err = space_get(rc->body, len - done, &room, &rc->wait);
        if (err != 0)
            break;
        memcpy(room.ptr, rc->packed + done, room.len);
        done += room.len;
        space_extend(rc->body, room.len);
    }
    tassert(err != -EAGAIN || done == 0); /* all of it was reserved */
    if (err == 0)
        space_finish(rc->body);
    return err == 0 ? 0 : err == -EAGAIN ? TERR_AGAIN : TERR_LIMIT;
}

/* As the base's, whatever they came by. */
static void
recode_tags(const struct entry *base, struct tags *tags)
{
    tags_init(tags);
    tags->any = base->block->any_tag;
    tags->n = base->block->ntags;
    memcpy(tags->hash, entry_tags(base), tags->n * sizeof(tags->hash[0]));
}

static struct slice
recode_key(const struct entry *base, struct arena *a)
{
    struct slice scheme = entry_key_scheme(base), rest = entry_key_rest(base);
    char *p = arena_alloc(a, scheme.len + rest.len + 1);

    if (p == NULL)
        return slice_of("", 0);
    memcpy(mempcpy(p, scheme.ptr, scheme.len), rest.ptr, rest.len);
    return slice_of(p, scheme.len + rest.len);
}

/* Its head: another coding, another length, and what hides from clients last again. */
static int
recode_head(struct recode *rc, struct arena *a, struct cache_response *r)
{
    struct http_field *fields = arena_alloc(a, LIMIT_FIELDS * sizeof(*fields));
    struct http_message stored, coded;
    int err;

    if (fields == NULL)
        return TERR_NOMEM;
    entry_message(rc->base, ENTRY_FIELDS_ALL, fields, &stored);
    err = derive_recoded(&stored, recode_kind(rc->form)->coding,
        rc->dictionary != NULL ? SLICE_LIT("Available-Dictionary") : slice_of("", 0), r->body_len,
        a, &coded);
    r->head = coded;
    r->hides_fields = entry_rare(rc->base->block).hidden > 0;
    if (err == 0 && r->hides_fields)
        err = tags_put_last(&coded, a, &r->head, &r->nsent);
    return err;
}

int
recode_publish(struct recode *rc, struct arena *a)
{
    struct proxy *p = recode_proxy(rc);
    uint64_t len = stobj_len(rc->body);
    const struct entry_part part = {0, len, rc->body};
    const struct vary_recoding to = {.form = rc->form,
        .best = rc->best,
        .saved = (uint32_t)(rc->base_len - len),
        .hash = rc->dictionary != NULL ? (const char *)dictionary_hash_of(rc->dictionary) : NULL};
    struct tags *tags = arena_alloc(a, sizeof(*tags));
    char *spec = arena_alloc(a, VARY_SPEC_MAX);
    struct cache_response r = {.rendering = p->rendering,
        .tags = tags,
        .key_text = recode_key(rc->base, a),
        .length_in_head = true,
        .body_len = len,
        .parts = &part,
        .nparts = 1,
        .xid = entry_xid(rc->base)};
    int n, err;

    if (tags == NULL || spec == NULL)
        return TERR_NOMEM;
    recode_tags(rc->base, tags);
    n = vary_recode(entry_vary(rc->base), &to, (struct span){spec, VARY_SPEC_MAX});
    if (n < 0)
        return n;
    r.vary = slice_of(spec, (size_t)n);
    err = recode_head(rc, a, &r);
    return err == 0 ? cache_publish_recoded(rc->base, &r) : err;
}
