/* access_log.c -- the thread that writes the access log. */
#include "daemon/log/access_log.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/heap.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/access_line.h"
#include "daemon/log/access_out.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/log.h"
#include "daemon/shm/log_read.h"

#define ACCESS_LOG_MAGIC OBJ_TAG('a', 'l', 'o', 'g')

enum {
    ACCESS_LOG_BUF = 128 * 1024,
    ACCESS_LOG_NAP_MAX_MS = 50,    /* with little to do */
    ACCESS_LOG_NAP_MIN_MS = 1,     /* when a ring fills fast */
    ACCESS_LOG_CHUNKS_TURN = 1024, /* of one ring before the next ring's turn */
    ACCESS_LOG_GIVE_UP_MS = 2000,  /* after a stop, and when another output waits */
};

struct access_source {
    struct shmlog_reader *reader;
    uint64_t ring_bytes;
    uint64_t missed; /* of shmlog_missed_reqs(), already counted */
};

/* Where lines go, and from which sources.  Sources outlive their output: they say how far it was
 * written. */
#define ACCESS_AIM_MAGIC OBJ_TAG('a', 'a', 'i', 'm')
struct access_aim {
    uint32_t magic;
    enum access_format format;
    struct access_pattern pattern; /* n > 0: instead of `format` */
    struct access_out *out;        /* NULL: nowhere, and no source is followed */
    struct access_source
        *sources; /* NULL: there were none yet; of one that is to come: they stay */
    unsigned nsources;
};

struct access_log {
    uint32_t magic;
    /* set once at start */
    struct shmlog *const *logs;
    unsigned nlogs;
    struct counters *counters;
    const struct backend_names_view *names;
    pthread_t thread;
    sem_t started; /* the thread has met the allocator */

    bool follows; /* the main thread's: what it was turned to last has an output */

    _Atomic bool reopen; /* any thread sets, ours clears */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* under lock */
    bool stop;
    struct access_aim *next; /* NULL: it stays as it is */

    /* the thread's own */
    struct access_aim *aim;
    bool stopping;       /* it has seen `stop` */
    uint64_t give_up_ms; /* 0: there is time */
    bool corrupt;        /* said so already */
    unsigned nap_ms;
    size_t len;
    char buf[ACCESS_LOG_BUF];
};

/* --- outputs and the sources they follow --- */

/* Of each pair of readers of a log `to` gets the one that is further on: nothing is written twice. */
static void
access_aim_take_sources(struct access_aim *to, struct access_aim *from)
{
    if (to->sources == NULL) {
        to->sources = from->sources;
        to->nsources = from->nsources;
        from->sources = NULL;
        from->nsources = 0;
    }
    for (unsigned i = 0; i < from->nsources; i++) {
        struct access_source s = to->sources[i];

        /* Behind: what lies between would be written a second time. */
        if (shmlog_position(from->sources[i].reader) <= shmlog_position(s.reader))
            continue;
        to->sources[i] = from->sources[i];
        from->sources[i] = s;
    }
}

void
access_aim_drop(struct access_aim **aimp)
{
    struct access_aim *aim;

    OBJ_TAKE(aim, aimp, ACCESS_AIM_MAGIC);
    for (unsigned i = 0; i < aim->nsources; i++)
        shmlog_reader_close(&aim->sources[i].reader);
    if (aim->out != NULL)
        access_out_close(&aim->out);
    free(aim->sources);
    OBJ_FREE(aim);
}

/* Each worker's log, from now on. */
static int
access_aim_follow(struct access_aim *aim, const struct access_log *a)
{
    int err = 0;

    /* One more: none is no missing memory. */
    aim->sources = calloc(a->nlogs + 1, sizeof(*aim->sources));
    if (aim->sources == NULL)
        return TERR_NOMEM;
    while (aim->nsources < a->nlogs && err == 0) {
        struct access_source *s = &aim->sources[aim->nsources];

        s->ring_bytes = a->logs[aim->nsources]->ring_bytes;
        /* From now on: what was logged while there was no output belongs to none. */
        err = shmlog_reader_open_here(&s->reader, a->logs[aim->nsources], SHMLOG_FROM_NOW);
        aim->nsources += err == 0;
    }
    return err;
}

static int
access_aim_format(struct access_aim *aim, const char *format, char *why, size_t why_size)
{
    if (access_pattern_is(format))
        return access_pattern_parse(&aim->pattern, slice_str(format), why, why_size);
    snprintf(why, why_size, "there is no format %s", format);
    return access_format_parse(&aim->format, format);
}

