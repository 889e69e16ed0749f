/* table_write.c -- waits for its readers, fills the other copy, switches. */
#include "daemon/table/table_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/table/table_state.h"

enum {
    SPINS = 200,     /* looks before the first nap: readers are inside for microseconds */
    NAP_NS = 50000,  /* between looks */
    LOCK_TRIES = 16, /* that the file we have locked is no more the one that lies there */
};

struct writer_copy {
    int fd;
    uint8_t *base;
    size_t bytes;
};

#define TABLE_WRITER_MAGIC OBJ_TAG('t', 'b', 'w', 'r')
struct table_writer {
    uint32_t magic;
    unsigned grace_ms;
    int state_fd;
    struct table_state *state;
    struct writer_copy copies[2];
    void (*on_step)(void *ctx, enum table_step step);
    void *step_ctx;
    char path[PATH_MAX];
};

static int
writer_fail(
    const struct table_writer *w, const char *suffix, const char *what, char *why, size_t size)
{
    /* Before snprintf(3), which may change it. */
    int err = errno;

    snprintf(why, size, "%.160s%s: %s%s%s", w->path, suffix, what, err != 0 ? ": " : "",
        err != 0 ? strerror(err) : "");
    return err == ENOMEM ? TERR_NOMEM : TERR_IO;
}

static int
writer_refuse(
    const struct table_writer *w, const char *suffix, const char *what, char *why, size_t size)
{
    snprintf(why, size, "%.160s%s: %s", w->path, suffix, what);
    return TERR_CORRUPT;
}

/* --- opening --- */

/* The directory above, one step: /dev/shm/tarn may not exist yet. */
static void
writer_make_dir(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path)
        return;
    /* One step only: a typo must not make a tree of directories. */
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    mkdir(dir, 0750); /* what is wrong with it is found when a file is opened in it */
}

/* The state file, open, locked and still at its path.
 * Two writers would fill the same copy: the lock is held for as long as the writer is open. */
static int
writer_lock(struct table_writer *w, char *why, size_t size)
{
    char full[PATH_MAX + 8];

    snprintf(full, sizeof(full), "%s.state", w->path);
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        struct stat here, there;

        errno = 0;
        w->state_fd = open(full, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (w->state_fd < 0 || fstat(w->state_fd, &here) < 0)
            return writer_fail(w, ".state", "it cannot be opened", why, size);
        /* Only a new one: an operator may have changed the mode of another. */
        if (here.st_size == 0)
            fchmod(
                w->state_fd, 0660); /* new: readers are the group's, and count themselves in it */
        if (!S_ISREG(here.st_mode))
            return writer_refuse(w, ".state", "it is no regular file", why, size);
        /* Released by the kernel if the writer dies, so no lock is ever left behind. */
        if (flock(w->state_fd, LOCK_EX | LOCK_NB) < 0) {
            snprintf(why, size, "%.160s: another writer has this table open", w->path);
            return errno == EWOULDBLOCK ? TERR_BUSY : TERR_IO;
        }
        /* `remove` may have unlinked it between open and lock: then the lock is on a file that no
         * reader sees. */
        if (lstat(full, &there) == 0 && there.st_ino == here.st_ino && there.st_dev == here.st_dev)
            return 0;
        close(w->state_fd); /* removed between the two */
        w->state_fd = -1;
    }
    return writer_refuse(w, ".state", "it is replaced again and again", why, size);
}

/* A state file has no tag when its writer died while it made the file: the tag comes last. */
static void
writer_make_state(struct table_state *s)
{
    struct timespec now;
    uint64_t tag;

    memset((void *)s, 0, sizeof(*s));
    clock_gettime(CLOCK_REALTIME, &now);
    s->order = TABLE_ORDER;
    s->layout = TABLE_LAYOUT;
    /* Tells a state file from the one before at the same path. */
    s->born = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    memcpy(&tag, TABLE_STATE_TAG, sizeof(tag));
    atomic_store(&s->tag, tag);
}

