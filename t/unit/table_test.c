/* table_test.c -- tables: what is found, what is refused, and that the last good version stays. */
#include <signal.h>
#include <sys/wait.h>

#include "daemon/base/hash.h"
#include "daemon/table/table_guard.h"
#include "t/unit/table_fixture.h"

static struct table_fixture f;

static struct table_reader *
reader_new(enum table_kind kind)
{
    struct table_reader *r;

    CHECK_EQ(0, table_reader_new(&r, f.path, kind, TABLE_CHECKED));
    return r;
}

/* What the reader says of the newest version; the beginning. */
static void
check_seen(struct table_reader *r, enum table_status status, const char *why)
{
    struct table_seen seen;

    table_reader_seen(r, &seen);
    CHECK_EQ(status, seen.status);
    if (strstr(seen.why, why) == NULL)
        fail_msg("'%s' is not in '%s'", why, seen.why);
}

/* --- looking up --- */

static void
check_find(enum table_kind kind, const char *text, const char *const (*cases)[2], unsigned n)
{
    struct table_image image = fixture_image(kind, text);
    struct table_view v;
    struct slice value;

    CHECK_EQ(0, table_view_open(&v, image.base, image.bytes, TABLE_CHECKED, f.why, sizeof(f.why)));
    for (unsigned i = 0; i < n; i++) {
        bool found = table_view_find(&v, slice_str(cases[i][0]), &value);

        if (found != (cases[i][1] != NULL) || (found && !slice_eq(value, slice_str(cases[i][1]))))
            fail_msg("%s: found %d, '%.*s'", cases[i][0], found, found ? (int)value.len : 0,
                found ? value.ptr : "");
    }
    free(image.base);
}

TEST(table, a_map_finds_exactly)
{
    static const char *const cases[][2] = {{"/a", "1"}, {"/b", "two words"}, {"/c", ""},
        {"/", NULL}, {"/a/", NULL}, {"", NULL}, {"/A", NULL}};

    check_find(TABLE_MAP, "# c\n/a 1\n\n  /b\ttwo words  \r\n/c", cases, 7);
}

TEST(table, a_prefix_map_finds_the_longest)
{
    static const char *const cases[][2] = {{"/a", "1"}, {"/ab", "2"}, {"/abc", "2"},
        {"/abc/d", "3"}, {"/abc/dx", "3"}, {"/ac", "1"}, {"/a/xy", "5"}, {"/b", "4"}, {"/", NULL},
        {"", NULL}, {"/c", NULL}, {"\xff", NULL}};

    check_find(TABLE_PREFIX, "/abc/d 3\n/ab 2\n/b 4\n/a 1\n/a/x 5\n", cases, 12);
}

TEST(table, an_address_is_found_in_the_smallest_network)
{
    static const char *const cases[][2] = {{"10.1.2.3", "host"}, {"10.1.2.4", "mid"},
        {"10.2.0.0", "big"}, {"9.255.255.255", NULL}, {"11.0.0.0", NULL}, {"2001:db8::1", "six"},
        {"2001:db8:1::5", "deep"}, {"2001:db9::", NULL}, {"::ffff:10.1.0.1", "mid"},
        {"10.1.2", NULL}, {"x", NULL}, {"::1", NULL}, {"10.1.2.3/32", NULL}};
    static const char *const all[][2] = {
        {"1.2.3.4", "four"}, {"::1", "six"}, {"::ffff:1.2.3.4", "four"}};

    check_find(TABLE_ADDRESS,
        "10.0.0.0/8 big\n10.1.0.0/16 mid\n10.1.2.3 host\n2001:db8::/32 six\n"
        "2001:db8:1::/48 deep\n",
        cases, 13);
    check_find(TABLE_ADDRESS, "::/0 six\n0.0.0.0/0 four\n", all, 3);
}

