/* engine_fault.c -- engine malloc with faults on request, for tests. */
#include "storage/engine_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "storage/storage_priv.h"

enum {
    FAULT_ALLOC,
    FAULT_FULL,
    FAULT_HOLD,
    FAULT_AGAIN,
    FAULT_EIO,
    FAULT_SLOW,
    FAULT_COUNT
};

/* A word of the specification.  An event that answers "look again" each time would be looked
 * at for ever, so those start at every second. */
static const struct {
    const char *word;
    uint64_t least;
} fault_words[] = {
    /* clang-format off */
    [FAULT_ALLOC] = { "alloc", 1 },
    [FAULT_FULL]  = { "full",  1 },
    [FAULT_HOLD]  = { "hold",  2 },
    [FAULT_AGAIN] = { "again", 2 },
    [FAULT_EIO]   = { "eio",   1 },
    [FAULT_SLOW]  = { "slow",  2 },
    /* clang-format on */
};

#define FAULT_MAGIC OBJ_TAG('f', 'a', 'u', 'l')
struct fault {
    uint32_t magic;
    uint64_t n[FAULT_COUNT]; /* set by engine_fault_set(); 0: never */
    _Atomic uint64_t seen[FAULT_COUNT];
    pthread_mutex_t lock;
    struct list held; /* under lock */
};

static struct fault *
fault_of(const struct storage *s)
{
    struct fault *f = s->priv;

    tassert(s->ops == &engine_fault);
    OBJ_CHECK(f, FAULT_MAGIC);
    return f;
}

/* ---- The specification ---- */

/* The first character must be a digit: strtoull() alone would take blanks and a sign, and -1 as
 * 2^64 - 1. */
static int
fault_parse_word(uint64_t n[FAULT_COUNT], const char *word, size_t len)
{
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        size_t name = strlen(fault_words[i].word);
        char *end;

        /* The =, and a digit at least. */
        if (len < name + 2 || strncmp(word, fault_words[i].word, name) != 0 || word[name] != '=')
            continue;
        if (word[name + 1] < '0' || word[name + 1] > '9')
            return -EINVAL;
        errno = 0;
        n[i] = strtoull(word + name + 1, &end, 10);
        return end == word + len && errno == 0 && n[i] >= fault_words[i].least ? 0 : -EINVAL;
    }
    return -EINVAL;
}

static int
fault_parse(uint64_t n[FAULT_COUNT], const char *spec)
{
    static const char between[] = ", \t";

    for (spec += strspn(spec, between); *spec != '\0'; spec += strspn(spec, between)) {
        size_t len = strcspn(spec, between);

        if (fault_parse_word(n, spec, len) < 0)
            return -EINVAL;
        spec += len;
    }
    return 0;
}

/* Parsed into a copy, so that a wrong specification changes nothing. */
int
engine_fault_set(struct storage *s, const char *spec)
{
    struct fault *f = fault_of(s);
    uint64_t n[FAULT_COUNT] = {0};

    if (fault_parse(n, spec) < 0)
        return -EINVAL;
    tassert(list_empty(&f->held));
    memcpy(f->n, n, sizeof n);
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        atomic_store(&f->seen[i], 0);
    return 0;
}

static int
fault_open(struct storage *s)
{
    struct fault *f = calloc(1, sizeof *f);
    int err;

    if (f == NULL)
        return -ENOMEM;
    f->magic = FAULT_MAGIC;
    pthread_mutex_init(&f->lock, NULL);
    list_init(&f->held);
    s->priv = f;
    err = engine_fault_set(s, s->conf->fault != NULL ? s->conf->fault : "");
    if (err < 0)
        free(f);
    return err;
}

static void
fault_close(struct storage *s)
{
    struct fault *f = fault_of(s);

    tassert(list_empty(&f->held));
    pthread_mutex_destroy(&f->lock);
    OBJ_FREE(f);
}

/* ---- What goes wrong ---- */

/* Counted over all threads of the store; each event has one thread that sees its number. */
static uint64_t
fault_count(struct fault *f, unsigned what)
{
    return atomic_fetch_add(&f->seen[what], 1) + 1;
}

