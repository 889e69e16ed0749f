/* conf_errors.c -- what is wrong with a file: gathered by place, printed like a compiler. */
#include "conf/conf_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"

enum {
    ERRORS_LINE_BYTES = 4096, /* of a source line kept with its error */
    ERRORS_VIEW_CHARS = 96,   /* of it printed */
};

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

    if (cx->nomem || cx->nerrors > CONF_ERRORS_MAX)
        return;
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
    e->file = at->file != NULL ? strdup(at->file->path) : NULL;
    e->text = strdup(conf_quote(quote, at->text));
    e->message = strdup(message);
    if (e->text == NULL || e->message == NULL || (at->file != NULL && e->file == NULL)) {
        cx->nomem = true;
        errors_free_one(e);
        return;
    }
    while (*to != NULL && errors_before(*to, nth, at->line, at->column))
        to = &(*to)->next;
    e->next = *to;
    *to = e;
}

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
    tassert(len > 0 && (size_t)len < sizeof(message));
    va_start(args, fmt);
    vsnprintf(message + len, sizeof(message) - (size_t)len, fmt, args);
    va_end(args);
    errors_add(cx, n, message);
}

/* Length of the well-formed UTF-8 character at p, or 0: a terminal must not get others. */
static size_t
errors_char_len(const char *p, size_t room)
{
    unsigned char c = (unsigned char)p[0];
    size_t len = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : (c >> 3) == 30 ? 4 : 0;

    if (len == 0 || len > room)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80)
            return 0;
    if (len == 1 && ((c < 0x20 && c != '\t') || c == 0x7f))
        return 0;
    if (len == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0)
        return 0; /* C1 controls start escape sequences, too */
    return len;
}

/* Copies what fits, whole characters only, '?' for what cannot be shown.  Returns how many
 * bytes of text were taken; *used those of buf, without the NUL. */
static size_t
errors_printable(char *buf, size_t size, struct slice text, size_t *used)
{
    size_t in = 0, out = 0;

    while (in < text.len) {
        size_t len = errors_char_len(text.ptr + in, text.len - in);
        size_t take = len == 0 ? 1 : len;

        if (out + take >= size)
            break;
        if (len == 0)
            buf[out] = '?';
        else
            memcpy(buf + out, text.ptr + in, len);
        in += take;
        out += take;
    }
    buf[out] = '\0';
    *used = out;
    return in;
}

const char *
conf_quote(char buf[static CONF_QUOTE_BYTES], struct slice text)
{
    size_t used, room = CONF_QUOTE_BYTES - 3;

    if (errors_printable(buf, room, text, &used) < text.len)
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
        if (at++ == line)
            return slice_of(text.ptr + start, i - start);
        i += len;
        start = i;
    }
    return slice_of(text.ptr + start, text.len - start); /* the last line, unended */
}

static struct slice
errors_source(const struct conf_cx *cx, unsigned nth)
{
    for (const struct conf_file *f = cx->files; f != NULL; f = f->next)
        if (f->nth == nth)
            return f->text;
    return cx->text;
}

void
conf_errors_attach(struct conf_cx *cx)
{
    char buf[ERRORS_LINE_BYTES];
    size_t used;

    for (struct conf_error *e = cx->errors; e != NULL && !cx->nomem; e = e->next) {
        if (e->line == 0)
            continue;
        errors_printable(
            buf, sizeof(buf), conf_source_line(errors_source(cx, e->nth), e->line), &used);
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

static const char *
errors_skip(const char *p, size_t nchars)
{
    while (nchars > 0 && *p != '\0') {
        p++;
        while (((unsigned char)*p & 0xc0) == 0x80)
            p++;
        nchars--;
    }
    return p;
}

static size_t
errors_nchars(const char *p, const char *end)
{
    size_t n = 0;

    for (; p < end; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return n;
}

/* The line, or the part of it around the place, and under the place a caret with a tail as
 * long as the offending text. */
static void
errors_print_source(const struct conf_error *e, struct conf_sink *to)
{
    size_t column = e->column - 1, skip = column > ERRORS_VIEW_CHARS / 2 ? column - 32 : 0;
    const char *start = errors_skip(e->source, skip);
    const char *end = errors_skip(start, ERRORS_VIEW_CHARS);
    const char *place = errors_skip(start, column - skip);
    size_t len = strlen(e->text), out = 0, tail = 0;
    char line[ERRORS_VIEW_CHARS * 4 + 1], mark[ERRORS_VIEW_CHARS * 2 + 2];
    char head[32];

    memcpy(line, start, (size_t)(end - start));
    line[end - start] = '\0';
    for (const char *p = start; p < place; p = errors_skip(p, 1))
        mark[out++] = *p == '\t' ? '\t' : ' '; /* a tab is as wide above as below */
    mark[out++] = '^';
    if (len > 0 && strncmp(place, e->text, len) == 0 && place + len <= end)
        tail = errors_nchars(place, place + len) - 1;
    memset(mark + out, '~', tail);
    mark[out + tail] = '\0';

    snprintf(head, sizeof(head), "%5u | ", e->line);
    to->write(to, head);
    to->write(to, line);
    to->write(to, "\n      | ");
    to->write(to, mark);
    to->write(to, "\n");
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
