/* entry.h -- one response: cached, private to one request, or still to come.
 *
 *   BUSY     its fetch has no response head yet; requests for it wait
 *   READY    head known; the body may still be coming (its parts say so)
 *   HITMISS  a marker: what came was not for the cache; fetch for yourself, do not wait
 *   FAILED   its fetch got no response
 *
 *   borrow   use it until this loop turn ends (RCU); costs nothing
 *   hold     keep it longer: a counted reference, given back with entry_drop()
 *
 * From READY on everything but the atomics is immutable; of those the times change with a soft
 * purge alone.
 *
 * Threads: any, from a task; entry_drop also from RCU's own thread.
 */
#ifndef TARN_ENTRY_H
#define TARN_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/base/span.h"
#include "daemon/cache/cuckoo.h"
#include "daemon/cache/evict_queue.h"
#include "daemon/http/message.h"
#include "daemon/http/packed_fields.h"
#include "daemon/http/rendering.h"
#include "daemon/http/tags.h"
#include "daemon/http/uri.h"

struct ban;
struct stobj;
struct task;

enum entry_state {
    ENTRY_BUSY,
    ENTRY_READY,
    ENTRY_HITMISS,
    ENTRY_FAILED
};

/* An entry is a list of parts, in order; an ordinary response has one.  A body that outgrows
 * what is kept goes on in a second one, a window, for its present readers.  A response
 * known only in ranges has one for each, which may overlap (RFC 9111 3.4). */
struct entry_part {
    uint64_t off; /* of its first byte in the whole */
    uint64_t len; /* that it has or will have; STOBJ_SIZE_UNKNOWN */
    struct stobj *body;
};
struct entry_parts { /* of an entry with more than one */
    uint16_t n;
    bool on_heap;
    struct entry_part part[];
};
enum {
    ENTRY_KEY_SHOWN_MAX = 200, /* a longer key is not shown in Cache-Status */
    ENTRY_PARTS_MAX = 64,      /* with more, the whole is fetched anew */
    ENTRY_TICK_LOG2 = 10,      /* of the last hit: 1,024 ms, nearly a second, without a division */
};

/* A duration of 32 bits: to the ms up to 12 days, beyond that to the second, and 34 years are the
 * most.  Of what a response says in seconds nothing is lost. */
typedef int32_t entry_ms_t;
#define ENTRY_MS_EXACT (INT32_C(1) << 30)

static inline entry_ms_t
entry_ms_pack(int64_t ms)
{
    const int64_t most = ENTRY_MS_EXACT - 1;
    int64_t s = ms / 1000;

    if (ms > -ENTRY_MS_EXACT && ms < ENTRY_MS_EXACT)
        return (entry_ms_t)ms;
    s = s > most ? most : s < -most ? -most : s;
    return (entry_ms_t)(s < 0 ? s - ENTRY_MS_EXACT : s + ENTRY_MS_EXACT);
}

static inline int64_t
entry_ms_of(entry_ms_t packed)
{
    int64_t v = packed;

    if (__builtin_expect(v > -ENTRY_MS_EXACT && v < ENTRY_MS_EXACT, 1))
        return v;
    return (v < 0 ? v + ENTRY_MS_EXACT : v - ENTRY_MS_EXACT) * 1000;
}

/* What a response alone has, in one allocation with its texts, and in front of it the hashes of its
 * tags: an entry without tags pays nothing, and a walk finds them beside their number. */
