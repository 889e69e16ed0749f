/* table_build.c -- entries sorted or hashed into the bytes of a version. */
#include "daemon/table/table_build.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* An entry; its record's offset counts from the first record. */
struct build_item {
    uint64_t off;
    uint64_t number; /* of table_builder_add() */
    uint64_t hi, lo; /* ADDRESS */
    uint32_t length;
    uint32_t key_bytes;
};

#define TABLE_BUILDER_MAGIC OBJ_TAG('t', 'b', 'l', 'd')
struct table_builder {
    uint32_t magic;
    enum table_kind kind;
    struct build_item *items;
    size_t nitems, items_max;
    uint8_t *records;
    uint64_t used, records_max;
};

/* In the process that writes: tarn-table, or tarnd's management thread.  All of the table is in
 * memory until it is written. */
int
table_builder_new(struct table_builder **out, enum table_kind kind)
{
    struct table_builder *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return TERR_NOMEM;
    tassert(kind > TABLE_ANY && kind < TABLE_KIND_COUNT);
    b->magic = TABLE_BUILDER_MAGIC;
    b->kind = kind;
    *out = b;
    return 0;
}

enum table_kind
table_builder_kind(const struct table_builder *b)
{
    OBJ_CHECK(b, TABLE_BUILDER_MAGIC);
    return b->kind;
}

void
table_builder_free(struct table_builder **bp)
{
    struct table_builder *b;

    OBJ_TAKE(b, bp, TABLE_BUILDER_MAGIC);
    free(b->items);
    free(b->records);
    OBJ_FREE(b);
}

/* Room for one more item and so many bytes, twice as much as there was.
 * Both or none: on failure the builder is as it was, and what was added before stays good. */
static int
builder_reserve(struct table_builder *b, uint64_t bytes)
{
    if (b->nitems == b->items_max) {
        /* Doubled: a table of millions is built line by line. */
        size_t max = b->items_max == 0 ? 64 : b->items_max * 2;
        struct build_item *items = realloc(b->items, max * sizeof(*items));

        if (items == NULL)
            return TERR_NOMEM;
        b->items = items;
        b->items_max = max;
    }
    if (b->used + bytes > b->records_max) {
        uint64_t max = b->records_max == 0 ? 4096 : b->records_max * 2;
        uint8_t *records;

        while (max < b->used + bytes)
            max *= 2;
        records = realloc(b->records, max);
        if (records == NULL)
            return TERR_NOMEM;
        b->records = records;
        b->records_max = max;
    }
    return 0;
}

/* The address before the slash, as 16 bytes.  Its bits: 32 or 128; 0: it is none. */
static unsigned
builder_parse_address(struct slice key, size_t len, uint8_t addr[16])
{
    char text[INET6_ADDRSTRLEN];

    if (len >= sizeof(text))
        return 0;
    /* inet_pton(3) wants a NUL. */
    memcpy(text, key.ptr, len);
    text[len] = '\0';
    if (inet_pton(AF_INET, text, addr + 12) == 1)
        return 32;
    return inet_pton(AF_INET6, text, addr) == 1 ? 128 : 0;
}

/* What stands behind the slash; UINT_MAX: no number. */
static unsigned
builder_parse_length(struct slice digits)
{
    unsigned length = 0;

    /* Three digits cannot overflow. */
    if (digits.len < 1 || digits.len > 3)
        return UINT_MAX;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
            return UINT_MAX;
        length = length * 10 + (unsigned)(digits.ptr[i] - '0');
    }
    return length;
}

/* Bits of the address that are not the network's. */
static uint64_t
builder_tail(const struct build_item *i)
{
    if (i->length >= 128)
        return 0;
    if (i->length >= 64)
        return i->lo & (~UINT64_C(0) >> (i->length - 64));
    return (i->hi & (~UINT64_C(0) >> i->length)) | i->lo;
}

