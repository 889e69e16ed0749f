/* table_read.h -- reading a table that another process writes, while it does.
 *
 *     table_reader_new(&r, "/dev/shm/tarn/blocked", TABLE_ANY, TABLE_CHECKED);
 *     view = table_enter(r);                        once a turn
 *     found = view != NULL && table_view_find(view, key, &value);
 *     ...                                           as often as one likes; copy what must stay
 *     table_leave(r);
 *
 *   inside  between enter and leave: counted in, and the writer waits for us
 *   refused what lies there cannot be used; why says why, and the last good version stays in use
 *   kept    a copy in our own memory of the last good version, made when its successor was refused
 *
 * enter and leave take two atomic additions, and no system call unless there is a new version.  A
 * thread that stays inside for longer than the writer's grace period reads what is being written.
 *
 * Threads: a reader is one thread's.  Errors: TERR_*.
 */
#ifndef TARN_TABLE_READ_H
#define TARN_TABLE_READ_H

#include "daemon/table/table_view.h"

enum {
    TABLE_WHY_MAX = 256
};

enum table_status {
    TABLE_MISSING, /* there are no files */
    TABLE_EMPTY,   /* there are, and nothing was ever written */
    TABLE_OK,
    TABLE_REFUSED,
};

struct table_reader; /* private to table_read.c */

/* What a reader has seen when it last looked. */
struct table_seen {
    enum table_status status;
    const char *why;               /* MISSING, EMPTY, REFUSED; until the next call */
    const struct table_view *view; /* in use; NULL: none */
    bool kept;                     /* `view` is the last good version, not the newest */
    uint64_t taken, refused;       /* versions, ever */
    uint64_t overtaken;            /* times that the writer gave up waiting for us */
};

/* `path` without ".state"; copied.  A version of another kind than `kind` is refused, unless that is
 * TABLE_ANY.  Files need not be there.  TERR_NOMEM; TERR_INVALID: the path is too long. */
int table_reader_new(
    struct table_reader **out, const char *path, enum table_kind kind, enum table_trust trust);
/* The users that may own the files.  Without such a list, files of all users are read. */
struct table_owners {
    const unsigned *uids;
    unsigned n;
};
/* The same; files of others are refused.  `owners` is borrowed; NULL: all users' are read. */
int table_reader_new_of(struct table_reader **out, const char *path, enum table_kind kind,
    enum table_trust trust, const struct table_owners *owners);
/* Takes *rp; not from inside. */
void table_reader_free(struct table_reader **rp);

/* Opens the files if they have come, or are others than they were, and takes the version that lies
 * there: a reader that does so now and then keeps a good one when the next is bad.  It costs some
 * system calls: once a second is often enough.  Not from inside. */
void table_reader_check(struct table_reader *r);

/* Counts in.  The newest good version, or NULL: there is none.  Inside in any case. */
const struct table_view *table_enter(struct table_reader *r);
/* Counts out: views and values are gone.  0; TERR_TIMEDOUT: we were too slow for the writer, and
 * what was read may be of two versions. */
int table_leave(struct table_reader *r);

void table_reader_seen(const struct table_reader *r, struct table_seen *out);

#endif
