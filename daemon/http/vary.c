/* vary.c -- specifications of variants: building one, and matching requests against it.
 *
 * A specification is a row of names, each
 *     id (1 byte) | name length (1) | name, lower case | value length (2, low first) | value
 * with VARY_ABSENT for the length of a value that was not there.  One VARY_NEVER byte alone
 * is a specification that matches nothing.
 */
#include "daemon/http/vary.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/codings.h"
#include "daemon/http/dictionary.h"
#include "daemon/http/language.h"
#include "daemon/http/token.h"

#define VARY_NEVER    0xffu
#define VARY_ABSENT   0xffffu
#define VARY_FORMS    0xfffeu /* Accept-Encoding, without a name: any value */
#define VARY_RECODED  0xfffdu /* the same, if it takes a form: 4 bytes follow (RECODED_*) */
#define VARY_NAME_MAX 255u    /* one byte of length; a longer name is treated as "*" */

_Static_assert((unsigned)HTTP_F_COUNT < VARY_NEVER, "an id is never VARY_NEVER");
_Static_assert(
    (unsigned)VARY_SPEC_MAX < VARY_RECODED, "no value is as long as VARY_RECODED or the others");

/* Takes normalised bytes, either to keep them or to compare them with what was kept. */
struct vary_sink {
    char *out;        /* NULL: compare */
    const char *want; /* when comparing */
    size_t room, used;
    bool ok;
};

/* What does not fit, or differs, spoils the sink for good: callers ask `ok` once, at the end. */
static void
vary_put(struct vary_sink *s, const char *bytes, size_t len)
{
    if (!s->ok || len > s->room - s->used) {
        s->ok = false;
        return;
    }
    if (len == 0)
        return;
    if (s->out != NULL)
        memcpy(s->out + s->used, bytes, len);
    else
        s->ok = memcmp(s->want + s->used, bytes, len) == 0;
    s->used += len;
}

static void
vary_put_lower(struct vary_sink *s, struct slice text)
{
    size_t i;

    for (i = 0; i < text.len && s->ok; i++) {
        char c = text.ptr[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c + ('a' - 'A'));
        vary_put(s, &c, 1);
    }
}

/* Fields that are no lists: a comma in them is text, and so is the space behind it. */
static bool
vary_is_text(unsigned id)
{
    switch (id) {
    case HTTP_F_COOKIE:
    case HTTP_F_USER_AGENT:
    case HTTP_F_REFERER:
    case HTTP_F_AUTHORIZATION:
    case HTTP_F_IF_MODIFIED_SINCE:
    case HTTP_F_IF_UNMODIFIED_SINCE:
        return true;
    default:
        return false;
    }
}

/* Of a field that we do not know: white space around commas means nothing, by RFC 9110 5.6.1, if it
 * is a list; but an empty member may mean something to the origin, and then ",a" and "a" must
 * not be one (cache poisoning). */
static void
vary_put_unknown(struct vary_sink *s, struct slice value, bool first)
{
    do {
        struct slice member = http_cut(&value, ',');

        if (!first)
            vary_put(s, ",", 1);
        vary_put(s, member.ptr, member.len);
        first = false;
    } while (value.ptr != NULL);
}

/* One line of a field; `text`: its bytes as they are. */
static void
vary_put_field(struct vary_sink *s, bool text, struct slice value, bool first)
{
    struct http_list_iter it;
    struct slice member;

    if (text) {
        if (!first)
            vary_put(s, ",", 1);
        vary_put(s, value.ptr, value.len);
        return;
    }
    http_list_init(&it, value);
    while (http_list_next(&it, &member)) {
        if (s->used > 0)
            vary_put(s, ",", 1);
        vary_put(s, member.ptr, member.len);
    }
}

