/* engine_fault.h -- engine malloc with faults on request, for tests.
 *
 * conf_storage.fault says what goes wrong: words separated by commas or blanks,
 *
 *   alloc=N   the Nth allocation fails: -ENOMEM, once
 *   full=N    from N charged bytes on, stobj_new and space_get answer -ENOSPC
 *   hold=N    every Nth space_get answers -EAGAIN until engine_fault_tick() (N > 1)
 *   again=N   every Nth space_get answers -EAGAIN, and is notified at once (N > 1)
 *   eio=N     the Nth lease_take fails: -EIO, once
 *   slow=N    every Nth lease_take answers -EAGAIN, and is notified at once (N > 1)
 *
 * Counting starts at 1 and covers the whole store.  N is decimal and positive.  Callers that
 * never wait (no waiter) are not made to.
 */
#ifndef TARN_STORAGE_ENGINE_FAULT_H
#define TARN_STORAGE_ENGINE_FAULT_H

struct storage;

/* Replaces what goes wrong, and counts from 1 again.  0, or -EINVAL and nothing changed.
 * No caller is suspended, and no other thread uses the store. */
int engine_fault_set(struct storage *s, const char *spec);
/* Those held by hold=N look again; returns how many.  Any thread. */
unsigned engine_fault_tick(struct storage *s);

#endif
