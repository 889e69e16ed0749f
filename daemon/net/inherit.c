/* inherit.c -- listening sockets from a supervisor or from systemd. */
#include "daemon/net/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/log/elog.h"

enum {
    INHERIT_MAX = 256, /* addresses; more are not looked at */
    SYSTEMD_FIRST = 3, /* SD_LISTEN_FDS_START */
};

struct inherit_entry {
    struct listen_sockets sockets; /* nfds 0: taken */
    char *text;                    /* the address as configured; NULL: only the sockets know */
};

/* the main thread's */
static struct {
    unsigned n;
    struct inherit_entry entries[INHERIT_MAX];
} inherit_state;

/* The form that inherit_scan() reads: "OURS LOCK FD,FD,... ADDRESS\n".  0: it does not fit, and
 * nothing of it may be used. */
size_t
inherit_print(char *to, size_t room, const struct listen_sockets *sockets, const char *address)
{
    size_t len;
    int n = snprintf(to, room, "%d %d ", sockets->ours, sockets->lock_fd);

    for (unsigned i = 0; i < sockets->nfds && n > 0 && (size_t)n < room; i++)
        n += snprintf(to + n, room - (size_t)n, i == 0 ? "%d" : ",%d", sockets->fds[i]);
    if (n < 0 || (size_t)n >= room)
        return 0;
    len = (size_t)n;
    n = snprintf(to + len, room - len, " %s\n", address);
    return n < 0 || (size_t)n >= room - len ? 0 : len + (size_t)n;
}

/* A number and what has to stand behind it. */
static bool
inherit_number(const char **at, long *out, const char *behind)
{
    char *end;

    errno = 0;
    *out = strtol(*at, &end, 10);
    if (end == *at || errno != 0 || *out < -1 || *out > 0x7fffffff || *end == '\0' ||
        strchr(behind, *end) == NULL)
        return false;
    *at = end;
    return true;
}

/* The line is a supervisor's, but an environment can be set by anything that starts a process:
 * every number is bounded here, and each descriptor is looked at in inherit_add(). */
bool
inherit_scan(const char *line, struct listen_sockets *sockets, const char **address, size_t *len)
{
    const char *at = line;
    long n;

    *sockets = (struct listen_sockets){.lock_fd = -1};
    if (!inherit_number(&at, &n, " ") || n < 0 || n > 1)
        return false;
    sockets->ours = n == 1;
    at++;
    if (!inherit_number(&at, &n, " "))
        return false;
    sockets->lock_fd = (int)n;
    do {
        at++;
        if (sockets->nfds == LIMIT_LISTEN_SOCKETS || !inherit_number(&at, &n, " ,") || n < 0)
            return false;
        sockets->fds[sockets->nfds++] = (int)n;
    } while (*at == ',');
    *address = at + 1;
    *len = strcspn(*address, "\n");
    return *len > 0;
}

/* A number that is no descriptor, or another kind of file, must not be closed or accepted from. */
static bool
inherit_is_listening(int fd)
{
    int on = 0;
    socklen_t len = sizeof(on);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on != 0;
}

