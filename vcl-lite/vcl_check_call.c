/* vcl_check_call.c -- calls of functions and methods, and `new`: their arguments against the rows.
 *
 * A row of the table says what a function takes: "STRING s, [INT fallback]".  Arguments come by
 * position or by name; each gets its place in the row, and those that are left out get a default
 * or a zero, so the machine always finds as many values as the row has.  A mask tells which were
 * given.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_check_args.h"

static const struct {
    const char *module, *name;
    enum vcl_type result;
    const char *args;
    unsigned where;
} call_funcs[] = {
#define X(id, module, name, result, args, where, how, doc) \
    [VCL_FN_##id] = {module, name, VCL_TYPE_##result, args, where},
    VCL_FUNC_TABLE(X)
#undef X
};

static const struct {
    const char *module, *name, *args;
} call_objects[] = {
#define X(id, module, name, args, doc) [VCL_OBJECT_##id] = {module, name, args},
    VCL_OBJECT_TABLE(X)
#undef X
};

static const struct {
    unsigned kinds;
    const char *name;
    enum vcl_type result;
    const char *args;
    unsigned where;
} call_methods[] = {
#define X(id, kinds, name, result, args, where, doc) \
    [VCL_METHOD_##id] = {kinds, name, VCL_TYPE_##result, args, where},
    VCL_METHOD_TABLE(X)
#undef X
};

/* Arguments of one call, while they are matched with a row. */
struct call {
    struct sema *s;
    struct ast_expr *e;
    const char *shown; /* "std.log" */
    struct vcl_arg args[VCL_ARGS_MAX];
    struct ast_arg *given[VCL_ARGS_MAX];
    unsigned nargs;
    unsigned present;
};

/* --- modules --- */

static bool
call_module_exists(struct slice name)
{
    for (unsigned i = 0; i < VCL_FN_COUNT; i++)
        if (sema_is(name, call_funcs[i].module))
            return true;
    return false;
}

/* Modules are names of functions here, not files to load: one that exists needs nothing. */
void
sema_imports(struct sema *s)
{
    for (struct ast_import *i = s->cx->ast.imports; i != NULL; i = i->next) {
        struct vcl_guess guess = {.meant = i->name};
        const char *hint = vcl_removed(VCL_REMOVED_MODULE, i->name);

        if (call_module_exists(i->name))
            continue;
        for (unsigned f = 0; f < VCL_FN_COUNT; f++)
            vcl_guess_try(&guess, call_funcs[f].module);
        /* What an upgrade removed says more than a name that is spelt alike. */
        if (hint == NULL)
            hint = vcl_guess_hint(s->cx, &guess);
        vcl_fail(s->cx, i->pos, hint, "there is no module '%.*s' in vcl-lite", (int)i->name.len,
            i->name.ptr);
    }
}

static bool
call_is_imported(const struct sema *s, struct slice module)
{
    /* Of all files together: an import counts wherever it stands. */
    for (const struct ast_import *i = s->cx->ast.imports; i != NULL; i = i->next)
        if (i->name.len == module.len && memcmp(i->name.ptr, module.ptr, module.len) == 0)
            return true;
    return false;
}

/* --- arguments --- */

/* The place of the argument in the row; -1: there is none of that name. */
static int
call_arg_by_name(const struct call *c, struct slice name)
{
    for (unsigned i = 0; i < c->nargs; i++)
        if (c->args[i].name.len == name.len && memcmp(c->args[i].name.ptr, name.ptr, name.len) == 0)
            return (int)i;
    return -1;
}

static bool
call_give_named(struct call *c, struct ast_arg *arg)
{
    struct vcl_guess guess = {.meant = arg->name};
    int n = call_arg_by_name(c, arg->name);

    if (n < 0) {
        /* The row's names are not NUL-terminated. */
        for (unsigned i = 0; i < c->nargs; i++)
            vcl_guess_try(
                &guess, vcl_text(c->s->cx, "%.*s", (int)c->args[i].name.len, c->args[i].name.ptr));
        vcl_fail(c->s->cx, arg->pos, vcl_guess_hint(c->s->cx, &guess),
            "%s() has no argument '%.*s'", c->shown, (int)arg->name.len, arg->name.ptr);
        return false;
    }
    /* By position before, or by the same name. */
    if (c->given[n] != NULL) {
        vcl_fail(c->s->cx, arg->pos, NULL, "argument '%.*s' is given twice", (int)arg->name.len,
            arg->name.ptr);
        return false;
    }
    c->given[n] = arg;
    return true;
}

