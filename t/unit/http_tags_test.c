/* http_tags_test.c -- tags: which fields name them, and what stands in these. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/base/hash.h"
#include "daemon/http/tags.h"
#include "t/unit/head_build.h"

/* The tags in `text`, joined by bars. */
static const char *
tags_in(struct slice text, unsigned between)
{
    static char out[512];
    struct slice tag;
    size_t n = 0;

    out[0] = '\0';
    while (tag_next(&text, between, &tag))
        n += (size_t)snprintf(
            out + n, sizeof(out) - n, "%s%.*s", n > 0 ? "|" : "", (int)tag.len, tag.ptr);
    return out;
}

static bool
has(const struct tags *t, const char *tag)
{
    for (unsigned i = 0; i < t->n; i++)
        if (t->hash[i] == tag_hash(slice_str(tag)))
            return true;
    return false;
}

static struct tags
tags_of(const char *block)
{
    struct head_build b;
    struct tags t;
    char text[8192];

    snprintf(text, sizeof(text), "%s%s",
        strncmp(block, "HTTP/", 5) == 0 ? "" : "HTTP/1.1 200 OK\r\n", block);
    hash_secret_fix(1);
    tags_init(&t);
    tags_add_fields(&t, head_build(&b, text));
    return t;
}

TEST(tags, spaces_commas_or_both_stand_between)
{
    CHECK_STR("a|b,c|d", tags_in(SLICE_LIT(" a  b,c\td "), TAG_SPACES));
    CHECK_STR("a  b|c\td", tags_in(SLICE_LIT(", a  b ,,c\td ,"), TAG_COMMAS));
    CHECK_STR("a|b|c|d", tags_in(SLICE_LIT(", a  b ,,c\td ,"), TAG_SPACES | TAG_COMMAS));
    CHECK_STR("", tags_in(SLICE_LIT(" ,\t, "), TAG_SPACES | TAG_COMMAS));
    CHECK_STR("", tags_in(SLICE_LIT(""), TAG_COMMAS));
    CHECK_STR("\"a|b\"", tags_in(SLICE_LIT("\"a,b\""), TAG_COMMAS)); /* quotes mean nothing */
    CHECK_STR("\xff\xfe", tags_in(SLICE_LIT("\xff\xfe"), TAG_SPACES));
}

TEST(tags, three_fields_name_them_on_as_many_lines_as_come)
{
    struct head_build b;
    struct tags t = tags_of("HTTP/1.1 200 OK\r\nSurrogate-Key: a,b c\r\nX-Tag: no\r\n"
                            "XKEY: d, e f\r\ncache-tag: g h, i\r\nsurrogate-key:j\r\n"
                            "Surrogate-Keys: no\r\nSurrogate-Key : no\r\nCache-Tag:\r\n");

    CHECK_EQ(8, t.n);
    CHECK(has(&t, "a,b") && has(&t, "c") && has(&t, "d") && has(&t, "e") && has(&t, "f"));
    CHECK(has(&t, "g h") && has(&t, "i") && has(&t, "j"));
    CHECK(!has(&t, "no") && !has(&t, "J"));
    CHECK(!t.any);
    CHECK(tags_named(head_build(&b, "HTTP/1.1 200 OK\r\nServer: x\r\nCACHE-TAG: c")));
    CHECK(tags_named(head_build(&b, "HTTP/1.1 200 OK\r\nxkey:\r\n")));
    CHECK_EQ(0, tags_of("HTTP/1.1 200 OK\r\nServer: x\r\n").n);
    CHECK(!tags_named(head_build(&b, "HTTP/1.1 200 OK\r\nServer: x\r\n")));
}

TEST(tags, each_counts_once)
{
    struct tags t = tags_of("xkey: a a A\r\nSurrogate-Key: a b\r\nCache-Tag: b, a\r\n");

    CHECK_EQ(3, t.n);
    CHECK_EQ(3, t.bytes);
}

TEST(tags, with_too_many_it_may_be_any)
{
    static char text[TAGS_BYTES_MAX + 3];
    struct tags t;

    hash_secret_fix(1);
    tags_init(&t);
    for (unsigned i = 0; i < TAGS_MAX; i++) {
        snprintf(text, sizeof(text), "t%u", i);
        tags_add(&t, slice_str(text), TAG_SPACES);
    }
    CHECK_EQ(TAGS_MAX, t.n);
    tags_add(&t, SLICE_LIT("t1 t2"), TAG_SPACES);
    CHECK(!t.any);
    tags_add(&t, SLICE_LIT("t1 one-more t2"), TAG_SPACES);
    CHECK(t.any);

    memset(text, 'x', sizeof(text));
    tags_init(&t);
    tags_add(&t, slice_of(text, TAGS_BYTES_MAX), TAG_SPACES);
    CHECK(!t.any && t.n == 1);
    tags_add(&t, SLICE_LIT("y"), TAG_SPACES);
    CHECK(t.any);
    tags_init(&t);
    tags_add(&t, slice_of(text, TAGS_BYTES_MAX + 1), TAG_SPACES);
    CHECK(t.any && t.n == 0);
}

TEST(tags, lines_that_name_them_go_behind_the_others)
{
    struct arena_pool pool;
    struct arena arena;
    struct head_build b;
    struct http_message m;
    unsigned nothers;

    arena_pool_init(&pool, 1, NULL);
    arena_init(&arena, &pool);
    head_build(
        &b, "HTTP/1.1 200 OK\r\nXkey: a\r\nServer: x\r\nCache-Tag: b\r\nContent-Length: 3\r\n");
    CHECK_EQ(0, tags_put_last(&b.h, &arena, &m, &nothers));
    CHECK_STR("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 3\r\nXkey: a\r\nCache-Tag: b\r\n",
        head_text(&m));
    CHECK_EQ(2, nothers);
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

TEST_MAIN(TEST_ENTRY(tags, spaces_commas_or_both_stand_between),
    TEST_ENTRY(tags, three_fields_name_them_on_as_many_lines_as_come),
    TEST_ENTRY(tags, each_counts_once), TEST_ENTRY(tags, with_too_many_it_may_be_any),
    TEST_ENTRY(tags, lines_that_name_them_go_behind_the_others))
