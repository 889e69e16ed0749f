/* vcl_parse_expr.c -- expressions, from || down to literals.
 *
 * Binding, loosest first: ||, &&, !, comparisons, + and -, * / and %, .lower() and the like.
 * `!` is looser than a comparison, as in Varnish: !a == b is !(a == b).
 */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_parse_priv.h"

enum {
    EXPR_INT_DIGITS_MAX = 15,     /* RFC 8941 3.3.1 */
    EXPR_REAL_DIGITS_MAX = 12,    /* RFC 8941 3.3.2: in front of the point */
    EXPR_FRACTION_DIGITS_MAX = 3, /* and behind it */
};

static struct ast_expr *expr_or(struct vcl_parser *p);

/* Lives until the load ends (scratch).  NULL: no memory, which cx->nomem says. */
static struct ast_expr *
expr_new(struct vcl_parser *p, enum ast_expr_kind kind, const struct vcl_token *first)
{
    struct ast_expr *e = vcl_alloc(p->cx, p->cx->scratch, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->kind = kind;
    e->pos = vcl_span(p, first);
    e->depth = 1;
    return e;
}

/* The depth of what e has become; NULL: too deep, and reported. */
static struct ast_expr *
expr_deepen(struct vcl_parser *p, struct ast_expr *e)
{
    unsigned below = e->left == NULL ? 0 : e->left->depth;

    if (e->right != NULL && e->right->depth > below)
        below = e->right->depth;
    /* Arguments recurse, too. */
    for (const struct ast_arg *a = e->args; a != NULL; a = a->next)
        if (a->value->depth > below)
            below = a->value->depth;
    e->depth = below + 1;
    /* The checker and the code generator recurse by as much. */
    if (e->depth < VCL_DEPTH_MAX)
        return e;
    vcl_fail(p->cx, e->pos, "put part of it into a header field first",
        "this expression is too long: at most %u operators", VCL_DEPTH_MAX);
    return NULL;
}

/* --- numbers --- */

static const struct {
    const char *name;
    enum vcl_type type;
    double factor;
} expr_units[] = {
    /* clang-format off */
    { "ms", VCL_TYPE_DURATION, 1e-3 },
    { "s",  VCL_TYPE_DURATION, 1 },
    { "m",  VCL_TYPE_DURATION, 60 },
    { "h",  VCL_TYPE_DURATION, 3600 },
    { "d",  VCL_TYPE_DURATION, 86400 },
    { "w",  VCL_TYPE_DURATION, 604800 },
    { "y",  VCL_TYPE_DURATION, 31536000 },
    { "B",  VCL_TYPE_BYTES, 1 },
    { "KB", VCL_TYPE_BYTES, 1024.0 },
    { "MB", VCL_TYPE_BYTES, 1024.0 * 1024 },
    { "GB", VCL_TYPE_BYTES, 1024.0 * 1024 * 1024 },
    { "TB", VCL_TYPE_BYTES, 1024.0 * 1024 * 1024 * 1024 },
    { "K",  VCL_TYPE_BYTES, 1024.0 },
    { "G",  VCL_TYPE_BYTES, 1024.0 * 1024 * 1024 },
    { "T",  VCL_TYPE_BYTES, 1024.0 * 1024 * 1024 * 1024 },
    { "M",  VCL_TYPE_BYTES, 1024.0 * 1024 },
    /* clang-format on */
};

/* Units of time are written small; those of bytes either way, so that only "m" is a minute. */
static int
expr_unit(struct slice word)
{
    for (unsigned i = 0; i < sizeof(expr_units) / sizeof(expr_units[0]); i++)
        if (slice_eq(word, slice_str(expr_units[i].name)) ||
            (expr_units[i].type == VCL_TYPE_BYTES &&
                slice_eq_nocase(word, slice_str(expr_units[i].name))))
            return (int)i;
    return -1;
}

/* Varnish's limits: beyond them a REAL would not keep every digit. */
static bool
expr_check_digits(struct vcl_parser *p, const struct vcl_token *t)
{
    struct slice text = vcl_token_text(t);
    const char *point = memchr(text.ptr, '.', text.len);
    size_t whole = point == NULL ? text.len : (size_t)(point - text.ptr);
    size_t fraction = point == NULL ? 0 : text.len - whole - 1;

    if (point == NULL && whole > EXPR_INT_DIGITS_MAX)
        vcl_fail(p->cx, vcl_token_pos(t), NULL, "a whole number has at most %u digits",
            EXPR_INT_DIGITS_MAX);
    else if (point != NULL && whole > EXPR_REAL_DIGITS_MAX)
        vcl_fail(p->cx, vcl_token_pos(t), NULL,
            "a number with a fraction has at most %u digits in front of the point",
            EXPR_REAL_DIGITS_MAX);
    else if (fraction > EXPR_FRACTION_DIGITS_MAX)
        vcl_fail(p->cx, vcl_token_pos(t), NULL, "a number has at most %u digits behind the point",
            EXPR_FRACTION_DIGITS_MAX);
    else
        return true;
    return false;
}

/* Times become seconds (r), sizes bytes (i and r).  A space may stand in front of the unit. */
bool
vcl_parse_number(struct vcl_parser *p, struct ast_number *out)
{
    const struct vcl_token *t = p->t;
    char digits[EXPR_INT_DIGITS_MAX + EXPR_FRACTION_DIGITS_MAX + 2] = "";
    double value;
    int unit;

    tassert(vcl_at(p, TOK_INT) || vcl_at(p, TOK_REAL));
    /* Also if it is wrong: the token has been judged. */
    vcl_next(p);
    if (!expr_check_digits(p, t))
        return false;
    /* Checked above: it fits, with its NUL. */
    memcpy(digits, vcl_token_text(t).ptr, vcl_token_text(t).len);
    /* LC_NUMERIC is never set: the point is a point. */
    value = strtod(digits, NULL);
    *out = (struct ast_number){
        .type = t->kind == TOK_INT ? VCL_TYPE_INT : VCL_TYPE_REAL,
        .i = (int64_t)value, /* 15 digits are exact */
        .r = value,
    };
    /* A name on the next line begins something else: a missing ; is reported there, not as a wrong
     * unit. */
    if (!vcl_at(p, TOK_ID) || vcl_on_next_line(p))
        return true;
    unit = expr_unit(vcl_token_text(p->t));
    if (unit < 0) {
        vcl_fail_here(
            p, "of time: ms s m h d w y; of bytes: B KB MB GB TB", "%s is no unit", vcl_here(p));
        return false;
    }
    vcl_next(p);
    out->type = expr_units[unit].type;
    out->r = value * expr_units[unit].factor;
    /* Just below 2^63: converting a larger double to int64_t is undefined. */
    if (out->type == VCL_TYPE_BYTES && out->r >= 9e18) {
        vcl_fail(p->cx, vcl_span(p, t), NULL, "this is more than there are bytes");
        return false;
    }
    out->i = out->type == VCL_TYPE_BYTES ? (int64_t)out->r : 0;
    return true;
}

static struct ast_expr *
expr_number(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_number number;
    struct ast_expr *e;

    if (!vcl_parse_number(p, &number))
        return NULL;
    e = expr_new(p, AST_NUMBER, first);
    if (e != NULL)
        e->number = number;
    return e;
}

/* --- names and calls --- */

/* A '.', and behind it a name or a quoted one, which must be the last. */
static bool
expr_path_part(struct vcl_parser *p, struct ast_expr *e, unsigned *nparts)
{
    if (!vcl_at(p, TOK_ID) && !vcl_at(p, TOK_STRING)) {
        vcl_fail_here(p, vcl_at(p, TOK_INT) ? "a field's name may be quoted: req.http.\"9\"" : NULL,
            "a name expected behind the ., not %s", vcl_here(p));
        return false;
    }
    /* More than one: a variable, or a function of a module. */
    (*nparts)++;
    /* Quoted, a field's name may have characters that no ID has. */
    if (vcl_at(p, TOK_STRING)) {
        e->field = vcl_token_text(p->t);
        if (e->field.len == 0) {
            vcl_fail_here(p, NULL, "a field's name cannot be empty");
            return false;
        }
    }
    vcl_next(p);
    return true;
}

/* The parts put together: most often they stand so in the text. */
static bool
expr_path_text(struct vcl_parser *p, struct ast_expr *e, const struct vcl_token *first)
{
    const struct vcl_token *last = e->field.ptr == NULL ? p->prev : p->prev - 1;
    size_t len = 0;
    char *to;

    for (const struct vcl_token *t = first; t <= last; t++)
        len += t->len;
    e->text = slice_of(first->file->text.ptr + first->off, len);
    /* Then it is borrowed from the text, without a copy. */
    if (last->file == first->file && last->off + last->len - first->off == len)
        return true;
    /* A comment or space stands between the parts. */
    to = vcl_alloc(p->cx, p->cx->scratch, len + 1);
    if (to == NULL)
        return false;
    e->text = slice_of(to, len);
    for (const struct vcl_token *t = first; t <= last; t++) {
        memcpy(to, t->file->text.ptr + t->off, t->len);
        to += t->len;
    }
    return true;
}

/* A name with its dots: variable, function or method are told apart later, by what is declared. */
struct ast_expr *
vcl_parse_path(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *e = expr_new(p, AST_NAME, first);
    unsigned nparts = 1;

    tassert(vcl_at(p, TOK_ID));
    vcl_next(p);
    /* A quoted name is the last part. */
    while (e != NULL && e->field.ptr == NULL && vcl_at(p, TOK_DOT)) {
        vcl_next(p);
        if (!expr_path_part(p, e, &nparts))
            return NULL;
    }
    if (e == NULL || !expr_path_text(p, e, first))
        return NULL;
    e->kind = nparts > 1 ? AST_VAR : AST_NAME;
    e->pos = vcl_span(p, first);
    return e;
}

static bool
expr_is_method(struct slice name)
{
    return slice_eq(name, slice_str("lower")) || slice_eq(name, slice_str("upper")) ||
           slice_eq(name, slice_str("resolve"));
}

/* Takes the last part off a path, with its dot. */
static struct slice
expr_split(struct slice *path)
{
    /* The last one: modules and objects have no dot in their names, variables do. */
    const char *dot = memrchr(path->ptr, '.', path->len);
    struct slice last = *path;

    /* A name alone has no module in front. */
    if (dot == NULL) {
        *path = (struct slice){NULL, 0};
        return last;
    }
    last = slice_of(dot + 1, path->len - (size_t)(dot + 1 - path->ptr));
    path->len = (size_t)(dot - path->ptr);
    return last;
}

static struct ast_expr *
expr_postfix_new(
    struct vcl_parser *p, struct ast_expr *left, struct slice method, const struct vcl_token *first)
{
    struct ast_expr *e;

    if (!vcl_expect(p, TOK_RPAREN, "a )"))
        return NULL;
    e = expr_new(p, AST_POSTFIX, first);
    if (e == NULL)
        return NULL;
    e->left = left;
    e->text = method;
    return expr_deepen(p, e);
}

/* path "(" was taken: a function, a method, or .lower() of a variable. */
static struct ast_expr *
expr_call(struct vcl_parser *p, struct ast_expr *e, const struct vcl_token *first)
{
    struct slice path = e->text, member = expr_split(&path);

    if (path.ptr != NULL && e->field.ptr == NULL && expr_is_method(member)) {
        e->text = path;
        /* An error about the variable marks the variable, without the method. */
        e->pos.len = (uint32_t)(e->pos.len - member.len - 1);
        e->kind = memchr(path.ptr, '.', path.len) == NULL ? AST_NAME : AST_VAR;
        return expr_postfix_new(p, e, member, first);
    }
    if (e->field.ptr != NULL || (path.ptr != NULL && memchr(path.ptr, '.', path.len) != NULL)) {
        vcl_fail(p->cx, e->pos,
            "functions are called as module.function(), methods as "
            "object.method(); of text there are .lower() and .upper()",
            "%.*s is no function", (int)(e->text.len > 60 ? 60 : e->text.len), e->text.ptr);
        return NULL;
    }
    e->kind = AST_CALL;
    e->text = path;
    e->member = member;
    if (!vcl_parse_args(p, &e->args, "an argument"))
        return NULL;
    e->pos = vcl_span(p, first);
    return expr_deepen(p, e);
}

/* The methods behind a value. */
static struct ast_expr *
expr_methods(struct vcl_parser *p, struct ast_expr *e, const struct vcl_token *first)
{
    while (e != NULL && vcl_accept(p, TOK_DOT)) {
        struct slice method;

        if (!vcl_at(p, TOK_ID) || !expr_is_method(vcl_token_text(p->t))) {
            vcl_fail_here(p, "there are .lower(), .upper() and .resolve()",
                "%s is no method of a value", vcl_here(p));
            return NULL;
        }
        method = vcl_token_text(p->t);
        vcl_next(p);
        if (!vcl_expect(p, TOK_LPAREN, "a ("))
            return NULL;
        e = expr_postfix_new(p, e, method, first);
    }
    return e;
}

/*    true   req.url   std.log("x")   rr.backend()   req.http.host.lower() */
struct ast_expr *
vcl_parse_postfix(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *e;

    if (vcl_token_is_nocase(first, "true") || vcl_token_is_nocase(first, "false")) {
        vcl_next(p);
        e = expr_new(p, AST_BOOL, first);
        if (e != NULL)
            e->yes = first->len == 4;
        return e;
    }
    e = vcl_parse_path(p);
    if (e != NULL && vcl_accept(p, TOK_LPAREN))
        e = expr_call(p, e, first);
    return expr_methods(p, e, first);
}

/* name = value, or a value alone. */
static struct ast_arg *
expr_arg(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_arg *a = vcl_alloc(p->cx, p->cx->scratch, sizeof(*a));

    if (a == NULL)
        return NULL;
    /* The last token is the end, so there is one behind an ID. */
    if (vcl_at(p, TOK_ID) && p->t[1].kind == TOK_ASSIGN) {
        a->name = vcl_token_text(p->t);
        vcl_next(p);
        vcl_next(p);
    }
    a->value = vcl_parse_expr(p);
    a->pos = vcl_span(p, first);
    return a->value == NULL ? NULL : a;
}

/* The ( has been taken.  On false *out may have those in front of the one that is wrong. */
bool
vcl_parse_args(struct vcl_parser *p, struct ast_arg **out, const char *what)
{
    if (vcl_accept(p, TOK_RPAREN))
        return true;
    /* Arguments are expressions with arguments: without a bound a text could exhaust the C
     * stack. */
    if (!vcl_nest(p))
        return false;
    p->nest++;
    do {
        *out = expr_arg(p);
        if (*out == NULL) {
            p->nest--;
            return false;
        }
        out = &(*out)->next;
    } while (vcl_accept(p, TOK_COMMA));
    p->nest--;
    if (vcl_accept(p, TOK_RPAREN))
        return true;
    vcl_fail_here(p,
        vcl_at(p, TOK_STRING) ? "strings are joined by +, and arguments separated by ," : NULL,
        "a , or ) expected behind %s, not %s", what, vcl_here(p));
    return false;
}

/* --- operators --- */

static struct ast_expr *
expr_string(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *e;

    vcl_next(p);
    e = expr_new(p, AST_STRING, first);
    if (e == NULL)
        return NULL;
    e->text = vcl_token_text(first);
    if (memchr(e->text.ptr, '\0', e->text.len) != NULL) {
        vcl_fail(p->cx, e->pos, NULL, "a string cannot hold a NUL byte");
        return NULL;
    }
    return e;
}

static struct ast_expr *
expr_parens(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *e;

    if (!vcl_nest(p))
        return NULL;
    vcl_next(p);
    p->nest++;
    e = expr_or(p);
    p->nest--;
    if (e == NULL)
        return NULL;
    if (!vcl_accept(p, TOK_RPAREN)) {
        vcl_fail_here(p, vcl_at(p, TOK_STRING) ? "strings are joined by +" : NULL,
            "a ) expected, not %s", vcl_here(p));
        return NULL;
    }
    e->parens = true;
    e->pos = vcl_span(p, first);
    return e;
}

static struct ast_expr *expr_prim(struct vcl_parser *p);

/* A minus binds tighter than any operator: -a + b is (-a) + b. */
static struct ast_expr *
expr_neg(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *e, *of;

    if (!vcl_nest(p))
        return NULL;
    vcl_next(p);
    p->nest++;
    of = expr_prim(p);
    p->nest--;
    if (of == NULL)
        return NULL;
    e = expr_new(p, AST_NEG, first);
    if (e == NULL)
        return NULL;
    e->left = of;
    return expr_deepen(p, e);
}

/* A value, with the methods behind it.  NULL: reported here or below. */
static struct ast_expr *
expr_prim(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    const char *hint = NULL;

    if (vcl_at(p, TOK_ID))
        return vcl_parse_postfix(p);
    if (vcl_at(p, TOK_STRING))
        return expr_methods(p, expr_string(p), first);
    if (vcl_at(p, TOK_INT) || vcl_at(p, TOK_REAL))
        return expr_number(p);
    if (vcl_at(p, TOK_MINUS))
        return expr_neg(p);
    if (vcl_at(p, TOK_LPAREN))
        return expr_methods(p, expr_parens(p), first);
    if (vcl_at(p, TOK_NOT))
        hint = "! stands in front of a comparison; elsewhere put it into parentheses: (!...)";
    else if (vcl_at(p, TOK_DOT))
        hint = "a number begins with a digit: 0.5";
    else if (vcl_at(p, TOK_ASSIGN))
        hint = "equal is ==";
    vcl_fail_here(p, hint, "a value expected, not %s", vcl_here(p));
    return NULL;
}

/* One row for each operator, from the loosest level to the tightest. */
enum expr_level {
    EXPR_OR,
    EXPR_AND,
    EXPR_COMPARE,
    EXPR_ADD,
    EXPR_MUL,
    EXPR_PRIM,
};
static const struct {
    enum vcl_token_kind token;
    enum expr_level level;
    enum ast_op op;
} expr_operators[] = {
    /* clang-format off */
    { TOK_OR,      EXPR_OR,      AST_OP_OR },
    { TOK_AND,     EXPR_AND,     AST_OP_AND },
    { TOK_EQ,      EXPR_COMPARE, AST_OP_EQ },
    { TOK_NE,      EXPR_COMPARE, AST_OP_NE },
    { TOK_LT,      EXPR_COMPARE, AST_OP_LT },
    { TOK_GT,      EXPR_COMPARE, AST_OP_GT },
    { TOK_LE,      EXPR_COMPARE, AST_OP_LE },
    { TOK_GE,      EXPR_COMPARE, AST_OP_GE },
    { TOK_MATCH,   EXPR_COMPARE, AST_OP_MATCH },
    { TOK_NOMATCH, EXPR_COMPARE, AST_OP_NOMATCH },
    { TOK_PLUS,    EXPR_ADD,     AST_OP_ADD },
    { TOK_MINUS,   EXPR_ADD,     AST_OP_SUB },
    { TOK_STAR,    EXPR_MUL,     AST_OP_MUL },
    { TOK_SLASH,   EXPR_MUL,     AST_OP_DIV },
    { TOK_PERCENT, EXPR_MUL,     AST_OP_MOD },
    /* clang-format on */
};

static bool
expr_operator(const struct vcl_parser *p, enum expr_level level, enum ast_op *op)
{
    for (unsigned i = 0; i < sizeof(expr_operators) / sizeof(expr_operators[0]); i++) {
        if (expr_operators[i].level == level && vcl_at(p, expr_operators[i].token)) {
            *op = expr_operators[i].op;
            return true;
        }
    }
    return false;
}

static struct ast_expr *expr_level(struct vcl_parser *p, enum expr_level level);

/* "!" in front of a comparison. */
static struct ast_expr *
expr_not(struct vcl_parser *p)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *e, *of;

    if (!vcl_accept(p, TOK_NOT))
        return expr_level(p, EXPR_COMPARE);
    of = expr_level(p, EXPR_COMPARE);
    if (of == NULL)
        return NULL;
    e = expr_new(p, AST_NOT, first);
    if (e == NULL)
        return NULL;
    e->left = of;
    return expr_deepen(p, e);
}

