/* http_hops_test.c -- who the client is, by the fields of trusted proxies. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "daemon/http/hops.h"
#include "t/unit/head_build.h"

/* 10.0.0.0/8 and 2001:db8:10::/48 are ours. */
static const struct address_net ours[] = {
    {.addr = {[10] = 0xff, [11] = 0xff, [12] = 10}, .bits = 104},
    {.addr = {0x20, 0x01, 0x0d, 0xb8, 0x00, 0x10}, .bits = 48},
};
static const struct address_nets trusted = {ours, 2};

/* The addresses from the client on, with spaces between. */
static const char *
hops(const char *fields, enum http_field_id field, const char *peer)
{
    static char text[HOPS_MAX * ADDRESS_TEXT_MAX];
    struct head_build b;
    struct hops h;
    uint8_t addr[16];
    char head[4096];
    size_t len = 0;

    snprintf(head, sizeof(head), "GET / HTTP/1.1\n%s\n", fields);
    CHECK(address_read(peer, strlen(peer), addr));
    hops_of_request(head_build(&b, head), field, &trusted, addr, &h);
    CHECK(h.n >= 1 && h.n <= HOPS_MAX);
    CHECK_MEM(addr, h.addr[h.n - 1], 16);
    for (unsigned i = 0; i < h.n; i++) {
        if (i > 0)
            text[len++] = ' ';
        address_text(h.addr[i], text + len);
        len += strlen(text + len);
    }
    return text;
}

static const char *
xff(const char *fields, const char *peer)
{
    return hops(fields, HTTP_F_X_FORWARDED_FOR, peer);
}

static const char *
forwarded(const char *fields, const char *peer)
{
    return hops(fields, HTTP_F_FORWARDED, peer);
}

