/* fleet_shared.h -- what all nodes of a fleet are to have alike: texts by name, which the engine keeps.
 *
 *   thing     a text under a name: "policy", "parameter/default_ttl", "table/moved"
 *   version   of a thing: "MS-HASH", by the engine's clock when it was written, and by its text
 *   report    of a node: of each thing the version that it has taken, or has refused, and why
 *
 * A node takes what has another version than it had: it looks with each look at the nodes, and at once when a hello in
 * the log says that there is something.  What was written last counts, at all nodes, for the engine orders it.  A node
 * that joins takes what there is.  What an engine has lost counts as taken back.
 *
 * Threads: the management loop's.
 */
#ifndef TARN_FLEET_SHARED_H
#define TARN_FLEET_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/span.h"

struct fleet;
struct task;

enum {
    FLEET_THING_NAME_MAX = 287,
    FLEET_THING_BYTES_MAX = 8 << 20, /* of a text */
    FLEET_THINGS_MAX = 1024,
    FLEET_VERSION_MAX = 48, /* with its NUL */
    FLEET_THING_WHY_MAX = 256,
};

/* What the things are of.  Borrowed until fleet_close(). */
struct fleet_shared_user {
    /* A thing that is new, or has another version; the text has a NUL behind it.  False, and *why: it is refused. */
    bool (*take)(void *ctx, const char *name, struct slice text, char *why, size_t why_size);
    void (*gone)(void *ctx, const char *name); /* it was taken or refused, and was taken back */
    void (*looked)(void *ctx);                 /* all that there is has been taken */
    /* False: it is not taken now, nor refused; each look asks again. */
    bool (*wants)(void *ctx, const char *name);
    void *ctx;
};

/* From now on; once.  TERR_NOMEM. */
int fleet_shared_use(struct fleet *f, const struct fleet_shared_user *user);

/* For all nodes, this one too: sent, and the wait says what became of it.  `name` without white space.  0;
 * TERR_LIMIT: too long, or too many; TERR_UNREACH: there is no engine, which fleet_is_up() says, or it refuses
 * (fleet_shared_trouble()). */
int fleet_share(
    struct fleet *f, const char *name, struct slice text, char version[FLEET_VERSION_MAX]);
int fleet_unshare(struct fleet *f, const char *name);

enum fleet_shared_outcome {
    FLEET_SHARED_WAITS,
    FLEET_SHARED_TAKEN,   /* by every living node */
    FLEET_SHARED_REFUSED, /* by one at least */
    FLEET_SHARED_LATE, /* the engine has it, and some nodes have not said anything in that time */
    FLEET_SHARED_REPLACED, /* there is another version since, or none */
    FLEET_SHARED_LOST, /* the engine has not confirmed it: in time, or the connection ended, or it refuses */
};

/* Memory of the caller's. */
struct fleet_shared_wait {
    struct list link;
    struct task *task; /* woken when the outcome is known */
    char name[FLEET_THING_NAME_MAX + 1], version[FLEET_VERSION_MAX];
    uint64_t deadline_ms;
    uint64_t from_look; /* the first look that began behind it */
    enum fleet_shared_outcome outcome;
};

/* task, name, version and deadline_ms are set.  fleet_shared_wait_end() must follow. */
void fleet_shared_wait_start(struct fleet *f, struct fleet_shared_wait *w);
void fleet_shared_wait_end(struct fleet *f, struct fleet_shared_wait *w);

/* Does this node wait for what becomes of it? */
bool fleet_shared_is_waited(const struct fleet *f, const char *name);

/* What the engine has, as far as this node knows.  Texts are borrowed until the loop's turn ends. */
struct fleet_thing_status {
    const char *name, *version;
    bool is_empty; /* its text is: as if it were not there, except that nodes say that they know */
};
bool fleet_thing_status(const struct fleet *f, unsigned n, struct fleet_thing_status *out);

/* What this node has refused is judged once more: the cause may have gone. */
void fleet_shared_again(struct fleet *f);

/* What the nth node (fleet_node_status()) has said of a version. */
enum fleet_thing_said {
    FLEET_THING_SILENT,
    FLEET_THING_TAKEN,
    FLEET_THING_REFUSED,
};
enum fleet_thing_said fleet_thing_at(const struct fleet *f, unsigned node, const char *name,
    const char *version, char why[FLEET_THING_WHY_MAX]);

/* Why nothing is shared, as in "HGETALL: NOPERM ..."; "": it is. */
const char *fleet_shared_trouble(const struct fleet *f);

#endif
