/* acme_fleet.h -- answers to the CA from every node of a fleet: the CA may be led to any of them.
 *
 * tarnd of this node hands them on (PUT /v1/fleet/challenges/TOKEN of its admin listener, or alpn_challenges/NAME).  Without a fleet, or an admin
 * listener, nothing is done.
 *
 * Threads: one.  Blocks, for 15 s at most. */
#ifndef TARN_ACME_FLEET_H
#define TARN_ACME_FLEET_H

#include "daemon/acme/acme.h"

/* What does not reach every node is a warning: this node's own answer may be the one that is asked for. */
void acme_fleet_put(const struct acme_settings *set, const char *key, struct slice text);
void acme_fleet_remove(const struct acme_settings *set, const char *key);

#endif
