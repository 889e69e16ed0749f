/* invalidation_pairs_test.c -- records to names and values and back, and what is refused. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/cache/invalidation_pairs.h"
#include "daemon/http/tags.h"

/* ---- Pairs as text: "v=1 kind=url text=..." with a bar between two ---- */

static struct pair list[INVALIDATION_PAIRS_MAX + INVALIDATION_FIELDS_MAX];
static char text_room[4096];
static struct invalidation_room room;

static unsigned
split(const char *text)
{
    unsigned n = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, "|"), name = strcspn(text, "=");

        CHECK(name < len && n < sizeof(list) / sizeof(list[0]));
        list[n++] = (struct pair){slice_of(text, name), slice_of(text + name + 1, len - name - 1)};
        text += len + (text[len] == '|');
    }
    return n;
}

static const char *
joined(const struct pairs *p)
{
    static char text[4096];
    size_t at = 0;

    for (unsigned i = 0; i < p->n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s=%.*s", i > 0 ? "|" : "",
            (int)p->list[i].name.len, p->list[i].name.ptr, (int)p->list[i].value.len,
            p->list[i].value.ptr);
    return text;
}

static char why[200];

static int
read_text(const char *text, struct invalidation *out)
{
    why[0] = '\0';
    return invalidation_from_pairs(list, split(text), &room, out, (struct span){why, sizeof(why)});
}

static int
write_pairs(const struct invalidation *inv, struct pairs *p)
{
    static struct pair pairs[sizeof(list) / sizeof(list[0])];

    *p = (struct pairs){.list = pairs,
        .max = sizeof(pairs) / sizeof(pairs[0]),
        .room = {text_room, sizeof(text_room)}};
    return invalidation_to_pairs(inv, p);
}

/* Reads it, writes it, and it is the same. */
static struct invalidation
round_trip(const char *text)
{
    struct invalidation inv;
    struct pairs p;

    if (read_text(text, &inv) != 0)
        fail_msg("%s: %s", text, why);
    CHECK_EQ(0, write_pairs(&inv, &p));
    CHECK_STR(text, joined(&p));
    return inv;
}

TEST(pairs, every_kind_goes_there_and_back)
{
    struct invalidation inv;

    inv = round_trip(
        "v=1|kind=url|soft=1|text=http://a.test/p?q=1|field=X-Language: de|field=Cookie: a=b;\tc");
    CHECK(inv.kind == INVALIDATION_URL && inv.soft && !inv.changed && inv.key == NULL);
    CHECK_EQ(2, inv.nfields);
    CHECK(slice_eq(inv.fields[0].name, SLICE_LIT("X-Language")));
    CHECK(slice_eq(inv.fields[0].value, SLICE_LIT("de")));
    CHECK(slice_eq(inv.fields[1].value, SLICE_LIT("a=b;\tc")));
    round_trip("v=1|kind=url|text=/p");
    round_trip("v=1|kind=key|text=http://a.test/p");
    inv = round_trip("v=1|kind=key|changed=1|text=http://a.test/p");
    CHECK(inv.changed && !inv.soft);
    inv = round_trip("v=1|kind=key|soft=1|ttl=0|grace=10000|text=k");
    CHECK_EQ(0, inv.ttl_ms);
    CHECK_EQ(10000, inv.grace_ms);
    CHECK_EQ(-1, inv.keep_ms);
    inv = round_trip("v=1|kind=key|soft=1|keep=999999999999999|text=k");
    CHECK_EQ(-1, inv.ttl_ms);
    inv = round_trip("v=1|kind=tags|tag=a b|tag=c");
    CHECK_EQ(2, inv.ntags);
    CHECK(slice_eq(inv.tags[0], SLICE_LIT("a b")));
    round_trip("v=1|kind=tags|soft=1|tag=\xc3\xa4\t2");
    inv = round_trip("v=1|kind=ban|text=obj.http.x ~ a &&\n obj.age > 5m");
    CHECK(slice_eq(inv.text, SLICE_LIT("obj.http.x ~ a &&\n obj.age > 5m")));
    round_trip("v=1|kind=all");
    CHECK(round_trip("v=1|kind=all|soft=1").soft);
}

