/* kernel_watch.c -- functions of libc in front of libc's own: they count and pass on. */
#include "t/unit/kernel_watch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct watch_counts watch_counts;
static int watch_fd;
static watch_output_f *watch_on_output;
static _Thread_local bool watch_here;

/* The function of that name that would have been called without ours.  dlsym allocates
 * nothing when it succeeds, so malloc may ask for malloc. */
static void *
watch_next(_Atomic(void *) *slot, const char *name)
{
    void *f = atomic_load_explicit(slot, memory_order_relaxed);

    if (f == NULL) {
        f = dlsym(RTLD_NEXT, name);
        if (f == NULL)
            abort();
        atomic_store_explicit(slot, f, memory_order_relaxed);
    }
    return f;
}

#define NEXT(f)                                    \
    ({                                             \
        static _Atomic(void *) slot;               \
        (__typeof__(&(f)))(watch_next(&slot, #f)); \
    })

void
watch_start(int fd, watch_output_f *on_output)
{
    watch_counts = (struct watch_counts){.reads = 0};
    watch_fd = fd;
    watch_on_output = on_output;
    watch_here = true;
}

void
watch_stop(void)
{
    watch_here = false;
}

static void
watch_input(int fd)
{
    if (!watch_here)
        return;
    if (fd == watch_fd)
        watch_counts.reads++;
    else
        watch_counts.others++;
}

static void
watch_output(int fd, const struct iovec *iov, size_t n, ssize_t taken)
{
    int saved = errno;

    watch_here = false; /* what the test does is not counted */
    if (fd == watch_fd)
        watch_on_output(iov, n, taken);
    watch_here = true;
    errno = saved;
}

static void
watch_written(int fd, const struct iovec *iov, size_t n, ssize_t taken)
{
    if (!watch_here)
        return;
    if (fd == watch_fd)
        watch_counts.writes++;
    else
        watch_counts.others++;
    watch_output(fd, iov, n, taken);
}

ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t taken = NEXT(sendmsg)(fd, msg, flags);
    size_t offered = 0;

    if (!watch_here)
        return taken;
    for (size_t i = 0; i < msg->msg_iovlen; i++)
        offered += msg->msg_iov[i].iov_len;
    if (fd == watch_fd)
        watch_counts.sendmsgs++;
    else
        watch_counts.others++;
    if (fd == watch_fd && taken < (ssize_t)offered)
        watch_counts.partial++;
    watch_output(fd, msg->msg_iov, msg->msg_iovlen, taken);
    return taken;
}

#if !defined(TARN_LIBC_MALLOC)
/* How net/stream.c calls sendmsg, but under sanitizers.  No call has more than six arguments, and
 * those that are not there are not looked at. */
long
syscall(long number, ...)
{
    long a[6];
    va_list ap;

    va_start(ap, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_sendmsg)
        return sendmsg((int)a[0], (const struct msghdr *)a[1], (int)a[2]);
    return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif

ssize_t
writev(int fd, const struct iovec *iov, int n)
{
    ssize_t taken = NEXT(writev)(fd, iov, n);

    watch_written(fd, iov, (size_t)n, taken);
    return taken;
}

ssize_t
write(int fd, const void *p, size_t len)
{
    const struct iovec iov = {(void *)(uintptr_t)p, len};
    ssize_t taken = NEXT(write)(fd, p, len);

    watch_written(fd, &iov, 1, taken);
    return taken;
}

ssize_t
send(int fd, const void *p, size_t len, int flags)
{
    const struct iovec iov = {(void *)(uintptr_t)p, len};
    ssize_t taken = NEXT(send)(fd, p, len, flags);

    watch_written(fd, &iov, 1, taken);
    return taken;
}

ssize_t
read(int fd, void *p, size_t room)
{
    watch_input(fd);
    return NEXT(read)(fd, p, room);
}

ssize_t
readv(int fd, const struct iovec *iov, int n)
{
    watch_input(fd);
    return NEXT(readv)(fd, iov, n);
}

ssize_t
recv(int fd, void *p, size_t room, int flags)
{
    watch_input(fd);
    return NEXT(recv)(fd, p, room, flags);
}

ssize_t
recvmsg(int fd, struct msghdr *msg, int flags)
{
    watch_input(fd);
    return NEXT(recvmsg)(fd, msg, flags);
}

int
epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    if (watch_here)
        watch_counts.epoll_ctls++;
    return NEXT(epoll_ctl)(epfd, op, fd, event);
}

int
epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms)
{
    if (watch_here)
        watch_counts.polls++;
    return NEXT(epoll_wait)(epfd, events, max, timeout_ms);
}

int
epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout_ms, const sigset_t *blocked)
{
    if (watch_here)
        watch_counts.polls++;
    return NEXT(epoll_pwait)(epfd, events, max, timeout_ms, blocked);
}

int
pthread_mutex_lock(pthread_mutex_t *m)
{
    if (watch_here)
        watch_counts.locks++;
    return NEXT(pthread_mutex_lock)(m);
}

int
pthread_mutex_trylock(pthread_mutex_t *m)
{
    if (watch_here)
        watch_counts.locks++;
    return NEXT(pthread_mutex_trylock)(m);
}

#if WATCH_ALLOCS

void *
malloc(size_t size)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(malloc)(size);
}

void *
calloc(size_t n, size_t size)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(calloc)(n, size);
}

void *
realloc(void *p, size_t size)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(realloc)(p, size);
}

void *
aligned_alloc(size_t align, size_t size)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(aligned_alloc)(align, size);
}

int
posix_memalign(void **out, size_t align, size_t size)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(posix_memalign)(out, align, size);
}

/* jemalloc's own, which storage/ uses. */
void *mallocx(size_t size, int flags);
void *rallocx(void *p, size_t size, int flags);

void *
mallocx(size_t size, int flags)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(mallocx)(size, flags);
}

void *
rallocx(void *p, size_t size, int flags)
{
    if (watch_here)
        watch_counts.allocs++;
    return NEXT(rallocx)(p, size, flags);
}

#endif
