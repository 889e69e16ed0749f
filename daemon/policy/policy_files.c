/* policy_files.c -- files that a policy includes and reads: which, and how they are opened.
 *
 * A policy that an operator sends comes over the network; its text may ask for any file that tarnd's user
 * can read, and its errors quote what they find.  So it reads below some directories only.  The
 * configuration's own policy is a file that the administrator wrote: it reads what it names.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/policy/policies_priv.h"

static const char files_outside[] = "it lies outside of the directories that a policy which was "
                                    "sent may read; see the parameter policy_path";

/* --- which --- */

/* Is `path` at or below the directory?  Both are canonical. */
static bool
files_is_below(const char *dir, const char *path)
{
    size_t len = strlen(dir);

    tassert(dir[0] == '/'); /* realpath(3) gives no other */
    if (len == 1)
        return true; /* the root */
    return strncmp(dir, path, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* One of the directories, `len` bytes of a list. */
static bool
files_dir_has(const char *dir, size_t len, const char *path)
{
    char name[PATH_MAX], real[PATH_MAX];

    if (len == 0 || len >= sizeof(name))
        return false;
    memcpy(name, dir, len);
    name[len] = '\0';
    return realpath(name, real) != NULL && files_is_below(real, path);
}

/* policy_path, if it is set, is all; else vcl_path; else the directory of the configuration's
 * own policy. */
static bool
files_is_inside(const struct policy_dirs *dirs, const char *path)
{
    const char *list = dirs->conf->params.policy_path, *vcl = dirs->conf->vcl;
    const char *slash = strrchr(vcl, '/');

    tassert(!dirs->all); /* then nothing is asked */
    for (const char *at = list; *at != '\0';) {
        size_t len = strcspn(at, ":");

        if (files_dir_has(at, len, path))
            return true;
        at += len + (at[len] == ':');
    }
    if (list[0] != '\0')
        return false;
    list = dirs->conf->params.vcl_path;
    if (list[0] != '\0')
        return files_dir_has(list, strlen(list), path);
    if (slash != NULL)
        return files_dir_has(vcl, slash == vcl ? 1 : (size_t)(slash - vcl), path);
    return vcl[0] != '\0' && files_dir_has(".", 1, path);
}

/* A missing file is reported as such only where it would be inside; else as outside. */
static bool
files_would_be_inside(const struct policy_dirs *dirs, const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX], real[PATH_MAX];
    size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);

    if (len >= sizeof(dir))
        return false;
    memcpy(dir, len == 0 ? "." : path, len == 0 ? 1 : len);
    dir[len == 0 ? 1 : len] = '\0';
    return realpath(dir, real) != NULL && files_is_inside(dirs, real);
}

/* --- how --- */

/* O_PATH neither waits for a FIFO's other end nor wakes a device.  Where it leads is asked of what was
 * opened, and that is opened again, so nothing can be put in its place between.  A descriptor, or -1 and
 * *why. */
static int
files_find(const struct policy_dirs *dirs, const char *path, const char **why)
{
    char at[64], real[PATH_MAX];
    struct stat st;
    ssize_t len;
    int fd = open(path, O_PATH | O_CLOEXEC), err = errno;

    tassert(dirs->all || dirs->conf != NULL);
    if (fd < 0) {
        *why = dirs->all || files_would_be_inside(dirs, path) ? strerror(err) : files_outside;
        return -1;
    }
    snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
    len = dirs->all ? 0 : readlink(at, real, sizeof(real) - 1);
    real[len > 0 ? len : 0] = '\0';
    *why = NULL;
    if (!dirs->all && (len <= 0 || real[0] != '/' || !files_is_inside(dirs, real)))
        *why = files_outside;
    else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        *why = "it is no ordinary file";
    if (*why == NULL)
        return fd;
    close(fd);
    return -1;
}

/* The file itself; without /proc by its name once more, which is no worse where all may be read. */
static int
files_open(const struct policy_dirs *dirs, const char *path, const char **why)
{
    int found = files_find(dirs, path, why), fd;
    char at[64];

    if (found < 0)
        return -1;
    snprintf(at, sizeof(at), "/proc/self/fd/%d", found);
    fd = open(at, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT && dirs->all)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        *why = strerror(errno);
    close(found);
    return fd;
}

