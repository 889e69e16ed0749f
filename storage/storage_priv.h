/* storage_priv.h -- stores and objects from the inside.  For storage/ only.
 *
 *   owner   a reference of stobj_new() or stobj_ref()
 *   hold    a reference of an iterator
 *   stripe  one of a store's locks; an object always uses the same one
 *
 * Lock order: a window's lock or a stripe or the fault engine's, then the budget's.
 */
#ifndef TARN_STORAGE_PRIV_H
#define TARN_STORAGE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/waiter.h"
#include "storage/budget.h"
#include "storage/engine.h"
#include "storage/mem.h"

enum {
    STORAGE_STRIPES = 64, /* objects being filled at a time are hundreds, not millions */
    STORAGE_MAX = 16,     /* stores of a process: an object knows its own by number */
};

struct stripe {
    _Alignas(64) pthread_mutex_t lock;
};

#define STORAGE_MAGIC OBJ_TAG('s', 't', 'o', 'r')
struct storage {
    uint32_t magic;
    /* set once at open */
    unsigned number;
    const struct engine_ops *ops;
    const struct conf_storage *conf; /* borrowed */
    struct mem mem;
    void *priv; /* the engine's */
    /* any thread */
    struct budget budget;
    _Alignas(64) _Atomic uint64_t objects;
    _Atomic uint64_t allocs, frees, failures, waits;
    struct stripe stripes[STORAGE_STRIPES];
};

/* What an object has only while it is filled; an engine's own follows it. */
struct stobj_fill {
    struct span span; /* the writer's only: what space_get gave; len 0: none outstanding */
};

/* Owners and holds are counted in one word, because two questions are asked of it at once:
 * is a reference left, and is one left that could finish it? */
#define STOBJ_HOLD  UINT64_C(1)
#define STOBJ_OWNER (UINT64_C(1) << 32)

/* The head of every engine's objects. */
#define STOBJ_MAGIC OBJ_TAG('s', 't', 'o', 'b')
struct stobj {
    uint32_t magic;
    _Atomic uint8_t state; /* enum stobj_state; once not FILLING, never changes */
    uint8_t kind : 4;      /* set once */
    uint8_t store : 4;     /* set once: stobj_store() */
    int8_t err;            /* the writer's; of space_fail, for a core dump to show */
    uint8_t own;           /* the engine's */
    _Atomic uint64_t refs;
    _Atomic uint64_t len;    /* published; stored by the writer only */
    struct stobj_fill *fill; /* NULL when the engine is through with it */
};

_Static_assert(STORAGE_MAX <= 1 << 4, "a number has room");

/* By number: set by storage_open() until storage_close(), before any object and behind all of them. */
extern struct storage *storage_all[STORAGE_MAX];

/* Borrowed. */
static inline struct storage *
stobj_store(const struct stobj *o)
{
    return storage_all[o->store];
}

void stobj_init(struct stobj *o, struct storage *s, enum stobj_kind kind, enum stobj_state state);
/* The only place that changes the state: FILLING becomes SETTLED or FAILED. */
void stobj_set_state(struct stobj *o, enum stobj_state to);

/* An iterator's reference. */
void stobj_hold(struct stobj *o);
void stobj_unhold(struct stobj *o);

/* stobj_synth_new()'s way in: a synth's objects are not filled, so it has no obj_new. */
int engine_synth_new(struct stobj **out, struct storage *s);
void engine_synth_reset(struct stobj *o);
void engine_synth_own(struct stobj *o, void (*release)(void *owner), void *owner);

static inline pthread_mutex_t *
stobj_lock(const struct stobj *o)
{
    return &stobj_store(o)->stripes[((uintptr_t)o >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 58].lock;
}

/* Charged memory.  `size` is charged as its cost; *out is written only when 0 is answered. */
int store_get(struct storage *s, size_t size, enum charge what, enum budget_how how, void **out);
/* As BUDGET_CAN_WAIT; when it answers -EAGAIN, w is armed with the budget. */
int store_get_or_wait(
    struct storage *s, size_t size, enum charge what, struct waiter *w, void **out);
void store_put(struct storage *s, void *p, size_t size, enum charge what);

/* Under the list's lock, whatever state the waiter is in.  A POSTED one lands later than now,
 * so a waiter that looks again then sees what is seen now. */
static inline void
storage_arm(struct waiter *w, struct list *waiting)
{
    if (w != NULL && waiter_state(w) == WAITER_IDLE)
        waiter_arm(w, waiting);
}

static inline void
storage_disarm(struct waiter *w)
{
    if (w != NULL && waiter_state(w) == WAITER_ARMED)
        waiter_disarm(w);
}

#endif
