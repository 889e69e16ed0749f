/* notify.c -- datagrams to the service manager. */
#include "daemon/base/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"

#define NOTIFY_MAGIC OBJ_TAG('n', 't', 'f', 'y')
struct notify {
    uint32_t magic;
    int fd;
    int64_t watchdog_ms;
    struct sockaddr_un to;
    socklen_t to_len;
};

/* A number of the environment; 0 where there is none. */
static uint64_t
notify_number(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    uint64_t value = 0;

    /* strtoull(3) would take a sign and blanks. */
    if (text != NULL && text[0] >= '0' && text[0] <= '9')
        value = strtoull(text, &end, 10);
    return end != NULL && *end == '\0' ? value : 0;
}

/* sd_watchdog_enabled(3): the time counts for the process that is named, or for any. */
static int64_t
notify_watchdog(void)
{
    uint64_t pid = notify_number("WATCHDOG_PID"), us = notify_number("WATCHDOG_USEC");

    /* Of the parent, too: under a supervisor it is the one that the service manager started. */
    if (pid != 0 && pid != (uint64_t)getpid() && pid != (uint64_t)getppid())
        return 0;
    return us / 1000 <= INT32_MAX ? (int64_t)(us / 1000) : INT32_MAX;
}

/* A path, or with @ in front the name of an abstract socket. */
static bool
notify_address(struct notify *n, const char *path)
{
    size_t len = strlen(path);

    if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(n->to.sun_path))
        return false;
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, path, len + 1);
    if (path[0] == '@')
        n->to.sun_path[0] = '\0';
    /* An abstract name has no NUL: its length ends it. */
    n->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] == '/'));
    return true;
}

/* NULL is no error: without NOTIFY_SOCKET no service manager asks, and every call below does
 * nothing. */
struct notify *
notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct notify *n = path != NULL ? calloc(1, sizeof(*n)) : NULL;

    if (n == NULL)
        return NULL;
    n->magic = NOTIFY_MAGIC;
    n->fd = -1;
    n->watchdog_ms = notify_watchdog();
    if (notify_address(n, path))
        /* Non-blocking: a manager that stands still must not hold the management loop. */
        n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (n->fd < 0)
        OBJ_FREE(n);
    return n;
}

void
notify_close(struct notify **np)
{
    struct notify *n;

    if (*np == NULL)
        return;
    OBJ_TAKE(n, np, NOTIFY_MAGIC);
    close(n->fd);
    OBJ_FREE(n);
}

/* By address each time: the service manager may have been started anew.
 * Non-blocking, and the result is dropped: a manager that does not read must not stop this
 * process. */
static void
notify_send(struct notify *n, const char *text)
{
    if (n == NULL)
        return;
    OBJ_CHECK(n, NOTIFY_MAGIC);
    (void)!sendto(
        n->fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_len);
}

/* Of the status only its first line can go. */
static void
notify_state(struct notify *n, const char *state, const char *status)
{
    char text[512];

    /* sd_notify(3): an assignment a line. */
    snprintf(text, sizeof(text), "%s\nSTATUS=%.*s", state, (int)strcspn(status, "\n"), status);
    notify_send(n, text);
}

void
notify_ready(struct notify *n, const char *status)
{
    notify_state(n, "READY=1", status);
}

/* With the time, or a manager that waits for the end of a reload takes an older one's for it. */
void
notify_reloading(struct notify *n)
{
    char text[64];
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
        (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    notify_send(n, text);
}

void
notify_stopping(struct notify *n, const char *status)
{
    notify_state(n, "STOPPING=1", status);
}

int64_t
notify_watchdog_ms(const struct notify *n)
{
    return n != NULL ? n->watchdog_ms : 0;
}

void
notify_alive(struct notify *n)
{
    notify_send(n, "WATCHDOG=1");
}
