/* http_message_edit_test.c -- a policy changes a head, and what it read before stays readable. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/message_edit.h"
#include "daemon/http/uri.h"

#define FIELDS_MAX 64u

static struct {
    struct arena_pool pool;
    struct arena arena;
    struct message_edit e;
} world;

static void
world_open(const char *text, unsigned fields_max)
{
    struct head_build b;

    arena_pool_init(&world.pool, 4, NULL);
    arena_init(&world.arena, &world.pool);
    head_build(&b, text);
    CHECK_EQ(0, message_edit_init(&world.e, &b.h, &world.arena, fields_max));
}

static void
world_close(void)
{
    arena_fini(&world.arena);
    arena_pool_fini(&world.pool);
}

static struct slice
named(const char *name)
{
    return slice_str(name);
}

static int
set(const char *name, const char *value)
{
    return message_edit_set(
        &world.e, named(name), http_field_id(name, strlen(name)), slice_str(value));
}

static int
add(const char *name, const char *value)
{
    return message_edit_add(
        &world.e, named(name), http_field_id(name, strlen(name)), slice_str(value));
}

static unsigned
unset(const char *name)
{
    return message_edit_unset(&world.e, named(name), http_field_id(name, strlen(name)));
}

/* The fields, a line each. */
static const char *
fields(void)
{
    static char out[8192];
    const struct http_message *h = &world.e.head;
    size_t n = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < h->nfields; i++) {
        struct slice name = http_name(h, &h->fields[i]), value = http_value(h, &h->fields[i]);

        n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s: %.*s\n", (int)name.len, name.ptr,
            (int)value.len, value.ptr);
        CHECK(n < sizeof(out));
    }
    return out;
}

static bool
line_is(const char *method, const char *path, const char *host)
{
    const struct http_message *h = &world.e.head;

    return slice_eq(http_slice(h, h->method_off, h->method_len), slice_str(method)) &&
           slice_eq(http_slice(h, h->path_off, h->path_len), slice_str(path)) &&
           slice_eq(http_host(h), slice_str(host));
}

TEST(message_edit, a_copy_reads_as_what_it_was_made_of)
{
    world_open("GET /a HTTP/1.0\nX-A: 1\nCookie: c\nx-a: 2\n", FIELDS_MAX);
    CHECK_STR("X-A: 1\nCookie: c\nx-a: 2\n", fields());
    CHECK(line_is("GET", "/a", ""));
    CHECK_EQ(0, world.e.head.version_minor);
    CHECK(http_has(&world.e.head, HTTP_F_COOKIE) && !http_has(&world.e.head, HTTP_F_RANGE));
    world_close();
}

TEST(message_edit, set_leaves_one_field_where_the_first_was)
{
    world_open("GET /a HTTP/1.1\nX-A: 1\nCookie: c\nx-a: 2\nVia: v\ncookie: d\n", FIELDS_MAX);
    CHECK_EQ(0, set("x-A", "new"));
    CHECK_STR("X-A: new\nCookie: c\nVia: v\ncookie: d\n", fields());
    CHECK_EQ(0, set("Cookie", ""));
    CHECK_STR("X-A: new\nCookie: \nVia: v\n", fields());
    CHECK_EQ(0, set("X-B", "b"));
    CHECK_EQ(0, set("Range", "bytes=0-1"));
    CHECK_STR("X-A: new\nCookie: \nVia: v\nX-B: b\nRange: bytes=0-1\n", fields());
    CHECK(http_has(&world.e.head, HTTP_F_RANGE));
    CHECK(slice_eq(SLICE_LIT("bytes=0-1"), http_get_one(&world.e.head, HTTP_F_RANGE)));
    world_close();
}

TEST(message_edit, what_is_set_is_said_and_no_longer_dropped)
{
    world_open("GET /a HTTP/1.1\nX-A: 1\nX-B: 2\n", FIELDS_MAX);
    world.e.head.fields[0].drop = true;
    CHECK_EQ(0, set("X-A", "2"));
    CHECK_EQ(0, add("X-C", "3"));
    CHECK(!world.e.head.fields[0].drop && world.e.head.fields[0].said);
    CHECK(!world.e.head.fields[1].said && world.e.head.fields[2].said);
    world_close();
}

