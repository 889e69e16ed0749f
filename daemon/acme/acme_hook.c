/* acme_hook.c -- the operator's command after certificates have changed.
 *
 * It is run once for all of a pass, behind the last order: a reload for each of a hundred certificates would be a
 * hundred reloads.  What it needs to know it finds in its environment: a name in its text would be read by the shell. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/acme/acme_conf.h"
#include "daemon/acme/acme_run.h"
#include "daemon/base/terr.h"

enum {
    LOOK_MS = 50,
};

static bool
hook_set_admin(const struct acme_settings *set)
{
    char text[ACME_ADMIN_MAX];

    acme_conf_admin(set, text);
    return setenv("TARN_ADMIN", text, 1) == 0;
}

static void
hook_exec(const struct acme_settings *set, const char *names)
{
    sigset_t none;

    /* What is ignored stays ignored behind exec(2), and tools in a pipeline expect to be ended by SIGPIPE. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* all that the shell starts ends with it */
    if (setenv("TARN_ACME_CERTIFICATES", names, 1) == 0 &&
        setenv("TARN_ACME_STATE", set->state, 1) == 0 &&
        (set->admin == NULL || hook_set_admin(set)) &&
        (set->token == NULL || setenv("TARN_TOKEN", set->token, 1) == 0))
        /* Every descriptor of ours is closed by O_CLOEXEC: the lock is not the hook's, else a daemon that it starts
         * would keep it. */
        execl("/bin/sh", "sh", "-c", set->hook, (char *)NULL);
    _exit(127);
}

/* Its status; -1: it took too long.
 * A hook that hangs would keep the lock, and all later passes would be refused.  It is asked for rather than waited
 * for by SIGCHLD, so that no other signal's handling depends on it. */
static int
hook_wait(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    int status = 0;

    for (unsigned i = 0; i < ACME_HOOK_S * 1000 / LOOK_MS; i++) {
        pid_t done = waitpid(pid, &status, WNOHANG);

        if (done == pid)
            return status;
        if (done < 0 && errno != EINTR)
            return -1;
        nanosleep(&pause, NULL);
    }
    /* The group, for the shell may be gone and what it has started not; and the child itself, which may not have
     * made its group yet. */
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

int
acme_hook_run(const struct acme_settings *set, const char *names, struct acme_fail *f)
{
    pid_t pid = fork();
    int status;

    if (pid < 0)
        return acme_fail(f, TERR_IO, "hook: no process: %s", strerror(errno));
    if (pid == 0)
        hook_exec(set, names);
    status = hook_wait(pid);
    if (status == -1)
        return acme_fail(f, TERR_TIMEDOUT, "hook: not done after %d s, so it was ended: %.200s",
            ACME_HOOK_S, set->hook);
    if (WIFSIGNALED(status))
        return acme_fail(
            f, TERR_IO, "hook: ended by signal %d: %.200s", WTERMSIG(status), set->hook);
    if (WEXITSTATUS(status) != 0)
        return acme_fail(f, TERR_IO,
            "hook: exit status %d: %.200s; it runs again with the next pass", WEXITSTATUS(status),
            set->hook);
    return 0;
}
