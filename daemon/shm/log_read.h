/* log_read.h -- following a worker's log from another thread or process.
 *
 *     while ((n = shmlog_next(r, &chunk)) > 0)
 *         while (shmlog_record_next(&chunk, &rec))
 *             ...
 *     n == 0: nothing new, come again; n < 0: the file is broken
 *
 * Chunks are copied out and checked before they are handed over, so nothing changes under
 * their reader, and the content of a hostile file can be wrong but not harmful.
 *
 * Threads: a reader belongs to one.  Any number of readers may follow one log.
 */
#ifndef TARN_LOG_READ_H
#define TARN_LOG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/shm/log_format.h"

struct shmlog;
struct shmlog_reader; /* private to log_read.c */

enum shmlog_from {
    SHMLOG_FROM_NOW,    /* what is written after this call */
    SHMLOG_FROM_OLDEST, /* and first what the ring still has */
};

struct shmlog_view {
    enum shmlog_kind kind;
    struct shmlog_ids ids;
    uint32_t worker;
    struct slice rest; /* records not yet taken; borrowed until the next shmlog_next() */
};

struct shmlog_rec {
    enum shmlog_tag tag; /* may be beyond our table: a newer Tarn */
    bool cut;
    struct slice payload;
};

/* Opens DIR/log.N by its path.  TERR_NOTFOUND, TERR_IO, TERR_NOMEM; TERR_CORRUPT: foreign,
 * short, or of a version we do not know. */
int shmlog_reader_open(struct shmlog_reader **out, const char *path, enum shmlog_from from);
/* The log of this process, through the writer's own mapping; borrowed until closed. */
int shmlog_reader_open_here(struct shmlog_reader **out, struct shmlog *l, enum shmlog_from from);
/* Any bytes on a 64-byte boundary that look like a log file; borrowed until closed. */
int shmlog_reader_open_mem(
    struct shmlog_reader **out, const void *base, size_t bytes, enum shmlog_from from);
/* Takes *rp; detaches if need be. */
void shmlog_reader_close(struct shmlog_reader **rp);

/* Asks the worker for the details: it writes them while any reader is attached.  Without it a
 * reader sees what is always written.  TERR_LIMIT: too many are attached already; TERR_IO:
 * the file may not be written by us. */
int shmlog_attach(struct shmlog_reader *r);
void shmlog_detach(struct shmlog_reader *r);

/* 1 and a chunk; 0 when there is nothing new; TERR_CORRUPT when what is there is no log.
 * After the latter the reader stands at the end and may go on.  Call it at least every few
 * seconds: that is also the sign of life of an attached reader. */
int shmlog_next(struct shmlog_reader *r, struct shmlog_view *out);

/* Steps over the oldest of what it has not read, if that is more than `leave` bytes: whole segments,
 * so up to a segment more stays.  What is stepped over counts as missed. */
void shmlog_skip(struct shmlog_reader *r, uint64_t leave);

/* Takes the first record off view->rest; false at the end. */
bool shmlog_record_next(struct shmlog_view *view, struct shmlog_rec *out);

/* Decoding of payloads; false when they are too short for it. */
bool shmlog_rec_num(const struct shmlog_rec *rec, uint64_t *out);
bool shmlog_rec_event(const struct shmlog_rec *rec, struct slice *label, uint64_t *n);
/* Strings are borrowed from the chunk; ids are the view's, and so is what TLS said: `rec` is the last
 * record that was taken from it. */
bool shmlog_rec_req(
    const struct shmlog_rec *rec, const struct shmlog_view *view, struct shmlog_req *out);

/* Lost to the writer's laps so far: chunks, and among them Req records. */
uint64_t shmlog_missed(const struct shmlog_reader *r);
uint64_t shmlog_missed_reqs(const struct shmlog_reader *r);
/* Bytes published and not yet read, as of now. */
uint64_t shmlog_behind(const struct shmlog_reader *r);
/* Of two readers of one log the one with more is further on. */
uint64_t shmlog_position(const struct shmlog_reader *r);

#endif
