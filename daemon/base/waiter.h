/* waiter.h -- waiting without callbacks, on one loop and between loops.
 *
 *   task    something that can be run: a connection, a request, a fetch
 *   queue   the tasks of one loop that are due, in order; and those that must run now
 *   post    a message to another loop, embedded in whatever it is about
 *   inbox   where a loop receives posts: lock-free, many senders, one receiver
 *   waiter  one pending operation; notified once, by running the task it names
 *
 * A waiter is memory of the waiting party.  It is IDLE; ARMED while another party may
 * notify it; POSTED while the notification travels to its loop; then IDLE again.
 * The party that it is registered with guards IDLE<->ARMED and ARMED->POSTED with its own
 * lock (or by being on the same loop); POSTED->IDLE happens on the home loop alone.
 * A notification means "look again", no more: it may be early or for nothing.
 *
 * Waking a queued task changes nothing, so a run function never learns why it was
 * woken: it looks at the facts.
 *
 * Threads: task and queue belong to one loop.  inbox_send() is for any thread.
 */
#ifndef TARN_WAITER_H
#define TARN_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/tassert.h"

struct task_queue {
    struct list due; /* of task.link */
    struct list now; /* the same: in this turn, before the next of those that are due */
};

struct task {
    void (*run)(struct task *t);
    struct task_queue *queue; /* borrowed: the loop's */
    struct list link;         /* in queue->due or queue->now; next is NULL: not queued */
};

void task_queue_init(struct task_queue *q);
/* Runs tasks in order, those woken meanwhile included, until none is due or `max` have
 * run; those that must run now are not counted.  Returns whether some are still due. */
bool task_queue_run(struct task_queue *q, unsigned max);
/* Runs what must run now, until nothing must.  By task_queue_run(), and by a task that woke others so
 * and needs what they do before it goes on: never out of an operation that one of them called. */
void task_queue_run_now(struct task_queue *q);

static inline bool
task_queue_is_empty(const struct task_queue *q)
{
    return list_empty(&q->due) && list_empty(&q->now);
}

static inline void
task_init(struct task *t, struct task_queue *q, void (*run)(struct task *t))
{
    t->run = run;
    t->queue = q;
    t->link.next = NULL;
}

static inline bool
task_is_queued(const struct task *t)
{
    return t->link.next != NULL;
}

void task_wake(struct task *t);
/* In this turn of the loop, whatever else is due: for what borrows memory of this turn. */
void task_wake_now(struct task *t);
/* Takes it off the queue: before its memory goes. */
void task_cancel(struct task *t);

struct post {
    struct post *next;
    void (*land)(struct post *p); /* runs on the receiving loop, in a task's place */
};

struct inbox {
    _Atomic(struct post *) head;
    void (*wake)(struct inbox *in); /* any thread: makes the loop look; set once by net/loop */
    _Atomic uint64_t posts;         /* received from other threads, ever */
    _Atomic uint64_t wakeups;       /* calls of wake(); the rest were coalesced */
};

/* The inbox of the loop that runs on this thread; NULL elsewhere. */
extern _Thread_local struct inbox *inbox_here;

void inbox_init(struct inbox *in, void (*wake)(struct inbox *in));
/* Any thread.  Lands at once when `to` is this thread's own. */
void inbox_send(struct inbox *to, struct post *p);
/* Home loop only, from a task's place: lands what has come, in order; returns how many. */
unsigned inbox_drain(struct inbox *in);

enum waiter_state {
    WAITER_IDLE,
    WAITER_ARMED,
    WAITER_POSTED
};

struct waiter {
    _Atomic int state;
    struct task *task;   /* borrowed: woken when the notification lands */
    struct inbox *inbox; /* borrowed: the home loop's */
    struct post post;
    struct list link; /* for the party it is registered with; under its lock */
};

/* What a notification needs besides is set when it is armed: most waiters never are. */
static inline void
waiter_init(struct waiter *w, struct task *task, struct inbox *home)
{
    atomic_init(&w->state, WAITER_IDLE);
    w->task = task;
    w->inbox = home;
}

static inline enum waiter_state
waiter_state(const struct waiter *w)
{
    return (enum waiter_state)atomic_load_explicit(&w->state, memory_order_acquire);
}

/* Is it still registered or posted?  Its memory may be freed only when it is not. */
static inline bool
waiter_pending(const struct waiter *w)
{
    return waiter_state(w) != WAITER_IDLE;
}

/* The three below are for the party it is registered with, under that party's lock. */
void waiter_arm(struct waiter *w, struct list *waiting); /* asserts IDLE */
void waiter_disarm(struct waiter *w);                    /* asserts ARMED */
void waiter_notify(struct waiter *w);                    /* ARMED -> POSTED, off its list */
unsigned waiter_notify_all(struct list *waiting);        /* returns how many */

#endif
