/* cert_file.c -- files of certificates and keys.
 *
 * Whole and at once, into memory that is overwritten before it goes: a file may be a key, and stdio's buffers keep
 * what went through them. */
#include "daemon/tls/cert_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/terr.h"

void
cert_buffer_fini(struct cert_buffer *b)
{
    if (b->bytes != NULL)
        explicit_bzero(b->bytes, b->room);
    free(b->bytes);
    *b = (struct cert_buffer){NULL, 0};
}

/* The inode, for a file that is replaced by rename(2) within one tick of the clock; the mode, for one that was opened
 * to all since. */
static void
file_id(const struct stat *st, struct cert_file_id *out)
{
    *out = (struct cert_file_id){.inode = st->st_ino,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .size = st->st_size,
        .mode = st->st_mode};
}

/* Its errno, or 0.  A link is followed, so that a change of what it leads to is seen. */
int
cert_file_stat(const char *path, struct cert_file_id *out)
{
    struct stat st;

    *out = (struct cert_file_id){.inode = 0};
    if (stat(path, &st) != 0)
        return errno;
    file_id(&st, out);
    return 0;
}

bool
cert_file_same(const struct cert_file_id *a, const struct cert_file_id *b)
{
    return a->inode == b->inode && a->mtime_ns == b->mtime_ns && a->size == b->size &&
           a->mode == b->mode;
}

/* The two that operators meet have advice; what is left is in the system's words. */
void
cert_file_say(struct cert_report *report, const char *path, int err)
{
    if (err == ENOENT)
        cert_report_add(report, true, path, 0, "there is no such file");
    else if (err == EACCES)
        cert_report_add(report, true, path, 0,
            "tarnd's user may not read it: give it to a group of that user (chgrp) and chmod 0640, "
            "and its "
            "directories chmod 0750");
    else
        cert_report_add(report, true, path, 0, "cannot be read: %s", strerror(err));
}

bool
cert_file_is_private(const struct cert_file_id *id, const char *path, struct cert_report *report)
{
    /* The group may read it: tarnd's user mostly has it by a group (Debian's ssl-cert). */
    if ((id->mode & (S_IROTH | S_IWOTH)) == 0)
        return true;
    cert_report_add(report, true, path, 0,
        "has a private key, and every user may read or write it: chmod 0640, with the group of "
        "tarnd's user");
    return false;
}

/* Room for `size` bytes and one more, which tells whether the file has grown.  The old bytes may be a key. */
static bool
buffer_fit(struct cert_buffer *b, size_t size)
{
    size_t room = size + 1 < 16384 ? 16384 : size + 1;

    /* One buffer for all files of a load: 50,000 of them make one malloc(). */
    if (b->room > size)
        return true;
    cert_buffer_fini(b);
    b->bytes = malloc(room);
    if (b->bytes == NULL)
        return false;
    b->room = room;
    return true;
}

/* The bytes, or a negative errno. */
static ssize_t
file_fill(int fd, struct cert_buffer *b, size_t size)
{
    size_t have = 0;

    /* One byte more than stat() said is asked for: it shows that the file has grown. */
    while (have <= size) {
        ssize_t n = read(fd, b->bytes + have, size + 1 - have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

static int
file_read(int fd, const char *path, struct cert_buffer *b, struct slice *out,
    struct cert_file_id *id, struct cert_report *report)
{
    struct stat st;
    ssize_t n;

    /* Of the open file: between a stat() by name and the open another one may have come there. */
    if (fstat(fd, &st) != 0) {
        cert_file_say(report, path, errno);
        return TERR_IO;
    }
    file_id(&st, id);
    if (!S_ISREG(st.st_mode)) {
        cert_report_add(report, true, path, 0, "is not a regular file");
        return TERR_IO;
    }
    /* By mistake a log, or a bundle of all CAs: to scan it would hold a thread. */
    if (st.st_size > CERT_FILE_BYTES_MAX) {
        cert_report_add(report, true, path, 0,
            "is larger than 1 MiB: it belongs to one certificate, its issuers and its key");
        return TERR_IO;
    }
    if (!buffer_fit(b, (size_t)st.st_size))
        return TERR_NOMEM;
    n = file_fill(fd, b, (size_t)st.st_size);
    if (n < 0)
        cert_file_say(report, path, (int)-n);
    else if (n != st.st_size)
        cert_report_add(report, true, path, 0, "is being written: load it again when it is done");
    else
        *out = slice_of(b->bytes, (size_t)n);
    return n == st.st_size ? 0 : TERR_IO;
}

int
cert_file_read(const char *path, struct cert_buffer *b, struct slice *out, struct cert_file_id *id,
    struct cert_report *report)
{
    /* O_NONBLOCK: a FIFO by that name would wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = errno, rc;

    *out = slice_of("", 0);
    *id = (struct cert_file_id){.inode = 0};
    if (fd < 0) {
        cert_file_say(report, path, err);
        return err == ENOENT || err == ENOTDIR ? TERR_NOTFOUND : TERR_IO;
    }
    rc = file_read(fd, path, b, out, id, report);
    close(fd);
    return rc;
}
