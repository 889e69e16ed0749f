/* tags.h -- surrogate keys: the tags by which responses are purged together.
 *
 *   tag     a text by which an origin says what a response shows; upper and lower case differ
 *   fields  that name tags: Surrogate-Key, with spaces between them (Fastly); xkey, with spaces or
 *           commas (Varnish's vmod_xkey); Cache-Tag, with commas (Cloudflare).  All of them count.
 *
 * A tag is known by 64 bits of a hash under the process's secret, so that an attacker cannot choose
 * two that look the same.
 *
 * Threads: none of its own.  Memory: the caller's.
 */
#ifndef TARN_TAGS_H
#define TARN_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/arena.h"
#include "daemon/http/message.h"

enum tag_between {
    TAG_SPACES = 1, /* and tabs */
    TAG_COMMAS = 2, /* spaces around a tag are not part of it, those within are */
};

enum {
    TAGS_MAX = 64,         /* of one response: pages have ten or twenty */
    TAGS_BYTES_MAX = 4096, /* of their text together */
};

/* Of one response, each once. */
struct tags {
    uint32_t bytes; /* of their text */
    uint16_t n;
    bool any; /* there were more than are remembered: every tag may be one of them */
    uint64_t hash[TAGS_MAX];
};

void tags_init(struct tags *t);
uint64_t tag_hash(struct slice tag);
/* One of eight: in the bits of an object that has the tag. */
static inline uint8_t
tag_bit(uint64_t hash)
{
    return (uint8_t)(1u << (hash >> 61));
}
/* One of `n`, at most 16, whatever tag_bit() says. */
static inline unsigned
tag_mark(uint64_t hash, unsigned n)
{
    return 1u << ((hash >> 32 & UINT16_MAX) * n >> 16);
}
/* The next tag, which is not empty; *rest goes behind it.  False: there are no more. */
bool tag_next(struct slice *rest, unsigned between, struct slice *tag);
/* The tags in `text`.  Once `any` is set no more are read. */
void tags_add(struct tags *t, struct slice text, unsigned between);

/* The field with those that a policy said, where other nodes of a fleet may ask for what is stored. */
#define TAGS_OURS SLICE_LIT("Tarn-Tags")

/* Has it a field that names tags? */
bool tags_named(const struct http_message *m);
void tags_add_fields(struct tags *t, const struct http_message *m);
/* A copy in the arena with these fields behind all others, of which there are *nothers.  0 or
 * TERR_NOMEM. */
int tags_put_last(
    const struct http_message *m, struct arena *a, struct http_message *out, unsigned *nothers);

#endif
