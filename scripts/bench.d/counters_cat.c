/* counters_cat.c -- prints the counters of a running tarnd, one `name value` a line.
 *
 *     bench-counters FILE
 *
 * FILE is `counters` in tarnd's shared-memory directory (parameter shm_dir).
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/shm/counters.h"

int
main(int argc, char **argv)
{
    struct counters_view *view;
    struct counters_row row;
    int err;

    if (argc != 2) {
        fprintf(stderr, "usage: bench-counters FILE\n");
        return 2;
    }
    err = counters_view_open(&view, argv[1]);
    if (err < 0) {
        fprintf(stderr, "bench-counters: %s: %s\n", argv[1], terr_text(err));
        return 1;
    }
    for (unsigned i = 0; i < counters_view_rows(view); i++) {
        if (counters_view_row(view, i, &row) == 0)
            printf("%s %" PRIu64 "\n", row.name, row.value);
    }
    counters_view_close(&view);
    return 0;
}