/* Gives each argument its place: first those by position, then those by name. */
static bool
call_give(struct call *c)
{
    unsigned n = 0;
    bool named = false;

    for (struct ast_arg *arg = c->e->args; arg != NULL; arg = arg->next) {
        if (arg->name.ptr != NULL) {
            named = true;
            if (!call_give_named(c, arg))
                return false;
            continue;
        }
        /* Which place it had would hang on the names before it. */
        if (named) {
            vcl_fail(c->s->cx, arg->pos, NULL, "arguments by position come before those by name");
            return false;
        }
        if (n == c->nargs) {
            vcl_fail(c->s->cx, arg->pos, NULL, "%s() takes %s%u argument%s", c->shown,
                n == 0 ? "" : "at most ", n, n == 1 ? "" : "s");
            return false;
        }
        c->given[n++] = arg;
    }
    /* Behind all that were given: a name may fill any of them. */
    for (n = 0; n < c->nargs; n++) {
        if (c->given[n] == NULL && !c->args[n].optional) {
            vcl_fail(c->s->cx, c->e->pos, NULL, "%s() needs its argument '%.*s' (%s)", c->shown,
                (int)c->args[n].name.len, c->args[n].name.ptr, sema_type_name(c->args[n].type));
            return false;
        }
    }
    return true;
}

/* ENUM: its words stand in the row. */
static struct sema_node *
call_enum(struct call *c, const struct vcl_arg *arg, const struct ast_expr *e)
{
    /* A bare word, not a STRING: it would be looked up as a backend otherwise. */
    int n = e->kind == AST_NAME ? vcl_arg_word(arg, e->text) : -1;

    if (n < 0) {
        vcl_fail(c->s->cx, e->pos, NULL, "'%.*s' is one of the words %.*s", (int)arg->name.len,
            arg->name.ptr, (int)arg->words.len, arg->words.ptr);
        return NULL;
    }
    /* By number: the machine compares no words. */
    return sema_const_int(c->s, VCL_TYPE_ENUM, n, e->pos);
}

/* REGEX: the number of a pattern, which is a literal. */
static struct sema_node *
call_regex(struct call *c, const struct vcl_arg *arg, struct ast_expr *e)
{
    struct sema_node *pattern = sema_expr(c->s, e, VCL_TYPE_VOID);
    uint32_t n;

    if (pattern == NULL)
        return NULL;
    /* A pattern of a request's text could be made to take any time, and would be compiled for
     * each. */
    if (!sema_is_const_string(pattern)) {
        vcl_fail(c->s->cx, pattern->pos, "a pattern is a literal: it is compiled at load",
            "argument '%.*s' of %s() has type %s, expected REGEX", (int)arg->name.len,
            arg->name.ptr, c->shown, sema_type_name(pattern->type));
        return NULL;
    }
    n = sema_regex(c->s, (struct slice){pattern->value.s, pattern->value.len}, pattern->pos);
    return n == UINT32_MAX ? NULL : sema_const_int(c->s, VCL_TYPE_INT, n, e->pos);
}

/* HEADER: a field of a message, by numbers. */
static struct sema_node *
call_header(struct call *c, const struct vcl_arg *arg, struct ast_expr *e)
{
    enum vcl_var var = VCL_VAR_COUNT;
    struct sema_node *n;
    uint32_t name;

    if (e->kind == AST_VAR) {
        var = sema_var(c->s, e);
        if (var == VCL_VAR_COUNT)
            return NULL;
    }
    if (var == VCL_VAR_COUNT || sema_var_type(var) != VCL_TYPE_HEADER) {
        vcl_fail(c->s->cx, e->pos, "a header field, as req.http.cookie",
            "argument '%.*s' of %s() is a HEADER", (int)arg->name.len, arg->name.ptr, c->shown);
        return NULL;
    }
    /* The field is read by the function, so it must be readable where the call stands. */
    if (sema_read(c->s, e, var) == NULL)
        return NULL;
    /* One number has both: the message in the low 8 bits, the name's number above. */
    name = sema_field(c->s, e, var);
    n = sema_const_int(
        c->s, VCL_TYPE_HEADER, sema_var_http(var) | (int64_t)((uint64_t)name << 8), e->pos);
    if (n != NULL)
        /* So vcl_touches() knows of fields that a function reads, too. */
        n->touches = 1u << sema_var_http(var);
    return n;
}

