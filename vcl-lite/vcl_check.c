/* vcl_check.c -- from a tree to code: subs, types, access, and then lowering.
 *
 * Subs are gathered by name: several definitions of a vcl_* sub, and of the hooks of builtin.vcl,
 * run one after the other, that of builtin.vcl last.  Other names are defined once.
 */
#include "vcl-lite/vcl_sema.h"

#include <string.h>

#include "daemon/base/tassert.h"

/* -1: it is no vcl_* sub that the core calls. */
static int
check_vcl_number(struct slice name)
{
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        if (sema_is(name, vcl_sub_name((enum vcl_sub)i)))
            return (int)i;
    return -1;
}

struct sema_sub *
sema_sub_find(struct sema *s, struct slice name)
{
    struct sema_sub *sub = NULL;

    /* 0: memory was out, and check_gather() has found no sub. */
    if (s->nbuckets > 0)
        sub = s->buckets[sema_hash(name.ptr, name.len) & (s->nbuckets - 1)];
    while (sub != NULL && !sema_is(name, sub->name))
        sub = sub->beside;
    return sub;
}

static bool
check_is_reserved(struct slice name)
{
    return name.len >= 4 && memcmp(name.ptr, "vcl_", 4) == 0;
}

/* Does builtin.vcl define it? */
static bool
check_in_builtin(const struct sema *s, struct slice name)
{
    for (const struct ast_sub *def = s->cx->ast.subs; def != NULL; def = def->next)
        if (def->pos.file->builtin && def->name.len == name.len &&
            memcmp(def->name.ptr, name.ptr, name.len) == 0)
            return true;
    return false;
}

static void
check_reserved(struct sema *s, const struct ast_sub *def)
{
    struct vcl_guess guess = {.meant = def->name};
    const char *hint = vcl_removed(VCL_REMOVED_SUB, def->name);

    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        vcl_guess_try(&guess, vcl_sub_name((enum vcl_sub)i));
    /* A hook of builtin.vcl may be what was meant. */
    for (const struct ast_sub *other = s->cx->ast.subs; other != NULL; other = other->next)
        if (other->pos.file->builtin)
            vcl_guess_try(&guess, vcl_text(s->cx, "%.*s", (int)other->name.len, other->name.ptr));
    vcl_fail(s->cx, def->pos, hint != NULL ? hint : vcl_guess_hint(s->cx, &guess),
        "names that begin with 'vcl_' are the language's own: there is no '%.*s'",
        (int)def->name.len, def->name.ptr);
}

/* The list keeps the order of the text, the buckets find a name in it. */
static struct sema_sub *
check_sub_new(struct sema *s, struct ast_sub *def, struct sema_sub ***tail)
{
    struct sema_sub *sub = vcl_alloc(s->cx, s->cx->scratch, sizeof(*sub)), **bucket;

    if (sub == NULL)
        return NULL;
    sub->name = vcl_copy(s->cx, s->cx->keep, def->name);
    if (sub->name == NULL)
        return NULL;
    bucket = &s->buckets[sema_hash(def->name.ptr, def->name.len) & (s->nbuckets - 1)];
    sub->beside = *bucket;
    *bucket = sub;
    sub->pos = def->pos;
    sub->vcl = check_vcl_number(def->name);
    sub->hook = check_is_reserved(def->name);
    /* No code yet. */
    sub->entry = UINT32_MAX;
    /* Linked last: the list has whole ones only. */
    **tail = sub;
    *tail = &sub->next;
    return sub;
}

/* One more definition; room for them doubles. */
static void
check_add_def(struct sema *s, struct sema_sub *sub, struct ast_sub *def)
{
    /* Scratch memory is not given back singly: doubling keeps the waste below what is used. */
    if ((sub->ndefs & (sub->ndefs - 1)) == 0) {
        unsigned room = sub->ndefs == 0 ? 1 : sub->ndefs * 2;
        struct ast_sub **defs = vcl_alloc(s->cx, s->cx->scratch, room * sizeof(*defs));

        if (defs == NULL)
            return;
        if (sub->ndefs > 0)
            memcpy(defs, sub->defs, sub->ndefs * sizeof(*defs));
        sub->defs = defs;
    }
    sub->defs[sub->ndefs++] = def;
}

static void
check_define(struct sema *s, struct ast_sub *def, struct sema_sub ***tail)
{
    struct sema_sub *sub = sema_sub_find(s, def->name);
    unsigned line, column;

    /* A sub of the operator's own: which of two was meant is not known. */
    if (sub != NULL && sub->vcl < 0 && !sub->hook) {
        vcl_pos_place(sub->pos, &line, &column);
        vcl_fail(s->cx, def->pos, "only vcl_* subs may be defined several times",
            "sub '%s' is defined twice; first in %s line %u", sub->name, sub->pos.file->name, line);
        return;
    }
    if (sub == NULL) {
        /* The search for a similar name is not cheap, and errors beyond the limit are not shown. */
        if (s->cx->nerrors <= VCL_ERRORS_MAX && check_is_reserved(def->name) &&
            check_vcl_number(def->name) < 0 && !check_in_builtin(s, def->name)) {
            check_reserved(s, def);
        }
        sub = check_sub_new(s, def, tail);
    }
    if (sub == NULL)
        return;
    sub->by_user |= !def->pos.file->builtin;
    sub->by_builtin |= def->pos.file->builtin;
    check_add_def(s, sub, def);
}