static int
writer_map_state(struct table_writer *w, char *why, size_t size)
{
    uint64_t tag;
    /* It answers by its result, and leaves errno alone. */
    int rc = posix_fallocate(w->state_fd, 0, sizeof(struct table_state));

    errno = rc;
    if (rc != 0)
        return writer_fail(w, ".state", "no room", why, size);
    w->state =
        mmap(NULL, sizeof(struct table_state), PROT_READ | PROT_WRITE, MAP_SHARED, w->state_fd, 0);
    if (w->state == MAP_FAILED) {
        w->state = NULL;
        return writer_fail(w, ".state", "it cannot be mapped", why, size);
    }
    /* New, or of a writer that died while it made it: the lock is ours, so it is made again. */
    if (atomic_load(&w->state->tag) == 0)
        writer_make_state(w->state);
    tag = atomic_load(&w->state->tag);
    if (memcmp(&tag, TABLE_STATE_TAG, sizeof(tag)) != 0)
        return writer_refuse(w, ".state",
            "it is something else: it does not begin with " TABLE_STATE_TAG, why, size);
    if (w->state->order != TABLE_ORDER || w->state->layout != TABLE_LAYOUT)
        return writer_refuse(w, ".state",
            "it was made by another version of Tarn or on another machine; remove the table first",
            why, size);
    return 0;
}

/* 0, or TERR_BUSY at once: a writer never waits for another.  grace_ms bounds how long it waits
 * for readers. */
int
table_writer_open(
    struct table_writer **out, const char *path, unsigned grace_ms, char *why, size_t why_size)
{
    struct table_writer *w;
    int err;

    if (path[0] == '\0' || strlen(path) >= sizeof(w->path)) {
        snprintf(why, why_size, "the path is empty or too long");
        return TERR_INVALID;
    }
    snprintf(why, why_size, "%s", terr_text(TERR_NOMEM));
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return TERR_NOMEM;
    w->magic = TABLE_WRITER_MAGIC;
    w->grace_ms = grace_ms;
    /* 0 is a descriptor. */
    w->state_fd = w->copies[0].fd = w->copies[1].fd = -1;
    memcpy(w->path, path, strlen(path) + 1);
    writer_make_dir(path);
    err = writer_lock(w, why, why_size);
    if (err == 0)
        err = writer_map_state(w, why, why_size);
    if (err != 0) {
        table_writer_close(&w);
        return err;
    }
    *out = w;
    return 0;
}

static void
writer_close_copy(struct writer_copy *c)
{
    if (c->base != NULL)
        munmap(c->base, c->bytes);
    if (c->fd >= 0)
        close(c->fd);
    *c = (struct writer_copy){.fd = -1};
}

void
table_writer_close(struct table_writer **wp)
{
    struct table_writer *w;

    OBJ_TAKE(w, wp, TABLE_WRITER_MAGIC);
    writer_close_copy(&w->copies[0]);
    writer_close_copy(&w->copies[1]);
    if (w->state != NULL)
        munmap(w->state, sizeof(*w->state));
    if (w->state_fd >= 0)
        close(w->state_fd); /* and with it goes the lock */
    OBJ_FREE(w);
}

/* The state first: a reader that finds none looks for no copies. */
int
table_writer_remove(struct table_writer **wp)
{
    static const char *const suffixes[] = {".state", ".0", ".1"};
    char full[PATH_MAX + 8];
    int err = 0;

    OBJ_CHECK(*wp, TABLE_WRITER_MAGIC);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(full, sizeof(full), "%s%s", (*wp)->path, suffixes[i]);
        if (unlink(full) < 0 && errno != ENOENT)
            err = TERR_IO;
    }
    table_writer_close(wp);
    return err;
}

/* --- writing --- */

void
table_writer_on_step(
    struct table_writer *w, void (*on_step)(void *ctx, enum table_step step), void *ctx)
{
    OBJ_CHECK(w, TABLE_WRITER_MAGIC);
    w->on_step = on_step;
    w->step_ctx = ctx;
}

static void
writer_step(struct table_writer *w, enum table_step step)
{
    if (w->on_step != NULL)
        w->on_step(w->step_ctx, step);
}

static uint64_t
writer_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* W2.  1: its readers were given up.
 * Readers of the copy that is not in use: late ones, of the version before.  Usually there are
 * none. */
static int
writer_wait(struct table_writer *w, unsigned index)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t until;

    for (unsigned i = 0; i < SPINS; i++) {
        /* Without a system call first: readers are inside for microseconds. */
        if (table_state_is_free(w->state, index))
            return 0;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    until = writer_now_ms() + w->grace_ms;
    while (!table_state_is_free(w->state, index)) {
        if (writer_now_ms() >= until) {
            /* It died, or stands still: it finds out when it leaves (README 3). */
            table_state_reset(w->state, index);
            return 1;
        }
        nanosleep(&nap, NULL);
    }
    return 0;
}

