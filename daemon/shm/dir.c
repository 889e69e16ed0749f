/* dir.c -- the directory of the files that other processes map. */
#include "daemon/shm/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"

#define SHM_DIR_MAGIC OBJ_TAG('s', 'h', 'm', 'd')
#define SHM_PATH_MAX  4096
#define SHM_NAME_MAX  64

struct shm_dir {
    uint32_t magic;
    bool made;    /* by us: ours to remove */
    bool yielded; /* nothing in it is ours any more */
    int fd;
    int lock_fd;
    unsigned mode, gid; /* of files */
    char path[SHM_PATH_MAX];
    char home[SHM_PATH_MAX]; /* where the files belong; "": here */
};

/* Files under these names are ours; whatever else lies there is not touched. */
static bool
shm_name_is_ours(const char *name)
{
    if (name[0] == '.')
        name++; /* not yet published */
    return strncmp(name, "log.", 4) == 0 || strcmp(name, "counters") == 0 ||
           strcmp(name, "latency") == 0 || strcmp(name, "backends") == 0;
}

/* Files of a process that was killed under the same directory.  The caller has the lock, so they
 * are in no live process's use. */
static void
shm_dir_sweep(struct shm_dir *d)
{
    int fd = dup(d->fd);
    struct dirent *e;
    DIR *list;

    if (fd < 0)
        return;
    list = fdopendir(fd);
    if (list == NULL) {
        close(fd);
        return;
    }
    rewinddir(list); /* the descriptor's offset is shared with earlier looks */
    while ((e = readdir(list)) != NULL)
        if (shm_name_is_ours(e->d_name))
            unlinkat(d->fd, e->d_name, 0);
    closedir(list);
}

/* /dev/shm is open to all: what has our name there may be an attacker's.
 * By the descriptor and not by the path: what is checked is what is used, though the path may be
 * replaced meanwhile. */
static int
shm_dir_check(const struct shm_dir *d)
{
    struct stat st;

    if (fstat(d->fd, &st) < 0)
        return TERR_IO;
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        elog(ELOG_ERROR, "%s: not ours, or others may write to it", d->path);
        return TERR_CONFIG;
    }
    return 0;
}

/* The kernel drops it when the process ends, however it ends.
 * TERR_BUSY without a line: a process that follows expects it (shm_dir_open_behind), and the
 * others say it themselves. */
static int
shm_dir_lock(struct shm_dir *d)
{
    d->lock_fd = openat(d->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock_fd < 0) {
        elog(ELOG_ERROR, "%s/lock: %s", d->path, strerror(errno));
        return TERR_IO;
    }
    fchmod(d->lock_fd, 0600); /* a process that may open a file may lock it */
    return flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0 ? TERR_BUSY : 0;
}

/* O_NOFOLLOW: a symbolic link under this name may be another user's, and
 * would lead the sweep to a directory of that user's choice. */
static int
shm_dir_make(struct shm_dir *d)
{
    if (mkdir(d->path, 0750) == 0)
        d->made = true;
    else if (errno != EEXIST) {
        elog(ELOG_ERROR, "%s: %s", d->path, strerror(errno));
        return TERR_IO;
    }
    d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (d->fd < 0) {
        elog(ELOG_ERROR, "%s: %s", d->path, strerror(errno));
        return errno == ENOTDIR || errno == ELOOP ? TERR_CONFIG : TERR_IO;
    }
    if (d->made)
        fchmod(d->fd, 0750); /* whatever the umask says: readers are other users */
    return 0;
}

/* Before the files are made: they take mode and group from here.  A directory that was there
 * keeps what its administrator gave it. */
int
shm_dir_give(struct shm_dir *d, unsigned mode, unsigned gid)
{
    OBJ_CHECK(d, SHM_DIR_MAGIC);
    d->mode = mode;
    d->gid = gid;
    if (!d->made)
        return 0;
    if (gid != SHM_GROUP_OWN && fchown(d->fd, (uid_t)-1, gid) != 0) {
        elog(ELOG_ERROR,
            "%s: cannot be given to group %u: %s; make tarnd's user a member of it, or "
            "change the parameter shm_group",
            d->path, gid, strerror(errno));
        return TERR_CONFIG;
    }
    fchmod(d->fd, (mode & 0444) | (mode & 0444) >> 2 | 0200);
    return 0;
}

