/* acme_state_test.c -- the state directory and state.json. */
#include "t/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/acme/acme_state.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* A folder of the test with a state directory `state` that is not there yet. */
struct folder {
    char top[64], state[80], text[300];
    struct acme_fail fail;
};

static struct folder
folder_open(void)
{
    struct folder f = {.top = "/tmp/tarn-acme-test.XXXXXX"};

    CHECK(mkdtemp(f.top) != NULL);
    snprintf(f.state, sizeof(f.state), "%s/state", f.top);
    acme_fail_init(&f.fail);
    return f;
}

static void
folder_close(const struct folder *f)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", f->top);
    CHECK_EQ(0, system(command));
}

static unsigned
mode_of(struct folder *f, const char *file)
{
    struct stat st;

    snprintf(f->text, sizeof(f->text), "%s/%s", f->state, file);
    return stat(f->text, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void
set_mode(struct folder *f, const char *file, mode_t mode)
{
    snprintf(f->text, sizeof(f->text), "%s/%s", f->state, file);
    CHECK_EQ(0, chmod(f->text, mode));
}

static bool
says(struct folder *f, const char *part)
{
    bool ok = strstr(f->fail.text, part) != NULL;

    if (!ok)
        print_error("\"%s\" does not say \"%s\"\n", f->fail.text, part);
    acme_fail_init(&f->fail);
    return ok;
}

/* ---- the directory ---- */

TEST(dir, is_made_with_modes_that_keep_others_out_whatever_the_umask)
{
    struct folder f = folder_open();
    struct acme_dir d;
    struct span got;
    mode_t mask = umask(0);

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    CHECK_EQ(0700, mode_of(&f, ""));
    CHECK_EQ(0700, mode_of(&f, "certs"));
    CHECK_EQ(0700, mode_of(&f, "challenges/http-01"));
    CHECK_EQ(0700, mode_of(&f, "challenges/tls-alpn-01"));
    CHECK_EQ(0, acme_dir_write(&d, "certs/a.pem", slice_str("one"), &f.fail));
    umask(0777);
    CHECK_EQ(0, acme_dir_write(&d, "certs/a.pem", slice_str("another"), &f.fail));
    umask(mask);
    CHECK_EQ(0600, mode_of(&f, "certs/a.pem"));
    CHECK_EQ(0, acme_dir_read(&d, "certs/a.pem", &got, &f.fail));
    CHECK_STR("another", got.ptr);
    CHECK_EQ(7, got.len);
    free(got.ptr);
    CHECK_EQ(TERR_NOTFOUND, acme_dir_read(&d, "certs/b.pem", &got, &f.fail));
    acme_dir_close(&d);
    folder_close(&f);
}

TEST(dir, wider_permissions_are_refused_and_not_put_right)
{
    struct folder f = folder_open();
    struct acme_dir d;
    struct span got;

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    CHECK_EQ(0, acme_dir_write(&d, "account.key", slice_str("x"), &f.fail));
    set_mode(&f, "account.key", 0640);
    CHECK_EQ(TERR_DENIED, acme_dir_read(&d, "account.key", &got, &f.fail));
    CHECK(strstr(f.fail.text, "chmod 600 it") != NULL);
    CHECK(says(&f, "/account.key has mode 0640, so other users may have read private keys; 0600 "
                   "would be right"));
    CHECK_EQ(0640, mode_of(&f, "account.key"));
    acme_dir_close(&d);
    set_mode(&f, "certs", 0750);
    CHECK_EQ(TERR_DENIED, acme_dir_open(&d, f.state, false, &f.fail));
    CHECK(says(&f, "/certs has mode 0750"));
    set_mode(&f, "certs", 0700);
    set_mode(&f, "", 0755);
    CHECK_EQ(TERR_DENIED, acme_dir_open(&d, f.state, false, &f.fail));
    CHECK(says(&f, "/state has mode 0755"));
    folder_close(&f);
}

TEST(dir, links_and_what_is_no_file_are_not_followed)
{
    struct folder f = folder_open();
    struct acme_dir d;
    struct span got;

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    snprintf(f.text, sizeof(f.text), "%s/account.key", f.state);
    CHECK_EQ(0, symlink("/etc/passwd", f.text));
    CHECK_EQ(TERR_IO, acme_dir_read(&d, "account.key", &got, &f.fail));
    CHECK(says(&f, "account.key: cannot be opened"));
    CHECK_EQ(TERR_DENIED, acme_dir_read(&d, "certs", &got, &f.fail));
    CHECK(says(&f, "no regular file"));
    CHECK_EQ(0, unlink(f.text));
    CHECK_EQ(0, mkfifo(f.text, 0600));
    CHECK_EQ(TERR_DENIED, acme_dir_read(&d, "account.key", &got, &f.fail));
    CHECK(says(&f, "no regular file"));
    acme_dir_close(&d);
    folder_close(&f);
}

TEST(dir, a_second_one_does_not_get_the_lock)
{
    struct folder f = folder_open();
    struct acme_dir one, two;

    CHECK_EQ(0, acme_dir_open(&one, f.state, false, &f.fail));
    CHECK_EQ(0, acme_dir_open(&two, f.state, false, &f.fail));
    CHECK_EQ(0, acme_dir_lock(&one, &f.fail));
    CHECK_EQ(TERR_BUSY, acme_dir_lock(&two, &f.fail));
    CHECK(says(&f, "another tarn-acme has it"));
    acme_dir_unlock(&one);
    CHECK_EQ(0, acme_dir_lock(&two, &f.fail));
    acme_dir_close(&one);
    acme_dir_close(&two);
    folder_close(&f);
}

TEST(dir, what_a_killed_process_left_is_removed_and_nothing_else)
{
    static const char *const goes[] = {
        "challenges/http-01/token", "challenges/tls-alpn-01/a.pem", ".new.123"};
    static const char *const stays[] = {"certs/a.pem", "account.key", "state.json"};
    struct folder f = folder_open();
    struct acme_dir d;

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    for (size_t i = 0; i < ARRAY_LEN(goes); i++)
        CHECK_EQ(0, acme_dir_write(&d, goes[i], slice_str("x"), &f.fail));
    for (size_t i = 0; i < ARRAY_LEN(stays); i++)
        CHECK_EQ(0, acme_dir_write(&d, stays[i], slice_str("x"), &f.fail));
    acme_dir_sweep(&d);
    for (size_t i = 0; i < ARRAY_LEN(goes); i++)
        CHECK_EQ(0, mode_of(&f, goes[i]));
    for (size_t i = 0; i < ARRAY_LEN(stays); i++)
        CHECK_EQ(0600, mode_of(&f, stays[i]));
    acme_dir_close(&d);
    folder_close(&f);
}

TEST(dir, a_write_that_fails_leaves_the_old_file_and_no_new_one)
{
    struct folder f = folder_open();
    struct acme_dir d;
    struct span got;

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    CHECK_EQ(0, acme_dir_write(&d, "state.json", slice_str("old"), &f.fail));
    CHECK_EQ(TERR_IO, acme_dir_write(&d, "certs", slice_str("x"), &f.fail)); /* a directory */
    CHECK(says(&f, "/certs: cannot be written"));
    CHECK_EQ(TERR_IO, acme_dir_write(&d, "absent/a", slice_str("x"), &f.fail));
    CHECK(says(&f, "/absent/a: cannot be written"));
    snprintf(f.text, sizeof(f.text), ".new.%ld", (long)getpid());
    CHECK(faccessat(d.fd, f.text, F_OK, 0) != 0 && errno == ENOENT);
    CHECK_EQ(0, acme_dir_read(&d, "state.json", &got, &f.fail));
    CHECK_STR("old", got.ptr);
    free(got.ptr);
    acme_dir_close(&d);
    folder_close(&f);
}

TEST(dir, a_look_makes_nothing)
{
    struct folder f = folder_open();
    struct acme_dir d;
    struct span got;

    CHECK_EQ(0, acme_dir_open(&d, f.state, true, &f.fail));
    CHECK_EQ(TERR_NOTFOUND, acme_dir_read(&d, "state.json", &got, &f.fail));
    acme_dir_close(&d);
    CHECK(access(f.state, F_OK) != 0);
    folder_close(&f);
}

/* ---- state.json ---- */

TEST(state, a_record_is_what_it_was_after_the_file_was_read_again)
{
    const char *names[] = {"a.test", "b.test"};
    struct acme_wanted w = {names, 2};
    struct acme_record r = {.last_attempt_s = 1,
        .next_attempt_s = 2,
        .failures = 3,
        .last_error = "why \"not\"",
        .directory = "https://ca.test/dir",
        .not_after_s = 4,
        .certid = "a.b",
        .ari_start_s = 5,
        .ari_end_s = 6,
        .ari_chosen_s = 7,
        .ari_next_s = 8};
    struct folder f = folder_open();
    struct acme_record back;
    struct acme_state *s;
    struct acme_dir d;
    char *due;

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    CHECK_EQ(0, acme_state_open(&s, &d, &f.fail));
    CHECK(acme_state_hook_due(s) == NULL);
    acme_state_hook_add(s, "a.test");
    acme_state_hook_add(s, "a.test");
    acme_state_hook_add(s, "c.test");
    CHECK_EQ(0, acme_state_put(s, "a.test", &r, &w, &f.fail));
    acme_state_close(&s);
    CHECK_EQ(0, acme_state_open(&s, &d, &f.fail));
    acme_state_get(s, "a.test", &back);
    CHECK_STR(r.last_error, back.last_error);
    CHECK_STR(r.directory, back.directory);
    CHECK_STR(r.certid, back.certid);
    CHECK_EQ(3, back.failures);
    CHECK_EQ(36 - 3, back.last_attempt_s + back.next_attempt_s + back.not_after_s +
                         back.ari_start_s + back.ari_end_s + back.ari_chosen_s + back.ari_next_s);
    acme_state_get(s, "b.test", &back);
    CHECK_EQ(0, back.failures);
    CHECK_STR("", back.directory);
    due = acme_state_hook_due(s);
    CHECK_STR("a.test c.test", due);
    free(due);
    CHECK_EQ(0, acme_state_hook_done(s, &f.fail));
    CHECK(acme_state_hook_due(s) == NULL);
    acme_state_close(&s);
    acme_dir_close(&d);
    folder_close(&f);
}

TEST(state, a_file_of_nonsense_is_no_state_and_is_written_anew)
{
    static const char odd_types[] = "{\"certificates\": {\"a.test\": {\"failures\": -1, "
                                    "\"directory\": 3, \"ari_next_s\": \"x\"}}}";
    static const char *const texts[] = {
        "", "{", "[1]", "{\"certificates\": 7, \"hook_due\": [7, {}]}", odd_types};
    const char *names[] = {"a.test"};
    struct acme_wanted w = {names, 1};
    struct folder f = folder_open();
    struct acme_record r;
    struct acme_state *s;
    struct acme_dir d;
    char *due;

    CHECK_EQ(0, acme_dir_open(&d, f.state, false, &f.fail));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CHECK_EQ(0, acme_dir_write(&d, "state.json", slice_str(texts[i]), &f.fail));
        CHECK_EQ(0, acme_state_open(&s, &d, &f.fail));
        acme_state_get(s, "a.test", &r);
        CHECK_EQ(0, r.failures);
        CHECK_EQ(0, r.ari_next_s);
        r.failures = 2;
        acme_state_hook_add(s, "a.test");
        CHECK_EQ(0, acme_state_put(s, "a.test", &r, &w, &f.fail));
        due = acme_state_hook_due(s);
        CHECK_STR("a.test", due);
        free(due);
        acme_state_close(&s);
        CHECK_EQ(0, acme_state_open(&s, &d, &f.fail));
        acme_state_get(s, "a.test", &r);
        CHECK_EQ(2, r.failures);
        acme_state_close(&s);
    }
    acme_dir_close(&d);
    folder_close(&f);
}

TEST_MAIN(TEST_ENTRY(dir, is_made_with_modes_that_keep_others_out_whatever_the_umask),
    TEST_ENTRY(dir, wider_permissions_are_refused_and_not_put_right),
    TEST_ENTRY(dir, links_and_what_is_no_file_are_not_followed),
    TEST_ENTRY(dir, a_second_one_does_not_get_the_lock),
    TEST_ENTRY(dir, what_a_killed_process_left_is_removed_and_nothing_else),
    TEST_ENTRY(dir, a_write_that_fails_leaves_the_old_file_and_no_new_one),
    TEST_ENTRY(dir, a_look_makes_nothing),
    TEST_ENTRY(state, a_record_is_what_it_was_after_the_file_was_read_again),
    TEST_ENTRY(state, a_file_of_nonsense_is_no_state_and_is_written_anew))
