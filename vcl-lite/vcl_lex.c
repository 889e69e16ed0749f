/* vcl_lex.c -- a file's text as tokens.
 *
 * Tokens point into the file's text and are not copied.  A byte that is no part of the language
 * becomes a token BAD, which has been reported; the parser says nothing about such a token, so
 * one mistake is one error.  Mistakes that are made often get the text that would be right:
 * escapes in strings, single and typographic quotes, operators of other languages.
 */
#include "vcl-lite/vcl_parse_priv.h"

#include "daemon/base/tassert.h"

static bool
lex_is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
lex_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
lex_is_word(char c)
{
    /* A minus too: header fields have it, so x-y is one name and no difference. */
    return lex_is_alpha(c) || lex_is_digit(c) || c == '_' || c == '-';
}

static bool
lex_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The byte `ahead` of the place; NUL behind the end. */
static char
lex_peek(const struct vcl_lexer *lx, unsigned ahead)
{
    /* NUL is no part of the language, so what looks ahead needs no bound of its own. */
    return ahead < lx->file->text.len - lx->at ? lx->file->text.ptr[lx->at + ahead] : '\0';
}

static bool
lex_ended(const struct vcl_lexer *lx)
{
    return lx->at >= lx->file->text.len;
}

static bool
lex_starts(const struct vcl_lexer *lx, const char *text)
{
    for (unsigned i = 0; text[i] != '\0'; i++)
        if (lex_peek(lx, i) != text[i])
            return false;
    return true;
}

static struct vcl_pos
lex_pos(const struct vcl_lexer *lx, uint32_t off, uint32_t len)
{
    return (struct vcl_pos){.file = lx->file, .off = off, .len = len};
}

/* Where `text` is next between two places; `to`: nowhere. */
static uint32_t
lex_find(const struct vcl_lexer *lx, uint32_t from, uint32_t to, const char *text)
{
    const char *all = lx->file->text.ptr;
    /* memmem(3) would be given a length below 0. */
    const char *at = from >= to ? NULL : memmem(all + from, to - from, text, strlen(text));

    return at == NULL ? to : (uint32_t)(at - all);
}

/* Where the file ends. */
static uint32_t
lex_end(const struct vcl_lexer *lx)
{
    return (uint32_t)lx->file->text.len;
}

/* Where the line ends.  Remembered, so that a long line is not searched for each of its strings. */
static uint32_t
lex_line_end(struct vcl_lexer *lx)
{
    /* 0: it was not looked for yet. */
    if (lx->line_end < lx->at || lx->line_end == 0)
        lx->line_end = lex_find(lx, lx->at, lex_end(lx), "\n");
    return lx->line_end;
}

/* A comment between slash and star, which do not nest: vcl(7). */
static void
lex_long_comment(struct vcl_lexer *lx)
{
    uint32_t start = lx->at, end = lex_find(lx, start + 2, lex_end(lx), "*/");
    uint32_t inner = lex_find(lx, start + 2, end, "/*");

    if (end == lex_end(lx)) {
        vcl_fail(lx->cx, lex_pos(lx, start, 2), "end it with */", "this comment has no end");
        lx->at = end;
        return;
    }
    /* Behind it the text goes on where the first one ends, which was hardly meant. */
    if (inner < end)
        vcl_fail(lx->cx, lex_pos(lx, inner, 2), "the first */ ends both; comment lines out with #",
            "a comment within a comment");
    lx->at = end + 2;
}

static void
lex_skip_blank(struct vcl_lexer *lx)
{
    while (!lex_ended(lx)) {
        if (lex_is_space(lex_peek(lx, 0)))
            lx->at++;
        else if (lex_peek(lx, 0) == '#' || lex_starts(lx, "//"))
            /* Up to the line's end and not over it: a missing ; is looked for by lines. */
            lx->at = lex_line_end(lx);
        else if (lex_starts(lx, "/*"))
            lex_long_comment(lx);
        else
            return;
    }
}

/* Where a string that goes on over its line was meant to end: at the next quote, if the line of that
 * one has an odd number of them; else at the end of its own line. */
static uint32_t
lex_late_quote(const struct vcl_lexer *lx, uint32_t line_end)
{
    uint32_t quote = lex_find(lx, line_end, lex_end(lx), "\"");
    uint32_t end = lex_find(lx, quote, lex_end(lx), "\n");
    unsigned n = 0;

    for (uint32_t i = quote; i < end; i++)
        /* An odd number: one of them ends what was begun before. */
        n += lx->file->text.ptr[i] == '"';
    return n % 2 == 1 ? quote : line_end;
}