TEST(message_edit, add_appends_also_to_a_name_that_is_there)
{
    world_open("GET /a HTTP/1.1\nX-A: 1\n", FIELDS_MAX);
    CHECK_EQ(0, add("x-a", "2"));
    CHECK_EQ(0, add("ETag", "\"t\""));
    CHECK_EQ(0, add("ETag", "\"u\""));
    CHECK_STR("X-A: 1\nx-a: 2\nETag: \"t\"\nETag: \"u\"\n", fields());
    CHECK(http_get_one(&world.e.head, HTTP_F_ETAG).ptr == NULL); /* there are two */
    world_close();
}

TEST(message_edit, unset_takes_all_of_a_name_and_no_other)
{
    world_open("GET /a HTTP/1.1\nX-A: 1\nCookie: c\nx-a: 2\nX-AB: 3\ncookie: d\n", FIELDS_MAX);
    CHECK_EQ(2, unset("X-a"));
    CHECK_STR("Cookie: c\nX-AB: 3\ncookie: d\n", fields());
    CHECK_EQ(2, unset("COOKIE"));
    CHECK(!http_has(&world.e.head, HTTP_F_COOKIE));
    CHECK(http_find(&world.e.head, HTTP_F_COOKIE, NULL) == NULL);
    CHECK_EQ(0, unset("Cookie"));
    CHECK_EQ(0, unset("X-Never"));
    CHECK_STR("X-AB: 3\n", fields());
    CHECK_EQ(0, set("Cookie", "e"));
    CHECK_STR("X-AB: 3\nCookie: e\n", fields());
    world_close();
}

TEST(message_edit, the_authority_is_what_host_says)
{
    world_open("GET /a HTTP/1.1\nX-A: 1\n", FIELDS_MAX);
    CHECK_EQ(0, set("Host", "one.example"));
    CHECK(line_is("GET", "/a", "one.example"));
    CHECK_EQ(0, set("host", "two.example"));
    CHECK(line_is("GET", "/a", "two.example"));
    CHECK_EQ(1, unset("HOST"));
    CHECK(line_is("GET", "/a", ""));
    CHECK_EQ(0, add("Host", "three"));
    CHECK(line_is("GET", "/a", "three"));
    world_close();
}

TEST(message_edit, method_path_and_reason_are_replaced)
{
    world_open("GET /a HTTP/1.1\nHost: h\n", FIELDS_MAX);
    CHECK_EQ(0, message_edit_method(&world.e, SLICE_LIT("POST")));
    CHECK_EQ(HTTP_M_POST, world.e.head.method);
    CHECK_EQ(0, message_edit_method(&world.e, SLICE_LIT("BREW")));
    CHECK_EQ(HTTP_M_OTHER, world.e.head.method);
    CHECK_EQ(0, message_edit_path(&world.e, SLICE_LIT("/other?q=1")));
    CHECK(line_is("BREW", "/other?q=1", ""));
    world_close();
    arena_pool_init(&world.pool, 4, NULL);
    arena_init(&world.arena, &world.pool);
    CHECK_EQ(
        0, message_edit_response(&world.e, 404, SLICE_LIT("Not Found"), &world.arena, FIELDS_MAX));
    CHECK_EQ(404, world.e.head.status);
    CHECK_EQ(0, world.e.head.nfields);
    CHECK_EQ(0, message_edit_reason(&world.e, SLICE_LIT("Gone")));
    CHECK_EQ(0, set("X-A", "1"));
    CHECK(slice_eq(SLICE_LIT("Gone"),
        http_slice(&world.e.head, world.e.head.reason_off, world.e.head.reason_len)));
    CHECK_EQ(0, message_edit_reason(&world.e, SLICE_LIT("")));
    CHECK_EQ(0, world.e.head.reason_len);
    CHECK_STR("X-A: 1\n", fields());
    world_close();
}

