/* h1_parse.c -- HTTP/1 messages, parsed strictly.  RFC 9112. */
#include "daemon/h1/h1_parse.h"

#include <pthread.h>
#include <string.h>

#include <llhttp.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

_Static_assert(
    LLHTTP_VERSION_MAJOR * 10000 + LLHTTP_VERSION_MINOR * 100 + LLHTTP_VERSION_PATCH >= 90403,
    "llhttp before 9.4.3 accepts messages it should not");
_Static_assert(sizeof(llhttp_t) <= H1_LLHTTP_SIZE, "h1_parser.ll too small");

/* Of llhttp's machine there are two, which differ in how they look for the end of a run of bytes, and
 * in nothing that either leaves behind. */
typedef int h1_execute_f(llhttp_t *ll, const char *p, const char *end);
h1_execute_f llhttp__internal_execute;
#if defined(TARN_LLHTTP_SSE42)
h1_execute_f llhttp_sse42_execute;
#endif

static h1_execute_f *h1_execute = llhttp__internal_execute;
static llhttp_settings_t h1_settings;
static llhttp_t h1_templates[2]; /* request, response: having read a canonical start line */
static pthread_once_t h1_once = PTHREAD_ONCE_INIT;

static llhttp_t *
h1_ll(struct h1_parser *p)
{
    return (llhttp_t *)(void *)p->ll.bytes;
}

const char *
h1_llhttp_version(void)
{
#define H1_STR2(x) #x
#define H1_STR(x)  H1_STR2(x)
    return H1_STR(LLHTTP_VERSION_MAJOR) "." H1_STR(LLHTTP_VERSION_MINOR) "." H1_STR(
        LLHTTP_VERSION_PATCH);
}

/* A callback's way to end llhttp's run with an error of ours.  The first reason counts. */
static int
h1_fail(struct h1_parser *p, int err)
{
    if (p->err == 0)
        p->err = err;
    return HPE_USER;
}

/* Spans may come in pieces, but the bytes lie in one: the first piece tells the offset. */
static int
h1_on_field(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;
    struct http_message *h = p->head;
    struct http_field *f;

    /* No value can begin at offset 0, because its name stands before it: 0 says that the name
     * goes on. */
    if (h->nfields > 0 && h->fields[h->nfields - 1].value_off == 0) {
        h->fields[h->nfields - 1].name_len += (uint16_t)len;
        return 0;
    }
    if (h->nfields >= h->max_fields)
        return h1_fail(p, TERR_HEADTOOBIG);
    f = &h->fields[h->nfields++];
    *f = (struct http_field){.name_off = (uint16_t)(at - p->base), .name_len = (uint16_t)len};
    return 0;
}

static int
h1_on_value(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;
    struct http_field *f = &p->head->fields[p->head->nfields - 1];

    if (f->value_off == 0)
        f->value_off = (uint16_t)(at - p->base);
    f->value_len += (uint16_t)len;
    return 0;
}

/* llhttp removes white space in front of a value; that behind it is no part of the value either
 * (RFC 9112 5.1). */
static int
h1_on_value_complete(llhttp_t *ll)
{
    struct h1_parser *p = ll->data;
    struct http_message *h = p->head;
    struct http_field *f = &h->fields[h->nfields - 1];
    struct slice v;

    if ((size_t)f->value_off + f->value_len > f->name_off + p->limits->field_max)
        return h1_fail(p, TERR_HEADTOOBIG);
    v = slice_of(p->base + f->value_off, f->value_len);
    while (v.len > 0 && (v.ptr[v.len - 1] == ' ' || v.ptr[v.len - 1] == '\t'))
        v.len--;
    f->value_len = (uint16_t)v.len;
    f->id = (uint8_t)http_field_id(p->base + f->name_off, f->name_len);
    if (f->id != HTTP_F_OTHER)
        h->present |= HTTP_BIT(f->id);
    return 0;
}

static int
h1_on_headers_complete(llhttp_t *ll)
{
    (void)ll;
    return HPE_PAUSED; /* what follows is framed by the caller's rules, not llhttp's */
}

/* Decoding may be in place (h1_origin_body), so source and target may overlap. */
static int
h1_on_body(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;

    memmove(p->out + p->out_len, at, len);
    p->out_len += len;
    return 0;
}

