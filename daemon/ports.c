/* ports.c -- can the listeners of a configuration be bound?
 *
 * Source: proc(5): /proc/net/tcp names a socket's inode, /proc/PID/fd what has it open.
 */
#include "daemon/ports.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/tassert.h"

enum {
    PORTS_INODES = 64, /* of one port: a socket for each worker */
    PORTS_PATH = 512,
};

struct ports_owner {
    int pid; /* 0: not seen */
    char name[64];
    char config[256]; /* of a tarnd: what stands behind -c; "" */
};

static unsigned
ports_of_table(const char *table, uint16_t port, unsigned long *inodes, unsigned n)
{
    char line[512];
    FILE *f = fopen(table, "re");

    tassert(n <= PORTS_INODES);
    while (f != NULL && n < PORTS_INODES && fgets(line, sizeof(line), f) != NULL) {
        unsigned at, state;
        unsigned long inode;

        /* The heading has no number where one is sought, and is passed over by that. */
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu", &at,
                &state, &inode) == 3 &&
            /* TCP_LISTEN: a client's connection may have the same number as its local port. */
            state == 0x0a && at == port)
            inodes[n++] = inode;
    }
    if (f != NULL)
        fclose(f);
    return n;
}

static bool
ports_has(const char *pid, const unsigned long *inodes, unsigned n)
{
    char path[PORTS_PATH], link[PORTS_PATH];
    struct dirent *e;
    bool has = false;
    DIR *d;

    tassert(n > 0 && n <= PORTS_INODES);
    /* Readable for processes of this user alone, or for root. */
    snprintf(path, sizeof(path), "/proc/%.32s/fd", pid);
    d = opendir(path);
    while (d != NULL && !has && (e = readdir(d)) != NULL) {
        unsigned long inode;
        ssize_t len = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

        if (len <= 0)
            continue;
        link[len] = '\0';
        if (sscanf(link, "socket:[%lu]", &inode) != 1)
            continue;
        for (unsigned i = 0; i < n && !has; i++)
            has = inodes[i] == inode;
    }
    if (d != NULL)
        closedir(d);
    return has;
}

/* The arguments lie one behind the other, a NUL behind each. */
static void
ports_read_config(struct ports_owner *o)
{
    char path[PORTS_PATH], args[4096];
    size_t len;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", o->pid);
    f = fopen(path, "re");
    if (f == NULL)
        return;
    len = fread(args, 1, sizeof(args) - 1, f);
    fclose(f);
    args[len] = '\0';
    for (char *at = args; at < args + len; at += strlen(at) + 1)
        if (strcmp(at, "-c") == 0 && at + 3 < args + len)
            /* Only "-c FILE", as units and scripts write it. */
            snprintf(o->config, sizeof(o->config), "%.250s", at + 3);
}

static void
ports_describe(struct ports_owner *o, const char *pid)
{
    char path[PORTS_PATH];
    FILE *f;

    o->pid = atoi(pid);
    tassert(o->pid > 0); /* its directory's name begins with a digit, and there is no /proc/0 */
    snprintf(path, sizeof(path), "/proc/%.32s/comm", pid);
    f = fopen(path, "re");
    if (f != NULL) {
        if (fgets(o->name, sizeof(o->name), f) != NULL)
            o->name[strcspn(o->name, "\n")] = '\0';
        fclose(f);
    }
    if (strcmp(o->name, "tarnd") == 0)
        ports_read_config(o);
}

/* The first that is found: with SO_REUSEPORT several may have it.
 * For a message only: it may be wrong a moment later, and nothing is decided by it but whether
 * `-t` fails. */
static void
ports_find_owner(struct ports_owner *o, uint16_t port)
{
    unsigned long inodes[PORTS_INODES];
    unsigned n = ports_of_table("/proc/net/tcp", port, inodes, 0);
    struct dirent *e;
    DIR *d;

    *o = (struct ports_owner){.pid = 0};
    n = ports_of_table("/proc/net/tcp6", port, inodes, n);
    d = n > 0 ? opendir("/proc") : NULL;
    while (d != NULL && o->pid == 0 && (e = readdir(d)) != NULL)
        if (isdigit((unsigned char)e->d_name[0]) && ports_has(e->d_name, inodes, n))
            ports_describe(o, e->d_name);
    if (d != NULL)
        closedir(d);
}

/* 0 or an errno. */
static int
ports_try(const struct sockaddr_storage *addr, socklen_t len)
{
    int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, err = 0;

    tassert(len <= sizeof(*addr));
    if (fd < 0)
        return 0; /* of the family, not of the port */
    /* As a listener does: connections in TIME_WAIT are no reason to refuse. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* With SO_REUSEADDR two sockets may be bound to a port as long as none of them listens. */
    if (bind(fd, (const struct sockaddr *)addr, len) != 0 || listen(fd, 1) != 0)
        err = errno;
    close(fd);
    return err;
}

static const char *
ports_file(const struct conf *conf, const struct conf_listen *l)
{
    return l->file != NULL ? l->file : conf->path;
}

/* Is it one that a start could not have? */
static bool
ports_say_in_use(const struct conf *conf, const struct conf_listen *l)
{
    struct ports_owner o;
    bool fatal;
    char place[64] = "";

    ports_find_owner(&o, l->address.port);
    /* A tarnd that has it is most likely the one that this file is for: `-t` is asked beside it. */
    fatal = o.pid != 0 && strcmp(o.name, "tarnd") != 0;
    if (l->line > 0)
        snprintf(place, sizeof(place), "%u:%u:", l->line, l->column);
    fprintf(stderr, "%s:%s %slisten: %s is in use by ", ports_file(conf, l), place,
        fatal ? "" : "note: ", l->address.text);
    if (o.pid == 0)
        fputs("a process that this user cannot see\n", stderr);
    else
        fprintf(stderr, "%s, pid %d%s%s%s\n", o.name, o.pid,
            o.config[0] != '\0' ? ", which runs " : "", o.config,
            fatal ? ": end that, or take another port" : "");
    return fatal;
}

/* Only with -t: a start binds and sees for itself, without the race between a look and the bind. */
unsigned
ports_check(const struct conf *conf)
{
    unsigned n = 0;

    for (unsigned i = 0; i < conf->nlistens; i++) {
        const struct conf_listen *l = &conf->listens[i];
        int err = 0;

        /* A socket's file is replaced, and port 0 is never in use. */
        if (l->address.is_unix || l->address.port == 0)
            continue;
        for (unsigned j = 0; j < l->address.naddrs && err == 0; j++)
            err = ports_try(&l->address.addrs[j], l->address.addr_lens[j]);
        if (err == EADDRINUSE)
            n += ports_say_in_use(conf, l);
        else if (err == EADDRNOTAVAIL) /* it may come, as with a failover address: no mistake */
            fprintf(stderr, "%s:%u:%u: note: listen: %s: no interface has this address now\n",
                ports_file(conf, l), l->line, l->column, l->address.text);
    }
    return n;
}
