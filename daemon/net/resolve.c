/* resolve.c -- c-ares between a loop's poll handles and its timer. */
#include "daemon/net/resolve.h"

#include <ares.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/terr.h"
#include "daemon/net/net_priv.h"

enum {
    RESOLVE_WAIT_MS = 2000,   /* for the first answer of a server; doubled for the next try */
    RESOLVE_TRIES = 2,        /* of each server */
    RESOLVE_READS_MAX = 1024, /* sockets looked at in one run: more than there can be */
};

/* What tells a file from the one that was read. */
struct resolve_file {
    ino_t ino;
    off_t size;
    struct timespec written;
};

/* A socket of c-ares.  c-ares closes the descriptor, libuv frees the handle later. */
struct resolve_sock {
    struct list link; /* in socks */
    struct resolver *rs;
    uv_poll_t poll;
    ares_socket_t fd;
    int ready; /* uv's events, until the task takes them */
};

#define RESOLVER_MAGIC OBJ_TAG('r', 's', 'v', 'r')
struct resolver {
    uint32_t magic;
    struct loop *loop;
    struct task *owner;   /* borrowed; woken when a lookup has ended */
    struct task task;     /* sockets are ready, or it is time */
    struct timer timer;   /* c-ares's next timeout */
    ares_channel channel; /* NULL: could not be made, see `status` */
    int status;
    bool moves;    /* the channel is replaced: what it drops is asked again */
    char *servers; /* as c-ares takes them; "": the system's */
    struct resolve_file conf;
    struct list socks;
    struct list lookups; /* under way, closed ones too */
};

#define RESOLVE_MAGIC OBJ_TAG('r', 's', 'l', 'v')
struct resolve {
    uint32_t magic;
    struct list link; /* in lookups */
    struct resolver *rs;
    bool done, closed, again;
    bool at_once; /* inside ares_getaddrinfo(): no server has been asked yet */
    int status;   /* of c-ares */
    struct resolve_addrs addrs;
    char host[];
};

/* ---- Sockets ---- */

/* In libuv's poll phase.  c-ares is not called from here: its callbacks may close this handle. */
static void
resolver_on_poll(uv_poll_t *poll, int status, int events)
{
    struct resolve_sock *s = poll->data;

    s->ready |= status < 0 ? UV_READABLE | UV_WRITABLE : events;
    task_wake(&s->rs->task);
}

static void
resolver_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* A walk: there are as many sockets as servers are asked at a time, two or three. */
static struct resolve_sock *
resolver_find_sock(struct resolver *rs, ares_socket_t fd)
{
    for (struct list *link = rs->socks.next; link != &rs->socks; link = link->next) {
        struct resolve_sock *s = container_of(link, struct resolve_sock, link);

        if (s->fd == fd)
            return s;
    }
    return NULL;
}

/* NULL: no memory.  The lookup then ends by its time. */
static struct resolve_sock *
resolver_add_sock(struct resolver *rs, ares_socket_t fd)
{
    struct resolve_sock *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->rs = rs;
    s->fd = fd;
    if (uv_poll_init(&net_loop_of(rs->loop)->uv, &s->poll, fd) != 0) {
        free(s);
        return NULL;
    }
    s->poll.data = s;
    list_add_tail(&rs->socks, &s->link);
    return s;
}

/* c-ares says what it waits for at a socket; for nothing: it is about to close it.
 * From inside c-ares, which may be called from any function below.  The handle's memory is
 * libuv's until resolver_on_closed(). */
static void
resolver_on_socket(void *ctx, ares_socket_t fd, int readable, int writable)
{
    struct resolver *rs = ctx;
    struct resolve_sock *s = resolver_find_sock(rs, fd);
    int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);

    OBJ_CHECK(rs, RESOLVER_MAGIC);
    if (s == NULL && events != 0)
        s = resolver_add_sock(rs, fd);
    if (s == NULL)
        return;
    if (events != 0) {
        uv_poll_start(&s->poll, events, resolver_on_poll);
        return;
    }
    uv_poll_stop(&s->poll); /* before the number belongs to another file */
    list_del(&s->link);
    uv_close((uv_handle_t *)&s->poll, resolver_on_closed);
}