/* A string without a newline.  A backslash means itself, so one that was written to take the
 * meaning from a quote is noticed by what comes behind: a word, or no other quote in the line. */
static void
lex_string(struct vcl_lexer *lx, struct vcl_token *t)
{
    struct slice all = lx->file->text;
    uint32_t line_end = lex_line_end(lx);
    uint32_t end = lex_find(lx, t->off + 1, line_end, "\"");

    t->kind = TOK_STRING;
    t->quote = 1;
    if (end == line_end) {
        vcl_fail(lx->cx, lex_pos(lx, t->off, 1),
            "a string of several lines is written as {\"...\"} or \"\"\"...\"\"\"",
            "this string does not end on its line");
        /* As it was meant, or each line that follows would begin or end a string too many. */
        end = lex_late_quote(lx, line_end);
        if (end == line_end) {
            /* The parser says nothing more about it. */
            t->kind = TOK_BAD;
            t->quote = 0;
            end--;
        }
    } else if (end > t->off + 1 && all.ptr[end - 1] == '\\' && end + 1 < line_end &&
               (lex_is_word(all.ptr[end + 1]) || all.ptr[end + 1] == '\\' ||
                   all.ptr[end + 1] == '"')) {
        vcl_fail(lx->cx, lex_pos(lx, end - 1, 2),
            "a text with quotes in it is written as {\"...\"} or \"\"\"...\"\"\"",
            "a string has no escapes: this quote ends it, and the backslash is part of it");
        for (uint32_t next = end; next < line_end; next = lex_find(lx, next + 1, line_end, "\""))
            end = next; /* a string as it was meant, so that no more is reported about it */
    }
    /* With its quotes: places are of the text. */
    t->len = end + 1 - t->off;
    lx->at = end + 1;
}

static void
lex_long_string(struct vcl_lexer *lx, struct vcl_token *t, unsigned quote, const char *close)
{
    uint32_t end = lex_find(lx, t->off + quote, lex_end(lx), close);

    t->kind = TOK_STRING;
    t->quote = (uint8_t)quote;
    if (end == lex_end(lx)) {
        vcl_fail(lx->cx, lex_pos(lx, t->off, quote),
            quote == 2 ? "end it with \"}; or, if it is a block, put a space between { and \""
                       : "end it with \"\"\"",
            "this long string has no end");
        /* The rest of the file is in it: nothing that follows can be judged. */
        t->kind = TOK_BAD;
        t->quote = 0;
        quote = 0;
    }
    t->len = end + quote - t->off;
    lx->at = end + quote;
}

/* What Varnish can be set to accept, and vcl-lite has no compiler for. */
static void
lex_inline_c(struct vcl_lexer *lx, struct vcl_token *t)
{
    /* Skipped as a whole: C would make an error of each line. */
    uint32_t end = lex_find(lx, t->off + 2, lex_end(lx), "}C");

    vcl_fail(lx->cx, lex_pos(lx, t->off, 2),
        "std, directors and regular expressions do most of what it was used for",
        "inline C does not exist in vcl-lite");
    t->kind = TOK_BAD;
    lx->at = end == lex_end(lx) ? end : end + 2;
    t->len = lx->at - t->off;
}

/* Single and typographic quotes: up to their partner, as if it were a string. */
static void
lex_wrong_quote(struct vcl_lexer *lx, struct vcl_token *t, const char *open, const char *close)
{
    unsigned quote = (unsigned)strlen(open);
    uint32_t line_end = lex_line_end(lx);
    /* Remembered for this line: a text full of opening quotes would be searched to its end for
     * each. */
    uint32_t end = quote > 1 && lx->unclosed == line_end
                       ? line_end
                       : lex_find(lx, t->off + quote, line_end, close);

    if (end == line_end && quote > 1)
        lx->unclosed = line_end; /* and is not looked for again */
    vcl_fail(lx->cx, lex_pos(lx, t->off, quote), "strings are written in double quotes: \"...\"",
        "%s is no quote", open);
    /* A string as it was meant, so that this is the only error. */
    t->kind = end < line_end ? TOK_STRING : TOK_BAD;
    t->quote = (uint8_t)(end < line_end ? quote : 0);
    t->len = end < line_end ? end + (uint32_t)strlen(close) - t->off : quote;
    lx->at = t->off + t->len;
}

