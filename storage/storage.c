/* storage.c -- stores, objects and their writers: the checked way to an engine.
 *
 * The contracts of storage.h are asserted here, once, for every engine.  Those of lease.h
 * are in lease.c. */
#include "storage/storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "storage/storage_priv.h"

_Static_assert(TERR_COUNT < INT8_MAX, "an object has 8 bits for an error");
_Static_assert(STORAGE_STRIPES == 1 << (64 - 58), "stobj_lock() takes the six highest bits");

static const struct engine_ops *const storage_engines[] = {
    &engine_malloc,
    &engine_synth,
    &engine_fault,
};

static void
storage_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- Stores ---- */

struct storage *storage_all[STORAGE_MAX];
static pthread_mutex_t storage_all_lock = PTHREAD_MUTEX_INITIALIZER;

/* False: there are too many. */
static bool
storage_enlist(struct storage *s)
{
    unsigned n = 0;

    pthread_mutex_lock(&storage_all_lock);
    while (n < STORAGE_MAX && storage_all[n] != NULL)
        n++;
    if (n < STORAGE_MAX)
        storage_all[n] = s;
    pthread_mutex_unlock(&storage_all_lock);
    s->number = n;
    return n < STORAGE_MAX;
}

/* After the last object: from now on its number may be another store's. */
static void
storage_strike(const struct storage *s)
{
    pthread_mutex_lock(&storage_all_lock);
    storage_all[s->number] = NULL;
    pthread_mutex_unlock(&storage_all_lock);
}

static const struct engine_ops *
storage_find_engine(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(storage_engines); i++)
        if (strcmp(storage_engines[i]->name, name) == 0)
            return storage_engines[i];
    return NULL;
}

static struct storage *
storage_new(const struct conf_storage *conf, const struct engine_ops *ops)
{
    /* Not calloc: the counters ask for cache lines of their own. */
    struct storage *s = aligned_alloc(_Alignof(struct storage), sizeof *s);

    if (s == NULL)
        return NULL;
    memset(s, 0, sizeof *s);
    s->magic = STORAGE_MAGIC;
    s->ops = ops;
    s->conf = conf;
    budget_init(&s->budget, conf->size > 0 ? conf->size : ops->default_size);
    for (unsigned i = 0; i < STORAGE_STRIPES; i++)
        pthread_mutex_init(&s->stripes[i].lock, NULL);
    return s;
}

static void
storage_delete(struct storage *s)
{
    for (unsigned i = 0; i < STORAGE_STRIPES; i++)
        pthread_mutex_destroy(&s->stripes[i].lock);
    budget_fini(&s->budget);
    OBJ_FREE(s);
}

/* What succeeded is undone in reverse order.  The number comes before the engine's open: objects
 * find their store by it. */
int
storage_open(struct storage **out, const struct conf_storage *conf)
{
    const struct engine_ops *ops = storage_find_engine(conf->engine);
    struct storage *s;
    int err;

    if (ops == NULL)
        return -EINVAL;
    tassert(ops->magic == ENGINE_MAGIC);
    s = storage_new(conf, ops);
    if (s == NULL)
        return -ENOMEM;
    err = storage_enlist(s) ? 0 : -ENOMEM;
    if (err < 0)
        goto fail;
    err = mem_open(&s->mem);
    if (err < 0)
        goto strike;
    err = ops->open != NULL ? ops->open(s) : 0;
    if (err < 0)
        goto close;
    *out = s;
    return 0;

close:
    mem_close(&s->mem);
strike:
    storage_strike(s);
fail:
    storage_delete(s);
    return err;
}

/* An object is counted down after its obj_free(), so at 0 no thread is inside the engine any more.
 * The arena goes last of the memory, with whatever is still in it. */
void
storage_close(struct storage **sp)
{
    struct storage *s;

    OBJ_TAKE(s, sp, STORAGE_MAGIC);
    tassert(atomic_load(&s->objects) == 0);
    tassert_slow(atomic_load(&s->budget.charged) == 0); /* a caller kept raw memory */
    if (s->ops->close != NULL)
        s->ops->close(s);
    mem_close(&s->mem);
    storage_strike(s);
    storage_delete(s);
}

