/* packed_fields.h -- the fields of a built message, one to three bytes each: for what is kept long.
 *
 * Field lines lie in order without a gap, so that lengths are enough: of a name that the field table
 * knows its id, of another one its length, then the value's length, which a date has not.  Lengths above 255
 * take two bytes.
 *
 * Threads: none of its own.  Memory: the caller's.
 */
#ifndef TARN_PACKED_FIELDS_H
#define TARN_PACKED_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

enum {
    PACKED_FIELD_MAX = 5, /* bytes of one */
};

/* Bytes that packed_fields_write() writes. */
size_t packed_fields_bytes(const struct http_message *m);
void packed_fields_write(const struct http_message *m, char *out);
/* The fields, into m->fields: as many as the field lines from m->lines_off to m->len are.
 * There is room for all. */
void packed_fields_read(struct slice packed, struct http_message *m);

#endif
