/* privilege.h -- from root to a user of one's own.
 *
 * It comes first, before any file, socket or thread is made: so logs, shared memory and Unix sockets
 * belong to that user, who can rotate and remove them later, and what is read later he has to be
 * allowed to read.  One capability stays, CAP_NET_BIND_SERVICE, for listeners below port 1024, also
 * those of a later reload; systemd's unit leaves the same.
 *
 * Threads: before there are others.  Capabilities are a thread's, and new ones inherit them.
 */
#ifndef TARN_PRIVILEGE_H
#define TARN_PRIVILEGE_H

#include <stdbool.h>

/* Names, or numbers; "": the user's own group.  The other groups that he is a member of stay his.  Without `user` nothing changes, and without being
 * root nothing can: the error log says so where somebody may have meant otherwise.  TERR_CONFIG: there is
 * no such user or group; TERR_IO: the kernel refused.  The error log says why. */
int privilege_drop(const char *user, const char *group);

/* The number of a user or a group, by name or as it stands; false: there is none of this name. */
bool privilege_user_id(const char *user, unsigned *uid);
bool privilege_group_id(const char *group, unsigned *gid);

#endif
