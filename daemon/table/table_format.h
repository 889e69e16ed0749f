/* table_format.h -- the bytes of a table: its state file and its two data files.
 *
 *   table    a set or a map that one process writes and others read, under a path P
 *   state    P.state: which of the copies counts, and the readers of each copy
 *   copy     P.0 and P.1: one version each; the one that does not count may be written
 *   version  one word {index 1 bit | bytes 39 | checksum 24}; 0: nothing was written yet
 *   reset    the writer gave up waiting for readers of a copy: one of them died
 *
 * For any program: needs no other header of Tarn's.  Numbers are in the byte order of the machine
 * that wrote them, which the files tell; offsets count from the beginning of the file.  README.md
 * has the same as tables, and the protocol (table_state.h) in words.
 */
#ifndef TARN_TABLE_FORMAT_H
#define TARN_TABLE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define TABLE_STATE_TAG  "TARNTST1"
#define TABLE_DATA_TAG   "TARNTDT1"
#define TABLE_ORDER      UINT32_C(0x01020304) /* as its writer stores it */
#define TABLE_LAYOUT     1u
#define TABLE_DIR        "/dev/shm/tarn"     /* where tables lie when nothing else is said */
#define TABLE_BYTES_MAX  (UINT64_C(1) << 34) /* of a copy; the version has room for 2^39 */
#define TABLE_KEY_MAX    4096u               /* bytes of a key; a chain of prefixes is no longer */
#define TABLE_VALUE_MAX  (1024u * 1024)      /* bytes of a value */
#define TABLE_RECORD_MIN 8u                  /* bytes of a record without key and value */

/* clang-format off */
/*    id, name, how a key is found, what its values are */
#define TABLE_KIND_TABLE(X)                                                                        \
    X(SET,     "set",     "exactly; keys have no values")                                          \
    X(MAP,     "map",     "exactly")                                                               \
    X(PREFIX,  "prefix",  "by the longest stored key that it begins with")                         \
    X(ADDRESS, "address", "an IP address, by the longest stored network that it is in")            \
    X(VECTOR,  "vector",  "exactly; values are arrays of 32-bit floating point numbers")
/* clang-format on */

enum table_kind {
    TABLE_ANY, /* in no file: whatever there is */
#define X(id, name, doc) TABLE_##id,
    TABLE_KIND_TABLE(X)
#undef X
    TABLE_KIND_COUNT
};

/* The parts that many write do not share a cache line with the part that many read. */
struct table_state {
    _Atomic uint64_t tag; /* bytes of TABLE_STATE_TAG; stored last when the file is made */
    uint32_t order, layout;
    uint64_t born; /* wall time in ns: tells a state file from the one it replaced */
    char unused[40];
    _Atomic uint64_t version;
    _Atomic uint64_t generation; /* of the newest version that was begun; grows, never repeats */
    _Atomic uint64_t resets;     /* ever */
    char unused_too[40];
    struct {
        _Atomic uint64_t word; /* {resets 32 bits | readers counted in 32 bits} */
        char unused[56];
    } readers[2];
};

/* What a copy begins with.  The index and the records follow, each on 8 bytes. */
struct table_data {
    char tag[8];
    uint64_t hash; /* XXH3, 64 bits, no seed, of everything behind it */
    uint32_t order, layout;
    uint32_t kind;         /* enum table_kind */
    uint32_t header_bytes; /* 128 */
    uint64_t bytes;        /* of this version; the file may be longer */
    uint64_t generation;
    uint64_t entries;
    uint64_t made_ms;   /* wall time */
    uint64_t index_off; /* SET, MAP, VECTOR: table_slot; PREFIX: table_prefix; ADDRESS: table_net */
    uint64_t slots;     /* of the index; of hash tables a power of two */
    uint64_t v4_slots;  /* ADDRESS: so many of them, the first ones, are IPv4 */
    uint64_t probes_max; /* of hash tables: slots that a search looks at */
    uint64_t records_off;
    uint64_t unused[3];
};

/* A hash table, linear probing from `hash & (slots - 1)`; at most half full. */
struct table_slot {
    uint32_t tag;    /* upper half of the key's hash: XXH3, 64 bits, no seed */
    uint32_t record; /* offset / 8; 0: the slot is empty */
};

/* Sorted by key, as memcmp() and then the shorter first. */
struct table_prefix {
    uint32_t record;
    uint32_t parent; /* 1 + the slot of the longest other key that this one begins with; 0: none */
};

/* Sorted by address, then by length. */
struct table_net {
    uint64_t hi, lo; /* the address as two numbers; IPv4 as ::ffff:a.b.c.d */
    uint32_t length; /* bits of the network, of 128 */
    uint32_t record;
    uint32_t parent; /* 1 + the slot of the smallest network around it; 0: none */
    uint32_t unused;
};

/* Then `key_bytes` of key, zeros to 8 bytes, the value, zeros to 8 bytes.  An ADDRESS's key is its
 * text, "192.0.2.0/24". */
struct table_record {
    uint32_t key_bytes, value_bytes;
};

_Static_assert(sizeof(struct table_state) == 256, "four cache lines");
_Static_assert(sizeof(struct table_data) == 128, "as README.md says");
_Static_assert(sizeof(struct table_slot) == 8 && sizeof(struct table_prefix) == 8, "as README.md");
_Static_assert(sizeof(struct table_net) == 32, "as README.md says");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics that work between processes");

#define TABLE_VERSION_BYTES(v) ((v) >> 24 & ((UINT64_C(1) << 39) - 1))
#define TABLE_VERSION_INDEX(v) ((unsigned)((v) >> 63))
#define TABLE_VERSION_SUM(v)   (0xffffff & (v))

static inline uint64_t
table_version(unsigned index, uint64_t bytes, uint64_t hash)
{
    return (uint64_t)index << 63 | bytes << 24 | (hash & 0xffffff);
}

static inline uint64_t
table_round8(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

#endif
