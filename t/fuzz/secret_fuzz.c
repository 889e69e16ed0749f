/* secret_fuzz.c -- the file of session_secret: a seed, or the secret of a day.
 *
 * What must hold: a text is taken if a slow reader, which knows the calendar by itself, takes it, and for what that
 * one says; a seed is taken by its length alone.  What is taken is written and read again the same; what is refused
 * has a reason.  A file is read as the same bytes in memory are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/tls_secret.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = TLS_SECRET_SEED_MAX + 64,
    FUZZ_YEAR_FIRST = 2026,
    FUZZ_YEAR_LAST = 2169,
};

#define SLOW_MAGIC "tarn-session-secret "
/* D: a decimal digit; H: a hexadecimal one; else the byte itself. */
static const char slow_form[] =
    SLOW_MAGIC "1\nday DDDD-DD-DD\nsecret "
               "HHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHH\n";

static bool
slow_is_leap(unsigned year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static unsigned
slow_month_days(unsigned year, unsigned month)
{
    if (month == 2)
        return slow_is_leap(year) ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* Since the epoch; -1: there is no such day, or it is not one of ours. */
static int64_t
slow_day(unsigned year, unsigned month, unsigned day)
{
    int64_t days = 0;

    if (year < FUZZ_YEAR_FIRST || year > FUZZ_YEAR_LAST || month < 1 || month > 12 || day < 1 ||
        day > slow_month_days(year, month))
        return -1;
    for (unsigned y = 1970; y < year; y++)
        days += slow_is_leap(y) ? 366 : 365;
    for (unsigned m = 1; m < month; m++)
        days += slow_month_days(year, m);
    return days + day - 1;
}

/* False: it is no text of a secret. */
static bool
slow_read(const uint8_t *p, size_t len, struct tls_secret *out)
{
    static const char hex[] = "0123456789abcdef";
    unsigned digits[8], ndigits = 0, nibbles = 0;

    if (len != sizeof(slow_form) - 1)
        return false;
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < len; i++) {
        const char *digit = memchr(hex, p[i], slow_form[i] == 'D' ? 10 : 16);

        if (slow_form[i] != 'D' && slow_form[i] != 'H') {
            if (p[i] != (uint8_t)slow_form[i])
                return false;
            continue;
        }
        if (digit == NULL)
            return false;
        if (slow_form[i] == 'D') {
            digits[ndigits++] = (unsigned)(digit - hex);
            continue;
        }
        out->bytes[nibbles / 2] |= (uint8_t)((digit - hex) << (nibbles % 2 == 0 ? 4 : 0));
        nibbles++;
    }
    tassert(ndigits == ARRAY_LEN(digits) && nibbles == 2 * TLS_SECRET);
    out->day = slow_day(digits[0] * 1000 + digits[1] * 100 + digits[2] * 10 + digits[3],
        digits[4] * 10 + digits[5], digits[6] * 10 + digits[7]);
    return out->day >= 0;
}

static bool
fuzz_same(const struct tls_secret *a, const struct tls_secret *b)
{
    return a->day == b->day && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* What is taken is written in the one form, and the next day's, too. */
static void
fuzz_taken(const struct tls_secret *s)
{
    struct tls_secret again, slow, next = *s;
    char text[TLS_SECRET_TEXT], why[256];

    for (int i = 0; i < 2; i++) {
        size_t len = tls_secret_print(&next, text);

        tassert(tls_secret_parse(slice_of(text, len), &again, why, sizeof(why)) == 0);
        if (slow_read((const uint8_t *)text, len, &slow))
            tassert(fuzz_same(&again, &slow));
        else
            TUNREACHABLE("what is written has another form");
        tassert(fuzz_same(&again, &next) && tls_secret_same(&again, s));
        if (next.day >= slow_day(FUZZ_YEAR_LAST, 12, 31))
            return;
        tassert(tls_secret_advance(&next, next.day + 1) && next.day == again.day + 1);
        tassert(memcmp(next.bytes, again.bytes, sizeof(next.bytes)) != 0);
    }
}

/* Through a file that its owner alone may read. */
static void
fuzz_file(const uint8_t *data, size_t size, int expected, const struct tls_secret *s)
{
    static char name[64];
    static int fd = -1;
    struct tls_secret got;
    char why[256] = "";

    if (fd < 0) {
        fd = memfd_create("secret_fuzz", MFD_CLOEXEC);
        tassert(fd >= 0 && fchmod(fd, 0600) == 0);
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    }
    tassert(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    tassert(tls_secret_read(name, &got, why, sizeof(why)) == expected);
    tassert(expected == 0 ? fuzz_same(&got, s) : why[0] != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_secret s, slow;
    bool text =
        size >= sizeof(SLOW_MAGIC) - 1 && memcmp(data, SLOW_MAGIC, sizeof(SLOW_MAGIC) - 1) == 0;
    char why[256] = "";
    int err;

    if (size > FUZZ_MAX)
        return 0;
    err = tls_secret_parse(slice_of((const char *)data, size), &s, why, sizeof(why));
    tassert(err == 0 || (err == TERR_CONFIG && strncmp(why, "session_secret: ", 16) == 0));
    if (text) {
        tassert((err == 0) == slow_read(data, size, &slow));
        tassert(err != 0 || fuzz_same(&s, &slow));
    } else {
        tassert((err == 0) == (size >= TLS_SECRET && size <= TLS_SECRET_SEED_MAX));
        tassert(err != 0 || s.day == slow_day(FUZZ_YEAR_FIRST, 1, 1));
    }
    if (err == 0)
        fuzz_taken(&s);
    fuzz_file(data, size, err, &s);
    return 0;
}