struct entry_block {
    uint64_t body_len;        /* of the whole; STOBJ_SIZE_UNKNOWN when the origin did not say */
    entry_ms_t age;           /* when it came */
    uint32_t fields_len : 11; /* of the fields' table (http/packed_fields.h) */
    uint32_t status : 10;     /* that is sent: three digits */
    uint32_t ntags : 7;
    uint32_t any_tag : 1;  /* it has more than are remembered: each purge by tag is for it */
    uint32_t has_rare : 1; /* there is a struct entry_rare */
    uint32_t
        scheme : 2; /* 1 + enum http_scheme: the key's text begins with it, and it is not stored; 0: none */
    /* The head as rendered: a protocol's prefix (http/rendering.h), then field lines. */
    uint16_t head_len;
    uint16_t vary_len, key_len;
    uint16_t prefix_len : 10;
    uint16_t reason_at : 4;    /* in the prefix */
    uint16_t reason_after : 2; /* bytes of the prefix behind it */
    char text[];               /* head, vary specification, key; rare; table */
};
_Static_assert(sizeof(struct entry_block) == 24, "struct entry_block grew");
_Static_assert(HTTP_PREFIX_MAX + HTTP_REASON_MAX < 1 << 10, "a prefix has its length");
_Static_assert(LIMIT_FIELDS *PACKED_FIELD_MAX < 1 << 11, "a table has its length");
_Static_assert(TAGS_MAX < 1 << 7, "tags have their number");

/* What few responses have. */
struct entry_rare {
    uint64_t xid;    /* http_x_varnish: of the request that it was fetched for; 0: not known */
    uint16_t hidden; /* bytes of the head that are not for clients: these fields come last */
    uint8_t status_prefix; /* of 1404 the 1: a policy's, for policies alone */
    bool esi; /* its body is a stream of records (daemon/esi/esi_record.h), of unknown length */
};
/* Of an entry without one: all is empty. */
extern const struct entry_block entry_no_block;

#define ENTRY_CLOSED UINT32_MAX          /* `readers`: its fetch ended for want of them */
#define ENTRY_SEALED (UINT32_C(1) << 31) /* a bit of it: no reader joins any more */

/* Two lines of the CPU's caches: what a hit reads comes first.  What is used at different times of
 * its life shares memory, and says until when. */
#define ENTRY_MAGIC OBJ_TAG('e', 'n', 't', 'r')
struct entry {
    struct cuckoo_node node; /* the key */
    uint32_t magic;
    _Atomic uint32_t refs;
    /* The next under this key, or the address of a struct entry_form plus 1, which has it then. */
    _Atomic uintptr_t variant;
    const struct entry_block *block;
    /* By its fetch, set before READY or HITMISS is published. */
    bool length_in_head : 1;
    bool key_shows : 1;       /* its text is short, and may stand between quotes */
    bool partial : 1;         /* parts do not cover the whole, or did not when they came */
    bool validatable : 1;     /* has an ETag or a Last-Modified */
    bool must_revalidate : 1; /* never served stale */
    bool windowed : 1;        /* too large to keep: its body is a window that readers share */
    bool by_request : 1; /* HITMISS: because of what the request said, so only for such requests */
    bool pass : 1; /* HITMISS: such requests are passed, not fetched as if for the cache.  READY:
                          * entry_was_fresh() */
    bool late : 1; /* goes into the index when its outcome is known, if it is for others */
    bool on_heap : 1, block_on_heap : 1; /* private ones, when the store was full */
    uint64_t origin_status : 10; /* HITMISS: enum fresh_refusal, why it was not for the cache */
    uint64_t ttl_from : 4;       /* enum fresh_origin: of the ttl that it came with */
    int64_t received_ms : 39;    /* monotonic, for 8 years */
    _Atomic entry_ms_t ttl;      /* from then on; 0 or less: each use needs validation */
    /* Windows, all from the end of the ttl: served stale while it is refreshed; served when the
     * origin fails, and when it answers with an error; good for validation. */
    _Atomic entry_ms_t grace;
    _Atomic uint8_t state;
    uint8_t tag_bits; /* tag_bit() of its tags, set with its block: on the line that a walk reads */
    struct {          /* under the key's guard */
        bool linked : 1;   /* in the index */
        bool orphaned : 1; /* BUSY: it was, and is retired with its outcome */
        bool promised : 1; /* evicted: storage waits for what it holds; before it is unlinked */
    };
    struct {                 /* its fetch's loop only */
        bool abandoned : 1;  /* its reader has gone */
        bool fetched : 1;    /* being filled: `fetch` */
        bool set_cookie : 1; /* private: not stored because of its Set-Cookie; its reader's loop */
        bool yields : 1;     /* never fresh, under a policy: it replaces nothing that is fresh */
    };
    union {
        uint32_t changes; /* BUSY, late: of its key, when it was made */
        int32_t err;      /* FAILED: why, TERR_* */
        /* READY: readers that joined as it was filled, the leader not counted, and ENTRY_SEALED;
         * or ENTRY_CLOSED. */
        _Atomic uint32_t readers;
    };
    /* 64 bytes */
    union {
        /* 0: no part; the object that is the body; or the address of struct entry_parts plus 1.
         * Before the part in front settles it may change, from the second to the third. */
        _Atomic uintptr_t parts;
        struct entry *handoff; /* HITMISS: the response itself, for the request that fetched */
    };
    _Atomic(struct ban *) ban; /* the newest it has been tested against; NULL: a private one */
    _Atomic entry_ms_t error, stale_if_error, keep;
    _Atomic uint32_t hits; /* counted when asked for */
    union {
        /* From settling or HITMISS on.  Its stamp is the last hit: monotonic, in ticks; 0: never;
         * while BUSY: entry_expected().  Its size is what evicting it gives back, KiB rounded up.
         * `owner`: entry_is_softened(). */
        struct evict_node evict;
        struct {
            union {
                struct list waiting;   /* BUSY: waiters, under the key's guard */
                struct rcu_link later; /* unlinked, and not BUSY */
            };
            struct task *fetch; /* `fetched`: the task that fills it, on the reader's loop */
        };
    };
};
/* A class of the allocator's, and whole lines. */
_Static_assert(sizeof(struct entry) == 128, "struct entry grew");
_Static_assert(offsetof(struct entry, parts) == 64, "a hit reads two lines");
_Static_assert(offsetof(struct evict_node, hash) == sizeof(struct list), "`fetch` ends before ...");
_Static_assert(offsetof(struct evict_node, stamp) == sizeof(struct list) + 8, "... the stamp");
_Static_assert(sizeof(struct rcu_link) <= sizeof(struct list), "promised sizes are kept");

