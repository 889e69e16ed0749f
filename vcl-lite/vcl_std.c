/* vcl_std.c -- functions that need nothing of the host: strings, chance; and the table of all. */
#include "vcl-lite/vcl_machine.h"

#include <math.h>

#include "daemon/base/obj.h"

enum {
    /* More parameters than usual URLs have.  A URL with more is left as it is, so that no client
     * makes us sort for long.  The sort is quadratic. */
    VCL_QUERY_PARAMS_MAX = 256,
    VCL_COLLECT_MAX = 1000, /* fields of a name; a message has fewer */
};

int
vcl_std_one(struct vcl_run *r, const char *name, unsigned present, unsigned sources)
{
    int n = __builtin_popcount(present & sources);

    if (n == 1)
        return 0;
    return vcl_run_failf(r, "std.%s: %s arguments", name, n > 1 ? "too many" : "not enough");
}

int
vcl_std_fallback(struct vcl_run *r, const char *name, const struct vcl_value *args,
    unsigned present, struct vcl_value *out)
{
    /* Without one Varnish fails the run, too. */
    if ((present & 2) == 0)
        return vcl_run_failf(r, "std.%s: conversion failed, and there is no fallback", name);
    *out = args[1];
    return 0;
}

/* --- strings --- */

static int
vcl_std_toupper(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    (void)present;
    *out = args[0];
    return vcl_fold_case(r, true, out);
}

static int
vcl_std_tolower(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    (void)present;
    *out = args[0];
    return vcl_fold_case(r, false, out);
}

/* NULL: it stands for itself. */
static const char *
vcl_html_entity(char c)
{
    return c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
           /* &apos; is not HTML 4. */
           : c == '\'' ? "&#39;"
                       : NULL;
}

static int
vcl_tarn_html(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    size_t more = 0;
    char *p;

    (void)present;
    *out = args[0];
    for (size_t i = 0; i < args[0].len; i++) {
        const char *entity = vcl_html_entity(args[0].s[i]);

        more += entity != NULL ? strlen(entity) - 1 : 0;
    }
    /* Most texts have none of them: they stay where they are. */
    if (more == 0)
        return 0;
    p = vcl_run_alloc(r, args[0].len + more);
    if (p == NULL)
        return TERR_POLICY;
    *out = vcl_value_string(slice_of(p, args[0].len + more));
    for (size_t i = 0; i < args[0].len; i++) {
        const char *entity = vcl_html_entity(args[0].s[i]);

        if (entity == NULL)
            *p++ = args[0].s[i];
        else
            p = mempcpy(p, entity, strlen(entity));
    }
    return 0;
}

static int
vcl_std_strstr(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    const char *at;

    (void)r;
    (void)present;
    if (args[0].s == NULL || args[1].s == NULL)
        return 0; /* unset */
    at = memmem(args[0].s, args[0].len, args[1].s, args[1].len);
    if (at != NULL)
        /* Borrowed: it lies in the subject, which lives as long as the run. */
        *out = vcl_value_string(slice_of(at, args[0].len - (size_t)(at - args[0].s)));
    return 0;
}

static int
vcl_std_fnmatch(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    unsigned flags = 0;

    (void)present;
    if (args[0].s == NULL || args[1].s == NULL)
        return vcl_run_failf(
            r, "std.fnmatch: the %s is unset", args[0].s == NULL ? "pattern" : "subject");
    flags |= args[2].i != 0 ? VCL_GLOB_PATHNAME : 0;
    flags |= args[3].i != 0 ? VCL_GLOB_NOESCAPE : 0;
    flags |= args[4].i != 0 ? VCL_GLOB_PERIOD : 0;
    out->i = vcl_glob(vcl_value_slice(&args[0]), vcl_value_slice(&args[1]), flags);
    return 0;
}

/* --- querysort --- */

/* As Varnish compares: two parameters are equal if one begins with the other. */
static int
vcl_query_compare(struct slice a, struct slice b)
{
    return memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
}

