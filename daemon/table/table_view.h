/* table_view.h -- one version of a table, read where it lies.
 *
 *   view  a version that was found to be whole; offsets of its parts, taken once
 *
 * A lookup allocates nothing, parses nothing and takes no step that the bytes could send outside the
 * version or round for ever: whatever they say, and even when they change meanwhile.
 *
 * Threads: any; a view is a value.  Bytes stay as long as their owner says.
 */
#ifndef TARN_TABLE_VIEW_H
#define TARN_TABLE_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/span.h"
#include "daemon/table/table_format.h"

struct table_view {
    const uint8_t *base; /* NULL: none */
    uint64_t bytes, generation, entries, made_ms, hash;
    uint64_t index_off, slots, v4_slots, probes_max, records_off;
    enum table_kind kind;
};

enum table_trust {
    TABLE_CHECKED,  /* the checksum of every new version is computed */
    TABLE_UNCHECKED /* only the header is looked at: for writers one trusts, and large tables */
};

/* `bytes` at `base`, on 8 bytes, as a version of that size.  0; TERR_CORRUPT, and why is text for the
 * operator. */
int table_view_open(struct table_view *out, const void *base, uint64_t bytes,
    enum table_trust trust, char *why, size_t why_size);

/* Is the key there?  *value is borrowed of the view; it is empty where none was given.  An ADDRESS's
 * key is the text of an address; what is none, or a key beyond TABLE_KEY_MAX, is not there. */
bool table_view_find(const struct table_view *v, struct slice key, struct slice *value);
/* ADDRESS, from the 16 bytes of an address, IPv4 as ::ffff:a.b.c.d. */
bool table_view_find_address(
    const struct table_view *v, const uint8_t addr[16], struct slice *value);

/* All entries, as they were written: *at begins as 0.  False: no more. */
bool table_view_next(
    const struct table_view *v, uint64_t *at, struct slice *key, struct slice *value);

/* "map"; "any" for TABLE_ANY. */
const char *table_kind_name(enum table_kind kind);
/* By its name; TABLE_ANY: there is none. */
enum table_kind table_kind_find(const char *name);

#endif
