/* acme_dir.c -- the state directory.
 *
 * tarnd reads certs/ and challenges/ at any moment, also in the midst of a pass: what it sees changes by rename(2)
 * alone.  Names are relative to a descriptor of the directory, and none is followed through a link. */
#include "daemon/acme/acme_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define DIR_NEW ".new." /* what is being written; no certificate's name begins with a dot */

enum {
    FILE_MAX = 4 << 20,
    OTHERS = 077, /* group's and others' permissions */
};

static int
dir_fail_errno(struct acme_fail *f, const struct acme_dir *d, const char *file, const char *what)
{
    return acme_fail(f, TERR_IO, "%s%s%s: %s: %s", d->path, file[0] != '\0' ? "/" : "", file, what,
        strerror(errno));
}

/* Is it ours alone?  `want` is what the mode would be. */
static int
dir_judge(const struct acme_dir *d, const char *file, const struct stat *st, unsigned want,
    struct acme_fail *f)
{
    const char *slash = file[0] != '\0' ? "/" : "";

    /* Before the mode: of a stranger's file the mode says nothing, for he may change it at any time. */
    if (st->st_uid != geteuid())
        return acme_fail(f, TERR_DENIED,
            "%s%s%s belongs to user %u, and this process is user %u; it must be of the user that "
            "runs "
            "tarn-acme and tarnd",
            d->path, slash, file, (unsigned)st->st_uid, (unsigned)geteuid());
    if ((st->st_mode & OTHERS) != 0)
        return acme_fail(f, TERR_DENIED,
            "%s%s%s has mode %04o, so other users may have read private keys; 0%o would be right: "
            "if no "
            "other user has, chmod %o it, else remove its keys",
            d->path, slash, file, (unsigned)(st->st_mode & 07777), want, want);
    return 0;
}

