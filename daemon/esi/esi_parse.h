/* esi_parse.h -- Edge Side Includes in a page: bytes in, in any pieces, what they mean out.
 *
 *   run       bytes of the page: text, which is shown, or markup, which is not where the page is processed
 *   include   another resource's body belongs here
 *
 * All runs, one behind the other, are the page as it came.
 *
 * The language is W3C's ESI 1.0, as far as Varnish has it: include (src, alt, onerror), remove, comment, and
 * the comment <!--esi ... -->.  A page that does not begin with white space and .<. has none.
 * What is malformed is markup without a meaning, up to the next '>'.
 *
 * Memory: the parser's own, which does not grow.  Threads: none of its own.
 */
#ifndef TARN_ESI_PARSE_H
#define TARN_ESI_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum {
    ESI_URL_MAX = 2048, /* bytes of src, and of alt; an element with more is malformed */
    ESI_HOLD_MAX = 12,  /* more than the longest text that tells what follows: <![CDATA[ */
    ESI_NAME_MAX = 8,   /* bytes of a name that are of interest, and one */
    ESI_ONERROR_MAX = 9,
    ESI_STARTS_ALL = 15,
};

enum esi_what {
    ESI_NOTHING, /* all of the input was consumed */
    ESI_TEXT,
    ESI_MARKUP,
    ESI_INCLUDE,
};

struct esi_include {
    struct slice src, alt; /* entities are decoded; alt.len 0: there is none */
    bool go_on;            /* onerror="continue" */
};

struct esi_event {
    enum esi_what what;
    struct slice run;           /* TEXT, MARKUP; len > 0 */
    struct esi_include include; /* INCLUDE */
};

enum esi_attr {
    ESI_ATTR_OTHER,
    ESI_ATTR_SRC,
    ESI_ATTR_ALT,
    ESI_ATTR_ONERROR
};

/* For its own files, except errors and why. */
struct esi_parser {
    unsigned errors; /* elements that were malformed */
    const char *why; /* the first of them; NULL: none was */
    size_t ahead;    /* bytes of the input that were looked at already, all of `kind` */
    size_t open;     /* and behind them, not decided */
    uint8_t state, kind, nhold, nname, tail, starts, nonerror;
    uint8_t attr; /* enum esi_attr */
    bool bom, removing, commented, removes, closes, due, has_src, has_alt;
    char quote; /* of the value; 0: it has none */
    uint16_t nsrc, nalt;
    char hold[ESI_HOLD_MAX]; /* what is not decided, of pieces before this one */
    char name[ESI_NAME_MAX], onerror[ESI_ONERROR_MAX];
    char src[ESI_URL_MAX], alt[ESI_URL_MAX];
};

void esi_parse_init(struct esi_parser *p);
/* The next event, and *in moves on.  Slices of an event are of the input or of the parser, and stay until the next
 * call.  What is left of the input is to be offered again, in front of more.  `ends`: there is no more. */
void esi_parse_next(struct esi_parser *p, struct slice *in, bool ends, struct esi_event *e);

#endif
