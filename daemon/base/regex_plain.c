/* regex_plain.c -- patterns that need no regular expression engine. */
#include "daemon/base/regex_plain.h"

#include <stdlib.h>

#include "daemon/base/tassert.h"

#define REGEX_PLAIN_ONES UINT64_C(0x0101010101010101)
#define REGEX_PLAIN_HIGH UINT64_C(0x8080808080808080)

enum {
    REGEX_PLAIN_SHORT = 64
};

/* --- reading a pattern --- */

/* What is read: [(?i)] branch { | branch }; a branch: [^] head [ group tail ] [$]. */
struct regex_plain_parser {
    const char *p, *end;
    struct regex_plain *out;
    char *bytes; /* of the words */
    size_t used, tail_len;
    char head[REGEX_PLAIN_BYTES_MAX], group[REGEX_PLAIN_BYTES_MAX], tail[REGEX_PLAIN_BYTES_MAX];
};

static bool
regex_plain_eat(struct regex_plain_parser *in, const char *text)
{
    size_t len = strlen(text);

    if ((size_t)(in->end - in->p) < len || memcmp(in->p, text, len) != 0)
        return false;
    in->p += len;
    return true;
}

static inline uint8_t
regex_plain_fold(uint8_t c)
{
    return (unsigned)c - 'A' < 26u ? c | 0x20 : c;
}

/* One byte that stands for itself, into *c.  An escaped one does when it is neither letter nor
 * digit; pcre2pattern(3), "Backslash". */
static bool
regex_plain_byte(struct regex_plain_parser *in, char *c)
{
    uint8_t b;

    if (in->p == in->end)
        return false;
    b = (uint8_t)*in->p;
    if (b == '\\') {
        if (in->end - in->p < 2)
            return false;
        b = (uint8_t)in->p[1];
        if (b >= 128 || (b | 0x20u) - 'a' < 26u || b - (unsigned)'0' < 10u)
            return false;
    } else if (b != '\0' && strchr("^$.[|()?*+{", b) != NULL) {
        return false;
    }
    if (in->out->nocase && b >= 128)
        return false; /* whether it has a case is the locale's business */
    in->p += *in->p == '\\' ? 2 : 1;
    *c = (char)(in->out->nocase ? regex_plain_fold(b) : b);
    return true;
}

/* Literal bytes into buf from *len on.  false: too many. */
static bool
regex_plain_text(struct regex_plain_parser *in, char *buf, size_t *len)
{
    char c;

    while (regex_plain_byte(in, &c)) {
        if (*len == REGEX_PLAIN_BYTES_MAX)
            return false;
        buf[(*len)++] = c;
    }
    return true;
}

/* A word: head, middle, and the tail that was read. */
static bool
regex_plain_add(struct regex_plain_parser *in, size_t head_len, const char *mid, size_t mid_len)
{
    struct regex_plain *out = in->out;
    size_t len = head_len + mid_len + in->tail_len;
    char *at = in->bytes + in->used;

    if (out->nwords == REGEX_PLAIN_WORDS_MAX || in->used + len > REGEX_PLAIN_BYTES_MAX)
        return false;
    memcpy(at, in->head, head_len);
    memcpy(at + head_len, mid, mid_len);
    memcpy(at + head_len + mid_len, in->tail, in->tail_len);
    out->words[out->nwords++] = slice_of(at, len);
    in->used += len;
    return true;
}

/* head(a|b|c)tail: a word for each of a, b and c.  Head and parenthesis were read. */
static bool
regex_plain_group(struct regex_plain_parser *in, size_t head_len)
{
    size_t begins[REGEX_PLAIN_WORDS_MAX + 1], len = 0;
    unsigned n = 0;

    do {
        if (n == REGEX_PLAIN_WORDS_MAX)
            return false;
        begins[n++] = len;
        if (!regex_plain_text(in, in->group, &len))
            return false;
    } while (regex_plain_eat(in, "|"));
    begins[n] = len;
    if (!regex_plain_eat(in, ")") || !regex_plain_text(in, in->tail, &in->tail_len))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (!regex_plain_add(in, head_len, in->group + begins[i], begins[i + 1] - begins[i]))
            return false;
    }
    return true;
}

static bool
regex_plain_branch(struct regex_plain_parser *in)
{
    struct regex_plain *out = in->out;
    bool first = out->nwords == 0;
    bool at_start = regex_plain_eat(in, "^"), at_end;
    size_t len = 0;

    in->tail_len = 0;
    if (!regex_plain_text(in, in->head, &len))
        return false;
    if (regex_plain_eat(in, "(?:")) {
        if (!regex_plain_group(in, len))
            return false;
    } else if (regex_plain_eat(in, "(")) {
        out->captures = true;
        if (!regex_plain_group(in, len))
            return false;
    } else if (!regex_plain_add(in, len, "", 0)) {
        return false;
    }
    at_end = regex_plain_eat(in, "$");
    if (!first && (at_start != out->at_start || at_end != out->at_end))
        return false;
    out->at_start = at_start;
    out->at_end = at_end;
    return true;
}

