/* entry.c -- entries' references and end. */
#include "daemon/cache/entry.h"

#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/message_out.h"
#include "daemon/http/packed_fields.h"
#include "daemon/http/tags.h"

const struct entry_block entry_no_block = {.body_len = STOBJ_SIZE_UNKNOWN};

struct entry *
entry_new(struct cache *c, unsigned refs, bool is_private)
{
    struct entry *e = storage_alloc(c->storage, sizeof(*e), CHARGE_ENTRY);
    /* A private one is for one client alone: it is served though the store is full. */
    bool on_heap = e == NULL && is_private;

    if (on_heap)
        e = malloc(sizeof(*e));
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof(*e));
    e->on_heap = on_heap;
    e->magic = ENTRY_MAGIC;
    e->block = &entry_no_block;
    atomic_init(&e->refs, refs);
    atomic_init(&e->state, ENTRY_BUSY);
    list_init(&e->waiting);
    /* Before its fetch begins: whatever ban comes later is newer than the one it holds (B1). */
    if (!is_private)
        bans_attach(&c->bans, e);
    return e;
}

static size_t
entry_parts_size(unsigned n)
{
    return sizeof(struct entry_parts) + n * sizeof(struct entry_part);
}

struct entry_parts *
entry_parts_new(const struct entry_part *parts, unsigned n, bool must)
{
    struct entry_parts *p = storage_alloc(cache_of_all->storage, entry_parts_size(n), CHARGE_ENTRY);
    bool on_heap = p == NULL && must;

    if (on_heap)
        p = malloc(entry_parts_size(n));
    if (p == NULL)
        return NULL;
    p->n = (uint16_t)n;
    p->on_heap = on_heap;
    memcpy(p->part, parts, n * sizeof(*parts));
    return p;
}

static void
entry_parts_free(struct entry_parts *p)
{
    if (p->on_heap)
        free(p);
    else
        storage_free(cache_of_all->storage, p, entry_parts_size(p->n), CHARGE_ENTRY);
}

/* The lowest bit tells an array from an object, both of which are aligned.  Relaxed: the state
 * publishes it.  On TERR_NOMEM the objects are still the caller's. */
int
entry_set_parts(struct entry *e, const struct entry_part *parts, unsigned n)
{
    uintptr_t word = (uintptr_t)parts[0].body;
    struct entry_parts *p;

    tassert(entry_nparts(e) == 0 && n > 0 && n <= ENTRY_PARTS_MAX);
    if (n > 1 || parts[0].off != 0 || parts[0].len != entry_body_len(e)) {
        p = entry_parts_new(parts, n, false);
        if (p == NULL)
            return TERR_NOMEM;
        word = (uintptr_t)p + 1;
    }
    atomic_store_explicit(&e->parts, word, memory_order_relaxed);
    return 0;
}

/* Tags lie in front, so that a block without them costs nothing more.  A private entry's block may
 * come from the heap: its client gets the response even when the store is full. */
struct entry_block *
entry_block_new(struct entry *e, size_t len, unsigned ntags)
{
    size_t size = ntags * sizeof(uint64_t) + sizeof(struct entry_block) + len;
    uint64_t *tags = storage_alloc(cache_of_all->storage, size, CHARGE_HEAD);
    struct entry_block *b;

    tassert(e->block == &entry_no_block && ntags <= TAGS_MAX);
    e->block_on_heap = tags == NULL && entry_is_private(e);
    if (e->block_on_heap)
        tags = malloc(size);
    if (tags == NULL)
        return NULL;
    b = (struct entry_block *)(void *)(tags + ntags);
    b->ntags = ntags & 0x7f;
    return b;
}

/* What stands in front of the field lines: the rendering's, or the reason alone. */
static struct http_prefix
entry_prefix(const struct cache_response *r, struct slice reason, char *out)
{
    tassert(reason.len <= HTTP_REASON_MAX);
    if (r->rendering != NULL)
        return r->rendering->prefix(out, r->status, reason);
    if (reason.len > 0)
        memcpy(out, reason.ptr, reason.len);
    return (struct http_prefix){(uint16_t)reason.len, 0};
}

/* Of the fields that are not for clients. */
static size_t
entry_hidden_bytes(const struct cache_response *r)
{
    size_t n = 0;

    for (unsigned i = r->hides_fields ? r->nsent : r->head.nfields; i < r->head.nfields; i++)
        n += (size_t)r->head.fields[i].name_len + r->head.fields[i].value_len + MESSAGE_LINE_EXTRA;
    return n;
}

/* The tags' hashes lie before the block; the entry has a summary of them, by which a purge by tag
 * passes over most entries without a look at their blocks. */