/* Sorted in, from behind, so that equal ones keep their order.  Returns how many there are; too
 * many: VCL_QUERY_PARAMS_MAX + 1. */
static unsigned
vcl_query_split(struct slice query, struct slice params[VCL_QUERY_PARAMS_MAX])
{
    const char *p = query.ptr, *end = query.ptr + query.len;
    unsigned n = 0;

    while (p < end) {
        const char *amp = memchr(p, '&', (size_t)(end - p));
        struct slice param = slice_of(p, (size_t)((amp != NULL ? amp : end) - p));
        unsigned at = n;

        p += param.len + 1;
        if (param.len == 0)
            continue; /* "a&&b" */
        /* More than there are places: the caller leaves the URL as it is. */
        if (n == VCL_QUERY_PARAMS_MAX)
            return n + 1;
        for (; at > 0 && vcl_query_compare(param, params[at - 1]) < 0; at--)
            params[at] = params[at - 1];
        params[at] = param;
        n++;
    }
    return n;
}

static bool
vcl_query_is_sorted(struct slice query, const struct slice *params, unsigned n)
{
    const char *p = query.ptr;

    for (unsigned i = 0; i < n; i++) {
        /* By place, not by bytes: sorting has moved none of them. */
        if (params[i].ptr != p)
            return false;
        p += params[i].len + 1;
    }
    /* Empty parameters, which are left out, show in the length. */
    return p == query.ptr + query.len + (n > 0);
}

static int
vcl_std_querysort(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    struct slice params[VCL_QUERY_PARAMS_MAX], url = vcl_value_slice(&args[0]), query;
    const char *mark = url.len > 0 ? memchr(url.ptr, '?', url.len) : NULL;
    size_t path;
    unsigned n;
    char *p, *at;

    (void)present;
    *out = args[0];
    if (mark == NULL)
        return 0;
    path = (size_t)(mark - url.ptr) + 1;
    query = slice_of(url.ptr + path, url.len - path);
    n = vcl_query_split(query, params);
    /* As it is written: a copy would cost for nothing. */
    if (n > VCL_QUERY_PARAMS_MAX || vcl_query_is_sorted(query, params, n))
        return 0;
    p = at = vcl_run_alloc(r, url.len);
    if (p == NULL)
        return TERR_POLICY;
    at = mempcpy(at, url.ptr, path);
    for (unsigned i = 0; i < n; i++) {
        /* Between two: behind the last there may be no room for one. */
        if (i > 0)
            *at++ = '&';
        at = mempcpy(at, params[i].ptr, params[i].len);
    }
    tassert((size_t)(at - p) <= url.len);
    *out = vcl_value_string(slice_of(p, (size_t)(at - p)));
    return 0;
}

/* --- several fields of a name become one --- */

/* All fields of the name into `to`, or, when that is NULL, only their length.  *n: how many. */
static size_t
vcl_collect_into(struct vcl_run *r, enum vcl_http http, const struct vcl_name *name,
    struct slice sep, char *to, unsigned *n)
{
    size_t len = 0;

    for (*n = 0; *n < VCL_COLLECT_MAX; ++*n) {
        struct slice s = r->host->nth_field(r, http, name, *n);

        if (s.ptr == NULL)
            break;
        /* The same walk twice: once for the length, once for the bytes. */
        if (*n > 0 && to != NULL)
            memcpy(to + len, sep.ptr, sep.len);
        len += *n > 0 ? sep.len : 0;
        if (s.len > 0 && to != NULL)
            memcpy(to + len, s.ptr, s.len);
        len += s.len;
    }
    return len;
}

