/* supervise.c -- the supervisor's loop: what children say, signals, deaths, and the next start. */
#include "daemon/supervise/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/supervise/channel.h"
#include "daemon/supervise/supervise_priv.h"

static uint64_t
supervise_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* 0, 100, 200, 400, ... ms, up to SUPERVISE_BACKOFF_MAX_MS. */
uint64_t
supervise_backoff_ms(unsigned crashes)
{
    uint64_t ms = SUPERVISE_BACKOFF_MS;

    /* The first at once: clients wait in the kernel's queue. */
    if (crashes <= 1)
        return 0;
    for (unsigned i = 2; i < crashes && ms < SUPERVISE_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < SUPERVISE_BACKOFF_MAX_MS ? ms : SUPERVISE_BACKOFF_MAX_MS;
}

/* At most one child is starting and one is serving; of those that retire this gives the first. */
struct child *
supervise_find(struct supervisor *s, enum child_role role)
{
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0 && s->children[i].role == role)
            return &s->children[i];
    return NULL;
}

static bool
supervise_has_children(const struct supervisor *s)
{
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0)
            return true;
    return false;
}

/* No child follows any more: new connections are refused, and not left waiting. */
static void
supervise_stop(struct supervisor *s)
{
    s->stopping = true;
    inherited_release(&s->inherited, NULL, true);
}

static void
supervise_tell(struct supervisor *s, enum child_role role, int sig)
{
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0 && s->children[i].role == role)
            kill(s->children[i].pid, sig);
}

/* ---- What children say ---- */

static void
supervise_retire(struct child *c)
{
    c->role = CHILD_RETIRING;
    /* It cannot be told: then it drains with a deadline. */
    if (c->fd < 0 || channel_send(c->fd, CHANNEL_RETIRE, "", NULL, true) != 0)
        kill(c->pid, SIGTERM);
}

static void
supervise_on_ready(struct supervisor *s, struct child *c, const char *line)
{
    struct child *old = supervise_find(s, CHILD_SERVING);

    if (c->role != CHILD_STARTING || s->stopping)
        return;
    /* What the new configuration does not name is closed here, and its file removed. */
    inherited_release(&s->inherited, c->inherited, true);
    s->inherited = c->inherited;
    c->inherited = NULL;
    c->role = CHILD_SERVING;
    /* It came while this one was starting: its file may have been read before. */
    if (s->hup_due)
        kill(c->pid, SIGHUP);
    if (s->usr1_due)
        kill(c->pid, SIGUSR1);
    s->hup_due = s->usr1_due = false;
    c->ready_ms = s->now_ms;
    c->silent_ms = 0;
    if (!s->ready_said) {
        printf("%s\n", line);
        fflush(stdout);
        s->ready_said = true;
        elog(ELOG_INFO, "supervising tarnd %d", (int)c->pid);
    } else {
        elog(ELOG_INFO, "tarnd %d is ready", (int)c->pid);
    }
    if (old != NULL) {
        elog(ELOG_INFO, "tarnd %d retires: it finishes its requests in flight", (int)old->pid);
        supervise_retire(old);
    }
    /* Only now: a binary that serves is one that the supervisor may become. */
    s->exec_due = s->exec_due || c->upgrade;
}

/* Takes the sockets. */
static void
supervise_on_hold(
    struct supervisor *s, struct child *c, const char *text, const struct listen_sockets *sockets)
{
    const char *address = strlen(text) > 4 ? text + 4 : NULL; /* behind OURS and LOCK */

    if (address == NULL || sockets->nfds == 0 || s->stopping || c->role == CHILD_RETIRING)
        inherited_close(sockets);
    else
        inherited_add(c->role == CHILD_STARTING ? &c->inherited : &s->inherited, sockets, address);
}

static void
supervise_on_drop(struct supervisor *s, struct child *c, const char *address)
{
    if (c->role != CHILD_RETIRING)
        inherited_drop(c->role == CHILD_STARTING ? &c->inherited : &s->inherited, address);
}

static void
supervise_on_beat(struct child *c, const char *text, bool stuck)
{
    char *words;

    c->watchdog_ms = strtoll(text, &words, 10);
    snprintf(c->words, sizeof(c->words), "%s", stuck && *words == ' ' ? words + 1 : "");
    /* A report that a worker is stuck is no sign of life: the time runs on. */
    if (!stuck && !c->aborted)
        c->silent_ms = 0;
}

/* An operator asked it, or a signal that did not come from us. */
static void
supervise_on_quit(struct supervisor *s, struct child *c, const char *text)
{
    /* One that retires ends anyway, and was told to by us. */
    if (c->role != CHILD_SERVING || s->stopping)
        return;
    elog(ELOG_INFO, "tarnd %d ends by request, and so does its supervisor", (int)c->pid);
    supervise_stop(s);
    supervise_tell(s, CHILD_STARTING, SIGTERM);
    if (text[0] != '1')
        supervise_tell(s, CHILD_RETIRING, SIGTERM);
}