static int
h1_on_chunk_header(llhttp_t *ll)
{
    struct h1_parser *p = ll->data;

    if (ll->content_length > INT64_MAX)
        return h1_fail(p, TERR_FRAMING);
    p->ext_line = 0;
    p->in_trailer = ll->content_length == 0;
    return p->in_trailer ? HPE_PAUSED : 0; /* llhttp would obey the fields there */
}

/* The next size line begins: back to h1_chunk_step(), which counts its digits. */
static int
h1_on_chunk_complete(llhttp_t *ll)
{
    struct h1_parser *p = ll->data;

    p->in_size = true;
    p->digits = 0;
    return HPE_PAUSED;
}

/* The processor is asked when the process runs: the same binary serves machines without SSE4.2. */
static void
h1_choose(bool plainly)
{
    h1_execute = llhttp__internal_execute;
#if defined(TARN_LLHTTP_SSE42)
    if (!plainly && __builtin_cpu_supports("sse4.2"))
        h1_execute = llhttp_sse42_execute;
#else
    (void)plainly;
#endif
}

/* Once in a process.  llhttp never sees the start lines of messages, which are judged more
 * strictly here; it goes on from a copy of a state that has read a canonical one. */
static void
h1_prepare(void)
{
    static const char request[] = "GET / HTTP/1.1\r\n", response[] = "HTTP/1.1 200 OK\r\n";

    llhttp_settings_init(&h1_settings);
    h1_settings.on_header_field = h1_on_field;
    h1_settings.on_header_value = h1_on_value;
    h1_settings.on_header_value_complete = h1_on_value_complete;
    h1_settings.on_headers_complete = h1_on_headers_complete;
    h1_settings.on_body = h1_on_body;
    h1_settings.on_chunk_header = h1_on_chunk_header;
    h1_settings.on_chunk_complete = h1_on_chunk_complete;
    h1_choose(false);
    llhttp_init(&h1_templates[0], HTTP_REQUEST, &h1_settings);
    tassert(llhttp_execute(&h1_templates[0], request, sizeof(request) - 1) == HPE_OK);
    llhttp_init(&h1_templates[1], HTTP_RESPONSE, &h1_settings);
    tassert(llhttp_execute(&h1_templates[1], response, sizeof(response) - 1) == HPE_OK);
}

void
h1_parse_begin(struct h1_parser *p, bool is_response, struct http_message *head,
    const struct h1_limits *limits)
{
    head->version_major = 1; /* of one without a first line, too */
    head->version_minor = 0;
    head->forms = 0;
    p->head = head;
    p->limits = limits;
    p->is_response = is_response;
    p->in_size = true;
}

void
h1_parse_init(struct h1_parser *p, bool is_response, struct http_message *head,
    const struct h1_limits *limits)
{
    memset(p, 0, offsetof(struct h1_parser, ll));
    *head = (struct http_message){.fields = head->fields, .max_fields = head->max_fields};
    h1_parse_begin(p, is_response, head, limits);
}

void
h1_parse_plainly(bool plainly)
{
    pthread_once(&h1_once, h1_prepare);
    h1_choose(plainly);
}

/* llhttp begins where its canonical start line ends. */
static void
h1_begin_fields(struct h1_parser *p)
{
    pthread_once(&h1_once, h1_prepare);
    memcpy(p->ll.bytes, &h1_templates[p->is_response], sizeof(llhttp_t));
    h1_ll(p)->data = p;
    p->ready = true;
    if (p->is_response && p->limits->bare_lf)
        llhttp_set_lenient_optional_cr_before_lf(h1_ll(p), 1);
}

/* "HTTP/1.0" or "HTTP/1.1", nothing else (RFC 9112 2.3). */
static int
h1_parse_version(struct http_message *h, const char *s, size_t len)
{
    if (len != 8 || memcmp(s, "HTTP/", 5) != 0)
        return TERR_SYNTAX;
    if (s[5] < '0' || s[5] > '9' || s[6] != '.' || s[7] < '0' || s[7] > '9')
        return TERR_SYNTAX;
    if (s[5] != '1' || s[7] > '1')
        return TERR_VERSION;
    h->version_minor = s[7] & 1;
    return 0;
}

