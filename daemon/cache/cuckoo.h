/* cuckoo.h -- find a node by its 128-bit key; hits take no lock and write nothing.
 *
 * A bucketised cuckoo hash in two partitions (after OpenAFS's vlserver cache; Pagh and Rodler,
 * "Cuckoo Hashing", 2001).  A key has one bucket on each side, chosen by independent halves of
 * its hash, and sits in one of the two.  It is only an index: entries are the caller's.
 *
 *   node      what the caller embeds in its entry; the table stores the node's address
 *   slot      8 bytes: 12 bits of tag (from the key), 41 of the node's address, 11 marks; 0 is free
 *   mark      what the caller says of all that hangs off a node, for walks that pass by the rest
 *   bucket    4 or 8 slots; 8 are one cache line, 4 are half of one
 *   side      one of the two partitions, A and B
 *   stripe    the lock, or the move counter, that many buckets share
 *   move      a node goes to its bucket on the other side, to make room
 *   guard     the two stripes of one key, locked: "the lock of this key"
 *   victim    the node that leaves the table when moving does not make room
 *   shape     one generation of the slots; doubling makes the next one, twice as large
 *   split     of a bucket: its nodes go to the two buckets of the next shape that follow from it
 *   leaf      the bucket that holds a key's nodes now: in the oldest shape where it is not split
 *
 * Threads: any.  Readers are online for RCU; what they find is borrowed until they go offline,
 * so the caller frees a node that left the table with rcu_free_later(), called after the call
 * that took it out has returned.  A thread holds one guard at a time, of all tables together.
 *
 * The table doubles online, bucket by bucket.  Bucket numbers are low bits of the key, so with one
 * more bit the nodes of bucket i go to buckets i and i + n of a table twice as large, on the same
 * side, and always fit there.  Stripes are the low bits of those numbers, so one stripe covers the
 * old bucket and both new ones.  The thread that doubles calls cuckoo_tend() now and then; until a
 * bucket's turn comes it is used as before, and afterwards its line says that it was split.  So a
 * lookup reads two lines as ever, or up to four while the table doubles.
 *
 * Why a lookup may trust what it saw is written at cuckoo_find() in cuckoo.c.
 */
#ifndef TARN_CUCKOO_H
#define TARN_CUCKOO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"

enum {
    CUCKOO_SLOTS_MAX = 8, /* a cache line */
    CUCKOO_ALIGN = 128,   /* of nodes, bytes: the low bits of their addresses are marks */
    CUCKOO_MARKS = 11,    /* bits */
    CUCKOO_BITS_MIN = 4,  /* one bucket of 8 on each side */
    CUCKOO_BITS_MAX = 34, /* 128 GiB of slots; leaves the tag bits of the key alone */
    /* The load at which a table doubles.  Random keys find room without victims up to 0.93 with 4
     * slots and 0.98 with 8, so there is time left to do it in small steps. */
    CUCKOO_GROW_PERCENT = 90,
};

struct cuckoo;        /* private to cuckoo*.c */
struct cuckoo_slot;   /* private to cuckoo*.c */
struct cuckoo_stripe; /* private to cuckoo*.c */

/* Embedded in the caller's entry, at CUCKOO_ALIGN.  The key does not change while readers may
 * see the node. */
struct cuckoo_node {
    struct hash128 key;
};

/* Where the table's memory comes from.  Called by open, tend and close, without a guard; free
 * also from RCU's thread. */
struct cuckoo_memory {
    void *(*alloc)(void *ctx, size_t bytes, size_t align); /* not zeroed; NULL: none left */
    void (*free)(void *ctx, void *p, size_t bytes);
    void *ctx; /* borrowed until cuckoo_close() */
};

struct cuckoo_conf {
    unsigned bits;     /* log2 of the number of slots, both sides together; to begin with */
    unsigned bits_max; /* up to which it doubles; 0, or as `bits`: its size is fixed */
    unsigned slots;    /* to a bucket: 4 or 8 */
    struct cuckoo_memory memory;
    /* How useful is this node?  The least useful of two buckets is the victim.  Called with the
     * lock of the node's bucket held; must not call the table. */
    int (*usefulness)(const struct cuckoo_node *node);
};

