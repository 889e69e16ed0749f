/* vcl_check_graph.c -- which sub calls which, and whether what a sub uses is there for all that
 * reach it.
 */
#include "vcl-lite/vcl_sema.h"

/* The way from a vcl_* sub to where we are. */
struct graph_way {
    const struct sema_call *call;
    const struct graph_way *before;
};

static const char *
graph_place(struct sema *s, struct vcl_pos at)
{
    unsigned line, column;

    vcl_pos_place(at, &line, &column);
    return vcl_text(s->cx, "%s:%u", at.file->name, line);
}

/* --- circles --- */

static void
graph_circles(struct sema *s, struct sema_sub *sub, unsigned depth)
{
    if (sub->walk != SEMA_NEW)
        return;
    /* A sub that is met while it is open calls itself, however far away; one that is done is not
     * walked again, so many calls of it cost nothing. */
    sub->walk = SEMA_OPEN;
    for (struct sema_call *call = sub->calls; call != NULL; call = call->next) {
        if (call->sub->walk == SEMA_OPEN)
            vcl_fail(s->cx, call->pos, NULL, "sub '%s' calls itself%s%s", call->sub->name,
                call->sub == sub ? "" : " through ", call->sub == sub ? "" : sub->name);
        else if (depth >= VCL_CALLS_MAX)
            vcl_fail(s->cx, call->pos, NULL, "more than %d subs within each other", VCL_CALLS_MAX);
        else
            graph_circles(s, call->sub, depth + 1);
    }
    sub->walk = SEMA_DONE;
}

/* --- access --- */

static const char *
graph_through(struct sema *s, const struct sema_sub *sub, const struct graph_way *way)
{
    const char *text = "";

    for (; way != NULL; way = way->before) {
        text = vcl_text(s->cx, "%s%s\"%s\" at %s", text, text[0] == '\0' ? "called through " : ", ",
            sub->name, graph_place(s, way->call->pos));
        /* `sub` was the one where the use stands; further out each call names its own. */
        sub = NULL;
        if (way->before != NULL)
            sub = way->before->call->sub;
    }
    return text;
}

/* What Varnish allows there and this does not: "d.remove_backend()". */
static const char *
graph_instead(const char *what)
{
    const char *dot = strchr(what, '.'), *end = strchr(what, '(');

    /* No call of a method. */
    if (dot == NULL || end == NULL || end < dot)
        return NULL;
    return vcl_removed(VCL_REMOVED_FUNC, (struct slice){dot + 1, (size_t)(end - dot) - 1});
}

static const char *
graph_hint(struct sema *s, const struct sema_use *use, enum vcl_sub vcl, const char *through)
{
    const char *right, *now;

    if (use->kind == SEMA_RETURN) {
        const char *list = "";

        for (unsigned a = VCL_ACT_NONE + 1; a < VCL_ACT_COUNT; a++)
            if ((sema_sub_actions(vcl) & (1u << a)) != 0)
                list = vcl_text(s->cx, "%s%s%s", list, list[0] != '\0' ? ", " : "",
                    vcl_action_name((enum vcl_action)a));
        /* What the word became since VCL 3, in front of what is possible now. */
        now = vcl_removed(VCL_REMOVED_ACTION, slice_str(use->what));
        right =
            vcl_text(s->cx, "%s%sthere: %s", now == NULL ? "" : now, now == NULL ? "" : "; ", list);
    } else {
        now = use->kind == SEMA_STATEMENT ? graph_instead(use->what) : NULL;
        right = vcl_text(s->cx, "available in: %s%s%s", sema_sub_list(s, use->where),
            now != NULL ? "; " : "", now != NULL ? now : "");
    }
    return through[0] == '\0' ? right : vcl_text(s->cx, "%s; %s", through, right);
}

/* A use in builtin.vcl is reported where the text calls it. */
static struct vcl_pos
graph_at(const struct sema_use *use, const struct graph_way *way)
{
    struct vcl_pos at = use->pos;

    for (; at.file->builtin && way != NULL; way = way->before)
        at = way->call->pos;
    return at;
}

static void
graph_refuse(struct sema *s, struct sema_sub *sub, const struct sema_use *use, enum vcl_sub vcl,
    const struct graph_way *way)
{
    const char *hint = graph_hint(s, use, vcl, graph_through(s, sub, way));
    const char *in = vcl_sub_name(vcl);
    struct vcl_pos at = graph_at(use, way);

    switch (use->kind) {
    case SEMA_READ:
    case SEMA_STATEMENT:
        vcl_fail(s->cx, at, hint, "'%s' is not available in %s", use->what, in);
        break;
    case SEMA_SET:
        vcl_fail(s->cx, at, hint, "'%s' cannot be set in %s", use->what, in);
        break;
    case SEMA_UNSET:
        vcl_fail(s->cx, at, hint, "'%s' cannot be unset in %s", use->what, in);
        break;
    case SEMA_RETURN:
        vcl_fail(s->cx, at, hint, "return(%s) is not available in %s", use->what, in);
        break;
    }
}

/* Everything that `vcl` reaches through `sub`; a sub that two ways lead to is looked at once, so a
 * circle ends.  `room`: how much deeper it may go; a longer way has been refused already. */
static void
graph_reach(struct sema *s, struct sema_sub *sub, enum vcl_sub vcl, const struct graph_way *way,
    unsigned room)
{
    unsigned bit = 1u << vcl;

    if ((sub->called_by & bit) != 0 || room == 0)
        return;
    for (const struct sema_use *use = sub->uses; use != NULL; use = use->next)
        /* Reported once: for the first vcl_* sub in which it is wrong, and not for each that comes
         * after. */
        if ((use->where & bit) == 0 && (use->where & sub->called_by) == sub->called_by)
            graph_refuse(s, sub, use, vcl, way);
    sub->called_by |= bit;
    for (const struct sema_call *call = sub->calls; call != NULL; call = call->next) {
        struct graph_way on = {.call = call, .before = way};

        graph_reach(s, call->sub, vcl, &on, room - 1);
    }
}

/* --- subs that are never called --- */

static void
graph_unused(struct sema *s)
{
    for (struct sema_sub *sub = s->subs; sub != NULL; sub = sub->next) {
        struct slice name = sub->defs[0]->name;

        /* Hooks of builtin.vcl are called by its text, or not at all if a sub of the policy returns
         * before. */
        if (sub->called_by == 0 && sub->by_user && !sub->hook && !vcl_said_unused(s->cx, name))
            vcl_warn(s->cx, sub->pos, NULL, "sub '%s' is never called", sub->name);
    }
}

void
sema_graph(struct sema *s)
{
    for (struct sema_sub *sub = s->subs; sub != NULL; sub = sub->next)
        graph_circles(s, sub, 0);
    for (struct sema_sub *sub = s->subs; sub != NULL; sub = sub->next)
        if (sub->vcl >= 0)
            graph_reach(s, sub, (enum vcl_sub)sub->vcl, NULL, VCL_CALLS_MAX + 1);
    graph_unused(s);
}
