/* ban_parse.c -- from an expression's text to tests. */
#include <stdio.h>

#include "daemon/base/hash.h"
#include "daemon/base/regex.h"
#include "daemon/base/terr.h"
#include "daemon/cache/ban_priv.h"

enum {
    BAN_SHOWN_MAX = 60,    /* of a word, in what is said about it */
    BAN_REGEX_BYTES = 2048 /* of a compiled expression, machine code included; measured: 1 to 3 K */
};

/* clang-format off */
static const struct {
    struct slice name;
    enum ban_field field;
    bool takes_header, needs_request, by_time;
} ban_fields[] = {
    {SLICE_LIT("req.url"),      BAN_REQ_URL,      false, true,  false},
    {SLICE_LIT("req.http."),    BAN_REQ_HTTP,     true,  true,  false},
    {SLICE_LIT("obj.http."),    BAN_OBJ_HTTP,     true,  false, false},
    {SLICE_LIT("obj.status"),   BAN_OBJ_STATUS,   false, false, false},
    {SLICE_LIT("obj.ttl"),      BAN_OBJ_TTL,      false, false, true},
    {SLICE_LIT("obj.age"),      BAN_OBJ_AGE,      false, false, true},
    {SLICE_LIT("obj.grace"),    BAN_OBJ_GRACE,    false, false, false},
    {SLICE_LIT("obj.keep"),     BAN_OBJ_KEEP,     false, false, false},
    {SLICE_LIT("obj.last_hit"), BAN_OBJ_LAST_HIT, false, false, true},
};

static const struct {
    struct slice text;
    enum ban_op op;
    bool of_text, of_duration;
} ban_ops[] = {
    {SLICE_LIT("=="), BAN_EQ,       true,  true},
    {SLICE_LIT("!="), BAN_NE,       true,  true},
    {SLICE_LIT("~"),  BAN_MATCH,    true,  false},
    {SLICE_LIT("!~"), BAN_NO_MATCH, true,  false},
    {SLICE_LIT(">"),  BAN_GT,       false, true},
    {SLICE_LIT(">="), BAN_GE,       false, true},
    {SLICE_LIT("<"),  BAN_LT,       false, true},
    {SLICE_LIT("<="), BAN_LE,       false, true},
};

static const struct {
    struct slice text;
    double ms;
} ban_units[] = {
    {SLICE_LIT("ms"), 1},
    {SLICE_LIT("s"),  1000},
    {SLICE_LIT("m"),  60 * 1000.0},
    {SLICE_LIT("h"),  3600 * 1000.0},
    {SLICE_LIT("d"),  86400 * 1000.0},
    {SLICE_LIT("w"),  7 * 86400 * 1000.0},
    {SLICE_LIT("y"),  365 * 86400 * 1000.0},
};
/* clang-format on */

/* What is left of the expression, and where to say what is wrong with it. */
struct ban_reader {
    struct slice rest;
    char *why;
    size_t why_size;
    char *text; /* the ban's copy so far: words as they came, single spaces */
    char *args; /* room for arguments without their quotes */
};

struct ban_word {
    struct slice raw;   /* as it came, quotes included */
    struct slice plain; /* without them */
};

static bool
ban_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* "`what` `word`", cut to what fits. */
static int
ban_refuse(const struct ban_reader *r, const char *what, struct slice word)
{
    int shown = word.len > BAN_SHOWN_MAX ? BAN_SHOWN_MAX : (int)word.len;

    if (word.len == 0)
        snprintf(r->why, r->why_size, "%s the end", what);
    else
        snprintf(r->why, r->why_size, "%s \"%.*s\"%s", what, shown, word.ptr,
            shown < (int)word.len ? "..." : "");
    return TERR_SYNTAX;
}

