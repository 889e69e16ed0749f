/* h1_known.c -- connections of operators: their process, and those that are not admitted yet. */
#include <sys/socket.h>

#include "daemon/base/terr.h"
#include "daemon/h1/h1_conn.h"

struct h1_known {
    struct h1_told told; /* first: freed as such */
    struct h1_conn *conn;
    uint64_t since_ms;
    struct conn_operator peer;
};

/* The process's groups: its own, and the supplementary ones. */
static void
known_groups(struct conn_operator *cred, int fd, gid_t gid)
{
    gid_t more[CONN_GIDS_MAX];
    socklen_t len = sizeof(more);

    cred->gids[0] = gid;
    cred->ngids = 1;
#ifdef SO_PEERGROUPS
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, more, &len) == 0)
        for (unsigned i = 0; i < len / sizeof(gid_t) && cred->ngids < CONN_GIDS_MAX; i++)
            cred->gids[cred->ngids++] = more[i];
#else
    (void)fd;
    (void)more;
    (void)len;
#endif
}

static void
known_note_cred(struct h1_known *k, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || peer.uid == (uid_t)-1)
        return;
    k->peer.has_cred = true;
    k->peer.uid = peer.uid;
    known_groups(&k->peer, fd, peer.gid);
}

int
h1_server_accept_known(
    struct h1_server *s, int fd, bool is_unix, const struct conn_listener *listener)
{
    int err = h1_server_add(s, fd, is_unix, listener);
    struct h1_known *k;
    struct h1_conn *c;

    if (err != 0)
        return err;
    c = container_of(s->conns.prev, struct h1_conn, link);
    tassert(c->facts.listener->peer == NULL);
    k = usage_calloc(&s->env.loop->usage, USAGE_CONN, sizeof(*k));
    if (k == NULL) {
        h1_conn_die(c);
        return 0;
    }
    k->conn = c;
    k->since_ms = s->env.loop->clock.mono_ms;
    if (is_unix)
        known_note_cred(k, fd);
    k->told.listener = *listener;
    k->told.listener.peer = &k->peer;
    c->facts.listener = &k->told.listener;
    list_add_tail(&s->unproven, &k->told.link);
    return 0;
}

unsigned
h1_server_unproven(const struct h1_server *s)
{
    unsigned n = 0;

    OBJ_CHECK(s, H1_SERVER_MAGIC);
    for (struct list *l = s->unproven.next; l != &s->unproven; l = l->next)
        n += !container_of(l, struct h1_known, told.link)->peer.admitted;
    return n;
}

unsigned
h1_server_drop_unproven(struct h1_server *s, int64_t age_ms, bool all)
{
    uint64_t now = s->env.loop->clock.mono_ms;
    struct list *l, *next;
    unsigned n = 0;

    OBJ_CHECK(s, H1_SERVER_MAGIC);
    LIST_FOREACH_SAFE(l, next, &s->unproven)
    {
        struct h1_known *k = container_of(l, struct h1_known, told.link);

        if (k->peer.admitted)
            continue;
        if (k->since_ms + (uint64_t)age_ms > now)
            break; /* the others are younger */
        list_del(l);
        if (k->conn->dead)
            continue;
        h1_conn_die(k->conn);
        n++;
        if (!all)
            break;
    }
    return n;
}
