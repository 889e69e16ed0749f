/* conf_value.c -- numbers, times, sizes and switches: from text and back. */
#include "conf/conf_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/obj.h"

struct unit {
    const char *name;
    int64_t scale;
};

#define DAY (24 * INT64_C(3600000))
/* Largest last, so that formatting can look from the end for one that fits exactly. */
static const struct unit time_units[] = {
    {"ms", 1},
    {"s", 1000},
    {"m", 60000},
    {"h", 3600000},
    {"d", DAY},
    {"w", 7 * DAY},
    {"y", 365 * DAY},
    {NULL, 0},
};
/* All are powers of 1024, KB and k too: as in Varnish, and as memory comes. */
static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"k", INT64_C(1) << 10},
    {"KB", INT64_C(1) << 10},
    {"KiB", INT64_C(1) << 10},
    {"m", INT64_C(1) << 20},
    {"MB", INT64_C(1) << 20},
    {"MiB", INT64_C(1) << 20},
    {"g", INT64_C(1) << 30},
    {"GB", INT64_C(1) << 30},
    {"GiB", INT64_C(1) << 30},
    {"t", INT64_C(1) << 40},
    {"TB", INT64_C(1) << 40},
    {"TiB", INT64_C(1) << 40},
    {NULL, 0},
};

enum number {
    NUMBER_OK,
    NUMBER_SYNTAX,
    NUMBER_NO_UNIT,
    NUMBER_BAD_UNIT,
    NUMBER_TOO_LARGE,
    NUMBER_TOO_FINE, /* above nothing, but less than the least unit */
};

static const struct unit percent_units[] = {{"%", 1}, {NULL, 0}};

/* What reads it, and which kinds of node it may be. */
enum value_form {
    VALUE_SCALED, /* a number with a unit */
    VALUE_COUNT,
    VALUE_MODE,
    VALUE_PERCENT,
    VALUE_BOOL,
    VALUE_WORD, /* one of a few */
    VALUE_TEXT,
    VALUE_ADDRESS,
    VALUE_LINES,
    VALUE_PROBE,
    VALUE_MEMBERS,
    VALUE_BACKEND,
    VALUE_ALLOW,
    VALUE_NETS,
    VALUE_WORDS,
    VALUE_ENGINES,
    VALUE_CODINGS,
    VALUE_MEDIATYPES,
    VALUE_CERTNAMES,
    VALUE_TLS,
    VALUE_CERTIFICATES,
    VALUE_ACME,
    VALUE_BACKENDTLS,
    VALUE_RULE, /* of a route: conf_rules.c */
};

static const struct {
    enum value_form form;
    const char *what;
} value_types[] = {
#define X(type, kind, form, doc) [CONF_TYPE_##type] = {VALUE_##form, doc},
    CONF_TYPE_TABLE(X)
#undef X
};

const char *
conf_type_what(enum conf_type type)
{
    tassert(type < ARRAY_LEN(value_types));
    return value_types[type].what;
}

bool
conf_type_is_rule(enum conf_type type)
{
    tassert(type < ARRAY_LEN(value_types));
    return value_types[type].form == VALUE_RULE;
}

struct decimal {
    __int128 whole, part; /* part / part_scale is behind the point */
    __int128 part_scale;
};

/* Takes digits and perhaps a point and digits off the front of *s.  15 digits behind the point
 * are kept: of a year that is less than a microsecond. */
static bool
number_take(struct slice *s, struct decimal *d)
{
    size_t i = 0, point;

    *d = (struct decimal){.part_scale = 1};
    for (; i < s->len && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++)
        if (d->whole <= INT64_MAX) /* beyond, it is too large, however many follow */
            d->whole = d->whole * 10 + (s->ptr[i] - '0');
    if (i == 0)
        return false;
    if (i < s->len && s->ptr[i] == '.') {
        point = ++i;
        for (; i < s->len && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++) {
            if (i - point >= 15)
                continue; /* finer than any unit resolves */
            d->part = d->part * 10 + (s->ptr[i] - '0');
            d->part_scale *= 10;
        }
        /* "1." is no number: something is missing. */
        if (i == point)
            return false;
    }
    *s = slice_of(s->ptr + i, s->len - i);
    return true;
}

static bool
number_is_unit(struct slice s)
{
    if (slice_eq(s, SLICE_LIT("%")))
        return true;
    for (size_t i = 0; i < s.len; i++)
        if ((s.ptr[i] | 0x20) < 'a' || (s.ptr[i] | 0x20) > 'z')
            return false;
    return true;
}

