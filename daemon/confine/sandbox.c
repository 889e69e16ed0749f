/* sandbox.c -- no new privileges, and the system calls that are refused. */
#include "daemon/confine/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "conf/conf.h"
#include "daemon/base/obj.h"
#include "daemon/confine/sandbox_priv.h"
#include "daemon/confine/sandbox_table.h"
#include "daemon/log/elog.h"

static const char *const sandbox_denied[] = {
#define X(name, why) #name,
    SANDBOX_DENY_TABLE(X)
#undef X
};

/* As seccomp_rule_add() answers: 0, or negative errno. */
static int
sandbox_deny_listed(scmp_filter_ctx filter)
{
    int rc = 0;

    for (unsigned i = 0; i < ARRAY_LEN(sandbox_denied) && rc == 0; i++) {
        int call = seccomp_syscall_resolve_name(sandbox_denied[i]);

        if (call != __NR_SCMP_ERROR)
            rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
    }
    return rc;
}

/* Denies a call if its first argument compares so.  `a` is a mask and `b` the value, or `a` the
 * value. */
static int
sandbox_deny_if(
    scmp_filter_ctx filter, int error, int call, enum scmp_compare op, const scmp_datum_t ab[2])
{
    struct scmp_arg_cmp first = {.arg = 0, .op = op, .datum_a = ab[0], .datum_b = ab[1]};

    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(error), call, 1, &first);
}

/* Threads yes, processes no.  The flags of clone3 lie in memory, where no filter sees them: libc
 * falls back to clone where there is none. */
static int
sandbox_deny_processes(scmp_filter_ctx filter)
{
    int rc = sandbox_deny_if(filter, EPERM, SCMP_SYS(clone), SCMP_CMP_MASKED_EQ,
        (const scmp_datum_t[2]){CLONE_THREAD, 0});

    return rc != 0 ? rc : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* Families but Unix, IPv4, IPv6 and netlink, which the resolver asks for interfaces.  Most holes of
 * the kernel's network lie in the others. */
static int
sandbox_deny_families(scmp_filter_ctx filter)
{
    int rc = sandbox_deny_if(filter, EAFNOSUPPORT, SCMP_SYS(socket), SCMP_CMP_GT,
        (const scmp_datum_t[2]){AF_NETLINK, 0});

    for (unsigned family = 0; family < AF_NETLINK && rc == 0; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
            rc = sandbox_deny_if(filter, EAFNOSUPPORT, SCMP_SYS(socket), SCMP_CMP_EQ,
                (const scmp_datum_t[2]){family, 0});
    return rc;
}

/* 0, or negative errno. */
static int
sandbox_filter(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int rc;

    if (filter == NULL)
        return -ENOMEM;
    /* Or kernels before 5.16 make every load of the process wait for its stores. */
    rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    if (rc == 0)
        rc = sandbox_deny_listed(filter);
    if (rc == 0)
        rc = sandbox_deny_processes(filter);
    if (rc == 0)
        rc = sandbox_deny_families(filter);
    if (rc == 0)
        rc = seccomp_load(filter);
    seccomp_release(filter);
    return rc;
}

void
sandbox_enter(const struct conf *conf)
{
    int rc;

    if (!conf->params.sandbox)
        return;
#ifdef TARN_LIBC_MALLOC /* a build with a sanitizer */
    elog(ELOG_INFO, "sandbox: a sanitizer is built in, so there is none");
    return;
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0)
        elog(ELOG_WARN, "sandbox: no_new_privs: %s", strerror(errno));
    if (sandbox_paths_restrict(conf) != 0)
        elog(ELOG_INFO,
            "sandbox: no Landlock here (%s): permissions alone say which files may be written",
            strerror(errno));
    rc = sandbox_filter();
    if (rc != 0)
        elog(ELOG_WARN, "sandbox: seccomp: %s: system calls are not filtered", strerror(-rc));
}
