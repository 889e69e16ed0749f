/* source_text.c -- lines of source texts in error messages. */
#include "daemon/base/source_text.h"

#include <string.h>

#include "daemon/base/tassert.h"

enum {
    SOURCE_VIEW_CHARS = 100,  /* of a line shown */
    SOURCE_BEFORE_CHARS = 60, /* of them before the column, in a long line */
};

size_t
source_char_len(const char *p, size_t room)
{
    unsigned char c = (unsigned char)p[0];
    size_t len = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : (c >> 3) == 30 ? 4 : 0;

    if (len == 0 || len > room)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80)
            return 0;
    /* 0: what a terminal would obey is no character to show. */
    if (len == 1 && ((c < 0x20 && c != '\t') || c == 0x7f))
        return 0;
    if (len == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0)
        return 0; /* C1 controls start escape sequences, too */
    return len;
}

unsigned
source_nchars(const char *p, size_t len)
{
    unsigned n = 0;

    for (size_t i = 0; i < len; n++) {
        size_t one = source_char_len(p + i, len - i);

        /* A byte that is none counts as one: it is shown as one question mark. */
        i += one == 0 ? 1 : one;
    }
    return n;
}

size_t
source_printable(char *buf, size_t size, struct slice text, size_t *taken)
{
    size_t in = 0, out = 0;

    tassert(size > 0);
    while (in < text.len) {
        size_t len = source_char_len(text.ptr + in, text.len - in);
        size_t take = len == 0 ? 1 : len;

        /* Whole characters only: half of one would be garbage on the terminal. */
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
    if (taken != NULL)
        *taken = in;
    return out;
}

const char *
source_skip(const char *p, unsigned nchars)
{
    while (nchars > 0 && *p != '\0') {
        p++;
        while (((unsigned char)*p & 0xc0) == 0x80)
            p++;
        nchars--;
    }
    return p;
}

void
source_show(const struct source_mark *m, void (*write)(void *ctx, const char *text), void *ctx)
{
    unsigned column = m->column - 1, out = 0;
    /* A long line is shown from a little before the place. */
    unsigned skip = column >= SOURCE_VIEW_CHARS - 20 ? column - SOURCE_BEFORE_CHARS : 0;
    const char *from = source_skip(m->line, skip);
    const char *to = source_skip(from, SOURCE_VIEW_CHARS);
    const char *place = source_skip(from, column - skip);
    char line[SOURCE_VIEW_CHARS * 4 + 1], mark[SOURCE_VIEW_CHARS + 2];

    tassert(m->column > 0 && m->width > 0);
    /* The text that was kept is shorter than the line was. */
    if (skip > 0 && *from == '\0')
        return;
    memcpy(line, from, (size_t)(to - from));
    line[to - from] = '\0';
    for (const char *p = from; p < place; p = source_skip(p, 1))
        mark[out++] = *p == '\t' ? '\t' : ' '; /* a tab is as wide above as below */
    mark[out++] = '^';
    for (unsigned i = 1; i < m->width && out < SOURCE_VIEW_CHARS; i++)
        mark[out++] = m->tail;
    mark[out] = '\0';
    write(ctx, m->before);
    write(ctx, line);
    write(ctx, "\n");
    write(ctx, m->below);
    write(ctx, mark);
    write(ctx, "\n");
}
