/* vcl_check_expr.c -- expressions: their types, conversions, and what is known at load.
 *
 * The rules are those of Varnish's compiler: the left operand of `+` decides whether it adds or
 * puts strings together; where a STRING is wanted, what cannot be added is put together; and
 * comparisons never convert (vcl(7), Expressions).
 */
#include "vcl-lite/vcl_sema.h"

#include <math.h>
#include <string.h>

#include "daemon/base/tassert.h"

static struct sema_node *sema_any(struct sema *s, struct ast_expr *e, enum vcl_type want);

/* INT and BYTES become REAL where a REAL is wanted; a constant at the load, without an
 * instruction. */
static struct sema_node *
sema_as_real(struct sema *s, struct sema_node *n)
{
    /* NULL: reported already. */
    if (n == NULL || (n->type != VCL_TYPE_INT && n->type != VCL_TYPE_BYTES))
        return n;
    if (sema_is_const(n))
        return sema_const_real(s, VCL_TYPE_REAL, (double)n->value.i, n->pos);
    return sema_node1(s, VCL_OP_INT_REAL, VCL_TYPE_REAL, n);
}

/* The type of `left op right`; VOID: there is no such operation. */
static enum vcl_type
sema_result(enum ast_op op, enum vcl_type left, enum vcl_type right)
{
    static const struct {
        enum ast_op op;
        enum vcl_type left, right, result;
    } rows[] = {
    /* clang-format off */
#define ROW(op, left, right, result) \
    {AST_OP_##op, VCL_TYPE_##left, VCL_TYPE_##right, VCL_TYPE_##result}
        ROW(ADD, INT, INT, INT),                ROW(SUB, INT, INT, INT),
        ROW(ADD, INT, REAL, REAL),              ROW(SUB, INT, REAL, REAL),
        ROW(ADD, REAL, INT, REAL),              ROW(SUB, REAL, INT, REAL),
        ROW(ADD, REAL, REAL, REAL),             ROW(SUB, REAL, REAL, REAL),
        ROW(ADD, BYTES, BYTES, BYTES),          ROW(SUB, BYTES, BYTES, BYTES),
        ROW(ADD, DURATION, DURATION, DURATION), ROW(SUB, DURATION, DURATION, DURATION),
        ROW(ADD, TIME, DURATION, TIME),         ROW(SUB, TIME, DURATION, TIME),
        ROW(SUB, TIME, TIME, DURATION),
        ROW(MUL, INT, INT, INT),                ROW(DIV, INT, INT, INT),
        ROW(MOD, INT, INT, INT),
        ROW(MUL, REAL, REAL, REAL),             ROW(DIV, REAL, REAL, REAL),
        ROW(MUL, REAL, INT, REAL),              ROW(DIV, REAL, INT, REAL),
        ROW(MUL, DURATION, REAL, DURATION),     ROW(DIV, DURATION, REAL, DURATION),
        ROW(MUL, DURATION, INT, DURATION),      ROW(DIV, DURATION, INT, DURATION),
        ROW(MUL, BYTES, REAL, BYTES),           ROW(DIV, BYTES, REAL, BYTES),
        ROW(MUL, BYTES, INT, BYTES),            ROW(DIV, BYTES, INT, BYTES),
#undef ROW
        /* clang-format on */
    };

    /* A table, and not a rule: Varnish's compiler has no more than these. */
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].op == op && rows[i].left == left && rows[i].right == right)
            return rows[i].result;
    return VCL_TYPE_VOID;
}

/* Two INTs that are known; false: leave it to the machine, which fails where it must. */
static bool
sema_fold_int(enum ast_op op, int64_t x, int64_t y, int64_t *out)
{
    static const int64_t max = 999999999999999; /* RFC 8941 3.3.1 */
    int64_t r;

    if (x > max || x < -max || y > max || y < -max)
        return false;
    if (op == AST_OP_ADD)
        r = x + y;
    else if (op == AST_OP_SUB)
        r = x - y;
    else if (op == AST_OP_MUL && !__builtin_mul_overflow(x, y, &r))
        ;
    /* A division by zero stays in the code: the run fails at its line, and only if it gets
     * there. */
    else if (op == AST_OP_DIV && y != 0)
        r = x / y;
    else if (op == AST_OP_MOD && y != 0)
        r = x % y;
    else
        return false;
    /* As the machine judges it (VCL_INT_MAX). */
    if (r > max || r < -max)
        return false;
    *out = r;
    return true;
}