/* Against a loop over all entries. */
TEST(table, random_networks_and_prefixes_are_found_as_by_trying_all)
{
    static char keys[600][16], text[600 * 24];
    uint64_t seed = 42;

    for (unsigned round = 0; round < 20; round++) {
        struct table_image image;
        struct table_view v;
        struct slice value;
        size_t len = 0;
        unsigned n = 0;

        while (n < 300) { /* of the letters a and b, 1 to 10 of them */
            unsigned bits, letters, i;

            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            bits = (unsigned)(seed >> 40);
            letters = 1 + (unsigned)(seed >> 33) % 10;
            for (i = 0; i < letters; i++)
                keys[n][i] = (char)('a' + (bits >> i & 1));
            keys[n][i] = '\0';
            for (i = 0; i < n && strcmp(keys[i], keys[n]) != 0; i++)
                ;
            if (i == n)
                len +=
                    (size_t)snprintf(text + len, sizeof(text) - len, "%s %s\n", keys[n], keys[n]);
            n += i == n;
        }
        image = fixture_image(TABLE_PREFIX, text);
        CHECK_EQ(
            0, table_view_open(&v, image.base, image.bytes, TABLE_CHECKED, f.why, sizeof(f.why)));
        for (unsigned q = 0; q < 1024; q++) {
            char key[16] = "";
            const char *best = NULL;
            bool found;

            for (unsigned i = 0; i < 10; i++)
                key[i] = (char)('a' + (q >> i & 1));
            for (unsigned i = 0; i < n; i++)
                if (strncmp(key, keys[i], strlen(keys[i])) == 0 &&
                    (best == NULL || strlen(keys[i]) > strlen(best)))
                    best = keys[i];
            found = table_view_find(&v, slice_str(key), &value);
            CHECK_EQ(best != NULL, found);
            CHECK(!found || slice_eq(value, slice_str(best)));
        }
        free(image.base);
    }
}

TEST(table, a_vector_has_floats)
{
    struct table_image image = fixture_image(TABLE_VECTOR, "k 0.5 1 -2e3\nnone\n");
    static const float want[] = {0.5F, 1, -2000};
    struct slice value;
    struct table_view v;

    CHECK_EQ(0, table_view_open(&v, image.base, image.bytes, TABLE_CHECKED, f.why, sizeof(f.why)));
    CHECK(table_view_find(&v, SLICE_LIT("k"), &value));
    CHECK_EQ(sizeof(want), value.len);
    CHECK_MEM(want, value.ptr, sizeof(want));
    CHECK_EQ(0, (uintptr_t)value.ptr % sizeof(float));
    CHECK(table_view_find(&v, SLICE_LIT("none"), &value));
    CHECK_EQ(0, value.len);
    free(image.base);
}

TEST(table, a_hundred_thousand_keys_are_all_found)
{
    struct table_builder *b;
    struct table_image image;
    struct table_view v;
    struct slice value;
    const char *why;
    char key[32];
    size_t again, n;
    uint64_t at = 0;

    CHECK_EQ(0, table_builder_new(&b, TABLE_MAP));
    for (unsigned i = 0; i < 100000; i++) {
        n = (size_t)snprintf(key, sizeof(key), "key-%u", i);
        CHECK_EQ(0, table_builder_add(b, slice_of(key, n), slice_of((char *)&i, 4), &why));
    }
    CHECK_EQ(0, table_builder_finish(b, &image, &again));
    table_builder_free(&b);
    CHECK_EQ(0, table_view_open(&v, image.base, image.bytes, TABLE_CHECKED, f.why, sizeof(f.why)));
    for (unsigned i = 0; i < 200000; i++) {
        n = (size_t)snprintf(key, sizeof(key), "key-%u", i);
        CHECK_EQ(i < 100000, table_view_find(&v, slice_of(key, n), &value));
        if (i < 100000)
            CHECK_MEM(&i, value.ptr, 4);
    }
    for (n = 0; table_view_next(&v, &at, &(struct slice){NULL, 0}, &value);)
        n++;
    CHECK_EQ(100000, n);
    free(image.base);
}

