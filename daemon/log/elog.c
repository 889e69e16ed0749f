/* elog.c -- the error log. */
#include "daemon/log/elog.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/syslog_to.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog_priv.h"

static const char *const elog_names[] = {
    [ELOG_ERROR] = "error", [ELOG_WARN] = "warn", [ELOG_INFO] = "info", [ELOG_DEBUG] = "debug"};

static struct {
    /* any thread */
    _Atomic uint32_t least; /* enum elog_level */
    _Atomic uint32_t lines_per_s;
    _Atomic uint64_t window; /* second << 32 | lines asked for in it */
    _Atomic uint64_t dropped;
} elog_state = {.least = ELOG_INFO, .lines_per_s = 100};

/* Set once, before there is a second thread. */
static struct {
    int fd; /* -1: stderr */
    struct syslog_to to;
} elog_syslog = {.fd = -1};

void
elog_set(enum elog_level least, unsigned lines_per_s)
{
    atomic_store_explicit(&elog_state.least, (uint32_t)least, memory_order_relaxed);
    atomic_store_explicit(&elog_state.lines_per_s, lines_per_s, memory_order_relaxed);
}

/* Once, before there is a second thread; elog_set() may follow at any time. */
void
elog_init(enum elog_level least, unsigned lines_per_s)
{
    elog_set(least, lines_per_s);
    atomic_store_explicit(&elog_state.window, 0, memory_order_relaxed);
    atomic_store_explicit(&elog_state.dropped, 0, memory_order_relaxed);
}

int
elog_level_parse(enum elog_level *out, const char *word)
{
    for (unsigned i = 0; i < ARRAY_LEN(elog_names); i++)
        if (strcmp(word, elog_names[i]) == 0) {
            *out = (enum elog_level)i;
            return 0;
        }
    return TERR_CONFIG;
}

uint64_t
elog_dropped(void)
{
    return atomic_load_explicit(&elog_state.dropped, memory_order_relaxed);
}

static uint32_t
elog_over(uint64_t window)
{
    uint32_t asked = (uint32_t)window;
    /* Read each time: log_rate may change while the second goes on. */
    uint32_t most = atomic_load_explicit(&elog_state.lines_per_s, memory_order_relaxed);

    return asked > most ? asked - most : 0;
}

/* The thread that moves the window to a new second inherits what the old one dropped, so it is
 * reported once.  A thread with an older clock reading counts towards the new second. */
static uint64_t
elog_window_move(uint32_t now_s, uint32_t *lost)
{
    uint64_t old = atomic_load_explicit(&elog_state.window, memory_order_relaxed), new;

    do {
        *lost = 0;
        if ((uint32_t)(old >> 32) >= now_s && old != 0)
            /* It stays there: wrapped, it would run over into the second. */
            new = (uint32_t)old == UINT32_MAX ? old : old + 1;
        else {
            *lost = elog_over(old);
            new = (uint64_t)now_s << 32 | 1;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &elog_state.window, &old, new, memory_order_relaxed, memory_order_relaxed));
    return new;
}

/* Relaxed atomics, no lock: a line too many in a second that just began does no harm. */
bool
elog_admit(uint32_t now_s, uint32_t *lost)
{
    bool admitted = elog_over(elog_window_move(now_s, lost)) == 0;

    if (!admitted)
        atomic_fetch_add_explicit(&elog_state.dropped, 1, memory_order_relaxed);
    return admitted;
}

/* Appends text with what is not printable ASCII as \xHH; returns the new length, <= max. */
static size_t
elog_escape(char *to, size_t len, size_t max, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f) {
            if (len + 1 > max)
                break;
            to[len++] = (char)c;
        } else {
            /* Whole or not at all: a cut \x is no escape. */
            if (len + 4 > max)
                break;
            to[len++] = '\\';
            to[len++] = 'x';
            to[len++] = hex[c >> 4];
            to[len++] = hex[c & 15];
        }
    }
    return len;
}