static bool
fault_once(struct fault *f, unsigned what)
{
    return f->n[what] != 0 && fault_count(f, what) == f->n[what];
}

static bool
fault_every(struct fault *f, unsigned what)
{
    return f->n[what] != 0 && fault_count(f, what) % f->n[what] == 0;
}

static bool
fault_full(struct storage *s)
{
    uint64_t n = fault_of(s)->n[FAULT_FULL];

    /* By the real budget: what tests store and free moves it. */
    return n != 0 && atomic_load(&s->budget.charged) >= n;
}

/* Is w held by us?  If not, an ARMED one is engine malloc's.  Under lock. */
static bool
fault_holds(struct fault *f, const struct waiter *w)
{
    for (struct list *l = f->held.next; l != &f->held; l = l->next)
        if (container_of(l, struct waiter, link) == w)
            return true;
    return false;
}

/* The waiter is the caller's own.  A tick on another thread may post it as soon as the lock is
 * free, which is a wake-up like any other. */
static bool
fault_is_held(struct fault *f, const struct waiter *w)
{
    bool held;

    pthread_mutex_lock(&f->lock);
    held = fault_holds(f, w);
    pthread_mutex_unlock(&f->lock);
    return held;
}

static void
fault_hold(struct fault *f, struct waiter *w)
{
    pthread_mutex_lock(&f->lock);
    /* Under the lock: a tick on another thread may find it at once. */
    storage_arm(w, &f->held);
    pthread_mutex_unlock(&f->lock);
}

/* Armed and notified in one go: as if the other side overtook the caller. */
static void
fault_notify(struct waiter *w)
{
    struct list here;

    list_init(&here);
    storage_arm(w, &here);
    waiter_notify_all(&here);
}

unsigned
engine_fault_tick(struct storage *s)
{
    struct fault *f = fault_of(s);
    unsigned n;

    pthread_mutex_lock(&f->lock);
    n = waiter_notify_all(&f->held);
    pthread_mutex_unlock(&f->lock);
    return n;
}

/* ---- The engine ---- */

static void *
fault_alloc(struct storage *s, size_t size)
{
    return fault_once(fault_of(s), FAULT_ALLOC) ? NULL : engine_malloc.alloc(s, size);
}

static void
fault_free(struct storage *s, void *p, size_t size)
{
    engine_malloc.free(s, p, size);
}

static int
fault_obj_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec)
{
    return fault_full(s) ? -ENOSPC : engine_malloc.obj_new(out, s, spec);
}

static void
fault_obj_free(struct stobj *o)
{
    engine_malloc.obj_free(o);
}

/* A writer that is held stays so until the tick, however often it asks.  A waiter is in one list
 * only, so one that engine malloc has is not held here as well. */
static int
fault_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w)
{
    struct fault *f = fault_of(stobj_store(o));

    if (w != NULL && fault_is_held(f, w))
        return -EAGAIN;
    /* A waiter that engine malloc has armed is left to it. */
    if (w != NULL && waiter_state(w) != WAITER_ARMED && fault_every(f, FAULT_HOLD)) {
        fault_hold(f, w);
        return -EAGAIN;
    }
    if (w != NULL && waiter_state(w) != WAITER_ARMED && fault_every(f, FAULT_AGAIN)) {
        fault_notify(w);
        return -EAGAIN;
    }
    return fault_full(stobj_store(o)) ? -ENOSPC : engine_malloc.space_get(o, want, out, w);
}

static int
fault_space_reserve(struct stobj *o, uint64_t bytes, struct waiter *w)
{
    return fault_full(stobj_store(o)) ? -ENOSPC : engine_malloc.space_reserve(o, bytes, w);
}

static void
fault_space_extend(struct stobj *o, size_t used)
{
    engine_malloc.space_extend(o, used);
}

/* Which list the waiter is in says which lock it is under: the wrong one would race with a
 * notification. */
