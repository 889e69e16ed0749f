/* shm_dir_test.c -- the directory of shared files while one process follows another. */
#include "t/unit/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/dir.h"

static bool
is_there(const char *dir, const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

TEST(shm_dir, who_follows_waits_beside_and_moves_in)
{
    char top[] = "/tmp/tarn-dir.XXXXXX", dir[64];
    struct shm_dir *old, *new, *third;
    struct counters *of_old, *of_new;

    elog_init(ELOG_ERROR, 1);
    CHECK(mkdtemp(top) != NULL);
    snprintf(dir, sizeof(dir), "%s/shm", top);
    CHECK_EQ(0, shm_dir_open_behind(&old, dir)); /* nobody is there */
    CHECK_EQ(0, counters_open(&of_old, old, 1));
    CHECK_EQ(0, shm_dir_settle(old));
    CHECK_EQ(0, shm_dir_open_behind(&new, dir));
    CHECK_EQ(TERR_BUSY, shm_dir_open_behind(&third, dir)); /* one at a time */
    CHECK_EQ(0, counters_open(&of_new, new, 2));
    CHECK(is_there(dir, "counters") && is_there(dir, "next/counters"));
    CHECK_EQ(TERR_BUSY, shm_dir_settle(new));
    shm_dir_yield(old);
    CHECK(!is_there(dir, "counters"));
    CHECK_EQ(0, shm_dir_settle(new));
    CHECK(is_there(dir, "counters") && !is_there(dir, "next"));
    CHECK_STR(dir, shm_dir_path(new));
    counters_close(&of_old);
    shm_dir_close(&old); /* what is there is not its own any more */
    CHECK(is_there(dir, "counters"));
    CHECK_EQ(0, shm_dir_settle(new));
    counters_close(&of_new);
    shm_dir_close(&new);
    CHECK(!is_there(dir, "counters"));
    unlink(strcat(dir, "/lock"));
    dir[strlen(dir) - strlen("/lock")] = '\0';
    rmdir(dir);
    CHECK_EQ(0, rmdir(top));
}

TEST_MAIN(TEST_ENTRY(shm_dir, who_follows_waits_beside_and_moves_in))