static bool
sema_fold_real(enum ast_op op, double x, double y, double *out)
{
    if (op == AST_OP_ADD)
        *out = x + y;
    else if (op == AST_OP_SUB)
        *out = x - y;
    else if (op == AST_OP_MUL)
        *out = x * y;
    /* As with INT: where it divides by zero, it fails when it runs. */
    else if (op == AST_OP_DIV && y != 0)
        *out = x / y;
    else
        return false;
    /* What is not finite is left to the machine, which fails there as for values that are not
     * known. */
    return isfinite(*out);
}

static unsigned
sema_arithmetic_op(enum ast_op op, bool real)
{
    switch ((unsigned)op) {
    case AST_OP_ADD:
        return real ? VCL_OP_ADD_REAL : VCL_OP_ADD_INT;
    case AST_OP_SUB:
        return real ? VCL_OP_SUB_REAL : VCL_OP_SUB_INT;
    case AST_OP_MUL:
        return real ? VCL_OP_MUL_REAL : VCL_OP_MUL_INT;
    case AST_OP_DIV:
        return real ? VCL_OP_DIV_REAL : VCL_OP_DIV_INT;
    default:
        tassert(!real);
        return VCL_OP_MOD_INT;
    }
}

struct sema_node *
sema_arithmetic(struct sema *s, enum ast_op op, struct sema_node *left, struct sema_node *right)
{
    enum vcl_type type = sema_result(op, left->type, right->type);
    /* BYTES times a REAL are computed as REAL, and rounded at the end. */
    bool whole, scaled = type == VCL_TYPE_BYTES && right->type != VCL_TYPE_BYTES;
    struct sema_node *n;
    double r;
    int64_t i;

    if (type == VCL_TYPE_VOID)
        return NULL;
    whole = type == VCL_TYPE_INT || (type == VCL_TYPE_BYTES && !scaled);
    /* At the load, so that `60 * 60` costs a request nothing. */
    if (whole && sema_is_const(left) && sema_is_const(right) &&
        sema_fold_int(op, left->value.i, right->value.i, &i))
        return sema_const_int(s, type, i, left->pos);
    if (!whole) {
        left = sema_as_real(s, left);
        right = sema_as_real(s, right);
    }
    if (left == NULL || right == NULL)
        return NULL;
    if (!whole && !scaled && sema_is_const(left) && sema_is_const(right) &&
        sema_fold_real(op, left->value.r, right->value.r, &r))
        return sema_const_real(s, type, r, left->pos);
    n = sema_node2(s, sema_arithmetic_op(op, !whole), type, left, right);
    return scaled ? sema_node1(s, VCL_OP_ROUND_BYTES, VCL_TYPE_BYTES, n) : n;
}

static const char *const sema_op_text[] = {
    [AST_OP_OR] = "||",
    [AST_OP_AND] = "&&",
    [AST_OP_EQ] = "==",
    [AST_OP_NE] = "!=",
    [AST_OP_LT] = "<",
    [AST_OP_GT] = ">",
    [AST_OP_LE] = "<=",
    [AST_OP_GE] = ">=",
    [AST_OP_MATCH] = "~",
    [AST_OP_NOMATCH] = "!~",
    [AST_OP_ADD] = "+",
    [AST_OP_SUB] = "-",
    [AST_OP_MUL] = "*",
    [AST_OP_DIV] = "/",
    [AST_OP_MOD] = "%",
};

static const char *
sema_arithmetic_hint(enum ast_op op, enum vcl_type left, enum vcl_type right)
{
    if (op == AST_OP_MOD)
        return "operator % is for INT only";
    if (op == AST_OP_ADD && right == VCL_TYPE_STRING)
        return "begin with the string: \"\" + x";
    /* The table has one of the two orders, as Varnish has. */
    if (left == VCL_TYPE_INT && sema_result(op, right, left) != VCL_TYPE_VOID)
        return "write the INT on the right";
    if (right == VCL_TYPE_INT && (left == VCL_TYPE_DURATION || left == VCL_TYPE_TIME))
        return "a DURATION has a unit: 10s, 5m, 1h, 2d";
    return NULL;
}

