/* tassert.c -- the one way this process dies on a bug. */
#include "daemon/base/tassert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DESCRIBERS_MAX = 16
}; /* one per module that has something to say */

static tassert_describe_f *tassert_describers[DESCRIBERS_MAX];
static unsigned tassert_ndescribers;

void
tassert_describe(tassert_describe_f *describe)
{
    tassert(tassert_ndescribers < DESCRIBERS_MAX);
    tassert_describers[tassert_ndescribers++] = describe;
}

_Noreturn void
tassert_fail(const char *file, int line, const char *func, const char *expr)
{
    int err = errno;
    static _Thread_local int dying; /* a describer that fails must not recurse */

    fprintf(stderr, "tarnd: panic at %s:%d in %s(): %s (errno %d: %s)\n", file, line, func, expr,
        err, strerror(err));
    if (!dying) {
        dying = 1;
        for (unsigned i = 0; i < tassert_ndescribers; i++)
            tassert_describers[i]();
    }
    fflush(stderr);
    abort();
}
