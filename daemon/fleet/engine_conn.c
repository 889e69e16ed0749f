/* engine_conn.c -- commands out, replies in.
 *
 * What is to be sent lies in two buffers: the kernel, or libuv for it, has one, and the other takes what comes
 * meanwhile.  So a buffer is never moved while it is read. */
#include "daemon/fleet/engine_conn.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/net/secure.h"
#include "daemon/net/stream.h"

#if HIREDIS_MAJOR >= 1
typedef size_t engine_elements;
#else
typedef int engine_elements;
#endif
typedef void *engine_array_f(const redisReadTask *task, engine_elements n);

struct engine_buffer {
    char *bytes;
    size_t len, room;
};

#define ENGINE_MAGIC OBJ_TAG('e', 'n', 'g', 'n')
struct engine {
    uint32_t magic;
    int ended;    /* 0, or why */
    bool overrun; /* and that is why */
    struct stream *stream;
    redisReader *reader;
    redisReplyObjectFunctions fn; /* the reader's, but for arrays, which theirs makes behind ours */
    engine_array_f *make_array;
    uint64_t elements;          /* of the reply that is being read: of its arrays so far */
    size_t of_reply;            /* bytes that have come of it */
    struct engine_buffer going; /* from `gone` on it is still to be sent */
    size_t gone;
    struct engine_buffer next;
    unsigned *tags; /* a ring of those without a reply */
    unsigned first, ntags, room;
    uint64_t received;
    char why[160];
};

/* ---- sending ---- */

static bool
buffer_room(struct engine_buffer *b, size_t more)
{
    size_t room = b->room == 0 ? 4096 : b->room;
    char *bytes;

    while (room < b->len + more)
        room *= 2;
    if (room == b->room)
        return true;
    bytes = realloc(b->bytes, room);
    if (bytes == NULL)
        return false;
    b->bytes = bytes;
    b->room = room;
    return true;
}

static void
buffer_put(struct engine_buffer *b, const char *bytes, size_t len)
{
    tassert(b->room - b->len >= len);
    if (len > 0)
        memcpy(b->bytes + b->len, bytes, len);
    b->len += len;
}

/* "*3\r\n", "$5\r\n" */
static void
buffer_put_number(struct engine_buffer *b, char kind, size_t n)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%c%zu\r\n", kind, n);

    buffer_put(b, text, (size_t)len);
}

static void
engine_fail(struct engine *e, int err, const char *why)
{
    tassert(err < 0);
    if (e->ended != 0)
        return;
    e->ended = err;
    snprintf(e->why, sizeof(e->why), "%s", why);
}

/* A reply is beyond the bounds. */
static void
engine_overrun(struct engine *e, const char *why)
{
    e->overrun |= e->ended == 0;
    engine_fail(e, TERR_LIMIT, why);
}

/* TLS says more than the error. */
static void
engine_fail_stream(struct engine *e, int err)
{
    const struct secure *t = stream_get_secure(e->stream);

    engine_fail(e, err, t != NULL ? t->ops->why(t) : "");
}

static bool
engine_tag(struct engine *e, unsigned tag)
{
    if (e->ntags == e->room) {
        unsigned room = e->room == 0 ? 64 : e->room * 2;
        unsigned *tags = malloc(room * sizeof(*tags));

        if (tags == NULL)
            return false;
        for (unsigned i = 0; i < e->ntags; i++)
            tags[i] = e->tags[(e->first + i) % e->room];
        free(e->tags);
        e->tags = tags;
        e->room = room;
        e->first = 0;
    }
    e->tags[(e->first + e->ntags++) % e->room] = tag;
    return true;
}