TEST(pairs, a_key_may_have_any_byte)
{
    const struct pair pairs[] = {{SLICE_LIT("v"), SLICE_LIT("1")},
        {SLICE_LIT("kind"), SLICE_LIT("key")}, {SLICE_LIT("text"), SLICE_LIT("\"/p\0\x01\xff\0")}};
    struct invalidation inv;
    struct pairs p;

    CHECK_EQ(0, invalidation_from_pairs(pairs, 3, &room, &inv, (struct span){why, sizeof(why)}));
    CHECK(slice_eq(inv.text, pairs[2].value));
    CHECK_EQ(0, write_pairs(&inv, &p));
    CHECK(slice_eq(p.list[2].value, pairs[2].value));
}

TEST(pairs, order_and_unknown_names_do_not_matter)
{
    struct invalidation inv;

    CHECK_EQ(0, read_text("node=7|text=k|soft=0|since=yesterday|kind=key|v=1|ttl2=x", &inv));
    CHECK(inv.kind == INVALIDATION_KEY && !inv.soft);
    CHECK(slice_eq(inv.text, SLICE_LIT("k")));
    CHECK_EQ(0, read_text("v=1|kind=url|text=/|field=A:b|field=C:   |field=D:", &inv));
    CHECK(slice_eq(inv.fields[0].value, SLICE_LIT("b")));
    CHECK_EQ(0, inv.fields[1].value.len);
    CHECK_EQ(3, inv.nfields);
}

TEST(pairs, what_is_wrong_is_said)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"kind=all", "there is no 'v', the version of the record"},
        {"v=1", "there is no 'kind'"},
        {"v=1|kind=page", "kind 'page' is none of url, key, tags, ban, all"},
        {"v=1|kind=", "kind '' is none of url, key, tags, ban, all"},
        {"v=1|kind=all|kind=all", "'kind' is there twice"},
        {"v=1|kind=all|v=1", "'v' is there twice"},
        {"v=1|kind=url", "kind=url needs a 'text', which is not empty"},
        {"v=1|kind=key|text=", "kind=key needs a 'text', which is not empty"},
        {"v=1|kind=ban|tag=a", "kind=ban needs a 'text', which is not empty"},
        {"v=1|kind=all|text=a", "kind=all has no 'text'"},
        {"v=1|kind=tags|tag=a|text=a", "kind=tags has no 'text'"},
        {"v=1|kind=tags", "kind=tags needs a 'tag'"},
        {"v=1|kind=tags|tag=", "a 'tag' has 1 to 4096 bytes"},
        {"v=1|kind=tags|tag=a\x01", "a 'tag' has a control character"},
        {"v=1|kind=key|text=a|tag=a", "a 'tag' goes with kind=tags alone"},
        {"v=1|kind=url|text=a\nb", "the 'text' has a control character"},
        {"v=1|kind=url|text=a\x7f", "the 'text' has a control character"},
        {"v=1|kind=ban|text=a\x1b[2J", "the 'text' has a control character"},
        {"v=1|kind=ban|text=a|soft=1", "kind=ban is never soft"},
        {"v=1|kind=all|soft=yes", "soft 'yes' is neither 1 nor 0"},
        {"v=1|kind=all|soft=", "soft '' is neither 1 nor 0"},
        {"v=1|kind=all|changed=1", "'changed' goes with kind=key alone, and not with soft=1"},
        {"v=1|kind=key|text=a|soft=1|changed=1",
            "'changed' goes with kind=key alone, and not with soft=1"},
        {"v=1|kind=key|text=a|soft=1|ttl=1s", "ttl '1s' is no number of milliseconds"},
        {"v=1|kind=key|text=a|soft=1|grace=-1", "grace '-1' is no number of milliseconds"},
        {"v=1|kind=key|text=a|soft=1|keep=", "keep '' is no number of milliseconds"},
        {"v=1|kind=key|text=a|soft=1|keep=1000000000000000",
            "keep '1000000000000000' is no number of milliseconds"},
        {"v=1|kind=key|text=a|ttl=1",
            "'ttl', 'grace' and 'keep' go with kind=key and soft=1 alone"},
        {"v=1|kind=all|soft=1|keep=1",
            "'ttl', 'grace' and 'keep' go with kind=key and soft=1 alone"},
        {"v=1|kind=url|text=/|field=A", "field 'A' is no name, a colon, a value"},
        {"v=1|kind=url|text=/|field=:a", "field ':a' is no name, a colon, a value"},
        {"v=1|kind=url|text=/|field=A: b\x02", "a 'field' has a control character"},
        {"v=1|kind=url|text=/|field=A\t: b", "a 'field' has a control character"},
        {"v=1|kind=key|text=/|field=A: b", "a 'field' goes with kind=url alone"},
        {"v=1|kind=\x1b[31m0123456789012345678901234567890",
            "kind '?[31m012345678901234567890123456...' is none of url, key, tags, ban, all"},
    };
    struct invalidation inv = {.ntags = 77};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_EQ(TERR_SYNTAX, read_text(rows[i].text, &inv));
        CHECK_STR(rows[i].why, why);
    }
    CHECK_EQ(77, inv.ntags); /* as it was */
}

