/* rep_reader.c -- parts, windows and rests behind one run of leases. */
#include "daemon/proxy/rep_reader.h"

#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/rep_priv.h"

/* Does the body go on in a window?  Its bytes go again. */
static bool
rep_outgrew(const struct entry *e)
{
    return !e->partial && entry_nparts(e) > 1;
}

/* A reader of what is being filled is counted, so that the fetch goes on for it.  An object that is
 * whole may have outgrown what is kept: the last part tells.  Returns whether it is not too late. */
__attribute__((noinline, cold)) bool
rep_join(struct rep_reader *rd)
{
    const struct entry *e = rd->entry;
    struct stobj *last = entry_part(e, entry_nparts(e) - 1).body;

    if (stobj_state(entry_part(e, 0).body) == STOBJ_FILLING || stobj_state(last) == STOBJ_FILLING ||
        rep_outgrew(e))
        return rd->joined = entry_join(rd->entry);
    return true;
}

/* The part that has byte `pos` and most behind it; of an ordinary response, the one we are in. */
static unsigned
rep_find_part(const struct rep_reader *rd)
{
    const struct entry *e = rd->entry;
    unsigned best = rd->part;
    uint64_t most = 0;

    tassert(rd->part < entry_nparts(e));
    if (!e->partial) {
        bool outgrown = best + 1 < entry_nparts(e);

        return outgrown && entry_part(e, best + 1).off <= rd->pos ? best + 1 : best;
    }
    for (unsigned i = 0; i < entry_nparts(e); i++) {
        const struct entry_part p = entry_part(e, i);

        if (p.off <= rd->pos && p.off + p.len > most) {
            most = p.off + p.len;
            best = i;
        }
    }
    return best;
}

/* Begins to read at `pos`, up to the end of what is wanted or of the part.  0, TERR_CLOSED, or
 * TERR_AGAIN: the rest is still to come. */
static int
rep_open_part(struct rep_reader *rd, struct waiter *wait)
{
    uint64_t off = 0;

    tassert(!rd->reading && !rd->over);
    rd->until = rd->end;
    if (__builtin_expect(rd->rest != NULL, 0)) {
        int err = rep_rest_body(rd, wait, &rd->body, &off);

        if (err != 0)
            return err;
    } else if (rd->entry != NULL) {
        struct entry_part p;

        rd->part = (uint8_t)rep_find_part(rd);
        if (rd->part > 0 && !rd->entry->partial)
            /* The window need not be kept for us any more: stobj_expect() counted this reader
             * in. */
            rd->came = true;
        p = entry_part(rd->entry, rd->part);
        tassert(rd->pos >= p.off);
        rd->body = p.body;
        off = p.off;
        /* The next part follows with another lease_init(). */
        if (rd->entry->partial && p.off + p.len < rd->until)
            rd->until = p.off + p.len;
    }
    if (rd->until <= rd->pos && rd->until != LEASE_TO_END)
        return TERR_CLOSED; /* no part has it: the entry was chosen because one does */
    if (lease_init(&rd->it, rd->body, rd->pos - off,
            rd->until == LEASE_TO_END ? LEASE_TO_END : rd->until - rd->pos, wait) != 0)
        return TERR_CLOSED;
    rd->reading = true;
    rd->part_ended = false;
    return 0;
}

/* For a body of unknown length: are these its last bytes?  Then the end of the message shares
 * their packet.  An object that goes on in another part tells of its own end only. */
static bool
rep_took_last(const struct rep_reader *rd, const struct lease_batch *b)
{
    return rd->until == LEASE_TO_END && (b->extents[b->n - 1].flags & LEASE_LAST) != 0 &&
           (rd->entry == NULL || rd->part + 1u == entry_nparts(rd->entry));
}

