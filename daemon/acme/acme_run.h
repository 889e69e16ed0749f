/* acme_run.h -- passes over all certificates: which are due, what became of them, when to look again.
 *
 * Threads: one.  Blocks.
 */
#ifndef TARN_ACME_RUN_H
#define TARN_ACME_RUN_H

#include "daemon/acme/acme.h"

enum {
    ACME_LOOK_LEAST_S = 60,
    ACME_LOOK_MOST_S = 6 * 3600, /* renewal information may change at any time (RFC 9773 4.3.2) */
};

/* One pass with `once` or `dry_run`, else passes until env->stopped(). */
enum acme_exit acme_run(const struct acme_settings *set, const struct acme_env *env);

/* ---- acme_hook.c ---- */

/* Runs the command by /bin/sh with TARN_ACME_CERTIFICATES (the names) and TARN_ACME_STATE in its environment,
 * for ACME_HOOK_S at most.  0, or why it did not succeed. */
enum {
    ACME_HOOK_S = 120,
};
int acme_hook_run(const struct acme_settings *set, const char *names, struct acme_fail *f);

#endif
