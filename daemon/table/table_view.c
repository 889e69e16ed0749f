/* table_view.c -- one version of a table: whether it is whole, and what it has.
 *
 * Every number that comes from the version is read once and compared before it is used.  So a file
 * that changes under us, which no good writer does, gives wrong answers and nothing worse.
 */
#include "daemon/table/table_view.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"

static const char *const table_kind_names[TABLE_KIND_COUNT] = {"any",
#define X(id, name, doc) name,
    TABLE_KIND_TABLE(X)
#undef X
};

const char *
table_kind_name(enum table_kind kind)
{
    return (unsigned)kind < TABLE_KIND_COUNT ? table_kind_names[kind] : "unknown";
}

enum table_kind
table_kind_find(const char *name)
{
    for (unsigned i = 1; i < TABLE_KIND_COUNT; i++)
        if (strcmp(table_kind_names[i], name) == 0)
            return (enum table_kind)i;
    return TABLE_ANY;
}

/* Loads that the compiler makes once: what was compared is what is used. */
static inline uint32_t
view_u32(const void *p)
{
    return *(const volatile uint32_t *)p;
}

static inline uint64_t
view_u64(const void *p)
{
    return *(const volatile uint64_t *)p;
}

__attribute__((format(printf, 3, 4))) static int
view_refuse(char *why, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return TERR_CORRUPT;
}

static bool
view_is_hashed(uint32_t kind)
{
    /* A vector is found like a map: only its values are numbers. */
    return kind == TABLE_SET || kind == TABLE_MAP || kind == TABLE_VECTOR;
}

static uint64_t
view_slot_bytes(uint32_t kind)
{
    return kind == TABLE_ADDRESS ? sizeof(struct table_net) : sizeof(struct table_slot);
}

/* Do index and records lie inside, and on 8 bytes? */
static bool
view_parts_fit(const struct table_data *d)
{
    uint64_t each = view_slot_bytes(d->kind);

    if (d->index_off % 8 != 0 || d->index_off < sizeof(*d) || d->index_off > d->bytes ||
        /* Divided, not multiplied: a product of two numbers of the file may wrap. */
        d->slots > (d->bytes - d->index_off) / each)
        return false;
    if (d->records_off % 8 != 0 || d->records_off < d->index_off + d->slots * each ||
        d->records_off > d->bytes)
        return false;
    if (view_is_hashed(d->kind))
        /* A mask finds the slot; without the bound on probes a lookup might go round for ever. */
        return d->slots > 0 && (d->slots & (d->slots - 1)) == 0 && d->probes_max <= d->slots;
    return d->v4_slots <= d->slots;
}

/* `why` goes to operators: each sentence names what the file says and what would be right. */
static int
view_check_header(const struct table_data *d, uint64_t bytes, char *why, size_t size)
{
    if (memcmp(d->tag, TABLE_DATA_TAG, sizeof(d->tag)) != 0)
        return view_refuse(why, size, "it does not begin with " TABLE_DATA_TAG);
    if (d->order != TABLE_ORDER)
        return view_refuse(why, size,
            d->order == __builtin_bswap32(TABLE_ORDER)
                ? "it was written on a machine of the other byte order"
                : "its byte order mark is 0x%08x, not 0x%08x",
            d->order, TABLE_ORDER);
    if (d->layout != TABLE_LAYOUT || d->header_bytes != sizeof(*d))
        return view_refuse(why, size,
            "its layout is %u (header %u bytes); this build reads %u (%zu)", d->layout,
            d->header_bytes, TABLE_LAYOUT, sizeof(*d));
    if (d->kind == TABLE_ANY || d->kind >= TABLE_KIND_COUNT)
        return view_refuse(why, size, "its kind, %u, is none that this build knows", d->kind);
    /* Two places say it: a file of another version is found by that. */
    if (d->bytes != bytes)
        return view_refuse(why, size, "it says that it has %llu bytes, the version says %llu",
            (unsigned long long)d->bytes, (unsigned long long)bytes);
    if (!view_parts_fit(d))
        return view_refuse(
            why, size, "its parts do not lie within its %llu bytes", (unsigned long long)bytes);
    return 0;
}

/* With TABLE_UNCHECKED only the header is looked at: a lookup still stays inside, whatever the
 * other bytes are (README 4). */
