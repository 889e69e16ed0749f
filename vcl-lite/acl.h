/* acl.h -- lists of addresses as a radix tree.
 *
 * The longest prefix that holds an address decides; an entry with `!` decides no.
 *
 * Threads: a built acl never changes; any number may ask at once.
 */
#ifndef TARN_ACL_H
#define TARN_ACL_H

#include <stdbool.h>

#include "vcl-lite/vcl.h"

struct acl;

/* NULL: no memory. */
struct acl *acl_new(const char *name, bool log);
void acl_free(struct acl **ap);
/* bits: of the prefix, in the family of `ip` (0 to 32 or 128).  0; TERR_EXISTS: that prefix is
 * there already; TERR_NOMEM. */
int acl_add(struct acl *a, const struct vcl_ip *ip, unsigned bits, bool negated);
bool acl_match(const struct acl *a, const struct vcl_ip *ip);
const char *acl_name(const struct acl *a);
bool acl_logs(const struct acl *a);

#endif
