/* privilege.c -- giving up what root may do. */
#include "daemon/confine/privilege.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"

struct privilege_ids {
    uid_t uid;
    gid_t gid;
    bool has_gid;
    char name[64]; /* "": a number without one */
};

static bool
privilege_number(const char *text, unsigned *out)
{
    unsigned long value;
    char *end;

    /* strtoul(3) would take a sign. */
    if (text[strspn(text, "0123456789")] != '\0')
        return false;
    errno = 0;
    value = strtoul(text, &end, 10);
    *out = (unsigned)value;
    return errno == 0 && value < UINT_MAX; /* (uid_t)-1 means "as it is" */
}

static bool
privilege_find_user(const char *user, struct privilege_ids *ids)
{
    const struct passwd *pw = getpwnam(user);
    unsigned number;

    if (pw == NULL && privilege_number(user, &number)) {
        ids->uid = number;
        pw = getpwuid(number);
        if (pw == NULL)
            return true; /* as in a container: the group has to be given */
    }
    if (pw == NULL)
        return false;
    snprintf(ids->name, sizeof(ids->name), "%s", pw->pw_name);
    ids->uid = pw->pw_uid;
    ids->gid = pw->pw_gid;
    ids->has_gid = true;
    return true;
}

static bool
privilege_find_group(const char *group, struct privilege_ids *ids)
{
    const struct group *gr = getgrnam(group);
    unsigned number;

    if (gr != NULL)
        ids->gid = gr->gr_gid;
    else if (privilege_number(group, &number))
        ids->gid = number;
    else
        return false;
    ids->has_gid = true;
    return true;
}

bool
privilege_user_id(const char *user, unsigned *uid)
{
    struct privilege_ids ids;
    bool found = privilege_find_user(user, &ids);

    *uid = found ? ids.uid : 0;
    return found;
}

bool
privilege_group_id(const char *group, unsigned *gid)
{
    struct privilege_ids ids;
    bool found = privilege_find_group(group, &ids);

    *gid = found ? ids.gid : 0;
    return found;
}

static int
privilege_find(const char *user, const char *group, struct privilege_ids *ids)
{
    *ids = (struct privilege_ids){.has_gid = false};
    if (!privilege_find_user(user, ids))
        elog(ELOG_ERROR, "user: there is no user '%s': make one, as in `adduser --system %s`", user,
            user);
    else if (group[0] != '\0' && !privilege_find_group(group, ids))
        elog(ELOG_ERROR, "group: there is no group '%s': make one, as in `addgroup --system %s`",
            group, group);
    else if (!ids->has_gid)
        elog(ELOG_ERROR, "user %s is a number that has no name here: give it a 'group', too", user);
    else
        return 0;
    return TERR_CONFIG;
}

/* What we had of CAP_NET_BIND_SERVICE, and no other: libc has no call for it. */
static int
privilege_keep_bind(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    unsigned kept;

    if (syscall(SYS_capget, &head, data) != 0)
        return -1;
    /* Only what there was: a container may have taken it. */
    kept = data[0].permitted & 1U << CAP_NET_BIND_SERVICE;
    memset(data, 0, sizeof(data));
    data[0].permitted = data[0].effective = kept;
    return (int)syscall(SYS_capset, &head, data);
}

/* His other groups too, as systemd gives them to a unit's user: a Unix socket may be one of theirs. */
static int
privilege_join(const struct privilege_ids *ids)
{
    return ids->name[0] == '\0' ? setgroups(0, NULL) : initgroups(ids->name, ids->gid);
}

/* Groups first: only root can change them. */
static int
privilege_become(const struct privilege_ids *ids)
{
    if (prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL) != 0 || privilege_join(ids) != 0 ||
        setresgid(ids->gid, ids->gid, ids->gid) != 0 ||
        setresuid(ids->uid, ids->uid, ids->uid) != 0 || privilege_keep_bind() != 0)
        return -1;
    prctl(PR_SET_KEEPCAPS, 0UL, 0UL, 0UL, 0UL);
    /* Tried on purpose: if root comes back, nothing was given up. */
    if (ids->uid != 0 && setuid(0) == 0) {
        errno = EPERM; /* it would all have been for nothing */
        return -1;
    }
    return 0;
}

int
privilege_drop(const char *user, const char *group)
{
    struct privilege_ids ids;
    int err;

    if (user[0] == '\0') {
        if (geteuid() == 0)
            elog(ELOG_INFO, "tarnd runs as root; `parameters: { user: NAME }` gives that up");
        return 0;
    }
    err = privilege_find(user, group, &ids);
    if (err != 0)
        return err;
    if (geteuid() != 0) {
        if (ids.uid != geteuid())
            elog(ELOG_WARN, "user %s: tarnd was not started by root, and stays user %ld", user,
                (long)geteuid());
        return 0;
    }
    if (privilege_become(&ids) == 0)
        return 0;
    elog(ELOG_ERROR, "cannot become user %s: %s", user, strerror(errno));
    return TERR_IO;
}
