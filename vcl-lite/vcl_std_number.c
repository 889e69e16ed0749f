/* vcl_std_number.c -- std.integer, real, duration and bytes: numbers from text and each other.
 *
 * Texts are those of Varnish's VNUM (RFC 8941 3.3), not of strtod(3): no exponents, no infinity,
 * no locale.  What does not convert is the fallback, and without one the run fails.  The comment
 * above each function has its arguments in the order of `args`.
 */
#include "vcl-lite/vcl_machine.h"

#include <math.h>

/* --- text --- */

static inline bool
vcl_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void
vcl_skip_blanks(struct slice *s)
{
    while (s->len > 0 && vcl_is_blank(s->ptr[0]))
        *s = slice_of(s->ptr + 1, s->len - 1);
}

struct slice
vcl_trim(struct slice s)
{
    vcl_skip_blanks(&s);
    while (s.len > 0 && vcl_is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static bool
vcl_take_digit(struct slice *s, unsigned *digit)
{
    /* Without a sign: what is below '0' is large. */
    if (s->len == 0 || s->ptr[0] - (unsigned)'0' > 9)
        return false;
    *digit = (unsigned)(s->ptr[0] - '0');
    *s = slice_of(s->ptr + 1, s->len - 1);
    return true;
}

static bool
vcl_take(struct slice *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = slice_of(s->ptr + 1, s->len - 1);
    return true;
}

/* RFC 8941 3.3: 15 digits, or 12 before a point. */
bool
vcl_number_parse(struct slice *s, struct vcl_number *out)
{
    struct vcl_number n = {.value = 0};
    unsigned digit, thousandths = 0, weight = 100;

    vcl_skip_blanks(s);
    n.negative = vcl_take(s, '-');
    for (; vcl_take_digit(s, &digit); n.digits++) {
        /* Refused and not cut: a longer number would be another one. */
        if (n.digits == 15)
            return false;
        n.whole = n.whole * 10 + digit;
    }
    n.has_point = vcl_take(s, '.');
    if (n.has_point) {
        for (; vcl_take_digit(s, &digit); weight /= 10) {
            /* Behind the third digit the weight is 0: they are read and do not count. */
            thousandths += digit * weight;
            n.fraction_digits++;
        }
    }
    if (n.digits + n.fraction_digits == 0 || (n.has_point && n.digits > 12))
        return false;
    vcl_skip_blanks(s);
    /* Whole thousandths, divided once: exact to the last digit that counts. */
    n.value = n.has_point ? (double)(n.whole * 1000 + thousandths) / 1000 : (double)n.whole;
    if (n.negative) {
        n.value = -n.value;
        n.whole = -n.whole;
    }
    *out = n;
    return true;
}

/* 1 to 12 digits, 1 to 3 behind a point */
static bool
vcl_number_is_strict(const struct vcl_number *n)
{
    return n->digits > 0 && (!n->has_point || (n->fraction_digits - 1 < 3));
}

/* --- INT --- */

static bool
vcl_integer_of_text(struct slice s, int64_t *out)
{
    struct vcl_number n;

    if (!vcl_number_parse(&s, &n) || s.len > 0 || n.value != (double)n.whole)
        return false; /* "1.0" is one, "1.5" is none */
    *out = n.whole;
    return true;
}

static bool
vcl_integer_of_real(double d, int64_t *out)
{
    /* NaN, too: converting it would be undefined. */
    if (!(fabs(d) <= (double)VCL_INT_MAX))
        return false;
    *out = (int64_t)d;
    return true;
}

/* s, fallback, bool, bytes, duration, real, time */
int
vcl_std_integer(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    bool ok = true;

    /* A bit for each argument; bit 1 is the fallback. */
    if (vcl_std_one(r, "integer", present, 0x7d) < 0)
        return TERR_POLICY;
    if ((present & 0x01) != 0)
        ok = vcl_integer_of_text(vcl_value_slice(&args[0]), &out->i);
    else if ((present & 0x04) != 0)
        out->i = args[2].i != 0;
    else if ((present & 0x08) != 0)
        out->i = args[3].i;
    else
        ok = vcl_integer_of_real(args[(present & 0x10) != 0   ? 4
                                      : (present & 0x20) != 0 ? 5
                                                              : 6]
                                     .r,
            &out->i);
    return ok ? 0 : vcl_std_fallback(r, "integer", args, present, out);
}

/* r or t, fallback */
int
vcl_std_rounded(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    (void)r;
    (void)present;
    /* The fallback has to be given: these never fail. */
    if (!vcl_integer_of_real(round(args[0].r), &out->i))
        out->i = args[1].i;
    return 0;
}

/* A REAL and a TIME are the same number. */
int
vcl_std_seconds(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    (void)r;
    (void)present;
    *out = args[isfinite(args[0].r) ? 0 : 1];
    return 0;
}

/* --- REAL --- */

static bool
vcl_real_of_text(struct slice s, double *out)
{
    struct vcl_number n;

    /* A rest behind the number means that it was none. */
    if (!vcl_number_parse(&s, &n) || s.len > 0 || n.digits > 12)
        return false;
    *out = n.value;
    return true;
}

/* s, fallback, integer, bool, bytes, duration, time */
int
vcl_std_real(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    bool ok = true;

    if (vcl_std_one(r, "real", present, 0x7d) < 0)
        return TERR_POLICY;
    if ((present & 0x01) != 0)
        ok = vcl_real_of_text(vcl_value_slice(&args[0]), &out->r);
    else if ((present & 0x04) != 0)
        out->r = (double)args[2].i;
    else if ((present & 0x08) != 0)
        out->r = args[3].i != 0;
    else if ((present & 0x10) != 0)
        out->r = (double)args[4].i;
    else
        out->r = args[(present & 0x20) != 0 ? 5 : 6].r;
    return ok ? 0 : vcl_std_fallback(r, "real", args, present, out);
}

/* --- DURATION --- */

/* A duration without its unit is none. */
static bool
vcl_duration_of_text(struct slice s, double *out)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400.0},
        {"y", 365 * 86400.0}};
    struct vcl_number n;

    if (!vcl_number_parse(&s, &n))
        return false;
    s = vcl_trim(s);
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        /* In this case: M is not m. */
        if (slice_eq(s, slice_str(units[i].name))) {
            *out = n.value * units[i].seconds;
            return true;
        }
    }
    return false;
}

