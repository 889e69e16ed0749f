/* backend_names_test.c -- a number in the log becomes the right name, or stays a number. */
#include "t/unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/log/access_format.h"
#include "daemon/shm/backend_names.h"
#include "daemon/shm/dir.h"

static const char *
name_of(const struct backend_names_view *v, unsigned number, int64_t start_ms)
{
    static char name[BACKEND_NAME_MAX];
    size_t n = backend_names_view_get(v, number, start_ms, name);

    CHECK_EQ(n, strlen(name));
    return name;
}

static int64_t
wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TEST(backend_names, another_process_finds_names_by_number)
{
    char dir[] = "/tmp/tarn-names-XXXXXX", path[64];
    struct backend_names_view *v;
    struct backend_names *n;
    struct shm_dir *d;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(0, shm_dir_open(&d, dir));
    CHECK_EQ(0, backend_names_open(&n, d));
    backend_names_set(n, 0, "default");
    snprintf(path, sizeof(path), "%s/backends", dir);
    CHECK_EQ(0, backend_names_view_open(&v, path));
    CHECK_STR("default", name_of(v, 0, 1));
    CHECK_STR("", name_of(v, 1, 1));
    CHECK_STR("", name_of(v, 4095, 1));
    CHECK_STR("", name_of(v, 4096, 1));
    CHECK_STR("", name_of(v, UINT32_MAX, 1));
    backend_names_set(n, 4095, "boot.last"); /* one that comes later */
    CHECK_STR("boot.last", name_of(v, 4095, 1));
    CHECK_STR("boot.last", name_of(backend_names_here(n), 4095, 1));
    backend_names_close(&n);
    shm_dir_close(&d);
    CHECK_STR("default", name_of(v, 0, 1)); /* as long as it is mapped */
    backend_names_view_close(&v);
    CHECK_EQ(TERR_NOTFOUND, backend_names_view_open(&v, path));
    snprintf(path, sizeof(path), "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

TEST(backend_names, a_number_used_again_gives_no_old_request_a_wrong_name)
{
    const struct backend_names_view *v;
    struct backend_names *n;
    int64_t before;

    CHECK_EQ(0, backend_names_open(&n, NULL));
    v = backend_names_here(n);
    backend_names_set(n, 3, "one");
    before = wall_ms();
    CHECK_STR("one", name_of(v, 3, 1)); /* nobody had it before: a clock set back is no matter */
    CHECK_STR("one", name_of(v, 3, -1));
    backend_names_set(n, 3, "one"); /* its successor by the same name */
    CHECK_STR("one", name_of(v, 3, before));
    backend_names_set(n, 3, "another");
    CHECK_STR("", name_of(v, 3, before));
    CHECK_STR("", name_of(v, 3, -1));
    CHECK_STR("another", name_of(v, 3, wall_ms() + 2));
    backend_names_close(&n);
}

TEST(backend_names, one_that_is_too_long_stays_a_number)
{
    char longest[BACKEND_NAME_MAX + 1];
    struct backend_names *n;

    memset(longest, 'x', sizeof(longest));
    longest[BACKEND_NAME_MAX] = '\0';
    CHECK_EQ(0, backend_names_open(&n, NULL));
    backend_names_set(n, 0, longest);
    CHECK_STR("", name_of(backend_names_here(n), 0, INT64_MAX));
    longest[BACKEND_NAME_MAX - 1] = '\0';
    backend_names_set(n, 0, longest);
    CHECK_STR(longest, name_of(backend_names_here(n), 0, INT64_MAX));
    backend_names_close(&n);
}

TEST(backend_names, a_line_of_json_has_the_name)
{
    static char line[ACCESS_LINE_MAX];
    struct shmlog_req r = {.fixed = {.backend = 2, .start_ms = 1}};
    struct backend_names *n;

    CHECK_EQ(0, backend_names_open(&n, NULL));
    line[access_format_named(line, ACCESS_FORMAT_JSON, &r, backend_names_here(n))] = '\0';
    CHECK(strstr(line, "\"backend\":1,") != NULL);
    backend_names_set(n, 1, "boot.\"b\xff\"");
    line[access_format_named(line, ACCESS_FORMAT_JSON, &r, backend_names_here(n))] = '\0';
    CHECK(strstr(line, "\"backend\":\"boot.\\\"b\\u00ff\\\"\",") != NULL);
    r.fixed.backend = 0;
    line[access_format_named(line, ACCESS_FORMAT_JSON, &r, backend_names_here(n))] = '\0';
    CHECK(strstr(line, "\"backend\":null,") != NULL);
    backend_names_close(&n);
}

TEST(backend_names, a_foreign_short_or_lying_file_is_refused)
{
    static char bytes[64 + 2 * 128] __attribute__((aligned(64)));
    char dir[] = "/tmp/tarn-names-XXXXXX", path[64];
    struct backend_names_view *v;
    struct backend_names *n;
    struct shm_dir *d;
    FILE *f;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(0, shm_dir_open(&d, dir));
    CHECK_EQ(0, backend_names_open(&n, d));
    snprintf(path, sizeof(path), "%s/backends", dir);
    f = fopen(path, "r");
    CHECK_EQ(sizeof(bytes), fread(bytes, 1, sizeof(bytes), f));
    fclose(f);
    backend_names_close(&n);
    shm_dir_close(&d);
    snprintf(path, sizeof(path), "%s/lock", dir);
    unlink(path);
    rmdir(dir);
    for (size_t len = 0; len <= sizeof(bytes); len += 8)
        CHECK_EQ(TERR_CORRUPT, backend_names_view_mem(&v, bytes, len)); /* 4,096 slots, it says */
    bytes[16] = 2;
    bytes[17] = 0; /* two */
    memset(bytes + 64, 0xfe, 256);
    for (size_t at = 0; at < sizeof(bytes); at++)
        for (unsigned bit = 0; bit < 8; bit++) { /* refused, or read without harm */
            bytes[at] ^= (char)(1 << bit);
            if (backend_names_view_mem(&v, bytes, sizeof(bytes)) == 0) {
                for (unsigned i = 0; i < 4; i++)
                    CHECK(strlen(name_of(v, i, INT64_MAX)) < BACKEND_NAME_MAX);
                backend_names_view_close(&v);
            }
            bytes[at] ^= (char)(1 << bit);
        }
}

enum {
    RACE_NAMES = 20000
};

static _Atomic bool race_over;

static void *
race_write(void *arg)
{
    char name[BACKEND_NAME_MAX];

    for (unsigned i = 0; i < RACE_NAMES; i++) {
        memset(name, 'a' + (int)(i % 26), sizeof(name));
        name[40 + i % 70] = '\0';
        backend_names_set(arg, 7, name);
    }
    atomic_store(&race_over, true);
    return NULL;
}

TEST(backend_names, no_torn_name_is_read)
{
    struct backend_names *n;
    char name[BACKEND_NAME_MAX];
    pthread_t writer;
    size_t len;

    CHECK_EQ(0, backend_names_open(&n, NULL));
    atomic_store(&race_over, false);
    CHECK_EQ(0, pthread_create(&writer, NULL, race_write, n));
    while (!atomic_load(&race_over)) {
        len = backend_names_view_get(backend_names_here(n), 7, INT64_MAX, name);
        for (size_t i = 1; i < len; i++)
            CHECK_EQ(name[0], name[i]);
        if (len > 0) /* the lengths and letters that go together: i mod 70 and i mod 26 */
            CHECK_EQ((len - 40) % 2, (size_t)(name[0] - 'a') % 2);
    }
    pthread_join(writer, NULL);
    backend_names_close(&n);
}

TEST_MAIN(TEST_ENTRY(backend_names, another_process_finds_names_by_number),
    TEST_ENTRY(backend_names, a_number_used_again_gives_no_old_request_a_wrong_name),
    TEST_ENTRY(backend_names, one_that_is_too_long_stays_a_number),
    TEST_ENTRY(backend_names, a_line_of_json_has_the_name),
    TEST_ENTRY(backend_names, a_foreign_short_or_lying_file_is_refused),
    TEST_ENTRY(backend_names, no_torn_name_is_read))