void
storage_get_stats(const struct storage *s, struct storage_stats *out)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    *out = (struct storage_stats){
        .size = s->budget.limit,
        .charged = atomic_load_explicit(&s->budget.charged, memory_order_relaxed),
        .objects = atomic_load_explicit(&s->objects, memory_order_relaxed),
        .allocs = atomic_load_explicit(&s->allocs, memory_order_relaxed),
        .frees = atomic_load_explicit(&s->frees, memory_order_relaxed),
        .failures = atomic_load_explicit(&s->failures, memory_order_relaxed),
        .waits = atomic_load_explicit(&s->waits, memory_order_relaxed),
    };
    for (unsigned i = 0; i < CHARGE_COUNT; i++)
        out->leaf[i] = atomic_load_explicit(&s->budget.leaf[i], memory_order_relaxed);
}

/* The most evicted at a time, so that other users of the eviction queue wait little. */
#define STORAGE_SHRINK_STEP (UINT64_C(32) << 20)

bool
storage_resize(struct storage *s, uint64_t size)
{
    uint64_t from = atomic_load_explicit(&s->budget.limit, memory_order_relaxed);
    uint64_t charged = atomic_load_explicit(&s->budget.charged, memory_order_relaxed);
    uint64_t step = size;

    OBJ_CHECK(s, STORAGE_MAGIC);
    tassert(size > 0);
    /* Size without content is given up in one step: nothing is evicted for it. */
    if (charged < from)
        from = charged;
    if (from > size && from - size > STORAGE_SHRINK_STEP)
        step = from - STORAGE_SHRINK_STEP;
    budget_resize(&s->budget, step);
    return step == size;
}

/* At start, before any other thread uses the store: `evict` is read without a lock. */
void
storage_set_evictor(struct storage *s, uint64_t (*evict)(void *ctx, uint64_t bytes), void *ctx)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    tassert(s->budget.evict == NULL);
    s->budget.ctx = ctx;
    s->budget.evict = evict;
}

void
storage_promise(struct storage *s, uint64_t bytes)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    budget_promise(&s->budget, bytes);
}

void
storage_promise_kept(struct storage *s, uint64_t bytes)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    budget_promise_kept(&s->budget, bytes);
}

/* ---- Charged memory ---- */

/* Charged before it is allocated: the other way round many threads together would pass the size
 * first and be refused then.  What cannot be allocated is not charged. */
int
store_get(struct storage *s, size_t size, enum charge what, enum budget_how how, void **out)
{
    size_t cost = mem_cost(&s->mem, size);
    void *p;
    int err;

    if (cost == 0)
        return -ENOMEM;
    err = budget_charge(&s->budget, what, cost, how);
    if (err < 0)
        return err;
    p = s->ops->alloc(s, mem_class(size));
    if (p == NULL) {
        budget_release(&s->budget, what, cost);
        return -ENOMEM;
    }
    storage_count(&s->allocs);
    *out = p;
    return 0;
}

/* budget_wait() answers false when room came between the refusal and the arming: then it is tried
 * again, or the waiter would wait for a release that has been. */
int
store_get_or_wait(struct storage *s, size_t size, enum charge what, struct waiter *w, void **out)
{
    int err;

    do
        err = store_get(s, size, what, BUDGET_CAN_WAIT, out);
    while (err == -EAGAIN && !budget_wait(&s->budget, mem_cost(&s->mem, size), w));
    return err;
}

void
store_put(struct storage *s, void *p, size_t size, enum charge what)
{
    s->ops->free(s, p, mem_class(size));
    storage_count(&s->frees);
    /* After the free: a woken waiter finds the bytes. */
    budget_release(&s->budget, what, mem_cost(&s->mem, size));
}

void *
storage_alloc(struct storage *s, size_t size, enum charge what)
{
    void *p;

    OBJ_CHECK(s, STORAGE_MAGIC);
    tassert(size > 0);
    if (store_get(s, size, what, BUDGET_NO_WAIT, &p) < 0) {
        storage_count(&s->failures);
        return NULL;
    }
    return p;
}

