/* acme_at.c -- tarn-acme with another clock: ACME_OFFSET_S seconds later than it is, and what is waited for takes
 * a part of its time only (1 / ACME_HURRY), of which the clock knows nothing.  The command line is tarn-acme's.
 */
#include <curl/curl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/acme/acme_cli.h"
#include "daemon/acme/acme_run.h"

static volatile sig_atomic_t at_signal;
static int64_t at_offset_s, at_skipped_us;
static unsigned at_hurry = 1;

static void
at_on_signal(int number)
{
    at_signal = number;
}

static bool
at_stopped(void)
{
    return at_signal != 0;
}

static int64_t
at_now_s(void)
{
    return (int64_t)time(NULL) + at_offset_s + at_skipped_us / 1000000;
}

static void
at_pause_ms(unsigned ms)
{
    long us = (long)ms * 1000 / (long)at_hurry;
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    nanosleep(&t, NULL);
    at_skipped_us += (int64_t)ms * 1000 - us;
}

int
main(int argc, char **argv)
{
    static const struct acme_env env = {at_now_s, at_pause_ms, at_stopped};
    struct sigaction end = {.sa_handler = at_on_signal};
    struct acme_settings set = {.state = NULL};
    int rc = acme_cli_read(&set, argc, argv);

    if (getenv("ACME_OFFSET_S") != NULL)
        at_offset_s = strtoll(getenv("ACME_OFFSET_S"), NULL, 10);
    if (getenv("ACME_HURRY") != NULL)
        at_hurry = (unsigned)strtoul(getenv("ACME_HURRY"), NULL, 10);
    sigaction(SIGTERM, &end, NULL);
    if (rc == -1) {
        curl_global_init(CURL_GLOBAL_DEFAULT);
        rc = acme_run(&set, &env);
        curl_global_cleanup();
    }
    acme_cli_fini(&set);
    return rc;
}
