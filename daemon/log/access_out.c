/* access_out.c -- where lines of the access log go. */
#include "daemon/log/access_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/log/syslog_out.h"

#define ACCESS_OUT_MAGIC OBJ_TAG('a', 'o', 'u', 't')

enum {
    ACCESS_OUT_POLL_MS = 100,
};

struct access_out {
    uint32_t magic;
    struct syslog_out *syslog; /* owned; NULL: a file */
    char *path;                /* NULL: stdout */
    int fd;
    bool is_regular; /* else writing may block: polled first */
    bool torn;       /* the file ends within a line */
    bool failing;    /* said so already */
};

static const char *
access_out_name(const struct access_out *o)
{
    return o->path != NULL ? o->path : "stdout";
}

/* 0 or TERR_IO, and errno.  Opens the file, or takes stdout, into *fd.  Non-blocking matters for a FIFO alone; stdout
 * is shared with others and stays as it is. */
static int
access_out_open_file(const struct access_out *o, int *fd, bool *is_regular)
{
    struct stat st;
    int new = STDOUT_FILENO;

    if (o->path != NULL)
        new =
            /* O_APPEND: another process, or the tarnd before, may write to the same file. */
            open(o->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (new < 0)
        return TERR_IO;
    if (fstat(new, &st) < 0) {
        int err = errno;

        if (o->path != NULL)
            close(new);
        errno = err;
        return TERR_IO;
    }
    *fd = new;
    *is_regular = S_ISREG(st.st_mode);
    return 0;
}

static void
access_out_close_file(struct access_out *o)
{
    /* stdout is not ours to close. */
    if (o->path != NULL && o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

void
access_out_reopen(struct access_out *o)
{
    bool is_regular;
    int fd;

    OBJ_CHECK(o, ACCESS_OUT_MAGIC);
    if (o->path == NULL)
        return;
    /* The old file stays: lines in a renamed file are better than none. */
    if (access_out_open_file(o, &fd, &is_regular) < 0) {
        elog(ELOG_ERROR, "access log %s: %s", o->path, strerror(errno));
        return;
    }
    access_out_close_file(o);
    o->fd = fd;
    o->is_regular = is_regular;
    /* A new file begins with a line. */
    o->torn = false;
}

/* Waits until the output takes a PIPE_BUF, so that no write of that size can block.  False
 * when it is time to give up. */
static bool
access_out_wait(const struct access_out *o, const struct access_patience *patience)
{
    struct pollfd p = {.fd = o->fd, .events = POLLOUT};
    int n;

    while ((n = poll(&p, 1, ACCESS_OUT_POLL_MS)) <= 0) {
        if (n < 0 && errno != EINTR)
            return false;
        if (patience->is_over(patience->ctx)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

/* As many of the n bytes as can be written; fewer means an error, in errno.
 * A pipe's reader that stands still costs 100 ms looks, in which the log's thread asks whether
 * it shall stop. */
static size_t
access_out_put(
    const struct access_out *o, const char *p, size_t n, const struct access_patience *patience)
{
    size_t done = 0, piece;
    ssize_t w;

    while (done < n) {
        piece = n - done;
        if (!o->is_regular) {
            if (!access_out_wait(o, patience))
                break;
            /* Whole or not at all: in a pipe that others write, too, no line is torn. */
            piece = piece < PIPE_BUF ? piece : PIPE_BUF;
        }
        w = write(o->fd, p + done, piece);
        /* A regular file does not answer EAGAIN; there it would be an error. */
        if (w < 0 && (errno == EINTR || (errno == EAGAIN && !o->is_regular)))
            continue;
        if (w <= 0)
            break;
        done += (size_t)w;
    }
    return done;
}

/* A full disk costs the lines in the buffer: reported once, always counted. */
static uint64_t
access_out_lose_rest(struct access_out *o, const char *p, size_t n)
{
    uint64_t lines = 0;

    if (!o->failing)
        elog(ELOG_ERROR, "access log %s: %s; lines are lost", access_out_name(o), strerror(errno));
    o->failing = true;
    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    return lines;
}

/* The number of lines that were lost.  The bytes are the caller's, and are not kept. */
uint64_t
access_out_write(
    struct access_out *o, const char *lines, size_t n, const struct access_patience *patience)
{
    size_t done;

    OBJ_CHECK(o, ACCESS_OUT_MAGIC);
    if (o->syslog != NULL)
        return syslog_out_write(o->syslog, lines, n);
    /* The end of the line that was cut, so that the next one is whole. */
    if (o->torn && access_out_put(o, "\n", 1, patience) == 1)
        o->torn = false;
    done = o->torn ? 0 : access_out_put(o, lines, n, patience);
    if (done > 0 && lines[done - 1] != '\n')
        o->torn = true;
    if (done < n)
        return access_out_lose_rest(o, lines + done, n - done);
    /* Said once for each outage, and once when it is over. */
    if (o->failing)
        elog(ELOG_WARN, "access log %s: written again", access_out_name(o));
    o->failing = false;
    return 0;
}

/* A syslog daemon or a file, by how it is written. */
static int
access_out_aim(struct access_out *o, const char *to, char *why, size_t why_size)
{
    struct syslog_to syslog;
    int err = syslog_to_parse(&syslog, slice_str(to), why, why_size);

    if (err == TERR_CONFIG)
        return err;
    if (err == 0) {
        err = syslog_out_open(&o->syslog, &syslog, to);
        /* A daemon that is not there now is no error: it is looked for again. */
        snprintf(why, why_size, "%s", terr_text(err));
        return err;
    }
    if (strcmp(to, "-") != 0 && (o->path = strdup(to)) == NULL) {
        snprintf(why, why_size, "%s", terr_text(TERR_NOMEM));
        return TERR_NOMEM;
    }
    err = access_out_open_file(o, &o->fd, &o->is_regular);
    if (err != 0)
        snprintf(why, why_size, "%s", strerror(errno));
    return err;
}

int
access_out_open(struct access_out **out, const char *to, char *why, size_t why_size)
{
    struct access_out *o = calloc(1, sizeof(*o));
    int err;

    if (o == NULL) {
        snprintf(why, why_size, "%s", terr_text(TERR_NOMEM));
        return TERR_NOMEM;
    }
    o->magic = ACCESS_OUT_MAGIC;
    /* access_out_close() copes with what is half open. */
    o->fd = -1;
    err = access_out_aim(o, to, why, why_size);
    if (err < 0)
        access_out_close(&o);
    else
        *out = o;
    return err;
}

void
access_out_close(struct access_out **op)
{
    struct access_out *o;

    OBJ_TAKE(o, op, ACCESS_OUT_MAGIC);
    if (o->syslog != NULL)
        syslog_out_close(&o->syslog);
    access_out_close_file(o);
    free(o->path);
    OBJ_FREE(o);
}
