/* table_read.c -- the files of a table as a reader has them: mapped, judged once a version. */
#include "daemon/table/table_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/table/table_guard.h"
#include "daemon/table/table_state.h"

/* A file, open and mapped. */
struct reader_file {
    int fd;     /* -1: none */
    void *base; /* NULL: none */
    size_t bytes;
    dev_t dev;
    ino_t ino;
    struct table_guard *guard;
};

#define TABLE_READER_MAGIC OBJ_TAG('t', 'b', 'r', 'd')
struct table_reader {
    uint32_t magic;
    enum table_kind kind;
    enum table_trust trust;
    const struct table_owners *owners; /* NULL: any user */
    bool inside, counted;
    bool judged;           /* `judged_version` was looked at, well or ill */
    struct table_place at; /* counted: where to leave */
    uint64_t judged_version, refused_version;
    struct table_view view;        /* of copies[]; base NULL: none */
    const struct table_view *best; /* &view, &kept or NULL */
    struct table_view kept;        /* base malloc'ed; NULL: none */
    struct reader_file state, copies[2];
    enum table_status status;
    uint64_t taken, refused, overtaken;
    char why[TABLE_WHY_MAX];
    char path[PATH_MAX];
};

/* The last state, for people: tables_watch() prints it when it changes. */
__attribute__((format(printf, 3, 4))) static void
reader_say(struct table_reader *r, enum table_status status, const char *fmt, ...)
{
    va_list ap;

    r->status = status;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof(r->why), fmt, ap);
    va_end(ap);
}

/* --- files --- */

/* Views into it must be gone: the caller has set them to NULL. */
static void
file_unmap(struct reader_file *f)
{
    /* Before munmap(2): from then on the range may be another's. */
    table_guard_remove(&f->guard);
    if (f->base != NULL)
        munmap(f->base, f->bytes);
    f->base = NULL;
    f->bytes = 0;
}

static void
file_close(struct reader_file *f)
{
    file_unmap(f);
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

static bool
file_owner_is_good(const struct table_owners *owners, uid_t uid)
{
    if (owners == NULL)
        return true;
    for (unsigned i = 0; i < owners->n; i++)
        if (owners->uids[i] == uid)
            return true;
    return false;
}

/* The directory may be open to all: no links, no pipes that would make us wait, no files of others.
 * In a lookup's thread: so nothing here may wait (O_NONBLOCK, no links, no devices). */
static int
file_open(struct reader_file *f, const struct table_reader *r, const char *suffix, int mode,
    const char **why)
{
    const char *path = r->path;
    char full[PATH_MAX + 8];
    struct stat st;

    snprintf(full, sizeof(full), "%s%s", path, suffix);
    f->fd = open(full, mode | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f->fd < 0) {
        *why = strerror(errno);
        return errno == ENOENT ? TERR_NOTFOUND : TERR_IO;
    }
    if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        *why = "it is no regular file";
        file_close(f);
        return TERR_CORRUPT;
    }
    /* By the open descriptor, so nothing can take its place in between. */
    if (!file_owner_is_good(r->owners, st.st_uid)) {
        *why = "its owner is not root, tarnd's user or one of table_owners";
        file_close(f);
        return TERR_CORRUPT;
    }
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    return 0;
}

/* The first `bytes`, which the file has. */
static int
file_map(struct reader_file *f, size_t bytes, int prot)
{
    file_unmap(f);
    f->base = mmap(NULL, bytes, prot, MAP_SHARED, f->fd, 0);
    if (f->base == MAP_FAILED) {
        f->base = NULL;
        return TERR_NOMEM;
    }
    f->bytes = bytes;
    f->guard = table_guard_add(f->base, bytes);
    /* Without a guard a truncated file would kill the process: then it is not used. */
    if (f->guard == NULL) {
        file_unmap(f);
        return TERR_LIMIT;
    }
    return 0;
}

/* Is that path still this file? */
static bool
file_is_at(const struct reader_file *f, const char *path, const char *suffix)
{
    char full[PATH_MAX + 8];
    struct stat st;

    snprintf(full, sizeof(full), "%s%s", path, suffix);
    return lstat(full, &st) == 0 && st.st_dev == f->dev && st.st_ino == f->ino;
}

/* --- the state --- */

static struct table_state *
reader_state(const struct table_reader *r)
{
    return r->state.base;
}