static void
entry_set_tags(struct entry *e, struct entry_block *b, const struct tags *tags, unsigned ntags)
{
    bool any = tags != NULL && tags->any;

    if (ntags > 0)
        memcpy((uint64_t *)(void *)b - ntags, tags->hash, ntags * sizeof(uint64_t));
    e->tag_bits = any ? UINT8_MAX : 0;
    for (unsigned i = 0; i < ntags; i++)
        e->tag_bits |= tag_bit(tags->hash[i]);
    b->any_tag = any;
}

/* The scheme, which nearly every key begins with, is a bit or two: entry_block.scheme. */
static struct slice
entry_split_key(struct slice key, unsigned *scheme)
{
    for (enum http_scheme s = HTTP_SCHEME_HTTP; s <= HTTP_SCHEME_HTTPS; s++) {
        struct slice prefix = http_scheme_prefix(s);

        if (key.len >= prefix.len && memcmp(key.ptr, prefix.ptr, prefix.len) == 0) {
            *scheme = 1u + s;
            return slice_of(key.ptr + prefix.len, key.len - prefix.len);
        }
    }
    *scheme = 0;
    return key;
}

/* prefix, lines, Vary's specification, key, what is rare, the table of fields: entry_priv.h.
 * The block's lengths are set. */
static void
entry_set_text(struct entry_block *b, const struct cache_response *r, const char *prefix,
    struct slice lines, struct slice key, const struct entry_rare *rare)
{
    char *p = mempcpy(b->text, prefix, b->prefix_len);

    p = mempcpy(p, lines.ptr, lines.len);
    tassert(p == b->text + b->head_len);
    if (r->vary.len > 0)
        p = mempcpy(p, r->vary.ptr, r->vary.len);
    if (key.len > 0)
        p = mempcpy(p, key.ptr, key.len);
    if (b->has_rare)
        p = mempcpy(p, rare, sizeof(*rare));
    packed_fields_write(&r->head, p);
}

/* Every length is known before memory is asked for, in one piece.  `hidden` counts on the fields for
 * clients standing first (tags_put_last()).  On TERR_NOMEM the entry is as it was. */
int
entry_set_block(struct entry *e, const struct cache_response *r)
{
    unsigned ntags = r->tags == NULL || r->tags->any ? 0 : r->tags->n;
    struct slice lines = message_lines(&r->head);
    struct slice reason = http_reason_of(&r->head);
    char prefix[HTTP_PREFIX_MAX + HTTP_REASON_MAX];
    struct http_prefix pre = entry_prefix(r, reason, prefix);
    size_t head = pre.len + lines.len, table = packed_fields_bytes(&r->head);
    unsigned scheme;
    struct slice key = entry_split_key(r->key_text, &scheme);
    struct entry_rare rare = {.xid = r->xid,
        .hidden = (uint16_t)entry_hidden_bytes(r),
        .status_prefix = r->status_prefix,
        .esi = r->esi};
    bool has_rare = rare.xid != 0 || rare.hidden > 0 || rare.status_prefix > 0 || rare.esi;
    size_t len = head + r->vary.len + key.len + (has_rare ? sizeof(rare) : 0) + table;
    struct entry_block *b;

    tassert(lines.len == message_lines_bytes(&r->head)); /* it was built */
    if (head > UINT16_MAX || r->head.nfields > LIMIT_FIELDS)
        return TERR_NOMEM; /* no room: offsets are 16 bits */
    b = entry_block_new(e, len, ntags);
    if (b == NULL)
        return TERR_NOMEM;
    entry_set_tags(e, b, r->tags, ntags);
    b->has_rare = has_rare;
    b->body_len = r->body_len;
    b->age = entry_ms_pack(r->fresh->age_ms);
    tassert(pre.reason_at < 16 && pre.len - pre.reason_at - reason.len < 4);
    b->prefix_len = pre.len & 0x3ff;
    b->reason_at = pre.reason_at & 0xf;
    b->reason_after = (pre.len - pre.reason_at - reason.len) & 3;
    b->head_len = (uint16_t)head;
    tassert(table < 1 << 11 && r->status < 1 << 10);
    b->fields_len = table & 0x7ff;
    b->vary_len = (uint16_t)r->vary.len;
    b->key_len = (uint16_t)key.len;
    b->scheme = scheme & 3;
    b->status = r->status & 0x3ff;
    entry_set_text(b, r, prefix, lines, key, &rare);
    e->block = b;
    return 0;
}

