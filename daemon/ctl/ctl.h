/* ctl.h -- what tarnctl's commands share: one question to tarnd's admin listener, and tables.
 *
 * Private to ctl/.  Threads: one.
 */
#ifndef TARN_CTL_H
#define TARN_CTL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/json.h"
#include "daemon/base/span.h"

#define CTL_ADMIN "unix:/run/tarn/admin.sock" /* unless it is said */

/* Exit status. */
enum ctl_exit {
    CTL_DONE = 0,
    CTL_REFUSED = 1,     /* tarnd said no, and why; or what was asked for is not there */
    CTL_USAGE = 2,       /* the command line is wrong, or a file that it names */
    CTL_UNREACHABLE = 3, /* no answer from there, or not as tarnd answers */
    CTL_UNPROVEN = 4,    /* done, and not every node of the fleet has shown that it did the same */
};

enum {
    CTL_TIMEOUT_MAX_MS = 600000, /* of --timeout: tarnd takes no more */
    CTL_WAIT_MAX_MS = 60000,     /* of `fleet: wait` in the configuration */
};

struct ctl {
    const char *admin;     /* unix:/path or host:port */
    const char *token;     /* NULL: none */
    char token_read[1024]; /* --token-file */
    bool json;             /* answers are printed as they come */
    const char *const *args;
    int nargs;
    /* options of commands */
    bool soft, use;
    const char *limit, *every, *count;
    bool live;
    const char *tag, *url, *status, *client, *format; /* of log */
    bool hit, miss, all, follow, wait;
    const char *wait_for,
        *timeout; /* of what a fleet shares: wait_for is what stands behind --wait */
    bool local;
    long long patience_ms;               /* an answer may take so much longer */
    const char *to, *rate, *concurrency; /* of warm */
    bool quiet;                          /* a tarnd that does not answer is not reported */
};

/* ---- ctl_api.c ---- */

/* Asks.  `body` is NULL or JSON, which is taken.  CTL_DONE, and the answer in *out, which the caller
 * gives to json_decref(); or another, and standard error says why.  With c->json the answer has been
 * printed. */
int ctl_ask(struct ctl *c, const char *method, const char *path, json_t *body, json_t **out);
/* The same with bytes of any kind. */
int ctl_ask_with(
    struct ctl *c, const char *method, const char *path, struct slice body, json_t **out);
/* What the answer says besides, on standard error: that a fleet shares what was changed here. */
void ctl_note(const json_t *o);
/* PREFIX/NAME, NAME as one segment of a path.  Freed by the caller; NULL: no memory. */
char *ctl_path(const char *prefix, const char *name);
/* PREFIX and the text, percent-encoded.  Freed by the caller; NULL: no memory. */
char *ctl_escaped(const char *prefix, const char *text);
/* Are the command's arguments UTF-8, which is all that JSON carries?  False: standard error names the one
 * that is not. */
bool ctl_args_are_text(const struct ctl *c);
/* "tarnctl: ..." on standard error. */
__attribute__((format(printf, 1, 2))) void ctl_say(const char *fmt, ...);
/* The whole of a file, or of standard input when it is "-".  CTL_DONE and memory that the caller
 * frees, or CTL_USAGE. */
int ctl_slurp(const char *name, struct span *out);

/* ---- ctl_live.c: what is watched ---- */

/* Monotonic, in seconds. */
double ctl_clock(void);
void ctl_pause(double s);
/* Seconds, or a number of times: more than 0.  `text` NULL: *out stays.  False: standard error says
 * what is right. */
bool ctl_positive(const char *option, const char *text, double *out);

/* ---- ctl_print.c ---- */

enum {
    CTL_COLUMNS_MAX = 12
};

/* A line, and its end.  What other programs have written may be in it: control characters show as \x1b. */
__attribute__((format(printf, 2, 3))) void ctl_line(FILE *out, const char *fmt, ...);
__attribute__((format(printf, 2, 0))) void ctl_vline(FILE *out, const char *fmt, va_list ap);

/* Rows of text, printed in columns; numbers stand right.  Cells are shown as lines are. */
struct ctl_table {
    unsigned ncolumns;
    size_t nrows, room;
    char **cells; /* nrows x ncolumns, owned; the first row is the heading */
};

/* NULL ends the headings. */
void ctl_table_begin(struct ctl_table *t, const char *const *headings);
/* The next cell; rows fill one after the other.  NULL shows as "-". */
__attribute__((format(printf, 2, 3))) void ctl_cell(struct ctl_table *t, const char *fmt, ...);
/* A member of an object as it is best read; absent and null show as "-". */
void ctl_cell_of(struct ctl_table *t, const json_t *o, const char *member);
/* Prints and frees.  `none` is said when there is no row. */
void ctl_table_end(struct ctl_table *t, const char *none);
/* "1.5 GiB" */
void ctl_bytes(char text[16], uint64_t bytes);
/* "3d 4h", "2m 10s" */
void ctl_seconds(char text[24], double s);

#endif
