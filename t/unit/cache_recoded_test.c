/* cache_recoded_test.c -- a response in one more coding: who gets it, and when it leaves. */
#include "t/unit/test.h"

#include "daemon/cache/cache_priv.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/http/codings.h"
#include "daemon/http/range.h"
#include "daemon/http/vary.h"
#include "t/unit/cache_fixture.h"

#define PACKED "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
#define CODED  "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nVary: Accept-Encoding\r\n"

enum {
    TTL_MS = 60000,
    GRACE_MS = 10000,
    GOOD_MS = 40000
};

static struct cache_fixture f;
static struct head_build asks; /* one at a time */
static struct cache_query q;

/* A request that takes these codings. */
static const struct cache_query *
asking(const char *codings)
{
    static char text[200];

    snprintf(
        text, sizeof(text), "GET /a HTTP/1.1\nHost: a.example\nAccept-Encoding: %s\n\n", codings);
    q = fixture_query(&f, "k", head_build(&asks, text));
    return &q;
}

static void
publish(struct entry *e, const char *head, struct slice vary, const struct tags *tags)
{
    struct fresh_verdict v = {.storable = true,
        .ttl_ms = TTL_MS,
        .grace_ms = GRACE_MS,
        .keep_ms = GOOD_MS,
        .stale_if_error_ms = -1,
        .validatable = true,
        .age_ms = 2000};
    struct entry_part part = {0, 8, body_kept(f.store, 8, 8)};
    struct head_build built;
    struct cache_response r = {.head = *head_build_stored(&built, head),
        .status = 200,
        .origin_status = 200,
        .vary = vary,
        .tags = tags,
        .body_len = 8,
        .parts = &part,
        .nparts = 1,
        .received_ms = (int64_t)f.clock.mono_ms,
        .fresh = &v};

    CHECK_EQ(0, cache_publish(e, &r));
    cache_settle(e);
}

/* What answers all; borrowed from the cache. */
static struct entry *
store_base(struct slice vary, const struct tags *tags)
{
    struct entry *e = fixture_miss(&f, asking("gzip"));

    publish(e, PACKED, vary, tags);
    fixture_drop_both(e);
    return e;
}

/* A form of it, as publishing it ends. */
static int
recode(struct entry *base, unsigned form, bool best)
{
    const struct vary_recoding to = {.form = form, .best = best, .saved = 100};
    const struct entry_part part = {0, 5, body_kept(f.store, 5, 5)};
    struct head_build built;
    char spec[256];
    int n = vary_recode(entry_vary(base), &to, (struct span){spec, sizeof(spec)}), err;
    struct cache_response r = {.head = *head_build_stored(&built, CODED),
        .vary = slice_of(spec, (size_t)n),
        .body_len = 5,
        .length_in_head = true,
        .parts = &part,
        .nparts = 1};

    CHECK(n > 0);
    err = cache_publish_recoded(base, &r);
    if (err != 0)
        stobj_unref(&(struct stobj *){part.body});
    return err;
}

/* Bytes of the body that this request is answered with; 0: no hit. */
static unsigned
hit(const struct cache_query *query)
{
    struct cache_answer a;

    return fixture_look(&f, query, &a) == CACHE_HIT ? (unsigned)entry_body_len(a.entry) : 0;
}

static void
open_with_base(struct entry **base)
{
    cache_fixture_open(&f);
    *base = store_base(vary_forms(), NULL);
}

TEST(recoded, is_for_those_that_take_it_and_the_rest_get_what_it_was_made_of)
{
    struct entry *base, *coded;

    open_with_base(&base);
    CHECK_EQ(8, hit(asking("br")));
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(5, hit(asking("gzip, deflate, br, zstd")));
    CHECK_EQ(8, hit(asking("gzip")));
    CHECK_EQ(8, hit(asking("gzip, br;q=0.5")));
    CHECK_EQ(8, hit(asking("zstd")));
    CHECK_EQ(8, hit(asking("identity")));
    coded = cache_stored(f.cache, &q.key);
    CHECK(coded != base && entry_next(coded) == base);
    CHECK_EQ(entry_age_s(base, q.now_ms + 5000), entry_age_s(coded, q.now_ms + 5000));
    CHECK_EQ(entry_ttl_ms(base), entry_ttl_ms(coded));
    CHECK(coded->length_in_head && coded->validatable);
    cache_fixture_close(&f);
}

