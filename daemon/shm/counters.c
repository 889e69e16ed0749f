/* counters.c -- counters in shared memory. */
#include "daemon/shm/counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/counters_priv.h"
#include "daemon/shm/dir.h"

#define COUNTERS_MAGIC OBJ_TAG('c', 'n', 't', 'r')

struct counters {
    uint32_t magic;
    unsigned nworkers;
    struct counters_file *file;
    char *sets;
    size_t set_bytes, map_bytes;
};

static const struct counters_desc {
    const char *name, *doc;
    enum counter_kind kind;
} counters_table[COUNTER_COUNT] = {
#define X(group, name, kind, doc) {#group "." #name, doc, COUNTER_KIND_##kind},
    COUNTER_TABLE(X)
#undef X
};

static const struct counters_sum {
    uint16_t first, count;
} counters_sums[COUNTER_COUNT] = {
#define Y(group, name, from, to)   \
    [COUNTER_##group##_##name] = { \
        COUNTER_responses_##from##_1xx, (RESULT_##to - RESULT_##from + 1) * COUNTER_CLASSES},
    COUNTER_SUMS(Y)
#undef Y
};

#define X(group, name, kind, doc)                                                           \
    _Static_assert(sizeof(#group "." #name) <= COUNTERS_NAME_MAX, "the name fits its row"); \
    _Static_assert(sizeof(doc) <= COUNTERS_DOC_MAX, "the documentation fits its row");
COUNTER_TABLE(X)
#undef X

/* To a pair of cache lines: sets of two workers must not share one, or each addition of one
 * would take the line from the other. */
static size_t
counters_round(size_t n)
{
    return (n + COUNTERS_LINE - 1) / COUNTERS_LINE * COUNTERS_LINE;
}

/* Readers learn names and offsets from the file, so a new counter needs no new reader.  `magic`
 * is stored last. */
static void
counters_fill(struct counters *c, size_t sets_off)
{
    struct counters_file *f = c->file;
    struct counters_file_row *row = (struct counters_file_row *)(f + 1);

    f->version = COUNTERS_VERSION;
    f->row_bytes = sizeof(*row);
    f->nrows = COUNTER_COUNT;
    /* The last is for all threads that are no worker. */
    f->nsets = c->nworkers + 1;
    f->rows_off = sizeof(*f);
    f->sets_off = sets_off;
    f->set_bytes = c->set_bytes;
    f->pid = (uint32_t)getpid();
    for (unsigned i = 0; i < COUNTER_COUNT; i++, row++) {
        snprintf(row->name, sizeof(row->name), "%s", counters_table[i].name);
        snprintf(row->doc, sizeof(row->doc), "%s", counters_table[i].doc);
        row->kind = counters_table[i].kind;
        row->sum_first = counters_sums[i].first;
        row->sum_count = counters_sums[i].count;
    }
    f->magic = COUNTERS_FILE_MAGIC;
}

/* Without a directory the memory is the process's own; nothing else differs.  On failure
 * counters_close() copes with what is there.
 * Start-up.  The file's size is fixed by the number of workers, so it is never grown under a
 * reader. */
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
    /* Named in the file: a reader steps by it, and need not know the number of counters. */
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
    /* Before the file has its name. */
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

/* For this worker's thread alone: its additions are a load and a store (counter_add), without a
 * lock prefix. */
struct counter_set *
counters_worker(struct counters *c, unsigned worker)
{
    tassert(worker < c->nworkers);
    return counters_set(c, worker);
}

/* From any thread, into the last set: the only one with more than one writer, and so the only
 * locked addition. */
void
counter_add_shared(struct counters *c, enum counter id, uint64_t n)
{
    struct counter_set *s = counters_set(c, c->nworkers);

    atomic_fetch_add_explicit(&s->value[id], n, memory_order_relaxed);
}

/* Sums wrap modulo 2^64, so adding the complement subtracts. */
void
counter_sub_shared(struct counters *c, enum counter id, uint64_t n)
{
    counter_add_shared(c, id, (uint64_t)0 - n);
}

/* A snapshot of no single moment: each value is whole, and they are read one after the other. */
static uint64_t
counters_sum_row(const struct counters *c, unsigned row)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i <= c->nworkers; i++)
        sum += atomic_load_explicit(&counters_set(c, i)->value[row], memory_order_relaxed);
    return sum;
}

uint64_t
counters_sum(const struct counters *c, enum counter id)
{
    uint64_t sum;

    tassert(id < COUNTER_COUNT);
    sum = counters_sum_row(c, id);
    /* A sum is not written by any worker: a hit adds to one counter, and totals are made when they
     * are read. */
    for (unsigned i = 0; i < counters_sums[id].count; i++)
        sum += counters_sum_row(c, counters_sums[id].first + i);
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