int
access_log_prepare(struct access_log *a, struct access_aim **out, const char *to,
    const char *format, char *why, size_t why_size)
{
    struct access_aim *aim = calloc(1, sizeof(*aim));
    int err = aim == NULL ? TERR_NOMEM : 0;

    OBJ_CHECK(a, ACCESS_LOG_MAGIC);
    snprintf(why, why_size, "%s", terr_text(TERR_NOMEM));
    if (err == 0) {
        aim->magic = ACCESS_AIM_MAGIC;
        err = access_aim_format(aim, format, why, why_size);
    }
    if (err == 0 && to[0] != '\0')
        err = access_out_open(&aim->out, to, why, why_size);
    /* Else it takes over the sources of the output before, with the place that they have. */
    if (err == 0 && to[0] != '\0' && !a->follows)
        err = access_aim_follow(aim, a);
    if (err == 0)
        *out = aim;
    else if (aim != NULL)
        access_aim_drop(&aim);
    return err;
}

/* --- the thread --- */

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
    /* Counted from a thread of its own: into the shared set. */
    if (lines > 0)
        counter_add_shared(a->counters, COUNTER_log_lost_access, lines);
}

/* Under a->lock: shall we stop, or write elsewhere?  From then on the time is limited. */
static void
access_log_see(struct access_log *a)
{
    /* Once: the time runs from the first that asks. */
    if ((a->stop || a->next != NULL) && a->give_up_ms == 0)
        a->give_up_ms = access_log_now_ms() + ACCESS_LOG_GIVE_UP_MS;
    a->stopping = a->stop;
}

static bool
access_log_has_time(const struct access_log *a)
{
    return a->give_up_ms == 0 || access_log_now_ms() < a->give_up_ms;
}

/* Asked while the output takes nothing. */
static bool
access_log_is_over(void *ctx)
{
    struct access_log *a = ctx;

    /* The thread is in the middle of a write: this is how it learns of a stop. */
    pthread_mutex_lock(&a->lock);
    access_log_see(a);
    pthread_mutex_unlock(&a->lock);
    return !access_log_has_time(a);
}

static void
access_log_flush(struct access_log *a)
{
    const struct access_patience patience = {access_log_is_over, a};

    if (a->len > 0)
        access_log_lose(a, access_out_write(a->aim->out, a->buf, a->len, &patience));
    /* What could not be written is counted as lost, and not kept: the next lines have a right to
     * the buffer. */
    a->len = 0;
}

static size_t
access_log_line(const struct access_aim *aim, char *to, const struct shmlog_req *r,
    const struct backend_names_view *names)
{
    return aim->pattern.n > 0 ? access_line(to, &aim->pattern, r, names)
                              : access_format_named(to, aim->format, r, names);
}

static void
access_log_add(struct access_log *a, struct shmlog_view *view)
{
    struct shmlog_req req;
    struct shmlog_rec rec;

    while (shmlog_record_next(view, &rec)) {
        if (rec.tag != SHMLOG_Req || !shmlog_rec_req(&rec, view, &req))
            continue;
        /* Before the line, which has no bound check while it is written. */
        if (sizeof(a->buf) - a->len < ACCESS_LINE_MAX)
            access_log_flush(a);
        a->len += access_log_line(a->aim, a->buf + a->len, &req, a->names);
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

    /* Bounded: a busy worker must not let the rings of the others run over. */
    while (n < ACCESS_LOG_CHUNKS_TURN && (got = shmlog_next(s->reader, &view)) > 0) {
        access_log_add(a, &view);
        n++;
    }
    /* Also without a chunk: what ran over was lost before we came. */
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

    /* Nothing is read, so nothing is behind. */
    if (a->aim->out == NULL)
        return;
    for (unsigned i = 0; i < a->aim->nsources; i++) {
        const struct access_source *s = &a->aim->sources[i];

        behind = shmlog_behind(s->reader) * 1024 / s->ring_bytes;
        fullest = behind > fullest ? behind : fullest;
    }
    /* At once when half full: halving would come too late. */
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

/* Writes everything that is there; when a caller waits, for no longer than is granted then. */
static void
access_log_round(struct access_log *a)
{
    bool more;

    if (a->aim->out == NULL)
        return;
    do {
        more = false;
        for (unsigned i = 0; i < a->aim->nsources; i++)
            more |= access_log_follow(a, &a->aim->sources[i]);
    } while (more && access_log_has_time(a));
    access_log_flush(a);
}

/* Sleeps until the nap is over or something is asked for, and for the latter alone without an output. */
static void
access_log_nap(struct access_log *a)
{
    struct timespec until;
    int err = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)a->nap_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&a->lock);
    while (!a->stop && a->next == NULL && err == 0)
        /* Without an output there is nothing to wake for by itself. */
        if (a->aim->out == NULL)
            pthread_cond_wait(&a->wake, &a->lock);
        else
            err = pthread_cond_timedwait(&a->wake, &a->lock, &until);
    access_log_see(a);
    pthread_mutex_unlock(&a->lock);
}

