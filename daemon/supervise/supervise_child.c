/* supervise_child.c -- starting a child, watching it, and its end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/log/elog.h"
#include "daemon/supervise/channel.h"
#include "daemon/supervise/supervise_priv.h"

void
child_pass_fd(int fd, bool pass)
{
    fcntl(fd, F_SETFD, pass ? 0 : FD_CLOEXEC);
}

void
child_reset_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    /* The mask and ignored signals survive exec(3): a child begins as one that a shell started. */
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    signal(SIGPIPE, SIG_DFL);
}

static struct child *
child_place(struct supervisor *s)
{
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid == 0)
            return &s->children[i];
    return NULL;
}

/* In the new process.  By way of /proc it is the very binary that we are, whatever lies at its
 * path by now.  A process group of its own: a terminal's Ctrl-C is for us to pass on. */
static _Noreturn void
child_exec(struct supervisor *s, const char *program, int channel)
{
    static char text[SUPERVISE_TEXT_MAX];
    char minus_c[] = "-c", number[32];
    char *argv[] = {s->argv[0], minus_c, (char *)(uintptr_t)s->conf, NULL};

    setpgid(0, 0);
    child_reset_signals();
    snprintf(number, sizeof(number), "%d:%d", channel, CHANNEL_VERSION);
    if (!inherited_print(s->inherited, "", text, sizeof(text)))
        elog(ELOG_ERROR, "too many addresses to hand over");
    if (setenv("TARN_LISTEN_FDS", text, 1) != 0 || setenv(CHANNEL_VARIABLE, number, 1) != 0)
        /* Not exit(3): buffers and handlers are the supervisor's. */
        _exit(1);
    /* Here and not before fork(2): in the supervisor they stay close-on-exec. */
    inherited_pass(s->inherited, true);
    child_pass_fd(channel, true);
    if (program == NULL) {
        execv("/proc/self/exe", argv);
        /* /proc may not be there: then the file at its path. */
        program = s->program;
    }
    execv(program, argv);
    elog(ELOG_ERROR, "%s: %s", program, strerror(errno));
    _exit(1);
}

/* `program` NULL: the binary that runs now; else the new one, after SIGUSR2.  False: the caller
 * tries again in a later turn. */
bool
child_start(struct supervisor *s, const char *program)
{
    struct child *c = child_place(s);
    int ends[2];
    pid_t pid;

    if (c == NULL) {
        elog(ELOG_ERROR, "%d processes of tarnd have not ended yet", SUPERVISE_CHILDREN);
        return false;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        elog(ELOG_ERROR, "socketpair: %s", strerror(errno));
        return false;
    }
    pid = fork();
    if (pid == 0)
        child_exec(s, program, ends[1]);
    /* Else the channel would not read as closed when the child ends. */
    close(ends[1]);
    if (pid < 0) {
        elog(ELOG_ERROR, "fork: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    *c = (struct child){.pid = pid,
        .fd = ends[0],
        .role = CHILD_STARTING,
        .upgrade = program != NULL,
        .started_ms = s->now_ms,
        .watchdog_ms = SUPERVISE_WATCHDOG_MS};
    return true;
}

/* The first start of all has no deadline: large tables may be read, and an operator waits for
 * it. */
static void
child_watch_start(struct supervisor *s, struct child *c)
{
    if (!s->ready_said || s->now_ms - c->started_ms < SUPERVISE_START_MS || c->aborted)
        return;
    elog(ELOG_ERROR, "tarnd %d is not ready after %d s, and is killed", (int)c->pid,
        SUPERVISE_START_MS / 1000);
    c->aborted = true;
    kill(c->pid, SIGKILL);
}

/* SIGABRT first, for the core shows where a loop hangs; SIGKILL after SUPERVISE_ABORT_MS.
 * `silent_ms` counts the supervisor's own turns, not the clock: after a machine slept all
 * children would look silent. */
void
child_watch(struct supervisor *s, struct child *c, uint64_t elapsed_ms)
{
    int64_t most =
        c->watchdog_ms < SUPERVISE_WATCHDOG_MIN_MS ? SUPERVISE_WATCHDOG_MIN_MS : c->watchdog_ms;

    if (c->role == CHILD_STARTING) {
        child_watch_start(s, c);
        return;
    }
    c->silent_ms += elapsed_ms;
    /* Writing a core takes time; one that hangs even there is killed. */
    if (c->aborted && c->silent_ms >= SUPERVISE_ABORT_MS) {
        c->silent_ms = 0;
        kill(c->pid, SIGKILL);
    } else if (!c->aborted && c->watchdog_ms > 0 && c->silent_ms >= (uint64_t)most) {
        elog(ELOG_ERROR, "tarnd %d sent no heartbeat for %lld s, and is killed: %s", (int)c->pid,
            (long long)most / 1000,
            c->words[0] != '\0' ? c->words : "its management loop does not turn, either");
        c->aborted = true;
        c->silent_ms = 0;
        kill(c->pid, SIGABRT);
        kill(c->pid, SIGCONT); /* one that was stopped has to run to die of it */
    }
}

void
child_forget(struct child *c)
{
    if (c->fd >= 0)
        close(c->fd);
    inherited_release(&c->inherited, NULL, false);
    /* Last: with it the place is free. */
    c->pid = 0;
}

void
child_how(int status, char *text, size_t room)
{
    if (WIFSIGNALED(status))
        snprintf(text, room, "was killed by signal %d (%s)", WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    else
        snprintf(text, room, "ended with status %d", WEXITSTATUS(status));
}