/* What the row says it is when it is not given. */
static struct sema_node *
call_otherwise(struct call *c, const struct vcl_arg *arg)
{
    struct slice text = arg->otherwise;
    struct vcl_pos at = c->e->pos;

    switch ((unsigned)arg->type) {
    case VCL_TYPE_BOOL:
        return sema_const_int(c->s, arg->type, sema_is(text, "true"), at);
    case VCL_TYPE_INT:
    case VCL_TYPE_BYTES:
        return sema_const_int(c->s, arg->type, strtoll(text.ptr, NULL, 10), at);
    case VCL_TYPE_REAL:
    case VCL_TYPE_DURATION:
        return sema_const_real(c->s, arg->type, strtod(text.ptr, NULL), at);
    case VCL_TYPE_ENUM:
        return sema_const_int(c->s, arg->type, vcl_arg_word(arg, text), at);
    default:
        /* No row has a default of another type. */
        tassert(arg->type == VCL_TYPE_STRING);
        return sema_const_string(c->s, text, at);
    }
}

static struct sema_node *
call_value(struct call *c, unsigned i)
{
    const struct vcl_arg *arg = &c->args[i];
    struct ast_expr *e;

    /* A value all the same: the machine takes as many from the stack as the row has. */
    if (c->given[i] == NULL && arg->otherwise.ptr == NULL) { /* absent: zeros */
        if (arg->type == VCL_TYPE_REAL || arg->type == VCL_TYPE_DURATION)
            return sema_const_real(c->s, arg->type, 0, c->e->pos);
        return sema_const_int(c->s, VCL_TYPE_INT, 0, c->e->pos);
    }
    /* A default counts as given: a host asks for presence only where a row has none. */
    c->present |= 1u << i;
    if (c->given[i] == NULL)
        return call_otherwise(c, arg);
    e = c->given[i]->value;
    if (arg->type == VCL_TYPE_ENUM)
        return call_enum(c, arg, e);
    if (arg->type == VCL_TYPE_HEADER)
        return call_header(c, arg, e);
    if (arg->type == VCL_TYPE_REGEX)
        return call_regex(c, arg, e);
    return sema_expr(c->s, e, arg->type);
}

/* Arguments as the kids of `n`, behind the first `behind`. */
static bool
call_args(struct call *c, const char *row, struct sema_node *n, unsigned behind)
{
    bool ok = true;

    c->nargs = vcl_args_parse(row, c->args);
    if (!call_give(c))
        return false;
    n->nkids = behind + c->nargs;
    n->kids = vcl_alloc(c->s->cx, c->s->cx->scratch, (n->nkids + 1) * sizeof(n->kids[0]));
    if (n->kids == NULL)
        return false;
    /* All are looked at, also behind a wrong one: one load reports every mistake. */
    for (unsigned i = 0; i < c->nargs; i++) {
        n->kids[behind + i] = call_value(c, i);
        ok = ok && n->kids[behind + i] != NULL;
    }
    n->a = (uint8_t)c->nargs;
    /* The code carries it to the host: a zero that was given is not one that was left out. */
    n->c = c->present;
    return ok;
}

/* --- functions --- */

static const char *
call_shown(struct sema *s, const struct ast_expr *e)
{
    if (e->text.ptr == NULL)
        return vcl_text(s->cx, "%.*s", (int)e->member.len, e->member.ptr);
    return vcl_text(
        s->cx, "%.*s.%.*s", (int)e->text.len, e->text.ptr, (int)e->member.len, e->member.ptr);
}

