/* codec_tool.c -- bodies through codecs, for t/e2e/codec_roundtrip.py.
 *
 * Reads requests from its input until that ends: five numbers of 32 bits, lowest byte first (kind of codec, piece of
 * input, piece of room, flush_every of struct drive, length), and the body.  Answers each by what codec_run()
 * said at the end, the length of what came out, and that. */
#include <stdio.h>

#include "daemon/base/usage.h"
#include "t/unit/codec_drive.h"

static void
tool_write(const void *p, size_t len)
{
    if (len > 0 && fwrite(p, 1, len, stdout) != len)
        exit(1);
}

static void
tool_answer(struct codec_pool *pool, const uint32_t head[5], const char *body)
{
    struct drive d = {.kind = (enum codec_kind)head[0], .in_piece = head[1], .out_piece = head[2]};
    struct drive_out o;
    uint32_t words[2];

    d.flush_every = head[3];
    o = drive_run(pool, &d, slice_of(body, head[4]));
    words[0] = (uint32_t)o.said;
    words[1] = (uint32_t)o.len;
    tool_write(words, sizeof(words));
    tool_write(o.ptr, o.len);
    fflush(stdout);
    drive_done(&o);
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
        tool_answer(pool, head, body);
        free(body);
    }
    codec_pool_free(&pool);
    return u.bytes[USAGE_REQUEST] == 0 ? 0 : 1;
}
