/* acme_conf.h -- settings that stand in tarnd's configuration, for what the command line does not say.
 *
 * Threads: one.
 */
#ifndef TARN_ACME_CONF_H
#define TARN_ACME_CONF_H

#include "daemon/acme/acme.h"

struct conf_acme;

/* Of what has no empty value: does the command line say it? */
struct acme_said {
    bool challenge, key, staging;
};

/* Reads the file with the loader of tarnd into set->conf, and from its listeners what `set` has not; with `names`
 * its certificates, too.  *out is the one that was chosen, of set->conf; NULL: no listener has `acme`, and nothing
 * but what concerns tarnd itself was set.  ACME_DONE; or ACME_USAGE, and standard error has said why. */
enum acme_exit acme_conf_read(struct acme_settings *set, const char *path,
    const struct acme_said *said, bool names, const struct conf_acme **out);

enum {
    ACME_ADMIN_MAX = 300,
};
/* set->admin, which is not NULL, as clients write it: a listener on every address, "*", is reached by this machine's own. */
void acme_conf_admin(const struct acme_settings *set, char out[ACME_ADMIN_MAX]);

#endif
