/* access_pattern.h -- a format of one's own for the access log: text with fields, as in
 *
 *     $remote_addr [$time_local] "$request" $status $cache $time
 *
 * A name ends at the first byte that is no letter, digit or underscore; $$ is a dollar sign.
 *
 * Threads: any.
 */
#ifndef TARN_ACCESS_PATTERN_H
#define TARN_ACCESS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/access_field_table.h"
#include "daemon/base/span.h"

enum {
    ACCESS_PATTERN_MAX = 1024,       /* bytes of one */
    ACCESS_PATTERN_PIECES_MAX = 128, /* texts and fields of one */
    ACCESS_PATTERN_LINE_MAX = 32000, /* of the longest line that one can give, its end included */
};

struct access_piece {
    struct slice text;       /* of a text: into the pattern's own */
    enum access_field field; /* ACCESS_FIELD_COUNT: a text */
};

struct access_pattern {
    unsigned n;
    struct access_piece pieces[ACCESS_PATTERN_PIECES_MAX];
    char text[ACCESS_PATTERN_MAX];
};

/* Is it one, rather than the name of a format? */
bool access_pattern_is(const char *text);
/* 0; or TERR_CONFIG, and `why` says what would be right.  Not to be copied: it points into itself. */
int access_pattern_parse(struct access_pattern *out, struct slice text, char *why, size_t why_size);

#endif