/* ";q=0.5", without zeros at the end; nothing for 1. */
static void
vary_put_weight(struct vary_sink *s, unsigned weight)
{
    char digits[] = {
        '.', (char)('0' + weight / 100), (char)('0' + weight / 10 % 10), (char)('0' + weight % 10)};
    size_t len = sizeof(digits);

    if (weight == LANGUAGE_WEIGHT_ONE)
        return;
    while (len > 1 && digits[len - 1] == '0')
        len--;
    vary_put(s, ";q=0", 4);
    if (len > 1)
        vary_put(s, digits, len);
}

/* Ranges have no case (RFC 4647 2), and their order means nothing beside their weights.  False:
 * what came is malformed, or too much. */
static bool
vary_put_languages(struct vary_sink *s, const struct http_message *req)
{
    struct language l[LANGUAGE_MAX];
    int n = language_ranges(req, l), i;

    for (i = 0; i < n; i++) {
        if (i > 0)
            vary_put(s, ",", 1);
        vary_put_lower(s, l[i].range);
        vary_put_weight(s, l[i].weight);
    }
    return n >= 0;
}

enum {
    ACCEPT_MAX = 32 /* members of one Accept; browsers send up to ten */
};

struct vary_media {
    struct slice range, parameters; /* "text/html", and what follows with its ";" */
};

static int
vary_compare_text(
    struct slice a, struct slice b, int (*compare)(const char *, const char *, size_t))
{
    /* strncmp() would read on into the next member: these are no strings. */
    int order = compare(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order != 0 || a.len == b.len ? order : a.len < b.len ? -1 : 1;
}

/* A total order, so that any order of the same members becomes the same bytes. */
static bool
vary_media_before(const struct vary_media *a, const struct vary_media *b)
{
    int order = vary_compare_text(a->range, b->range, strncasecmp);

    return order != 0 ? order < 0 : vary_compare_text(a->parameters, b->parameters, strncmp) < 0;
}

/* The members of all lines, sorted: how many, or -1 when they are too many or quote something. */
static int
vary_media_ranges(const struct http_message *req, struct vary_media out[static ACCEPT_MAX])
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member;
    int n = 0;

    while ((f = http_find(req, HTTP_F_ACCEPT, f)) != NULL) {
        if (f->drop)
            continue;
        http_list_init(&it, http_value(req, f));
        while (http_list_next(&it, &member)) {
            const char *semicolon = memchr(member.ptr, ';', member.len);
            size_t len = semicolon == NULL ? member.len : (size_t)(semicolon - member.ptr);
            struct vary_media m = {
                http_trim(slice_of(member.ptr, len)), slice_of(member.ptr + len, member.len - len)};
            int i;

            if (n == ACCEPT_MAX || memchr(member.ptr, '"', member.len) != NULL)
                return -1;
            for (i = n++; i > 0 && vary_media_before(&m, &out[i - 1]); i--)
                out[i] = out[i - 1];
            out[i] = m;
        }
    }
    return n;
}

/* Media ranges have no case and no order (RFC 9110 12.5.1, 8.3.1); their parameters may have. */
static bool
vary_put_media(struct vary_sink *s, const struct http_message *req)
{
    struct vary_media m[ACCEPT_MAX];
    int n = vary_media_ranges(req, m), i;

    for (i = 0; i < n; i++) {
        if (i > 0)
            vary_put(s, ",", 1);
        vary_put_lower(s, m[i].range);
        vary_put(s, m[i].parameters.ptr, m[i].parameters.len);
    }
    return n >= 0;
}

