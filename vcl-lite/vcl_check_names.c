/* vcl_check_names.c -- words of the language: variables, actions, subs, types.
 *
 * The rows say where a word may be used, a bit for each vcl_* sub.  Names are looked up in
 * order, a few hundred of them: a load looks up each name of the text, and a run none.
 */
#include "vcl-lite/vcl_sema.h"

#include <string.h>

static const struct {
    const char *name;
    size_t len;
    enum vcl_type type;
    unsigned read, write, unset, flags;
} sema_vars[] = {
#define X(id, name, type, read, write, unset, flags, doc) \
    [VCL_VAR_##id] = {name, sizeof(name) - 1, VCL_TYPE_##type, read, write, unset, flags},
    VCL_VAR_TABLE(X)
#undef X
};

static const char *const sema_types[] = {
#define X(id, name, doc) [VCL_TYPE_##id] = name,
    VCL_TYPE_TABLE(X)
#undef X
};

static const char *const sema_actions[] = {
#define X(id, name, doc) [VCL_ACT_##id] = name,
    VCL_ACTION_TABLE(X)
#undef X
};

static const struct {
    const char *name;
    unsigned actions;
} sema_subs[] = {
#define X(id, name, actions, goes_on, doc) [VCL_SUB_##id] = {name, actions},
    VCL_SUB_TABLE(X)
#undef X
};

/* NULL is a name that the parser has not found. */
bool
sema_is(struct slice s, const char *word)
{
    return s.ptr != NULL && slice_eq(s, slice_str(word));
}

const char *
sema_type_name(enum vcl_type type)
{
    return sema_types[type];
}

/* Out of range "": names go into logs, which must not fail. */
const char *
vcl_sub_name(enum vcl_sub sub)
{
    return sub < VCL_SUB_COUNT ? sema_subs[sub].name : "";
}

const char *
vcl_action_name(enum vcl_action a)
{
    return a < VCL_ACT_COUNT ? sema_actions[a] : "";
}

const char *
vcl_var_name(enum vcl_var var)
{
    return var < VCL_VAR_COUNT ? sema_vars[var].name : "";
}

enum vcl_type
sema_var_type(enum vcl_var var)
{
    return sema_vars[var].type;
}

/* Policies for Varnish set some that mean nothing here: they load, with a warning that says what
 * does it instead. */
const char *
sema_var_inert(enum vcl_var var)
{
    switch ((unsigned)var) {
#define X(id, instead) \
    case VCL_VAR_##id: \
        return instead;
        VCL_INERT_TABLE(X)
#undef X
    default:
        return NULL;
    }
}

unsigned
sema_var_flags(enum vcl_var var)
{
    return sema_vars[var].flags;
}

unsigned
sema_var_where(enum vcl_var var, enum sema_use_kind kind)
{
    /* A bit for each sub in which it is allowed. */
    if (kind == SEMA_SET)
        return sema_vars[var].write;
    return kind == SEMA_UNSET ? sema_vars[var].unset : sema_vars[var].read;
}

int
sema_var_http(enum vcl_var var)
{
    static const struct {
        enum vcl_var var;
        enum vcl_http http;
    } messages[] = {
        /* The message itself, as std.rollback(req) takes it. */
        {VCL_VAR_REQ, VCL_HTTP_REQ},
        {VCL_VAR_REQ_HTTP, VCL_HTTP_REQ},
        {VCL_VAR_REQ_TOP_HTTP, VCL_HTTP_REQ_TOP},
        {VCL_VAR_BEREQ, VCL_HTTP_BEREQ},
        {VCL_VAR_BEREQ_HTTP, VCL_HTTP_BEREQ},
        {VCL_VAR_BERESP, VCL_HTTP_BERESP},
        {VCL_VAR_BERESP_HTTP, VCL_HTTP_BERESP},
        {VCL_VAR_RESP, VCL_HTTP_RESP},
        {VCL_VAR_RESP_HTTP, VCL_HTTP_RESP},
        {VCL_VAR_OBJ_HTTP, VCL_HTTP_OBJ},
        {VCL_VAR_OBJ_STALE_HTTP, VCL_HTTP_OBJ_STALE},
    };

    /* At the load alone: code has the number of the message. */
    for (unsigned i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
        if (messages[i].var == var)
            return (int)messages[i].http;
    return -1;
}

/* storage.NAME.free_space: which of the three; COUNT: none. */
static enum vcl_var
sema_storage_var(struct slice name)
{
    static const enum vcl_var vars[] = {
        VCL_VAR_STORAGE_FREE_SPACE, VCL_VAR_STORAGE_HAPPY, VCL_VAR_STORAGE_USED_SPACE};
    static const char family[] = "storage.";
    const char *dot;

    /* "storage." alone names none. */
    if (name.len < sizeof(family) || memcmp(name.ptr, family, sizeof(family) - 1) != 0)
        return VCL_VAR_COUNT;
    dot = memchr(name.ptr + sizeof(family) - 1, '.', name.len - sizeof(family) + 1);
    if (dot == NULL)
        return VCL_VAR_COUNT;
    for (unsigned i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        /* The rows have no NAME in them: it stands in the middle. */
        const char *last = strchr(sema_vars[vars[i]].name, '.');

        if (sema_is((struct slice){dot, (size_t)(name.ptr + name.len - dot)}, last))
            return vars[i];
    }
    return VCL_VAR_COUNT;
}

static enum vcl_var
sema_var_find(struct slice name)
{
    for (unsigned i = 0; i < VCL_VAR_COUNT; i++) {
        const char *row = sema_vars[i].name;
        size_t len = sema_vars[i].len;
        /* req.http. and its like end in a dot: what follows is a field's name. */
        bool family = row[len - 1] == '.';

        if ((family ? name.len >= len : name.len == len) && memcmp(name.ptr, row, len) == 0)
            return (enum vcl_var)i;
    }
    /* Last: its name is the operator's. */
    return sema_storage_var(name);
}

static void
sema_var_unknown(struct sema *s, const struct ast_expr *e)
{
    struct vcl_guess guess = {.meant = e->text};
    const char *hint = vcl_removed(VCL_REMOVED_VAR, e->text);

    /* The names of older versions first: that hint says more than a name that is spelt alike. */
    if (hint == NULL) {
        for (unsigned i = 0; i < VCL_VAR_COUNT; i++)
            vcl_guess_try(&guess, sema_vars[i].name);
        hint = vcl_guess_hint(s->cx, &guess);
    }
    vcl_fail(s->cx, e->pos, hint, "there is no variable '%.*s'", (int)e->text.len, e->text.ptr);
}

enum vcl_var
sema_var(struct sema *s, const struct ast_expr *e)
{
    enum vcl_var var = sema_var_find(e->text);
    unsigned flags;

    if (var == VCL_VAR_COUNT) {
        sema_var_unknown(s, e);
        return var;
    }
    flags = sema_vars[var].flags;
    /* Varnish refuses them too, so that a policy means one thing there and here. */
    if (((flags & VCL_V40) != 0 && s->cx->ast.version > 40) ||
        ((flags & VCL_V41) != 0 && s->cx->ast.version < 41)) {
        vcl_fail(s->cx, e->pos, vcl_removed(VCL_REMOVED_VAR, e->text),
            "'%.*s' is only there in vcl %s", (int)e->text.len, e->text.ptr,
            (flags & VCL_V40) != 0 ? "4.0" : "4.1");
        return VCL_VAR_COUNT;
    }
    return var;
}

const char *
sema_sub_list(struct sema *s, unsigned where)
{
    const char *list = "";

    /* It cannot be set, or unset, at all. */
    if (where == 0)
        return "nowhere";
    if (where == VCL_ALL)
        return "everywhere";
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        if ((where & (1u << i)) != 0)
            list = vcl_text(s->cx, "%s%s%s", list, list[0] != '\0' ? ", " : "", sema_subs[i].name);
    return list;
}

enum vcl_action
sema_action(struct slice name)
{
    /* NONE has no word: it is what a sub returns that just ends. */
    for (unsigned i = VCL_ACT_NONE + 1; i < VCL_ACT_COUNT; i++)
        if (sema_is(name, sema_actions[i]))
            return (enum vcl_action)i;
    return VCL_ACT_COUNT;
}

/* From the rows of subs: what may be returned stands there once, and this is the other way to read
 * it. */
unsigned
sema_action_where(enum vcl_action a)
{
    unsigned where = 0;

    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        if ((sema_subs[i].actions & (1u << a)) != 0)
            where |= 1u << i;
    return where;
}

unsigned
sema_sub_actions(enum vcl_sub sub)
{
    return sema_subs[sub].actions;
}