/* Called for each child in each turn, and once more when it has died.  `text` is static: one
 * thread, and no function that is called from here comes back to this one. */
static void
supervise_hear(struct supervisor *s, struct child *c)
{
    static char text[CHANNEL_MESSAGE_MAX + 1];
    struct listen_sockets sockets;
    enum channel_word word;

    while (c->fd >= 0 &&
           (word = channel_take(c->fd, text, sizeof(text), &sockets)) != CHANNEL_NOTHING) {
        /* How it ended is judged by waitpid(2), not by the closed channel. */
        if (word == CHANNEL_ALONE) {
            close(c->fd);
            c->fd = -1;
        } else if (word == CHANNEL_HOLD) {
            supervise_on_hold(s, c, text, &sockets);
            continue;
        } else if (word == CHANNEL_DROP) {
            supervise_on_drop(s, c, text);
        } else if (word == CHANNEL_READY) {
            supervise_on_ready(s, c, text);
        } else if (word == CHANNEL_BEAT || word == CHANNEL_STUCK) {
            supervise_on_beat(c, text, word == CHANNEL_STUCK);
        } else if (word == CHANNEL_QUIT) {
            supervise_on_quit(s, c, text);
        }
        inherited_close(&sockets); /* of a word that none belong to, or that we do not know */
    }
}

/* ---- Deaths ---- */

/* Sets the time of the next start only; supervise_turn() starts it. */
static void
supervise_on_crash(struct supervisor *s, const struct child *c, const char *how)
{
    uint64_t ran_ms = s->now_ms - c->started_ms, pause_ms;

    /* It ran well for a while: what killed it is not its start. */
    if (c->ready_ms != 0 && ran_ms >= SUPERVISE_CALM_MS)
        s->crashes = 0;
    s->crashes++;
    pause_ms = supervise_backoff_ms(s->crashes);
    s->restart_ms = s->now_ms + pause_ms;
    elog(ELOG_ERROR, "tarnd %d %s after %llu.%llu s, crash %u in a row: the next starts in %llu ms",
        (int)c->pid, how, (unsigned long long)ran_ms / 1000, (unsigned long long)ran_ms / 100 % 10,
        s->crashes, (unsigned long long)pause_ms);
}

/* Cases from the one that matters least to the crash.  A first child that never was ready ends
 * the supervisor with its status, so that a wrong configuration shows at the command line and is
 * not retried. */
static void
supervise_on_death(struct supervisor *s, struct child *c, int status)
{
    struct child dead;
    char how[80];

    /* What it said last may still lie in the channel. */
    supervise_hear(s, c);
    dead = *c;
    child_forget(c);
    child_how(status, how, sizeof(how));
    if (dead.role == CHILD_RETIRING) {
        elog(status == 0 ? ELOG_INFO : ELOG_ERROR, "tarnd %d, which retired, %s", (int)dead.pid,
            how);
    } else if (s->stopping) {
        if (status != 0) {
            elog(ELOG_ERROR, "tarnd %d %s", (int)dead.pid, how);
            s->status = 1;
        }
    } else if (dead.role == CHILD_STARTING && supervise_find(s, CHILD_SERVING) != NULL) {
        elog(
            ELOG_ERROR, "tarnd %d %s before it was ready: the old one goes on", (int)dead.pid, how);
    } else if (!s->ready_said) {
        s->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        s->ended = true;
    } else if (dead.role == CHILD_SERVING && status == 0) {
        supervise_stop(s);
    } else {
        supervise_on_crash(s, &dead, how);
    }
}

static void
supervise_reap(struct supervisor *s)
{
    int status;
    pid_t pid;

    /* All of them: SIGCHLD comes once for several, and memory reapers end here, too. */
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->checker)
            upgrade_on_checked(s, status);
        for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
            if (s->children[i].pid == pid)
                supervise_on_death(s, &s->children[i], status);
    }
}

/* ---- Signals ---- */

static void
supervise_signals(sigset_t *set)
{
    static const int ours[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};

    sigemptyset(set);
    for (unsigned i = 0; i < ARRAY_LEN(ours); i++)
        sigaddset(set, ours[i]);
}

static void
supervise_on_signal(struct supervisor *s, int sig)
{
    switch (sig) {
    case SIGTERM:
    case SIGINT: /* a second one is passed on, too: it ends the drain */
        if (!s->stopping)
            elog(ELOG_INFO, "%s: every tarnd drains", strsignal(sig));
        supervise_stop(s);
        supervise_tell(s, CHILD_STARTING, SIGTERM);
        supervise_tell(s, CHILD_SERVING, SIGTERM);
        supervise_tell(s, CHILD_RETIRING, SIGTERM);
        if (s->checker != 0)
            kill(s->checker, SIGKILL);
        break;
    case SIGHUP:
        s->hup_due = supervise_find(s, CHILD_STARTING) != NULL; /* it may have read its file */
        supervise_tell(s, CHILD_SERVING, SIGHUP);
        break;
    case SIGUSR1:
        s->usr1_due = supervise_find(s, CHILD_STARTING) != NULL; /* and opened its log */
        supervise_tell(s, CHILD_SERVING, SIGUSR1);
        supervise_tell(s, CHILD_RETIRING, SIGUSR1);
        break;
    case SIGUSR2:
        upgrade_begin(s);
        break;
    default: /* SIGCHLD: every turn looks */
        break;
    }
}

