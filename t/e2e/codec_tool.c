/* codec_tool.c -- bodies through codecs, for t/e2e/codec_roundtrip.py and codec_forms.py.
 *
 * Reads requests from its input until that ends: five numbers of 32 bits, lowest byte first (kind of codec, piece of
 * input, piece of room, flush_every of struct drive, length), and the body.  Answers each by what codec_run()
 * said at the end, the length of what came out, and that.
 *
 * A kind of TOOL_REPACK and a form packs it again: then the numbers are its level, the length of the dictionary, which is
 * the front of the body, and the room. */
#include <stdio.h>

#include "daemon/base/usage.h"
#include "daemon/filter/repack.h"
#include "t/unit/codec_drive.h"

enum {
    TOOL_REPACK = 256,
};

static void
tool_write(const void *p, size_t len)
{
    if (len > 0 && fwrite(p, 1, len, stdout) != len)
        exit(1);
}

static void
tool_say(int said, const char *p, size_t len)
{
    uint32_t words[2] = {(uint32_t)said, (uint32_t)len};

    tool_write(words, sizeof(words));
    tool_write(p, len);
    fflush(stdout);
}

static void
tool_answer(struct codec_pool *pool, const uint32_t head[5], const char *body)
{
    struct drive d = {.kind = (enum codec_kind)head[0], .in_piece = head[1], .out_piece = head[2]};
    struct drive_out o;

    d.flush_every = head[3];
    o = drive_run(pool, &d, slice_of(body, head[4]));
    tool_say(o.said, o.ptr, o.len);
    drive_done(&o);
}

static void
tool_repack(struct usage *u, const uint32_t head[5], const char *body)
{
    static const uint8_t hash[REPACK_HASH_BYTES];
    struct repack how = {
        .form = (enum repack_form)(head[0] - TOOL_REPACK), .level = (int)head[1], .usage = u};
    char *at = malloc(head[3] + 1u);
    struct span out = {at, head[3]};
    int said;

    if (at == NULL || head[2] > head[4])
        exit(1);
    if (how.form == REPACK_DCZ)
        how.hash = hash;
    how.dictionary = slice_of(body, head[2]);
    said = repack(&how, slice_of(body + head[2], head[4] - head[2]), &out);
    tool_say(said, at, (size_t)(out.ptr - at));
    free(at);
}

int
main(void)
{
    struct usage u = {0};
    struct codec_pool *pool = codec_pool_new(&u, 1);
    uint32_t head[5];

    while (fread(head, sizeof(head), 1, stdin) == 1) {
        char *body = malloc(head[4] + 1u);

        if (body == NULL || fread(body, 1, head[4], stdin) != head[4])
            return 1;
        if (head[0] >= TOOL_REPACK)
            tool_repack(&u, head, body);
        else
            tool_answer(pool, head, body);
        free(body);
    }
    codec_pool_free(&pool);
    return u.bytes[USAGE_REQUEST] == 0 ? 0 : 1;
}
