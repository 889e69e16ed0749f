/* probe_request.c -- what a probe asks: a message, from a URL or from lines as a user wrote them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/http/message_out.h"
#include "daemon/log/elog.h"
#include "daemon/origin/probe_priv.h"

enum {
    PROBE_REQUEST_MAX = 16384, /* bytes of its lines: far more than a health check asks with */
};

static int probe_request_refuse(char why[PROBE_WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int
probe_request_refuse(char why[PROBE_WHY_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, PROBE_WHY_MAX, format, args);
    va_end(args);
    return TERR_INVALID;
}

/* What stands in Host: the backend's own, else where it is. */
static void
probe_host(char *out, size_t max, const struct conf_backend *conf)
{
    const struct conf_address *a = &conf->address;
    bool v6 = strchr(a->host, ':') != NULL;

    if (conf->host_header[0] != '\0')
        snprintf(out, max, "%s", conf->host_header);
    /* There is no name to say. */
    else if (a->is_unix || a->host[0] == '\0')
        snprintf(out, max, "localhost");
    /* RFC 9110 7.2: without the port where it is the scheme's own. */
    else if (a->port == (conf->tls.said ? 443 : 80))
        snprintf(out, max, v6 ? "[%s]" : "%s", a->host);
    else
        snprintf(out, max, v6 ? "[%s]:%u" : "%s:%u", a->host, a->port);
}

/* The next line of *rest, without its CRLF; false: there is none. */
static bool
probe_request_line(struct slice *rest, struct slice *line)
{
    /* CRLF alone ends a line (RFC 9112 2.2). */
    const char *end = memmem(rest->ptr, rest->len, "\r\n", 2);

    if (end == NULL)
        return false;
    *line = slice_of(rest->ptr, (size_t)(end - rest->ptr));
    *rest = slice_of(end + 2, rest->len - line->len - 2);
    return true;
}

/* Up to the next space, which is taken off too.  An empty word is returned where there is none. */
static struct slice
probe_request_word(struct slice *line)
{
    const char *space = line->len > 0 ? memchr(line->ptr, ' ', line->len) : NULL;
    struct slice word =
        slice_of(line->ptr, space == NULL ? line->len : (size_t)(space - line->ptr));
    size_t used = word.len + (space != NULL);

    *line = slice_of(line->ptr + used, line->len - used);
    return word;
}

static bool
probe_target_is_good(struct slice target)
{
    for (size_t i = 0; i < target.len; i++)
        /* A space or a line end in it would make another request of it. */
        if ((unsigned char)target.ptr[i] <= ' ' || target.ptr[i] == 0x7f)
            return false;
    return target.len > 0;
}

struct probe_lines {
    struct slice method, target, host; /* host.ptr NULL: no line says it */
    struct slice fields;               /* lines, up to the blank one */
    unsigned nfields;
    bool close;
};

static int
probe_request_start(struct probe_lines *out, struct slice line, char why[PROBE_WHY_MAX])
{
    struct slice version;

    out->method = probe_request_word(&line);
    out->target = probe_request_word(&line);
    version = probe_request_word(&line);
    if (!http_token_ok(out->method) || !probe_target_is_good(out->target) || line.len > 0 ||
        version.len != 8 || memcmp(version.ptr, "HTTP/1.", 7) != 0 ||
        (version.ptr[7] != '0' && version.ptr[7] != '1'))
        return probe_request_refuse(why,
            "the first line of a probe's request is method, path and version: "
            "\"GET /health HTTP/1.1\"");
    /* RFC 9112 9.3: an HTTP/1.0 connection ends unless keep-alive is said. */
    out->close = version.ptr[7] == '0';
    return 0;
}

static bool
probe_request_split(struct slice line, struct slice *name, struct slice *value)
{
    const char *colon = line.len > 0 ? memchr(line.ptr, ':', line.len) : NULL;

    if (colon == NULL)
        return false;
    *name = slice_of(line.ptr, (size_t)(colon - line.ptr));
    *value = http_trim(slice_of(colon + 1, line.len - name->len - 1));
    return http_token_ok(*name) && http_value_ok(*value);
}

/* What a line says of the connection is taken from it; a probe has no body. */
static int
probe_request_field(struct probe_lines *out, struct slice line, char why[PROBE_WHY_MAX])
{
    struct slice name, value;
    enum http_field_id id;

    if (!probe_request_split(line, &name, &value))
        return probe_request_refuse(why,
            "'%.*s' is no line of a probe's request, as \"Name: value\" is",
            (int)(line.len < 60 ? line.len : 60), line.ptr);
    id = http_field_id(name.ptr, name.len);
    if (id == HTTP_F_HOST && out->host.ptr != NULL)
        return probe_request_refuse(why, "a probe's request has one Host");
    if (id == HTTP_F_HOST)
        out->host = value;
    if (id == HTTP_F_CONNECTION && !slice_eq_nocase(value, SLICE_LIT("close")) &&
        !slice_eq_nocase(value, SLICE_LIT("keep-alive")))
        return probe_request_refuse(why, "Connection of a probe's request is close or keep-alive");
    if (id == HTTP_F_CONNECTION)
        out->close = slice_eq_nocase(value, SLICE_LIT("close"));
    /* A field that frames a body would have the origin wait for bytes that never come. */
    else if ((http_field_flags(id) & HTTP_HOP) != 0 || id == HTTP_F_CONTENT_LENGTH ||
             id == HTTP_F_EXPECT)
        return probe_request_refuse(why,
            "a probe's request has no body and no '%.*s': remove the line", (int)name.len,
            name.ptr);
    return 0;
}

static int
probe_request_parse(struct probe_lines *out, const char *text, char why[PROBE_WHY_MAX])
{
    struct slice rest = slice_str(text), line;
    int err;

    *out = (struct probe_lines){.nfields = 0};
    if (rest.len > PROBE_REQUEST_MAX)
        return probe_request_refuse(
            why, "a probe's request has %u bytes at most", PROBE_REQUEST_MAX);
    /* No line at all: probe_request_start() says what is missing. */
    if (!probe_request_line(&rest, &line))
        line = slice_of("", 0);
    err = probe_request_start(out, line, why);
    out->fields = rest;
    while (err == 0 && probe_request_line(&rest, &line) && line.len > 0) {
        err = probe_request_field(out, line, why);
        out->nfields++;
    }
    if (err == 0 && rest.len > 0)
        err = probe_request_refuse(why, "a probe's request ends with its first empty line");
    return err;
}

int
probe_request_check(const char *text, char why[PROBE_WHY_MAX])
{
    struct probe_lines lines;

    return probe_request_parse(&lines, text, why);
}

/* The message of what was parsed: method, target and Host, and the other fields as lines. */
static int
probe_request_write(struct probe_request *q, const struct probe_lines *l, struct slice host)
{
    /* One allocation for the table and the bytes: the probe frees one pointer. */
    size_t table = l->nfields * sizeof(struct http_field), max;
    struct slice rest = l->fields, line, name, value;
    struct message_out o;

    /* A colon may have no space behind it. */
    max = l->method.len + l->target.len + host.len + l->fields.len + l->nfields;
    q->memory = malloc(table + max);
    if (q->memory == NULL)
        return TERR_NOMEM;
    q->head = (struct http_message){.base = q->memory + table,
        .fields = (struct http_field *)(void *)q->memory,
        .max_fields = (uint16_t)l->nfields,
        .version_major = 1,
        .version_minor = 1};
    o = (struct message_out){&q->head, q->memory + table, q->memory + table + max, false};
    message_out_request(&o, http_method_id(l->method), l->method, l->target, host);
    for (unsigned i = 0; i < l->nfields && probe_request_line(&rest, &line); i++) {
        bool is_field = probe_request_split(line, &name, &value);
        enum http_field_id id = http_field_id(name.ptr, name.len);

        tassert(is_field); /* probe_request_parse looked */
        /* Host stands in the first place, and Connection is the protocol's to write. */
        if (id != HTTP_F_HOST && id != HTTP_F_CONNECTION)
            message_out_field(&o, id, name, value);
    }
    q->close = l->close;
    return message_out_end(&o);
}

int
probe_request_make(
    struct probe_request *q, const struct probe_conf *conf, const struct conf_backend *backend)
{
    char host[300], why[PROBE_WHY_MAX];
    /* A probe of Varnish sends Connection: close, and so does this one. */
    struct probe_lines l = {.method = SLICE_LIT("GET"), .close = true};

    probe_host(host, sizeof(host), backend);
    if (conf->request == NULL) {
        l.target = slice_str(conf->url != NULL ? conf->url : "");
        return probe_target_is_good(l.target) ? probe_request_write(q, &l, slice_str(host))
                                              : TERR_INVALID;
    }
    /* The loaders checked it before; this is for a caller that did not. */
    if (probe_request_parse(&l, conf->request, why) != 0) {
        elog(ELOG_ERROR, "backend %s: %s", backend->name, why);
        return TERR_INVALID;
    }
    return probe_request_write(q, &l, l.host.ptr != NULL ? l.host : slice_str(host));
}
