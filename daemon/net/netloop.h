/* netloop.h -- one libuv loop: when tasks run, and when the thread is offline for RCU.
 *
 *     uv: timers -> prepare -> poll (callbacks) -> check -> closing
 *                   |  tasks, then offline         |  online, time, inbox, tasks
 *
 * Callbacks run while the thread is offline: they store a result and wake a task, no more.
 * Tasks run in check, and in prepare for what timers woke.
 *
 * Threads: everything here is for the loop's own thread, but net_loop_stop.
 */
#ifndef TARN_NETLOOP_H
#define TARN_NETLOOP_H

#include "daemon/base/loop.h"

struct net_loop; /* private to net/ */

/* 0 and a loop in *out, for this thread, which becomes its thread; TERR_NOMEM or TERR_LIMIT. */
int net_loop_open(struct net_loop **out, unsigned id);
struct loop *net_loop_base(struct net_loop *nl);
/* Runs until net_loop_stop; joins RCU for that time and sets inbox_here. */
void net_loop_run(struct net_loop *nl);
/* From one of its tasks: no more turns once every handle has closed. */
void net_loop_stop(struct net_loop *nl);
void net_loop_close(struct net_loop **nlp);
/* Half of the memory that lies ready for the next connections and reads goes back.  Once a second:
 * what a burst has left is gone soon, and what is in use comes back at once. */
void net_loop_trim(struct net_loop *nl);
uint64_t net_loop_turns(const struct net_loop *nl);

/* "1.44.2" */
const char *net_uv_version(void);

#endif
