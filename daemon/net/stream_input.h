/* stream_input.h -- received bytes that are read as far as they are whole, and kept where they are not.
 *
 * A run reads them where the kernel wrote them, in the stream's slab.  The slab goes back at its end: what was
 * not read by then is kept in memory of its own, and what comes next goes behind it, in one piece.
 *
 * Threads: the stream's loop.  Memory: `own` is charged to the loop as USAGE_READ.
 */
#ifndef TARN_STREAM_INPUT_H
#define TARN_STREAM_INPUT_H

#include "daemon/base/usage.h"
#include "daemon/net/stream.h"

struct stream_input {
    const char *p; /* in `own`, or in the slab during a run */
    char *own;     /* NULL: nothing is kept */
    uint32_t len, own_cap;
};

/* Puts what has just come behind what was kept.  TERR_NOMEM. */
int stream_input_join(
    struct stream_input *in, struct stream *s, struct usage *u, struct span received);
/* From here on no byte of the slab may be read.  TERR_NOMEM: what was not read is lost. */
int stream_input_keep(struct stream_input *in, struct usage *u);
void stream_input_drop(struct stream_input *in, struct usage *u);

static inline void
stream_input_skip(struct stream_input *in, size_t n)
{
    tassert(n <= in->len);
    in->p += n;
    in->len -= (uint32_t)n;
}

/* A run begins.  0 or TERR_NOMEM. */
static inline int
stream_input_begin(struct stream_input *in, struct stream *s, struct usage *u, struct span received)
{
    if (received.len == 0)
        return 0;
    if (in->len > 0)
        return stream_input_join(in, s, u, received);
    in->p = received.ptr;
    in->len = (uint32_t)received.len;
    return 0;
}

#endif
