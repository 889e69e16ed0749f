/* ban_match.c -- does this ban match this entry, and this request? */
#include "daemon/base/regex.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/uri.h"

/* The text of a field; false: it is missing.  `number` has room for a status. */
static bool
ban_text(struct ban_subject *s, const struct ban *b, const struct ban_test *t, char number[4],
    struct slice *out)
{
    const struct http_message *head = s->req;
    const struct http_field *f;

    if (t->field == BAN_REQ_URL) {
        *out = http_path(head);
        return true;
    }
    if (t->field == BAN_OBJ_STATUS) {
        unsigned status = entry_status(s->e);

        for (int i = 2; i >= 0; i--, status /= 10)
            number[i] = (char)('0' + status % 10);
        *out = slice_of(number, 3);
        return entry_status(s->e) != 0; /* a marker of a response that was not kept */
    }
    if (t->field == BAN_REQ_HTTP && slice_eq_nocase(t->name, SLICE_LIT("host"))) {
        *out = http_host(head); /* of the target, if that names one (RFC 9112 3.2.2) */
        return out->len > 0;
    }
    if (t->field == BAN_OBJ_HTTP) {
        if (s->e->block->head_len == 0) /* a marker: there is no response */
            return false;
        /* Once for all tests of an entry, and only when one asks. */
        if (!s->parsed)
            entry_message(s->e, ENTRY_FIELDS_ALL, s->fields, &s->stored);
        s->parsed = true;
        head = &s->stored;
    }
    tassert(b->needs_request || t->field == BAN_OBJ_HTTP);
    f = http_find_name(head, t->name, NULL);
    if (f != NULL)
        *out = http_value(head, f);
    return f != NULL;
}

/* As of the moment when the ban was added, not of the test, which may come much later. */
static int64_t
ban_milliseconds(const struct ban_subject *s, const struct ban *b, enum ban_field field)
{
    int64_t resident = b->mono_ms - s->e->received_ms;

    switch (field) {
    case BAN_OBJ_TTL:
        return entry_ttl_ms(s->e) - resident;
    case BAN_OBJ_AGE:
        return entry_first_age_ms(s->e) + resident;
    case BAN_OBJ_GRACE:
        return entry_grace_ms(s->e);
    case BAN_OBJ_KEEP:
        return entry_keep_ms(s->e);
    case BAN_OBJ_LAST_HIT:
        return b->mono_ms - entry_last_hit_ms(s->e);
    case BAN_REQ_URL:
    case BAN_REQ_HTTP:
    case BAN_OBJ_HTTP:
    case BAN_OBJ_STATUS:
        break;
    }
    TUNREACHABLE("a text is no duration");
}

static bool
ban_compare(enum ban_op op, int64_t have, int64_t want)
{
    switch (op) {
    case BAN_EQ:
        return have == want;
    case BAN_NE:
        return have != want;
    case BAN_GT:
        return have > want;
    case BAN_GE:
        return have >= want;
    case BAN_LT:
        return have < want;
    case BAN_LE:
        return have <= want;
    case BAN_MATCH:
    case BAN_NO_MATCH:
        break;
    }
    TUNREACHABLE("no operator of durations");
}

static bool
ban_holds(const struct ban *b, const struct ban_test *t, struct ban_subject *s)
{
    struct slice text;
    char number[4];
    int found;

    if (t->field >= BAN_OBJ_TTL)
        return ban_compare(
            (enum ban_op)t->op, ban_milliseconds(s, b, (enum ban_field)t->field), t->ms);
    /* A field that is not there is unlike any text; no other operator holds. */
    if (!ban_text(s, b, t, number, &text))
        return t->op == BAN_NE;
    if (t->op == BAN_EQ || t->op == BAN_NE)
        /* Byte for byte: what a field means is not known here. */
        return slice_eq(text, t->arg) == (t->op == BAN_EQ);
    found = regex_match(t->re, text);
    if (found < 0)
        return true; /* it took too long: ban.h says why */
    return (found > 0) == (t->op == BAN_MATCH);
}

bool
ban_purges(const struct ban *b, const struct entry *e)
{
    const struct entry_block *block = e->block;
    const uint64_t *tags = entry_tags(e);

    if (b->all)
        return true;
    for (unsigned i = 0; i < block->ntags; i++)
        for (unsigned k = 0; k < b->ntags; k++)
            if (tags[i] == b->tags[k])
                return true;
    /* It had more tags than are kept: it counts as having each (tags.c). */
    return block->any_tag;
}

bool
ban_matches(const struct ban *b, struct ban_subject *s, unsigned *tests)
{
    tassert(!b->needs_request || s->req != NULL);
    if (ban_is_purge(b)) {
        ++*tests;
        return ban_purges(b, s->e);
    }
    for (unsigned i = 0; i < b->ntests; i++) {
        ++*tests;
        if (!ban_holds(b, &b->tests[i], s))
            return false;
    }
    /* The first ban of the list has none, and matches nothing. */
    return b->ntests > 0;
}
