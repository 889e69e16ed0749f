/* vcl_check_stmt.c -- statements: what may be set, unset, returned.
 *
 * Each statement is checked by itself, and its typed expression is hung into the tree
 * (expr->what), from which vcl_lower.c makes code.  Whether a variable may be used where it
 * stands is not decided here: a sub may be called from several places, so uses are noted, and
 * vcl_check_graph.c judges them.
 */
#include "vcl-lite/vcl_sema.h"

#include <string.h>
#include <strings.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_filter.h"

static void stmt_list(struct sema *s, struct ast_stmt *stmt);

/* --- set and unset --- */

/* How long the message is only its framing may say (RFC 9112 6.3). */
static bool
stmt_is_framing(struct sema *s, const struct ast_expr *e, enum vcl_var var)
{
    size_t family = strlen(vcl_var_name(var));
    struct slice name = e->field;

    /* Not quoted: the field's name is what follows the family in the text. */
    if (name.ptr == NULL)
        name = (struct slice){e->text.ptr + family, e->text.len - family};
    if (!(name.len == 14 && strncasecmp(name.ptr, "content-length", 14) == 0) &&
        !(name.len == 17 && strncasecmp(name.ptr, "transfer-encoding", 17) == 0))
        return false;
    vcl_fail(s->cx, e->pos, NULL, "'%s' is read only: it says how the message is framed",
        sema_shown(s, e));
    return true;
}

/* Checks that it can be set, or unset, at all; where is decided when the callers are known. */
static bool
stmt_writable(struct sema *s, const struct ast_expr *e, enum vcl_var var, enum sema_use_kind kind)
{
    unsigned where = sema_var_where(var, kind);
    unsigned flags = sema_var_flags(var);

    /* Which version the text says decides. */
    if (kind == SEMA_SET && (flags & VCL_W40) != 0 && s->cx->ast.version > 40)
        where = 0;
    if (where == 0) {
        vcl_fail(s->cx, e->pos,
            kind == SEMA_SET && (flags & VCL_W40) != 0 ? "it could be set in vcl 4.0" : NULL,
            kind == SEMA_SET ? "'%s' is read only" : "'%s' cannot be unset", sema_shown(s, e));
        return false;
    }
    if (sema_var_type(var) == VCL_TYPE_HEADER && stmt_is_framing(s, e, var))
        return false;
    /* Only noted: this sub may be called from several places, and each must allow it. */
    sema_use(s, kind, e->pos, sema_shown(s, e), where);
    /* A warning: a policy for Varnish that sets it is right there. */
    if (sema_var_inert(var) != NULL)
        vcl_warn(s->cx, e->pos, NULL, "'%s' changes nothing here, the line is left out: %s",
            sema_shown(s, e), sema_var_inert(var));
    return true;
}

static enum ast_op
stmt_assign_op(enum ast_assign op)
{
    switch (op) {
    case AST_ASSIGN_SUB:
        return AST_OP_SUB;
    case AST_ASSIGN_MUL:
        return AST_OP_MUL;
    case AST_ASSIGN_DIV:
        return AST_OP_DIV;
    case AST_ASSIGN:
    case AST_ASSIGN_ADD:
        break;
    }
    return AST_OP_ADD;
}

/* set x += y: the value of x, and y, put together or computed. */
static struct sema_node *
stmt_combine(struct sema *s, struct ast_stmt *stmt, enum vcl_var var, enum vcl_type type)
{
    static const char *const ops[] = {"=", "+=", "-=", "*=", "/="};
    /* x is read: where it cannot be, += cannot be either. */
    struct sema_node *before = sema_read(s, stmt->var, var), *with, *n;

    if (type == VCL_TYPE_STRING) {
        with = sema_expr(s, stmt->expr, VCL_TYPE_STRING);
        if (stmt->op == AST_ASSIGN_ADD)
            /* NULL on either side is an error that has been reported. */
            return sema_concat(s, before, with);
        n = NULL;
    } else {
        with = sema_expr(s, stmt->expr, VCL_TYPE_VOID);
        if (before == NULL || with == NULL)
            return NULL;
        n = sema_arithmetic(s, stmt_assign_op(stmt->op), before, with);
        /* BYTES times a REAL stay BYTES; a TIME less a TIME is no TIME. */
        if (n != NULL && n->type == type)
            return n;
    }
    if (!s->cx->nomem)
        vcl_fail(s->cx, stmt->expr->pos, NULL, "%s %s %s is not possible",
            sema_type_name(sema_var_type(var)), ops[stmt->op],
            with == NULL ? "that" : sema_type_name(with->type));
    return NULL;
}