static struct sema_node *
sema_add(struct sema *s, struct ast_expr *e, enum vcl_type want)
{
    struct sema_node *left = sema_any(s, e->left, want), *right, *n;
    bool joins;

    if (left == NULL) {
        sema_any(s, e->right, want); /* its errors are reported too */
        return NULL;
    }
    /* Decided by the left side, before the right one is looked at. */
    joins = e->op == AST_OP_ADD && (want == VCL_TYPE_STRING || left->type == VCL_TYPE_STRING);
    right = sema_any(s, e->right, joins ? VCL_TYPE_STRING : want);
    if (right == NULL)
        return NULL;
    /* First as numbers: 1 + 2 in a text is "3", as in Varnish. */
    n = sema_arithmetic(s, e->op, left, right);
    if (n != NULL || s->cx->nomem)
        return n;
    if (!joins) {
        vcl_fail(s->cx, e->op_pos, sema_arithmetic_hint(e->op, left->type, right->type),
            "%s %s %s is not possible", sema_type_name(left->type), sema_op_text[e->op],
            sema_type_name(right->type));
        return NULL;
    }
    return sema_concat(s, sema_convert(s, left, VCL_TYPE_STRING, e->left->pos),
        sema_convert(s, right, VCL_TYPE_STRING, e->right->pos));
}

static uint8_t
sema_cmp(enum ast_op op)
{
    static const uint8_t cmp[] = {
        [AST_OP_EQ] = VCL_CMP_EQ,
        [AST_OP_NE] = VCL_CMP_NE,
        [AST_OP_LT] = VCL_CMP_LT,
        [AST_OP_GT] = VCL_CMP_GT,
        [AST_OP_LE] = VCL_CMP_LE,
        [AST_OP_GE] = VCL_CMP_GE,
    };

    return cmp[op];
}

/* By which instruction values of a type are compared; 0: they are not. */
static unsigned
sema_cmp_op(enum vcl_type type, bool ordered)
{
    switch ((unsigned)type) {
    case VCL_TYPE_INT:
    case VCL_TYPE_BYTES:
        return VCL_OP_CMP_INT;
    case VCL_TYPE_BOOL:
        /* true is not more than false. */
        return ordered ? 0 : VCL_OP_CMP_INT;
    case VCL_TYPE_REAL:
    case VCL_TYPE_DURATION:
    case VCL_TYPE_TIME:
        return VCL_OP_CMP_REAL;
    /* Ordered too, by bytes. */
    case VCL_TYPE_STRING:
        return VCL_OP_CMP_STR;
    case VCL_TYPE_IP:
        return ordered ? 0 : VCL_OP_CMP_IP;
    case VCL_TYPE_BACKEND:
    case VCL_TYPE_STEVEDORE:
        return ordered ? 0 : VCL_OP_CMP_PTR;
    default:
        return 0;
    }
}

/* In a comparison of several parts an unset string is an empty one (VRT_CompareStrands). */
static void
sema_cmp_strings(struct sema *s, struct sema_node **left, struct sema_node **right)
{
    bool parts = (*left)->op == VCL_OP_CONCAT || (*right)->op == VCL_OP_CONCAT;

    /* A string alone that is unset equals nothing. */
    if (!parts)
        return;
    if ((*left)->op != VCL_OP_CONCAT && !sema_is_const_string(*left))
        *left = sema_node1(s, VCL_OP_EMPTY, VCL_TYPE_STRING, *left);
    if ((*right)->op != VCL_OP_CONCAT && !sema_is_const_string(*right))
        *right = sema_node1(s, VCL_OP_EMPTY, VCL_TYPE_STRING, *right);
}

static const char *
sema_compare_hint(enum vcl_type left, enum vcl_type right)
{
    if ((left == VCL_TYPE_DURATION && right == VCL_TYPE_INT) ||
        (left == VCL_TYPE_INT && right == VCL_TYPE_DURATION))
        return "a DURATION has a unit: 10s, 5m, 1h, 2d";
    if (left == VCL_TYPE_STRING && right == VCL_TYPE_INT)
        return "compare with a string, or write std.integer(x, 0)";
    if (left == VCL_TYPE_INT && right == VCL_TYPE_STRING)
        return "write the number without quotes";
    if (left == VCL_TYPE_INT && right == VCL_TYPE_REAL)
        return "write a whole number, or std.real(integer=x)";
    if (left == VCL_TYPE_BACKEND && right == VCL_TYPE_STRING)
        return "write the backend's name without quotes";
    return NULL;
}

