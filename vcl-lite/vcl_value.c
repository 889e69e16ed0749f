/* vcl_value.c -- conversions, arithmetic and comparison of values.
 *
 * Values have no type at run time: the instruction says what its operands are, and the checker
 * has proven it.  An operation that has no result (overflow, division by zero) fails the run, as
 * in Varnish.
 */
#include "vcl-lite/vcl_machine.h"

#include <math.h>

#include "daemon/base/obj.h"

/* --- to strings --- */

static int
vcl_int_string(struct vcl_run *r, struct vcl_value *v)
{
    char text[VCL_NUMBER_BYTES];

    if (v->i > VCL_INT_MAX || v->i < -VCL_INT_MAX) /* BYTES may be; so Varnish has it */
        return vcl_run_failf(r, "%lld is too large to be made a string", (long long)v->i);
    /* Into the run's memory: `text` is the stack's. */
    return vcl_string_copy(r, slice_of(text, vcl_format_int(v->i, text)), v);
}

static int
vcl_real_string(struct vcl_run *r, struct vcl_value *v)
{
    char text[VCL_NUMBER_BYTES];

    if (!(fabs(v->r) < 1e12)) /* RFC 8941 3.3.2: twelve digits before the point */
        return vcl_run_failf(r, "%.3g is too large to be made a string", v->r);
    return vcl_string_copy(r, slice_of(text, vcl_format_real(v->r, text)), v);
}

static int
vcl_time_string(struct vcl_run *r, struct vcl_value *v)
{
    char text[VCL_DATE_BYTES];
    size_t len = vcl_format_date(v->r, text);

    /* A year beyond four digits has no form in HTTP (RFC 9110 5.6.7). */
    if (len == 0)
        return vcl_run_failf(r, "a TIME of %.3g seconds since 1970 has no date", v->r);
    return vcl_string_copy(r, slice_of(text, len), v);
}

static int
vcl_ip_string(struct vcl_run *r, struct vcl_value *v)
{
    char text[64];

    if (v->ip != NULL)
        return vcl_string_copy(r, slice_of(text, vcl_format_ip(v->ip, text)), v);
    /* No address is an unset text. */
    *v = vcl_value_string(slice_of(NULL, 0));
    return 0;
}

static void
vcl_name_string(struct slice (*name)(const void *), struct vcl_value *v)
{
    /* `none` has no name. */
    *v = vcl_value_string(v->p == NULL ? slice_of(NULL, 0) : name(v->p));
}

/* --- numbers --- */

static int
vcl_int_out(struct vcl_run *r)
{
    return vcl_run_fail(r, "the result of an INT operation is outside of -999999999999999 to "
                           "999999999999999");
}

static int
vcl_round_bytes(struct vcl_run *r, struct vcl_value *v)
{
    double whole = round(v->r);

    /* So written NaN is refused, too. */
    if (!(whole >= 0 && whole < 0x1p63))
        return vcl_run_failf(r, "%.3g is no number of BYTES", v->r);
    v->i = (int64_t)whole;
    return 0;
}

/* In place: *v is the operand and becomes the result. */
int
vcl_convert(struct vcl_run *r, unsigned op, struct vcl_value *v)
{
    switch (op) {
    case VCL_OP_INT_STR:
        return vcl_int_string(r, v);
    case VCL_OP_REAL_STR:
        return vcl_real_string(r, v);
    case VCL_OP_TIME_STR:
        return vcl_time_string(r, v);
    case VCL_OP_BOOL_STR:
        *v = vcl_value_string(v->i != 0 ? SLICE_LIT("true") : SLICE_LIT("false"));
        return 0;
    case VCL_OP_IP_STR:
        return vcl_ip_string(r, v);
    case VCL_OP_BACKEND_STR:
        vcl_name_string(r->host->backend_name, v);
        return 0;
    case VCL_OP_STORAGE_STR:
        vcl_name_string(r->host->storage_name, v);
        return 0;
    case VCL_OP_LOWER:
    case VCL_OP_UPPER:
        return vcl_fold_case(r, op == VCL_OP_UPPER, v);
    case VCL_OP_NEG_INT:
        /* A product, for its test of the range. */
        return vcl_arith_int(r, VCL_OP_MUL_INT, &v->i, -1);
    case VCL_OP_NEG_REAL:
        v->r = -v->r;
        return 0;
    case VCL_OP_ROUND_BYTES:
        return vcl_round_bytes(r, v);
    default:
        TUNREACHABLE("not a conversion");
    }
}

