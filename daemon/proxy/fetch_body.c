/* fetch_body.c -- a response's body, from the connection into storage. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_policy.h"

enum {
    FETCH_TURN_BYTES = 4 << 20,    /* then the others of this loop get their turn */
    FETCH_TURN_PACKED = 256 << 10, /* the same, of bytes that are packed: 0.8 ms */
};

int
fetch_room(struct fetch *f, struct span *room)
{
    int err;

    err = space_get(f->body, FETCH_SPAN_MAX, room, &f->space);
    f->attempt.no_room = f->attempt.no_room || err == -ENOSPC;
    /* The store is full: its readers get what follows through a window, and the cache keeps nothing
     * of it. */
    if (err == -ENOSPC && fetch_is_shared(f) && (f->held == NULL || fetch_let_go(f) == 0) &&
        fetch_outgrown(f) == 0)
        err = space_get(f->body, FETCH_SPAN_MAX, room, &f->space);
    switch (err) {
    case 0:
        return 0;
    case -EAGAIN:
        return TERR_AGAIN;
    case -ENOSPC:
        return TERR_LIMIT;
    default:
        return TERR_NOMEM;
    }
}

enum {
    WINDOW_OPEN_MS = 1000, /* a reader that comes later after the head finds no start */
    /* For which one that stands still holds up the others, once: a lost packet may take that long.
     * If it cannot get the rest otherwise, WINDOW_PATIENCE times that, from when it last moved. */
    WINDOW_LOOK_MS = 1000,
};

/* No room: the readers are slow, not the origin. */
enum fetch_next
fetch_stall(struct fetch *f)
{
    tassert(f->body != NULL && f->state == FETCH_BODY);
    fetch_tell_absent(f, false); /* too long a page to wait for its end */
    /* The backend is not the slow side, so its deadline does not count; that of the client's
     * connection does. */
    if (!fetch_is_windowed(f))
        timer_clear(&f->timer);
    else if (!f->attempt.stalled)
        fetch_deadline(f, WINDOW_LOOK_MS);
    f->attempt.stalled = true;
    return FETCH_WAIT;
}

/* A window is open for a while, and then for the readers that have come; those that stand still get
 * a look each second. */
static void
fetch_tend_window(struct fetch *f)
{
    tassert(f->body != NULL && f->held == NULL);
    if ((int64_t)f->proxy->loop->clock.mono_ms - f->attempt.came_ms > WINDOW_OPEN_MS)
        stobj_shut_window(f->body);
    if (!f->attempt.stalled || !timer_expired(&f->timer))
        return;
    fetch_deadline(f, WINDOW_LOOK_MS);
    if (!stobj_expire_window(f->body))
        entry_seal(f->entry); /* a slow reader sets the pace: later ones need not share it */
    if (waiter_state(&f->space) == WAITER_ARMED)
        space_cancel(f->body, &f->space); /* ask again */
}

/* Has a body of a length that was not said become longer than what is kept?  For a length that was said there
 * is room, whatever the limit has become since. */
static bool
fetch_is_too_large(const struct fetch *f)
{
    return fetch_is_shared(f) && f->held == NULL && !f->attempt.too_large &&
           f->attempt.part_len == STOBJ_SIZE_UNKNOWN &&
           entry_body_len(f->entry) == STOBJ_SIZE_UNKNOWN &&
           stobj_len(f->body) > fetch_object_max(f->proxy);
}

void
fetch_stored(struct fetch *f, size_t n)
{
    tassert(n > 0 && f->state == FETCH_BODY);
    space_extend(f->body, n);
    if (fetch_is_too_large(f)) {
        f->attempt.too_large = true;
        fetch_outgrown(f);
    }
}

/* Bytes have come.  0, or TERR_FRAMING: more than its Content-Range says. */
static int
fetch_add(struct fetch *f, size_t n)
{
    counter_add(f->proxy->counters, COUNTER_fetch_bytes, n);
    fetch_deadline(f, fetch_between_bytes_ms(f));
    if (stobj_len(f->body) + n > f->attempt.part_len) {
        space_extend(f->body, n);
        return TERR_FRAMING;
    }
    fetch_stored(f, n);
    return 0;
}

/* One span, if there is room.  *got: its bytes; 0: the state changed, or we wait. */
static enum fetch_next
fetch_move(struct fetch *f, size_t *got)
{
    struct origin_exchange *x = fetch_exchange(f);
    struct span room;
    ssize_t n;

    *got = 0;
    if (waiter_pending(&f->space))
        return FETCH_WAIT;
    if (x->body_done)
        return fetch_goto(f, FETCH_DONE); /* and no room is asked for what never comes */
    n = fetch_room(f, &room);
    if (n == TERR_AGAIN)
        return fetch_stall(f);
    if (n < 0)
        return fetch_fail(f, (int)n);
    /* The backend's time begins again with the room. */
    if (f->attempt.stalled)
        fetch_deadline(f, fetch_between_bytes_ms(f));
    f->attempt.stalled = false;
    n = x->ops->body(x, room);
    if (n == TERR_AGAIN)
        return timer_expired(&f->timer) ? fetch_fail(f, TERR_TIMEDOUT) : FETCH_WAIT;
    if (n == 0)
        return fetch_goto(f, FETCH_DONE);
    *got = n > 0 ? (size_t)n : 0;
    n = n > 0 ? fetch_add(f, *got) : n;
    return n < 0 ? fetch_fail(f, (int)n) : FETCH_WAIT;
}

/* BODY -- from the socket into storage, as fast as there is room. */
enum fetch_next
fetch_do_body(struct fetch *f)
{
    const size_t most = f->pack != NULL ? FETCH_TURN_PACKED : FETCH_TURN_BYTES;
    size_t all = 0, got = 0;

    if (f->attempt.on.request != FETCH_SENT)
        fetch_send(f); /* the origin answered early; its errors show in the response */
    if (fetch_is_windowed(f))
        fetch_tend_window(f);
    do {
        enum fetch_next next = f->pack != NULL ? fetch_pack_move(f, &got) : fetch_move(f, &got);

        if (got == 0 || next != FETCH_WAIT)
            return next;
        all += got;
    } while (all < most);
    task_wake(&f->task);
    return FETCH_WAIT;
}
