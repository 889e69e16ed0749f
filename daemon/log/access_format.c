/* access_format.c -- one request as a line. */
#include "daemon/log/access_format.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/log/access_format_priv.h"

/* Every string at its limit, every byte as \u00HH, and the rest of the line. */
_Static_assert(
    6 * (4 * SHMLOG_TEXT_MAX + SHMLOG_TLS_MAX + BACKEND_NAME_MAX) + 1280 <= ACCESS_LINE_MAX,
    "a line fits its buffer");

static char *
access_literal(char *to, const char *text)
{
    return stpcpy(to, text);
}

/* As nginx does: what could end the field, the line or the encoding is written \xHH. */
char *
access_escape(char *to, struct slice s)
{
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            *to++ = (char)c;
            continue;
        }
        *to++ = '\\';
        *to++ = 'x';
        *to++ = hex[c >> 4];
        *to++ = hex[c & 15];
    }
    return to;
}

/* A quoted string, "-" when there is none.
 * Room is the caller's: the assertion at the top of this file is for all texts at once, each
 * byte escaped. */
static char *
access_quoted(char *to, struct slice s)
{
    *to++ = '"';
    to = s.len == 0 ? access_literal(to, "-") : access_escape(to, s);
    *to++ = '"';
    return to;
}

size_t
access_client_text(char to[64], const struct shmlog_req_fixed *f)
{
    static const unsigned char v4_mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char none[16];

    /* As nginx writes it. */
    if (memcmp(f->addr, none, 16) == 0)
        access_literal(to, "unix:");
    else if (memcmp(f->addr, v4_mapped, 12) == 0)
        inet_ntop(AF_INET, f->addr + 12, to, INET_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, f->addr, to, INET6_ADDRSTRLEN);
    return strlen(to);
}

/* 21/Nov/2026:04:10:50 +0000: many requests share a second, so it is made once for them.
 * The months are not the locale's. */
