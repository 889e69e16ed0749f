/* field_fuzz.c -- the field parsers against slow references, and heads against a re-parse.
 *
 * The first byte chooses what is tried, the rest is the text.  Built with a fuzzer's main, or
 * (FUZZ_REPLAY) with one of its own that runs every file of the directories it is given.
 */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/date.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"
#include "daemon/http/freshness.h"
#include "daemon/http/token.h"
#include "daemon/http/uri.h"
#include "daemon/http/vary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_TEXT_MAX = 8192,
    FUZZ_OUT_MAX = 65536
};

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
        tassert(!isupper((unsigned char)once[i]) && strchr("@/?#\\, \t%", once[i]) == NULL);
}

/* A head from lines, as lenient as the checks of the real parser allow. */
static void
fuzz_head_lines(struct http_head *h, struct slice text)
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

static void
fuzz_request(struct http_head *h, char *out)
{
    struct forward_request how = {.keep_connection = true,
        .host = SLICE_LIT("h"),
        .client_address = SLICE_LIT("::1"),
        .pseudonym = SLICE_LIT("tarn")};
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct framing_connection c;
    struct framing f;
    int len;

    h->method = HTTP_M_GET;
    if (http_target_parse(h, &scheme) < 0 || framing_of_request(h, &f) < 0 ||
        framing_connection_of_request(h, &c) < 0)
        return;
    how.framing = f.kind;
    how.length = f.length;
    len = forward_request(h, &how, (struct span){out, FUZZ_OUT_MAX});
    tassert(len > 0);
    fuzz_check_written(out, len, true);
    how.mode = FORWARD_FETCH;
    how.framing = FRAMING_NONE;
    len = forward_request(h, &how, (struct span){out, FUZZ_OUT_MAX});
    tassert(len > 0);
    fuzz_check_written(out, len, true);
}

static void
fuzz_response(struct http_head *h, char *out)
{
    static const struct fresh_params params = {120000, 10000, 0};
    static const struct fresh_request req = {HTTP_M_GET, false, false, 1000, 2000};
    struct forward_response how = {FORWARD_STORED, SLICE_LIT("tarn"), 0};
    struct framing_connection c;
    struct fresh_verdict v;
    struct framing f;
    int len;

    h->status = 200;
    (void)framing_of_response(h, HTTP_M_GET, &f);
    if (framing_connection_of_response(h, &c) < 0)
        return;
    fresh_judge(h, &req, &params, &v);
    tassert(v.storable == (v.refusal == FRESH_REFUSE_NONE) && (!v.storable || v.ttl_ms > 0));
    len = forward_response(h, &how, (struct span){out, FUZZ_OUT_MAX});
    tassert(len > 0 && (size_t)len <= forward_response_max(h, &how));
    fuzz_check_written(out, len, false);
    len = vary_build(h, h, (struct span){out, FUZZ_OUT_MAX});
    if (len >= 0)
        tassert(vary_match(slice_of(out, (size_t)len), h) == !vary_is_star(h));
}

static void
fuzz_head(struct slice text, bool is_request)
{
    static char out[FUZZ_OUT_MAX];
    struct http_field fields[64];
    struct http_head h = {.base = text.ptr, .fields = fields, .max_fields = 64, .minor = 1};
    const char *end = memchr(text.ptr, '\n', text.len);

    if (end == NULL)
        return;
    h.target_len = (uint16_t)(end - text.ptr);
    fuzz_head_lines(&h, slice_of(end + 1, text.len - h.target_len - 1u));
    (void)vary_match(slice_of(text.ptr, h.target_len), &h);
    if (is_request)
        fuzz_request(&h, out);
    else
        fuzz_response(&h, out);
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
    switch (data[0]) {
    case 'q':
        fuzz_head(text, true);
        break;
    case 'r':
        fuzz_head(text, false);
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
    free(copy);
    return 0;
}

#ifdef FUZZ_REPLAY
#include <dirent.h>

static void
fuzz_replay_file(const char *dir, const char *name)
{
    static uint8_t bytes[FUZZ_TEXT_MAX + 1];
    char path[4096];
    size_t size, i;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "rb");
    if (file == NULL)
        return;
    size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (i = 0; i <= size; i++) /* every beginning of it too: texts are cut anywhere */
        LLVMFuzzerTestOneInput(bytes, i);
}

/* Usage: field_fuzz DIRECTORY... */
int
main(int argc, char **argv)
{
    struct dirent *entry;
    int i, files = 0;
    DIR *dir;

    for (i = 1; i < argc; i++) {
        dir = opendir(argv[i]);
        assert(dir != NULL);
        while ((entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] == '.')
                continue;
            fuzz_replay_file(argv[i], entry->d_name);
            files++;
        }
        closedir(dir);
    }
    printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
#endif