static inline enum entry_state
entry_state(const struct entry *e)
{
    return (enum entry_state)atomic_load_explicit(&e->state, memory_order_acquire);
}

/* Of READY ones: no reader can join any more.  Closed ones are sealed too. */
static inline bool
entry_is_sealed(const struct entry *e)
{
    return (atomic_load_explicit(&e->readers, memory_order_relaxed) & ENTRY_SEALED) != 0;
}

/* Another protocol's form of the head (http/rendering.h), from the first hit on that asks for it: most
 * entries have none, and pay nothing. */
struct entry_form {
    _Atomic uintptr_t next;
    const struct http_rendering *of;
    uint32_t len;
    char text[];
};

static inline struct entry_form *
entry_form_of(const struct entry *e)
{
    uintptr_t word = atomic_load_explicit(&e->variant, memory_order_acquire);

    return (word & 1) != 0 ? (struct entry_form *)(word - 1) : NULL;
}

/* The next under its key, older; NULL: none. */
static inline struct entry *
entry_next(const struct entry *e)
{
    uintptr_t word = atomic_load_explicit(&e->variant, memory_order_acquire);

    if (__builtin_expect((word & 1) != 0, 0))
        word = atomic_load_explicit(&((struct entry_form *)(word - 1))->next, memory_order_acquire);
    return (struct entry *)word;
}

/* In this protocol's form, at once or not at all: .ptr NULL. */
static inline struct slice
entry_form(const struct entry *e, const struct http_rendering *of)
{
    const struct entry_form *form = entry_form_of(e);

    return form != NULL && form->of == of ? slice_of(form->text, form->len) : slice_of(NULL, 0);
}

/* Copied: it has no alignment. */
static inline struct entry_rare
entry_rare(const struct entry_block *b)
{
    struct entry_rare rare = {0};

    if (b->has_rare)
        memcpy(&rare, b->text + b->head_len + b->vary_len + b->key_len, sizeof(rare));
    return rare;
}