/* Filled in by cuckoo_lock(); lives on the caller's stack.  Only `key` is for reading. */
struct cuckoo_guard {
    const struct cuckoo *table; /* NULL: not locked */
    struct hash128 key;
    bool keyed; /* false: one bucket of cuckoo_each(), and no key */
    struct cuckoo_stripe *stripe[2];
    struct cuckoo_slot *bucket[2];
};

/* The least `bits` at which `entries` nodes fit with little moving. */
unsigned cuckoo_bits_for(uint64_t entries, unsigned slots);

/* What a table that begins with this shape takes from its memory. */
size_t cuckoo_bytes(unsigned bits, unsigned slots);

/* 0 and an empty table owned by the caller in *out; or TERR_NOMEM, or TERR_CONFIG for bits or
 * slots out of range, and *out untouched. */
int cuckoo_open(struct cuckoo **out, const struct cuckoo_conf *conf);

/* Takes *tp.  No other thread may use the table any more.  Nodes still in it are not touched.
 * For a thread that is offline: it waits for the grace period of what doubling left behind. */
void cuckoo_close(struct cuckoo **tp);

/* The node with this key, borrowed until the thread goes offline; NULL: not there.  For threads
 * that are online and hold no guard. */
struct cuckoo_node *cuckoo_find(const struct cuckoo *t, const struct hash128 *key);

/* Locks the key's two buckets.  Until cuckoo_unlock() no other thread holds this key's guard, none
 * of the calls below changes anything under this key, and the key's node does not move.  The
 * caller may let the guard protect what it keeps for the key, in the table or not.  Hold it
 * briefly: other keys wait for the same stripes. */
void cuckoo_lock(const struct cuckoo *t, const struct hash128 *key, struct cuckoo_guard *g);
void cuckoo_unlock(const struct cuckoo *t, struct cuckoo_guard *g);

/* The node with the guard's key, or NULL; certain, unlike any earlier cuckoo_find(). */
struct cuckoo_node *cuckoo_find_locked(const struct cuckoo *t, const struct cuckoo_guard *g);

/* Puts in a node with the guard's key, which is not in the table.  0, and readers can see it;
 * or TERR_LIMIT: both buckets are full.  Then:
 *
 *     cuckoo_lock(t, &key, &g);
 *     while (cuckoo_find_locked(t, &g) == NULL && cuckoo_insert(t, &g, &e->node) < 0) {
 *         victim = cuckoo_make_room(t, &g);
 *         if (victim != NULL)
 *             ... unlink it from what is ours, free it with rcu_free_later() ...
 *     }
 */
int cuckoo_insert(struct cuckoo *t, struct cuckoo_guard *g, struct cuckoo_node *node);

/* Makes sure that one of the guard's two buckets has a free slot.
 *
 * DROPS AND RETAKES THE GUARD: whatever the caller learned under it must be looked at again; in
 * particular another thread may have put in the same key.  Once back, cuckoo_insert() succeeds
 * for as long as the guard is held.  For threads that are online.
 *
 * NULL: nodes were moved, or one left meanwhile.  Else a victim: it has been taken out of the
 * table, is counted as evicted, and is now the caller's.  Its key is another one, yet the guard
 * excludes all holders of the victim's own, because they share the bucket it was in.  So
 * the caller may undo what it keeps for the victim's key under this guard. */
struct cuckoo_node *cuckoo_make_room(struct cuckoo *t, struct cuckoo_guard *g);

/* `next` takes the place of `old`, which is in the table under the guard's lock and has the same
 * key, and its marks.  A reader finds the one or the other, never neither.  `old` is the caller's
 * again. */
void cuckoo_replace(
    struct cuckoo *t, struct cuckoo_guard *g, struct cuckoo_node *old, struct cuckoo_node *next);

/* Takes out a node that is in the table under the guard's lock; it is the caller's again. */
void cuckoo_remove(struct cuckoo *t, struct cuckoo_guard *g, struct cuckoo_node *node);

/* Adds marks to those of the guard's key, which is in the table.  They stay until it is taken out. */
void cuckoo_mark(struct cuckoo *t, struct cuckoo_guard *g, unsigned marks);

/* Does the table want to be tended?  Two loads; any thread. */
bool cuckoo_wants_tending(const struct cuckoo *t);