int
table_view_open(struct table_view *out, const void *base, uint64_t bytes, enum table_trust trust,
    char *why, size_t why_size)
{
    struct table_data d;
    uint64_t hash;
    int err;

    if (bytes < sizeof(d) || bytes > TABLE_BYTES_MAX)
        return view_refuse(
            why, why_size, "a version of %llu bytes cannot be", (unsigned long long)bytes);
    memcpy(&d, base, sizeof(d)); /* what we check is what we use */
    err = view_check_header(&d, bytes, why, why_size);
    if (err != 0)
        return err;
    if (trust == TABLE_CHECKED) {
        /* All behind tag and hash itself. */
        hash = hash_plain((const char *)base + 16, bytes - 16);
        if (hash != d.hash)
            return view_refuse(why, why_size, "torn: its bytes hash to %016llx, it says %016llx",
                (unsigned long long)hash, (unsigned long long)d.hash);
    }
    *out = (struct table_view){.base = base,
        .bytes = bytes,
        .generation = d.generation,
        .entries = d.entries,
        .made_ms = d.made_ms,
        .hash = d.hash,
        .index_off = d.index_off,
        .slots = d.slots,
        .v4_slots = d.v4_slots,
        .probes_max = d.probes_max,
        .records_off = d.records_off,
        .kind = (enum table_kind)d.kind};
    return 0;
}

/* The record at that offset, if there is one. */
static inline bool
view_record(const struct table_view *v, uint64_t off, struct slice *key, struct slice *value)
{
    const uint8_t *p;
    uint64_t key_bytes, value_off;

    /* The mapping has sizeof(struct table_data) bytes at least, so nothing wraps. */
    if (off < v->records_off || off > v->bytes - TABLE_RECORD_MIN)
        return false;
    p = v->base + off;
    key_bytes = view_u32(p);
    value_off = off + TABLE_RECORD_MIN + table_round8(key_bytes);
    value->len = view_u32(p + 4);
    /* Sums of 32-bit lengths in 64 bits: they do not wrap. The key lies in front of the value, so
     * it is inside, too. */
    if (value_off + value->len > v->bytes)
        return false;
    *key = slice_of((const char *)p + TABLE_RECORD_MIN, key_bytes);
    value->ptr = (const char *)v->base + value_off;
    return true;
}

static bool
view_find_hashed(const struct table_view *v, struct slice key, struct slice *value)
{
    uint64_t hash = hash_plain(key.ptr, key.len), mask = v->slots - 1;
    const uint8_t *index = v->base + v->index_off;
    struct slice stored;

    for (uint64_t i = 0; i < v->probes_max; i++) {
        const uint8_t *slot = index + ((hash + i) & mask) * sizeof(struct table_slot);
        uint64_t record = view_u32(slot + 4);

        /* An empty slot ends the search: no record lies at 0, where the header is. */
        if (record == 0)
            return false;
        /* Bits that the place does not come from: records of other keys are hardly ever touched. */
        if (view_u32(slot) == (uint32_t)(hash >> 32) &&
            view_record(v, record * 8, &stored, value) && slice_eq(stored, key))
            return true;
    }
    return false;
}

/* How long is the common beginning?  *sign as memcmp(), the shorter first. */
static size_t
view_common(struct slice a, struct slice b, int *sign)
{
    size_t least = a.len < b.len ? a.len : b.len, n = 0;

    while (n < least && a.ptr[n] == b.ptr[n])
        n++;
    *sign = n < least ? ((unsigned char)a.ptr[n] < (unsigned char)b.ptr[n] ? -1 : 1)
                      : (a.len > b.len) - (a.len < b.len);
    return n;
}

/* The last stored key that is not after ours either is a beginning of it, or has one among its
 * parents: all that begin ours are before it, and the longest of them begins it, too.  Parents come
 * before their children and a parent is shorter, so there are at most TABLE_KEY_MAX steps. */
