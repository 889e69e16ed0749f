/* http_conditional_test.c -- validators compared, preconditions judged. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/http/conditional.h"

#define MODIFIED_S  INT64_C(784111777)
#define MODIFIED    "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE      "Sun, 06 Nov 1994 08:49:36 GMT"
#define SECOND_LATE "Sun, 06 Nov 1994 08:49:38 GMT"

static bool
same(const char *a, const char *b, bool strong)
{
    bool forth = strong ? etag_strong_equal(slice_str(a), slice_str(b))
                        : etag_weak_equal(slice_str(a), slice_str(b));
    bool back = strong ? etag_strong_equal(slice_str(b), slice_str(a))
                       : etag_weak_equal(slice_str(b), slice_str(a));

    CHECK_EQ(forth, back);
    return forth;
}

TEST(conditional, an_entity_tag_is_quoted_and_has_no_spaces)
{
    static const char *const good[] = {
        "\"\"", "\"x\"", "W/\"\"", "W/\"x\"", "\"a,b\"", "\"a\\\"", "\"!#\xc3\xbc~\"", "\"W/\""};
    static const char *const bad[] = {"", "x", "\"", "\"x", "x\"", "W/", "W/x", "w/\"x\"", "W\"x\"",
        "W\\\"x\"", "\"a b\"", "\"a\"b\"", "\"a\tb\"", "\"\x7f\"", "W/W/\"x\"", "'x'", "*", "W/\""};
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK(etag_ok(slice_str(good[i])));
        CHECK_EQ(good[i][0] == 'W', etag_is_weak(slice_str(good[i])));
    }
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!etag_ok(slice_str(bad[i])));
    CHECK(!etag_ok(slice_of(NULL, 0)));
}

TEST(conditional, tags_compare_strongly_and_weakly)
{
    static const struct {
        const char *a, *b;
        bool strong, weak;
    } rows[] = {/* RFC 9110 8.8.3.2, and malformed ones */
        {"W/\"1\"", "W/\"1\"", false, true}, {"W/\"1\"", "W/\"2\"", false, false},
        {"W/\"1\"", "\"1\"", false, true}, {"\"1\"", "\"1\"", true, true},
        {"\"1\"", "\"2\"", false, false}, {"\"a\"", "\"A\"", false, false}, {"", "", false, false},
        {"x", "x", false, true}, {"x", "\"x\"", false, false}, {"w/\"1\"", "W/\"1\"", false, false},
        {"w/\"1\"", "w/\"1\"", false, true}, {"\"\"", "\"\"", true, true}};
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_EQ(rows[i].strong, same(rows[i].a, rows[i].b, true));
        CHECK_EQ(rows[i].weak, same(rows[i].a, rows[i].b, false));
    }
}

static struct validators
vals(const char *fields)
{
    static char text[8][256]; /* the slices are used later, by at most two at once */
    static unsigned turn;
    struct head_build b;
    struct validators v;

    turn = (turn + 1) % 8;
    snprintf(text[turn], sizeof(text[turn]), "HTTP/1.1 200 OK\n%s\n", fields);
    validators_of(head_build(&b, text[turn]), MODIFIED_S, &v);
    return v;
}

TEST(conditional, validators_are_those_that_came_once)
{
    struct validators v = vals("ETag: \"x\"\nLast-Modified: " MODIFIED "\nDate: " SECOND_LATE);
    struct head_build b;
    struct http_message *h;

    CHECK(slice_eq(v.etag, SLICE_LIT("\"x\"")));
    CHECK(slice_eq(v.last_modified, SLICE_LIT(MODIFIED)));
    CHECK_EQ(MODIFIED_S, v.last_modified_s);
    CHECK_EQ(MODIFIED_S + 1, v.date_s);
    v = vals("X: y");
    CHECK(v.etag.len == 0 && v.last_modified.len == 0);
    CHECK(v.last_modified_s == -1 && v.date_s == -1);
    v = vals("ETag: \"x\"\nETag: \"x\"\nLast-Modified: " MODIFIED "\nLast-Modified: " MODIFIED);
    CHECK(v.etag.len == 0 && v.last_modified.len == 0 && v.last_modified_s == -1);
    v = vals("Last-Modified: then\nDate: now\nETag: x");
    CHECK(v.last_modified.len == 0 && v.last_modified_s == -1 && v.date_s == -1);
    CHECK(slice_eq(v.etag, SLICE_LIT("x")));
    v = vals("Last-Modified: Wed, 31 Dec 1969 23:59:59 GMT");
    CHECK(v.last_modified.len == 0 && v.last_modified_s == -1);
    v = vals("Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT");
    CHECK_EQ(0, v.last_modified_s);
    h = head_build(&b, "HTTP/1.1 200 OK\nETag: \"x\"\nETag: \"y\"\n");
    h->fields[0].drop = true;
    validators_of(h, MODIFIED_S, &v);
    CHECK(slice_eq(v.etag, SLICE_LIT("\"y\"")));
}