/* Rounds down.  Times want their units in lower case (M is not m), sizes in any.
 *    1.5h  10s  250ms        64KiB  1g  0.5MiB */
static enum number
number_read(struct slice text, const struct unit *units, int64_t *out)
{
    bool any_case = units == size_units;
    struct decimal d;
    __int128 value;

    /* 128 bits: 15 digits behind the point, times a year in milliseconds, do not fit into 64. */
    if (!number_take(&text, &d) || !number_is_unit(text))
        return NUMBER_SYNTAX;
    while (units->name != NULL && !slice_eq(text, slice_str(units->name)) &&
           !(any_case && slice_eq_nocase(text, slice_str(units->name))))
        units++;
    if (units->name == NULL)
        return text.len == 0 ? NUMBER_NO_UNIT : NUMBER_BAD_UNIT;
    tassert(d.part < d.part_scale); /* less than one */
    /* Each by itself, so nothing is rounded before the sum. */
    value = d.whole * units->scale + d.part * units->scale / d.part_scale;
    if (value > INT64_MAX)
        return NUMBER_TOO_LARGE;
    /* 0 mostly means "off": what is small must not become that by rounding. */
    if (value == 0 && (d.whole > 0 || d.part > 0))
        return NUMBER_TOO_FINE;
    *out = (int64_t)value;
    return NUMBER_OK;
}

const char *
conf_value_format(enum conf_type type, int64_t value, char *buf, size_t len)
{
    const struct unit *units = type == CONF_TYPE_MS ? time_units : size_units, *best = NULL;

    if (type == CONF_TYPE_H2C && value == CONF_H2C_ONLY) {
        snprintf(buf, len, "only");
    } else if (type == CONF_TYPE_BOOL || type == CONF_TYPE_H2C) {
        snprintf(buf, len, "%s", value != 0 ? "on" : "off");
    } else if (type == CONF_TYPE_CODINGS) {
        conf_codings_format(value, buf, len);
    } else if (type == CONF_TYPE_MODE) {
        snprintf(buf, len, "%04" PRIo64, (uint64_t)value);
    } else if (type == CONF_TYPE_AUTO && value == 0) {
        snprintf(buf, len, "auto");
    } else if (type == CONF_TYPE_PERCENT) {
        snprintf(buf, len, "%" PRId64 "%%", value);
    } else if (type != CONF_TYPE_MS && type != CONF_TYPE_BYTES && type != CONF_TYPE_POW2) {
        snprintf(buf, len, "%" PRId64, value);
    } else {
        for (const struct unit *u = units; u->name != NULL; u++)
            if (value % u->scale == 0 && (value >= u->scale || u->scale == 1))
                /* The largest unit that leaves no fraction, so that the text reads back as the same
                 * value. */
                best = u;
        tassert(best != NULL);
        if (value == 0)
            snprintf(buf, len, "%s", type == CONF_TYPE_MS ? "0s" : "0");
        else
            snprintf(buf, len, "%" PRId64 "%s", value / best->scale, best->name);
    }
    return buf;
}

static bool
value_in_bounds(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t value)
{
    char bound[32];

    /* Of the row, which no file changes. */
    tassert(key->least <= key->most);
    if (value < key->least)
        conf_fail_value(cx, key, n, "is too small: the least is %s",
            conf_value_format(key->type, key->least, bound, sizeof(bound)));
    else if (value > key->most)
        conf_fail_value(cx, key, n, "is too large: the most is %s",
            conf_value_format(key->type, key->most, bound, sizeof(bound)));
    else
        return true;
    return false;
}

/* A number with a unit that is not one. */
static bool
value_refuse(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, enum number why)
{
    bool is_time = key->type == CONF_TYPE_MS;
    char quote[CONF_QUOTE_BYTES], bound[32];

    if (why == NUMBER_NO_UNIT && key->type == CONF_TYPE_PERCENT)
        conf_fail_value(cx, key, n, "has no unit: write %s%%", conf_quote(quote, n->text));
    else if (why == NUMBER_NO_UNIT)
        conf_fail_value(cx, key, n, "has no unit: write %ss for seconds or %sms for milliseconds",
            conf_quote(quote, n->text), quote);
    else if (why == NUMBER_BAD_UNIT)
        conf_fail_value(cx, key, n, "has an unknown unit: use %s",
            is_time ? "ms, s, m, h, d, w or y" : "B, KiB, MiB, GiB or TiB (k, m, g, t)");
    else if (why == NUMBER_TOO_LARGE)
        conf_fail_value(cx, key, n, "is too large: the most is %s",
            conf_value_format(key->type, key->most, bound, sizeof(bound)));
    else if (why == NUMBER_TOO_FINE)
        conf_fail_value(cx, key, n, "is less than one %s", is_time ? "millisecond" : "byte");
    /* No number has a sign here; the message says more than "is not a number". */
    else if (n->text.len > 1 && n->text.ptr[0] == '-')
        conf_fail_value(cx, key, n, "is negative: the least is %s",
            conf_value_format(key->type, key->least, bound, sizeof(bound)));
    else
        conf_fail_value(cx, key, n, "is not %s", conf_type_what(key->type));
    return false;
}

