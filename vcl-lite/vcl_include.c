/* vcl_include.c -- a text and what it includes, as one row of tokens.
 *
 * `include` may stand wherever a token may, within a subroutine too: its tokens take the place of
 * the directive (vcl(7)).
 */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "vcl-lite/vcl_error_priv.h"
#include "vcl-lite/vcl_parse_priv.h"

enum {
    INCLUDE_NEST_MAX = 32, /* files within files */
};

/* A file that is being read, and the one that included it. */
struct include {
    struct vcl_lexer lexer;
    const struct include *by; /* NULL: the first */
    unsigned nest;
};

static void include_read(struct vcl_cx *cx, const struct include *by, const struct vcl_file *file,
    struct vcl_tokens *out);

static void
include_push(struct vcl_cx *cx, struct vcl_tokens *out, const struct vcl_token *t)
{
    if (out->n == out->room) {
        size_t room = out->room == 0 ? 1024 : out->room * 2;
        /* Not the load's memory, which gives nothing back: this array doubles many times. */
        struct vcl_token *at = realloc(out->at, room * sizeof(*at));

        if (at == NULL) {
            cx->nomem = true;
            return;
        }
        out->at = at;
        out->room = room;
    }
    out->at[out->n++] = *t;
}

/* The last in the list of files; the text is copied, for the tree and its errors to point at. */
static struct vcl_file *
include_add_file(struct vcl_cx *cx, const char *name, struct slice text, bool builtin)
{
    struct vcl_file *f = vcl_alloc(cx, cx->scratch, sizeof(*f));
    struct vcl_file **to = &cx->ast.files;
    size_t total = text.len;

    if (f == NULL)
        return NULL;
    for (; *to != NULL; to = &(*to)->next)
        total += (*to)->text.len;
    f->name = vcl_copy(cx, cx->keep, slice_str(name)); /* places keep it */
    f->builtin = builtin;
    /* Emptied, not left out: the error needs a file to be in. */
    f->text = total > VCL_TEXT_MAX ? slice_of("", 0) : text;
    f->lines = vcl_lines_new(cx, f->text);
    if (f->name == NULL || f->lines == NULL)
        return NULL;
    /* Before the error: error_rank() looks for it in the list. */
    *to = f;
    if (total > VCL_TEXT_MAX)
        vcl_fail(cx, (struct vcl_pos){.file = f}, NULL,
            "the text, with all it includes, is longer than %u MiB", VCL_TEXT_MAX / 1024 / 1024);
    return f;
}

static unsigned
include_count(const struct vcl_cx *cx)
{
    unsigned n = 0;

    for (const struct vcl_file *f = cx->ast.files; f != NULL; f = f->next)
        n++;
    return n;
}

/* Is this file being read, somewhere above? */
static bool
include_is_open(const struct include *in, const char *path)
{
    for (; in != NULL; in = in->by)
        /* By the path as the loader resolved it. A file that is included twice, one after the
         * other, is no circle. */
        if (strcmp(in->lexer.file->name, path) == 0)
            return true;
    return false;
}

/* Reads one file by name in the place of `at`. */
static void
include_file(struct vcl_cx *cx, const struct include *in, const char *name, struct vcl_pos at,
    struct vcl_tokens *out)
{
    struct span bytes = {NULL, 0};
    char *path = NULL;
    const char *why = "it cannot be read";
    const struct vcl_file *file;
    struct slice text;
    int err =
        cx->loader->read_file(cx->loader->ctx, name, in->lexer.file->name, &bytes, &path, &why);

    if (err == TERR_NOMEM) {
        cx->nomem = true;
        return;
    }
    if (err < 0) {
        vcl_fail(cx, at, NULL, "cannot include %s: %s", name, why);
        return;
    }
    if (include_is_open(in, path)) {
        vcl_fail(cx, at, NULL, "%s includes itself", path);
    } else {
        /* Copied, for tokens point into it until the load ends. */
        text = slice_of(vcl_copy(cx, cx->scratch, slice_of(bytes.ptr, bytes.len)), bytes.len);
        file = text.ptr == NULL ? NULL : include_add_file(cx, path, text, false);
        if (file != NULL)
            include_read(cx, in, file, out);
    }
    free(bytes.ptr);
    free(path);
}

static void
include_glob(struct vcl_cx *cx, const struct include *in, const char *pattern, struct vcl_pos at,
    struct vcl_tokens *out)
{
    char **names = NULL;
    unsigned n = 0;
    int err = cx->loader->glob == NULL
                  ? TERR_NOTFOUND
                  : cx->loader->glob(cx->loader->ctx, pattern, in->lexer.file->name, &names, &n);

