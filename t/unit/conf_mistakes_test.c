/* conf_mistakes_test.c -- frequent mistakes get the text that says what would be right. */
#include "t/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_memory.h"
#include "t/unit/conf_fixture.h"

#define TWO "backends: {a: {address: '1.2.3.4:1'}, b: {address: '1.2.3.4:2'}}\n"

TEST(conf_mistakes, a_listener_written_as_text_is_shown_as_a_map)
{
    expect_errors(BACKEND "listen: 8080", "2:9 section 'listen' is a list of maps, not text: write "
                                          "`listen: [ { address: \"*:8080\" } "
                                          "]`\n");
    expect_errors(BACKEND "listen: ['127.0.0.1:80', {address: '*:81'}]",
        "2:10 a listener is a map, not text: write `listen: [ { address: \"127.0.0.1:80\" } ]`\n");
    expect_errors(BACKEND "listen: ':8080'", "2:9 section 'listen' is a list of maps, not text: "
                                             "write `listen: [ { address: \"*:8080\" } "
                                             "]`\n");
}

TEST(conf_mistakes, a_backend_written_as_text_is_shown_as_a_map)
{
    expect_errors("backends: {web: 127.0.0.1:3000}",
        "1:17 backend 'web' is a map: write `web: { address: \"127.0.0.1:3000\" }`\n");
    expect_errors("backends: {web: 'http://localhost:3000/a/'}",
        "1:17 backend 'web' is a map: write `web: { address: \"localhost:3000\" }`, without "
        "http://\n");
    expect_errors("backends: {web: 'HTTP://localhost'}",
        "1:17 backend 'web' is a map: write `web: { "
        "address: \"localhost:80\" }`, without http://\n");
}

TEST(conf_mistakes, a_glob_in_a_routes_path_is_no_prefix)
{
    static const char *const patterns[] = {"*.css", "^/img", "~ [.]php$", ".php", NULL};

    expect_errors(BACKEND "routes: [{path: '/img/*', backend: o}]",
        "2:17 path: '/img/*' has a '*': a path is a prefix, not a pattern; /img/ is all below it, "
        "and a '*' of a URL is %2A\n");
    for (const char *const *p = patterns; *p != NULL; p++) {
        char yaml[128], want[256];

        snprintf(yaml, sizeof(yaml), BACKEND "routes: [{path: '%s', backend: o}]", *p);
        snprintf(want, sizeof(want),
            "2:17 path: '%s' is a pattern: a path is a prefix that begins with '/', as in /img/; "
            "for "
            "endings, as in *.css, write a policy\n",
            *p);
        expect_errors(yaml, want);
    }
}

TEST(conf_mistakes, several_backends_need_a_default_or_a_route)
{
    const struct conf *c;

    expect_errors(TWO, "1:1 2 backends and no route: no default is chosen; name one of "
                       "them 'default', or add `routes: [ { backend: a } ]`\n");
    c = load(TWO "routes: [{path: /a, backend: a}]"); /* 503 for others may be what is wanted */
    conf_free(&c);
    c = load(TWO "vcl: p.vcl"); /* it may set one */
    conf_free(&c);
    c = load(TWO "directors: {d: {backends: [a, b]}}");
    conf_free(&c);
}

static int
not_readable(const char *path)
{
    return strcmp(path, "/etc/t/there.vcl") == 0 ? 0 : ENOENT;
}

/* What conf_load_source says first; "" for nothing. */
static const char *
first_error(struct conf_source src, const char *yaml)
{
    static char got[1024];
    struct conf_error *errors;
    const struct conf *c = NULL;

    src.text = slice_str(yaml);
    if (conf_load_source(&c, &src, &errors) == 0) {
        conf_free(&c);
        return "";
    }
    snprintf(got, sizeof(got), "%u:%u %s", errors->line, errors->column, errors->message);
    conf_errors_free(&errors);
    return got;
}

TEST(conf_mistakes, a_missing_policy_file_has_a_place)
{
    struct conf_source src = {.name = "/etc/t/tarn.yaml", .readable = not_readable};

    CHECK_STR(
        "2:6 vcl: the policy's file /etc/t/gone.vcl cannot be read: No such file or directory",
        first_error(src, BACKEND "vcl: gone.vcl"));
    CHECK_STR("", first_error(src, BACKEND "vcl: there.vcl"));
}

TEST(conf_mistakes, a_store_larger_than_memory_is_refused)
{
    struct conf_memory m = {.bytes = UINT64_C(2) << 30, .limit = "the machine"};
    struct conf_source src = {.name = "t.yaml", .memory = &m};

    CHECK_STR("2:24 size: '3GiB' is more than the memory there is: the machine has 2GiB",
        first_error(src, BACKEND "storage: {main: {size: 3GiB}}"));
    CHECK_STR("", first_error(src, BACKEND "storage: {main: {size: 2GiB}}"));
    m.bytes = 0; /* not known */
    CHECK_STR("", first_error(src, BACKEND "storage: {main: {size: 3GiB}}"));
}

static const char *
fake_env(const char *name)
{
    return strcmp(name, "PORT") == 0    ? "8081"
           : strcmp(name, "EMPTY") == 0 ? ""
           : strcmp(name, "TTL") == 0   ? "5s"
                                        : NULL;
}

