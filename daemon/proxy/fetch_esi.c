/* fetch_esi.c -- a page with Edge Side Includes: parsed once, while it comes, and stored as records.
 *
 *   connection -> [room of fetch_pack.c] -> [gunzip] -> parser -> records -> [space_get] object
 *
 * A page of one length and one ETag is no promise for what is put together of it: so these fields go, or are kept
 * for the question whether the page has changed (README 52).
 */
#include "daemon/base/terr.h"
#include "daemon/esi/esi_record.h"
#include "daemon/filter/codec.h"
#include "daemon/http/derive.h"
#include "daemon/http/message_out.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/fetch_policy.h"

enum {
    ESI_UNPACKED = 16384, /* bytes that are unpacked at a time */
};

struct fetch_esi {
    struct esi_encoder encoder;
    struct slice left; /* of what was unpacked: not parsed yet */
    bool due, ended;   /* the codec has more; everything was unpacked */
    char unpacked[];   /* where there is a codec */
};

/* What a route's `esi: on` means: an image has no includes, and would lose its ETag and its length. */
bool
fetch_esi_by_route(const struct fetch *f, const struct http_message *head)
{
    static const struct conf_compress pages = {
        .types = "text/html application/xhtml+xml text/xml application/xml"};

    return f->by_esi &&
           (!http_has(head, HTTP_F_CONTENT_TYPE) ||
               conf_compress_has_type(&pages, http_get_one(head, HTTP_F_CONTENT_TYPE)));
}

/* Is its body a page that the policy or the route wants to be processed? */
static bool
esi_is_page(const struct fetch *f, const struct http_message *head)
{
    unsigned status = head->status % 1000u;

    return (f->vcl != NULL ? f->vcl->at.esi : fetch_esi_by_route(f, head)) &&
           f->kind != FETCH_REST && status >= 200 && status != 204 && status != 206 &&
           status != 304;
}

bool
fetch_esi_wants(const struct fetch *f, const struct http_message *head, bool *packed)
{
    bool coded;

    if (!esi_is_page(f, head) || fetch_exchange(f)->body_length == 0)
        return false;
    coded = http_has(head, HTTP_F_CONTENT_ENCODING);
    if (coded && !fetch_head_is_gzip(head))
        return false; /* nothing of it can be read */
    if (packed != NULL)
        *packed = coded;
    return true;
}

int
fetch_esi_open(struct fetch *f, bool packed)
{
    struct usage *u = &f->proxy->loop->usage;

    tassert(f->esi == NULL && f->body == NULL);
    f->esi = usage_alloc(u, USAGE_REQUEST, sizeof(*f->esi) + (packed ? ESI_UNPACKED : 0));
    if (f->esi == NULL)
        return TERR_NOMEM;
    memset(f->esi, 0, sizeof(*f->esi));
    esi_encode_init(&f->esi->encoder);
    counter_add(f->proxy->counters, COUNTER_esi_parsed, 1);
    return 0;
}

void
fetch_esi_close(struct fetch *f)
{
    const struct esi_parser *p = f->esi != NULL ? &f->esi->encoder.parser : NULL;
    struct slice path = http_path(&f->req);

    if (p == NULL)
        return;
    if (p->errors > 0) {
        counter_add(f->proxy->counters, COUNTER_esi_malformed, p->errors);
        elog(ELOG_WARN, "esi: malformed=%u first=\"%s\" host=%.*s url=%.*s", p->errors, p->why,
            (int)f->host.len, f->host.ptr, (int)(path.len < 200 ? path.len : 200), path.ptr);
    }
    usage_free(&f->proxy->loop->usage, USAGE_REQUEST, f->esi);
    f->esi = NULL;
}

/* The next piece of what is unpacked.  0, or an error of codec_run(). */
static int
esi_unpack(struct fetch_esi *e, struct codec *codec, struct slice *in, bool ends)
{
    struct span out = {e->unpacked, ESI_UNPACKED};
    int said;

    tassert(e->left.len == 0 && !e->ended);
    if (ends && in->len == 0 && codec_in(codec) == 0) { /* no byte: an empty body */
        e->ended = true;
        return 0;
    }
    said = codec_run(codec, in, &out, ends ? CODEC_ENDS : CODEC_GOES_ON);
    if (said < 0)
        return said;
    e->due = said == CODEC_WANTS_ROOM;
    e->ended = said == CODEC_ENDED;
    e->left = slice_of(e->unpacked, ESI_UNPACKED - out.len);
    return 0;
}

int
fetch_esi_run(
    struct fetch *f, struct codec *codec, struct slice *in, struct span *out, enum codec_flow flow)
{
    struct fetch_esi *e = f->esi;

    for (;;) {
        bool ends = codec == NULL ? flow == CODEC_ENDS : e->ended;
        enum esi_said said = esi_encode(&e->encoder, codec == NULL ? in : &e->left, out, ends);
        int err;

        if (said != ESI_WANTS_INPUT)
            return said == ESI_ENDED ? CODEC_ENDED : CODEC_WANTS_ROOM;
        if (codec == NULL || (in->len == 0 && !e->due && flow != CODEC_ENDS))
            return CODEC_WANTS_INPUT;
        err = esi_unpack(e, codec, in, flow == CODEC_ENDS);
        if (err != 0)
            return err;
    }
}

int
fetch_esi_head(struct fetch *f, const struct http_message *head, struct cache_response *r)
{
    struct http_message m;
    int err;

    r->esi = f->esi != NULL;
    if (!r->esi && !esi_is_page(f, head))
        return 0;
    if (!r->esi && fetch_esi_wants(f, head, NULL))
        return TERR_NOMEM; /* nothing of it may pass as it came */
    if (!r->esi && fetch_exchange(f)->body_length != 0)
        return 0; /* in a coding that cannot be read */
    r->length_in_head = false;
    err = derive_assembled(&r->head, r->esi, &f->arena, &m);
    if (err == 0)
        r->head = m;
    return err;
}

static bool
esi_is_validator(const struct http_field *f)
{
    return f->id == HTTP_F_ETAG || f->id == HTTP_F_LAST_MODIFIED;
}

/* Those of the first `n` fields that are validators, or are not. */
static void
esi_copy(struct message_out *o, const struct http_message *m, unsigned n, bool validators)
{
    for (unsigned i = 0; i < n; i++)
        if (esi_is_validator(&m->fields[i]) == validators)
            message_out_copy(o, m, &m->fields[i]);
}

int
fetch_esi_hide(struct fetch *f, struct cache_response *r)
{
    const struct http_message *m = &r->head;
    unsigned sent = r->hides_fields ? r->nsent : m->nfields;
    struct message_out o;
    struct http_message out;
    int err = message_out_begin(
        &o, &out, &f->arena, m->reason_len + message_lines_bytes(m), m->nfields + 1u);

    if (err != 0)
        return err;
    message_out_status(&o, m->status, http_reason_of(m));
    esi_copy(&o, m, sent, false);
    r->nsent = out.nfields;
    esi_copy(&o, m, sent, true);
    for (unsigned i = sent; i < m->nfields; i++)
        message_out_copy(&o, m, &m->fields[i]);
    err = message_out_end(&o);
    if (err != 0)
        return err;
    r->head = out;
    r->hides_fields = true;
    return 0;
}
