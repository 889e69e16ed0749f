/* acme_time_test.c -- when a certificate is renewed, and when a failure is tried again. */
#include "t/unit/test.h"

#include <string.h>

#include "daemon/acme/acme_time.h"
#include "daemon/base/terr.h"

#define NOW INT64_C(1767225600) /* Thu, 01 Jan 2026 00:00:00 GMT */
#define DAY INT64_C(86400)
#define TOP UINT32_MAX

static int64_t
stamped(const char *text)
{
    int64_t s = -77;

    return acme_stamp_read(slice_str(text), &s) == 0 ? s : -77;
}

TEST(stamp, rfc_3339_with_every_offset)
{
    char text[ACME_STAMP_SIZE];

    CHECK_EQ(NOW, stamped("2026-01-01T00:00:00Z"));
    CHECK_EQ(NOW, stamped("2026-01-01t00:00:00z"));
    CHECK_EQ(NOW, stamped("2026-01-01T00:00:00.999999Z"));
    CHECK_EQ(NOW, stamped("2026-01-01T01:30:00+01:30"));
    CHECK_EQ(NOW, stamped("2025-12-31T16:00:00-08:00"));
    CHECK_EQ(951782400, stamped("2000-02-29T00:00:00Z"));
    CHECK_EQ(NOW, stamped("2025-12-31T23:59:60Z")); /* a leap second */
    acme_stamp(text, NOW);
    CHECK_STR("2026-01-01T00:00:00Z", text);
    acme_stamp(text, INT64_MAX);
    CHECK_STR("never", text);
}

TEST(stamp, what_is_no_time_is_refused)
{
    static const char *const wrong[] = {"", "2026", "2026-01-01", "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z",
        "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00", "2026-01-01T00:00:00Z ", "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+1:00", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+0100",
        "-026-01-01T00:00:00Z", "2026-1-1T0:0:0Z"};

    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK_EQ(-77, stamped(wrong[i]));
    CHECK_EQ(-77, stamped("2026-01-01T00:00:00Zx"));
}

TEST(retry_after, seconds_and_dates_within_bounds)
{
    CHECK_EQ(120, acme_retry_after(slice_str("120"), NOW));
    CHECK_EQ(120, acme_retry_after(slice_str(" 120 \r\n"), NOW));
    CHECK_EQ(0, acme_retry_after(slice_str("0"), NOW));
    CHECK_EQ(3600, acme_retry_after(slice_str("Thu, 01 Jan 2026 01:00:00 GMT"), NOW));
    CHECK_EQ(0, acme_retry_after(slice_str("Wed, 31 Dec 2025 01:00:00 GMT"), NOW));
    CHECK_EQ(ACME_RETRY_MOST_S, acme_retry_after(slice_str("99999999999999999999999"), NOW));
    CHECK_EQ(ACME_RETRY_MOST_S, acme_retry_after(slice_str("Fri, 01 Jan 2027 00:00:00 GMT"), NOW));
    CHECK_EQ(-1, acme_retry_after(slice_str(""), NOW));
    CHECK_EQ(-1, acme_retry_after(slice_str("-5"), NOW));
    CHECK_EQ(-1, acme_retry_after(slice_str("1.5"), NOW));
    CHECK_EQ(-1, acme_retry_after(slice_str("soon"), NOW));
}

TEST(renewal, a_third_of_the_life_before_its_end)
{
    struct acme_life ninety = {.not_before_s = NOW, .not_after_s = NOW + 90 * DAY};
    struct acme_life six = {.not_before_s = NOW, .not_after_s = NOW + 6 * DAY};

    CHECK_EQ(NOW + 60 * DAY, acme_renew_at(&ninety));
    CHECK_EQ(NOW + 4 * DAY, acme_renew_at(&six));
    ninety.not_after_s = NOW - DAY; /* a certificate that ends before it begins is due */
    CHECK_EQ(NOW - DAY, acme_renew_at(&ninety));
}

TEST(renewal, the_operators_days_make_it_earlier_and_never_later)
{
    struct acme_life life = {.not_before_s = NOW, .not_after_s = NOW + 90 * DAY};

    life.renew_before_days = 45;
    CHECK_EQ(NOW + 45 * DAY, acme_renew_at(&life));
    life.renew_before_days = 10;
    CHECK_EQ(NOW + 60 * DAY, acme_renew_at(&life));
    life.renew_before_days = 400; /* always due */
    CHECK_EQ(NOW - 310 * DAY, acme_renew_at(&life));
}

TEST(renewal, the_ca_chooses_earlier_or_later_but_not_the_end_of_the_life)
{
    struct acme_life life = {.not_before_s = NOW,
        .not_after_s = NOW + 90 * DAY,
        .suggested = true,
        .start_s = NOW + 2 * DAY,
        .end_s = NOW + 3 * DAY,
        .chosen_s = NOW + 2 * DAY + 7};

    CHECK_EQ(NOW + 2 * DAY + 7, acme_renew_at(&life));
    life.chosen_s = NOW + 70 * DAY;
    CHECK_EQ(NOW + 70 * DAY, acme_renew_at(&life));
    life.chosen_s = NOW + 89 * DAY;
    CHECK_EQ(NOW + 81 * DAY, acme_renew_at(&life));
    life.chosen_s = 0; /* none was chosen */
    CHECK_EQ(NOW + 60 * DAY, acme_renew_at(&life));
    life.chosen_s = NOW + 70 * DAY;
    life.renew_before_days = 30;
    CHECK_EQ(NOW + 60 * DAY, acme_renew_at(&life));
}