/* *to is milliseconds or bytes. */
static bool
value_scaled(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t *to)
{
    const struct unit *units = key->type == CONF_TYPE_MS ? time_units : size_units;
    int64_t value = 0;
    enum number got = number_read(n->text, units, &value);

    if (got != NUMBER_OK)
        return value_refuse(cx, key, n, got);
    /* First: a power of two out of bounds would be named as the nearest. */
    if (!value_in_bounds(cx, key, n, value))
        return false;
    if (key->type == CONF_TYPE_POW2 && (value & (value - 1)) != 0) {
        /* Its highest bit alone. */
        int64_t below = INT64_C(1) << (63 - __builtin_clzll((unsigned long long)value));
        char low[32], high[32];

        tassert(below < value);
        tassert(value - below < below); /* it is the largest that is below */
        conf_fail_value(cx, key, n, "is not a power of two: the nearest are %s and %s",
            conf_value_format(key->type, below, low, sizeof(low)),
            conf_value_format(key->type, below * 2, high, sizeof(high)));
        return false;
    }
    *to = value;
    return true;
}

/* A whole number with one of these units behind it.  A bad unit is "not a number" here: there is
 * at most one unit to choose. */
static bool
value_whole(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct unit *units, int64_t *to)
{
    /* "1.0" is refused too: a number of things is written as one. */
    bool has_point = memchr(n->text.ptr, '.', n->text.len) != NULL;
    int64_t value = 0;
    enum number got = number_read(n->text, units, &value);

    if (got == NUMBER_TOO_LARGE || got == NUMBER_NO_UNIT)
        return value_refuse(cx, key, n, got);
    if (got != NUMBER_OK || has_point)
        return value_refuse(cx, key, n, NUMBER_SYNTAX);
    if (!value_in_bounds(cx, key, n, value))
        return false;
    *to = value;
    return true;
}

static bool
value_count(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t *to)
{
    static const struct unit bare[] = {{"", 1}, {NULL, 0}};
    int64_t value = 0;

    if (key->type == CONF_TYPE_AUTO && slice_eq_nocase(n->text, SLICE_LIT("auto"))) {
        *to = 0;
        return true;
    }
    if (!value_whole(cx, key, n, bare, &value))
        return false;
    /* 4 or 8 slots in a bucket of the index, by its layout. */
    if (key->type == CONF_TYPE_SLOTS && value != 4 && value != 8)
        return value_refuse(cx, key, n, NUMBER_SYNTAX);
    *to = value;
    return true;
}

/* Octal, as chmod(1) takes it. */
static bool
value_mode(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t *to)
{
    int64_t value = 0;

    /* YAML 1.1 would read 0640 as 416: the text is read as it stands.  Five digits: 07777 has a
     * leading zero. */
    if (n->text.len > 0 && strspn(n->text.ptr, "01234567") == n->text.len && n->text.len <= 5)
        for (size_t i = 0; i < n->text.len; i++)
            value = value * 8 + (n->text.ptr[i] - '0');
    else
        return value_refuse(cx, key, n, NUMBER_SYNTAX);
    if (!value_in_bounds(cx, key, n, value))
        return false;
    *to = value;
    return true;
}

bool
conf_bool_of(struct slice text, int64_t *to)
{
    static const struct {
        const char *name;
        int64_t value;
    } words[] = {{"on", 1}, {"true", 1}, {"off", 0}, {"false", 0}};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        /* YAML 1.1 writes On and TRUE as well. */
        if (!slice_eq_nocase(text, slice_str(words[i].name)))
            continue;
        *to = words[i].value;
        return true;
    }
    return false;
}