/* The normal form of a request's field into `s`.  False: the request does not have it. */
static bool
vary_put_value(struct vary_sink *s, const struct http_message *req, unsigned id, struct slice name)
{
    const struct http_field *f = NULL;
    bool any = false, text = vary_is_text(id), written = false;

    if (id == HTTP_F_ACCEPT_ENCODING) { /* always there: no field is the same as nothing */
        struct slice codings = http_codings_text(http_codings(req));

        vary_put(s, codings.ptr, codings.len);
        return true;
    }
    if (id == HTTP_F_ACCEPT_LANGUAGE) {
        written = vary_put_languages(s, req);
        text = !written; /* malformed: no two spellings are the same */
    }
    if (id == HTTP_F_ACCEPT)
        written = vary_put_media(s, req);
    for (;;) {
        if (id != HTTP_F_OTHER)
            f = http_find(req, (enum http_field_id)id, f);
        else
            f = http_find_name(req, name, f);
        if (f == NULL)
            return any;
        if (f->drop)
            continue;
        if (!written && id == HTTP_F_OTHER)
            vary_put_unknown(s, http_value(req, f), !any);
        else if (!written)
            vary_put_field(s, text, http_value(req, f), !any);
        any = true;
    }
}

/* What a specification could not hold counts as "*": not to store it is safe, and to match it in
 * part would give a client another one's response. */
bool
vary_is_star(const struct http_message *resp)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice name;
    unsigned names = 0;

    while ((f = http_find(resp, HTTP_F_VARY, f)) != NULL) {
        http_list_init(&it, http_value(resp, f));
        while (http_list_next(&it, &name)) {
            names++;
            if (slice_eq(name, SLICE_LIT("*")) || names > VARY_NAMES_MAX)
                return true;
            if (name.len > VARY_NAME_MAX || !http_token_ok(name))
                return true;
            /* Each client's address is appended, so no two requests are the same. */
            if (http_field_id(name.ptr, name.len) == HTTP_F_X_FORWARDED_FOR ||
                http_field_id(name.ptr, name.len) == HTTP_F_FORWARDED)
                return true;
        }
    }
    return false;
}

/* One name of the specification to out[used...]: the new length, or TERR_LIMIT. */
static int
vary_build_name(const struct http_message *req, struct slice name, struct span out, size_t used)
{
    struct vary_sink head, value;
    enum http_field_id id = http_field_id(name.ptr, name.len);
    unsigned len;

    if (out.len - used < 4 + name.len)
        return TERR_LIMIT;
    head = (struct vary_sink){.out = out.ptr + used + 2, .room = name.len, .ok = true};
    out.ptr[used] = (char)id;
    out.ptr[used + 1] = (char)name.len;
    vary_put_lower(&head, name);
    used += 4 + name.len;
    value = (struct vary_sink){.out = out.ptr + used, .room = out.len - used, .ok = true};
    len = vary_put_value(&value, req, id, name) ? (unsigned)value.used : VARY_ABSENT;
    if (!value.ok)
        return TERR_LIMIT;
    /* Its length stands in front of the value, and is known only now. */
    out.ptr[used - 2] = (char)(len & 0xff);
    out.ptr[used - 1] = (char)(len >> 8);
    return (int)(used + value.used);
}

static bool
vary_is_coding(struct slice name)
{
    return slice_eq_nocase(name, SLICE_LIT("Accept-Encoding"));
}

/* In place of a name and a value. */
const char vary_forms_bytes[VARY_FORMS_LEN] = {
    HTTP_F_ACCEPT_ENCODING, 0, (char)(VARY_FORMS & 0xff), (char)(VARY_FORMS >> 8)};
static const char vary_recoded_bytes[VARY_FORMS_LEN] = {
    HTTP_F_ACCEPT_ENCODING, 0, (char)(VARY_RECODED & 0xff), (char)(VARY_RECODED >> 8)};

/* Its length, or TERR_LIMIT. */
static int
vary_put_forms(struct span out)
{
    if (out.len < VARY_FORMS_LEN)
        return TERR_LIMIT;
    memcpy(out.ptr, vary_forms_bytes, VARY_FORMS_LEN);
    return VARY_FORMS_LEN;
}

/* The word of a recoded one: form, best, saved. */
enum {
    RECODED_BEST = 8,
    RECODED_SHIFT = 4,
};

/* Of a word, and of what follows it. */
static size_t
recoded_len(uint32_t word)
{
    return (word & (RECODED_BEST - 1)) == HTTP_FORM_DCZ ? sizeof(word) + DICTIONARY_HASH_LEN
                                                        : sizeof(word);
}