/* The size is computed from the block itself, so its lengths never change once it was set. */
void
entry_block_free(struct entry *e)
{
    void *memory = (void *)(uintptr_t)entry_tags(e); /* it begins with them */

    if (e->block == &entry_no_block)
        return;
    if (e->block_on_heap)
        free(memory);
    else
        storage_free(cache_of_all->storage, memory, entry_block_size(e), CHARGE_HEAD);
    e->block = &entry_no_block;
}

/* The table of fields lies behind what is rare.  With ENTRY_FIELDS_SENT the lines end
 * sooner, and reading the table ends with them. */
void
entry_message(const struct entry *e, enum entry_fields which, struct http_field *fields,
    struct http_message *out)
{
    const struct entry_block *b = e->block;
    size_t end = which == ENTRY_FIELDS_ALL ? b->head_len : entry_rendered(e).len;
    size_t table =
        (size_t)b->head_len + b->vary_len + b->key_len + b->has_rare * sizeof(struct entry_rare);

    tassert(end >= b->prefix_len);
    *out = (struct http_message){
        .base = b->text,
        .fields = fields,
        .max_fields = LIMIT_FIELDS,
        .len = (uint16_t)end,
        .lines_off = b->prefix_len,
        .version_major = 1,
        .version_minor = 1,
        .status = b->status,
        .reason_off = b->reason_at,
        .reason_len = (uint16_t)(b->prefix_len - b->reason_at - b->reason_after),
    };
    packed_fields_read(slice_of(b->text + table, b->fields_len), out);
}

/* What evicting it gives back. */
uint32_t
entry_charge_kb(const struct cache *c, const struct entry *e)
{
    uint64_t bytes = storage_good_size(c->storage, sizeof(*e)) +
                     storage_good_size(c->storage, entry_block_size(e));

    for (unsigned i = 0; i < entry_nparts(e); i++)
        bytes += stobj_len(entry_part(e, i).body);
    return (uint32_t)((bytes + 1023) >> 10);
}

struct entry *
entry_hold(struct entry *e)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

static void
entry_free_parts(struct entry *e)
{
    uintptr_t word = atomic_load_explicit(&e->parts, memory_order_relaxed);
    unsigned n = entry_nparts(e);

    for (unsigned i = 0; i < n; i++)
        stobj_unref(&(struct stobj *){entry_part(e, i).body});
    if ((word & 1) != 0)
        entry_parts_free((struct entry_parts *)(word - 1));
}

static void
entry_form_free(struct entry *e)
{
    struct entry_form *form = entry_form_of(e);

    if (form != NULL)
        storage_free(cache_of_all->storage, form, sizeof(*form) + form->len, CHARGE_HEAD);
}

/* By the last hold, on any thread, RCU's too.  It is in no index, queue or waiting list any
 * more. */
static void
entry_free(struct entry *e)
{
    enum entry_state state = entry_state(e);

    tassert(!e->linked && !e->orphaned);
    tassert(e->evict.where != EVICT_IN_SMALL && e->evict.where != EVICT_IN_MAIN);
    tassert(state != ENTRY_BUSY || list_empty(&e->waiting));
    bans_detach(e);
    /* `parts` and `handoff` share a word: the state says which it is. */
    if (state != ENTRY_HITMISS)
        entry_free_parts(e);
    else if (e->handoff != NULL)
        entry_drop(&e->handoff);
    entry_form_free(e);
    entry_block_free(e);
    if (e->on_heap) {
        OBJ_FREE(e);
        return;
    }
    OBJ_BURY(e);
    storage_free(cache_of_all->storage, e, sizeof(*e), CHARGE_ENTRY);
}

/* Acquire and release: the thread that frees it has seen what all others did with it. */
void
entry_drop(struct entry **ep)
{
    struct entry *e;

    OBJ_TAKE(e, ep, ENTRY_MAGIC);
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1)
        entry_free(e);
}

void
entry_count_hit(struct entry *e)
{
    if (entry_hits(e) != UINT32_MAX)
        atomic_fetch_add_explicit(&e->hits, 1, memory_order_relaxed);
}

void
entry_set_fetch(struct entry *e, struct task *fetch)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    e->fetched = fetch != NULL; /* else the memory may be the eviction queue's by now */
    if (e->fetched)
        e->fetch = fetch;
}

uint64_t
entry_bytes(const struct entry *e)
{
    const struct entry_block *b = e->block;
    uint64_t bytes = (uint64_t)b->head_len + b->fields_len + b->vary_len + b->key_len;
    unsigned nparts = entry_nparts(e);
    const struct entry_form *form = entry_form_of(e);

    OBJ_CHECK(e, ENTRY_MAGIC);
    bytes += form != NULL ? form->len : 0;
    for (unsigned i = 0; i < nparts; i++)
        bytes += stobj_len(entry_part(e, i).body);
    return bytes;
}