/* A HEADER argument is the message, and above it the number of the name. */
static int
vcl_std_collect(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    enum vcl_http http = (enum vcl_http)(args[0].i & 0xff);
    const struct vcl_name *name = &r->vcl->names[args[0].i >> 8];
    struct slice sep = args[1].len > 0 ? vcl_value_slice(&args[1]) : SLICE_LIT(", ");
    unsigned n;
    size_t len;
    char *p;

    (void)present;
    (void)out;
    /* Stored responses are shared by all requests. */
    if (http == VCL_HTTP_OBJ || http == VCL_HTTP_OBJ_STALE || http == VCL_HTTP_REQ_TOP)
        return vcl_run_fail(r, "std.collect: fields of this message cannot be changed");
    if (!vcl_is_printable(sep))
        return vcl_run_fail(r, "std.collect: the separator has control characters");
    /* Twice: a length first, so that the workspace is charged once. */
    len = vcl_collect_into(r, http, name, sep, NULL, &n);
    /* One field is joined already. */
    if (n < 2)
        return 0;
    p = vcl_run_alloc(r, len);
    if (p == NULL)
        return TERR_POLICY;
    vcl_collect_into(r, http, name, sep, p, &n);
    if (!vcl_is_printable(slice_of(p, len))) /* what is set is valid, whatever the host had */
        return vcl_run_fail(r, "std.collect: a field has control characters");
    return vcl_host_said(r, r->host->set_field(r, http, name, slice_of(p, len)));
}

/* --- chance, rounding --- */

static int
vcl_std_random(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    double share = (double)(r->random(r) >> 11) * 0x1p-53; /* 53 bits: below 1 */

    (void)present;
    out->r = args[0].r + (args[1].r - args[0].r) * share;
    /* Their difference may be more than a double has. */
    if (!isfinite(out->r))
        return vcl_run_fail(r, "std.random: the bounds are too far from each other");
    return 0;
}

static int
vcl_std_round(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    (void)r;
    (void)present;
    out->r = round(args[0].r); /* half away from zero */
    return 0;
}

/* --- the table of functions --- */

static vcl_std_fn *const vcl_std_fns[VCL_FN_COUNT] = {
    [VCL_FN_STD_TOUPPER] = vcl_std_toupper,
    [VCL_FN_STD_TOLOWER] = vcl_std_tolower,
    [VCL_FN_STD_QUERYSORT] = vcl_std_querysort,
    [VCL_FN_STD_STRSTR] = vcl_std_strstr,
    [VCL_FN_STD_FNMATCH] = vcl_std_fnmatch,
    [VCL_FN_STD_INTEGER] = vcl_std_integer,
    [VCL_FN_STD_REAL] = vcl_std_real,
    [VCL_FN_STD_DURATION] = vcl_std_duration,
    [VCL_FN_STD_BYTES] = vcl_std_bytes,
    [VCL_FN_STD_TIME] = vcl_std_time,
    [VCL_FN_STD_REAL2INTEGER] = vcl_std_rounded,
    [VCL_FN_STD_REAL2TIME] = vcl_std_seconds,
    [VCL_FN_STD_TIME2INTEGER] = vcl_std_rounded,
    [VCL_FN_STD_TIME2REAL] = vcl_std_seconds,
    [VCL_FN_STD_IP] = vcl_std_ip,
    [VCL_FN_STD_PORT] = vcl_std_port,
    [VCL_FN_STD_RANDOM] = vcl_std_random,
    [VCL_FN_STD_ROUND] = vcl_std_round,
    [VCL_FN_STD_STRFTIME] = vcl_std_strftime,
    [VCL_FN_STD_COLLECT] = vcl_std_collect,
    [VCL_FN_TARN_HTML] = vcl_tarn_html,
    [VCL_FN_COOKIE_FORMAT_DATE] = vcl_cookie_date,
    [VCL_FN_COOKIE_FORMAT_RFC1123] = vcl_cookie_date,
};

int
vcl_std_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
    struct vcl_value *out)
{
    tassert(fn < VCL_FN_COUNT);
    /* They have a state, so a way of their own. */
    if (fn >= VCL_FN_COOKIE_PARSE && fn <= VCL_FN_COOKIE_GET_STRING)
        return vcl_cookie_call(r, fn, args, out);
    tassert(vcl_std_fns[fn] != NULL);
    return vcl_std_fns[fn](r, args, present, out);
}
