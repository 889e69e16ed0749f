/* signals.c -- signals read from a signalfd. */
#include "daemon/net/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/net/net_priv.h"

#define SIGNALS_MAGIC OBJ_TAG('s', 'i', 'g', 's')
struct signals {
    uint32_t magic;
    int fd;
    struct task *owner; /* borrowed */
    uv_poll_t poll;
};

static void
signals_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGUSR2);
}

/* On the main thread, before there are others.  SIGPIPE is ignored: a write to a client that has
 * left is an error of that write, and not every write can say MSG_NOSIGNAL. */
void
signals_block(void)
{
    sigset_t set;

    signals_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* inherited by every thread */
    signal(SIGPIPE, SIG_IGN);
}

/* Level-triggered: the owner takes until there are none, or the loop does not sleep. */
static void
signals_on_poll(uv_poll_t *poll, int status, int events)
{
    struct signals *s = poll->data;

    (void)status, (void)events;
    task_wake(s->owner);
}

int
signals_open(struct signals **out, struct loop *l, struct task *owner)
{
    struct net_loop *nl = net_loop_of(l);
    struct signals *s = calloc(1, sizeof(*s));
    sigset_t set;

    if (s == NULL)
        return TERR_NOMEM;
    signals_set(&set);
    *s = (struct signals){.magic = SIGNALS_MAGIC, .owner = owner};
    s->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->fd < 0 || uv_poll_init(&nl->uv, &s->poll, s->fd) != 0) {
        if (s->fd >= 0)
            close(s->fd);
        OBJ_FREE(s);
        return TERR_LIMIT;
    }
    s->poll.data = s;
    uv_poll_start(&s->poll, UV_READABLE, signals_on_poll);
    *out = s;
    return 0;
}

/* The next signal, or 0.  The kernel merges equal ones that are pending, so none can be counted. */
int
signals_take(struct signals *s)
{
    struct signalfd_siginfo info;

    OBJ_CHECK(s, SIGNALS_MAGIC);
    if (read(s->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

/* The descriptor must stay open until libuv has taken it out of epoll. */
static void
signals_on_closed(uv_handle_t *h)
{
    struct signals *s = h->data;

    close(s->fd);
    OBJ_FREE(s);
}

void
signals_close(struct signals **sp)
{
    struct signals *s;

    OBJ_TAKE(s, sp, SIGNALS_MAGIC);
    uv_close((uv_handle_t *)&s->poll, signals_on_closed);
}