TEST(conditional, parts_join_only_by_strong_validators)
{
    static const char strong[] = "Last-Modified: " MODIFIED "\nDate: " SECOND_LATE;
    static const char weak[] = "Last-Modified: " MODIFIED "\nDate: " MODIFIED;
    static const struct {
        const char *a, *b;
        bool join;
    } rows[] = {{"ETag: \"1\"", "ETag: \"1\"", true}, {"ETag: \"1\"", "ETag: \"2\"", false},
        {"ETag: W/\"1\"", "ETag: W/\"1\"", false}, {"ETag: \"1\"", "X: y", false},
        {"ETag: x", "ETag: x", false}, {strong, strong, true}, {strong, weak, false},
        {weak, weak, false}, {"X: y", "X: y", false},
        {strong, "Last-Modified: " BEFORE "\nDate: " SECOND_LATE, false},
        {strong, "Last-Modified: " MODIFIED, false},
        {"ETag: \"1\"\nLast-Modified: " MODIFIED "\nDate: " SECOND_LATE, strong, false}};
    struct validators a, b;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        a = vals(rows[i].a);
        b = vals(rows[i].b);
        CHECK_EQ(rows[i].join, validators_join(&a, &b));
        CHECK_EQ(rows[i].join, validators_join(&b, &a));
    }
}

static bool
not_modified(const char *method, const char *condition, const char *stored)
{
    struct validators v = vals(stored);
    struct head_build b;
    char text[512];

    snprintf(text, sizeof(text), "%s / HTTP/1.1\nHost: h\n%s\n", method, condition);
    return cond_not_modified(head_build(&b, text), &v);
}

TEST(conditional, if_none_match_is_a_list_of_tags)
{
    static const struct {
        const char *value, *etag;
        bool match;
    } rows[] = {
        {"\"a\"", "\"a\"", true},
        {"\"b\"", "\"a\"", false},
        {"W/\"a\"", "\"a\"", true},
        {"\"a\"", "W/\"a\"", true},
        {"\"a\", \"b\",\"c\"", "\"a\"", true},
        {"\"a\", \"b\",\"c\"", "\"b\"", true},
        {"\"a\", \"b\",\"c\"", "\"c\"", true},
        {"\"a\", \"b\",\"c\"", "\"d\"", false},
        {"\"a\"\nIf-None-Match: \"b\"", "\"b\"", true},
        {"\"a,b\", \"c\"", "\"a,b\"", true},
        {"\"a,b\", \"c\"", "\"c\"", true},
        {"\"a,b\", \"c\"", "\"b\"", false},
        {"\"a\\\", \"c\"", "\"c\"", true}, /* a backslash escapes nothing */
        {"\"a\\\", \"c\"", "\"a\\\"", true},
        {",, \"a\" ,", "\"a\"", true},
        {"", "\"a\"", false},
        {",", "\"a\"", false},
        {"*", "\"a\"", true},
        {" * ", "\"a\"", true},
        {"*, \"b\"", "\"a\"", false}, /* a star stands alone */
        {"*\nIf-None-Match: \"b\"", "\"a\"", false},
        {"\"*\"", "\"a\"", false},
        /* what is malformed matches its own bytes */
        {"a", "\"a\"", false},
        {"\"a\"", "a", false},
        {"a", "a", true},
        {"b, a", "a", true},
        {"w/\"a\"", "w/\"a\"", true},
        {"w/\"a\"", "W/\"a\"", false},
        {"w/\"a\"", "\"a\"", false},
        {"W\\\"a\"", "W\\\"a\"", true},
        {"W\"a\"", "W\"a\"", true},
        {"\"a\" \"b\"", "\"a\"", false},
        {"\"a", "\"a\"", false},
        {"\"a", "\"a", true},
        {"\"a\"x, \"b\"", "\"b\"", true},
        {"\"\xc3\xbc\"", "\"\xc3\xbc\"", true},
    };
    char condition[128], stored[128];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(condition, sizeof(condition), "If-None-Match: %s", rows[i].value);
        snprintf(stored, sizeof(stored), "ETag: %s", rows[i].etag);
        CHECK_EQ(rows[i].match, not_modified("GET", condition, stored));
        CHECK_EQ(rows[i].match, not_modified("HEAD", condition, stored));
        CHECK(!not_modified("POST", condition, stored));
    }
    CHECK(not_modified("GET", "If-None-Match: *", "X: y"));
    CHECK(!not_modified("GET", "If-None-Match: \"a\"", "X: y"));
    CHECK(!not_modified("GET", "X: y", "ETag: \"a\""));
}

