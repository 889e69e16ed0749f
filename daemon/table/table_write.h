/* table_write.h -- the one writer of a table.
 *
 *     table_writer_open(&w, "/dev/shm/tarn/blocked", 1000, why, sizeof(why));
 *     table_write(w, &image, why, sizeof(why));      as often as one likes
 *     table_writer_close(&w);
 *
 * The writer holds a lock on the state file while it is open: a second one gets TERR_BUSY.  When
 * it dies, readers have the version before or the one behind, whole, and the next writer goes on.
 * Files only grow; a table that is to become small again is removed and made anew.
 *
 * Threads: a writer is one thread's.  Errors: TERR_*, and why is text for the operator.
 */
#ifndef TARN_TABLE_WRITE_H
#define TARN_TABLE_WRITE_H

#include "daemon/table/table_build.h"

enum {
    TABLE_GRACE_MS = 1000 /* when nothing else is said */
};

struct table_writer; /* private to table_write.c */

enum table_step {
    TABLE_STEP_WAITED,   /* the other copy has no readers */
    TABLE_STEP_GREW,     /* and large enough */
    TABLE_STEP_HALF,     /* half written */
    TABLE_STEP_FILLED,   /* written */
    TABLE_STEP_SWITCHED, /* read from now on */
    TABLE_STEP_COUNT
};

/* Opens the table, and makes its directory and files if there are none.  TERR_BUSY: another writer has
 * it; TERR_CORRUPT: there is something else; TERR_IO; TERR_INVALID: the path is too long;
 * TERR_NOMEM. */
int table_writer_open(
    struct table_writer **out, const char *path, unsigned grace_ms, char *why, size_t why_size);
/* Takes *wp. */
void table_writer_close(struct table_writer **wp);

/* The image becomes the newest version.  It gets its generation, and its hash anew.  0; 1: so it is,
 * and a reader that had not left within the grace period was given up; TERR_IO: no room;
 * TERR_CORRUPT: the image is none, or a data file is not what we had; TERR_NOMEM. */
int table_write(
    struct table_writer *w, const struct table_image *image, char *why, size_t why_size);

/* For tests of what happens when a writer dies: called behind each step.  NULL: no call. */
void table_writer_on_step(
    struct table_writer *w, void (*on_step)(void *ctx, enum table_step step), void *ctx);

/* Removes the table's files, in an order that leaves no reader half of it. */
int table_writer_remove(struct table_writer **wp);

#endif
