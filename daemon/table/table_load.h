/* table_load.h -- a table from a text, in one step: whole, or not at all.
 *
 * Threads: any; it blocks, for readers that have not left, too (TABLE_GRACE_MS). */
#ifndef TARN_TABLE_LOAD_H
#define TARN_TABLE_LOAD_H

#include "daemon/base/span.h"
#include "daemon/table/table_format.h"

/* The text (table_build.h) as the newest version.  0; TERR_SYNTAX: the text's fault, and nothing was touched; TERR_BUSY: another writer has the
 * table; the errors of table_writer_open() and table_write(); and a sentence in `why`. */
int table_load(
    const char *path, enum table_kind kind, struct slice text, char *why, size_t why_size);
/* As above, but nothing is written. */
int table_check(enum table_kind kind, struct slice text, char *why, size_t why_size);

#endif
