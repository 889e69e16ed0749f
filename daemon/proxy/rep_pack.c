/* rep_pack.c -- what another source makes for one client, packed on its way to it.
 *
 * A page that is put together (rep_esi.c) has no stored form: its parts come at their own times, and each client may
 * have others.  So they go through a codec into rooms of our own, which are leased in their place, as in rep_unpack.c.
 * Where the source has nothing for now, what came so far is flushed: a client waits for no part that it could have. */
#include "daemon/base/terr.h"
#include "daemon/base/usage.h"
#include "daemon/filter/codec.h"
#include "daemon/proxy/rep_priv.h"

enum {
    REP_PACK_ROOMS = 4,
    REP_PACK_ROOM = 16384,
};

struct rep_pack {
    struct rep_filter filter; /* .below: the source */
    struct codec *codec;      /* NULL: everything was packed */
    struct usage *usage;
    struct lease_extent in; /* of the source, leased; len 0: none */
    struct slice rest;      /* of it, not packed yet */
    bool in_over;           /* all of the source was leased */
    bool due;               /* the codec has more to write */
    bool held;              /* it may have something that no flush brought out */
    bool ended;
    int err; /* what ended it instead, TERR_* */
    bool lent[REP_PACK_ROOMS];
    char *room[REP_PACK_ROOMS]; /* from the first use on */
};

static inline struct rep_pack *
pack_of(const struct rep_reader *rd)
{
    return container_of(rd->filter, struct rep_pack, filter);
}

/* The extent that was packed goes back to the source, which is the reader's filter meanwhile. */
static void
pack_give(struct rep_reader *rd)
{
    struct rep_pack *pk = pack_of(rd);
    const struct lease_returns back = {.ids = &pk->in.id, .n = 1};

    if (pk->in.len == 0)
        return;
    rd->filter = pk->filter.below;
    rd->filter->give_back(rd, &back);
    rd->filter = &pk->filter;
    pk->in.len = 0;
}

/* The source's next extent: 0, TERR_AGAIN or TERR_CLOSED; in_over: there is none. */
static int
pack_feed(struct rep_reader *rd, struct waiter *wait)
{
    struct rep_pack *pk = pack_of(rd);
    struct lease_batch b = {.extents = &pk->in, .n = 0, .max = 1};
    int n;

    tassert(pk->rest.len == 0 && !pk->in_over && !pk->ended);
    pack_give(rd);
    rd->filter = pk->filter.below;
    n = rd->filter->take(rd, &b, false, wait);
    rd->filter = &pk->filter;
    if (n <= 0)
        pk->in.len = 0;
    if (n < 0)
        return n;
    pk->in_over = rd->over;
    rd->over = false; /* our reader is not while the codec has something */
    pk->rest = slice_of(pk->in.ptr, pk->in.len);
    return 0;
}

/* Fills a room, or a part of it.  Its bytes; TERR_AGAIN: none for now; TERR_*. */
static int
pack_fill(struct rep_reader *rd, struct waiter *wait, char *room)
{
    struct rep_pack *pk = pack_of(rd);
    struct span out = {room, REP_PACK_ROOM};
    int said = CODEC_WANTS_INPUT, err = 0;

    while (said == CODEC_WANTS_INPUT && err == 0) {
        if (pk->rest.len == 0 && !pk->due && !pk->in_over)
            err = pack_feed(rd, wait);
        if (err != 0 && (err != TERR_AGAIN || !pk->held))
            break;
        said = codec_run(pk->codec, &pk->rest, &out,
            pk->in_over ? CODEC_ENDS
            : err != 0  ? CODEC_FLUSH
                        : CODEC_GOES_ON);
        if (said < 0)
            return said;
        pk->held = err == 0 || said == CODEC_WANTS_ROOM;
        pk->due = said == CODEC_WANTS_ROOM;
        pk->ended = said == CODEC_ENDED;
    }
    if (pk->ended) { /* the client may take long to read what there is */
        pack_give(rd);
        codec_free(&pk->codec);
    }
    return out.len < REP_PACK_ROOM ? (int)(REP_PACK_ROOM - out.len) : err;
}

/* A room that is free; NULL: all are leased, or no memory. */
static char *
pack_free_room(struct rep_pack *pk, unsigned *which)
{
    for (*which = 0; *which < REP_PACK_ROOMS; ++*which) {
        if (pk->lent[*which])
            continue;
        if (pk->room[*which] == NULL)
            pk->room[*which] = usage_alloc(pk->usage, USAGE_REQUEST, REP_PACK_ROOM);
        return pk->room[*which];
    }
    return NULL;
}

static int
pack_take(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait)
{
    struct rep_pack *pk = pack_of(rd);
    unsigned had = b->n, i;

    tassert(!rd->over && b->n < b->max);
    while (b->n < b->max && !pk->ended && pk->err == 0) {
        char *room = pack_free_room(pk, &i);
        int n = room != NULL ? pack_fill(rd, wait, room) : TERR_AGAIN;

        if (room == NULL && b->n == 0 && !lent) /* none would come back */
            n = TERR_NOMEM;
        if (n < 0 && n != TERR_AGAIN)
            pk->err = n;
        if (n <= 0)
            break;
        pk->lent[i] = true;
        b->extents[b->n++] = (struct lease_extent){
            room, (uint64_t)(i + 1) << 3, (uint32_t)n, pk->ended ? LEASE_LAST : 0};
        if (n < REP_PACK_ROOM) /* all there is for now */
            break;
    }
    rd->over = pk->ended;
    if (b->n > had || pk->ended)
        return (int)(b->n - had);
    return pk->err == 0 ? TERR_AGAIN : TERR_CLOSED;
}

static void
pack_return(struct rep_reader *rd, const struct lease_returns *back)
{
    struct rep_pack *pk = pack_of(rd);

    for (unsigned i = 0; i < back->n; i++) {
        uint64_t n = back->ids[i] >> 3;

        if (n == 0)
            continue; /* LEASE_NO_RETURN */
        tassert(n <= REP_PACK_ROOMS && pk->lent[n - 1]);
        pk->lent[n - 1] = false;
    }
}

/* The source may need longer: it is the reader's filter from now on. */
static bool
pack_end(struct rep_reader *rd)
{
    struct rep_pack *pk = pack_of(rd);

    pack_give(rd);
    codec_free(&pk->codec);
    for (unsigned i = 0; i < REP_PACK_ROOMS; i++)
        usage_free(pk->usage, USAGE_REQUEST, pk->room[i]);
    rd->filter = pk->filter.below;
    usage_free(pk->usage, USAGE_REQUEST, pk);
    return rd->filter->end(rd);
}

int
rep_pack(struct rep_reader *rd, struct codec *codec, struct usage *u)
{
    struct rep_pack *pk = usage_calloc(u, USAGE_REQUEST, sizeof(*pk));

    tassert(rd->filter != NULL && rd->filter->below == NULL && !rd->reading);
    if (pk == NULL)
        return TERR_NOMEM;
    pk->codec = codec;
    pk->usage = u;
    pk->filter = (struct rep_filter){pack_take, pack_return, pack_end, false, rd->filter};
    rd->filter = &pk->filter;
    return 0;
}