static struct ast_expr *
expr_below(struct vcl_parser *p, enum expr_level level)
{
    if (level == EXPR_AND)
        return expr_not(p);
    if (level == EXPR_MUL)
        return expr_prim(p);
    return expr_level(p, level + 1);
}

/* Operands of one level, from left to right; of a comparison, two.  One function for five
 * levels: an operator that is added needs a row and no code. */
static struct ast_expr *
expr_level(struct vcl_parser *p, enum expr_level level)
{
    const struct vcl_token *first = p->t;
    struct ast_expr *left = expr_below(p, level);
    enum ast_op op;

    while (left != NULL && expr_operator(p, level, &op)) {
        struct vcl_pos op_pos = vcl_token_pos(p->t);
        struct ast_expr *e, *right;

        vcl_next(p);
        right = expr_below(p, level);
        if (right == NULL)
            return NULL;
        e = expr_new(p, AST_BINARY, first);
        if (e == NULL)
            return NULL;
        e->op = op;
        e->op_pos = op_pos;
        e->left = left;
        e->right = right;
        left = expr_deepen(p, e);
        if (level == EXPR_COMPARE && left != NULL && expr_operator(p, level, &op)) {
            vcl_fail_here(
                p, "join them by &&, or use parentheses", "comparisons cannot be chained");
            return NULL;
        }
    }
    return left;
}

static struct ast_expr *
expr_or(struct vcl_parser *p)
{
    return expr_level(p, EXPR_OR);
}

struct ast_expr *
vcl_parse_expr(struct vcl_parser *p)
{
    return expr_or(p);
}
