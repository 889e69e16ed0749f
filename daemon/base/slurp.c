/* slurp.c -- the whole of a file. */
#include "daemon/base/slurp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To its end.  0, or an errno. */
static int
slurp_stream(FILE *f, struct span *out)
{
    size_t room = 65536;

    out->ptr = malloc(room);
    while (out->ptr != NULL && !feof(f) && !ferror(f)) {
        /* Read to its end and not by its size: a pipe has none. */
        if (out->len == room) {
            char *more = realloc(out->ptr, room *= 2);

            if (more == NULL)
                free(out->ptr);
            out->ptr = more;
            continue;
        }
        out->len += fread(out->ptr + out->len, 1, room - out->len, f);
    }
    return out->ptr == NULL ? ENOMEM : ferror(f) ? errno : 0;
}

/* For programs and for loads, never on a worker: it blocks.  The caller frees out->ptr. */
int
slurp_file(const char *name, struct span *out)
{
    /* As other commands have it. */
    FILE *f = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    int err;

    *out = (struct span){NULL, 0};
    if (f == NULL)
        return errno;
    err = slurp_stream(f, out);
    if (f != stdin)
        fclose(f);
    if (err != 0) {
        free(out->ptr);
        *out = (struct span){NULL, 0};
    }
    return err;
}
