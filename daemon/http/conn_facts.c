/* conn_facts.c -- a copy of what the handshake of a connection said. */
#include "daemon/http/conn_facts.h"

#include <string.h>

#include "daemon/base/arena.h"
#include "daemon/base/span.h"

struct conn_secure *
conn_secure_copy(const struct conn_secure *s, struct arena *a)
{
    struct conn_secure *copy = arena_alloc(a, sizeof(*copy));

    if (copy == NULL)
        return NULL;
    *copy = *s;
    for (unsigned i = 0; i < CONN_SECURE_TEXTS; i++) {
        const char **text = conn_secure_text(copy, i);
        struct slice own = arena_copy(a, slice_of(*text, strlen(*text) + 1));

        if (own.ptr == NULL)
            return NULL;
        *text = own.ptr;
    }
    return copy;
}