/* --- building --- */

TEST(table, a_wrong_line_is_told_with_its_number)
{
    static const struct {
        enum table_kind kind;
        const char *text;
        unsigned long line;
        const char *why;
    } cases[] = {{TABLE_ADDRESS, "1.2.3.4\n\n1.2.3.4/33 x", 3, "at most 32 bits"},
        {TABLE_ADDRESS, "::/129", 1, "at most 128 bits"},
        {TABLE_ADDRESS, "10.0.0.1/8", 1, "behind the network's length"},
        {TABLE_ADDRESS, "2001:db8::1/64", 1, "behind the network's length"},
        {TABLE_ADDRESS, "10.0.0.0/", 1, "not an address"},
        {TABLE_ADDRESS, "10.0.0.0/-1", 1, "not an address"},
        {TABLE_ADDRESS, "host.example", 1, "not an address"},
        {TABLE_SET, "# c\na\nb 1", 3, "a map has"},
        {TABLE_VECTOR, "a 1 x", 1, "numbers with spaces"},
        {TABLE_VECTOR, "a nan", 1, "numbers with spaces"},
        {TABLE_VECTOR, "a 1e99", 1, "numbers with spaces"}};
    struct table_builder *b;
    unsigned long line;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_EQ(0, table_builder_new(&b, cases[i].kind));
        CHECK_EQ(TERR_INVALID,
            table_builder_add_text(b, slice_str(cases[i].text), &line, f.why, sizeof(f.why)));
        CHECK_EQ(cases[i].line, line);
        CHECK(strstr(f.why, cases[i].why) != NULL);
        table_builder_free(&b);
    }
}

TEST(table, a_key_twice_is_an_error)
{
    static const enum table_kind kinds[] = {
        TABLE_SET, TABLE_MAP, TABLE_PREFIX, TABLE_ADDRESS, TABLE_VECTOR};
    static const char *const keys[] = {"a", "a", "a", "::1", "a"};
    struct table_builder *b;
    struct table_image image;
    const char *why;
    size_t again;

    for (unsigned i = 0; i < 5; i++) {
        again = 0;
        CHECK_EQ(0, table_builder_new(&b, kinds[i]));
        CHECK_EQ(0, table_builder_add(b, slice_str(keys[i]), SLICE_LIT(""), &why));
        CHECK_EQ(0, table_builder_add(b, SLICE_LIT("::2"), SLICE_LIT(""), &why));
        CHECK_EQ(0, table_builder_add(b, slice_str(keys[i]), SLICE_LIT(""), &why));
        CHECK_EQ(TERR_EXISTS, table_builder_finish(b, &image, &again));
        CHECK_EQ(2, again);
        table_builder_free(&b);
    }
}

/* --- versions --- */

TEST(table, a_new_version_is_taken_and_an_older_one_is_not_disturbed)
{
    struct table_reader *r, *inside;
    const struct table_view *v;
    struct slice value;

    fixture_open(&f);
    r = reader_new(TABLE_ANY);
    CHECK_STR("!", fixture_get(r, "k"));
    check_seen(r, TABLE_MISSING, "there is no ");
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    CHECK_STR("!", fixture_get(r, "k"));
    table_reader_check(r);
    CHECK_STR("one", fixture_get(r, "k"));
    check_seen(r, TABLE_OK, "");
    inside = reader_new(TABLE_ANY);
    v = table_enter(inside);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two"));
    CHECK_STR("two", fixture_get(r, "k"));
    CHECK(table_view_find(v, SLICE_LIT("k"), &value));
    CHECK(slice_eq(value, SLICE_LIT("one")));
    CHECK_EQ(0, table_leave(inside));
    CHECK_STR("two", fixture_get(inside, "k"));
    for (unsigned i = 0; i < 50; i++)
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, i % 2 == 0 ? "k a\nl x" : "k b"));
    CHECK_STR("b", fixture_get(r, "k"));
    table_reader_free(&r);
    table_reader_free(&inside);
    fixture_close(&f);
}

