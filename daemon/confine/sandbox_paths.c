/* sandbox_paths.c -- where files may be written, by Landlock.
 *
 * libc has no calls for it.  Which rights there are depends on the kernel: a ruleset that names an
 * unknown one is refused, so they are asked for by the version of its interface.
 *
 * Source: Documentation/userspace-api/landlock.rst of Linux 6.1.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/confine/sandbox_priv.h"
#include "daemon/log/elog.h"

#define PATHS_WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | PATHS_TRUNCATE)
#define PATHS_MAKE                                                    \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
        LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK)
/* Allowed below no path. */
#define PATHS_NEVER                                                                              \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
        LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)
#ifdef LANDLOCK_ACCESS_FS_TRUNCATE
#define PATHS_TRUNCATE LANDLOCK_ACCESS_FS_TRUNCATE
#else
#define PATHS_TRUNCATE (UINT64_C(1) << 14) /* of the third version */
#endif

struct paths {
    int ruleset;
    uint64_t handled; /* rights that are restricted */
};

/* Rights that this version of the interface knows. */
static uint64_t
paths_known(long version)
{
    uint64_t known = PATHS_WRITE | PATHS_MAKE | PATHS_NEVER | LANDLOCK_ACCESS_FS_REFER;

    if (version < 3)
        known &= ~PATHS_TRUNCATE;
    if (version < 2) /* it does not let a file change its directory at all */
        known &= ~(uint64_t)LANDLOCK_ACCESS_FS_REFER;
    return known;
}

/* Below `path`, or below what there is of it: a directory may come later.  Never all of /. */
static void
paths_allow(struct paths *p, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = rights & p->handled};
    char at[PATH_MAX];
    struct stat st;

    if (snprintf(at, sizeof(at), "%s", path) >= (int)sizeof(at))
        return; /* no file can be there either */
    rule.parent_fd = open(at, O_PATH | O_CLOEXEC);
    while (rule.parent_fd < 0 && errno == ENOENT) {
        char *slash = strrchr(at, '/');

        if (slash == NULL || slash == at)
            return;
        *slash = '\0';
        rule.parent_fd = open(at, O_PATH | O_CLOEXEC);
    }
    if (rule.parent_fd < 0 || fstat(rule.parent_fd, &st) != 0)
        return; /* the code that opens it will say that it cannot */
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= PATHS_WRITE;
    if (syscall(SYS_landlock_add_rule, p->ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
        elog(ELOG_WARN, "sandbox: %s: %s: it cannot be written", at, strerror(errno));
    close(rule.parent_fd);
}

/* What lies beside `path`, which may be made, renamed and removed. */
static void
paths_allow_around(struct paths *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    char at[PATH_MAX];
    int len = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);

    if (len >= (int)sizeof(at))
        return;
    snprintf(at, sizeof(at), "%.*s", len, path);
    paths_allow(p, len > 0 ? at : ".", PATHS_WRITE | PATHS_MAKE);
}

static void
paths_allow_address(struct paths *p, const struct conf_address *address)
{
    if (address->is_unix)
        paths_allow_around(p, address->path);
}

/* It may be a link to where it really is: it is made anew there. */
static void
paths_allow_renewed(struct paths *p, const char *path)
{
    char *real;

    if (path[0] == '\0')
        return;
    paths_allow_around(p, path);
    real = realpath(path, NULL);
    if (real != NULL)
        paths_allow_around(p, real);
    free(real);
}

/* Rotated. */
static void
paths_allow_log(struct paths *p, const char *path)
{
    if (strcmp(path, "-") != 0 && strncmp(path, "syslog:", 7) != 0)
        paths_allow_renewed(p, path);
}

/* Whatever is opened for writing, made or removed has its line here. */
static void
paths_of_conf(struct paths *p, const struct conf *conf)
{
    const char *shm_dir = conf->params.shm_dir;

    paths_allow(p, "/dev", PATHS_WRITE); /* null, stdout, a terminal */
    /* A tarnd that follows another has its files in a directory below at first. */
    paths_allow(p, shm_dir[0] != '\0' ? shm_dir : "/dev/shm",
        PATHS_WRITE | PATHS_MAKE | LANDLOCK_ACCESS_FS_REFER);
    paths_allow_log(p, conf->params.access_log);
    for (unsigned i = 0; i < conf->nlistens; i++) {
        paths_allow_address(p, &conf->listens[i].address);
        if (conf->listens[i].tls.said) /* each day's secret takes the place of the last one's */
            paths_allow_renewed(p, conf->listens[i].tls.session_secret);
    }
    if (conf->fleet.said && conf->fleet.state[0] != '\0')
        paths_allow_around(p, conf->fleet.state);
    if (conf->admin != NULL)
        paths_allow_address(p, &conf->admin->address);
    for (unsigned i = 0; i < conf->ntables; i++) /* readers count themselves in the state file */
        paths_allow_around(p, conf->tables[i].path);
}

int
sandbox_paths_restrict(const struct conf *conf)
{
    struct landlock_ruleset_attr attr;
    struct paths p;
    long version =
        syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    int rc, err;

    if (version < 0)
        return -1;
    memset(&attr, 0, sizeof(attr));
    attr.handled_access_fs = p.handled = paths_known(version);
    /* The first member is all that the first version had, and all that is used. */
    p.ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
    if (p.ruleset < 0)
        return -1;
    paths_of_conf(&p, conf);
    rc = (int)syscall(SYS_landlock_restrict_self, p.ruleset, 0);
    err = errno;
    close(p.ruleset);
    errno = err;
    return rc;
}