/* A value may be read, and then be part of what is set, whatever buffers there were meanwhile. */
TEST(message_edit, what_was_read_stays_readable_through_every_growth)
{
    enum {
        READ_MAX = 40,
        LONG = 300
    };
    struct slice read[READ_MAX];
    char value[LONG + 1], name[16];
    unsigned bases = 0;
    const char *base;

    world_open("GET /a HTTP/1.1\nHost: h\nX-A: first\n", FIELDS_MAX);
    base = world.e.head.base;
    value[LONG] = '\0';
    for (unsigned i = 0; i < READ_MAX; i++) {
        memset(value, 'a' + (int)(i % 26), LONG);
        snprintf(name, sizeof(name), "X-%u", i % 7);
        CHECK_EQ(0, set(name, value));
        read[i] = http_value(&world.e.head, http_find_name(&world.e.head, slice_str(name), NULL));
        bases += world.e.head.base != base;
        base = world.e.head.base;
    }
    CHECK(bases >= 3);
    for (unsigned i = 0; i < READ_MAX; i++) {
        memset(value, 'a' + (int)(i % 26), LONG);
        CHECK(slice_eq(slice_of(value, LONG), read[i]));
    }
    CHECK(line_is("GET", "/a", ""));
    CHECK_EQ(
        0, message_edit_set(&world.e, named("X-A"), HTTP_F_OTHER, read[0])); /* one of its own */
    CHECK(slice_eq(
        read[0], http_value(&world.e.head, http_find_name(&world.e.head, named("x-a"), NULL))));
    CHECK_EQ(9, world.e.head.nfields);
    world_close();
}

/* What a policy sets again and again costs room once: only what is in use is taken along. */
TEST(message_edit, replacing_a_value_for_ever_never_fills_the_head)
{
    char value[2001];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    world_open("GET /a HTTP/1.1\nX-A: first\n", FIELDS_MAX);
    for (unsigned i = 0; i < 200; i++)
        CHECK_EQ(0, set("X-A", value));
    CHECK_EQ(1, world.e.head.nfields);
    CHECK(world.e.room <= LIMIT_HEAD_BYTES);
    world_close();
}

TEST(message_edit, more_bytes_than_a_head_can_have_change_nothing)
{
    static char value[LIMIT_HEAD_BYTES + 2];
    static const char before[] = "X-A: 1\nX-B: 2\nx-a: 3\n";

    world_open("GET /a HTTP/1.1\nX-A: 1\nX-B: 2\nx-a: 3\n", FIELDS_MAX);
    memset(value, 'v', sizeof(value) - 1);
    for (size_t cut = 0; cut < 2; cut++) { /* longer than any, and as long as all alone may be */
        value[LIMIT_HEAD_BYTES + 1 - cut] = '\0';
        CHECK_EQ(TERR_HEADTOOBIG, set("X-A", value));
        CHECK_EQ(TERR_HEADTOOBIG, set("X-New", value));
        CHECK_EQ(TERR_HEADTOOBIG, set("Cookie", value));
        CHECK_EQ(TERR_HEADTOOBIG, add("X-A", value));
        CHECK_EQ(TERR_HEADTOOBIG, add(value, "1"));
        CHECK_EQ(TERR_HEADTOOBIG, message_edit_path(&world.e, slice_str(value)));
        CHECK_EQ(TERR_HEADTOOBIG, message_edit_method(&world.e, slice_str(value)));
        CHECK_EQ(TERR_HEADTOOBIG, message_edit_reason(&world.e, slice_str(value)));
        CHECK_STR(before, fields());
        CHECK(line_is("GET", "/a", ""));
        CHECK_EQ(HTTP_M_GET, world.e.head.method);
        CHECK(!http_has(&world.e.head, HTTP_F_COOKIE));
    }
    value[60000] = '\0'; /* most of it: once, and not twice */
    CHECK_EQ(0, add("X-C", value));
    CHECK_EQ(TERR_HEADTOOBIG, add("X-D", value));
    CHECK_EQ(4, world.e.head.nfields);
    CHECK_EQ(0, add("X-D", "4"));
    CHECK_EQ(1, unset("X-C"));
    CHECK_EQ(0, add("X-E", value)); /* it has gone: there is room again */
    CHECK_EQ(5, world.e.head.nfields);
    world_close();
}