/* A list that stands in the text is read at load; another one when it is set. */
static void
stmt_check_filters(struct sema *s, enum vcl_var var, const struct sema_node *n)
{
    struct slice bad;

    if (n->op == VCL_OP_CONST && vcl_filters(var, slice_of(n->value.s, n->value.len), &bad) < 0)
        vcl_fail(s->cx, n->pos, NULL, "there is no filter '%.*s' here: there are %s", (int)bad.len,
            bad.ptr, vcl_filters_known(var));
}

static void
stmt_set(struct sema *s, struct ast_stmt *stmt)
{
    enum vcl_var var = sema_var(s, stmt->var);
    enum vcl_type type;
    struct sema_node *n;

    if (var == VCL_VAR_COUNT) {
        /* For its own errors: all of them come at once. */
        sema_expr(s, stmt->expr, VCL_TYPE_VOID);
        return;
    }
    type = sema_var_type(var);
    if (type == VCL_TYPE_HEADER)
        /* A field holds text: everything that has a text may be set. */
        type = VCL_TYPE_STRING;
    if (!stmt_writable(s, stmt->var, var, SEMA_SET)) {
        sema_expr(s, stmt->expr, VCL_TYPE_VOID);
        return;
    }
    if (type == VCL_TYPE_BODY && stmt->op != AST_ASSIGN && stmt->op != AST_ASSIGN_ADD)
        vcl_fail(s->cx, stmt->pos, NULL, "a body can be set, or added to with +=");
    /* A body is never read: += adds to its list. */
    if (stmt->op == AST_ASSIGN || type == VCL_TYPE_BODY)
        n = sema_expr(s, stmt->expr, type);
    else
        n = stmt_combine(s, stmt, var, type);
    if (vcl_is_filters(var) && n != NULL)
        stmt_check_filters(s, var, n);
    /* NULL after an error: there will be no code. */
    stmt->expr->what = n;
}

static void
stmt_unset(struct sema *s, struct ast_stmt *stmt)
{
    enum vcl_var var = sema_var(s, stmt->var);

    if (var == VCL_VAR_COUNT || !stmt_writable(s, stmt->var, var, SEMA_UNSET))
        return;
    if (sema_var_type(var) == VCL_TYPE_HEADER)
        /* For its error: code finds the number again. */
        sema_field(s, stmt->var, var);
}

/* --- return --- */

static unsigned
stmt_nargs(const struct ast_stmt *stmt)
{
    unsigned n = 0;

    for (const struct ast_arg *arg = stmt->args; arg != NULL; arg = arg->next)
        n++;
    return n;
}

/* Of the last three digits the first is 1 to 9: they are what is sent (vcl(7), synth). */
static void
stmt_status(struct sema *s, const struct sema_node *n)
{
    /* One that is computed is judged when it runs (vcl_return_status). */
    if (n == NULL || n->op != VCL_OP_CONST)
        return;
    if (n->value.i < 100 || n->value.i > 65535 || n->value.i % 1000 < 100)
        vcl_fail(s->cx, n->pos, "100 to 999, or 1100 to 65535: then the last three digits are sent",
            "%lld cannot be a status", (long long)n->value.i);
}

static void
stmt_arg(struct sema *s, struct ast_arg *arg, enum vcl_type type)
{
    if (arg->name.ptr != NULL)
        vcl_fail(s->cx, arg->pos, NULL, "arguments of return() have no names");
    /* Kept in the tree: the code is made from there. */
    arg->value->what = sema_expr(s, arg->value, type);
}