/* Into the ban's text, behind a space. */
static struct slice
ban_keep(struct ban_reader *r, struct slice raw, bool first)
{
    struct slice kept;

    if (!first)
        *r->text++ = ' ';
    memcpy(r->text, raw.ptr, raw.len);
    kept = slice_of(r->text, raw.len);
    r->text += raw.len;
    return kept;
}

/* A quoted word: \" is a quote, every other backslash stays for the regular expression; of two
 * the second escapes nothing. */
static int
ban_read_quoted(struct ban_reader *r, struct ban_word *w)
{
    const char *p = r->rest.ptr + 1, *end = r->rest.ptr + r->rest.len;
    char *out = r->args;

    for (; p < end && *p != '"'; p++) {
        /* Both stay: the regular expression reads them as one. */
        if (*p == '\\' && p + 1 < end && p[1] == '\\')
            *out++ = *p++;
        else if (*p == '\\' && p + 1 < end && p[1] == '"')
            p++;
        *out++ = *p;
    }
    if (p == end)
        return ban_refuse(r, "expected a closing quote after", r->rest);
    p++;
    /* "a"b may have been meant as one word, or as two: refused. */
    if (p < end && !ban_is_space(*p))
        return ban_refuse(
            r, "expected a space after a closing quote, found", slice_of(p, (size_t)(end - p)));
    w->raw = slice_of(r->rest.ptr, (size_t)(p - r->rest.ptr));
    w->plain = slice_of(r->args, (size_t)(out - r->args));
    r->args = out;
    return 0;
}

/* The next word; raw.len is 0 at the end. */
static int
ban_read(struct ban_reader *r, struct ban_word *w)
{
    size_t n = 0;

    while (r->rest.len > 0 && ban_is_space(*r->rest.ptr))
        r->rest = slice_of(r->rest.ptr + 1, r->rest.len - 1);
    /* Of length 0 and not NULL: what follows compares and copies it. */
    *w = (struct ban_word){{r->rest.ptr, 0}, {r->rest.ptr, 0}};
    if (r->rest.len > 0 && *r->rest.ptr == '"') {
        int err = ban_read_quoted(r, w);

        if (err != 0)
            return err;
    } else {
        while (n < r->rest.len && !ban_is_space(r->rest.ptr[n]))
            n++;
        w->raw = w->plain = slice_of(r->rest.ptr, n);
    }
    r->rest = slice_of(r->rest.ptr + w->raw.len, r->rest.len - w->raw.len);
    return 0;
}