TEST(table, a_version_that_grew_is_mapped_anew)
{
    struct table_image image;
    struct table_writer *w;
    struct table_reader *r;
    static char text[200000];
    size_t len = 0;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k 0"));
    r = reader_new(TABLE_MAP);
    CHECK_EQ(0, table_writer_open(&w, f.path, 50, f.why, sizeof(f.why)));
    for (unsigned i = 0; i < 12; i++) {
        char want[8];

        len = (size_t)snprintf(text, sizeof(text), "k %u\n", i);
        for (unsigned j = 0; j < 1u << i; j++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "key-%u some value\n", j);
        image = fixture_image(TABLE_MAP, text);
        CHECK_EQ(0, table_write(w, &image, f.why, sizeof(f.why)));
        free(image.base);
        snprintf(want, sizeof(want), "%u", i);
        CHECK_STR(want, fixture_get(r, "k"));
    }
    table_writer_close(&w);
    table_reader_free(&r);
    fixture_close(&f);
}

TEST(table, a_second_writer_is_told_so)
{
    struct table_writer *w, *second;

    fixture_open(&f);
    CHECK_EQ(0, table_writer_open(&w, f.path, 50, f.why, sizeof(f.why)));
    CHECK_EQ(TERR_BUSY, table_writer_open(&second, f.path, 50, f.why, sizeof(f.why)));
    CHECK(strstr(f.why, "another writer") != NULL);
    table_writer_close(&w);
    CHECK_EQ(0, table_writer_open(&w, f.path, 50, f.why, sizeof(f.why)));
    table_writer_close(&w);
    fixture_close(&f);
}

/* --- refused --- */

/* The version that counts is of `suffix`; hash and version are made to fit the poke, or not. */
static void
poke_state_to_fit(void)
{
    int fd = open(fixture_file(&f, ".1"), O_RDWR), state = open(fixture_file(&f, ".state"), O_RDWR);
    static char bytes[4096];
    struct table_data *d = (void *)bytes;
    struct table_state s;
    uint64_t version;

    CHECK(read(fd, bytes, sizeof(bytes)) > 0);
    CHECK_EQ(sizeof(s), pread(state, (void *)&s, sizeof(s), 0));
    d->hash = hash_plain(bytes + 16, TABLE_VERSION_BYTES(s.version) - 16);
    CHECK_EQ(8, pwrite(fd, &d->hash, 8, 8));
    version = table_version(1, TABLE_VERSION_BYTES(s.version), d->hash);
    CHECK_EQ(8, pwrite(state, &version, 8, offsetof(struct table_state, version)));
    close(fd);
    close(state);
}

TEST(table, a_foreign_or_torn_version_is_refused_with_a_reason)
{
    static const struct {
        const char *file;
        off_t at;
        const char *bytes;
        size_t len;
        bool fit; /* the checksum is right */
        const char *why;
    } cases[] = {
        {".1", 0, "FOREIGN1", 8, false, "does not begin with TARNTDT1"},
        {".1", 16, "\1\2\3\4", 4, true, "other byte order"},
        {".1", 16, "abcd", 4, true, "byte order mark is 0x"},
        {".1", 20, "\2", 1, true, "its layout is 2"},
        {".1", 24, "\x63", 1, true, "its kind, 99"},
        {".1", 24, "\3", 1, true, "its kind is prefix, it should be map"},
        {".1", 32, "\1", 1, false, "the version says"},
        {".1", 64, "\xf8\xff", 2, true, "do not lie within"},
        {".1", 72, "\3", 1, true, "do not lie within"},
        {".1", 96, "\xf8\xff\xff", 3, true, "do not lie within"},
        {".1", 150, "x", 1, false, "torn"},
        {".state", offsetof(struct table_state, version), "x", 1, false, "torn"},
        {".state", offsetof(struct table_state, version) + 6, "\x7f", 1, false, "is short"},
        {".state", 0, "X", 1, false, "does not begin with TARNTST1"},
        {".state", 8, "x", 1, false, "byte order mark"},
        {".state", 12, "x", 1, false, "its layout is"},
        {".state", 0, "\0\0\0\0\0\0\0\0", 8, false, "is being made"},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct table_reader *r;

        fixture_open(&f);
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
        fixture_poke(&f, cases[i].file, cases[i].at, cases[i].bytes, cases[i].len);
        if (cases[i].fit)
            poke_state_to_fit();
        r = reader_new(TABLE_MAP);
        CHECK_STR("!", fixture_get(r, "k"));
        check_seen(r, i == sizeof(cases) / sizeof(cases[0]) - 1 ? TABLE_EMPTY : TABLE_REFUSED,
            cases[i].why);
        CHECK_STR("!", fixture_get(r, "k"));
        table_reader_free(&r);
        fixture_close(&f);
    }
}

