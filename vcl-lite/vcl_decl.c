/* vcl_decl.c -- the names of a policy, and the numbers by which code knows them.
 *
 * A backend of the policy, one of the configuration, an acl, a storage and a label are numbers
 * in code.  The host asks for the names behind the numbers once, and binds its own objects to
 * them (vcl_bind_backend).
 *
 *    numbers of backends: 0 .. ndecls-1 the policy's own, in the order of the text; then those of the
 *    configuration, in the order in which they are first named
 *
 * Only what is named gets a number, so the host binds only that.
 */
#include "vcl-lite/vcl_decl_priv.h"

#include <ctype.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/acl.h"

enum scope_kind {
    SCOPE_BACKEND,
    SCOPE_ACL,
    SCOPE_PROBE,
    SCOPE_STORAGE, /* in a space of its own, as labels are */
    SCOPE_LABEL,
    SCOPE_UNUSED,
};

struct scope_entry {
    struct slice name;
    enum scope_kind kind;
    int number; /* of its kind */
    bool *used; /* of the tree; NULL: not declared in it */
    struct vcl_pos pos;
    const struct vcl_probe_decl *probe;
    struct scope_entry *next;
};

struct vcl_scope {
    struct scope_entry **buckets;
    unsigned nbuckets; /* a power of two */
    unsigned backends_room, storages_room, labels_room;
};

/* What no declaration may be called: words of the grammar and families of variables. */
static const char *const scope_reserved[] = {"acl", "backend", "ban", "bereq", "beresp", "call",
    "client", "else", "elseif", "elsif", "elif", "false", "hash_data", "if", "import", "include",
    "local", "new", "none", "now", "obj", "obj_stale", "param", "probe", "regsub", "regsuball",
    "remote", "req", "req_top", "resp", "return", "server", "sess", "set", "storage", "sub",
    "synthetic", "true", "unset", "unused", "vcl"};

static unsigned
scope_hash(struct slice name)
{
    uint32_t h = 2166136261u; /* FNV-1a: the operator's own names */

    for (size_t i = 0; i < name.len; i++)
        /* Without case, since scope_find_taken() looks for names in any case. */
        h = (h ^ (unsigned char)tolower((unsigned char)name.ptr[i])) * 16777619u;
    return h;
}

static struct scope_entry *
scope_find(const struct vcl_cx *cx, enum scope_kind kind, struct slice name)
{
    const struct vcl_scope *s = cx->scope;
    struct scope_entry *e = s->buckets[scope_hash(name) & (s->nbuckets - 1)];

    /* One table for all kinds: an acl and a storage may have one name. */
    while (e != NULL && (e->kind != kind || !slice_eq(e->name, name)))
        e = e->next;
    return e;
}

/* A declaration of this name, in whatever case: to Varnish, A and a are one name. */
static struct scope_entry *
scope_find_taken(const struct vcl_cx *cx, enum scope_kind kind, struct slice name)
{
    const struct vcl_scope *s = cx->scope;
    struct scope_entry *e = s->buckets[scope_hash(name) & (s->nbuckets - 1)];

    while (e != NULL && (e->kind != kind || e->pos.file == NULL || !slice_eq_nocase(e->name, name)))
        e = e->next;
    return e;
}

static struct scope_entry *
scope_add(struct vcl_cx *cx, enum scope_kind kind, struct slice name, int number)
{
    struct scope_entry *e = vcl_alloc(cx, cx->scratch, sizeof(*e));
    struct scope_entry **bucket;

    if (e == NULL)
        return NULL;
    bucket = &cx->scope->buckets[scope_hash(name) & (cx->scope->nbuckets - 1)];
    *e = (struct scope_entry){.name = name, .kind = kind, .number = number, .next = *bucket};
    *bucket = e;
    return e;
}

