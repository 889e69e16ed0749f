/* charge_table.h -- what memory is charged for: each row a leaf of the tree of memory.
 *
 * Constant, branch, name, documentation.  A branch is the sum of its leaves, and the root,
 * `memory.total`, that of the branches: what a store's size bounds (storage/README.md).
 */
#ifndef TARN_STORAGE_CHARGE_TABLE_H
#define TARN_STORAGE_CHARGE_TABLE_H

/* clang-format off */
#define CHARGE_BRANCH_TABLE(X)                                                                     \
    X(content, "Bytes of stored responses")                                                        \
    X(tables, "Bytes of index, bans, fleet, limits and negative cache")                            \
    X(passing, "Bytes of bodies in transit, which are not stored")                                 \
    X(traffic, "Bytes of the heap that connections and requests take")                             \
    X(process, "Bytes of the program and of the allocator's overhead")

#define CHARGE_TABLE(X)                                                                            \
    X(BODY, content, bodies, "Bytes of stored bodies, and of their extent lists")                  \
    X(HEAD, content, heads, "Bytes of stored heads, with their keys, Vary fields and tags")        \
    X(ENTRY, content, entries, "Bytes of entries: the metadata of stored responses")               \
    X(INDEX, tables, index, "Bytes of the index")                                                  \
    X(GHOST, tables, ghosts, "Bytes of the ghost queue: keys of evicted responses")                \
    X(NEGATIVE, tables, negative, "Bytes of the negative cache")                                   \
    X(BAN, tables, bans, "Bytes of bans and purges by tag that are in the list")                   \
    X(FLEET, tables, fleet, "Bytes of a fleet's nodes, and of invalidations on their way to them")  \
    X(RATES, tables, rates, "Bytes of the rate limits' table")                                     \
    X(TRANSIT, passing, transit, "Bytes of bodies that are not stored")                            \
    X(WINDOW, passing, windows, "Bytes of windows: bodies with several readers, not stored")       \
    X(SYNTH, traffic, synths, "Bytes of synthetic responses' extent lists")                        \
    X(READ, traffic, read_buffers, "Bytes of read buffers, also of idle connections")              \
    X(ARENA, traffic, arenas, "Bytes of requests' arenas")                                         \
    X(CONN, traffic, connections, "Bytes of connections to clients and to backends")               \
    X(INCOMING, traffic, incoming, "Bytes of connections that wait for a PROXY header or handshake") \
    X(TLS, traffic, tls, "Bytes of OpenSSL: state of TLS connections, certificates, keys")         \
    X(REQUEST, traffic, requests, "Bytes of requests and fetches in flight")                       \
    X(PROGRAM, process, program, "Bytes of the program, and of the log rings")                     \
    X(OVERHEAD, process, overhead, "Bytes of the allocator's overhead")
/* clang-format on */

/* A leaf.  Passed with each charge, and again with its release. */
enum charge {
#define X(id, branch, name, doc) CHARGE_##id,
    CHARGE_TABLE(X)
#undef X
    CHARGE_COUNT
};

#endif
