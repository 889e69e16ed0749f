/* conf_params.h -- parameters one by one, to show and to change them at run time.
 *
 *   live   may change while tarnd runs: the value is looked at each time it is used
 *
 * A change makes a new value in a copy of the parameters.  The caller brings the copies to
 * their readers.
 *
 * Threads: any, each with parameters of its own.
 */
#ifndef TARN_CONF_PARAMS_H
#define TARN_CONF_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/span.h"

struct conf_params;

/* One parameter.  Texts are as a file would have them; the static ones are for ever, `value`
 * for as long as the parameters that were looked at and this struct. */
struct conf_param {
    const char *name, *doc;
    const char *type;                       /* "a time: a number and ms, ..." */
    const char *value, *def, *least, *most; /* least, most: "" where there is no bound */
    bool live;
    bool reloaded;     /* live, or changes when the file is read anew */
    char texts[4][32]; /* where numbers are written */
};

unsigned conf_params_count(void);
/* In the order of the table; i is less than the count. */
void conf_param_see(const struct conf_params *p, unsigned i, struct conf_param *out);
/* The number of the one with this name, or TERR_NOTFOUND. */
int conf_param_find(struct slice name);
/* Reads `text`, which has a NUL behind it, as a file's value.  0; TERR_CONFIG with a sentence in `why`, and *p as before; or
 * TERR_NOMEM.  The parameter is live. */
int conf_param_set(
    struct conf_params *p, unsigned i, struct slice text, char *why, size_t why_size);
/* As `from` has it, also whether it was set there at all, or is the default.  It is live. */
void conf_param_take(struct conf_params *to, const struct conf_params *from, unsigned i);

#endif
