/* http_vary_test.c -- variants are told apart, and the same ones are recognised. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/codings.h"
#include "daemon/http/language.h"
#include "daemon/http/vary.h"

/* Does a response with `vary`, fetched with the fields `stored`, answer `asked`? */
static bool
answers(const char *vary, const char *stored, const char *asked)
{
    char resp[512], req[512], again[512], spec[1024];
    struct head_build b1, b2;
    int len;

    snprintf(resp, sizeof(resp), "HTTP/1.1 200 OK\n%s\n", vary);
    snprintf(req, sizeof(req), "GET / HTTP/1.1\n%s\n", stored);
    snprintf(again, sizeof(again), "GET / HTTP/1.1\n%s\n", asked);
    len = vary_build(
        head_build(&b1, resp), head_build(&b2, req), false, (struct span){spec, sizeof(spec)});
    CHECK(len >= 0);
    if (!vary_is_star(&b1.h)) /* what was asked with matches itself, and a cut spec nothing */
        CHECK(vary_match(slice_of(spec, (size_t)len), &b2.h));
    return vary_match(slice_of(spec, (size_t)len), head_build(&b1, again));
}

TEST(vary, a_response_without_vary_answers_everybody)
{
    CHECK(answers("Age: 1", "Foo: 1", "Foo: 2"));
    CHECK(answers("Vary: ", "Foo: 1", "Foo: 2"));
}

TEST(vary, values_must_be_the_same_and_absent_is_a_value)
{
    CHECK(answers("Vary: Foo", "Foo: 1", "fOO: 1"));
    CHECK(!answers("Vary: Foo", "Foo: 1", "Foo: 2"));
    CHECK(!answers("Vary: Foo", "Foo: 1", "Foo: 12"));
    CHECK(!answers("Vary: Foo", "Foo: 12", "Foo: 1"));
    CHECK(!answers("Vary: Foo", "Foo: 1", "X: y"));
    CHECK(!answers("Vary: Foo", "X: y", "Foo: 1"));
    CHECK(!answers("Vary: Foo", "X: y", "Foo:"));
    CHECK(!answers("Vary: Foo", "Foo:", "X: y"));
    CHECK(answers("Vary: Foo", "X: y", "X: z"));
    CHECK(answers("Vary: Foo, Bar\nVary: baz", "Foo: 1\nBaz: 3", "Baz: 3\nFoo: 1"));
    CHECK(!answers("Vary: Foo, Bar\nVary: baz", "Foo: 1\nBaz: 3", "Baz: 4\nFoo: 1"));
    CHECK(!answers("Vary: Foo, Bar, Baz", "Foo: 1\nBaz: 3", "Baz: 3\nFoo: 1\nBar: 1"));
    CHECK(!answers("Vary: Foo, Bar", "Foo: ab\nBar: c", "Foo: a\nBar: bc"));
    CHECK(!answers("Vary: Foo", "Foo: a", "Foo: A"));
}

TEST(vary, lines_and_white_space_do_not_matter)
{
    CHECK(answers("Vary: Foo", "Foo: 1, 2", "Foo: 1\nFoo: 2"));
    CHECK(answers("Vary: Foo", "Foo: 1,2", "Foo:  1 ,\t2 "));
    CHECK(answers("Vary: Foo", "Foo: \"a, b\", c", "Foo: \"a, b\",c"));
    CHECK(!answers("Vary: Foo", "Foo: \"a, b\"", "Foo: \"a,b\""));
    CHECK(!answers("Vary: Foo", "Foo: 1 2", "Foo: 1  2"));
    CHECK(!answers("Vary: Foo", "Foo: 12", "Foo: 1\nFoo: 2"));
    CHECK(answers("Vary: Accept-Language", "Accept-Language: en, de", "accept-language: eN,  De"));
    CHECK(!answers("Vary: Accept-Language", "Accept-Language: en, de", "Accept-Language: en"));
    CHECK(!answers("Vary: Cookie", "Cookie: a=1, b", "Cookie: a=1,b"));
    CHECK(!answers("Vary: User-Agent", "User-Agent: a, b", "User-Agent: a,b"));
}

