/* offload.c -- a queue of jobs under a mutex, and the threads that take from it. */
#include "daemon/base/offload.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/heap.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define OFFLOAD_MAGIC OBJ_TAG('o', 'f', 'f', 'l')
struct offload {
    uint32_t magic;
    /* set once at open */
    int niceness;
    unsigned nthreads;
    pthread_t threads[OFFLOAD_THREADS_MAX];
    pthread_mutex_t lock; /* of what follows, and of every waiter that is armed here */
    pthread_cond_t due;   /* a job waits, or the end has come */
    pthread_cond_t up;    /* a thread has started */
    bool ends;
    unsigned nstarted;
    struct list waiting; /* of job.link */
    struct offload_stats stats;
};

/* Under the lock, which is released while the job runs. */
static void
offload_run_first(struct offload *o)
{
    struct job *j = container_of(o->waiting.next, struct job, link);
    struct waiter *done = j->done;

    tassert(o->stats.queued > 0);
    /* The oldest first: no job starves. */
    list_del(&j->link);
    j->link.next = NULL; /* offload_cancel() says no from here on */
    o->stats.queued--;
    o->stats.running++;
    pthread_mutex_unlock(&o->lock);
    j->run(j); /* without `done` it may be gone now */
    pthread_mutex_lock(&o->lock);
    o->stats.running--;
    o->stats.run++;
    if (done != NULL)
        waiter_notify(done); /* and now with one, too */
}

static void
offload_be_nice(int niceness)
{
    int before = getpriority(PRIO_PROCESS, (id_t)gettid());

    /* Linux keeps it for each thread.  More of it is always allowed. */
    if (niceness > 0)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), before + niceness);
}

static void *
offload_main(void *ctx)
{
    struct offload *o = ctx;
    char name[16];

    OBJ_CHECK(o, OFFLOAD_MAGIC);
    offload_be_nice(o->niceness);
    heap_join();
    pthread_mutex_lock(&o->lock);
    snprintf(name, sizeof(name), "tarn-offload-%u", o->nstarted++);
    pthread_setname_np(pthread_self(), name);
    pthread_cond_signal(&o->up);
    for (;;) {
        while (list_empty(&o->waiting) && !o->ends)
            pthread_cond_wait(&o->due, &o->lock);
        if (list_empty(&o->waiting))
            break;
        offload_run_first(o);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* Their signals are blocked from the first instruction on: the management loop reads them. */
static int
offload_start(struct offload *o, unsigned nthreads)
{
    sigset_t all, before;
    int err = 0;

    sigfillset(&all);
    /* Inherited by the threads: to block them in offload_main() would leave a gap. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (err == 0 && o->nthreads < nthreads) {
        err = pthread_create(&o->threads[o->nthreads], NULL, offload_main, o);
        if (err == 0)
            o->nthreads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&o->lock);
    while (o->nstarted < o->nthreads)
        pthread_cond_wait(&o->up, &o->lock);
    pthread_mutex_unlock(&o->lock);
    return err == 0 ? 0 : TERR_NOMEM;
}

/* `niceness` is added to that of the process: jobs that compete with workers for a CPU lose. */
int
offload_open(struct offload **out, unsigned nthreads, int niceness)
{
    struct offload *o = calloc(1, sizeof(*o));
    int rc;

    tassert(nthreads <= OFFLOAD_THREADS_MAX);
    tassert(niceness >= 0 && niceness <= 19);
    if (o == NULL)
        return TERR_NOMEM;
    o->magic = OFFLOAD_MAGIC;
    o->niceness = niceness;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->due, NULL);
    pthread_cond_init(&o->up, NULL);
    list_init(&o->waiting);
    rc = offload_start(o, nthreads);
    if (rc < 0)
        offload_close(&o);
    else
        *out = o;
    return rc;
}

/* Jobs that wait are run, and not dropped: what waits for one would wait for ever. */
void
offload_close(struct offload **op)
{
    struct offload *o;

    OBJ_TAKE(o, op, OFFLOAD_MAGIC);
    pthread_mutex_lock(&o->lock);
    o->ends = true;
    pthread_cond_broadcast(&o->due);
    pthread_mutex_unlock(&o->lock);
    for (unsigned i = 0; i < o->nthreads; i++)
        pthread_join(o->threads[i], NULL);
    /* Without threads, or when the last one has gone, a job may still have submitted another. */
    while (offload_run_one(o))
        ;
    tassert(o->stats.queued == 0 && o->stats.running == 0);
    pthread_cond_destroy(&o->up);
    pthread_cond_destroy(&o->due);
    pthread_mutex_destroy(&o->lock);
    OBJ_FREE(o);
}

/* From any thread.  TERR_LIMIT bounds what a flood of handshakes can queue; the caller fails its
 * own work then, and waits for none. */
int
offload_submit(struct offload *o, struct job *j)
{
    int rc = 0;

    OBJ_CHECK(o, OFFLOAD_MAGIC);
    tassert(j->run != NULL);
    pthread_mutex_lock(&o->lock);
    tassert(j->link.next == NULL); /* once at a time */
    tassert((o->stats.queued == 0) == list_empty(&o->waiting));
    if (o->stats.queued == OFFLOAD_QUEUE_MAX) {
        o->stats.refused++;
        rc = TERR_LIMIT;
    } else {
        list_add_tail(&o->waiting, &j->link);
        list_init(&j->waiting);
        if (j->done != NULL)
            waiter_arm(j->done, &j->waiting);
        o->stats.queued++;
        /* One thread for one job. */
        pthread_cond_signal(&o->due);
    }
    pthread_mutex_unlock(&o->lock);
    return rc;
}

/* False: it runs or has run, and its notification is on its way: the job's memory must stay
 * until that has landed. */
bool
offload_cancel(struct offload *o, struct job *j)
{
    bool waits;

    OBJ_CHECK(o, OFFLOAD_MAGIC);
    tassert(j->done != NULL);
    pthread_mutex_lock(&o->lock);
    /* Under the lock: a thread that takes it clears the link there. */
    waits = j->link.next != NULL;
    if (waits) {
        list_del(&j->link);
        j->link.next = NULL;
        o->stats.queued--;
        waiter_disarm(j->done);
    }
    pthread_mutex_unlock(&o->lock);
    return waits;
}

/* For tests and for the end: with threads nothing else takes jobs. */
bool
offload_run_one(struct offload *o)
{
    bool any;

    OBJ_CHECK(o, OFFLOAD_MAGIC);
    pthread_mutex_lock(&o->lock);
    tassert(o->nthreads == 0 || o->ends);
    any = !list_empty(&o->waiting);
    if (any)
        offload_run_first(o);
    pthread_mutex_unlock(&o->lock);
    return any;
}

void
offload_stats(struct offload *o, struct offload_stats *out)
{
    OBJ_CHECK(o, OFFLOAD_MAGIC);
    pthread_mutex_lock(&o->lock);
    *out = o->stats;
    pthread_mutex_unlock(&o->lock);
}