TEST(message_edit, more_fields_than_allowed_change_nothing)
{
    world_open("GET /a HTTP/1.1\nX-A: 1\nX-B: 2\n", 20);
    for (unsigned i = 2; i < 20; i++)
        CHECK_EQ(0, add("X-C", "c"));
    CHECK_EQ(20, world.e.head.nfields);
    CHECK_EQ(TERR_HEADTOOBIG, add("X-C", "d"));
    CHECK_EQ(TERR_HEADTOOBIG, set("X-D", "d"));
    CHECK_EQ(TERR_HEADTOOBIG, set("Cookie", "d"));
    CHECK(!http_has(&world.e.head, HTTP_F_COOKIE));
    CHECK_EQ(20, world.e.head.nfields);
    CHECK_EQ(0, set("X-C", "one")); /* which leaves three */
    CHECK_STR("X-A: 1\nX-B: 2\nX-C: one\n", fields());
    CHECK_EQ(0, set("X-D", "d"));
    world_close();
    world_open("GET /a HTTP/1.1\nX-A: 1\nX-B: 2\n", 1); /* it has more already: they may stay */
    CHECK_EQ(TERR_HEADTOOBIG, add("X-C", "c"));
    CHECK_EQ(1, unset("X-A"));
    CHECK_EQ(0, add("X-C", "c"));
    world_close();
}

/* Offsets have 16 bits: in a head that is nearly as long what is added is refused or reads back. */
TEST(message_edit, what_is_added_behind_a_long_head_reads_back)
{
    static char text[LIMIT_HEAD_BYTES + 1], value[100];

    for (size_t len = LIMIT_HEAD_BYTES - 600; len <= LIMIT_HEAD_BYTES; len += 7) {
        static const char before[] = "GET /a HTTP/1.1\nX-A: ";
        unsigned taken = 0;

        memset(text, 'a', len);
        memcpy(text, before, sizeof(before) - 1);
        text[len - 1] = '\n';
        text[len] = '\0';
        world_open(text, 20);
        for (unsigned i = 0; i < 7; i++) {
            const struct http_message *h = &world.e.head;
            const struct http_field *f;
            int err;

            memset(value, 'a' + (int)i, sizeof(value) - 1);
            err = add("X-B", value);
            CHECK(err == 0 || err == TERR_HEADTOOBIG);
            if (err != 0)
                continue;
            f = &h->fields[h->nfields - 1];
            CHECK(slice_eq(SLICE_LIT("X-B"), http_name(h, f)));
            CHECK(slice_eq(slice_str(value), http_value(h, f)));
            CHECK_EQ(world.e.used, h->len);
            taken++;
        }
        CHECK(taken < 7);
        world_close();
    }
}

TEST_MAIN(TEST_ENTRY(message_edit, what_is_added_behind_a_long_head_reads_back),
    TEST_ENTRY(message_edit, a_copy_reads_as_what_it_was_made_of),
    TEST_ENTRY(message_edit, set_leaves_one_field_where_the_first_was),
    TEST_ENTRY(message_edit, what_is_set_is_said_and_no_longer_dropped),
    TEST_ENTRY(message_edit, add_appends_also_to_a_name_that_is_there),
    TEST_ENTRY(message_edit, unset_takes_all_of_a_name_and_no_other),
    TEST_ENTRY(message_edit, the_authority_is_what_host_says),
    TEST_ENTRY(message_edit, method_path_and_reason_are_replaced),
    TEST_ENTRY(message_edit, what_was_read_stays_readable_through_every_growth),
    TEST_ENTRY(message_edit, replacing_a_value_for_ever_never_fills_the_head),
    TEST_ENTRY(message_edit, more_bytes_than_a_head_can_have_change_nothing),
    TEST_ENTRY(message_edit, more_fields_than_allowed_change_nothing))
