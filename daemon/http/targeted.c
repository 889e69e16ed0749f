/* targeted.c -- CDN-Cache-Control (RFC 9213): the same directives in a structured dictionary.
 *
 * Unlike Cache-Control this grammar is exact: one error, and the whole field is ignored.  So
 * it is parsed by the algorithms of RFC 9651 4.2, kept to the types directives have.
 */
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/token.h"

struct sf_text {
    const char *p, *end;
};

enum sf_type {
    SF_BOOL,
    SF_INT,
    SF_STRING,
    SF_OTHER,
    SF_BAD
};

struct sf_value {
    enum sf_type type;
    int64_t number; /* SF_INT; SF_BOOL: 0 or 1 */
};

static bool
sf_at(const struct sf_text *t, char c)
{
    return t->p < t->end && *t->p == c;
}

static void
sf_skip(struct sf_text *t, const char *which)
{
    while (t->p < t->end && *t->p != '\0' && strchr(which, *t->p) != NULL)
        t->p++;
}

static bool
sf_is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool
sf_is_alpha(char c)
{
    return sf_is_lower(c) || (c >= 'A' && c <= 'Z');
}

/* .ptr NULL when there is no key here. */
static struct slice
sf_key(struct sf_text *t)
{
    const char *start = t->p;

    if (t->p == t->end || (!sf_is_lower(*t->p) && *t->p != '*'))
        return slice_of(NULL, 0);
    while (t->p < t->end && (sf_is_lower(*t->p) || http_char_is(*t->p, HTTP_C_DIGIT) ||
                                *t->p == '_' || *t->p == '-' || *t->p == '.' || *t->p == '*'))
        t->p++;
    return slice_of(start, (size_t)(t->p - start));
}

/* Integer or decimal: 15 digits, or 12 and 1 to 3. */
static struct sf_value
sf_number(struct sf_text *t)
{
    struct sf_value v = {SF_INT, 0};
    bool negative = sf_at(t, '-');
    int whole = 0, fraction = 0;

    if (negative)
        t->p++;
    /* A 16th digit is read so as to be refused; int64_t holds them all. */
    for (; t->p < t->end && http_char_is(*t->p, HTTP_C_DIGIT) && whole < 16; t->p++, whole++)
        v.number = v.number * 10 + (*t->p - '0');
    if (sf_at(t, '.')) {
        v.type = SF_OTHER;
        t->p++;
        while (t->p < t->end && http_char_is(*t->p, HTTP_C_DIGIT) && fraction < 4) {
            t->p++;
            fraction++;
        }
        if (fraction == 0 || fraction > 3 || whole > 12)
            v.type = SF_BAD;
    }
    if (whole == 0 || whole > 15)
        v.type = SF_BAD;
    if (negative)
        v.number = -v.number;
    return v;
}

/* What stands between two `quote`s, each byte allowed by `ok`; `escapes`: \" and \\. */
static struct sf_value
sf_quoted(struct sf_text *t, char quote, bool escapes, bool (*ok)(char c))
{
    struct sf_value bad = {SF_BAD, 0}, good = {quote == '"' ? SF_STRING : SF_OTHER, 0};

    for (t->p++; t->p < t->end && *t->p != quote; t->p++) {
        if (!ok(*t->p))
            return bad;
        if (escapes && *t->p == '\\') {
            t->p++;
            if (!sf_at(t, '"') && !sf_at(t, '\\'))
                return bad;
        }
    }
    if (t->p == t->end)
        return bad;
    t->p++;
    return good;
}

