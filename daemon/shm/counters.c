/* counters.c -- counters in shared memory, and reading those of another process.
 *
 * The file: a header page's worth of facts, a table of rows with names and documentation,
 * then one set of values for each worker and a last one shared.  Sets lie `set_bytes` apart.
 */
#include "daemon/shm/counters.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/dir.h"

#define COUNTERS_MAGIC      OBJ_TAG('c', 'n', 't', 'r')
#define COUNTERS_VIEW_MAGIC OBJ_TAG('c', 'n', 't', 'v')
#define COUNTERS_FILE_MAGIC UINT64_C(0x31544e434e524154) /* "TARNCNT1" */

enum {
    COUNTERS_VERSION = 1,
    COUNTERS_NAME_MAX = 48,
    COUNTERS_DOC_MAX = 136,
    COUNTERS_ROWS_MAX = 4096, /* in a file of somebody else's */
    COUNTERS_LINE = 128,      /* the prefetcher fetches cache lines in pairs */
};

struct counters_file_row {
    char name[COUNTERS_NAME_MAX]; /* NUL-terminated, as is doc */
    char doc[COUNTERS_DOC_MAX];
    uint32_t kind; /* enum counter_kind */
    uint32_t unused;
};
_Static_assert(sizeof(struct counters_file_row) == 192, "as README.md says");

struct counters_file {
    uint64_t magic;
    uint32_t version;
    uint32_t row_bytes;
    uint32_t nrows;
    uint32_t nsets; /* workers and one */
    uint64_t rows_off, sets_off, set_bytes;
    uint32_t pid, unused[3];
};
_Static_assert(sizeof(struct counters_file) == 64, "as README.md says");

struct counters {
    uint32_t magic;
    unsigned nworkers;
    struct counters_file *file;
    char *sets;
    size_t set_bytes, map_bytes;
};

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

static const struct counters_desc {
    const char *name, *doc;
    enum counter_kind kind;
} counters_table[COUNTER_COUNT] = {
#define X(group, name, kind, doc) {#group "." #name, doc, COUNTER_KIND_##kind},
    COUNTER_TABLE(X)
#undef X
};

#define X(group, name, kind, doc)                                                           \
    _Static_assert(sizeof(#group "." #name) <= COUNTERS_NAME_MAX, "the name fits its row"); \
    _Static_assert(sizeof(doc) <= COUNTERS_DOC_MAX, "the documentation fits its row");
COUNTER_TABLE(X)
#undef X

static size_t
counters_round(size_t n)
{
    return (n + COUNTERS_LINE - 1) / COUNTERS_LINE * COUNTERS_LINE;
}

static void
counters_fill(struct counters *c, size_t sets_off)
{
    struct counters_file *f = c->file;
    struct counters_file_row *row = (struct counters_file_row *)(f + 1);

    f->version = COUNTERS_VERSION;
    f->row_bytes = sizeof(*row);
    f->nrows = COUNTER_COUNT;
    f->nsets = c->nworkers + 1;
    f->rows_off = sizeof(*f);
    f->sets_off = sets_off;
    f->set_bytes = c->set_bytes;
    f->pid = (uint32_t)getpid();
    for (unsigned i = 0; i < COUNTER_COUNT; i++, row++) {
        snprintf(row->name, sizeof(row->name), "%s", counters_table[i].name);
        snprintf(row->doc, sizeof(row->doc), "%s", counters_table[i].doc);
        row->kind = counters_table[i].kind;
    }
    f->magic = COUNTERS_FILE_MAGIC;
}

int
counters_open(struct counters **out, struct shm_dir *dir, unsigned nworkers)
{
    size_t sets_off = counters_round(
        sizeof(struct counters_file) + COUNTER_COUNT * sizeof(struct counters_file_row));
    struct counters *c = calloc(1, sizeof(*c));
    void *base = MAP_FAILED;
    int err = 0;

    tassert(nworkers <= LIMIT_WORKERS);
    if (c == NULL)
        return TERR_NOMEM;
    c->magic = COUNTERS_MAGIC;
    c->nworkers = nworkers;
    c->set_bytes = counters_round(sizeof(struct counter_set));
    c->map_bytes = sets_off + (nworkers + 1) * c->set_bytes;
    if (dir != NULL)
        err = shm_file_create(&base, dir, "counters", c->map_bytes);
    else {
        base = mmap(NULL, c->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        err = base == MAP_FAILED ? TERR_NOMEM : 0;
    }
    if (err < 0)
        goto fail;
    c->file = base;
    c->sets = (char *)base + sets_off;
    counters_fill(c, sets_off);
    if (dir != NULL)
        err = shm_file_publish(dir, "counters");
    if (err < 0)
        goto fail;
    *out = c;
    return 0;

fail:
    counters_close(&c);
    return err;
}

void
counters_close(struct counters **cp)
{
    struct counters *c;

    OBJ_TAKE(c, cp, COUNTERS_MAGIC);
    if (c->file != NULL)
        munmap(c->file, c->map_bytes);
    OBJ_FREE(c);
}

static struct counter_set *
counters_set(const struct counters *c, unsigned i)
{
    OBJ_CHECK(c, COUNTERS_MAGIC);
    return (struct counter_set *)(void *)(c->sets + i * c->set_bytes);
}

struct counter_set *
counters_worker(struct counters *c, unsigned worker)
{
    tassert(worker < c->nworkers);
    return counters_set(c, worker);
}

void
counter_add_shared(struct counters *c, enum counter id, uint64_t n)
{
    struct counter_set *s = counters_set(c, c->nworkers);

    atomic_fetch_add_explicit(&s->value[id], n, memory_order_relaxed);
}

void
counter_sub_shared(struct counters *c, enum counter id, uint64_t n)
{
    counter_add_shared(c, id, (uint64_t)0 - n);
}

uint64_t
counters_sum(const struct counters *c, enum counter id)
{
    uint64_t sum = 0;

    tassert(id < COUNTER_COUNT);
    for (unsigned i = 0; i <= c->nworkers; i++)
        sum += atomic_load_explicit(&counters_set(c, i)->value[id], memory_order_relaxed);
    return sum;
}

const char *
counter_name(enum counter id)
{
    tassert(id < COUNTER_COUNT);
    return counters_table[id].name;
}

const char *
counter_doc(enum counter id)
{
    tassert(id < COUNTER_COUNT);
    return counters_table[id].doc;
}

enum counter_kind
counter_kind(enum counter id)
{
    tassert(id < COUNTER_COUNT);
    return counters_table[id].kind;
}

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

int
counters_view_row(const struct counters_view *v, unsigned i, struct counters_row *out)
{
    const _Atomic uint64_t *value;

    OBJ_CHECK(v, COUNTERS_VIEW_MAGIC);
    if (i >= v->nrows)
        return TERR_NOTFOUND;
    out->name = v->row_copies[i].name;
    out->doc = v->row_copies[i].doc;
    out->kind =
        v->row_copies[i].kind == COUNTER_KIND_GAUGE ? COUNTER_KIND_GAUGE : COUNTER_KIND_COUNTER;
    out->value = 0;
    for (unsigned s = 0; s < v->nsets; s++) {
        value = (const void *)(v->sets + s * v->set_bytes);
        out->value += atomic_load_explicit(&value[i], memory_order_relaxed);
    }
    return 0;
}
