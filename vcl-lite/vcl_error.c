/* vcl_error.c -- what is wrong with a policy: gathered by place, printed like a compiler.
 *
 *     policy.vcl:5:9: error: there is no variable 'req.urll'
 *             if (req.urll == "/") {
 *                 ^^^^^^^^
 *         hint: did you mean req.url?
 *
 * Each error is one block of memory, with its texts and its source line behind it: the load's
 * arenas are gone when it is printed.  The list is kept in the order of places; the same message
 * twice at one place is one.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/source_text.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "vcl-lite/vcl_error_priv.h"
#include "vcl-lite/vcl_priv.h"

enum {
    ERROR_LINE_BYTES = 4096,    /* of a source line kept with its error */
    ERROR_MESSAGE_BYTES = 1024, /* names in messages are cut, so nothing else is */
    ERROR_COUNT_BYTES = 256,    /* counted for one place; longer lines have marks */
};

/* One block of memory: the strings lie behind. */
struct error_box {
    struct vcl_error error; /* first: what the caller has is this */
    unsigned rank;          /* of the file among those of the load */
    uint32_t off;
    char bytes[];
};

struct error_mark {
    uint32_t off, chars; /* of the first character there */
};

/* Where the lines of a file begin; and, when one of them is long, how many characters are in front
 * of each ERROR_COUNT_BYTES-th byte: a text of one line has a place for each of its words. */
struct vcl_lines {
    uint32_t *starts;
    unsigned n;
    struct error_mark *marks;
};

static struct error_mark *
error_marks_new(struct vcl_cx *cx, struct slice text)
{
    size_t n = text.len / ERROR_COUNT_BYTES + 1;
    struct error_mark *marks = vcl_alloc(cx, cx->scratch, n * sizeof(*marks));
    uint32_t chars = 0, off = 0;

    for (size_t i = 0; marks != NULL && i < n; i++) {
        while (off < i * ERROR_COUNT_BYTES) {
            size_t len = source_char_len(text.ptr + off, text.len - off);

            /* What is no UTF-8 counts byte by byte, as source_nchars() counts it. */
            off += len == 0 ? 1 : (uint32_t)len;
            chars++;
        }
        marks[i] = (struct error_mark){off, chars};
    }
    return marks;
}

/* Characters in front of a place, of the whole file. */
static uint32_t
error_chars_before(const struct vcl_file *file, uint32_t off)
{
    const struct error_mark *m = &file->lines->marks[off / ERROR_COUNT_BYTES];

    if (m->off > off)
        m--; /* it lies within the character that a mark is behind; the first mark is at 0 */
    return m->chars + source_nchars(file->text.ptr + m->off, off - m->off);
}

/* Made once for each file, since every place that is reported or traced is looked up in it. */
struct vcl_lines *
vcl_lines_new(struct vcl_cx *cx, struct slice text)
{
    struct vcl_lines *l = vcl_alloc(cx, cx->scratch, sizeof(*l));
    bool long_line = false;
    unsigned n = 1;

    if (l == NULL)
        return NULL;
    /* Counted first: scratch memory is not given back, so an array that grows would cost twice. */
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    l->starts = vcl_alloc(cx, cx->scratch, n * sizeof(*l->starts));
    if (l->starts == NULL)
        return NULL;
    l->n = 1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n')
            l->starts[l->n++] = (uint32_t)i + 1;
        long_line = long_line || i - l->starts[l->n - 1] == ERROR_COUNT_BYTES;
    }
    /* Two loops that have to count the same. */
    tassert(l->n == n);
    /* Only then: without marks each error on a line of megabytes would count it from its
     * beginning. */
    l->marks = long_line ? error_marks_new(cx, text) : NULL;
    return long_line && l->marks == NULL ? NULL : l;
}

