/* esi_fuzz.c -- a page with ESI is the same however it is cut, and nothing of it is lost.
 *
 * Two bytes say the sizes of pieces and of rooms; the others are the page.  Its bytes are taken as a stored stream,
 * too: whatever it is, decoding ends without a read beyond it. */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/esi/esi_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    PAGE_MAX = 8192,
    STREAM_MAX = PAGE_MAX * 16 + 64,
};

struct judged {
    size_t nshown, nraw;
    char shown[STREAM_MAX], raw[STREAM_MAX];
};

static size_t
fuzz_encode(struct slice page, size_t piece, size_t room, char *stream)
{
    static struct esi_encoder e;
    enum esi_said said = ESI_WANTS_INPUT;
    size_t n = 0;

    esi_encode_init(&e);
    while (said != ESI_ENDED) {
        size_t len = page.len < piece ? page.len : piece;
        char *copy = malloc(len + 1);
        struct slice at = slice_of(copy, len);

        if (len > 0)
            memcpy(copy, page.ptr, len);
        page = slice_of(page.ptr + len, page.len - len);
        do {
            size_t left = STREAM_MAX - n < room ? STREAM_MAX - n : room;
            struct span out = {stream + n, left};

            tassert(left > 0);
            said = esi_encode(&e, &at, &out, page.len == 0);
            n = (size_t)(out.ptr - stream);
        } while (said == ESI_WANTS_ROOM);
        tassert(at.len == 0);
        free(copy);
    }
    return n;
}

static void
fuzz_put(char *to, size_t *n, struct slice s)
{
    tassert(*n + s.len <= STREAM_MAX);
    if (s.len > 0)
        memcpy(to + *n, s.ptr, s.len);
    *n += s.len;
}

/* False: it is no stream. */
static bool
fuzz_decode(struct slice stream, size_t piece, struct judged *j)
{
    static struct esi_decoder d;

    esi_decode_init(&d);
    j->nshown = j->nraw = 0;
    while (stream.len > 0) {
        size_t len = stream.len < piece ? stream.len : piece;
        struct slice in = slice_of(stream.ptr, len);
        struct esi_event ev = {.what = ESI_TEXT};

        stream = slice_of(stream.ptr + len, stream.len - len);
        while (ev.what != ESI_NOTHING) {
            if (!esi_decode(&d, &in, &ev))
                return false;
            if (ev.what == ESI_INCLUDE) {
                tassert(ev.include.src.len > 0);
                fuzz_put(j->shown, &j->nshown, ev.include.src);
                fuzz_put(j->shown, &j->nshown, SLICE_LIT("\1"));
                fuzz_put(j->shown, &j->nshown, ev.include.alt);
                fuzz_put(
                    j->shown, &j->nshown, ev.include.go_on ? SLICE_LIT("\2") : SLICE_LIT("\3"));
            } else if (ev.what != ESI_NOTHING) {
                tassert(ev.run.len > 0);
                fuzz_put(j->raw, &j->nraw, ev.run);
                if (ev.what == ESI_TEXT)
                    fuzz_put(j->shown, &j->nshown, ev.run);
            }
        }
    }
    return esi_decode_is_whole(&d);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char stream[STREAM_MAX];
    static struct judged whole, cut;
    struct slice page;
    size_t n;

    if (size < 2 || size > PAGE_MAX)
        return 0;
    page = slice_of((const char *)data + 2, size - 2);
    n = fuzz_encode(page, PAGE_MAX, STREAM_MAX, stream);
    tassert(fuzz_decode(slice_of(stream, n), STREAM_MAX, &whole));
    tassert(slice_eq(page, slice_of(whole.raw, whole.nraw)));
    n = fuzz_encode(page, 1u + data[0] % 32, 1u + data[1] % 32, stream);
    tassert(fuzz_decode(slice_of(stream, n), 1u + data[1] % 32, &cut));
    tassert(slice_eq(page, slice_of(cut.raw, cut.nraw)));
    tassert(slice_eq(slice_of(whole.shown, whole.nshown), slice_of(cut.shown, cut.nshown)));
    /* What no encoder wrote. */
    (void)fuzz_decode(page, 1u + data[0] % 32, &cut);
    return 0;
}