void
storage_free(struct storage *s, void *p, size_t size, enum charge what)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    tassert(p != NULL);
    tassert(size > 0);
    store_put(s, p, size, what);
}

/* The caller keeps what it has reported, and reports `to` 0 at its end: storage_close() asserts
 * that nothing is charged. */
void
storage_charge(struct storage *s, enum charge what, uint64_t from, uint64_t to)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    if (to > from)
        budget_charge(&s->budget, what, to - from, BUDGET_FORCE);
    else if (to < from)
        budget_release(&s->budget, what, from - to);
}

void
storage_tidy(bool all)
{
    mem_tidy(all);
}

size_t
storage_good_size(const struct storage *s, size_t size)
{
    OBJ_CHECK(s, STORAGE_MAGIC);
    return mem_cost(&s->mem, size);
}

/* ---- Objects ---- */

/* By an engine, once the object's memory is charged. The one owner is the caller of stobj_new(). */
void
stobj_init(struct stobj *o, struct storage *s, enum stobj_kind kind, enum stobj_state state)
{
    *o = (struct stobj){.magic = STOBJ_MAGIC, .kind = (uint8_t)kind & 15, .store = s->number & 15};
    atomic_init(&o->state, (uint8_t)state);
    atomic_init(&o->refs, STOBJ_OWNER);
    atomic_init(&o->len, 0);
    storage_count(&s->objects);
}

void
stobj_set_state(struct stobj *o, enum stobj_state to)
{
    tassert(atomic_load(&o->state) == STOBJ_FILLING);
    tassert(to == STOBJ_SETTLED || to == STOBJ_FAILED);
    atomic_store(&o->state, (uint8_t)to);
}

/* -ENOSPC and -ENOMEM are counted, and no other errno comes without a waiter. */
static int
storage_answer(struct storage *s, int err, const struct waiter *w)
{
    if (err == -EAGAIN) {
        storage_count(&s->waits);
        /* Armed, or posted already. */
        tassert(w == NULL || waiter_pending(w) || task_is_queued(w->task));
        return err;
    }
    tassert(err == 0 || err == -ENOSPC || err == -ENOMEM);
    if (err < 0)
        storage_count(&s->failures);
    return err;
}

/* On an error *out is not written, and nothing is charged. */
static int
stobj_make(struct stobj **out, struct storage *s, const struct stobj_spec *spec)
{
    int err;

    OBJ_CHECK(s, STORAGE_MAGIC);
    tassert(spec->kind == STOBJ_KEPT || spec->kind == STOBJ_PRIVATE || spec->kind == STOBJ_SHARED);
    tassert(spec->kind == STOBJ_KEPT || spec->transit_bytes > 0);
    err = s->ops->obj_new != NULL ? s->ops->obj_new(out, s, spec) : -ENOSPC;
    tassert(err != -EAGAIN); /* there is no waiter */
    return storage_answer(s, err, NULL);
}

int
stobj_new(struct stobj **out, struct storage *s, enum stobj_kind kind, uint64_t size_hint,
    uint64_t transit_bytes)
{
    const struct stobj_spec spec = {.kind = kind,
        .size_hint = size_hint,
        .transit_bytes = transit_bytes,
        .alone_bytes = transit_bytes,
        .first_bytes = transit_bytes};

    return stobj_make(out, s, &spec);
}

int
stobj_new_private(struct stobj **out, struct storage *s, uint64_t size_hint, uint64_t transit_bytes,
    uint64_t first_bytes)
{
    const struct stobj_spec spec = {.kind = STOBJ_PRIVATE,
        .size_hint = size_hint,
        .transit_bytes = transit_bytes,
        .alone_bytes = transit_bytes,
        .first_bytes = first_bytes};

    tassert(first_bytes > 0);
    return stobj_make(out, s, &spec);
}

int
stobj_new_shared(struct stobj **out, struct storage *s, uint64_t size_hint, uint64_t window_bytes,
    uint64_t alone_bytes, unsigned patience)
{
    const struct stobj_spec spec = {.kind = STOBJ_SHARED,
        .size_hint = size_hint,
        .transit_bytes = window_bytes,
        .alone_bytes = alone_bytes,
        .first_bytes = alone_bytes,
        .grace = true,
        .patience = patience};

    tassert(alone_bytes > 0 && alone_bytes <= window_bytes);
    return stobj_make(out, s, &spec);
}