/* BYTES have a larger range than INT, but one that both keep is that of 64 bits. */
int
vcl_arith_int(struct vcl_run *r, unsigned op, int64_t *left, int64_t right)
{
    bool over = false;

    switch (op) {
    case VCL_OP_ADD_INT:
        over = __builtin_add_overflow(*left, right, left);
        break;
    case VCL_OP_SUB_INT:
        over = __builtin_sub_overflow(*left, right, left);
        break;
    case VCL_OP_MUL_INT:
        over = __builtin_mul_overflow(*left, right, left);
        break;
    case VCL_OP_DIV_INT:
    case VCL_OP_MOD_INT:
        if (right == 0)
            return vcl_run_fail(r, "INT division by zero");
        if (right == -1) /* INT64_MIN / -1 traps */
            return vcl_arith_int(r, VCL_OP_MUL_INT, left, op == VCL_OP_DIV_INT ? -1 : 0);
        *left = op == VCL_OP_DIV_INT ? *left / right : *left % right;
        break;
    default:
        TUNREACHABLE("no INT operation");
    }
    /* The range of INT, which every result keeps; 64 bits alone would let a value in that no
     * literal can say. */
    if (over || *left > VCL_INT_MAX || *left < -VCL_INT_MAX)
        return vcl_int_out(r);
    return 0;
}

int
vcl_arith_real(struct vcl_run *r, unsigned op, double *left, double right)
{
    switch (op) {
    case VCL_OP_ADD_REAL:
        *left += right;
        break;
    case VCL_OP_SUB_REAL:
        *left -= right;
        break;
    case VCL_OP_MUL_REAL:
        *left *= right;
        break;
    case VCL_OP_DIV_REAL:
        if (right == 0)
            return vcl_run_fail(r, "division by zero");
        *left /= right;
        break;
    default:
        TUNREACHABLE("no REAL operation");
    }
    /* Infinity has no text, and no comparison that says what was meant. */
    if (!isfinite(*left))
        return vcl_run_fail(r, "the result of a REAL operation is too large");
    return 0;
}

/* --- comparison --- */

int
vcl_compare_strings(struct slice a, struct slice b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int diff;

    if (a.ptr == NULL || b.ptr == NULL)
        return 1; /* as Varnish has it: > and >= hold, whichever of them is unset */
    /* memcmp(3) of NULL is undefined, even for no bytes. */
    diff = least == 0 ? 0 : memcmp(a.ptr, b.ptr, least);
    return diff != 0 ? diff : (a.len > b.len) - (a.len < b.len);
}

bool
vcl_compare_real(enum vcl_cmp cmp, double a, double b)
{
    switch (cmp) {
    case VCL_CMP_EQ:
        return a == b;
    case VCL_CMP_NE:
        return a != b;
    case VCL_CMP_LT:
        return a < b;
    case VCL_CMP_GT:
        return a > b;
    case VCL_CMP_LE:
        return a <= b;
    case VCL_CMP_GE:
        return a >= b;
    }
    TUNREACHABLE("comparison");
}

/* The same address?  Ports do not count. */
bool
vcl_compare_ip(const struct vcl_ip *a, const struct vcl_ip *b)
{
    /* Two that are missing are equal. */
    if (a == NULL || b == NULL)
        return a == b;
    return a->is_v4 == b->is_v4 && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}
