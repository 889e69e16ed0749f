/* derive.h -- responses derived from a stored one: merged with an update, and changed for one answer.
 *
 *   merged   a stored response with fields replaced by a later response about the same
 *            representation (RFC 9111 3.2): a 304, or a 206 that adds a part
 *
 * `*out` is built in the arena, and changes also when it fails.  Errors: TERR_NOMEM, TERR_LIMIT:
 * more fields or bytes than a message can have.
 *
 * Threads: none of its own.
 */
#ifndef TARN_DERIVE_H
#define TARN_DERIVE_H

#include <stdint.h>

#include "daemon/base/arena.h"
#include "daemon/http/message.h"

/* What `update` (as it came; hop-by-hop and nominated fields do not count) makes of `stored`: the
 * stored status and reason, stored fields with names that update does not have, then update's; the
 * fields of one name are replaced together.  Never taken from update: Content-Length,
 * Content-Encoding, Content-Range, Content-MD5 and Content-Digest, on which the stored body
 * depends (RFC 9111 3.2), and ETag when there is a stored one.  Content-Type is taken: the same
 * bytes can be given a better name.  Age, Cache-Status and Via as forward_response() has them;
 * Date from update, else `now_s`. */
int derive_merged(const struct http_message *stored, const struct http_message *update,
    struct slice pseudonym, int64_t now_s, struct arena *a, struct http_message *out);

/* 304: everything but what describes the body (Content-Type, -Encoding, -Language, -Length, -Range,
 * -Disposition, -MD5, -Digest), RFC 9110 15.4.5. */
int derive_not_modified(
    const struct http_message *stored, struct arena *a, struct http_message *out);

/* 206: without Content-Length, which the protocol adds, and without sums over other bytes
 * (Content-MD5, Content-Digest); with `content_range` when it is not empty (one range:
 * "bytes 0-4/10"), or with Content-Type multipart/byteranges and `boundary` instead of the stored
 * one (several). */
struct derive_partial {
    struct slice content_range; /* a value, or empty */
    struct slice boundary;      /* 1 to 70 bytes; used when content_range is empty */
};
int derive_partial(const struct http_message *stored, const struct derive_partial *how,
    struct arena *a, struct http_message *out);

/* 416: with the complete length in Content-Range, and the fields a 304 would have without
 * Cache-Control, Expires and their like: a cache behind us must not keep it. */
int derive_unsatisfiable(const struct http_message *stored, uint64_t complete, struct arena *a,
    struct http_message *out);

/* The head of a response when its body is packed (`coding`: "gzip"), unpacked (.len 0), or stays as it is
 * (NULL): another Content-Encoding, no Content-Length and no sums over the bytes, a weak ETag (RFC 9110 8.8.1: the bytes of a later
 * packing may be others), each if the body changes; and Vary with Accept-Encoding (RFC 9110 12.5.5). */
int derive_coding(const struct http_message *stored, const struct slice *coding, struct arena *a,
    struct http_message *out);

/* The same, for a body in another coding that is whole: with its length.  `varies`: one more name for Vary, or
 * empty. */
int derive_recoded(const struct http_message *stored, struct slice coding, struct slice varies,
    uint64_t length, struct arena *a, struct http_message *out);

/* Has it a sum of its body, as Repr-Digest?  derive_coding() leaves those out. */
bool derive_has_sum(const struct http_message *h);

/* As it is, with the length of its body, which it does not say yet. */
int derive_sized(
    const struct http_message *stored, uint64_t length, struct arena *a, struct http_message *out);

/* Of a page that is put together of parts: without length, coding, sums and ranges; its validators are those of
 * the page alone, and may be kept for the question whether that has changed. */
int derive_assembled(const struct http_message *page, bool keep_validators, struct arena *a,
    struct http_message *out);

/* A 206 as the head of the whole: status 200, without Content-Range, Content-Length and sums over
 * the part. */
int derive_whole(const struct http_message *stored, struct arena *a, struct http_message *out);

#endif