struct stobj *
stobj_ref(struct stobj *o)
{
    uint64_t had;

    OBJ_CHECK(o, STOBJ_MAGIC);
    had = atomic_fetch_add_explicit(&o->refs, STOBJ_OWNER, memory_order_relaxed);
    tassert(had >= STOBJ_OWNER); /* else what the last owner's going did is undone */
    return o;
}

/* Gives back `what`: one STOBJ_OWNER or STOBJ_HOLD. acq_rel: the last one frees, and must do so
 * after all that the others have read and written under their references. */
static void
stobj_release(struct stobj *o, uint64_t what)
{
    unsigned store = o->store; /* read now: once counted down, o may be gone */
    struct storage *s;
    uint64_t had = atomic_fetch_sub_explicit(&o->refs, what, memory_order_acq_rel);

    tassert(had >= what);
    if (had != what)
        return;
    tassert(atomic_load(&o->state) != STOBJ_FILLING);
    s = storage_all[store];
    s->ops->obj_free(o);
    atomic_fetch_sub(&s->objects, 1); /* after the free: storage_close() counts on it */
}

/* The error first, for the state publishes it.  The span ends here: its bytes may be trimmed or
 * moved. */
static void
stobj_settle(struct stobj *o, enum stobj_state to, int err)
{
    tassert(stobj_state(o) == STOBJ_FILLING);
    o->err = (int8_t)err;
    if (o->fill != NULL)
        o->fill->span.len = 0;
    stobj_store(o)->ops->settle(o, to);
    tassert(stobj_state(o) == to);
}

void
stobj_unref(struct stobj **op)
{
    struct stobj *o;
    uint64_t left;

    OBJ_TAKE(o, op, STOBJ_MAGIC);
    if (stobj_state(o) != STOBJ_FILLING) {
        stobj_release(o, STOBJ_OWNER);
        return;
    }
    /* The owner becomes a holder, so that the object stays while we look.  Only one thread
     * can take the owners to none, and after that no owner is left to finish the object. */
    left = atomic_fetch_sub(&o->refs, STOBJ_OWNER - STOBJ_HOLD) - (STOBJ_OWNER - STOBJ_HOLD);
    if (left < STOBJ_OWNER && stobj_state(o) == STOBJ_FILLING)
        stobj_settle(o, STOBJ_FAILED, -ECANCELED);
    stobj_release(o, STOBJ_HOLD);
}

/* Relaxed: the borrow keeps the object until the count is up. */
void
stobj_hold(struct stobj *o)
{
    uint64_t had = atomic_fetch_add_explicit(&o->refs, STOBJ_HOLD, memory_order_relaxed);

    tassert(had > 0); /* the borrow was none */
}

void
stobj_unhold(struct stobj *o)
{
    stobj_release(o, STOBJ_HOLD);
}

/* Acquire: after SETTLED or FAILED the length and the segments that are read are final. */
enum stobj_state
stobj_state(const struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    return (enum stobj_state)atomic_load_explicit(&o->state, memory_order_acquire);
}

/* Acquire: the bytes before it can be read. */
uint64_t
stobj_len(const struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    return atomic_load_explicit(&o->len, memory_order_acquire);
}

void
stobj_wake_writer(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    if (stobj_store(o)->ops->wake != NULL)
        stobj_store(o)->ops->wake(o);
}

void
stobj_shut_window(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    if (stobj_store(o)->ops->shut != NULL)
        stobj_store(o)->ops->shut(o);
}

bool
stobj_expire_window(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    return stobj_store(o)->ops->expire == NULL || stobj_store(o)->ops->expire(o);
}

void
stobj_expect(struct stobj *o, int32_t n)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    if (stobj_store(o)->ops->expect != NULL)
        stobj_store(o)->ops->expect(o, n, true);
}

/* Without a window everything stays, so there is always a place. */
bool
stobj_let_in(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    return stobj_store(o)->ops->expect == NULL || stobj_store(o)->ops->expect(o, 1, false);
}

