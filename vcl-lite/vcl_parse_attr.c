/* vcl_parse_attr.c -- acl, probe and backend, as they are written; what they mean is vcl_decl.c's. */
#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_parse_priv.h"

/* --- acl --- */

/* +log -pedantic: sign and name touch. */
static bool
attr_acl_flag(struct vcl_parser *p, struct ast_acl *a)
{
    const struct vcl_token *sign = p->t;
    bool yes = vcl_at(p, TOK_PLUS);
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"log", &a->log}, {"pedantic", &a->pedantic}, {"table", &a->table}, {"fold", &a->fold}};

    vcl_next(p);
    if (!vcl_at(p, TOK_ID) || p->t->off != sign->off + 1 || p->t->file != sign->file) {
        vcl_fail_here(p, "+log -pedantic +table +fold", "a flag expected behind the sign");
        return false;
    }
    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (vcl_token_is(p->t, flags[i].name)) {
            /* table and fold are of Varnish's compiler: they are accepted, and change nothing. */
            *flags[i].flag = yes;
            vcl_next(p);
            return true;
        }
    }
    vcl_fail_here(
        p, "there are log, pedantic, table and fold", "%s is no flag of an acl", vcl_here(p));
    return false;
}

/* "/" INT behind an address. */
static bool
attr_acl_mask(struct vcl_parser *p, struct ast_acl_entry *e)
{
    struct ast_number number;

    /* None was said: 0 is a mask. */
    e->mask = -1;
    if (!vcl_accept(p, TOK_SLASH))
        return true;
    if (!vcl_at(p, TOK_INT)) {
        vcl_fail_here(p, NULL, "the number of bits expected behind the /, not %s", vcl_here(p));
        return false;
    }
    if (!vcl_parse_number(p, &number))
        return false;
    /* A unit behind it would be taken for part of the number. */
    if (number.type != VCL_TYPE_INT || number.i > 128) {
        vcl_fail(
            p->cx, vcl_token_pos(p->prev), NULL, "a mask has at most 32 bits, or 128 for IPv6");
        return false;
    }
    e->mask = (int)number.i;
    return true;
}

/* ["!"] ["("] "address" ["/" INT] [")"] ; the ! may stand inside of the parentheses, too. */
static bool
attr_acl_entry(struct vcl_parser *p, struct ast_acl_entry *e)
{
    e->negated = vcl_accept(p, TOK_NOT);
    e->optional = vcl_accept(p, TOK_LPAREN);
    if (e->optional && !e->negated)
        e->negated = vcl_accept(p, TOK_NOT);
    e->pos = vcl_token_pos(p->t);
    if (!vcl_at(p, TOK_STRING)) {
        vcl_fail_here(p, "addresses stand in quotes: \"192.0.2.0\"/24;",
            "an address expected, not %s", vcl_here(p));
        return false;
    }
    e->address = vcl_token_text(p->t);
    vcl_next(p);
    if (!attr_acl_mask(p, e))
        return false;
    if (e->optional && !vcl_expect(p, TOK_RPAREN, "a )"))
        return false;
    /* The most likely place of the mistake, and the list goes on. */
    if (vcl_at(p, TOK_STRING) && vcl_on_next_line(p)) { /* the next entry */
        vcl_fail(p->cx, (struct vcl_pos){p->prev->file, p->prev->off + p->prev->len, 1}, NULL,
            "a ; is missing behind the address");
        return true;
    }
    return vcl_expect_semicolon(p, "the address");
}

/* A }, the end of the file, or the head of another declaration: the } is missing there. */
static bool
attr_ended(const struct vcl_parser *p)
{
    return vcl_at(p, TOK_RBRACE) || vcl_at(p, TOK_END) ||
           /* "backend b": no entry or attribute begins with two names. */
           (vcl_at(p, TOK_ID) && p->t[1].kind == TOK_ID);
}

