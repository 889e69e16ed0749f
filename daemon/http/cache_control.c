/* cache_control.c -- directives to flags and seconds.
 *
 * Directives may repeat, contradict each other, and be written badly.  The rule for all of them:
 * what forbids counts in any form, what permits counts only when it is well-formed, and of two
 * numbers the one that allows less (RFC 9111 4.2.1).  A mistake of an origin then costs a fetch,
 * never a private response.
 */
#include "daemon/http/cache_control.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

enum cc_argument {
    CC_ARG_NONE,
    CC_ARG_SECONDS,
    CC_ARG_FIELDS
};

static const struct {
    struct slice name;
    enum cc_argument argument;
} cc_directives[CC_COUNT] = {
#define X(id, name, argument) [CC_##id] = {{name, sizeof(name) - 1}, CC_ARG_##argument},
    CC_TABLE(X)
#undef X
};

/* What forbids or limits, and so counts even when it is written badly. */
#define CC_FORBIDS (CC_BIT(CC_NO_STORE) | CC_BIT(CC_NO_CACHE) | CC_BIT(CC_PRIVATE))
/* What permits, and so counts only when it is written well. */
#define CC_PERMITS (CC_BIT(CC_PUBLIC) | CC_BIT(CC_MUST_UNDERSTAND) | CC_BIT(CC_IMMUTABLE))

/* What says how long something may be used, and nothing without a number. */
#define CC_NEEDS_NUMBER                                                             \
    (CC_BIT(CC_MAX_AGE) | CC_BIT(CC_S_MAXAGE) | CC_BIT(CC_STALE_WHILE_REVALIDATE) | \
        CC_BIT(CC_STALE_IF_ERROR))

_Static_assert(CC_COUNT <= 32, "a bit for each");

struct slice
cc_name(enum cc_directive d)
{
    tassert((unsigned)d < CC_COUNT);
    return cc_directives[d].name;
}

/* CC_COUNT when there is no such directive. */
static unsigned
cc_find(struct slice name)
{
    unsigned d;

    for (d = 0; d < CC_COUNT; d++) {
        /* Unknown ones are ignored (RFC 9111 5.2.3). */
        if (slice_eq_nocase(name, cc_directives[d].name))
            break;
    }
    return d;
}

/* An argument as a number of seconds; `invalid` when it is none. */
static int64_t
cc_number(struct slice argument, int64_t invalid)
{
    char text[32];
    uint64_t n;
    int err;

    if (argument.len > 0 && argument.ptr[0] == '"') { /* RFC 9111 5.2: both forms are read */
        int len = http_unquote(argument, (struct span){text, sizeof(text)});

        if (len < 0)
            return invalid;
        argument = slice_of(text, (size_t)len);
    }
    err = http_parse_decimal(argument, &n);
    if (err == TERR_SYNTAX)
        return invalid;
    /* RFC 9111 1.2.2: what is too large is as large as can be. */
    return err < 0 || n > (uint64_t)CC_SECONDS_MAX ? CC_SECONDS_MAX : (int64_t)n;
}

/* Of two values the one that allows less (RFC 9111 4.2.1). */
static void
cc_set_seconds(struct cache_control *cc, unsigned d, int64_t s)
{
    int64_t *have = &cc->seconds[d - CC_FIRST_SECONDS];
    /* min-fresh demands: the larger value allows less. */
    bool smaller = d == CC_MIN_FRESH ? s > *have : s < *have;

    tassert(d >= CC_FIRST_SECONDS && d < CC_COUNT);
    if ((cc->set & CC_BIT(d)) == 0 || smaller)
        *have = s;
    cc->set |= CC_BIT(d);
}

static void
cc_set_fields(struct cache_control *cc, unsigned d, bool qualified)
{
    bool first = (cc->set & CC_BIT(d)) == 0;

    cc->set |= CC_BIT(d);
    /* Once without fields it holds for the whole response, whatever else is said. */
    if (!qualified)
        cc->fields &= ~CC_BIT(d);
    else if (first)
        cc->fields |= CC_BIT(d);
}

