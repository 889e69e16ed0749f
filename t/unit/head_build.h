/* head_build.h -- a head from text, for tests: splits lines and trims, and judges nothing.
 *
 * The text must outlive the head.  Lines end in LF or CRLF; what is no "name: value" is an
 * error of the test.
 */
#ifndef TARN_HEAD_BUILD_H
#define TARN_HEAD_BUILD_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http/message_out.h"
#include "daemon/http/token.h"

struct head_build {
    struct http_message h;
    struct http_field fields[LIMIT_FIELDS];
};

static inline uint16_t
head_build_off(const struct head_build *b, const char *p)
{
    assert(p - b->h.base <= LIMIT_HEAD_BYTES);
    return (uint16_t)(p - b->h.base);
}

/* "HTTP/1.1 200 OK" or "GET /path HTTP/1.1"; a request may say HTTP/2.0 */
static inline void
head_build_start(struct head_build *b, struct slice line)
{
    const char *sp1 = (const char *)memchr(line.ptr, ' ', line.len), *sp2, *end;

    end = line.ptr + line.len;
    assert(sp1 != NULL);
    if (line.len >= 12 && memcmp(line.ptr, "HTTP/1.", 7) == 0) {
        b->h.version_major = 1;
        b->h.version_minor = line.ptr[7] & 1;
        b->h.status = (uint16_t)strtoul(sp1 + 1, NULL, 10);
        if (line.len > 13) {
            b->h.reason_off = head_build_off(b, line.ptr + 13);
            b->h.reason_len = (uint16_t)(end - line.ptr - 13);
        }
        return;
    }
    for (sp2 = end - 1; *sp2 != ' '; sp2--)
        ;
    b->h.method_off = head_build_off(b, line.ptr);
    b->h.method_len = (uint16_t)(sp1 - line.ptr);
    b->h.method = (uint8_t)http_method_id(slice_of(line.ptr, (size_t)(sp1 - line.ptr)));
    b->h.target_off = head_build_off(b, sp1 + 1);
    b->h.target_len = (uint16_t)(sp2 - sp1 - 1);
    b->h.path_off = b->h.target_off;
    b->h.path_len = b->h.target_len;
    b->h.version_major = end[-3] & 3;
    b->h.version_minor = end[-1] & 1;
}

static inline void
head_build_field(struct head_build *b, struct slice line)
{
    const char *colon = (const char *)memchr(line.ptr, ':', line.len);
    struct http_field *f = &b->h.fields[b->h.nfields++];
    struct slice value;

    assert(colon != NULL && b->h.nfields <= b->h.max_fields);
    value = http_trim(slice_of(colon + 1, (size_t)(line.ptr + line.len - colon - 1)));
    memset(f, 0, sizeof(*f));
    f->name_off = head_build_off(b, line.ptr);
    f->name_len = (uint16_t)(colon - line.ptr);
    f->value_off = head_build_off(b, value.ptr);
    f->value_len = (uint16_t)value.len;
    f->id = (uint8_t)http_field_id(line.ptr, f->name_len);
    b->h.present |= HTTP_BIT(f->id);
}

static inline struct http_message *
head_build(struct head_build *b, const char *text)
{
    const char *p, *next;

    memset(b, 0, sizeof(*b));
    b->h.base = text;
    b->h.fields = b->fields;
    b->h.max_fields = LIMIT_FIELDS;
    b->h.len = (uint16_t)strlen(text);
    for (p = text; *p != '\0'; p = next) {
        size_t len = strcspn(p, "\n");

        next = p + len + (p[len] == '\n');
        if (len > 0 && p[len - 1] == '\r')
            len--;
        if (len == 0)
            break;
        if (p == text)
            head_build_start(b, slice_of(p, len));
        else
            head_build_field(b, slice_of(p, len));
    }
    return &b->h;
}

/* As a built message is: its lines are "name: value" CRLF, one behind the other. */
static inline struct http_message *
head_build_stored(struct head_build *b, const char *text)
{
    const char *first = strstr(text, "\r\n");

    head_build(b, text);
    assert(first != NULL);
    b->h.lines_off = head_build_off(b, first + 2);
    assert(message_lines(&b->h).len == message_lines_bytes(&b->h));
    return &b->h;
}

/* "HTTP/1.1 200 OK" and the field lines that were built; until the next call. */
static inline const char *
head_text(const struct http_message *m)
{
    static char text[LIMIT_HEAD_BYTES + 64];

    assert(message_lines(m).len == message_lines_bytes(m));
    snprintf(text, sizeof(text), "HTTP/1.1 %u %.*s\r\n%.*s", m->status, (int)m->reason_len,
        m->base + m->reason_off, (int)message_lines(m).len, message_lines(m).ptr);
    return text;
}

#endif
