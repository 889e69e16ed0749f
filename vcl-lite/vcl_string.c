/* vcl_string.c -- strings that are made: numbers, dates, concatenation, regsub. */
#include "vcl-lite/vcl_machine.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>

#include "daemon/base/obj.h"

#define VCL_ONES UINT64_C(0x0101010101010101)

/* Eight bytes at a time: is there one below 0x20, or 0x7f?  Each may say yes for the byte above
 * one that is, so a yes is only a suspicion. */
static inline bool
vcl_may_be_ctl(uint64_t x)
{
    uint64_t del = x ^ 0x7f * VCL_ONES;

    return ((((x - 0x20 * VCL_ONES) & ~x) | ((del - VCL_ONES) & ~del)) & 0x80 * VCL_ONES) != 0;
}

bool
vcl_is_printable(struct slice s)
{
    size_t i = 0;

    for (; s.len - i >= 8; i += 8) {
        uint64_t x;

        memcpy(&x, s.ptr + i, sizeof(x));
        if (vcl_may_be_ctl(x))
            /* A suspicion: the loop below decides, from here on byte by byte. */
            break;
    }
    for (; i < s.len; i++) {
        uint8_t c = (uint8_t)s.ptr[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

int
vcl_string_copy(struct vcl_run *r, struct slice text, struct vcl_value *out)
{
    /* Without a NUL: strings of the language have a length. */
    char *p = vcl_run_alloc(r, text.len);

    if (p == NULL)
        return TERR_POLICY;
    memcpy(p, text.ptr, text.len);
    *out = vcl_value_string(slice_of(p, text.len));
    return 0;
}

/* --- numbers and dates --- */

static size_t
vcl_format_digits(uint64_t n, char *out)
{
    char digits[20];
    size_t len = 0;

    /* At least one digit: 0 is one. */
    do
        digits[len++] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    for (size_t i = 0; i < len; i++)
        out[i] = digits[len - 1 - i];
    return len;
}

/* n in `width` digits, zeros in front. */
static char *
vcl_put_digits(char *out, unsigned n, unsigned width)
{
    for (unsigned i = width; i-- > 0; n /= 10)
        out[i] = (char)('0' + n % 10);
    return out + width;
}

size_t
vcl_format_int(int64_t i, char out[VCL_NUMBER_BYTES])
{
    if (i >= 0)
        return vcl_format_digits((uint64_t)i, out);
    out[0] = '-';
    /* Negated without a sign: the smallest number has no negative with one. */
    return 1 + vcl_format_digits(-(uint64_t)i, out + 1);
}

/* printf() rounds the exact value; so may a product with 1000, unless it comes to lie near the
 * middle between two thousandths, where its own rounding could decide. */
size_t
vcl_format_real(double d, char out[VCL_NUMBER_BYTES])
{
    double thousandths = fabs(d) * 1000, whole = floor(thousandths);
    char *p = out;
    uint64_t n;

    tassert(thousandths < 1e15);
    if (thousandths >= 1e12 || fabs(thousandths - whole - 0.5) < 1e-3)
        return (size_t)snprintf(out, VCL_NUMBER_BYTES, "%.3f", d);
    n = (uint64_t)whole + (thousandths - whole > 0.5);
    if (signbit(d))
        *p++ = '-';
    p += vcl_format_digits(n / 1000, p);
    *p++ = '.';
    return (size_t)(vcl_put_digits(p, (unsigned)(n % 1000), 3) - out);
}

/* Days since 0000-03-01 to a date of the Gregorian calendar: 400 years are 146097 days, and a year
 * that begins in March has its leap day last. */
static void
vcl_civil(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    unsigned era = (unsigned)(days / 146097), of_era = (unsigned)(days % 146097);
    unsigned years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * years + years / 4 - years / 100);
    unsigned m = (5 * of_year + 2) / 153; /* 0: March; five months in a row have 153 days */

    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = era * 400 + years + (*month <= 2);
}

/* RFC 9110 5.6.7 */
size_t
vcl_format_date(double t, char out[VCL_DATE_BYTES])
{
    static const char week[] = "Wed, Thu, Fri, Sat, Sun, Mon, Tue, ";
    static const char months[] = " Jan  Feb  Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec ";
    const int64_t march_0000 = 719468; /* days before 1970 */
    unsigned year, month, day, rest;
    uint64_t seconds, days;
    char *p = out;

    if (!(t >= -62135596800.0 && t < 253402300800.0)) /* 0001-01-01 to 9999-12-31 */
        return 0;
    seconds = (uint64_t)((int64_t)floor(t) + march_0000 * 86400);
    days = seconds / 86400;
    rest = (unsigned)(seconds % 86400);
    vcl_civil(days, &year, &month, &day);
    memcpy(p, week + days % 7 * 5, 5); /* 0000-03-01 was a Wednesday */
    p = vcl_put_digits(p + 5, day, 2);
    /* With the blanks around it: five bytes each. */
    memcpy(p, months + (month - 1) * 5, 5);
    p = vcl_put_digits(p + 5, year, 4);
    *p++ = ' ';
    p = vcl_put_digits(p, rest / 3600, 2);
    *p++ = ':';
    p = vcl_put_digits(p, rest / 60 % 60, 2);
    *p++ = ':';
    p = vcl_put_digits(p, rest % 60, 2);
    memcpy(p, " GMT", 4);
    return VCL_DATE_BYTES;
}

size_t
vcl_format_ip(const struct vcl_ip *ip, char out[64])
{
    size_t len = 0;

    if (!ip->is_v4) {
        /* IPv4 by hand, for it is what is asked for on each request. */
        inet_ntop(AF_INET6, ip->addr, out, 64);
        return strlen(out);
    }
    for (unsigned i = 12; i < 16; i++) {
        len += vcl_format_digits(ip->addr[i], out + len);
        out[len++] = '.';
    }
    return len - 1;
}

/* --- concatenation and case --- */

/* One part that is alone, or parts that follow each other in memory, are not copied. */
int
vcl_concat(struct vcl_run *r, const struct vcl_value *parts, unsigned n, struct vcl_value *out)
{
    struct slice all = slice_of("", 0);
    size_t len = 0;
    char *p, *at;

    for (unsigned i = 0; i < n; i++) {
        if (parts[i].len == 0)
            continue;
        if (all.len == 0)
            all.ptr = parts[i].s;
        /* regsub and fields give parts of one text: taken apart and put together again they are
         * it. */
        if (all.len == len && all.ptr + all.len == parts[i].s)
            all.len += parts[i].len;
        len += parts[i].len;
    }
    if (all.len == len) {
        *out = vcl_value_string(all);
        return 0;
    }
    p = at = vcl_run_alloc(r, len);
    if (p == NULL)
        return TERR_POLICY;
    for (unsigned i = 0; i < n; i++) {
        if (parts[i].len > 0)
            memcpy(at, parts[i].s, parts[i].len);
        at += parts[i].len;
    }
    *out = vcl_value_string(slice_of(p, len));
    return 0;
}

/* ASCII, as HTTP's case is; a text that has no letter of the other case stays where it is. */
int
vcl_fold_case(struct vcl_run *r, bool upper, struct vcl_value *v)
{
    const unsigned first = upper ? 'a' : 'A';
    size_t i = 0;
    char *p;

    while (i < v->len && (uint8_t)v->s[i] - first >= 26u)
        i++;
    if (i == v->len) {
        if (v->s == NULL)
            /* An unset text becomes an empty one. */
            *v = vcl_value_string(slice_of("", 0));
        return 0;
    }
    p = vcl_run_alloc(r, v->len);
    if (p == NULL)
        return TERR_POLICY;
    memcpy(p, v->s, v->len);
    for (; i < v->len; i++) {
        if ((uint8_t)p[i] - first < 26u)
            /* One bit is all that tells a from A. */
            p[i] ^= 0x20;
    }
    v->s = p;
    return 0;
}

/* --- regsub --- */

/* A string that grows; what it outgrows stays in the arena, and is counted. */
struct vcl_build {
    struct vcl_run *r;
    char *p;
    size_t len, room;
};

static int
vcl_build_put(struct vcl_build *b, const char *bytes, size_t len)
{
    if (len > b->room - b->len) {
        /* Doubled: what is left behind is less than what is used. */
        size_t room = 2 * b->room + len + 64;
        char *p = vcl_run_alloc(b->r, room);

        if (p == NULL)
            return TERR_POLICY;
        if (b->len > 0)
            memcpy(p, b->p, b->len);
        b->p = p;
        b->room = room;
    }
    if (len > 0)
        memcpy(b->p + b->len, bytes, len);
    b->len += len;
    return 0;
}

/* vcl(7), regsub: \0 is the whole match, \1 to \9 its groups; a backslash before anything else
 * stands for that: also before '&', whatever vcl(7) says of it (Varnish 7.1). */
static int
vcl_build_replacement(
    struct vcl_build *b, struct slice with, const struct slice *groups, unsigned n)
{
    size_t from = 0;
    int err;

    for (size_t i = 0; i + 1 < with.len; i++) {
        struct slice group = {"", 0};
        uint8_t c;

        if (with.ptr[i] != '\\')
            continue;
        err = vcl_build_put(b, with.ptr + from, i - from);
        if (err < 0)
            return err;
        c = (uint8_t)with.ptr[++i];
        /* Behind the backslash: what it takes the meaning from is copied with the rest. */
        from = i;
        if (c - (unsigned)'0' >= 10)
            continue;
        from++;
        /* A group that the pattern does not have is empty. */
        if (c - (unsigned)'0' < n)
            group = groups[c - '0'];
        err = vcl_build_put(b, group.ptr, group.len);
        if (err < 0)
            return err;
    }
    return vcl_build_put(b, with.ptr + from, with.len - from);
}

/* From one match to the next: what is between, and what stands for the match.  *at: where the
 * next is sought. */
static int
vcl_build_match(struct vcl_build *b, struct slice s, size_t *at, struct slice with,
    const struct slice *groups, unsigned n)
{
    size_t begin = (size_t)(groups[0].ptr - s.ptr);
    int err = vcl_build_put(b, s.ptr + *at, begin - *at);

    if (err == 0)
        err = vcl_build_replacement(b, with, groups, n);
    *at = begin + groups[0].len;
    return err;
}

/* As Varnish: after the first, an empty match is none; behind an empty first one a byte is copied
 * before the next is sought. */
int
vcl_regsub(struct vcl_run *r, const struct regex *re, bool all, struct slice subject,
    struct slice with, struct vcl_value *out)
{
    struct vcl_build b = {.r = r};
    struct slice groups[REGEX_GROUPS_MAX];
    size_t at = 0;
    unsigned n;
    int rc, err = 0;

    if (subject.ptr == NULL)
        subject = slice_of("", 0);
    if (with.ptr == NULL)
        with = slice_of("", 0);
    rc = regex_groups(re, subject, 0, groups, &n);
    /* Without a match the subject is returned as it is, without a copy. */
    if (rc == 0) {
        *out = vcl_value_string(subject);
        return 0;
    }
    while (rc > 0 && err == 0) {
        err = vcl_build_match(&b, subject, &at, with, groups, n);
        rc = 0;
        if (!all || err < 0)
            break;
        if (groups[0].len == 0) {
            if (at == subject.len)
                break;
            /* Else the same place would match for ever. */
            err = vcl_build_put(&b, subject.ptr + at++, 1);
        }
        if (err == 0)
            rc = regex_groups_nonempty(re, subject, at, groups, &n);
    }
    if (rc < 0)
        return vcl_run_fail(r, "a regular expression took too long: its match limit was reached");
    if (err == 0)
        err = vcl_build_put(&b, subject.ptr + at, subject.len - at);
    if (err < 0)
        return err;
    *out = vcl_value_string(b.len == 0 ? slice_of("", 0) : slice_of(b.p, b.len));
    return 0;
}
