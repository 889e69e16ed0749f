/* http_date_test.c -- dates in three forms, against libc's calendar. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/http/date.h"

#define NOW INT64_C(1767225600) /* Thu, 01 Jan 2026 00:00:00 GMT */

static int64_t
parsed(const char *text)
{
    int64_t s = -77;

    return http_date_parse(slice_str(text), NOW, &s) == 0 ? s : -77;
}

TEST(date, all_three_forms_mean_the_same)
{
    CHECK_EQ(784111777, parsed("Sun, 06 Nov 1994 08:49:37 GMT"));
    CHECK_EQ(784111777, parsed("Sunday, 06-Nov-94 08:49:37 GMT"));
    CHECK_EQ(784111777, parsed("Sun Nov  6 08:49:37 1994"));
    CHECK_EQ(784111777 + 10 * 86400, parsed("Wed Nov 16 08:49:37 1994"));
    CHECK_EQ(0, parsed("Thu, 01 Jan 1970 00:00:00 GMT"));
    CHECK_EQ(-1, parsed("Wed, 31 Dec 1969 23:59:59 GMT"));
    CHECK_EQ(INT64_C(9999999999), parsed("Sat, 20 Nov 2286 17:46:39 GMT"));
}

TEST(date, both_directions_agree_with_timegm)
{
    char want[64], got[HTTP_DATE_LEN], asc[64], old[64];
    int64_t s, back;
    struct tm tm;
    time_t t;

    /* From the year 0 to 9999, in steps that visit every hour, day and month. */
    for (s = INT64_C(-62167219200); s < INT64_C(253402300800); s += 86400 * 5 + 3671) {
        t = (time_t)s;
        CHECK(gmtime_r(&t, &tm) != NULL);
        strftime(want, sizeof(want), "%a, %d %b XXXX %H:%M:%S GMT", &tm);
        want[12] = (char)('0' + (tm.tm_year + 1900) / 1000);
        want[13] = (char)('0' + (tm.tm_year + 1900) / 100 % 10);
        want[14] = (char)('0' + (tm.tm_year + 1900) / 10 % 10);
        want[15] = (char)('0' + (tm.tm_year + 1900) % 10);
        http_date_format(s, got);
        CHECK_MEM(want, got, HTTP_DATE_LEN);
        CHECK_EQ(0, http_date_parse(slice_of(got, sizeof(got)), NOW, &back));
        CHECK_EQ(timegm(&tm), back);
        if (s < NOW - INT64_C(49) * 366 * 86400 || s > NOW + INT64_C(49) * 365 * 86400)
            continue;
        strftime(asc, sizeof(asc), "%a %b %e %H:%M:%S %Y", &tm);
        CHECK_EQ(0, http_date_parse(slice_str(asc), NOW, &back));
        CHECK_EQ(s, back);
        strftime(want, sizeof(want), "%A, %d-%b-XX %H:%M:%S GMT", &tm);
        snprintf(old, sizeof(old), "%.*s%02d%s", (int)(strchr(want, 'X') - want), want,
            tm.tm_year % 100, strchr(want, 'X') + 2);
        CHECK_EQ(0, http_date_parse(slice_str(old), NOW, &back));
        CHECK_EQ(s, back);
    }
}

TEST(date, two_digit_years_lie_at_most_fifty_years_ahead)
{
    int64_t s;

    /* 2026-01-01: one second less than, exactly, and more than fifty years ahead. */
    CHECK_EQ(parsed("Wed, 01 Jan 2076 00:00:00 GMT"), parsed("Wednesday, 01-Jan-76 00:00:00 GMT"));
    CHECK_EQ(parsed("Thu, 01 Jan 1976 00:00:01 GMT"), parsed("Thursday, 01-Jan-76 00:00:01 GMT"));
    CHECK_EQ(parsed("Thu, 18 Aug 2050 02:01:18 GMT"), parsed("Thursday, 18-Aug-50 02:01:18 GMT"));
    CHECK_EQ(parsed("Fri, 31 Dec 1999 23:59:59 GMT"), parsed("Friday, 31-Dec-99 23:59:59 GMT"));
    /* Seen from 1999, 49 is to come; seen from 2090, 10 is to come too. */
    CHECK_EQ(0, http_date_parse(SLICE_LIT("Friday, 01-Jan-49 00:00:00 GMT"), 946684799, &s));
    CHECK_EQ(parsed("Fri, 01 Jan 2049 00:00:00 GMT"), s);
    CHECK_EQ(
        0, http_date_parse(SLICE_LIT("Friday, 01-Jan-10 00:00:00 GMT"), INT64_C(3786912000), &s));
    CHECK_EQ(parsed("Wed, 01 Jan 2110 00:00:00 GMT"), s);
}

