/* cert_report.c -- rows of what is wrong with files.
 *
 * A directory of 50,000 files may be wrong 50,000 times: all are counted, the first are kept.  Without memory a row is
 * lost and its count is not, so that a bad file never passes for a good one. */
#include "daemon/tls/cert_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
cert_report_add(
    struct cert_report *r, bool is_error, const char *file, unsigned line, const char *fmt, ...)
{
    struct cert_report_row row = {.line = line, .is_error = is_error};
    char why[CERT_WHY_MAX];
    va_list ap;

    /* Counted before anything can fail. */
    r->nerrors += is_error;
    r->nremarks += !is_error;
    if (r->nrows == CERT_REPORT_ROWS_MAX)
        return;
    if (r->rows == NULL) {
        r->rows = calloc(CERT_REPORT_ROWS_MAX, sizeof(*r->rows));
        if (r->rows == NULL)
            return;
    }
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    row.file = strdup(file);
    row.why = strdup(why);
    if (row.file == NULL || row.why == NULL) {
        free(row.file);
        free(row.why);
        return;
    }
    r->rows[r->nrows++] = row;
}

void
cert_report_free(struct cert_report *r)
{
    for (unsigned i = 0; i < r->nrows; i++) {
        free(r->rows[i].file);
        free(r->rows[i].why);
    }
    free(r->rows);
    *r = (struct cert_report){.nrows = 0};
}
