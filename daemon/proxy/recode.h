/* recode.h -- a worker's part in it: from a stored response that is hit often to a shorter form beside it.
 *
 *   a hit, now and then -> READ  the body, unpacked, a piece a turn
 *                       -> RUN   on the recoder's thread (filter/repack.h)
 *                       -> STORE room for what came of it, its head, and it is published (cache_publish_recoded)
 *
 * One at a time for the process; a worker has at most one.  Memory is taken from the heap and counted as a
 * request's, repack()'s own too, and what would take much of the store is not done.
 *
 * Threads: one loop's, but for the run itself.
 */
#ifndef TARN_RECODE_H
#define TARN_RECODE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/base/arena.h"
#include "daemon/base/offload.h"
#include "daemon/base/waiter.h"
#include "daemon/filter/repack.h"
#include "daemon/proxy/rep_reader.h"

struct conf_compress;
struct dictionary;
struct http_message;
struct proxy;
struct recoder;

enum {
    RECODE_HITS = 8,       /* of what is packed: each so many is looked at */
    RECODE_HITS_BEST = 32, /* of a form: whether it shall be as short as can be */
    RECODE_OFFERED = 8,    /* dictionaries that wait for their hash; more are none */
};

enum recode_state {
    RECODE_IDLE,
    RECODE_READ,
    RECODE_RUN,
    RECODE_STORE,
};

struct recode {
    struct task task;
    struct waiter wait; /* READ: more of the body.  RUN: the job.  STORE: room */
    struct job job;
    enum recode_state state;
    unsigned hits, form_hits; /* since one was looked at */
    unsigned form;            /* enum http_forms, that is made; 0: a dictionary is */
    bool best;
    _Atomic bool stop;                     /* the worker ends */
    struct entry *base;                    /* held; or NULL */
    struct dictionary *dictionary;         /* HTTP_FORM_DCZ: held; or NULL */
    uint8_t hash[32];                      /* its; or what came of the run */
    struct entry *offered[RECODE_OFFERED]; /* held */
    unsigned noffered;
    struct rep_reader rep;
    char *plain, *packed; /* the body, unpacked, and what came of it */
    size_t plain_len, plain_room, packed_room;
    uint64_t base_len;
    unsigned percent; /* of a processor, when it began */
    struct repack how;
    struct span out;
    struct stobj *body; /* STORE: ours */
    uint64_t memory;    /* of repack(), counted */
    int said;           /* enum repack_said, or TERR_* */
    uint64_t cpu_us;    /* that it took */
};

void recode_init(struct recode *rc, struct proxy *p);
static inline bool
recode_is_idle(const struct recode *rc)
{
    return rc->state == RECODE_IDLE;
}

/* The worker ends: what is under way is given up, and none begins any more. */
void recode_stop(struct proxy *p);

/* A hit of `e`, borrowed, which has forms or is one; `forms`: http_forms() of its client. */
void recode_look(struct proxy *p, struct entry *e, unsigned forms);

/* The same, of a client that has a dictionary for it (http/dictionary.h): each hit. */
void recode_look_dictionary(struct proxy *p, struct entry *e, const struct http_message *req);
/* A response has come whole that may be a dictionary; borrowed. */
void recode_offer(struct proxy *p, struct entry *e);

/* A hit of what is the base of its forms.  False, and it is not counted: recode_note() is to look at it. */
static inline bool
recode_count(struct recode *rc)
{
    if (__builtin_expect(rc->hits + 1 >= RECODE_HITS, 0))
        return false;
    rc->hits++;
    return true;
}

/* The same, of few hits: for every one of them. */
static inline void
recode_note(struct proxy *p, struct recode *rc, struct entry *e, bool is_form, unsigned forms)
{
    unsigned *n = is_form ? &rc->form_hits : &rc->hits;

    if (__builtin_expect(++*n < (is_form ? RECODE_HITS_BEST : RECODE_HITS), 1))
        return;
    *n = 0;
    recode_look(p, e, forms);
}

#endif