/* builtin.vcl is the last file, so the order of the text is that in which they run. */
static void
check_gather(struct sema *s)
{
    struct sema_sub **tail = &s->subs;
    unsigned n = 0, buckets = 64;

    for (const struct ast_sub *def = s->cx->ast.subs; def != NULL; def = def->next)
        n++;
    while (buckets < n)
        buckets *= 2;
    s->buckets = vcl_alloc(s->cx, s->cx->scratch, buckets * sizeof(struct sema_sub *));
    /* cx->nomem is set then, and the loop below does nothing. */
    s->nbuckets = s->buckets == NULL ? 0 : buckets;
    for (struct ast_sub *def = s->cx->ast.subs; def != NULL && !s->cx->nomem; def = def->next)
        check_define(s, def, &tail);
}

static bool
check_is_builtin_only(struct sema *s, const char *name)
{
    const struct sema_sub *sub = sema_sub_find(s, (struct slice){name, strlen(name)});

    return sub != NULL && sub->by_builtin && !sub->by_user;
}

static struct vcl_object *
check_objects(struct sema *s)
{
    struct vcl_object *objects;
    unsigned n = s->nobjects;

    objects = vcl_alloc(s->cx, s->cx->keep, (n + 1) * sizeof(*objects));
    if (objects == NULL)
        return NULL;
    for (const struct sema_object *o = s->objects; o != NULL; o = o->next) {
        /* The list has the newest first; objects are numbered in the order of the text. */
        n--;
        objects[n].name = vcl_copy(s->cx, s->cx->keep, o->name);
        objects[n].kind = o->kind;
    }
    return objects;
}

/* A copy in the policy's memory; NULL: there is none. */
static void *
check_keep(struct sema *s, const void *items, unsigned n, size_t size)
{
    void *kept = vcl_alloc(s->cx, s->cx->keep, (n + 1) * size);

    if (kept != NULL && n > 0)
        memcpy(kept, items, n * size);
    return kept;
}

/* Patterns belong to the policy even when it is wrong: vcl_free() frees them. */
static void
check_publish(struct sema *s)
{
    struct vcl *v = s->cx->vcl;
    struct regex **regexes = check_keep(s, s->regexes, s->nregexes, sizeof(*regexes));

    /* vcl_free() would not find them. */
    if (regexes == NULL) {
        for (unsigned i = 0; i < s->nregexes; i++)
            regex_free(&s->regexes[i]);
        return;
    }
    v->regexes = regexes;
    v->nregexes = s->nregexes;
    v->consts = check_keep(s, s->consts, s->nconsts, sizeof(*s->consts));
    v->names = check_keep(s, s->names, s->nnames, sizeof(*s->names));
    v->places = check_keep(s, s->places, s->nplaces, sizeof(*s->places));
    v->nplaces = s->nplaces;
    v->code = check_keep(s, s->code, s->ncode + s->nquiet, sizeof(*s->code));
    v->ncode = s->ncode;
    v->nquiet = s->nquiet;
    v->objects = check_objects(s);
    v->nobjects = s->nobjects;
    v->stack_max = s->stack_max;
    v->reads_hits = s->reads_hits;
    v->reads_tls = s->reads_tls;
    /* Then the host makes the key itself, and vcl_hash is not run. */
    v->hashes_as_builtin =
        check_is_builtin_only(s, "vcl_hash") && check_is_builtin_only(s, "vcl_builtin_hash");
}

void
vcl_make_code(struct vcl_cx *cx)
{
    struct sema s = {.cx = cx};

    tassert(cx->vcl != NULL);
    sema_imports(&s);
    check_gather(&s);
    /* All of them, also those that are never called: a mistake in one is a mistake. */
    for (struct sema_sub *sub = s.subs; sub != NULL && !cx->nomem; sub = sub->next)
        sema_body(&s, sub);
    if (!cx->nomem)
        /* Behind all bodies: where a sub may be called from is known then. */
        sema_graph(&s);
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++) {
        cx->vcl->subs[i].name = vcl_sub_name((enum vcl_sub)i);
        cx->vcl->subs[i].entry = cx->vcl->subs[i].quiet = UINT32_MAX;
    }
    /* Code is made only of what is right as a whole: lowering asserts, and does not check. */
    if (cx->nerrors == 0 && !cx->nomem)
        lower_policy(&s);
    /* Also of a policy that is wrong: it owns the patterns. */
    check_publish(&s);
}