TEST(conditional, if_modified_since_counts_alone)
{
    static const char stored[] = "Last-Modified: " MODIFIED "\nDate: " SECOND_LATE;

    CHECK(not_modified("GET", "If-Modified-Since: " MODIFIED, stored));
    CHECK(not_modified("HEAD", "If-Modified-Since: " SECOND_LATE, stored));
    CHECK(!not_modified("GET", "If-Modified-Since: " BEFORE, stored));
    CHECK(!not_modified("POST", "If-Modified-Since: " MODIFIED, stored));
    CHECK(!not_modified("GET", "If-Modified-Since: now", stored));
    CHECK(!not_modified("GET", "If-Modified-Since:", stored));
    CHECK(!not_modified(
        "GET", "If-Modified-Since: " MODIFIED "\nIf-Modified-Since: " MODIFIED, stored));
    CHECK(not_modified("GET", "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT", stored));
    CHECK(not_modified("GET", "If-Modified-Since: Sun Nov  6 08:49:37 1994", stored));
    /* without Last-Modified it was made when its Date says */
    CHECK(not_modified("GET", "If-Modified-Since: " MODIFIED, "Date: " MODIFIED));
    CHECK(!not_modified("GET", "If-Modified-Since: " BEFORE, "Date: " MODIFIED));
    CHECK(!not_modified("GET", "If-Modified-Since: " MODIFIED, "X: y"));
    /* RFC 9110 13.1.3: not looked at beside If-None-Match */
    CHECK(!not_modified("GET", "If-None-Match: \"b\"\nIf-Modified-Since: " MODIFIED,
        "ETag: \"a\"\nLast-Modified: " MODIFIED));
    CHECK(not_modified("GET", "If-None-Match: \"a\"\nIf-Modified-Since: " BEFORE,
        "ETag: \"a\"\nLast-Modified: " MODIFIED));
}

TEST(conditional, if_range_holds_by_strong_validators)
{
    static const char dated[] = "Last-Modified: " MODIFIED "\nDate: " SECOND_LATE;
    static const struct {
        const char *condition, *stored;
        bool holds;
    } rows[] = {{"X: y", "X: y", true}, {"If-Range: \"a\"", "ETag: \"a\"", true},
        {"If-Range: \"a\"", "ETag: \"b\"", false}, {"If-Range: W/\"a\"", "ETag: W/\"a\"", false},
        {"If-Range: \"a\"", "ETag: W/\"a\"", false}, {"If-Range: W/\"a\"", "ETag: \"a\"", false},
        {"If-Range: a", "ETag: a", false}, {"If-Range: \"a\"", "X: y", false},
        {"If-Range: \"a\", \"b\"", "ETag: \"a\"", false},
        {"If-Range: \"a\"\nIf-Range: \"a\"", "ETag: \"a\"", false},
        {"If-Range: " MODIFIED, dated, true}, {"If-Range: " BEFORE, dated, false},
        {"If-Range: " SECOND_LATE, dated, false},
        {"If-Range: " MODIFIED, "Last-Modified: " MODIFIED "\nDate: " MODIFIED, false},
        {"If-Range: " MODIFIED, "Last-Modified: " MODIFIED, false},
        {"If-Range: " MODIFIED, "Date: " MODIFIED, false}, {"If-Range: now", dated, false},
        {"If-Range:", dated, false}, {"If-Range: now", "X: y", false}};
    struct validators v;
    struct head_build b;
    char text[256];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s\n", rows[i].condition);
        v = vals(rows[i].stored);
        CHECK_EQ(rows[i].holds, cond_range_holds(head_build(&b, text), &v));
    }
}

TEST(conditional, if_range_is_by_date_unless_its_tag_is_strong)
{
    static const struct {
        const char *condition;
        bool by_date;
    } rows[] = {{"X: y", false}, {"If-Range: \"a\"", false}, {"If-Range: W/\"a\"", true},
        {"If-Range: " MODIFIED, true}, {"If-Range: now", true},
        {"If-Range: \"a\"\nIf-Range: \"b\"", true}};
    struct head_build b;
    char text[256];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s\n", rows[i].condition);
        CHECK_EQ(rows[i].by_date, cond_range_is_by_date(head_build(&b, text)));
    }
}

TEST_MAIN(TEST_ENTRY(conditional, an_entity_tag_is_quoted_and_has_no_spaces),
    TEST_ENTRY(conditional, tags_compare_strongly_and_weakly),
    TEST_ENTRY(conditional, validators_are_those_that_came_once),
    TEST_ENTRY(conditional, parts_join_only_by_strong_validators),
    TEST_ENTRY(conditional, if_none_match_is_a_list_of_tags),
    TEST_ENTRY(conditional, if_modified_since_counts_alone),
    TEST_ENTRY(conditional, if_range_holds_by_strong_validators),
    TEST_ENTRY(conditional, if_range_is_by_date_unless_its_tag_is_strong))
