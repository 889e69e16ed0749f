/* backend_names_view.c -- reading backends' names, of this process or of another. */
#include "daemon/shm/backend_names_view.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/backend_names_priv.h"
#include "daemon/shm/shm_map.h"

#define BACKEND_NAMES_VIEW_MAGIC OBJ_TAG('b', 'n', 'm', 'v')

enum {
    BACKEND_NAMES_TRIES = 4 /* a writer is done in nanoseconds, or stopped in the middle */
};

struct backend_names_view {
    uint32_t magic;
    unsigned nslots; /* taken from the file once, and checked */
    const struct backend_names_slot *slots;
    const void *map; /* to be unmapped; NULL: borrowed */
    size_t map_bytes;
};

int
backend_names_view_mem(struct backend_names_view **out, const void *base, size_t bytes)
{
    struct backend_names_view *v;
    struct backend_names_file f;

    tassert((uintptr_t)base % 64 == 0);
    if (bytes < sizeof(f))
        return TERR_CORRUPT;
    memcpy(&f, base, sizeof(f));
    if (f.magic != BACKEND_NAMES_FILE_MAGIC || f.version != BACKEND_NAMES_VERSION ||
        f.slot_bytes != sizeof(*v->slots) || f.nslots > (bytes - sizeof(f)) / sizeof(*v->slots))
        return TERR_CORRUPT;
    v = calloc(1, sizeof(*v));
    if (v == NULL)
        return TERR_NOMEM;
    v->magic = BACKEND_NAMES_VIEW_MAGIC;
    v->nslots = f.nslots;
    v->slots = (const void *)((const char *)base + sizeof(f));
    *out = v;
    return 0;
}

int
backend_names_view_open(struct backend_names_view **out, const char *path)
{
    const void *map;
    size_t bytes;
    int writable = 0, err;

    err = shm_file_map(&map, &bytes, path, &writable);
    if (err < 0)
        return err;
    err = backend_names_view_mem(out, map, bytes);
    if (err < 0) {
        shm_file_unmap(map, bytes);
        return err;
    }
    (*out)->map = map;
    (*out)->map_bytes = bytes;
    return 0;
}

void
backend_names_view_close(struct backend_names_view **vp)
{
    struct backend_names_view *v;

    OBJ_TAKE(v, vp, BACKEND_NAMES_VIEW_MAGIC);
    if (v->map != NULL)
        shm_file_unmap(v->map, v->map_bytes);
    OBJ_FREE(v);
}

/* Copies a slot; false: it changed meanwhile. */
static bool
backend_names_copy(
    const struct backend_names_slot *s, uint64_t text[BACKEND_NAME_WORDS], uint64_t *since_ms)
{
    uint64_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);

    *since_ms = atomic_load_explicit(&s->since_ms, memory_order_acquire);
    for (unsigned i = 0; i < BACKEND_NAME_WORDS; i++)
        text[i] = atomic_load_explicit(&s->text[i], memory_order_acquire);
    return turn % 2 == 0 && atomic_load_explicit(&s->turn, memory_order_relaxed) == turn;
}

size_t
backend_names_view_get(const struct backend_names_view *v, unsigned number, int64_t start_ms,
    char to[BACKEND_NAME_MAX])
{
    uint64_t text[BACKEND_NAME_WORDS], since_ms = 0;
    bool whole = false;

    OBJ_CHECK(v, BACKEND_NAMES_VIEW_MAGIC);
    to[0] = '\0';
    for (unsigned i = 0; i < BACKEND_NAMES_TRIES && number < v->nslots && !whole; i++)
        whole = backend_names_copy(&v->slots[number], text, &since_ms);
    if (!whole || (since_ms != 0 && (start_ms < 0 || (uint64_t)start_ms <= since_ms)))
        return 0;
    memcpy(to, text, BACKEND_NAME_MAX);
    to[BACKEND_NAME_MAX - 1] = '\0'; /* whatever the file says */
    return strlen(to);
}
