/* topk.c -- Space-Saving: places, a heap with the lightest on top, a table that finds keys. */
#include "daemon/admin/topk.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define TOPK_MAGIC OBJ_TAG('h', 'e', 'v', 'y')

enum {
    TOPK_SLOTS = 4, /* of the table for each place: searches look at one or two */
};

struct topk_cell {
    uint64_t key;
    double weight;
    double sums[TOPK_SUMS];
    uint32_t at; /* in the heap */
    uint32_t text_len;
};

struct topk {
    uint32_t magic;
    unsigned room, n, text_max, by;
    struct topk_cell *cells; /* `n` of them are in use */
    char *texts;
    uint32_t *heap;  /* cells; no parent is heavier than its children */
    uint32_t *table; /* 1 + cell; 0: free.  Linear probing */
    uint32_t mask;
};

int
topk_open(struct topk **out, unsigned room, unsigned text_max, unsigned by)
{
    struct topk *h = calloc(1, sizeof(*h));
    uint32_t slots = 1;

    tassert(room > 0 && room <= TOPK_ROOM_MAX && by < TOPK_SUMS);
    if (h == NULL)
        return TERR_NOMEM;
    /* A power of two: topk_home() masks. */
    while (slots < room * TOPK_SLOTS)
        slots *= 2;
    h->magic = TOPK_MAGIC;
    h->room = room;
    h->text_max = text_max;
    h->by = by;
    h->mask = slots - 1;
    h->cells = calloc(room, sizeof(*h->cells));
    h->texts = calloc(room, text_max);
    h->heap = calloc(room, sizeof(*h->heap));
    h->table = calloc(slots, sizeof(*h->table));
    if (h->cells == NULL || h->texts == NULL || h->heap == NULL || h->table == NULL) {
        topk_close(&h);
        return TERR_NOMEM;
    }
    *out = h;
    return 0;
}

void
topk_close(struct topk **hp)
{
    struct topk *h;

    OBJ_TAKE(h, hp, TOPK_MAGIC);
    free(h->cells);
    free(h->texts);
    free(h->heap);
    free(h->table);
    OBJ_FREE(h);
}

size_t
topk_bytes(const struct topk *h)
{
    OBJ_CHECK(h, TOPK_MAGIC);
    return sizeof(*h) + h->room * (sizeof(*h->cells) + h->text_max + sizeof(*h->heap)) +
           (h->mask + 1) * sizeof(*h->table);
}

/* ---- the table ---- */

/* Keys are hashes, or small numbers: both spread (Fibonacci hashing). */
static uint32_t
topk_home(const struct topk *h, uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & h->mask;
}

/* Where the key is, or the free slot that ends the search.  The table is never full. */
static uint32_t
topk_slot(const struct topk *h, uint64_t key)
{
    uint32_t s = topk_home(h, key);

    while (h->table[s] != 0 && h->cells[h->table[s] - 1].key != key)
        s = (s + 1) & h->mask;
    return s;
}

/* Those behind it move up, unless they would come before their home.  Without tombstones: names
 * come and go for as long as there is a watch. */
static void
topk_forget(struct topk *h, uint64_t key)
{
    uint32_t hole = topk_slot(h, key), s = hole;

    tassert(h->table[hole] != 0);
    for (;;) {
        uint32_t home;

        s = (s + 1) & h->mask;
        if (h->table[s] == 0)
            break;
        home = topk_home(h, h->cells[h->table[s] - 1].key);
        if (((s - home) & h->mask) < ((s - hole) & h->mask))
            continue;
        h->table[hole] = h->table[s];
        hole = s;
    }
    h->table[hole] = 0;
}

/* ---- the heap ---- */

static double
topk_at(const struct topk *h, uint32_t i)
{
    return h->cells[h->heap[i]].weight;
}

static void
topk_place(struct topk *h, uint32_t i, uint32_t cell)
{
    h->heap[i] = cell;
    h->cells[cell].at = i;
}

/* What lies at `i` has become heavier. */
static void
topk_sink(struct topk *h, uint32_t i)
{
    uint32_t cell = h->heap[i];
    double weight = h->cells[cell].weight;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child + 1 < h->n && topk_at(h, child + 1) < topk_at(h, child))
            child++;
        if (child >= h->n || topk_at(h, child) >= weight)
            break;
        topk_place(h, i, h->heap[child]);
        i = child;
    }
    topk_place(h, i, cell);
}

