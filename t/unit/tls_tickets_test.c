/* tls_tickets_test.c -- keys of session tickets by a clock of ours, and the file of their secret. */
#include "daemon/tls/tls_secret.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/terr.h"
#include "daemon/tls/tls_priv.h"

#define HOUR 3600
#define DAY  86400
#define NOON (INT64_C(20780) * DAY + 12 * HOUR) /* 2026-11-23 */

static int64_t clock_s;
static const unsigned char seed[48] = "of forty-eight bytes, which are not random here";
static char dir[64], file[128];

static int64_t
now_s(void)
{
    return clock_s;
}

static struct tls_secret
secret_of_seed(void)
{
    struct tls_secret s;

    assert_true(tls_secret_seed(seed, sizeof(seed), &s));
    return s;
}

static struct tls_tickets *
tickets_at(int64_t at_s, const struct tls_secret *secret)
{
    struct tls_tickets *t = NULL;

    clock_s = at_s;
    assert_int_equal(tls_tickets_open(&t, secret, now_s), 0);
    return t;
}

static struct ticket_key
sealed(struct tls_tickets *t, int64_t at_s)
{
    struct ticket_key key;

    clock_s = at_s;
    assert_int_equal(tls_tickets_find(t, NULL, &key), 0);
    return key;
}

/* What becomes of a ticket: 0, 1: to be replaced; -1: it opens no more. */
static int
opened(struct tls_tickets *t, int64_t at_s, const struct ticket_key *key)
{
    struct ticket_key found;
    int rc;

    clock_s = at_s;
    rc = tls_tickets_find(t, key->name, &found);
    if (rc >= 0)
        assert_memory_equal(&found, key, sizeof(found));
    return rc;
}

static void
a_key_seals_for_four_hours_and_opens_for_four_more(void **state)
{
    struct tls_secret s = secret_of_seed();
    struct tls_tickets *t = tickets_at(NOON, &s);
    struct ticket_key key = sealed(t, NOON), last = sealed(t, NOON + 4 * HOUR - 1), next;

    (void)state;
    assert_memory_equal(&key, &last, sizeof(key));
    next = sealed(t, NOON + 4 * HOUR);
    assert_memory_not_equal(key.name, next.name, TICKET_NAME);
    assert_memory_not_equal(key.aes, next.aes, sizeof(key.aes));
    assert_memory_not_equal(key.mac, next.mac, sizeof(key.mac));
    assert_int_equal(opened(t, NOON + 4 * HOUR, &next), 0);
    assert_int_equal(opened(t, NOON + 8 * HOUR - 1, &key), 1);
    assert_int_equal(opened(t, NOON + 8 * HOUR, &key), -1);
    /* Another node's clock is ahead by a period. */
    assert_int_equal(opened(t, NOON, &next), 0);
    tls_tickets_close(&t);
}

/* The first and the last key of each day, with processes that start then and later. */
static void
each_border_is_the_same_to_whoever_starts_when(void **state)
{
    struct tls_secret s = secret_of_seed();
    struct tls_tickets *old = tickets_at(NOON, &s);

    (void)state;
    for (int64_t at = NOON; at < NOON + 4 * DAY; at += 4 * HOUR) {
        struct tls_tickets *t = tickets_at(at, &s);
        struct ticket_key one = sealed(old, at), two = sealed(t, at);

        assert_memory_equal(&one, &two, sizeof(one));
        assert_int_equal(opened(t, at + 4 * HOUR, &one), 1);
        tls_tickets_close(&t);
        /* The file of that moment leads there, too: the key of the period before is not lost by a restart. */
        assert_true(tls_secret_advance(&s, tls_secret_day(at + 4 * HOUR)));
        t = tickets_at(at + 4 * HOUR, &s);
        assert_int_equal(opened(t, at + 4 * HOUR, &one), 1);
        assert_true(tls_tickets_same(old, &s));
        tls_tickets_close(&t);
    }
    tls_tickets_close(&old);
}

/* Once its day is over, neither the process nor the file has what opens a ticket. */
static void
no_way_leads_back(void **state)
{
    struct tls_secret s = secret_of_seed();
    struct tls_tickets *t = tickets_at(NOON, &s);
    struct ticket_key key = sealed(t, NOON);

    (void)state;
    sealed(t, NOON + 2 * DAY);
    assert_int_equal(opened(t, NOON, &key), -1);
    tls_tickets_close(&t);
    assert_true(tls_secret_advance(&s, tls_secret_day(NOON + DAY)));
    assert_int_equal(s.day, NOON / DAY + 1);
    t = tickets_at(NOON, &s);
    assert_int_equal(opened(t, NOON, &key), -1);
    tls_tickets_close(&t);
}