/* What was published by now goes where it went.
 * In the log's thread, between two rounds: no line is in the buffer then, so none goes to the
 * wrong output. */
static void
access_log_turn_now(struct access_log *a)
{
    struct access_aim *old = a->aim, *next;

    pthread_mutex_lock(&a->lock);
    next = a->next;
    a->next = NULL;
    pthread_mutex_unlock(&a->lock);
    if (next == NULL)
        return;
    /* With the old output, before the new one takes its sources. */
    access_log_round(a);
    access_aim_take_sources(next, old);
    a->aim = next;
    access_aim_drop(&old);
    if (!a->stopping)
        a->give_up_ms = 0;
}

/* Its own thread: a disk that stands still for seconds holds up lines, and no worker.  Lines
 * wait in the rings meanwhile, and what these cannot hold is counted as lost. */
static void *
access_log_run(void *arg)
{
    struct access_log *a = arg;

    OBJ_CHECK(a, ACCESS_LOG_MAGIC);
    heap_join();
    /* Behind heap_join(), which is for before tarnd is ready. */
    sem_post(&a->started);
    while (!a->stopping) {
        access_log_nap(a);
        access_log_turn_now(a);
        if (atomic_exchange_explicit(&a->reopen, false, memory_order_relaxed) &&
            a->aim->out != NULL)
            access_out_reopen(a->aim->out);
        /* Before the round, which empties the rings: how full they were decides. */
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
    if (a->aim != NULL)
        access_aim_drop(&a->aim);
    if (a->next != NULL)
        access_aim_drop(&a->next);
    sem_destroy(&a->started);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
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
    a->logs = conf->logs;
    a->nlogs = conf->nlogs;
    a->counters = conf->counters;
    a->names = conf->names;
    sem_init(&a->started, 0, 0);
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    /* A clock that is set must not make a nap last hours. */
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &attr);
    pthread_condattr_destroy(&attr);
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
    /* The thread has inherited the mask; ours comes back. */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0)
        elog(ELOG_ERROR, "access log: cannot start its thread: %s", strerror(err));
    while (err == 0 && sem_wait(&a->started) != 0)
        ;
    return err == 0 ? 0 : TERR_NOMEM;
}

int
access_log_start(struct access_log **out, const struct access_log_conf *conf)
{
    struct access_log *a = access_log_new(conf);
    char why[256] = "";
    int err;

    if (a == NULL)
        return TERR_NOMEM;
    err = access_log_prepare(a, &a->aim, conf->to, conf->format, why, sizeof(why));
    if (err < 0)
        elog(ELOG_ERROR, "access log %s: %s", conf->to, why);
    else
        err = access_log_spawn(a);
    if (err < 0) {
        access_log_free(&a);
        return err;
    }
    a->follows = conf->to[0] != '\0';
    *out = a;
    return 0;
}

/* From the management thread, which does not wait: the old output has 2 s for what is in the
 * rings. */
void
access_log_turn(struct access_log *a, struct access_aim **aimp)
{
    struct access_aim *aim, *unused;

    OBJ_CHECK(a, ACCESS_LOG_MAGIC);
    OBJ_TAKE(aim, aimp, ACCESS_AIM_MAGIC);
    a->follows = aim->out != NULL;
    pthread_mutex_lock(&a->lock);
    unused = a->next;
    /* Prepared, and replaced before the thread came to it: its sources may be further on. */
    if (unused != NULL)
        access_aim_take_sources(aim, unused);
    a->next = aim;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (unused != NULL)
        access_aim_drop(&unused);
}

/* Done by the thread before its next round: the lines of now go to the old file. */
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
