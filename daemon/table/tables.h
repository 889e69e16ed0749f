/* tables.h -- the tables of this process: which there are, and each worker's readers of them.
 *
 *   tables   all that the configuration names; the management thread's own readers, which say in the
 *            error log what has changed
 *   share    one worker's readers
 *   turn     of the worker's loop: it counts itself in at its first look into a table, and out when
 *            the turn ends; values are borrowed until then
 *
 * Threads: said at each call.
 */
#ifndef TARN_TABLES_H
#define TARN_TABLES_H

#include "daemon/base/span.h"
#include "daemon/table/table_read.h"

struct counter_set;
struct loop;
struct tables;
struct tables_share;

/* A row of the configuration; strings are borrowed until tables_close(). */
struct tables_conf {
    const char *name, *path;
    enum table_kind kind; /* TABLE_ANY: whatever comes */
    enum table_trust trust;
    const struct table_owners *owners; /* NULL: all users' files are read */
};

struct tables_seen {
    const char *name, *path;
    const struct table_owners *owners;
    enum table_kind kind; /* of the version in use; TABLE_ANY: there is none */
    enum table_status status;
    const char *why; /* "" when it is OK; until the next call */
    bool used;       /* there is a version in use: its facts are those below */
    bool kept;       /* it is not the newest, which was refused, or has gone */
    uint64_t generation, entries, bytes, made_ms;
    uint64_t lookups; /* of all workers */
};

/* --- the management thread's --- */

/* `n` rows, and workers 0 .. nworkers - 1.  Says what is there.  TERR_NOMEM, TERR_INVALID: a path is
 * too long. */
int tables_open(struct tables **out, const struct tables_conf *rows, unsigned n, unsigned nworkers);
/* The workers have left. */
void tables_close(struct tables **tp);
/* Looks whether there is something new, and says so in the error log.  Once a second. */
void tables_watch(struct tables *t);
unsigned tables_count(const struct tables *t);
/* Looks now. */
void tables_seen(struct tables *t, unsigned n, struct tables_seen *out);

/* --- a worker's --- */

/* Borrows everything until tables_leave().  TERR_NOMEM. */
int tables_join(struct tables_share **out, struct tables *t, unsigned worker, struct loop *loop,
    struct counter_set *counters);
void tables_leave(struct tables_share **sp);
/* Files that came, went or were replaced.  Once a second; not within a run of a policy. */
void tables_tick(struct tables_share *s);

enum tables_answer {
    TABLES_FOUND,  /* *value is borrowed until the turn ends */
    TABLES_ABSENT, /* the key is not there */
    TABLES_NONE,   /* the table has no version that can be used */
    TABLES_UNKNOWN /* no table has this name */
};
/* *kind is that of the version, unless the answer is NONE or UNKNOWN. */
enum tables_answer tables_find(struct tables_share *s, struct slice table, struct slice key,
    struct slice *value, enum table_kind *kind);

#endif
