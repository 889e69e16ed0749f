/* vcl_parse.c -- tokens to tree: what all parts of the parser use, and where it begins.
 *
 * Recursive descent over an array of tokens that ends in TOK_END, so looking one or two ahead
 * needs no test.  A function returns NULL or false when it has reported an error; its caller
 * then skips to where the text is likely to be right again, and the parse goes on.  The tree
 * is in the load's scratch memory.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_parse_priv.h"

void
vcl_next(struct vcl_parser *p)
{
    p->prev = p->t;
    /* The end stays: whatever looks ahead finds it. */
    if (p->t->kind != TOK_END)
        p->t++;
}

bool
vcl_accept(struct vcl_parser *p, enum vcl_token_kind kind)
{
    if (!vcl_at(p, kind))
        return false;
    vcl_next(p);
    return true;
}

const char *
vcl_here(struct vcl_parser *p)
{
    struct slice text = slice_of(p->t->file->text.ptr + p->t->off, p->t->len);

    if (vcl_at(p, TOK_END))
        return "the end of the file";
    if (vcl_at(p, TOK_STRING))
        /* It may be long. */
        return "a string";
    return vcl_text(p->cx, "'%.*s'", (int)(text.len > 40 ? 40 : text.len), text.ptr);
}

/* At the token that is next; for all other places vcl_fail(). */
void
vcl_fail_here(struct vcl_parser *p, const char *hint, const char *fmt, ...)
{
    char message[512];
    va_list args;

    /* The lexer has reported what it could not read.  An end right behind it is no other error. */
    if (vcl_at(p, TOK_BAD) || (vcl_at(p, TOK_END) && p->prev != NULL && p->prev->kind == TOK_BAD))
        return;
    va_start(args, fmt);
    /* Put together first: vcl_fail() has a format of its own. */
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    vcl_fail(p->cx, vcl_token_pos(p->t), hint, "%s", message);
}

bool
vcl_expect(struct vcl_parser *p, enum vcl_token_kind kind, const char *what)
{
    if (vcl_accept(p, kind))
        return true;
    vcl_fail_here(p, NULL, "%s expected, not %s", what, vcl_here(p));
    return false;
}

bool
vcl_on_next_line(const struct vcl_parser *p)
{
    const struct vcl_token *prev = p->prev, *t = p->t;

    /* Another file begins on a line of its own. */
    if (prev == NULL || prev->file != t->file || prev->off > t->off)
        return true;
    return memchr(t->file->text.ptr + prev->off, '\n', t->off - prev->off) != NULL;
}

/* True also when it is only missing: that has been reported, and the statement is whole. */
bool
vcl_expect_semicolon(struct vcl_parser *p, const char *after)
{
    const char *hint = NULL;

    if (vcl_accept(p, TOK_SEMICOLON))
        return true;
    if (vcl_at(p, TOK_BAD))
        return false;
    tassert(p->prev != NULL);
    /* What follows begins something new, so it is only the ; that is missing. */
    if (vcl_at(p, TOK_END) || vcl_at(p, TOK_RBRACE) || vcl_starts_stmt(p) ||
        (p->sub == NULL && vcl_at(p, TOK_ID) && vcl_on_next_line(p))) {
        /* Where it ought to be; and then all is well again. */
        if (p->prev->kind != TOK_BAD)
            vcl_fail(p->cx, (struct vcl_pos){p->prev->file, p->prev->off + p->prev->len, 1}, NULL,
                "a ; is missing behind %s", after);
        return true;
    }
    if (vcl_at(p, TOK_STRING) || vcl_at(p, TOK_ID))
        hint = "strings are joined by +: Varnish has removed joining without it";
    vcl_fail_here(p, hint, "; expected behind %s, not %s", after, vcl_here(p));
    return false;
}

/* .ptr NULL: reported.  *pos is set in any case. */
struct slice
vcl_expect_name(struct vcl_parser *p, const char *what, struct vcl_pos *pos)
{
    struct slice name = {NULL, 0};

    *pos = vcl_token_pos(p->t);
    if (!vcl_at(p, TOK_ID)) {
        vcl_fail_here(p, vcl_at(p, TOK_STRING) ? "names have no quotes" : NULL,
            "%s expected, not %s", what, vcl_here(p));
        return name;
    }
    name = vcl_token_text(p->t);
    vcl_next(p);
    /* Names with dots are variables; a backend with one is a common try. */
    if (vcl_at(p, TOK_DOT)) {
        vcl_fail_here(p, "names are letters, digits, _ and -", "a . is no part of a name");
        return (struct slice){NULL, 0};
    }
    return name;
}

struct vcl_pos
vcl_span(const struct vcl_parser *p, const struct vcl_token *first)
{
    struct vcl_pos pos = vcl_token_pos(first);

    /* Over an include there is no span of one text. */
    if (p->prev != NULL && p->prev->file == first->file && p->prev->off >= first->off)
        pos.len = p->prev->off + p->prev->len - first->off;
    return pos;
}

bool
vcl_nest(struct vcl_parser *p)
{
    /* The parser and all that walks the tree behind it recurse by as much. */
    if (p->nest < VCL_NEST_MAX && p->depth < VCL_DEPTH_MAX)
        return true;
    vcl_fail_here(p, "a subroutine of its own makes it flatter",
        "this is nested too deep: at most %u levels, and %u of else-if", VCL_NEST_MAX,
        VCL_DEPTH_MAX);
    return false;
}

void
vcl_skip_braces(struct vcl_parser *p)
{
    unsigned open = 0;

    tassert(vcl_at(p, TOK_LBRACE));
    do {
        if (vcl_at(p, TOK_LBRACE))
            open++;
        else if (vcl_at(p, TOK_RBRACE))
            open--;
        vcl_next(p);
        /* Blocks in it have their own braces. */
    } while (open > 0 && !vcl_at(p, TOK_END));
}

/* One row of tokens: the main text with its includes, or builtin.vcl. */
static void
parse_text(struct vcl_parser *p, struct slice text, const char *name, bool builtin)
{
    struct vcl_tokens tokens;

    vcl_tokens_read(p->cx, text, name, builtin, &tokens);
    if (!p->cx->nomem) {
        p->t = tokens.at;
        p->prev = NULL;
        p->builtin = builtin;
        vcl_parse_file(p);
        tassert(p->cx->nomem || p->nest == 0);
    }
    /* The tree points into texts, and to no token. */
    free(tokens.at);
}

/* Leaves cx->ast, which may lack what was wrong.  The lists are in the order of the text. */
void
vcl_parse(struct vcl_cx *cx, const struct vcl_source *src)
{
    struct vcl_parser p = {
        .cx = cx,
        .imports = &cx->ast.imports,
        .acls = &cx->ast.acls,
        .probes = &cx->ast.probes,
        .backends = &cx->ast.backends,
        .subs = &cx->ast.subs,
        .unused = &cx->ast.unused,
    };

    parse_text(&p, src->text, src->name, false);
    /* Behind the text: its subs are appended to those of the same name (README 11). */
    if (!src->without_builtin && !cx->nomem)
        parse_text(&p, slice_of(vcl_builtin_text, vcl_builtin_len), "builtin.vcl", true);
}
