/* proxy_strict.c -- HTTP/1.1 messages, read by the letter. */
#include "t/fuzz/proxy_strict.h"

#include <string.h>
#include <strings.h>

#include "daemon/base/tassert.h"

enum {
    STRICT_EMPTY_LINES = 4, /* before a request: RFC 9112 2.2 wants one; clients send one */
    STRICT_SIZE_DIGITS = 16,
};

struct strict_reader {
    struct slice in;
    size_t at;
    enum strict_writer by;
    bool is_response, bare;
    struct arena *arena;
    struct strict_message *m;
    /* counted over the fields */
    unsigned hosts, lengths, codings, connections;
    bool upgrade_field, option_close, option_keep, option_upgrade;
};

static enum strict_result
strict_bad(struct strict_reader *r, const char *why)
{
    r->m->why = why;
    return STRICT_BAD;
}

static bool
strict_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && strncasecmp(s.ptr, text, s.len) == 0;
}

static bool
strict_is_tchar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool
strict_token(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!strict_is_tchar(s.ptr[i]))
            return false;
    return s.len > 0;
}

/* field-content: HTAB, SP, VCHAR, obs-text. */
static bool
strict_text(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static struct slice
strict_trim(struct slice s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool
strict_decimal(struct slice s, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned char)s.ptr[i] - (unsigned)'0';

        if (digit > 9 || *out > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return s.len > 0;
}

/* The next line without its CRLF.  A bare CR or LF, and a NUL, is no part of any line. */
static enum strict_result
strict_line(struct strict_reader *r, struct slice *line)
{
    const char *p = r->in.ptr + r->at;
    size_t left = r->in.len - r->at;
    const char *nl = left > 0 ? memchr(p, '\n', left) : NULL;

    if (nl == NULL)
        return STRICT_PART;
    if (nl == p || nl[-1] != '\r')
        return strict_bad(r, "a bare LF");
    *line = slice_of(p, (size_t)(nl - 1 - p));
    if (!strict_text(*line))
        return strict_bad(r, "a control byte in a line");
    r->at += line->len + 2;
    return STRICT_WHOLE;
}

static bool
strict_version(struct strict_reader *r, struct slice s)
{
    if (s.len != 8 || memcmp(s.ptr, "HTTP/1.", 7) != 0 || (s.ptr[7] != '0' && s.ptr[7] != '1'))
        return false;
    r->m->minor = (unsigned)(s.ptr[7] - '0');
    return r->by == STRICT_FOREIGN || r->m->minor == 1;
}

/* Splits http://authority/path; false: no such thing. */
static bool
strict_absolute(struct slice target, struct slice *host, struct slice *path)
{
    size_t start, end;

    if (target.len >= 7 && strncasecmp(target.ptr, "http://", 7) == 0)
        start = 7;
    else if (target.len >= 8 && strncasecmp(target.ptr, "https://", 8) == 0)
        start = 8;
    else
        return false;
    for (end = start; end < target.len && target.ptr[end] != '/'; end++)
        if (target.ptr[end] == '?' || target.ptr[end] == '@')
            return false;
    *host = slice_of(target.ptr + start, end - start);
    *path = slice_of(target.ptr + end, target.len - end);
    return host->len > 0;
}

static enum strict_result
strict_target(struct strict_reader *r, struct slice target)
{
    struct strict_message *m = r->m;

    for (size_t i = 0; i < target.len; i++) {
        char c = target.ptr[i];

        if (c < 0x21 || c > 0x7e || c == '#' || c == '\\')
            return strict_bad(r, "a byte that no target has");
    }
    m->path = target;
    if (target.len > 0 && target.ptr[0] == '/')
        return STRICT_WHOLE;
    if (strict_is(target, "*") && strict_is(m->method, "OPTIONS"))
        return STRICT_WHOLE;
    if (r->by == STRICT_OURS || !strict_absolute(target, &m->host, &m->path))
        return strict_bad(r, "a target of no known form");
    if (m->path.len == 0)
        m->path = strict_is(m->method, "OPTIONS") ? SLICE_LIT("*") : SLICE_LIT("/");
    return STRICT_WHOLE;
}

static enum strict_result
strict_request_line(struct strict_reader *r)
{
    struct slice line, target;
    const char *sp1, *sp2;
    enum strict_result rc;

    for (unsigned i = 0; r->by == STRICT_FOREIGN && i <= STRICT_EMPTY_LINES; i++) {
        if (r->in.len - r->at < 2 || memcmp(r->in.ptr + r->at, "\r\n", 2) != 0)
            break;
        r->at += 2;
    }
    rc = strict_line(r, &line);
    if (rc != STRICT_WHOLE)
        return rc;
    sp1 = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    if (sp1 == NULL)
        return strict_bad(r, "a request line without spaces");
    r->m->method = slice_of(line.ptr, (size_t)(sp1 - line.ptr));
    sp2 = memchr(sp1 + 1, ' ', (size_t)(line.ptr + line.len - sp1 - 1));
    if (sp2 == NULL || !strict_token(r->m->method))
        return strict_bad(r, "a request line without three words");
    target = slice_of(sp1 + 1, (size_t)(sp2 - sp1 - 1));
    if (!strict_version(r, slice_of(sp2 + 1, (size_t)(line.ptr + line.len - sp2 - 1))))
        return strict_bad(r, "a version that is not HTTP/1.1 or 1.0");
    if (target.len == 0)
        return strict_bad(r, "an empty target");
    return strict_target(r, target);
}

static enum strict_result
strict_status_line(struct strict_reader *r)
{
    struct slice line;
    enum strict_result rc = strict_line(r, &line);

    if (rc != STRICT_WHOLE)
        return rc;
    if (line.len < 12 || line.ptr[8] != ' ' || (line.len > 12 && line.ptr[12] != ' '))
        return strict_bad(r, "a status line of another form");
    if (r->by == STRICT_OURS && line.len < 13)
        return strict_bad(r, "a status line without the second space");
    if (!strict_version(r, slice_of(line.ptr, 8)))
        return strict_bad(r, "a version that is not HTTP/1.1 or 1.0");
    for (unsigned i = 9; i < 12; i++) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9')
            return strict_bad(r, "a status that is no number");
        r->m->status = r->m->status * 10 + (unsigned)(line.ptr[i] - '0');
    }
    if (r->m->status < 100 || r->m->status > 599)
        return strict_bad(r, "a status of no class");
    return STRICT_WHOLE;
}

/* ---- Fields ---- */

static struct slice
strict_without_port(struct slice host)
{
    const char *colon = host.len > 0 ? memchr(host.ptr, ':', host.len) : NULL;

    if (host.len > 0 && host.ptr[0] == '[')
        colon = memchr(host.ptr, ']', host.len);
    if (colon != NULL)
        host.len = (size_t)(colon - host.ptr);
    if (host.len > 0 && host.ptr[host.len - 1] == '.')
        host.len--;
    return host;
}

static void
strict_connection(struct strict_reader *r, struct slice value)
{
    while (value.ptr != NULL) {
        const char *comma = value.len > 0 ? memchr(value.ptr, ',', value.len) : NULL;
        size_t len = comma != NULL ? (size_t)(comma - value.ptr) : value.len;
        struct slice option = strict_trim(slice_of(value.ptr, len));

        r->option_close = r->option_close || strict_is(option, "close");
        r->option_keep = r->option_keep || strict_is(option, "keep-alive");
        r->option_upgrade = r->option_upgrade || strict_is(option, "upgrade");
        value = comma != NULL ? slice_of(comma + 1, value.len - len - 1) : slice_of(NULL, 0);
    }
}

/* Hop-by-hop fields that Tarn never writes, whatever it was sent. */
static bool
strict_is_hop(struct slice name)
{
    static const char *const names[] = {"TE", "Trailer", "Keep-Alive", "Proxy-Connection",
        "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info", "HTTP2-Settings"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strict_is(name, names[i]))
            return true;
    return false;
}

static enum strict_result
strict_field_ours(struct strict_reader *r, struct slice name, struct slice value, struct slice raw)
{
    if (raw.len != value.len + 1 || raw.ptr[0] != ' ')
        if (raw.len != 0 && !(raw.len == 1 && raw.ptr[0] == ' '))
            return strict_bad(r, "a value of ours with more around it than one space");
    if (strict_is_hop(name))
        return strict_bad(r, "a hop-by-hop field of ours");
    if (strict_is(name, "Connection") && r->connections++ > 0)
        return strict_bad(r, "two Connection fields of ours");
    if (r->is_response)
        return STRICT_WHOLE;
    if (strict_is(name, "Transfer_Encoding") || strict_is(name, "Content_Length"))
        return strict_bad(r, "a framing field in disguise");
    if (strict_is(name, "Expect"))
        return strict_bad(r, "Expect goes on");
    return STRICT_WHOLE;
}

static enum strict_result
strict_field_known(struct strict_reader *r, struct slice name, struct slice value)
{
    struct strict_message *m = r->m;

    if (strict_is(name, "Host")) {
        r->hosts++;
        if (m->host.ptr == NULL)
            m->host = value;
    } else if (strict_is(name, "Content-Length")) {
        r->lengths++;
        m->has_length = true;
        if (!strict_decimal(value, &m->length))
            return strict_bad(r, "a Content-Length that is no number");
        if (r->by == STRICT_OURS && value.len > 1 && value.ptr[0] == '0')
            return strict_bad(r, "a Content-Length of ours with a leading zero");
    } else if (strict_is(name, "Transfer-Encoding")) {
        r->codings++;
        m->chunked = strict_is(value, "chunked");
        if (!m->chunked)
            return strict_bad(r, "a Transfer-Encoding that is not exactly chunked");
    } else if (strict_is(name, "Connection")) {
        strict_connection(r, value);
    } else if (strict_is(name, "Upgrade")) {
        r->upgrade_field = true;
    } else if (strict_is(name, "Range") || strict_is(name, "If-None-Match") ||
               strict_is(name, "If-Modified-Since")) {
        m->asks_less = true;
    } else if (strict_is(name, "Server")) {
        m->server = value;
    } else if (strict_is(name, "X-Forwarded-For")) {
        m->client = value;
    }
    return STRICT_WHOLE;
}

/* Field lines up to the empty line.  In trailers nothing is acted on. */
static enum strict_result
strict_fields(struct strict_reader *r, bool trailers)
{
    for (;;) {
        struct slice line, name, raw, value;
        const char *colon;
        enum strict_result rc = strict_line(r, &line);

        if (rc != STRICT_WHOLE || line.len == 0)
            return rc;
        if (trailers && r->by == STRICT_OURS)
            return strict_bad(r, "a trailer of ours");
        colon = memchr(line.ptr, ':', line.len);
        if (colon == NULL)
            return strict_bad(r, "a field without colon");
        name = slice_of(line.ptr, (size_t)(colon - line.ptr));
        raw = slice_of(colon + 1, line.len - name.len - 1);
        value = strict_trim(raw);
        if (!strict_token(name))
            return strict_bad(r, "a field name that is no token");
        if (r->by == STRICT_OURS)
            rc = strict_field_ours(r, name, value, raw);
        if (rc == STRICT_WHOLE && !trailers)
            rc = strict_field_known(r, name, value);
        if (rc != STRICT_WHOLE)
            return rc;
    }
}

/* ---- What a head means: RFC 9112 3.2, 6.3, 9.3 ---- */

static enum strict_result
strict_judge_head(struct strict_reader *r)
{
    struct strict_message *m = r->m;

    if (!r->is_response && (r->hosts > 1 || (r->hosts == 0 && m->minor == 1)))
        return strict_bad(r, "not exactly one Host");
    if (r->lengths > 1 || r->codings > 1 || (r->lengths > 0 && r->codings > 0))
        return strict_bad(r, "framed twice");
    if (r->codings > 0 && m->minor == 0)
        return strict_bad(r, "Transfer-Encoding in HTTP/1.0");
    if (r->is_response && (m->status < 200 || m->status == 204) &&
        (m->chunked || (m->has_length && (m->length > 0 || r->by == STRICT_OURS))))
        return strict_bad(r, "a status without body, framed as if it had one");
    m->host = strict_without_port(m->host);
    m->closes = r->option_close;
    m->persists = !r->option_close && (m->minor == 1 || r->option_keep);
    m->upgrades = r->upgrade_field && r->option_upgrade;
    if (r->by == STRICT_OURS && r->upgrade_field && !r->option_upgrade)
        return strict_bad(r, "Upgrade of ours without its Connection option");
    m->has_head = true;
    m->used = r->at;
    return STRICT_WHOLE;
}

/* ---- Bodies ---- */

static enum strict_result
strict_chunk_size(struct strict_reader *r, uint64_t *size)
{
    struct slice line;
    enum strict_result rc = strict_line(r, &line);
    size_t i = 0, ext;

    if (rc != STRICT_WHOLE)
        return rc;
    *size = 0;
    for (; i < line.len && strchr("0123456789abcdefABCDEF", line.ptr[i]) != NULL; i++) {
        unsigned char c = (unsigned char)line.ptr[i];

        if (i == STRICT_SIZE_DIGITS)
            return strict_bad(r, "a chunk size of too many digits");
        *size = *size << 4 | (c <= '9' ? c - 0x30u : (c | 0x20u) - 'a' + 10u);
    }
    if (i == 0 || *size > INT64_MAX)
        return strict_bad(r, "a chunk without size");
    for (ext = i; ext < line.len && (line.ptr[ext] == ' ' || line.ptr[ext] == '\t');)
        ext++; /* RFC 9112 7.1.1: BWS ";" */
    if (i < line.len && (ext == line.len || line.ptr[ext] != ';' || r->by == STRICT_OURS))
        return strict_bad(r, "something behind a chunk size");
    if (r->by == STRICT_OURS && i > 1 && line.ptr[0] == '0')
        return strict_bad(r, "a chunk size of ours with a leading zero");
    return STRICT_WHOLE;
}

static enum strict_result
strict_chunked(struct strict_reader *r, char *out)
{
    struct strict_message *m = r->m;

    for (;;) {
        uint64_t size;
        size_t left;
        enum strict_result rc = strict_chunk_size(r, &size);

        if (rc != STRICT_WHOLE)
            return rc;
        if (size == 0)
            return strict_fields(r, true);
        left = r->in.len - r->at;
        if (left > size)
            left = (size_t)size;
        memcpy(out + m->body.len, r->in.ptr + r->at, left);
        m->body.len += left;
        r->at += left;
        if (left < size || r->in.len - r->at < 2)
            return STRICT_PART;
        if (memcmp(r->in.ptr + r->at, "\r\n", 2) != 0)
            return strict_bad(r, "no CRLF behind a chunk");
        r->at += 2;
    }
}

static enum strict_result
strict_body(struct strict_reader *r)
{
    struct strict_message *m = r->m;
    size_t left = r->in.len - r->at;
    enum strict_result rc;

    if (r->is_response && (r->bare || m->status < 200 || m->status == 204 || m->status == 304))
        return STRICT_WHOLE;
    if (m->chunked) {
        char *out = arena_alloc(r->arena, left + 1);

        tassert(out != NULL);
        m->body = slice_of(out, 0);
        rc = strict_chunked(r, out);
    } else if (m->has_length) {
        m->body = slice_of(r->in.ptr + r->at, left < m->length ? left : (size_t)m->length);
        r->at += m->body.len;
        rc = m->body.len < m->length ? STRICT_PART : STRICT_WHOLE;
    } else if (r->is_response) {
        m->until_close = true;
        m->body = slice_of(r->in.ptr + r->at, left);
        r->at += left;
        rc = STRICT_PART;
    } else {
        rc = STRICT_WHOLE;
    }
    m->used = r->at;
    return rc;
}

static enum strict_result
strict_message(struct strict_reader *r)
{
    enum strict_result rc = r->is_response ? strict_status_line(r) : strict_request_line(r);

    if (rc == STRICT_WHOLE)
        rc = strict_fields(r, false);
    if (rc == STRICT_WHOLE)
        rc = strict_judge_head(r);
    if (rc == STRICT_WHOLE)
        rc = strict_body(r);
    return rc;
}

enum strict_result
strict_request(
    struct slice in, enum strict_writer by, struct arena *arena, struct strict_message *out)
{
    struct strict_reader r = {.in = in, .by = by, .arena = arena, .m = out};

    *out = (struct strict_message){.used = 0};
    return strict_message(&r);
}

enum strict_result
strict_response(struct slice in, enum strict_writer by, bool bare, struct arena *arena,
    struct strict_message *out)
{
    struct strict_reader r = {
        .in = in, .by = by, .is_response = true, .bare = bare, .arena = arena, .m = out};

    *out = (struct strict_message){.used = 0};
    return strict_message(&r);
}