/* "192.0.2.0/24", "2001:db8::1"; the bits behind the length are 0. */
static int
builder_parse_net(struct slice key, struct build_item *item, const char **why)
{
    uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};
    const char *slash = memchr(key.ptr, '/', key.len);
    size_t len = slash != NULL ? (size_t)(slash - key.ptr) : key.len;
    unsigned bits = builder_parse_address(key, len, addr), length = bits;
    uint64_t parts[2];

    if (slash != NULL)
        length = builder_parse_length(slice_of(slash + 1, key.len - len - 1));
    *why = "not an address or a network, as 192.0.2.0/24 or 2001:db8::1";
    if (bits == 0 || length == UINT_MAX)
        return TERR_INVALID;
    *why =
        bits == 32 ? "an IPv4 network has at most 32 bits" : "an IPv6 network has at most 128 bits";
    if (length > bits)
        return TERR_INVALID;
    memcpy(parts, addr, sizeof(parts));
    /* Counted in 128 bits for both families. */
    item->length = length + (128 - bits);
    item->hi = be64toh(parts[0]);
    item->lo = be64toh(parts[1]);
    *why = "bits are set behind the network's length";
    /* 10.0.0.1/8 may mean either: the search relies on their being 0. */
    if (builder_tail(item) != 0)
        return TERR_INVALID;
    *why = "";
    return 0;
}

static int
builder_check(struct table_builder *b, struct slice key, struct slice value,
    struct build_item *item, const char **why)
{
    *why = "";
    if (key.len > TABLE_KEY_MAX) {
        *why = "the key is longer than 4096 bytes";
        return TERR_LIMIT;
    }
    if (value.len > TABLE_VALUE_MAX) {
        *why = "the value is longer than 1 MiB";
        return TERR_LIMIT;
    }
    /* Most likely the kind is wrong: the values would never be seen. */
    if (b->kind == TABLE_SET && value.len > 0) {
        *why = "keys of a set have no values; a map has";
        return TERR_INVALID;
    }
    if (b->kind == TABLE_VECTOR && value.len % sizeof(float) != 0) {
        *why = "a vector has a whole number of 4-byte floats";
        return TERR_INVALID;
    }
    return b->kind == TABLE_ADDRESS ? builder_parse_net(key, item, why) : 0;
}

int
table_builder_add(struct table_builder *b, struct slice key, struct slice value, const char **why)
{
    uint64_t key_room = table_round8(key.len), value_room = table_round8(value.len);
    uint64_t bytes = sizeof(struct table_record) + key_room + value_room;
    struct build_item item = {.key_bytes = (uint32_t)key.len};
    struct table_record record = {(uint32_t)key.len, (uint32_t)value.len};
    uint8_t *p;
    int err;

    OBJ_CHECK(b, TABLE_BUILDER_MAGIC);
    err = builder_check(b, key, value, &item, why);
    if (err == 0)
        err = builder_reserve(b, bytes);
    if (err != 0)
        return err;
    /* An offset and no pointer: `records` moves when it grows. */
    item.off = b->used;
    item.number = b->nitems;
    p = b->records + b->used;
    /* The bytes between are part of the checksum. */
    memset(p, 0, bytes);
    memcpy(p, &record, sizeof(record));
    if (key.len > 0)
        memcpy(p + sizeof(record), key.ptr, key.len);
    if (value.len > 0)
        memcpy(p + sizeof(record) + key_room, value.ptr, value.len);
    b->items[b->nitems++] = item;
    b->used += bytes;
    return 0;
}

static struct slice
builder_key(const uint8_t *records, const struct build_item *item)
{
    return slice_of(
        (const char *)records + item->off + sizeof(struct table_record), item->key_bytes);
}

/* --- the index --- */

/* Bytes, and no locale: a reader searches by the same order (view_find_prefix). */
static int
builder_compare_keys(const void *x, const void *y, void *records)
{
    struct slice a = builder_key(records, x), b = builder_key(records, y);
    size_t least = a.len < b.len ? a.len : b.len;
    int sign = least == 0 ? 0 : memcmp(a.ptr, b.ptr, least);
    const struct build_item *i = x, *j = y;

    if (sign == 0)
        /* A beginning before what it begins: so a parent lies before its children. */
        sign = (a.len > b.len) - (a.len < b.len);
    /* Equal keys in the order of the text: the second one is reported. */
    return sign != 0 ? sign : (i->number > j->number) - (i->number < j->number);
}