/* ---- The loop ---- */

/* Shall a child be started, when its time has come? */
static bool
supervise_is_due(struct supervisor *s)
{
    return !s->stopping && !s->ended && supervise_find(s, CHILD_SERVING) == NULL &&
           supervise_find(s, CHILD_STARTING) == NULL;
}

/* A pause of ours, as when the machine slept, does not count as a child's silence. */
static uint64_t
supervise_wait(struct supervisor *s)
{
    struct pollfd polls[1 + SUPERVISE_CHILDREN] = {{.fd = s->signals, .events = POLLIN}};
    uint64_t began = s->now_ms = supervise_clock(), wait_ms = SUPERVISE_TURN_MS, took_ms;
    nfds_t n = 1;

    /* No later than a start that is due. */
    if (supervise_is_due(s) && s->restart_ms < began + wait_ms)
        wait_ms = s->restart_ms > began ? s->restart_ms - began : 0;
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0 && s->children[i].fd >= 0)
            polls[n++] = (struct pollfd){.fd = s->children[i].fd, .events = POLLIN};
    poll(polls, n, (int)wait_ms);
    s->now_ms = supervise_clock();
    took_ms = s->now_ms - began;
    return took_ms < SUPERVISE_TURN_MS ? took_ms : SUPERVISE_TURN_MS;
}

/* One turn, and its order is the point: channels, signals, deaths, watchdogs, the next start. */
static void
supervise_turn(struct supervisor *s)
{
    uint64_t elapsed_ms = supervise_wait(s);
    struct signalfd_siginfo info;

    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0)
            supervise_hear(s, &s->children[i]);
    while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        supervise_on_signal(s, (int)info.ssi_signo);
    /* Behind the channels: a child that said that it quits, and ended, is no crash. */
    supervise_reap(s);
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0)
            child_watch(s, &s->children[i], elapsed_ms);
    upgrade_watch(s);
    /* Behind all that reads: what was heard must be in the state that is passed on. */
    if (s->exec_due)
        upgrade_exec(s);
    if (s->stopping && !supervise_has_children(s))
        s->ended = true;
    if (supervise_is_due(s) && s->now_ms >= s->restart_ms && !child_start(s, NULL))
        s->restart_ms = s->now_ms + SUPERVISE_TURN_MS;
}

/* argv[0], so that a symbolic link is followed when the time has come: to the next version. */
static char *
supervise_program(const char *name)
{
    char path[4096], cwd[2048];
    ssize_t n;

    if (name[0] == '/')
        return strdup(name);
    if (strchr(name, '/') != NULL && getcwd(cwd, sizeof(cwd)) != NULL &&
        snprintf(path, sizeof(path), "%s/%s", cwd, name) < (int)sizeof(path))
        return strdup(path);
    /* Found by PATH: in which directory is not known any more. */
    n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    return strdup(path);
}

/* Signals are blocked before the first fork(2): one that comes early waits in the signalfd. */
static int
supervise_open(struct supervisor *s, char **argv, const char *conf)
{
    struct listen_sockets sockets;
    sigset_t set;

    *s = (struct supervisor){.argv = argv, .conf = conf, .program = supervise_program(argv[0])};
    supervise_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* A child that died must not take its supervisor along. */
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* children leave an reaper each (reaper.h) */
    s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    s->now_ms = supervise_clock();
    if (s->signals < 0 || s->program == NULL) {
        elog(ELOG_ERROR, "supervisor: %s", strerror(errno));
        return TERR_LIMIT;
    }
    inherit_load();
    while (inherit_take_any(&sockets))
        /* Of the service manager: only the sockets know their addresses. */
        inherited_add(&s->inherited, &sockets, "-");
    return upgrade_adopt(s);
}

/* Waits for memory reapers, for a bounded time: a machine that shuts down does not wait
 * long. */
static void
supervise_reap_reapers(void)
{
    const struct timespec nap = {.tv_nsec = 10 * 1000000};

    for (unsigned i = 0; i < SUPERVISE_REAP_MS / 10 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
        nanosleep(&nap, NULL);
}

int
supervise_run(char **argv, const char *conf)
{
    static struct supervisor supervisor; /* one per process */
    struct supervisor *s = &supervisor;

    if (supervise_open(s, argv, conf) != 0)
        return 1;
    while (!s->ended)
        supervise_turn(s);
    supervise_reap_reapers();
    inherited_release(&s->inherited, NULL, true);
    free(s->program);
    close(s->signals);
    elog_flush();
    return s->status;
}
