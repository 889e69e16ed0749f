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
    UNPACK_PIECE = 16384, /* of the stored body at a time */
    UNPACK_IDLE =
        65536, /* bytes of it that unpack to nothing: only an attack on our time is like that */
};

struct rep_unpack {
    struct codec *codec;
    struct usage *usage;
    struct lease_extent in; /* of the stored body, leased; len 0: none */
    struct slice rest;      /* of it, not unpacked yet */
    unsigned idle;          /* bytes that went in since something came out */
    bool in_over;           /* all of the stored body was leased */
    bool due;               /* the codec has more to write */
    bool ended;
    int err; /* what ended it instead, TERR_* */
    bool lent[UNPACK_ROOMS];
    char room[UNPACK_ROOMS][UNPACK_ROOM];
};

int
rep_unpack(struct rep_reader *rd, struct codec *codec, struct usage *u)
{
    struct rep_unpack *un = usage_alloc(u, USAGE_REQUEST, sizeof(*un));

    tassert(rd->unpack == NULL && !rd->reading);
    if (un == NULL)
        return TERR_NOMEM;
    memset(un, 0, offsetof(struct rep_unpack, room));
    un->codec = codec;
    un->usage = u;
    rd->unpack = un;
    return 0;
}

/* The extent that was unpacked goes back. */
static void
unpack_give(struct rep_reader *rd)
{
    struct rep_unpack *un = rd->unpack;
    const struct lease_returns back = {.ids = &un->in.id, .n = 1};

    tassert(un->in.len == 0 || rd->reading);
    if (un->in.len > 0)
        rep_return_stored(rd, &back);
    un->in.len = 0;
}

void
rep_unpack_end(struct rep_reader *rd)
{
    struct rep_unpack *un = rd->unpack;

    if (un == NULL)
        return;
    unpack_give(rd);
    codec_free(&un->codec);
    rd->unpack = NULL;
    usage_free(un->usage, USAGE_REQUEST, un);
}

void
rep_unpack_return(struct rep_reader *rd, const struct lease_returns *back)
{
    struct rep_unpack *un = rd->unpack;

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
    struct rep_unpack *un = rd->unpack;
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

/* One piece through the codec.  As codec_run(). */
static int
unpack_piece(struct rep_unpack *un, struct span *out)
{
    size_t len = un->rest.len < UNPACK_PIECE ? un->rest.len : UNPACK_PIECE, had = out->len;
    bool last = un->in_over && len == un->rest.len;
    struct slice piece = slice_of(un->rest.ptr, len);
    int said = codec_run(un->codec, &piece, out, last ? CODEC_ENDS : CODEC_GOES_ON);

    if (said < 0)
        return said;
    tassert(said == CODEC_WANTS_ROOM || piece.len == 0);
    tassert(said != CODEC_ENDED || last);
    un->idle = out->len < had ? 0 : un->idle + (unsigned)(len - piece.len);
    if (un->idle > UNPACK_IDLE)
        return TERR_FRAMING;
    un->rest = slice_of(un->rest.ptr + (len - piece.len), un->rest.len - (len - piece.len));
    un->due = said == CODEC_WANTS_ROOM;
    un->ended = said == CODEC_ENDED;
    return said;
}

/* Fills a room.  Its bytes, 0 at the body's end, or TERR_*. */
static int
unpack_fill(struct rep_reader *rd, struct waiter *wait, char *room)
{
    struct rep_unpack *un = rd->unpack;
    struct span out = {room, UNPACK_ROOM};
    int said = CODEC_WANTS_INPUT;

    while (said == CODEC_WANTS_INPUT) {
        int err = un->rest.len > 0 || un->due ? 0 : unpack_feed(rd, wait);

        if (err == TERR_AGAIN && out.len < UNPACK_ROOM)
            break;
        if (err != 0)
            return err;
        said = unpack_piece(un, &out);
        if (said < 0)
            return said;
    }
    return (int)(UNPACK_ROOM - out.len);
}

/* A room that is free; NULL: all are leased, or the body is over. */
static char *
unpack_room(struct rep_unpack *un, unsigned *which)
{
    for (*which = 0; *which < UNPACK_ROOMS && !un->ended && un->err == 0; ++*which)
        if (!un->lent[*which])
            return un->room[*which];
    return NULL;
}

/* `wait` is armed by the stored body's lease alone: where no room is free, leases are out. */
int
rep_unpack_take(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait)
{
    struct rep_unpack *un = rd->unpack;
    unsigned had = b->n, i;
    char *room;

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
    }
    rd->over = un->ended;
    if (b->n > had || un->ended)
        return (int)(b->n - had);
    tassert(un->err != 0 || waiter_pending(wait) || lent);
    return un->err == 0 ? TERR_AGAIN : TERR_CLOSED;
}

bool
rep_unpack_is_broken(const struct rep_reader *rd)
{
    return rd->unpack != NULL && (rd->unpack->err == TERR_FRAMING || rd->unpack->err == TERR_LIMIT);
}
