/* vcl_parse_top.c -- what stands outside of subroutines: vcl, import, sub, unused. */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_parse_priv.h"

static const char *const top_words[] = {
    "vcl", "import", "include", "acl", "probe", "backend", "sub", "unused"};
enum {
    TOP_WORDS = sizeof(top_words) / sizeof(top_words[0])
};

static bool
top_is_word(const struct vcl_token *t)
{
    for (unsigned i = 0; i < TOP_WORDS; i++)
        if (vcl_token_is(t, top_words[i]))
            return true;
    /* Of VCL 3: known, so that the error says what is right. */
    return vcl_token_is(t, "director");
}

/* Up to the next declaration. */
static void
top_skip(struct vcl_parser *p)
{
    while (!vcl_at(p, TOK_END) && !top_is_word(p->t)) {
        /* Words in a block begin no declaration. */
        if (vcl_at(p, TOK_LBRACE))
            vcl_skip_braces(p);
        else
            vcl_next(p);
    }
}

/* vcl 4.1; behind the word vcl.  An included file may say 4.0 where the first says 4.1. */
static void
top_version(struct vcl_parser *p)
{
    const struct vcl_token *t = p->t;
    struct slice text = vcl_token_text(t);
    int version = slice_eq(text, slice_str("4.0")) ? 40 : slice_eq(text, slice_str("4.1")) ? 41 : 0;

    if (t->kind != TOK_REAL && t->kind != TOK_INT) {
        vcl_fail_here(p, "vcl 4.1;", "a version expected behind vcl, not %s", vcl_here(p));
        return;
    }
    vcl_next(p);
    if (version == 0)
        vcl_fail(p->cx, vcl_token_pos(t), "vcl-lite knows 4.0 and 4.1: vcl 4.1;",
            "there is no VCL version %.*s here", (int)(text.len > 20 ? 20 : text.len), text.ptr);
    /* The first one says it for the load. */
    else if (p->cx->ast.version == 0)
        p->cx->ast.version = version;
    else if (version > p->cx->ast.version && !p->builtin)
        vcl_fail(p->cx, vcl_token_pos(t), "let the first file say vcl 4.1;",
            "an included file cannot say 4.1 where the first says 4.0");
    vcl_expect_semicolon(p, "the version");
}

/* The first words of the text. */
static void
top_first(struct vcl_parser *p)
{
    struct vcl_pos at = vcl_token_pos(p->t);

    /* Once for each text: an included file may leave it out. */
    if (vcl_token_is(p->t, "vcl") || p->builtin)
        return;
    p->cx->ast.version = 41; /* what is new is the more likely */
    if (vcl_at(p, TOK_BAD))
        return;
    if (vcl_at(p, TOK_END))
        at.off = 0;
    vcl_fail(p->cx, at, "vcl 4.1;", "a policy begins with the version of its language");
}

/* Which modules there are is the checker's to know. */
static void
top_import(struct vcl_parser *p)
{
    struct ast_import *i = vcl_alloc(p->cx, p->cx->scratch, sizeof(*i));

    if (i == NULL)
        return;
    i->name = vcl_expect_name(p, "a module", &i->pos);
    if (i->name.ptr == NULL)
        return;
    /* Known also with `from`: its functions are then no second error. */
    *p->imports = i;
    p->imports = &i->next;
    if (vcl_token_is(p->t, "from"))
        vcl_fail_here(p,
            vcl_text(
                p->cx, "import %.*s;", (int)(i->name.len > 60 ? 60 : i->name.len), i->name.ptr),
            "modules are part of Tarn, so they come from nowhere else");
    else
        (void)vcl_expect_semicolon(p, "import");
}

/* vcl_recv may be written again, others are checked by name later; VCL 3's are reported here. */
static void
top_check_sub_name(struct vcl_parser *p, const struct ast_sub *s)
{
    const char *removed = vcl_removed(VCL_REMOVED_SUB, s->name);

    if (removed != NULL)
        vcl_fail(
            p->cx, s->pos, removed, "%.*s is not part of VCL 4", (int)s->name.len, s->name.ptr);
}

