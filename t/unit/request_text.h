/* request_text.h -- a built request as text, for tests. */
#ifndef TARN_REQUEST_TEXT_H
#define TARN_REQUEST_TEXT_H

#include <stdio.h>

#include "daemon/http/message_out.h"

/* "GET /path HTTP/1.1", Host and the field lines that were built, and a blank line; until the next
 * call. */
static inline const char *
request_text(const struct http_message *m)
{
    static char text[2 * LIMIT_HEAD_BYTES];

    snprintf(text, sizeof(text), "%.*s %.*s HTTP/1.1\r\nHost: %.*s\r\n%.*s\r\n", (int)m->method_len,
        m->base + m->method_off, (int)m->path_len, m->base + m->path_off, (int)m->authority_len,
        m->base + m->authority_off, (int)message_lines(m).len, message_lines(m).ptr);
    return text;
}

/* GET / of host "h", without fields. */
static const struct http_message request_get = {.base = "GET/h",
    .len = 5,
    .method = HTTP_M_GET,
    .method_len = 3,
    .path_off = 3,
    .path_len = 1,
    .authority_off = 4,
    .authority_len = 1,
    .lines_off = 5,
    .version_major = 1,
    .version_minor = 1};

#endif
