/* token.c -- the small grammars every field is made of. */
#include "daemon/http/token.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

#define T HTTP_C_TCHAR
#define V HTTP_C_VALUE
#define D HTTP_C_DIGIT
#define G HTTP_C_TARGET
#define N HTTP_C_NAME
/* clang-format off */
const uint8_t http_char_classes[256] = {
    [0x09] = V,
    [0x20] = V,
    ['!'] = T | V | G | N,
    ['"'] = V | G,
    ['#'] = T | V,
    ['$'] = T | V | G | N,
    ['%'] = T | V | G,
    ['&' ... '\''] = T | V | G | N,
    ['(' ... ')'] = V | G | N,
    ['*' ... '+'] = T | V | G | N,
    [','] = V | G | N,
    ['-' ... '.'] = T | V | G | N,
    ['/'] = V | G,
    ['0' ... '9'] = T | V | D | G | N,
    [':'] = V | G,
    [';'] = V | G | N,
    ['<'] = V | G,
    ['='] = V | G | N,
    ['>' ... '@'] = V | G,
    ['A' ... 'Z'] = T | V | G | N,
    ['['] = V | G,
    ['\\'] = V,
    [']'] = V | G,
    ['^'] = T | V | G,
    ['_'] = T | V | G | N,
    ['`'] = T | V | G,
    ['a' ... 'z'] = T | V | G | N,
    ['{'] = V | G,
    ['|'] = T | V | G,
    ['}'] = V | G,
    ['~'] = T | V | G | N,
    [0x80 ... 0xff] = V,
};
/* clang-format on */
#undef T
#undef V
#undef D
#undef G
#undef N

static bool
http_bytes_are(struct slice s, enum http_char_class which)
{
    uint8_t all = (uint8_t)which;
    size_t i;

    for (i = 0; i < s.len; i++) /* without a branch per byte: valid is the rule */
        all &= http_char_classes[(uint8_t)s.ptr[i]];
    return all != 0;
}

bool
http_token_ok(struct slice s)
{
    return s.len > 0 && http_bytes_are(s, HTTP_C_TCHAR);
}

bool
http_value_ok(struct slice s)
{
    /* Empty is a value (RFC 9110 5.5). */
    return http_bytes_are(s, HTTP_C_VALUE);
}

bool
http_target_bytes_ok(struct slice s)
{
    return s.len > 0 && http_bytes_are(s, HTTP_C_TARGET);
}

static bool
http_is_ows(char c)
{
    return c == ' ' || c == '\t';
}

struct slice
http_trim(struct slice s)
{
    while (s.len > 0 && http_is_ows(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && http_is_ows(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

struct slice
http_cut(struct slice *s, char sep)
{
    struct slice piece;
    bool quoted = false;
    size_t i;

    for (i = 0; i < s->len; i++) {
        char c = s->ptr[i];

        /* A separator in quotes is text: "a,b" is one member. */
        if (c == '"')
            quoted = !quoted;
        else if (quoted && c == '\\')
            i++; /* a quoted pair: the next byte means nothing */
        else if (!quoted && c == sep)
            break;
    }
    if (i >= s->len) { /* also a quoted pair cut short, or a string never closed */
        piece = *s;
        *s = slice_of(NULL, 0);
    } else {
        piece = slice_of(s->ptr, i);
        *s = slice_of(s->ptr + i + 1, s->len - i - 1);
    }
    return http_trim(piece);
}

void
http_list_init(struct http_list_iter *it, struct slice value)
{
    it->rest = value;
    it->empty = 0;
    if (it->rest.ptr == NULL) /* an absent value has no members, not an empty one */
        it->rest.len = 0;
}

bool
http_list_next(struct http_list_iter *it, struct slice *member)
{
    while (it->rest.ptr != NULL) {
        *member = http_cut(&it->rest, ',');
        if (member->len > 0)
            return true;
        /* Skipped (RFC 9110 5.6.1.2), and counted: where framing hangs on a list it must have
         * none. */
        it->empty++;
    }
    return false;
}

int
http_unquote(struct slice quoted, struct span out)
{
    size_t i, used = 0;

    if (quoted.len < 2 || quoted.ptr[0] != '"' || quoted.ptr[quoted.len - 1] != '"')
        return TERR_SYNTAX;
    for (i = 1; i < quoted.len - 1; i++) {
        char c = quoted.ptr[i];

        /* The string ended here, and something stands behind it. */
        if (c == '"')
            return TERR_SYNTAX;
        if (c == '\\') {
            i++;
            if (i == quoted.len - 1)
                return TERR_SYNTAX; /* it escapes the closing quote */
            c = quoted.ptr[i];
        }
        /* Behind the backslash, too: no CR, LF or NUL comes out of it. */
        if (!http_char_is(c, HTTP_C_VALUE))
            return TERR_SYNTAX;
        if (used == out.len)
            return TERR_LIMIT;
        out.ptr[used++] = c;
    }
    tassert(used <= INT32_MAX);
    return (int)used;
}

int
http_parse_decimal(struct slice s, uint64_t *out)
{
    enum {
        SAFE_DIGITS = 18
    }; /* any number of that many fits */
    uint64_t n = 0;
    bool large = false;

    if (s.len == 0)
        return TERR_SYNTAX;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned char)s.ptr[i] - (unsigned)'0';

        if (digit > 9)
            return TERR_SYNTAX;
        /* It goes on after that: a number with a letter behind it is no number, however long. */
        if (i >= SAFE_DIGITS && n > ((uint64_t)INT64_MAX - digit) / 10)
            large = true; /* judged before it is multiplied */
        if (!large)
            n = n * 10 + digit;
    }
    if (large)
        return TERR_LIMIT;
    *out = n;
    return 0;
}

int
http_parse_content_length(struct slice s, uint64_t *out)
{
    /* Too large is as wrong as malformed: whichever length another hop reads, it is not ours
     * (invariant 2). */
    return http_parse_decimal(s, out) < 0 ? TERR_FRAMING : 0;
}
