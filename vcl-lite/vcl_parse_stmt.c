/* vcl_parse_stmt.c -- statements.
 *
 * A wrong statement is reported once and skipped up to its ';' or to the block it has, so that one
 * mistake makes one error.  Inside an `if` with a wrong condition the parser goes on.
 */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_parse_priv.h"

/* Each parses what is behind its word; false: wrong, and reported. */
typedef bool stmt_parse_f(struct vcl_parser *p, struct ast_stmt *s);

static stmt_parse_f stmt_set, stmt_unset, stmt_call, stmt_if, stmt_return, stmt_new, stmt_text;

static const struct {
    const char *word;
    enum ast_stmt_kind kind;
    stmt_parse_f *parse;
} stmt_words[] = {
    /* clang-format off */
    { "set",       AST_SET,       stmt_set },
    { "unset",     AST_UNSET,     stmt_unset },
    { "call",      AST_CALL_SUB,  stmt_call },
    { "if",        AST_IF,        stmt_if },
    { "return",    AST_RETURN,    stmt_return },
    { "hash_data", AST_HASH_DATA, stmt_text },
    { "ban",       AST_BAN,       stmt_text },
    { "synthetic", AST_SYNTHETIC, stmt_text },
    { "new",       AST_NEW,       stmt_new },
    /* clang-format on */
};
enum {
    STMT_WORDS = sizeof(stmt_words) / sizeof(stmt_words[0])
};

static int
stmt_word(const struct vcl_token *t)
{
    for (unsigned i = 0; i < STMT_WORDS; i++)
        if (vcl_token_is(t, stmt_words[i].word))
            return (int)i;
    return -1;
}

static bool
stmt_is_else_if(const struct vcl_token *t)
{
    return vcl_token_is(t, "elseif") || vcl_token_is(t, "elsif") || vcl_token_is(t, "elif") ||
           (vcl_token_is(t, "else") && vcl_token_is(t + 1, "if"));
}

bool
vcl_starts_stmt(const struct vcl_parser *p)
{
    const struct vcl_token *t = p->t;

    /* On the same line it is more likely part of what is wrong. */
    if (!vcl_on_next_line(p))
        return false;
    if (t->kind != TOK_ID)
        return t->kind == TOK_LBRACE;
    if (stmt_word(t) >= 0 || vcl_token_is(t, "else") || stmt_is_else_if(t) ||
        vcl_removed(VCL_REMOVED_WORD, vcl_token_text(t)) != NULL)
        return true;
    /* std.log(...): the END behind the tokens makes looking ahead safe. */
    return t[1].kind == TOK_DOT && t[2].kind == TOK_ID && t[3].kind == TOK_LPAREN;
}

/* Is this the head of a declaration?  Within a block it means that a } is missing. */
static bool
stmt_is_declaration(const struct vcl_token *t)
{
    static const char *const words[] = {"sub", "acl", "backend", "probe"};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (vcl_token_is(t, words[i]))
            /* Two names, or a name and a brace: `set acl = ...` is none. */
            return t[1].kind == TOK_ID && (t[2].kind == TOK_LBRACE || t[2].kind == TOK_ID);
    return false;
}

/* Behind a statement that is wrong. */
static void
stmt_skip(struct vcl_parser *p)
{
    while (!vcl_at(p, TOK_END) && !vcl_at(p, TOK_RBRACE) && !stmt_is_declaration(p->t)) {
        if (vcl_at(p, TOK_LBRACE)) {
            vcl_skip_braces(p);
            (void)vcl_accept(p, TOK_SEMICOLON);
            /* An else belongs to the statement that is skipped. */
            if (!vcl_token_is(p->t, "else") && !stmt_is_else_if(p->t))
                return;
        } else if (vcl_accept(p, TOK_SEMICOLON)) {
            /* A ; within an expression that is wrong is not its end. */
            if (vcl_at(p, TOK_ID) || vcl_on_next_line(p))
                return;
        } else {
            vcl_next(p);
            if (vcl_starts_stmt(p) && !vcl_at(p, TOK_LBRACE) && !vcl_token_is(p->t, "else"))
                return;
        }
    }
}

