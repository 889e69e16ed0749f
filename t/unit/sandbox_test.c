/* sandbox_test.c -- what a process can still do behind sandbox_enter() and privilege_drop().
 *
 * Each attempt is a child's: there is no way back.  It exits with 0, or with the number of
 * the line that was wrong, modulo 250.
 */
#include "daemon/confine/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/confine/core_dump.h"
#include "daemon/confine/privilege.h"
#include "t/unit/test.h"

#define MUST(e)                        \
    do {                               \
        if (!(e))                      \
            _exit(1 + __LINE__ % 250); \
    } while (0)
#define REFUSED(e, why)                    \
    do {                                   \
        errno = 0;                         \
        MUST((e) == -1 && errno == (why)); \
    } while (0)

static char folder[64]; /* with logs/, run/ and elsewhere/ */

static void
folder_make(void)
{
    char at[96];

    snprintf(folder, sizeof(folder), "/tmp/tarn-sandbox.XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < 3; i++) {
        snprintf(at, sizeof(at), "%s/%s", folder, (const char *[]){"logs", "run", "elsewhere"}[i]);
        CHECK_EQ(0, mkdir(at, 0755));
    }
}

static void
folder_remove(void)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK_EQ(0, system(command));
}

/* Runs `f` in a child that is confined as a configuration with these parameters says. */
static void
confined(const char *parameters, void (*f)(void))
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        struct conf_error *errors = NULL;
        const struct conf *conf = NULL;
        char yaml[1024];

        snprintf(yaml, sizeof(yaml),
            "listen: [{address: 'unix:%s/run/tarn.sock'}]\n"
            "backends: {a: {address: '127.0.0.1:9'}}\n"
            "parameters: {access_log: %s/logs/access.log, %s}\n",
            folder, folder, parameters);
        MUST(conf_load_text(&conf, "t.yaml", yaml, strlen(yaml), &errors) == 0);
        sandbox_enter(conf);
        f();
        _exit(0);
    }
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    CHECK_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static int
path_open(const char *name, int flags)
{
    char at[128];

    snprintf(at, sizeof(at), "%s/%s", folder, name);
    return open(at, flags | O_CLOEXEC, 0600);
}

static void *
thread_main(void *arg)
{
    return arg;
}

