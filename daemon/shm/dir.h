/* dir.h -- the directory of the files that other processes map.
 *
 * One tarnd owns a directory while it holds the lock on DIR/lock.  Files appear in it whole
 * (made under another name, then renamed), and go when the directory is closed.
 *
 * Threads: the main thread, at start and at exit.
 */
#ifndef TARN_SHM_DIR_H
#define TARN_SHM_DIR_H

#include <stddef.h>
#include <stdint.h>

struct shm_dir; /* private to dir.c */

/* Makes `path` (mode 0750) if it is not there; NULL or "": /dev/shm/tarn.PID.  Files that a
 * dead tarnd left are removed.  TERR_BUSY: another tarnd has it.  TERR_CONFIG: it is not a
 * directory of ours, or others may write to it.  TERR_IO, TERR_NOMEM. */
int shm_dir_open(struct shm_dir **out, const char *path);
/* Takes *dp.  Removes what Tarn made in it, and the directory if it was made by us and is
 * empty now. */
void shm_dir_close(struct shm_dir **dp);
/* Files get this mode and group from now on, and the directory the same, with x, if it was made by
 * us.  SHM_GROUP_OWN: the process's.  Until then: 0640, and the process's.  TERR_CONFIG: the process may
 * not give it to that group; the error log says so. */
#define SHM_GROUP_OWN ((unsigned)-1)
int shm_dir_give(struct shm_dir *d, unsigned mode, unsigned gid);
const char *shm_dir_path(const struct shm_dir *d);

/* As shm_dir_open, for a process that is to follow another: while that one has the directory the
 * files lie in its subdirectory `next`. */
int shm_dir_open_behind(struct shm_dir **out, const char *path);
/* Moves them to where they belong once that one has yielded or ended.  0: they are there, or
 * TERR_BUSY. */
int shm_dir_settle(struct shm_dir *d);
/* For the one that is followed: its files lose their names, and stay mapped where they are. */
void shm_dir_yield(struct shm_dir *d);

/* A new file of `bytes` zeros, mapped shared and for writing, its pages reserved.  It has no
 * name in the directory until shm_file_publish(). */
int shm_file_create(void **base, struct shm_dir *d, const char *name, size_t bytes);
int shm_file_publish(struct shm_dir *d, const char *name);

#endif
