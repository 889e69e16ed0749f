/* vcl_cookie.c -- import cookie: the cookies of a request or fetch, as vmod_cookie(3) has them.
 *
 * The state is the task's: it begins with nothing, outlives restarts and retries, and the backend's
 * side has its own.  All of it lies in the run's arena, names and values too, so that it may outlive
 * the head that was parsed.  A removed cookie leaves its bytes there; the workspace's limit bounds
 * what one run can take. */
#include "vcl-lite/vcl_machine.h"

#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"

enum {
    COOKIE_BUCKETS = 64 /* a head of 64 KiB can name 16,000 cookies: 256 in each, no more */
};

struct cookie {
    struct slice name, value;
    struct cookie *next;   /* in the order in which they came */
    struct cookie *beside; /* in the bucket */
    uint32_t hash;
    bool named; /* by the list of keep() or filter(), while that runs */
};

struct vcl_cookies {
    struct cookie *first, **last;
    struct cookie *buckets[COOKIE_BUCKETS];
};

static void
cookie_clean(struct vcl_cookies *all)
{
    *all = (struct vcl_cookies){.first = NULL};
    all->last = &all->first;
}

/* The task's, made when first needed; NULL: the run failed. */
static struct vcl_cookies *
cookie_all(struct vcl_run *r)
{
    struct vcl_cookies **at = r->host->cookies(r), *all = *at;

    if (all == NULL && (all = (void *)vcl_run_alloc(r, sizeof(*all))) != NULL) {
        cookie_clean(all);
        /* Only when it is whole. */
        *at = all;
    }
    return all;
}

static uint32_t
cookie_hash(struct slice name)
{
    return (uint32_t)hash_plain(name.ptr, name.len);
}

static struct cookie *
cookie_find(const struct vcl_cookies *all, struct slice name)
{
    uint32_t hash = cookie_hash(name);
    struct cookie *c = all->buckets[hash % COOKIE_BUCKETS];

    while (c != NULL && (c->hash != hash || !slice_eq(c->name, name)))
        c = c->beside;
    return c;
}

/* Both texts stay where they are.  As in Varnish, one that is empty sets nothing. */
static int
cookie_put(struct vcl_run *r, struct vcl_cookies *all, struct slice name, struct slice value)
{
    struct cookie *c, **bucket;

    if (name.len == 0 || value.len == 0)
        return 0;
    c = cookie_find(all, name);
    if (c != NULL) {
        /* Its place stays: as in Varnish, one that is set again does not move to the end. */
        c->value = value;
        return 0;
    }
    c = (void *)vcl_run_alloc(r, sizeof(*c));
    if (c == NULL)
        return TERR_POLICY;
    *c = (struct cookie){.name = name, .value = value, .hash = cookie_hash(name)};
    bucket = &all->buckets[c->hash % COOKIE_BUCKETS];
    c->beside = *bucket;
    /* Hashed: a head that is all cookies must not cost their square. */
    *bucket = c;
    *all->last = c;
    all->last = &c->next;
    return 0;
}

/* Builds the lists again of what `leaves` says is to stay.  <0: the run failed.  One pass over
 * all of them.  Removing one by one from singly linked lists would cost their square. */
static int
cookie_sweep(struct vcl_run *r, struct vcl_cookies *all,
    int (*leaves)(struct vcl_run *r, const struct cookie *c, const void *ctx), const void *ctx)
{
    struct cookie *c = all->first, *next;

    cookie_clean(all);
    for (; c != NULL; c = next) {
        struct cookie **bucket = &all->buckets[c->hash % COOKIE_BUCKETS];
        int rc = leaves(r, c, ctx);

        /* What was not looked at yet is lost; the run fails, and no other sub sees the list. */
        if (rc < 0)
            return rc;
        next = c->next;
        if (rc > 0)
            continue;
        /* For the next list. */
        c->named = false;
        c->next = NULL;
        c->beside = *bucket;
        *bucket = c;
        *all->last = c;
        all->last = &c->next;
    }
    return 0;
}

