/* acme_hook.c -- the operator's command after certificates have changed. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/acme/acme_run.h"
#include "daemon/base/terr.h"

enum {
    LOOK_MS = 50,
};

/* A listener on every address is reached by this machine's own. */
static bool
hook_set_admin(const char *admin)
{
    char text[300];

    if (admin[0] != '*')
        return setenv("TARN_ADMIN", admin, 1) == 0;
    snprintf(text, sizeof(text), "127.0.0.1%s", admin + 1);
    return setenv("TARN_ADMIN", text, 1) == 0;
}

static void
hook_exec(const struct acme_settings *set, const char *names)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* all that the shell starts ends with it */
    if (setenv("TARN_ACME_CERTIFICATES", names, 1) == 0 &&
        setenv("TARN_ACME_STATE", set->state, 1) == 0 &&
        (set->admin == NULL || hook_set_admin(set->admin)) &&
        (set->token == NULL || setenv("TARN_TOKEN", set->token, 1) == 0))
        execl("/bin/sh", "sh", "-c", set->hook, (char *)NULL);
    _exit(127);
}

/* Its status; -1: it took too long. */
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
