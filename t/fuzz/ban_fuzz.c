/* ban_fuzz.c -- expressions of bans: read, said again, and tried on a response.
 *
 * The input is an expression, a newline, and the head of a stored response, lines ending in LF.
 * What must hold: an expression is taken or refused with a reason; what is listed of a taken one
 * means the same to the parser, and both give the same answer; without a stored head no
 * comparison of obj.http but != holds. */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/message_out.h"
#include "daemon/http/packed_fields.h"
#include "daemon/http/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_HEAD_MAX = 8192,
    FUZZ_FIELDS = LIMIT_FIELDS,
};

/* The fields of `text` that a message may have, as they are stored. */
static void
fuzz_store(struct slice text, struct entry_block *stored)
{
    struct arena_pool pool;
    struct arena arena;
    struct http_message m;
    struct message_out o;

    arena_pool_init(&pool, 1, NULL);
    arena_init(&arena, &pool);
    tassert(message_out_begin(&o, &m, &arena, FUZZ_HEAD_MAX, FUZZ_FIELDS) == 0);
    message_out_status(&o, 200, slice_of("", 0));
    while (text.len > 0 && m.nfields < FUZZ_FIELDS) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct slice line = slice_of(text.ptr, end != NULL ? (size_t)(end - text.ptr) : text.len);
        const char *colon = memchr(line.ptr, ':', line.len);
        size_t at = colon != NULL ? (size_t)(colon - line.ptr) : 0;
        struct slice name = slice_of(line.ptr, at), value;

        text = slice_of(
            line.ptr + line.len + (end != NULL), text.len - line.len - (end != NULL ? 1 : 0));
        value =
            http_trim(slice_of(line.ptr + at + (colon != NULL), line.len - at - (colon != NULL)));
        if (http_token_ok(name) && http_value_ok(value))
            message_out_field(&o, http_field_id(name.ptr, name.len), name, value);
        if (o.full)
            break;
    }
    if (message_out_end(&o) != 0)
        m.nfields = m.len = 0;
    stored->head_len = m.len;
    stored->fields_len = packed_fields_bytes(&m) & 0x7ff;
    memcpy(stored->text, m.base, m.len);
    packed_fields_write(&m, stored->text + m.len);
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

static bool
fuzz_matches(const struct ban *b, const struct entry *e, const struct http_message *req)
{
    static struct ban_subject s;
    unsigned tests = 0;
    bool matches;

    s.e = e;
    s.req = req;
    s.parsed = false;
    matches = ban_matches(b, &s, &tests);
    tassert(tests > 0 && tests <= b->ntests);
    tassert(!matches || tests == b->ntests);
    return matches;
}

/* A request without fields. */
static const struct http_message fuzz_request = {
    .base = "GET /shop?a=1 HTTP/1.1\r\n\r\n",
    .method = HTTP_M_GET,
    .path_off = 4,
    .path_len = 9,
};

static void
fuzz_missing(const struct ban *b)
{
    static const struct entry none = {
        .block = &entry_no_block}; /* no head: every header is missing */

    for (unsigned i = 0; i < b->ntests; i++)
        if (b->tests[i].field == BAN_OBJ_HTTP && b->tests[i].op != BAN_NE)
            tassert(!fuzz_matches(b, &none, &fuzz_request));
}

static void
fuzz_taken(struct ban *b, const struct entry *e)
{
    char why[300];
    struct ban *again;
    bool matches = fuzz_matches(b, e, &fuzz_request);
    struct slice text = slice_of(b->text, b->text_len);

    tassert(text.len <= BAN_TEXT_MAX);
    tassert(ban_parse(&again, text, why, sizeof(why)) == 0);
    tassert(slice_eq(text, slice_of(again->text, again->text_len)));
    again->mono_ms = b->mono_ms;
    tassert(again->hash == b->hash && again->ntests == b->ntests);
    tassert(again->needs_request == b->needs_request && again->by_time == b->by_time);
    tassert(fuzz_matches(again, e, &fuzz_request) == matches);
    ban_free(again);
    fuzz_missing(b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size > 0 ? (const char *)memchr(text, '\n', size) : NULL;
    size_t len = end != NULL ? (size_t)(end - text) : size;
    static union {
        struct entry_block block;
        char room[sizeof(struct entry_block) + FUZZ_HEAD_MAX + 4 * FUZZ_FIELDS];
    } stored;
    struct entry e = {.block = &stored.block, .received_ms = 100000};
    char why[300] = "", *exact = malloc(len + 1);
    struct ban *b;
    int err;

    tassert(exact != NULL);
    memcpy(exact, text, len); /* so that the sanitizer sees a byte too far */
    atomic_init(&e.ttl, 60000);
    atomic_init(&e.grace, 10000);
    atomic_init(&e.keep, 20000);
    stored.block.status = 200;
    stored.block.age = 3000;
    fuzz_store(end != NULL ? slice_of(end + 1, size - len - 1) : slice_of("", 0), &stored.block);
    err = ban_parse(&b, slice_of(exact, len), why, sizeof(why));
    free(exact);
    if (err == 0) {
        b->mono_ms = 120000;
        fuzz_taken(b, &e);
        ban_free(b);
    } else {
        tassert(err == TERR_SYNTAX && why[0] != '\0' && strlen(why) < sizeof(why));
    }
    return 0;
}
