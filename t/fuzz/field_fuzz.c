/* field_fuzz.c -- the field parsers against slow references, and heads against a re-parse.
 *
 * The first byte chooses what is tried, the rest is the text.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/codings.h"
#include "daemon/http/conditional.h"
#include "daemon/http/date.h"
#include "daemon/http/derive.h"
#include "daemon/http/dictionary.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"
#include "daemon/http/freshness.h"
#include "daemon/http/message_out.h"
#include "daemon/http/packed_fields.h"
#include "daemon/http/range.h"
#include "daemon/http/token.h"
#include "daemon/http/uri.h"
#include "daemon/http/vary.h"
#include "t/unit/request_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_TEXT_MAX = 8192,
    FUZZ_OUT_MAX = 65536
};

static struct arena_pool fuzz_pool;
static struct arena fuzz_arena;

static void
fuzz_id(struct slice text)
{
    unsigned id, want = HTTP_F_OTHER;

    for (id = 1; id < HTTP_F_COUNT; id++) {
        if (slice_eq_nocase(text, slice_str(http_field_name((enum http_field_id)id))))
            want = id;
    }
    tassert(http_field_id(text.ptr, text.len) == want);
}

static void
fuzz_decimal(struct slice text)
{
    unsigned __int128 want = 0;
    bool digits = text.len > 0;
    uint64_t got = 0;
    size_t i;
    int err = http_parse_decimal(text, &got);

    for (i = 0; i < text.len; i++) {
        digits = digits && isdigit((unsigned char)text.ptr[i]);
        if (want <= INT64_MAX)
            want = want * 10 + (unsigned)(text.ptr[i] - '0');
    }
    if (!digits)
        tassert(err == TERR_SYNTAX);
    else if (want > INT64_MAX)
        tassert(err == TERR_LIMIT);
    else
        tassert(err == 0 && got == want);
}

/* Byte by byte, with the state spelled out: what http_cut() does in one loop. */
static void
fuzz_list(struct slice text)
{
    enum {
        PLAIN,
        QUOTED,
        ESCAPED
    } state = PLAIN;
    struct http_list_iter it;
    struct slice got, want;
    size_t i, start = 0;

    http_list_init(&it, text);
    for (i = 0; i <= text.len; i++) {
        char c = i < text.len ? text.ptr[i] : '\0';

        if (i == text.len || (state == PLAIN && c == ',')) {
            want = http_trim(slice_of(text.ptr + start, i - start));
            start = i + 1;
            if (want.len == 0)
                continue;
            tassert(http_list_next(&it, &got));
            tassert(got.ptr == want.ptr && got.len == want.len);
        } else if (state == ESCAPED) {
            state = QUOTED;
        } else if (c == '"') {
            state = state == PLAIN ? QUOTED : PLAIN;
        } else if (state == QUOTED && c == '\\') {
            state = ESCAPED;
        }
    }
    tassert(!http_list_next(&it, &got));
}

static void
fuzz_date(struct slice text)
{
    char out[HTTP_DATE_LEN];
    int64_t s, again;

    if (http_date_parse(text, 1767225600, &s) < 0 || s > INT64_C(253402300799))
        return;
    http_date_format(s, out);
    tassert(http_date_parse(slice_of(out, sizeof(out)), 0, &again) == 0 && again == s);
}

static void
fuzz_authority(struct slice text)
{
    char once[HTTP_AUTHORITY_MAX], twice[HTTP_AUTHORITY_MAX + 6];
    int len = http_authority_normal(text, HTTP_SCHEME_HTTP, (struct span){once, sizeof(once)});
    int len2, i;

    if (len < 0)
        return;
    len2 = http_authority_normal(
        slice_of(once, (size_t)len), HTTP_SCHEME_HTTP, (struct span){twice, sizeof(twice)});
    tassert(len2 == len && memcmp(once, twice, (size_t)len) == 0);
    for (i = 0; i < len; i++)
        tassert(!isupper((unsigned char)once[i]) && strchr("@/?#\\ \t", once[i]) == NULL);
}

