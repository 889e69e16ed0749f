/* fetch_tags.c -- the tags of a response, from its fields and from the policy; and the readers of
 * the fields: bans and policies always, clients when the operator says so. */
#include "daemon/base/terr.h"
#include "daemon/http/message_out.h"
#include "daemon/http/tags.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/fetch_policy.h"

enum {
    TAGS_KEY_SHOWN = 200, /* bytes, in the error log */
};

static void
fetch_say_overflow(struct fetch *f)
{
    struct slice key = f->key_text;

    counter_add(f->proxy->counters, COUNTER_cache_tag_overflow, 1);
    elog(ELOG_WARN,
        "tags: %.*s has more than %d, or more than %d bytes of them: each purge by tag takes it",
        key.len > TAGS_KEY_SHOWN ? TAGS_KEY_SHOWN : (int)key.len, key.ptr != NULL ? key.ptr : "",
        TAGS_MAX, TAGS_BYTES_MAX);
}

/* Fields that name tags go behind the others, and are not sent.  0 or TERR_NOMEM. */
static int
fetch_hide_tags(struct fetch *f, struct cache_response *r)
{
    struct http_message m;
    int err = tags_put_last(&r->head, &f->arena, &m, &r->nsent);

    if (err != 0)
        return err;
    tassert(r->nsent <= m.nfields);
    r->head = m;
    r->hides_fields = true;
    return 0;
}

/* Those of the policy as a field, too: other nodes of the fleet know them by what is stored alone. */
static int
fetch_write_tags(struct fetch *f, struct cache_response *r, struct slice text)
{
    struct message_out o;
    struct http_message m;

    if (message_out_begin(&o, &m, &f->arena,
            r->head.reason_len + message_lines_bytes(&r->head) + text.len + 16,
            r->head.nfields + 1u) != 0)
        return TERR_NOMEM;
    message_out_status(&o, r->head.status, http_reason_of(&r->head));
    for (unsigned i = 0; i < r->head.nfields; i++)
        if (!slice_eq(
                http_name(&r->head, &r->head.fields[i]), TAGS_OURS)) /* stored, and validated now */
            message_out_copy(&o, &r->head, &r->head.fields[i]);
    message_out_field(&o, HTTP_F_OTHER, TAGS_OURS, text);
    if (message_out_end(&o) == 0) /* else it does not fit, and other nodes ask the origin */
        r->head = m;
    return 0;
}

int
fetch_tags(struct fetch *f, struct cache_response *r, bool kept)
{
    struct tags *tags = fetch_asks_policy(f) != NULL ? f->vcl->at.tags : NULL;
    struct slice text = tags != NULL ? f->vcl->at.tag_text : slice_of("", 0);
    bool named;

    if (kept && text.len > 0 && http_value_ok(text) && fetch_write_tags(f, r, text) != 0)
        return TERR_NOMEM;
    named = tags_named(&r->head);
    if (named && !f->proxy->params.http_tags && fetch_hide_tags(f, r) != 0)
        return TERR_NOMEM;
    if (r->esi && fetch_esi_hide(f, r) != 0)
        return TERR_NOMEM;
    /* Clients do not see the fields of a response that is not kept, either: that is why hiding
     * comes first. */
    if (!kept || (tags == NULL && !named))
        return 0;
    if (tags == NULL) {
        tags = arena_alloc(&f->arena, sizeof(*tags));
        if (tags == NULL)
            return TERR_NOMEM;
        tags_init(tags);
    }
    /* Those of the policy stand in `tags` already: both count. */
    tags_add_fields(tags, &r->head);
    /* Fail safe: a response with more tags than fit is purged too often, never too seldom. */
    if (tags->any)
        fetch_say_overflow(f);
    r->tags = tags;
    return 0;
}

bool
fetch_names_tags(const struct fetch *f, const struct http_message *head)
{
    return (f->vcl != NULL && f->vcl->at.tags != NULL) ||
           http_find_name(head, SLICE_LIT("Surrogate-Key"), NULL) != NULL ||
           http_find_name(head, SLICE_LIT("xkey"), NULL) != NULL ||
           http_find_name(head, SLICE_LIT("Cache-Tag"), NULL) != NULL;
}
