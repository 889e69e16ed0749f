/* admin_bans.c -- bans: shown and added. */
#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/cache/ban.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/invalidation.h"

enum {
    BANS_SHOWN_MAX = 10000, /* more are of no use, and the list may have a million */
};

struct bans_shown {
    json_t *list;
    uint64_t n;
};

/* The list is walked without its lock: this thread is online for RCU, so a ban that is dropped
 * meanwhile stays readable until the turn ends. */
static bool
bans_on_each(void *ctx, const struct ban_info *info)
{
    struct bans_shown *shown = ctx;
    json_t *o;

    /* Counted one further: so the answer knows that it was cut. */
    if (shown->n++ >= BANS_SHOWN_MAX)
        return false;
    o = json_object();
    json_put(o, "expression", json_any_text(info->text));
    json_put(o, "added", json_real((double)info->wall_ms / 1000));
    json_put(o, "objects", json_integer((json_int_t)info->refs));
    json_put(o, "completed", json_boolean(info->completed));
    json_put(o, "of_request", json_boolean(info->of_request));
    json_array_append_new(shown->list, o);
    return true;
}

void
admin_do_bans(struct admin_call *c)
{
    struct bans_shown shown = {.list = json_array()};
    json_t *o = json_object();

    bans_each(cache_bans(c->admin->env.cache), bans_on_each, &shown);
    json_put(o, "bans", shown.list);
    json_put(o, "truncated", json_boolean(shown.n > BANS_SHOWN_MAX));
    admin_answer(c, 200, o);
}

/* 201 as soon as the ban is in the list: from then on each lookup tests it.  Stored objects that
 * nothing asks for are tested later by the lurker; `completed` in the list says when that is
 * done. */
static void
bans_add_text(struct admin_call *c, const char *text)
{
    const struct invalidation inv = {.kind = INVALIDATION_BAN, .text = slice_str(text)};
    struct invalidation_result done = {.wait = NULL};
    json_t *o;
    int err = admin_invalidate(c, &inv, &done);

    if (err == 0) {
        o = json_object();
        json_put_text(o, "expression", text);
        admin_answer_logged(c, 201, o);
    } else {
        admin_fail(c, err == TERR_SYNTAX ? 400 : 503,
            err == TERR_SYNTAX ? "as in obj.http.x-tag ~ shoes && req.url ~ ^/shop/" : NULL, "%s",
            done.why[0] != '\0' ? done.why : terr_text(err));
    }
}

void
admin_do_ban_add(struct admin_call *c)
{
    static const char *const members[] = {"expression", "wait", "timeout_ms", "local", NULL};
    json_t *o = admin_body(c, members);
    const char *text;

    if (o == NULL)
        return;
    text = admin_member(c, o, "expression");
    if (text != NULL && admin_fleet_asked(c, o))
        bans_add_text(c, text);
    json_decref(o);
}
