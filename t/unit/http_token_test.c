/* http_token_test.c -- characters, lists, quoted strings and numbers. */
#include "t/unit/test.h"

#include "daemon/base/terr.h"
#include "daemon/http/token.h"

TEST(token, tchars_are_those_of_rfc_9110)
{
    static const char tchars[] = "!#$%&'*+-.^_`|~0123456789"
                                 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int c;

    for (c = 0; c < 256; c++) {
        char byte = (char)c;

        CHECK_EQ(c != 0 && strchr(tchars, c) != NULL, http_token_ok(slice_of(&byte, 1)));
        CHECK_EQ(c == '\t' || (c >= 0x20 && c != 0x7f), http_value_ok(slice_of(&byte, 1)));
        CHECK_EQ(c > 0x20 && c < 0x7f && c != '#' && c != '\\',
            http_target_bytes_ok(slice_of(&byte, 1)));
    }
    CHECK(!http_token_ok(SLICE_LIT("")));
    CHECK(!http_token_ok(SLICE_LIT("Content-Length ")));
    CHECK(http_value_ok(SLICE_LIT("")));
    CHECK(!http_value_ok(SLICE_LIT("a\r\nb")));
    CHECK(!http_value_ok(SLICE_LIT("a\0b")));
}

TEST(token, lists_respect_quotes_and_count_empty_members)
{
    static const char *const want[] = {"a", "b=\"x, \\\", y\"", "c d"};
    struct http_list_iter it;
    struct slice m;
    unsigned n = 0;

    http_list_init(&it, SLICE_LIT(" ,a ,\t b=\"x, \\\", y\",, c d,"));
    while (http_list_next(&it, &m)) {
        CHECK(n < 3 && slice_eq(m, slice_str(want[n])));
        n++;
    }
    CHECK_EQ(3, n);
    CHECK_EQ(3, it.empty);
    http_list_init(&it, slice_of(NULL, 0));
    CHECK(!http_list_next(&it, &m));
    CHECK_EQ(0, it.empty);
}

TEST(token, an_unclosed_quote_swallows_the_rest)
{
    struct http_list_iter it;
    struct slice m;

    http_list_init(&it, SLICE_LIT("a=\"b, no-store\\"));
    CHECK(http_list_next(&it, &m));
    CHECK(slice_eq(m, SLICE_LIT("a=\"b, no-store\\")));
    CHECK(!http_list_next(&it, &m));
}

static int
unquote(const char *text, char *out, size_t room)
{
    return http_unquote(slice_str(text), (struct span){out, room});
}

TEST(token, quoted_strings_are_unescaped_strictly)
{
    char out[8];

    CHECK_EQ(5, unquote("\"a\\\"b\\\\c\"", out, sizeof(out)));
    CHECK_MEM("a\"b\\c", out, 5);
    CHECK_EQ(0, unquote("\"\"", out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, unquote("\"", out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, unquote("\"a\\\"", out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, unquote("\"a\"b\"", out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, unquote("\"a\x01\"", out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, unquote("a", out, sizeof(out)));
    CHECK_EQ(TERR_LIMIT, unquote("\"abc\"", out, 2));
}

TEST(token, decimals_are_digits_only_and_do_not_overflow)
{
    static const char *const bad[] = {
        "", "+1", "-1", " 1", "1 ", "0x1", "1_0", "1,1", "1.0", "a", "\xef\xbc\x91"};
    uint64_t n = 77;
    size_t i;

    CHECK_EQ(0, http_parse_decimal(SLICE_LIT("0"), &n));
    CHECK_EQ(0, n);
    CHECK_EQ(0, http_parse_decimal(SLICE_LIT("00010"), &n)); /* never octal */
    CHECK_EQ(10, n);
    CHECK_EQ(0, http_parse_decimal(SLICE_LIT("9223372036854775807"), &n));
    CHECK(n == INT64_MAX);
    CHECK_EQ(TERR_LIMIT, http_parse_decimal(SLICE_LIT("9223372036854775808"), &n));
    CHECK_EQ(TERR_LIMIT, http_parse_decimal(SLICE_LIT("18446744073709551616"), &n));
    CHECK_EQ(TERR_LIMIT, http_parse_decimal(SLICE_LIT("99999999999999999999999999999"), &n));
    CHECK_EQ(TERR_SYNTAX, http_parse_decimal(SLICE_LIT("9999999999999999999999999999x"), &n));
    CHECK_EQ(TERR_FRAMING, http_parse_content_length(SLICE_LIT("9223372036854775808"), &n));
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(TERR_SYNTAX, http_parse_decimal(slice_str(bad[i]), &n));
        CHECK_EQ(TERR_FRAMING, http_parse_content_length(slice_str(bad[i]), &n));
    }
    CHECK(n == INT64_MAX); /* untouched by errors */
}

TEST_MAIN(TEST_ENTRY(token, tchars_are_those_of_rfc_9110),
    TEST_ENTRY(token, lists_respect_quotes_and_count_empty_members),
    TEST_ENTRY(token, an_unclosed_quote_swallows_the_rest),
    TEST_ENTRY(token, quoted_strings_are_unescaped_strictly),
    TEST_ENTRY(token, decimals_are_digits_only_and_do_not_overflow))