static bool
cookie_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct slice
cookie_skip_space(struct slice s)
{
    while (s.len > 0 && cookie_is_space(s.ptr[0]))
        s = slice_of(s.ptr + 1, s.len - 1);
    return s;
}

/* Up to the byte, without it; *s begins behind it then.  False: it is not there, and all was taken. */
static bool
cookie_take(struct slice *s, char end, struct slice *out)
{
    const char *at = s->len > 0 ? memchr(s->ptr, end, s->len) : NULL;

    *out = *s;
    if (at == NULL) {
        /* Empty at its end, so that loops over it stop. */
        *s = slice_of(s->ptr + s->len, 0);
        return false;
    }
    out->len = (size_t)(at - s->ptr);
    *s = slice_of(at + 1, s->len - out->len - 1);
    return true;
}

/* "a=1; b=2".  As Varnish: a name ends at '=', so one without a value begins the next one's name. */
static int
cookie_parse(struct vcl_run *r, struct vcl_cookies *all, const struct vcl_value *args)
{
    struct vcl_value copy;
    struct slice s, name, value;
    int err;

    if (args[0].len == 0)
        return 0; /* what was there stays, as in Varnish */
    err = vcl_string_copy(r, vcl_value_slice(&args[0]), &copy);
    if (err < 0)
        return err;
    /* As in Varnish: what was parsed before goes, also what was set by hand. */
    cookie_clean(all);
    s = vcl_value_slice(&copy);
    while (err == 0 && s.len > 0) {
        s = cookie_skip_space(s);
        /* Without = nothing more can follow. */
        if (!cookie_take(&s, '=', &name))
            break;
        cookie_take(&s, ';', &value);
        err = cookie_put(r, all, name, value);
    }
    return err;
}

static int
cookie_set(struct vcl_run *r, struct vcl_cookies *all, const struct vcl_value *args)
{
    struct vcl_value name, value;
    /* Copied: the values of a run may lie in a head that is replaced. */
    int err = vcl_string_copy(r, vcl_value_slice(&args[0]), &name);

    if (err == 0)
        err = vcl_string_copy(r, vcl_value_slice(&args[1]), &value);
    return err < 0 ? err : cookie_put(r, all, vcl_value_slice(&name), vcl_value_slice(&value));
}

static int
cookie_is(struct vcl_run *r, const struct cookie *c, const void *ctx)
{
    (void)r;
    return c == ctx;
}

static int
cookie_delete(struct vcl_run *r, struct vcl_cookies *all, struct slice name)
{
    const struct cookie *c = name.len > 0 ? cookie_find(all, name) : NULL;

    return c != NULL ? cookie_sweep(r, all, cookie_is, c) : 0;
}

static int
cookie_is_named(struct vcl_run *r, const struct cookie *c, const void *ctx)
{
    const bool *named = ctx;

    (void)r;
    return c->named == *named;
}

/* keep() and filter(): names with commas between them, blanks in front of each left out. */
static int
cookie_list(struct vcl_run *r, struct vcl_cookies *all, struct slice list, bool named_leave)
{
    struct slice name;

    while (list.len > 0) {
        struct cookie *c;

        list = cookie_skip_space(list);
        cookie_take(&list, ',', &name);
        c = name.len > 0 ? cookie_find(all, name) : NULL;
        if (c != NULL)
            /* Marked first, then swept: names and cookies are looked at once each. */
            c->named = true;
    }
    return cookie_sweep(r, all, cookie_is_named, &named_leave);
}

struct cookie_pattern {
    const struct regex *re;
    bool matching_leave;
};

static int
cookie_match(struct vcl_run *r, const struct cookie *c, const struct regex *re)
{
    int rc = regex_match(re, c->name);

    /* A limit of the library: no request matches for long. */
    if (rc < 0)
        vcl_run_fail(r, "a regular expression took too long: its match limit was reached");
    return rc;
}

static int
cookie_matches(struct vcl_run *r, const struct cookie *c, const void *ctx)
{
    const struct cookie_pattern *p = ctx;
    int rc = cookie_match(r, c, p->re);

    return rc < 0 ? rc : (rc > 0) == p->matching_leave;
}