static int shm_dir_open_at(struct shm_dir **out, const char *path);

/* A tarnd that was killed leaves its directory, and its log rings are memory.  A directory
 * is removed now if its process is gone and its lock is free.  Another user's is left to that user, without a
 * word: anybody can make one. */
static void
shm_dir_remove_dead(void)
{
    DIR *all = opendir("/dev/shm");
    struct dirent *e;

    while (all != NULL && (e = readdir(all)) != NULL) {
        char path[64], *end = e->d_name;
        struct shm_dir *dead;
        struct stat st;
        long pid = 0;

        if (strncmp(e->d_name, "tarn.", 5) == 0)
            pid = strtol(e->d_name + 5, &end, 10);
        /* EPERM is a live process of another user.  In another pid namespace the process may
         * live although it is not found here: then its lock is taken, and nothing is removed. */
        if (pid <= 0 || *end != '\0' || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof(path), "/dev/shm/tarn.%ld", pid);
        if (lstat(path, &st) == 0 && st.st_uid == geteuid() && shm_dir_open_at(&dead, path) == 0) {
            dead->made = true;
            shm_dir_close(&dead);
        }
    }
    if (all != NULL)
        closedir(all);
}

int
shm_dir_open(struct shm_dir **out, const char *path)
{
    char own[64];

    int err;

    if (path == NULL || path[0] == '\0') {
        shm_dir_remove_dead();
        snprintf(own, sizeof(own), "/dev/shm/tarn.%ld", (long)getpid());
        path = own;
    }
    err = shm_dir_open_at(out, path);
    if (err == TERR_BUSY)
        elog(ELOG_ERROR, "%s: in use by another tarnd", path);
    return err;
}

/* For a process that follows: the first one still serves from `path`, so the new files wait in a
 * directory below it until shm_dir_settle(). */
int
shm_dir_open_behind(struct shm_dir **out, const char *path)
{
    char next[SHM_PATH_MAX];
    int err;

    if (path == NULL || path[0] == '\0')
        return shm_dir_open(out, path);
    err = shm_dir_open_at(out, path);
    if (err != TERR_BUSY)
        return err;
    if (snprintf(next, sizeof(next), "%s/next", path) >= (int)sizeof(next))
        return TERR_CONFIG;
    err = shm_dir_open(out, next);
    if (err == 0)
        memcpy((*out)->home, path, strlen(path) + 1);
    return err;
}

/* Every file of ours, from one directory to another on the same file system.
 * rename(2) replaces a file of the same name at once: a reader finds the old one or the new one. */
