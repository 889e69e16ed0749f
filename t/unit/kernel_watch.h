/* kernel_watch.h -- what one thread asks of the kernel, of the allocator and of mutexes.
 *
 * kernel_watch.c defines sendmsg, write, read, malloc ... in the executable, in front of the
 * shared libraries': so calls that libuv makes are seen too.  Everything is passed on.
 *
 * Threads: only the thread between watch_start and watch_stop is watched; one at a time.
 */
#ifndef TARN_KERNEL_WATCH_H
#define TARN_KERNEL_WATCH_H

#include <sys/types.h>
#include <sys/uio.h>

/* Sanitizers bring their own malloc: those builds do not count allocations. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WATCH_ALLOCS 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCH_ALLOCS 0
#endif
#ifndef WATCH_ALLOCS
#define WATCH_ALLOCS 1
#endif

struct watch_counts {
    unsigned reads;    /* read, readv, recv, recvmsg on the watched descriptor */
    unsigned sendmsgs; /* sendmsg on it */
    unsigned writes;   /* write, writev, send on it */
    unsigned partial;  /* of sendmsgs: took less than offered, or nothing */
    unsigned others;   /* all of the above on other descriptors */
    unsigned epoll_ctls, polls;
    unsigned allocs; /* malloc and its kin, mallocx too; always 0 without WATCH_ALLOCS */
    unsigned locks;  /* pthread_mutex_lock, pthread_mutex_trylock */
};

/* Called after each system call that writes to the watched descriptor: the buffers, and how
 * many bytes of them the kernel took (< 0: none). */
typedef void watch_output_f(const struct iovec *iov, size_t n, ssize_t taken);

void watch_start(int fd, watch_output_f *on_output);
void watch_stop(void);
extern struct watch_counts watch_counts; /* since watch_start; the watched thread's */

#endif
