/* repack_fuzz.c -- a body that is packed again is unpacked as it was, and is never more than its room.
 *
 * Four bytes say how: the form, its level, the room (in 64ths of the body; 0: enough), and the dictionary's length (in
 * 256ths of the input, of its front). */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "daemon/base/usage.h"
#include "daemon/filter/repack.h"
#include "t/unit/codec_drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HEAD_BYTES = 4,
    INPUT_MAX = 100000,
    ROOM_MAX = 2 * INPUT_MAX + 1000,
};

static const struct {
    int level_min, levels;
    enum codec_kind unpacks; /* REPACK_DCZ: none here */
} forms[] = {[REPACK_GZIP] = {1, 3, CODEC_GUNZIP},
    [REPACK_BROTLI] = {0, 12, CODEC_UNBROTLI},
    [REPACK_ZSTD] = {1, 19, CODEC_UNZSTD},
    [REPACK_DCZ] = {1, 19, CODEC_KINDS}};

static struct usage usage, own;
static struct codec_pool *pool;
static char packed[ROOM_MAX], unpacked[INPUT_MAX + 1];
static const uint8_t hash[REPACK_HASH_BYTES];

static void
fuzz_dcz(const struct repack *how, struct slice body, size_t len)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    size_t got;

    tassert(z != NULL && len > REPACK_DCZ_HEAD_BYTES);
    got = ZSTD_DCtx_refPrefix(z, how->dictionary.ptr, how->dictionary.len);
    tassert(!ZSTD_isError(got));
    got = ZSTD_decompressDCtx(
        z, unpacked, sizeof(unpacked), packed + REPACK_DCZ_HEAD_BYTES, len - REPACK_DCZ_HEAD_BYTES);
    tassert(!ZSTD_isError(got) && slice_eq(slice_of(unpacked, got), body));
    ZSTD_freeDCtx(z);
}

static void
fuzz_unpack(const struct repack *how, struct slice body, size_t len)
{
    struct drive d = {.kind = forms[how->form].unpacks};
    struct drive_out got;

    if (d.kind == CODEC_KINDS) {
        fuzz_dcz(how, body, len);
        return;
    }
    got = drive_run(pool, &d, slice_of(packed, len));
    tassert(got.said == CODEC_ENDED && slice_eq(slice_of(got.ptr, got.len), body));
    drive_done(&got);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct repack how = {.usage = &own};
    struct slice body;
    struct span out = {packed, sizeof(packed)};
    size_t len, room, known;
    int said;

    if (size < HEAD_BYTES || size > INPUT_MAX)
        return 0;
    if (pool == NULL)
        pool = codec_pool_new(&usage, 1);
    tassert(pool != NULL);
    how.form = (enum repack_form)(data[0] % REPACK_FORMS);
    how.level = forms[how.form].level_min + data[1] % forms[how.form].levels;
    body = slice_of((const char *)data + HEAD_BYTES, size - HEAD_BYTES);
    if (how.form == REPACK_DCZ) {
        known = body.len * data[3] / 256;
        how.dictionary = slice_of(body.ptr, known);
        how.hash = hash;
        body = slice_of(body.ptr + known, body.len - known);
    }
    room = data[2] > 0 ? body.len * data[2] / 64 : sizeof(packed);
    out.len = room < sizeof(packed) ? room : sizeof(packed);
    room = out.len;
    said = repack(&how, body, &out);
    len = (size_t)(out.ptr - packed);
    tassert(len + out.len == room && own.bytes[USAGE_REQUEST] == 0);
    tassert(said == REPACK_DONE || (said == REPACK_TOO_LARGE && data[2] > 0 && len == 0));
    if (said == REPACK_DONE)
        fuzz_unpack(&how, body, len);
    return 0;
}
