/* link.h -- a connection to the engine that comes back: to whichever of its addresses is the master.
 *
 *   DOWN     there is none; the next attempt has its time, later after each failure
 *   RESOLVE  its name's addresses are looked up, anew for each attempt; the master's too, where Sentinel answers with a name
 *   CONNECT  on its way
 *   GREET    user and password, database, name, and what the engine says it is: a replica is left for the next address.
 *            With `sentinel` the addresses are Sentinels', and one of them names the master's (SENTINEL
 *            GET-MASTER-ADDR-BY-NAME)
 *   UP       commands may be sent
 *
 * Every failure is said once in the error log, until another one or success follows.
 *
 * Threads: one loop's.
 */
#ifndef TARN_FLEET_LINK_H
#define TARN_FLEET_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "daemon/base/span.h"
#include "daemon/net/stream.h"

struct conf_fleet;
struct engine;
struct engine_reply;
struct secure_client;

enum link_state {
    LINK_DOWN,
    LINK_RESOLVE,
    LINK_CONNECT,
    LINK_GREET,
    LINK_UP,
};

enum {
    LINK_TAGS = 1 << 16, /* an owner's tags are below */
    LINK_SILENT_MS =
        4000, /* without a reply that is due; a reading waits for an entry for a second */
    LINK_INCARNATION_MAX = 96, /* with its NUL */
    LINK_WHY_MAX = 256,
    LINK_HOST_MAX = 255, /* RFC 1035 2.3.4 */
    LINK_AT_MAX = LINK_HOST_MAX + 8,
};

struct link {
    /* Set by the owner. */
    struct loop *loop;
    const struct conf_fleet *conf;
    struct secure_client *const *secure; /* of each of conf->engines; NULL: plain */
    struct resolver *resolver;           /* wakes `task` */
    struct task *task;                   /* the owner's, which calls link_work() */
    const char *what;                    /* in the log: "commands", "reading" */

    enum link_state state;
    struct engine *engine; /* CONNECT and behind it */
    struct timer timer;    /* the next attempt, or the end of patience */
    unsigned failures;     /* in a row */
    unsigned engine_nth;   /* of conf->engines: the next one */
    unsigned round; /* how often all of them were tried: which of a name's addresses is next */
    unsigned here;  /* the one of conf->engines that is connected to, or named the master */
    struct resolve *lookup; /* RESOLVE */
    unsigned greetings;     /* replies of GREET that are to come */
    uint64_t heard_ms;  /* UP: the last reply, or the command that a reply is waited for since */
    uint64_t received;  /* bytes, as they were when it was heard */
    bool asks_sentinel; /* this connection is to a Sentinel */
    bool has_master;    /* a Sentinel named `master_host` and `port` */
    uint16_t port;      /* of what is connected to, or looked up */
    char master_host[LINK_HOST_MAX + 1];
    bool overrun; /* it has ended by a reply that was too long; until its owner has seen that */
    unsigned overrun_tag;    /* to this command */
    char at[LINK_AT_MAX];    /* what is connected to, for the log */
    char why[LINK_WHY_MAX];  /* of the last failure; "": UP since */
    char said[LINK_WHY_MAX]; /* of what the log has */
    /* Which process it is, and of which history: another one may not have what this one had. */
    char incarnation[LINK_INCARNATION_MAX];
};

/* The members of its owner are set; it is DOWN, and connects by the next link_work(). */
void link_init(struct link *k);
/* By the owner's task, whenever it runs.  Is it UP? */
bool link_work(struct link *k);
/* The owner has had enough of this connection: DOWN, and anew in a while. */
void link_fail(struct link *k, const char *why);
void link_close(struct link *k);

/* Of the heap. */
size_t link_bytes(const struct link *k);
/* As engine_send(); tag < LINK_TAGS.  What cannot be sent fails it.  False: it was not sent, or the link is not UP. */
bool link_send(struct link *k, unsigned tag, const struct slice *words, unsigned n);
/* The next reply; NULL: there is none.  An engine that has been silent for too long has gone: it may have done so without
 * an end of its connections, as a host does that loses power. */
struct engine_reply *link_take(struct link *k, unsigned *tag);

#endif