TEST(conf_env, a_value_takes_variables_of_the_environment)
{
    struct conf_source src = {.name = "t.yaml",
        .env = fake_env,
        .text = slice_str("listen: [{address: '127.0.0.1:${PORT}'}, {address: \"*:${NO:-8082}\"}]\n"
                          "backends: {o: {address: 'unix:/$${PORT}/${EMPTY:-x}/${NO:-}y'}}\n"
                          "parameters: {default_ttl: '${TTL}'}\n")};
    const struct conf *c = NULL;
    struct conf_error *errors;

    CHECK_EQ(0, conf_load_source(&c, &src, &errors));
    CHECK_STR("127.0.0.1:8081", c->listens[0].address.text);
    CHECK_STR("*:8082", c->listens[1].address.text);
    CHECK_STR("/${PORT}/x/y", c->backends[0].address.path);
    CHECK_EQ(5000, c->params.default_ttl);
    conf_free(&c);
}

TEST(conf_env, a_missing_variable_is_told_with_its_place)
{
    struct conf_source src = {.name = "t.yaml", .env = fake_env};

    CHECK_STR(
        "2:27 ${GONE}: the environment has no variable GONE: set it where tarnd is started, or "
        "write ${GONE:-default}",
        first_error(src, BACKEND "parameters: {default_ttl: \"${GONE}\"}"));
    CHECK_STR(
        "2:27 '${' begins a variable of the environment: write ${NAME}, ${NAME:-default}, or $${ "
        "for the text itself",
        first_error(src, BACKEND "parameters: {default_ttl: \"${TTL\"}"));
    CHECK_STR(
        "2:27 '${' begins a variable of the environment: write ${NAME}, ${NAME:-default}, or $${ "
        "for the text itself",
        first_error(src, BACKEND "parameters: {default_ttl: \"${TTL-5}\"}"));
    CHECK_STR("2:27 default_ttl: '8081' has no unit: write 8081s for seconds or 8081ms for "
              "milliseconds",
        first_error(src, BACKEND "parameters: {default_ttl: \"${PORT}\"}")); /* what it became */
    CHECK_STR("2:14 unknown key '${TTL}' in section 'parameters'; tarn.yaml(5) lists them",
        first_error(src, BACKEND "parameters: {\"${TTL}\": 1s}")); /* values only */
}

static char world[] = "/tmp/conf_mistakes_test.XXXXXX";

static void
world_write(const char *path, const char *text)
{
    char full[512];
    FILE *f;

    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(full, sizeof(full), "%s%.*s", world, (int)(slash - path), path);
        mkdir(full, 0700);
    }
    snprintf(full, sizeof(full), "%s%s", world, path);
    f = fopen(full, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

TEST(conf_mistakes, memory_is_the_machines_or_less_by_cgroup_v1_or_v2)
{
    struct conf_memory m;
    char command[128];

    CHECK(mkdtemp(world) != NULL);
    conf_memory_read(&m, world);
    CHECK_EQ(0, m.bytes);
    world_write("/proc/meminfo", "MemTotal:        4000000 kB\nMemFree:  5 kB\n");
    conf_memory_read(&m, world);
    CHECK_EQ(UINT64_C(4000000) << 10, m.bytes);
    CHECK_STR("the machine", m.limit);
    /* v2: the group above has the lower limit. */
    world_write("/proc/self/cgroup", "0::/system.slice/tarn.service\n");
    world_write("/sys/fs/cgroup/system.slice/tarn.service/memory.max", "max\n");
    conf_memory_read(&m, world);
    CHECK_STR("the machine", m.limit);
    world_write("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
    conf_memory_read(&m, world);
    CHECK_EQ(1073741824, m.bytes);
    CHECK(strstr(m.limit, "/sys/fs/cgroup/system.slice/memory.max") != NULL);
    world_write("/sys/fs/cgroup/system.slice/tarn.service/memory.max", "536870912\n");
    conf_memory_read(&m, world);
    CHECK_EQ(536870912, m.bytes);
    /* v1: each controller has a tree of its own. */
    world_write("/proc/self/cgroup", "3:cpu,cpuacct:/c\n5:memory:/docker/x\n1:name=systemd:/y\n");
    world_write("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "268435456\n");
    world_write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    conf_memory_read(&m, world);
    CHECK_EQ(268435456, m.bytes);
    /* In a container the group is /. */
    world_write("/proc/self/cgroup", "0::/\n");
    world_write("/sys/fs/cgroup/memory.max", "134217728\n");
    conf_memory_read(&m, world);
    CHECK_EQ(134217728, m.bytes);
    snprintf(command, sizeof(command), "rm -r %s", world);
    CHECK_EQ(0, system(command));
}

TEST_MAIN(TEST_ENTRY(conf_mistakes, a_listener_written_as_text_is_shown_as_a_map),
    TEST_ENTRY(conf_mistakes, a_backend_written_as_text_is_shown_as_a_map),
    TEST_ENTRY(conf_mistakes, a_glob_in_a_routes_path_is_no_prefix),
    TEST_ENTRY(conf_mistakes, several_backends_need_a_default_or_a_route),
    TEST_ENTRY(conf_mistakes, a_missing_policy_file_has_a_place),
    TEST_ENTRY(conf_env, a_value_takes_variables_of_the_environment),
    TEST_ENTRY(conf_env, a_missing_variable_is_told_with_its_place),
    TEST_ENTRY(conf_mistakes, a_store_larger_than_memory_is_refused),
    TEST_ENTRY(conf_mistakes, memory_is_the_machines_or_less_by_cgroup_v1_or_v2))
