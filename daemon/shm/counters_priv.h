/* counters_priv.h -- the bytes of a file of counters.
 *
 * A header page's worth of facts, a table of rows with names and documentation, then one set of
 * values for each worker and a last one shared.  Sets lie `set_bytes` apart.
 */
#ifndef TARN_COUNTERS_PRIV_H
#define TARN_COUNTERS_PRIV_H

#include <stdint.h>

#define COUNTERS_FILE_MAGIC UINT64_C(0x31544e434e524154) /* "TARNCNT1" */

enum {
    COUNTERS_VERSION = 2,
    COUNTERS_NAME_MAX = 48,
    COUNTERS_DOC_MAX = 136,
    COUNTERS_ROWS_MAX = 4096, /* in a file of another process */
    COUNTERS_LINE = 128,      /* the prefetcher fetches cache lines in pairs */
};

struct counters_file_row {
    char name[COUNTERS_NAME_MAX]; /* NUL-terminated, as is doc */
    char doc[COUNTERS_DOC_MAX];
    uint32_t kind;                 /* enum counter_kind */
    uint16_t sum_first, sum_count; /* rows that are added to its own value; count 0: none */
};
_Static_assert(sizeof(struct counters_file_row) == 192, "as README.md says");

struct counters_file {
    uint64_t magic;
    uint32_t version;
    uint32_t row_bytes;
    uint32_t nrows;
    uint32_t nsets; /* workers and one */
    uint64_t rows_off, sets_off, set_bytes;
    uint32_t pid, unused[3];
};
_Static_assert(sizeof(struct counters_file) == 64, "as README.md says");

#endif
