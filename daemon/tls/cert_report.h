/* cert_report.h -- what is wrong with files of certificates, and where.
 *
 * Threads: one at a time.  Errors: where memory is out, a row is counted and lost.
 */
#ifndef TARN_CERT_REPORT_H
#define TARN_CERT_REPORT_H

#include <stdbool.h>

enum {
    /* An operator reads the first of them; a directory may have 50,000 bad files. */
    CERT_REPORT_ROWS_MAX = 200,
    CERT_WHY_MAX = 320, /* bytes of a reason, with NUL */
};

struct cert_report_row {
    char *file;
    unsigned line; /* of the PEM block, from 1; 0: none */
    char *why;     /* what is wrong, and what would be right */
    bool is_error; /* else a remark: it is served all the same */
};

/* Zeroed: an empty one. */
struct cert_report {
    struct cert_report_row *rows; /* owned */
    unsigned nrows;
    unsigned nerrors, nremarks; /* those without a row counted, too */
};

void cert_report_add(struct cert_report *r, bool is_error, const char *file, unsigned line,
    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void cert_report_free(struct cert_report *r); /* leaves an empty one */

#endif
