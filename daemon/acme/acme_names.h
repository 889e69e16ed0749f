/* acme_names.h -- the certificates that are wanted, NAME[,NAME...] each.
 *
 * Threads: any.
 */
#ifndef TARN_ACME_NAMES_H
#define TARN_ACME_NAMES_H

#include "daemon/acme/acme.h"

/* Adds the certificate of one argument.  0, or TERR_INVALID and why. */
int acme_names_add(struct acme_settings *set, const char *arg, struct acme_fail *f);
/* Is there one that is called as this one would be? */
bool acme_names_has(const struct acme_settings *set, const char *arg);
void acme_names_fini(struct acme_settings *set);

#endif