/* What lies at `i` is new there. */
static void
topk_rise(struct topk *h, uint32_t i)
{
    uint32_t cell = h->heap[i];
    double weight = h->cells[cell].weight;

    while (i > 0 && topk_at(h, (i - 1) / 2) > weight) {
        topk_place(h, i, h->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    topk_place(h, i, cell);
}

/* ---- names ---- */

/* Cut at text_max: long URLs that begin alike are shown alike, and are counted apart, for the
 * key is of all bytes. */
static void
topk_set_text(struct topk *h, uint32_t cell, const struct slice text[2])
{
    char *to = h->texts + (size_t)cell * h->text_max;
    size_t len = 0;

    for (unsigned i = 0; i < 2; i++) {
        size_t n = text[i].len < h->text_max - len ? text[i].len : h->text_max - len;

        if (n > 0)
            memcpy(to + len, text[i].ptr, n);
        len += n;
    }
    h->cells[cell].text_len = (uint32_t)len;
}

static void
topk_admit(struct topk *h, uint64_t key, const struct slice text[2], const double *sums)
{
    /* The lightest gives its place. */
    uint32_t cell = h->n < h->room ? h->n : h->heap[0];
    double before = 0;

    if (h->n == h->room) {
        before = h->cells[cell].weight;
        topk_forget(h, h->cells[cell].key);
    }
    h->cells[cell].key = key;
    /* Space-Saving: a name that comes takes over the weight of the one that goes, so it is never
     * too light; by how much too heavy, `weight` minus its own sum says. */
    h->cells[cell].weight = before + sums[h->by];
    memcpy(h->cells[cell].sums, sums, sizeof(h->cells[cell].sums));
    topk_set_text(h, cell, text);
    h->table[topk_slot(h, key)] = cell + 1;
    if (h->n < h->room) {
        h->heap[h->n++] = cell;
        topk_rise(h, h->n - 1);
    } else {
        /* It lies where the lightest lay. */
        topk_sink(h, 0);
    }
}

/* Log of `room` steps; on the management loop, three times for each record that the observer
 * takes. */
void
topk_add(struct topk *h, uint64_t key, const struct slice text[2], const double sums[TOPK_SUMS])
{
    uint32_t found;

    OBJ_CHECK(h, TOPK_MAGIC);
    tassert(sums[h->by] >= 0);
    found = h->table[topk_slot(h, key)];
    if (found == 0) {
        /* What weighs nothing here would throw out a name that does. */
        if (sums[h->by] > 0)
            topk_admit(h, key, text, sums);
        return;
    }
    for (unsigned i = 0; i < TOPK_SUMS; i++)
        h->cells[found - 1].sums[i] += sums[i];
    h->cells[found - 1].weight += sums[h->by];
    topk_sink(h, h->cells[found - 1].at);
}

void
topk_fade(struct topk *h, double factor)
{
    OBJ_CHECK(h, TOPK_MAGIC);
    tassert(factor >= 0 && factor <= 1);
    for (unsigned i = 0; i < h->n; i++) {
        /* All alike: the heap stays in order. */
        h->cells[i].weight *= factor;
        for (unsigned k = 0; k < TOPK_SUMS; k++)
            h->cells[i].sums[k] *= factor;
    }
}

/* The heavier comes first; equal ones come in the order of their cells. */
static int
topk_compare(const void *a, const void *b)
{
    const struct topk_cell *x = *(struct topk_cell *const *)a, *y = *(struct topk_cell *const *)b;

    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x > y) - (x < y);
}

unsigned
topk_top(const struct topk *h, struct topk_name *out, unsigned n)
{
    /* The heap has the lightest on top and is otherwise not sorted. */
    struct topk_cell *order[TOPK_ROOM_MAX];

    OBJ_CHECK(h, TOPK_MAGIC);
    for (unsigned i = 0; i < h->n; i++)
        order[i] = &h->cells[i];
    qsort(order, h->n, sizeof(order[0]), topk_compare);
    n = n < h->n ? n : h->n;
    for (unsigned i = 0; i < n; i++) {
        size_t cell = (size_t)(order[i] - h->cells);

        out[i].text = slice_of(h->texts + cell * h->text_max, order[i]->text_len);
        out[i].weight = order[i]->weight;
        memcpy(out[i].sums, order[i]->sums, sizeof(out[i].sums));
    }
    return n;
}
