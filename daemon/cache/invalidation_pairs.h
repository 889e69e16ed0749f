/* invalidation_pairs.h -- a record of invalidation as names and values, as a stream or a file keeps it.
 *
 *     v=1 kind=key soft=1 ttl=0 grace=10000 text=http://www.example.com/page
 *     v=1 kind=url text=http://www.example.com/page field=X-Language: de
 *     v=1 kind=tags tag=article-7 tag=author-3
 *     v=1 kind=ban text=obj.http.x-tag ~ shoes
 *     v=1 kind=all soft=1
 *
 *   v                 1; with another one nothing is read
 *   kind              url, key, tags, ban, all
 *   soft, changed     1 or 0; 0 where it is missing
 *   ttl, grace, keep  ms, of a soft key; missing: that stays as it is
 *   text              of url, key, ban
 *   tag               of tags, one or more
 *   field             of url, none or more: Name: value
 *
 * Other names are ignored, so that a newer node may say more.  Texts have no control characters but tabs, and
 * those of a ban line ends; a key's text may have any byte, for a policy's vcl_hash makes it of what it likes.
 *
 * Threads: none of its own.  Memory: the caller's; slices of what is read lie in the pairs.
 */
#ifndef TARN_INVALIDATION_PAIRS_H
#define TARN_INVALIDATION_PAIRS_H

#include "daemon/cache/invalidation.h"
#include "daemon/cache/tag_purge.h"

enum {
    INVALIDATION_VERSION = 1,
    INVALIDATION_TEXT_MAX = 128 << 10, /* a key is as long as a head, and an authority */
    /* What every record fits into, if its fields do. */
    INVALIDATION_PAIRS_MAX = 8 + TAG_PURGE_MAX,
    INVALIDATION_NUMBERS_MAX = 3 * 24,
};

struct pair {
    struct slice name, value;
};

/* What a record becomes. */
struct pairs {
    struct pair *list; /* in: the caller's, of `max` */
    unsigned max, n;
    struct span
        room;    /* in: the caller's, for numbers and fields; the other values are the record's */
    size_t used; /* of it */
};

/* 0, and the pairs in out->list; TERR_LIMIT: they do not fit; TERR_INVALID: no such record can be read,
 * as when a tag has a control character. */
int invalidation_to_pairs(const struct invalidation *inv, struct pairs *out);

struct invalidation_room {
    struct slice tags[TAG_PURGE_MAX];
    struct invalidation_field fields[INVALIDATION_FIELDS_MAX];
};

/* 0, and *out, which lies in `room` and in the pairs; TERR_INVALID: another version; TERR_SYNTAX: what
 * else is wrong.  Then `why` says what, and *out is as it was. */
int invalidation_from_pairs(const struct pair *pairs, unsigned n, struct invalidation_room *room,
    struct invalidation *out, struct span why);

#endif
