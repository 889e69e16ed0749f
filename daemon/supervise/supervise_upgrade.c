/* supervise_upgrade.c -- a new binary: asked, started beside the old one, and become.
 *
 *    SIGUSR2: upgrade_begin        new binary with -t, beside everything      nothing has changed yet
 *    it ended well                 child_start(): a child of the new binary   both accept
 *    it is ready                   supervise_on_ready(): the old one retires
 *    next turn: upgrade_exec       the supervisor itself becomes the binary, with the same pid
 *
 * Until the last step each failure leaves the old child serving.  That step passes its state
 * through the environment, because memory does not survive execve(2), and descriptors do.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/supervise/supervise_priv.h"

/* Where a supervisor is, for the next one in the same process.  Behind the format's own line:
 *
 *     child PID FD S|R WATCHDOG_MS     its channel; serving or retiring
 *     held OURS LOCK FD[,FD...] ADDRESS
 */
#define UPGRADE_VARIABLE "TARN_SUPERVISOR"
#define UPGRADE_FORMAT   "tarn-supervisor 1\n"

static bool
upgrade_print(const struct supervisor *s, char *to, size_t room)
{
    size_t len = (size_t)snprintf(to, room, "%s", UPGRADE_FORMAT);

    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++) {
        const struct child *c = &s->children[i];

        if (c->pid == 0 || c->role == CHILD_STARTING)
            continue;
        len += (size_t)snprintf(to + len, room - len, "child %d %d %c %lld\n", (int)c->pid, c->fd,
            c->role == CHILD_SERVING ? 'S' : 'R', (long long)c->watchdog_ms);
        /* Never cut: a child that is left out would be lost to the next one. */
        if (len >= room)
            return false;
    }
    return inherited_print(s->inherited, "held ", to + len, room - len);
}

bool
supervise_understands(void)
{
    const char *text = getenv(UPGRADE_VARIABLE);

    return text == NULL || strncmp(text, UPGRADE_FORMAT, strlen(UPGRADE_FORMAT)) == 0;
}

/* ---- Asking ---- */

/* In the new process: the command line that we were given, and -t.  What it says goes to stderr. */
static _Noreturn void
upgrade_check(struct supervisor *s, const char *state)
{
    char minus_t[] = "-t";
    unsigned n = 0;
    char **argv;

    while (s->argv[n] != NULL)
        n++;
    argv = calloc(n + 2, sizeof(*argv));
    /* With the state: the binary is asked whether it understands that, too. */
    if (argv == NULL || setenv(UPGRADE_VARIABLE, state, 1) != 0)
        _exit(1);
    argv[0] = s->argv[0];
    argv[1] = minus_t;
    memcpy(argv + 2, s->argv + 1, (n - 1) * sizeof(*argv));
    child_reset_signals();
    /* stdout is for the ready line, which scripts read. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(s->program, argv);
    elog(ELOG_ERROR, "%s: %s", s->program, strerror(errno));
    _exit(1);
}

/* Why not now?  NULL: it may. */
static const char *
upgrade_hindrance(struct supervisor *s)
{
    unsigned children = 0;

    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        children += s->children[i].pid != 0;
    if (s->stopping || s->ended)
        return "we are ending";
    if (s->checker != 0 || supervise_find(s, CHILD_STARTING) != NULL)
        return "a tarnd is starting already";
    if (supervise_find(s, CHILD_SERVING) == NULL)
        return "no tarnd is running that could go on if the new one does not";
    return children == SUPERVISE_CHILDREN ? "too many have not ended yet" : NULL;
}

/* The state is printed now only to be shown to the new binary; it is printed anew before the
 * exec. */
void
upgrade_begin(struct supervisor *s)
{
    static char state[SUPERVISE_TEXT_MAX];
    const char *why = upgrade_hindrance(s);
    pid_t pid = -1;

    if (why == NULL && !upgrade_print(s, state, sizeof(state)))
        why = "there are too many addresses to hand over";
    if (why == NULL) {
        pid = fork();
        if (pid == 0)
            upgrade_check(s, state);
        if (pid < 0)
            why = strerror(errno);
    }
    if (why != NULL) {
        elog(ELOG_ERROR, "SIGUSR2: %s: nothing has changed", why);
        return;
    }
    elog(ELOG_INFO, "SIGUSR2: checking %s", s->program);
    s->checker = pid;
    s->check_until_ms = s->now_ms + SUPERVISE_START_MS;
}

void
upgrade_watch(struct supervisor *s)
{
    /* A binary that hangs is one that does not work. */
    if (s->checker != 0 && s->now_ms >= s->check_until_ms)
        kill(s->checker, SIGKILL);
}

void
upgrade_on_checked(struct supervisor *s, int status)
{
    char how[80];

    s->checker = 0;
    if (s->stopping)
        return;
    child_how(status, how, sizeof(how));
    if (status != 0)
        elog(ELOG_ERROR, "%s -t %s: nothing has changed", s->program, how);
    else if (supervise_find(s, CHILD_STARTING) != NULL)
        elog(ELOG_ERROR, "SIGUSR2: a tarnd is starting already: nothing has changed");
    else
        child_start(s, s->program);
}

/* ---- Becoming it ---- */

static void
upgrade_pass(const struct supervisor *s, bool pass)
{
    inherited_pass(s->inherited, pass);
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid != 0 && s->children[i].fd >= 0)
            child_pass_fd(s->children[i].fd, pass);
}

