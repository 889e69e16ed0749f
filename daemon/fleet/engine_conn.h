/* engine_conn.h -- one connection to the engine of a fleet: Redis or Valkey, by its protocol RESP2.
 *
 *   command  is sent at once, behind those before; has a tag, which its sender knows it by
 *   reply    to the oldest command without one: they come in the order of the commands
 *
 * The connection wakes its owner's task when there may be a reply, and when it has ended.  The task asks for replies
 * until there is none, then whether the connection has ended.  No call waits.
 *
 * hiredis reads the protocol, and this file's source is the only one that knows it.
 *
 * Threads: one loop's.
 */
#ifndef TARN_ENGINE_CONN_H
#define TARN_ENGINE_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct engine;
struct engine_reply;
struct loop;
struct stream_target;
struct task;

enum {
    ENGINE_COMMANDS_MAX = 1 << 16, /* without a reply yet */
    ENGINE_UNSENT_MAX = 16 << 20,  /* bytes of commands that the kernel has not taken */
    ENGINE_REPLY_MAX = 64 << 20,   /* bytes of a reply */
    ENGINE_LINE_MAX = 64 << 10,    /* of a line in it: a status, an error or a number */
    ENGINE_ELEMENTS_MAX = 1 << 19, /* of all arrays in it; a reading of the log has half as many */
};

enum engine_type {
    ENGINE_NIL,
    ENGINE_STATUS, /* text */
    ENGINE_ERROR,  /* text: as in "NOAUTH Authentication required." */
    ENGINE_INTEGER,
    ENGINE_STRING, /* text */
    ENGINE_ARRAY,
};

/* It connects.  `to` is borrowed for the call.  0, and `owner` is woken from now on; TERR_NOMEM; TERR_UNREACH and the
 * like. */
int engine_open(
    struct engine **out, struct loop *l, const struct stream_target *to, struct task *owner);
/* Replies that have not been taken never are. */
void engine_close(struct engine **ep);

/* A command of n words, which are copied.  0; TERR_LIMIT: too much is under way; TERR_NOMEM; TERR_CLOSED: it has ended. */
int engine_send(struct engine *e, unsigned tag, const struct slice *words, unsigned n);
/* The next reply and its command's tag; NULL: there is none now.  engine_reply_free(). */
struct engine_reply *engine_take(struct engine *e, unsigned *tag);
/* Of the heap: what is to be sent, and what has come and is no reply yet. */
size_t engine_bytes(const struct engine *e);
/* Bytes that have come so far. */
uint64_t engine_received(const struct engine *e);
/* Commands without a reply that was taken. */
unsigned engine_waiting(const struct engine *e);
/* Has it been connected? */
bool engine_is_up(const struct engine *e);
/* 0: it is up, or on its way there; else why not.  *why: more of it, or "". */
int engine_ended(const struct engine *e, const char **why);
/* Has it ended by a reply beyond these bounds?  *tag: of its command. */
bool engine_is_overrun(const struct engine *e, unsigned *tag);
/* May be called at any time: what can be sent is sent, what has come is read.  By the owner's task, before all else. */
void engine_work(struct engine *e);

enum engine_type engine_reply_type(const struct engine_reply *r);
/* Borrowed from the reply; empty where it is no text. */
struct slice engine_reply_text(const struct engine_reply *r);
int64_t engine_reply_integer(const struct engine_reply *r);
/* Of an array: how many there are, and the nth; 0 where it is none. */
unsigned engine_reply_count(const struct engine_reply *r);
const struct engine_reply *engine_reply_at(const struct engine_reply *r, unsigned n);
void engine_reply_free(struct engine_reply **rp);

#endif