int
elog_to_syslog(const struct syslog_to *to)
{
    int fd = socket(to->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return TERR_IO;
    elog_syslog.to = *to;
    elog_syslog.fd = fd;
    return 0;
}

/* A daemon that was restarted, or came later than we, is found by connecting again: any thread
 * may. */
static bool
elog_send(const struct iovec *iov, int n)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
    const struct syslog_to *to = &elog_syslog.to;

    /* Tried first: it is connected nearly always. */
    if (sendmsg(elog_syslog.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return true;
    /* A daemon that is slow is there: the line goes to stderr instead. */
    return errno != EAGAIN &&
           connect(elog_syslog.fd, (const struct sockaddr *)&to->addr, to->addr_len) == 0 &&
           sendmsg(elog_syslog.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static bool
elog_write_syslog(time_t now, enum elog_level level, const char *text, size_t n)
{
    static const enum syslog_severity severities[] = {[ELOG_ERROR] = SYSLOG_SEVERITY_ERROR,
        [ELOG_WARN] = SYSLOG_SEVERITY_WARN,
        [ELOG_INFO] = SYSLOG_SEVERITY_INFO,
        [ELOG_DEBUG] = SYSLOG_SEVERITY_DEBUG};
    char head[SYSLOG_HEAD_MAX], line[ELOG_LINE_MAX];
    struct iovec iov[2] = {{head, 0}, {line, 0}};

    if (elog_syslog.fd < 0)
        return false;
    iov[0].iov_len = syslog_to_head(head, &elog_syslog.to, severities[level], "error", now);
    iov[1].iov_len = elog_escape(line, 0, sizeof(line), text, n);
    return elog_send(iov, 2);
}

/* One line in one write.  When stderr cannot be written the line is lost. */
static void
elog_write(const struct timespec *now, enum elog_level level, const char *text, size_t n)
{
    char line[ELOG_LINE_MAX + 64];
    struct tm tm;
    size_t len;
    ssize_t done;

    /* Else to stderr, so that an error is not lost with the daemon. */
    if (elog_write_syslog(now->tv_sec, level, text, n))
        return;
    gmtime_r(&now->tv_sec, &tm);
    len = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
    len += (size_t)snprintf(line + len, sizeof(line) - len,
        ".%03ldZ tarnd[%ld] %s: ", now->tv_nsec / 1000000, (long)getpid(), elog_names[level]);
    len = elog_escape(line, len, sizeof(line) - 1, text, n);
    /* In one write(2): lines of several threads do not mix. */
    line[len++] = '\n';
    do
        done = write(STDERR_FILENO, line, len);
    while (done < 0 && errno == EINTR);
}

static void
elog_report_lost(const struct timespec *now, uint32_t lost)
{
    char text[64];
    int n;

    if (lost == 0)
        return;
    n = snprintf(text, sizeof(text), "%u lines dropped by log_rate", lost);
    elog_write(now, ELOG_WARN, text, (size_t)n);
}

/* From any thread, also from a worker in the middle of a turn: one write(2), which may block if
 * stderr is a pipe that is not read.  log_rate bounds how often. */
void
elog(enum elog_level level, const char *fmt, ...)
{
    int err = errno; /* callers print it in the next line too */
    char text[ELOG_LINE_MAX];
    struct timespec now;
    uint32_t lost;
    va_list ap;
    bool admitted;
    int n;

    if ((uint32_t)level > atomic_load_explicit(&elog_state.least, memory_order_relaxed))
        return;
    /* Behind the test of the level: most lines of debug are not written. */
    clock_gettime(CLOCK_REALTIME, &now);
    admitted = elog_admit((uint32_t)now.tv_sec, &lost);
    /* In front of the line: what is missing stands before it. */
    elog_report_lost(&now, lost);
    if (admitted) {
        va_start(ap, fmt);
        n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (n > 0)
            elog_write(&now, level, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    }
    errno = err;
}

void
elog_flush(void)
{
    uint64_t old = atomic_load_explicit(&elog_state.window, memory_order_relaxed), new;
    struct timespec now;
    uint32_t lost;

    do {
        lost = elog_over(old);
        new = old - lost; /* the second stays full */
    } while (!atomic_compare_exchange_weak_explicit(
        &elog_state.window, &old, new, memory_order_relaxed, memory_order_relaxed));
    clock_gettime(CLOCK_REALTIME, &now);
    /* For a second that no other line ends. */
    elog_report_lost(&now, lost);
}