TEST(table, the_last_good_version_stays_when_the_next_is_refused)
{
    struct table_reader *r;
    struct table_seen seen;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    r = reader_new(TABLE_MAP);
    CHECK_STR("one", fixture_get(r, "k"));
    CHECK_EQ(0, fixture_write(&f, TABLE_SET, "k"));
    CHECK_STR("one", fixture_get(r, "k"));
    check_seen(r, TABLE_REFUSED, "its kind is set, it should be map");
    table_reader_seen(r, &seen);
    CHECK(seen.kept);
    CHECK_EQ(1, seen.refused);
    CHECK_EQ(0, fixture_write(&f, TABLE_SET, "l")); /* where the good one was */
    CHECK_STR("one", fixture_get(r, "k"));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two"));
    CHECK_STR("two", fixture_get(r, "k"));
    check_seen(r, TABLE_OK, "");
    table_reader_free(&r);
    fixture_close(&f);
}

TEST(table, files_that_go_and_come_again_are_noticed)
{
    struct table_writer *w;
    struct table_reader *r;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    r = reader_new(TABLE_MAP);
    CHECK_STR("one", fixture_get(r, "k"));
    CHECK_EQ(0, table_writer_open(&w, f.path, 50, f.why, sizeof(f.why)));
    CHECK_EQ(0, table_writer_remove(&w));
    CHECK_STR("one", fixture_get(r, "k"));
    table_reader_check(r);
    CHECK_STR("one", fixture_get(r, "k"));
    check_seen(r, TABLE_MISSING, "there is no ");
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two"));
    table_reader_check(r);
    CHECK_STR("two", fixture_get(r, "k"));
    CHECK_EQ(0,
        unlink(fixture_file(&f, ".state"))); /* the writer makes a new one; old copies lie there */
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k three"));
    table_reader_check(r);
    CHECK_STR("three", fixture_get(r, "k"));
    unlink(fixture_file(&f, ".0"));
    unlink(fixture_file(&f, ".1"));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k four"));
    CHECK_STR("four", fixture_get(r, "k"));
    table_reader_free(&r);
    fixture_close(&f);
}

/* Who looks now and then has what lay there then, asked for or not. */
TEST(table, what_nobody_has_asked_for_yet_stays_in_use)
{
    const char zeros[256] = {0};
    struct table_reader *fresh, *r;
    int fd;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    fresh = reader_new(TABLE_MAP);
    r = reader_new(TABLE_MAP);
    for (unsigned i = 0; i < 2; i++) { /* both copies are others than it began with */
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, i == 0 ? "k two" : "k three"));
        table_reader_check(r);
    }
    fd = open(fixture_file(&f, ".state"), O_WRONLY);
    CHECK_EQ((ssize_t)sizeof(zeros), write(fd, zeros, sizeof(zeros)));
    close(fd);
    table_reader_check(r);
    CHECK_STR("three", fixture_get(r, "k"));
    check_seen(r, TABLE_EMPTY, "its state file is being made");
    table_reader_check(fresh); /* both copies were written since it looked */
    CHECK_STR("!", fixture_get(fresh, "k"));
    table_reader_free(&r);
    table_reader_free(&fresh);
    fixture_close(&f);
}