/* regsub(subject, pattern, replacement) and regsuball() */
static struct sema_node *
call_regsub(struct sema *s, struct ast_expr *e, bool all)
{
    struct call c = {.s = s, .e = e, .shown = all ? "regsuball" : "regsub"};
    struct sema_node *subject, *pattern, *with, *n;

    /* Words of the language and no functions of a module, but with arguments as those have. */
    c.nargs = vcl_args_parse("STRING subject, REGEX pattern, STRING with", c.args);
    if (!call_give(&c))
        return NULL;
    /* All three before any is judged: each mistake is reported. */
    subject = sema_expr(s, c.given[0]->value, VCL_TYPE_STRING);
    pattern = sema_expr(s, c.given[1]->value, VCL_TYPE_VOID);
    with = sema_expr(s, c.given[2]->value, VCL_TYPE_STRING);
    n = sema_node2(s, VCL_OP_REGSUB, VCL_TYPE_STRING, subject, with);
    if (n == NULL || pattern == NULL)
        return NULL;
    if (pattern->op != VCL_OP_CONST || pattern->type != VCL_TYPE_STRING) {
        vcl_fail(s->cx, pattern->pos, "a pattern is a literal: it is compiled at load",
            "expression has type %s, expected REGEX", sema_type_name(pattern->type));
        return NULL;
    }
    n->a = all;
    n->c = sema_regex(s, (struct slice){pattern->value.s, pattern->value.len}, pattern->pos);
    return n->c == UINT32_MAX ? NULL : n;
}

static void
call_unknown(struct sema *s, const struct ast_expr *e)
{
    struct vcl_guess guess = {.meant = e->member};
    bool module = call_module_exists(e->text);
    const char *removed;

    for (unsigned i = 0; module && i < VCL_FN_COUNT; i++)
        if (sema_is(e->text, call_funcs[i].module))
            vcl_guess_try(&guess, call_funcs[i].name);
    /* Only of a module that exists: of another one the module is the mistake. */
    removed = module ? vcl_removed(VCL_REMOVED_FUNC, slice_str(call_shown(s, e))) : NULL;
    if (removed != NULL)
        vcl_fail(s->cx, e->pos, removed, "module %.*s has no function '%.*s'", (int)e->text.len,
            e->text.ptr, (int)e->member.len, e->member.ptr);
    else if (module)
        vcl_fail(s->cx, e->pos, vcl_guess_hint(s->cx, &guess), "module %.*s has no function '%.*s'",
            (int)e->text.len, e->text.ptr, (int)e->member.len, e->member.ptr);
    else if (e->text.ptr == NULL)
        vcl_fail(
            s->cx, e->pos, NULL, "there is no function '%.*s'", (int)e->member.len, e->member.ptr);
    else
        /* An object of another name, or a module that was never there: which was meant is not
         * known. */
        vcl_fail(s->cx, e->pos, vcl_removed(VCL_REMOVED_MODULE, e->text),
            "there is no module or object '%.*s'", (int)e->text.len, e->text.ptr);
}

/* A table named by a literal is one of the configuration. */
static bool
call_table_ok(struct call *c)
{
    const struct vcl_loader *loader = c->s->cx->loader;
    const struct ast_expr *e = c->given[0] != NULL ? c->given[0]->value : NULL;
    const char *name, *known = "";

    /* A name that is computed is known only when it runs; then the run says that there is none. */
    if (e == NULL || e->kind != AST_STRING || loader->table == NULL)
        return true;
    for (unsigned n = 0; (name = loader->table(loader->ctx, n)) != NULL; n++) {
        if (sema_is(e->text, name))
            return true;
        known = vcl_text(c->s->cx, "%s%s%s", known, n > 0 ? ", " : "", name);
    }
    vcl_fail(c->s->cx, e->pos,
        known[0] != '\0' ? vcl_text(c->s->cx, "there are: %s", known)
                         : "name it under `tables` of tarn.yaml",
        "there is no table '%.*s' in the configuration", (int)e->text.len, e->text.ptr);
    return false;
}

/* Where it may be called is only noted (sema_use): the sub may be called from several vcl_*
 * subs. */