void
stobj_touch_window(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    if (stobj_store(o)->ops->touch != NULL)
        stobj_store(o)->ops->touch(o);
}

uint64_t
stobj_window_start(const struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    return stobj_store(o)->ops->start != NULL ? stobj_store(o)->ops->start(o) : 0;
}

bool
stobj_contains(struct stobj *o, const char *ptr, size_t len)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    return stobj_store(o)->ops->contains(o, ptr, len);
}

/* ---- The writer ---- */

/* First line of the writer's calls: there is one, and it is not through. */
static void
space_check(const struct stobj *o)
{
    tassert(stobj_state(o) == STOBJ_FILLING);
    tassert(atomic_load_explicit(&o->refs, memory_order_relaxed) >= STOBJ_OWNER);
    tassert(o->fill != NULL);
}

int
space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w)
{
    struct span *span;
    int err;

    space_check(o);
    tassert(want > 0);
    span = &o->fill->span;
    if (span->len == 0) {
        err = stobj_store(o)->ops->space_get(o, want, span, w);
        if (err < 0) {
            /* An engine may have begun to write it. */
            span->len = 0;
            return storage_answer(stobj_store(o), err, w);
        }
        tassert(span->len > 0);
        tassert(span->len <= want);
    }
    *out = *span;
    return 0;
}

/* Not while a span is outstanding: the span is the next bytes, and would be reserved twice. */
int
space_reserve(struct stobj *o, uint64_t bytes, struct waiter *w)
{
    int err;

    space_check(o);
    tassert(o->fill->span.len == 0);
    err = stobj_store(o)->ops->space_reserve(o, bytes, w);
    return err < 0 ? storage_answer(stobj_store(o), err, w) : 0;
}

/* With 0 used the span is given up: the next space_get() asks the engine again. */
void
space_extend(struct stobj *o, size_t used)
{
    space_check(o);
    tassert(used <= o->fill->span.len); /* which is 0 when no span is outstanding */
    o->fill->span.len = 0;
    if (used > 0)
        stobj_store(o)->ops->space_extend(o, used);
}

void
space_finish(struct stobj *o)
{
    space_check(o);
    stobj_settle(o, STOBJ_SETTLED, 0);
}

/* The caller still has its reference, and cancels its waiter before (storage.h). */
void
space_fail(struct stobj *o, int err)
{
    space_check(o);
    stobj_settle(o, STOBJ_FAILED, err);
}

void
space_cancel(struct stobj *o, struct waiter *w)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    tassert(w != NULL);
    /* Only the home loop arms, and it is here: what is not ARMED now needs no lock. */
    if (waiter_state(w) == WAITER_ARMED)
        stobj_store(o)->ops->space_cancel(o, w);
    tassert(waiter_state(w) != WAITER_ARMED);
}

/* ---- Synthetic bodies ---- */

int
stobj_synth_new(struct stobj **out, struct storage *synth)
{
    OBJ_CHECK(synth, STORAGE_MAGIC);
    tassert(synth->ops == &engine_synth);
    return storage_answer(synth, engine_synth_new(out, synth), NULL);
}

/* On an error `owner` stays the caller's, and release() is not called. */
int
stobj_synth_new_owned(
    struct stobj **out, struct storage *synth, void (*release)(void *owner), void *owner)
{
    int err = stobj_synth_new(out, synth);

    if (err == 0)
        engine_synth_own(*out, release, owner);
    return err;
}

/* Exactly one owner and no reader: no other thread can get a reference then.  The acquire makes
 * their reads of the list come before its new contents. */
bool
stobj_synth_reset(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    if (atomic_load_explicit(&o->refs, memory_order_acquire) != STOBJ_OWNER)
        return false;
    engine_synth_reset(o);
    return true;
}

int
stobj_synth_add(struct stobj *o, struct slice bytes)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    tassert(stobj_store(o)->ops->add != NULL);
    tassert(bytes.ptr != NULL || bytes.len == 0);
    return storage_answer(stobj_store(o), stobj_store(o)->ops->add(o, bytes), NULL);
}
