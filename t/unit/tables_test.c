/* tables_test.c -- a worker's readers: once inside a turn, out when it ends; what is told of tables. */
#include "daemon/base/loop.h"
#include "daemon/shm/counters.h"
#include "daemon/table/tables.h"
#include "t/unit/table_fixture.h"

static struct table_fixture f;
static struct tables *tables;
static struct tables_share *share;
static struct counters *counters;
static struct loop loop;

static void
world_open(enum table_kind kind)
{
    struct tables_conf row = {.name = "t", .kind = kind, .trust = TABLE_CHECKED};

    fixture_open(&f);
    row.path = f.path;
    memset(&loop, 0, sizeof(loop));
    CHECK_EQ(0, counters_open(&counters, NULL, 1));
    CHECK_EQ(0, tables_open(&tables, &row, 1, 1));
    CHECK_EQ(0, tables_join(&share, tables, 0, &loop, counters_worker(counters, 0)));
}

static void
world_close(void)
{
    tables_leave(&share);
    CHECK(loop.turn_end == NULL);
    tables_close(&tables);
    counters_close(&counters);
    fixture_close(&f);
}

/* As net/netloop.c does it. */
static void
turn_ends(void)
{
    struct turn_end *end = loop.turn_end;

    loop.turn_end = NULL;
    if (end != NULL)
        end->run(end);
}

static const char *
find(const char *table, const char *key)
{
    static const char *const words[] = {"found", "absent", "none", "unknown"};
    static char out[64];
    enum table_kind kind;
    struct slice value;
    enum tables_answer a = tables_find(share, slice_str(table), slice_str(key), &value, &kind);

    snprintf(out, sizeof(out), "%s", words[a]);
    if (a == TABLES_FOUND)
        snprintf(out, sizeof(out), "%.*s", (int)value.len, value.ptr);
    return out;
}

static unsigned
readers_inside(void)
{
    int fd = open(fixture_file(&f, ".state"), O_RDONLY);
    struct table_state s;

    CHECK_EQ(sizeof(s), read(fd, (void *)&s, sizeof(s)));
    close(fd);
    return (unsigned)((uint32_t)s.readers[0].word + (uint32_t)s.readers[1].word);
}

TEST(tables, a_worker_counts_itself_in_once_a_turn)
{
    world_open(TABLE_MAP);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    tables_tick(share);
    CHECK(loop.turn_end == NULL);
    CHECK_STR("one", find("t", "k"));
    CHECK_EQ(1, readers_inside());
    CHECK(loop.turn_end != NULL);
    CHECK_STR("absent", find("t", "l"));
    CHECK_EQ(1, readers_inside());
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two"));
    CHECK_STR("one", find("t", "k")); /* the same turn: the same version */
    turn_ends();
    CHECK_EQ(0, readers_inside());
    CHECK_STR("two", find("t", "k"));
    CHECK_STR("unknown", find("u", "k"));
    turn_ends();
    turn_ends();
    tables_tick(share);
    CHECK_EQ(4, counters_sum(counters, COUNTER_table_lookups));
    CHECK_EQ(2, counters_sum(counters, COUNTER_table_taken));
    world_close();
}

TEST(tables, a_table_that_is_not_there_has_nothing_and_is_found_when_it_comes)
{
    struct tables_seen seen;

    world_open(TABLE_MAP);
    CHECK_STR("none", find("t", "k"));
    CHECK_EQ(1, counters_sum(counters, COUNTER_table_unanswered));
    tables_seen(tables, 0, &seen);
    CHECK_EQ(TABLE_MISSING, seen.status);
    CHECK(!seen.used);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    CHECK_STR("none", find("t", "k")); /* until the second is over */
    tables_tick(share);
    CHECK_STR("one", find("t", "k"));
    tables_watch(tables);
    tables_seen(tables, 0, &seen);
    CHECK_EQ(TABLE_OK, seen.status);
    CHECK_EQ(1, seen.entries);
    CHECK_EQ(3, seen.lookups);
    world_close();
}

TEST(tables, a_refused_version_is_counted_and_the_last_good_one_stays)
{
    struct tables_seen seen;

    world_open(TABLE_MAP);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    tables_tick(share);
    tables_watch(tables);
    CHECK_STR("one", find("t", "k"));
    turn_ends();
    CHECK_EQ(0, fixture_write(&f, TABLE_SET, "k"));
    tables_watch(tables);
    CHECK_STR("one", find("t", "k"));
    for (unsigned i = 0; i < 3; i++) {
        tables_tick(share);
        CHECK_STR("one", find("t", "k"));
    }
    CHECK_EQ(1, counters_sum(counters, COUNTER_table_refused));
    tables_seen(tables, 0, &seen);
    CHECK_EQ(TABLE_REFUSED, seen.status);
    CHECK(seen.used && seen.kept);
    CHECK_EQ(1, seen.generation);
    world_close();
}

TEST(tables, a_turn_longer_than_the_writer_waits_is_counted)
{
    world_open(TABLE_ANY);
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k one"));
    tables_tick(share);
    CHECK_STR("one", find("t", "k"));
    CHECK_EQ(0, fixture_write(&f, TABLE_MAP, "k two"));
    CHECK_EQ(1, fixture_write(&f, TABLE_MAP, "k three"));
    turn_ends();
    CHECK_EQ(1, counters_sum(counters, COUNTER_table_overtaken));
    CHECK_STR("three", find("t", "k"));
    world_close();
}

TEST_MAIN(TEST_ENTRY(tables, a_worker_counts_itself_in_once_a_turn),
    TEST_ENTRY(tables, a_table_that_is_not_there_has_nothing_and_is_found_when_it_comes),
    TEST_ENTRY(tables, a_refused_version_is_counted_and_the_last_good_one_stays),
    TEST_ENTRY(tables, a_turn_longer_than_the_writer_waits_is_counted))