TEST(hops, the_client_is_the_rightmost_that_is_not_trusted)
{
    CHECK_STR("10.0.0.1", xff("", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.0.0.1", xff("X-Forwarded-For: 192.0.2.7\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.0.0.1", xff("X-Forwarded-For: 6.6.6.6, 192.0.2.7\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.2.2.2 10.0.0.1",
        xff("X-Forwarded-For: 10.6.6.6, 192.0.2.7, 10.2.2.2\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.2.2.2 10.0.0.1",
        xff("X-Forwarded-For: 6.6.6.6, 192.0.2.7\nx-forwarded-for: 10.2.2.2\n", "10.0.0.1"));
    CHECK_STR(
        "10.3.3.3 10.2.2.2 10.0.0.1", xff("X-Forwarded-For: 10.3.3.3, 10.2.2.2\n", "10.0.0.1"));
}

TEST(hops, who_is_not_trusted_is_not_asked)
{
    CHECK_STR("192.0.2.1", xff("X-Forwarded-For: 192.0.2.7\n", "192.0.2.1"));
    CHECK_STR("192.0.2.1", forwarded("Forwarded: for=192.0.2.7\n", "192.0.2.1"));
    CHECK_STR("10.0.0.1", xff("Forwarded: for=192.0.2.7\n", "10.0.0.1")); /* another field */
    CHECK_STR("10.0.0.1", forwarded("X-Forwarded-For: 192.0.2.7\n", "10.0.0.1"));
}

static bool
https(const char *fields, enum http_field_id field, const char *peer)
{
    struct head_build b;
    struct hops h;
    uint8_t addr[16];
    char head[1024];

    snprintf(head, sizeof(head), "GET / HTTP/1.1\n%s\n", fields);
    CHECK(address_read(peer, strlen(peer), addr));
    hops_of_request(head_build(&b, head), field, &trusted, addr, &h);
    return h.https;
}

TEST(hops, the_scheme_is_what_somebody_trusted_says)
{
    const enum http_field_id x = HTTP_F_X_FORWARDED_FOR, f = HTTP_F_FORWARDED;

    CHECK(https("X-Forwarded-Proto: https\n", x, "10.0.0.1"));
    CHECK(!https("X-Forwarded-Proto: https\n", x, "192.0.2.1"));
    CHECK(!https("X-Forwarded-Proto: http\n", x, "10.0.0.1"));
    CHECK(!https("X-Forwarded-Proto: https, http\n", x, "10.0.0.1"));
    CHECK(!https("X-Forwarded-Proto: https\nX-Forwarded-Proto: https\n", x, "10.0.0.1"));
    CHECK(!https("Forwarded: for=192.0.2.7;proto=https\n", x, "10.0.0.1"));
    CHECK(https("Forwarded: for=192.0.2.7;proto=https\n", f, "10.0.0.1"));
    CHECK(https("Forwarded: proto=\"https\";for=unknown\n", f, "10.0.0.1"));
    CHECK(https("Forwarded: for=192.0.2.7;proto=https, for=10.1.1.1;proto=http\n", f, "10.0.0.1"));
    CHECK(!https("Forwarded: for=192.0.2.7;proto=https\n", f, "192.0.2.1"));
    CHECK(!https("Forwarded: for=6.6.6.6;proto=https, for=192.0.2.7\n", f, "10.0.0.1"));
    CHECK(!https("Forwarded: for=a;proto=https;proto=http\n", f, "10.0.0.1"));
    CHECK(!https("X-Forwarded-Proto: https\n", f, "10.0.0.1"));
}

TEST(hops, addresses_have_many_forms)
{
    CHECK_STR("192.0.2.7 10.0.0.1", xff("X-Forwarded-For: 192.0.2.7:4711\n", "10.0.0.1"));
    CHECK_STR("2001:db8::7 10.0.0.1", xff("X-Forwarded-For: 2001:db8::7\n", "10.0.0.1"));
    CHECK_STR("2001:db8::7 10.0.0.1", xff("X-Forwarded-For: [2001:db8::7]\n", "10.0.0.1"));
    CHECK_STR("2001:db8::7 10.0.0.1", xff("X-Forwarded-For: [2001:db8::7]:1\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 2001:db8:10::1", xff("X-Forwarded-For: 192.0.2.7\n", "2001:db8:10::1"));
    CHECK_STR(
        "192.0.2.7 10.0.0.1", forwarded("Forwarded: for=192.0.2.7;proto=https\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.0.0.1",
        forwarded("Forwarded: proto=http; By=_us; FOR=\"192.0.2.7:80\"\n", "10.0.0.1"));
    CHECK_STR("2001:db8::7 10.2.2.2 10.0.0.1",
        forwarded("Forwarded: for=\"[2001:db8::7]:80\", for=10.2.2.2\n", "10.0.0.1"));
}

TEST(hops, what_is_no_address_ends_the_walk)
{
    static const char *const none[] = {"unknown", "_hidden", "192.0.2", "192.0.2.7 ", "[192.0.2.7]",
        "[2001:db8::7", "[2001:db8::7]x", "192.0.2.7;", "\"192.0.2.7\""};
    static const char *const nobody[] = {"proto=https", "for=unknown", "for=_x",
        "for=", "for=192.0.2.7;for=192.0.2.8", "for=2001:db8::7x", "for =192.0.2.7"};
    char line[256];

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        snprintf(line, sizeof(line), "X-Forwarded-For: 192.0.2.9, %s, 10.2.2.2\n", none[i]);
        if (i != 3) /* which is trimmed */
            CHECK_STR("10.2.2.2 10.0.0.1", xff(line, "10.0.0.1"));
    }
    for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
        snprintf(line, sizeof(line), "Forwarded: for=192.0.2.9, %s, for=10.2.2.2\n", nobody[i]);
        CHECK_STR("10.2.2.2 10.0.0.1", forwarded(line, "10.0.0.1"));
    }
}

TEST(hops, a_quote_left_open_hides_nothing)
{
    CHECK_STR("192.0.2.7 10.0.0.1", xff("X-Forwarded-For: \"6.6.6.6, 192.0.2.7\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.0.0.1",
        forwarded("Forwarded: for=\"6.6.6.6, for=\"192.0.2.7:80\"\n", "10.0.0.1"));
    CHECK_STR("192.0.2.7 10.0.0.1",
        forwarded("Forwarded: for=\"6.6.6.6\nForwarded: for=192.0.2.7\n", "10.0.0.1"));
}

TEST(hops, a_field_that_is_nominated_counts_for_nothing)
{
    struct head_build b;
    struct http_message *h = head_build(&b, "GET / HTTP/1.1\nX-Forwarded-For: 192.0.2.7\n\n");
    struct hops out;
    uint8_t peer[16];

    CHECK(address_read("10.0.0.1", 8, peer));
    b.fields[0].drop = true;
    hops_of_request(h, HTTP_F_X_FORWARDED_FOR, &trusted, peer, &out);
    CHECK_EQ(1, out.n);
}

TEST(hops, they_have_a_bound)
{
    char line[4000] = "X-Forwarded-For: 192.0.2.7";
    size_t len = strlen(line);

    for (unsigned i = 0; i < 100; i++)
        len += (size_t)snprintf(line + len, sizeof(line) - len, ", 10.0.%u.1", i);
    snprintf(line + len, sizeof(line) - len, "\n");
    CHECK_MEM("10.0.69.1 10.0.70.1 ", xff(line, "10.0.0.1"), 20);
}

TEST_MAIN(TEST_ENTRY(hops, the_client_is_the_rightmost_that_is_not_trusted),
    TEST_ENTRY(hops, who_is_not_trusted_is_not_asked),
    TEST_ENTRY(hops, the_scheme_is_what_somebody_trusted_says),
    TEST_ENTRY(hops, addresses_have_many_forms), TEST_ENTRY(hops, what_is_no_address_ends_the_walk),
    TEST_ENTRY(hops, a_quote_left_open_hides_nothing),
    TEST_ENTRY(hops, a_field_that_is_nominated_counts_for_nothing),
    TEST_ENTRY(hops, they_have_a_bound))
