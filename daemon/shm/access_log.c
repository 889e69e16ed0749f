/* access_log.c -- the thread that writes the access log. */
#include "daemon/shm/access_log.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/access_out.h"
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
    enum access_format format;
    struct access_out *out;
    struct access_source *sources;
    unsigned nsources;
    struct counters *counters;
    const struct backend_names_view *names;
    pthread_t thread;

    _Atomic bool reopen; /* any thread sets, ours clears */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under lock */

    /* the thread's own */
    bool stopping;       /* it has seen `stop` */
    uint64_t give_up_ms; /* once stopping */
    bool corrupt;        /* said so already */
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

/* Asked while the output takes nothing. */
static bool
access_log_is_over(void *ctx)
{
    struct access_log *a = ctx;

    pthread_mutex_lock(&a->lock);
    access_log_see_stop(a);
    pthread_mutex_unlock(&a->lock);
    return a->stopping && access_log_now_ms() >= a->give_up_ms;
}

static void
access_log_flush(struct access_log *a)
{
    const struct access_patience patience = {access_log_is_over, a};

    if (a->len > 0)
        access_log_lose(a, access_out_write(a->out, a->buf, a->len, &patience));
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
        if (sizeof(a->buf) - a->len < ACCESS_LINE_MAX)
            access_log_flush(a);
        a->len += access_format_named(a->buf + a->len, a->format, &req, a->names);
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
            access_out_reopen(a->out);
        access_log_adapt(a);
        access_log_round(a);
    }
    access_log_round(a); /* a stop may have been seen in the middle of the last one */
    return NULL;
}

static void
access_log_free(struct access_log **ap)
{
    struct access_log *a;

    OBJ_TAKE(a, ap, ACCESS_LOG_MAGIC);
    for (unsigned i = 0; i < a->nsources; i++)
        if (a->sources[i].reader != NULL)
            shmlog_reader_close(&a->sources[i].reader);
    if (a->out != NULL)
        access_out_close(&a->out);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    free(a->sources);
    OBJ_FREE(a);
}

static struct access_log *
access_log_new(const struct access_log_conf *conf)
{
    struct access_log *a = calloc(1, sizeof(*a));
    pthread_condattr_t attr;

    if (a == NULL)
        return NULL;
    a->magic = ACCESS_LOG_MAGIC;
    a->nap_ms = ACCESS_LOG_NAP_MAX_MS;
    a->format = conf->format;
    a->counters = conf->counters;
    a->names = conf->names;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &attr);
    pthread_condattr_destroy(&attr);
    a->sources = calloc(conf->nlogs + 1, sizeof(*a->sources));
    if (a->sources == NULL)
        access_log_free(&a);
    return a;
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
access_log_start(struct access_log **out, const struct access_log_conf *conf)
{
    struct access_log *a = access_log_new(conf);
    int err;

    if (a == NULL)
        return TERR_NOMEM;
    err = access_out_open(&a->out, conf->to);
    for (; err == 0 && a->nsources < conf->nlogs; a->nsources++) {
        struct access_source *s = &a->sources[a->nsources];

        err = shmlog_reader_open_here(&s->reader, conf->logs[a->nsources], SHMLOG_FROM_NOW);
        s->ring_bytes = conf->logs[a->nsources]->ring_bytes;
    }
    if (err == 0)
        err = access_log_spawn(a);
    if (err < 0)
        access_log_free(&a);
    else
        *out = a;
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
    access_log_free(&a);
}