/* One directory, the state directory itself being "". */
static int
dir_make(const struct acme_dir *d, const char *name, bool look, struct acme_fail *f)
{
    const char *path = name[0] != '\0' ? name : ".";
    struct stat st;

    /* Relative to the directory that was opened: who renames it meanwhile sends us nowhere else. */
    if (!look && name[0] != '\0' && mkdirat(d->fd, name, 0700) != 0 && errno != EEXIST)
        return dir_fail_errno(f, d, name, "cannot be made");
    /* A link to a directory of another user would pass as one of ours. */
    if (fstatat(d->fd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return look && errno == ENOENT ? 0 : dir_fail_errno(f, d, name, "cannot be seen");
    if (!S_ISDIR(st.st_mode))
        return acme_fail(f, TERR_DENIED, "%s/%s is no directory", d->path, name);
    return dir_judge(d, name, &st, 0700, f);
}

int
acme_dir_open(struct acme_dir *d, const char *path, bool look, struct acme_fail *f)
{
    static const char *const parts[] = {
        "", ACME_DIR_CERTS, "challenges", ACME_DIR_HTTP, ACME_DIR_ALPN};
    int err = 0;

    *d = (struct acme_dir){.path = path, .fd = -1, .lock = -1};
    if (!look && mkdir(path, 0700) != 0 && errno != EEXIST)
        return dir_fail_errno(f, d, "", "cannot be made");
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0)
        return look && errno == ENOENT ? 0 : dir_fail_errno(f, d, "", "cannot be opened");
    /* Every one is judged before the first file is read: the narrowest mode of a key's file means nothing below a
     * directory that others can write in. */
    for (size_t i = 0; err == 0 && i < ARRAY_LEN(parts); i++)
        err = dir_make(d, parts[i], look, f);
    if (err != 0)
        acme_dir_close(d);
    return err;
}

void
acme_dir_close(struct acme_dir *d)
{
    acme_dir_unlock(d);
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

int
acme_dir_lock(struct acme_dir *d, struct acme_fail *f)
{
    /* It is made where it is missing, and never removed (acme_dir_unlock). */
    tassert(d->lock < 0);
    d->lock = openat(d->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock < 0)
        return dir_fail_errno(f, d, "lock", "cannot be opened");
    /* The kernel gives it back when the process ends, however: no stale lock has to be judged by its age. */
    if (flock(d->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    acme_fail(
        f, TERR_BUSY, "%s/lock: another tarn-acme has it; wait until that one is done", d->path);
    acme_dir_unlock(d);
    return TERR_BUSY;
}

void
acme_dir_unlock(struct acme_dir *d)
{
    if (d->lock >= 0)
        close(d->lock); /* the file stays: to remove it would let two have "the" lock */
    d->lock = -1;
}

static int
dir_read_all(const struct acme_dir *d, const char *file, int fd, size_t size, struct span *out,
    struct acme_fail *f)
{
    char *bytes = malloc(size + 1);
    size_t n = 0;
    ssize_t got = 1;

    if (bytes == NULL)
        return acme_fail(f, TERR_NOMEM, "out of memory");
    /* A file that shrinks meanwhile ends early, one that grows is cut: what follows parses neither. */
    while (n < size && got > 0) {
        got = read(fd, bytes + n, size - n);
        if (got > 0)
            n += (size_t)got;
    }
    if (got < 0) {
        free(bytes);
        return dir_fail_errno(f, d, file, "cannot be read");
    }
    bytes[n] = '\0';
    *out = (struct span){bytes, n};
    return 0;
}

int
acme_dir_read(const struct acme_dir *d, const char *file, struct span *out, struct acme_fail *f)
{
    int fd, err;
    struct stat st;

    *out = (struct span){NULL, 0};
    if (d->fd < 0)
        return TERR_NOTFOUND;
    fd = openat(d->fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? TERR_NOTFOUND : dir_fail_errno(f, d, file, "cannot be opened");
    if (fstat(fd, &st) != 0)
        err = dir_fail_errno(f, d, file, "cannot be seen");
    else if (!S_ISREG(st.st_mode))
        err = acme_fail(f, TERR_DENIED, "%s/%s is no regular file", d->path, file);
    else if (st.st_size > FILE_MAX)
        err = acme_fail(f, TERR_LIMIT, "%s/%s is larger than %d bytes", d->path, file, FILE_MAX);
    else
        err = dir_judge(d, file, &st, 0600, f);
    if (err == 0)
        err = dir_read_all(d, file, fd, (size_t)st.st_size, out, f);
    close(fd);
    return err;
}

/* The entry of `file`, too, must reach the disk. */
/* Without it a power failure may bring the old file back.  The CA has issued by then, and counts it. */
static int
dir_sync_parent(const struct acme_dir *d, const char *file)
{
    const char *slash = strrchr(file, '/');
    char parent[256] = ".";
    int fd, rc;

    if (slash != NULL)
        snprintf(parent, sizeof(parent), "%.*s", (int)(slash - file), file);
    fd = openat(d->fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    rc = fsync(fd);
    close(fd);
    return rc;
}

int
acme_dir_write(const struct acme_dir *d, const char *file, struct slice bytes, struct acme_fail *f)
{
    char temporary[64];
    size_t n = 0;
    int fd;

    /* In the directory itself, so that it is never among what tarnd reads. */
    snprintf(temporary, sizeof(temporary), DIR_NEW "%ld", (long)getpid());
    /* Of a killed process with our number.  O_EXCL then: nothing that another user could have put there is written to. */
    unlinkat(d->fd, temporary, 0);
    fd = openat(d->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return dir_fail_errno(f, d, temporary, "cannot be made");
    while (n < bytes.len) {
        ssize_t put = write(fd, bytes.ptr + n, bytes.len - n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            break;
        n += (size_t)put;
    }
    /* The umask may have taken bits away.  The bytes reach the disk before the name does, or a crash leaves an empty
     * file where a good certificate was. */
    if (n == bytes.len && fchmod(fd, 0600) == 0 && fsync(fd) == 0) {
        close(fd);
        if (renameat(d->fd, temporary, d->fd, file) == 0 && dir_sync_parent(d, file) == 0)
            return 0;
    } else {
        int err = errno;

        close(fd);
        errno = err;
    }
    dir_fail_errno(f, d, file, "cannot be written");
    unlinkat(d->fd, temporary, 0);
    return TERR_IO;
}

/* What cannot be removed now is swept by the next pass. */
void
acme_dir_remove(const struct acme_dir *d, const char *file)
{
    unlinkat(d->fd, file, 0);
}

/* Files of `name`; of the state directory itself only those that begin with DIR_NEW.
 * Under the lock, so that no running pass's challenge is among them. */
static void
dir_sweep_one(const struct acme_dir *d, const char *name, const char *prefix)
{
    int fd = openat(d->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    if (stream == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((e = readdir(stream)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(fd, e->d_name, 0);
    closedir(stream);
}

void
acme_dir_sweep(const struct acme_dir *d)
{
    dir_sweep_one(d, ".", DIR_NEW);
    dir_sweep_one(d, ACME_DIR_HTTP, "");
    dir_sweep_one(d, ACME_DIR_ALPN, "");
}