/* What the kernel takes now, and the rest as soon as it does. */
static void
engine_push(struct engine *e)
{
    while (e->ended == 0 && stream_connected(e->stream) == 0 && !stream_sending(e->stream)) {
        struct iovec iov;
        ssize_t n;

        if (e->gone == e->going.len) {
            struct engine_buffer swap = e->going;

            if (e->next.len == 0)
                return;
            swap.len = 0;
            e->going = e->next;
            e->next = swap;
            e->gone = 0;
        }
        iov = (struct iovec){e->going.bytes + e->gone, e->going.len - e->gone};
        n = stream_try(e->stream, &iov, 1, false);
        if (n == 0) {
            if (iov.iov_len > LIMIT_UNSENT_BYTES)
                iov.iov_len = LIMIT_UNSENT_BYTES;
            n = stream_queue(e->stream, &iov, 1);
        }
        if (n < 0)
            engine_fail(e, (int)n, "");
        else
            e->gone += (size_t)n;
    }
}

int
engine_send(struct engine *e, unsigned tag, const struct slice *words, unsigned n)
{
    size_t bytes = 32;

    OBJ_CHECK(e, ENGINE_MAGIC);
    tassert(n > 0);
    if (e->ended != 0)
        return TERR_CLOSED;
    for (unsigned i = 0; i < n; i++)
        bytes += words[i].len + 32;
    if (e->ntags == ENGINE_COMMANDS_MAX || bytes > ENGINE_UNSENT_MAX - e->next.len)
        return TERR_LIMIT;
    if (!buffer_room(&e->next, bytes) || !engine_tag(e, tag))
        return TERR_NOMEM;
    buffer_put_number(&e->next, '*', n);
    for (unsigned i = 0; i < n; i++) {
        buffer_put_number(&e->next, '$', words[i].len);
        buffer_put(&e->next, words[i].ptr, words[i].len);
        buffer_put(&e->next, "\r\n", 2);
    }
    engine_push(e);
    return 0;
}

/* ---- replies ---- */

static const redisReply *
reply_of(const struct engine_reply *r)
{
    return (const redisReply *)(const void *)r;
}

/* Bytes that the reader has, and that are no reply yet. */
static size_t
engine_unread(const struct engine *e)
{
    return e->reader->len - e->reader->pos;
}

/* Before there is memory for it: an array may say that it has any number of elements. */
static void *
engine_make_array(const redisReadTask *task, engine_elements n)
{
    struct engine *e = task->privdata;

    OBJ_CHECK(e, ENGINE_MAGIC);
    if (task->parent == NULL)
        e->elements = 0;
    e->elements += (uint64_t)n;
    if (e->elements <= ENGINE_ELEMENTS_MAX)
        return e->make_array(task, n);
    engine_overrun(e, "a reply has more than 524,288 elements");
    return NULL;
}

/* What waits in the reader is the beginning of an item, of which a string alone may be long; and it begins with a line. */
static void
engine_check_line(struct engine *e)
{
    if (engine_unread(e) > ENGINE_LINE_MAX &&
        memmem(e->reader->buf + e->reader->pos, ENGINE_LINE_MAX, "\r\n", 2) == NULL)
        engine_overrun(e, "a reply has a line of more than 64 KiB");
}

static void
engine_read(struct engine *e)
{
    struct span rx = stream_received(e->stream);

    if (rx.len > 0) {
        e->received += rx.len;
        if (redisReaderFeed(e->reader, rx.ptr, rx.len) != REDIS_OK)
            engine_fail(e, TERR_NOMEM, "");
        stream_consume(e->stream);
        e->of_reply += rx.len;
        if (e->of_reply > ENGINE_REPLY_MAX)
            engine_overrun(e, "a reply has more than 64 MiB");
    }
    if (e->ended == 0 && stream_ended(e->stream) != 0)
        engine_fail_stream(e, stream_ended(e->stream));
}

void
engine_work(struct engine *e)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    if (e->ended != 0)
        return;
    if (stream_connected(e->stream) == TERR_AGAIN)
        return;
    if (stream_connected(e->stream) != 0) {
        engine_fail_stream(e, stream_connected(e->stream));
        return;
    }
    engine_read(e);
    engine_push(e);
}