/* A head from lines, as lenient as the checks of the real parser allow. */
static void
fuzz_head_lines(struct http_message *h, struct slice text)
{
    while (text.len > 0 && h->nfields < h->max_fields) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        const char *colon = memchr(text.ptr, ':', len);
        struct slice name, value;

        if (colon != NULL) {
            struct http_field *f = &h->fields[h->nfields];

            name = slice_of(text.ptr, (size_t)(colon - text.ptr));
            value = http_trim(slice_of(colon + 1, len - name.len - 1));
            if (http_token_ok(name) && http_value_ok(value)) {
                *f = (struct http_field){.name_off = (uint16_t)(name.ptr - h->base),
                    .name_len = (uint16_t)name.len,
                    .value_off = (uint16_t)(value.ptr - h->base),
                    .value_len = (uint16_t)value.len,
                    .id = (uint8_t)http_field_id(name.ptr, name.len)};
                h->present |= HTTP_BIT(f->id);
                h->nfields++;
            }
        }
        len += end != NULL;
        text = slice_of(text.ptr + len, text.len - len);
    }
}

/* What was written must be lines that a strict parser takes, and frame as it was told to. */
static void
fuzz_check_written(const char *out, int len, bool blank_line)
{
    struct slice rest = {out, (size_t)len};
    unsigned lines = 0;

    while (rest.len > 0) {
        const char *end = memmem(rest.ptr, rest.len, "\r\n", 2);
        const char *colon;
        struct slice line;

        tassert(end != NULL);
        line = slice_of(rest.ptr, (size_t)(end - rest.ptr));
        rest = slice_of(end + 2, rest.len - line.len - 2);
        if (line.len == 0) {
            tassert(blank_line && rest.len == 0);
            return;
        }
        tassert(http_value_ok(line));
        colon = memchr(line.ptr, ':', line.len);
        if (lines++ == 0)
            continue;
        tassert(colon != NULL && http_token_ok(slice_of(line.ptr, (size_t)(colon - line.ptr))));
        line.len = (size_t)(colon - line.ptr);
        tassert(http_field_id(line.ptr, line.len) != HTTP_F_TE);
        tassert(http_field_id(line.ptr, line.len) != HTTP_F_CONNECTION);
    }
    tassert(!blank_line);
}

/* A built message: valid as text, and its fields are its lines, one behind the other. */
static void
fuzz_check_built(const struct http_message *m)
{
    static char text[FUZZ_OUT_MAX + 64];
    unsigned at = m->lines_off;
    int n = snprintf(text, sizeof(text), "HTTP/1.1 %u %.*s\r\n", m->status, (int)m->reason_len,
        m->base + m->reason_off);

    memcpy(text + n, message_lines(m).ptr, message_lines(m).len);
    fuzz_check_written(text, n + (int)message_lines(m).len, false);
    for (unsigned i = 0; i < m->nfields; i++) {
        const struct http_field *f = &m->fields[i];

        tassert(f->name_off == at && f->value_off == at + f->name_len + 2u);
        at += (unsigned)f->name_len + f->value_len + MESSAGE_LINE_EXTRA;
    }
    tassert(at == m->len);
}

