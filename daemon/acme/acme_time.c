/* acme_time.c -- when a certificate is renewed, and when a failure is tried again. */
#include "daemon/acme/acme_time.h"

#include <stdio.h>
#include <time.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/date.h"

enum {
    DAY_S = 86400,
};

void
acme_stamp(char out[static ACME_STAMP_SIZE], int64_t s)
{
    time_t t = (time_t)s;
    struct tm tm;

    /* RFC 3339 has years of four digits, and so has the room. */
    if (gmtime_r(&t, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900 ||
        strftime(out, ACME_STAMP_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, ACME_STAMP_SIZE, "never");
}

/* `n` digits at *at; -1: something else. */
static int
stamp_digits(struct slice text, size_t *at, unsigned n)
{
    int v = 0;

    for (; n > 0; n--, (*at)++) {
        if (*at >= text.len || text.ptr[*at] < '0' || text.ptr[*at] > '9')
            return -1;
        v = v * 10 + (text.ptr[*at] - '0');
    }
    return v;
}

/* strchr() would find the NUL behind `any`, too. */
static bool
stamp_take(struct slice text, size_t *at, const char *any)
{
    if (*at >= text.len || text.ptr[*at] == '\0' || strchr(any, text.ptr[*at]) == NULL)
        return false;
    (*at)++;
    return true;
}

/* "Z" or "+01:00", to the end of the text. */
static int
stamp_offset(struct slice text, size_t at, int64_t *out_s)
{
    int hours, minutes, sign;

    if (stamp_take(text, &at, "Zz")) {
        *out_s = 0;
        return at == text.len ? 0 : TERR_SYNTAX;
    }
    sign = at < text.len && text.ptr[at] == '-' ? -1 : 1;
    if (!stamp_take(text, &at, "+-"))
        return TERR_SYNTAX;
    hours = stamp_digits(text, &at, 2);
    if (!stamp_take(text, &at, ":"))
        return TERR_SYNTAX;
    minutes = stamp_digits(text, &at, 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || at != text.len)
        return TERR_SYNTAX;
    *out_s = sign * (hours * 3600 + minutes * 60);
    return 0;
}

static bool
stamp_day_ok(int year, int month, int day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return year >= 0 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && leap);
}

/* Not by strptime(), which reads by the locale and skips white space.  A fraction is dropped: nothing here
 * is decided by less than a second. */
int
acme_stamp_read(struct slice text, int64_t *out_s)
{
    struct tm tm = {.tm_isdst = 0};
    size_t at = 0;
    int64_t offset;
    int parts[6];

    for (unsigned i = 0; i < 6; i++) {
        static const char *const between[] = {"", "-", "-", "Tt ", ":", ":"};

        if (i > 0 && !stamp_take(text, &at, between[i]))
            return TERR_SYNTAX;
        parts[i] = stamp_digits(text, &at, i == 0 ? 4 : 2);
    }
    if (stamp_take(text, &at, ".")) {
        size_t before = at;

        while (stamp_digits(text, &at, 1) >= 0)
            ;
        if (at == before)
            return TERR_SYNTAX;
    }
    /* Second 60 is a leap second, which timegm() takes for the first of the next minute. */
    if (!stamp_day_ok(parts[0], parts[1], parts[2]) || parts[3] < 0 || parts[3] > 23 ||
        parts[4] < 0 || parts[4] > 59 || parts[5] < 0 || parts[5] > 60 ||
        stamp_offset(text, at, &offset) != 0)
        return TERR_SYNTAX;
    tm.tm_year = parts[0] - 1900;
    tm.tm_mon = parts[1] - 1;
    tm.tm_mday = parts[2];
    tm.tm_hour = parts[3];
    tm.tm_min = parts[4];
    tm.tm_sec = parts[5];
    *out_s = (int64_t)timegm(&tm) - offset;
    return 0;
}

int64_t
acme_retry_after(struct slice value, int64_t now_s)
{
    int64_t s = 0;
    size_t i = 0;

    while (value.len > 0 && strchr(" \t\r\n", value.ptr[value.len - 1]) != NULL)
        value.len--;
    while (value.len > 0 && (value.ptr[0] == ' ' || value.ptr[0] == '\t'))
        value = slice_of(value.ptr + 1, value.len - 1);
    /* Beyond the bound digits change nothing, so that no number of them overflows. */
    for (; i < value.len && value.ptr[i] >= '0' && value.ptr[i] <= '9'; i++)
        s = s > ACME_RETRY_MOST_S ? s : s * 10 + (value.ptr[i] - '0');
    if (value.len == 0)
        return -1;
    /* A date is compared with our clock, as all of a Retry-After's dates: where that is wrong, so is the wait, and
     * the bound holds. */
    if (i < value.len) {
        if (http_date_parse(value, now_s, &s) != 0)
            return -1;
        s -= now_s;
    }
    return s < 0 ? 0 : s > ACME_RETRY_MOST_S ? ACME_RETRY_MOST_S : s;
}

/* Over the whole window: clients that all came at its start would be the peak that the CA wants to avoid. */
int64_t
acme_choose(int64_t start_s, int64_t end_s, uint32_t random)
{
    tassert(start_s < end_s);
    return start_s + (int64_t)((double)(end_s - start_s) * ((double)random / 4294967296.0));
}

/* A third is left for failures: 30 days of 90, two of six.  The last tenth is ours to refuse, to a CA and to an
 * operator: what is ordered in the last hours has no time to fail. */
int64_t
acme_renew_at(const struct acme_life *life)
{
    int64_t whole = life->not_after_s - life->not_before_s, at, last;

    if (whole < 0)
        whole = 0;
    at = life->not_after_s - whole / 3;
    last = life->not_after_s - whole / 10;
    if (life->suggested && life->chosen_s != 0)
        at = life->chosen_s;
    /* It only makes it earlier: to renew later than a CA wants is no wish that can be granted. */
    if (life->renew_before_days > 0 &&
        life->not_after_s - (int64_t)life->renew_before_days * DAY_S < at)
        at = life->not_after_s - (int64_t)life->renew_before_days * DAY_S;
    return at < last ? at : last;
}

int64_t
acme_backoff(unsigned failures, int64_t retry_after_s, uint32_t random)
{
    int64_t s = ACME_BACKOFF_LEAST_S;

    for (unsigned i = 1; i < failures && s < ACME_BACKOFF_MOST_S; i++)
        s *= 2;
    if (s > ACME_BACKOFF_MOST_S)
        s = ACME_BACKOFF_MOST_S;
    /* Machines that failed together, because the CA was down, do not come back together. */
    s = s * 3 / 4 + (int64_t)((double)(s / 2) * ((double)random / 4294967296.0));
    if (retry_after_s > s) /* and a little later than all others that wait for the same moment */
        s = retry_after_s + (int64_t)(60.0 * ((double)random / 4294967296.0));
    return s;
}

bool
acme_is_ahead(int64_t until_s, int64_t now_s, int64_t most_s)
{
    /* Compared with now_s, which no file has written: a difference of the two could overflow. */
    return until_s > now_s && until_s <= now_s + most_s;
}

int64_t
acme_ari_pause(int64_t retry_after_s)
{
    if (retry_after_s < 0)
        return ACME_ARI_ELSE_S;
    if (retry_after_s < ACME_ARI_LEAST_S)
        return ACME_ARI_LEAST_S;
    return retry_after_s > ACME_ARI_MOST_S ? ACME_ARI_MOST_S : retry_after_s;
}

void
acme_span_text(char out[static 32], int64_t s)
{
    unsigned long long n = s < 0 ? 0 - (unsigned long long)s : (unsigned long long)s;

    if (n >= DAY_S)
        snprintf(out, 32, "%llud %lluh", n / DAY_S, n % DAY_S / 3600);
    else if (n >= 3600)
        snprintf(out, 32, "%lluh %llum", n / 3600, n % 3600 / 60);
    else
        snprintf(out, 32, "%llum %llus", n / 60, n % 60);
}
