/* reaper.c -- the process that is left with a dead one's memory.
 *
 * The kernel frees the memory of a process before it closes its sockets, and for a large cache
 * that takes seconds, in which clients neither get an answer nor a reset.  So a second process
 * shares the memory (CLONE_VM) and ends only when the first has closed its descriptors: the
 * memory then goes with it, later.
 *
 *    parent                        reaper
 *    clone, waits for the byte     closes all but two pipes, seccomp, writes the byte
 *    goes on                       reads `life`: blocks until the parent's end of it closes
 */
#include "daemon/supervise/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/log/elog.h"

enum {
    REAPER_STACK = 64 * 1024,
};

struct reaper {
    int life[2]; /* a pipe: its end when the last thread of this process gives up its descriptors */
    int begun[2]; /* a pipe: a byte when the reaper has only to wait */
};

/* On a stack of its own, but with the variables of the thread that made it, errno among them: that
 * one waits for the byte, and behind it no call fails. */
static int
reaper_run(void *arg)
{
    const struct reaper *h = arg;
    char byte = 0;

    prctl(PR_SET_NAME, "tarnd-reaper");
    if (dup2(h->life[0], 0) != 0 || dup2(h->begun[1], 1) != 1 ||
        syscall(SYS_close_range, 2U, ~0U, 0U) != 0)
        return 1;
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); /* refused where a filter was imposed on us */
    if (write(1, &byte, 1) == 1)
        while (read(0, &byte, 1) > 0)
            continue;
    return 0;
}

/* The reaper reads `h` until the byte has come, so until then it stays as it is.  0, or an errno. */
static int
reaper_make(struct reaper *h)
{
    char *stack = mmap(
        NULL, REAPER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    char byte;
    ssize_t n;
    pid_t pid;

    if (stack == MAP_FAILED)
        return errno;
    pid = clone(reaper_run, stack + REAPER_STACK, CLONE_VM, h);
    if (pid < 0)
        return errno;
    close(h->begun[1]);
    n = read(h->begun[0], &byte, 1);
    h->begun[1] = -1;
    if (n == 1)
        return 0;
    waitpid(pid, NULL, __WALL);
    return ENOSYS; /* close_range(2) came with Linux 5.9 */
}

static void
reaper_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Before any other thread is made: clone(2) with CLONE_VM shares what threads change.  All
 * signals are blocked around it, and so in the reaper for good: only SIGKILL reaches it. */
void
reaper_start(void)
{
    struct reaper h = {.life = {-1, -1}, .begun = {-1, -1}};
    sigset_t all, before;
    int err;

#ifdef TARN_LIBC_MALLOC /* a sanitizer's runtime knows no such process */
    return;
#endif
    err = pipe2(h.life, O_CLOEXEC) != 0 || pipe2(h.begun, O_CLOEXEC) != 0 ? errno : 0;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* it takes after us */
    if (err == 0)
        err = reaper_make(&h);
    sigprocmask(SIG_SETMASK, &before, NULL);
    reaper_close(h.begun[0]);
    reaper_close(h.begun[1]);
    reaper_close(h.life[0]);
    if (err == 0)
        return; /* and life[1] is open for as long as we live */
    reaper_close(h.life[1]);
    elog(ELOG_WARN,
        "no memory reaper: %s: if tarnd dies, its memory is freed before its sockets are closed",
        strerror(err));
}