/* One member: name, and `argument` with .ptr NULL when there was no "=". */
static void
cc_set(struct cache_control *cc, struct slice name, struct slice argument)
{
    unsigned d = cc_find(name);
    /* What allows least (invariant 9). */
    int64_t invalid = d == CC_MIN_FRESH ? CC_SECONDS_MAX : 0;

    if (d == CC_COUNT)
        return;
    if (argument.ptr == NULL && (CC_BIT(d) & CC_NEEDS_NUMBER) != 0)
        return; /* "max-age" alone says nothing, as in Varnish */
    if (cc_directives[d].argument == CC_ARG_SECONDS) {
        /* RFC 9111 5.2.1.2: without a number any age will do. */
        if (d == CC_MAX_STALE && argument.ptr == NULL)
            invalid = CC_SECONDS_MAX;
        cc_set_seconds(cc, d, cc_number(argument, invalid));
    } else if (cc_directives[d].argument == CC_ARG_FIELDS) {
        cc_set_fields(cc, d, argument.len > 0);
        /* "public=1" is written badly: it permits nothing (invariant 10). */
    } else if (argument.ptr == NULL || (CC_BIT(d) & CC_PERMITS) == 0) {
        cc->set |= CC_BIT(d);
    }
}

/* max-age=60, private="Set-Cookie", max-age="60", and "max-age = 60" of careless origins. */
static void
cc_member(struct cache_control *cc, struct slice member)
{
    const char *eq = memchr(member.ptr, '=', member.len);
    struct slice name = member, argument = {NULL, 0}, piece;
    unsigned d;

    if (eq !=
        NULL) { /* white space around it is no part of the grammar, and is read as in Varnish */
        name = http_trim(slice_of(member.ptr, (size_t)(eq - member.ptr)));
        argument = http_trim(slice_of(eq + 1, member.len - (size_t)(eq - member.ptr) - 1));
    }
    cc_set(cc, name, argument);
    if (memchr(member.ptr, ';', member.len) == NULL)
        return;
    while (member.ptr != NULL) { /* "max-age=9; private" is wrong, and clear enough to obey */
        piece = http_cut(&member, ';');
        d = cc_find(piece);
        if (d < CC_COUNT && (CC_BIT(d) & CC_FORBIDS) != 0)
            cc_set_fields(cc, d, false);
    }
}

static void
cc_parse(const struct http_message *h, struct cache_control *cc)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member;

    memset(cc, 0, sizeof(*cc));
    while ((f = http_find(h, HTTP_F_CACHE_CONTROL, f)) != NULL) {
        cc->present = true;
        http_list_init(&it, http_value(h, f));
        while (http_list_next(&it, &member))
            cc_member(cc, member);
    }
}

void
cc_parse_response(const struct http_message *h, struct cache_control *cc)
{
    cc_parse(h, cc);
}

void
cc_parse_request(const struct http_message *h, struct cache_control *cc)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member;

    cc_parse(h, cc);
    /* Pragma counts only without Cache-Control. */
    if (cc->present)
        return;
    while ((f = http_find(h, HTTP_F_PRAGMA, f)) != NULL) { /* RFC 9111 5.4 */
        http_list_init(&it, http_value(h, f));
        while (http_list_next(&it, &member)) {
            if (slice_eq_nocase(member, SLICE_LIT("no-cache")))
                cc_set_fields(cc, CC_NO_CACHE, false);
        }
    }
}

/* One member of Surrogate-Control: a directive, and perhaps the surrogate it is meant for. */
static void
cc_surrogate_member(struct cache_control *cc, struct slice member, struct slice us)
{
    struct slice directive = http_cut(&member, ';'), target = http_trim(member);

    if (target.len == 0 || slice_eq_nocase(target, us))
        cc_member(cc, directive);
}

/* Surrogate-Control: max-age=60, max-age=9;tarn: a directive for one surrogate alone names it
 * behind a semicolon.  The text is Edge Architecture 1.0 (W3C note), no RFC. */
void
cc_parse_surrogate(const struct http_message *h, struct slice us, struct cache_control *cc)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member;

    memset(cc, 0, sizeof(*cc));
    while ((f = http_find(h, HTTP_F_SURROGATE_CONTROL, f)) != NULL) {
        http_list_init(&it, http_value(h, f));
        while (http_list_next(&it, &member))
            cc_surrogate_member(cc, member, us);
    }
    cc->present = cc->set != 0; /* content="ESI/1.0" alone says nothing about storing */
}