static bool
ban_is_token(struct slice s)
{
    static const char others[] = "!#$%&'*+-.^_`|~"; /* RFC 9110 5.6.2 */

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');

        /* strchr(3) finds the NUL of `others`. */
        if (!alnum && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return s.len > 0;
}

static int
ban_read_field(struct ban_reader *r, struct ban *b, struct ban_test *t, bool first)
{
    struct ban_word w;
    int err = ban_read(r, &w);

    if (err != 0)
        return err;
    for (size_t i = 0; i < ARRAY_LEN(ban_fields); i++) {
        struct slice name = ban_fields[i].name;

        if (ban_fields[i].takes_header
                /* With its dot: the rest is the header's name. */
                ? w.raw.len < name.len || memcmp(w.raw.ptr, name.ptr, name.len) != 0
                : !slice_eq(w.raw, name))
            continue;
        /* First kept: the name must lie in the ban, and not in the caller's text. */
        w.raw = ban_keep(r, w.raw, first);
        t->name = slice_of(w.raw.ptr + name.len, w.raw.len - name.len);
        if (ban_fields[i].takes_header && !ban_is_token(t->name))
            return ban_refuse(r, "expected the name of a header at the end of", w.raw);
        t->field = (uint8_t)ban_fields[i].field;
        b->needs_request |= ban_fields[i].needs_request;
        b->by_time |= ban_fields[i].by_time;
        return 0;
    }
    return ban_refuse(r,
        "expected req.url, req.http.NAME, obj.http.NAME, obj.status, obj.ttl, obj.age, obj.grace, "
        "obj.keep or obj.last_hit, found",
        w.raw);
}

/* Which operators there are depends on the field in front: a duration matches no regular
 * expression, and a text is not greater than another. */
static int
ban_read_op(struct ban_reader *r, struct ban_test *t)
{
    /* enum ban_field has durations last. */
    bool of_duration = t->field >= BAN_OBJ_TTL;
    struct ban_word w;
    int err = ban_read(r, &w);

    if (err != 0)
        return err;
    for (size_t i = 0; i < ARRAY_LEN(ban_ops); i++) {
        if (!slice_eq(w.raw, ban_ops[i].text) ||
            !(of_duration ? ban_ops[i].of_duration : ban_ops[i].of_text))
            continue;
        t->op = (uint8_t)ban_ops[i].op;
        ban_keep(r, w.raw, false);
        return 0;
    }
    return ban_refuse(r,
        of_duration ? "expected ==, !=, >, >=, < or <= before a duration, found"
                    : "expected ==, !=, ~ or !~ before a text, found",
        w.raw);
}

/* "90s", "1.5h", "-1d": digits with a point among them at most, and a unit. */
static bool
ban_duration(struct slice s, int64_t *ms)
{
    size_t i = s.len > 0 && s.ptr[0] == '-', digits = 0;
    double value = 0, scale = 0;

    for (; i < s.len; i++) {
        /* scale is 0 in front of the point: a second one ends the number. */
        if (s.ptr[i] == '.' && scale == 0 && digits > 0) {
            scale = 1;
        } else if (s.ptr[i] >= '0' && s.ptr[i] <= '9' && digits < 15) { /* exact in a double */
            value = value * 10 + (s.ptr[i] - '0');
            scale *= 10;
            digits++;
        } else {
            break;
        }
    }
    if (digits == 0)
        return false;
    if (scale > 0)
        value /= scale;
    for (size_t u = 0; u < ARRAY_LEN(ban_units); u++) {
        if (!slice_eq(slice_of(s.ptr + i, s.len - i), ban_units[u].text))
            continue;
        value *= ban_units[u].ms;
        if (value > 1e15) /* 30,000 years; sums of such still fit */
            return false;
        /* Rounded: 0.001s is a millisecond, whatever a double makes of it. */
        *ms = (int64_t)(value + 0.5);
        *ms = s.ptr[0] == '-' ? -*ms : *ms;
        return true;
    }
    return false;
}

static int
ban_read_regex(struct ban_reader *r, struct ban_test *t)
{
    char why[128];
    size_t at = 0;
    int err = regex_compile(&t->re, t->arg, why, sizeof(why), &at);

    /* No memory is no fault of the expression. */
    if (err == TERR_SYNTAX)
        snprintf(r->why, r->why_size, "regular expression, at byte %zu: %s", at, why);
    return err;
}

/* The expression is the caller's memory, so the argument has to lie in the ban's: in its text, or
 * without quotes in `args`. */
static int
ban_read_arg(struct ban_reader *r, struct ban_test *t)
{
    struct ban_word w;
    int err = ban_read(r, &w);

    if (err != 0)
        return err;
    if (w.raw.len == 0)
        return ban_refuse(r,
            t->field >= BAN_OBJ_TTL ? "expected a duration as 60s or 1d, found"
                                    : "expected a text to compare with, found",
            w.raw);
    w.raw = ban_keep(r, w.raw, false);
    /* Equal in first byte and length: it had no quotes, which are raw alone. */
    t->arg = *w.plain.ptr == *w.raw.ptr && w.plain.len == w.raw.len ? w.raw : w.plain;
    if (t->field >= BAN_OBJ_TTL && !ban_duration(t->arg, &t->ms))
        return ban_refuse(r, "expected a duration as 60s or 1d, found", w.raw);
    if (t->op == BAN_MATCH || t->op == BAN_NO_MATCH)
        return ban_read_regex(r, t);
    return 0;
}

/* "&&" and more, or the end. */
static int
ban_read_and(struct ban_reader *r, const struct ban *b, bool *more)
{
    struct ban_word w;
    int err = ban_read(r, &w);

    if (err != 0)
        return err;
    *more = w.raw.len > 0;
    if (!*more)
        return 0;
    if (!slice_eq(w.raw, SLICE_LIT("&&")))
        return ban_refuse(r, "expected && or the end after a comparison, found", w.raw);
    if (b->ntests == BAN_TESTS_MAX) {
        snprintf(r->why, r->why_size, "expected at most %d comparisons", BAN_TESTS_MAX);
        return TERR_SYNTAX;
    }
    ban_keep(r, w.raw, false);
    return 0;
}

static int
ban_read_all(struct ban_reader *r, struct ban *b)
{
    bool more = true;

    while (more) {
        /* Counted first: ban_free() frees what a test that failed has compiled. */
        struct ban_test *t = &b->tests[b->ntests++];
        int err = ban_read_field(r, b, t, b->ntests == 1);

        if (err == 0)
            err = ban_read_op(r, t);
        if (err == 0)
            err = ban_read_arg(r, t);
        if (err != 0)
            return err;
        /* Bans are bounded by bytes (bans_put), and most of them may be here. */
        b->bytes += t->re != NULL ? BAN_REGEX_BYTES : 0;
        err = ban_read_and(r, b, &more);
        if (err != 0)
            return err;
    }
    return 0;
}

/* The text is shown again (bans_each()), so nothing that is not text gets in. */
static int
ban_check_text(struct slice s, char *why, size_t why_size)
{
    if (s.len > BAN_TEXT_MAX) {
        snprintf(why, why_size, "expected at most %d bytes", BAN_TEXT_MAX);
        return TERR_SYNTAX;
    }
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if ((c < ' ' && !ban_is_space((char)c)) || c == 127) {
            snprintf(why, why_size, "expected text, found the control character %u at byte %zu",
                (unsigned)c, i);
            return TERR_SYNTAX;
        }
    }
    return 0;
}

