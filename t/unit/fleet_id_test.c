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
    static const char *const bad[] = {"", "a", "a b", "a b ", "a b 1", "a b 1-1 c", " 1-1"};
    struct slice epoch, incarnation;
    struct fleet_id id = {9, 9};

    CHECK(fleet_value_parse(SLICE_LIT("00ff run:repl 17-3"), &epoch, &incarnation, &id));
    CHECK(slice_eq(epoch, SLICE_LIT("00ff")));
    CHECK(slice_eq(incarnation, SLICE_LIT("run:repl")));
    CHECK_EQ(17, id.ms);
    CHECK_EQ(3, id.seq);
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!fleet_value_parse(slice_str(bad[i]), &epoch, &incarnation, &id));
}

TEST_MAIN(TEST_ENTRY(ids, are_read_and_written), TEST_ENTRY(ids, have_an_order),
    TEST_ENTRY(values, are_read_whole_or_not_at_all))
