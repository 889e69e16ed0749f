/* rep_reader.h -- a representation, read as one run of leases.
 *
 *   (entry, first byte, end)  ->  extents, by the lease contract (storage/lease.h)
 *
 * Hides that a stored representation may lie in several parts, that a body which outgrew what is kept goes
 * on in a window, and that a reader which fell out of a window gets the rest by a fetch of its own.
 *
 * Life: zeros; [rep_begin]; rep_seek; rep_borrow or rep_take, rep_return, until `over`; rep_close until it
 * returns true.
 *
 * Threads: one loop's, the one of the waiter.  Errors: TERR_*.
 */
#ifndef TARN_REP_READER_H
#define TARN_REP_READER_H

#include "daemon/base/waiter.h"
#include "daemon/cache/cache.h"
#include "storage/lease.h"
#include "storage/storage.h"

struct codec;
struct rep_rest;
struct rep_filter;
struct usage;

struct rep_reader {
    struct entry *entry; /* the owner keeps it; NULL: `body` alone, which the owner has set */
    struct stobj *body;  /* that is being read; borrowed from the entry or the rest */
    struct rep_filter
        *filter; /* makes other bytes of them on their way; NULL: they are read as stored */
    struct rep_rest *rest; /* what was missing when the window moved on; NULL: nothing */
    uint64_t pos;          /* of the representation: what is leased next */
    uint64_t end;          /* of what is asked for; LEASE_TO_END: all there will be */
    uint64_t until;        /* where the reading of this part ends; LEASE_TO_END */
    uint8_t part;          /* of the entry, that is being read */
    bool reading;          /* `it` is initialised */
    bool part_ended;       /* everything of this part is leased */
    bool over;             /* everything that is asked for is leased */
    bool behind;           /* the window has moved on without it */
    bool joined;           /* it is counted as a reader of what is being filled */
    bool expected;         /* in the window in which the body goes on, as the one that fetches */
    bool came;             /* it has begun to read that */
    struct lease_iter it;  /* while `reading`; not zeroed by a new owner */
};

/* The usual: one part, which is not being filled. */
static inline bool
rep_is_settled(const struct entry *e)
{
    uintptr_t word = atomic_load_explicit(&e->parts, memory_order_acquire);

    return (word & 1) == 0 && stobj_state((const struct stobj *)word) == STOBJ_SETTLED;
}

bool rep_join(struct rep_reader *rd);

/* Before anything of `e` is read; again is harmless.  False: it has been given up by its fetch.
 * `fetches`: the owner's own fetch fills it. */
static inline bool
rep_begin(struct rep_reader *rd, struct entry *e, bool fetches)
{
    rd->entry = e;
    return rep_is_settled(e) || fetches || rd->joined || rep_join(rd);
}

/* What is wanted from now on. */
static inline void
rep_seek(struct rep_reader *rd, uint64_t first, uint64_t end)
{
    rd->pos = first;
    rd->end = end;
    rd->over = false;
}

/* All that is wanted lies in one run of memory that stays as long as its owner or this turn keeps the
 * object: no lease is needed, and nothing more is to be asked for. */
static inline bool
rep_borrow(struct rep_reader *rd, struct slice *run)
{
    tassert_slow(rd->filter == NULL); /* then the length is not known, and there is no run of it */
    if (__builtin_expect(rd->entry != NULL, 1)) {
        if (__builtin_expect(rd->entry->partial, 0))
            return false;
        rd->body = entry_part(rd->entry, 0).body;
    }
    if (!lease_borrow(rd->body, rd->pos, rd->end - rd->pos, run))
        return false;
    rd->pos += run->len;
    return true;
}

/* Leases more: appends to the batch.  How many, 0 if a part has ended without more: see `over`.
 * TERR_AGAIN: `wait` is armed, or leases of the last part are out (`lent`).  TERR_CLOSED: broken off; if
 * `behind` is set, only this reader is, and may get a rest (req_rest_start). */
int rep_take(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait);
void rep_return(struct rep_reader *rd, const struct lease_returns *back);
/* Past this turn the object must stay. */
void rep_hold(struct rep_reader *rd);

/* Does the body go on in a window behind the part that is being read? */
static inline bool
rep_goes_on(const struct rep_reader *rd)
{
    return rd->entry != NULL && rd->rest == NULL && !rd->entry->partial &&
           rd->part + 1u < entry_nparts(rd->entry);
}

/* Where it goes on this reader is waited for, as long as it moves on here; or not, if it `needs` nothing of
 * that. */
void rep_tend(struct rep_reader *rd, bool needs);
/* May it be forgotten?  Else it has to be closed. */
bool rep_may_forget(const struct rep_reader *rd);
/* Nothing has been read of it: back to zeros, but for its standing at the entry. */
void rep_forget(struct rep_reader *rd);
/* Gives back every lease, and stops waiting for one.  False: `wait` is pending still, call again. */
bool rep_close(struct rep_reader *rd, const struct lease_returns *back, struct waiter *wait);

/* rep_unpack.c: from the first byte on, before anything is read.  Takes the codec; TERR_NOMEM: it is not taken. */
int rep_unpack(struct rep_reader *rd, struct codec *codec, struct usage *u);
/* rep_pack.c: what the reader's filter makes, packed; before anything is read.  As rep_unpack(). */
int rep_pack(struct rep_reader *rd, struct codec *codec, struct usage *u);
/* It ended because the stored body is not what its coding says. */
bool rep_unpack_is_broken(const struct rep_reader *rd);
/* req_rest.c: the body of the rest, and where it begins in the whole.  0, TERR_AGAIN: `wait` is armed;
 * TERR_CLOSED: what came does not fit. */
int rep_rest_body(
    const struct rep_reader *rd, struct waiter *wait, struct stobj **body, uint64_t *off);

#endif