TEST(recoded, is_not_for_parts_nor_where_vary_is_ignored)
{
    const struct range_spec range = {0, 3};
    struct entry *base;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    asking("gzip, br");
    q.ranges = &range;
    q.nranges = 1;
    CHECK_EQ(8, hit(&q));
    asking("gzip");
    q.ignore_vary = true;
    CHECK_EQ(8, hit(&q));
    cache_fixture_close(&f);
}

TEST(recoded, is_neither_served_stale_nor_validated)
{
    struct cache_answer a;
    struct entry *base;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    f.clock.mono_ms += TTL_MS + 1;
    CHECK_EQ(CACHE_STALE, fixture_look(&f, asking("br"), &a));
    CHECK(a.entry == base);
    f.clock.mono_ms += GRACE_MS;
    CHECK_EQ(CACHE_MISS, cache_lookup(f.cache, asking("br"), &f.waiter.w, &a));
    CHECK(a.old == base);
    cache_fail(a.entry, TERR_IO);
    fixture_drop_both(a.entry);
    entry_drop(&a.old);
    q.now_ms -= GRACE_MS;
    CHECK(cache_lookup_stale(f.cache, &q) != cache_stored(f.cache, &q.key));
    cache_fixture_close(&f);
}

TEST(recoded, leaves_when_another_response_comes)
{
    struct entry *base, *e;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(0, recode(base, HTTP_FORM_ZSTD, false));
    CHECK_EQ(5, hit(asking("zstd")));
    asking("gzip");
    q.always_miss = true;
    e = fixture_miss(&f, &q);
    publish(e, PACKED, vary_forms(), NULL);
    CHECK_EQ(8, hit(asking("br")));
    CHECK_EQ(8, hit(asking("zstd")));
    CHECK(cache_stored(f.cache, &q.key) == e && entry_next(e) == NULL);
    fixture_drop_both(e);
    cache_fixture_close(&f);
}

TEST(recoded, leaves_when_the_response_has_no_forms_any_more)
{
    struct entry *base, *e;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    asking("gzip");
    q.always_miss = true;
    e = fixture_miss(&f, &q);
    publish(e, "HTTP/1.1 200 OK\r\nX: y\r\n", slice_of("", 0), NULL);
    CHECK(cache_stored(f.cache, &q.key) == e && entry_next(e) == NULL);
    fixture_drop_both(e);
    cache_fixture_close(&f);
}

TEST(recoded, better_takes_the_place_of_the_same_form)
{
    struct entry *base, *first;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(0, recode(base, HTTP_FORM_ZSTD, false));
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, true));
    asking("br");
    first = cache_stored(f.cache, &q.key);
    CHECK_EQ(HTTP_FORM_ZSTD, vary_recoded(entry_vary(first)).form);
    first = entry_next(first);
    CHECK_EQ(HTTP_FORM_BR, vary_recoded(entry_vary(first)).form);
    CHECK(vary_recoded(entry_vary(first)).best);
    CHECK_EQ(100, vary_recoded(entry_vary(first)).saved);
    CHECK(entry_next(first) == base && entry_next(base) == NULL);
    cache_fixture_close(&f);
}

