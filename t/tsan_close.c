/* tsan_close.c -- in builds with ThreadSanitizer: it sees descriptors that libuv closes.
 *
 * libuv closes by syscall(SYS_close), which ThreadSanitizer does not watch.  Another thread that is then
 * given the same number seemed to race with the one that closed it: a report, seldom, wherever
 * descriptors are opened (descriptor_race_test).  The program's own syscall() comes before libc's.
 *
 * Threads: any. */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long syscall_f(long number, ...);

static syscall_f *
libc_syscall(void)
{
    static syscall_f *f;
    syscall_f *found = __atomic_load_n(&f, __ATOMIC_RELAXED);
    void *p;

    if (found != NULL)
        return found;
    p = dlsym(RTLD_NEXT, "syscall");
    __builtin_memcpy(&found, &p, sizeof(found));
    __atomic_store_n(&f, found, __ATOMIC_RELAXED);
    return found;
}

long
syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(args, long); /* as many as a system call can have; libc reads them so too */
    va_end(args);
    if (number == SYS_close)
        return close((int)a[0]);
    return libc_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