static int
writer_open_copy(struct table_writer *w, unsigned index, char *why, size_t size)
{
    struct writer_copy *c = &w->copies[index];
    const char *suffix = index == 0 ? ".0" : ".1";
    char full[PATH_MAX + 8];
    struct stat st;

    snprintf(full, sizeof(full), "%s%s", w->path, suffix);
    errno = 0;
    /* 0600 until its mode is set: at no time may others read it. */
    c->fd = open(full, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (c->fd < 0)
        return writer_fail(w, suffix, "it cannot be opened", why, size);
    if (fstat(c->fd, &st) == 0 && st.st_size == 0)
        fchmod(c->fd, 0640); /* new, whatever the umask says */
    return 0;
}

/* The copy has room for so many bytes, and pages for them: a full /dev/shm is an error here and not
 * a SIGBUS later.  The file may have been truncated, or replaced by another. */
static int
writer_grow(struct table_writer *w, unsigned index, uint64_t bytes, char *why, size_t size)
{
    struct writer_copy *c = &w->copies[index];
    const char *suffix = index == 0 ? ".0" : ".1";
    struct stat st;
    int rc, err = 0;

    /* Another file has come in its place, or it was cut: what is mapped is not what readers
     * open. */
    if (c->fd >= 0 && (fstat(c->fd, &st) < 0 || st.st_nlink == 0 || (size_t)st.st_size < c->bytes))
        writer_close_copy(c);
    if (c->fd < 0)
        err = writer_open_copy(w, index, why, size);
    if (err != 0 || c->bytes >= bytes)
        return err;
    bytes = (bytes + bytes / 4 + 4095) & ~UINT64_C(4095); /* not at every entry more */
    errno = 0;
    if (fstat(c->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return writer_fail(w, suffix, "it is no regular file", why, size);
    /* Never smaller: a reader may still have the old size mapped. */
    if ((uint64_t)st.st_size > bytes)
        bytes = (uint64_t)st.st_size;
    /* Real pages: with a sparse file a full /dev/shm would kill us in the middle of the copy. */
    rc = posix_fallocate(c->fd, 0, (off_t)bytes);
    errno = rc;
    if (rc != 0)
        return writer_fail(w, suffix, "no room", why, size);
    if (c->base != NULL)
        munmap(c->base, c->bytes);
    c->bytes = 0;
    c->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (c->base == MAP_FAILED) {
        c->base = NULL;
        return writer_fail(w, suffix, "it cannot be mapped", why, size);
    }
    c->bytes = bytes;
    return 0;
}

static int
writer_check_image(
    const struct table_writer *w, const struct table_image *image, char *why, size_t size)
{
    const struct table_data *d = image->base;

    /* A library's caller may hand over anything. */
    if (image->bytes < sizeof(*d) || image->bytes > TABLE_BYTES_MAX || d->bytes != image->bytes ||
        memcmp(d->tag, TABLE_DATA_TAG, sizeof(d->tag)) != 0)
        return writer_refuse(w, "", "what is to be written is no version of a table", why, size);
    return 0;
}

/* The image's header is written to (generation, hash).  Until the switch a writer that dies has
 * changed nothing that a reader takes for good. */
int
table_write(struct table_writer *w, const struct table_image *image, char *why, size_t why_size)
{
    struct table_data *d = image->base;
    uint64_t half = image->bytes / 2;
    unsigned other;
    int err, reset;

    OBJ_CHECK(w, TABLE_WRITER_MAGIC);
    err = writer_check_image(w, image, why, why_size);
    if (err != 0)
        return err;
    /* The copy that is not in use: readers of the one that counts are never disturbed. */
    other = TABLE_VERSION_INDEX(atomic_load(&w->state->version)) ^ 1;
    reset = writer_wait(w, other);
    writer_step(w, TABLE_STEP_WAITED);
    err = writer_grow(w, other, image->bytes, why, why_size);
    if (err != 0)
        return err;
    writer_step(w, TABLE_STEP_GREW);
    /* Taken before it is used: the next writer, should we die, takes another. */
    d->generation = atomic_fetch_add(&w->state->generation, 1) + 1;
    d->hash = hash_plain((const char *)image->base + 16, image->bytes - 16);
    /* In two halves for the tests, which kill the writer between them. */
    memcpy(w->copies[other].base, image->base, half);
    writer_step(w, TABLE_STEP_HALF);
    memcpy(w->copies[other].base + half, (const char *)image->base + half, image->bytes - half);
    writer_step(w, TABLE_STEP_FILLED);
    /* The switch: one store, and all that was written is seen with it. */
    table_state_publish(w->state, table_version(other, image->bytes, d->hash));
    writer_step(w, TABLE_STEP_SWITCHED);
    return reset;
}
