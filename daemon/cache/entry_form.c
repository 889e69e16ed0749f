/* entry_form.c -- heads in the form of a protocol that is not the one that asks most. */
#include <string.h>

#include "daemon/cache/cache.h"
#include "daemon/cache/cache_priv.h"

/* The first one stays: readers have borrowed it. */
struct slice
cache_keep_form(struct entry *e, const struct http_rendering *of, struct slice form)
{
    struct cache *c = cache_of_all;
    struct entry_form *new;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    if (entry_is_private(e) || entry_form_of(e) != NULL)
        return slice_of(NULL, 0);
    new = storage_alloc(c->storage, sizeof(*new) + form.len, CHARGE_HEAD); /* may evict */
    if (new == NULL)
        return slice_of(NULL, 0);
    new->of = of;
    new->len = (uint32_t)form.len;
    memcpy(new->text, form.ptr, form.len);
    cuckoo_lock(c->index, &e->node.key, &g);
    if (e->linked && entry_form_of(e) == NULL) {
        atomic_init(&new->next, (uintptr_t)entry_next(e));
        atomic_store_explicit(&e->variant, (uintptr_t) new + 1, memory_order_release);
        new = NULL;
    }
    cuckoo_unlock(c->index, &g);
    if (new != NULL)
        storage_free(c->storage, new, sizeof(*new) + form.len, CHARGE_HEAD);
    return entry_form(e, of);
}
