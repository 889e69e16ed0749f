/* engine.h -- what a storage engine implements.  For storage/ only.
 *
 *     obj_new() -> FILLING -> settle() -> SETTLED      obj_free() from either end
 *                        \-> settle()  -> FAILED
 *
 *   FILLING   one writer: space_get, space_extend.  Readers lease what is published.
 *   SETTLED   immutable; readers only.
 *   FAILED    readers get what was published, then -EPIPE.
 *   obj_free  the object is no longer held: no reader, no writer, no lease.
 *
 * storage.c and lease.c reach engines through checked wrappers, so an engine may rely on
 * non-NULL arguments, a legal state, one outstanding span at a time, and returns that are no
 * more than the leases.  An engine reports failure.  It never logs, retries or blocks its
 * caller: the waiter says when to look again.
 *
 * A waiter given to an engine may be IDLE, ARMED by an earlier call on the same object, or
 * POSTED; storage_arm() copes with all three.
 */
#ifndef TARN_STORAGE_ENGINE_H
#define TARN_STORAGE_ENGINE_H

#include "daemon/base/obj.h"
#include "daemon/base/span.h"
#include "storage/lease.h"
#include "storage/storage.h"

/* What is asked of a new object: the arguments of stobj_new(). */
struct stobj_spec {
    enum stobj_kind kind;
    uint64_t size_hint;
    uint64_t transit_bytes;
    uint64_t alone_bytes; /* SHARED: of these, while there is one reader at most */
    uint64_t first_bytes; /* PRIVATE: of transit_bytes, while nothing has been taken */
    bool grace;           /* SHARED: no reader is left behind before stobj_expire_window() */
    unsigned patience;    /* ... has been called so often */
};

#define ENGINE_MAGIC OBJ_TAG('e', 'n', 'g', 'i')
struct engine_ops {
    uint32_t magic;
    const char *name;      /* as written in tarn.yaml */
    uint64_t default_size; /* of a store configured with 0 */

    /* Prepares s->priv; 0 or a negative errno.  NULL: nothing to prepare. */
    int (*open)(struct storage *s);
    /* Gives it back; no object is left.  Not called when open failed. */
    void (*close)(struct storage *s);

    /* Memory of the class of `size`, which has been charged already; NULL: none. */
    void *(*alloc)(struct storage *s, size_t size);
    void (*free)(struct storage *s, void *p, size_t size);

    /* An empty object, FILLING, its head made by stobj_init(); 0, -ENOMEM or -ENOSPC.
     * NULL: objects of this engine cannot be filled. */
    int (*obj_new)(struct stobj **out, struct storage *s, const struct stobj_spec *spec);
    /* The last reference has gone: gives everything back. */
    void (*obj_free)(struct stobj *o);

    /* At most `want` bytes after the published ones, or an errno of storage.h with w armed
     * (w may be NULL: the caller never waits). */
    int (*space_get)(struct stobj *o, size_t want, struct span *out, struct waiter *w);
    /* Room for the first `bytes` of the object, kept until they are asked for; as space_get. */
    int (*space_reserve)(struct stobj *o, uint64_t bytes, struct waiter *w);
    /* Publishes `used` > 0 bytes of that span and tells the readers that wait. */
    void (*space_extend)(struct stobj *o, size_t used);
    /* Disarms w, if it is armed. */
    void (*space_cancel)(struct stobj *o, struct waiter *w);
    /* FILLING becomes `to` by stobj_set_state(); trims, and tells the readers that wait. */
    void (*settle)(struct stobj *o, enum stobj_state to);

    /* Appends a reference to bytes; 0, -ENOMEM or -ENOSPC.  NULL: not a synth. */
    int (*add)(struct stobj *o, struct slice bytes);

    /* Chooses it->fns for the object's state and prepares it->priv.  The iterator holds the
     * object already, unless it is settled and kept. */
    void (*lease_open)(struct lease_iter *it);
    /* As lease_borrow(), of a settled object.  NULL: everything has to be leased. */
    bool (*borrow)(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out);
    /* The first byte that a new reader could have.  NULL: always 0. */
    uint64_t (*start)(const struct stobj *o);
    /* The writer that waits for space looks again.  NULL: none ever waits for a reader. */
    void (*wake)(struct stobj *o);
    /* As stobj_shut_window(), stobj_expire_window(), stobj_expect() (`must`) or stobj_let_in(), and
     * stobj_touch_window().  NULL: there are none. */
    void (*shut)(struct stobj *o);
    bool (*expire)(struct stobj *o);
    bool (*expect)(struct stobj *o, int32_t n, bool must);
    void (*touch)(struct stobj *o);
    /* Do these bytes lie in one piece of the object?  For tests. */
    bool (*contains)(struct stobj *o, const char *ptr, size_t len);
};

/* One way of reading.  An engine may change it->fns under way. */
struct lease_fns {
    /* As lease_take(): appends and returns how many, 0, or an errno.  An engine that waits
     * arms it->waiter, if there is one; one that answers 0 or an error leaves it disarmed. */
    int (*take)(struct lease_iter *it, struct lease_batch *b);
    /* Takes one lease back; the low bits are cleared, and it is not LEASE_NO_RETURN. */
    void (*give)(struct lease_iter *it, uint64_t id);
    /* Disarms it->waiter, if it is armed. */
    void (*cancel)(struct lease_iter *it);
    /* The reader goes away; nothing is leased and nothing armed. */
    void (*close)(struct lease_iter *it);
};

extern const struct engine_ops engine_malloc;
extern const struct engine_ops engine_synth;
extern const struct engine_ops engine_fault;

#endif
