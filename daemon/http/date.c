/* date.c -- HTTP dates in all three forms, without locale and without libc's time. */
#include "daemon/http/date.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

#define DAY_S INT64_C(86400)

static const char http_months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char http_week[] = "SunMonTueWedThuFriSat";
static const char *const http_week_long[] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

struct http_date {
    int64_t year;
    int month, day, hour, minute, second; /* month from 1 */
};

/* Days since 1970-01-01 in the Gregorian calendar, the year counted from March so that the
 * leap day is its last. */
static int64_t
http_days(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t in_era = y - era * 400;
    int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

/* The other way round.  146,097 days are 400 years; 719,468 are from 0000-03-01 to 1970-01-01. */
static void
http_civil(int64_t days, struct http_date *d)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t in_era = z - era * 146097;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; /* from March */

    d->day = (int)(in_year - (153 * month + 2) / 5 + 1);
    d->month = (int)(month < 10 ? month + 3 : month - 9);
    d->year = year + era * 400 + (d->month <= 2 ? 1 : 0);
}

static int64_t
http_date_seconds(const struct http_date *d)
{
    return http_days(d->year, d->month, d->day) * DAY_S + d->hour * 3600 + d->minute * 60 +
           d->second;
}

/* `n` digits, or -1. */
static int
http_digits(const char *p, int n)
{
    int i, value = 0;

    for (i = 0; i < n; i++) {
        if (!http_char_is(p[i], HTTP_C_DIGIT))
            return -1;
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

/* Which three-letter word it is, from 0, or -1.  Case is folded: the grammar is sensitive, but
 * origins get it wrong, and there is no other way to read it. */
static int
http_word3(const char *p, const char *words, int count)
{
    int i;

    for (i = 0; i < count; i++) {
        if (slice_eq_nocase(slice_of(p, 3), slice_of(words + i * 3, 3)))
            return i;
    }
    return -1;
}

static bool
http_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool
http_date_ok(const struct http_date *d)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    /* -1 of http_digits() and 0 of a word that is none end here. */
    if (d->month < 1 || d->year < 0 || d->day < 1 || d->hour < 0 || d->minute < 0 || d->second < 0)
        return false;
    if (d->day > days[d->month - 1] && !(d->month == 2 && d->day == 29 && http_is_leap(d->year)))
        return false;
    return d->hour <= 23 && d->minute <= 59 && d->second <= 60; /* 60: a leap second */
}

/* "08:49:37" */
static bool
http_date_time(const char *p, struct http_date *d)
{
    if (p[2] != ':' || p[5] != ':')
        return false;
    d->hour = http_digits(p, 2);
    d->minute = http_digits(p + 3, 2);
    d->second = http_digits(p + 6, 2);
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool
http_date_imf(struct slice t, struct http_date *d)
{
    const char *p = t.ptr;

    /* Which weekday it is does not matter, and is often wrong. */
    if (http_word3(p, http_week, 7) < 0 || p[3] != ',' || p[4] != ' ' || p[7] != ' ')
        return false;
    if (p[11] != ' ' || p[16] != ' ')
        return false;
    d->day = http_digits(p + 5, 2);
    d->month = http_word3(p + 8, http_months, 12) + 1;
    d->year = http_digits(p + 12, 4);
    return http_date_time(p + 17, d) && slice_eq_nocase(slice_of(p + 25, 4), SLICE_LIT(" GMT"));
}

/* "Sun Nov  6 08:49:37 1994" */
static bool
http_date_asctime(struct slice t, struct http_date *d)
{
    const char *p = t.ptr;

    if (http_word3(p, http_week, 7) < 0 || p[3] != ' ' || p[7] != ' ' || p[10] != ' ')
        return false;
    if (p[19] != ' ')
        return false;
    d->month = http_word3(p + 4, http_months, 12) + 1;
    /* Padded with a space, as asctime(3) does. */
    d->day = p[8] == ' ' ? http_digits(p + 9, 1) : http_digits(p + 8, 2);
    d->year = http_digits(p + 20, 4);
    return http_date_time(p + 11, d);
}

/* The latest year with these two digits that is not more than 50 years ahead
 * (RFC 9110 5.6.7). */
static void
http_date_century(struct http_date *d, int64_t now_s)
{
    int64_t days = now_s >= 0 ? now_s / DAY_S : -((-now_s + DAY_S - 1) / DAY_S);
    struct http_date now, then = *d;
    int64_t latest;

    http_civil(days, &now);
    latest = now.year + 50;
    then.year = latest - ((latest - d->year) % 100 + 100) % 100 - 50;
    if (http_date_seconds(&then) > now_s) /* fifty years back, it still lies ahead */
        then.year -= 100;
    d->year = then.year + 50;
}

/* "Sunday, 06-Nov-94 08:49:37 GMT" */
static bool
http_date_rfc850(struct slice t, struct http_date *d, int64_t now_s)
{
    const char *comma = memchr(t.ptr, ',', t.len);
    struct slice day;
    const char *p;
    int i;

    if (comma == NULL || t.len - (size_t)(comma - t.ptr) != 24)
        return false;
    day = slice_of(t.ptr, (size_t)(comma - t.ptr));
    for (i = 0; i < 7; i++) {
        if (slice_eq_nocase(day, slice_str(http_week_long[i])))
            break;
    }
    p = comma + 1;
    if (i == 7 || p[0] != ' ' || p[3] != '-' || p[7] != '-' || p[10] != ' ')
        return false;
    d->day = http_digits(p + 1, 2);
    d->month = http_word3(p + 4, http_months, 12) + 1;
    d->year = http_digits(p + 8, 2);
    if (!http_date_time(p + 11, d) || !slice_eq_nocase(slice_of(p + 19, 4), SLICE_LIT(" GMT")))
        return false;
    if (d->year < 0 || d->month < 1)
        return false;
    http_date_century(d, now_s);
    return true;
}

/*    Sun, 06 Nov 1994 08:49:37 GMT       IMF-fixdate, 29 bytes: what origins send
 *    Sun Nov  6 08:49:37 1994            asctime, 24 bytes
 *    Sunday, 06-Nov-94 08:49:37 GMT      RFC 850, length by the weekday
 *
 * All three must be read (RFC 9110 5.6.7).  `now_s` is for the third alone, which has two digits
 * of a year. */
int
http_date_parse(struct slice text, int64_t now_s, int64_t *out_s)
{
    struct http_date d;
    bool ok;

    /* The length tells the forms apart, and is checked before any byte is read by its place. */
    if (text.len == HTTP_DATE_LEN && text.ptr[3] == ',')
        ok = http_date_imf(text, &d);
    else if (text.len == 24 && text.ptr[3] == ' ')
        ok = http_date_asctime(text, &d);
    else
        ok = http_date_rfc850(text, &d, now_s);
    if (!ok || !http_date_ok(&d))
        return TERR_SYNTAX;
    *out_s = http_date_seconds(&d);
    return 0;
}

static void
http_put_digits(char *p, int n, int64_t value)
{
    while (n-- > 0) {
        p[n] = (char)('0' + value % 10);
        value /= 10;
    }
}

/* Years 0 to 9999: more has no place in the form. */
void
http_date_format(int64_t s, char out[static HTTP_DATE_LEN])
{
    int64_t days = s >= 0 ? s / DAY_S : -((-s + DAY_S - 1) / DAY_S);
    int64_t in_day = s - days * DAY_S;
    int64_t week_day = ((days + 4) % 7 + 7) % 7; /* 1970-01-01 was a Thursday */
    struct http_date d;

    http_civil(days, &d);
    tassert(d.year >= 0 && d.year <= 9999);
    memcpy(out, "Sun, 00 Jan 0000 00:00:00 GMT", HTTP_DATE_LEN);
    memcpy(out, http_week + week_day * 3, 3);
    http_put_digits(out + 5, 2, d.day);
    memcpy(out + 8, http_months + (d.month - 1) * 3, 3);
    http_put_digits(out + 12, 4, d.year);
    http_put_digits(out + 17, 2, in_day / 3600);
    http_put_digits(out + 20, 2, in_day / 60 % 60);
    http_put_digits(out + 23, 2, in_day % 60);
}