/* method SP request-target SP HTTP-version; one SP each (RFC 9112 3). */
static int
h1_parse_request_line(struct http_message *h, const char *s, size_t len)
{
    const char *end = s + len, *sp1 = memchr(s, ' ', len), *sp2;
    int err;

    if (sp1 == NULL)
        return TERR_SYNTAX;
    sp2 = memchr(sp1 + 1, ' ', (size_t)(end - sp1 - 1));
    if (sp2 == NULL || sp2 == sp1 + 1)
        return TERR_SYNTAX; /* HTTP/0.9, or an empty target */
    err = h1_parse_version(h, sp2 + 1, (size_t)(end - sp2 - 1));
    if (err != 0)
        return err;
    h->method_len = (uint16_t)(sp1 - s);
    h->target_off = (uint16_t)(sp1 + 1 - s);
    h->target_len = (uint16_t)(sp2 - sp1 - 1);
    if (!http_token_ok(slice_of(s, h->method_len)) ||
        !http_target_bytes_ok(slice_of(sp1 + 1, h->target_len)))
        return TERR_SYNTAX;
    h->method = (uint8_t)http_method_id(slice_of(s, h->method_len));
    return 0;
}

/* HTTP-version SP 3DIGIT SP reason (RFC 9112 4); the SP may be missing with the reason. */
static int
h1_parse_status_line(struct http_message *h, const char *s, size_t len, bool any_status)
{
    int err;

    if (len < 12 || s[8] != ' ' || (len > 12 && s[12] != ' '))
        return TERR_SYNTAX;
    err = h1_parse_version(h, s, 8);
    if (err != 0)
        return err;
    for (int i = 9; i < 12; i++) {
        if (s[i] < '0' || s[i] > '9')
            return TERR_SYNTAX;
        h->status = (uint16_t)(h->status * 10 + (s[i] - '0'));
    }
    if (h->status < 100)
        return TERR_SYNTAX;
    if (h->status > 599 && !any_status)
        return TERR_STATUS;
    h->reason_off = (uint16_t)(len > 12 ? 13 : 12);
    h->reason_len = (uint16_t)(len - h->reason_off);
    return http_value_ok(slice_of(s + h->reason_off, h->reason_len)) ? 0 : TERR_SYNTAX;
}

/* A good line in one pass; any other is judged by h1_parse_request_line(). */
static bool
h1_parse_usual_line(struct h1_parser *p, const char *bytes, size_t len)
{
    size_t look = len < p->limits->line_max + 2 ? len : p->limits->line_max + 2;
    const char *end = bytes + look, *at = bytes, *target;
    enum http_method method = HTTP_M_GET;
    struct http_message *h = p->head;

    if (look > 4 && memcmp(bytes, "GET ", 4) == 0) {
        at += 3;
    } else {
        while (at < end && http_char_is(*at, HTTP_C_TCHAR))
            at++;
        if (at == bytes || at == end || *at != ' ')
            return false;
        method = http_method_id(slice_of(bytes, (size_t)(at - bytes)));
    }
    target = ++at;
    while (at < end && http_char_is(*at, HTTP_C_TARGET))
        at++;
    if (at == target || end - at < 11 || memcmp(at, " HTTP/1.", 8) != 0 || (at[8] & ~1) != '0' ||
        at[9] != '\r' || at[10] != '\n')
        return false;
    h->version_minor = at[8] & 1;
    h->method = (uint8_t)method;
    h->method_len = (uint16_t)(target - 1 - bytes);
    h->target_off = (uint16_t)(target - bytes);
    h->target_len = (uint16_t)(at - target);
    p->fed = (uint32_t)(at + 11 - bytes);
    p->line_done = true;
    return true;
}

int
h1_parse_line(struct h1_parser *p, const char *bytes, size_t len)
{
    size_t look = len < p->limits->line_max + 2 ? len : p->limits->line_max + 2;
    const char *nl;
    size_t line;
    int err;

    p->head->base = p->base = bytes;
    if (!p->is_response && h1_parse_usual_line(p, bytes, len))
        return 1;
    nl = memchr(bytes, '\n', look);
    if (nl == NULL) {
        if (len >= p->limits->line_max + 2)
            return p->is_response ? TERR_HEADTOOBIG : TERR_URITOOLONG;
        return 0;
    }
    line = (size_t)(nl - bytes);
    if (line > 0 && nl[-1] == '\r')
        line--;
    else if (!p->is_response || !p->limits->bare_lf)
        return p->is_response ? TERR_BARELF : TERR_SYNTAX; /* it ends no line (RFC 9112 2.2) */
    err = p->is_response ? h1_parse_status_line(p->head, bytes, line, p->limits->any_status)
                         : h1_parse_request_line(p->head, bytes, line);
    if (err != 0)
        return err;
    p->fed = (uint32_t)(nl + 1 - bytes);
    p->line_done = true;
    return 1;
}