TEST(table, a_state_file_that_is_something_else_is_left_alone_by_writers)
{
    struct table_writer *w;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    fixture_poke(&f, ".state", 0, "GIF89a__", 8);
    CHECK_EQ(TERR_CORRUPT, table_writer_open(&w, f.path, 50, f.why, sizeof(f.why)));
    CHECK(strstr(f.why, "something else") != NULL);
    CHECK_EQ(0, unlink(fixture_file(&f, ".state")));
    CHECK_EQ(0, mkfifo(fixture_file(&f, ".state"), 0600)); /* opening one waits, if one lets it */
    CHECK(table_writer_open(&w, f.path, 50, f.why, sizeof(f.why)) < 0);
    fixture_close(&f);
}

TEST(table, a_file_that_shrinks_while_it_is_read_harms_nobody)
{
    static char text[100000];
    struct table_reader *r, *other;
    const struct table_view *v;
    struct slice value;
    size_t len = 0;

    for (unsigned i = 0; i < 4000; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "key-%u x\n", i);
    CHECK_EQ(0, table_guard_install()); /* over cmocka's own */
    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, text));
    r = reader_new(TABLE_MAP);
    other = reader_new(TABLE_MAP);
    CHECK_STR("x", fixture_get(other, "key-1"));
    v = table_enter(r);
    CHECK(v != NULL);
    CHECK_EQ(0, truncate(fixture_file(&f, ".1"), 4096));
    for (unsigned i = 0; i < 4000; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key-%u", i);
        table_view_find(v, slice_str(key), &value);
    }
    table_leave(r);
    CHECK_STR("!", fixture_get(r, "key-1"));
    check_seen(r, TABLE_REFUSED, "is short: 4096 bytes");
    CHECK_EQ(0, truncate(fixture_file(&f, ".state"), 0));
    fixture_get(other, "key-1");
    table_reader_check(other);
    check_seen(other, TABLE_EMPTY, "is short: 0 bytes");
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "key-1 again")); /* and writers go on */
    table_reader_check(r);
    CHECK_STR("again", fixture_get(r, "key-1"));
    table_reader_free(&r);
    table_reader_free(&other);
    fixture_close(&f);
}

/* --- who dies --- */

static void
die_at(void *ctx, enum table_step step)
{
    if (step == *(enum table_step *)ctx)
        raise(SIGKILL);
}

TEST(table, a_writer_killed_at_any_step_leaves_a_whole_version)
{
    for (unsigned step = 0; step < TABLE_STEP_COUNT; step++) {
        struct table_reader *r;
        int status;
        pid_t pid;

        fixture_open(&f);
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k zero"));
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
        r = reader_new(TABLE_MAP);
        pid = fork();
        if (pid == 0) {
            struct table_image image = fixture_image(TABLE_MAP, "k two\nl much longer than it was");
            struct table_writer *w;

            table_writer_open(&w, f.path, 50, f.why, sizeof(f.why));
            table_writer_on_step(w, die_at, &step);
            table_write(w, &image, f.why, sizeof(f.why));
            _exit(0);
        }
        CHECK_EQ(pid, waitpid(pid, &status, 0));
        CHECK(WIFSIGNALED(status));
        CHECK_STR(step == TABLE_STEP_SWITCHED ? "two" : "one", fixture_get(r, "k"));
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k three"));
        CHECK_STR("three", fixture_get(r, "k"));
        table_reader_free(&r);
        fixture_close(&f);
    }
}

