/* conn_quota.c -- open addressing with linear probing, in stripes. */
#include "daemon/base/conn_quota.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

enum {
    QUOTA_STRIPES = 16,
    QUOTA_SLOTS_MIN = 16,
};

struct quota_slot {
    uint64_t client;
    uint64_t count; /* 0: free */
};

struct quota_stripe {
    pthread_mutex_t lock;
    struct quota_slot *slots;
    uint64_t nslots, used; /* a power of two, or 0; at most half of it */
};

#define CONN_QUOTA_MAGIC OBJ_TAG('q', 'u', 'o', 't')
struct conn_quota {
    uint32_t magic;
    struct quota_stripe stripes[QUOTA_STRIPES];
};

/* ::ffff:a.b.c.d has no prefix of its own: its last half is the client.  No IPv6 network begins so.
 * An IPv6 client is its /64: a host has all addresses of one, so counting addresses would limit
 * nothing. */
static uint64_t
quota_client(const uint8_t addr[16])
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    uint64_t client;

    memcpy(&client, memcmp(addr, v4, sizeof(v4)) == 0 ? addr + 8 : addr, sizeof(client));
    return client;
}

/* Under the process's secret: a client cannot choose addresses that collide. */
static uint64_t
quota_hash(uint64_t client)
{
    return hash_bytes(&client, sizeof(client)).lo;
}

/* By the hash's top bits; the place within a stripe uses the low ones, so the two are
 * independent. */
static struct quota_stripe *
quota_stripe(struct conn_quota *q, uint64_t hash)
{
    OBJ_CHECK(q, CONN_QUOTA_MAGIC);
    return &q->stripes[hash >> 60];
}

/* Where it is, or would be. */
static struct quota_slot *
quota_find(const struct quota_stripe *s, uint64_t client, uint64_t hash)
{
    uint64_t at = hash & (s->nslots - 1);

    tassert(s->used < s->nslots); /* so that there is an end */
    while (s->slots[at].count > 0 && s->slots[at].client != client)
        at = (at + 1) & (s->nslots - 1);
    return &s->slots[at];
}

/* Under the stripe's lock.  False: no memory, and nothing has changed. */
static bool
quota_grow(struct quota_stripe *s)
{
    struct quota_stripe now = {.nslots = s->nslots > 0 ? s->nslots * 2 : QUOTA_SLOTS_MIN};

    now.slots = calloc(now.nslots, sizeof(now.slots[0]));
    if (now.slots == NULL)
        return false;
    for (uint64_t i = 0; i < s->nslots; i++)
        if (s->slots[i].count > 0)
            *quota_find(&now, s->slots[i].client, quota_hash(s->slots[i].client)) = s->slots[i];
    free(s->slots);
    s->slots = now.slots;
    s->nslots = now.nslots;
    return true;
}

/* Frees the slot, and moves back those behind it that a search would not reach any more.
 * Knuth's algorithm R (The Art of Computer Programming 3, 6.4): no tombstones, so searches stay
 * short however many clients come and go. */
static void
quota_remove(struct quota_stripe *s, struct quota_slot *slot)
{
    uint64_t mask = s->nslots - 1, hole = (uint64_t)(slot - s->slots), at = hole;

    for (;;) {
        uint64_t home;

        at = (at + 1) & mask;
        if (s->slots[at].count == 0)
            break;
        home = quota_hash(s->slots[at].client) & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* its search begins behind the hole */
        s->slots[hole] = s->slots[at];
        hole = at;
    }
    s->slots[hole].count = 0;
    s->used--;
    if (s->used == 0) { /* a flood of addresses leaves nothing */
        free(s->slots);
        s->slots = NULL;
        s->nslots = 0;
    }
}

/* Shared by all workers, and read by none in a hurry: one lock a connection, of one stripe in
 * sixteen. */
int
conn_quota_open(struct conn_quota **out)
{
    struct conn_quota *q = calloc(1, sizeof(*q));

    if (q == NULL)
        return TERR_NOMEM;
    q->magic = CONN_QUOTA_MAGIC;
    for (unsigned i = 0; i < QUOTA_STRIPES; i++)
        pthread_mutex_init(&q->stripes[i].lock, NULL);
    *out = q;
    return 0;
}

/* Behind the last connection: a count that is left was taken and not given back. */
void
conn_quota_close(struct conn_quota **qp)
{
    struct conn_quota *q;

    OBJ_TAKE(q, qp, CONN_QUOTA_MAGIC);
    for (unsigned i = 0; i < QUOTA_STRIPES; i++) {
        tassert(q->stripes[i].used == 0);
        pthread_mutex_destroy(&q->stripes[i].lock);
    }
    OBJ_FREE(q);
}

/* From any worker.  UNCOUNTED: there was no memory for the count, and the connection is let in:
 * a limit must not become an outage. */
enum conn_quota_answer
conn_quota_take(struct conn_quota *q, const uint8_t addr[16], int64_t most)
{
    uint64_t client = quota_client(addr), hash = quota_hash(client);
    struct quota_stripe *s = quota_stripe(q, hash);
    enum conn_quota_answer answer = CONN_QUOTA_COUNTED;
    struct quota_slot *slot;

    tassert(most > 0);
    pthread_mutex_lock(&s->lock);
    if (s->used * 2 >= s->nslots && !quota_grow(s)) {
        answer = CONN_QUOTA_UNCOUNTED;
    } else {
        slot = quota_find(s, client, hash);
        if (slot->count >= (uint64_t)most) {
            answer = CONN_QUOTA_REFUSED;
        } else {
            s->used += slot->count == 0;
            slot->client = client;
            slot->count++;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return answer;
}

/* Only after a take that answered COUNTED, with the same address. */
void
conn_quota_give(struct conn_quota *q, const uint8_t addr[16])
{
    uint64_t client = quota_client(addr), hash = quota_hash(client);
    struct quota_stripe *s = quota_stripe(q, hash);
    struct quota_slot *slot;

    pthread_mutex_lock(&s->lock);
    tassert(s->nslots > 0);
    slot = quota_find(s, client, hash);
    tassert(slot->count > 0); /* it was counted */
    if (slot->count == 1)
        quota_remove(s, slot);
    else
        slot->count--;
    pthread_mutex_unlock(&s->lock);
}

uint64_t
conn_quota_count(struct conn_quota *q, const uint8_t addr[16])
{
    uint64_t client = quota_client(addr), hash = quota_hash(client), count = 0;
    struct quota_stripe *s = quota_stripe(q, hash);

    pthread_mutex_lock(&s->lock);
    if (s->nslots > 0)
        count = quota_find(s, client, hash)->count;
    pthread_mutex_unlock(&s->lock);
    return count;
}