static bool
view_find_prefix(const struct table_view *v, struct slice key, struct slice *value)
{
    const uint8_t *index = v->base + v->index_off;
    uint64_t low = 0, high = v->slots; /* the answer is before high */
    struct slice stored = {NULL, 0};
    size_t common = 0;
    int sign;

    while (low < high) {
        uint64_t mid = low + (high - low) / 2;

        if (!view_record(v, (uint64_t)view_u32(index + mid * 8) * 8, &stored, value))
            return false;
        view_common(stored, key, &sign);
        if (sign <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (unsigned steps = 0; low > 0 && steps <= TABLE_KEY_MAX; steps++) {
        uint64_t at = low - 1;

        if (!view_record(v, (uint64_t)view_u32(index + at * 8) * 8, &stored, value))
            return false;
        if (steps == 0)
            common = view_common(stored, key, &sign);
        if (stored.len <= common)
            return true;
        low = view_u32(index + at * 8 + 4);
        if (low > at)
            return false; /* parents come first: this one would lead in a circle */
    }
    return false;
}

struct view_addr {
    uint64_t hi, lo;
};

/* Lengths are the file's: one above 128 is taken as 128. */
static struct view_addr
view_masked(struct view_addr a, uint32_t length)
{
    /* A shift by 64 is undefined. */
    if (length == 0)
        return (struct view_addr){0, 0};
    if (length <= 64)
        return (struct view_addr){a.hi & ~UINT64_C(0) << (64 - length), 0};
    return (struct view_addr){a.hi, a.lo & ~UINT64_C(0) << (128 - (length > 128 ? 128 : length))};
}

static bool
view_in_net(const uint8_t *net, struct view_addr a)
{
    struct view_addr m = view_masked(a, view_u32(net + 16));

    return m.hi == view_u64(net) && m.lo == view_u64(net + 8);
}

bool
table_view_find_address(const struct table_view *v, const uint8_t addr[16], struct slice *value)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *index = v->base + v->index_off;
    /* Networks of IPv4 come first, by themselves: ::/0 must not match them. */
    bool is_v4 = memcmp(addr, v4, sizeof(v4)) == 0;
    uint64_t first = is_v4 ? 0 : v->v4_slots, low = first;
    uint64_t high = is_v4 ? v->v4_slots : v->slots;
    struct view_addr a;
    struct slice text;

    if (v->kind != TABLE_ADDRESS)
        return false;
    memcpy(&a, addr, sizeof(a));
    a.hi = be64toh(a.hi);
    a.lo = be64toh(a.lo);
    while (low < high) { /* the last network that does not begin after the address */
        uint64_t mid = low + (high - low) / 2, hi = view_u64(index + mid * 32);

        if (hi < a.hi || (hi == a.hi && view_u64(index + mid * 32 + 8) <= a.lo))
            low = mid + 1;
        else
            high = mid;
    }
    /* Networks lie in each other or apart, so ours is it, or one of those around it: 129 at most. */
    for (unsigned steps = 0; low > first && steps <= 129; steps++) {
        uint64_t at = low - 1;

        if (view_in_net(index + at * 32, a))
            return view_record(v, (uint64_t)view_u32(index + at * 32 + 20) * 8, &text, value);
        low = view_u32(index + at * 32 + 24);
        /* Parents come first: this one would lead in a circle. */
        if (low > at)
            return false;
    }
    return false;
}

static bool
view_find_address_text(const struct table_view *v, struct slice key, struct slice *value)
{
    uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};
    char text[INET6_ADDRSTRLEN];

    if (key.len >= sizeof(text))
        return false;
    memcpy(text, key.ptr, key.len);
    text[key.len] = '\0';
    /* The first twelve bytes are those of a mapped address: inet_pton(AF_INET6) writes all
     * sixteen. */
    if (inet_pton(AF_INET, text, addr + 12) != 1 && inet_pton(AF_INET6, text, addr) != 1)
        return false;
    return table_view_find_address(v, addr, value);
}

/* `value` refers to the version, and is good while the caller is inside. */
bool
table_view_find(const struct table_view *v, struct slice key, struct slice *value)
{
    /* The steps of a search by prefix are bounded by it. */
    if (key.len > TABLE_KEY_MAX)
        return false;
    if (view_is_hashed(v->kind))
        return view_find_hashed(v, key, value);
    return v->kind == TABLE_PREFIX ? view_find_prefix(v, key, value)
                                   : view_find_address_text(v, key, value);
}

/* In the order in which the records lie, which is that of the text.  *at: 0 at first; what a
 * caller keeps of it means something in this version only. */
bool
table_view_next(const struct table_view *v, uint64_t *at, struct slice *key, struct slice *value)
{
    uint64_t off = *at == 0 ? v->records_off : *at;

    if (!view_record(v, off, key, value))
        return false;
    *at = off + TABLE_RECORD_MIN + table_round8(key->len) + table_round8(value->len);
    return true;
}