/* The head for clients, in the form that it was published with (cache_response.rendering). */
static inline struct slice
entry_rendered(const struct entry *e)
{
    const struct entry_block *b = e->block;
    size_t hidden = __builtin_expect(b->has_rare, 0) ? entry_rare(b).hidden : 0;

    return slice_of(b->text, b->head_len - hidden);
}

enum entry_fields {
    ENTRY_FIELDS_ALL,  /* for what reads and compares */
    ENTRY_FIELDS_SENT, /* those that clients see */
};
/* READY ones: the response, borrowed from the entry; `fields` has room for LIMIT_FIELDS. */
void entry_message(const struct entry *e, enum entry_fields which, struct http_field *fields,
    struct http_message *out);

/* block->ntags hashes, as tag_hash() makes them; READY ones. */
static inline const uint64_t *
entry_tags(const struct entry *e)
{
    return (const uint64_t *)(const void *)e->block - e->block->ntags;
}

static inline struct slice
entry_vary(const struct entry *e)
{
    return slice_of(e->block->text + e->block->head_len, e->block->vary_len);
}

/* The key's text is these two, one behind the other; both are empty if it is not known. */
static inline struct slice
entry_key_scheme(const struct entry *e)
{
    unsigned scheme = e->block->scheme;

    return scheme == 0 ? slice_of("", 0) : http_scheme_prefix((enum http_scheme)(scheme - 1));
}

static inline struct slice
entry_key_rest(const struct entry *e)
{
    const struct entry_block *b = e->block;

    return slice_of(b->text + b->head_len + b->vary_len, b->key_len);
}

/* The request that it was fetched for; 0: not known. */
static inline uint64_t
entry_xid(const struct entry *e)
{
    return entry_rare(e->block).xid;
}

/* 0: there is no response. */
static inline unsigned
entry_status(const struct entry *e)
{
    return e->block->status;
}

/* Is it processed by ESI?  Its stored body is no body that a client may have. */
static inline bool
entry_is_esi(const struct entry *e)
{
    return entry_rare(e->block).esi;
}

/* As the policy set it: 1404 is sent as 404. */
static inline unsigned
entry_policy_status(const struct entry *e)
{
    return entry_rare(e->block).status_prefix * 1000u + e->block->status;
}

/* Of the whole; STOBJ_SIZE_UNKNOWN. */
static inline uint64_t
entry_body_len(const struct entry *e)
{
    return e->block->body_len;
}

static inline const struct entry_parts *
entry_parts_of(uintptr_t word)
{
    return (const struct entry_parts *)(word - 1);
}

static inline unsigned
entry_nparts(const struct entry *e)
{
    uintptr_t word = atomic_load_explicit(&e->parts, memory_order_acquire);

    return (word & 1) != 0 ? entry_parts_of(word)->n : word != 0;
}

/* i < entry_nparts().  Borrowed from the entry. */
static inline struct entry_part
entry_part(const struct entry *e, unsigned i)
{
    uintptr_t word = atomic_load_explicit(&e->parts, memory_order_acquire);

    if ((word & 1) != 0)
        return entry_parts_of(word)->part[i];
    return (struct entry_part){0, entry_body_len(e), (struct stobj *)word};
}

/* Never in the index. */
static inline bool
entry_is_private(const struct entry *e)
{
    return atomic_load_explicit(&e->ban, memory_order_relaxed) == NULL;
}

/* BUSY: a number for what it is expected to be selected by; 0: not known.  By the outcome it has
 * become the stamp of its last hit, so a caller without the guard may get a wrong number. */
static inline uint32_t
entry_expected(const struct entry *e)
{
    return atomic_load_explicit(&e->evict.stamp, memory_order_relaxed);
}

/* When it came, RFC 9111 4.2.3. */
static inline int64_t
entry_first_age_ms(const struct entry *e)
{
    return entry_ms_of(e->block->age);
}