static struct sema_node *
sema_compare(struct sema *s, struct ast_expr *e)
{
    struct sema_node *left = sema_any(s, e->left, VCL_TYPE_VOID), *right, *n;
    bool ordered = e->op != AST_OP_EQ && e->op != AST_OP_NE;
    unsigned op;

    /* By the type of the left: a bare word on the right may be a backend or an acl. */
    right = sema_any(s, e->right, left == NULL ? VCL_TYPE_VOID : left->type);
    if (left == NULL || right == NULL)
        return NULL;
    /* The one conversion in a comparison: an address has no literal of its own. */
    if (left->type == VCL_TYPE_IP && sema_is_const_string(right))
        right = sema_to_ip(s, right);
    if (right == NULL)
        return NULL;
    if (left->type != right->type) {
        vcl_fail(s->cx, e->op_pos, sema_compare_hint(left->type, right->type),
            "comparison of different types: %s %s %s", sema_type_name(left->type),
            sema_op_text[e->op], sema_type_name(right->type));
        return NULL;
    }
    op = sema_cmp_op(left->type, ordered);
    if (op == 0) {
        vcl_fail(s->cx, e->op_pos, NULL, "operator %s is not possible on %s", sema_op_text[e->op],
            sema_type_name(left->type));
        return NULL;
    }
    if (op == VCL_OP_CMP_STR)
        sema_cmp_strings(s, &left, &right);
    n = sema_node2(s, op, VCL_TYPE_BOOL, left, right);
    if (n != NULL)
        n->a = sema_cmp(e->op);
    return n;
}

/* x ~ "pattern", x ~ acl, and their negations */
static struct sema_node *
sema_match(struct sema *s, struct ast_expr *e)
{
    struct sema_node *left = sema_any(s, e->left, VCL_TYPE_VOID), *right, *n;
    bool acl;

    if (left == NULL)
        return NULL;
    /* As in a comparison, nothing is converted. */
    if (left->type != VCL_TYPE_STRING && left->type != VCL_TYPE_IP) {
        vcl_fail(s->cx, e->op_pos, "the left side of ~ is a STRING, or an IP with an acl",
            "operator %s is not possible on %s", sema_op_text[e->op], sema_type_name(left->type));
        return NULL;
    }
    acl = left->type == VCL_TYPE_IP;
    right = sema_any(s, e->right, acl ? VCL_TYPE_ACL : VCL_TYPE_STRING);
    if (right == NULL)
        return NULL;
    if (acl && right->type != VCL_TYPE_ACL) {
        vcl_fail(s->cx, e->right->pos, "declare an acl, and write its name without quotes",
            "expression has type %s, expected ACL", sema_type_name(right->type));
        return NULL;
    }
    if (!acl && !sema_is_const_string(right)) {
        vcl_fail(s->cx, e->right->pos, "a pattern is a literal: it is compiled at load",
            "expression has type %s, expected REGEX", sema_type_name(right->type));
        return NULL;
    }
    n = sema_node1(s, acl ? VCL_OP_MATCH_ACL : VCL_OP_MATCH, VCL_TYPE_BOOL, left);
    if (n == NULL)
        return NULL;
    /* By number: the instruction has no room for a pointer. */
    n->c = acl ? (uint32_t)right->value.i
               : sema_regex(s, (struct slice){right->value.s, right->value.len}, e->right->pos);
    if (n->c == UINT32_MAX)
        return NULL;
    return e->op == AST_OP_NOMATCH ? sema_node1(s, VCL_OP_NOT, VCL_TYPE_BOOL, n) : n;
}

static struct sema_node *
sema_logic(struct sema *s, struct ast_expr *e)
{
    struct sema_node *left = sema_expr(s, e->left, VCL_TYPE_BOOL);
    struct sema_node *right = sema_expr(s, e->right, VCL_TYPE_BOOL);

    /* A node of its own, which becomes jumps: the right side may not run. */
    return sema_node2(s, e->op == AST_OP_AND ? SEMA_AND : SEMA_OR, VCL_TYPE_BOOL, left, right);
}

static struct sema_node *
sema_binary(struct sema *s, struct ast_expr *e, enum vcl_type want)
{
    switch (e->op) {
    case AST_OP_OR:
    case AST_OP_AND:
        return sema_logic(s, e);
    case AST_OP_EQ:
    case AST_OP_NE:
    case AST_OP_LT:
    case AST_OP_GT:
    case AST_OP_LE:
    case AST_OP_GE:
        return sema_compare(s, e);
    case AST_OP_MATCH:
    case AST_OP_NOMATCH:
        return sema_match(s, e);
    case AST_OP_ADD:
    case AST_OP_SUB:
        return sema_add(s, e, want);
    case AST_OP_MUL:
    case AST_OP_DIV:
    case AST_OP_MOD:
        /* Without a wish: of these none puts strings together. */
        return sema_add(s, e, VCL_TYPE_VOID);
    }
    return NULL;
}