int
h1_parse_leading(struct h1_parser *p, const char *bytes, size_t len)
{
    size_t n = 0;

    while (n + 1 < len && bytes[n] == '\r' && bytes[n + 1] == '\n') {
        n += 2;
        if (++p->leading > LIMIT_LEADING_CRLF)
            return TERR_SYNTAX;
    }
    return (int)n;
}

/* Is that why llhttp gave up on a response's head?  Its place of an error may lie behind the LF. */
static bool
h1_is_bare_lf(struct h1_parser *p, const char *bytes, size_t len)
{
    const char *at = llhttp_get_error_pos(h1_ll(p));

    for (size_t i = 1; p->is_response && i < len && bytes + i <= at; i++)
        if (bytes[i] == '\n' && bytes[i - 1] != '\r')
            return true;
    return false;
}

/* May be called again with more of the same head: llhttp goes on at `fed`.  The bytes may have
 * moved meanwhile, so nothing but offsets is kept of them. */
int
h1_parse_head(struct h1_parser *p, const char *bytes, size_t len)
{
    llhttp_t *ll = h1_ll(p);
    size_t end = len < p->limits->head_max ? len : p->limits->head_max;
    llhttp_errno_t rc;

    tassert(!p->head_done);
    if (p->err != 0)
        return p->err;
    p->head->base = p->base = bytes;
    if (!p->line_done) {
        int line = h1_parse_line(p, bytes, len);

        if (line <= 0)
            return p->err = line;
    }
    if (!p->ready)
        h1_begin_fields(p);
    if (p->fed < end) {
        rc = (llhttp_errno_t)h1_execute(ll, bytes + p->fed, bytes + end);
        if (rc == HPE_PAUSED) {
            p->head->len = (uint16_t)(llhttp_get_error_pos(ll) - bytes);
            p->head_done = true;
            llhttp_resume(ll);
            if (p->is_response)
                llhttp_set_lenient_optional_cr_before_lf(ll, 0); /* chunks are read strictly */
            return 1;
        }
        if (rc != HPE_OK) {
            if (p->err == 0)
                p->err = h1_is_bare_lf(p, bytes, end) ? TERR_BARELF : TERR_SYNTAX;
            return p->err;
        }
        p->fed = (uint32_t)end;
    }
    if (len >= p->limits->head_max)
        return p->err = TERR_HEADTOOBIG;
    if (p->head->nfields > 0) {
        const struct http_field *f = &p->head->fields[p->head->nfields - 1];

        /* behind a whole line: its CRLF, and the CR of the blank line that may follow */
        if (len > f->name_off + p->limits->field_max + 3)
            return p->err = TERR_HEADTOOBIG;
    }
    return 0;
}

/* Where in the extensions of a chunk we are.  RFC 9112 7.1.1: *( BWS ";" BWS name [ BWS "=" BWS value ] ),
 * name a token, value a token or quoted.  llhttp takes no white space there, so it never sees them. */
enum h1_ext {
    EXT_NONE,  /* in none */
    EXT_BLANK, /* white space, behind a size, a name with its value, or a name: ';' comes */
    EXT_BEFORE_NAME,
    EXT_NAME,
    EXT_AFTER_NAME, /* white space: '=' or ';' comes */
    EXT_BEFORE_VALUE,
    EXT_VALUE,
    EXT_QUOTED,
    EXT_ESCAPED,  /* behind a '\\' */
    EXT_UNQUOTED, /* behind the closing '"' */
    EXT_BAD,
};

static bool
h1_ext_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Behind a whole extension, or the size. */
static enum h1_ext
h1_ext_next(char c)
{
    return c == ';' ? EXT_BEFORE_NAME : h1_ext_is_blank(c) ? EXT_BLANK : EXT_BAD;
}

