/* log.h -- a worker's log, in memory that other processes can read.
 *
 * One `struct shmlog` a worker, written by that worker's thread alone: no lock, no system
 * call, no waiting for readers.  A reader that is too slow loses the oldest and knows how
 * much it lost.
 *
 *     shmlog_req()                                   every request, once, when it has ended
 *     if (shmlog_readers(l)) { begin, text..., end } the details, when a reader is attached
 *
 * A begin/end pair is one chunk and stays within one turn of the loop; a transaction that
 * takes several turns writes several chunks under its xid.  A chunk that outgrows its limit
 * is continued in another by itself.
 *
 * Threads: everything here belongs to the worker, except shmlog_sweep().
 */
#ifndef TARN_SHM_LOG_H
#define TARN_SHM_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/shm/log_format.h"

struct shm_dir;

#define SHMLOG_MAGIC 0x676f6c73u /* "slog" */

/* Public for shmlog_readers() alone: no other code outside log.c touches the members. */
struct shmlog {
    uint32_t magic;
    bool open; /* between begin and end */
    uint8_t kind;
    struct shmlog_file *file;
    _Atomic uint64_t *ring;
    char *bytes; /* the same */
    uint64_t ring_bytes, segment_bytes;
    uint64_t mask;         /* ring_bytes - 1 */
    uint64_t pos;          /* next chunk's, or the open one's, position */
    uint64_t limit;        /* end of the segment that `pos` is in: claimed */
    uint64_t at;           /* within the open chunk: where the next record goes */
    struct shmlog_ids ids; /* of the open chunk */
    struct shmlog_counts counts;
    char *stage; /* under the race detector: where chunks are made; see log.c */
    size_t map_bytes;
    uint64_t swept_beat[SHMLOG_READERS_MAX]; /* shmlog_sweep()'s thread only */
};

/* Makes DIR/log.WORKER; `bytes` is a power of two, at least SHMLOG_RING_MIN.  `dir` NULL:
 * memory of this process only, for tests.  Borrows nothing.  TERR_NOMEM when there is no
 * room for it: pages are reserved now, so that a full /dev/shm cannot kill us later. */
int shmlog_open(struct shmlog **out, struct shm_dir *dir, unsigned worker, uint64_t bytes);
/* Takes *lp.  The file stays until shm_dir_close(). */
void shmlog_close(struct shmlog **lp);

/* Does a reader want the details? */
static inline bool
shmlog_readers(const struct shmlog *l)
{
    return atomic_load_explicit(&l->file->attached, memory_order_relaxed) != 0;
}

/* One finished request, in one chunk of its own.  Not between begin and end. */
void shmlog_req(struct shmlog *l, const struct shmlog_req *r);
/* The same for requests that are no plain hits: r->tls, if there is any, goes behind it, in its chunk. */
void shmlog_req_any(struct shmlog *l, const struct shmlog_req *r);

void shmlog_begin(struct shmlog *l, uint64_t xid, enum shmlog_kind kind, uint64_t parent_xid);
void shmlog_text(struct shmlog *l, enum shmlog_tag tag, struct slice text);
void shmlog_field(struct shmlog *l, enum shmlog_tag tag, struct slice name, struct slice value);
void shmlog_num(struct shmlog *l, enum shmlog_tag tag, uint64_t n);
void shmlog_event(struct shmlog *l, enum shmlog_tag tag, struct slice label, uint64_t n);
void shmlog_printf(struct shmlog *l, enum shmlog_tag tag, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void shmlog_end(struct shmlog *l); /* publishes */

/* Detaches readers that gave no sign of life since the last call: they died.  From one
 * thread, the main one, every ten seconds or more. */
void shmlog_sweep(struct shmlog *l);

/* For a panic: the log of this thread; the caller clears it with NULL before it is closed. */
void shmlog_describe_here(const struct shmlog *l);
/* Says the last records of it (tassert_describe). */
void shmlog_describe(void);

/* A client's address as records hold it: from a sockaddr of any family. */
struct sockaddr;
void shmlog_addr(struct shmlog_req_fixed *f, const struct sockaddr *sa);

#endif
