/* acme_main.c -- tarn-acme: the process, and what it gives up.
 *
 * The order matters.  The configuration and the key of an external account are read first, for they may be
 * root's.  Then the process becomes the owner of the state directory.  Only then does it read a byte from the
 * network. */
#include <curl/curl.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/acme/acme_cli.h"
#include "daemon/acme/acme_run.h"

static volatile sig_atomic_t main_signal;

/* A flag alone: the signal may interrupt malloc() or libcurl.  Whatever waits looks at it
 * (main_stopped). */
static void
main_on_signal(int number)
{
    main_signal = number;
}

static bool
main_stopped(void)
{
    return main_signal != 0;
}

static int64_t
main_now_s(void)
{
    return (int64_t)time(NULL);
}

/* A signal ends it early, and it does not go on: the caller looks whether it shall stop. */
static void
main_pause_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

/* Private keys are in this process's memory: no core dump, no debugger of the same user. */
static void
main_harden(void)
{
    const struct rlimit none = {0, 0};

    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &none);
    /* For files that libraries make: ours say their mode themselves. */
    umask(077);
}

static void
main_signals(void)
{
    struct sigaction end = {.sa_handler = main_on_signal};

    /* Without SA_RESTART: a sleep ends at once.  SIGHUP too, for there is nothing to read anew: the timer's next
     * process does. */
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    /* A CA that closes its connection while we write would end the process, and leave a challenge behind. */
    signal(SIGPIPE, SIG_IGN);
}

/* Where there is no state directory yet, root makes it for the user that tarnd becomes. */
static bool
main_make_state(const char *dir, const char *user)
{
    const struct passwd *pw = user != NULL ? getpwnam(user) : NULL;

    if (pw == NULL || geteuid() != 0 || mkdir(dir, 0700) != 0)
        return true; /* it is there; or who opens it says what is wrong */
    if (chown(dir, pw->pw_uid, pw->pw_gid) == 0)
        return true;
    acme_say("%s: cannot be given to %s: %s", dir, user, strerror(errno));
    return false;
}

/* Root becomes the owner of the state directory: tarnd, which reads it, is that user, too. */
static bool
main_become_owner(const char *dir)
{
    struct stat st;

    if (geteuid() != 0 || stat(dir, &st) != 0 || st.st_uid == 0)
        return true;
    /* In this order: a process that is not root any more cannot give up its groups. */
    if (setgroups(0, NULL) == 0 && setgid(st.st_gid) == 0 && setuid(st.st_uid) == 0) {
        /* The kernel sets it anew when the user changes (prctl(2)), to what fs.suid_dumpable says. */
        prctl(PR_SET_DUMPABLE, 0);
        return true;
    }
    acme_say("%s: cannot become its owner, user %u: %s", dir, (unsigned)st.st_uid, strerror(errno));
    return false;
}

int
main(int argc, char **argv)
{
    static const struct acme_env env = {main_now_s, main_pause_ms, main_stopped};
    struct acme_settings set = {.state = NULL};
    int rc;

    main_harden();
    rc = acme_cli_read(&set, argc, argv);
    if (rc == -1) {
        main_signals();
        rc = ACME_STATE;
        /* libcurl is initialised as the user that it works for: its TLS library reads files that the environment names. */
        if ((set.dry_run || main_make_state(set.state, set.user)) && main_become_owner(set.state) &&
            curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
            rc = acme_run(&set, &env);
        curl_global_cleanup();
    }
    acme_cli_fini(&set);
    return rc;
}