/* VARY_FORMS or VARY_RECODED, whole, and its length; 0: it begins with neither. */
static unsigned
vary_marker(struct slice spec, size_t *len)
{
    const unsigned char *p = (const unsigned char *)spec.ptr;
    unsigned marker;
    uint32_t word;

    *len = 0;
    if (spec.len < VARY_FORMS_LEN || p[0] != HTTP_F_ACCEPT_ENCODING || p[1] != 0)
        return 0;
    marker = p[2] | (unsigned)p[3] << 8;
    if (marker != VARY_FORMS && (marker != VARY_RECODED || spec.len < VARY_RECODED_LEN))
        return 0;
    *len = VARY_FORMS_LEN;
    if (marker == VARY_RECODED) {
        memcpy(&word, spec.ptr + VARY_FORMS_LEN, sizeof(word));
        *len += recoded_len(word);
    }
    return *len <= spec.len ? marker : 0;
}

bool
vary_has_forms(struct slice spec)
{
    size_t len;

    return vary_marker(spec, &len) != 0;
}

/* Behind the marker. */
static struct slice
vary_rest(struct slice spec)
{
    size_t skip;

    if (vary_marker(spec, &skip) == 0)
        skip = 0;
    return slice_of(spec.ptr + skip, spec.len - skip);
}

int
vary_recode(struct slice spec, const struct vary_recoding *to, struct span out)
{
    const uint32_t most = UINT32_MAX >> RECODED_SHIFT;
    uint32_t word = (to->saved < most ? to->saved : most) << RECODED_SHIFT |
                    (to->best ? RECODED_BEST : 0u) | to->form;
    struct slice rest = vary_rest(spec);
    size_t len = VARY_FORMS_LEN + recoded_len(word);
    char *p;

    tassert(vary_has_forms(spec) && vary_recoded(spec).form == 0);
    tassert(to->saved > 0 && to->form > 0 && to->form < RECODED_BEST);
    tassert((to->form == HTTP_FORM_DCZ) == (to->hash != NULL));
    if (out.len < len + rest.len)
        return TERR_LIMIT;
    p = mempcpy(out.ptr, vary_recoded_bytes, VARY_FORMS_LEN);
    p = mempcpy(p, &word, sizeof(word)); /* of this process alone */
    if (to->hash != NULL)
        p = mempcpy(p, to->hash, DICTIONARY_HASH_LEN);
    if (rest.len > 0)
        memcpy(p, rest.ptr, rest.len);
    return (int)(len + rest.len);
}

struct vary_recoding
vary_recoded(struct slice spec)
{
    struct vary_recoding is = {0};
    uint32_t word;
    size_t len;

    if (vary_marker(spec, &len) != VARY_RECODED)
        return is;
    memcpy(&word, spec.ptr + VARY_FORMS_LEN, sizeof(word));
    is.form = word & (RECODED_BEST - 1);
    is.best = (word & RECODED_BEST) != 0;
    is.saved = word >> RECODED_SHIFT;
    is.hash = is.form == HTTP_FORM_DCZ ? spec.ptr + VARY_RECODED_LEN : NULL;
    return is;
}

/* What answers every Accept-Encoding stands for all forms; a form for itself. */
bool
vary_supersedes(struct slice newer, struct slice older)
{
    struct vary_recoding is = vary_recoded(newer), was = vary_recoded(older);

    if (!slice_eq(vary_rest(newer), vary_rest(older)))
        return false;
    return is.form == 0 ||
           (was.form == is.form &&
               (is.hash == NULL || memcmp(is.hash, was.hash, DICTIONARY_HASH_LEN) == 0));
}

