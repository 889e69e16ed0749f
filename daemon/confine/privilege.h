/* privilege.h -- from root to a user of one's own.
 *
 * It comes first, before any file, socket or thread is made: so logs, shared memory and Unix sockets
 * belong to that user, which can rotate and remove them later.  It must be allowed to read what is
 * read later.  One capability stays, CAP_NET_BIND_SERVICE, for listeners below port 1024, also
 * those of a later reload; systemd's unit leaves the same.
 *
 * Threads: before there are others.  Capabilities are a thread's, and new ones inherit them.
 */
#ifndef TARN_PRIVILEGE_H
#define TARN_PRIVILEGE_H

#include <stdbool.h>

/* Names, or numbers; "": the user's own group.  Its other groups stay.  Without `user` nothing
 * changes.  Without being root nothing can change: the error log says so where the operator may
 * have meant otherwise.  TERR_CONFIG: there is no such user or group; TERR_IO: the kernel refused.
 * The error log says why. */
int privilege_drop(const char *user, const char *group);

/* The number of a user or a group, by name or as it stands; false: there is none of this name. */
bool privilege_user_id(const char *user, unsigned *uid);
bool privilege_group_id(const char *group, unsigned *gid);

#endif
