/* operator_cred.c -- which process is at the other end of a Unix socket. */
#include "daemon/net/operator_cred.h"

#include <sys/socket.h>

#include "daemon/http/conn_server.h"

/* The process's groups: its own, and the supplementary ones.
 * SO_PEERGROUPS is Linux 4.13.  With more groups than there is room for it fails with ERANGE,
 * and the primary group alone counts: fewer rights, never more. */
static void
operator_groups(struct conn_operator *peer, int fd, gid_t gid)
{
    gid_t more[CONN_GIDS_MAX];
    socklen_t len = sizeof(more);

    peer->gids[0] = gid;
    peer->ngids = 1;
#ifdef SO_PEERGROUPS
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, more, &len) == 0)
        for (unsigned i = 0; i < len / sizeof(gid_t) && peer->ngids < CONN_GIDS_MAX; i++)
            peer->gids[peer->ngids++] = more[i];
#else
    (void)fd;
    (void)more;
    (void)len;
#endif
}

/* The kernel recorded them at connect(2) (unix(7)), so the peer cannot choose them.  A uid of -1
 * is no user: the kernel knows none. */
void
operator_note_cred(struct conn_operator *peer, int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.uid == (uid_t)-1)
        return;
    peer->has_cred = true;
    peer->uid = cred.uid;
    operator_groups(peer, fd, cred.gid);
}