/* vcl(label) */
static void
stmt_label(struct sema *s, struct ast_arg *arg)
{
    struct ast_expr *e = arg->value;
    int n = e->kind == AST_NAME ? vcl_label_number(s->cx, e->text) : -1;

    if (n < 0)
        vcl_fail(s->cx, e->pos, "a label is given to a loaded policy through the admin API",
            "there is no label '%.*s'", (int)e->text.len, e->text.ptr != NULL ? e->text.ptr : "");
    else
        /* Its number, and the name in the policy: what it stands for may change while this one
         * serves. */
        e->what = sema_const_int(s, VCL_TYPE_INT, n, e->pos);
}

/* How many arguments an action may have. */
static void
stmt_return_args(struct sema *s, struct ast_stmt *stmt, enum vcl_action a)
{
    unsigned n = stmt_nargs(stmt), least = 0, most = 0;

    if (a == VCL_ACT_SYNTH || a == VCL_ACT_ERROR) {
        /* synth needs a status; error() with parentheses, too, for empty ones mean nothing. */
        least = a == VCL_ACT_SYNTH || stmt->has_args ? 1 : 0;
        most = 2;
    } else if (a == VCL_ACT_VCL) {
        least = most = 1;
    } else if (a == VCL_ACT_PASS || a == VCL_ACT_FAIL) {
        least = stmt->has_args ? 1 : 0;
        most = 1;
    }
    if (n < least || n > most) {
        vcl_fail(s->cx, stmt->name_pos,
            a == VCL_ACT_SYNTH   ? "return(synth(404)); or return(synth(404, \"Not here\"));"
            : a == VCL_ACT_ERROR ? "return(error(503, \"Why\"));"
                                 : NULL,
            n < least ? "%s needs an argument" : "%s has too many arguments", vcl_action_name(a));
        return;
    }
    if (n == 0)
        return;
    if (a == VCL_ACT_VCL) {
        stmt_label(s, stmt->args);
    } else if (a == VCL_ACT_PASS) {
        stmt_arg(s, stmt->args, VCL_TYPE_DURATION);
    } else if (a == VCL_ACT_FAIL) {
        stmt_arg(s, stmt->args, VCL_TYPE_STRING);
    } else {
        stmt_arg(s, stmt->args, VCL_TYPE_INT);
        stmt_status(s, stmt->args->value->what);
        if (n == 2)
            stmt_arg(s, stmt->args->next, VCL_TYPE_STRING);
    }
}

static void
stmt_return(struct sema *s, struct ast_stmt *stmt)
{
    enum vcl_action a;
    unsigned where;

    if (stmt->name.len == 0) {
        /* Elsewhere a bare return leaves the sub. */
        if (s->now->vcl >= 0)
            vcl_fail(s->cx, stmt->pos, vcl_text(s->cx, "write return(...) with one of its actions"),
                "%s needs an action to return", s->now->name);
        return;
    }
    a = sema_action(stmt->name);
    if (a == VCL_ACT_COUNT) {
        struct vcl_guess guess = {.meant = stmt->name};
        const char *hint = vcl_removed(VCL_REMOVED_ACTION, stmt->name);

        for (unsigned i = VCL_ACT_NONE + 1; i < VCL_ACT_COUNT; i++)
            vcl_guess_try(&guess, vcl_action_name((enum vcl_action)i));
        vcl_fail(s->cx, stmt->name_pos, hint != NULL ? hint : vcl_guess_hint(s->cx, &guess),
            "there is no action '%.*s'", (int)stmt->name.len, stmt->name.ptr);
        return;
    }
    where = sema_action_where(a);
    /* pass(120s) is hit-for-pass, which only a response can be. */
    if (a == VCL_ACT_PASS && stmt->has_args)
        where = VCL_IN(BACKEND_RESPONSE);
    sema_use(s, SEMA_RETURN, stmt->name_pos,
        a == VCL_ACT_PASS && stmt->has_args ? "pass(duration)" : vcl_action_name(a), where);
    stmt_return_args(s, stmt, a);
}

/* --- the rest --- */

