/* vcl_std_time.c -- std.time and std.strftime: points in time from text, and to text.
 *
 * Forms are tried one after the other: HTTP's three, ISO 8601 without a zone, and seconds since
 * 1970.  All are UTC; strftime's names are those of the C locale.
 */
#include "vcl-lite/vcl_machine.h"

#include <math.h>
#include <time.h>

/* --- from text --- */

struct vcl_date {
    unsigned year, month, day, hour, minute, second,
        weekday; /* month from 1, weekday from Sunday */
};

static const char vcl_months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char *const vcl_weekdays[] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

static bool
vcl_take_digits(struct slice *s, unsigned width, unsigned *out)
{
    *out = 0;
    if (s->len < width)
        return false;
    for (unsigned i = 0; i < width; i++) {
        unsigned digit = s->ptr[i] - (unsigned)'0';

        if (digit > 9)
            return false;
        *out = *out * 10 + digit;
    }
    *s = slice_of(s->ptr + width, s->len - width);
    return true;
}

/* Of a weekday's name, its first three letters or all. */
static bool
vcl_take_weekday(struct slice *s, bool whole, unsigned *out)
{
    for (unsigned i = 0; i < 7; i++) {
        size_t len = whole ? strlen(vcl_weekdays[i]) : 3;

        if (s->len >= len && memcmp(s->ptr, vcl_weekdays[i], len) == 0) {
            *s = slice_of(s->ptr + len, s->len - len);
            *out = i;
            return true;
        }
    }
    return false;
}

static bool
vcl_take_month(struct slice *s, unsigned *out)
{
    for (unsigned i = 0; i < 12 && s->len >= 3; i++) {
        if (memcmp(s->ptr, vcl_months + i * 3, 3) == 0) {
            *s = slice_of(s->ptr + 3, s->len - 3);
            *out = i + 1;
            return true;
        }
    }
    return false;
}

/* Two digits of a year: as Varnish, 69 to 99 are of the twentieth century. */
static bool
vcl_take_short_year(struct slice *s, unsigned *out)
{
    if (!vcl_take_digits(s, 2, out))
        return false;
    *out += *out < 69 ? 2000 : 1900;
    return true;
}

/* One letter of a form, or a byte that stands for itself. */
static bool
vcl_take_part(struct slice *s, char part, struct vcl_date *d)
{
    switch (part) {
    case 'w':
        return vcl_take_weekday(s, false, &d->weekday);
    case 'W':
        return vcl_take_weekday(s, true, &d->weekday);
    case 'b':
        return vcl_take_month(s, &d->month);
    case 'n':
        return vcl_take_digits(s, 2, &d->month);
    case 'e': /* " 6" */
        if (s->len > 0 && s->ptr[0] == ' ') {
            *s = slice_of(s->ptr + 1, s->len - 1);
            return vcl_take_digits(s, 1, &d->day);
        }
        return vcl_take_digits(s, 2, &d->day);
    case 'd':
        return vcl_take_digits(s, 2, &d->day);
    case 'Y':
        return vcl_take_digits(s, 4, &d->year);
    case 'y':
        return vcl_take_short_year(s, &d->year);
    case 'h':
        return vcl_take_digits(s, 2, &d->hour);
    case 'm':
        return vcl_take_digits(s, 2, &d->minute);
    case 's':
        return vcl_take_digits(s, 2, &d->second);
    default:
        if (s->len == 0 || s->ptr[0] != part)
            return false;
        *s = slice_of(s->ptr + 1, s->len - 1);
        return true;
    }
}

/* Days since 1970-01-01; the month has that day. */
static int64_t
vcl_days_of(const struct vcl_date *d)
{
    unsigned month = d->month > 2 ? d->month - 3 : d->month + 9; /* from March */
    int64_t year = (int64_t)d->year - (d->month <= 2);
    int64_t era = year >= 0 ? year / 400 : -1, of_era = year - era * 400;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 +
           d->day - 1 - 719468;
}

static bool
vcl_date_exists(const struct vcl_date *d)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = d->year % 4 == 0 && (d->year % 100 != 0 || d->year % 400 == 0);

    return d->month - 1 < 12 && d->day >= 1 &&
           d->day <= lengths[d->month - 1] + (unsigned)(d->month == 2 && leap) && d->hour < 24 &&
           d->minute < 60 && d->second <= 60; /* 60: a leap second */
}

/* `form` has letters as in vcl_take_part(); those of "GMT" and ISO's "T" are not among them. */
static bool
vcl_date_parse(struct slice s, const char *form, double *out)
{
    struct vcl_date d = {.weekday = 7};
    int64_t days;

    for (; *form != '\0'; form++) {
        if (!vcl_take_part(&s, *form, &d))
            return false;
    }
    if (s.len > 0 || !vcl_date_exists(&d))
        return false;
    days = vcl_days_of(&d);
    if (d.weekday != 7 && d.weekday != (unsigned)(((days + 4) % 7 + 7) % 7))
        return false; /* 1970-01-01 was a Thursday */
    *out = (double)(days * 86400 + d.hour * 3600 + d.minute * 60 + d.second);
    return *out != 0; /* as Varnish, to which 0 is no time */
}

static bool
vcl_seconds_parse(struct slice s, double *out)
{
    struct vcl_number n;

    if (!vcl_number_parse(&s, &n) || s.len > 0 || n.negative || n.value <= 0)
        return false;
    *out = n.value;
    return true;
}

static bool
vcl_time_of_text(struct slice s, double *out)
{
    static const char *const forms[] = {
        "w, d b Y h:m:s GMT", /* RFC 9110 5.6.7 */
        "W, d-b-y h:m:s GMT", /* RFC 850 */
        "w b e h:m:s Y",      /* asctime() */
        "Y-n-dTh:m:s",        /* ISO 8601 */
    };

    s = vcl_trim(s);
    if (vcl_seconds_parse(s, out))
        return true;
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (vcl_date_parse(s, forms[i], out))
            return true;
    }
    return false;
}

/* s, fallback, real, integer; what is before 1970 is no time. */
int
vcl_std_time(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    bool ok;

    if (vcl_std_one(r, "time", present, 0x0d) < 0)
        return TERR_POLICY;
    if ((present & 0x01) != 0) {
        ok = vcl_time_of_text(vcl_value_slice(&args[0]), &out->r);
    } else {
        out->r = (present & 0x04) != 0 ? args[2].r : (double)args[3].i;
        ok = out->r >= 0;
    }
    return ok ? 0 : vcl_std_fallback(r, "time", args, present, out);
}

/* --- to text --- */

/* A NUL would end the format, and no policy means one. */
int
vcl_std_strftime(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    char format[256], text[1024];
    struct tm tm;
    time_t t;

    (void)present;
    *out = vcl_value_string(slice_of("", 0));
    if (args[1].s == NULL || args[1].len >= sizeof(format))
        return vcl_run_failf(
            r, "std.strftime: the format is %s", args[1].s == NULL ? "unset" : "too long");
    if (!(args[0].r >= -62135596800.0 && args[0].r < 253402300800.0)) /* years 1 to 9999 */
        return 0;
    memcpy(format, args[1].s, args[1].len);
    format[args[1].len] = '\0';
    t = (time_t)floor(args[0].r);
    if (gmtime_r(&t, &tm) == NULL)
        return 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return vcl_string_copy(r, slice_of(text, strftime(text, sizeof(text), format, &tm)), out);
#pragma GCC diagnostic pop
}