/* Signals stay blocked: those that come meanwhile are the next one's to read. */
void
upgrade_exec(struct supervisor *s)
{
    static char state[SUPERVISE_TEXT_MAX];

    s->exec_due = false;
    /* A child that starts is not in the state that is passed on. */
    if (s->stopping || supervise_find(s, CHILD_STARTING) != NULL)
        return;
    if (!upgrade_print(s, state, sizeof(state)) || setenv(UPGRADE_VARIABLE, state, 1) != 0) {
        elog(ELOG_ERROR, "the supervisor stays the old binary: too many addresses to hand over");
        return;
    }
    /* What is buffered would go with this memory. */
    fflush(NULL);
    upgrade_pass(s, true);
    execv(s->program, s->argv);
    elog(ELOG_ERROR, "%s: %s: the supervisor stays the old binary", s->program, strerror(errno));
    /* It did not work: children that are started later must not inherit all of it. */
    upgrade_pass(s, false);
    unsetenv(UPGRADE_VARIABLE);
}

/* ---- Going on ---- */

static bool
upgrade_adopt_child(struct supervisor *s, const char *line)
{
    long long watchdog_ms;
    int pid, fd;
    char role;

    if (sscanf(line, "child %d %d %c %lld", &pid, &fd, &role, &watchdog_ms) != 4 || pid <= 0)
        return false;
    for (unsigned i = 0; i < SUPERVISE_CHILDREN; i++)
        if (s->children[i].pid == 0) {
            s->children[i] = (struct child){.pid = pid,
                .fd = fd,
                .role = role == 'S' ? CHILD_SERVING : CHILD_RETIRING,
                .started_ms = s->now_ms,
                /* When it was ready is not known. */
                .ready_ms = s->now_ms,
                .watchdog_ms = watchdog_ms};
            return true;
        }
    return false;
}

static bool
upgrade_adopt_inherited(struct supervisor *s, const char *line)
{
    struct listen_sockets sockets;
    const char *address;
    char *text;
    size_t len;

    if (!inherit_scan(line + strlen("held "), &sockets, &address, &len))
        return false;
    text = strndup(address, len);
    if (text == NULL)
        return false;
    inherited_add(&s->inherited, &sockets, text);
    free(text);
    return true;
}

/* A line that is not understood is reported and left out: a supervisor that gave up here would
 * end every child. */
int
upgrade_adopt(struct supervisor *s)
{
    const char *line = getenv(UPGRADE_VARIABLE);

    if (line == NULL)
        return 0;
    if (!supervise_understands()) {
        elog(ELOG_ERROR, UPGRADE_VARIABLE ": of a supervisor with another format");
        return TERR_CONFIG;
    }
    while (*(line += strcspn(line, "\n")) == '\n' && *++line != '\0') {
        bool child = strncmp(line, "child ", 6) == 0, inherited = strncmp(line, "held ", 5) == 0;

        if ((child && !upgrade_adopt_child(s, line)) ||
            (inherited && !upgrade_adopt_inherited(s, line)))
            elog(ELOG_ERROR, UPGRADE_VARIABLE ": no such line: %.*s", (int)strcspn(line, "\n"),
                line);
    }
    upgrade_pass(s, false);
    unsetenv(UPGRADE_VARIABLE);
    /* The line was printed by the one before. */
    s->ready_said = true;
    elog(ELOG_INFO, "the supervisor is tarnd " TARN_VERSION " now");
    return 0;
}