/* The tag comes last, so a state file without one is nobody's. */
TEST(table, a_writer_killed_while_it_makes_the_state_file_is_followed_by_another)
{
    struct table_reader *r;
    int fd;

    for (off_t bytes = 0; bytes <= (off_t)sizeof(struct table_state); bytes += 128) {
        fixture_open(&f);
        fd = open(fixture_file(&f, ".state"), O_RDWR | O_CREAT, 0600);
        CHECK_EQ(0, ftruncate(fd, bytes));
        close(fd);
        r = reader_new(TABLE_ANY);
        CHECK_STR("!", fixture_get(r, "k"));
        CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
        table_reader_check(r);
        CHECK_STR("one", fixture_get(r, "k"));
        table_reader_free(&r);
        fixture_close(&f);
    }
}

TEST(table, a_reader_killed_inside_is_given_up_after_the_grace_period)
{
    struct table_reader *r;
    int status;
    pid_t pid;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    pid = fork();
    if (pid == 0) {
        r = reader_new(TABLE_MAP);
        table_enter(r);
        raise(SIGKILL);
    }
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two")); /* it stands on the other copy */
    CHECK_EQ(1, fixture_write(&f, TABLE_MAP, "k three"));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k four"));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k five"));
    r = reader_new(TABLE_MAP);
    CHECK_STR("five", fixture_get(r, "k"));
    table_reader_free(&r);
    fixture_close(&f);
}

TEST(table, a_reader_that_was_given_up_takes_back_nobody_elses_count)
{
    struct table_reader *slow, *r;

    fixture_open(&f);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    slow = reader_new(TABLE_MAP);
    r = reader_new(TABLE_MAP);
    CHECK(table_enter(slow) != NULL);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two"));
    CHECK_EQ(1, fixture_write(&f, TABLE_MAP, "k three"));
    CHECK(table_enter(r) != NULL);
    CHECK_EQ(TERR_TIMEDOUT, table_leave(slow));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k four"));
    CHECK_EQ(1, fixture_write(&f, TABLE_MAP, "k five")); /* it still waits for r */
    CHECK_EQ(TERR_TIMEDOUT, table_leave(r));
    CHECK_STR("five", fixture_get(slow, "k"));
    table_reader_free(&slow);
    table_reader_free(&r);
    fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(table, a_map_finds_exactly), TEST_ENTRY(table, a_prefix_map_finds_the_longest),
    TEST_ENTRY(table, an_address_is_found_in_the_smallest_network),
    TEST_ENTRY(table, random_networks_and_prefixes_are_found_as_by_trying_all),
    TEST_ENTRY(table, a_vector_has_floats),
    TEST_ENTRY(table, a_hundred_thousand_keys_are_all_found),
    TEST_ENTRY(table, a_wrong_line_is_told_with_its_number),
    TEST_ENTRY(table, a_key_twice_is_an_error),
    TEST_ENTRY(table, a_new_version_is_taken_and_an_older_one_is_not_disturbed),
    TEST_ENTRY(table, a_version_that_grew_is_mapped_anew),
    TEST_ENTRY(table, a_second_writer_is_told_so),
    TEST_ENTRY(table, a_foreign_or_torn_version_is_refused_with_a_reason),
    TEST_ENTRY(table, the_last_good_version_stays_when_the_next_is_refused),
    TEST_ENTRY(table, files_that_go_and_come_again_are_noticed),
    TEST_ENTRY(table, what_nobody_has_asked_for_yet_stays_in_use),
    TEST_ENTRY(table, a_state_file_that_is_something_else_is_left_alone_by_writers),
    TEST_ENTRY(table, a_file_that_shrinks_while_it_is_read_harms_nobody),
    TEST_ENTRY(table, a_writer_killed_at_any_step_leaves_a_whole_version),
    TEST_ENTRY(table, a_writer_killed_while_it_makes_the_state_file_is_followed_by_another),
    TEST_ENTRY(table, a_reader_killed_inside_is_given_up_after_the_grace_period),
    TEST_ENTRY(table, a_reader_that_was_given_up_takes_back_nobody_elses_count))
