/* tags_fuzz.c -- fields that name tags, against a reader that goes byte by byte.
 *
 * The input is a block: a status line and fields, lines ending in LF, which become CRLF.  What must
 * hold: the tags are those that the slow reader finds, up to the bounds; with more it may be any;
 * putting lines last loses none, changes none, and leaves no tag to who reads what is before. */
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/tassert.h"
#include "daemon/http/tags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = 16384,
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

static void
fuzz_compare(struct slice block)
{
    struct tags got;

    tags_init(&got);
    tags_add_block(&got, block);
    slow_block(block.ptr, block.len);
    tassert(got.any == slow.any && got.n == slow.n && got.bytes == slow_bytes);
    tassert(memcmp(got.hash, slow.hash, got.n * sizeof(got.hash[0])) == 0);
    tassert(got.n == 0 || tags_lines(block) > 0);
}

static size_t
fuzz_sum(const char *p, size_t n, size_t counts[256])
{
    for (size_t i = 0; i < n; i++)
        counts[(unsigned char)p[i]]++;
    return n;
}

static void
fuzz_put_last(struct slice block)
{
    static size_t before[256], after[256];
    char *out = malloc(block.len + 1); /* exactly as long, but for nothing */
    size_t others;

    tassert(out != NULL);
    others = tags_put_last(block, out);
    tassert(others <= block.len);
    tassert(tags_lines(slice_of(out, others)) == 0);
    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    fuzz_sum(block.ptr, block.len, before);
    fuzz_sum(out, block.len, after);
    tassert(memcmp(before, after, sizeof(before)) == 0);
    if (block.len == 0 || block.ptr[block.len - 1] == '\n') { /* as every block of ours ends */
        tassert(tags_lines(slice_of(out + others, block.len - others)) == tags_lines(block));
        tassert((tags_lines(block) == 0) == (others == block.len));
    }
    free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char block[FUZZ_MAX];
    struct slice exact;
    size_t n = 0;
    char *copy;

    hash_secret_fix(1);
    for (size_t i = 0; i < size && n + 2 <= FUZZ_MAX; i++) {
        if (data[i] == '\n')
            block[n++] = '\r';
        block[n++] = (char)data[i];
    }
    copy = malloc(n + 1);
    tassert(copy != NULL);
    memcpy(copy, block, n);
    exact = slice_of(copy, n);
    fuzz_compare(exact);
    fuzz_put_last(exact);
    free(copy);
    return 0;
}
