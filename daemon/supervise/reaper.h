/* reaper.h -- a process that frees a dead one's memory, so that its death takes no time.
 *
 * The kernel frees the memory of a process that dies before it closes its sockets and tells its
 * parent: 70 ms for each GiB, measured.  For so long clients would wait for answers of a process
 * that is no more, and its supervisor would not know that it has to start another.
 *
 *   reaper   a process that shares this one's memory and nothing else, and ends when the last thread of
 *          this one gives up its descriptors: so it is the last user of the memory, and no other
 *          process waits while the memory is freed
 *
 * It disturbs no other process: it has one descriptor that it waits on, takes only SIGKILL, and may
 * make only the system calls read, write and exit (seccomp's strict mode), where no filter was
 * imposed on tarnd already.  `ps` shows it as tarnd-reaper, with the same memory.
 *
 * Threads: before there are others.
 */
#ifndef TARN_REAPER_H
#define TARN_REAPER_H

/* Behind privilege_drop(), and before sandbox_enter(), which allows no process.  If it cannot be the
 * error log says so, and dying takes its time. */
void reaper_start(void);

#endif