static struct sema_node *
call_func(struct sema *s, struct ast_expr *e, unsigned fn)
{
    struct call c = {.s = s, .e = e, .shown = call_shown(s, e)};
    struct sema_node *n = sema_node(s, VCL_OP_FUNC, call_funcs[fn].result, e->pos);

    if (n == NULL)
        return NULL;
    if (!e->pos.file->builtin && !call_is_imported(s, e->text)) { /* builtin.vcl has all of them */
        vcl_fail(s->cx, e->pos, vcl_text(s->cx, "write `import %s;` above", call_funcs[fn].module),
            "module %s is not imported", call_funcs[fn].module);
        return NULL;
    }
    /* Where it is allowed is judged when it is known which vcl_* subs get here (graph_reach). */
    sema_use(s, SEMA_STATEMENT, e->pos, vcl_text(s->cx, "%s()", c.shown), call_funcs[fn].where);
    n->b = (uint16_t)fn;
    if (!call_args(&c, call_funcs[fn].args, n, 0))
        return NULL;
    if ((fn == VCL_FN_TARN_TABLE_CONTAINS || fn == VCL_FN_TARN_TABLE_LOOKUP) && !call_table_ok(&c))
        return NULL;
    return n;
}

/* --- objects --- */

static struct sema_object *
call_object(const struct sema *s, struct slice name, unsigned *number)
{
    /* Counted down, so that objects have numbers in the order of `new`. */
    *number = s->nobjects;
    for (struct sema_object *o = s->objects; o != NULL; o = o->next) {
        --*number; /* the list is newest first */
        if (o->name.len == name.len && memcmp(o->name.ptr, name.ptr, name.len) == 0)
            return o;
    }
    return NULL;
}

static struct sema_node *
call_method(struct sema *s, struct ast_expr *e, const struct sema_object *o, unsigned number)
{
    struct call c = {.s = s, .e = e, .shown = call_shown(s, e)};
    struct vcl_guess guess = {.meant = e->member};
    struct sema_node *n;

    for (unsigned m = 0; m < VCL_METHOD_COUNT; m++) {
        if ((call_methods[m].kinds & (1u << o->kind)) == 0)
            continue;
        /* Of this kind of object alone: a method of another would be no help. */
        vcl_guess_try(&guess, call_methods[m].name);
        if (!sema_is(e->member, call_methods[m].name))
            continue;
        sema_use(
            s, SEMA_STATEMENT, e->pos, vcl_text(s->cx, "%s()", c.shown), call_methods[m].where);
        n = sema_node(s, VCL_OP_METHOD, call_methods[m].result, e->pos);
        if (n == NULL || !call_args(&c, call_methods[m].args, n, 1))
            return NULL;
        n->b = (uint16_t)m;
        /* The object is the first argument on the stack. */
        n->kids[0] = sema_node(s, VCL_OP_OBJECT, VCL_TYPE_VOID, e->pos);
        if (n->kids[0] == NULL)
            return NULL;
        n->kids[0]->c = number;
        return n;
    }
    vcl_fail(s->cx, e->pos, vcl_guess_hint(s->cx, &guess), "%s.%s has no method '%.*s'",
        call_objects[o->kind].module, call_objects[o->kind].name, (int)e->member.len,
        e->member.ptr);
    return NULL;
}

struct sema_node *
sema_call(struct sema *s, struct ast_expr *e)
{
    const struct sema_object *o;
    unsigned number;

    if (e->text.ptr == NULL && sema_is(e->member, "regsub"))
        return call_regsub(s, e, false);
    if (e->text.ptr == NULL && sema_is(e->member, "regsuball"))
        return call_regsub(s, e, true);
    for (unsigned i = 0; e->text.ptr != NULL && i < VCL_FN_COUNT; i++)
        if (sema_is(e->text, call_funcs[i].module) && sema_is(e->member, call_funcs[i].name))
            return call_func(s, e, i);
    /* Behind the modules: no object may have the name of one (call_name_is_free). */
    o = e->text.ptr == NULL ? NULL : call_object(s, e->text, &number);
    if (o != NULL)
        return call_method(s, e, o, number);
    call_unknown(s, e);
    return NULL;
}

