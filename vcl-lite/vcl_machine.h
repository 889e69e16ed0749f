/* vcl_machine.h -- what the files of the machine share: failing, strings, functions.
 *
 *   vcl_run.c      the loop: where to go next, messages, effects
 *   vcl_value.c    conversions, arithmetic, comparison
 *   vcl_string.c   strings that are made: numbers, dates, concatenation, regsub
 *   vcl_std*.c     the functions that need nothing of the host
 *   vcl_cookie.c   those of the module cookie
 *
 * Each returns 0, or TERR_* with run->why set.  For vcl-lite/ only.
 */
#ifndef TARN_VCL_MACHINE_H
#define TARN_VCL_MACHINE_H

#include "daemon/base/arena.h"
#include "daemon/base/terr.h"
#include "vcl-lite/vcl_code.h"
#include "vcl-lite/vcl_func_table.h"

#define VCL_INT_MAX INT64_C(999999999999999) /* RFC 8941 3.3.1 */

enum {
    VCL_DATE_BYTES = 29,  /* "Sun, 06 Nov 1994 08:49:37 GMT" */
    VCL_NUMBER_BYTES = 32 /* "-999999999999.999" and less */
};

/* TERR_POLICY; `why` is a literal or lies in the run's arena. */
int vcl_run_fail(struct vcl_run *r, const char *why);
int vcl_run_failf(struct vcl_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What a function of the host returned; why it failed, if it did not say. */
int vcl_host_said(struct vcl_run *r, int err);
/* Bytes of the run's workspace; NULL: the run failed. */
char *vcl_run_alloc(struct vcl_run *r, size_t size);

/* As slices and back; an unset string has .ptr NULL. */
static inline struct slice
vcl_value_slice(const struct vcl_value *v)
{
    return slice_of(v->s, v->len);
}

static inline struct vcl_value
vcl_value_string(struct slice s)
{
    return (struct vcl_value){.s = s.ptr, .len = s.ptr == NULL ? 0 : s.len};
}

/* --- vcl_value.c: op is an enum vcl_op of the kind --- */

int vcl_convert(struct vcl_run *r, unsigned op, struct vcl_value *v);
/* left = left op right */
int vcl_arith_int(struct vcl_run *r, unsigned op, int64_t *left, int64_t right);
int vcl_arith_real(struct vcl_run *r, unsigned op, double *left, double right);
/* <0, 0, >0; unset strings are less than all others. */
int vcl_compare_strings(struct slice a, struct slice b);
bool vcl_compare_real(enum vcl_cmp cmp, double a, double b);
bool vcl_compare_ip(const struct vcl_ip *a, const struct vcl_ip *b);

/* --- vcl_string.c --- */

bool vcl_is_printable(struct slice s); /* no CTL but HT: may stand in a field */
/* Bytes written; 0: the time is outside of the years 0 to 9999. */
size_t vcl_format_date(double t, char out[VCL_DATE_BYTES]);
size_t vcl_format_int(int64_t i, char out[VCL_NUMBER_BYTES]);
/* As %.3f; below 1e12, which vcl_convert() sees to. */
size_t vcl_format_real(double d, char out[VCL_NUMBER_BYTES]);
size_t vcl_format_ip(const struct vcl_ip *ip, char out[64]);
int vcl_string_copy(struct vcl_run *r, struct slice text, struct vcl_value *out);
int vcl_concat(struct vcl_run *r, const struct vcl_value *parts, unsigned n, struct vcl_value *out);
int vcl_fold_case(struct vcl_run *r, bool upper, struct vcl_value *v);
int vcl_regsub(struct vcl_run *r, const struct regex *re, bool all, struct slice subject,
    struct slice with, struct vcl_value *out);

/* --- vcl_std.c --- */

/* A VCL_PURE function; `out` is zeros. */
int vcl_std_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
    struct vcl_value *out);

/* What vcl_std.c calls: the rows of VCL_FUNC_TABLE tell what stands where in args. */
typedef int vcl_std_fn(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out);
vcl_std_fn vcl_std_integer, vcl_std_real, vcl_std_duration, vcl_std_bytes; /* vcl_std_number.c */
vcl_std_fn vcl_std_rounded, vcl_std_seconds;                               /* the same */
vcl_std_fn vcl_std_time, vcl_std_strftime;                                 /* vcl_std_time.c */
vcl_std_fn vcl_std_ip, vcl_std_port;                                       /* vcl_std_ip.c */
vcl_std_fn vcl_cookie_date;                                                /* vcl_cookie.c */

/* vcl_std_ip.c: address, address:port, address port, [address]:port, [address] port; numeric. */
bool vcl_endpoint_parse(struct slice s, struct vcl_ip *out);

/* vcl_cookie.c: the functions of cookie that work on the task's cookies. */
int vcl_cookie_call(
    struct vcl_run *r, unsigned fn, const struct vcl_value *args, struct vcl_value *out);

/* Exactly one of the arguments in the mask `sources` must be there. */
int vcl_std_one(struct vcl_run *r, const char *name, unsigned present, unsigned sources);
/* The conversion failed: argument 1 is given back, or the run fails. */
int vcl_std_fallback(struct vcl_run *r, const char *name, const struct vcl_value *args,
    unsigned present, struct vcl_value *out);

/* A number as RFC 8941 3.3 has it, with the lenience of Varnish: blanks around it, and a fraction
 * that is empty or longer than three digits; then three count. */
struct vcl_number {
    double value;
    int64_t whole;
    unsigned digits, fraction_digits; /* before and behind the point */
    bool negative, has_point;
};
/* Moves *s behind it and the blanks that follow. */
bool vcl_number_parse(struct slice *s, struct vcl_number *out);
struct slice vcl_trim(struct slice s); /* without blanks around it */

/* fnmatch(3) of POSIX, in the C locale, in time that is at most the product of the lengths. */
enum {
    VCL_GLOB_PATHNAME = 1,
    VCL_GLOB_NOESCAPE = 2,
    VCL_GLOB_PERIOD = 4
};
bool vcl_glob(struct slice pattern, struct slice subject, unsigned flags);

#endif