TEST(renewal, a_moment_of_the_window_is_chosen_evenly)
{
    CHECK_EQ(NOW, acme_choose(NOW, NOW + DAY, 0));
    CHECK_EQ(NOW + DAY / 2, acme_choose(NOW, NOW + DAY, UINT32_C(1) << 31));
    CHECK_EQ(NOW + DAY - 1, acme_choose(NOW, NOW + DAY, TOP));
    CHECK_EQ(NOW, acme_choose(NOW, NOW + 1, TOP));
}

TEST(backoff, doubles_from_ten_minutes_to_a_day_with_a_quarter_of_jitter)
{
    static const int64_t middle[] = {
        600, 1200, 2400, 4800, 9600, 19200, 38400, 76800, 86400, 86400};

    for (unsigned i = 0; i < sizeof(middle) / sizeof(middle[0]); i++) {
        CHECK_EQ(middle[i] * 3 / 4, acme_backoff(i + 1, -1, 0));
        CHECK_EQ(middle[i], acme_backoff(i + 1, -1, UINT32_C(1) << 31));
        CHECK(acme_backoff(i + 1, -1, TOP) < middle[i] * 5 / 4);
    }
    CHECK_EQ(86400, acme_backoff(UINT32_MAX, -1, UINT32_C(1) << 31));
    CHECK_EQ(600, acme_backoff(0, -1, UINT32_C(1) << 31));
}

TEST(backoff, is_never_shorter_than_retry_after)
{
    CHECK_EQ(7200, acme_backoff(1, 7200, 0));
    CHECK(acme_backoff(1, 7200, TOP) < 7260);
    CHECK_EQ(450, acme_backoff(1, 5, 0));
    CHECK_EQ(7 * DAY, acme_backoff(3, 7 * DAY, 0));
}

TEST(backoff, renewal_information_is_requested_within_a_minute_and_a_day)
{
    CHECK_EQ(ACME_ARI_ELSE_S, acme_ari_pause(-1));
    CHECK_EQ(60, acme_ari_pause(0));
    CHECK_EQ(21600, acme_ari_pause(21600));
    CHECK_EQ(DAY, acme_ari_pause(30 * DAY));
}

TEST(backoff, a_wait_of_a_clock_that_was_ahead_is_none)
{
    CHECK(acme_is_ahead(NOW + 1, NOW, 60));
    CHECK(acme_is_ahead(NOW + 60, NOW, 60));
    CHECK(!acme_is_ahead(NOW + 61, NOW, 60));
    CHECK(!acme_is_ahead(NOW, NOW, 60));
    CHECK(!acme_is_ahead(0, NOW, 60));
    CHECK(!acme_is_ahead(INT64_MAX, NOW, ACME_WAIT_MOST_S));
    CHECK(!acme_is_ahead(INT64_MIN, NOW, ACME_WAIT_MOST_S));
    CHECK(acme_backoff(1, ACME_RETRY_MOST_S, TOP) <= ACME_WAIT_MOST_S);
}

TEST(span, is_said_in_two_units)
{
    char text[32];

    acme_span_text(text, 3 * DAY + 4 * 3600 + 59);
    CHECK_STR("3d 4h", text);
    acme_span_text(text, -(2 * 3600 + 10 * 60));
    CHECK_STR("2h 10m", text);
    acme_span_text(text, 61);
    CHECK_STR("1m 1s", text);
    acme_span_text(text, INT64_MIN);
    CHECK(strlen(text) > 3);
}

TEST_MAIN(TEST_ENTRY(stamp, rfc_3339_with_every_offset),
    TEST_ENTRY(stamp, what_is_no_time_is_refused),
    TEST_ENTRY(retry_after, seconds_and_dates_within_bounds),
    TEST_ENTRY(renewal, a_third_of_the_life_before_its_end),
    TEST_ENTRY(renewal, the_operators_days_make_it_earlier_and_never_later),
    TEST_ENTRY(renewal, the_ca_chooses_earlier_or_later_but_not_the_end_of_the_life),
    TEST_ENTRY(renewal, a_moment_of_the_window_is_chosen_evenly),
    TEST_ENTRY(backoff, doubles_from_ten_minutes_to_a_day_with_a_quarter_of_jitter),
    TEST_ENTRY(backoff, is_never_shorter_than_retry_after),
    TEST_ENTRY(backoff, renewal_information_is_requested_within_a_minute_and_a_day),
    TEST_ENTRY(backoff, a_wait_of_a_clock_that_was_ahead_is_none),
    TEST_ENTRY(span, is_said_in_two_units))