static bool
scope_init(struct vcl_cx *cx)
{
    unsigned n = 1;

    cx->scope = vcl_alloc(cx, cx->scratch, sizeof(*cx->scope));
    if (cx->scope == NULL)
        return false;
    for (const struct ast_decl *d = cx->ast.backends; d != NULL; d = d->next)
        n++;
    for (const struct ast_decl *d = cx->ast.probes; d != NULL; d = d->next)
        n++;
    for (const struct ast_acl *a = cx->ast.acls; a != NULL; a = a->next)
        n++;
    for (const struct ast_unused *u = cx->ast.unused; u != NULL; u = u->next)
        n++;
    cx->scope->nbuckets = 64;
    /* As many buckets as names: a generated policy may declare thousands (README 15). */
    while (cx->scope->nbuckets < n)
        cx->scope->nbuckets *= 2;
    cx->scope->buckets =
        vcl_alloc(cx, cx->scratch, cx->scope->nbuckets * sizeof(cx->scope->buckets[0]));
    return cx->scope->buckets != NULL;
}

static void
scope_fail_taken(struct vcl_cx *cx, const struct scope_entry *e, struct vcl_pos pos)
{
    /* Only these three are declared. */
    static const char *const kinds[] = {"a backend", "an acl", "a probe"};
    unsigned line, column;

    vcl_pos_place(e->pos, &line, &column);
    vcl_fail(cx, pos, NULL, "%.*s is the name of %s already: see line %u of %s",
        (int)(e->name.len > 60 ? 60 : e->name.len), e->name.ptr, kinds[e->kind], line,
        e->pos.file->name);
}

/* Declares a name of the text: one name is one thing.  `default` may be a backend and a probe. */
static struct scope_entry *
scope_declare(struct vcl_cx *cx, enum scope_kind kind, struct slice name, struct vcl_pos pos)
{
    /* Varnish's own habit: the default probe is that of the backends that name none. */
    bool is_default = slice_eq(name, slice_str("default")) && kind != SCOPE_ACL;
    struct scope_entry *e;

    for (enum scope_kind k = SCOPE_BACKEND; k <= SCOPE_PROBE; k++) {
        e = scope_find_taken(cx, k, name);
        if (e != NULL && (k == kind || k == SCOPE_ACL || !is_default)) {
            scope_fail_taken(cx, e, pos);
            break;
        }
    }
    for (unsigned i = 0; i < sizeof(scope_reserved) / sizeof(scope_reserved[0]); i++)
        if (slice_eq(name, slice_str(scope_reserved[i])))
            vcl_fail(cx, pos, NULL, "%s is a word of the language, and no name", scope_reserved[i]);
    if (name.len >= 4 && memcmp(name.ptr, "vcl_", 4) == 0)
        vcl_fail(cx, pos, NULL, "names that begin with vcl_ are the language's");
    if (scope_find(cx, kind, name) != NULL || cx->nerrors > VCL_ERRORS_MAX)
        e = vcl_alloc(cx, cx->scratch, sizeof(*e)); /* reported; no look-up will find this one */
    else
        /* -1 until it is whole: an error in it must not give it a number. */
        e = scope_add(cx, kind, name, -1);
    if (e != NULL)
        e->pos = pos;
    return e;
}

/* Room for one more name and what is bound to it; the numbers of bound things are those of names. */
static bool
scope_grow(struct vcl_cx *cx, const char ***names, const void ***bound, unsigned n, unsigned *room)
{
    unsigned more = *room == 0 ? 8 : *room * 2;
    const char **new_names;
    const void **new_bound;

    if (n < *room)
        return true;
    new_names = vcl_alloc(cx, cx->keep, more * sizeof(*new_names));
    new_bound = vcl_alloc(cx, cx->keep, more * sizeof(*new_bound));
    if (new_names == NULL || new_bound == NULL)
        return false;
    if (n > 0)
        memcpy(new_names, *names, n * sizeof(*new_names));
    *names = new_names;
    if (bound != NULL)
        /* Not copied: nothing is bound before the load ends. */
        *bound = new_bound;
    *room = more;
    return true;
}

static int
scope_add_backend(struct vcl_cx *cx, const char *name)
{
    struct vcl *v = cx->vcl;

    if (name == NULL ||
        !scope_grow(cx, &v->backend_names, &v->backends, v->nbackends, &cx->scope->backends_room))
        return -1;
    v->backend_names[v->nbackends] = name;
    return (int)v->nbackends++;
}