static int
reader_check_state(struct table_reader *r)
{
    struct table_state *s = reader_state(r);
    uint64_t tag = atomic_load(&s->tag);

    /* It is stored last: a writer is in the middle of it. */
    if (tag == 0)
        reader_say(r, TABLE_EMPTY, "its state file is being made");
    else if (memcmp(&tag, TABLE_STATE_TAG, sizeof(tag)) != 0)
        reader_say(r, TABLE_REFUSED, "%s.state does not begin with " TABLE_STATE_TAG, r->path);
    else if (s->order != TABLE_ORDER)
        reader_say(r, TABLE_REFUSED, "%s.state: its byte order mark is 0x%08x, not 0x%08x", r->path,
            s->order, TABLE_ORDER);
    else if (s->layout != TABLE_LAYOUT)
        reader_say(r, TABLE_REFUSED, "%s.state: its layout is %u; this build reads %u", r->path,
            s->layout, TABLE_LAYOUT);
    else
        return 0;
    return TERR_CORRUPT;
}

/* Read and write: a reader counts itself in and out in the file, which is how a writer knows
 * when a copy is free (table_state.h). */
static int
reader_open_state(struct table_reader *r)
{
    const char *why = "";
    struct stat st;
    int err = file_open(&r->state, r, ".state", O_RDWR, &why);

    if (err == TERR_NOTFOUND) {
        reader_say(r, TABLE_MISSING, "there is no %s.state", r->path);
        return err;
    }
    if (err != 0) {
        reader_say(r, TABLE_REFUSED, "%.100s.state: %s%s", r->path, why,
            err == TERR_IO ? " (readers count themselves in it: its owner or group may)" : "");
        return err;
    }
    /* Shorter than it has to be: reading behind its end would be a SIGBUS. */
    if (fstat(r->state.fd, &st) < 0 || st.st_size < (off_t)sizeof(struct table_state)) {
        reader_say(r, st.st_size == 0 ? TABLE_EMPTY : TABLE_REFUSED,
            "%s.state is short: %lld bytes, not %zu", r->path, (long long)st.st_size,
            sizeof(struct table_state));
        err = TERR_CORRUPT;
    } else {
        err = file_map(&r->state, sizeof(struct table_state), PROT_READ | PROT_WRITE);
        if (err != 0)
            reader_say(r, TABLE_REFUSED, "%s.state: %s", r->path, terr_text(err));
        else
            err = reader_check_state(r);
    }
    if (err != 0)
        file_close(&r->state);
    return err;
}

/* --- judging a version; inside --- */

/* Copy `index` mapped, at least so far; or why not. */
static int
reader_map_copy(struct table_reader *r, unsigned index, uint64_t bytes)
{
    static const char *const suffixes[] = {".0", ".1"};
    struct reader_file *f = &r->copies[index];
    const char *why = "";
    struct stat st;
    int err = f->fd >= 0 ? 0 : file_open(f, r, suffixes[index], O_RDONLY, &why);

    if (err != 0) {
        reader_say(r, TABLE_REFUSED, "%s.%u: %s", r->path, index, why);
        return err;
    }
    if (fstat(f->fd, &st) < 0 || (uint64_t)st.st_size < bytes) {
        reader_say(r, TABLE_REFUSED, "%s.%u is short: %lld bytes, its version has %llu", r->path,
            index, (long long)st.st_size, (unsigned long long)bytes);
        return TERR_CORRUPT;
    }
    /* Mapped with room to spare: most versions need no system call but the fstat(2). */
    if (f->base != NULL && f->bytes >= bytes && !table_guard_struck(f->guard))
        return 0;
    err = file_map(f, (size_t)st.st_size, PROT_READ);
    if (err != 0)
        reader_say(r, TABLE_REFUSED, "%s.%u: %s", r->path, index, terr_text(err));
    return err;
}

/* Inside, so the writer does not touch this copy meanwhile.  With TABLE_CHECKED this is a hash
 * over all bytes, once for each version and reader. */
