/* signals.h -- signals as facts of a loop.
 *
 * They are blocked in every thread and read from a descriptor, so that no code of ours ever runs
 * in a signal's context.
 *
 * Threads: signals_block first, before any other thread is made; the rest is the loop's.
 */
#ifndef TARN_SIGNALS_H
#define TARN_SIGNALS_H

#include "daemon/base/loop.h"

struct signals;

/* SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 wait to be taken; SIGPIPE is ignored. */
void signals_block(void);
/* `owner` is woken when one has come, and takes all there are.  0, TERR_NOMEM or TERR_LIMIT. */
int signals_open(struct signals **out, struct loop *l, struct task *owner);
/* The number of one that came; 0: no more. */
int signals_take(struct signals *s);
void signals_close(struct signals **sp);

#endif
