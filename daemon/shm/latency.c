/* latency.c -- histograms of durations, in shared memory.
 *
 * The file is laid out as that of the counters: a header, a table of rows with names and
 * documentation, then the workers' sets.
 */
#include "daemon/shm/latency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/dir.h"

#define LATENCY_MAGIC      OBJ_TAG('l', 't', 'c', 'y')
#define LATENCY_FILE_MAGIC UINT64_C(0x3154414c4e524154) /* "TARNLAT1" */

enum {
    LATENCY_VERSION = 1,
    LATENCY_NAME_MAX = 48,
    LATENCY_DOC_MAX = 136,
    LATENCY_LINE = 128, /* the prefetcher fetches cache lines in pairs */
};

struct latency_file_row {
    char name[LATENCY_NAME_MAX]; /* NUL-terminated, as is doc */
    char doc[LATENCY_DOC_MAX];
    uint64_t unused;
};
_Static_assert(sizeof(struct latency_file_row) == 192, "as README.md says");

struct latency_file {
    uint64_t magic;
    uint32_t version;
    uint32_t row_bytes;
    uint32_t nrows;
    uint32_t nsets; /* workers */
    uint64_t rows_off, sets_off, set_bytes;
    uint32_t pid;
    uint32_t nbuckets;
    uint32_t histogram_bytes;
    uint32_t unused;
};
_Static_assert(sizeof(struct latency_file) == 64, "as README.md says");
_Static_assert(sizeof(struct latency_set) % LATENCY_LINE == 0, "sets share no cache line");

struct latency {
    uint32_t magic;
    unsigned nworkers;
    struct latency_file *file;
    struct latency_set *sets;
    size_t map_bytes;
};

static const struct {
    const char *name, *doc;
} latency_table[LATENCY_KINDS] = {
#define X(name, word, doc) {word, doc},
    LATENCY_TABLE(X)
#undef X
};

#define X(name, word, doc)                                                     \
    _Static_assert(sizeof(word) <= LATENCY_NAME_MAX, "the name fits its row"); \
    _Static_assert(sizeof(doc) <= LATENCY_DOC_MAX, "the documentation fits its row");
LATENCY_TABLE(X)
#undef X

/* `magic` is stored last: it says that the other fields are there.
 * Reserved words stay 0, as the file is new: a later version may give them a meaning. */
static void
latency_fill(struct latency *l, size_t sets_off)
{
    struct latency_file *f = l->file;
    struct latency_file_row *row = (struct latency_file_row *)(f + 1);

    f->version = LATENCY_VERSION;
    f->row_bytes = sizeof(*row);
    f->nrows = LATENCY_KINDS;
    f->nsets = l->nworkers;
    f->rows_off = sizeof(*f);
    f->sets_off = sets_off;
    f->set_bytes = sizeof(struct latency_set);
    f->pid = (uint32_t)getpid();
    f->nbuckets = LATENCY_BUCKETS;
    /* So a reader finds its way in sets with more in a row than it knows. */
    f->histogram_bytes = sizeof(struct latency_row);
    for (unsigned i = 0; i < LATENCY_KINDS; i++, row++) {
        snprintf(row->name, sizeof(row->name), "%s", latency_table[i].name);
        snprintf(row->doc, sizeof(row->doc), "%s", latency_table[i].doc);
    }
    f->magic = LATENCY_FILE_MAGIC;
}

