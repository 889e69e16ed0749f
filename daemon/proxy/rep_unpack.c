/* rep_unpack.c -- a stored body in a coding that the client does not take, unpacked at the client's pace.
 *
 * A source of leases on top of another: extents of the stored body go through a codec into rooms of our own,
 * which are leased in their place.  A room is used again when its lease has come back, so a client that reads
 * nothing costs the codec and these rooms, whatever the body's length. */
#include "daemon/base/terr.h"
#include "daemon/base/usage.h"
#include "daemon/filter/codec.h"
#include "daemon/proxy/rep_priv.h"

enum {
    UNPACK_ROOMS = 4,
    UNPACK_ROOM = 16384,
    UNPACK_PIECE = 32768, /* of the stored body for one room: more would take long for little */
};

struct rep_unpack {
    struct rep_filter filter;
    struct codec *codec; /* NULL: everything was unpacked */
    struct usage *usage;
    struct lease_extent in; /* of the stored body, leased; len 0: none */
    struct slice rest;      /* of it, not unpacked yet */
    bool in_over;           /* all of the stored body was leased */
    bool due;               /* the codec has more to write */
    bool ended;
    int err; /* what ended it instead, TERR_* */
    bool lent[UNPACK_ROOMS];
    char *room[UNPACK_ROOMS]; /* from the first use on */
};

static inline struct rep_unpack *
unpack_of(const struct rep_reader *rd)
{
    return container_of(rd->filter, struct rep_unpack, filter);
}

/* The extent that was unpacked goes back. */
static void
unpack_give(struct rep_reader *rd)
{
    struct rep_unpack *un = unpack_of(rd);
    const struct lease_returns back = {.ids = &un->in.id, .n = 1};

    tassert(un->in.len == 0 || rd->reading);
    if (un->in.len > 0)
        rep_return_stored(rd, &back);
    un->in.len = 0;
}

static bool
unpack_end(struct rep_reader *rd)
{
    struct rep_unpack *un = unpack_of(rd);

    unpack_give(rd);
    codec_free(&un->codec);
    for (unsigned i = 0; i < UNPACK_ROOMS; i++)
        usage_free(un->usage, USAGE_REQUEST, un->room[i]);
    rd->filter = NULL;
    usage_free(un->usage, USAGE_REQUEST, un);
    return true;
}

static void
unpack_return(struct rep_reader *rd, const struct lease_returns *back)
{
    struct rep_unpack *un = unpack_of(rd);

    for (unsigned i = 0; i < back->n; i++) {
        uint64_t n = back->ids[i] >> 3;

        if (n == 0)
            continue; /* LEASE_NO_RETURN */
        tassert(n <= UNPACK_ROOMS && un->lent[n - 1]);
        un->lent[n - 1] = false;
    }
}

/* The stored body's next extent: 0, TERR_AGAIN or TERR_CLOSED; in_over: there is none. */
static int
unpack_feed(struct rep_reader *rd, struct waiter *wait)
{
    struct rep_unpack *un = unpack_of(rd);
    struct lease_batch b = {.extents = &un->in, .n = 0, .max = 1};
    int n;

    tassert(un->rest.len == 0 && !un->ended && un->err == 0);
    unpack_give(rd);
    if (un->in_over)
        return 0;
    n = rep_take_stored(rd, &b, false, wait);
    if (n < 0)
        return n;
    /* Our reader is not over while the codec has something. */
    un->in_over = rd->over;
    rd->over = false;
    if (n == 0)
        un->in.len = 0;
    un->rest = slice_of(un->in.ptr, un->in.len);
    return 0;
}

/* One piece through the codec; *left of it may still be taken for this room.  As codec_run(). */
static int
unpack_piece(struct rep_unpack *un, struct span *out, size_t *left)
{
    size_t len = un->rest.len < *left ? un->rest.len : *left, took;
    bool last = un->in_over && len == un->rest.len;
    struct slice piece = slice_of(un->rest.ptr, len);
    int said;

    /* No byte came: that is an empty body, with and without a coding. */
    if (last && len == 0 && codec_in(un->codec) == 0)
        return CODEC_ENDED;
    said = codec_run(un->codec, &piece, out, last ? CODEC_ENDS : CODEC_GOES_ON);
    if (said < 0)
        return said;
    tassert(said == CODEC_WANTS_ROOM || piece.len == 0);
    tassert(said != CODEC_ENDED || last);
    took = len - piece.len;
    *left -= took;
    un->rest = slice_of(un->rest.ptr + took, un->rest.len - took);
    return said;
}