static int
cookie_filter_re(
    struct vcl_run *r, struct vcl_cookies *all, const struct regex *re, bool matching_leave)
{
    struct cookie_pattern p = {.re = re, .matching_leave = matching_leave};

    return cookie_sweep(r, all, cookie_matches, &p);
}

static int
cookie_get_re(
    struct vcl_run *r, struct vcl_cookies *all, const struct regex *re, struct vcl_value *out)
{
    int rc = 0;

    /* The first that matches, in the order in which they came. */
    for (struct cookie *c = all->first; c != NULL && rc == 0; c = c->next) {
        rc = cookie_match(r, c, re);
        if (rc > 0)
            *out = vcl_value_string(c->value);
    }
    return rc < 0 ? rc : 0;
}

/* "a=1; b=2;" */
static int
cookie_get_string(struct vcl_run *r, struct vcl_cookies *all, struct vcl_value *out)
{
    size_t len = 0;
    char *p, *at;

    for (const struct cookie *c = all->first; c != NULL; c = c->next)
        len += c->name.len + c->value.len + 3; /* "=", "; " */
    *out = vcl_value_string(slice_of("", 0));
    /* Set, and empty, as in Varnish. */
    if (len == 0)
        return 0;
    p = at = vcl_run_alloc(r, len);
    if (p == NULL)
        return TERR_POLICY;
    for (const struct cookie *c = all->first; c != NULL; c = c->next) {
        at = mempcpy(at, c->name.ptr, c->name.len);
        *at++ = '=';
        at = mempcpy(at, c->value.ptr, c->value.len);
        at = mempcpy(at, "; ", 2);
    }
    *out = vcl_value_string(slice_of(p, len - 1)); /* the last blank is none */
    return 0;
}

static void
cookie_get(struct vcl_cookies *all, struct slice name, bool isset, struct vcl_value *out)
{
    const struct cookie *c = name.len > 0 ? cookie_find(all, name) : NULL;

    /* Without one the result stays zero: unset. */
    if (isset)
        out->i = c != NULL;
    else if (c != NULL)
        *out = vcl_value_string(c->value);
}

/* The row has judged number and types of the arguments: here they are only taken. */
int
vcl_cookie_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, struct vcl_value *out)
{
    struct vcl_cookies *all = cookie_all(r);
    const struct regex *re;

    if (all == NULL)
        return TERR_POLICY;
    switch (fn) {
    case VCL_FN_COOKIE_PARSE:
        return cookie_parse(r, all, args);
    case VCL_FN_COOKIE_SET:
        return cookie_set(r, all, args);
    case VCL_FN_COOKIE_CLEAN:
        cookie_clean(all);
        return 0;
    case VCL_FN_COOKIE_GET:
    case VCL_FN_COOKIE_ISSET:
        cookie_get(all, vcl_value_slice(&args[0]), fn == VCL_FN_COOKIE_ISSET, out);
        return 0;
    case VCL_FN_COOKIE_DELETE:
        return cookie_delete(r, all, vcl_value_slice(&args[0]));
    case VCL_FN_COOKIE_FILTER:
    case VCL_FN_COOKIE_KEEP:
        return cookie_list(r, all, vcl_value_slice(&args[0]), fn == VCL_FN_COOKIE_FILTER);
    case VCL_FN_COOKIE_GET_STRING:
        return cookie_get_string(r, all, out);
    default:
        break;
    }
    /* Those that are left have a pattern, by its number. */
    re = r->vcl->regexes[args[0].i];
    if (fn == VCL_FN_COOKIE_GET_RE)
        return cookie_get_re(r, all, re, out);
    tassert(fn == VCL_FN_COOKIE_FILTER_RE || fn == VCL_FN_COOKIE_KEEP_RE);
    return cookie_filter_re(r, all, re, fn == VCL_FN_COOKIE_FILTER_RE);
}

/* A time and a span of it, as Expires of Set-Cookie wants it. */
int
vcl_cookie_date(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    char text[VCL_DATE_BYTES];
    size_t len = vcl_format_date(args[0].r + args[1].r, text);

    (void)present;
    return vcl_string_copy(r, slice_of(text, len), out);
}