/* `verb` is for the message. */
static struct ast_expr *
stmt_variable(struct vcl_parser *p, const char *verb)
{
    struct ast_expr *e;

    if (!vcl_at(p, TOK_ID)) {
        vcl_fail_here(p, NULL, "%s wants a variable, not %s", verb, vcl_here(p));
        return NULL;
    }
    e = vcl_parse_path(p);
    if (e != NULL)
        e->kind = AST_VAR; /* without a dot, too: the checker says that there is none */
    return e;
}

static bool
stmt_assign(struct vcl_parser *p, enum ast_assign *op)
{
    static const struct {
        enum vcl_token_kind token;
        enum ast_assign op;
    } signs[] = {
        {TOK_ASSIGN, AST_ASSIGN},
        {TOK_ASSIGN_ADD, AST_ASSIGN_ADD},
        {TOK_ASSIGN_SUB, AST_ASSIGN_SUB},
        {TOK_ASSIGN_MUL, AST_ASSIGN_MUL},
        {TOK_ASSIGN_DIV, AST_ASSIGN_DIV},
    };

    for (unsigned i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (vcl_accept(p, signs[i].token)) {
            *op = signs[i].op;
            return true;
        }
    }
    /* == here and = in a condition are the two that are mixed up. */
    vcl_fail_here(p, vcl_at(p, TOK_EQ) ? "set gives a value with one =" : NULL,
        "an = expected, not %s", vcl_here(p));
    return false;
}

static bool
stmt_set(struct vcl_parser *p, struct ast_stmt *s)
{
    s->var = stmt_variable(p, "set");
    if (s->var == NULL || !stmt_assign(p, &s->op))
        return false;
    s->expr = vcl_parse_expr(p);
    /* Its error has been reported where it is. */
    return s->expr != NULL && vcl_expect_semicolon(p, "set");
}

static bool
stmt_unset(struct vcl_parser *p, struct ast_stmt *s)
{
    s->var = stmt_variable(p, "unset");
    if (s->var == NULL)
        return false;
    if (vcl_at(p, TOK_COMMA)) {
        vcl_fail_here(p, "write one unset for each", "unset takes one variable");
        return false;
    }
    return vcl_expect_semicolon(p, "unset");
}

static bool
stmt_call(struct vcl_parser *p, struct ast_stmt *s)
{
    s->name = vcl_expect_name(p, "the name of a subroutine", &s->name_pos);
    if (s->name.ptr == NULL)
        return false;
    if (vcl_at(p, TOK_LPAREN)) {
        vcl_fail_here(p, "call NAME;", "subroutines take no arguments");
        return false;
    }
    return vcl_expect_semicolon(p, "call");
}

/* hash_data(...), ban(...), synthetic(...): their word is p->prev. */
static bool
stmt_text(struct vcl_parser *p, struct ast_stmt *s)
{
    const struct vcl_token *word = p->prev;
    const char *name = vcl_text(p->cx, "%.*s", (int)word->len, vcl_token_text(word).ptr);

    if (name == NULL)
        return false;
    if (!vcl_accept(p, TOK_LPAREN)) {
        vcl_fail_here(p, vcl_text(p->cx, "%s(\"...\");", name), "a ( expected behind %s, not %s",
            name, vcl_here(p));
        return false;
    }
    s->expr = vcl_parse_expr(p);
    if (s->expr == NULL)
        return false;
    if (!vcl_accept(p, TOK_RPAREN)) {
        vcl_fail_here(p, vcl_at(p, TOK_STRING) ? "strings are joined by +" : NULL,
            "a ) expected, not %s", vcl_here(p));
        return false;
    }
    return vcl_expect_semicolon(p, name);
}

