/* conditional.h -- validators and preconditions (RFC 9110 8.8, 13; RFC 9111 4.3).
 *
 * Threads: none of its own.  Slices are borrowed from the head they came from.
 */
#ifndef TARN_CONDITIONAL_H
#define TARN_CONDITIONAL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

struct validators {
    struct slice etag;          /* as it came, W/ and quotes included; .len 0: none (or several) */
    int64_t last_modified_s;    /* -1: none, several, no date, or one before 1970 */
    struct slice last_modified; /* as it came; .len 0 with -1 */
    int64_t date_s;             /* -1: as above */
};

/* Fields that Connection nominates do not count: they are not stored. */
void validators_of(const struct http_message *resp, int64_t now_s, struct validators *out);
/* Strong comparison: both entity tags strong and equal (RFC 9110 8.8.3.2). */
bool etag_strong_equal(struct slice a, struct slice b);
/* Opaque tags equal; malformed ones only when all their bytes are. */
bool etag_weak_equal(struct slice a, struct slice b);
/* Well-formed: opaque-tag in double quotes, perhaps with W/ (obs-text is fine). */
bool etag_ok(struct slice etag);
bool etag_is_weak(struct slice etag);

/* Do both responses have the same representation for certain?  RFC 9111 3.4: for joining parts
 * both need an equal strong ETag, or no ETag and an equal Last-Modified that is strong (at
 * least a second before each one's Date: RFC 9110 8.8.2.2). */
bool validators_join(const struct validators *a, const struct validators *b);

/* What If-Range may name of them: a strong ETag, or, without any, a strong Last-Modified.  .len 0:
 * nothing (RFC 9110 13.1.5). */
struct slice validators_if_range(const struct validators *v);

/* Does a GET or HEAD that asks with If-None-Match or If-Modified-Since get 304 instead of this
 * stored response?  RFC 9110 13.2.2: If-None-Match decides alone where it is present ("*" and
 * lists, weak comparison; lines are one list; a member without quotes, W/ in any spelling: it
 * matches only a stored one of the very same bytes); If-Modified-Since only when it is one valid
 * date, by Last-Modified, else by Date (RFC 9111 4.3.2). */
bool cond_not_modified(const struct http_message *req, const struct validators *stored);

/* May Range be heeded (RFC 9110 13.1.5)?  True without If-Range; else strong ETag comparison,
 * or a date that equals a strong Last-Modified.  Several If-Range fields: false. */
bool cond_range_holds(const struct http_message *req, const struct validators *stored);
/* Is If-Range there, and no strong entity tag?  A date is the same for all codings of a body. */
bool cond_range_is_by_date(const struct http_message *req);

#endif
