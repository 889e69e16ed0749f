/* waiter.c -- tasks, inboxes and waiters. */
#include "daemon/base/waiter.h"

#include "daemon/base/obj.h"

_Thread_local struct inbox *inbox_here;

void
task_queue_init(struct task_queue *q)
{
    list_init(&q->due);
    list_init(&q->now);
}

static void
task_unqueue(struct task *t)
{
    t->link.prev->next = t->link.next;
    t->link.next->prev = t->link.prev;
    t->link.next = NULL;
}

static void
task_queue_run_first(struct task_queue *q, struct list *tasks)
{
    struct task *t = container_of(tasks->next, struct task, link);

    tassert(t->queue == q);
    task_unqueue(t);
    t->run(t); /* may free t */
}

/* What is woken during it runs too: `now` is for work that borrows memory of this turn. */
void
task_queue_run_now(struct task_queue *q)
{
    while (!list_empty(&q->now))
        task_queue_run_first(q, &q->now);
}

/* True: tasks are left over.  `now` is not counted in `max`, because it may not wait for the
 * next turn. */
bool
task_queue_run(struct task_queue *q, unsigned max)
{
    for (;;) {
        if (__builtin_expect(!list_empty(&q->now), 0))
            task_queue_run_now(q);
        if (list_empty(&q->due))
            return false;
        if (max-- == 0)
            return true;
        task_queue_run_first(q, &q->due);
    }
}

void
task_wake(struct task *t)
{
    if (task_is_queued(t))
        return;
    list_add_tail(&t->queue->due, &t->link);
}

/* A task that was due later moves forward, so that it still runs once. */
void
task_wake_now(struct task *t)
{
    if (task_is_queued(t))
        task_unqueue(t); /* it was due later */
    list_add_tail(&t->queue->now, &t->link);
}

/* Before a task's memory goes. */
void
task_cancel(struct task *t)
{
    if (task_is_queued(t))
        task_unqueue(t);
}

void
inbox_init(struct inbox *in, void (*wake)(struct inbox *in))
{
    atomic_init(&in->head, NULL);
    atomic_init(&in->posts, 0);
    atomic_init(&in->wakeups, 0);
    in->wake = wake;
}

void
inbox_send(struct inbox *to, struct post *p)
{
    struct post *head;

    if (to == inbox_here) {
        p->land(p);
        return;
    }
    /* A stack of posts, reversed by the receiver.  Only the sender that finds it empty
     * wakes the loop: the others ride along. */
    atomic_fetch_add_explicit(&to->posts, 1, memory_order_relaxed);
    head = atomic_load_explicit(&to->head, memory_order_relaxed);
    do
        p->next = head;
    while (!atomic_compare_exchange_weak_explicit(
        &to->head, &head, p, memory_order_acq_rel, memory_order_relaxed));
    /* p may be gone by now: it can land as soon as it is linked. */
    if (head == NULL) {
        atomic_fetch_add_explicit(&to->wakeups, 1, memory_order_relaxed);
        to->wake(to);
    }
}

/* On the receiver's thread.  The acquire pairs with the sender's release: a post's contents are
 * seen. */
unsigned
inbox_drain(struct inbox *in)
{
    struct post *p, *ordered = NULL;
    unsigned n = 0;

    if (atomic_load_explicit(&in->head, memory_order_relaxed) == NULL)
        return 0; /* the usual turn pays one load */
    p = atomic_exchange_explicit(&in->head, NULL, memory_order_acq_rel);
    while (p != NULL) {
        struct post *next = p->next;

        p->next = ordered;
        ordered = p;
        p = next;
    }
    while (ordered != NULL) {
        p = ordered;
        ordered = p->next; /* landing may reuse p */
        p->land(p);
        n++;
    }
    return n;
}

/* On the waiter's home loop.  The state is stored before the wake-up, so that the task may arm
 * it again. */
static void
waiter_on_land(struct post *p)
{
    struct waiter *w = container_of(p, struct waiter, post);
    struct task *task = w->task;

    tassert(waiter_state(w) == WAITER_POSTED);
    atomic_store_explicit(&w->state, WAITER_IDLE, memory_order_release);
    task_wake(task);
}

/* Under the lock of the list, which is the caller's (waiter.h). */
void
waiter_arm(struct waiter *w, struct list *waiting)
{
    tassert(waiter_state(w) == WAITER_IDLE);
    tassert(w->task != NULL && w->inbox != NULL);
    w->post.land = waiter_on_land;
    list_add_tail(waiting, &w->link);
    atomic_store_explicit(&w->state, WAITER_ARMED, memory_order_release);
}

/* Only while ARMED: one that is POSTED is in an inbox, and its memory must stay until it has
 * landed. */
void
waiter_disarm(struct waiter *w)
{
    tassert(waiter_state(w) == WAITER_ARMED);
    list_del(&w->link);
    atomic_store_explicit(&w->state, WAITER_IDLE, memory_order_release);
}

/* `w` may be gone when this returns: its home loop may have run it already. */
void
waiter_notify(struct waiter *w)
{
    tassert(waiter_state(w) == WAITER_ARMED);
    list_del(&w->link);
    atomic_store_explicit(&w->state, WAITER_POSTED, memory_order_release);
    inbox_send(w->inbox, &w->post);
}

unsigned
waiter_notify_all(struct list *waiting)
{
    unsigned n = 0;

    while (!list_empty(waiting)) {
        waiter_notify(container_of(waiting->next, struct waiter, link));
        n++;
    }
    return n;
}
