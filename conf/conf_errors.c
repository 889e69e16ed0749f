/* conf_errors.c -- what is wrong with a file: gathered by place, printed like a compiler.
 *
 *    tarn.yaml:7:12: grace: '10' has no unit: write 10s for seconds or 10ms for milliseconds
 *        7 |     grace: 10
 *          |            ^~
 *
 * A load reports all mistakes of a file, not the first one: an operator mends them in one go.
 * Errors are linked by place while they are found, and own their texts, for arenas and files go
 * with the load.
 */
#include "conf/conf_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/source_text.h"
#include "daemon/base/tassert.h"

enum {
    ERRORS_LINE_BYTES = 4096 /* of a source line kept with its error */
};

/* In the order in which a person reads: the file itself, then the included ones as they were read.
 * Of one place the first error found comes first, as later ones often follow from it. */
static bool
errors_before(const struct conf_error *a, unsigned nth, unsigned line, unsigned column)
{
    if (a->nth != nth)
        return a->nth < nth;
    return a->line < line || (a->line == line && a->column <= column);
}

static void
errors_free_one(struct conf_error *e)
{
    free(e->file);
    free(e->text);
    free(e->message);
    free(e->source);
    free(e);
}

static void
errors_add(struct conf_cx *cx, const struct ynode *at, const char *message)
{
    unsigned nth = at->file != NULL ? at->file->nth : 0;
    struct conf_error *e, **to = &cx->errors;
    char quote[CONF_QUOTE_BYTES];

    tassert((at->line == 0) == (at->column == 0)); /* a place, or the file as a whole */
    tassert(cx->nerrors <= CONF_ERRORS_MAX + 1);
    if (cx->nomem || cx->nerrors > CONF_ERRORS_MAX)
        return;
    /* Bounded: a file that is no configuration at all would have an error on each line. */
    if (cx->nerrors++ == CONF_ERRORS_MAX)
        message = "too many errors: the rest is not shown";

    e = calloc(1, sizeof(*e));
    if (e == NULL) {
        cx->nomem = true;
        return;
    }
    e->nth = nth;
    e->line = at->line;
    e->column = at->column;
    /* Copied, all of it: errors outlive the load and its arenas. */
    e->file = at->file != NULL ? strdup(at->file->path) : NULL;
    e->text = strdup(conf_quote(quote, at->text));
    e->message = strdup(message);
    if (e->text == NULL || e->message == NULL || (at->file != NULL && e->file == NULL)) {
        cx->nomem = true;
        errors_free_one(e);
        return;
    }
    /* Sorted in as they come: sections are read in an order of their own, and people read from the
     * top. */
    while (*to != NULL && errors_before(*to, nth, at->line, at->column))
        to = &(*to)->next;
    e->next = *to;
    *to = e;
}

/* For the reader of YAML, which has places before there are nodes. */
void
conf_fail_place(
    struct conf_cx *cx, unsigned line, unsigned column, struct slice text, const char *message)
{
    const struct ynode at = {.file = cx->file, .line = line, .column = column, .text = text};

    errors_add(cx, &at, message);
}

__attribute__((format(printf, 3, 0))) static void
errors_vfail(struct conf_cx *cx, const struct ynode *at, const char *fmt, va_list args)
{
    static const struct ynode whole_file;
    char message[1024]; /* quotes are short, so nothing is cut but lists of keys */

    if (at == NULL)
        at = &whole_file;
    vsnprintf(message, sizeof(message), fmt, args);
    errors_add(cx, at, message);
}

void
conf_fail(struct conf_cx *cx, const struct ynode *at, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    errors_vfail(cx, at, fmt, args);
    va_end(args);
}

void
conf_fail_value(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char *fmt, ...)
{
    char message[1024], quote[CONF_QUOTE_BYTES];
    va_list args;
    int len;

    len = snprintf(message, sizeof(message), "%s: '%s' ", key->name, conf_quote(quote, n->text));
    /* Names of keys and quotes are bounded. */
    tassert(len > 0 && (size_t)len < sizeof(message));
    va_start(args, fmt);
    vsnprintf(message + len, sizeof(message) - (size_t)len, fmt, args);
    va_end(args);
    errors_add(cx, n, message);
}

const char *
conf_quote(char buf[static CONF_QUOTE_BYTES], struct slice text)
{
    size_t taken, used = source_printable(buf, CONF_QUOTE_BYTES - 3, text, &taken);

    tassert(taken <= text.len);
    tassert(used + sizeof("...") <= CONF_QUOTE_BYTES);
    if (taken < text.len)
        /* Room for it was kept above. */
        memcpy(buf + used, "...", 4);
    return buf;
}