/* --- what was declared --- */

static void
declare_probes(struct vcl_cx *cx)
{
    for (struct ast_decl *d = cx->ast.probes; d != NULL && !cx->nomem; d = d->next) {
        struct scope_entry *e = scope_declare(cx, SCOPE_PROBE, d->name, d->pos);
        const char *name = vcl_copy(cx, cx->keep, d->name);

        if (e == NULL || name == NULL)
            return;
        /* So that a use marks the tree, which reports what is not used. */
        e->used = &d->used;
        e->probe = decl_probe(cx, name, d->attrs);
    }
}

const struct vcl_probe_decl *
decl_probe_named(struct vcl_cx *cx, struct slice name, struct vcl_pos *declared)
{
    struct scope_entry *e = scope_find(cx, SCOPE_PROBE, name);

    if (e == NULL)
        return NULL;
    *e->used = true;
    /* For the warning that Varnish wants it above. */
    *declared = e->pos;
    return e->probe;
}

static void
declare_backends(struct vcl_cx *cx)
{
    struct vcl *v = cx->vcl;
    unsigned n = 0;

    for (const struct ast_decl *d = cx->ast.backends; d != NULL; d = d->next)
        n++;
    /* The first, unless one is called default, as in Varnish. */
    v->default_backend = n > 0 ? 0 : -1;
    v->decls = vcl_alloc(cx, cx->keep, (n + 1) * sizeof(v->decls[0]));
    if (v->decls == NULL)
        return;
    for (struct ast_decl *d = cx->ast.backends; d != NULL && !cx->nomem; d = d->next) {
        struct scope_entry *e = scope_declare(cx, SCOPE_BACKEND, d->name, d->pos);

        if (e == NULL)
            return;
        decl_backend(cx, d, &v->decls[v->ndecls]);
        e->used = &d->used;
        e->number = scope_add_backend(cx, v->decls[v->ndecls].name);
        if (slice_eq(d->name, slice_str("default")))
            v->default_backend = e->number;
        /* Numbers of declarations are those of backends: these are the first to be added. */
        v->ndecls++;
    }
}

static void
declare_acls(struct vcl_cx *cx)
{
    struct acl **acls;
    unsigned n = 0;

    for (const struct ast_acl *a = cx->ast.acls; a != NULL; a = a->next)
        n++;
    /* One place more: none is no missing memory. */
    acls = vcl_alloc(cx, cx->keep, (n + 1) * sizeof(struct acl *));
    if (acls == NULL)
        return;
    cx->vcl->acls = acls;
    for (struct ast_acl *a = cx->ast.acls; a != NULL && !cx->nomem; a = a->next) {
        struct scope_entry *e = scope_declare(cx, SCOPE_ACL, a->name, a->pos);

        if (e == NULL)
            return;
        e->used = &a->used;
        e->number = (int)cx->vcl->nacls;
        acls[cx->vcl->nacls++] = decl_acl(cx, a);
    }
}

/* Leaves numbers and marks for the checker; a declaration with an error has its number all the
 * same. */
void
vcl_declare(struct vcl_cx *cx)
{
    cx->vcl->default_backend = -1;
    if (!scope_init(cx))
        return;
    /* First: each of the others may be asked about. */
    for (const struct ast_unused *u = cx->ast.unused; u != NULL; u = u->next)
        if (scope_add(cx, SCOPE_UNUSED, u->name, -1) == NULL)
            return;
    /* Before the backends, which name them. */
    declare_probes(cx);
    declare_backends(cx);
    declare_acls(cx);
    /* Only where nothing else is wrong: a backend with an error in it was meant to be one. */
    if (!cx->nomem && cx->nerrors == 0 && cx->ast.backends == NULL && cx->loader->backend_needed &&
        cx->ast.files != NULL)
        vcl_fail(cx, (struct vcl_pos){.file = cx->ast.files},
            "backend default { .host = \"192.0.2.1\"; }",
            "there is no backend, in the policy or in the configuration");
}

/* --- what code asks for --- */

