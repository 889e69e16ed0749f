/* policy_source.h -- the texts that one policy was compiled from, kept.
 *
 *   source   the text of a policy, each file that it includes, and what each include "+glob" found
 *
 * A reload compares it with the files of now, and compiles a policy again from it when the backends
 * that the policy names have changed.
 *
 * Threads: the management thread.
 */
#ifndef TARN_POLICY_SOURCE_H
#define TARN_POLICY_SOURCE_H

#include <stdbool.h>

#include "daemon/base/span.h"

struct policy_source;

/* What it reads the files of now with; ctx of the loader's functions (vcl.h). */
struct policy_reader {
    void *ctx;
    int (*read_file)(void *ctx, const char *name, const char *from, struct span *out, char **path,
        const char **why);
    int (*glob)(void *ctx, const char *pattern, const char *from, char ***out, unsigned *n);
};

/* Copies; owned by the caller, to be given back with policy_source_drop().  NULL: no memory. */
struct policy_source *policy_source_new(const char *file, struct slice text, bool sent);
struct policy_source *policy_source_hold(struct policy_source *s);
void policy_source_drop(struct policy_source **sp); /* NULL is fine */

/* The text of the policy itself. */
bool policy_source_is_sent(const struct policy_source *s);
struct slice policy_source_text(const struct policy_source *s);
/* Of all its texts, the same in every process; never 0. */
uint64_t policy_source_digest(const struct policy_source *s);

/* While it is compiled: one file that was included, one glob.  Copies.  0 or TERR_NOMEM. */
int policy_source_add_file(struct policy_source *s, const char *name, const char *from,
    const char *path, struct slice text);
int policy_source_add_glob(
    struct policy_source *s, const char *pattern, const char *from, char *const *names, unsigned n);

/* As the loader's functions (vcl.h), from what is kept; TERR_NOTFOUND: it has no such thing. */
int policy_source_read(const struct policy_source *s, const char *name, const char *from,
    struct span *out, char **path, const char **why);
int policy_source_glob(
    const struct policy_source *s, const char *pattern, const char *from, char ***out, unsigned *n);

/* Does `file` have this very text now, and so each of its includes? */
bool policy_source_is_current(
    const struct policy_source *s, const char *file, struct slice text, struct policy_reader now);

#endif