static void
shm_dir_move(struct shm_dir *from, struct shm_dir *to)
{
    int fd = dup(from->fd);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (list == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    rewinddir(list);
    while ((e = readdir(list)) != NULL)
        if (shm_name_is_ours(e->d_name) && renameat(from->fd, e->d_name, to->fd, e->d_name) != 0)
            elog(ELOG_ERROR, "%s/%s: %s", to->path, e->d_name, strerror(errno));
    closedir(list);
}

/* TERR_BUSY: the process before is still there; to be called again. */
int
shm_dir_settle(struct shm_dir *d)
{
    struct shm_dir *home, left;

    OBJ_CHECK(d, SHM_DIR_MAGIC);
    if (d->home[0] == '\0')
        return 0;
    if (shm_dir_open_at(&home, d->home) != 0)
        return TERR_BUSY;
    home->mode = d->mode;
    home->gid = d->gid;
    shm_dir_move(d, home);
    left = *d;
    *d = *home; /* `d` stays what its owner knows */
    *home = left;
    home->made = true; /* the name `next` is not used any more */
    shm_dir_close(&home);
    return 0;
}

/* The lock goes last: the process that follows moves its files in as soon as it has the lock, and a
 * sweep after that would remove them. */
void
shm_dir_yield(struct shm_dir *d)
{
    OBJ_CHECK(d, SHM_DIR_MAGIC);
    if (d->yielded)
        return;
    shm_dir_sweep(d);
    d->yielded = true;
    close(d->lock_fd);
    d->lock_fd = -1;
}

static int
shm_dir_open_at(struct shm_dir **out, const char *path)
{
    struct shm_dir *d = calloc(1, sizeof(*d));
    int n, err;

    if (d == NULL)
        return TERR_NOMEM;
    d->magic = SHM_DIR_MAGIC;
    d->fd = d->lock_fd = -1;
    d->mode = 0640;
    d->gid = SHM_GROUP_OWN;
    n = snprintf(d->path, sizeof(d->path), "%s", path);
    err = n < 0 || (size_t)n >= sizeof(d->path) ? TERR_CONFIG : shm_dir_make(d);
    if (err < 0)
        goto fail;
    err = shm_dir_check(d);
    if (err < 0)
        goto fail;
    err = shm_dir_lock(d);
    if (err < 0)
        goto fail;
    shm_dir_sweep(d);
    *out = d;
    return 0;

fail:
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    if (d->fd >= 0)
        close(d->fd);
    OBJ_FREE(d);
    return err;
}

/* A mapping that another process still has stays valid; the names go, so no new reader finds a
 * dead process. */
void
shm_dir_close(struct shm_dir **dp)
{
    struct shm_dir *d;

    OBJ_TAKE(d, dp, SHM_DIR_MAGIC);
    if (!d->yielded)
        shm_dir_sweep(d);
    if (d->made && !d->yielded) {
        unlinkat(d->fd, "lock", 0);
        rmdir(d->path); /* stays when it contains files of others */
    }
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    close(d->fd);
    OBJ_FREE(d);
}

const char *
shm_dir_path(const struct shm_dir *d)
{
    OBJ_CHECK(d, SHM_DIR_MAGIC);
    return d->path;
}

/* Hidden until shm_file_publish().  O_EXCL and O_NOFOLLOW: never a file that was there.  On
 * failure no file is left. */
int
shm_file_create(void **base, struct shm_dir *d, const char *name, size_t bytes)
{
    char hidden[SHM_NAME_MAX];
    void *map = MAP_FAILED;
    int fd, err;

    OBJ_CHECK(d, SHM_DIR_MAGIC);
    tassert(shm_name_is_ours(name) && strlen(name) + 2 < sizeof(hidden));
    snprintf(hidden, sizeof(hidden), ".%s", name);
    fd = openat(d->fd, hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        elog(ELOG_ERROR, "%s/%s: %s", d->path, hidden, strerror(errno));
        return TERR_IO;
    }
    if (d->gid != SHM_GROUP_OWN && fchown(fd, (uid_t)-1, d->gid) != 0) {
        elog(ELOG_ERROR,
            "%s/%s: cannot be given to group %u: %s; make tarnd's user a member of it, "
            "or change the parameter shm_group",
            d->path, name, d->gid, strerror(errno));
        unlinkat(d->fd, hidden, 0);
        close(fd);
        return TERR_CONFIG;
    }
    fchmod(fd, d->mode); /* whatever the umask says */
    /* Without pages reserved, a full /dev/shm would be a SIGBUS at the first store into one. */
    err = posix_fallocate(fd, 0, (off_t)bytes);
    if (err == 0)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        elog(ELOG_ERROR, "%s/%s: no room for %zu bytes: %s", d->path, name, bytes,
            strerror(err != 0 ? err : errno));
        unlinkat(d->fd, hidden, 0);
    }
    close(fd);
    if (map == MAP_FAILED)
        return TERR_NOMEM;
    *base = map;
    return 0;
}

int
shm_file_publish(struct shm_dir *d, const char *name)
{
    char hidden[SHM_NAME_MAX];

    OBJ_CHECK(d, SHM_DIR_MAGIC);
    snprintf(hidden, sizeof(hidden), ".%s", name);
    if (renameat(d->fd, hidden, d->fd, name) == 0)
        return 0;
    elog(ELOG_ERROR, "%s/%s: %s", d->path, name, strerror(errno));
    unlinkat(d->fd, hidden, 0);
    return TERR_IO;
}