/* Will it soon want to double, and need more than `alloc_max` bytes at once for it? */
bool cuckoo_outgrows(const struct cuckoo *t, size_t alloc_max);

/* Begins to double the table when its load has passed CUCKOO_GROW_PERCENT, and splits up to
 * `buckets` buckets of one that is being doubled.  Costs little when there is nothing to do, or when
 * another thread is at it.  It does not begin when that would take more than `alloc_max` bytes
 * at once: for a thread that may not pause; one with a greater bound should call it too.
 *
 * Memory for the next shape is asked for while the present one stays, so for a while both count.
 * When there is none the table goes on as it is, moves nodes and gives up victims as one
 * of fixed size, and tries again when it has a 64th of its slots more to hold.
 *
 * For threads that are online and hold no guard. */
void cuckoo_tend(struct cuckoo *t, unsigned buckets, size_t alloc_max);

/* One node, as walks show it. */
struct cuckoo_seen {
    unsigned side; /* 0: A, 1: B */
    size_t bucket; /* its number on this side */
    unsigned slot;
    uint16_t tag;
    struct cuckoo_node *node;
};

/* The guard locks the bucket of `seen`, which excludes any holder of the guard of that node's
 * key.  The callback may remove or replace this node under it, and call nothing else here. */
typedef void cuckoo_each_f(void *ctx, struct cuckoo_guard *g, const struct cuckoo_seen *seen);

/* How many buckets there are, both sides together. */
size_t cuckoo_buckets(const struct cuckoo *t);

/* Walks in slices: shows the nodes of one bucket under its lock, and puts *cursor on the next.
 * A walk begins with 0, and has seen everything when it is 0 again.
 *
 * Buckets come in the order of their numbers' reversed bits, so a bucket and the two it is
 * split into stand for the same stretch of the walk: doubling meanwhile neither hides nor repeats a
 * node.  What is moved between two slices is seen twice or not at all.  Any cursor is legal. */
void cuckoo_each_next(const struct cuckoo *t, uint64_t *cursor, cuckoo_each_f *each, void *ctx);

/* The same without a lock, for a caller that may overlook what comes, goes or moves meanwhile: the
 * nodes of one bucket that have one of the marks, or all for 0, and how many.  Only the bucket is
 * read.  For threads that are online; the nodes are borrowed until these go offline. */
unsigned cuckoo_peek_next(const struct cuckoo *t, uint64_t *cursor, unsigned marks,
    struct cuckoo_node *nodes[CUCKOO_SLOTS_MAX]);

/* Shows every node.  True: no node moved meanwhile, so whatever was in the table all the time
 * was seen once.  False: something may have been missed.  To empty the table repeat until true,
 * which ends soon, for nothing moves in a table with room. */
bool cuckoo_each(const struct cuckoo *t, cuckoo_each_f *each, void *ctx);

/* How many nodes were displaced: of two equal readings no move ended and began between. */
uint64_t cuckoo_moves(const struct cuckoo *t);

struct cuckoo_stats {
    uint64_t entries;
    uint64_t capacity; /* slots that can be used now */
    double load;       /* entries / capacity */
    uint64_t moved;    /* nodes displaced to their other side */
    uint64_t paths;    /* displacements: each moved one node or several */
    uint64_t path_max; /* moves of the longest */
    uint64_t evicted;  /* victims */
    uint64_t retried;  /* times a lookup looked again because something moved */
    uint64_t locked;   /* lookups that ended under the locks */
    uint64_t bytes;    /* taken from the memory now; of both shapes while it doubles */
    uint64_t doubled;  /* times it has doubled */
    uint64_t refused;  /* times it should have, and there was no memory */
    uint64_t split;    /* buckets split of the `splitting` that there are; 0 of 0: not now */
    uint64_t splitting;
    bool growing;
    unsigned bits, bits_max, slots;
};

/* Takes no lock; under way changes are in it or not. */
void cuckoo_stats(const struct cuckoo *t, struct cuckoo_stats *out);

/* buckets[n] is how many buckets hold n nodes.  Looks at `most` buckets, spread over both sides,
 * or at all when there are fewer; returns how many.  Without locks; for threads that are online. */
size_t cuckoo_occupancy(
    const struct cuckoo *t, size_t most, uint64_t buckets[CUCKOO_SLOTS_MAX + 1]);

#endif