static bool
stmt_return(struct vcl_parser *p, struct ast_stmt *s)
{
    /* A bare return has no name, and no missing one. */
    s->name = slice_of("", 0);
    s->name_pos = vcl_token_pos(p->prev);
    if (vcl_accept(p, TOK_SEMICOLON))
        return true;
    if (!vcl_accept(p, TOK_LPAREN)) {
        vcl_fail_here(p,
            vcl_at(p, TOK_ID)
                ? vcl_text(p->cx, "return (%.*s);", (int)p->t->len, vcl_token_text(p->t).ptr)
                : NULL,
            "the action of return stands in parentheses");
        return false;
    }
    s->name = vcl_expect_name(p, "an action", &s->name_pos);
    if (s->name.ptr == NULL)
        return false;
    if (vcl_accept(p, TOK_LPAREN)) {
        s->has_args = true;
        /* Of any number: which action takes how many is the checker's. */
        if (!vcl_parse_args(p, &s->args, "an argument"))
            return false;
    }
    return vcl_expect(p, TOK_RPAREN, "a )") && vcl_expect_semicolon(p, "return");
}

static bool
stmt_new(struct vcl_parser *p, struct ast_stmt *s)
{
    s->name = vcl_expect_name(p, "the name of the object", &s->name_pos);
    if (s->name.ptr == NULL || !vcl_expect(p, TOK_ASSIGN, "an ="))
        return false;
    if (!vcl_at(p, TOK_ID)) {
        vcl_fail_here(
            p, "new NAME = directors.round_robin();", "a type expected, not %s", vcl_here(p));
        return false;
    }
    s->expr = vcl_parse_postfix(p);
    if (s->expr == NULL)
        return false;
    /* A call with a module in front. */
    if (s->expr->kind != AST_CALL || s->expr->text.ptr == NULL) {
        vcl_fail(p->cx, s->expr->pos, "new NAME = directors.round_robin();",
            "new wants module.type(...) behind the =");
        return false;
    }
    return vcl_expect_semicolon(p, "new");
}

/* --- if --- */

/* Up to the block behind a condition that is wrong, which is taken for `true`: what stands in the
 * block can be checked all the same. */
static bool
stmt_find_block(struct vcl_parser *p, struct ast_stmt *s)
{
    s->expr = vcl_alloc(p->cx, p->cx->scratch, sizeof(*s->expr));
    if (s->expr == NULL)
        return false;
    *s->expr =
        (struct ast_expr){.kind = AST_BOOL, .pos = vcl_token_pos(p->t), .yes = true, .depth = 1};
    while (!vcl_at(p, TOK_LBRACE)) {
        if (vcl_at(p, TOK_END) || vcl_at(p, TOK_SEMICOLON) || vcl_at(p, TOK_RBRACE) ||
            /* A statement: then the block's brace is what is missing. */
            stmt_word(p->t) >= 0)
            return false;
        vcl_next(p);
    }
    return true;
}

/* "(" expr ")" in front of a block; false: wrong and reported, and no block can be found. */
static bool
stmt_condition(struct vcl_parser *p, struct ast_stmt *s)
{
    const char *hint = NULL;

    if (!vcl_accept(p, TOK_LPAREN)) {
        vcl_fail_here(p, "if (condition) { ... }", "a ( expected behind if, not %s", vcl_here(p));
        return stmt_find_block(p, s);
    }
    s->expr = vcl_parse_expr(p);
    if (s->expr == NULL)
        return stmt_find_block(p, s);
    if (vcl_accept(p, TOK_RPAREN))
        return true;
    if (vcl_at(p, TOK_ASSIGN))
        hint = "equal is ==";
    else if (vcl_at(p, TOK_STRING))
        hint = "strings are joined by +";
    /* Words of other languages. */
    else if (vcl_token_is(p->t, "and") || vcl_token_is(p->t, "or"))
        hint = "and is &&, or is ||";
    vcl_fail_here(p, hint, "a ) expected, not %s", vcl_here(p));
    return stmt_find_block(p, s);
}

/* One branch; *more: where the next one goes. */
static bool
stmt_branch(struct vcl_parser *p, struct ast_stmt *s)
{
    if (!stmt_condition(p, s))
        return false;
    if (!vcl_at(p, TOK_LBRACE)) {
        vcl_fail_here(p, "if (condition) { ... }: also around a single statement",
            "a { expected behind the condition, not %s", vcl_here(p));
        return false;
    }
    vcl_parse_block(p, &s->body);
    /* Where a } is missing, nothing that follows belongs to this one. */
    return !p->unwinding;
}

