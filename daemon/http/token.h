/* token.h -- the small grammars every field is made of: tokens, lists, quoted strings, numbers.
 *
 *   member  one element of a comma-separated list, trimmed, quoted strings left whole
 *   OWS     optional white space: spaces and tabs (RFC 9110 5.6.3)
 *
 * Threads: none of its own.  Nothing here keeps a pointer but the iterator.
 */
#ifndef TARN_TOKEN_H
#define TARN_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum http_char_class {
    HTTP_C_TCHAR = 1, /* may be in a token (RFC 9110 5.6.2) */
    HTTP_C_VALUE = 2, /* may be in a field value: HTAB, SP, VCHAR, obs-text (RFC 9110 5.5) */
    HTTP_C_DIGIT = 4,
    HTTP_C_TARGET = 8, /* may be in a request target: 0x21..0x7e but '#' and '\' */
    HTTP_C_NAME = 16,  /* may be in a reg-name: unreserved or sub-delims (RFC 3986 3.2.2) */
};

extern const uint8_t http_char_classes[256];

static inline bool
http_char_is(char c, enum http_char_class which)
{
    return (http_char_classes[(uint8_t)c] & which) != 0;
}

/* At least one tchar and nothing else: what a method or a field name must be. */
bool http_token_ok(struct slice s);
/* No control byte but HTAB, no DEL.  Empty is fine. */
bool http_value_ok(struct slice s);
bool http_target_bytes_ok(struct slice s);

/* Without leading and trailing OWS. */
struct slice http_trim(struct slice s);
/* What stands before the first `sep` outside a quoted string, trimmed; *s keeps what follows
 * it (.ptr NULL when there was no `sep`). */
struct slice http_cut(struct slice *s, char sep);

/* Walks the members of one field value.  Empty members are skipped (RFC 9110 5.6.1.2) but
 * counted, for callers that may not tolerate them. */
struct http_list_iter {
    struct slice rest; /* borrowed from the caller until the walk ends */
    unsigned empty;    /* empty members seen so far */
};

void http_list_init(struct http_list_iter *it, struct slice value);
/* False when there are no more. */
bool http_list_next(struct http_list_iter *it, struct slice *member);

/* The text of a quoted string ("\"" included on both sides), unescaped into `out`.  Its
 * length, TERR_SYNTAX, or TERR_LIMIT. */
int http_unquote(struct slice quoted, struct span out);

/* 1*DIGIT and nothing else, at most INT64_MAX: 0, TERR_SYNTAX, or TERR_LIMIT when larger. */
int http_parse_decimal(struct slice s, uint64_t *out);
/* Content-Length is a decimal; a list of equal ones is refused too.  0 or TERR_FRAMING. */
int http_parse_content_length(struct slice s, uint64_t *out);

#endif