char *
access_time_local(char *to, int64_t start_ms)
{
    static const char months[12][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    /* A copy for each thread, so there is no lock. */
    static _Thread_local char text[64];
    static _Thread_local time_t text_s = -1;
    time_t s = (time_t)(start_ms / 1000);
    struct tm tm;
    long off;

    if (s != text_s || text[0] == '\0') {
        if (localtime_r(&s, &tm) == NULL)
            return access_literal(to, "-"); /* a year that int does not hold */
        off = tm.tm_gmtoff / 60;
        snprintf(text, sizeof(text), "%02d/%s/%04ld:%02d:%02d:%02d %c%02ld%02ld", tm.tm_mday,
            months[tm.tm_mon], tm.tm_year + 1900L, tm.tm_hour, tm.tm_min, tm.tm_sec,
            off < 0 ? '-' : '+', labs(off) / 60, labs(off) % 60);
        text_s = s;
    }
    return access_literal(to, text);
}

/* What was not a request is shown as it came. */
char *
access_request(char *to, const struct shmlog_req *r)
{
    if (r->line.len == 0)
        return access_literal(to, "-");
    to = access_escape(to, r->line);
    /* Of a malformed request the version is a guess. */
    if ((r->fixed.flags & SHMLOG_REQ_BAD) == 0)
        to = access_literal(access_literal(to, " "), shmlog_version_text(r->fixed.version));
    return to;
}

static size_t
access_line_combined(char *buf, const struct shmlog_req *r)
{
    char *to = buf + access_client_text(buf, &r->fixed);

    /* Apache's identity and user: there is neither. */
    to = access_literal(to, " - - [");
    to = access_time_local(to, r->fixed.start_ms);
    to = access_literal(to, "] \"");
    to = access_request(to, r);
    to += sprintf(to, "\" %u %llu ", r->fixed.status, (unsigned long long)r->fixed.body_bytes);
    to = access_quoted(to, r->referer);
    *to++ = ' ';
    to = access_quoted(to, r->agent);
    *to++ = '\n';
    return (size_t)(to - buf);
}

/* ---- JSON ---- */

/* Bytes of the UTF-8 character at p (RFC 3629 4), or 0: it is none. */
static size_t
access_utf8(const unsigned char *p, size_t n)
{
    unsigned char least = 0x80, most = 0xbf;
    size_t len = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

    if (len == 0 || len > n)
        return 0;
    if (p[0] == 0xe0)
        least = 0xa0; /* shorter forms are forbidden */
    else if (p[0] == 0xed)
        most = 0x9f; /* surrogates */
    else if (p[0] == 0xf0)
        least = 0x90;
    else if (p[0] == 0xf4)
        most = 0x8f; /* beyond U+10FFFF */
    if (p[1] < least || p[1] > most)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

/* RFC 8259 7.  Control characters of the upper half are written as numbers, too: a terminal obeys
 * them.
 * Six bytes for each at most, by the same assertion: no length is looked at here. */
static char *
access_json_text(char *to, struct slice s)
{
    static const char hex[] = "0123456789abcdef";
    size_t len;

    for (size_t i = 0; i < s.len; i += len) {
        const unsigned char *p = (const unsigned char *)s.ptr + i;

        len = *p < 0x80 ? 1 : access_utf8(p, s.len - i);
        /* C1 controls: valid UTF-8, and commands to some terminals. */
        if (len == 2 && p[0] == 0xc2 && p[1] < 0xa0)
            to += sprintf(to, "\\u%04x", p[1]);
        else if (len > 1)
            to = mempcpy(to, p, len);
        else if (len == 1 && *p >= 0x20 && *p < 0x7f) {
            if (*p == '"' || *p == '\\')
                *to++ = '\\';
            *to++ = (char)*p;
        } else {
            to = access_literal(to, "\\u00");
            *to++ = hex[*p >> 4];
            *to++ = hex[*p & 15];
            /* A byte that is no UTF-8 goes by its number, so that nothing is lost. */
            len = 1;
        }
    }
    return to;
}

/* ,"name":"text", or null when there is none. */
static char *
access_json_string(char *to, const char *name, struct slice s)
{
    to += sprintf(to, ",\"%s\":", name);
    if (s.ptr == NULL || s.len == 0)
        return access_literal(to, "null");
    *to++ = '"';
    to = access_json_text(to, s);
    *to++ = '"';
    return to;
}

static char *
access_json_number(char *to, const char *name, uint64_t n)
{
    return to + sprintf(to, ",\"%s\":%llu", name, (unsigned long long)n);
}

/* Always there, also when false: programs that read the lines need not know which members may be
 * missing. */
static char *
access_json_flag(char *to, const char *name, bool is)
{
    return to + sprintf(to, ",\"%s\":%s", name, is ? "true" : "false");
}

/* RFC 3339 5.6, in UTC; its years have four digits. */
char *
access_time_utc(char *to, int64_t start_ms)
{
    time_t s = (time_t)(start_ms / 1000);
    struct tm tm;

    /* A record that is damaged: no time is better than a wrong one. */
    if (start_ms < 0 || gmtime_r(&s, &tm) == NULL || tm.tm_year > 9999 - 1900)
        return NULL;
    return to + sprintf(to, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                    tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(start_ms % 1000));
}

static char *
access_json_time(char *to, int64_t start_ms)
{
    char *end;

    to = access_literal(to, "{\"time\":\"");
    end = access_time_utc(to, start_ms);
    /* Without the quote that was begun. */
    return end != NULL ? access_literal(end, "\"") : access_literal(to - 1, "null");
}

/* Method and target as they came.  What was not a request is all `url`. */
void
access_request_split(const struct shmlog_req *r, struct slice *method, struct slice *url)
{
    const char *space = r->line.len > 0 ? memchr(r->line.ptr, ' ', r->line.len) : NULL;

    *method = slice_of(NULL, 0);
    *url = r->line;
    if (space != NULL && (r->fixed.flags & SHMLOG_REQ_BAD) == 0) {
        *method = slice_of(r->line.ptr, (size_t)(space - r->line.ptr));
        *url = slice_of(space + 1, r->line.len - method->len - 1);
    }
}

static char *
access_json_request(char *to, const struct shmlog_req *r)
{
    struct slice method, url;
    const char *protocol = shmlog_version_text(r->fixed.version);

    access_request_split(r, &method, &url);
    to = access_json_string(to, "method", method);
    to = access_json_string(to, "url", url);
    to = access_json_string(to, "host", r->host);
    return access_json_string(
        to, "protocol", method.ptr != NULL ? slice_str(protocol) : slice_of(NULL, 0));
}

/* By its name; by its number where that is not known. */
static char *
access_json_backend(
    char *to, const struct shmlog_req_fixed *f, const struct backend_names_view *names)
{
    char name[BACKEND_NAME_MAX];
    size_t n;

    if (f->backend == 0)
        return access_literal(to, ",\"backend\":null");
    /* By the time of the request: a number may have been another backend's before. */
    n = names != NULL ? backend_names_view_get(names, f->backend - 1u, f->start_ms, name) : 0;
    return n > 0 ? access_json_string(to, "backend", slice_of(name, n))
                 : access_json_number(to, "backend", f->backend - 1u);
}

const char *
access_scheme(const struct shmlog_req_fixed *f)
{
    return f->flags & SHMLOG_REQ_HTTPS ? "https" : "http";
}

/* null: the connection was not encrypted, or not by us. */
static char *
access_json_tls(char *to, const struct shmlog_req *r)
{
    struct slice reused = shmlog_req_tls(r, SHMLOG_TLS_reused);

    to = access_literal(to, ",\"tls\":");
    if (r->tls.len == 0)
        return access_literal(to, "null");
    /* The flag first: each of the texts begins with a comma. */
    to += sprintf(to, "{\"resumed\":%s,\"early_data\":%s",
        reused.len == 1 && *reused.ptr == 'r' ? "true" : "false",
        r->fixed.flags & SHMLOG_REQ_EARLY ? "true" : "false");
    for (unsigned i = 0; i < SHMLOG_TLS_COUNT; i++)
        if (i != SHMLOG_TLS_reused)
            to = access_json_string(to, shmlog_tls_name(i), shmlog_req_tls(r, i));
    return access_literal(to, "}");
}

static char *
access_json_outcome(char *to, const struct shmlog_req_fixed *f)
{
    const char *word = access_cache_word(f->flags);

    to = access_json_number(to, "status", f->status);
    to = access_json_number(to, "bytes", f->head_bytes + f->body_bytes);
    to = access_json_number(to, "body_bytes", f->body_bytes);
    to = access_json_number(to, "bytes_in", f->bytes_in);
    to = access_json_number(to, "duration_us", f->duration_us);
    to = access_json_number(to, "ttfb_us", f->ttfb_us);
    /* null: nothing was answered. */
    to = access_json_string(to, "cache", word != NULL ? slice_str(word) : slice_of(NULL, 0));
    to = access_json_flag(to, "queued", f->flags & SHMLOG_REQ_QUEUED);
    to = access_json_flag(to, "truncated", f->flags & SHMLOG_REQ_TRUNCATED);
    to = access_json_flag(to, "restarted", f->flags & SHMLOG_REQ_RESTARTED);
    to = access_json_flag(to, "revalidated", f->flags & SHMLOG_REQ_REVALIDATED);
    return access_json_flag(to, "malformed", f->flags & SHMLOG_REQ_BAD);
}

static size_t
access_line_json(char *buf, const struct shmlog_req *r, const struct backend_names_view *names)
{
    char *to = access_json_time(buf, r->fixed.start_ms), client[64];

    access_client_text(client, &r->fixed);
    to = access_json_string(to, "client", slice_str(client));
    to = access_json_number(to, "port", r->fixed.port);
    to = access_json_request(to, r);
    to = access_json_outcome(to, &r->fixed);
    to = access_json_backend(to, &r->fixed, names);
    to = access_json_string(to, "referer", r->referer);
    to = access_json_string(to, "user_agent", r->agent);
    to = access_json_string(to, "scheme", slice_str(access_scheme(&r->fixed)));
    to = access_json_tls(to, r);
    if (shmlog_level(r->fixed.flags) > 0)
        to += sprintf(to, ",\"esi\":{\"level\":%u,\"parent\":\"%016llx\"}",
            shmlog_level(r->fixed.flags), (unsigned long long)r->ids.parent_xid);
    /* A text: 64 bits are more than a number of JSON keeps. */
    to += sprintf(to, ",\"xid\":\"%016llx\"}\n", (unsigned long long)r->ids.xid);
    return (size_t)(to - buf);
}

/* ---- both ---- */

static const char *const access_formats[] = {
    [ACCESS_FORMAT_COMBINED] = "combined", [ACCESS_FORMAT_JSON] = "json"};

int
access_format_parse(enum access_format *out, const char *word)
{
    for (unsigned i = 0; i < ARRAY_LEN(access_formats); i++)
        if (strcmp(word, access_formats[i]) == 0) {
            *out = (enum access_format)i;
            return 0;
        }
    return TERR_CONFIG;
}

const char *
access_cache_word(unsigned flags)
{
    enum request_result result = shmlog_result(flags);

    return result == RESULT_none ? NULL : shmlog_result_word(result);
}

/* In the access log's thread, and in the management loop for /v1/log: nothing here is shared
 * between them but the names, which are read without a lock. */
size_t
access_format_named(char *buf, enum access_format how, const struct shmlog_req *r,
    const struct backend_names_view *names)
{
    size_t n;

    /* What makes the static assertion above hold. */
    tassert(r->line.len <= SHMLOG_TEXT_MAX && r->host.len <= SHMLOG_TEXT_MAX);
    tassert(r->referer.len <= SHMLOG_TEXT_MAX);
    tassert(r->agent.len <= SHMLOG_TEXT_MAX);
    n = how == ACCESS_FORMAT_JSON ? access_line_json(buf, r, names) : access_line_combined(buf, r);
    tassert(n <= ACCESS_LINE_MAX);
    return n;
}

size_t
access_format_line(char *buf, enum access_format how, const struct shmlog_req *r)
{
    return access_format_named(buf, how, r, NULL);
}