/* Each else-if is one deeper in the tree. */
static struct ast_stmt *
stmt_else_if(struct vcl_parser *p, struct ast_stmt *s)
{
    struct ast_stmt *branch = vcl_alloc(p->cx, p->cx->scratch, sizeof(*branch));
    const struct vcl_token *first = p->t;

    /* A chain is a list in the text, and a depth in the tree. */
    if (branch == NULL || !vcl_nest(p))
        return NULL;
    p->depth++;
    if (vcl_token_is(p->t, "else"))
        vcl_next(p);
    vcl_next(p);
    branch->kind = AST_IF;
    branch->pos = vcl_token_pos(first);
    s->otherwise = branch;
    return branch;
}

static bool
stmt_if(struct vcl_parser *p, struct ast_stmt *s)
{
    unsigned depth = p->depth;
    bool ok = stmt_branch(p, s);

    while (ok && stmt_is_else_if(p->t)) {
        s = stmt_else_if(p, s);
        ok = s != NULL && stmt_branch(p, s);
        if (ok)
            /* The branch alone, for its trace. */
            s->pos.len = p->prev->file == s->pos.file && p->prev->off >= s->pos.off
                             ? p->prev->off + p->prev->len - s->pos.off
                             : s->pos.len;
    }
    if (ok && vcl_token_is(p->t, "else")) {
        vcl_next(p);
        ok = vcl_at(p, TOK_LBRACE);
        if (ok)
            vcl_parse_block(p, &s->otherwise);
        else
            vcl_fail_here(p, NULL, "a { expected behind else, not %s", vcl_here(p));
    }
    /* The else-ifs behind each other were counted as nesting, since the tree is as deep as they
     * are many. */
    p->depth = depth;
    return ok;
}

/* --- what is no statement --- */

/* x = y without set, and the like. */
static void
stmt_fail_path(struct vcl_parser *p, const struct vcl_token *first, const struct ast_expr *e)
{
    struct slice text = e->kind == AST_CALL ? e->member : e->text;
    struct vcl_guess guess = {.meant = text};
    struct vcl_pos pos = e->kind == AST_CALL ? vcl_token_pos(first) : e->pos;
    const char *hint = NULL;

    /* The word is what is forgotten most. */
    if (vcl_at(p, TOK_ASSIGN) || vcl_at(p, TOK_ASSIGN_ADD) || vcl_at(p, TOK_ASSIGN_SUB) ||
        vcl_at(p, TOK_ASSIGN_MUL) || vcl_at(p, TOK_ASSIGN_DIV)) {
        vcl_fail(p->cx, e->pos,
            vcl_text(p->cx, "set %.*s = ...;", (int)first->len, first->file->text.ptr + first->off),
            "set is missing in front of an assignment");
        return;
    }
    if (e->kind == AST_NAME || e->kind == AST_CALL) {
        for (unsigned i = 0; i < STMT_WORDS; i++)
            vcl_guess_try(&guess, stmt_words[i].word);
        hint = vcl_guess_hint(p->cx, &guess);
    }
    vcl_fail(
        p->cx, pos, hint, "%.*s is no statement", (int)(text.len > 60 ? 60 : text.len), text.ptr);
}

/* module.function(...); and object.method(...); */
static bool
stmt_expr(struct vcl_parser *p, struct ast_stmt *s)
{
    const struct vcl_token *first = p->t;
    const char *removed = vcl_removed(VCL_REMOVED_WORD, vcl_token_text(first));

    /* A module may have such a name. */
    if (removed != NULL && first[1].kind != TOK_DOT && first[1].kind != TOK_LPAREN) {
        vcl_fail_here(p, removed, "%s is not part of VCL 4", vcl_here(p));
        /* Behind the word: stmt_skip() would stop at it again. */
        vcl_next(p);
        return false;
    }
    if (vcl_token_is(first, "else") || stmt_is_else_if(first)) {
        vcl_fail_here(p, NULL, "%s without an if in front of it", vcl_here(p));
        vcl_next(p);
        return false;
    }
    s->kind = AST_EXPR;
    s->expr = vcl_parse_postfix(p);
    if (s->expr == NULL)
        return false;
    if (s->expr->kind != AST_CALL || s->expr->text.ptr == NULL) {
        stmt_fail_path(p, first, s->expr);
        return false;
    }
    return vcl_expect_semicolon(p, "the call");
}