/* Which bytes may a word begin with; or, when only its end is fixed, end with? */
static void
regex_plain_filter(struct regex_plain *p)
{
    for (unsigned i = 0; i < p->nwords; i++) {
        struct slice w = p->words[i];
        uint8_t c;

        if (w.len == 0) {
            p->may_be_empty = true;
            memset(p->set, 1, sizeof(p->set));
            return;
        }
        c = (uint8_t)w.ptr[p->at_end && !p->at_start ? w.len - 1 : 0];
        p->set[c] = 1;
        if (p->nocase && c - (unsigned)'a' < 26u)
            p->set[c - 0x20] = 1;
    }
}

void
regex_plain_parse(struct regex_plain *p, struct slice pattern)
{
    struct regex_plain_parser in = {.p = pattern.ptr, .end = pattern.ptr + pattern.len, .out = p};
    bool plain;

    *p = (struct regex_plain){.kind = REGEX_PLAIN_NONE};
    p->words = malloc(REGEX_PLAIN_WORDS_MAX * sizeof(*p->words) + REGEX_PLAIN_BYTES_MAX);
    if (p->words == NULL)
        return;
    in.bytes = (char *)(p->words + REGEX_PLAIN_WORDS_MAX);
    p->nocase = regex_plain_eat(&in, "(?i)");
    do
        plain = regex_plain_branch(&in);
    while (plain && regex_plain_eat(&in, "|"));
    if (!plain || in.p != in.end) {
        regex_plain_fini(p);
        return;
    }
    regex_plain_filter(p);
    p->kind = REGEX_PLAIN_WORDS;
    if (p->nwords == 1 && !p->nocase && !p->at_start && !p->at_end)
        p->kind = REGEX_PLAIN_LITERAL;
}

void
regex_plain_fini(struct regex_plain *p)
{
    free(p->words);
    *p = (struct regex_plain){.kind = REGEX_PLAIN_NONE};
}

/* --- one class --- */

/* Behind "[:" of a class: skips its name and ":]".  "[[:<:]]" is a word boundary, no class. */
static bool
regex_plain_posix(const char **p, const char *end)
{
    const char *c = *p;

    if (c < end && *c == '^')
        c++;
    while (c < end && *c - (unsigned)'a' < 26u)
        c++;
    if (end - c < 2 || c[0] != ':' || c[1] != ']')
        return false;
    *p = c + 2;
    return true;
}

bool
regex_plain_is_class(struct slice pattern)
{
    const char *p = pattern.ptr, *end = p + pattern.len;

    if (pattern.len == 2 && p[0] == '\\')
        return p[1] != '\0' && strchr("dDsSwWhHvV", p[1]) != NULL;
    if (pattern.len < 3 || *p++ != '[')
        return false;
    if (*p == '^')
        p++;
    if (p < end && *p == ']')
        p++; /* the first is a member */
    while (p < end && *p != ']') {
        if (*p == '\\') {
            /* \Q quotes up to \E, \c takes the next byte. */
            if (end - p < 2 || p[1] == '\0' || strchr("QEc", p[1]) != NULL)
                return false;
            p += 2;
        } else if (*p == '[' && p + 1 < end && strchr(":.=", p[1]) != NULL) {
            p += 2;
            if (p[-1] != ':' || !regex_plain_posix(&p, end))
                return false;
        } else {
            p++;
        }
    }
    return p + 1 == end;
}

void
regex_plain_set(struct regex_plain *p)
{
    unsigned lo = 0, hi = 0, n = 0;

    for (unsigned i = 0; i < 256; i++) {
        if (p->set[i]) {
            lo = n++ == 0 ? i : lo;
            hi = i;
        }
    }
    p->kind = REGEX_PLAIN_CLASS;
    p->is_range = n > 0 && hi < 128 && n == hi - lo + 1;
    p->from_add = (128 - lo) * REGEX_PLAIN_ONES;
    p->above_add = (127 - hi) * REGEX_PLAIN_ONES;
}

/* Is one of eight bytes in the range?  Each byte without its high bit has 128 - lo added: the
 * high bit then says that it is not below lo; with 127 - hi added, that it is above hi.  Nothing
 * is carried into the next byte. */
static inline bool
regex_plain_has_range(const struct regex_plain *p, uint64_t x)
{
    uint64_t low = x & ~REGEX_PLAIN_HIGH;

    return ((low + p->from_add) & ~(low + p->above_add) & ~x & REGEX_PLAIN_HIGH) != 0;
}

static inline uint64_t
regex_plain_load(const char *at)
{
    uint64_t x;

    memcpy(&x, at, sizeof(x));
    return x;
}

static bool
regex_plain_match_class(const struct regex_plain *p, struct slice s)
{
    if (p->is_range && s.len >= 8) {
        const char *at = s.ptr, *last = s.ptr + s.len - 8;

        for (; at < last; at += 8) {
            if (regex_plain_has_range(p, regex_plain_load(at)))
                return true;
        }
        return regex_plain_has_range(p, regex_plain_load(last));
    }
    for (size_t i = 0; i < s.len; i++) {
        if (p->set[(uint8_t)s.ptr[i]])
            return true;
    }
    return false;
}