/* Seconds, for Age (RFC 9111 5.1). */
static inline int64_t
entry_age_s(const struct entry *e, int64_t now_ms)
{
    int64_t resident = now_ms - e->received_ms;

    return (entry_first_age_ms(e) + (resident > 0 ? resident : 0)) / 1000;
}

static inline int64_t
entry_ttl_ms(const struct entry *e)
{
    return entry_ms_of(atomic_load_explicit(&e->ttl, memory_order_relaxed));
}

/* What of it is left; below 0: for how long it has been stale. */
static inline int64_t
entry_ttl_left_ms(const struct entry *e, int64_t now_ms)
{
    return entry_ttl_ms(e) - (now_ms - e->received_ms);
}

static inline int64_t
entry_grace_ms(const struct entry *e)
{
    return entry_ms_of(atomic_load_explicit(&e->grace, memory_order_relaxed));
}

static inline int64_t
entry_error_ms(const struct entry *e)
{
    return entry_ms_of(atomic_load_explicit(&e->error, memory_order_relaxed));
}

static inline int64_t
entry_stale_if_error_ms(const struct entry *e)
{
    return entry_ms_of(atomic_load_explicit(&e->stale_if_error, memory_order_relaxed));
}

/* For validation: from the end of the ttl. */
static inline int64_t
entry_good_ms(const struct entry *e)
{
    return entry_ms_of(atomic_load_explicit(&e->keep, memory_order_relaxed));
}

/* As policies mean it: what comes after the grace. */
static inline int64_t
entry_keep_ms(const struct entry *e)
{
    int64_t beyond = entry_good_ms(e) - entry_grace_ms(e);

    return beyond > 0 ? beyond : 0;
}

/* What every use of it has to ask the origin about first. */
static inline bool
entry_is_checked_each_time(const struct entry *e)
{
    return entry_ttl_ms(e) <= 0;
}

static inline bool
entry_is_fresh(const struct entry *e, int64_t now_ms)
{
    return entry_ttl_left_ms(e, now_ms) > 0;
}

/* Not, or not any more, for others: a private response, or a marker. */
static inline bool
entry_is_uncacheable(const struct entry *e)
{
    return entry_is_private(e) || entry_state(e) == ENTRY_HITMISS;
}

/* By a soft purge: a ttl of 0 does not mean "each time" then. */
static inline bool
entry_is_softened(const struct entry *e)
{
    return atomic_load_explicit(&e->evict.owner, memory_order_relaxed);
}

/* READY: stale on arrival, under a policy: it had a time, which was over when it came. */
static inline bool
entry_was_fresh(const struct entry *e)
{
    return e->pass;
}

static inline void
entry_set_softened(struct entry *e)
{
    atomic_store_explicit(&e->evict.owner, true, memory_order_relaxed);
}

/* How often it was the answer to a query with count_hits. */
static inline uint32_t
entry_hits(const struct entry *e)
{
    return atomic_load_explicit(&e->hits, memory_order_relaxed);
}

/* Monotonic, at the grain of a tick and never in the future; when it came, if never. */
static inline int64_t
entry_last_hit_ms(const struct entry *e)
{
    uint32_t ticks = atomic_load_explicit(&e->evict.stamp, memory_order_relaxed);
    int64_t at = (int64_t)ticks << ENTRY_TICK_LOG2;

    return at > e->received_ms ? at : e->received_ms;
}

static inline struct ban *
entry_ban(const struct entry *e)
{
    return atomic_load_explicit(&e->ban, memory_order_acquire);
}

/* Of READY ones: head, key and what there is of the body. */
uint64_t entry_bytes(const struct entry *e);
/* Borrow becomes hold.  Always possible within the turn of the lookup. */
struct entry *entry_hold(struct entry *e);
/* Takes *ep and sets it to NULL.  The last hold on an unlinked entry frees it. */
void entry_drop(struct entry **ep);
/* The fetch that fills it, on this loop; NULL: none. */
void entry_set_fetch(struct entry *e, struct task *fetch);

#endif