/* Everything of this part is leased: what follows?  0, or TERR_CLOSED: it ended too early. */
static int
rep_end_part(struct rep_reader *rd)
{
    tassert(rd->reading && !rd->over);
    rd->part_ended = true;
    if (rd->pos < rd->end && rd->end != LEASE_TO_END) /* another part has the rest */
        return rd->until == rd->pos || rep_goes_on(rd) ? 0 : TERR_CLOSED;
    rd->over = rd->end != LEASE_TO_END || !rep_goes_on(rd);
    return 0;
}

/* As they are stored. */
int
rep_take_stored(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait)
{
    unsigned had = b->n;
    int n, err;

    tassert(b->n < b->max && !rd->over);
    /* A lease_take() that finds nothing arms it, and it may be armed once only. */
    if (waiter_pending(wait))
        return TERR_AGAIN;
    if (rd->part_ended && rd->reading) {
        if (lent)
            return TERR_AGAIN; /* leases go back to the iterator they came from */
        lease_fini(&rd->it);
        rd->reading = false;
    }
    err = rd->reading ? 0 : rep_open_part(rd, wait);
    if (err != 0)
        return err;
    n = lease_take(&rd->it, b);
    if (n == -EAGAIN || n == -ENOBUFS)
        return TERR_AGAIN;
    if (n < 0) {
        /* The window went on without us: the rest may still be had by a fetch of our own. */
        rd->behind = rd->behind || n == -ESTALE;
        return TERR_CLOSED;
    }
    for (unsigned i = had; i < b->n; i++)
        rd->pos += b->extents[i].len;
    if (n == 0 || rd->pos == rd->until || rep_took_last(rd, b))
        err = rep_end_part(rd);
    tassert(err == 0 || n == 0);
    return err != 0 ? err : n;
}

int
rep_take(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait)
{
    if (__builtin_expect(rd->filter != NULL, 0))
        return rd->filter->take(rd, b, lent, wait);
    return rep_take_stored(rd, b, lent, wait);
}

void
rep_return_stored(struct rep_reader *rd, const struct lease_returns *back)
{
    if (back->n > 0 && rd->reading)
        lease_return(&rd->it, back);
}

void
rep_return(struct rep_reader *rd, const struct lease_returns *back)
{
    if (__builtin_expect(rd->filter != NULL, 0))
        rd->filter->give_back(rd, back);
    else
        rep_return_stored(rd, back);
}

void
rep_hold(struct rep_reader *rd)
{
    if (rd->reading)
        lease_hold(&rd->it);
}

__attribute__((noinline, cold)) void
rep_tend(struct rep_reader *rd, bool needs)
{
    if (needs && rep_goes_on(rd)) {
        stobj_touch_window(entry_part(rd->entry, rd->part + 1).body);
    } else if (rd->joined && !needs) {
        entry_leave(rd->entry, false);
        rd->joined = false;
    }
}

bool
rep_may_forget(const struct rep_reader *rd)
{
    for (const struct rep_filter *f = rd->filter; f != NULL; f = f->below)
        if (f->busy)
            return false;
    return true;
}

void
rep_forget(struct rep_reader *rd)
{
    bool ended = rd->filter == NULL || rd->filter->end(rd);

    /* Called when nothing is leased: the iterator may end at once. */
    tassert(ended);
    if (rd->reading)
        lease_fini(&rd->it);
    rd->reading = rd->part_ended = rd->over = false;
    rd->part = 0;
    rd->body = NULL;
}

bool
rep_close(struct rep_reader *rd, const struct lease_returns *back, struct waiter *wait)
{
    bool filtered = rd->filter != NULL;

    if (filtered && !rd->filter->end(rd))
        return false;
    if (!rd->reading)
        return true;
    if (!filtered) /* else the leases were its own */
        rep_return_stored(rd, back);
    if (waiter_state(wait) == WAITER_ARMED)
        lease_cancel(&rd->it);
    /* Posted by another loop: it refers to the iterator until it lands. */
    if (waiter_pending(wait))
        return false;
    lease_fini(&rd->it);
    rd->reading = false;
    return true;
}