/* A clock that is set back ends no handshake: there is always a key that seals. */
static void
a_clock_that_is_set_back(void **state)
{
    struct tls_secret s = secret_of_seed();
    struct tls_tickets *t = tickets_at(NOON, &s);
    struct ticket_key key;

    (void)state;
    key = sealed(t, NOON + 3 * DAY);
    for (int64_t back = 0; back <= 40 * DAY; back += DAY / 2) {
        struct ticket_key then = sealed(t, NOON + 3 * DAY - back);

        assert_int_equal(opened(t, NOON + 3 * DAY - back, &then), 0);
    }
    assert_int_equal(opened(t, NOON + 3 * DAY, &key), 0);
    tls_tickets_close(&t);
}

/* Two nodes with one file, of which one is three hours ahead and has renewed it already. */
static void
a_node_that_is_behind_agrees(void **state)
{
    struct tls_secret s = secret_of_seed();
    int64_t four = (NOON / DAY + 1) * DAY + 4 * HOUR;
    struct tls_tickets *ahead, *behind;
    struct ticket_key key;

    (void)state;
    assert_true(tls_secret_advance(&s, tls_secret_day(four)));
    ahead = tickets_at(four, &s);
    behind = tickets_at(four - 3 * HOUR, &s);
    key = sealed(behind, four - 3 * HOUR);
    assert_int_equal(opened(ahead, four, &key), 1);
    key = sealed(ahead, four);
    assert_int_equal(opened(behind, four - 3 * HOUR, &key), 0);
    tls_tickets_close(&behind);
    /* The file is of tomorrow: its first key, which the other one opens as that of the next period. */
    behind = tickets_at(four - 6 * HOUR, &s);
    key = sealed(behind, four - 6 * HOUR);
    assert_int_equal(opened(ahead, four - 2 * HOUR, &key), 0);
    tls_tickets_close(&behind);
    tls_tickets_close(&ahead);
}

/* What nodes of before sealed with: keys must not change from one version to the next. */
static void
keys_are_what_they_were(void **state)
{
    static const unsigned char name[TICKET_NAME] = {0x03, 0x57, 0x50, 0x81, 0x93, 0xca, 0x43, 0x1c,
        0xc7, 0xca, 0xa8, 0xf2, 0x4e, 0x4f, 0x71, 0x61},
                               aes[4] = {0xf9, 0x26, 0x16, 0x23};
    struct tls_secret s = secret_of_seed();
    struct tls_tickets *t = tickets_at(NOON, &s);
    struct ticket_key key = sealed(t, NOON);

    (void)state;
    assert_memory_equal(key.name, name, sizeof(name));
    assert_memory_equal(key.aes, aes, sizeof(aes));
    tls_tickets_close(&t);
}

/* ---- the file ---- */

static void
file_write(const void *bytes, size_t len, mode_t mode)
{
    int fd = (unlink(file), open(file, O_WRONLY | O_CREAT | O_EXCL, 0600));

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void
file_write_day(int64_t day)
{
    struct tls_secret s = secret_of_seed();
    char text[TLS_SECRET_TEXT];

    assert_true(tls_secret_advance(&s, day));
    file_write(text, tls_secret_print(&s, text), 0600);
}

static int
renew(int64_t at_s, char why[256])
{
    why[0] = '\0';
    return tls_secret_renew(file, tls_secret_day(at_s), why, 256);
}

static void
assert_file_is_of(int64_t day)
{
    struct tls_secret s = secret_of_seed(), found;
    char why[256] = "";
    struct stat st;

    assert_int_equal(tls_secret_read(file, &found, why, sizeof(why)), 0);
    assert_true(tls_secret_advance(&s, day));
    assert_int_equal(found.day, day);
    assert_memory_equal(found.bytes, s.bytes, sizeof(s.bytes));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_uid, geteuid());
}

