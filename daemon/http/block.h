/* block.h -- stored heads: read back, merged, and rewritten for one answer.
 *
 *   block    a response head as forward_response() wrote it: status line and complete field
 *            lines, each with its CRLF; no blank line
 *   merged   a stored block whose fields a later response about the same representation
 *            replaces (RFC 9111 3.2): a 304, or a 206 that adds a part
 *
 * Threads: none of its own.  Memory: the caller's.  Errors: TERR_*.
 */
#ifndef TARN_BLOCK_H
#define TARN_BLOCK_H

#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

/* A block as a head, in place: `out` borrows its bytes, and `fields` (room for `max`).  0,
 * TERR_LIMIT: too many fields or bytes; TERR_SYNTAX: we never wrote this.  `out` changes only
 * with 0. */
int block_parse(
    struct slice block, struct http_field *fields, unsigned max, struct http_message *out);

/* What `update` (as it came; hop-by-hop and nominated fields do not count) makes of `stored`:
 * the stored status line, stored fields whose names update does not have, then update's; the
 * lines of one name are replaced together.  Never taken from update: Content-Length,
 * Content-Encoding, Content-Range, Content-MD5 and Content-Digest, on which the stored body
 * depends (RFC 9111 3.2), and ETag when there is a stored one.  Content-Type is taken: the same
 * bytes can be given a better name.  Age, Cache-Status and Via as forward_response() has them;
 * Date from update, else `now_s`.  The length, or TERR_LIMIT. */
int block_merge(const struct http_message *stored, const struct http_message *update,
    struct slice pseudonym, int64_t now_s, struct span out);
/* An upper bound of what block_merge() writes. */
size_t block_merge_max(
    const struct http_message *stored, const struct http_message *update, struct slice pseudonym);

/* 304 from a stored block: everything but what describes the body (Content-Type, -Encoding,
 * -Language, -Length, -Range, -Disposition, -MD5, -Digest), RFC 9110 15.4.5.  The length, or
 * TERR_LIMIT. */
int block_not_modified(const struct http_message *stored, struct span out);

/* 206 from a stored block: without Content-Length, which the protocol adds, and without sums
 * over other bytes (Content-MD5, Content-Digest); with `content_range` when it is not empty (one
 * range: "bytes 0-4/10"), or with Content-Type multipart/byteranges and `boundary` instead of
 * the stored one (several).  The length, or TERR_LIMIT. */
struct block_partial {
    struct slice content_range; /* a value, or empty */
    struct slice boundary;      /* 1 to 70 bytes; used when content_range is empty */
};
int block_partial(
    const struct http_message *stored, const struct block_partial *how, struct span out);

/* 416: "Content-Range: bytes * / complete" (without the spaces), and the fields a 304 would
 * have without Cache-Control, Expires and their like: a cache behind us must not keep it.  The
 * length, or TERR_LIMIT. */
int block_unsatisfiable(const struct http_message *stored, uint64_t complete, struct span out);

/* Room that any of the three above fits in. */
size_t block_rewrite_max(const struct http_message *stored);

/* A stored 206 as the head of the whole: status 200, without Content-Range, Content-Length and
 * sums over the part.  block_rewrite_max() is room for it.  The length, or TERR_LIMIT. */
int block_whole(const struct http_message *stored, struct span out);

#endif
