/* syslog_to.c -- where lines for a syslog daemon go, as configurations say it. */
#include "daemon/base/syslog_to.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define SYSLOG_LOCAL "/dev/log"

/* By their numbers. */
static const char *const syslog_facilities[] = {"kern", "user", "mail", "daemon", "auth", "syslog",
    "lpr", "news", "uucp", "cron", "authpriv", "ftp", NULL, NULL, NULL, NULL, "local0", "local1",
    "local2", "local3", "local4", "local5", "local6", "local7"};

static int
syslog_facility(struct slice name)
{
    for (unsigned i = 0; i < ARRAY_LEN(syslog_facilities); i++)
        /* 12 to 15 have no name that systems agree on. */
        if (syslog_facilities[i] != NULL && slice_eq(name, slice_str(syslog_facilities[i])))
            return (int)i;
    return TERR_NOTFOUND;
}

static int
syslog_unix(struct syslog_to *out, struct slice path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    if (path.len >= sizeof(un.sun_path))
        return TERR_CONFIG;
    memcpy(un.sun_path, path.ptr, path.len);
    memcpy(&out->addr, &un, sizeof(un));
    out->addr_len = sizeof(un);
    return 0;
}

/* "192.0.2.1:514", "[::1]:514".  No names: nothing here waits for a resolver.
 * RFC 5426: a datagram for each line, and no answer: an address that leads nowhere is not
 * noticed here. */
static int
syslog_udp(struct syslog_to *out, struct slice where)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    /* The last one: those of an IPv6 address stand before it. */
    const char *colon = memrchr(where.ptr, ':', where.len);
    char host[64], *end;
    size_t len = colon == NULL ? 0 : (size_t)(colon - where.ptr);
    char digits[8] = "";
    unsigned long port;

    if (len == 0 || len >= sizeof(host) || where.len - len - 1 >= sizeof(digits))
        return TERR_CONFIG;
    memcpy(digits, colon + 1, where.len - len - 1);
    port = strtoul(digits, &end, 10);
    /* strtoul(3) would take a sign. */
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || port == 0 || port > 65535)
        return TERR_CONFIG;
    memcpy(host, where.ptr, len);
    host[len] = '\0';
    if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
        in.sin_port = htons((uint16_t)port);
        memcpy(&out->addr, &in, sizeof(in));
        out->addr_len = sizeof(in);
        return 0;
    }
    if (len < 3 || host[0] != '[' || host[len - 1] != ']')
        return TERR_CONFIG;
    host[len - 1] = '\0';
    if (inet_pton(AF_INET6, host + 1, &in6.sin6_addr) != 1)
        return TERR_CONFIG;
    in6.sin6_port = htons((uint16_t)port);
    memcpy(&out->addr, &in6, sizeof(in6));
    out->addr_len = sizeof(in6);
    return 0;
}

int
syslog_to_parse(struct syslog_to *out, struct slice text, char *why, size_t why_size)
{
    static const struct slice prefix = SLICE_LIT("syslog:");
    struct slice name, where = SLICE_LIT(SYSLOG_LOCAL);
    const char *at;
    int facility, err;

    /* Not found: it is no syslog at all, but a file, say. */
    if (text.len < prefix.len || memcmp(text.ptr, prefix.ptr, prefix.len) != 0)
        return TERR_NOTFOUND;
    *out = (struct syslog_to){.facility = 0};
    name = slice_of(text.ptr + prefix.len, text.len - prefix.len);
    at = memchr(name.ptr, '@', name.len);
    if (at != NULL) {
        where = slice_of(at + 1, (size_t)(name.ptr + name.len - at) - 1);
        name.len = (size_t)(at - name.ptr);
    }
    facility = syslog_facility(name);
    if (facility < 0) {
        snprintf(why, why_size,
            "names no facility of syslog: daemon, user, local0 to local7, or another");
        return TERR_CONFIG;
    }
    out->facility = (unsigned)facility;
    err = where.len > 0 && where.ptr[0] == '/' ? syslog_unix(out, where) : syslog_udp(out, where);
    if (err != 0)
        snprintf(why, why_size,
            "names no place behind the @: a path of a socket, at most 107 bytes, or an address "
            "and a port, as in 192.0.2.1:514 or [2001:db8::1]:514");
    return err;
}

/* The months are not the locale's. */
size_t
syslog_to_head(char head[SYSLOG_HEAD_MAX], const struct syslog_to *to,
    enum syslog_severity severity, const char *what, time_t now)
{
    static const char months[12][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    unsigned priority = to->facility * 8 + (unsigned)severity;
    struct tm tm = {.tm_mday = 1};
    char host[256] = "";
    int n;

    /* Local daemons read RFC 3164, with local time and without a host; over the network it is RFC
     * 5424. */
    if (to->addr.ss_family == AF_UNIX) {
        localtime_r(&now, &tm);
        n = snprintf(head, SYSLOG_HEAD_MAX, "<%u>%s %2d %02d:%02d:%02d tarnd[%ld]: ", priority,
            months[tm.tm_mon], tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (long)getpid());
    } else {
        gmtime_r(&now, &tm);
        if (gethostname(host, sizeof(host) - 1) < 0 || host[0] == '\0')
            /* RFC 5424 6.2.4: the nil value. */
            snprintf(host, sizeof(host), "-");
        n = snprintf(head, SYSLOG_HEAD_MAX,
            "<%u>1 %04d-%02d-%02dT%02d:%02d:%02dZ %s tarnd %ld %s - ", priority, tm.tm_year + 1900,
            tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, host, (long)getpid(),
            what);
    }
    tassert(n > 0 && n < SYSLOG_HEAD_MAX);
    return (size_t)n;
}