/* Programs that we start shall not have them, and accepting shall not wait. */
static void
inherit_own(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Takes `text`.
 * What is refused stays open: the descriptor may be another part's of this process. */
static void
inherit_add(const struct listen_sockets *sockets, char *text)
{
    for (unsigned i = 0; i < sockets->nfds; i++)
        if (!inherit_is_listening(sockets->fds[i])) {
            elog(ELOG_WARN, "descriptor %d was handed over for %s, and is no listening socket",
                sockets->fds[i], text != NULL ? text : "listening");
            free(text);
            return;
        }
    if (inherit_state.n == INHERIT_MAX) {
        elog(ELOG_WARN, "more than %d addresses were handed over", INHERIT_MAX);
        free(text);
        return;
    }
    for (unsigned i = 0; i < sockets->nfds; i++)
        inherit_own(sockets->fds[i]);
    if (sockets->lock_fd >= 0)
        fcntl(sockets->lock_fd, F_SETFD, FD_CLOEXEC);
    inherit_state.entries[inherit_state.n++] =
        (struct inherit_entry){.sockets = *sockets, .text = text};
}

static void
inherit_load_supervisors(const char *line)
{
    struct listen_sockets sockets;
    const char *address;
    size_t len;

    while (*line != '\0') {
        if (!inherit_scan(line, &sockets, &address, &len)) {
            elog(ELOG_WARN, "TARN_LISTEN_FDS: no such line: %.*s", (int)strcspn(line, "\n"), line);
        } else {
            bool known = len != 1 || address[0] != '-';

            inherit_add(&sockets, known ? strndup(address, len) : NULL);
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

/* LISTEN_PID: the variables may have been inherited from a parent that they were meant for
 * (sd_listen_fds(3)). */
static void
inherit_load_systemds(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");

    if (pid == NULL || fds == NULL || strtol(pid, NULL, 10) != (long)getpid())
        return;
    for (long i = 0, n = strtol(fds, NULL, 10); i < n && i < INHERIT_MAX; i++) {
        struct listen_sockets one = {.lock_fd = -1, .nfds = 1, .fds = {SYSTEMD_FIRST + (int)i}};

        inherit_add(&one, NULL);
    }
}

/* On the main thread, before others: unsetenv(3) is not safe beside them.  The variables go, so
 * that programs that are started from here do not take the same descriptors. */
void
inherit_load(void)
{
    const char *lines = getenv("TARN_LISTEN_FDS");

    if (lines != NULL)
        inherit_load_supervisors(lines);
    inherit_load_systemds();
    unsetenv("TARN_LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

static bool
inherit_same_unix(const struct sockaddr_storage *addr, socklen_t len, const char *path)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)addr;
    size_t most = len > offsetof(struct sockaddr_un, sun_path)
                      ? len - offsetof(struct sockaddr_un, sun_path)
                      : 0;

    return addr->ss_family == AF_UNIX && strnlen(un->sun_path, most) == strlen(path) &&
           memcmp(un->sun_path, path, strlen(path)) == 0;
}

static bool
inherit_same_tcp(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;

    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return in->sin_port == ((const struct sockaddr_in *)b)->sin_port &&
               in->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->ss_family == AF_INET6 &&
           in6->sin6_port == ((const struct sockaddr_in6 *)b)->sin6_port &&
           memcmp(&in6->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
               sizeof(in6->sin6_addr)) == 0;
}

/* A free port is known by its text alone; anything else by what it is bound to, so that a name
 * which stands for another address now is bound anew. */
static bool
inherit_is_for(const struct inherit_entry *e, const struct conf_address *at)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);

    if (e->sockets.nfds == 0 || getsockname(e->sockets.fds[0], (struct sockaddr *)&addr, &len) != 0)
        return false;
    if (at->is_unix)
        return inherit_same_unix(&addr, len, at->path);
    if (at->port == 0)
        return e->text != NULL && strcmp(e->text, at->text) == 0;
    return at->naddrs > 0 && inherit_same_tcp(&addr, &at->addrs[0]);
}

static void
inherit_give(struct inherit_entry *e, struct listen_sockets *out)
{
    *out = e->sockets;
    free(e->text);
    *e = (struct inherit_entry){.text = NULL};
}

/* Once for each address: what is taken is the caller's, and a second listener with the same text
 * binds anew. */
bool
inherit_take(const struct conf_address *at, struct listen_sockets *out)
{
    for (unsigned i = 0; i < inherit_state.n; i++)
        if (inherit_is_for(&inherit_state.entries[i], at)) {
            inherit_give(&inherit_state.entries[i], out);
            return true;
        }
    return false;
}

/* For the supervisor and for inherit_close(): the order is that of the environment. */
bool
inherit_take_any(struct listen_sockets *out)
{
    for (unsigned i = 0; i < inherit_state.n; i++)
        if (inherit_state.entries[i].sockets.nfds > 0) {
            inherit_give(&inherit_state.entries[i], out);
            return true;
        }
    return false;
}

/* After all listeners have taken theirs.  A socket without a listener would go on queueing
 * connections that no process accepts. */
void
inherit_close(void)
{
    struct listen_sockets left;

    while (inherit_take_any(&left)) {
        for (unsigned i = 0; i < left.nfds; i++)
            close(left.fds[i]);
        if (left.lock_fd >= 0)
            close(left.lock_fd);
    }
    inherit_state.n = 0;
}
