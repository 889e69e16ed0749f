/* access_log.c -- the thread that writes the access log. */
#include "daemon/shm/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/elog.h"
#include "daemon/shm/log.h"
#include "daemon/shm/log_read.h"

#define ACCESS_LOG_MAGIC OBJ_TAG('a', 'l', 'o', 'g')

enum {
    ACCESS_LOG_BUF = 128 * 1024,
    ACCESS_LOG_NAP_MAX_MS = 50,    /* with little to do */
    ACCESS_LOG_NAP_MIN_MS = 1,     /* when a ring fills fast */
    ACCESS_LOG_CHUNKS_TURN = 1024, /* of one ring before the next ring's turn */
    ACCESS_LOG_POLL_MS = 100,      /* how soon a stop is seen while the output takes nothing */
    ACCESS_LOG_GIVE_UP_MS = 2000,  /* after a stop */
};

struct access_source {
    struct shmlog_reader *reader;
    uint64_t ring_bytes;
    uint64_t missed; /* of shmlog_missed_reqs(), already counted */
};

struct access_log {
    uint32_t magic;
    /* set once at start */
    char *path; /* NULL: stdout */
    struct access_source *sources;
    unsigned nsources;
    struct counters *counters;
    pthread_t thread;

    _Atomic bool reopen; /* any thread sets, ours clears */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under lock */

    /* the thread's own */
    bool stopping;       /* it has seen `stop` */
    uint64_t give_up_ms; /* once stopping */
    int fd;
    bool is_regular; /* else writing may block: polled first */
    bool torn;       /* the file ends within a line */
    bool failing;    /* said so already */
    bool corrupt;    /* said so already */
    unsigned nap_ms;
    size_t len;
    char buf[ACCESS_LOG_BUF];
};

static uint64_t
access_log_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Opens the file, or takes stdout, into *fd.  Non-blocking matters for a FIFO alone; stdout
 * is shared with others and stays as it is. */
static int
access_log_open_file(const char *path, int *fd, bool *is_regular)
{
    struct stat st;
    int new = STDOUT_FILENO;

    if (path != NULL)
        new = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (new < 0 || fstat(new, &st) < 0) {
        elog(ELOG_ERROR, "access log %s: %s", path != NULL ? path : "stdout", strerror(errno));
        if (new > STDERR_FILENO)
            close(new);
        return TERR_IO;
    }
    *fd = new;
    *is_regular = S_ISREG(st.st_mode);
    return 0;
}