TEST(vary, star_matches_nothing)
{
    CHECK(!answers("Vary: *", "Foo: 1", "Foo: 1"));
    CHECK(!answers("Vary: , *", "Foo: 1", "Foo: 1"));
    CHECK(!answers("Vary:\nVary: *", "Foo: 1", "Foo: 1"));
    CHECK(!answers("Vary: *, Foo", "Foo: 1", "Foo: 1"));
    CHECK(!answers("Vary: Foo, *", "Foo: 1", "Foo: 1"));
    CHECK(!answers("Vary: Foo Bar", "Foo: 1", "Foo: 1"));
    CHECK(!answers(
        "Vary: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "A: 1", "A: 1"));
    CHECK(!answers("Vary: X-Forwarded-For", "A: 1", "A: 1"));
}

TEST(vary, accept_encoding_is_a_subset_of_br_and_gzip)
{
    CHECK(answers(
        "Vary: Accept-Encoding", "Accept-Encoding: gzip, br", "accept-encoding: br;q=1,gzip"));
    CHECK(answers("Vary: Accept-Encoding", "X: y", "Accept-Encoding: identity"));
    CHECK(!answers("Vary: Accept-Encoding", "X: y", "Accept-Encoding: gzip"));
}

/* The specification of what answers every Accept-Encoding, and of a form of it. */
static int
recoded(const char *vary, const char *fields, unsigned form, struct span out)
{
    const struct vary_recoding to = {.form = form, .best = true, .saved = 77};
    char resp[128], req[128], spec[256];
    struct head_build b1, b2;
    int n;

    snprintf(resp, sizeof(resp), "HTTP/1.1 200 OK\n%s\n", vary);
    snprintf(req, sizeof(req), "GET / HTTP/1.1\n%s\n", fields);
    n = vary_build(
        head_build(&b1, resp), head_build(&b2, req), true, (struct span){spec, sizeof(spec)});
    CHECK(n >= VARY_FORMS_LEN);
    if (form != 0)
        return vary_recode(slice_of(spec, (size_t)n), &to, out);
    memcpy(out.ptr, spec, (size_t)n);
    return n;
}

TEST(vary, what_is_recoded_answers_those_who_take_its_form_and_all_else_that_varies)
{
    char spec[256];
    int n = recoded("Vary: X-Who, Accept-Encoding", "X-Who: me", HTTP_FORM_BR,
        (struct span){spec, sizeof(spec)});
    struct head_build b;
    struct slice s;

    CHECK(n > VARY_RECODED_LEN);
    s = slice_of(spec, (size_t)n);
    CHECK(vary_has_forms(s));
    CHECK_EQ(HTTP_FORM_BR, vary_recoded(s).form);
    CHECK(vary_recoded(s).best);
    CHECK_EQ(77, vary_recoded(s).saved);
    CHECK(vary_match(s, head_build(&b, "GET / HTTP/1.1\nX-Who: me\nAccept-Encoding: gzip, br\n")));
    CHECK(!vary_match(s, head_build(&b, "GET / HTTP/1.1\nX-Who: me\nAccept-Encoding: gzip\n")));
    CHECK(!vary_match(s, head_build(&b, "GET / HTTP/1.1\nX-Who: you\nAccept-Encoding: br\n")));
    head_build(&b, "GET / HTTP/1.1\nX-Who: me\nAccept-Encoding: br\n");
    for (size_t len = 1; len < VARY_RECODED_LEN; len++) /* cut, it is none, and matches nothing */
        CHECK(!vary_match(slice_of(spec, len), &b.h) && !vary_has_forms(slice_of(spec, len)));
    CHECK_EQ(TERR_LIMIT, recoded("Vary: Accept-Encoding", "X: y", HTTP_FORM_BR,
                             (struct span){spec, VARY_RECODED_LEN - 1}));
}

TEST(vary, what_answers_every_form_supersedes_each_and_a_form_itself_alone)
{
    char all[64], br[64], zstd[64], other[64];
    const struct slice any =
        slice_of(all, (size_t)recoded("Vary: X-Who", "X-Who: me", 0, (struct span){all, 64}));
    const struct slice b = slice_of(
        br, (size_t)recoded("Vary: X-Who", "X-Who: me", HTTP_FORM_BR, (struct span){br, 64}));
    const struct slice z = slice_of(
        zstd, (size_t)recoded("Vary: X-Who", "X-Who: me", HTTP_FORM_ZSTD, (struct span){zstd, 64}));
    const struct slice you = slice_of(other,
        (size_t)recoded("Vary: X-Who", "X-Who: you", HTTP_FORM_BR, (struct span){other, 64}));

    CHECK(vary_supersedes(any, any) && vary_supersedes(any, b) && vary_supersedes(any, z));
    CHECK(vary_supersedes(b, b) && !vary_supersedes(b, z) && !vary_supersedes(b, any));
    CHECK(!vary_supersedes(any, you) && !vary_supersedes(b, you));
    CHECK(vary_supersedes(slice_of("", 0), vary_forms()));
    CHECK(vary_supersedes(vary_forms(), slice_of("", 0)));
    CHECK(!vary_supersedes(slice_of("", 0), any));
}

TEST(vary, a_nominated_field_was_not_forwarded_and_counts_as_absent)
{
    struct head_build resp, req;
    char spec[64];
    int len;

    head_build(&req, "GET / HTTP/1.1\nFoo: 1\nAccept-Encoding: gzip\n");
    req.fields[0].drop = req.fields[1].drop = true;
    len = vary_build(head_build(&resp, "HTTP/1.1 200 OK\nVary: Foo, Accept-Encoding\n"), &req.h,
        false, (struct span){spec, sizeof(spec)});
    CHECK(len > 0);
    CHECK(vary_match(slice_of(spec, (size_t)len), head_build(&req, "GET / HTTP/1.1\nX: y\n")));
    CHECK(!vary_match(slice_of(spec, (size_t)len), head_build(&req, "GET / HTTP/1.1\nFoo: 1\n")));
}

TEST(vary, specifications_are_bounded_and_broken_ones_match_nothing)
{
    struct head_build resp, req;
    char spec[64];
    int len, i;

    head_build(&resp, "HTTP/1.1 200 OK\nVary: Foo, Accept\n");
    head_build(&req, "GET / HTTP/1.1\nFoo: 123\nAccept: x\n");
    len = vary_build(&resp.h, &req.h, false, (struct span){spec, sizeof(spec)});
    CHECK(len > 0);
    for (i = 0; i < len; i++)
        CHECK_EQ(TERR_LIMIT, vary_build(&resp.h, &req.h, false, (struct span){spec, (size_t)i}));
    CHECK_EQ(len, vary_build(&resp.h, &req.h, false, (struct span){spec, (size_t)len}));
    for (i = 1; i < len; i++) {
        if (i != 4 + 3 + 3) /* one whole name is a specification too */
            CHECK(!vary_match(slice_of(spec, (size_t)i), &req.h));
    }
    CHECK(!vary_match(SLICE_LIT("\xff"), &req.h));
    CHECK(!vary_match(SLICE_LIT("\x7f\0\0\0"), &req.h));
}

/* The normal form of an Accept-Language, by its specification (4 bytes and the name first). */
static void
language_is(const char *want, const char *fields)
{
    struct head_build resp, req;
    char text[512], out[512];
    size_t len = strlen(want), skip = 4 + strlen("accept-language");
    int n;

    snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s\n", fields);
    n = vary_build(head_build(&resp, "HTTP/1.1 200 OK\nVary: Accept-Language\n"),
        head_build(&req, text), false, (struct span){out, sizeof(out)});
    CHECK_EQ(skip + len, n);
    CHECK_MEM(want, out + skip, len);
    CHECK(vary_match(slice_of(out, (size_t)n), &req.h));
    for (; n > (int)skip; n--)
        CHECK_EQ(TERR_LIMIT, vary_build(&resp.h, &req.h, false, (struct span){out, (size_t)n - 1}));
}

TEST(vary, accept_language_is_sorted_by_weight_and_name)
{
    static const char *const rows[][2] = {{"de,en", "en, de"}, {"de,en", "De,\teN"},
        {"de,en", "en;q=1, de;q=1.000"}, {"en,de;q=0.5", "de;q=0.5, en"},
        {"en,de;q=0.5", "de ; Q=0.500 ,en"}, {"de,fr;q=0.5", "fr;q=0.5, de;q=1.0"},
        {"en,*;q=0.1,de;q=0", "de;q=0, *;q=0.1, en"}, {"en", "en, en, EN;q=1"},
        {"en,en;q=0.5", "en;q=0.5, en"}, {"en,en-gb,en-us", "en-US, en-GB, en"},
        {"a;q=0.123,b;q=0.12,c;q=0.1", "c;q=0.1,b;q=0.12,a;q=0.123"}, {"", ""}, {"", ", ,"},
        {"a;q=0", "a;q=0.000"}, {"a;q=0.001", "a;q=0.001"}, {"x-12345678", "X-12345678"}};
    static const char *const malformed[] = {"en;", "en;q", "en;q=", "en;q=2", "en;q=1.001",
        "en;q=0.1234", "en;q=.5", "en;q=0,5", "en;q=a", "en;x=1", "en;q=1;q=1", "e n", "en_US",
        "-en", "en-", "en--us", "1n", "abcdefghi", "\"en\", De", "De, en;q=0.5;", "*-de"};
    char text[128];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "Accept-Language: %s", rows[i][1]);
        language_is(rows[i][0], text);
        snprintf(text, sizeof(text), "Accept-Language: %s", rows[i][0]);
        language_is(rows[i][0], text);
    }
    language_is("de,en", "Accept-Language: en\nAccept-Language: de");
    for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        snprintf(text, sizeof(text), "Accept-Language: %s", malformed[i]);
        language_is(malformed[i], text);
    }
    language_is("en;,De", "Accept-Language: en;\nAccept-Language: De");
    CHECK(!answers("Vary: Accept-Language", "Accept-Language: en;", "Accept-Language: EN;"));
    CHECK(!answers("Vary: Accept-Language", "Accept-Language: en, de", "Accept-Language: en"));
    CHECK(!answers("Vary: Accept-Language", "Accept-Language: en", "Accept-Language: en;q=0.9"));
    CHECK(!answers("Vary: Accept-Language", "Accept-Language:", "X: y"));
}

