/* counters_view.c -- reading the counters of another process. */
#include "daemon/shm/counters_view.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/counters_priv.h"
#include "daemon/shm/shm_map.h"

#define COUNTERS_VIEW_MAGIC OBJ_TAG('c', 'n', 't', 'v')

struct counters_view {
    uint32_t magic;
    /* taken from the file once, and checked */
    unsigned nrows, nsets;
    uint32_t pid;
    size_t set_bytes;
    const struct counters_file_row *rows;
    const char *sets;
    struct counters_file_row *row_copies; /* terminated by us */
    const void *map;                      /* to be unmapped; NULL: borrowed */
    size_t map_bytes;
};

/* Whether `n` things of `each` bytes from `off` on lie within the file, words aligned. */
static bool
counters_fits(uint64_t off, uint64_t n, uint64_t each, size_t bytes)
{
    return off % 8 == 0 && each % 8 == 0 && off <= bytes && each <= bytes &&
           (each == 0 || n <= (bytes - off) / each);
}

static int
counters_view_check(struct counters_view *v, const void *base, size_t bytes)
{
    struct counters_file f;

    if (bytes < sizeof(f))
        return TERR_CORRUPT;
    memcpy(&f, base, sizeof(f));
    if (f.magic != COUNTERS_FILE_MAGIC || f.version != COUNTERS_VERSION ||
        f.row_bytes != sizeof(struct counters_file_row))
        return TERR_CORRUPT;
    if (f.nrows == 0 || f.nrows > COUNTERS_ROWS_MAX || f.nsets == 0 ||
        f.nsets > LIMIT_WORKERS + 1 || f.set_bytes < f.nrows * sizeof(uint64_t))
        return TERR_CORRUPT;
    if (!counters_fits(f.rows_off, f.nrows, f.row_bytes, bytes) ||
        !counters_fits(f.sets_off, f.nsets, f.set_bytes, bytes))
        return TERR_CORRUPT;
    v->nrows = f.nrows;
    v->nsets = f.nsets;
    v->pid = f.pid;
    v->set_bytes = f.set_bytes;
    v->rows = (const void *)((const char *)base + f.rows_off);
    v->sets = (const char *)base + f.sets_off;
    return 0;
}

/* Names do not change, but a hostile file may: they are copied once and given an end. */
static int
counters_view_copy_rows(struct counters_view *v)
{
    v->row_copies = calloc(v->nrows, sizeof(*v->row_copies));
    if (v->row_copies == NULL)
        return TERR_NOMEM;
    for (unsigned i = 0; i < v->nrows; i++) {
        v->row_copies[i] = v->rows[i];
        v->row_copies[i].name[COUNTERS_NAME_MAX - 1] = '\0';
        v->row_copies[i].doc[COUNTERS_DOC_MAX - 1] = '\0';
    }
    return 0;
}

int
counters_view_mem(struct counters_view **out, const void *base, size_t bytes)
{
    struct counters_view *v;
    int err;

    tassert((uintptr_t)base % 64 == 0);
    v = calloc(1, sizeof(*v));
    if (v == NULL)
        return TERR_NOMEM;
    v->magic = COUNTERS_VIEW_MAGIC;
    err = counters_view_check(v, base, bytes);
    if (err == 0)
        err = counters_view_copy_rows(v);
    if (err < 0) {
        OBJ_FREE(v);
        return err;
    }
    *out = v;
    return 0;
}

int
counters_view_open(struct counters_view **out, const char *path)
{
    const void *map;
    size_t bytes;
    int writable = 0, err;

    err = shm_file_map(&map, &bytes, path, &writable);
    if (err < 0)
        return err;
    err = counters_view_mem(out, map, bytes);
    if (err < 0) {
        shm_file_unmap(map, bytes);
        return err;
    }
    (*out)->map = map;
    (*out)->map_bytes = bytes;
    return 0;
}

void
counters_view_close(struct counters_view **vp)
{
    struct counters_view *v;

    OBJ_TAKE(v, vp, COUNTERS_VIEW_MAGIC);
    if (v->map != NULL)
        shm_file_unmap(v->map, v->map_bytes);
    free(v->row_copies);
    OBJ_FREE(v);
}

unsigned
counters_view_rows(const struct counters_view *v)
{
    OBJ_CHECK(v, COUNTERS_VIEW_MAGIC);
    return v->nrows;
}

unsigned
counters_view_workers(const struct counters_view *v)
{
    OBJ_CHECK(v, COUNTERS_VIEW_MAGIC);
    return v->nsets - 1;
}

uint32_t
counters_view_pid(const struct counters_view *v)
{
    OBJ_CHECK(v, COUNTERS_VIEW_MAGIC);
    return v->pid;
}

static uint64_t
counters_view_sum(const struct counters_view *v, unsigned row)
{
    uint64_t sum = 0;

    for (unsigned s = 0; s < v->nsets; s++) {
        const _Atomic uint64_t *value = (const void *)(v->sets + s * v->set_bytes);

        sum += atomic_load_explicit(&value[row], memory_order_relaxed);
    }
    return sum;
}

int
counters_view_row(const struct counters_view *v, unsigned i, struct counters_row *out)
{
    const struct counters_file_row *row;

    OBJ_CHECK(v, COUNTERS_VIEW_MAGIC);
    if (i >= v->nrows)
        return TERR_NOTFOUND;
    row = &v->row_copies[i];
    out->name = row->name;
    out->doc = row->doc;
    out->kind = row->kind == COUNTER_KIND_GAUGE ? COUNTER_KIND_GAUGE : COUNTER_KIND_COUNTER;
    out->value = counters_view_sum(v, i);
    for (unsigned k = 0; k < row->sum_count && row->sum_first + k < v->nrows; k++)
        out->value += counters_view_sum(v, row->sum_first + k);
    return 0;
}
