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
    struct shm_map map;
};

/* Takes the map, whatever comes of it.
 * The file may belong to a tarnd that has ended: a mapping keeps its last state readable. */
static int
backend_names_view_new(struct backend_names_view **out, struct shm_map map)
{
    struct backend_names_view *v = NULL;
    struct backend_names_file f;
    int err = shm_map_header(
        &map, &f, sizeof(f), BACKEND_NAMES_FILE_MAGIC, BACKEND_NAMES_VERSION, sizeof(*v->slots));

    /* The number of slots is the file's word: it must lie within what is mapped. */
    if (err == 0 && !shm_map_fits(&map, sizeof(f), f.nslots, f.slot_bytes))
        err = TERR_CORRUPT;
    if (err == 0) {
        v = calloc(1, sizeof(*v));
        err = v == NULL ? TERR_NOMEM : 0;
    }
    if (err < 0) {
        shm_map_close(&map);
        return err;
    }
    v->magic = BACKEND_NAMES_VIEW_MAGIC;
    v->nslots = f.nslots;
    v->slots = (const void *)((const char *)map.base + sizeof(f));
    v->map = map;
    *out = v;
    return 0;
}

int
backend_names_view_mem(struct backend_names_view **out, const void *base, size_t bytes)
{
    return backend_names_view_new(out, shm_map_of(base, bytes, false));
}

int
backend_names_view_open(struct backend_names_view **out, const char *path)
{
    struct shm_map map;
    int err = shm_map_open(&map, path, false);

    return err < 0 ? err : backend_names_view_new(out, map);
}

void
backend_names_view_close(struct backend_names_view **vp)
{
    struct backend_names_view *v;

    OBJ_TAKE(v, vp, BACKEND_NAMES_VIEW_MAGIC);
    shm_map_close(&v->map);
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
        /* Acquire: the second look at `turn` must not be made before. */
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
    /* Bounded: a writer that died in the middle leaves the turn odd for ever. */
    for (unsigned i = 0; i < BACKEND_NAMES_TRIES && number < v->nslots && !whole; i++)
        whole = backend_names_copy(&v->slots[number], text, &since_ms);
    /* A request that began before the number was this backend's belongs to the one before. */
    if (!whole || (since_ms != 0 && (start_ms < 0 || (uint64_t)start_ms <= since_ms)))
        return 0;
    memcpy(to, text, BACKEND_NAME_MAX);
    to[BACKEND_NAME_MAX - 1] = '\0'; /* whatever the file says */
    return strlen(to);
}
