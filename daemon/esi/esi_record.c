/* esi_record.c -- events into bytes and back. */
#include "daemon/esi/esi_record.h"

#include "daemon/base/tassert.h"

enum {
    INCLUDE_GOES_ON = 1, /* flags */
};

void
esi_encode_init(struct esi_encoder *e)
{
    memset(e, 0, sizeof(*e));
    esi_parse_init(&e->parser);
}

static char
esi_byte(uint32_t v, unsigned i)
{
    return (char)(v >> (8 * i) & 0xff);
}

static uint32_t
esi_number(const char *p, unsigned n)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint32_t)(unsigned char)p[i] << (8 * i);
    return v;
}

static void
esi_put_part(struct esi_encoder *e, struct slice part)
{
    tassert(e->nparts < 4);
    if (part.len > 0)
        e->part[e->nparts++] = part;
}

/* The record of an event: its parts. */
static void
esi_begin_record(struct esi_encoder *e, const struct esi_event *ev)
{
    const struct esi_include *in = &ev->include;
    size_t len = ev->run.len, head = ESI_RECORD_HEAD;

    e->at = e->nparts = 0;
    e->head[0] = ev->what == ESI_TEXT ? 'T' : ev->what == ESI_MARKUP ? 'M' : 'I';
    if (ev->what == ESI_INCLUDE) {
        e->includes++;
        len = ESI_INCLUDE_HEAD + in->src.len + in->alt.len;
        head += ESI_INCLUDE_HEAD;
        e->head[5] = in->go_on ? INCLUDE_GOES_ON : 0;
        e->head[6] = esi_byte((uint32_t)in->src.len, 0);
        e->head[7] = esi_byte((uint32_t)in->src.len, 1);
    }
    tassert(len > 0 && len <= UINT32_MAX);
    for (unsigned i = 0; i < 4; i++)
        e->head[1 + i] = esi_byte((uint32_t)len, i);
    esi_put_part(e, slice_of(e->head, head));
    if (ev->what == ESI_INCLUDE) {
        esi_put_part(e, in->src);
        esi_put_part(e, in->alt);
    } else {
        esi_put_part(e, ev->run);
    }
}

/* False: there is more of the record than room. */
static bool
esi_write(struct esi_encoder *e, struct span *out)
{
    while (e->at < e->nparts) {
        struct slice *part = &e->part[e->at];
        size_t n = part->len < out->len ? part->len : out->len;

        if (n > 0)
            memcpy(out->ptr, part->ptr, n);
        *out = (struct span){out->ptr + n, out->len - n};
        *part = slice_of(part->ptr + n, part->len - n);
        if (part->len > 0)
            return false;
        e->at++;
    }
    return true;
}

enum esi_said
esi_encode(struct esi_encoder *e, struct slice *in, struct span *out, bool ends)
{
    struct esi_event ev;

    for (;;) {
        if (!esi_write(e, out))
            return ESI_WANTS_ROOM;
        ev = (struct esi_event){.what = ESI_NOTHING};
        esi_parse_next(&e->parser, in, ends, &ev);
        if (ev.what == ESI_NOTHING)
            return ends ? ESI_ENDED : ESI_WANTS_INPUT;
        esi_begin_record(e, &ev);
    }
}

void
esi_decode_init(struct esi_decoder *d)
{
    memset(d, 0, offsetof(struct esi_decoder, head));
}

bool
esi_decode_is_whole(const struct esi_decoder *d)
{
    return d->left == 0 && d->nhead == 0;
}

static size_t
esi_take(struct slice *in, char *to, size_t want)
{
    size_t n = in->len < want ? in->len : want;

    if (n > 0)
        memcpy(to, in->ptr, n);
    *in = slice_of(in->ptr + n, in->len - n);
    return n;
}

/* The head is complete. */
static bool
esi_record_begins(struct esi_decoder *d)
{
    d->nhead = 0;
    d->npayload = 0;
    d->left = esi_number(d->head + 1, 4);
    d->what = d->head[0] == 'T'   ? ESI_TEXT
              : d->head[0] == 'M' ? ESI_MARKUP
              : d->head[0] == 'I' ? ESI_INCLUDE
                                  : ESI_NOTHING;
    return d->what != ESI_NOTHING && d->left > 0 &&
           (d->what != ESI_INCLUDE || (d->left > ESI_INCLUDE_HEAD && d->left <= ESI_INCLUDE_MAX));
}

static bool
esi_decode_include(struct esi_decoder *d, struct esi_event *e)
{
    const char *text = d->payload + ESI_INCLUDE_HEAD;
    size_t len = d->npayload - (size_t)ESI_INCLUDE_HEAD, src = esi_number(d->payload + 1, 2);

    if (src == 0 || src > len)
        return false;
    e->what = ESI_INCLUDE;
    e->include = (struct esi_include){slice_of(text, src), slice_of(text + src, len - src),
        (d->payload[0] & INCLUDE_GOES_ON) != 0};
    return true;
}

bool
esi_decode(struct esi_decoder *d, struct slice *in, struct esi_event *e)
{
    e->what = ESI_NOTHING;
    while (in->len > 0) {
        size_t n;

        if (d->left == 0) {
            d->nhead += (uint8_t)esi_take(in, d->head + d->nhead, ESI_RECORD_HEAD - d->nhead);
            if (d->nhead == ESI_RECORD_HEAD && !esi_record_begins(d))
                return false;
            continue;
        }
        if (d->what != ESI_INCLUDE) {
            n = in->len < d->left ? in->len : d->left;
            e->what = (enum esi_what)d->what;
            e->run = slice_of(in->ptr, n);
            *in = slice_of(in->ptr + n, in->len - n);
            d->left -= (uint32_t)n;
            return true;
        }
        n = esi_take(in, d->payload + d->npayload, d->left);
        d->npayload = (uint16_t)(d->npayload + n);
        d->left -= (uint32_t)n;
        if (d->left == 0)
            return esi_decode_include(d, e);
    }
    return true;
}