static void
a_seed_becomes_the_secret_of_the_day(void **state)
{
    char why[256];
    struct stat before, after;

    (void)state;
    file_write(seed, sizeof(seed), 0640);
    assert_int_equal(stat(file, &before), 0);
    assert_int_equal(renew(NOON, why), 1);
    assert_file_is_of(NOON / DAY);
    assert_int_equal(stat(file, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino); /* in its place, and not in it */
    assert_int_equal(renew(NOON, why), 0);
    assert_int_equal(stat(file, &before), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void
files_of_yesterday_of_a_month_ago_and_of_tomorrow(void **state)
{
    char why[256];

    (void)state;
    file_write_day(NOON / DAY - 1);
    assert_int_equal(renew(NOON, why), 1);
    assert_file_is_of(NOON / DAY);
    file_write_day(NOON / DAY - 30);
    assert_int_equal(renew(NOON, why), 1);
    assert_file_is_of(NOON / DAY);
    file_write_day(NOON / DAY + 1);
    assert_int_equal(renew(NOON, why), 0);
    assert_file_is_of(NOON / DAY + 1);
}

/* Yesterday's secret stays until its last key is of no use: a restart at one in the night opens tickets of eleven. */
static void
the_day_changes_at_four(void **state)
{
    int64_t midnight = NOON / DAY * DAY;
    char why[256];

    (void)state;
    file_write_day(NOON / DAY - 1);
    assert_int_equal(renew(midnight, why), 0);
    assert_int_equal(renew(midnight + 4 * HOUR - 1, why), 0);
    assert_int_equal(renew(midnight + 4 * HOUR, why), 1);
    assert_file_is_of(NOON / DAY);
}

static void
a_text_is_read_as_it_is_written_and_in_no_other_form(void **state)
{
    struct tls_secret s = secret_of_seed(), found;
    char text[TLS_SECRET_TEXT], why[256];
    size_t len;

    (void)state;
    assert_true(tls_secret_advance(&s, NOON / DAY));
    len = tls_secret_print(&s, text);
    assert_non_null(strstr(text, "tarn-session-secret 1\nday 2026-11-23\nsecret "));
    assert_int_equal(tls_secret_parse(slice_of(text, len), &found, why, sizeof(why)), 0);
    for (size_t cut = 0; cut < len; cut++) {
        why[0] = '\0';
        assert_int_equal(
            tls_secret_parse(slice_of(text, cut), &found, why, sizeof(why)), TERR_CONFIG);
        assert_non_null(strstr(why, cut < 20 ? "bytes: 32 to 4096 random ones" : "not whole"));
    }
    for (size_t i = 0; i < len; i++) {
        static const char others[] = {0, ' ', '\n', '9', 'f', 'F', 'g', (char)0xff};

        for (unsigned j = 0; j < sizeof(others); j++) {
            char was = text[i];
            int rc;

            text[i] = others[j];
            rc = tls_secret_parse(slice_of(text, len), &found, why, sizeof(why));
            /* Another secret, another day, or a seed; and else it is refused. */
            if (rc == 0 && i >= 20)
                assert_int_equal(tls_secret_print(&found, (char[TLS_SECRET_TEXT]){0}), len);
            if (others[j] == 'F' || others[j] == 'g' || others[j] == ' ')
                assert_true(rc == TERR_CONFIG || was == others[j] || i < 20);
            text[i] = was;
        }
    }
    text[len] = '\n';
    assert_int_equal(
        tls_secret_parse(slice_of(text, len + 1), &found, why, sizeof(why)), TERR_CONFIG);
}

static void
what_is_no_secret_is_refused_and_left(void **state)
{
    static const char *const texts[] = {"", "short",
        "tarn-session-secret 1\nday 2026-11-23\nsecret 00",
        "tarn-session-secret 2\nday 2026-11-23\nsecret "
        "0000000000000000000000000000000000000000000000000000000000000000\n",
        "tarn-session-secret 1\nday 2025-12-31\nsecret "
        "0000000000000000000000000000000000000000000000000000000000000000\n",
        "tarn-session-secret 1\nday 2026-02-30\nsecret "
        "0000000000000000000000000000000000000000000000000000000000000000\n",
        "tarn-session-secret 1\nday 9999-12-31\nsecret "
        "0000000000000000000000000000000000000000000000000000000000000000\n"};
    char why[256], content[256];
    struct tls_secret s;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        FILE *f;
        size_t n;

        file_write(texts[i], strlen(texts[i]), 0600);
        assert_int_equal(tls_secret_read(file, &s, why, sizeof(why)), TERR_CONFIG);
        assert_int_equal(renew(NOON, why), TERR_CONFIG);
        assert_true(why[0] != '\0');
        f = fopen(file, "re");
        assert_non_null(f);
        n = fread(content, 1, sizeof(content), f);
        fclose(f);
        assert_int_equal(n, strlen(texts[i]));
    }
}

static void
permissions(void **state)
{
    char why[256];
    struct tls_secret s;

    (void)state;
    for (mode_t bit = 1; bit < 8; bit <<= 1) {
        file_write(seed, sizeof(seed), (mode_t)(0600 | bit));
        assert_int_equal(tls_secret_read(file, &s, why, sizeof(why)), bit == 1 ? 0 : TERR_CONFIG);
        if (bit != 1)
            assert_non_null(strstr(why, "every user may read or write it: chmod 0600"));
    }
    assert_int_equal(tls_secret_read(dir, &s, why, sizeof(why)), TERR_CONFIG);
    assert_non_null(strstr(why, "no regular file"));
    file_write(seed, sizeof(seed), 0400);
    if (geteuid() == 0) {
        struct stat st;

        file_write(seed, sizeof(seed), 0660);
        assert_int_equal(chown(file, 12345, 54321), 0);
        assert_int_equal(chmod(dir, 0777), 0);
        assert_int_equal(setegid(54321), 0);
        assert_int_equal(seteuid(54321), 0);
        assert_int_equal(renew(NOON, why), TERR_DENIED);
        assert_string_equal(why, "it belongs to another user");
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
        assert_int_equal(renew(NOON, why), 1); /* root may, and does not take it away */
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(st.st_uid, 12345);
        assert_int_equal(st.st_mode & 07777, 0600);
        return;
    }
    assert_int_equal(renew(NOON, why), TERR_DENIED); /* read-only is what its owner wants */
    assert_string_equal(why, "Permission denied");
    file_write(seed, sizeof(seed), 0600);
    assert_int_equal(chmod(dir, 0500), 0);
    assert_int_equal(renew(NOON, why), TERR_DENIED);
    assert_string_equal(why, "Permission denied");
    assert_int_equal(chmod(dir, 0700), 0);
}

static void
a_file_that_another_renews_is_left_to_it(void **state)
{
    char why[256];
    int fd;

    (void)state;
    file_write(seed, sizeof(seed), 0600);
    fd = open(file, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(renew(NOON, why), TERR_AGAIN);
    close(fd);
    assert_int_equal(renew(NOON, why), 1);
    assert_file_is_of(NOON / DAY);
}

/* A write that the kernel cuts sets no errno, and what another call has left is not the reason. */
static void
a_file_that_is_written_in_part_is_no_other_error(void **state)
{
    const struct rlimit part = {.rlim_cur = 50, .rlim_max = RLIM_INFINITY};
    struct rlimit was;
    char why[256];
    int rc;

    (void)state;
    file_write(seed, sizeof(seed), 0600);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &part), 0);
    rc = renew(NOON, why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(rc, TERR_DENIED);
    assert_string_equal(why, "No space left on device");
    assert_int_equal(renew(NOON, why), 1); /* the file was left as it was */
    assert_file_is_of(NOON / DAY);
}

/* What a process has left that was killed is overwritten; a link stays one; nothing else is left. */
static void
what_is_left_and_what_is_not(void **state)
{
    char link_to[160], left[160], why[256];
    struct stat st;

    (void)state;
    snprintf(link_to, sizeof(link_to), "%s/link", dir);
    snprintf(left, sizeof(left), "%s.new", file);
    file_write(seed, sizeof(seed), 0600);
    assert_int_equal(symlink(file, link_to), 0);
    assert_int_equal(symlink("/dev/null", left), 0); /* and is not followed */
    assert_int_equal(tls_secret_renew(link_to, tls_secret_day(NOON), why, sizeof(why)), 1);
    assert_file_is_of(NOON / DAY);
    assert_int_equal(lstat(link_to, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(left, &st), -1);
    unlink(link_to);
}

static int
make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/tls_tickets_test.XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(file, sizeof(file), "%s/secret", dir);
    return 0;
}

static int
remove_dir(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(dir); /* fails, if anything is left */
}

#define ON_FILES(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_seals_for_four_hours_and_opens_for_four_more),
        cmocka_unit_test(each_border_is_the_same_to_whoever_starts_when),
        cmocka_unit_test(no_way_leads_back),
        cmocka_unit_test(a_clock_that_is_set_back),
        cmocka_unit_test(a_node_that_is_behind_agrees),
        cmocka_unit_test(keys_are_what_they_were),
        ON_FILES(a_seed_becomes_the_secret_of_the_day),
        ON_FILES(files_of_yesterday_of_a_month_ago_and_of_tomorrow),
        ON_FILES(the_day_changes_at_four),
        cmocka_unit_test(a_text_is_read_as_it_is_written_and_in_no_other_form),
        ON_FILES(what_is_no_secret_is_refused_and_left),
        ON_FILES(permissions),
        ON_FILES(a_file_that_another_renews_is_left_to_it),
        ON_FILES(a_file_that_is_written_in_part_is_no_other_error),
        ON_FILES(what_is_left_and_what_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
