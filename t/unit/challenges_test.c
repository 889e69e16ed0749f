/* challenges_test.c -- what ACME CAs are answered for other nodes. */
#include <stdio.h>
#include <string.h>

#include "daemon/proxy/challenges.h"
#include "t/unit/test.h"

static struct challenges *c;
static char out[CHALLENGE_TEXT_MAX];

static size_t
find(const char *name)
{
    return challenges_find(c, slice_str(name), out);
}

static bool
set(const char *name, const char *text)
{
    return challenges_set(c, slice_str(name), slice_str(text));
}

TEST(challenges, what_was_set_is_found_until_it_is_taken_back)
{
    c = challenges_new();
    CHECK_EQ(0, find("token"));
    CHECK(set("token", "token.thumb"));
    CHECK(set("tls-alpn-01/a.example", "pem"));
    CHECK(set("tls-alpn-01/token", "pem of a host"));
    CHECK_EQ(11, find("token"));
    CHECK(memcmp(out, "token.thumb", 11) == 0);
    CHECK_EQ(3, find("tls-alpn-01/a.example"));
    CHECK_EQ(13, find("tls-alpn-01/token"));
    CHECK(set("token", "another"));
    CHECK_EQ(7, find("token"));
    CHECK(set("token", ""));
    CHECK_EQ(0, find("token"));
    CHECK(set("token", "")); /* once more is no fault */
    CHECK_EQ(3, find("tls-alpn-01/a.example"));
    CHECK_EQ(0, find(""));
    challenges_free(&c);
}

TEST(challenges, names_and_texts_have_bounds)
{
    char name[CHALLENGE_NAME_MAX + 2], text[CHALLENGE_TEXT_MAX + 2];
    const char *const bad[] = {"", "a.example", "a b", "a/b", "tls-alpn-01/",
        "tls-alpn-01/A.example", "tls-alpn-01/a/b", "tls-alpn-01/*.example"};

    c = challenges_new();
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!set(bad[i], "x"));
    memset(name, 'a', sizeof(name));
    memcpy(name, CHALLENGE_TLS, sizeof(CHALLENGE_TLS) - 1);
    name[CHALLENGE_NAME_MAX + 1] = '\0';
    CHECK(!set(name, "x"));
    name[CHALLENGE_NAME_MAX] = '\0';
    memset(text, 't', sizeof(text));
    text[CHALLENGE_TEXT_MAX + 1] = '\0';
    CHECK(!set(name, text));
    text[CHALLENGE_TEXT_MAX] = '\0';
    CHECK(set(name, text));
    CHECK_EQ(CHALLENGE_TEXT_MAX, find(name));
    memset(name, 'a', sizeof(name));
    name[CHALLENGE_TOKEN_MAX + 1] = '\0';
    CHECK(!set(name, "x"));
    name[CHALLENGE_TOKEN_MAX] = '\0';
    CHECK(set(name, "x"));
    challenges_free(&c);
}

TEST(challenges, a_text_is_as_long_as_it_was_given)
{
    c = challenges_new();
    CHECK(challenges_set(c, slice_str("token"), slice_of("a\0b", 3)));
    CHECK_EQ(3, find("token"));
    CHECK(memcmp(out, "a\0b", 3) == 0);
    challenges_free(&c);
}

TEST(challenges, there_is_room_for_some_and_a_place_that_was_given_back_is_one)
{
    char name[32];

    c = challenges_new();
    for (unsigned i = 0; i < CHALLENGES_MAX; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        CHECK(set(name, name));
    }
    CHECK(!set("more", "x"));
    CHECK(set("t7", "changed"));
    CHECK(set("t7", ""));
    CHECK(set("more", "x"));
    CHECK_EQ(1, find("more"));
    challenges_free(&c);
}

TEST_MAIN(TEST_ENTRY(challenges, what_was_set_is_found_until_it_is_taken_back),
    TEST_ENTRY(challenges, names_and_texts_have_bounds),
    TEST_ENTRY(challenges, a_text_is_as_long_as_it_was_given),
    TEST_ENTRY(challenges, there_is_room_for_some_and_a_place_that_was_given_back_is_one))