/* s, fallback, real, integer */
int
vcl_std_duration(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    bool ok = true;

    if (vcl_std_one(r, "duration", present, 0x0d) < 0)
        return TERR_POLICY;
    if ((present & 0x01) != 0)
        ok = vcl_duration_of_text(vcl_value_slice(&args[0]), &out->r);
    else
        out->r = (present & 0x04) != 0 ? args[2].r : (double)args[3].i;
    return ok ? 0 : vcl_std_fallback(r, "duration", args, present, out);
}

/* --- BYTES --- */

static bool
vcl_bytes_of_real(double d, int64_t *out)
{
    if (!(d >= 0 && d < 0x1p63))
        return false;
    *out = (int64_t)d;
    return true;
}

/* The unit is k, m, g, t or p in either case, and perhaps a b; or b alone. */
static bool
vcl_bytes_of_text(struct slice s, int64_t *out)
{
    static const char units[] = "kmgtp";
    const char *unit = NULL;
    double factor = 1;
    struct vcl_number n;

    if (!vcl_number_parse(&s, &n) || !vcl_number_is_strict(&n))
        return false;
    s = vcl_trim(s);
    if (s.len > 0)
        unit = memchr(units, s.ptr[0] | 0x20, sizeof(units) - 1);
    if (unit != NULL) {
        s = slice_of(s.ptr + 1, s.len - 1);
        factor = ldexp(1, 10 * (int)(unit - units + 1));
        /* Half a byte. */
    } else if (n.value != floor(n.value)) {
        return false;
    }
    if (s.len > 1 || (s.len == 1 && (s.ptr[0] | 0x20) != 'b'))
        return false;
    return vcl_bytes_of_real(n.value * factor, out);
}

/* s, fallback, real, integer */
int
vcl_std_bytes(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    bool ok;

    if (vcl_std_one(r, "bytes", present, 0x0d) < 0)
        return TERR_POLICY;
    if ((present & 0x01) != 0)
        ok = vcl_bytes_of_text(vcl_value_slice(&args[0]), &out->i);
    else if ((present & 0x04) != 0)
        ok = vcl_bytes_of_real(args[2].r, &out->i);
    else
        /* There are no negative BYTES. */
        ok = (out->i = args[3].i) >= 0;
    return ok ? 0 : vcl_std_fallback(r, "bytes", args, present, out);
}
