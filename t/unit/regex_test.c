/* regex_test.c -- regular expressions, and that what is answered without PCRE is what PCRE says. */
#include "daemon/base/regex.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "t/unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct regex *
regex_of(const char *pattern)
{
    struct regex *re = NULL;
    char why[128];
    size_t at;

    CHECK_EQ(0, regex_compile(&re, slice_str(pattern), why, sizeof(why), &at));
    return re;
}

static int
regex_try(const char *pattern, const char *subject)
{
    struct regex *re = regex_of(pattern);
    int rc = regex_match(re, slice_str(subject));

    regex_free(&re);
    CHECK(re == NULL);
    return rc;
}

TEST(regex, tells_where_a_pattern_is_wrong)
{
    struct regex *re = NULL;
    char why[128] = "";
    size_t at = 0;

    CHECK_EQ(TERR_SYNTAX, regex_compile(&re, SLICE_LIT("ab(c"), why, sizeof(why), &at));
    CHECK(re == NULL);
    CHECK_EQ(4, at);
    CHECK_STR("missing closing parenthesis", why);
    /* Subjects are bytes from anywhere. */
    CHECK_EQ(TERR_SYNTAX, regex_compile(&re, SLICE_LIT("(*UTF)a"), why, sizeof(why), &at));
}

TEST(regex, matches_as_pcre_does)
{
    CHECK_EQ(1, regex_try("^/a(b|c)+/\\d{2,}", "/abcb/123"));
    CHECK_EQ(0, regex_try("^/a(b|c)+/\\d{2,}", "/abcb/1"));
    CHECK_EQ(1, regex_try("(?i)cOOkie", "a CookIE"));
    CHECK_EQ(1, regex_try("a\\Kb", "ab"));
    CHECK_EQ(1, regex_try("", ""));
}

TEST(regex, an_unset_subject_is_an_empty_one)
{
    static const char *const patterns[] = {"", "^$", "a*", "[a-z]", "x", "(?i)x$", "^(a|)$"};

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct regex *re = regex_of(patterns[i]);
        struct slice groups[REGEX_GROUPS_MAX];
        unsigned n;
        int want = regex_match(re, SLICE_LIT(""));

        CHECK_EQ(want, regex_match(re, slice_of(NULL, 0)));
        CHECK_EQ(want, regex_groups(re, slice_of(NULL, 0), 0, groups, &n));
        regex_free(&re);
    }
}

TEST(regex, gives_groups_and_says_which_are_unset)
{
    struct regex *re = regex_of("(a)|(b)(c)?");
    struct slice groups[REGEX_GROUPS_MAX], s = SLICE_LIT("xxbyya");
    unsigned n = 0;

    CHECK_EQ(1, regex_groups(re, s, 0, groups, &n));
    CHECK_EQ(3, n);
    CHECK(groups[0].ptr == s.ptr + 2 && groups[0].len == 1);
    CHECK(groups[1].ptr == NULL);
    CHECK(groups[2].ptr == s.ptr + 2);
    CHECK_EQ(1, regex_groups(re, s, 3, groups, &n));
    CHECK(groups[0].ptr == s.ptr + 5);
    CHECK_EQ(0, regex_groups(re, s, 6, groups, &n));
    CHECK_EQ(0, n);
    regex_free(&re);

    re = regex_of("(1)(2)(3)(4)(5)(6)(7)(8)(9)(a)(b)");
    CHECK_EQ(1, regex_groups(re, SLICE_LIT("123456789ab"), 0, groups, &n));
    CHECK_EQ(REGEX_GROUPS_MAX, n);
    regex_free(&re);
}

TEST(regex, another_match_is_sought_when_it_must_not_be_empty)
{
    struct regex *re = regex_of("(a*)|b");
    struct slice groups[REGEX_GROUPS_MAX], s = SLICE_LIT("aab");
    unsigned n = 0;

    CHECK_EQ(1, regex_groups(re, s, 2, groups, &n));
    CHECK_EQ(0, groups[0].len);
    CHECK_EQ(1, regex_groups_nonempty(re, s, 2, groups, &n));
    CHECK_EQ(1, groups[0].len);
    CHECK_EQ(1, n);
    CHECK_EQ(0, regex_groups_nonempty(re, s, 3, groups, &n));
    regex_free(&re);
}

