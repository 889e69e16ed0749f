/* h1_memo.h -- field blocks that clients repeat, read once.
 *
 * A client's requests differ in their first line, and mostly in nothing else: what HPACK's tables
 * live on (RFC 7541 1).  Bytes that were read once mean the same again, so a block that is equal,
 * byte for byte, to one that was parsed and judged here before needs neither parsing nor judging.
 *
 *   block   everything of a request head behind its first line, the blank line included
 *   memo    a worker's blocks: a fixed table; a block is kept when it is seen for the second time
 *
 * Only what says nothing of its message alone is kept: HTTP/1.1, origin-form, no body, no Expect, no
 * Upgrade.  Memory is had at once and never grows; pages of slots not used are not touched.
 *
 * Private to h1/.  Threads: one loop's.
 */
#ifndef TARN_H1_MEMO_H
#define TARN_H1_MEMO_H

#include "daemon/h1/h1_parse.h"

struct h1_memo;

/* NULL: no memory; then nothing is known, and everything else works. */
struct h1_memo *h1_memo_new(void);
void h1_memo_free(struct h1_memo **mp);

/* The line has been read (p->line_done) and nothing behind it.  True: the whole head is in
 * p->head, judged, without a body; *persists is set, as framing.h has it.  *hint is the connection's, 0 at
 * first: where it was found the last time. */
bool h1_memo_find(struct h1_memo *m, uint8_t *hint, struct h1_parser *p, const char *bytes,
    size_t len, bool *persists);

/* A head that was parsed, judged, and has no body.  Keeps its block if it may and should. */
void h1_memo_note(struct h1_memo *m, const struct h1_parser *p, bool persists);

#endif
