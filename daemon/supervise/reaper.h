/* reaper.h -- who frees a dead process's memory, so that its death takes no time.
 *
 * The kernel frees the memory of who dies before it closes his sockets and tells his parent: 70 ms for
 * each GiB, measured.  For so long clients would wait for answers of a process that is no more, and its
 * supervisor would not know that it has to start another.
 *
 *   reaper   a process that shares this one's memory and nothing else, and ends when the last thread of
 *          this one gives up its descriptors: so it is the last user of the memory, which is freed behind
 *          everybody's back
 *
 * It is in nobody's way: it has one descriptor that it waits on, takes no signal but SIGKILL, and may make
 * no system call but read, write and exit (seccomp's strict mode), where no filter was imposed on tarnd
 * already.  `ps` shows it as tarnd-reaper, with the same memory.
 *
 * Threads: before there are others.
 */
#ifndef TARN_REAPER_H
#define TARN_REAPER_H

/* Behind privilege_drop(), and before sandbox_enter(), which allows no process.  If it cannot be the
 * error log says so, and dying takes its time. */
void reaper_start(void);

#endif