/* And nothing else of it: what follows may mean something else there. */
TEST(pairs, another_version_is_named_with_the_one_that_is_known)
{
    struct invalidation inv;

    CHECK_EQ(TERR_INVALID, read_text("kind=what|soft=maybe|v=2", &inv));
    CHECK_STR("the record's version is '2'; this tarnd knows version 1", why);
    CHECK_EQ(TERR_INVALID, read_text("v=|kind=all", &inv));
    CHECK_EQ(TERR_INVALID, read_text("v=1.0|kind=all", &inv));
    CHECK_STR("the record's version is '1.0'; this tarnd knows version 1", why);
}

TEST(pairs, all_has_a_bound)
{
    static struct pair many[TAG_PURGE_MAX + 3];
    static char large[INVALIDATION_TEXT_MAX + 1];
    struct span say = {why, sizeof(why)};
    struct invalidation inv;

    many[0] = (struct pair){SLICE_LIT("v"), SLICE_LIT("1")};
    many[1] = (struct pair){SLICE_LIT("kind"), SLICE_LIT("tags")};
    for (unsigned i = 0; i < TAG_PURGE_MAX + 1; i++)
        many[i + 2] = (struct pair){SLICE_LIT("tag"), SLICE_LIT("t")};
    CHECK_EQ(0, invalidation_from_pairs(many, TAG_PURGE_MAX + 2, &room, &inv, say));
    CHECK_EQ(TERR_SYNTAX, invalidation_from_pairs(many, TAG_PURGE_MAX + 3, &room, &inv, say));
    CHECK_STR("there are more than 256 tags", why);
    memset(large, 'x', sizeof(large));
    for (unsigned i = 0; i < 5; i++)
        many[i + 2].value = slice_of(large, TAGS_BYTES_MAX);
    CHECK_EQ(TERR_SYNTAX, invalidation_from_pairs(many, 7, &room, &inv, say));
    CHECK_STR("the tags have more than 16384 bytes together", why);
    many[2].value = slice_of(large, TAGS_BYTES_MAX + 1);
    CHECK_EQ(TERR_SYNTAX, invalidation_from_pairs(many, 3, &room, &inv, say));
    many[1].value = SLICE_LIT("url");
    many[2] = (struct pair){SLICE_LIT("text"), slice_of(large, INVALIDATION_TEXT_MAX)};
    for (unsigned i = 0; i < INVALIDATION_FIELDS_MAX + 1; i++)
        many[i + 3] = (struct pair){SLICE_LIT("field"), SLICE_LIT("A: b")};
    CHECK_EQ(0, invalidation_from_pairs(many, INVALIDATION_FIELDS_MAX + 3, &room, &inv, say));
    CHECK_EQ(
        TERR_SYNTAX, invalidation_from_pairs(many, INVALIDATION_FIELDS_MAX + 4, &room, &inv, say));
    CHECK_STR("there are more than 32 fields", why);
    many[2].value.len++;
    CHECK_EQ(TERR_SYNTAX, invalidation_from_pairs(many, 3, &room, &inv, say));
    CHECK_STR("the 'text' has more than 131072 bytes", why);
}