/* As counters_open(). */
int
latency_open(struct latency **out, struct shm_dir *dir, unsigned nworkers)
{
    size_t sets_off = sizeof(struct latency_file) + LATENCY_KINDS * sizeof(struct latency_file_row);
    struct latency *l = calloc(1, sizeof(*l));
    void *base = MAP_FAILED;
    int err = 0;

    tassert(nworkers <= LIMIT_WORKERS);
    if (l == NULL)
        return TERR_NOMEM;
    l->magic = LATENCY_MAGIC;
    l->nworkers = nworkers;
    /* The first set on a pair of lines, and with it all. */
    sets_off = (sets_off + LATENCY_LINE - 1) / LATENCY_LINE * LATENCY_LINE;
    l->map_bytes = sets_off + nworkers * sizeof(struct latency_set);
    if (dir != NULL)
        err = shm_file_create(&base, dir, "latency", l->map_bytes);
    else {
        base = mmap(NULL, l->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        err = base == MAP_FAILED ? TERR_NOMEM : 0;
    }
    if (err < 0)
        goto fail;
    l->file = base;
    l->sets = (struct latency_set *)(void *)((char *)base + sets_off);
    latency_fill(l, sets_off);
    if (dir != NULL)
        err = shm_file_publish(dir, "latency");
    if (err < 0)
        goto fail;
    *out = l;
    return 0;

fail:
    latency_close(&l);
    return err;
}

void
latency_close(struct latency **lp)
{
    struct latency *l;

    OBJ_TAKE(l, lp, LATENCY_MAGIC);
    if (l->file != NULL)
        munmap(l->file, l->map_bytes);
    OBJ_FREE(l);
}

struct latency_set *
latency_worker(struct latency *l, unsigned worker)
{
    OBJ_CHECK(l, LATENCY_MAGIC);
    tassert(worker < l->nworkers);
    return &l->sets[worker];
}

unsigned
latency_workers(const struct latency *l)
{
    OBJ_CHECK(l, LATENCY_MAGIC);
    return l->nworkers;
}

/* One writer for each row, so the maximum needs no compare-and-swap; the stores are atomic for
 * readers of other threads and processes. */
void
latency_tell(struct latency_row *row, uint64_t us)
{
    latency_add(row, us);
    __atomic_store_n(&row->last_us, us, __ATOMIC_RELAXED);
    /* A plain look: no other thread writes this row. */
    if (us > row->max_us)
        __atomic_store_n(&row->max_us, us, __ATOMIC_RELAXED);
}

static uint64_t
latency_word(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* `count` is the sum of the buckets that were read, so that quantiles agree with it although the
 * worker goes on counting. */
static void
latency_see_row(const struct latency_row *row, struct latency_seen *out)
{
    uint64_t last = latency_word(&row->last_us), most = latency_word(&row->max_us);

    for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
        uint64_t n = latency_word(&row->bucket[b]);

        out->bucket[b] += n;
        out->count += n;
    }
    out->sum_us += latency_word(&row->sum_us);
    out->last_us = last > out->last_us ? last : out->last_us;
    out->max_us = most > out->max_us ? most : out->max_us;
}

void
latency_see(
    const struct latency *l, unsigned worker, enum latency_kind kind, struct latency_seen *out)
{
    OBJ_CHECK(l, LATENCY_MAGIC);
    tassert(kind < LATENCY_KINDS && (worker == LATENCY_ALL || worker < l->nworkers));
    *out = (struct latency_seen){.count = 0};
    for (unsigned i = 0; i < l->nworkers; i++)
        if (worker == LATENCY_ALL || worker == i)
            latency_see_row(&l->sets[i].row[kind], out);
}

/* Microseconds.  Four buckets to each doubling: a value is known to a quarter. */
uint64_t
latency_floor(unsigned bucket)
{
    tassert(bucket <= LATENCY_BUCKETS);
    if (bucket == LATENCY_BUCKETS)
        return UINT64_MAX;
    if (bucket < 4)
        return bucket;
    return (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

/* Linear within the bucket.  Microseconds; 0 when there is nothing. */
uint64_t
latency_quantile(const struct latency_seen *seen, double share)
{
    double rank = share * (double)seen->count, before = 0;

    tassert(share >= 0 && share <= 1);
    for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
        double n = (double)seen->bucket[b], from = (double)latency_floor(b);

        if (n > 0 && before + n >= rank)
            return (uint64_t)(from + ((double)latency_floor(b + 1) - from) * (rank - before) / n);
        before += n;
    }
    return 0;
}

/* Exact where `us` is a bound of a bucket, else of the bound below: callers ask for powers of
 * two. */
uint64_t
latency_below(const struct latency_seen *seen, uint64_t us)
{
    uint64_t n = 0;

    for (unsigned b = 0; b < LATENCY_BUCKETS && latency_floor(b + 1) <= us; b++)
        n += seen->bucket[b];
    return n;
}

const char *
latency_name(enum latency_kind kind)
{
    tassert(kind < LATENCY_KINDS);
    return latency_table[kind].name;
}

const char *
latency_doc(enum latency_kind kind)
{
    tassert(kind < LATENCY_KINDS);
    return latency_table[kind].doc;
}
