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
    struct shm_map map;
};

/* Sets may be larger than our own rows: another version has more counters, and they are read by
 * their names. */
static int
counters_view_check(struct counters_view *v)
{
    struct counters_file f;
    int err = shm_map_header(&v->map, &f, sizeof(f), COUNTERS_FILE_MAGIC, COUNTERS_VERSION,
        sizeof(struct counters_file_row));

    if (err != 0)
        return err;
    /* Bounds on what a reader allocates and walks, whatever the file says. */
    if (f.nrows == 0 || f.nrows > COUNTERS_ROWS_MAX || f.nsets == 0 ||
        f.nsets > LIMIT_WORKERS + 1 || f.set_bytes < f.nrows * sizeof(uint64_t))
        return TERR_CORRUPT;
    if (!shm_map_fits(&v->map, f.rows_off, f.nrows, f.row_bytes) ||
        !shm_map_fits(&v->map, f.sets_off, f.nsets, f.set_bytes))
        return TERR_CORRUPT;
    v->nrows = f.nrows;
    v->nsets = f.nsets;
    v->pid = f.pid;
    v->set_bytes = f.set_bytes;
    v->rows = (const void *)((const char *)v->map.base + f.rows_off);
    v->sets = (const char *)v->map.base + f.sets_off;
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

/* Takes the map, whatever comes of it. */
static int
counters_view_new(struct counters_view **out, struct shm_map map)
{
    struct counters_view *v = calloc(1, sizeof(*v));
    int err = TERR_NOMEM;

    if (v != NULL) {
        v->magic = COUNTERS_VIEW_MAGIC;
        v->map = map;
        /* Only numbers that it has checked are kept; the file is not asked for them again. */
        err = counters_view_check(v);
    }
    if (err == 0)
        err = counters_view_copy_rows(v);
    if (err < 0) {
        shm_map_close(&map);
        free(v);
        return err;
    }
    *out = v;
    return 0;
}

int
counters_view_mem(struct counters_view **out, const void *base, size_t bytes)
{
    return counters_view_new(out, shm_map_of(base, bytes, false));
}

int
counters_view_open(struct counters_view **out, const char *path)
{
    struct shm_map map;
    int err = shm_map_open(&map, path, false);

    return err < 0 ? err : counters_view_new(out, map);
}

void
counters_view_close(struct counters_view **vp)
{
    struct counters_view *v;

    OBJ_TAKE(v, vp, COUNTERS_VIEW_MAGIC);
    shm_map_close(&v->map);
    /* Names that were given out go with it. */
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
    /* Without the shared set. */
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

        /* Relaxed: each value is whole, and that is all that is promised. */
        sum += atomic_load_explicit(&value[row], memory_order_relaxed);
    }
    return sum;
}

/* Names in *out are the view's, until counters_view_close().  A row that is a sum adds the rows
 * that it names, as counters_sum() does in tarnd. */
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
    /* Of a later version it may be another one. */
    out->kind = row->kind == COUNTER_KIND_GAUGE ? COUNTER_KIND_GAUGE : COUNTER_KIND_COUNTER;
    out->value = counters_view_sum(v, i);
    /* Bounded by the rows that were checked. */
    for (unsigned k = 0; k < row->sum_count && row->sum_first + k < v->nrows; k++)
        out->value += counters_view_sum(v, row->sum_first + k);
    return 0;
}
