/* sim_belady.c -- the policy that knows the future, for tarn_evict_sim. */
#include <stdlib.h>
#include <string.h>

#include "t/sim/evict_sim.h"

/* A binary heap: on top who is used furthest in the future. */
struct heap {
    uint32_t *objects;
    size_t count;
    uint32_t *next;  /* by object: the next request for it; SIM_NEVER */
    uint32_t *place; /* by object: in the heap, from 1; 0: not in the cache */
    uint32_t *size;  /* by object: as it is stored */
};

static void
heap_set(struct heap *h, size_t i, uint32_t object)
{
    h->objects[i] = object;
    h->place[object] = (uint32_t)i + 1;
}

static void
heap_up(struct heap *h, size_t i)
{
    uint32_t o = h->objects[i];

    for (; i > 0 && h->next[h->objects[(i - 1) / 2]] < h->next[o]; i = (i - 1) / 2)
        heap_set(h, i, h->objects[(i - 1) / 2]);
    heap_set(h, i, o);
}

static uint32_t
heap_pop(struct heap *h)
{
    uint32_t top = h->objects[0], o = h->objects[--h->count];
    size_t i = 0, child;

    h->place[top] = 0;
    if (h->count == 0)
        return top;
    for (; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && h->next[h->objects[child]] < h->next[h->objects[child + 1]])
            child++;
        if (h->next[o] >= h->next[h->objects[child]])
            break;
        heap_set(h, i, h->objects[child]);
    }
    heap_set(h, i, o);
    return top;
}

/* By request: when its object is requested next. */
static uint32_t *
belady_future(const struct sim_trace *t, uint32_t *last)
{
    uint32_t *future = sim_alloc(NULL, t->count, sizeof(*future));

    memset(last, 0xff, t->objects * sizeof(*last)); /* SIM_NEVER */
    for (size_t i = t->count; i-- > 0;) {
        future[i] = last[t->requests[i].object];
        last[t->requests[i].object] = (uint32_t)i;
    }
    return future;
}

void
sim_belady(const struct sim_trace *t, uint64_t bytes, uint64_t largest, struct sim_result *out)
{
    struct heap h = {.count = 0};
    uint32_t **arrays[] = {&h.objects, &h.next, &h.place, &h.size}, *future;
    uint64_t used = 0;

    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        *arrays[i] = sim_alloc(NULL, t->objects, sizeof(**arrays));
    future = belady_future(t, h.next);
    memset(h.place, 0, t->objects * sizeof(*h.place));
    *out = (struct sim_result){.hits = 0};
    for (size_t i = 0; i < t->count; i++) {
        const struct sim_request *r = &t->requests[i];

        out->bytes += r->size;
        h.next[r->object] = future[i];
        if (h.place[r->object] != 0) {
            out->hits++;
            out->hit_bytes += r->size;
            heap_up(&h, h.place[r->object] - 1); /* it can only be further away than before */
            continue;
        }
        if (r->size > largest)
            continue;
        h.size[r->object] = r->size;
        used += r->size;
        h.objects[h.count] = r->object;
        heap_up(&h, h.count++);
        for (; used > bytes; out->evicted++)
            used -= h.size[heap_pop(&h)];
    }
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        free(*arrays[i]);
    free(future);
}