/* The line, from 0, that a byte lies in. */
static unsigned
error_line(const struct vcl_lines *l, uint32_t off)
{
    unsigned low = 0, high = l->n;

    /* Binary: places are looked up for every statement that is traced. */
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;

        if (l->starts[middle] <= off)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void
vcl_pos_place(struct vcl_pos at, unsigned *line, unsigned *column)
{
    const struct vcl_lines *l = at.file->lines;
    unsigned n = error_line(l, at.off);
    uint32_t from = l->starts[n];

    tassert(at.off <= at.file->text.len);
    *line = n + 1;
    /* The usual line: its own characters are counted. */
    if (l->marks == NULL || at.off - from <= ERROR_COUNT_BYTES)
        *column = source_nchars(at.file->text.ptr + from, at.off - from) + 1;
    else
        *column = error_chars_before(at.file, at.off) - error_chars_before(at.file, from) + 1;
}

/* The line without its end, CR LF included; `line` counts from 1. */
static struct slice
error_source(const struct vcl_file *file, unsigned line)
{
    uint32_t from = file->lines->starts[line - 1];
    size_t to = line < file->lines->n ? file->lines->starts[line] - 1 : file->text.len;

    if (to > from && file->text.ptr[to - 1] == '\r')
        to--;
    return slice_of(file->text.ptr + from, to - from);
}

/* In characters; never beyond the line, where the carets would mark nothing. */
static unsigned
error_width(struct vcl_pos at, unsigned line)
{
    struct slice source = error_source(at.file, line);
    size_t from = at.off - at.file->lines->starts[line - 1];
    size_t len = from < source.len ? source.len - from : 0;
    unsigned n;

    if (len > at.len)
        len = at.len;
    n = source_nchars(at.file->text.ptr + at.off, len);
    /* An end of line, or of the text, is marked by one caret. */
    return n == 0 ? 1 : n;
}

static char *
error_put(char **to, const char *text)
{
    char *at = *to;
    size_t len = strlen(text) + 1;

    memcpy(at, text, len);
    *to += len;
    return at;
}

/* NULL: no memory.  The caller frees the block by free(3). */
static struct error_box *
error_new(struct vcl_pos at, const char *message, const char *hint)
{
    char source[ERROR_LINE_BYTES], name[ERROR_MESSAGE_BYTES], *to;
    unsigned line, column;
    struct error_box *b;
    size_t size = sizeof(*b) + strlen(message) + 1;

    vcl_pos_place(at, &line, &column);
    /* Control characters become visible: a text must not send escape sequences to a terminal. */
    size += source_printable(name, sizeof(name), slice_str(at.file->name), NULL) + 1;
    size += source_printable(source, sizeof(source), error_source(at.file, line), NULL) + 1;
    /* malloc and not the load's memory: errors outlive the load that failed. */
    size += hint == NULL ? 0 : strlen(hint) + 1;
    b = malloc(size);
    if (b == NULL)
        return NULL;
    memset(b, 0, sizeof(*b));
    to = b->bytes;
    b->error.file = error_put(&to, name);
    b->error.line = line;
    b->error.column = column;
    b->error.width = error_width(at, line);
    b->error.message = error_put(&to, message);
    b->error.hint = hint == NULL ? NULL : error_put(&to, hint);
    b->error.source = error_put(&to, source);
    tassert(to <= (char *)b + size);
    return b;
}

static unsigned
error_rank(const struct vcl_cx *cx, const struct vcl_file *file)
{
    unsigned rank = 0;

    /* In the order of being read; a file that is not listed yet is the last. */
    for (const struct vcl_file *f = cx->ast.files; f != NULL && f != file; f = f->next)
        rank++;
    return rank;
}

static struct error_box *
error_of(struct vcl_error *e)
{
    return container_of(e, struct error_box, error);
}

/* In the order of places.  Frees what was reported already. */
static void
error_insert(struct vcl_cx *cx, struct error_box *b)
{
    struct vcl_error **to = &cx->errors;

    for (; *to != NULL; to = &(*to)->next) {
        const struct error_box *other = error_of(*to);

        /* Behind those of the same place: these come in the order of being found. */
        if (other->rank > b->rank || (other->rank == b->rank && other->off > b->off))
            break;
        if (other->rank == b->rank && other->off == b->off &&
            strcmp(other->error.message, b->error.message) == 0) {
            free(b);
            return;
        }
    }
    b->error.next = *to;
    *to = &b->error;
    if (b->error.is_warning)
        cx->nwarnings++;
    else
        cx->nerrors++;
}

/* VCL_ERRORS_MAX errors and as many warnings, and one line each that says that there are more. */
static void
error_add(
    struct vcl_cx *cx, struct vcl_pos at, bool is_warning, const char *hint, const char *message)
{
    unsigned told = is_warning ? cx->nwarnings : cx->nerrors;
    char clean[ERROR_MESSAGE_BYTES], clean_hint[ERROR_MESSAGE_BYTES];
    struct error_box *b;

    /* Once memory was out the load fails by that: what else is found may be a consequence. */
    if (cx->nomem || told > VCL_ERRORS_MAX)
        return;
    tassert(at.file != NULL);
    /* The one behind the last that is shown says so; those that follow it are dropped. */
    if (told == VCL_ERRORS_MAX) {
        message = is_warning ? "and more warnings, which are not shown"
                             : "and more errors, which are not shown";
        hint = NULL;
    }
    /* Names of the text stand in messages, too. */
    source_printable(clean, sizeof(clean), slice_str(message), NULL);
    if (hint != NULL)
        source_printable(clean_hint, sizeof(clean_hint), slice_str(hint), NULL);
    b = error_new(at, clean, hint == NULL ? NULL : clean_hint);
    if (b == NULL) {
        cx->nomem = true;
        return;
    }
    b->error.is_warning = is_warning;
    b->rank = error_rank(cx, at.file);
    b->off = at.off;
    error_insert(cx, b);
}

void
vcl_fail(struct vcl_cx *cx, struct vcl_pos at, const char *hint, const char *fmt, ...)
{
    char message[ERROR_MESSAGE_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    error_add(cx, at, false, hint, message);
}

void
vcl_warn(struct vcl_cx *cx, struct vcl_pos at, const char *hint, const char *fmt, ...)
{
    char message[ERROR_MESSAGE_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    error_add(cx, at, true, hint, message);
}

const char *
vcl_text(struct vcl_cx *cx, const char *fmt, ...)
{
    char text[ERROR_MESSAGE_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return vcl_copy(cx, cx->scratch, slice_str(text));
}

int
vcl_error_add(struct vcl_error **errors, const char *file, unsigned line, const char *message)
{
    struct error_box *b = malloc(sizeof(*b) + strlen(file) + strlen(message) + 3);
    char *to;

    if (b == NULL)
        return TERR_NOMEM;
    memset(b, 0, sizeof(*b));
    to = b->bytes;
    b->error.file = error_put(&to, file);
    b->error.line = line;
    b->error.column = b->error.width = 1;
    b->error.message = error_put(&to, message);
    /* Of the host, and of no text: there is no line to show. */
    b->error.source = error_put(&to, "");
    while (*errors != NULL)
        errors = &(*errors)->next;
    *errors = &b->error;
    return 0;
}

void
vcl_errors_drop_warnings(struct vcl_cx *cx)
{
    struct vcl_error **at = &cx->errors;

    while (*at != NULL) {
        struct vcl_error *e = *at;

        if (!e->is_warning) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        free(error_of(e));
    }
    cx->nwarnings = 0;
}

void
vcl_errors_free(struct vcl_error **ep)
{
    while (*ep != NULL) {
        struct error_box *b = error_of(*ep);

        *ep = b->error.next;
        free(b);
    }
}

static void
error_print_source(const struct vcl_error *e, void (*write)(void *ctx, const char *text), void *ctx)
{
    const struct source_mark mark = {.line = e->source,
        .column = e->column,
        .width = e->width,
        .before = "    ",
        .below = "    ",
        .tail = '^'};

    if (e->source[0] != '\0') /* the host's error has none */
        source_show(&mark, write, ctx);
}

unsigned
vcl_errors_print(
    const struct vcl_error *errors, void (*write)(void *ctx, const char *text), void *ctx)
{
    unsigned n = 0;
    char place[64];

    for (const struct vcl_error *e = errors; e != NULL; e = e->next) {
        write(ctx, e->file);
        snprintf(place, sizeof(place), ":%u:%u: %s: ", e->line, e->column,
            e->is_warning ? "warning" : "error");
        write(ctx, place);
        write(ctx, e->message);
        write(ctx, "\n");
        error_print_source(e, write, ctx);
        if (e->hint != NULL) {
            write(ctx, "    hint: ");
            write(ctx, e->hint);
            write(ctx, "\n");
        }
        n += !e->is_warning;
    }
    return n;
}
