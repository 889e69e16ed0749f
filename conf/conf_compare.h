/* conf_compare.h -- what a new configuration changes in the one that it replaces.
 *
 *   live   can be put in place while tarnd runs; the rest needs a restart
 *
 * Everything is compared by the tables that it is read by, so that a key that is added to one of
 * them is not forgotten here.
 *
 * Threads: any.
 */
#ifndef TARN_CONF_COMPARE_H
#define TARN_CONF_COMPARE_H

#include <stdbool.h>

#include "conf/conf.h"

struct conf_change {
    const char *what;      /* "storage.main.size", "backends.origin"; borrowed for the call */
    const char *from, *to; /* as a file has them; "": not there, or more than a value */
    bool live;
};
typedef void conf_change_f(void *ctx, const struct conf_change *change);

/* Each difference in the order of the sections; returns how many need a restart. */
unsigned conf_compare(
    const struct conf *old, const struct conf *next, conf_change_f *each, void *ctx);

/* The same settings and the same addresses, whatever the names. */
bool conf_backend_tls_same(const struct conf_backend_tls *a, const struct conf_backend_tls *b);
bool conf_backend_same(const struct conf_backend *a, const struct conf_backend *b);
/* The same address, and the same other settings: one listener can stand for both. */
bool conf_listen_same(const struct conf_listen *a, const struct conf_listen *b);
/* `to` gets every parameter of `from` that a file read anew may change, and nothing else.  The text of
 * CONF_RELOADED_TABLE is borrowed from `from`; of what else is text `to` keeps its own. */
void conf_params_take_live(struct conf_params *to, const struct conf_params *from);

#endif
