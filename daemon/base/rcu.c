/* rcu.c -- the only home of liburcu.
 *
 * ThreadSanitizer cannot see the orders that liburcu 0.13 makes, so sanitizer builds tell
 * it: everything before a quiescent state happens before the callbacks that follow it. */
#if !defined(__SANITIZE_THREAD__)
#define _LGPL_SOURCE
#endif
#include <semaphore.h>

#include <urcu-qsbr.h>

#include "daemon/base/heap.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
static char rcu_order; /* stands for the grace period */
#define RCU_RELEASE() __tsan_release(&rcu_order)
#define RCU_ACQUIRE() __tsan_acquire(&rcu_order)
#else
#define RCU_RELEASE() ((void)0)
#define RCU_ACQUIRE() ((void)0)
#endif

struct rcu_call {
    struct rcu_head head;
    void (*free_f)(struct rcu_later *later);
};

_Static_assert(sizeof(struct rcu_call) <= sizeof(struct rcu_later), "rcu_later too small");

static _Thread_local bool rcu_thread_is_online;

/* The thread is online from here on, and delays every grace period until it says otherwise. */
void
rcu_join(void)
{
    urcu_qsbr_register_thread();
    rcu_thread_is_online = true;
}

void
rcu_leave(void)
{
    RCU_RELEASE();
    rcu_thread_is_online = false;
    urcu_qsbr_unregister_thread();
}

/* Behind poll, before anything that RCU protects is read. */
void
rcu_online(void)
{
    tassert(!rcu_thread_is_online);
    urcu_qsbr_thread_online();
    rcu_thread_is_online = true;
}

/* Before poll: no pointer that RCU protects may be kept across it. */
void
rcu_offline(void)
{
    tassert(rcu_thread_is_online);
    RCU_RELEASE();
    rcu_thread_is_online = false;
    urcu_qsbr_thread_offline();
}

bool
rcu_is_online(void)
{
    return rcu_thread_is_online;
}

/* On liburcu's own thread, after every thread was offline or quiescent once. */
static void
rcu_on_grace(struct rcu_head *head)
{
    struct rcu_call *call = container_of(head, struct rcu_call, head);

    RCU_ACQUIRE();
    call->free_f((struct rcu_later *)(void *)call);
}

/* The caller has made it unreachable for new readers.  Allocates nothing. */
void
rcu_free_later(struct rcu_later *later, void (*free_f)(struct rcu_later *later))
{
    struct rcu_call *call = (struct rcu_call *)(void *)later;

    call->free_f = free_f;
    RCU_RELEASE();
    urcu_qsbr_call_rcu(&call->head, rcu_on_grace);
}

_Static_assert(sizeof(struct rcu_head) <= sizeof(struct rcu_link), "rcu_link too small");

void
rcu_free_later_link(struct rcu_link *link, void (*free_f)(struct rcu_head *head))
{
    RCU_RELEASE();
    urcu_qsbr_call_rcu((struct rcu_head *)(void *)link, free_f);
}

struct rcu_link *
rcu_link_of(struct rcu_head *head)
{
    RCU_ACQUIRE();
    return (struct rcu_link *)(void *)head;
}

struct rcu_sentinel {
    struct rcu_later later;
    sem_t passed;
};

static void
rcu_on_sentinel(struct rcu_later *later)
{
    sem_post(&container_of(later, struct rcu_sentinel, later)->passed);
}

/* Callbacks run in order on one thread, so the last one tells that all have run.  (liburcu's
 * own barrier does the same in a way that ThreadSanitizer cannot follow.)
 * Offline, or the grace period that it waits for would wait for this thread. */
void
rcu_barrier_wait(void)
{
    struct rcu_sentinel s;

    tassert(!rcu_thread_is_online);
    sem_init(&s.passed, 0, 0);
    rcu_free_later(&s.later, rcu_on_sentinel);
    while (sem_wait(&s.passed) != 0)
        ;
    sem_destroy(&s.passed);
}

static void
rcu_on_first(struct rcu_later *later)
{
    heap_join();
    rcu_on_sentinel(later);
}

/* The thread of callbacks starts here, and touches the heap while there is memory (heap.h). */
void
rcu_start(void)
{
    struct rcu_sentinel s;

    tassert(!rcu_thread_is_online);
    urcu_qsbr_get_default_call_rcu_data();
    sem_init(&s.passed, 0, 0);
    rcu_free_later(&s.later, rcu_on_first);
    while (sem_wait(&s.passed) != 0)
        ;
    sem_destroy(&s.passed);
}