bool
policy_may_read(const struct policy_dirs *dirs, const char *path, const char **why)
{
    int fd = files_find(dirs, path, why);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The size is that of the open file, so one that grows meanwhile is cut, and one that shrinks is
 * an error.  The caller frees out->ptr, which has a NUL behind it. */
int
policy_slurp(const struct policy_dirs *dirs, const char *path, size_t most, struct span *out,
    const char **why)
{
    int fd = files_open(dirs, path, why);
    struct stat st;
    ssize_t n;
    bool fits;

    if (fd < 0)
        return TERR_NOTFOUND;
    if (fstat(fd, &st) != 0) {
        *why = strerror(errno);
        close(fd);
        return TERR_NOTFOUND;
    }
    *why = S_ISREG(st.st_mode) ? "it is too large" : "it is no ordinary file";
    out->len = (size_t)st.st_size;
    fits = S_ISREG(st.st_mode) && out->len <= most;
    out->ptr = fits ? malloc(out->len + 1) : NULL;
    n = out->ptr == NULL ? -1 : read(fd, out->ptr, out->len);
    close(fd);
    if (fits && out->ptr == NULL) {
        *why = terr_text(TERR_NOMEM);
        return TERR_NOMEM;
    }
    if (out->ptr != NULL && n != (ssize_t)out->len)
        *why = "it could not be read whole";
    if (n != (ssize_t)out->len) {
        free(out->ptr);
        return TERR_IO;
    }
    out->ptr[out->len] = '\0';
    return 0;
}

static struct policy_dirs
policy_dirs_of(const struct policy *pol)
{
    return (struct policy_dirs){.conf = snapshot_conf(pol->snapshot), .all = !pol->sent};
}

/* --- std.fileread: each file once; kept as long as the policy, as Varnish does --- */

enum {
    POLICY_READ_MAX = 1 << 20 /* bytes of a file that a policy reads */
};

struct policy_text {
    struct policy_text *next;
    struct span bytes;
    char path[];
};

static pthread_mutex_t policy_text_lock = PTHREAD_MUTEX_INITIALIZER;

/* From any worker: the first reading of a file blocks its loop, and others that want a file
 * meanwhile.  Once in a policy's life for each file. */
int
policy_file_read(struct policy *pol, struct vcl_run *r, struct slice path, struct vcl_value *out)
{
    struct policy_text *t;
    const struct policy_dirs dirs = policy_dirs_of(pol);
    const char *why = "out of memory";
    int err = 0;

    pthread_mutex_lock(&policy_text_lock); /* held for long only when a file is first read */
    for (t = pol->files; t != NULL; t = t->next)
        if (slice_eq(slice_str(t->path), path))
            break;
    if (t == NULL) {
        t = malloc(sizeof(*t) + path.len + 1);
        err = t == NULL ? TERR_NOMEM : 0;
        if (err == 0) {
            memcpy(t->path, path.ptr, path.len);
            t->path[path.len] = '\0';
            err = policy_slurp(&dirs, t->path, POLICY_READ_MAX, &t->bytes, &why);
        }
        if (err == 0) {
            /* The newest first, and never taken out: a reader may use it after the lock is given back. */
            t->next = pol->files;
            pol->files = t;
        } else {
            free(t);
            t = NULL;
        }
    }
    pthread_mutex_unlock(&policy_text_lock);
    if (err == TERR_NOMEM)
        return err;
    if (err != 0) { /* as Varnish: unset, and the log says why */
        policy_note(r, "std.fileread", path, why);
        return 0;
    }
    out->s = t->bytes.ptr;
    out->len = t->bytes.len;
    return 0;
}

int
policy_file_exists(struct policy *pol, struct vcl_run *r, struct slice path, struct vcl_value *out)
{
    struct slice copy = arena_copy(r->arena, path);
    const struct policy_dirs dirs = policy_dirs_of(pol);
    const char *why;

    if (copy.ptr == NULL)
        return TERR_NOMEM;
    out->i = memchr(path.ptr, 0, path.len) == NULL &&
             (pol->sent ? policy_may_read(&dirs, copy.ptr, &why) : access(copy.ptr, F_OK) == 0);
    return 0;
}

void
policy_free_files(struct policy *pol)
{
    while (pol->files != NULL) {
        struct policy_text *t = pol->files;

        pol->files = t->next;
        free(t->bytes.ptr);
        free(t);
    }
}
