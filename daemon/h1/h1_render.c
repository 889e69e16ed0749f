/* h1_render.c -- a response's head as HTTP/1 writes it (RFC 9112 4, 5): status line, field lines. */
#include "daemon/h1/h1_render.h"

#include "daemon/base/tassert.h"
#include "daemon/http/message_out.h"

#define H1_VERSION "HTTP/1.1 "

/* `out` has HTTP_PREFIX_MAX bytes and the reason's.  reason_at: where the reason is found again
 * in a stored prefix (http/rendering.h). */
static struct http_prefix
h1_prefix(char *out, unsigned status, struct slice reason)
{
    char *p = mempcpy(out, H1_VERSION, sizeof(H1_VERSION) - 1);
    struct http_prefix prefix;

    tassert(status >= 100 && status <= 999);
    *p++ = (char)('0' + status / 100);
    *p++ = (char)('0' + status / 10 % 10);
    *p++ = (char)('0' + status % 10);
    *p++ = ' ';
    prefix.reason_at = (uint16_t)(p - out);
    if (reason.len > 0)
        p = mempcpy(p, reason.ptr, reason.len);
    p = mempcpy(p, "\r\n", 2);
    prefix.len = (uint16_t)(p - out);
    tassert(prefix.len <= HTTP_PREFIX_MAX + reason.len);
    return prefix;
}

const struct http_rendering h1_rendering = {.prefix = h1_prefix};

/* Field by field, of a message that was not built.
 * message_lines_bytes() has counted the same: name, ": ", value, CR LF; no check of room. */
static char *
h1_put_fields(char *p, const struct http_message *m)
{
    for (unsigned i = 0; i < m->nfields; i++) {
        struct slice name = http_name(m, &m->fields[i]), value = http_value(m, &m->fields[i]);

        p = mempcpy(p, name.ptr, name.len);
        p = mempcpy(p, ": ", 2);
        p = mempcpy(p, value.ptr, value.len);
        p = mempcpy(p, "\r\n", 2);
    }
    return p;
}

/* In `a`, which must live until the head has left: it is sent by reference. */
bool
h1_render(struct arena *a, const struct http_message *m, struct slice *out)
{
    struct slice reason = http_reason_of(m);
    size_t lines = m->lines_off > 0 ? message_lines(m).len : message_lines_bytes(m);
    char *text = arena_alloc(a, HTTP_PREFIX_MAX + reason.len + lines), *end;

    if (text == NULL)
        return false;
    end = text + h1_prefix(text, m->status, reason).len;
    if (m->lines_off > 0)
        end = mempcpy(end, m->base + m->lines_off, lines);
    else
        end = h1_put_fields(end, m);
    *out = slice_of(text, (size_t)(end - text));
    return true;
}