/* Behind an entry or attribute that is wrong: up to its ; or to the }. */
static void
attr_skip(struct vcl_parser *p)
{
    while (!vcl_at(p, TOK_END) && !vcl_at(p, TOK_RBRACE)) {
        /* An attribute with a block in it ends behind that. */
        if (vcl_at(p, TOK_LBRACE)) {
            vcl_skip_braces(p);
            (void)vcl_accept(p, TOK_SEMICOLON);
            return;
        }
        if (vcl_accept(p, TOK_SEMICOLON))
            return;
        vcl_next(p);
    }
}

/* The } of what began with `open`. */
static void
attr_close(struct vcl_parser *p, const struct vcl_token *open)
{
    /* At the one that is open: where it should close cannot be known. */
    if (!vcl_accept(p, TOK_RBRACE) && p->prev->kind != TOK_BAD)
        vcl_fail(p->cx, vcl_token_pos(open), NULL, "this { has no }");
}

void
vcl_parse_acl(struct vcl_parser *p)
{
    struct ast_acl *a = vcl_alloc(p->cx, p->cx->scratch, sizeof(*a));
    struct ast_acl_entry **to;
    const struct vcl_token *open;

    if (a == NULL)
        return;
    /* Varnish's default. */
    a->pedantic = true;
    a->name = vcl_expect_name(p, "the name of the acl", &a->pos);
    if (a->name.ptr == NULL)
        return;
    /* Before its entries: with an error in them its name is known all the same. */
    *p->acls = a;
    p->acls = &a->next;
    while (vcl_at(p, TOK_PLUS) || vcl_at(p, TOK_MINUS))
        if (!attr_acl_flag(p, a))
            return;
    open = p->t;
    if (!vcl_expect(p, TOK_LBRACE, "a {"))
        return;
    to = &a->entries;
    while (!attr_ended(p)) {
        struct ast_acl_entry *e = vcl_alloc(p->cx, p->cx->scratch, sizeof(*e));

        if (e == NULL)
            return;
        if (!attr_acl_entry(p, e)) {
            attr_skip(p);
            continue;
        }
        *to = e;
        to = &e->next;
    }
    attr_close(p, open);
}

/* --- probe and backend --- */

static void attr_list(struct vcl_parser *p, struct ast_attr **out);

static bool
attr_strings(struct vcl_parser *p, struct ast_attr *a)
{
    struct ast_string **to = &a->strings;

    a->kind = AST_ATTR_STRINGS;
    while (vcl_at(p, TOK_STRING)) {
        struct ast_string *s = vcl_alloc(p->cx, p->cx->scratch, sizeof(*s));

        if (s == NULL)
            return false;
        s->text = vcl_token_text(p->t);
        /* They become texts with a NUL at the end. */
        if (memchr(s->text.ptr, '\0', s->text.len) != NULL) {
            vcl_fail_here(p, NULL, "a string cannot hold a NUL byte");
            return false;
        }
        *to = s;
        to = &s->next;
        vcl_next(p);
    }
    return true;
}

/* .probe = { ... }, behind which Varnish wants no ; */
static bool
attr_block(struct vcl_parser *p, struct ast_attr *a)
{
    const struct vcl_token *open = p->t;

    a->kind = AST_ATTR_BLOCK;
    if (!vcl_nest(p))
        return false;
    vcl_next(p);
    /* A probe in a backend is as deep as it gets; a text may try more. */
    p->nest++;
    attr_list(p, &a->attrs);
    p->nest--;
    attr_close(p, open);
    if (vcl_at(p, TOK_SEMICOLON))
        vcl_warn(p->cx, vcl_token_pos(p->t), NULL, "Varnish has no ; behind this }");
    (void)vcl_accept(p, TOK_SEMICOLON);
    return true;
}