/* How many comparisons there can be. */
static size_t
ban_count_tests(struct slice s)
{
    size_t n = 1;

    for (size_t i = 0; i + 1 < s.len && n < BAN_TESTS_MAX; i++)
        /* One in quotes counts, too: too much room, never too little. */
        n += s.ptr[i] == '&' && s.ptr[i + 1] == '&';
    return n;
}

int
ban_parse(struct ban **out, struct slice expression, char *why, size_t why_size)
{
    struct ban_reader r = {.rest = expression, .why = why, .why_size = why_size};
    size_t tests = ban_count_tests(expression);
    /* Twice the text: words as they came with single spaces, and arguments without quotes. */
    size_t bytes = sizeof(struct ban) + tests * sizeof(struct ban_test) + 2 * expression.len;
    struct ban *b;
    int err = ban_check_text(expression, why, why_size);

    if (err != 0)
        return err;
    b = calloc(1, bytes);
    if (b == NULL)
        return TERR_NOMEM;
    b->magic = BAN_MAGIC;
    b->bytes = bytes;
    b->text = r.text = (char *)&b->tests[tests];
    r.args = b->text + expression.len;
    err = ban_read_all(&r, b);
    if (err != 0) {
        ban_free(b); /* with what the last test may have of its own */
        return err;
    }
    b->text_len = (uint32_t)(r.text - b->text);
    /* Of the normal form: a ban that was said twice is found by it. */
    b->hash = hash_plain(b->text, b->text_len);
    *out = b;
    return 0;
}

void
ban_free(struct ban *b)
{
    OBJ_CHECK(b, BAN_MAGIC);
    for (unsigned i = 0; i < b->ntests; i++)
        if (b->tests[i].re != NULL)
            regex_free(&b->tests[i].re);
    OBJ_FREE(b);
}
