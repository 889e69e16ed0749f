/* evict_sim.h -- what the files of tarn_evict_sim share: a trace in memory, and what came of it. */
#ifndef TARN_EVICT_SIM_H
#define TARN_EVICT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_NEVER UINT32_MAX

/* One request.  Objects are numbered in the order in which they first come. */
struct sim_request {
    uint32_t object;
    uint32_t size; /* bytes; not 0 */
};

struct sim_trace {
    struct sim_request *requests; /* owned */
    size_t count, room;
    uint32_t *hashes; /* owned: of an object's key */
    size_t objects, objects_room;
    uint64_t distinct_bytes; /* of all objects, as large as they first came */
    /* reading: open addressing; an object's number + 1 */
    uint64_t *keys;
    uint32_t *slots;
    size_t nslots;
};

enum sim_format {
    SIM_TEXT, /* lines of "KEY SIZE" or of "TIME KEY SIZE" */
    SIM_IDS,  /* big-endian 32-bit ids; a size is made of each */
};

struct sim_result {
    uint64_t hits, hit_bytes, bytes;
    /* of the policies in evict_queue.c */
    uint64_t evicted, ghost_hits, looks, most_looks;
    uint64_t over; /* most that was evicted above what was asked for, in one go */
};

/* False: it is no trace; what is wrong was printed. */
bool sim_read(struct sim_trace *t, FILE *from, enum sim_format format);
void sim_free(struct sim_trace *t);

/* The optimum that knows the future: who is used furthest in it leaves first, if only the one
 * that has just come.  By bytes no such rule is a true optimum; this is the usual bound.
 * What is larger than `largest` is not kept. */
void sim_belady(
    const struct sim_trace *t, uint64_t bytes, uint64_t largest, struct sim_result *out);

/* Memory, or the end. */
void *sim_alloc(void *old, size_t count, size_t size);

#endif
