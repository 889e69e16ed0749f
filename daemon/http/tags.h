/* tags.h -- surrogate keys: the tags by which responses are purged together.
 *
 *   tag     a text by which an origin says what a response shows; upper and lower case differ
 *   fields  that name tags: Surrogate-Key, with spaces between them (Fastly); xkey, with spaces or
 *           commas (Varnish's vmod_xkey); Cache-Tag, with commas (Cloudflare).  All their lines count.
 *   block   a response head as block.h has it
 *
 * A tag is known by 64 bits of a hash under the process's secret, so that nobody can choose two
 * that look the same.
 *
 * Threads: none of its own.  Memory: the caller's.
 */
#ifndef TARN_TAGS_H
#define TARN_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

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
/* One of eight: in the bits of whoever has the tag. */
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

/* How many lines of a block are fields that name tags. */
unsigned tags_lines(struct slice block);
void tags_add_block(struct tags *t, struct slice block);
/* Copies a block into `out`, which has room for it, with these lines behind all others.  How many
 * bytes the others have. */
size_t tags_put_last(struct slice block, char *out);

#endif
