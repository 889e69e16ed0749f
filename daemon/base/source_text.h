/* source_text.h -- a line of a text that a person wrote, shown in an error message with a mark below it.
 *
 * Columns and widths are in characters; a byte that belongs to no well-formed UTF-8 character counts as
 * one.
 *
 * Threads: any.
 */
#ifndef TARN_SOURCE_TEXT_H
#define TARN_SOURCE_TEXT_H

#include <stddef.h>

#include "daemon/base/span.h"

/* Length of the well-formed UTF-8 character at p; 0: it is none, or a control character: a terminal must
 * not get it. */
size_t source_char_len(const char *p, size_t room);
/* Characters of a text. */
unsigned source_nchars(const char *p, size_t len);
/* Copies whole characters that fit into size - 1 bytes, '?' for what a terminal must not get, and a NUL.
 * Returns the bytes written without it; *taken, unless NULL, those of text that were read. */
size_t source_printable(char *buf, size_t size, struct slice text, size_t *taken);

/* nchars characters further in a printable text, or its end. */
const char *source_skip(const char *p, unsigned nchars);

struct source_mark {
    const char *line;           /* printable */
    unsigned column, width;     /* from 1; at least 1 */
    const char *before, *below; /* what the line and the mark begin with */
    char tail;                  /* the mark is '^', then this */
};
/* Writes the line, or the part of a long one around the column, and the mark below it.  Nothing when the
 * column lies behind the end of a line that was cut. */
void source_show(
    const struct source_mark *m, void (*write)(void *ctx, const char *text), void *ctx);

#endif