TEST(recoded, does_not_come_in_front_of_what_is_newer)
{
    const struct http_message *req = asking("gzip")->req;
    char spec[256];
    struct head_build head;
    struct entry *base, *newer;
    int n;

    open_with_base(&base);
    n = vary_build(head_build(&head, "HTTP/1.1 200 OK\nVary: X-Who\n"), req, true,
        (struct span){spec, sizeof(spec)});
    asking("gzip");
    q.always_miss = true;
    newer = fixture_miss(&f, &q);
    publish(newer, PACKED, slice_of(spec, (size_t)n), NULL);
    fixture_drop_both(newer);
    CHECK(cache_stored(f.cache, &q.key) == newer && entry_next(newer) == base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK(cache_stored(f.cache, &q.key) == newer && entry_next(entry_next(newer)) == base);
    CHECK_EQ(8, hit(asking("br"))); /* the newer one's */
    cache_fixture_close(&f);
}

TEST(recoded, is_not_published_when_what_it_was_made_of_has_left)
{
    struct entry *base;

    open_with_base(&base);
    entry_hold(base);
    CHECK_EQ(1, cache_purge(f.cache, &q.key));
    CHECK_EQ(TERR_CANCELLED, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(0, hit(asking("br")));
    entry_drop(&base);
    cache_fixture_close(&f);
}

TEST(recoded, leaves_with_a_purge_and_is_stale_with_a_soft_one)
{
    struct entry *base;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(2, cache_purge_soft(f.cache, &q.key, (int64_t)f.clock.mono_ms, 0, GRACE_MS, 0));
    CHECK_EQ(0, hit(asking("br")));
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(0, hit(asking("br")));
    CHECK_EQ(3, cache_purge(f.cache, &q.key) + 1u); /* one of the same form had left */
    CHECK(cache_stored(f.cache, &q.key) == NULL);
    cache_fixture_close(&f);
}

TEST(recoded, is_as_far_tested_against_bans_as_what_it_was_made_of)
{
    struct entry *base;

    open_with_base(&base);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.Content-Encoding ~ ."));
    CHECK_EQ(0,
        recode(base, HTTP_FORM_BR, false)); /* and gone at once: the ban is newer than the base */
    CHECK(cache_stored(f.cache, &q.key) == base);
    CHECK_EQ(0, hit(asking("br")));
    CHECK(cache_stored(f.cache, &q.key) == NULL);
    base = store_base(vary_forms(), NULL);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    CHECK_EQ(5, hit(asking("br")));
    /* By the request: only a lookup can test it, and does. */
    CHECK_EQ(0, fixture_ban(&f, "req.url == /a"));
    CHECK_EQ(0, recode(base, HTTP_FORM_ZSTD, false));
    CHECK_EQ(0, hit(asking("zstd")));
    CHECK_EQ(0, hit(asking("br")));
    CHECK_EQ(0, hit(asking("gzip")));
    cache_fixture_close(&f);
}

TEST(recoded, leaves_the_index_by_itself_and_its_base_goes_on)
{
    struct entry *base;

    open_with_base(&base);
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    cache_unlink(cache_stored(f.cache, &q.key));
    CHECK_EQ(8, hit(asking("br")));
    CHECK_EQ(0, recode(base, HTTP_FORM_BR, false));
    cache_unlink(base);
    CHECK_EQ(5, hit(asking("br")));
    CHECK_EQ(0, hit(asking("gzip")));
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(recoded, is_for_those_that_take_it_and_the_rest_get_what_it_was_made_of),
    TEST_ENTRY(recoded, is_not_for_parts_nor_where_vary_is_ignored),
    TEST_ENTRY(recoded, is_neither_served_stale_nor_validated),
    TEST_ENTRY(recoded, leaves_when_another_response_comes),
    TEST_ENTRY(recoded, leaves_when_the_response_has_no_forms_any_more),
    TEST_ENTRY(recoded, better_takes_the_place_of_the_same_form),
    TEST_ENTRY(recoded, does_not_come_in_front_of_what_is_newer),
    TEST_ENTRY(recoded, is_not_published_when_what_it_was_made_of_has_left),
    TEST_ENTRY(recoded, leaves_with_a_purge_and_is_stale_with_a_soft_one),
    TEST_ENTRY(recoded, is_as_far_tested_against_bans_as_what_it_was_made_of),
    TEST_ENTRY(recoded, leaves_the_index_by_itself_and_its_base_goes_on))
