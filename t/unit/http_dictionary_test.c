/* http_dictionary_test.c -- the fields of RFC 9842, and base64. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/http/base64.h"
#include "daemon/http/codings.h"
#include "daemon/http/dictionary.h"
#include "daemon/http/vary.h"

/* SHA-256 of no byte. */
#define HASH ":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"

static const uint8_t want[4] = {0xe3, 0xb0, 0xc4, 0x42};
static struct head_build b;

static const struct http_message *
asking(const char *fields)
{
    static char text[512];

    snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s\n", fields);
    return head_build(&b, text);
}

static bool
available(const char *fields)
{
    uint8_t hash[DICTIONARY_HASH_LEN];

    if (!dictionary_available(asking(fields), hash))
        return false;
    CHECK(memcmp(hash, want, sizeof(want)) == 0);
    return true;
}

static bool
offered(const char *fields)
{
    char text[512];

    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\n%s\n", fields);
    return dictionary_is_offered(head_build(&b, text));
}

TEST(dictionary, is_available_where_its_hash_and_dcz_are_said)
{
    CHECK(available("Accept-Encoding: gzip, br, zstd, dcb, dcz\nAvailable-Dictionary: " HASH));
    CHECK(available("Accept-Encoding: DCZ;q=0.1\nAvailable-Dictionary: " HASH ";x=1"));
    CHECK(!available("Accept-Encoding: gzip, dcb\nAvailable-Dictionary: " HASH));
    CHECK(!available("Accept-Encoding: *\nAvailable-Dictionary: " HASH));
    CHECK(!available("Accept-Encoding: dcz;q=0\nAvailable-Dictionary: " HASH));
    CHECK(!available("Accept-Encoding: dcz"));
    CHECK(!available("Available-Dictionary: " HASH));
    /* Two are none. */
    CHECK(!available(
        "Accept-Encoding: dcz\nAvailable-Dictionary: " HASH "\nAvailable-Dictionary: " HASH));
}

TEST(dictionary, what_is_no_hash_is_none)
{
    static const char *const bad[] = {"", ":", "::", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        ":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuA==:", /* 31 bytes */
        ":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFVV:", /* 33 */
        ":47DEQpj8HBSa+_TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
        ":=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU:"};
    char fields[256];

    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(fields, sizeof(fields), "Accept-Encoding: dcz\nAvailable-Dictionary: %s", bad[i]);
        CHECK(!available(fields));
    }
}

TEST(dictionary, is_offered_with_a_match_and_as_it_is)
{
    CHECK(offered("Use-As-Dictionary: match=\"/js/*\""));
    CHECK(offered("Use-As-Dictionary: id=\"a, b\", match=\"/js/*\", type=raw"));
    CHECK(offered("Use-As-Dictionary: match=\"/js/*\", match-dest=(\"script\" \"style\");x=1"));
    CHECK(offered("Use-As-Dictionary: id=\"1\"\nuse-as-dictionary: match=\"/*\""));
    CHECK(!offered("Use-As-Dictionary: match=\"/js/*\", type=other"));
    CHECK(!offered("Use-As-Dictionary: id=\"1\""));
    CHECK(!offered("Use-As-Dictionary: match=\"\""));
    CHECK(!offered("Use-As-Dictionary: match"));
    CHECK(!offered("Use-As-Dictionary: id=\"match=1\""));
    CHECK(!offered("X: y"));
}

TEST(dictionary, a_form_by_it_is_for_those_who_have_it)
{
    uint8_t hash[DICTIONARY_HASH_LEN];
    char spec[128], other[128];
    struct vary_recoding to = {.form = HTTP_FORM_DCZ, .saved = 9, .hash = (const char *)hash};
    int n, m;

    CHECK(dictionary_available(asking("Accept-Encoding: dcz\nAvailable-Dictionary: " HASH), hash));
    n = vary_recode(vary_forms(), &to, (struct span){spec, sizeof(spec)});
    CHECK_EQ(VARY_RECODED_LEN + DICTIONARY_HASH_LEN, n);
    CHECK(vary_match(slice_of(spec, (size_t)n), &b.h));
    CHECK(!vary_match(slice_of(spec, (size_t)n),
        asking("Accept-Encoding: gzip, br, zstd\nAvailable-Dictionary: " HASH)));
    CHECK(!vary_match(slice_of(spec, (size_t)n), asking("Accept-Encoding: dcz")));
    hash[31] ^= 1;
    m = vary_recode(vary_forms(), &to, (struct span){other, sizeof(other)});
    asking("Accept-Encoding: dcz\nAvailable-Dictionary: " HASH);
    CHECK(!vary_match(slice_of(other, (size_t)m), &b.h));
    CHECK(!vary_supersedes(slice_of(spec, (size_t)n), slice_of(other, (size_t)m)));
    CHECK(vary_supersedes(slice_of(spec, (size_t)n), slice_of(spec, (size_t)n)));
    CHECK(vary_supersedes(vary_forms(), slice_of(spec, (size_t)n)));
    for (int len = VARY_RECODED_LEN; len < n; len++)
        CHECK(!vary_match(slice_of(spec, (size_t)len), &b.h));
}

TEST(base64, is_decoded_with_padding_and_without)
{
    char out[8];

    CHECK_EQ(0, base64_decode(SLICE_LIT(""), (struct span){out, sizeof(out)}));
    CHECK_EQ(5, base64_decode(SLICE_LIT("aGVsbG8="), (struct span){out, sizeof(out)}));
    CHECK(memcmp(out, "hello", 5) == 0);
    CHECK_EQ(5, base64_decode(SLICE_LIT("aGVsbG8"), (struct span){out, 5}));
    CHECK_EQ(TERR_LIMIT, base64_decode(SLICE_LIT("aGVsbG8="), (struct span){out, 4}));
    CHECK_EQ(TERR_SYNTAX, base64_decode(SLICE_LIT("aGV=bG8="), (struct span){out, sizeof(out)}));
    CHECK_EQ(TERR_SYNTAX, base64_decode(SLICE_LIT("aG V"), (struct span){out, sizeof(out)}));
    CHECK_EQ(TERR_SYNTAX, base64_decode(slice_of("a\0b", 3), (struct span){out, sizeof(out)}));
}

TEST_MAIN(TEST_ENTRY(dictionary, is_available_where_its_hash_and_dcz_are_said),
    TEST_ENTRY(dictionary, what_is_no_hash_is_none),
    TEST_ENTRY(dictionary, is_offered_with_a_match_and_as_it_is),
    TEST_ENTRY(dictionary, a_form_by_it_is_for_those_who_have_it),
    TEST_ENTRY(base64, is_decoded_with_padding_and_without))
