/* repack.c -- a whole body by pieces through the form that is wanted. */
#include "daemon/filter/repack.h"

#include <malloc.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/base/usage.h"
#include "daemon/filter/repack_priv.h"

static const struct repack_ops *const repack_forms[REPACK_FORMS] = {
    [REPACK_GZIP] = &repack_gzip_ops,
    [REPACK_BROTLI] = &repack_brotli_ops,
    [REPACK_ZSTD] = &repack_zstd_ops,
    [REPACK_DCZ] = &repack_dcz_ops,
};

/* In front of each piece of memory. */
struct repack_block {
    struct repack_block *prev, *next;
};
_Static_assert(
    sizeof(struct repack_block) % _Alignof(max_align_t) == 0, "what is behind it is aligned");

void *
repack_alloc(void *run, size_t size)
{
    struct repack_run *r = run;
    struct repack_block *b;
    size_t bytes;

    if (size > r->memory_left)
        return NULL;
    b = usage_alloc(r->how->usage, USAGE_REQUEST, sizeof(*b) + size);
    if (b == NULL)
        return NULL;
    bytes = malloc_usable_size(b); /* a quarter more at most, which repack_memory() has in it */
    r->memory_left -= bytes < r->memory_left ? bytes : r->memory_left;
    *b = (struct repack_block){.next = r->blocks};
    if (b->next != NULL)
        b->next->prev = b;
    r->blocks = b;
    return b + 1;
}

void
repack_release(void *run, void *p)
{
    struct repack_run *r = run;
    struct repack_block *b;

    if (p == NULL)
        return;
    b = (struct repack_block *)p - 1;
    *(b->prev != NULL ? &b->prev->next : &r->blocks) = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    r->memory_left += malloc_usable_size(b);
    usage_free(r->how->usage, USAGE_REQUEST, b);
}

static const struct repack_ops *
repack_ops_of(const struct repack *how)
{
    const struct repack_ops *ops;

    tassert(how->form < REPACK_FORMS);
    ops = repack_forms[how->form];
    tassert(how->level >= ops->level_min && how->level <= ops->level_max);
    tassert((how->form == REPACK_DCZ) == (how->hash != NULL));
    tassert(how->form == REPACK_DCZ || how->dictionary.len == 0);
    return ops;
}

size_t
repack_memory(const struct repack *how, size_t len)
{
    size_t bytes = repack_ops_of(how)->memory(how, len);

    return bytes + bytes / 4; /* as jemalloc rounds them up */
}

/* enum repack_said, or TERR_NOMEM. */
static int
repack_pieces(struct repack_run *r, struct slice in, struct span *out)
{
    const struct repack *how = r->how;
    bool is_last = false;

    while (!is_last) {
        struct slice piece = {in.ptr, in.len < REPACK_PIECE ? in.len : REPACK_PIECE};
        int fed;

        if (how->stop != NULL && how->stop(how->ctx))
            return REPACK_STOPPED;
        in.ptr += piece.len;
        in.len -= piece.len;
        is_last = in.len == 0;
        fed = repack_forms[how->form]->feed(r, piece, out, is_last);
        if (fed < 0)
            return fed;
        if (fed == REPACK_FULL)
            return REPACK_TOO_LARGE;
    }
    return REPACK_DONE;
}

int
repack(const struct repack *how, struct slice in, struct span *out)
{
    const struct repack_ops *ops = repack_ops_of(how);
    struct repack_run r = {.how = how, .len = in.len, .memory_left = repack_memory(how, in.len)};
    struct span room = *out;
    int said;

    said = ops->open(&r);
    if (said == 0)
        said = repack_pieces(&r, in, &room);
    while (r.blocks != NULL)
        repack_release(&r, r.blocks + 1);
    tassert(room.ptr + room.len == out->ptr + out->len);
    if (said == REPACK_DONE)
        *out = room;
    return said;
}
