/* fleet_id_test.c -- places in the engine's stream, and what a node reports of itself. */
#include "daemon/fleet/fleet_priv.h"
#include "t/unit/test.h"

TEST(ids, are_read_and_written)
{
    static const struct {
        const char *text;
        uint64_t ms, seq;
    } good[] = {{"0-0", 0, 0}, {"1795878041345-0", 1795878041345, 0},
        {"1-18446744073709551615", 1, UINT64_MAX}, {"18446744073709551615-7", UINT64_MAX, 7}};
    static const char *const bad[] = {"", "-", "1", "1-", "-1", "1-2-3", "a-1", "1-a", " 1-1",
        "1-1 ", "18446744073709551616-0", "1-99999999999999999999999", "+1-1"};
    char text[FLEET_ID_TEXT_MAX];

    for (unsigned i = 0; i < ARRAY_LEN(good); i++) {
        struct fleet_id id = {9, 9};

        CHECK(fleet_id_parse(slice_str(good[i].text), &id));
        CHECK_EQ(good[i].ms, id.ms);
        CHECK_EQ(good[i].seq, id.seq);
        CHECK_STR(good[i].text, fleet_id_text(id, text).ptr);
    }
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        struct fleet_id id = {9, 9};

        CHECK(!fleet_id_parse(slice_str(bad[i]), &id));
        CHECK_EQ(9, id.ms); /* as it was */
    }
}

TEST(tokens, are_read_and_written)
{
    static const char *const good[] = {"1-0.00000000", "1795878041345-3.5f3a9c21",
        "18446744073709551615-18446744073709551615.ffffffff"};
    static const char *const bad[] = {"", ".", "1-1", "1-1.", "1-1.5f3a9c2", "1-1.5f3a9c211",
        "1-1.5f3a9c2g", "0-0.5f3a9c21", "1.5f3a9c21", ".5f3a9c21", "1-1.5f3a.9c21", "1-1 .5f3a9c21",
        "1-1..5f3a9c2"};
    struct fleet_token token = {{9, 9}, 9};
    char text[FLEET_TOKEN_TEXT_MAX];

    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(!fleet_token_parse(slice_str(bad[i]), &token));
        CHECK_EQ(9, token.id.ms); /* as it was */
        CHECK_EQ(9, token.engine);
    }
    for (unsigned i = 0; i < ARRAY_LEN(good); i++) {
        CHECK(fleet_token_parse(slice_str(good[i]), &token));
        CHECK_STR(good[i], fleet_token_text(token, text).ptr);
    }
    CHECK(fleet_token_parse(SLICE_LIT("7-8.5f3a9c21"), &token));
    CHECK_EQ(7, token.id.ms);
    CHECK_EQ(8, token.id.seq);
    CHECK_EQ(0x5f3a9c21, token.engine);
}

TEST(ids, have_an_order)
{
    const struct fleet_id order[] = {
        {0, 0}, {0, 1}, {1, 0}, {1, UINT64_MAX}, {2, 0}, {UINT64_MAX, 0}};

    for (int i = 0; i < (int)ARRAY_LEN(order); i++)
        for (int j = 0; j < (int)ARRAY_LEN(order); j++) {
            int said = fleet_id_compare(order[i], order[j]);

            CHECK_EQ(i < j, said < 0);
            CHECK_EQ(i == j, said == 0);
        }
    CHECK(fleet_id_is_none(order[0]));
    CHECK(!fleet_id_is_none(order[1]));
}

TEST(values, are_read_whole_or_not_at_all)
{
    static const char *const bad[] = {"", "a", "a b", "a b ", "a b 1", "a b 1-1", "a b 1-1 c",
        "a b 1-1 ", "a b 1-1 99999999999999999999", "a b 1 1", " 1-1", "a b 1-1 2", "a b 1-1 2 ",
        "a b 1-1 2 x", "a b 1-1 2 7200001"};
    struct fleet_value v;

    CHECK(fleet_value_parse(SLICE_LIT("00ff run:repl 17-3 18446744073709551615 7200000"), &v));
    CHECK(slice_eq(v.epoch, SLICE_LIT("00ff")));
    CHECK(slice_eq(v.incarnation, SLICE_LIT("run:repl")));
    CHECK_EQ(17, v.position.ms);
    CHECK_EQ(3, v.position.seq);
    CHECK(v.number == UINT64_MAX);
    CHECK_EQ(7200000, v.guard_ms);
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!fleet_value_parse(slice_str(bad[i]), &v));
}

static void
state_of(char text[300], const char *words)
{
    memset(text, ' ', 300);
    memcpy(text, words, strlen(words));
    text[255] = '\n';
}

TEST(state, a_line_of_another_node_or_that_is_torn_says_nothing)
{
    static const char *const bad[] = {"", "tarn-fleet", "tarn-fleet 2 shop a 0123456789abcdef 1-2",
        "tarn-fleet 1 shop b 0123456789abcdef 1-2", "tarn-fleet 1 other a 0123456789abcdef 1-2",
        "tarn-fleet 1 shop a 0123 1-2", "tarn-fleet 1 shop a 0123456789abcdef",
        "tarn-fleet 1 shop a 0123456789abcdef 1"};
    const struct conf_fleet conf = {.name = "shop", .node = "a"};
    struct fleet_state_line line = {.epoch = "as it was"};
    char text[300];

    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        state_of(text, bad[i]);
        CHECK(!fleet_state_parse(slice_of(text, 256), &conf, &line));
    }
    state_of(text, "tarn-fleet 1 shop a 0123456789abcdef 17-3");
    CHECK(!fleet_state_parse(slice_of(text, 255), &conf, &line)); /* its end is missing */
    CHECK_STR("as it was", line.epoch);
    CHECK(fleet_state_parse(slice_of(text, 256), &conf, &line));
    CHECK_STR("0123456789abcdef", line.epoch);
    CHECK_EQ(17, line.position.ms);
    CHECK_EQ(3, line.position.seq);
}

TEST_MAIN(TEST_ENTRY(ids, are_read_and_written), TEST_ENTRY(tokens, are_read_and_written),
    TEST_ENTRY(ids, have_an_order), TEST_ENTRY(values, are_read_whole_or_not_at_all),
    TEST_ENTRY(state, a_line_of_another_node_or_that_is_torn_says_nothing))
