/* h1_parse.h -- bytes to heads and bodies: the only home of llhttp.
 *
 * Start lines are parsed here, strictly, so that a method token is distinguished from garbage;
 * llhttp is handed a canonical line (a template that has read it already) and then the
 * fields and chunks as they came.  What llhttp leaves to its caller is checked here or in
 * http/: bounds on everything, framing, Host, nominated fields.
 *
 * The head's bytes must lie in one piece from its first byte on: the caller keeps them so,
 * and tells where they are now with every call.
 *
 * RFC 9112 2 to 7.
 */
#ifndef TARN_H1_PARSE_H
#define TARN_H1_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/http/framing.h"
#include "daemon/http/message.h"

struct h1_limits {
    size_t line_max;  /* bytes of a start line */
    size_t field_max; /* bytes of one field line */
    size_t head_max;  /* bytes of the head */
    /* of responses only */
    bool bare_lf;    /* a line of the head may end with LF alone */
    bool any_status; /* up to 999 */
};

enum {
    H1_LLHTTP_SIZE = 96
};

struct h1_parser {
    struct http_message *head; /* borrowed: what is filled in */
    const struct h1_limits *limits;
    const char *base; /* the head's first byte, for the call under way */
    char *out;        /* where body bytes go, for the call under way */
    size_t out_len;
    uint64_t taken;              /* body bytes read so far, LENGTH and CLOSE */
    uint32_t ext_line, ext_body; /* chunk extension bytes */
    uint8_t ext;                 /* where in them we are; 0: in none */
    uint8_t trailer_at;          /* where in the trailer section */
    uint32_t trailer;            /* bytes behind the line of the last chunk */
    uint32_t fed;                /* head bytes that llhttp has seen, start line included */
    int err;
    bool is_response, line_done, head_done, body_done;
    bool ready;               /* `ll` is */
    bool in_size, in_trailer; /* where in a chunked body we are */
    uint8_t digits;           /* of the chunk size under way */
    uint8_t leading;          /* empty lines before a request line */
    struct framing framing;
    union {
        unsigned char bytes[H1_LLHTTP_SIZE]; /* an llhttp_t, once `ready` */
        uint64_t align;
    } ll; /* last: what begins a parser leaves it alone */
};

void h1_parse_init(struct h1_parser *p, bool is_response, struct http_message *head,
    const struct h1_limits *limits);
/* The same for memory that is zero up to p->ll, *head too, except fields and max_fields. */
void h1_parse_begin(struct h1_parser *p, bool is_response, struct http_message *head,
    const struct h1_limits *limits);

/* The first line alone; h1_parse_head reads it too if this was not called.  1: it is there and
 * good; 0: more is needed; TERR_*. */
int h1_parse_line(struct h1_parser *p, const char *bytes, size_t len);

/* Looks at the head's bytes so far, `len` of them.  1: complete, head->len bytes long;
 * 0: more is needed; TERR_*: it will never be one.  head->fields and max_fields are the
 * caller's to set.  After 1 the caller decides p->framing (http/framing.h). */
int h1_parse_head(struct h1_parser *p, const char *bytes, size_t len);

/* Empty lines a client may send before a request (RFC 9112 2.2): how many bytes to skip, or
 * TERR_SYNTAX when there are too many. */
int h1_parse_leading(struct h1_parser *p, const char *bytes, size_t len);

/* Decodes body bytes.  Reads at most `len` of `bytes` and writes decoded ones to `out` (which
 * may be `bytes`: it never overtakes) as far as `room` goes; *used says how many were read.
 * Returns the number written, with p->body_done once the end was read, or TERR_*. */
ssize_t h1_parse_body(
    struct h1_parser *p, const char *bytes, size_t len, char *out, size_t room, size_t *used);

/* For tests: from now on with or without what only this processor can do.  One thread. */
void h1_parse_plainly(bool plainly);

/* "9.4.3" */
const char *h1_llhttp_version(void);

#endif
