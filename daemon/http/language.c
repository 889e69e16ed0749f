/* language.c -- Accept-Language, in an order of its own. */
#include "daemon/http/language.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

static bool
language_is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || http_char_is(c, HTTP_C_DIGIT);
}

/* "*", or subtags of 1 to 8 letters and digits with "-" between (the first has letters only). */
static bool
language_range_ok(struct slice range)
{
    size_t i, subtag = 0;
    bool first = true;

    if (slice_eq(range, SLICE_LIT("*")))
        return true;
    for (i = 0; i < range.len; i++) {
        char c = range.ptr[i];

        /* RFC 4647 2.1. */
        if (c == '-' && subtag > 0) {
            subtag = 0;
            first = false;
        } else if (!language_is_alnum(c) || (first && http_char_is(c, HTTP_C_DIGIT)) ||
                   ++subtag > 8) {
            return false;
        }
    }
    return subtag > 0;
}

/* "q=0.5" in thousandths, or TERR_SYNTAX (RFC 9110 12.4.2).  "q=1" is 1000, "q=0.25" is 250. */
static int
language_weight(struct slice text)
{
    static const int place[] = {0, 0, 100, 10, 1};
    int weight;
    size_t i;

    /* "q=0" to "q=0.123": three digits at most, so place[] is never left. */
    if (text.len < 3 || text.len > 7 || (text.ptr[0] | 0x20) != 'q' || text.ptr[1] != '=')
        return TERR_SYNTAX;
    text = slice_of(text.ptr + 2, text.len - 2);
    if ((text.ptr[0] != '0' && text.ptr[0] != '1') || (text.len > 1 && text.ptr[1] != '.'))
        return TERR_SYNTAX;
    weight = (text.ptr[0] - '0') * LANGUAGE_WEIGHT_ONE;
    for (i = 2; i < text.len; i++) {
        if (!http_char_is(text.ptr[i], HTTP_C_DIGIT))
            return TERR_SYNTAX;
        weight += (text.ptr[i] - '0') * place[i];
    }
    /* "1.5" has the form, and is no weight. */
    return weight > LANGUAGE_WEIGHT_ONE ? TERR_SYNTAX : weight;
}

static bool
language_parse(struct slice member, struct language *out)
{
    struct slice range = http_cut(&member, ';');
    int weight = LANGUAGE_WEIGHT_ONE;

    /* .ptr NULL: no ; was there, and the weight is 1. */
    if (member.ptr != NULL)
        weight = language_weight(http_trim(member));
    if (weight < 0 || !language_range_ok(range))
        return false;
    *out = (struct language){range, (unsigned)weight};
    return true;
}

/* Below 0: a comes first. */
static int
language_compare(const struct language *a, const struct language *b)
{
    size_t len = a->range.len < b->range.len ? a->range.len : b->range.len;
    int order;

    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    order = strncasecmp(a->range.ptr, b->range.ptr, len);
    if (order != 0 || a->range.len == b->range.len)
        return order;
    return a->range.len < b->range.len ? -1 : 1;
}

/* Puts it where it belongs among `n` that are sorted: how many there are then. */
static int
language_insert(struct language *sorted, int n, const struct language *l)
{
    int i, order = -1;

    for (i = n; i > 0; i--) { /* from the end: browsers list them by weight */
        order = language_compare(&sorted[i - 1], l);
        if (order <= 0)
            break;
    }
    /* The same range with the same weight says it once. */
    if (i > 0 && order == 0)
        return n;
    /* Not cut: what was left out might have been the language that there is. */
    if (n == LANGUAGE_MAX)
        return TERR_LIMIT;
    memmove(&sorted[i + 1], &sorted[i], (size_t)(n - i) * sizeof(*sorted));
    sorted[i] = *l;
    return n + 1;
}

int
language_ranges(const struct http_message *req, struct language out[static LANGUAGE_MAX])
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member;
    struct language l;
    int n = 0;

    while ((f = http_find(req, HTTP_F_ACCEPT_LANGUAGE, f)) != NULL) {
        /* Nominated by Connection: the origin does not see it (invariant 12). */
        if (f->drop)
            continue;
        http_list_init(&it, http_value(req, f));
        while (http_list_next(&it, &member)) {
            /* As a whole: the caller takes the field as it came then. */
            if (!language_parse(member, &l))
                return TERR_SYNTAX;
            n = language_insert(out, n, &l);
            if (n < 0)
                return n;
        }
    }
    return n;
}
