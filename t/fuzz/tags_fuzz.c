/* tags_fuzz.c -- fields that name tags, against a reader that goes byte by byte.
 *
 * The input is lines that end in LF; those with a colon are fields.  What must hold: the tags are
 * those that the slow reader finds, up to the bounds; with more it may be any; putting fields last
 * loses none, and leaves no tag among those before. */
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/tassert.h"
#include "daemon/http/message_out.h"
#include "daemon/http/tags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = 16384,
    FUZZ_FIELDS = FUZZ_MAX / 2,
};

static struct tags slow; /* what the slow reader found */
static size_t slow_bytes;

static void
slow_add(const char *text, size_t len)
{
    uint64_t hash = tag_hash(slice_of(text, len));

    for (unsigned i = 0; i < slow.n; i++)
        if (slow.hash[i] == hash)
            return;
    if (slow.any)
        return;
    if (slow.n == TAGS_MAX || slow_bytes + len > TAGS_BYTES_MAX) {
        slow.any = true;
        return;
    }
    slow_bytes += len;
    slow.hash[slow.n++] = hash;
}

/* One value: which bytes end a tag, and which are no part of one at its ends. */
static void
slow_value(const char *v, size_t len, const char *ends)
{
    size_t first = 0, last = 0; /* of the tag so far, last behind its end; none: equal */

    for (size_t i = 0; i <= len; i++) {
        bool blank = i < len && (v[i] == ' ' || v[i] == '\t');

        if (i == len || (v[i] != '\0' && strchr(ends, v[i]) != NULL)) {
            if (last > first)
                slow_add(v + first, last - first);
            first = last = i + 1;
        } else if (!blank) {
            last = i + 1;
        } else if (last == first) {
            first = last = i + 1;
        }
    }
}

static const char *
slow_ends(const char *line, size_t len, size_t *value)
{
    static const struct {
        const char *name, *ends;
    } fields[] = {{"surrogate-key:", " \t"}, {"xkey:", " \t,"}, {"cache-tag:", ","}};

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        size_t n = strlen(fields[i].name);

        if (len >= n && strncasecmp(line, fields[i].name, n) == 0) {
            *value = n;
            return fields[i].ends;
        }
    }
    return NULL;
}

static void
slow_block(const char *block, size_t len)
{
    tags_init(&slow);
    slow_bytes = 0;
    for (size_t at = 0; at < len;) {
        size_t n = 0, value;
        const char *ends;

        while (at + n < len && block[at + n] != '\n')
            n++;
        ends = slow_ends(block + at, n, &value);
        if (ends != NULL) {
            size_t m = n;

            while (m > value && block[at + m - 1] == '\r')
                m--;
            slow_value(block + at + value, m - value, ends);
        }
        at += n + 1;
    }
}

/* The lines of `block` that have a colon, as fields. */
static struct http_message
fuzz_message(struct slice block, struct http_field *fields)
{
    struct http_message m = {.base = block.ptr, .fields = fields, .max_fields = FUZZ_FIELDS};

    for (size_t at = 0; at < block.len && m.nfields < FUZZ_FIELDS;) {
        struct slice line = slice_of(block.ptr + at, block.len - at);
        const char *end = memchr(line.ptr, '\n', line.len), *colon;

        line.len = end != NULL ? (size_t)(end - line.ptr) : line.len;
        at += line.len + 1;
        while (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        colon = memchr(line.ptr, ':', line.len);
        if (colon == NULL || colon == line.ptr)
            continue;
        fields[m.nfields++] = (struct http_field){.name_off = (uint16_t)(line.ptr - block.ptr),
            .name_len = (uint16_t)(colon - line.ptr),
            .value_off = (uint16_t)(colon + 1 - block.ptr),
            .value_len = (uint16_t)(line.ptr + line.len - colon - 1)};
    }
    return m;
}

static void
fuzz_compare(const struct http_message *m, struct slice block)
{
    struct tags got;

    tags_init(&got);
    tags_add_fields(&got, m);
    slow_block(block.ptr, block.len);
    tassert(got.any == slow.any && got.n == slow.n && got.bytes == slow_bytes);
    tassert(memcmp(got.hash, slow.hash, got.n * sizeof(got.hash[0])) == 0);
    tassert(got.n == 0 || tags_named(m));
}

/* Every field is there once, those that name tags last. */
static void
fuzz_put_last(struct http_message *m)
{
    struct arena_pool pool;
    struct arena arena;
    struct http_message out, others;
    unsigned n;

    for (unsigned i = 0; i < m->nfields; i++) {
        struct http_field *f = &m->fields[i];

        if (!http_token_ok(http_name(m, f)) || !http_value_ok(http_value(m, f)))
            return; /* no message has such */
        f->id = (uint8_t)http_field_id(m->base + f->name_off, f->name_len);
    }
    m->status = 200;
    arena_pool_init(&pool, 1, NULL);
    arena_init(&arena, &pool);
    tassert(tags_put_last(m, &arena, &out, &n) == 0);
    tassert(out.nfields == m->nfields && n <= out.nfields);
    tassert(message_lines_bytes(&out) == message_lines_bytes(m));
    others = out;
    others.nfields = (uint16_t)n;
    tassert(!tags_named(&others));
    for (unsigned i = n; i < out.nfields; i++) {
        struct http_message one = out;

        one.fields = &out.fields[i];
        one.nfields = 1;
        tassert(tags_named(&one));
    }
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_field fields[FUZZ_FIELDS];
    struct http_message m;
    struct slice exact;
    char *copy;

    if (size > FUZZ_MAX)
        return 0;
    hash_secret_fix(1);
    copy = malloc(size + 1);
    tassert(copy != NULL);
    memcpy(copy, data, size);
    exact = slice_of(copy, size);
    m = fuzz_message(exact, fields);
    fuzz_compare(&m, exact);
    fuzz_put_last(&m);
    free(copy);
    return 0;
}