static void
try_programs_and_processes(void)
{
    char *const argv[] = {(char[]){"true"}, NULL};
    pthread_t thread;

    MUST(prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL) == 1);
    REFUSED(execve("/bin/true", argv, NULL), EPERM);
    REFUSED(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, NULL, 0), EPERM);
    REFUSED(fork(), EPERM);
    REFUSED(syscall(SYS_vfork), EPERM);
    REFUSED(syscall(SYS_clone3, NULL, (size_t)0), ENOSYS);
    MUST(system("true") != 0);
    MUST(pthread_create(&thread, NULL, thread_main, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
}

static void
try_the_kernel(void)
{
    struct timespec now = {.tv_sec = 1};

    REFUSED(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL), EPERM);
    REFUSED(mount("none", folder, "tmpfs", 0, NULL), EPERM);
    REFUSED(unshare(CLONE_NEWUSER), EPERM);
    REFUSED(clock_settime(CLOCK_REALTIME, &now), EPERM);
    REFUSED(syscall(SYS_bpf, 0, NULL, 0), EPERM);
    REFUSED(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
    REFUSED(syscall(SYS_setuid, getuid()), EPERM);
    REFUSED(syscall(SYS_keyctl, 0, 0, 0, 0, 0), EPERM);
}

static void
try_sockets(void)
{
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK};

    for (unsigned i = 0; i < 4; i++)
        MUST(socket(families[i], SOCK_DGRAM, 0) >= 0 || errno != EAFNOSUPPORT ||
             families[i] == AF_INET6);
    REFUSED(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
    REFUSED(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
    REFUSED(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT);
    REFUSED(socket(AF_AX25, SOCK_DGRAM, 0), EAFNOSUPPORT);
}

/* Of kernels without Landlock nothing is asked. */
static bool
has_landlock(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION) >
           0;
}

static void
try_files(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char from[128], to[128];
    int fd;

    MUST(path_open("logs/access.log", O_WRONLY | O_APPEND | O_CREAT) >= 0);
    snprintf(from, sizeof(from), "%s/logs/access.log", folder);
    snprintf(to, sizeof(to), "%s/logs/access.log.1", folder);
    MUST(rename(from, to) == 0 && unlink(to) == 0); /* as the directory's owner may */
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/run/tarn.sock", folder);
    MUST(bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && unlink(un.sun_path) == 0);
    MUST(open("/dev/null", O_WRONLY) >= 0);
    MUST(open("/etc/passwd", O_RDONLY) >= 0);
    MUST(path_open("elsewhere/old", O_RDONLY) >= 0);
    if (!has_landlock())
        return;
    REFUSED(path_open("elsewhere/new", O_WRONLY | O_CREAT), EACCES);
    REFUSED(path_open("elsewhere/old", O_WRONLY), EACCES);
    snprintf(to, sizeof(to), "%s/elsewhere/old", folder);
    REFUSED(unlink(to), EACCES);
    snprintf(to, sizeof(to), "%s/logs/link", folder);
    REFUSED(symlink("/etc/passwd", to), EACCES);
    snprintf(to, sizeof(to), "%s/elsewhere/dir", folder);
    REFUSED(mkdir(to, 0755), EACCES);
}

static void
try_nothing_is_forbidden(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        execl("/bin/true", "true", (char *)NULL);
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    MUST(path_open("elsewhere/new", O_WRONLY | O_CREAT) >= 0);
}

TEST(sandbox, no_program_is_run_and_no_process_is_left)
{
    confined("sandbox: on", try_programs_and_processes);
}

TEST(sandbox, what_the_kernel_offers_beside_serving_is_refused)
{
    confined("sandbox: on", try_the_kernel);
}

TEST(sandbox, sockets_are_those_of_clients_and_origins)
{
    confined("sandbox: on", try_sockets);
}

TEST(sandbox, files_are_written_where_the_configuration_names_some)
{
    confined("sandbox: on", try_files);
}

TEST(sandbox, it_can_be_switched_off)
{
    confined("sandbox: off", try_nothing_is_forbidden);
}

/* A line of /proc/self/status, as a number. */
static unsigned long long
status_of(const char *key)
{
    unsigned long long value = ~0ULL;
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];

    MUST(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoull(line + strlen(key), NULL, 16);
    fclose(f);
    return value;
}

static void
become(const char *user, const char *group, uid_t uid, gid_t gid)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(1)};
    gid_t gids[3], groups[2];
    uid_t uids[3];
    int n;

    MUST(privilege_drop(user, group) == 0);
    MUST(getresuid(&uids[0], &uids[1], &uids[2]) == 0);
    MUST(getresgid(&gids[0], &gids[1], &gids[2]) == 0);
    for (unsigned i = 0; i < 3; i++)
        MUST(uids[i] == uid && gids[i] == gid);
    n = getgroups(2, groups); /* its own at most: the user is in no other */
    MUST(n == 0 || (n == 1 && groups[0] == gid));
    MUST((status_of("CapEff:") & ~UINT64_C(0x400)) == 0);
    MUST((status_of("CapPrm:") & ~UINT64_C(0x400)) == 0);
    MUST(setuid(0) == -1 && seteuid(0) == -1 && setgid(0) == -1);
    MUST(open("/etc/shadow", O_RDONLY) == -1);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&at, sizeof(at)) == 0 ||
         errno == EADDRINUSE || status_of("CapEff:") == 0);
    core_dump_set(true);
    MUST(prctl(PR_GET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) == 1);
    core_dump_set(false);
    MUST(prctl(PR_GET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) == 0);
}

static void
in_a_child(void (*f)(void))
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        f();
        _exit(0);
    }
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    CHECK_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* Who is not root stays who he is, whatever the configuration says. */
static void
try_a_user(void)
{
    if (geteuid() == 0)
        become("nobody", "", 65534, 65534);
    else
        MUST(privilege_drop("nobody", "") == 0 && geteuid() != 65534);
}

static void
try_numbers(void)
{
    if (geteuid() == 0)
        become("10001", "10002", 10001, 10002);
    else
        MUST(privilege_drop("10001", "10002") == 0);
}

static void
try_a_user_and_the_sandbox(void)
{
    try_a_user();
    confined("sandbox: on", try_programs_and_processes);
}

TEST(privilege, root_becomes_a_user_without_groups_or_capabilities)
{
    in_a_child(try_a_user);
    in_a_child(try_numbers);
    in_a_child(try_a_user_and_the_sandbox);
}

TEST(privilege, who_does_not_exist_is_said_so)
{
    CHECK_EQ(TERR_CONFIG, privilege_drop("no-such-user", ""));
    CHECK_EQ(TERR_CONFIG, privilege_drop("nobody", "no-such-group"));
    CHECK_EQ(TERR_CONFIG, privilege_drop("4294967295", ""));
    CHECK_EQ(TERR_CONFIG, privilege_drop("10001", "")); /* a number without a group */
    CHECK_EQ(0, privilege_drop("", ""));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(sandbox, no_program_is_run_and_no_process_is_left),
        TEST_ENTRY(sandbox, what_the_kernel_offers_beside_serving_is_refused),
        TEST_ENTRY(sandbox, sockets_are_those_of_clients_and_origins),
        TEST_ENTRY(sandbox, files_are_written_where_the_configuration_names_some),
        TEST_ENTRY(sandbox, it_can_be_switched_off),
        TEST_ENTRY(privilege, root_becomes_a_user_without_groups_or_capabilities),
        TEST_ENTRY(privilege, who_does_not_exist_is_said_so)};
    int failed, fd;

    folder_make();
    fd = path_open("elsewhere/old", O_WRONLY | O_CREAT);
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove();
    return failed;
}