/* -1: there is none, or no memory (cx->nomem). */
int
vcl_backend_number(struct vcl_cx *cx, struct slice name)
{
    struct scope_entry *e = scope_find(cx, SCOPE_BACKEND, name);
    int number;

    if (e != NULL) {
        if (e->used != NULL)
            *e->used = true;
        return e->number;
    }
    /* Behind the policy's own, which hide one of the configuration with the same name. */
    if (cx->loader->has_backend == NULL || !cx->loader->has_backend(cx->loader->ctx, name))
        return -1;
    /* Added when first named: the host binds only what is used. */
    number = scope_add_backend(cx, vcl_copy(cx, cx->keep, name));
    if (number >= 0 && scope_add(cx, SCOPE_BACKEND, name, number) == NULL)
        return -1;
    return number;
}

int
vcl_acl_number(struct vcl_cx *cx, struct slice name)
{
    struct scope_entry *e = scope_find(cx, SCOPE_ACL, name);

    if (e == NULL)
        return -1;
    *e->used = true;
    return e->number;
}

int
vcl_storage_number(struct vcl_cx *cx, struct slice name)
{
    struct vcl *v = cx->vcl;
    struct scope_entry *e = scope_find(cx, SCOPE_STORAGE, name);
    const char *kept;

    if (e != NULL)
        return e->number;
    if (cx->loader->has_storage == NULL || !cx->loader->has_storage(cx->loader->ctx, name))
        return -1;
    kept = vcl_copy(cx, cx->keep, name);
    if (kept == NULL ||
        !scope_grow(cx, &v->storage_names, &v->storages, v->nstorages, &cx->scope->storages_room))
        return -1;
    v->storage_names[v->nstorages] = kept;
    e = scope_add(cx, SCOPE_STORAGE, name, (int)v->nstorages);
    /* Counted last: without memory there is no number without a name. */
    return e == NULL ? -1 : (int)v->nstorages++;
}

int
vcl_label_number(struct vcl_cx *cx, struct slice name)
{
    struct vcl *v = cx->vcl;
    struct scope_entry *e = scope_find(cx, SCOPE_LABEL, name);
    const char *kept;

    if (e != NULL)
        return e->number;
    if (cx->loader->has_label == NULL || !cx->loader->has_label(cx->loader->ctx, name))
        return -1;
    /* The name, and not what it stands for: a label moves while this policy serves. */
    kept = vcl_copy(cx, cx->keep, name);
    if (kept == NULL || !scope_grow(cx, &v->label_names, NULL, v->nlabels, &cx->scope->labels_room))
        return -1;
    v->label_names[v->nlabels] = kept;
    e = scope_add(cx, SCOPE_LABEL, name, (int)v->nlabels);
    return e == NULL ? -1 : (int)v->nlabels++;
}

bool
vcl_said_unused(struct vcl_cx *cx, struct slice name)
{
    return scope_find(cx, SCOPE_UNUSED, name) != NULL;
}

static void
declare_warn(struct vcl_cx *cx, const char *what, struct slice name, struct vcl_pos pos)
{
    int len = (int)(name.len > 60 ? 60 : name.len);

    /* Those that follow are not shown anyway. */
    if (cx->nwarnings > VCL_ERRORS_MAX || vcl_said_unused(cx, name))
        return;
    vcl_warn(cx, pos, vcl_text(cx, "unused %.*s; says that this is meant", len, name.ptr),
        "%s %.*s is not used: Varnish refuses that", what, len, name.ptr);
}

void
vcl_declare_unused(struct vcl_cx *cx)
{
    int number = 0;

    for (const struct ast_decl *d = cx->ast.backends; d != NULL; d = d->next, number++)
        /* The default is used by what names none. */
        if (!d->used && number != cx->vcl->default_backend)
            declare_warn(cx, "backend", d->name, d->pos);
    for (const struct ast_decl *d = cx->ast.probes; d != NULL; d = d->next)
        if (!d->used)
            declare_warn(cx, "probe", d->name, d->pos);
    for (const struct ast_acl *a = cx->ast.acls; a != NULL; a = a->next)
        if (!a->used)
            declare_warn(cx, "acl", a->name, a->pos);
}
