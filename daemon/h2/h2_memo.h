/* h2_memo.h -- field blocks that clients repeat, decoded once.
 *
 * A client's requests differ in their path, and mostly in nothing else; a browser's later ones are some
 * twenty octets of references to the dynamic table.  A block that changes no table means the same again in
 * the same state of the table, so it needs neither decoding nor judging.
 *
 *   block       a field block, without the value of :path where that is a literal (clients do not index it)
 *   state       a number for what a dynamic table holds; 0: nothing.  Tables that came to be by the same
 *               blocks have the same number, on all connections of a worker; another table never has it
 *   transition  from a state by a block that changes the table to the next state
 *
 * Everything is compared octet for octet: no hash decides what a request says.  Memory is had at once and
 * never grows.
 *
 * Private to h2/.  Threads: one loop's.  Source: RFC 7541.
 */
#ifndef TARN_H2_MEMO_H
#define TARN_H2_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

struct h2_memo;

/* RFC 9218 4. */
struct h2_priority {
    uint8_t urgency; /* 0 first, 7 last */
    bool incremental;
};

/* What a look at a block's representations tells, without a table. */
struct h2_scan {
    struct slice block;
    struct slice
        path; /* of a :path that is a literal: its string, as coded; .ptr NULL: there is none */
    uint16_t path_at;     /* where it begins in the block, its length included */
    uint16_t path_coded;  /* so many octets of the block */
    bool path_is_huffman; /* RFC 7541 5.2 */
    bool changes;         /* the block adds to the table, or changes its size */
};

/* False: its representations are not whole. */
bool h2_scan(const char *block, size_t len, struct h2_scan *out);

/* RFC 7541 5.2 and appendix B, for strings of codes of at most eight bits, as nearly all of a path are: the
 * length of what was written to `out`, at most 8 / 5 of s.len; -1: it has others, or is malformed. */
int h2_huffman_short(struct slice s, char *out);

/* NULL: no memory; then nothing is known, and everything else works. */
struct h2_memo *h2_memo_new(void);
void h2_memo_free(struct h2_memo **mp);

/* A head that such a block gave before, in this state: fills in everything of `head` but a path that is
 * a literal, its texts at m->base from 0 on, for which there is room for H2_MEMO_TEXT octets.  The length of the texts; 0: it
 * is not known. */
enum {
    H2_MEMO_TEXT = 1536
};
size_t h2_memo_find(struct h2_memo *m, uint64_t state, const struct h2_scan *scan, char *text,
    struct http_message *head, struct h2_priority *priority);
/* It was decoded and judged, has no body, and says nothing of its message alone.  Its text is `len` octets at
 * head->base. */
void h2_memo_note(struct h2_memo *m, uint64_t state, const struct h2_scan *scan, size_t len,
    const struct http_message *head, struct h2_priority priority);

/* The state behind a block that changes the table: one that is known, or *last, counted up. */
uint64_t h2_memo_next(struct h2_memo *m, uint64_t state, struct slice block, uint64_t *last);

#endif
