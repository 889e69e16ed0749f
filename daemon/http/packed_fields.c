/* packed_fields.c -- the fields of a built message, one to three bytes each.
 *
 * Stored responses keep names and values as lines of bytes and need the table of their places
 * only while they are delivered.  10 bytes a field in memory become one to three in the store.
 */
#include "daemon/http/packed_fields.h"

#include "daemon/base/tassert.h"
#include "daemon/http/message_out.h"

enum {
    PACKED_ID = 0x3f,        /* enum http_field_id */
    PACKED_LONG_NAME = 0x40, /* of a name that is written: its length takes two bytes */
    PACKED_DATE = 0x40, /* of a known one: its value is as long as a date, and nothing follows */
    PACKED_LONG_VALUE = 0x80, /* the value's length takes two bytes */
    PACKED_DATE_LEN = 29,     /* IMF-fixdate: RFC 9110 5.6.7 */
};
_Static_assert(HTTP_F_COUNT <= PACKED_ID + 1, "an id fits in");

static bool
packed_has_name(const struct http_field *f)
{
    return f->id == HTTP_F_OTHER;
}

static bool
packed_is_date(const struct http_field *f)
{
    return !packed_has_name(f) && f->value_len == PACKED_DATE_LEN;
}

size_t
packed_fields_bytes(const struct http_message *m)
{
    size_t n = 0;

    for (unsigned i = 0; i < m->nfields; i++) {
        const struct http_field *f = &m->fields[i];

        /* The first byte and the value's length. */
        n += 2u + (f->value_len > UINT8_MAX) - packed_is_date(f);
        n += packed_has_name(f) ? 1u + (f->name_len > UINT8_MAX) : 0u;
    }
    return n;
}

static char *
packed_put_length(char *p, uint16_t len)
{
    *p++ = (char)(len & 0xff);
    if (len > UINT8_MAX)
        *p++ = (char)(len >> 8);
    return p;
}

/* A known name is its id, without a length; lengths above 255 take a second byte.  Places follow
 * from the lengths, for lines lie one behind the other. */
void
packed_fields_write(const struct http_message *m, char *out)
{
    char *p = out;

    for (unsigned i = 0; i < m->nfields; i++) {
        const struct http_field *f = &m->fields[i];
        bool named = packed_has_name(f);

        if (packed_is_date(f)) {
            *p++ = (char)(f->id | PACKED_DATE);
            continue;
        }
        *p++ = (char)(f->id | (named && f->name_len > UINT8_MAX ? PACKED_LONG_NAME : 0) |
                      (f->value_len > UINT8_MAX ? PACKED_LONG_VALUE : 0));
        if (named)
            p = packed_put_length(p, f->name_len);
        p = packed_put_length(p, f->value_len);
    }
    tassert((size_t)(p - out) == packed_fields_bytes(m));
}

static uint16_t
packed_get_length(const uint8_t **p, bool is_long)
{
    unsigned len = *(*p)++;

    if (is_long)
        len |= (unsigned)*(*p)++ << 8;
    return (uint16_t)len;
}

void
packed_fields_read(struct slice packed, struct http_message *m)
{
    const uint8_t *p = (const uint8_t *)packed.ptr, *end = p + packed.len;
    unsigned at = m->lines_off, lines_end = m->len;

    m->nfields = 0;
    m->present = 0;
    while (at < lines_end) {
        struct http_field *f = &m->fields[m->nfields++];
        uint8_t first;

        /* Written by ourselves, into our own memory: checked, not refused. */
        tassert(p < end && m->nfields <= m->max_fields);
        first = *p++;
        *f = (struct http_field){.id = first & PACKED_ID, .name_off = (uint16_t)at};
        f->name_len = packed_has_name(f) ? packed_get_length(&p, (first & PACKED_LONG_NAME) != 0)
                                         : (uint16_t)http_field_name_len((enum http_field_id)f->id);
        f->value_off = (uint16_t)(at + f->name_len + 2u);
        f->value_len = !packed_has_name(f) && (first & PACKED_DATE) != 0
                           ? PACKED_DATE_LEN
                           : packed_get_length(&p, (first & PACKED_LONG_VALUE) != 0);
        /* Not stored: it follows from the fields. */
        m->present |= HTTP_BIT(f->id);
        at += (unsigned)f->name_len + f->value_len + MESSAGE_LINE_EXTRA;
    }
    tassert(at == lines_end);
}