static int
reader_judge_copy(struct table_reader *r, uint64_t version, struct table_view *out)
{
    unsigned index = TABLE_VERSION_INDEX(version);
    uint64_t bytes = TABLE_VERSION_BYTES(version);
    char why[TABLE_WHY_MAX - 32];
    int err = reader_map_copy(r, index, bytes);

    if (err != 0)
        return err;
    err = table_view_open(out, r->copies[index].base, bytes, r->trust, why, sizeof(why));
    /* The word that counts has a part of the checksum: a copy of another version does not fit
     * it. */
    if (err == 0 && TABLE_VERSION_SUM(version) != (out->hash & 0xffffff)) {
        snprintf(why, sizeof(why), "torn: it hashes to ...%06x, its version says ...%06x",
            (unsigned)(out->hash & 0xffffff), (unsigned)TABLE_VERSION_SUM(version));
        err = TERR_CORRUPT;
    } else if (err == 0 && r->kind != TABLE_ANY && out->kind != r->kind) {
        snprintf(why, sizeof(why), "its kind is %s, it should be %s", table_kind_name(out->kind),
            table_kind_name(r->kind));
        err = TERR_CORRUPT;
    }
    if (err != 0)
        reader_say(r, TABLE_REFUSED, "%.160s.%u: %s", r->path, index, why);
    return err;
}

static void
reader_drop_kept(struct table_reader *r)
{
    free((void *)(uintptr_t)r->kept.base);
    r->kept = (struct table_view){.base = NULL};
}

/* The last good version goes into our own memory, if it is still there.  It is not the one that
 * counts any more, so the writer may begin to write it at any moment: what was copied is judged. */
static void
reader_keep(struct table_reader *r)
{
    struct table_place at = {.index = 0};
    struct table_view copy;
    char why[TABLE_WHY_MAX];
    void *mem;
    int err;

    if (r->view.base == NULL)
        return;
    at.index = r->view.base == r->copies[1].base;
    mem = malloc(r->view.bytes);
    if (mem != NULL) {
        /* Counted in, so that a good writer waits; one that does not is found by the judgement
         * below. */
        at.resets = (uint32_t)(atomic_fetch_add(&reader_state(r)->readers[at.index].word, 1) >> 32);
        memcpy(mem, r->view.base, r->view.bytes);
        table_state_leave(reader_state(r), at);
        err = table_view_open(&copy, mem, r->view.bytes, TABLE_CHECKED, why, sizeof(why));
        /* Judged after the copying: only what was whole then is kept. */
        if (err == 0 && copy.generation == r->view.generation) {
            reader_drop_kept(r);
            r->kept = copy;
            mem = NULL;
        }
        free(mem);
    }
    r->view.base = NULL;
}

/* Leaves r->best: the new version, the one that was kept, or NULL; and in r->why what is wrong
 * with the new one. */
static void
reader_judge(struct table_reader *r, uint64_t version)
{
    unsigned index = TABLE_VERSION_INDEX(version);
    struct table_view next;
    int err;

    r->judged = true;
    r->judged_version = version;
    if (TABLE_VERSION_BYTES(version) == 0) {
        reader_say(r, TABLE_EMPTY, "nothing has been written to it");
        r->best = NULL;
        return;
    }
    /* It cannot be kept any more. */
    if (r->view.base != NULL && r->view.base == r->copies[index].base)
        r->view.base = NULL; /* its copy was written since */
    err = reader_judge_copy(r, version, &next);
    if (err != 0 && r->copies[index].fd >= 0 &&
        !file_is_at(&r->copies[index], r->path, index == 0 ? ".0" : ".1")) {
        file_close(&r->copies[index]); /* another file has come in its place */
        err = reader_judge_copy(r, version, &next);
    }
    if (err != 0) {
        r->refused += version != r->refused_version; /* looked at again once a second */
        r->refused_version = version;
        reader_keep(r);
        r->best = r->kept.base != NULL ? &r->kept : NULL;
        return;
    }
    /* A good one has come: the old copy has done its duty. */
    reader_drop_kept(r);
    r->view = next;
    r->best = &r->view;
    r->status = TABLE_OK;
    r->why[0] = '\0';
    r->taken++;
}

/* Is the version that we judged still the one that lies there? */
static inline bool
reader_is_current(const struct table_reader *r, uint64_t version)
{
    const struct table_data *data = (const void *)r->view.base;

    if (__builtin_expect(!r->judged || version != r->judged_version, 0))
        return false;
    if (r->best != &r->view)
        return true; /* refused, and said so */
    /* Sizes and checksums can repeat, generations do not. */
    return *(const volatile uint64_t *)&data->generation == r->view.generation &&
           !table_guard_struck(r->copies[TABLE_VERSION_INDEX(version)].guard);
}