/* In the list before its body is parsed: calls of it elsewhere find it, whatever is wrong in it. */
static void
top_sub(struct vcl_parser *p)
{
    struct ast_sub *s = vcl_alloc(p->cx, p->cx->scratch, sizeof(*s));
    const struct vcl_token *name = p->t;

    if (s == NULL)
        return;
    s->name = vcl_expect_name(p, "the name of a subroutine", &s->pos);
    if (s->name.ptr == NULL)
        return;
    top_check_sub_name(p, s);
    /* Its body is parsed and not kept: variables of VCL 3 would all be errors. */
    if (vcl_removed(VCL_REMOVED_SUB, s->name) == NULL) {
        *p->subs = s;
        p->subs = &s->next;
    }
    if (!vcl_at(p, TOK_LBRACE)) {
        vcl_fail_here(p, NULL, "a { expected behind sub, not %s", vcl_here(p));
        return;
    }
    p->sub = name;
    vcl_parse_block(p, &s->body);
    /* The blocks have ended here, whatever was missing. */
    p->unwinding = false;
    p->sub = NULL;
}

static void
top_unused(struct vcl_parser *p)
{
    struct ast_unused *u = vcl_alloc(p->cx, p->cx->scratch, sizeof(*u));

    if (u == NULL)
        return;
    u->name = vcl_expect_name(p, "a name", &u->pos);
    if (u->name.ptr == NULL)
        return;
    *p->unused = u;
    p->unused = &u->next;
    vcl_expect_semicolon(p, "unused");
}

/* What no declaration begins with: one error, up to the next one. */
static void
top_fail_other(struct vcl_parser *p)
{
    struct vcl_guess guess = {.meant = vcl_token_text(p->t)};

    /* A } was missing above: those of the blocks that were ended for it come now. */
    if (vcl_at(p, TOK_RBRACE) && p->surplus > 0) {
        p->surplus--;
    } else if (vcl_at(p, TOK_RBRACE)) {
        vcl_fail_here(p, NULL, "this } closes nothing");
    } else if (vcl_at(p, TOK_SEMICOLON)) {
        vcl_fail_here(p, "none stands behind a }", "this ; ends nothing");
    } else {
        for (unsigned i = 0; i < TOP_WORDS && vcl_at(p, TOK_ID); i++)
            vcl_guess_try(&guess, top_words[i]);
        vcl_fail_here(p,
            guess.best != NULL ? vcl_guess_hint(p->cx, &guess)
                               : "outside of subroutines there are acl, backend, import, include, "
                                 "probe, sub and unused",
            "%s begins no declaration", vcl_here(p));
    }
    /* A block is skipped as a whole. */
    if (!vcl_at(p, TOK_END) && !vcl_at(p, TOK_LBRACE))
        vcl_next(p);
}

/* Takes at least one token, so vcl_parse_file() ends. */
static void
top_declaration(struct vcl_parser *p)
{
    const struct vcl_token *word = p->t;

    if (!top_is_word(word)) {
        top_fail_other(p);
        top_skip(p);
        return;
    }
    /* Behind its word in any case: so each round takes something. */
    vcl_next(p);
    if (vcl_token_is(word, "vcl"))
        top_version(p);
    else if (vcl_token_is(word, "import"))
        top_import(p);
    else if (vcl_token_is(word, "acl"))
        vcl_parse_acl(p);
    else if (vcl_token_is(word, "probe"))
        vcl_parse_decl(p, true);
    else if (vcl_token_is(word, "backend"))
        vcl_parse_decl(p, false);
    else if (vcl_token_is(word, "sub"))
        top_sub(p);
    else if (vcl_token_is(word, "unused"))
        top_unused(p);
    else
        vcl_fail(p->cx, vcl_token_pos(word),
            "import directors; and in vcl_init: new NAME = directors.round_robin();",
            "director blocks are not part of VCL 4");
    /* Whatever was wrong is reported: what is left of it is no declaration.  What ended well is
     * followed by anything: only that is judged, and not skipped. */
    if (!vcl_at(p, TOK_END) && !top_is_word(p->t) && p->t > word + 1 &&
        (p->prev->kind == TOK_RBRACE || p->prev->kind == TOK_SEMICOLON))
        return;
    top_skip(p);
}

void
vcl_parse_file(struct vcl_parser *p)
{
    top_first(p);
    /* Errors do not end it: all of them come at once (README 2). */
    while (!vcl_at(p, TOK_END) && !p->cx->nomem)
        top_declaration(p);
}