TEST(regex, a_catastrophe_ends_at_the_limit)
{
    char subject[4096];
    struct regex *re = regex_of("^(a+)+$");

    memset(subject, 'a', sizeof(subject));
    subject[sizeof(subject) - 1] = 'b';
    CHECK_EQ(TERR_LIMIT, regex_match(re, slice_of(subject, sizeof(subject))));
    regex_free(&re);
}

/* --- with and without what spares a call --- */

static unsigned
regex_dice(unsigned sides)
{
    return (unsigned)random() % sides;
}

/* Bytes that patterns and subjects have in common, so that many match. */
static size_t
regex_random_text(char *buf, size_t max)
{
    static const char some[] = "aAbB.z/\n\xc9@[`{Z";
    size_t n = regex_dice((unsigned)max + 1);

    for (size_t i = 0; i < n; i++) {
        buf[i] = regex_dice(8) == 0 ? (char)regex_dice(256) : some[regex_dice(sizeof(some) - 1)];
        if (regex_dice(3) > 0)
            buf[i] = some[regex_dice(4)];
    }
    return n;
}

/* A literal, escaped where it must be. */
static char *
regex_random_word(char *p, bool nocase)
{
    char word[4];
    size_t n = regex_random_text(word, 3);

    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)word[i];

        if (nocase && c >= 128)
            c = 'b';
        if (c < 128 && strchr("\\^$.[|()?*+{", c) != NULL && c != 0)
            *p++ = '\\';
        *p++ = (char)c;
    }
    return p;
}

static char *
regex_random_class(char *p)
{
    static const char *const items[] = {
        "a-z", "[:upper:]", "[:^alpha:]", "A-B", "\\d", "\\]", ".", "/", "[:space:]", "\\xc9", "-"};

    *p++ = '[';
    if (regex_dice(3) == 0)
        *p++ = '^';
    for (unsigned n = 1 + regex_dice(3); n > 0; n--)
        p = stpcpy(p, items[regex_dice(ARRAY_LEN(items))]);
    *p++ = ']';
    return p;
}

static char *
regex_random_words(char *p)
{
    bool nocase = regex_dice(3) == 0, at_start = regex_dice(2), at_end = regex_dice(2);

    if (nocase)
        p = stpcpy(p, "(?i)");
    for (unsigned branches = 1 + regex_dice(2); branches > 0; branches--) {
        if (at_start)
            *p++ = '^';
        p = regex_random_word(p, nocase);
        if (regex_dice(2) == 0) {
            p = stpcpy(p, regex_dice(2) ? "(" : "(?:");
            for (unsigned n = regex_dice(3); n > 0; n--) {
                p = regex_random_word(p, nocase);
                *p++ = '|';
            }
            p = regex_random_word(p, nocase);
            *p++ = ')';
            p = regex_random_word(p, nocase);
        }
        if (at_end)
            *p++ = '$';
        if (branches > 1)
            *p++ = '|';
    }
    return p;
}

static void
regex_compare(struct regex *re, struct regex *twin, struct slice s, const char *pattern)
{
    struct slice want[REGEX_GROUPS_MAX], got[REGEX_GROUPS_MAX];
    unsigned nwant, ngot;
    size_t from = regex_dice((unsigned)s.len + 1);

    if (regex_match(re, s) != regex_match(twin, s))
        fail_msg("'%s' on '%.*s' differs", pattern, (int)s.len, s.ptr);
    if (regex_groups(re, s, from, got, &ngot) != regex_groups(twin, s, from, want, &nwant) ||
        ngot != nwant)
        fail_msg("'%s' on '%.*s' from %zu differs", pattern, (int)s.len, s.ptr, from);
    if (regex_groups_nonempty(re, s, from, got, &ngot) !=
        regex_groups_nonempty(twin, s, from, want, &nwant))
        fail_msg("'%s' on '%.*s' from %zu, not empty, differs", pattern, (int)s.len, s.ptr, from);
    for (unsigned i = 0; i < ngot; i++) {
        if (got[i].ptr != want[i].ptr || got[i].len != want[i].len)
            fail_msg("'%s' on '%.*s': group %u is elsewhere", pattern, (int)s.len, s.ptr, i);
    }
}