/* Length of the line break at p as YAML 1.1 (5.4) knows them; 0: none. */
static size_t
errors_break_len(const char *p, size_t room)
{
    if (p[0] == '\n')
        return 1;
    if (p[0] == '\r')
        return room > 1 && p[1] == '\n' ? 2 : 1;
    if (room > 1 && memcmp(p, "\xc2\x85", 2) == 0)
        return 2; /* NEL */
    if (room > 2 && (memcmp(p, "\xe2\x80\xa8", 3) == 0 || memcmp(p, "\xe2\x80\xa9", 3) == 0))
        return 3; /* LS, PS */
    return 0;
}

struct slice
conf_source_line(struct slice text, unsigned line)
{
    size_t start = 0, i = 0, len;
    unsigned at = 1;

    while (i < text.len) {
        len = errors_break_len(text.ptr + i, text.len - i);
        if (len == 0) {
            i++;
            continue;
        }
        /* Lines as libyaml counts them, or the line shown would not be the one that is meant. */
        if (at++ == line)
            return slice_of(text.ptr + start, i - start);
        i += len;
        start = i;
    }
    tassert(start <= text.len); /* a break of several bytes ends within the text */
    return slice_of(text.ptr + start, text.len - start); /* the last line, unended */
}

static struct slice
errors_source(const struct conf_cx *cx, unsigned nth)
{
    for (const struct conf_file *f = cx->files; f != NULL; f = f->next)
        if (f->nth == nth)
            return f->text;
    /* 0: the file itself. */
    return cx->text;
}

void
conf_hide(struct conf_cx *cx, const struct ynode *n)
{
    struct conf_hidden *h = conf_alloc(cx, cx->scratch, 1, sizeof(*h));

    tassert(n->line > 0); /* it stands in a file */
    if (h == NULL)
        return;
    *h = (struct conf_hidden){.nth = n->file != NULL ? n->file->nth : 0,
        .line = n->line,
        .column = n->column,
        .next = cx->hidden};
    cx->hidden = h;
}

/* The rest of the line, and not the secret alone: a text with escapes stands there in another form. */
static void
errors_hide(const struct conf_cx *cx, const struct conf_error *e, char *line)
{
    for (const struct conf_hidden *h = cx->hidden; h != NULL; h = h->next) {
        char *to = line + (source_skip(line, h->column - 1) - line);

        if (h->nth != e->nth || h->line != e->line)
            continue;
        /* A mark a character, so that the places of other errors of this line stay where they are. */
        for (const char *from = to; *from != '\0'; from++)
            if (((unsigned char)*from & 0xc0) != 0x80)
                *to++ = '*';
        *to = '\0';
    }
}

/* Behind everything that may report an error: an error that comes later has no line to show. */
void
conf_errors_attach(struct conf_cx *cx)
{
    char buf[ERRORS_LINE_BYTES];

    for (struct conf_error *e = cx->errors; e != NULL && !cx->nomem; e = e->next) {
        tassert(e->source == NULL); /* once a load */
        /* The file as a whole: no line to show. */
        if (e->line == 0)
            continue;
        source_printable(
            buf, sizeof(buf), conf_source_line(errors_source(cx, e->nth), e->line), NULL);
        errors_hide(cx, e, buf);
        e->source = strdup(buf);
        if (e->source == NULL)
            cx->nomem = true;
    }
}

void
conf_errors_free(struct conf_error **errors)
{
    while (*errors != NULL) {
        struct conf_error *e = *errors;

        *errors = e->next;
        errors_free_one(e);
    }
}

static void
errors_write(void *ctx, const char *text)
{
    struct conf_sink *to = ctx;

    to->write(to, text);
}

/* The mark is as wide as the offending text, where that stands in the line as it is.  `column`
 * counts characters from 1; source_skip() finds the byte. */
static void
errors_print_source(const struct conf_error *e, struct conf_sink *to)
{
    char head[32];
    struct source_mark mark = {.line = e->source,
        .column = e->column,
        .width = 1,
        .before = head,
        .below = "      | ",
        .tail = '~'};
    const char *place = source_skip(e->source, e->column - 1);
    size_t len = strlen(e->text);

    tassert(e->column > 0); /* what has a line has a column */
    /* A text with escapes, or one that was expanded, does not stand there as it is: then one column
     * is marked. */
    if (len > 0 && strncmp(place, e->text, len) == 0)
        mark.width = source_nchars(place, len);
    snprintf(head, sizeof(head), "%5u | ", e->line);
    source_show(&mark, errors_write, to);
}

unsigned
conf_errors_print(const struct conf_error *errors, const char *path, struct conf_sink *to)
{
    unsigned n = 0;
    char place[32];

    for (const struct conf_error *e = errors; e != NULL; e = e->next) {
        if (e->line > 0)
            snprintf(place, sizeof(place), ":%u:%u: ", e->line, e->column);
        else
            snprintf(place, sizeof(place), ": ");
        to->write(to, e->file != NULL ? e->file : path);
        to->write(to, place);
        to->write(to, e->message);
        to->write(to, "\n");
        if (e->source != NULL)
            errors_print_source(e, to);
        n++;
    }
    return n;
}