static void
stmt_fail_other(struct vcl_parser *p)
{
    if (vcl_at(p, TOK_SEMICOLON))
        vcl_fail_here(p, "none stands behind a }, and none alone", "this ; ends nothing");
    else
        vcl_fail_here(p, NULL, "a statement expected, not %s", vcl_here(p));
    /* So that each round takes something. */
    if (!vcl_at(p, TOK_END) && !vcl_at(p, TOK_SEMICOLON) && !vcl_at(p, TOK_RBRACE))
        vcl_next(p);
}

static bool
stmt_parse(struct vcl_parser *p, struct ast_stmt *s)
{
    int word = stmt_word(p->t);

    if (vcl_at(p, TOK_LBRACE)) {
        s->kind = AST_BLOCK;
        vcl_parse_block(p, &s->body);
        return !p->unwinding;
    }
    if (word >= 0) {
        s->kind = stmt_words[word].kind;
        vcl_next(p);
        return stmt_words[word].parse(p, s);
    }
    if (vcl_at(p, TOK_ID))
        return stmt_expr(p, s);
    stmt_fail_other(p);
    return false;
}

/* A declaration begins within a subroutine: its } is missing, and all its blocks end here. */
static void
stmt_unwind(struct vcl_parser *p)
{
    unsigned line = 0, column;
    struct slice name = {NULL, 0};

    /* Once, however many blocks are open. */
    if (!p->unwinding && p->sub != NULL) {
        name = vcl_token_text(p->sub);
        vcl_pos_place(vcl_token_pos(p->sub), &line, &column);
        vcl_fail_here(p,
            vcl_text(p->cx, "sub %.*s begins in line %u", (int)(name.len > 60 ? 60 : name.len),
                name.ptr, line),
            "%s within a subroutine: a } is missing in front of it", vcl_here(p));
    }
    p->unwinding = true;
    /* So many } may come behind, which close nothing then. */
    p->surplus = p->nest;
}

/* The statements of a block, up to its }. */
static void
stmt_list(struct vcl_parser *p, struct ast_stmt **out)
{
    while (!vcl_at(p, TOK_RBRACE) && !vcl_at(p, TOK_END) && !p->cx->nomem) {
        const struct vcl_token *first = p->t;
        struct ast_stmt *s;

        if (stmt_is_declaration(p->t)) {
            stmt_unwind(p);
            return;
        }
        s = vcl_alloc(p->cx, p->cx->scratch, sizeof(*s));
        if (s == NULL)
            return;
        if (!stmt_parse(p, s)) {
            /* The declaration that begins here is not to be skipped. */
            if (p->unwinding)
                return;
            stmt_skip(p);
            continue;
        }
        s->pos = vcl_span(p, first);
        *out = s;
        out = &s->next;
    }
}

/* At its {.  Afterwards p stands behind the }, or at the declaration that ends it (`unwinding`). */
void
vcl_parse_block(struct vcl_parser *p, struct ast_stmt **out)
{
    const struct vcl_token *open = p->t;

    tassert(vcl_at(p, TOK_LBRACE));
    if (!vcl_nest(p)) {
        /* What is too deep is not looked at: it could only be reported for the same reason. */
        vcl_skip_braces(p);
        return;
    }
    vcl_next(p);
    p->nest++;
    /* `nest` counts what is open in the text, `depth` how deep the tree is: else-ifs add to the
     * second alone. */
    p->depth++;
    stmt_list(p, out);
    p->nest--;
    p->depth--;
    if (p->unwinding || vcl_accept(p, TOK_RBRACE))
        return;
    /* Said once, of the innermost: the blocks around it see `unwinding`. */
    if (vcl_at(p, TOK_END) && !p->cx->nomem && p->prev->kind != TOK_BAD)
        vcl_fail(p->cx, vcl_token_pos(open), NULL, "this { has no }");
    p->unwinding = true;
}