static enum h1_ext
h1_ext_step(enum h1_ext at, char c)
{
    switch (at) {
    case EXT_BLANK:
    case EXT_UNQUOTED:
        return h1_ext_next(c);
    case EXT_BEFORE_NAME:
        return h1_ext_is_blank(c) ? at : http_char_is(c, HTTP_C_TCHAR) ? EXT_NAME : EXT_BAD;
    case EXT_NAME:
        if (http_char_is(c, HTTP_C_TCHAR))
            return at;
        return c == '=' ? EXT_BEFORE_VALUE : h1_ext_is_blank(c) ? EXT_AFTER_NAME : h1_ext_next(c);
    case EXT_AFTER_NAME:
        return c == '=' ? EXT_BEFORE_VALUE : h1_ext_is_blank(c) ? at : h1_ext_next(c);
    case EXT_BEFORE_VALUE:
        if (h1_ext_is_blank(c))
            return at;
        return c == '"' ? EXT_QUOTED : http_char_is(c, HTTP_C_TCHAR) ? EXT_VALUE : EXT_BAD;
    case EXT_VALUE:
        return http_char_is(c, HTTP_C_TCHAR) ? at : h1_ext_next(c);
    case EXT_QUOTED:
        if (c == '"')
            return EXT_UNQUOTED;
        return c == '\\' ? EXT_ESCAPED : http_char_is(c, HTTP_C_VALUE) ? at : EXT_BAD;
    case EXT_ESCAPED:
        return http_char_is(c, HTTP_C_VALUE) ? EXT_QUOTED : EXT_BAD;
    case EXT_NONE:
    case EXT_BAD:
        break;
    }
    return EXT_BAD;
}

/* Reads extensions, up to the CR of their line.  How many bytes, or TERR_FRAMING. */
static ssize_t
h1_chunk_ext(struct h1_parser *p, const char *bytes, size_t len)
{
    enum h1_ext at = (enum h1_ext)p->ext;
    size_t i;

    for (i = 0; i < len && bytes[i] != '\r' && at != EXT_BAD; i++)
        at = h1_ext_step(at, bytes[i]);
    p->ext_line += (uint32_t)i;
    p->ext_body += (uint32_t)i;
    if (at == EXT_BAD || p->ext_line > LIMIT_CHUNK_EXT_LINE || p->ext_body > LIMIT_CHUNK_EXT_BODY)
        return TERR_FRAMING;
    if (i < len) { /* here is the CR: only behind a name or a value */
        if (at != EXT_NAME && at != EXT_VALUE && at != EXT_UNQUOTED)
            return TERR_FRAMING;
        at = EXT_NONE;
    }
    p->ext = (uint8_t)at;
    return (ssize_t)i;
}

/* Bytes to give to llhttp: all, or the digits of a size with extensions behind them.  TERR_FRAMING: a
 * size has more than 16 digits, leading zeros included, which llhttp would read for ever. */
static ssize_t
h1_chunk_size(struct h1_parser *p, const char *bytes, size_t len)
{
    size_t i;

    for (i = 0; i < len && p->in_size; i++) {
        p->in_size = (bytes[i] >= '0' && bytes[i] <= '9') ||
                     ((bytes[i] | 0x20) >= 'a' && (bytes[i] | 0x20) <= 'f');
        if (p->in_size && ++p->digits > 16)
            return TERR_FRAMING;
        if (!p->in_size && p->digits > 0 && bytes[i] != '\r') {
            if (h1_ext_next(bytes[i]) == EXT_BAD)
                return TERR_FRAMING;
            p->ext = EXT_BLANK;
            return (ssize_t)i;
        }
    }
    return (ssize_t)len;
}

/* Where in the trailer section. */
enum h1_trailer {
    TRAILER_LINE, /* at the beginning of one */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_CR,     /* behind that of a field line */
    TRAILER_END_CR, /* behind that of the blank line */
    TRAILER_END,
    TRAILER_BAD,
};

