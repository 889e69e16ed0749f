/* stream_input.c -- received bytes that are read as far as they are whole, and kept where they are not. */
#include "daemon/net/stream_input.h"

#include <string.h>

#include "daemon/base/terr.h"

enum {
    OWN_MIN = 512 /* least allocation for what is kept */
};

static bool
input_is_own(const struct stream_input *in)
{
    return in->own != NULL && in->p >= in->own && in->p <= in->own + in->own_cap;
}

/* Room for `len` bytes in `own`, keeping what is in it. */
static int
input_reserve(struct stream_input *in, struct usage *u, size_t len)
{
    bool is_own = in->len == 0 || input_is_own(in);
    size_t cap = in->own_cap > 0 ? in->own_cap : OWN_MIN;
    char *p;

    if (is_own && in->own != NULL && in->len > 0) {
        memmove(in->own, in->p, in->len);
        in->p = in->own;
    }
    if (len <= in->own_cap)
        return 0;
    while (cap < len)
        cap *= 2;
    p = usage_realloc(u, USAGE_READ, in->own, cap);
    if (p == NULL)
        return TERR_NOMEM;
    if (is_own)
        in->p = p;
    tassert(
        cap <= UINT32_MAX); /* heads and frames are bounded, and what comes with one is one read */
    in->own = p;
    in->own_cap = (uint32_t)cap;
    return 0;
}

int
stream_input_join(struct stream_input *in, struct stream *s, struct usage *u, struct span received)
{
    tassert(input_is_own(in));
    if (input_reserve(in, u, in->len + received.len) != 0)
        return TERR_NOMEM;
    memcpy(in->own + in->len, received.ptr, received.len);
    in->len += (uint32_t)received.len;
    stream_consume(s);
    return 0;
}

int
stream_input_keep(struct stream_input *in, struct usage *u)
{
    const char *from = in->p;

    if (in->len == 0) {
        stream_input_drop(in, u);
        return 0;
    }
    if (input_is_own(in))
        return 0;
    if (input_reserve(in, u, in->len) != 0)
        return TERR_NOMEM;
    memcpy(in->own, from, in->len);
    in->p = in->own;
    return 0;
}

void
stream_input_drop(struct stream_input *in, struct usage *u)
{
    usage_free(u, USAGE_READ, in->own);
    *in = (struct stream_input){.p = NULL};
}
