/* lease_borrow_test.c -- bodies that are read without a lease. */
#include "t/unit/storage_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

TEST(lease_borrow, a_settled_body_in_one_run_is_borrowed_without_a_lease)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    static const uint64_t sizes[] = {1, 1000, 16 * KIB, 64 * KIB, MIB};
    struct slice run;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t n = sizes[i];
        struct stobj *o = body_kept(s, n, n);

        CHECK(lease_borrow(o, 0, n, &run));
        CHECK_EQ(n, run.len);
        CHECK(body_is(run.ptr, 0, n));
        CHECK(lease_borrow(o, n / 2, n - n / 2, &run));
        CHECK_EQ(n - n / 2, run.len);
        CHECK(body_is(run.ptr, n / 2, run.len));
        CHECK(!lease_borrow(o, 0, n + 1, &run));
        CHECK(!lease_borrow(o, n, 1, &run));
        CHECK(!lease_borrow(o, n + 1, UINT64_MAX, &run));
        stobj_unref(&o);
    }
    store_close(s);
}

TEST(lease_borrow, what_is_being_filled_or_lies_in_several_runs_has_to_be_leased)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct storage *faulty = store_open("fault", 64 * MIB, "");
    struct stobj *o = body_kept(s, STOBJ_SIZE_UNKNOWN, 100000); /* 16 + 32 + 64 KiB */
    struct slice run;

    CHECK(!lease_borrow(o, 0, 100000, &run));
    CHECK(!lease_borrow(o, 0, 1, &run));
    stobj_unref(&o);
    CHECK_EQ(0, stobj_new(&o, s, STOBJ_KEPT, 1000, 0));
    CHECK_EQ(0, body_fill(o, 1000, NULL));
    CHECK(!lease_borrow(o, 0, 1000, &run)); /* trimming may move it */
    space_fail(o, -EIO);
    CHECK(!lease_borrow(o, 0, 1000, &run));
    stobj_unref(&o);
    o = body_kept(faulty, 1000, 1000);
    CHECK(!lease_borrow(o, 0, 1000, &run)); /* its faults are in its leases */
    stobj_unref(&o);
    store_close(s);
    store_close(faulty);
}

TEST(lease_borrow, a_synth_of_one_part_is_borrowed)
{
    struct storage *s = store_open("synth", MIB, NULL);
    struct stobj *o;
    struct slice run;

    CHECK_EQ(0, stobj_synth_new(&o, s));
    CHECK(!lease_borrow(o, 0, 1, &run)); /* there is nothing */
    CHECK_EQ(0, stobj_synth_add(o, SLICE_LIT("forty-two")));
    CHECK(lease_borrow(o, 6, 3, &run));
    CHECK(slice_eq(run, SLICE_LIT("two")));
    CHECK(!lease_borrow(o, 6, 4, &run));
    CHECK_EQ(0, stobj_synth_add(o, SLICE_LIT("!")));
    CHECK(!lease_borrow(o, 0, 9, &run)); /* two runs */
    stobj_unref(&o);
    store_close(s);
}

TEST_MAIN(TEST_ENTRY(lease_borrow, a_synth_of_one_part_is_borrowed),
    TEST_ENTRY(lease_borrow, a_settled_body_in_one_run_is_borrowed_without_a_lease),
    TEST_ENTRY(lease_borrow, what_is_being_filled_or_lies_in_several_runs_has_to_be_leased))
