/* rcu.h -- memory that readers may still see is freed later (userspace RCU, qsbr flavour).
 *
 * A registered thread is either online, and then whatever it found in a shared structure
 * stays readable, or offline.  net/loop is online from its check handle to the end of its
 * prepare handle and offline while it polls.  The only home of urcu headers.
 *
 * Desnoyers, McKenney et al., "User-Level Implementations of Read-Copy Update", 2012.
 */
#ifndef TARN_RCU_H
#define TARN_RCU_H

#include <stdbool.h>
#include <stddef.h>

/* Embedded in what is freed later; sized and checked in rcu.c. */
struct rcu_later {
    void *opaque[3];
};

/* Before anything else, from a thread that is not registered: RCU's own thread, which could not be had
 * later, when memory is short, and that thread's first use of the allocator (heap.h). */
void rcu_start(void);
void rcu_join(void);  /* register this thread; it is online */
void rcu_leave(void); /* before the thread ends */
void rcu_online(void);
void rcu_offline(void);
bool rcu_is_online(void); /* for assertions */

/* Runs free_f(later) when every thread has been offline or quiescent once, on a thread of
 * RCU's own.  Any registered thread. */
void rcu_free_later(struct rcu_later *later, void (*free_f)(struct rcu_later *later));

/* The same in 16 bytes, for what there are many of.  free_f calls rcu_link_of() first. */
struct rcu_link {
    void *opaque[2];
};
struct rcu_head;
void rcu_free_later_link(struct rcu_link *link, void (*free_f)(struct rcu_head *head));
struct rcu_link *rcu_link_of(struct rcu_head *head);

/* Waits until every callback queued so far has run.  May block: tests and shutdown only,
 * from a thread that is offline or not registered. */
void rcu_barrier_wait(void);

#endif
