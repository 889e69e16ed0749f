/* cork_preload.c -- scripts/bench --cork: tarnd as it would be without corking, to compare.
 *
 *     LD_PRELOAD=this CORK_MODE=asis|apart|more CORK_COUNT=FILE tarnd ...
 *
 *   asis    what tarnd says, counted
 *   apart   a head and its body are writes of their own, and nothing says MORE
 *   more    the same writes, each but the last of a call with MSG_MORE, as nbdkit corks
 *
 * Over TLS a head and its body are records of their own, too, and each record is a write.
 *
 * FILE is one 64-bit integer that the bench maps too: calls of sendmsg so far.  A switch in tarnd
 * itself would be asked for with every hit, and nobody would ever turn it.
 *
 * Threads: any.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long (*real_syscall)(long number, ...);
static bool apart, more;
static _Atomic int64_t none, *count = &none;

__attribute__((constructor)) static void
cork_open(void)
{
    const char *mode = getenv("CORK_MODE"), *path = getenv("CORK_COUNT");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                        : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (map != MAP_FAILED)
        count = map;
    more = mode != NULL && strcmp(mode, "more") == 0;
    apart = more || (mode != NULL && strcmp(mode, "apart") == 0);
}

static long
cork_write(int fd, const struct msghdr *msg, int flags)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    return real_syscall(SYS_sendmsg, fd, msg, flags);
}

/* How many buffers from the first on are one write of a server that does not gather. */
static size_t
cork_run(const struct iovec *iov, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *p = iov[i].iov_base;
        size_t len = iov[i].iov_len;

        if (i > 0 && len > 5 && memcmp(p, "HTTP/", 5) == 0)
            return i;
        if (len >= 4 && memcmp(p + len - 4, "\r\n\r\n", 4) == 0)
            return i + 1;
    }
    return n;
}

static long
cork_write_plain(int fd, const struct msghdr *msg, int flags)
{
    const struct iovec *iov = msg->msg_iov;
    size_t left = msg->msg_iovlen;
    long total = 0;

    while (left > 0) {
        size_t run = cork_run(iov, left), len = 0;
        struct msghdr part = {.msg_iovlen = run};
        long n;

        memcpy(&part.msg_iov, &iov, sizeof(iov));
        for (size_t i = 0; i < run; i++)
            len += iov[i].iov_len;
        n = cork_write(fd, &part, (flags & ~MSG_MORE) | (more && run < left ? MSG_MORE : 0));
        if (n < 0)
            return total > 0 ? total : n;
        total += n;
        if ((size_t)n < len)
            return total;
        iov += run;
        left -= run;
    }
    return total;
}

/* Bytes of the records from the front on that are one write: the first alone.  0: no record is here. */
static size_t
cork_record(const unsigned char *p, size_t len)
{
    size_t n =
        len >= 5 && p[0] >= 20 && p[0] <= 23 && p[1] == 3 ? 5 + ((size_t)p[3] << 8 | p[4]) : 0;

    return n < len ? n : 0;
}

static long
cork_write_records(int fd, const char *p, size_t len, int flags)
{
    long total = 0;

    while (len > 0) {
        size_t run = cork_record((const unsigned char *)p, len);
        struct iovec iov = {.iov_len = run > 0 ? run : len};
        struct msghdr part = {.msg_iov = &iov, .msg_iovlen = 1};
        long n;

        memcpy(&iov.iov_base, &p, sizeof(p));
        n = cork_write(fd, &part, (flags & ~MSG_MORE) | (more && run > 0 ? MSG_MORE : 0));
        if (n < 0)
            return total > 0 ? total : n;
        total += n;
        if ((size_t)n < iov.iov_len)
            return total;
        p += n;
        len -= (size_t)n;
    }
    return total;
}

static long
cork_write_apart(int fd, const struct msghdr *msg, int flags)
{
    if (msg->msg_iovlen == 1 && cork_record(msg->msg_iov->iov_base, msg->msg_iov->iov_len) > 0)
        return cork_write_records(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags);
    return cork_write_plain(fd, msg, flags);
}

/* A record ends behind each head, and before each that follows a body. */
static size_t
cork_plaintext(const char *p, size_t len)
{
    const char *end = memmem(p, len, "\r\n\r\n", 4);
    const char *head = len > 5 ? memmem(p + 1, len - 1, "HTTP/1.1 ", 9) : NULL;
    const char *cut = end != NULL ? end + 4 : p + len;

    if (head != NULL && head < cut)
        cut = head;
    return (size_t)(cut - p);
}

/* Of OpenSSL's, which tarnd calls by this name. */
int SSL_write(void *ssl, const void *plain, int len);
int
SSL_write(void *ssl, const void *plain, int len)
{
    static int (*real_write)(void *ssl, const void *plain, int len);
    const char *p = plain;
    int left = len;

    if (real_write == NULL)
        *(void **)&real_write = dlsym(RTLD_NEXT, "SSL_write");
    while (apart && left > 0) {
        int part = (int)cork_plaintext(p, (size_t)left), n;

        if (part == left)
            break;
        n = real_write(ssl, p, part);
        if (n != part)
            return n;
        p += part;
        left -= part;
    }
    return left > 0 && real_write(ssl, p, left) != left ? -1 : len;
}

/* tarnd sends with syscall(), which is shorter than sendmsg() (net/stream.c). */
long
syscall(long number, ...)
{
    long a[6];
    va_list ap;

    if (real_syscall == NULL)
        *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number != SYS_sendmsg)
        return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return (apart ? cork_write_apart : cork_write)(
        (int)a[0], (const struct msghdr *)(uintptr_t)a[1], (int)a[2]);
}