TEST(vary, accept_has_no_order_and_its_types_no_case)
{
    CHECK(answers("Vary: Accept", "Accept: a/b, C/d;q=0.5", "Accept: c/D;q=0.5,A/b"));
    CHECK(answers("Vary: Accept", "Accept: a/b, c/d", "Accept: c/d\nAccept: a/b"));
    CHECK(!answers("Vary: Accept", "Accept: a/b;x=Y", "Accept: a/b;x=y"));
    CHECK(!answers("Vary: Accept", "Accept: a/b, c/d", "Accept: a/b"));
    CHECK(!answers("Vary: Accept", "Accept: a/b;x=\"1,2\"", "Accept: a/b;x=\"2,1\""));
    CHECK(!answers("Vary: Accept", "Accept:", "X: y"));
}

TEST(vary, an_empty_member_of_an_unknown_field_is_a_member)
{
    CHECK(answers("Vary: X-Tenant", "X-Tenant: a, b", "X-Tenant: a,b"));
    CHECK(answers("Vary: X-Tenant", "X-Tenant: a,b", "X-Tenant: a\nX-Tenant: b"));
    CHECK(!answers("Vary: X-Tenant", "X-Tenant: ,a", "X-Tenant: a"));
    CHECK(!answers("Vary: X-Tenant", "X-Tenant: a,", "X-Tenant: a"));
    CHECK(!answers("Vary: X-Tenant", "X-Tenant: a,,b", "X-Tenant: a,b"));
}