static bool
attr_value(struct vcl_parser *p, struct ast_attr *a)
{
    if (vcl_at(p, TOK_LBRACE))
        return attr_block(p, a);
    if (vcl_at(p, TOK_STRING)) {
        if (!attr_strings(p, a))
            return false;
    } else if (vcl_at(p, TOK_INT) || vcl_at(p, TOK_REAL)) {
        a->kind = AST_ATTR_NUMBER;
        if (!vcl_parse_number(p, &a->number))
            return false;
        /* Before names, which a probe's name is. */
    } else if (vcl_token_is_nocase(p->t, "true") || vcl_token_is_nocase(p->t, "false")) {
        a->kind = AST_ATTR_BOOL;
        a->yes = vcl_token_is_nocase(p->t, "true");
        vcl_next(p);
    } else if (vcl_at(p, TOK_ID)) {
        a->kind = AST_ATTR_NAME;
        a->word = vcl_token_text(p->t);
        vcl_next(p);
    } else {
        vcl_fail_here(p, vcl_at(p, TOK_MINUS) ? "no attribute is less than 0" : NULL,
            "a value expected, not %s", vcl_here(p));
        return false;
    }
    /* All of the value, for the marks below it. */
    a->value_pos.len = p->prev->file == a->value_pos.file
                           ? p->prev->off + p->prev->len - a->value_pos.off
                           : a->value_pos.len;
    /* As with entries of an acl. */
    if (vcl_at(p, TOK_DOT) && vcl_on_next_line(p)) { /* the next attribute */
        vcl_fail(p->cx, (struct vcl_pos){p->prev->file, p->prev->off + p->prev->len, 1}, NULL,
            "a ; is missing behind the attribute");
        return true;
    }
    return vcl_expect_semicolon(p, "the attribute");
}

/* "." ID "=" value */
static bool
attr_parse(struct vcl_parser *p, struct ast_attr *a)
{
    /* The dot is what is forgotten. */
    if (vcl_at(p, TOK_ID) && p->t[1].kind == TOK_ASSIGN) {
        vcl_fail_here(p,
            vcl_text(p->cx, ".%.*s = ...;", (int)(p->t->len > 60 ? 60 : p->t->len),
                vcl_token_text(p->t).ptr),
            "an attribute begins with a .");
        return false;
    }
    if (!vcl_expect(p, TOK_DOT, "an attribute"))
        return false;
    a->pos = vcl_token_pos(p->t);
    if (!vcl_at(p, TOK_ID)) {
        vcl_fail_here(p, NULL, "the name of an attribute expected, not %s", vcl_here(p));
        return false;
    }
    a->name = vcl_token_text(p->t);
    vcl_next(p);
    if (!vcl_expect(p, TOK_ASSIGN, "an ="))
        return false;
    a->value_pos = vcl_token_pos(p->t);
    return attr_value(p, a);
}

static void
attr_list(struct vcl_parser *p, struct ast_attr **out)
{
    while (!attr_ended(p)) {
        struct ast_attr *a = vcl_alloc(p->cx, p->cx->scratch, sizeof(*a));

        if (a == NULL)
            return;
        if (!attr_parse(p, a)) {
            attr_skip(p);
            /* Kept with its name: an attribute that is wrong is not one that is missing. */
            a->broken = true;
        }
        if (a->name.ptr == NULL)
            continue;
        *out = a;
        out = &a->next;
    }
}

void
vcl_parse_decl(struct vcl_parser *p, bool is_probe)
{
    struct ast_decl *d = vcl_alloc(p->cx, p->cx->scratch, sizeof(*d));
    struct ast_decl ***to = is_probe ? &p->probes : &p->backends;
    const struct vcl_token *open;

    if (d == NULL)
        return;
    d->name =
        vcl_expect_name(p, is_probe ? "the name of the probe" : "the name of the backend", &d->pos);
    if (d->name.ptr == NULL)
        return;
    /* As with acls, before its attributes. */
    **to = d;
    *to = &d->next;
    if (!is_probe && vcl_token_is_nocase(p->t, "none")) {
        d->none = true;
        vcl_next(p);
        (void)vcl_expect_semicolon(p, "none");
        return;
    }
    open = p->t;
    /* Until its block is found: nothing more is said of it. */
    d->broken = true;
    if (!vcl_at(p, TOK_LBRACE)) {
        vcl_fail_here(p, NULL, "a { expected behind the name, not %s", vcl_here(p));
        return;
    }
    vcl_next(p);
    d->broken = false;
    attr_list(p, &d->attrs);
    attr_close(p, open);
}