/* Also of one that has ended: what has come before counts. */
struct engine_reply *
engine_take(struct engine *e, unsigned *tag)
{
    void *reply = NULL;

    OBJ_CHECK(e, ENGINE_MAGIC);
    if (e->reader->err != 0)
        return NULL;
    if (redisReaderGetReply(e->reader, &reply) != REDIS_OK) {
        engine_fail(e, TERR_SYNTAX, e->reader->errstr);
        return NULL;
    }
    if (reply == NULL) {
        engine_check_line(e);
        return NULL;
    }
    e->of_reply = engine_unread(e);
    if (e->ntags == 0) {
        engine_fail(e, TERR_SYNTAX, "a reply to no command");
        freeReplyObject(reply);
        return NULL;
    }
    *tag = e->tags[e->first];
    e->first = (e->first + 1) % e->room;
    e->ntags--;
    return reply;
}

size_t
engine_bytes(const struct engine *e)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    return sizeof(*e) + e->going.room + e->next.room + e->room * sizeof(*e->tags) + e->reader->len;
}

uint64_t
engine_received(const struct engine *e)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    return e->received;
}

unsigned
engine_waiting(const struct engine *e)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    return e->ntags;
}

bool
engine_is_up(const struct engine *e)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    return e->ended == 0 && stream_connected(e->stream) == 0;
}

int
engine_ended(const struct engine *e, const char **why)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    *why = e->why;
    return e->ended;
}

bool
engine_is_overrun(const struct engine *e, unsigned *tag)
{
    OBJ_CHECK(e, ENGINE_MAGIC);
    if (!e->overrun || e->ntags == 0)
        return false;
    *tag = e->tags[e->first];
    return true;
}

enum engine_type
engine_reply_type(const struct engine_reply *r)
{
    switch (reply_of(r)->type) {
    case REDIS_REPLY_STATUS:
        return ENGINE_STATUS;
    case REDIS_REPLY_ERROR:
        return ENGINE_ERROR;
    case REDIS_REPLY_INTEGER:
        return ENGINE_INTEGER;
    case REDIS_REPLY_STRING:
        return ENGINE_STRING;
    case REDIS_REPLY_ARRAY:
        return ENGINE_ARRAY;
    default: /* RESP2 is asked for, so there is nothing else */
        return ENGINE_NIL;
    }
}

struct slice
engine_reply_text(const struct engine_reply *r)
{
    const redisReply *reply = reply_of(r);

    return reply->str != NULL ? slice_of(reply->str, (size_t)reply->len) : slice_of("", 0);
}

int64_t
engine_reply_integer(const struct engine_reply *r)
{
    return reply_of(r)->integer;
}

unsigned
engine_reply_count(const struct engine_reply *r)
{
    return reply_of(r)->type == REDIS_REPLY_ARRAY ? (unsigned)reply_of(r)->elements : 0;
}

const struct engine_reply *
engine_reply_at(const struct engine_reply *r, unsigned n)
{
    tassert(n < engine_reply_count(r));
    return (const struct engine_reply *)(const void *)reply_of(r)->element[n];
}

void
engine_reply_free(struct engine_reply **rp)
{
    freeReplyObject(*rp);
    *rp = NULL;
}

/* ---- its life ---- */

static void
engine_bound(struct engine *e)
{
    e->fn = *e->reader->fn;
    e->make_array = e->fn.createArray;
    e->fn.createArray = engine_make_array;
    e->reader->fn = &e->fn;
    e->reader->privdata = e;
}

int
engine_open(struct engine **out, struct loop *l, const struct stream_target *to, struct task *owner)
{
    struct engine *e = calloc(1, sizeof(*e));
    int err = TERR_NOMEM;

    if (e == NULL)
        return err;
    e->magic = ENGINE_MAGIC;
    e->reader = redisReaderCreate();
    if (e->reader != NULL)
        engine_bound(e);
    if (e->reader != NULL)
        err = stream_connect(&e->stream, l, to, owner);
    if (err != 0) {
        engine_close(&e);
        return err;
    }
    *out = e;
    return 0;
}

void
engine_close(struct engine **ep)
{
    struct engine *e;

    OBJ_TAKE(e, ep, ENGINE_MAGIC);
    if (e->stream != NULL)
        stream_close(&e->stream);
    if (e->reader != NULL)
        redisReaderFree(e->reader);
    free(e->going.bytes);
    free(e->next.bytes);
    free(e->tags);
    OBJ_FREE(e);
}