/* One at a time, from the beginning: a call into c-ares may have removed any socket of the list. */
static struct resolve_sock *
resolver_take_ready(struct resolver *rs, int *events)
{
    for (struct list *link = rs->socks.next; link != &rs->socks; link = link->next) {
        struct resolve_sock *s = container_of(link, struct resolve_sock, link);

        if (s->ready != 0) {
            *events = s->ready;
            s->ready = 0;
            return s;
        }
    }
    return NULL;
}

/* When c-ares wants to be called next.
 * After each call into c-ares, which may have changed it.  One millisecond more, because it is
 * cut off below; too early would be a call for nothing. */
static void
resolver_rearm(struct resolver *rs)
{
    struct timeval room, *left = NULL;

    if (rs->channel != NULL)
        left = ares_timeout(rs->channel, NULL, &room);
    if (left == NULL)
        timer_clear(&rs->timer);
    else
        timer_set(&rs->loop->wheel, &rs->timer,
            loop_deadline(rs->loop, (int64_t)left->tv_sec * 1000 + left->tv_usec / 1000 + 1));
}

/* The only place where c-ares reads and writes, in a task of the loop. */
static void
resolver_on_task(struct task *t)
{
    struct resolver *rs = container_of(t, struct resolver, task);
    struct resolve_sock *s;
    int events;

    OBJ_CHECK(rs, RESOLVER_MAGIC);
    for (unsigned i = 0; (s = resolver_take_ready(rs, &events)) != NULL; i++) {
        tassert(i < RESOLVE_READS_MAX);
        /* May close this socket and any other. */
        ares_process_fd(rs->channel, (events & UV_READABLE) != 0 ? s->fd : ARES_SOCKET_BAD,
            (events & UV_WRITABLE) != 0 ? s->fd : ARES_SOCKET_BAD);
    }
    if (rs->channel != NULL)
        ares_process_fd(rs->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* what is too late */
    resolver_rearm(rs);
}

/* ---- The channel ---- */

/* The file may be replaced by rename (resolvconf, systemd-resolved) or written in place: so
 * inode, size and time. */
static struct resolve_file
resolver_see_conf(void)
{
    struct stat st;

    if (stat("/etc/resolv.conf", &st) != 0)
        return (struct resolve_file){.size = -1};
    return (struct resolve_file){.ino = st.st_ino, .size = st.st_size, .written = st.st_mtim};
}

static bool
resolver_conf_is(const struct resolve_file *a, const struct resolve_file *b)
{
    return a->ino == b->ino && a->size == b->size && a->written.tv_sec == b->written.tv_sec &&
           a->written.tv_nsec == b->written.tv_nsec;
}

/* On failure there is no channel; lookups end at once with `status`, and the next one tries
 * again. */
static void
resolver_open_channel(struct resolver *rs)
{
    struct ares_options options = {.timeout = RESOLVE_WAIT_MS,
        .tries = RESOLVE_TRIES,
        .sock_state_cb = resolver_on_socket,
        .sock_state_cb_data = rs};
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;

    tassert(rs->channel == NULL);
#ifdef ARES_OPT_QUERY_CACHE /* since 1.31: it would answer when dns_ttl is shorter than the record's */
    options.qcache_max_ttl = 0;
    mask |= ARES_OPT_QUERY_CACHE;
#endif
    rs->conf = resolver_see_conf();
    rs->status = ares_init_options(&rs->channel, &options, mask);
    if (rs->status == ARES_SUCCESS && rs->servers[0] != '\0')
        rs->status = ares_set_servers_ports_csv(rs->channel, rs->servers);
    if (rs->status != ARES_SUCCESS && rs->channel != NULL)
        ares_destroy(rs->channel);
    if (rs->status != ARES_SUCCESS)
        rs->channel = NULL;
}

static void resolve_ask(struct resolve *r);

static struct resolve *
resolver_take_dropped(struct resolver *rs)
{
    for (struct list *link = rs->lookups.next; link != &rs->lookups; link = link->next) {
        struct resolve *r = container_of(link, struct resolve, link);

        if (r->again) {
            r->again = false;
            return r;
        }
    }
    return NULL;
}

/* A channel that has read the files anew; what the old one was asked is asked again.
 * ares_destroy() ends each lookup under way through its callback; with `moves` set that callback
 * only notes that it has to be asked again. */
static void
resolver_reopen(struct resolver *rs)
{
    struct resolve *r;

    rs->moves = true;
    if (rs->channel != NULL)
        ares_destroy(rs->channel);
    rs->moves = false;
    rs->channel = NULL;
    resolver_open_channel(rs);
    while ((r = resolver_take_dropped(rs)) != NULL)
        resolve_ask(r);
}

/* The configuration separates them by blanks, c-ares by commas. */
static int
resolver_copy_servers(char **out, const char *servers)
{
    char *copy = strdup(servers);

    if (copy == NULL)
        return TERR_NOMEM;
    for (char *at = copy; (at = strchr(at, ' ')) != NULL;)
        *at = ',';
    *out = copy;
    return 0;
}

/* Start-up, on the management thread: no name is asked for here.  A channel that cannot be made
 * now is no error, for the next lookup tries again. */
int
resolver_open(struct resolver **out, struct loop *l, struct task *owner, const char *servers)
{
    struct resolver *rs = calloc(1, sizeof(*rs));

    if (rs == NULL || resolver_copy_servers(&rs->servers, servers) != 0 ||
        ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
        free(rs != NULL ? rs->servers : NULL);
        free(rs);
        return TERR_NOMEM;
    }
    rs->magic = RESOLVER_MAGIC;
    rs->loop = l;
    rs->owner = owner;
    list_init(&rs->socks);
    list_init(&rs->lookups);
    task_init(&rs->task, &l->tasks, resolver_on_task);
    timer_init(&rs->timer, &rs->task);
    resolver_open_channel(rs);
    *out = rs;
    return 0;
}

/* From a reload.  Lookups under way go on with the new servers, and their users notice nothing. */
int
resolver_set_servers(struct resolver *rs, const char *servers)
{
    char *copy;
    int err = resolver_copy_servers(&copy, servers);

    OBJ_CHECK(rs, RESOLVER_MAGIC);
    if (err != 0)
        return err;
    if (strcmp(copy, rs->servers) == 0) {
        free(copy);
        return 0;
    }
    free(rs->servers);
    rs->servers = copy;
    resolver_reopen(rs);
    resolver_rearm(rs);
    return 0;
}

/* ares_destroy() calls back for lookups that were closed and not answered, and closes the
 * sockets. */
void
resolver_close(struct resolver **rp)
{
    struct resolver *rs;

    OBJ_TAKE(rs, rp, RESOLVER_MAGIC);
    if (rs->channel != NULL)
        ares_destroy(rs->channel);
    tassert(list_empty(&rs->lookups)); /* each was closed, so its end freed it */
    tassert(list_empty(&rs->socks));
    ares_library_cleanup();
    task_cancel(&rs->task);
    timer_unlink(&rs->timer);
    free(rs->servers);
    OBJ_FREE(rs);
}

/* ---- Lookups ---- */

/* As AI_ADDRCONFIG of getaddrinfo(3): no IPv6 addresses for a machine that has none, nor IPv4. */
static int
resolve_family(void)
{
    bool v4 = false, v6 = false;
    struct ifaddrs *all;

    if (getifaddrs(&all) != 0)
        return AF_UNSPEC;
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        if (a->ifa_addr == NULL || (a->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        v4 |= a->ifa_addr->sa_family == AF_INET;
        v6 |= a->ifa_addr->sa_family == AF_INET6;
    }
    freeifaddrs(all);
    return v4 == v6 ? AF_UNSPEC : v4 ? AF_INET : AF_INET6;
}

/* The TTL of the whole is the shortest of the chain: an alias may expire before the address. */
static void
resolve_fill(struct resolve_addrs *to, const struct ares_addrinfo *list, bool at_once)
{
    int64_t ttl_s = INT32_MAX;

    for (const struct ares_addrinfo_cname *c = list->cnames; c != NULL; c = c->next)
        if (c->ttl < ttl_s)
            ttl_s = c->ttl;
    for (const struct ares_addrinfo_node *a = list->nodes; a != NULL; a = a->ai_next) {
        if (to->n == RESOLVE_ADDRS_MAX || (a->ai_family != AF_INET && a->ai_family != AF_INET6))
            continue;
        if (a->ai_ttl < ttl_s)
            ttl_s = a->ai_ttl;
        tassert(a->ai_addrlen <= sizeof(to->addr[0]));
        memcpy(&to->addr[to->n], a->ai_addr, a->ai_addrlen);
        to->n++;
    }
    to->ttl_ms = at_once ? RESOLVE_NO_TTL : ttl_s > 0 ? ttl_s * 1000 : 0;
}

/* One that was closed meanwhile has no user any more: its memory goes here. */
static void
resolve_end(struct resolve *r, int status)
{
    list_del(&r->link);
    r->status = status;
    r->done = true;
    if (r->closed)
        OBJ_FREE(r);
    else
        task_wake(r->rs->owner);
}

/* From inside c-ares: at once from resolve_ask() for addresses and the hosts file, otherwise
 * from resolver_on_task() or ares_destroy(). */
static void
resolve_on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *list)
{
    struct resolve *r = arg;

    (void)timeouts;
    OBJ_CHECK(r, RESOLVE_MAGIC);
    tassert(!r->done);
    if (status == ARES_SUCCESS && !r->closed)
        resolve_fill(&r->addrs, list, r->at_once);
    if (list != NULL)
        ares_freeaddrinfo(list);
    if (r->rs->moves && !r->closed)
        r->again = true;
    else
        resolve_end(r, status);
}

/* May end `r` before it returns, for an address or a name of the hosts file: the caller looks at
 * nothing of it afterwards but through resolve_result(). */
static void
resolve_ask(struct resolve *r)
{
    struct ares_addrinfo_hints hints = {.ai_family = resolve_family(), .ai_socktype = SOCK_STREAM};
    struct resolver *rs = r->rs;

    if (rs->channel == NULL) {
        resolve_end(r, rs->status);
        return;
    }
    r->at_once = true;
    ares_getaddrinfo(rs->channel, r->host, NULL, &hints, resolve_on_answer, r);
    r->at_once = false;
}

/* The owner's task is woken when it has ended, also if that was at once: so there is one way for
 * both. */
int
resolve_start(struct resolve **out, struct resolver *rs, const char *host)
{
    size_t len = strlen(host) + 1;
    struct resolve *r = calloc(1, sizeof(*r) + len);
    struct resolve_file now = resolver_see_conf();

    OBJ_CHECK(rs, RESOLVER_MAGIC);
    if (r == NULL)
        return TERR_NOMEM;
    /* One stat(2) a lookup, and a name is looked up once in its TTL: no watcher is needed. */
    if (rs->channel == NULL || !resolver_conf_is(&now, &rs->conf))
        resolver_reopen(rs);
    r->magic = RESOLVE_MAGIC;
    r->rs = rs;
    memcpy(r->host, host, len);
    list_add_tail(&rs->lookups, &r->link);
    resolve_ask(r);
    resolver_rearm(rs);
    *out = r;
    return 0;
}

int
resolve_result(const struct resolve *r, const struct resolve_addrs **addrs, const char **why)
{
    OBJ_CHECK(r, RESOLVE_MAGIC);
    if (!r->done)
        return TERR_AGAIN;
    if (r->status == ARES_SUCCESS) {
        *addrs = &r->addrs;
        return 0;
    }
    *why = ares_strerror(r->status);
    return TERR_NOTFOUND;
}

void
resolve_close(struct resolve **rp)
{
    struct resolve *r;

    OBJ_TAKE(r, rp, RESOLVE_MAGIC);
    if (r->done)
        OBJ_FREE(r);
    else
        r->closed = true; /* c-ares cannot forget one query: its end frees it */
}