static void
fault_space_cancel(struct stobj *o, struct waiter *w)
{
    struct fault *f = fault_of(stobj_store(o));
    bool held;

    pthread_mutex_lock(&f->lock);
    held = fault_holds(f, w);
    if (held)
        storage_disarm(w);
    pthread_mutex_unlock(&f->lock);
    if (!held)
        engine_malloc.space_cancel(o, w);
}

static void
fault_settle(struct stobj *o, enum stobj_state to)
{
    engine_malloc.settle(o, to);
}

/* ---- Reading: engine malloc's functions, kept in the last word that is the engine's ---- */

static const struct lease_fns fault_fns;
enum {
    FAULT_INNER = ARRAY_LEN(((struct lease_iter *)0)->priv) - 1
};

static const struct lease_fns *
fault_inner(const struct lease_iter *it)
{
    return (const struct lease_fns *)(uintptr_t)it->priv[FAULT_INNER];
}

/* Engine malloc may have changed its ways meanwhile. */
static void
fault_wrap(struct lease_iter *it)
{
    it->priv[FAULT_INNER] = (uintptr_t)it->fns;
    it->fns = &fault_fns;
}

/* An error leaves no waiter armed (engine.h), so the one that engine malloc armed earlier is
 * disarmed for -EIO. */
static int
fault_take(struct lease_iter *it, struct lease_batch *b)
{
    struct fault *f = fault_of(stobj_store(it->obj));
    int n;

    if (fault_once(f, FAULT_EIO)) {
        if (it->waiter != NULL && waiter_state(it->waiter) == WAITER_ARMED)
            fault_inner(it)->cancel(it);
        return -EIO;
    }
    if (it->waiter != NULL && waiter_state(it->waiter) != WAITER_ARMED &&
        fault_every(f, FAULT_SLOW)) {
        fault_notify(it->waiter);
        return -EAGAIN;
    }
    /* take() may exchange it->fns: it has to find its own there. */
    it->fns = fault_inner(it);
    n = it->fns->take(it, b);
    fault_wrap(it);
    return n;
}

static void
fault_give(struct lease_iter *it, uint64_t id)
{
    fault_inner(it)->give(it, id);
}

static void
fault_cancel(struct lease_iter *it)
{
    fault_inner(it)->cancel(it);
}

static void
fault_lease_close(struct lease_iter *it)
{
    fault_inner(it)->close(it);
}

static const struct lease_fns fault_fns = {
    .take = fault_take,
    .give = fault_give,
    .cancel = fault_cancel,
    .close = fault_lease_close,
};

static void
fault_lease_open(struct lease_iter *it)
{
    engine_malloc.lease_open(it);
    fault_wrap(it);
}

static uint64_t
fault_start(const struct stobj *o)
{
    return engine_malloc.start(o);
}

static bool
fault_contains(struct stobj *o, const char *ptr, size_t len)
{
    return engine_malloc.contains(o, ptr, len);
}

static void
fault_wake(struct stobj *o)
{
    engine_malloc.wake(o);
}

static void
fault_shut(struct stobj *o)
{
    engine_malloc.shut(o);
}

static bool
fault_expire(struct stobj *o)
{
    return engine_malloc.expire(o);
}

static bool
fault_expect(struct stobj *o, int32_t n, bool must)
{
    return engine_malloc.expect(o, n, must);
}

static void
fault_touch(struct stobj *o)
{
    engine_malloc.touch(o);
}

/* No `borrow`: every read has to pass fault_take(). */
const struct engine_ops engine_fault = {
    .magic = ENGINE_MAGIC,
    .name = "fault",
    .default_size = UINT64_C(256) << 20,
    .open = fault_open,
    .close = fault_close,
    .alloc = fault_alloc,
    .free = fault_free,
    .obj_new = fault_obj_new,
    .obj_free = fault_obj_free,
    .space_get = fault_space_get,
    .space_reserve = fault_space_reserve,
    .space_extend = fault_space_extend,
    .space_cancel = fault_space_cancel,
    .settle = fault_settle,
    .lease_open = fault_lease_open,
    .start = fault_start,
    .wake = fault_wake,
    .shut = fault_shut,
    .expire = fault_expire,
    .expect = fault_expect,
    .touch = fault_touch,
    .contains = fault_contains,
};
