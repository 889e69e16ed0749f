/* message.h -- a request or a response without its body (RFC 9110 6), whatever protocol carries it.
 *
 * It is the only form of a message above http/exchange.h and above the origin seam: a method, a
 * path and an authority, or a status and a reason, and fields.  Nothing in it knows how a
 * protocol writes them.
 *
 * Offsets, not pointers, so that the bytes can move (from the loop's read slab to memory of
 * the connection's) by changing `base` alone.  Field names that Tarn knows are resolved to
 * small integers once, when they are parsed, and `present` tells at a glance which came.
 *
 * A message that was built (message_out.h), and a stored one, has its fields in one run of bytes,
 * in order, each as a field line: name, ": ", value, CRLF.  HTTP/1 sends such a run by reference.
 *
 * Threads: none of its own.  Memory: everything is the caller's.
 */
#ifndef TARN_MESSAGE_H
#define TARN_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "daemon/base/span.h"
#include "daemon/http/field_table.h"

enum http_field_id {
    HTTP_F_OTHER, /* a name that the table does not have */
#define X(id, name, flags, doc) HTTP_F_##id,
    HTTP_FIELD_TABLE(X)
#undef X
    HTTP_F_COUNT
};
_Static_assert(HTTP_F_COUNT <= 64, "http_head.present has a bit for each");

#define HTTP_BIT(id) (UINT64_C(1) << (id))

enum http_method {
    HTTP_M_OTHER, /* a token that the table does not have */
#define X(id, name, safe, idempotent) HTTP_M_##id,
    HTTP_METHOD_TABLE(X)
#undef X
    HTTP_M_COUNT
};

enum {
    HTTP_REASON_MAX = 512, /* bytes: a longer phrase gives way to the status's own */
};

struct http_field {
    uint16_t name_off, name_len;
    uint16_t value_off, value_len; /* without surrounding white space */
    uint8_t id;                    /* enum http_field_id */
    bool drop : 1;                 /* nominated by Connection: never forwarded nor stored */
    bool said : 1;                 /* written by a policy: it is meant, whatever its name */
};

struct http_message {
    const char *base;          /* what offsets are counted from */
    struct http_field *fields; /* in the order they came */
    uint64_t present;          /* HTTP_BIT of every known field that came */
    uint16_t nfields, max_fields;
    uint16_t len;       /* bytes at `base`; of a parsed one its whole head */
    uint16_t lines_off; /* built: the field lines lie from there to the end; 0: not known to */
    /* HTTP/1.0, 1.1 or 2.0; in one byte, for any more would be eight. */
    uint8_t version_minor : 1, version_major : 3;
    uint8_t forms : 4; /* request: http_forms() (codings.h); 0: not found yet */
    /* request */
    uint8_t method; /* enum http_method */
    uint16_t method_off, method_len;
    uint16_t target_off, target_len; /* as it came */
    uint16_t path_off, path_len;     /* path and query: what is keyed and forwarded; OPTIONS: "*" */
    uint16_t authority_off, authority_len; /* authority as it came; len 0: HTTP/1.0 without Host */
    /* response */
    uint16_t status;
    uint16_t reason_off, reason_len;
};

/* Of HTTP/1.1 it has neither the framing nor the persistence (RFC 9112 C.2). */
static inline bool
http_is_1_0(const struct http_message *h)
{
    return h->version_major == 1 && h->version_minor == 0;
}

/* "HTTP/1.1", as programs have written it for HTTP/2, too. */
static inline struct slice
http_version_text(const struct http_message *h)
{
    if (h->version_major == 2)
        return SLICE_LIT("HTTP/2.0");
    return h->version_minor == 0 ? SLICE_LIT("HTTP/1.0") : SLICE_LIT("HTTP/1.1");
}

static inline struct slice
http_slice(const struct http_message *h, uint16_t off, uint16_t len)
{
    return (struct slice){h->base + off, len};
}

static inline bool
http_has(const struct http_message *h, enum http_field_id id)
{
    return (h->present & HTTP_BIT(id)) != 0;
}

static inline struct slice
http_name(const struct http_message *h, const struct http_field *f)
{
    return http_slice(h, f->name_off, f->name_len);
}

static inline struct slice
http_value(const struct http_message *h, const struct http_field *f)
{
    return http_slice(h, f->value_off, f->value_len);
}

/* A response's; empty: the status says all. */
static inline struct slice
http_reason_of(const struct http_message *h)
{
    return http_slice(h, h->reason_off, h->reason_len);
}

struct arena;
/* A parsed one's bytes move: behind its fields, where most heads have room and an arena's chunk for each
 * waiting request would cost more than all else, or to the arena.  TERR_NOMEM: it must not be read any more,
 * and has nothing to be read. */
int http_message_keep(struct http_message *m, struct arena *arena);

/* The next field `id` after `prev` (NULL: the first); NULL when there is none. */
const struct http_field *http_find(
    const struct http_message *h, enum http_field_id id, const struct http_field *prev);
/* The same for a name that the table may not have. */
const struct http_field *http_find_name(
    const struct http_message *h, struct slice name, const struct http_field *prev);
/* The value when there is exactly one, else an empty slice with .ptr NULL. */
struct slice http_get_one(const struct http_message *h, enum http_field_id id);

/* HTTP_F_OTHER for a name that is not in the table. */
enum http_field_id http_field_id(const char *name, size_t len);
/* Of a family by which applications learn what a proxy in front of them did: X-Forwarded*,
 * X-Original-*, X-Rewrite-*, *-Method-Override, whatever stands between; '_' counts as '-'.  Not in
 * the table, or HTTP_SPOOF is there too. */
bool http_name_is_spoof(struct slice name);
const char *http_field_name(enum http_field_id id);
size_t http_field_name_len(enum http_field_id id); /* not of HTTP_F_OTHER */
unsigned http_field_flags(enum http_field_id id);
enum http_method http_method_id(struct slice token); /* case-sensitive, RFC 9110 9.1 */
const char *http_method_name(enum http_method m);
bool http_method_is_safe(enum http_method m);
bool http_method_is_idempotent(enum http_method m);
/* "Not Found"; "Unknown" for a status without a phrase of its own. */
const char *http_reason(unsigned status);

#endif