static bool
value_bool(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t *to)
{
    if (conf_bool_of(n->text, to))
        return true;
    if (key->type == CONF_TYPE_H2C && slice_eq_nocase(n->text, SLICE_LIT("only"))) {
        *to = CONF_H2C_ONLY;
        return true;
    }
    conf_fail_value(cx, key, n, "is not %s", conf_type_what(key->type));
    return false;
}

/* An empty text without quotes, as after `key:`, is no value of any form: ynode_is_null(). */
static bool
value_takes_kind(enum value_form form, const struct ynode *n)
{
    bool is_text = n->kind == YNODE_TEXT && !ynode_is_null(n);

    switch ((unsigned)form) {
    case VALUE_ALLOW:
    case VALUE_TLS:
    case VALUE_CERTIFICATES:
    case VALUE_ACME:
    case VALUE_BACKENDTLS:
    case VALUE_RULE: /* their readers say which kinds they take, and why not another */
        return !ynode_is_null(n);
    case VALUE_MEMBERS:
        return n->kind == YNODE_LIST;
    case VALUE_LINES: /* "": none */
        return n->kind == YNODE_LIST || (is_text && n->text.len == 0);
    case VALUE_NETS:
    case VALUE_CERTNAMES:
    case VALUE_CODINGS:
    case VALUE_MEDIATYPES:
    case VALUE_ENGINES:
    case VALUE_WORDS: /* one may stand without its list */
        return n->kind == YNODE_LIST || is_text;
    case VALUE_PROBE:
        return n->kind == YNODE_MAP || is_text;
    default:
        return is_text;
    }
}

static void
value_refuse_kind(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n)
{
    bool none = ynode_is_null(n);

    /* What is missing has no place of its own: the key has. */
    conf_fail(cx, none && n->key != NULL ? n->key : n, "%s %s: give it %s", key->name,
        none                    ? "has no value"
        : n->kind == YNODE_LIST ? "must not be a list"
        : n->kind == YNODE_MAP  ? "must not be a map"
                                : "must not be text",
        conf_type_what(key->type));
}

/* The one way from a node to a member, for sections, parts and `tarnctl param set`.  `to` is the
 * member; its C type follows from key->type, which the table keeps together (conf_row_priv.h). */
bool
conf_value_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, void *to)
{
    enum value_form form;

    tassert(key->type < ARRAY_LEN(value_types));
    form = value_types[key->type].form;
    /* Before the readers, which rely on the kind of node. */
    if (!value_takes_kind(form, n)) {
        value_refuse_kind(cx, key, n);
        return false;
    }
    switch (form) {
    case VALUE_SCALED:
        return value_scaled(cx, key, n, to);
    case VALUE_COUNT:
        return value_count(cx, key, n, to);
    case VALUE_MODE:
        return value_mode(cx, key, n, to);
    case VALUE_PERCENT:
        return value_whole(cx, key, n, percent_units, to);
    case VALUE_BOOL:
        return value_bool(cx, key, n, to);
    case VALUE_WORD:
        return conf_word_read(cx, key, n, to);
    case VALUE_TEXT:
        return conf_text_read(cx, key, n, to);
    case VALUE_ADDRESS:
        return conf_address_read(cx, key, n, to);
    case VALUE_LINES:
        return conf_lines_read(cx, key, n, to);
    case VALUE_PROBE:
        return conf_probe_read(cx, key, n, to);
    case VALUE_MEMBERS:
        return conf_members_read(cx, key, n, to);
    case VALUE_BACKEND:
        return conf_backend_read(cx, key, n, to);
    case VALUE_ALLOW:
        return conf_allow_read(cx, key, n, to);
    case VALUE_NETS:
        return conf_nets_read(cx, key, n, to);
    case VALUE_WORDS:
        return conf_words_read(cx, key, n, to);
    case VALUE_ENGINES:
        return conf_engines_read(cx, key, n, to);
    case VALUE_CODINGS:
        return conf_codings_read(cx, key, n, to);
    case VALUE_MEDIATYPES:
        return conf_media_types_read(cx, key, n, to);
    case VALUE_CERTNAMES:
        return conf_acme_names_read(cx, key, n, to);
    case VALUE_TLS:
        return conf_tls_read(cx, key, n, to);
    case VALUE_CERTIFICATES:
        return conf_certificates_read(cx, n, to);
    case VALUE_ACME:
        return conf_acme_read(cx, key, n, to);
    case VALUE_BACKENDTLS:
        return conf_backend_tls_read(cx, key, n, to);
    case VALUE_RULE:
        return conf_rule_read(cx, key, n, to);
    }
    TUNREACHABLE("form of a value");
}