static void
access_log_close_file(struct access_log *a)
{
    if (a->path != NULL && a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static void
access_log_do_reopen(struct access_log *a)
{
    bool is_regular;
    int fd;

    if (a->path == NULL || access_log_open_file(a->path, &fd, &is_regular) < 0)
        return;
    access_log_close_file(a);
    a->fd = fd;
    a->is_regular = is_regular;
    a->torn = false;
}

static void
access_log_lose(struct access_log *a, uint64_t lines)
{
    if (lines > 0)
        counter_add_shared(a->counters, COUNTER_log_lost_access, lines);
}

/* Under a->lock: has somebody asked us to stop?  From then on the time is limited. */
static void
access_log_see_stop(struct access_log *a)
{
    if (!a->stop || a->stopping)
        return;
    a->stopping = true;
    a->give_up_ms = access_log_now_ms() + ACCESS_LOG_GIVE_UP_MS;
}

/* Waits until the output takes a PIPE_BUF, so that no write of that size can block.  False
 * when it is time to give up. */
static bool
access_log_wait_output(struct access_log *a)
{
    struct pollfd p = {.fd = a->fd, .events = POLLOUT};
    int n;

    while ((n = poll(&p, 1, ACCESS_LOG_POLL_MS)) <= 0) {
        if (n < 0 && errno != EINTR)
            return false;
        pthread_mutex_lock(&a->lock);
        access_log_see_stop(a);
        pthread_mutex_unlock(&a->lock);
        if (a->stopping && access_log_now_ms() >= a->give_up_ms) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

/* As many of the n bytes as can be written; fewer means an error, in errno. */
static size_t
access_log_write(struct access_log *a, const char *p, size_t n)
{
    size_t done = 0, piece;
    ssize_t w;

    while (done < n) {
        piece = n - done;
        if (!a->is_regular) {
            if (!access_log_wait_output(a))
                break;
            piece = piece < PIPE_BUF ? piece : PIPE_BUF;
        }
        w = write(a->fd, p + done, piece);
        if (w < 0 && (errno == EINTR || (errno == EAGAIN && !a->is_regular)))
            continue;
        if (w <= 0)
            break;
        done += (size_t)w;
    }
    return done;
}

/* A full disk costs the lines in the buffer, once told and always counted. */
static void
access_log_lose_rest(struct access_log *a, const char *p, size_t n)
{
    uint64_t lines = 0;

    if (!a->failing)
        elog(ELOG_ERROR, "access log %s: %s; lines are lost", a->path != NULL ? a->path : "stdout",
            strerror(errno));
    a->failing = true;
    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    access_log_lose(a, lines);
}

static void
access_log_flush(struct access_log *a)
{
    size_t done;

    if (a->len == 0)
        return;
    if (a->torn && access_log_write(a, "\n", 1) == 1)
        a->torn = false;
    done = a->torn ? 0 : access_log_write(a, a->buf, a->len);
    if (done > 0 && a->buf[done - 1] != '\n')
        a->torn = true;
    if (done < a->len)
        access_log_lose_rest(a, a->buf + done, a->len - done);
    else if (a->failing) {
        elog(ELOG_WARN, "access log %s: written again", a->path != NULL ? a->path : "stdout");
        a->failing = false;
    }
    a->len = 0;
}

static void
access_log_add(struct access_log *a, struct shmlog_view *view)
{
    struct shmlog_req req;
    struct shmlog_rec rec;

    while (shmlog_record_next(view, &rec)) {
        if (rec.tag != SHMLOG_Req || !shmlog_rec_req(&rec, view, &req))
            continue;
        if (sizeof(a->buf) - a->len < ACCESS_LOG_LINE_MAX)
            access_log_flush(a);
        a->len += access_log_format(a->buf + a->len, &req);
    }
}

static void
access_log_count_missed(struct access_log *a, struct access_source *s)
{
    uint64_t missed = shmlog_missed_reqs(s->reader);

    access_log_lose(a, missed - s->missed);
    s->missed = missed;
}

/* Some of what one ring has; returns whether there may be more. */
static bool
access_log_follow(struct access_log *a, struct access_source *s)
{
    struct shmlog_view view;
    unsigned n = 0;
    int got = 0;

    while (n < ACCESS_LOG_CHUNKS_TURN && (got = shmlog_next(s->reader, &view)) > 0) {
        access_log_add(a, &view);
        n++;
    }
    access_log_count_missed(a, s);
    if (got < 0 && !a->corrupt) {
        elog(ELOG_ERROR, "access log: a worker's log is corrupt; lines are lost");
        a->corrupt = true;
    }
    return got > 0;
}

/* How long until a ring that fills as fast as the fullest one did is an eighth full? */
static void
access_log_adapt(struct access_log *a)
{
    uint64_t behind, fullest = 0; /* in 1024ths */

    for (unsigned i = 0; i < a->nsources; i++) {
        behind = shmlog_behind(a->sources[i].reader) * 1024 / a->sources[i].ring_bytes;
        fullest = behind > fullest ? behind : fullest;
    }
    if (fullest > 512)
        a->nap_ms = ACCESS_LOG_NAP_MIN_MS;
    else if (fullest > 128)
        a->nap_ms /= 2;
    else if (fullest < 64)
        a->nap_ms *= 2;
    if (a->nap_ms < ACCESS_LOG_NAP_MIN_MS)
        a->nap_ms = ACCESS_LOG_NAP_MIN_MS;
    if (a->nap_ms > ACCESS_LOG_NAP_MAX_MS)
        a->nap_ms = ACCESS_LOG_NAP_MAX_MS;
}

/* Everything that is there; after a stop not for longer than is granted then. */
static void
access_log_round(struct access_log *a)
{
    bool more;

    do {
        more = false;
        for (unsigned i = 0; i < a->nsources; i++)
            more |= access_log_follow(a, &a->sources[i]);
    } while (more && (!a->stopping || access_log_now_ms() < a->give_up_ms));
    access_log_flush(a);
}

/* Sleeps until the nap is over or a stop is asked for. */
static void
access_log_nap(struct access_log *a)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)a->nap_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&a->lock);
    while (!a->stop && pthread_cond_timedwait(&a->wake, &a->lock, &until) == 0)
        continue;
    access_log_see_stop(a);
    pthread_mutex_unlock(&a->lock);
}

static void *
access_log_run(void *arg)
{
    struct access_log *a = arg;

    OBJ_CHECK(a, ACCESS_LOG_MAGIC);
    while (!a->stopping) {
        access_log_nap(a);
        if (atomic_exchange_explicit(&a->reopen, false, memory_order_relaxed))
            access_log_do_reopen(a);
        access_log_adapt(a);
        access_log_round(a);
    }
    access_log_round(a); /* a stop may have been seen in the middle of the last one */
    return NULL;
}

static void
access_log_free(struct access_log *a)
{
    for (unsigned i = 0; i < a->nsources; i++)
        if (a->sources[i].reader != NULL)
            shmlog_reader_close(&a->sources[i].reader);
    access_log_close_file(a);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    free(a->sources);
    free(a->path);
    OBJ_FREE(a);
}

static struct access_log *
access_log_new(const char *path, unsigned nlogs, struct counters *counters)
{
    struct access_log *a = calloc(1, sizeof(*a));
    pthread_condattr_t attr;

    if (a == NULL)
        return NULL;
    a->magic = ACCESS_LOG_MAGIC;
    a->fd = -1;
    a->nap_ms = ACCESS_LOG_NAP_MAX_MS;
    a->counters = counters;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &attr);
    pthread_condattr_destroy(&attr);
    a->sources = calloc(nlogs + 1, sizeof(*a->sources));
    if (strcmp(path, "-") != 0)
        a->path = strdup(path);
    if (a->sources == NULL || (strcmp(path, "-") != 0 && a->path == NULL))
        goto fail;
    return a;

fail:
    access_log_free(a);
    return NULL;
}