static void
fuzz_request(struct http_message *h)
{
    struct forward_request how = {
        .host = SLICE_LIT("h"), .client_address = SLICE_LIT("::1"), .pseudonym = SLICE_LIT("tarn")};
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct framing_connection c;
    struct http_message built;
    struct arena_pool pool;
    struct arena arena;
    struct framing f;
    const char *text;

    h->method = HTTP_M_GET;
    if (http_target_parse(h, &scheme) < 0 || framing_of_request(h, &f) < 0 ||
        framing_connection_of_request(h, &c) < 0)
        return;
    arena_pool_init(&pool, 1, NULL);
    arena_init(&arena, &pool);
    for (unsigned mode = FORWARD_PASS; mode <= FORWARD_FETCH; mode++) {
        how.mode = (enum forward_mode)mode;
        tassert(forward_request(h, &how, &arena, &built) == 0);
        text = request_text(&built);
        fuzz_check_written(text, (int)strlen(text), true);
    }
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

static void
fuzz_response(struct http_message *h, char *out)
{
    static const struct fresh_params params = {.default_ttl_ms = 120000, .default_grace_ms = 10000};
    static const struct fresh_request req = {
        .method = HTTP_M_GET, .sent_ms = 1000, .received_ms = 2000};
    struct forward_response how = {
        .keep = FORWARD_STORED, .pseudonym = SLICE_LIT("tarn"), .length = FORWARD_NO_LENGTH};
    struct framing_connection c;
    struct fresh_verdict v;
    struct http_message m;
    struct framing f;
    int len;

    h->status = 200;
    (void)framing_of_response(h, HTTP_M_GET, &f);
    if (framing_connection_of_response(h, &c) < 0)
        return;
    fresh_judge(h, &req, &params, &v);
    tassert(v.storable == (v.refusal == FRESH_REFUSE_NONE) &&
            (!v.storable || v.ttl_ms + v.keep_ms > 0));
    tassert(forward_response(h, &how, &fuzz_arena, &m) == 0);
    fuzz_check_built(&m);
    len = vary_build(h, h, false, (struct span){out, FUZZ_OUT_MAX});
    if (len >= 0)
        tassert(vary_match(slice_of(out, (size_t)len), h) == !vary_is_star(h));
}

static void
fuzz_head(struct slice text, bool is_request)
{
    static char out[FUZZ_OUT_MAX];
    struct http_field fields[64];
    struct http_message h = {.base = text.ptr,
        .fields = fields,
        .max_fields = 64,
        .version_major = 1,
        .version_minor = 1};
    const char *end = memchr(text.ptr, '\n', text.len);

    if (end == NULL)
        return;
    h.target_len = (uint16_t)(end - text.ptr);
    h.len = (uint16_t)text.len;
    fuzz_head_lines(&h, slice_of(end + 1, text.len - h.target_len - 1u));
    (void)vary_match(slice_of(text.ptr, h.target_len), &h);
    if (is_request)
        fuzz_request(&h);
    else
        fuzz_response(&h, out);
}

/* Cuts the text at the first LF. */
static struct slice
fuzz_line(struct slice *text)
{
    const char *end = text->len == 0 ? NULL : memchr(text->ptr, '\n', text->len);
    struct slice line = *text;

    if (end == NULL) {
        *text = slice_of(text->ptr + text->len, 0);
        return line;
    }
    line.len = (size_t)(end - text->ptr);
    *text = slice_of(end + 1, text->len - line.len - 1);
    return line;
}

/* Digits alone, at most INT64_MAX; -1: something else. */
static int64_t
fuzz_number(struct slice s)
{
    uint64_t n;

    return http_parse_decimal(s, &n) < 0 ? -1 : (int64_t)n;
}

/* Range as its grammar has it, member by member; how many, 0 when any is wrong. */
static unsigned
fuzz_range_members(struct slice value, int64_t (*pairs)[2])
{
    unsigned n = 0;
    size_t i, start;

    if (value.len < 6 || strncasecmp(value.ptr, "bytes=", 6) != 0)
        return 0;
    for (start = i = 6; i <= value.len; i++) {
        struct slice m, last;

        if (i < value.len && value.ptr[i] != ',')
            continue;
        m = last = http_trim(slice_of(value.ptr + start, i - start));
        start = i + 1;
        if (m.len == 0)
            continue;
        while (last.len > 0 && *last.ptr != '-') {
            last.ptr++;
            last.len--;
        }
        if (last.len == 0 || m.len == 1 || n == RANGES_MAX)
            return 0;
        m.len -= last.len;
        last = slice_of(last.ptr + 1, last.len - 1);
        pairs[n][0] = m.len == 0 ? -2 : fuzz_number(m);
        pairs[n][1] = last.len == 0 ? -2 : fuzz_number(last);
        if (pairs[n][0] == -1 || pairs[n][1] == -1)
            return 0;
        if (pairs[n][0] >= 0 && pairs[n][1] >= 0 && pairs[n][0] > pairs[n][1])
            return 0;
        n++;
    }
    return n;
}

/* The bytes a member means, of at most 64. */
static uint64_t
fuzz_range_bits(const int64_t pair[2], unsigned complete)
{
    uint64_t bits = 0;
    unsigned b;

    for (b = 0; b < complete; b++) {
        bool in = pair[0] == -2 ? b + pair[1] >= complete
                                : b >= pair[0] && (pair[1] == -2 || b <= pair[1]);

        if (in)
            bits |= UINT64_C(1) << b;
    }
    return bits;
}

static bool
fuzz_bits_touch(uint64_t a, uint64_t b)
{
    return (a & b) != 0 || (a << 1 & b) != 0 || (a & b << 1) != 0;
}

/* Joins touching neighbours until there are none. */
static unsigned
fuzz_bits_merge(uint64_t *bits, unsigned n)
{
    unsigned i = 0;

    while (i + 1 < n) {
        if (!fuzz_bits_touch(bits[i], bits[i + 1])) {
            i++;
            continue;
        }
        bits[i] |= bits[i + 1];
        n--;
        memmove(&bits[i + 1], &bits[i + 2], (n - i - 1) * sizeof(bits[0]));
        i = 0;
    }
    return n;
}

static void
fuzz_range_resolved(
    const int64_t (*pairs)[2], const struct range_spec *specs, unsigned nspecs, unsigned complete)
{
    uint64_t bits[RANGES_MAX], one;
    unsigned n = 0, i, j, overlapping = 0, sum = 0, nout;
    struct range out[RANGES_MAX];
    enum range_verdict v = range_resolve(specs, nspecs, complete, out, &nout);
    bool suffix = false;

    for (i = 0; i < nspecs; i++) {
        one = fuzz_range_bits(pairs[i], complete);
        suffix = suffix || (pairs[i][0] == -2 && pairs[i][1] > 0);
        if (one != 0)
            bits[n++] = one;
    }
    if (n == 0) {
        tassert(v == (suffix ? RANGE_WHOLE : RANGE_UNSATISFIABLE) && nout == 0);
        return;
    }
    for (i = 0; i < n; i++) {
        bool any = false;

        for (j = 0; j < n; j++)
            any = any || (i != j && (bits[i] & bits[j]) != 0);
        overlapping += any;
    }
    n = fuzz_bits_merge(bits, n);
    for (i = 0; i < n; i++)
        sum += (unsigned)__builtin_popcountll(bits[i]);
    if (overlapping > 2 || sum > complete) {
        tassert(v == RANGE_WHOLE && nout == 0);
        return;
    }
    tassert(v == RANGE_OK && nout == n);
    for (i = 0; i < n; i++) {
        const int64_t pair[2] = {(int64_t)out[i].first, (int64_t)out[i].last};

        tassert(fuzz_range_bits(pair, complete) == bits[i]);
    }
}

/* A byte for the length, then a value. */
static void
fuzz_range(struct slice text)
{
    unsigned complete = (unsigned char)text.ptr[0] % 65;
    struct slice value = slice_of(text.ptr + 1, text.len - 1);
    struct range_spec specs[RANGES_MAX];
    int64_t pairs[RANGES_MAX][2];
    struct content_range cr, again;
    unsigned n = range_parse(value, specs), i;
    char out[RANGE_TEXT_MAX];
    size_t len;

    if (value.len > 0 && memchr(value.ptr, '"', value.len) != NULL) {
        tassert(n == 0);
    } else {
        tassert(n == fuzz_range_members(value, pairs));
        for (i = 0; i < n; i++) {
            tassert(specs[i].first == (pairs[i][0] < 0 ? RANGE_UNKNOWN : (uint64_t)pairs[i][0]));
            tassert(specs[i].last == (pairs[i][1] < 0 ? RANGE_UNKNOWN : (uint64_t)pairs[i][1]));
        }
        if (n > 0)
            fuzz_range_resolved((const int64_t(*)[2])pairs, specs, n, complete);
    }
    if (content_range_parse(value, &cr) < 0)
        return;
    len = content_range_write(&cr, out);
    tassert(content_range_parse(slice_of(out, len), &again) == 0);
    tassert(memcmp(&cr, &again, sizeof(cr)) == 0);
}

/* RFC 3986 5.2.4, to the letter: `in` is used up. */
static size_t
fuzz_remove_dots(char *in, size_t len, char *out)
{
    size_t used = 0, n;

    in[len] = '\0';
    while (*in != '\0') {
        if (strncmp(in, "../", 3) == 0) {
            in += 3;
        } else if (strncmp(in, "./", 2) == 0 || strncmp(in, "/./", 3) == 0) {
            in += 2;
        } else if (strcmp(in, "/.") == 0) {
            *++in = '/';
        } else if (strncmp(in, "/../", 4) == 0 || strcmp(in, "/..") == 0) {
            in += in[3] == '/' ? 3 : 2;
            *in = '/';
            while (used > 0 && out[--used] != '/')
                ;
        } else if (strcmp(in, ".") == 0 || strcmp(in, "..") == 0) {
            return used;
        } else {
            n = 1 + strcspn(in + 1, "/");
            memcpy(out + used, in, n);
            used += n;
            in += n;
        }
    }
    return used;
}

/* The path of `ref` (no scheme, no authority) beside `base`, as RFC 3986 5.2.2 and 5.2.3. */
static size_t
fuzz_resolve_path(const char *base, const char *ref, char *out)
{
    static char merged[2 * FUZZ_TEXT_MAX + 2];
    size_t base_len = strcspn(base, "?"), ref_len = strcspn(ref, "?#"), used, query;

    if (ref_len == 0) {
        query = strcspn(ref, "#");
        used = query > 0 ? base_len : strlen(base);
        memcpy(out, base, used);
        memcpy(out + used, ref, query);
        return used + query;
    }
    used = 0;
    if (*ref != '/') {
        while (base[base_len - 1] != '/')
            base_len--;
        memcpy(merged, base, base_len);
        used = base_len;
    }
    memcpy(merged + used, ref, ref_len);
    used = fuzz_remove_dots(merged, used + ref_len, out);
    query = strcspn(ref + ref_len, "#");
    memcpy(out + used, ref + ref_len, query);
    return used + query;
}

/* A line with the base's path, then a reference. */
static void
fuzz_uri(struct slice text)
{
    static char base[FUZZ_TEXT_MAX + 1], ref[FUZZ_TEXT_MAX + 1];
    static char want[2 * FUZZ_TEXT_MAX], got[2 * FUZZ_TEXT_MAX + 2];
    struct slice path = fuzz_line(&text);
    size_t room = path.len + text.len + 1, len;
    int n = http_uri_resolve(SLICE_LIT("h"), path, text, (struct span){got, room});

    tassert(n != TERR_LIMIT);
    if (n <= 0)
        return;
    tassert(got[0] == '/' && path.ptr[0] == '/');
    if (!http_target_bytes_ok(path)) /* it was never a key */
        return;
    tassert(http_target_bytes_ok(slice_of(got, (size_t)n)));
    memcpy(base, path.ptr, path.len);
    base[path.len] = '\0';
    memcpy(ref, text.ptr, text.len);
    ref[text.len] = '\0';
    len = strcspn(ref, ":/?#");
    if (ref[len] == ':' || strncmp(ref, "//", 2) == 0) { /* it named us: a path follows */
        char *start = strstr(ref, "//") + 2;
        size_t skip = strcspn(start, "/?#");

        tassert(skip > 0);
        start += skip;
        if (*start == '/') {
            len = fuzz_resolve_path("/", start, want);
        } else {
            want[0] = '/';
            len = 1 + strcspn(start, "#");
            memcpy(want + 1, start, len - 1);
        }
    } else {
        len = fuzz_resolve_path(base, ref, want);
    }
    tassert((size_t)n == len && memcmp(want, got, len) == 0);
}

/* A line with a tag, then the members of If-None-Match. */
static void
fuzz_tags(struct slice text)
{
    static char line[FUZZ_TEXT_MAX + 64];
    struct slice etag = http_trim(fuzz_line(&text));
    struct http_field field = {.name_len = 13, .id = HTTP_F_IF_NONE_MATCH};
    struct http_message req = {.base = line, .fields = &field, .nfields = 1, .max_fields = 1};
    struct validators v = {.etag = etag, .last_modified_s = -1, .date_s = -1};
    bool plain;

    tassert(!etag_strong_equal(etag, text) || etag_weak_equal(etag, text));
    tassert(etag_weak_equal(etag, text) == etag_weak_equal(text, etag));
    tassert(!etag_is_weak(etag) || !etag_strong_equal(etag, etag));
    req.present = HTTP_BIT(HTTP_F_IF_NONE_MATCH);
    req.method = HTTP_M_GET;
    memcpy(line, "If-None-Match", 13);
    memcpy(line + 13, text.ptr, text.len);
    field.value_off = 13;
    field.value_len = (uint16_t)text.len;
    plain = cond_not_modified(&req, &v);
    if (etag_ok(text))
        tassert(plain == etag_weak_equal(text, etag));
    if (!etag_ok(etag) || memchr(text.ptr, '"', text.len) != NULL)
        return;
    memcpy(line + 13 + text.len, ",W/", 3); /* without quotes before it, it is a member */
    memcpy(
        line + 16 + text.len, etag.ptr + 2 * etag_is_weak(etag), etag.len - 2 * etag_is_weak(etag));
    field.value_len = (uint16_t)(text.len + 3 + etag.len - 2 * etag_is_weak(etag));
    tassert(cond_not_modified(&req, &v));
}

/* Is a name never taken from an update?  `stored` decides over ETag. */
static bool
fuzz_never_updates(const struct http_message *stored, struct slice name)
{
    static const char *const never[] = {"Content-Length", "Content-Encoding", "Content-Range",
        "Content-MD5", "Content-Digest", "Via", "Age", "Cache-Status"};
    size_t i;

    for (i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        if (slice_eq_nocase(name, slice_str(never[i])))
            return true;
    }
    if (slice_eq_nocase(name, SLICE_LIT("ETag")))
        return http_find_name(stored, name, NULL) != NULL;
    return (http_field_flags(http_field_id(name.ptr, name.len)) & HTTP_HOP) != 0;
}

/* The next line of a name that is not nominated. */
static const struct http_field *
fuzz_next_kept(const struct http_message *h, struct slice name, const struct http_field *f)
{
    do {
        f = http_find_name(h, name, f);
    } while (f != NULL && f->drop);
    return f;
}

/* Does `out` have the lines of `name` that it should? */
static void
fuzz_merged_name(const struct http_message *stored, const struct http_message *update,
    const struct http_message *out, struct slice name)
{
    bool taken = !fuzz_never_updates(stored, name) && fuzz_next_kept(update, name, NULL) != NULL;
    const struct http_message *from = taken ? update : stored;
    const struct http_field *want = NULL, *got = NULL;

    if (slice_eq_nocase(name, SLICE_LIT("Via")))
        return;
    if (slice_eq_nocase(name, SLICE_LIT("Date")) && !taken)
        return;
    do {
        want = fuzz_next_kept(from, name, want);
        got = http_find_name(out, name, got);
        tassert((want == NULL) == (got == NULL));
        tassert(want == NULL || slice_eq(http_value(from, want), http_value(out, got)));
    } while (want != NULL);
}

static void
fuzz_rewritten(const struct http_message *stored)
{
    static const struct derive_partial one = {{"bytes 0-4/10", 12}, {NULL, 0}};
    static const struct derive_partial several = {{NULL, 0}, {"bound", 5}};
    struct http_message h;

    for (int which = 0; which < 4; which++) {
        int err = which == 0   ? derive_not_modified(stored, &fuzz_arena, &h)
                  : which == 1 ? derive_partial(stored, &one, &fuzz_arena, &h)
                  : which == 2 ? derive_partial(stored, &several, &fuzz_arena, &h)
                               : derive_unsatisfiable(stored, 10, &fuzz_arena, &h);

        tassert(err == 0);
        fuzz_check_built(&h);
        tassert(!http_has(&h, HTTP_F_CONTENT_LENGTH));
        tassert(http_has(&h, HTTP_F_CONTENT_RANGE) == (which == 1 || which == 3));
    }
}

/* What is stored of it is read back. */
static void
fuzz_packed(const struct http_message *m)
{
    static char packed[FUZZ_OUT_MAX];
    struct http_field fields[130];
    struct http_message out = *m;
    size_t n = packed_fields_bytes(m);

    packed_fields_write(m, packed);
    out.fields = fields;
    out.max_fields = 130;
    packed_fields_read(slice_of(packed, n), &out);
    tassert(out.nfields == m->nfields && out.present == m->present);
    fuzz_check_built(&out);
}

/* Lines of a stored response, a blank one, lines of an update. */
static void
fuzz_block(struct slice text)
{
    struct http_field fields[64], update_fields[64];
    struct http_message h = {.base = text.ptr,
        .fields = fields,
        .max_fields = 64,
        .version_major = 1,
        .version_minor = 1};
    struct http_message update = h, stored, merged;
    const struct forward_response how = {
        .keep = FORWARD_STORED, .pseudonym = SLICE_LIT("tarn"), .length = 7};
    const char *blank = memmem(text.ptr, text.len, "\n\n", 2);
    struct framing_connection c;
    unsigned i;

    update.fields = update_fields;
    h.status = 200;
    fuzz_head_lines(&h, slice_of(text.ptr, blank == NULL ? text.len : (size_t)(blank - text.ptr)));
    if (blank != NULL)
        fuzz_head_lines(&update, slice_of(blank + 2, text.len - (size_t)(blank + 2 - text.ptr)));
    if (framing_connection_of_response(&h, &c) < 0 ||
        framing_connection_of_response(&update, &c) < 0)
        return;
    tassert(forward_response(&h, &how, &fuzz_arena, &stored) == 0);
    fuzz_rewritten(&stored);
    fuzz_packed(&stored);
    tassert(derive_merged(&stored, &update, how.pseudonym, 0, &fuzz_arena, &merged) == 0);
    fuzz_check_built(&merged);
    fuzz_packed(&merged);
    tassert(merged.status == 200 && http_has(&merged, HTTP_F_DATE));
    for (i = 0; i < stored.nfields; i++)
        fuzz_merged_name(&stored, &update, &merged, http_name(&stored, &stored.fields[i]));
    for (i = 0; i < update.nfields; i++)
        fuzz_merged_name(&stored, &update, &merged, http_name(&update, &update.fields[i]));
    for (i = 0; i < merged.nfields; i++)
        fuzz_merged_name(&stored, &update, &merged, http_name(&merged, &merged.fields[i]));
}

/* The normal form of a value of Accept-Language is its own normal form. */
static void
fuzz_language(struct slice text)
{
    static const struct http_field vary = {
        .name_len = 4, .value_off = 4, .value_len = 15, .id = HTTP_F_VARY};
    static char once[FUZZ_OUT_MAX], twice[FUZZ_OUT_MAX];
    struct http_field f = {.value_len = (uint16_t)text.len, .id = HTTP_F_ACCEPT_LANGUAGE};
    struct http_field resp_field = vary;
    struct http_message resp = {.base = "VaryAccept-Language",
        .fields = &resp_field,
        .present = HTTP_BIT(HTTP_F_VARY),
        .nfields = 1};
    struct http_message req = {
        .base = text.ptr, .fields = &f, .present = HTTP_BIT(HTTP_F_ACCEPT_LANGUAGE), .nfields = 1};
    int len = vary_build(&resp, &req, false, (struct span){once, sizeof(once)});
    const int skip = 4 + 15;

    if (len < 0)
        return;
    tassert(vary_match(slice_of(once, (size_t)len), &req));
    req.base = once + skip;
    f.value_len = (uint16_t)(len - skip);
    tassert(vary_match(slice_of(once, (size_t)len), &req));
    tassert(vary_build(&resp, &req, false, (struct span){twice, sizeof(twice)}) == len);
    tassert(memcmp(once, twice, (size_t)len) == 0);
}

/* What a client says of codings is the same each time that it is read, and a client that refuses all of them gets none. */
static void
fuzz_codings(struct slice text)
{
    static const char refusal[] = "gzip;q=0, br;q=0, zstd;q=0, dcz;q=0";
    char bytes[FUZZ_TEXT_MAX + sizeof(refusal)];
    struct http_field f[2] = {{.value_len = (uint16_t)text.len, .id = HTTP_F_ACCEPT_ENCODING},
        {.value_off = (uint16_t)text.len,
            .value_len = sizeof(refusal) - 1,
            .id = HTTP_F_ACCEPT_ENCODING}};
    struct http_message req = {
        .base = bytes, .fields = f, .present = HTTP_BIT(HTTP_F_ACCEPT_ENCODING), .nfields = 1};
    unsigned forms, takes;

    memcpy(mempcpy(bytes, text.ptr, text.len), refusal, sizeof(refusal));
    forms = http_forms_find(&req);
    takes = http_codings(&req);
    tassert((forms & HTTP_FORMS_KNOWN) != 0);
    tassert(http_forms_find(&req) == forms); /* which it may have remembered */
    tassert(((forms & HTTP_FORM_GZIP) != 0) == ((takes & HTTP_TAKES_GZIP) != 0));
    tassert((forms & HTTP_FORM_BR) == 0 || (takes & HTTP_TAKES_BR) != 0);
    req.nfields = 2;
    tassert(http_forms_find(&req) == HTTP_FORMS_KNOWN);
    tassert(http_codings(&req) == 0 && !http_takes_dcz(&req));
    f[0].drop = f[1].drop = true; /* nominated by Connection: as if there were none */
    tassert(http_forms_find(&req) == HTTP_FORMS_KNOWN && http_codings(&req) == 0);
}

/* Both fields of RFC 9842, of one text. */
static void
fuzz_dictionary(struct slice text)
{
    static const char more[] = "dczUse-As-Dictionary";
    char bytes[FUZZ_TEXT_MAX + sizeof(more)];
    const uint16_t len = (uint16_t)text.len;
    struct http_field f[2] = {{.value_len = len, .id = HTTP_F_AVAILABLE_DICTIONARY},
        {.value_off = len, .value_len = 3, .id = HTTP_F_ACCEPT_ENCODING}};
    struct http_field offer = {
        .name_off = (uint16_t)(len + 3), .name_len = 17, .value_len = len, .id = HTTP_F_OTHER};
    struct http_message req = {.base = bytes,
        .fields = f,
        .present = HTTP_BIT(HTTP_F_AVAILABLE_DICTIONARY) | HTTP_BIT(HTTP_F_ACCEPT_ENCODING),
        .nfields = 2};
    struct http_message resp = {
        .base = bytes, .fields = &offer, .present = HTTP_BIT(HTTP_F_OTHER), .nfields = 1};
    uint8_t hash[DICTIONARY_HASH_LEN], again[DICTIONARY_HASH_LEN];

    memcpy(mempcpy(bytes, text.ptr, text.len), more, sizeof(more));
    if (dictionary_available(&req, hash)) {
        tassert(text.len >= 45 && dictionary_available(&req, again)); /* of 32 bytes in base64 */
        tassert(memcmp(hash, again, sizeof(hash)) == 0);
        req.nfields = 1; /* without dcz */
        tassert(!dictionary_available(&req, again));
    }
    (void)dictionary_is_offered(&resp);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char unquoted[64];
    struct slice text;
    char *copy; /* exactly as long as the text, so that a sanitizer sees one byte too far */

    if (size < 2 || size > FUZZ_TEXT_MAX)
        return 0;
    copy = malloc(size - 1);
    tassert(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    text = slice_of(copy, size - 1);
    arena_init(&fuzz_arena, &fuzz_pool);
    switch (data[0]) {
    case 'q':
        fuzz_head(text, true);
        break;
    case 'r':
        fuzz_head(text, false);
        break;
    case 'n':
        fuzz_range(text);
        break;
    case 'u':
        fuzz_uri(text);
        break;
    case 't':
        fuzz_tags(text);
        break;
    case 'b':
        fuzz_block(text);
        break;
    case 'l':
        fuzz_language(text);
        break;
    case 'e':
        fuzz_codings(text);
        break;
    case 'd':
        fuzz_dictionary(text);
        break;
    default:
        fuzz_id(text);
        fuzz_decimal(text);
        fuzz_list(text);
        fuzz_date(text);
        fuzz_authority(text);
        (void)http_unquote(text, (struct span){unquoted, sizeof(unquoted)});
        break;
    }
    arena_fini(&fuzz_arena);
    free(copy);
    return 0;
}
