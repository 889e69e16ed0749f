/* vcl.c -- one load from text to policy, the policy's memory, and what the host asks of it.
 *
 *    vcl_parse      text and includes -> tokens -> tree          (vcl_include.c, vcl_parse*.c)
 *    vcl_declare    backends, probes, acls get numbers           (vcl_decl*.c)
 *    vcl_make_code  types and access checked, then instructions  (vcl_check*.c, vcl_lower*.c)
 *
 * A load may block, for names are resolved, and runs on the management thread.  What it leaves is
 * immutable, except for what the host binds before the first run and what vcl_init makes.
 */
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/regex.h"
#include "daemon/base/terr.h"
#include "vcl-lite/acl.h"
#include "vcl-lite/vcl_error_priv.h"
#include "vcl-lite/vcl_priv.h"

/* A policy and all that it points to but regexes and acls. */
struct arena_box {
    struct arena_pool pool;
    struct arena arena;
    struct vcl vcl;
};

/* Zeroed memory of the load (scratch) or the policy (keep).  After the first failure each one
 * fails, so the parts of a load need to look at cx->nomem only now and then. */
void *
vcl_alloc(struct vcl_cx *cx, struct arena *from, size_t size)
{
    void *p = cx->nomem ? NULL : arena_alloc(from, size);

    if (p == NULL)
        /* Noted once for the whole load: its parts go on, and make nothing more. */
        cx->nomem = true;
    else
        memset(p, 0, size);
    return p;
}

const char *
vcl_copy(struct vcl_cx *cx, struct arena *to, struct slice text)
{
    struct slice copy = {NULL, 0};

    if (!cx->nomem)
        copy = arena_copy(to, text);
    if (copy.ptr == NULL)
        cx->nomem = true;
    return copy.ptr;
}

static struct vcl *
vcl_new(void)
{
    struct arena_box *box = calloc(1, sizeof(*box));

    if (box == NULL)
        return NULL;
    arena_pool_init(&box->pool, 0, NULL);
    arena_init(&box->arena, &box->pool);
    box->vcl.magic = VCL_MAGIC;
    box->vcl.memory = box;
    box->vcl.default_backend = -1;
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        /* 0 is the place of an instruction. */
        box->vcl.subs[i].entry = box->vcl.subs[i].quiet = UINT32_MAX;
    return &box->vcl;
}

void
vcl_free(struct vcl **vp)
{
    struct arena_box *box;
    struct vcl *v;

    if (*vp == NULL)
        return;
    OBJ_TAKE(v, vp, VCL_MAGIC);
    box = v->memory;
    /* The arena does not know these two: their libraries allocate by themselves. */
    for (unsigned i = 0; i < v->nregexes; i++) {
        struct regex *re = v->regexes[i];

        regex_free(&re);
    }
    for (unsigned i = 0; i < v->nacls; i++) {
        struct acl *a = v->acls[i];

        acl_free(&a);
    }
    OBJ_BURY(v);
    arena_fini(&box->arena);
    arena_pool_fini(&box->pool);
    free(box);
}

/* Each part goes on after errors of its own; what a part makes is used by the next only when the
 * tree is whole enough, which after a lost token it need not be: then its own errors are all. */
static void
vcl_build(struct vcl_cx *cx, const struct vcl_source *src)
{
    vcl_parse(cx, src);
    if (!cx->nomem)
        vcl_declare(cx);
    if (!cx->nomem)
        vcl_make_code(cx);
    /* What only an error keeps from being used is not unused. */
    if (!cx->nomem && cx->nerrors == 0)
        vcl_declare_unused(cx);
}

/* *out is written on success only.  *errors has warnings only then, and is the caller's to free in
 * every case. */
int
vcl_compile(struct vcl **out, const struct vcl_source *src, const struct vcl_loader *loader,
    struct vcl_error **errors)
{
    struct arena_pool pool;
    struct arena scratch;
    struct vcl *v = vcl_new();
    struct vcl_cx cx = {.loader = loader, .scratch = &scratch, .vcl = v};
    int err;

    tassert(src->name != NULL && (src->text.ptr != NULL || src->text.len == 0));
    tassert(loader->field_id != NULL);
    *errors = NULL;
    if (v == NULL)
        return TERR_NOMEM;
    arena_pool_init(&pool, 0, NULL);
    arena_init(&scratch, &pool);
    /* Two arenas: the tree is many times as large as the code, and goes with the load. */
    cx.keep = &v->memory->arena;
    vcl_build(&cx, src);
    /* The tree goes; errors stay, as each is a block of its own (error_box). */
    arena_fini(&scratch);
    arena_pool_fini(&pool);

    /* Beside errors they would only hide them. */
    if (cx.nerrors > 0)
        vcl_errors_drop_warnings(&cx);
    err = cx.nomem ? TERR_NOMEM : cx.nerrors > 0 ? TERR_CONFIG : 0;
    /* Half a list of errors would look like all of it. */
    if (cx.nomem)
        vcl_errors_free(&cx.errors);
    *errors = cx.errors;
    if (err < 0)
        vcl_free(&v);
    else
        *out = v;
    return err;
}

/* --- what the host must make of it --- */

unsigned
vcl_backend_decls(const struct vcl *v, const struct vcl_backend_decl **out)
{
    OBJ_CHECK(v, VCL_MAGIC);
    *out = v->decls;
    return v->ndecls;
}

unsigned
vcl_backends(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    return v->nbackends;
}

const char *
vcl_backend_name(const struct vcl *v, unsigned n)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nbackends);
    return v->backend_names[n];
}

/* Once for each, before the first run: runs on any thread read it without a lock. */
void
vcl_bind_backend(struct vcl *v, unsigned n, const void *backend)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nbackends);
    /* NULL is a backend too: one that is declared `none`. */
    v->backends[n] = backend;
}

const void *
vcl_backend_bound(const struct vcl *v, unsigned n)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nbackends);
    return v->backends[n];
}

int
vcl_default_backend(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    /* Of the declarations: below 0 the configuration chooses. */
    tassert(v->default_backend < (int)v->ndecls);
    return v->default_backend;
}

unsigned
vcl_storages(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    return v->nstorages;
}

/* As with backends, before the first run. */
void
vcl_bind_storage(struct vcl *v, unsigned n, const void *storage)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nstorages);
    v->storages[n] = storage;
}

unsigned
vcl_labels(const struct vcl *v)
{
    OBJ_CHECK(v, VCL_MAGIC);
    return v->nlabels;
}

const char *
vcl_label_name(const struct vcl *v, unsigned n)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nlabels);
    return v->label_names[n];
}

/* `made` belongs to the host, which frees it (vcl_fini, or a load that failed). */
void *
vcl_object(const struct vcl *v, unsigned n, unsigned *kind)
{
    OBJ_CHECK(v, VCL_MAGIC);
    tassert(n < v->nobjects);
    /* `made` is NULL until vcl_init has made it. */
    *kind = v->objects[n].kind;
    return v->objects[n].made;
}