static struct sema_node *
sema_negative(struct sema *s, struct ast_expr *e, enum vcl_type want)
{
    /* A string that is wanted is made behind the minus. */
    struct sema_node *n = sema_any(s, e->left, want == VCL_TYPE_STRING ? VCL_TYPE_VOID : want);

    if (n == NULL)
        return NULL;
    if (n->type == VCL_TYPE_INT) {
        if (sema_is_const(n))
            /* Literals have 15 digits: none is the smallest number, which has no negative. */
            return sema_const_int(s, n->type, -n->value.i, e->pos);
        return sema_node1(s, VCL_OP_NEG_INT, n->type, n);
    }
    if (n->type == VCL_TYPE_REAL || n->type == VCL_TYPE_DURATION) {
        if (sema_is_const(n))
            return sema_const_real(s, n->type, -n->value.r, e->pos);
        return sema_node1(s, VCL_OP_NEG_REAL, n->type, n);
    }
    vcl_fail(s->cx, e->pos, NULL, "a %s has no negative", sema_type_name(n->type));
    return NULL;
}

static struct sema_node *
sema_not(struct sema *s, struct ast_expr *e)
{
    struct sema_node *n = sema_expr(s, e->left, VCL_TYPE_BOOL);

    if (n == NULL)
        return NULL;
    if (sema_is_const(n))
        return sema_const_int(s, VCL_TYPE_BOOL, n->value.i == 0, e->pos);
    return sema_node1(s, VCL_OP_NOT, VCL_TYPE_BOOL, n);
}

/* x.lower() and x.upper(), of a STRING; x.resolve(), of a BACKEND. */
static struct sema_node *
sema_postfix(struct sema *s, struct ast_expr *e)
{
    struct sema_node *n = sema_any(s, e->left, VCL_TYPE_VOID);

    if (n == NULL)
        return NULL;
    /* Checked here, and not by the parser, for it does not know types. */
    if (n->type == VCL_TYPE_STRING && sema_is(e->text, "lower"))
        return sema_node1(s, VCL_OP_LOWER, VCL_TYPE_STRING, n);
    if (n->type == VCL_TYPE_STRING && sema_is(e->text, "upper"))
        return sema_node1(s, VCL_OP_UPPER, VCL_TYPE_STRING, n);
    if (n->type == VCL_TYPE_BACKEND && sema_is(e->text, "resolve"))
        return sema_node1(s, VCL_OP_RESOLVE, VCL_TYPE_BACKEND, n);
    vcl_fail(s->cx, e->pos, "a STRING has .lower() and .upper(), a BACKEND .resolve()",
        "a %s has no .%.*s()", sema_type_name(n->type), (int)e->text.len, e->text.ptr);
    return NULL;
}

static struct sema_node *
sema_number(struct sema *s, const struct ast_expr *e)
{
    if (e->number.type == VCL_TYPE_INT || e->number.type == VCL_TYPE_BYTES)
        return sema_const_int(s, e->number.type, e->number.i, e->pos);
    return sema_const_real(s, e->number.type, e->number.r, e->pos);
}

static struct sema_node *
sema_any(struct sema *s, struct ast_expr *e, enum vcl_type want)
{
    switch (e->kind) {
    case AST_STRING:
        return sema_const_string(s, e->text, e->pos);
    case AST_NUMBER:
        return sema_number(s, e);
    case AST_BOOL:
        return sema_const_int(s, VCL_TYPE_BOOL, e->yes, e->pos);
    /* A word alone means what is wanted: an acl and a backend may have one spelling in two
     * places. */
    case AST_NAME:
        return sema_word(s, e, want);
    case AST_VAR:
        return sema_variable(s, e);
    case AST_CALL:
        return sema_call(s, e);
    case AST_POSTFIX:
        return sema_postfix(s, e);
    case AST_NOT:
        return sema_not(s, e);
    case AST_NEG:
        return sema_negative(s, e, want);
    case AST_BINARY:
        return sema_binary(s, e, want);
    }
    return NULL;
}

struct sema_node *
sema_expr(struct sema *s, struct ast_expr *e, enum vcl_type want)
{
    struct sema_node *n = sema_any(s, e, want);

    /* A function without a result leaves nothing on the stack: the code would take what is
     * below. */
    if (n != NULL && n->type == VCL_TYPE_VOID) {
        vcl_fail(s->cx, e->pos, "call it as a statement of its own", "it returns nothing");
        return NULL;
    }
    return sema_convert(s, n, want, e->pos);
}