/* Its name must be free. */
static bool
call_name_is_free(struct sema *s, struct slice name, struct vcl_pos at)
{
    unsigned number, line, column;
    struct sema_object *o = call_object(s, name, &number);
    const char *other = NULL;

    if (o != NULL) {
        vcl_pos_place(o->pos, &line, &column);
        vcl_fail(s->cx, at, NULL, "object '%.*s' is made twice; first in %s line %u", (int)name.len,
            name.ptr, o->pos.file->name, line);
        return false;
    }
    for (struct ast_decl *d = s->cx->ast.backends; d != NULL; d = d->next)
        if (d->name.len == name.len && memcmp(d->name.ptr, name.ptr, name.len) == 0)
            other = "backend";
    for (struct ast_acl *a = s->cx->ast.acls; a != NULL; a = a->next)
        if (a->name.len == name.len && memcmp(a->name.ptr, name.ptr, name.len) == 0)
            other = "acl";
    if (sema_sub_find(s, name) != NULL)
        other = "sub";
    /* Else `std.log()` could mean a method. */
    if (call_module_exists(name))
        other = "module";
    if (other != NULL)
        vcl_fail(s->cx, at, NULL, "'%.*s' is the name of a %s", (int)name.len, name.ptr, other);
    return other == NULL;
}

static bool
call_new_allowed(struct sema *s, const struct ast_stmt *stmt)
{
    /* In vcl_init itself: a sub that it calls twice would make one object twice. */
    if (s->now->vcl == VCL_SUB_INIT)
        return true;
    vcl_fail(s->cx, stmt->pos, NULL, "`new` stands in vcl_init only");
    return false;
}

static int
call_object_kind(struct sema *s, const struct ast_expr *e)
{
    struct vcl_guess guess = {.meant = e->member};

    for (unsigned i = 0; i < VCL_OBJECT_COUNT; i++) {
        if (!sema_is(e->text, call_objects[i].module))
            continue;
        /* Among those of the module that was named. */
        vcl_guess_try(&guess, call_objects[i].name);
        if (sema_is(e->member, call_objects[i].name))
            return (int)i;
    }
    vcl_fail(s->cx, e->pos, vcl_guess_hint(s->cx, &guess), "there is no kind of object '%s'",
        call_shown(s, e));
    return -1;
}

struct sema_node *
sema_new(struct sema *s, struct ast_stmt *stmt)
{
    struct ast_expr *e = stmt->expr;
    struct call c = {.s = s, .e = e, .shown = call_shown(s, e)};
    struct sema_node *n = sema_node(s, VCL_OP_NEW, VCL_TYPE_VOID, e->pos);
    struct sema_object *o = vcl_alloc(s->cx, s->cx->scratch, sizeof(*o));
    /* All are looked at before any of them ends it: each mistake of the line is reported. */
    int kind = call_object_kind(s, e);
    bool ok = call_new_allowed(s, stmt);

    if (n == NULL || o == NULL || kind < 0)
        return NULL;
    if (!call_is_imported(s, e->text)) {
        vcl_fail(s->cx, e->pos,
            vcl_text(s->cx, "write `import %s;` above", call_objects[kind].module),
            "module %.*s is not imported", (int)e->text.len, e->text.ptr);
        ok = false;
    }
    ok = call_name_is_free(s, stmt->name, stmt->name_pos) && ok;
    ok = call_args(&c, call_objects[kind].args, n, 0) && ok;
    /* Its number has 16 bits of an instruction, beside those of `present`. */
    if (s->nobjects == SEMA_OBJECTS_MAX) {
        vcl_fail(s->cx, stmt->pos, NULL, "more than %d objects are made", SEMA_OBJECTS_MAX);
        return NULL;
    }
    *o = (struct sema_object){.name = stmt->name,
        .pos = stmt->name_pos,
        .kind = (enum vcl_object_kind)kind,
        .next = s->objects};
    s->objects = o; /* known from here on, also when it is wrong */
    n->b = (uint16_t)kind;
    n->c = s->nobjects | c.present << 16;
    s->nobjects++;
    return ok ? n : NULL;
}
