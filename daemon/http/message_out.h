/* message_out.h -- builds a message: its fields as field lines in bytes, never over their end.
 *
 * First what is no field (message_out_status, message_out_request), then the fields in order, then
 * message_out_end(), which tells whether all of it fitted.  Once something does not fit nothing more is written.
 *
 * Memory: an arena's; it lives as long as the arena.  Errors: TERR_NOMEM; TERR_LIMIT: more bytes or
 * fields than there was room for.
 */
#ifndef TARN_MESSAGE_OUT_H
#define TARN_MESSAGE_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/arena.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/message.h"
#include "daemon/http/token.h"

enum {
    MESSAGE_LINE_EXTRA = sizeof(": \r\n") - 1, /* bytes of a field line beside name and value */
};

struct message_out {
    struct http_message *m;
    char *next, *end;
    bool full;
};

/* Room for so many bytes and fields.  `*m` is an empty message, of version 1.1.  0 or TERR_NOMEM. */
static inline int
message_out_begin(
    struct message_out *o, struct http_message *m, struct arena *a, size_t bytes, unsigned nfields)
{
    size_t table = nfields * sizeof(struct http_field);
    char *room;

    if (bytes > LIMIT_HEAD_BYTES) /* offsets are 16 bits: what is longer does not fit */
        bytes = LIMIT_HEAD_BYTES;
    room = arena_alloc(a, table + bytes);
    if (room == NULL)
        return TERR_NOMEM;
    *m = (struct http_message){.base = room + table,
        .fields = (struct http_field *)(void *)room,
        .max_fields = (uint16_t)nfields,
        .version_major = 1,
        .version_minor = 1};
    *o = (struct message_out){m, room + table, room + table + bytes, false};
    return 0;
}

static inline uint16_t
message_out_at(const struct message_out *o)
{
    return (uint16_t)(o->next - o->m->base);
}

static inline void
message_out_put(struct message_out *o, struct slice s)
{
    if (o->full || s.len > (size_t)(o->end - o->next)) {
        o->full = true;
        return;
    }
    if (s.len > 0)
        memcpy(o->next, s.ptr, s.len);
    o->next += s.len;
}

#define MESSAGE_OUT_LIT(o, literal) message_out_put((o), SLICE_LIT(literal))

static inline void
message_out_number(struct message_out *o, uint64_t n)
{
    char digits[20];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    message_out_put(o, slice_of(digits + i, sizeof(digits) - i));
}

/* Before the first field. */
static inline void
message_out_status(struct message_out *o, unsigned status, struct slice reason)
{
    tassert(status >= 100 && o->m->nfields == 0 && reason.len <= HTTP_REASON_MAX);
    o->m->status = (uint16_t)status;
    o->m->reason_off = message_out_at(o);
    o->m->reason_len = (uint16_t)reason.len;
    message_out_put(o, reason);
    o->m->lines_off = message_out_at(o);
}

/* The same of a request. */
static inline void
message_out_request(struct message_out *o, enum http_method id, struct slice method,
    struct slice path, struct slice authority)
{
    struct http_message *m = o->m;

    tassert(m->nfields == 0);
    m->method = (uint8_t)id;
    m->method_off = message_out_at(o);
    m->method_len = (uint16_t)method.len;
    message_out_put(o, method);
    m->path_off = m->target_off = message_out_at(o);
    m->path_len = m->target_len = (uint16_t)path.len;
    message_out_put(o, path);
    m->authority_off = message_out_at(o);
    m->authority_len = (uint16_t)authority.len;
    message_out_put(o, authority);
    m->lines_off = message_out_at(o);
}

/* A field with a value that is put piece by piece, until message_out_close(). */
static inline void
message_out_open(struct message_out *o, enum http_field_id id, struct slice name)
{
    struct http_message *m = o->m;
    struct http_field *f = &m->fields[m->nfields];

    tassert_slow(http_token_ok(name) && http_field_id(name.ptr, name.len) == id);
    if (m->nfields == m->max_fields)
        o->full = true;
    if (o->full)
        return;
    *f = (struct http_field){
        .name_off = message_out_at(o), .name_len = (uint16_t)name.len, .id = (uint8_t)id};
    message_out_put(o, name);
    MESSAGE_OUT_LIT(o, ": ");
    f->value_off = message_out_at(o);
}

static inline void
message_out_close(struct message_out *o)
{
    struct http_message *m = o->m;

    if (!o->full) {
        struct http_field *f = &m->fields[m->nfields];

        f->value_len = (uint16_t)(message_out_at(o) - f->value_off);
        tassert_slow(http_value_ok(http_value(m, f))); /* no CR, LF or NUL of ours */
        m->present |= HTTP_BIT(f->id);
        m->nfields++;
    }
    MESSAGE_OUT_LIT(o, "\r\n");
}

static inline void
message_out_field(
    struct message_out *o, enum http_field_id id, struct slice name, struct slice value)
{
    message_out_open(o, id, name);
    message_out_put(o, value);
    message_out_close(o);
}

#define MESSAGE_OUT_FIELD(o, id, literal, value) \
    message_out_field((o), HTTP_F_##id, SLICE_LIT(literal), (value))

/* A field of another message. */
static inline void
message_out_copy(struct message_out *o, const struct http_message *from, const struct http_field *f)
{
    message_out_field(o, (enum http_field_id)f->id, http_name(from, f), http_value(from, f));
}

/* Via: that of `from`, which came, and ours (RFC 9110 7.6.3).  No pseudonym: no field. */
void message_out_via(
    struct message_out *o, const struct http_message *from, struct slice pseudonym);

/* 0 or TERR_LIMIT. */
static inline int
message_out_end(struct message_out *o)
{
    if (o->full)
        return TERR_LIMIT;
    o->m->len = message_out_at(o);
    return 0;
}

/* Of a built message: its field lines. */
static inline struct slice
message_lines(const struct http_message *m)
{
    return slice_of(m->base + m->lines_off, (size_t)(m->len - m->lines_off));
}

/* Bytes of all fields as lines. */
static inline size_t
message_lines_bytes(const struct http_message *m)
{
    size_t n = 0;

    for (unsigned i = 0; i < m->nfields; i++)
        n += (size_t)m->fields[i].name_len + m->fields[i].value_len + MESSAGE_LINE_EXTRA;
    return n;
}

#endif
