/* repack_gzip.c -- gzip (RFC 1952) by ISA-L, at the levels that are too slow for a loop. */
#include <isa-l/igzip_lib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/filter/repack_priv.h"

struct repack_gzip {
    struct isal_zstream z;
    _Alignas(16) uint8_t level[];
};

static uint32_t
repack_gzip_level_bytes(int level)
{
    static const uint32_t bytes[] = {
        0, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};

    return bytes[level];
}

static size_t
repack_gzip_memory(const struct repack *how, size_t len)
{
    (void)len;
    return sizeof(struct repack_gzip) + repack_gzip_level_bytes(how->level);
}

static int
repack_gzip_open(struct repack_run *r)
{
    int level = r->how->level;
    struct repack_gzip *g = repack_alloc(r, repack_gzip_memory(r->how, r->len));

    r->state = g;
    if (g == NULL)
        return TERR_NOMEM;
    isal_deflate_init(&g->z);
    g->z.level = (uint32_t)level;
    g->z.level_buf = g->level;
    g->z.level_buf_size = repack_gzip_level_bytes(level);
    g->z.gzip_flag = IGZIP_GZIP; /* a header without name and time */
    return 0;
}

static int
repack_gzip_feed(struct repack_run *r, struct slice piece, struct span *out, bool is_last)
{
    struct repack_gzip *g = r->state;
    uint32_t room = out->len < UINT32_MAX ? (uint32_t)out->len : UINT32_MAX;
    int err;

    if (room == 0)
        return REPACK_FULL;
    g->z.next_in = (uint8_t *)(uintptr_t)piece.ptr; /* which it only reads */
    g->z.avail_in = (uint32_t)piece.len;
    g->z.next_out = (uint8_t *)out->ptr;
    g->z.avail_out = room;
    g->z.end_of_stream = is_last;
    err = isal_deflate(&g->z);
    tassert(err == COMP_OK); /* the others speak of parameters */
    out->ptr += room - g->z.avail_out;
    out->len -= room - g->z.avail_out;
    if (is_last)
        return g->z.internal_state.state == ZSTATE_END ? REPACK_FED : REPACK_FULL;
    return g->z.avail_in == 0 ? REPACK_FED : REPACK_FULL;
}

const struct repack_ops repack_gzip_ops = {.level_min = 1,
    .level_max = 3,
    .memory = repack_gzip_memory,
    .open = repack_gzip_open,
    .feed = repack_gzip_feed};