int
vary_build(
    const struct http_message *resp, const struct http_message *req, bool forms, struct span out)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice name;
    int used = 0;

    /* So no value is as long as VARY_ABSENT, which would read as "was not there". */
    if (out.len > VARY_SPEC_MAX)
        out.len = VARY_SPEC_MAX;
    if (vary_is_star(resp)) {
        if (out.len == 0)
            return TERR_LIMIT;
        out.ptr[0] = (char)VARY_NEVER;
        return 1;
    }
    if (forms && (used = vary_put_forms(out)) < 0)
        return used;
    while ((f = http_find(resp, HTTP_F_VARY, f)) != NULL) {
        http_list_init(&it, http_value(resp, f));
        while (http_list_next(&it, &name)) {
            if (forms && vary_is_coding(name))
                continue;
            used = vary_build_name(req, name, out, (size_t)used);
            if (used < 0)
                return used;
        }
    }
    return used;
}

/* Is it one line with these very bytes?  The normal form of a normal form is itself, so such a
 * request need not be brought into it. */
static bool
vary_match_bytes(const struct http_message *req, unsigned id, struct slice name, struct slice want)
{
    const struct http_field *f;

    if (id == HTTP_F_ACCEPT_ENCODING)
        return false;
    if (id != HTTP_F_OTHER) {
        f = http_find(req, (enum http_field_id)id, NULL);
        return f != NULL && !f->drop && slice_eq(http_value(req, f), want) &&
               http_find(req, (enum http_field_id)id, f) == NULL;
    }
    f = http_find_name(req, name, NULL);
    return f != NULL && !f->drop && slice_eq(http_value(req, f), want) &&
           http_find_name(req, name, f) == NULL;
}

/* The word of a recoded one, and what follows it; as vary_match_name(). */
static bool
vary_match_recoded(struct slice *spec, const struct http_message *req)
{
    uint8_t hash[DICTIONARY_HASH_LEN];
    const char *word_end = spec->ptr + sizeof(uint32_t);
    uint32_t word;
    size_t len;

    if (spec->len < sizeof(word))
        return false;
    memcpy(&word, spec->ptr, sizeof(word));
    len = recoded_len(word);
    if (spec->len < len)
        return false;
    *spec = slice_of(spec->ptr + len, spec->len - len);
    if (len == sizeof(word))
        return (http_forms(req) & word & (RECODED_BEST - 1)) != 0;
    return dictionary_available(req, hash) && memcmp(hash, word_end, sizeof(hash)) == 0;
}

/* Compares the first name of *spec and steps over it; false also for what is no name. */
static bool
vary_match_name(struct slice *spec, const struct http_message *req)
{
    const unsigned char *p = (const unsigned char *)spec->ptr;
    struct vary_sink value = {.ok = true};
    unsigned id, len;
    struct slice name;
    bool found;

    /* A specification that was cut or is of another process matches nothing, and is not read past
     * its end (invariant 11). */
    if (spec->len < 4 || p[0] >= HTTP_F_COUNT || spec->len < 4u + p[1])
        return false;
    id = p[0];
    name = slice_of(spec->ptr + 2, p[1]);
    len = p[2 + name.len] | (unsigned)p[3 + name.len] << 8;
    *spec = slice_of(spec->ptr + 4 + name.len, spec->len - 4 - name.len);
    if (len == VARY_FORMS)
        return true;
    if (len == VARY_RECODED)
        return vary_match_recoded(spec, req);
    if (len != VARY_ABSENT) {
        if (len > spec->len)
            return false;
        value.want = spec->ptr;
        value.room = len;
        *spec = slice_of(spec->ptr + len, spec->len - len);
        if (vary_match_bytes(req, id, name, slice_of(value.want, len)))
            return true;
    }
    found = vary_put_value(&value, req, id, name);
    return found == (len != VARY_ABSENT) && (!found || (value.ok && value.used == value.room));
}

bool
vary_match(struct slice spec, const struct http_message *req)
{
    while (spec.len > 0) { /* each name takes at least four bytes */
        if (!vary_match_name(&spec, req))
            return false;
    }
    return true;
}