    if (err == TERR_NOMEM)
        cx->nomem = true;
    else if (err < 0)
        vcl_fail(cx, at, NULL, "cannot include +glob \"%s\": %s", pattern,
            cx->loader->glob == NULL ? "patterns are not supported here" : terr_text(err));
    for (unsigned i = 0; i < n; i++) {
        /* The names are freed in any case. */
        if (err == 0 && !cx->nomem)
            include_file(cx, in, names[i], at, out);
        free(names[i]);
    }
    free(names);
}

/* The rest of a directive that is wrong: up to a ; or the end of its line. */
static void
include_skip(struct vcl_lexer *lx, const struct vcl_token *from)
{
    struct slice text = lx->file->text;
    const char *nl = memchr(text.ptr + from->off, '\n', text.len - from->off);
    size_t end = nl == NULL ? text.len : (size_t)(nl - text.ptr);
    struct vcl_token t = *from;

    /* No further than the line: a missing ; must not swallow the next statement. */
    while (t.kind != TOK_SEMICOLON && t.kind != TOK_END && lx->at < end)
        vcl_lex(lx, &t);
}

/* Behind `include`: ["+glob"] "name" ; */
static void
include_directive(
    struct vcl_cx *cx, struct include *in, struct vcl_tokens *out, const struct vcl_token *word)
{
    struct vcl_lexer *lx = &in->lexer;
    struct vcl_lexer behind;
    struct vcl_token name, t;
    bool glob = false;
    const char *text;

    vcl_lex(lx, &name);
    if (name.kind == TOK_PLUS) {
        vcl_lex(lx, &t);
        glob = vcl_token_is(&t, "glob");
        if (!glob)
            vcl_fail(cx, vcl_token_pos(&t), "the only flag of include is +glob",
                "this is no flag of include");
        vcl_lex(lx, &name);
    }
    if (name.kind != TOK_STRING) {
        include_skip(lx, &name);
        /* The lexer has reported that one. */
        if (name.kind != TOK_BAD)
            vcl_fail(cx, vcl_token_pos(word), "include \"file.vcl\";",
                "include wants a file name in quotes behind it");
        return;
    }
    /* A copy looks ahead: if it is no ;, the token belongs to what follows. */
    behind = *lx;
    vcl_lex(&behind, &t);
    if (t.kind == TOK_SEMICOLON)
        *lx = behind;
    else if (t.kind != TOK_BAD)
        vcl_fail(cx, (struct vcl_pos){lx->file, name.off + name.len, 0}, NULL,
            "a ; is missing behind include");
    text = vcl_copy(cx, cx->scratch, vcl_token_text(&name));
    if (text == NULL)
        return;
    /* A long string may have a NUL in it: the file's name would end there. */
    if (text[0] == '\0' || strlen(text) != vcl_token_text(&name).len)
        vcl_fail(cx, vcl_token_pos(&name), NULL, "this is no name of a file");
    else if (in->nest >= INCLUDE_NEST_MAX || include_count(cx) >= VCL_FILES_MAX)
        vcl_fail(cx, vcl_token_pos(&name), NULL, "too many files are included, or too deep");
    else if (cx->loader->read_file == NULL)
        vcl_fail(cx, vcl_token_pos(&name), NULL, "nothing can be included here");
    else if (glob)
        include_glob(cx, in, text, vcl_token_pos(&name), out);
    else
        include_file(cx, in, text, vcl_token_pos(&name), out);
}

/* All tokens of a file but its END. */
static void
include_read(struct vcl_cx *cx, const struct include *by, const struct vcl_file *file,
    struct vcl_tokens *out)
{
    struct include in = {
        .lexer = {.cx = cx, .file = file},
        .by = by,
        .nest = by == NULL ? 0 : by->nest + 1,
    };

    while (!cx->nomem) {
        struct vcl_token t;
        bool field = out->n > 0 && out->at[out->n - 1].kind == TOK_DOT; /* req.http.include */

        vcl_lex(&in.lexer, &t);
        /* The one END of the row is made at its end, by vcl_tokens_read(). */
        if (t.kind == TOK_END)
            return;
        if (!field && vcl_token_is(&t, "include"))
            include_directive(cx, &in, out, &t);
        else
            include_push(cx, out, &t);
    }
}

void
vcl_tokens_read(
    struct vcl_cx *cx, struct slice text, const char *name, bool builtin, struct vcl_tokens *out)
{
    struct vcl_file *file = include_add_file(cx, name, text, builtin);
    struct vcl_token end;

    *out = (struct vcl_tokens){NULL, 0, 0};
    if (file == NULL)
        return;
    include_read(cx, NULL, file, out);
    /* Of the outer file: an error at the end is shown where the text ends, not where an include
     * does. */
    end = (struct vcl_token){.file = file, .off = (uint32_t)file->text.len, .kind = TOK_END};
    include_push(cx, out, &end);
    tassert(cx->nomem || out->n > 0);
}