/* "(*NO_START_OPT)" makes PCRE compute neither a least length nor first bytes. */
static void
regex_try_random(const char *pattern, size_t len)
{
    char twin[300], why[128];
    struct regex *re = NULL, *other = NULL;
    size_t at, begin = strlen("(*NO_START_OPT)");

    memcpy(twin, "(*NO_START_OPT)", begin);
    memcpy(twin + begin, pattern, len);
    if (regex_compile(&re, slice_of(pattern, len), why, sizeof(why), &at) < 0)
        return; /* a class as [a-\d] */
    CHECK_EQ(0, regex_compile(&other, slice_of(twin, begin + len), why, sizeof(why), &at));
    for (unsigned i = 0; i < 60; i++) {
        char subject[40];
        size_t n = regex_random_text(subject, i < 40 ? 7 : sizeof(subject));

        regex_compare(re, other, slice_of(subject, n), pattern);
    }
    regex_free(&re);
    regex_free(&other);
}

TEST(regex, what_is_answered_without_a_call_is_what_pcre_says)
{
    static const char *const patterns[] = {"(?<=a)b", "a\\Kb", "a\\Kb|B", "(?=ab)", "(?=ab)a",
        "a(*ACCEPT)b", "z(|a)", "(a)?\\1b", "a{2,}", "(a)?(?(1)b|zz)", "a*", "\\babAB", "(?!a)b",
        "(?<=ab)$", "^$", "\\R", "(?i)abab", "(a|bb)(B|zz)$", "(?<n>aa)|(?&n)b", "(*PRUNE)ab"};

    srandom(4);
    for (unsigned i = 0; i < 20 * ARRAY_LEN(patterns); i++)
        regex_try_random(
            patterns[i % ARRAY_LEN(patterns)], strlen(patterns[i % ARRAY_LEN(patterns)]));
    for (unsigned round = 0; round < 4000; round++) {
        char pattern[256];
        char *end = regex_dice(4) == 0 ? regex_random_class(pattern) : regex_random_words(pattern);

        *end = '\0';
        regex_try_random(pattern, (size_t)(end - pattern));
    }
}

static void *
regex_elsewhere(void *arg)
{
    struct regex *re = arg;

    for (unsigned i = 0; i < 100; i++) {
        if (regex_match(re, SLICE_LIT("xay")) != 1)
            return NULL;
    }
    return re;
}

/* Every byte at every place of subjects around one and two words. */
TEST(regex, a_run_of_first_bytes_is_found_wherever_it_is)
{
    static const char *const patterns[] = {
        "[A-Z]", "[[:upper:]]", "[a-c]", "[\\x01-\\x1f]", "[x-\\x7f]", "[\\x7f\\x80]", "[ac]"};
    char subject[24], twin[64];

    for (unsigned p = 0; p < ARRAY_LEN(patterns); p++) {
        struct regex *re = regex_of(patterns[p]), *other;

        snprintf(twin, sizeof(twin), "(*NO_START_OPT)%s", patterns[p]);
        other = regex_of(twin);
        for (size_t len = 1; len <= sizeof(subject); len++) {
            for (unsigned at = 0; at < len * 256; at++) {
                memset(subject, '_', len);
                subject[at / 256] = (char)(at % 256);
                regex_compare(re, other, slice_of(subject, len), patterns[p]);
            }
        }
        regex_free(&re);
        regex_free(&other);
    }
}

TEST(regex, threads_have_match_data_of_their_own)
{
    struct regex *re = regex_of("x(a|b)+y");
    pthread_t threads[4];
    void *result;

    for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, regex_elsewhere, re));
    for (unsigned i = 0; i < ARRAY_LEN(threads); i++) {
        CHECK_EQ(0, pthread_join(threads[i], &result));
        CHECK(result == re);
    }
    regex_free(&re);
}

TEST(regex, names_the_library_s_version)
{
    CHECK(regex_version()[0] == '1' && regex_version()[1] == '0' && regex_version()[2] == '.');
    CHECK(strchr(regex_version(), ' ') == NULL);
}

TEST_MAIN(TEST_ENTRY(regex, tells_where_a_pattern_is_wrong),
    TEST_ENTRY(regex, matches_as_pcre_does), TEST_ENTRY(regex, an_unset_subject_is_an_empty_one),
    TEST_ENTRY(regex, gives_groups_and_says_which_are_unset),
    TEST_ENTRY(regex, another_match_is_sought_when_it_must_not_be_empty),
    TEST_ENTRY(regex, a_catastrophe_ends_at_the_limit),
    TEST_ENTRY(regex, what_is_answered_without_a_call_is_what_pcre_says),
    TEST_ENTRY(regex, a_run_of_first_bytes_is_found_wherever_it_is),
    TEST_ENTRY(regex, threads_have_match_data_of_their_own),
    TEST_ENTRY(regex, names_the_library_s_version))