/* One pair, or one byte, less than it takes. */
TEST(pairs, what_does_not_fit_is_no_record)
{
    const struct invalidation_field fields[] = {{SLICE_LIT("A"), SLICE_LIT("b")}};
    const struct invalidation url = {
        .kind = INVALIDATION_URL, .text = SLICE_LIT("/"), .fields = fields, .nfields = 1};
    const struct invalidation key = {.kind = INVALIDATION_KEY,
        .soft = true,
        .ttl_ms = INT64_MAX,
        .grace_ms = 1,
        .keep_ms = 2,
        .text = SLICE_LIT("k")};
    struct pair pairs[7];
    char bytes[INVALIDATION_NUMBERS_MAX];
    struct pairs p = {.list = pairs, .room = {bytes, sizeof(bytes)}};

    for (p.max = 0; p.max < 4; p.max++)
        CHECK_EQ(TERR_LIMIT, invalidation_to_pairs(&url, &p));
    CHECK_EQ(0, invalidation_to_pairs(&url, &p));
    CHECK_STR("v=1|kind=url|text=/|field=A: b", joined(&p));
    p.room.len = 3;
    CHECK_EQ(TERR_LIMIT, invalidation_to_pairs(&url, &p));
    p.room.len = sizeof(bytes);
    for (p.max = 0; p.max < 7; p.max++)
        CHECK_EQ(TERR_LIMIT, invalidation_to_pairs(&key, &p));
    CHECK_EQ(0, invalidation_to_pairs(&key, &p));
    CHECK_STR("v=1|kind=key|soft=1|ttl=999999999999999|grace=1|keep=2|text=k", joined(&p));
    p.room.len = 17;
    CHECK_EQ(TERR_LIMIT, invalidation_to_pairs(&key, &p));
}

TEST(pairs, what_could_not_be_read_is_not_written)
{
    const struct slice tags[] = {SLICE_LIT("a\nb")};
    const struct invalidation_field fields[] = {{SLICE_LIT("A:"), SLICE_LIT("b")}};
    const struct invalidation bad[] = {
        {.kind = INVALIDATION_TAGS, .tags = tags, .ntags = 1},
        {.kind = INVALIDATION_TAGS},
        {.kind = INVALIDATION_KEY},
        {.kind = INVALIDATION_URL, .text = SLICE_LIT("/"), .fields = fields, .nfields = 1},
        {.kind = INVALIDATION_BAN, .text = SLICE_LIT("obj.status == 1"), .soft = true},
    };
    struct pairs p;

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(TERR_INVALID, write_pairs(&bad[i], &p));
}

TEST_MAIN(TEST_ENTRY(pairs, every_kind_goes_there_and_back),
    TEST_ENTRY(pairs, a_key_may_have_any_byte),
    TEST_ENTRY(pairs, order_and_unknown_names_do_not_matter),
    TEST_ENTRY(pairs, what_is_wrong_is_said),
    TEST_ENTRY(pairs, another_version_is_named_with_the_one_that_is_known),
    TEST_ENTRY(pairs, all_has_a_bound), TEST_ENTRY(pairs, what_does_not_fit_is_no_record),
    TEST_ENTRY(pairs, what_could_not_be_read_is_not_written))