TEST(date, wrong_case_is_read_as_everybody_reads_it)
{
    int64_t want = parsed("Thu, 18 Aug 2050 02:01:18 GMT");

    CHECK_EQ(want, parsed("THU, 18 Aug 2050 02:01:18 GMT"));
    CHECK_EQ(want, parsed("Thu, 18 AUG 2050 02:01:18 GMT"));
    CHECK_EQ(want, parsed("Thu, 18 Aug 2050 02:01:18 gMT"));
    CHECK_EQ(want, parsed("Mon, 18 Aug 2050 02:01:18 GMT")); /* the week day is redundant */
}

TEST(date, anything_else_is_refused)
{
    static const char *const bad[] = {"", "0", "-1", "Thu, 18 Aug 2050 02:01:18 UTC",
        "Thu, 18 Aug 2050 02:01:18 AEST", "Thu, 18 Aug 50 02:01:18 GMT",
        "Thu 18 Aug 2050 02:01:18 GMT", "Thu, 18  Aug  2050 02:01:18 GMT",
        "Thu, 18-Aug-2050 02:01:18 GMT", "Thu, 18 Aug 2050 02.01.18 GMT",
        "Thu, 18 Aug 2050 2:01:18 GMT", "Xxx, 18 Aug 2050 02:01:18 GMT",
        "Thu, 18 Xxx 2050 02:01:18 GMT", "Thu, 00 Aug 2050 02:01:18 GMT",
        "Thu, 32 Aug 2050 02:01:18 GMT", "Tue, 29 Feb 2023 02:01:18 GMT",
        "Mon, 29 Feb 2100 02:01:18 GMT", "Thu, 18 Aug 2050 24:01:18 GMT",
        "Thu, 18 Aug 2050 02:60:18 GMT", "Thu, 18 Aug 2050 02:01:61 GMT",
        "Thu, +8 Aug 2050 02:01:18 GMT", "Thu, 18 Aug -050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02:01:18 GMT ", " Thu, 18 Aug 2050 02:01:18 GMT",
        "Thursday, 18-Aug-2050 02:01:18 GMT", "Thu, 18-Aug-50 02:01:18 GMT",
        "Someday, 18-Aug-50 02:01:18 GMT", "Thursday,18-Aug-50 02:01:18 GMT ",
        "Thursday, 29-Feb-50 02:01:18 GMT", "Thursday, 18-Aug--1 02:01:18 GMT",
        "Sun Nov 06 08:49:37 94", "Sun Nov   6 08:49:37 199", "Sun Nov  0 08:49:37 1994",
        "Sun,Nov  6 08:49:37 1994"};
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(-77, parsed(bad[i]));
    CHECK(parsed("Thu, 30 Jun 2015 23:59:60 GMT") == parsed("Wed, 01 Jul 2015 00:00:00 GMT"));
    CHECK(parsed("Tue, 29 Feb 2000 02:01:18 GMT") != -77);
}

TEST_MAIN(TEST_ENTRY(date, all_three_forms_mean_the_same),
    TEST_ENTRY(date, both_directions_agree_with_timegm),
    TEST_ENTRY(date, two_digit_years_lie_at_most_fifty_years_ahead),
    TEST_ENTRY(date, wrong_case_is_read_as_everybody_reads_it),
    TEST_ENTRY(date, anything_else_is_refused))
