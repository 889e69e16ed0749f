/* access_log_format.c -- one request as a line in the combined format. */
#include "daemon/shm/access_log.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/tassert.h"
#include "daemon/shm/log.h"

/* Every string at its limit, every byte as \xHH, and the rest of the line. */
_Static_assert(4 * 3 * SHMLOG_TEXT_MAX + 512 <= ACCESS_LOG_LINE_MAX, "a line fits its buffer");

static char *
access_log_literal(char *to, const char *text)
{
    return stpcpy(to, text);
}

/* As nginx does: what could end the field, the line or the encoding is written \xHH. */
static char *
access_log_escape(char *to, struct slice s)
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

/* A quoted string, "-" when there is none. */
static char *
access_log_quoted(char *to, struct slice s)
{
    *to++ = '"';
    to = s.len == 0 ? access_log_literal(to, "-") : access_log_escape(to, s);
    *to++ = '"';
    return to;
}

static char *
access_log_client(char *to, const struct shmlog_req_fixed *f)
{
    static const unsigned char v4_mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char none[16];

    if (memcmp(f->addr, none, 16) == 0)
        return access_log_literal(to, "unix:");
    if (memcmp(f->addr, v4_mapped, 12) == 0)
        inet_ntop(AF_INET, f->addr + 12, to, INET_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, f->addr, to, INET6_ADDRSTRLEN);
    return to + strlen(to);
}

/* [21/Nov/2026:04:10:50 +0000]: many requests share a second, so it is made once for them.
 * The months are not the locale's. */
static char *
access_log_time(char *to, int64_t start_ms)
{
    static const char months[12][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    static _Thread_local char text[64];
    static _Thread_local time_t text_s = -1;
    time_t s = (time_t)(start_ms / 1000);
    struct tm tm;
    long off;

    if (s != text_s || text[0] == '\0') {
        if (localtime_r(&s, &tm) == NULL)
            return access_log_literal(to, "[-]"); /* a year that int does not hold */
        off = tm.tm_gmtoff / 60;
        snprintf(text, sizeof(text), "[%02d/%s/%04ld:%02d:%02d:%02d %c%02ld%02ld]", tm.tm_mday,
            months[tm.tm_mon], tm.tm_year + 1900L, tm.tm_hour, tm.tm_min, tm.tm_sec,
            off < 0 ? '-' : '+', labs(off) / 60, labs(off) % 60);
        text_s = s;
    }
    return access_log_literal(to, text);
}

/* What was not a request is shown as it came. */
static char *
access_log_request(char *to, const struct shmlog_req *r)
{
    if (r->line.len == 0 || (r->fixed.flags & SHMLOG_REQ_BAD))
        return access_log_quoted(to, r->line);
    *to++ = '"';
    to = access_log_escape(to, r->line);
    to += sprintf(to, " HTTP/1.%u", r->fixed.minor);
    *to++ = '"';
    return to;
}

size_t
access_log_format(char *buf, const struct shmlog_req *r)
{
    char *to = buf;

    tassert(r->line.len <= SHMLOG_TEXT_MAX);
    tassert(r->referer.len <= SHMLOG_TEXT_MAX);
    tassert(r->agent.len <= SHMLOG_TEXT_MAX);
    to = access_log_client(to, &r->fixed);
    to = access_log_literal(to, " - - ");
    to = access_log_time(to, r->fixed.start_ms);
    *to++ = ' ';
    to = access_log_request(to, r);
    to += sprintf(to, " %u %llu ", r->fixed.status, (unsigned long long)r->fixed.body_bytes);
    to = access_log_quoted(to, r->referer);
    *to++ = ' ';
    to = access_log_quoted(to, r->agent);
    *to++ = '\n';
    tassert((size_t)(to - buf) <= ACCESS_LOG_LINE_MAX);
    return (size_t)(to - buf);
}