/* NULL: there is no good version.  What it returns is good until table_leave(), whatever the
 * writer does. */
const struct table_view *
table_enter(struct table_reader *r)
{
    uint64_t version;

    OBJ_CHECK(r, TABLE_READER_MAGIC);
    tassert(!r->inside);
    r->inside = true;
    /* Files are opened by table_reader_check() alone: a lookup makes no system call. */
    if (__builtin_expect(r->state.base == NULL, 0))
        return r->best;
    version = table_state_enter(reader_state(r), &r->at);
    r->counted = true;
    if (__builtin_expect(!reader_is_current(r, version), 0))
        reader_judge(r, version);
    return r->best;
}

int
table_leave(struct table_reader *r)
{
    OBJ_CHECK(r, TABLE_READER_MAGIC);
    tassert(r->inside);
    r->inside = false;
    /* There was no state to be counted in. */
    if (!r->counted)
        return 0;
    r->counted = false;
    if (__builtin_expect(table_state_leave(reader_state(r), r->at), 1))
        return 0;
    r->overtaken++;
    r->judged = false; /* whatever we have seen, look again */
    return TERR_TIMEDOUT;
}

/* --- coming and going --- */

/* The files have gone or are others.  What was good stays in use. */
static void
reader_close_files(struct table_reader *r)
{
    /* While its files are mapped. */
    if (r->state.base != NULL)
        reader_keep(r);
    r->view.base = NULL;
    r->best = r->kept.base != NULL ? &r->kept : NULL;
    file_close(&r->state);
    file_close(&r->copies[0]);
    file_close(&r->copies[1]);
    r->judged = false;
}

/* Outside, once a second by workers: it makes system calls, and may map files anew. */
void
table_reader_check(struct table_reader *r)
{
    OBJ_CHECK(r, TABLE_READER_MAGIC);
    tassert(!r->inside);
    /* A table that was removed and made again has other files at the same path. */
    if (r->state.base != NULL && file_is_at(&r->state, r->path, ".state") &&
        !table_guard_struck(r->state.guard) && reader_check_state(r) == 0) {
        r->judged &= r->status == TABLE_OK; /* perhaps it was repaired */
    } else {
        reader_close_files(r);
        reader_open_state(r);
    }
    /* Takes a good version now, so that a reader without lookups keeps it when a bad one comes. */
    table_enter(r);
    table_leave(r);
}

int
table_reader_new(
    struct table_reader **out, const char *path, enum table_kind kind, enum table_trust trust)
{
    return table_reader_new_of(out, path, kind, trust, NULL);
}

int
table_reader_new_of(struct table_reader **out, const char *path, enum table_kind kind,
    enum table_trust trust, const struct table_owners *owners)
{
    struct table_reader *r;

    if (strlen(path) >= sizeof(r->path))
        return TERR_INVALID;
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return TERR_NOMEM;
    r->magic = TABLE_READER_MAGIC;
    r->kind = kind;
    r->trust = trust;
    r->owners = owners;
    r->state.fd = r->copies[0].fd = r->copies[1].fd = -1;
    memcpy(r->path, path, strlen(path) + 1);
    /* What it finds is no error of the opening: a table may come later. */
    table_reader_check(r);
    *out = r;
    return 0;
}

/* Outside.  Views that were given out end with it. */
void
table_reader_free(struct table_reader **rp)
{
    struct table_reader *r;

    OBJ_TAKE(r, rp, TABLE_READER_MAGIC);
    tassert(!r->inside);
    r->view.base = NULL;
    reader_drop_kept(r);
    file_close(&r->state);
    file_close(&r->copies[0]);
    file_close(&r->copies[1]);
    OBJ_FREE(r);
}

/* Inside or outside; `why` and `view` are the reader's, good until its next call. */
void
table_reader_seen(const struct table_reader *r, struct table_seen *out)
{
    OBJ_CHECK(r, TABLE_READER_MAGIC);
    *out = (struct table_seen){.status = r->status,
        .why = r->why,
        .view = r->best,
        /* So an operator sees that lookups are answered by an older version. */
        .kept = r->best == &r->kept,
        .taken = r->taken,
        .refused = r->refused,
        .overtaken = r->overtaken};
}
