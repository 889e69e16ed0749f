/* sim_trace.c -- reads a trace for tarn_evict_sim. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "t/sim/evict_sim.h"

enum {
    SIM_LINE_MAX = 65536,
    SIM_SLOTS_LOG2 = 16, /* to begin with */
};

void *
sim_alloc(void *old, size_t count, size_t size)
{
    void *p = reallocarray(old, count > 0 ? count : 1, size);

    if (p == NULL) {
        fputs("tarn_evict_sim: no memory\n", stderr);
        exit(1);
    }
    return p;
}

/* splitmix64's end: every bit of the input counts for every bit of the output. */
static uint64_t
sim_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* FNV-1a, and mixed. */
static uint64_t
sim_hash(const char *key, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)key[i]) * UINT64_C(0x100000001b3);
    return sim_mix(h);
}

static void
sim_grow_slots(struct sim_trace *t)
{
    uint32_t *old = t->slots;
    uint64_t *keys = t->keys;
    size_t n = t->nslots;

    t->nslots = n == 0 ? (size_t)1 << SIM_SLOTS_LOG2 : n * 2;
    t->slots = sim_alloc(NULL, t->nslots, sizeof(*t->slots));
    t->keys = sim_alloc(NULL, t->nslots, sizeof(*t->keys));
    memset(t->slots, 0, t->nslots * sizeof(*t->slots));
    for (size_t i = 0; i < n; i++) {
        size_t at = keys[i] & (t->nslots - 1);

        if (old[i] == 0)
            continue;
        while (t->slots[at] != 0)
            at = (at + 1) & (t->nslots - 1);
        t->slots[at] = old[i];
        t->keys[at] = keys[i];
    }
    free(old);
    free(keys);
}

/* Two keys with one hash of 64 bits would be one object: once in 10^7 traces of 10^6 objects. */
static uint32_t
sim_object(struct sim_trace *t, uint64_t hash, uint64_t size)
{
    size_t at;

    if (t->objects * 2 >= t->nslots)
        sim_grow_slots(t);
    at = hash & (t->nslots - 1);
    for (; t->slots[at] != 0; at = (at + 1) & (t->nslots - 1))
        if (t->keys[at] == hash)
            return t->slots[at] - 1;
    if (t->objects == t->objects_room) {
        t->objects_room = t->objects_room * 2 + 1024;
        t->hashes = sim_alloc(t->hashes, t->objects_room, sizeof(*t->hashes));
    }
    t->hashes[t->objects] = (uint32_t)(hash >> 32);
    t->keys[at] = hash;
    t->slots[at] = (uint32_t)++t->objects;
    t->distinct_bytes += size;
    return (uint32_t)t->objects - 1;
}

static void
sim_add(struct sim_trace *t, uint64_t hash, uint64_t size)
{
    size = size == 0 ? 1 : size > UINT32_MAX ? UINT32_MAX : size;
    if (t->count == t->room) {
        t->room = t->room * 2 + 4096;
        t->requests = sim_alloc(t->requests, t->room, sizeof(*t->requests));
    }
    t->requests[t->count].object = sim_object(t, hash, size);
    t->requests[t->count++].size = (uint32_t)size;
}

/* Log-normal: median 8 KiB, sigma 1.6, 200 B to 4 MiB, always the same for an id. */
static uint64_t
sim_size_of_id(uint32_t id)
{
    const double two_pi = 6.283185307179586, to_unit = 1.0 / 9007199254740992.0; /* 2^-53 */
    uint64_t a = sim_mix(id * UINT64_C(0x9e3779b97f4a7c15) + 1), b = sim_mix(a + 1);
    double u = ((double)(a >> 11) + 0.5) * to_unit, v = (double)(b >> 11) * to_unit;
    double size = 8192.0 * exp(1.6 * sqrt(-2.0 * log(u)) * cos(two_pi * v));

    return size < 200.0 ? 200 : size > 4194304.0 ? 4194304 : (uint64_t)size;
}

static bool
sim_read_ids(struct sim_trace *t, FILE *from)
{
    unsigned char b[4];

    while (fread(b, 1, sizeof(b), from) == sizeof(b)) {
        uint32_t id = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];

        sim_add(t, sim_mix(id + UINT64_C(0x9e3779b97f4a7c15)), sim_size_of_id(id));
    }
    return ferror(from) == 0;
}

/* The key is the last word but one: what comes before it is a time. */
static bool
sim_read_line(struct sim_trace *t, char *line)
{
    char *words[3], *save = NULL, *end;
    unsigned n = 0;
    uint64_t size;

    for (char *w; (w = strtok_r(n == 0 ? line : NULL, " \t\r\n", &save)) != NULL;) {
        if (n == 3)
            return false;
        words[n++] = w;
    }
    if (n == 0)
        return true;
    if (n == 1 || !isdigit((unsigned char)words[n - 1][0]))
        return false;
    size = strtoull(words[n - 1], &end, 10);
    if (*end != '\0')
        return false;
    sim_add(t, sim_hash(words[n - 2], strlen(words[n - 2])), size);
    return true;
}

bool
sim_read(struct sim_trace *t, FILE *from, enum sim_format format)
{
    static char line[SIM_LINE_MAX];
    bool good = true;
    size_t number = 0;

    *t = (struct sim_trace){.count = 0};
    if (format == SIM_IDS)
        good = sim_read_ids(t, from);
    while (good && format == SIM_TEXT && fgets(line, sizeof(line), from) != NULL) {
        number++;
        good = sim_read_line(t, line);
    }
    if (!good)
        fprintf(stderr, "tarn_evict_sim: line %zu is neither KEY SIZE nor TIME KEY SIZE\n", number);
    else if (t->count == 0 || t->count >= SIM_NEVER)
        fprintf(stderr, "tarn_evict_sim: %zu requests\n", t->count);
    return good && t->count > 0 && t->count < SIM_NEVER;
}

void
sim_free(struct sim_trace *t)
{
    free(t->requests);
    free(t->hashes);
    free(t->keys);
    free(t->slots);
    *t = (struct sim_trace){.count = 0};
}