TEST(vary, more_languages_than_fit_are_compared_byte_for_byte)
{
    char text[512] = "Accept-Language: ", more[640];
    struct head_build req;
    struct language l[LANGUAGE_MAX];
    unsigned i;

    for (i = 0; i < LANGUAGE_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sx-%u", i == 0 ? "" : ",", i);
    snprintf(more, sizeof(more), "GET / HTTP/1.1\n%s\n", text);
    CHECK_EQ(LANGUAGE_MAX, language_ranges(head_build(&req, more), l));
    snprintf(more, sizeof(more), "GET / HTTP/1.1\n%s,X-0\n", text);
    CHECK_EQ(LANGUAGE_MAX, language_ranges(head_build(&req, more), l));
    snprintf(more, sizeof(more), "GET / HTTP/1.1\n%s,y\n", text);
    CHECK_EQ(TERR_LIMIT, language_ranges(head_build(&req, more), l));
    snprintf(more, sizeof(more), "%s,y", text);
    language_is(more + strlen("Accept-Language: "), more);
}

/* Where one stored body is packed or unpacked as clients take it. */
TEST(vary, forms_answer_every_accept_encoding_and_nothing_else)
{
    struct head_build resp, req, other;
    char spec[256];
    int n, none;

    head_build(&resp, "HTTP/1.1 200 OK\nVary: Foo, accept-encoding\n");
    head_build(&req, "GET / HTTP/1.1\nAccept-Encoding: gzip\nFoo: 1\n");
    n = vary_build(&resp.h, &req.h, true, (struct span){spec, sizeof(spec)});
    CHECK(n > VARY_FORMS_LEN);
    CHECK(vary_has_forms(slice_of(spec, (size_t)n)));
    CHECK(vary_match(slice_of(spec, (size_t)n), &req.h));
    CHECK(vary_match(slice_of(spec, (size_t)n),
        head_build(&other, "GET / HTTP/1.1\nAccept-Encoding: br\nFoo: 1\n")));
    CHECK(vary_match(slice_of(spec, (size_t)n), head_build(&other, "GET / HTTP/1.1\nFoo: 1\n")));
    CHECK(!vary_match(slice_of(spec, (size_t)n),
        head_build(&other, "GET / HTTP/1.1\nAccept-Encoding: gzip\nFoo: 2\n")));
    for (int i = 1; i < n; i++)
        CHECK_EQ(TERR_LIMIT, vary_build(&resp.h, &req.h, true, (struct span){spec, (size_t)i}));
    head_build(&resp, "HTTP/1.1 200 OK\n");
    none = vary_build(&resp.h, &req.h, true, (struct span){spec, sizeof(spec)});
    CHECK_EQ(VARY_FORMS_LEN, none);
    CHECK(vary_has_forms(slice_of(spec, VARY_FORMS_LEN)));
    CHECK(vary_match(slice_of(spec, VARY_FORMS_LEN), &other.h));
    /* It is no value of the field, and no other name. */
    head_build(&resp, "HTTP/1.1 200 OK\nVary: Accept-Encoding\n");
    n = vary_build(&resp.h, &req.h, false, (struct span){spec, sizeof(spec)});
    CHECK(!vary_has_forms(slice_of(spec, (size_t)n)));
    CHECK(!vary_has_forms(slice_of(spec, 3)));
    head_build(&resp, "HTTP/1.1 200 OK\nVary: *\n");
    n = vary_build(&resp.h, &req.h, true, (struct span){spec, sizeof(spec)});
    CHECK(!vary_match(slice_of(spec, (size_t)n), &req.h));
}

TEST_MAIN(TEST_ENTRY(vary, forms_answer_every_accept_encoding_and_nothing_else),
    TEST_ENTRY(vary, accept_language_is_sorted_by_weight_and_name),
    TEST_ENTRY(vary, accept_has_no_order_and_its_types_no_case),
    TEST_ENTRY(vary, an_empty_member_of_an_unknown_field_is_a_member),
    TEST_ENTRY(vary, more_languages_than_fit_are_compared_byte_for_byte),
    TEST_ENTRY(vary, a_response_without_vary_answers_everybody),
    TEST_ENTRY(vary, values_must_be_the_same_and_absent_is_a_value),
    TEST_ENTRY(vary, lines_and_white_space_do_not_matter), TEST_ENTRY(vary, star_matches_nothing),
    TEST_ENTRY(vary, accept_encoding_is_a_subset_of_br_and_gzip),
    TEST_ENTRY(vary, what_is_recoded_answers_those_who_take_its_form_and_all_else_that_varies),
    TEST_ENTRY(vary, what_answers_every_form_supersedes_each_and_a_form_itself_alone),
    TEST_ENTRY(vary, a_nominated_field_was_not_forwarded_and_counts_as_absent),
    TEST_ENTRY(vary, specifications_are_bounded_and_broken_ones_match_nothing))
