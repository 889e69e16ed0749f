/* engine_malloc.c -- the engine with its bytes in memory: objects that stay, and windows. */
#include "storage/kept.h"
#include "storage/window.h"

#define MALLOC_DEFAULT_SIZE (UINT64_C(256) << 20)

static void *
malloc_alloc(struct storage *s, size_t size)
{
    return mem_alloc(&s->mem, size);
}

static void
malloc_free(struct storage *s, void *p, size_t size)
{
    mem_free(&s->mem, p, size);
}

static int
malloc_obj_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec)
{
    /* One engine for both: they share budget and arena, and an object's kind never changes. */
    return spec->kind == STOBJ_KEPT ? kept_new(out, s, spec) : window_new(out, s, spec);
}

static void
malloc_obj_free(struct stobj *o)
{
    o->kind == STOBJ_KEPT ? kept_free(o) : window_free(o);
}

static int
malloc_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w)
{
    return o->kind == STOBJ_KEPT ? kept_space_get(o, want, out, w)
                                 : window_space_get(o, want, out, w);
}

static int
malloc_space_reserve(struct stobj *o, uint64_t bytes, struct waiter *w)
{
    /* What is private goes on as its reader does: there is nothing to keep. */
    return o->kind == STOBJ_KEPT ? kept_space_reserve(o, bytes, w) : 0;
}

static void
malloc_space_extend(struct stobj *o, size_t used)
{
    o->kind == STOBJ_KEPT ? kept_space_extend(o, used) : window_space_extend(o, used);
}

static void
malloc_space_cancel(struct stobj *o, struct waiter *w)
{
    o->kind == STOBJ_KEPT ? kept_space_cancel(o, w) : window_space_cancel(o, w);
}

static void
malloc_settle(struct stobj *o, enum stobj_state to)
{
    o->kind == STOBJ_KEPT ? kept_settle(o, to) : window_settle(o, to);
}

static void
malloc_lease_open(struct lease_iter *it)
{
    it->obj->kind == STOBJ_KEPT ? kept_lease_open(it) : window_lease_open(it);
}

static bool
malloc_borrow(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out)
{
    /* A window's bytes move on: nothing of it may be read without a lease. */
    return o->kind == STOBJ_KEPT && kept_borrow(o, off, len, out);
}

static bool
malloc_contains(struct stobj *o, const char *ptr, size_t len)
{
    return o->kind == STOBJ_KEPT ? kept_contains(o, ptr, len) : window_contains(o, ptr, len);
}

static uint64_t
malloc_start(const struct stobj *o)
{
    /* What is kept is kept from its first byte on. */
    return o->kind == STOBJ_KEPT ? 0 : window_start(o);
}

static void
malloc_wake(struct stobj *o)
{
    /* A writer of what is kept waits for room in the store, not for a reader. */
    if (o->kind != STOBJ_KEPT)
        window_wake(o);
}

static void
malloc_shut(struct stobj *o)
{
    if (o->kind != STOBJ_KEPT)
        window_shut(o);
}

static bool
malloc_expire(struct stobj *o)
{
    /* No reader of what is kept is ever left behind. */
    return o->kind == STOBJ_KEPT || window_expire(o);
}

static bool
malloc_expect(struct stobj *o, int32_t n, bool must)
{
    /* There is always a place. */
    return o->kind == STOBJ_KEPT || window_expect(o, n, must);
}

static void
malloc_touch(struct stobj *o)
{
    if (o->kind != STOBJ_KEPT)
        window_touch(o);
}

const struct engine_ops engine_malloc = {
    .magic = ENGINE_MAGIC,
    .name = "malloc",
    .default_size = MALLOC_DEFAULT_SIZE,
    .alloc = malloc_alloc,
    .free = malloc_free,
    .obj_new = malloc_obj_new,
    .obj_free = malloc_obj_free,
    .space_get = malloc_space_get,
    .space_reserve = malloc_space_reserve,
    .space_extend = malloc_space_extend,
    .space_cancel = malloc_space_cancel,
    .settle = malloc_settle,
    .lease_open = malloc_lease_open,
    .borrow = malloc_borrow,
    .start = malloc_start,
    .wake = malloc_wake,
    .shut = malloc_shut,
    .expire = malloc_expire,
    .expect = malloc_expect,
    .touch = malloc_touch,
    .contains = malloc_contains,
};