/* --- words --- */

/* From the last byte back: words of one pattern often begin alike. */
static inline bool
regex_plain_is(const struct regex_plain *p, struct slice w, const char *at)
{
    size_t i = w.len;

    if (p->nocase) {
        while (i > 0 && regex_plain_fold((uint8_t)at[i - 1]) == (uint8_t)w.ptr[i - 1])
            i--;
    } else {
        while (i > 0 && at[i - 1] == w.ptr[i - 1])
            i--;
    }
    return i == 0;
}

/* Does the word stand at `at`, and end where `$` allows: at the end, or before a last newline? */
static bool
regex_plain_stands(const struct regex_plain *p, struct slice w, struct slice s, size_t at)
{
    size_t left = s.len - at;

    if (left < w.len)
        return false;
    if (p->at_end && left != w.len && (left != w.len + 1 || s.ptr[s.len - 1] != '\n'))
        return false;
    return regex_plain_is(p, w, s.ptr + at);
}

/* The first of the words that stands at `at`. */
static bool
regex_plain_any(const struct regex_plain *p, struct slice s, size_t at, struct slice *out)
{
    for (unsigned i = 0; i < p->nwords; i++) {
        if (regex_plain_stands(p, p->words[i], s, at)) {
            *out = slice_of(s.ptr + at, p->words[i].len);
            return true;
        }
    }
    return false;
}

/* Words that end where the subject does: the one that begins first, as PCRE tries places from
 * left to right; of those the one that is written first. */
static bool
regex_plain_find_tail(const struct regex_plain *p, struct slice s, size_t from, struct slice *out)
{
    bool newline = s.len > 0 && s.ptr[s.len - 1] == '\n';
    bool found = false;

    if (!newline && (s.len == 0 || !p->set[(uint8_t)s.ptr[s.len - 1]]) && !p->set[0])
        return false;
    for (unsigned i = 0; i < p->nwords; i++) {
        for (size_t end = s.len - newline; end <= s.len; end++) {
            struct slice w = p->words[i];

            if (w.len > end || end - w.len < from || !regex_plain_is(p, w, s.ptr + end - w.len))
                continue;
            if (!found || s.ptr + end - w.len < out->ptr)
                *out = slice_of(s.ptr + end - w.len, w.len);
            found = true;
        }
    }
    return found;
}

static bool
regex_plain_find_words(const struct regex_plain *p, struct slice s, size_t from, struct slice *out)
{
    if (p->at_start)
        return from == 0 && (s.len == 0 || p->set[(uint8_t)s.ptr[0]]) &&
               regex_plain_any(p, s, 0, out);
    if (p->at_end)
        return regex_plain_find_tail(p, s, from, out);
    for (size_t at = from; at < s.len; at++) {
        if (p->set[(uint8_t)s.ptr[at]] && regex_plain_any(p, s, at, out))
            return true;
    }
    return from <= s.len && regex_plain_any(p, s, s.len, out);
}

static bool
regex_plain_find_class(const struct regex_plain *p, struct slice s, size_t from, struct slice *out)
{
    for (size_t at = from; at < s.len; at++) {
        if (p->set[(uint8_t)s.ptr[at]]) {
            *out = slice_of(s.ptr + at, 1);
            return true;
        }
    }
    return false;
}

/* memmem() prepares a table first, which is worth it on long subjects only. */
static bool
regex_plain_find_literal(
    const struct regex_plain *p, struct slice s, size_t from, struct slice *out)
{
    struct slice w = p->words[0];
    const char *at = s.ptr + from, *last;

    if (s.len < from || s.len - from < w.len)
        return false;
    last = s.ptr + s.len - w.len;
    if (last - at > REGEX_PLAIN_SHORT) {
        at = memmem(at, s.len - from, w.ptr, w.len);
        *out = slice_of(at, w.len);
        return at != NULL;
    }
    for (; at <= last; at++) {
        if (w.len == 0 || (*at == w.ptr[0] && regex_plain_is(p, w, at))) {
            *out = slice_of(at, w.len);
            return true;
        }
    }
    return false;
}

bool
regex_plain_find(const struct regex_plain *p, struct slice subject, size_t from, struct slice *out)
{
    switch (p->kind) {
    case REGEX_PLAIN_CLASS:
        return regex_plain_find_class(p, subject, from, out);
    case REGEX_PLAIN_LITERAL:
        return regex_plain_find_literal(p, subject, from, out);
    case REGEX_PLAIN_WORDS:
        return regex_plain_find_words(p, subject, from, out);
    case REGEX_PLAIN_NONE:
        break;
    }
    TUNREACHABLE("not a plain pattern");
}

bool
regex_plain_match(const struct regex_plain *p, struct slice subject)
{
    struct slice where;

    if (p->kind == REGEX_PLAIN_CLASS)
        return regex_plain_match_class(p, subject);
    return regex_plain_find(p, subject, 0, &where);
}
