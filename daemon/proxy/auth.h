/* auth.h -- does a password fit a hash of crypt(5)?  bcrypt and its like take 50 to 100 ms, so a thread
 * of its own computes them, one at a time, and what it found is remembered.
 *
 *   check     one question; memory of the request that asks, until it is answered
 *   verdicts  a table of fixed size of what was found: a tag of user, hash and password (keyed, and not the
 *             password), good or bad.  A new one takes the place of another; a hash that changes is
 *             another tag
 *
 * Threads: any.  The thread is started when it is first needed.  At most AUTH_WAITING_MAX checks wait: a
 * flood of wrong passwords costs one thread, and no loop.
 */
#ifndef TARN_AUTH_H
#define TARN_AUTH_H

#include <stdbool.h>

#include "daemon/base/list.h"
#include "daemon/base/span.h"
#include "daemon/base/waiter.h"

struct auth;

enum {
    AUTH_PASSWORD_MAX = 256, /* bytes, with NUL; libcrypt takes 512 */
    AUTH_WAITING_MAX = 64,
};

struct auth_check {
    struct list link;    /* while it waits */
    struct list waiting; /* of the one waiter */
    struct waiter *wait; /* borrowed */
    const char *hash;    /* borrowed: the configuration's */
    uint64_t tag;
    bool known;
    bool good; /* once it is answered */
    char password[AUTH_PASSWORD_MAX];
};

int auth_open(struct auth **out);  /* 0 or TERR_NOMEM */
void auth_close(struct auth **ap); /* nothing waits any more */

struct auth_claim {
    struct slice user, password;
    const char *hash; /* outlives the check */
    bool known;       /* it is the user's; else of another user, and the password never fits */
};

/* 1: it fits; 0: it does not; TERR_AGAIN: `wait` is armed, and check->good is set when it is IDLE again;
 * TERR_LIMIT: too many wait.  Fills the check, the caller's alone; its copy of the password is erased when
 * it is answered, cancelled or refused. */
int auth_ask(
    struct auth *a, struct auth_check *check, const struct auth_claim *claim, struct waiter *wait);

/* The request has ended: its check leaves the queue, and `wait` is IDLE.  False: the answer is on its way. */
bool auth_cancel(struct auth *a, struct auth_check *check);

/* Of a field value `Basic ...`: user and password, in `buf`, which the caller erases.  False: it is not
 * one, or too long, and nothing of it stays in `buf`. */
bool auth_basic(struct slice value, struct span buf, struct slice *user, struct slice *password);

#endif
