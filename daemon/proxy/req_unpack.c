/* req_unpack.c -- a form that the client does not take: the response as it was before it was packed. */
#include <limits.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec.h"
#include "daemon/http/derive.h"
#include "daemon/http/vary.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/req_priv.h"

/* Clients say the same thing again and again: the last value is remembered. */
bool
req_takes_gzip(const struct req *r)
{
    const struct http_field *f = http_find(r->head, HTTP_F_ACCEPT_ENCODING, NULL);
    struct proxy_codings *last = &r->proxy->last_codings;
    struct slice value;

    if (f == NULL)
        return false;
    value = http_value(r->head, f);
    if (value.len == last->len && memcmp(value.ptr, last->text, value.len) == 0 && !f->drop &&
        http_find(r->head, HTTP_F_ACCEPT_ENCODING, f) == NULL)
        return last->takes_gzip;
    last->len = 0;
    last->takes_gzip = (http_codings(r->head) & HTTP_TAKES_GZIP) != 0;
    if (value.len <= sizeof(last->text) && !f->drop &&
        http_find(r->head, HTTP_F_ACCEPT_ENCODING, f) == NULL) {
        memcpy(last->text, value.ptr, value.len);
        last->len = (uint8_t)value.len;
    }
    return last->takes_gzip;
}

/* Is it packed at all?  Then it is derived without its coding, and unpacked from its first byte on: a range
 * of it would have to begin there, too, so ranges are not heeded (RFC 9110 14.2). */
int
req_begin_unpacked(struct req *r)
{
    static const struct slice none = {"", 0};
    const struct http_message *stored = req_response(r);
    struct http_message *m;
    struct codec *codec;

    tassert(r->entry != NULL && !r->head_sent && r->rep.unpack == NULL);
    if (stored == NULL)
        return TERR_NOMEM;
    if (!http_has(stored, HTTP_F_CONTENT_ENCODING))
        return 0;
    m = arena_alloc(&r->x->arena, sizeof(*m));
    if (m == NULL || derive_coding(stored, &none, &r->x->arena, m) != 0)
        return TERR_NOMEM;
    tassert(!http_has(m, HTTP_F_CONTENT_ENCODING) && !http_has(m, HTTP_F_CONTENT_LENGTH));
    r->unpacks = true;
    r->resp.message = m;
    r->resp.rendered = slice_of(NULL, 0);
    r->resp.length = STOBJ_SIZE_UNKNOWN;
    r->resp.length_in_fields = false;
    if (r->resp.bodyless)
        return 0;
    codec = proxy_codec(r->proxy, CODEC_GUNZIP, UINT_MAX);
    if (codec == NULL)
        return TERR_NOMEM;
    if (rep_unpack(&r->rep, codec, &r->proxy->loop->usage) != 0) {
        codec_free(&codec);
        return TERR_NOMEM;
    }
    counter_add(r->proxy->counters, COUNTER_compress_unpacked, 1);
    return 0;
}

void
req_note_broken(struct req *r)
{
    struct slice path = http_path(r->head);

    if (!rep_unpack_is_broken(&r->rep))
        return;
    counter_add(r->proxy->counters, COUNTER_compress_broken, 1);
    elog(ELOG_WARN, "%.*s: Content-Encoding is gzip, and the body is not; cut",
        (int)(path.len < 200 ? path.len : 200), path.ptr);
}
