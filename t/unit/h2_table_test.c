/* h2_table_test.c -- the client's dynamic table while its connection is idle, and after that. */
#include "t/unit/h2_client_fixture.h"

static struct bytes b; /* what is said next */

static struct h2_conn *
conn(void)
{
    return container_of(h2_server_of(world.server)->conns.next, struct h2_conn, link);
}

static void
asks(uint32_t id, const char *block, size_t len)
{
    put_frame(&b, H2_HEADERS, H2_END_STREAM | H2_END_HEADERS, id, block, len);
    says(&b);
}

#define ASKS(id, block) asks(id, block, sizeof(block) - 1)

static void
answer_now(unsigned n)
{
    answers(&world.answers[n], 3);
    wake(&world.answers[n]);
    hears();
}

/* The value of the newest request's field, or "none". */
static const char *
field(const char *name)
{
    const struct http_message *m = &world.answers[world.nanswers - 1].x->head;
    static char text[4096];

    for (unsigned i = 0; i < m->nfields; i++) {
        struct slice value = http_value(m, &m->fields[i]);

        if (!slice_eq(http_name(m, &m->fields[i]), slice_str(name)))
            continue;
        snprintf(text, sizeof(text), "%.*s", (int)value.len, value.ptr);
        return text;
    }
    return "none";
}

/* GET http, and :path /x, :authority a, k: value, which the client's table has from now on. */
#define FIRST                    \
    "\x82\x86\x44\x02/x\x41\x01" \
    "a\x40\x01k\x05value"
/* GET http, and the three by their places in the table. */
#define AGAIN "\x82\x86\xc0\xbf\xbe"

TEST(h2_table, of_an_idle_connection_is_packed_and_knows_as_much_afterwards)
{
    world_open();
    /* Each time another block, so that the memo does not know it. */
    ASKS(1, FIRST);
    CHECK_STR("value", field("k"));
    answer_now(0);
    CHECK(conn()->inflater != NULL);
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    CHECK(conn()->is_packed);
    ASKS(3, AGAIN);
    CHECK_EQ(2, world.nanswers);
    CHECK(conn()->inflater != NULL && !conn()->is_packed);
    CHECK_STR("value", field("k"));
    answer_now(1);
    /* And once more, in its place what came meanwhile. */
    ASKS(5, AGAIN "\x40\x01l\x01m");
    CHECK_STR("m", field("l"));
    answer_now(2);
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    CHECK(conn()->is_packed);
    ASKS(7, "\x82\x86\xc1\xc0\xbf\xbe");
    CHECK_STR("value", field("k"));
    CHECK_STR("m", field("l"));
    answer_now(3);
    world_close();
}

/* RFC 7541 4.2, 4.3: entries that the smaller table has no room for are gone, and stay so. */
TEST(h2_table, that_the_client_made_smaller_is_as_small_afterwards)
{
    world_open();
    ASKS(1, "\x3f\x21" FIRST); /* 64 bytes: k alone, 38 of them */
    answer_now(0);
    CHECK_EQ(1, nghttp2_hd_inflate_get_num_table_entries(conn()->inflater) - 61);
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    CHECK(conn()->is_packed);
    ASKS(3, "\x82\x86\x44\x02/y\x01\x01"
            "a\x40\x01n\x02op");
    CHECK_EQ(2, world.nanswers);
    CHECK_EQ(64, nghttp2_hd_inflate_get_max_dynamic_table_size(conn()->inflater));
    CHECK_EQ(1, nghttp2_hd_inflate_get_num_table_entries(conn()->inflater) - 61);
    CHECK_STR("op", field("n"));
    answer_now(1);
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    ASKS(5, "\x82\x86\x04\x01/\x01\x01"
            "a\xbe");
    CHECK_STR("op", field("n"));
    answer_now(2);
    world_close();
}

/* A full table; the lengths of its strings need more than one octet. */
TEST(h2_table, that_is_full_is_packed_whole)
{
    char block[2000];
    struct h2_conn *c;

    world_open();
    memcpy(block,
        "\x82\x86\x44\x02/x\x41\x01"
        "a\x40\x01k\x7f\x01",
        14);
    memset(block + 14, 'v', 128);
    for (unsigned i = 0; i < 30; i++) {
        block[6 - 1] = (char)('a' + i % 26); /* another path each time: all goes into the table */
        asks(2 * i + 1, block, 14 + 128);
        answer_now(i);
    }
    c = conn();
    CHECK(nghttp2_hd_inflate_get_dynamic_table_size(c->inflater) > H2_TABLE_BYTES - 200);
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    CHECK(c->is_packed);
    CHECK(c->packed->len > 1000 && c->packed->len < H2_TABLE_BYTES);
    ASKS(99, "\x82\x86\xc0\xbf\xbe");
    CHECK_EQ(128, strlen(field("k")));
    answer_now(30);
    world_close();
}

TEST(h2_table, of_a_connection_that_never_asked_is_none)
{
    world_open();
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    CHECK(conn()->inflater == NULL && !conn()->is_packed);
    ASKS(1, "\x82\x86\x04\x01/\x01\x01"
            "a");
    answer_now(0);
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    CHECK(conn()->inflater == NULL && !conn()->is_packed);
    world_close();
}

TEST_MAIN(TEST_ENTRY(h2_table, of_an_idle_connection_is_packed_and_knows_as_much_afterwards),
    TEST_ENTRY(h2_table, that_the_client_made_smaller_is_as_small_afterwards),
    TEST_ENTRY(h2_table, that_is_full_is_packed_whole),
    TEST_ENTRY(h2_table, of_a_connection_that_never_asked_is_none))