static void
stmt_call(struct sema *s, struct ast_stmt *stmt)
{
    struct sema_sub *sub = sema_sub_find(s, stmt->name);
    struct vcl_guess guess = {.meant = stmt->name};
    struct sema_call *call;

    if (sub == NULL) {
        for (const struct sema_sub *other = s->subs; other != NULL; other = other->next)
            vcl_guess_try(&guess, other->name);
        vcl_fail(s->cx, stmt->name_pos, vcl_guess_hint(s->cx, &guess), "there is no sub '%.*s'",
            (int)stmt->name.len, stmt->name.ptr);
        return;
    }
    call = vcl_alloc(s->cx, s->cx->scratch, sizeof(*call));
    if (call == NULL)
        return;
    /* Noted for the graph: a sub may stand below the one that calls it. */
    *call = (struct sema_call){.sub = sub, .pos = stmt->name_pos, .next = s->now->calls};
    s->now->calls = call;
}

static void
stmt_text(struct sema *s, struct ast_stmt *stmt, const char *what, unsigned where)
{
    sema_use(s, SEMA_STATEMENT, stmt->pos, what, where);
    stmt->expr->what = sema_expr(s, stmt->expr, VCL_TYPE_STRING);
}

static void
stmt_expr(struct sema *s, struct ast_stmt *stmt)
{
    struct sema_node *n = sema_call(s, stmt->expr);

    /* It has no effect: the line was meant to be something else. */
    if (n != NULL && n->op == VCL_OP_REGSUB)
        vcl_fail(s->cx, stmt->expr->pos, "set a variable to it", "its value is not used");
    stmt->expr->what = n;
}

/* A chain of elseif may be of any length: a loop walks it, no recursion. */
static void
stmt_if(struct sema *s, struct ast_stmt *stmt)
{
    for (;; stmt = stmt->otherwise) {
        stmt->expr->what = sema_expr(s, stmt->expr, VCL_TYPE_BOOL);
        stmt_list(s, stmt->body);
        if (stmt->otherwise == NULL || stmt->otherwise->kind != AST_IF ||
            /* An `else` block that has an `if` in it, and more behind: no chain. */
            stmt->otherwise->next != NULL)
            break;
    }
    stmt_list(s, stmt->otherwise);
}

static void
stmt_one(struct sema *s, struct ast_stmt *stmt)
{
    switch (stmt->kind) {
    case AST_BLOCK:
        stmt_list(s, stmt->body);
        break;
    case AST_SET:
        stmt_set(s, stmt);
        break;
    case AST_UNSET:
        stmt_unset(s, stmt);
        break;
    case AST_CALL_SUB:
        stmt_call(s, stmt);
        break;
    case AST_IF:
        stmt_if(s, stmt);
        break;
    case AST_RETURN:
        stmt_return(s, stmt);
        break;
    case AST_HASH_DATA:
        stmt_text(s, stmt, "hash_data()", VCL_IN(HASH));
        break;
    case AST_BAN:
        stmt_text(s, stmt, "ban()", VCL_CLIENT | VCL_BACKEND);
        break;
    case AST_SYNTHETIC:
        /* Which body it adds to follows from the callers (lower_synthetic). */
        stmt_text(s, stmt, "synthetic()", VCL_IN(SYNTH) | VCL_IN(BACKEND_ERROR));
        break;
    case AST_NEW:
        stmt->expr->what = sema_new(s, stmt);
        break;
    case AST_EXPR:
        stmt_expr(s, stmt);
        break;
    }
}

static void
stmt_list(struct sema *s, struct ast_stmt *stmt)
{
    /* No more errors than that are reported, so they are not looked for. */
    for (; stmt != NULL && !s->cx->nomem && s->cx->nerrors <= VCL_ERRORS_MAX; stmt = stmt->next)
        stmt_one(s, stmt);
}

void
sema_body(struct sema *s, struct sema_sub *sub)
{
    s->now = sub;
    /* A vcl_* sub may be written several times: they run in the order of the text. */
    for (unsigned i = 0; i < sub->ndefs; i++)
        stmt_list(s, sub->defs[i]->body);
    s->now = NULL;
}
