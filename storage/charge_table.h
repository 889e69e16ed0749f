/* charge_table.h -- what memory is charged for: each row a leaf of the tree of memory.
 *
 * Constant, branch, name, documentation.  A branch is the sum of its leaves, and the root,
 * `memory.total`, that of the branches: what a store's size bounds (storage/README.md).
 */
#ifndef TARN_STORAGE_CHARGE_TABLE_H
#define TARN_STORAGE_CHARGE_TABLE_H

/* clang-format off */
#define CHARGE_BRANCH_TABLE(X)                                                                     \
    X(content, "Bytes of what is stored")                                                          \
    X(tables, "Bytes of what finds it, and remembers what was not")                                \
    X(passing, "Bytes of what is on its way through and not stored")                               \
    X(traffic, "Bytes that connections and requests take from the heap")                           \
    X(process, "Bytes of the process that nobody asked for")

#define CHARGE_TABLE(X)                                                                            \
    X(BODY, content, bodies, "Bytes of stored bodies, and of the lists of their pieces")           \
    X(HEAD, content, heads, "Bytes of stored heads, with their keys, Vary fields and tags")  \
    X(ENTRY, content, entries, "Bytes of entries: what is known about stored responses")           \
    X(INDEX, tables, index, "Bytes of the index's table")                                          \
    X(GHOST, tables, ghosts, "Bytes of the list of what was evicted")                              \
    X(NEGATIVE, tables, negative, "Bytes of the negative cache")                                   \
    X(BAN, tables, bans, "Bytes of bans and purges by tag that are in the list")                   \
    X(RATES, tables, rates, "Bytes of the table of who has asked how often")                       \
    X(TRANSIT, passing, transit, "Bytes of bodies that are not stored")                            \
    X(WINDOW, passing, windows, "Bytes of windows on bodies that many read and nobody stores")     \
    X(SYNTH, traffic, synths, "Bytes of the lists behind answers that Tarn makes itself")          \
    X(READ, traffic, read_buffers, "Bytes of read buffers, of connections that wait, too")         \
    X(ARENA, traffic, arenas, "Bytes of requests' arenas")                                         \
    X(CONN, traffic, connections, "Bytes of connections' own, to clients and to backends")         \
    X(INCOMING, traffic, incoming, "Bytes of connections that wait for their PROXY header")         \
    X(REQUEST, traffic, requests, "Bytes of requests and fetches under way")                       \
    X(PROGRAM, process, program, "Bytes of the program, and of the log's rings")                   \
    X(OVERHEAD, process, overhead, "Bytes that the allocator takes beyond what it gives")
/* clang-format on */

/* A leaf.  Passed with each charge, and again with its release. */
enum charge {
#define X(id, branch, name, doc) CHARGE_##id,
    CHARGE_TABLE(X)
#undef X
    CHARGE_COUNT
};

#endif