static bool
sf_is_ascii(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

static bool
sf_is_base64(char c)
{
    return sf_is_alpha(c) || http_char_is(c, HTTP_C_DIGIT) || c == '+' || c == '/' || c == '=';
}

/* RFC 9651 4.2.8. */
static struct sf_value
sf_bool(struct sf_text *t)
{
    struct sf_value v = {SF_BAD, 0};

    t->p++;
    if (sf_at(t, '0') || sf_at(t, '1')) {
        v = (struct sf_value){SF_BOOL, *t->p - '0'};
        t->p++;
    }
    return v;
}

/* RFC 9651 4.2.6.  No directive takes one, so its text is not kept. */
static struct sf_value
sf_token(struct sf_text *t)
{
    while (t->p < t->end && (http_char_is(*t->p, HTTP_C_TCHAR) || *t->p == ':' || *t->p == '/'))
        t->p++;
    return (struct sf_value){SF_OTHER, 0};
}

/* Dates and display strings (RFC 9651) are no directive's type, and count as errors. */
static struct sf_value
sf_bare_item(struct sf_text *t)
{
    if (t->p == t->end)
        return (struct sf_value){SF_BAD, 0};
    switch (*t->p) {
    case '"':
        return sf_quoted(t, '"', true, sf_is_ascii);
    case ':':
        return sf_quoted(t, ':', false, sf_is_base64);
    case '?':
        return sf_bool(t);
    default:
        break;
    }
    if (*t->p == '-' || http_char_is(*t->p, HTTP_C_DIGIT))
        return sf_number(t);
    if (*t->p == '*' || sf_is_alpha(*t->p))
        return sf_token(t);
    return (struct sf_value){SF_BAD, 0};
}

/* Parameters are parsed for their errors, and mean nothing. */
static bool
sf_parameters(struct sf_text *t)
{
    while (sf_at(t, ';')) {
        t->p++;
        sf_skip(t, " ");
        if (sf_key(t).ptr == NULL)
            return false;
        if (sf_at(t, '=')) {
            t->p++;
            if (sf_bare_item(t).type == SF_BAD)
                return false;
        }
    }
    return true;
}

/* RFC 9651 4.2.1.2.  Its members are parsed for their errors alone: no-cache and private with names
 * count as without. */
static struct sf_value
sf_inner_list(struct sf_text *t)
{
    struct sf_value bad = {SF_BAD, 0};

    t->p++;
    for (;;) { /* each turn consumes a byte or returns */
        sf_skip(t, " ");
        if (sf_at(t, ')')) {
            t->p++;
            return (struct sf_value){SF_STRING, 0}; /* as good as one for a list of fields */
        }
        if (sf_bare_item(t).type == SF_BAD || !sf_parameters(t))
            return bad;
        if (!sf_at(t, ' ') && !sf_at(t, ')'))
            return bad;
    }
}

/* RFC 9651 4.2.2: a key without "=" is true. */
static struct sf_value
sf_member_value(struct sf_text *t)
{
    struct sf_value v = {SF_BOOL, 1};

    if (sf_at(t, '=')) {
        t->p++;
        v = sf_at(t, '(') ? sf_inner_list(t) : sf_bare_item(t);
    }
    if (v.type != SF_BAD && !sf_parameters(t))
        v.type = SF_BAD;
    return v;
}

/* The dictionary so far, and CC_BIT of directives with a value of the wrong type. */
struct targeted {
    struct cache_control *cc;
    uint32_t wrong;
};

/* Is `v` of directive `d`'s type? */
static bool
targeted_type_ok(unsigned d, enum sf_type type)
{
    if (d >= CC_FIRST_SECONDS)
        return type == SF_INT;
    return type == SF_BOOL || (type == SF_STRING && (d == CC_NO_CACHE || d == CC_PRIVATE));
}

/* The last member of a name counts, and it alone (RFC 8941 4.2.2). */
static void
targeted_set(struct targeted *t, struct slice key, struct sf_value v)
{
    struct cache_control *cc = t->cc;
    unsigned d;

    for (d = 0; d < CC_COUNT; d++) {
        if (slice_eq(key, cc_name((enum cc_directive)d))) /* keys are lower case, always */
            break;
    }
    if (d == CC_COUNT)
        return;
    cc->set &= ~CC_BIT(d);
    cc->fields &= ~CC_BIT(d);
    t->wrong &= ~CC_BIT(d);
    if (!targeted_type_ok(d, v.type)) {
        t->wrong |= CC_BIT(d);
        return;
    }
    if (v.type == SF_BOOL && v.number == 0) /* "no-store=?0" is as good as not there */
        return;
    cc->set |= CC_BIT(d);
    if (v.type == SF_STRING)
        cc->fields |= CC_BIT(d);
    if (d < CC_FIRST_SECONDS)
        return;
    if (v.number < 0)
        v.number = 0;
    cc->seconds[d - CC_FIRST_SECONDS] = v.number > CC_SECONDS_MAX ? CC_SECONDS_MAX : v.number;
}

static bool
targeted_line(struct targeted *out, struct slice line)
{
    struct sf_text t = {line.ptr, line.ptr + line.len};
    struct slice key;
    struct sf_value v;

    for (;;) { /* each turn consumes a key or returns */
        key = sf_key(&t);
        if (key.ptr == NULL)
            return false;
        v = sf_member_value(&t);
        if (v.type == SF_BAD)
            return false;
        targeted_set(out, key, v);
        sf_skip(&t, " \t");
        if (t.p == t.end)
            return true;
        if (*t.p != ',')
            return false;
        t.p++;
        sf_skip(&t, " \t"); /* a trailing comma finds no key, and fails there */
    }
}

void
cc_parse_targeted(const struct http_message *h, struct cache_control *cc)
{
    const struct http_field *f = NULL;
    struct targeted t = {.cc = cc};
    bool any = false, good = true;

    memset(cc, 0, sizeof(*cc));
    while (good && (f = http_find(h, HTTP_F_CDN_CACHE_CONTROL, f)) != NULL) {
        /* Empty is as good as absent (RFC 9213 2.1); several lines are one dictionary. */
        if (f->value_len == 0)
            continue;
        any = true;
        good = targeted_line(&t, http_value(h, f));
    }
    /* One error spoils all of it, also what came before: Cache-Control counts then. */
    if (!good || t.wrong != 0) {
        memset(cc, 0, sizeof(*cc));
        return;
    }
    cc->present = any;
}
