/* storage_sleeper.h -- a loop on a thread of its own, like a worker's: an inbox, a queue, and sleep.
 *
 * It does nothing but what a notification brings, so a lost wake-up is a thread that sleeps for
 * ever. */
#ifndef TARN_STORAGE_SLEEPER_H
#define TARN_STORAGE_SLEEPER_H

#include <pthread.h>

#include "daemon/base/obj.h"
#include "daemon/base/waiter.h"

struct sleeper {
    struct inbox inbox;
    struct task_queue queue;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool woken; /* under lock */
};

static inline void
sleeper_on_wake(struct inbox *in)
{
    struct sleeper *l = container_of(in, struct sleeper, inbox);

    pthread_mutex_lock(&l->lock);
    l->woken = true;
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

static inline void
sleeper_init(struct sleeper *l)
{
    inbox_init(&l->inbox, sleeper_on_wake);
    task_queue_init(&l->queue);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->cond, NULL);
    l->woken = false;
}

/* Runs tasks until *done; sleeps when there are none. */
static inline void
sleeper_run(struct sleeper *l, const bool *done)
{
    inbox_here = &l->inbox;
    while (!*done) {
        inbox_drain(&l->inbox);
        if (!list_empty(&l->queue.due)) {
            task_queue_run(&l->queue, 100);
            continue;
        }
        pthread_mutex_lock(&l->lock);
        while (!l->woken)
            pthread_cond_wait(&l->cond, &l->lock);
        l->woken = false;
        pthread_mutex_unlock(&l->lock);
    }
    inbox_here = NULL;
}

#endif
