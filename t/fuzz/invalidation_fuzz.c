/* invalidation_fuzz.c -- records of invalidation as pairs: read, written, and read again.
 *
 * The input is lines that end in LF, a name and behind the first "=" a value; behind a byte 0xFF the line's
 * LFs are part of the value, up to the next 0xFF.  What must hold: a record is taken, or refused with a
 * reason that a terminal may show; what is taken has what its kind needs, lies in the input, and written
 * and read again it means the same. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/cache/invalidation_pairs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = 256 * 1024,
    FUZZ_PAIRS = 600,
};

static unsigned
fuzz_split(struct slice text, struct pair *list)
{
    unsigned n = 0;

    while (text.len > 0 && n < FUZZ_PAIRS) {
        const char *equals = memchr(text.ptr, '=', text.len), *end;
        struct slice rest, name;
        char ends = '\n';

        if (equals == NULL)
            break;
        name = slice_of(text.ptr, (size_t)(equals - text.ptr));
        rest = slice_of(equals + 1, text.len - name.len - 1);
        if (rest.len > 0 && rest.ptr[0] == '\xff') {
            ends = '\xff';
            rest = slice_of(rest.ptr + 1, rest.len - 1);
        }
        end = rest.len > 0 ? memchr(rest.ptr, ends, rest.len) : NULL;
        list[n].name = name;
        list[n++].value = slice_of(rest.ptr, end != NULL ? (size_t)(end - rest.ptr) : rest.len);
        text = end != NULL ? slice_of(end + 1, rest.len - (size_t)(end - rest.ptr) - 1)
                           : slice_of(rest.ptr + rest.len, 0);
    }
    return n;
}

static void
fuzz_same(const struct invalidation *a, const struct invalidation *b)
{
    tassert(a->kind == b->kind && a->soft == b->soft && a->changed == b->changed);
    tassert(a->ttl_ms == b->ttl_ms && a->grace_ms == b->grace_ms && a->keep_ms == b->keep_ms);
    tassert(slice_eq(a->text, b->text) && a->ntags == b->ntags && a->nfields == b->nfields);
    for (unsigned i = 0; i < a->ntags; i++)
        tassert(slice_eq(a->tags[i], b->tags[i]));
    for (unsigned i = 0; i < a->nfields; i++) {
        tassert(slice_eq(a->fields[i].name, b->fields[i].name));
        tassert(slice_eq(a->fields[i].value, b->fields[i].value));
    }
}

/* By the table at the top of invalidation_pairs.h, read anew. */
static void
fuzz_judge(const struct invalidation *inv)
{
    bool has_text = inv->kind == INVALIDATION_URL || inv->kind == INVALIDATION_KEY ||
                    inv->kind == INVALIDATION_BAN;

    tassert(has_text == (inv->text.len > 0) && inv->text.len <= INVALIDATION_TEXT_MAX);
    tassert((inv->kind == INVALIDATION_TAGS) == (inv->ntags > 0) && inv->ntags <= TAG_PURGE_MAX);
    tassert(inv->nfields == 0 || inv->kind == INVALIDATION_URL);
    tassert(!inv->changed || (inv->kind == INVALIDATION_KEY && !inv->soft));
    tassert(!inv->soft || inv->kind != INVALIDATION_BAN);
    tassert(inv->kind == INVALIDATION_KEY || inv->text.len == 0 ||
            memchr(inv->text.ptr, '\0', inv->text.len) == NULL);
    for (unsigned i = 0; i < inv->ntags; i++)
        tassert(inv->tags[i].len > 0 && memchr(inv->tags[i].ptr, '\n', inv->tags[i].len) == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pair list[FUZZ_PAIRS], written[INVALIDATION_PAIRS_MAX + INVALIDATION_FIELDS_MAX];
    static struct invalidation_room room, again_room;
    static char bytes[FUZZ_MAX + INVALIDATION_NUMBERS_MAX + 2 * INVALIDATION_FIELDS_MAX];
    struct pairs out = {.list = written,
        .max = sizeof(written) / sizeof(written[0]),
        .room = {bytes, sizeof(bytes)}};
    struct invalidation inv, again;
    char why[120] = "", *exact;
    struct span say = {why, sizeof(why)};
    int err;

    if (size > FUZZ_MAX)
        return 0;
    exact = malloc(size + 1); /* so that the sanitizer sees a byte too far */
    tassert(exact != NULL);
    memcpy(exact, data, size);
    err = invalidation_from_pairs(list, fuzz_split(slice_of(exact, size), list), &room, &inv, say);
    if (err == 0) {
        fuzz_judge(&inv);
        tassert(invalidation_to_pairs(&inv, &out) == 0);
        tassert(invalidation_from_pairs(out.list, out.n, &again_room, &again, say) == 0);
        fuzz_same(&inv, &again);
    } else {
        tassert(err == TERR_SYNTAX || err == TERR_INVALID);
        tassert(why[0] != '\0' && strlen(why) < sizeof(why) - 1);
        for (const char *c = why; *c != '\0'; c++)
            tassert(*c >= ' ' && *c <= '~');
    }
    free(exact);
    return 0;
}