static bool
builder_is_v4(const struct build_item *i)
{
    /* At 96 bits and more: ::/0 is a network of IPv6. */
    return i->hi == 0 && i->lo >> 32 == 0xffff && i->length >= 96;
}

static int
builder_compare_nets(const void *x, const void *y, void *unused)
{
    const struct build_item *a = x, *b = y;

    (void)unused;
    if (builder_is_v4(a) != builder_is_v4(b))
        /* Those of IPv4 first, so that each search looks through its own family only. */
        return builder_is_v4(a) ? -1 : 1;
    if (a->hi != b->hi)
        return a->hi < b->hi ? -1 : 1;
    if (a->lo != b->lo)
        return a->lo < b->lo ? -1 : 1;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The result does not depend on a secret: the reader is another process, and computes the same
 * hash. */
static int
builder_index_hash(struct table_builder *b, struct table_data *d, uint8_t *image, size_t *again)
{
    struct table_slot *slots = (void *)(image + d->index_off);
    uint64_t mask = d->slots - 1;

    for (size_t i = 0; i < b->nitems; i++) {
        struct slice key = builder_key(b->records, &b->items[i]);
        uint64_t hash = hash_plain(key.ptr, key.len), probes = 0, at;

        /* Half full at most: it ends. */
        for (at = hash & mask; slots[at].record != 0; at = (at + 1) & mask, probes++) {
            struct build_item other;

            /* The other half of the hash: keys are compared only where both agree. */
            if (slots[at].tag != (uint32_t)(hash >> 32))
                continue;
            other.off = (uint64_t)slots[at].record * 8 - d->records_off;
            memcpy(&other.key_bytes, b->records + other.off, sizeof(other.key_bytes));
            if (slice_eq(builder_key(b->records, &other), key)) {
                *again = i;
                return TERR_EXISTS;
            }
        }
        slots[at].tag = (uint32_t)(hash >> 32);
        slots[at].record = (uint32_t)((d->records_off + b->items[i].off) / 8);
        if (probes + 1 > d->probes_max)
            /* In the header: a search needs no more steps, whatever a damaged file holds. */
            d->probes_max = probes + 1;
    }
    return 0;
}

static bool
builder_begins(struct slice shorter, struct slice key)
{
    return shorter.len <= key.len && memcmp(shorter.ptr, key.ptr, shorter.len) == 0;
}

/* The parent is the one before, or one of its parents: what begins or holds both lies before both. */
static int
builder_index_prefixes(struct table_builder *b, struct table_data *d, uint8_t *image, size_t *again)
{
    struct table_prefix *p = (void *)(image + d->index_off);

    if (b->nitems > 0)
        qsort_r(b->items, b->nitems, sizeof(b->items[0]), builder_compare_keys, b->records);
    for (size_t i = 0; i < b->nitems; i++) {
        struct slice key = builder_key(b->records, &b->items[i]);
        uint32_t up = (uint32_t)i;

        /* Up the chain of the one before: each that is passed over is never a parent again, so all
         * of it is linear. */
        while (up > 0 && !builder_begins(builder_key(b->records, &b->items[up - 1]), key))
            up = p[up - 1].parent;
        if (up > 0 && b->items[up - 1].key_bytes == key.len) {
            *again = b->items[i].number;
            return TERR_EXISTS;
        }
        p[i].record = (uint32_t)((d->records_off + b->items[i].off) / 8);
        p[i].parent = up;
    }
    return 0;
}

static bool
builder_holds(const struct build_item *net, const struct build_item *i)
{
    uint64_t hi = net->length >= 64 ? ~UINT64_C(0) : ~(~UINT64_C(0) >> net->length);
    uint64_t lo = net->length >= 128 ? ~UINT64_C(0)
                  : net->length > 64 ? ~(~UINT64_C(0) >> (net->length - 64))
                                     : 0;

    return net->length <= i->length && (i->hi & hi) == net->hi && (i->lo & lo) == net->lo &&
           /* ::/0 does not hold IPv4, which is searched by itself. */
           builder_is_v4(net) == builder_is_v4(i);
}

static int
builder_index_nets(struct table_builder *b, struct table_data *d, uint8_t *image, size_t *again)
{
    struct table_net *nets = (void *)(image + d->index_off);

    if (b->nitems > 0)
        qsort_r(b->items, b->nitems, sizeof(b->items[0]), builder_compare_nets, NULL);
    for (size_t i = 0; i < b->nitems; i++) {
        const struct build_item *item = &b->items[i];
        uint32_t up = (uint32_t)i;

        while (up > 0 && !builder_holds(&b->items[up - 1], item))
            up = nets[up - 1].parent;
        /* It holds this one and is as long: it is the same. */
        if (up > 0 && b->items[up - 1].length == item->length) {
            *again = item->number;
            return TERR_EXISTS;
        }
        nets[i] = (struct table_net){.hi = item->hi,
            .lo = item->lo,
            .length = item->length,
            .record = (uint32_t)((d->records_off + item->off) / 8),
            .parent = up};
        d->v4_slots += builder_is_v4(item);
    }
    return 0;
}

static int
builder_index(struct table_builder *b, struct table_data *d, uint8_t *image, size_t *again)
{
    if (b->kind == TABLE_PREFIX)
        return builder_index_prefixes(b, d, image, again);
    if (b->kind == TABLE_ADDRESS)
        return builder_index_nets(b, d, image, again);
    return builder_index_hash(b, d, image, again);
}

/* Where everything will lie; hash tables are at most half full.
 * Header, index, records, in this order and each on 8 bytes: view_parts_fit() checks the same. */
static int
builder_lay_out(const struct table_builder *b, struct table_data *d)
{
    struct timespec now;
    uint64_t each = sizeof(struct table_slot);

    clock_gettime(CLOCK_REALTIME, &now);
    *d = (struct table_data){.tag = TABLE_DATA_TAG,
        .order = TABLE_ORDER,
        .layout = TABLE_LAYOUT,
        .kind = b->kind,
        .header_bytes = sizeof(*d),
        .entries = b->nitems,
        .made_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
        .index_off = sizeof(*d),
        .slots = b->nitems};
    if (b->kind == TABLE_ADDRESS)
        each = sizeof(struct table_net);
    else if (b->kind != TABLE_PREFIX)
        /* A power of two, for the mask. */
        for (d->slots = 2; d->slots < 2 * b->nitems;)
            d->slots *= 2;
    d->records_off = d->index_off + d->slots * each;
    d->bytes = d->records_off + b->used;
    /* Offsets of records have 32 bits, in units of 8 bytes. */
    return d->bytes > TABLE_BYTES_MAX ? TERR_LIMIT : 0;
}

/* The image is the caller's (free).  generation and hash are set again by table_write(), which
 * alone knows the version. */
int
table_builder_finish(struct table_builder *b, struct table_image *out, size_t *again)
{
    struct table_data d;
    uint8_t *image;
    int err;

    OBJ_CHECK(b, TABLE_BUILDER_MAGIC);
    err = builder_lay_out(b, &d);
    if (err != 0)
        return err;
    image = calloc(1, d.bytes);
    if (image == NULL)
        return TERR_NOMEM;
    err = builder_index(b, &d, image, again);
    if (err == 0) {
        if (b->used > 0)
            memcpy(image + d.records_off, b->records, b->used);
        memcpy(image, &d, sizeof(d));
        /* Last: of all bytes behind itself. */
        ((struct table_data *)(void *)image)->hash = hash_plain(image + 16, d.bytes - 16);
        *out = (struct table_image){image, d.bytes};
    } else {
        free(image);
    }
    /* The items may be sorted by now: the builder begins anew. */
    b->nitems = 0;
    b->used = 0;
    return err;
}
