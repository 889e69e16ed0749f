/* listener_test.c -- who may connect to a Unix socket, while that changes. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/net/listener.h"
#include "t/unit/test.h"

static mode_t
mode_of(const char *path)
{
    struct stat st;

    CHECK_EQ(0, stat(path, &st));
    return st.st_mode & 07777;
}

/* A reload that fails elsewhere undoes what was changed: where nothing was, there is nothing to undo, and
 * what an operator has done to the file since stays. */
TEST(listener, an_owner_that_cannot_be_leaves_the_file_and_nothing_to_undo)
{
    char path[64], why[300] = "";
    struct conf_address at = {.is_unix = true, .path = path, .text = path};
    struct listen_how how = {.depth = 4, .mode = 0600, .user = "", .group = ""};
    struct listen_owned was;
    struct bound *b = NULL;

    snprintf(path, sizeof(path), "%s/tarn-listener-%d", P_tmpdir, (int)getpid());
    CHECK_EQ(0, listen_bind(&b, &at, &how, why, sizeof(why)));
    CHECK_EQ(0600, mode_of(path));
    how.mode = 0666;
    CHECK_EQ(0, listen_own(b, &at, &how, &was, why, sizeof(why)));
    CHECK(was.changed);
    CHECK_EQ(0666, mode_of(path));
    listen_disown(b, &was);
    CHECK_EQ(0600, mode_of(path));
    how.group = "no group has this name";
    CHECK_EQ(TERR_CONFIG, listen_own(b, &at, &how, &was, why, sizeof(why)));
    CHECK_EQ(0600, mode_of(path));
    CHECK_EQ(0, chmod(path, 0640));
    listen_disown(b, &was);
    CHECK_EQ(0640, mode_of(path));
    listen_release(&b);
    CHECK_EQ(-1, access(path, F_OK));
}

TEST_MAIN(TEST_ENTRY(listener, an_owner_that_cannot_be_leaves_the_file_and_nothing_to_undo))