/* Fills a room, or a part of it.  Its bytes, 0 at the body's end, or TERR_*. */
static int
unpack_fill(struct rep_reader *rd, struct waiter *wait, char *room)
{
    struct rep_unpack *un = unpack_of(rd);
    struct span out = {room, UNPACK_ROOM};
    int said = CODEC_WANTS_INPUT;
    size_t left = UNPACK_PIECE;
    bool again = false;

    while (said == CODEC_WANTS_INPUT && (left > 0 || out.len == UNPACK_ROOM)) {
        int err = un->rest.len > 0 || un->due ? 0 : unpack_feed(rd, wait);

        if (err == TERR_AGAIN && out.len < UNPACK_ROOM)
            break;
        if (err != 0)
            return err;
        if (left == 0 && again)
            return TERR_FRAMING; /* nothing came of so much: only an attack on our time is like that */
        if (left == 0) {
            left = UNPACK_PIECE;
            again = true;
        }
        said = unpack_piece(un, &out, &left);
        if (said < 0)
            return said;
        un->due = said == CODEC_WANTS_ROOM;
        un->ended = said == CODEC_ENDED;
    }
    if (un->ended)
        codec_free(&un->codec); /* the client may take long to read what there is */
    return (int)(UNPACK_ROOM - out.len);
}

/* A room that is free; NULL: all are leased, the body is over, or no memory. */
static char *
unpack_room(struct rep_unpack *un, unsigned *which)
{
    for (*which = 0; *which < UNPACK_ROOMS && !un->ended && un->err == 0; ++*which) {
        if (un->lent[*which])
            continue;
        if (un->room[*which] == NULL)
            un->room[*which] = usage_alloc(un->usage, USAGE_REQUEST, UNPACK_ROOM);
        if (un->room[*which] != NULL)
            return un->room[*which];
    }
    return NULL;
}

/* No room and none that would come back. */
static bool
unpack_is_stuck(const struct rep_unpack *un)
{
    for (unsigned i = 0; i < UNPACK_ROOMS; i++)
        if (un->lent[i])
            return false;
    return !un->ended && un->err == 0;
}

/* `wait` is armed by the stored body's lease alone: where no room is free, leases are out. */
static int
unpack_take(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait)
{
    struct rep_unpack *un = unpack_of(rd);
    unsigned had = b->n, i;
    char *room = NULL;

    tassert(!rd->over);
    while (b->n < b->max && !waiter_pending(wait) && (room = unpack_room(un, &i)) != NULL) {
        int n = unpack_fill(rd, wait, room);

        if (n < 0 && n != TERR_AGAIN)
            un->err = n;
        if (n <= 0)
            break;
        un->lent[i] = true;
        b->extents[b->n++] = (struct lease_extent){
            room, (uint64_t)(i + 1) << 3, (uint32_t)n, un->ended ? LEASE_LAST : 0};
        if (n < UNPACK_ROOM) /* all there is, or all that is taken at a time */
            break;
    }
    rd->over = un->ended;
    if (b->n > had || un->ended)
        return (int)(b->n - had);
    if (room == NULL && !waiter_pending(wait) && unpack_is_stuck(un))
        un->err = TERR_NOMEM;
    tassert(un->err != 0 || waiter_pending(wait) || lent);
    return un->err == 0 ? TERR_AGAIN : TERR_CLOSED;
}

int
rep_unpack(struct rep_reader *rd, struct codec *codec, struct usage *u)
{
    struct rep_unpack *un = usage_calloc(u, USAGE_REQUEST, sizeof(*un));

    tassert(rd->filter == NULL && !rd->reading);
    if (un == NULL)
        return TERR_NOMEM;
    un->codec = codec;
    un->usage = u;
    un->filter = (struct rep_filter){unpack_take, unpack_return, unpack_end, false, NULL};
    rd->filter = &un->filter;
    return 0;
}

bool
rep_unpack_is_broken(const struct rep_reader *rd)
{
    const struct rep_unpack *un;

    if (rd->filter == NULL || rd->filter->take != unpack_take)
        return false;
    un = unpack_of(rd);
    return un->err == TERR_FRAMING || un->err == TERR_LIMIT;
}