/* Signals are the main thread's; SIGPIPE must not kill us for a reader that left. */
static int
access_log_spawn(struct access_log *a)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&a->thread, NULL, access_log_run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err == 0 ? 0 : TERR_NOMEM;
}

int
access_log_start(struct access_log **out, const char *path, struct shmlog *const *logs,
    unsigned nlogs, struct counters *counters)
{
    struct access_log *a = access_log_new(path, nlogs, counters);
    int err;

    if (a == NULL)
        return TERR_NOMEM;
    err = access_log_open_file(a->path, &a->fd, &a->is_regular);
    if (err < 0)
        goto fail;
    for (; a->nsources < nlogs; a->nsources++) {
        struct access_source *s = &a->sources[a->nsources];
        err = shmlog_reader_open_here(&s->reader, logs[a->nsources], SHMLOG_FROM_NOW);
        if (err < 0)
            goto fail;
        s->ring_bytes = logs[a->nsources]->ring_bytes;
    }
    err = access_log_spawn(a);
    if (err < 0)
        goto fail;
    *out = a;
    return 0;

fail:
    access_log_free(a);
    return err;
}

void
access_log_reopen(struct access_log *a)
{
    OBJ_CHECK(a, ACCESS_LOG_MAGIC);
    atomic_store_explicit(&a->reopen, true, memory_order_relaxed);
}

void
access_log_stop(struct access_log **ap)
{
    struct access_log *a;

    OBJ_TAKE(a, ap, ACCESS_LOG_MAGIC);
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    access_log_free(a);
}