/* "1." is a REAL, too; a sign and a unit are tokens of their own. */
static void
lex_number(struct vcl_lexer *lx, struct vcl_token *t)
{
    t->kind = TOK_INT;
    while (lex_is_digit(lex_peek(lx, 0)))
        lx->at++;
    if (lex_peek(lx, 0) == '.') {
        t->kind = TOK_REAL;
        lx->at++;
        while (lex_is_digit(lex_peek(lx, 0)))
            lx->at++;
    }
    t->len = lx->at - t->off;
}

/* Longer ones first. */
static const struct {
    const char *text;
    enum vcl_token_kind kind;
    const char *instead; /* BAD: what is right */
} lex_signs[] = {
    /* clang-format off */
    { "&&", TOK_AND,         NULL },
    { "||", TOK_OR,          NULL },
    { "==", TOK_EQ,          NULL },
    { "=~", TOK_BAD,         "the match operator is ~" },
    { "!=", TOK_NE,          NULL },
    { "!~", TOK_NOMATCH,     NULL },
    { "<=", TOK_LE,          NULL },
    { ">=", TOK_GE,          NULL },
    { "<>", TOK_BAD,         "different is !=" },
    { "<<", TOK_BAD,         "numbers are not shifted in VCL" },
    { ">>", TOK_BAD,         "numbers are not shifted in VCL" },
    { "+=", TOK_ASSIGN_ADD,  NULL },
    { "-=", TOK_ASSIGN_SUB,  NULL },
    { "*=", TOK_ASSIGN_MUL,  NULL },
    { "/=", TOK_ASSIGN_DIV,  NULL },
    { "++", TOK_BAD,         "one more is: set x = x + 1" },
    { "--", TOK_BAD,         "one less is: set x = x - 1" },
    { "(",  TOK_LPAREN,      NULL },
    { ")",  TOK_RPAREN,      NULL },
    { "{",  TOK_LBRACE,      NULL },
    { "}",  TOK_RBRACE,      NULL },
    { ";",  TOK_SEMICOLON,   NULL },
    { ",",  TOK_COMMA,       NULL },
    { ".",  TOK_DOT,         NULL },
    { "+",  TOK_PLUS,        NULL },
    { "-",  TOK_MINUS,       NULL },
    { "*",  TOK_STAR,        NULL },
    { "/",  TOK_SLASH,       NULL },
    { "%",  TOK_PERCENT,     NULL },
    { "=",  TOK_ASSIGN,      NULL },
    { "<",  TOK_LT,          NULL },
    { ">",  TOK_GT,          NULL },
    { "~",  TOK_MATCH,       NULL },
    { "!",  TOK_NOT,         NULL },
    { "&",  TOK_BAD,         "and is &&" },
    { "|",  TOK_BAD,         "or is ||" },
    { "^",  TOK_BAD,         "the beginning of a text is matched by ~ \"^...\"" },
    { ":",  TOK_BAD,         "there is no BLOB and no ?: in vcl-lite" },
    { "?",  TOK_BAD,         "there is no ?: in VCL; use if and else" },
    { "[",  TOK_BAD,         "there are no lists in VCL" },
    { "]",  TOK_BAD,         "there are no lists in VCL" },
    { "$",  TOK_BAD,         "variables have no $: req.url, req.http.cookie" },
    { "@",  TOK_BAD,         "regular expressions and text stand in double quotes" },
    { "\\", TOK_BAD,         "regular expressions and text stand in double quotes" },
    { "_",  TOK_BAD,         "names begin with a letter; a field's name may be quoted: "
                             "req.http.\"_x\"" },
    /* clang-format on */
};

static void
lex_sign(struct vcl_lexer *lx, struct vcl_token *t)
{
    for (unsigned i = 0; i < sizeof(lex_signs) / sizeof(lex_signs[0]); i++) {
        /* The first byte spares most of the comparisons. */
        if (lex_signs[i].text[0] != lex_peek(lx, 0) || !lex_starts(lx, lex_signs[i].text))
            continue;
        t->len = (uint32_t)strlen(lex_signs[i].text);
        t->kind = (uint8_t)lex_signs[i].kind;
        lx->at += t->len;
        if (t->kind == TOK_BAD) {
            /* Once a line: a text of another language would have one at each word. */
            bool told = lx->told > lx->at;

            /* The whole name, so that it is what is shown. */
            while (lex_signs[i].text[0] == '_' && lex_is_word(lex_peek(lx, 0)))
                lx->at++;
            t->len = lx->at - t->off;
            lx->told = lex_line_end(lx) + 1;
            if (told)
                return;
            vcl_fail(lx->cx, vcl_token_pos(t), lex_signs[i].instead, "%.*s is not part of VCL",
                (int)(t->len > 40 ? 40 : t->len), lx->file->text.ptr + t->off);
        }
        return;
    }
    TUNREACHABLE("not a sign");
}

