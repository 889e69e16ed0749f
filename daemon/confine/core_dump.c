/* core_dump.c -- whether a crash leaves a copy of the process's memory. */
#include "daemon/confine/core_dump.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "daemon/log/elog.h"

/* The limit alone would not do: where core_pattern names a program, as systemd's, the kernel runs it all the
 * same. */
void
core_dump_set(bool allowed)
{
    struct rlimit core = {0, 0};

    if (allowed && getrlimit(RLIMIT_CORE, &core) == 0)
        core.rlim_cur = core.rlim_max;
    if (prctl(PR_SET_DUMPABLE, allowed ? 1UL : 0UL, 0UL, 0UL, 0UL) != 0 ||
        setrlimit(RLIMIT_CORE, &core) != 0)
        elog(ELOG_WARN, "core_dumps: %s: %s", allowed ? "on" : "off", strerror(errno));
}
