/* table_build.h -- the bytes of a version, made in memory.
 *
 *   builder  entries as they come
 *   image    the version: what a copy holds; any process can read it
 *
 * Threads: a builder is one thread's.  Errors: TERR_*.
 */
#ifndef TARN_TABLE_BUILD_H
#define TARN_TABLE_BUILD_H

#include <stddef.h>

#include "daemon/base/span.h"
#include "daemon/table/table_format.h"

struct table_builder; /* private to table_build.c */

struct table_image {
    void *base; /* on 8 bytes */
    uint64_t bytes;
};

int table_builder_new(struct table_builder **out, enum table_kind kind);
enum table_kind table_builder_kind(const struct table_builder *b);
/* Takes *bp. */
void table_builder_free(struct table_builder **bp);

/* One more; both are copied.  A SET has no values; an ADDRESS's key is an address or a network,
 * 192.0.2.0/24; a VECTOR's value is a whole number of floats.  TERR_INVALID, TERR_LIMIT, and *why says
 * why (static); TERR_NOMEM. */
int table_builder_add(
    struct table_builder *b, struct slice key, struct slice value, const char **why);

/* The image of all that was added, to be freed with free(base).  Afterwards the builder is empty.
 * TERR_EXISTS: two entries have the same key, and *again is the number of the later one, from 0;
 * TERR_LIMIT: it would be too large; TERR_NOMEM. */
int table_builder_finish(struct table_builder *b, struct table_image *out, size_t *again);

/* Text, an entry a line: a key without white space and, behind white space, its value; `#` begins a
 * comment line.  A VECTOR's value is numbers with white space between.  0; TERR_*, and *line (from 1)
 * and why tell the operator where and why; what came before stays added. */
int table_builder_add_text(
    struct table_builder *b, struct slice text, unsigned long *line, char *why, size_t why_size);

#endif