static bool
lex_is_sign(char c)
{
    return c > ' ' && c < 0x7f && strchr("&|=!<>+-*/(){};,.%~^:?[]$@\\_", c) != NULL;
}

/* Bytes that are not text: all of them at once. */
static void
lex_garbage(struct vcl_lexer *lx, struct vcl_token *t)
{
    char c = lex_peek(lx, 0);

    t->kind = TOK_BAD;
    /* At once: a word in another alphabet is one error. */
    do
        lx->at++;
    while (!lex_ended(lx) && !lex_is_space(lex_peek(lx, 0)) && !lex_is_word(lex_peek(lx, 0)) &&
           !lex_is_sign(lex_peek(lx, 0)) && lex_peek(lx, 0) != '"' && lex_peek(lx, 0) != '#');
    t->len = lx->at - t->off;
    if (c == '\0')
        vcl_fail(lx->cx, vcl_token_pos(t), NULL, "a NUL byte is not part of VCL");
    /* Editors of Windows write it. */
    else if (t->off == 0 && t->len >= 3 && memcmp(lx->file->text.ptr, "\xef\xbb\xbf", 3) == 0)
        vcl_fail(lx->cx, vcl_token_pos(t), "save the file as UTF-8 without it",
            "the file begins with a byte order mark");
    else
        vcl_fail(lx->cx, vcl_token_pos(t), "other letters stand in strings and comments only",
            "%.*s is not part of VCL", (int)(t->len > 40 ? 40 : t->len),
            lx->file->text.ptr + t->off);
}

/* The order of these tests matters where one beginning is part of another; each says so. */
void
vcl_lex(struct vcl_lexer *lx, struct vcl_token *t)
{
    char c;

    lex_skip_blank(lx);
    *t = (struct vcl_token){.file = lx->file, .off = lx->at, .kind = TOK_END};
    if (lex_ended(lx))
        return;
    c = lex_peek(lx, 0);
    if (lex_is_digit(c)) {
        lex_number(lx, t);
        /* Before names: C alone is one. */
    } else if (lex_starts(lx, "C{")) {
        lex_inline_c(lx, t);
    } else if (lex_is_alpha(c)) {
        t->kind = TOK_ID;
        while (lex_is_word(lex_peek(lx, 0)))
            lx->at++;
        t->len = lx->at - t->off;
        /* Before "", of which it begins with two. */
    } else if (lex_starts(lx, "\"\"\"")) {
        lex_long_string(lx, t, 3, "\"\"\"");
    } else if (lex_starts(lx, "{\"")) {
        lex_long_string(lx, t, 2, "\"}");
    } else if (c == '"') {
        lex_string(lx, t);
    } else if (c == '\'' || c == '`') {
        lex_wrong_quote(lx, t, c == '\'' ? "'" : "`", c == '\'' ? "'" : "`");
    } else if (lex_starts(lx, "\xe2\x80\x9c") || lex_starts(lx, "\xe2\x80\x9d")) {
        lex_wrong_quote(lx, t, "\xe2\x80\x9c", "\xe2\x80\x9d");
    } else if (lex_is_sign(c)) {
        lex_sign(lx, t);
    } else {
        lex_garbage(lx, t);
    }
    /* Each token takes something: so the load ends. */
    tassert(t->kind == TOK_END || lx->at > t->off);
}

/* Borrows from the file's text, without its quotes. */
struct slice
vcl_token_text(const struct vcl_token *t)
{
    return slice_of(t->file->text.ptr + t->off + t->quote, t->len - 2u * t->quote);
}

struct vcl_pos
vcl_token_pos(const struct vcl_token *t)
{
    return (struct vcl_pos){.file = t->file, .off = t->off, .len = t->len};
}

bool
vcl_token_is(const struct vcl_token *t, const char *word)
{
    return t->kind == TOK_ID && slice_eq(vcl_token_text(t), slice_str(word));
}

bool
vcl_token_is_nocase(const struct vcl_token *t, const char *word)
{
    return t->kind == TOK_ID && slice_eq_nocase(vcl_token_text(t), slice_str(word));
}