static enum h1_trailer
h1_trailer_step(enum h1_trailer at, char c)
{
    switch (at) {
    case TRAILER_LINE:
        return c == '\r'                       ? TRAILER_END_CR
               : http_char_is(c, HTTP_C_TCHAR) ? TRAILER_NAME
                                               : TRAILER_BAD;
    case TRAILER_NAME:
        return http_char_is(c, HTTP_C_TCHAR) ? at : c == ':' ? TRAILER_VALUE : TRAILER_BAD;
    case TRAILER_VALUE:
        return http_char_is(c, HTTP_C_VALUE) ? at : c == '\r' ? TRAILER_CR : TRAILER_BAD;
    case TRAILER_CR:
        return c == '\n' ? TRAILER_LINE : TRAILER_BAD;
    case TRAILER_END_CR:
        return c == '\n' ? TRAILER_END : TRAILER_BAD;
    case TRAILER_END:
    case TRAILER_BAD:
        break;
    }
    return TRAILER_BAD;
}

/* Reads the trailer section, judged as fields are and discarded, whatever they are called.  As
 * h1_chunk_step(). */
static ssize_t
h1_chunk_trailer(struct h1_parser *p, const char *bytes, size_t len)
{
    enum h1_trailer at = (enum h1_trailer)p->trailer_at;
    size_t i = 0;

    while (i < len && at != TRAILER_END && at != TRAILER_BAD)
        at = h1_trailer_step(at, bytes[i++]);
    p->trailer_at = (uint8_t)at;
    p->trailer += (uint32_t)i;
    p->body_done = at == TRAILER_END;
    return at == TRAILER_BAD || p->trailer > p->limits->head_max ? TERR_FRAMING : (ssize_t)i;
}

/* Runs llhttp to the next size line, the trailer, the end, or where the bytes end.  How many
 * were read, or TERR_*. */
static ssize_t
h1_chunk_step(struct h1_parser *p, const char *bytes, size_t len)
{
    llhttp_t *ll = h1_ll(p);
    llhttp_errno_t rc;
    ssize_t n;

    if (p->in_trailer)
        return h1_chunk_trailer(p, bytes, len);
    if (p->ext != EXT_NONE)
        return h1_chunk_ext(p, bytes, len);
    n = h1_chunk_size(p, bytes, len);
    if (n <= 0)
        return n; /* 0: extensions come, and are read by the next step */
    rc = (llhttp_errno_t)h1_execute(ll, bytes, bytes + n);
    if (rc == HPE_PAUSED) {
        n = llhttp_get_error_pos(ll) - bytes;
        llhttp_resume(ll);
    } else if (rc != HPE_OK) {
        return p->err != 0 ? p->err : TERR_FRAMING;
    }
    return n;
}

static ssize_t
h1_body_chunked(
    struct h1_parser *p, const char *bytes, size_t len, char *out, size_t room, size_t *used)
{
    size_t feed = len < room ? len : room; /* decoded is never longer than what was read */

    p->out = out;
    p->out_len = 0;
    h1_ll(p)->flags |= F_CHUNKED; /* says framing.h; llhttp misses "chunked" before a tab */
    while (*used < feed && !p->body_done) { /* of two steps one reads at least a byte */
        ssize_t n = h1_chunk_step(p, bytes + *used, feed - *used);

        if (n < 0)
            return p->err = (int)n;
        *used += (size_t)n;
    }
    return (ssize_t)p->out_len;
}

ssize_t
h1_parse_body(
    struct h1_parser *p, const char *bytes, size_t len, char *out, size_t room, size_t *used)
{
    size_t n = len < room ? len : room;

    tassert(p->head_done && !p->body_done);
    *used = 0;
    if (p->err != 0)
        return p->err;
    switch (p->framing.kind) {
    case FRAMING_NONE:
        p->body_done = true;
        return 0;
    case FRAMING_CHUNKED:
        return n == 0 ? 0 : h1_body_chunked(p, bytes, len, out, room, used);
    case FRAMING_LENGTH:
        /* What lies behind the length is the next message.  Taken for body it would be smuggled
         * past every check (RFC 9112 11.2). */
        if (n > p->framing.length - p->taken)
            n = p->framing.length - p->taken;
        break;
    /* RFC 9112 6.3, rule 8: all bytes to the connection's end.  The caller decides whether that
     * end was an orderly one. */
    case FRAMING_CLOSE:
        break;
    }
    if (n > 0 && out != bytes)
        memmove(out, bytes, n);
    *used = n;
    p->taken += n;
    if (p->framing.kind == FRAMING_LENGTH && p->taken == p->framing.length)
        p->body_done = true;
    return (ssize_t)n;
}
