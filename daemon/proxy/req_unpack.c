/* req_unpack.c -- a form that the client does not take: the response as it was before it was packed. */
#include <limits.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec.h"
#include "daemon/http/codings.h"
#include "daemon/http/derive.h"
#include "daemon/http/vary.h"
#include "daemon/log/elog.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/req_priv.h"

/* By what is stored: the head that is sent may be a policy's or a route's. */
static bool
req_entry_is_packed(const struct entry *e)
{
    struct http_field fields[LIMIT_FIELDS];
    struct http_message stored;

    entry_message(e, ENTRY_FIELDS_ALL, fields, &stored);
    return http_has(&stored, HTTP_F_CONTENT_ENCODING);
}

/* From its first byte on.  0, TERR_NOMEM, or TERR_LIMIT: too many at once. */
static int
req_open_unpack(struct req *r)
{
    struct codec *codec = proxy_codec(r->proxy, CODEC_GUNZIP, UINT_MAX);

    if (codec == NULL)
        return TERR_LIMIT;
    if (rep_unpack(&r->rep, codec, &r->proxy->loop->usage) != 0) {
        codec_free(&codec);
        return TERR_NOMEM;
    }
    counter_add(r->proxy->counters, COUNTER_compress_unpacked, 1);
    return 0;
}

/* The head of the body as it was before it was packed.  0 or TERR_NOMEM. */
static int
req_leave_coding(struct req *r)
{
    static const struct slice none = {"", 0};
    const struct http_message *sent = req_response(r);
    struct http_message *m = sent != NULL ? arena_alloc(&r->x->arena, sizeof(*m)) : NULL;

    if (m == NULL || derive_coding(sent, &none, &r->x->arena, m) != 0)
        return TERR_NOMEM;
    tassert(!http_has(m, HTTP_F_CONTENT_ENCODING) && !http_has(m, HTTP_F_CONTENT_LENGTH));
    r->resp.message = m;
    r->resp.rendered = slice_of(NULL, 0);
    r->resp.length_in_fields = false;
    return 0;
}

/* It is derived without its coding, and unpacked from its first byte on: a range of it would have to begin there, too, so
 * ranges are not heeded (RFC 9110 14.2). */
static int
req_begin_unpacked(struct req *r)
{
    tassert(r->entry != NULL && !r->head_sent && r->rep.filter == NULL);
    if (req_leave_coding(r) != 0)
        return TERR_NOMEM;
    r->unpacks = true;
    if (r->resp.length == 0) /* of a redirect, mostly: there is nothing to unpack */
        return 0;
    r->resp.length = STOBJ_SIZE_UNKNOWN;
    return r->resp.bodyless ? 0 : req_open_unpack(r);
}

/* Of what is put together now.  Half of the codecs stay for what comes from origins: a client may take long to read.  Without
 * one, or without memory for it, the page goes as it is. */
int
req_begin_packed(struct req *r)
{
    const struct conf_compress *conf =
        &snapshot_conf(registry_snapshot(r->proxy->registry))->compress;
    struct codec *codec = NULL;

    tassert(entry_is_esi(r->entry) && r->rep.filter != NULL && !r->head_sent);
    if (!vary_has_forms(entry_vary(r->entry)) || !req_entry_is_packed(r->entry))
        return 0;
    if ((http_forms(r->head) & HTTP_FORM_GZIP) != 0)
        codec = proxy_codec(r->proxy, CODEC_GZIP, ((unsigned)conf->states + 1) / 2);
    if (codec != NULL && rep_pack(&r->rep, codec, &r->proxy->loop->usage) == 0) {
        counter_add(r->proxy->counters, COUNTER_esi_packed, 1);
        return 0;
    }
    codec_free(&codec);
    return req_leave_coding(r);
}

bool
req_must_unpack(const struct req *r)
{
    struct slice spec = entry_vary(r->entry);

    return vary_has_forms(spec) && vary_recoded(spec).saved == 0 &&
           (http_forms(r->head) & HTTP_FORM_GZIP) == 0 && !r->policy.gunzip_off &&
           req_entry_is_packed(r->entry);
}

__attribute__((noinline)) int
req_begin_form(struct req *r)
{
    struct slice spec = entry_vary(r->entry);
    uint32_t saved = 0;
    unsigned forms;

    if (!vary_is_forms(spec)) { /* most vary by nothing else */
        if (!vary_has_forms(spec))
            return 0;
        saved = vary_recoded(spec).saved;
    }
    forms = http_forms(r->head);
    recode_note(r->proxy, &r->proxy->recode, r->entry, saved > 0, forms);
    if (__builtin_expect(http_has(r->head, HTTP_F_AVAILABLE_DICTIONARY), 0))
        recode_look_dictionary(r->proxy, r->entry, r->head);
    if (saved > 0) { /* it was chosen for this client */
        counter_add(r->proxy->counters, COUNTER_compress_saved_bytes, r->resp.bodyless ? 0 : saved);
        return 0;
    }
    return (forms & HTTP_FORM_GZIP) == 0 && req_must_unpack(r) ? req_begin_unpacked(r) : 0;
}

/* Too many clients have their responses unpacked and do not read them. */
enum req_next
req_refuse_unpack(struct req *r)
{
    tassert(!r->head_sent && r->rep.filter == NULL);
    counter_add(r->proxy->counters, COUNTER_compress_refused, 1);
    rep_forget(&r->rep);
    r->begun = r->unpacks = false;
    r->resp = (struct exchange_response){.status = 0};
    r->x->extra_len = 0;
    r->log_flags &= ~(unsigned)(SHMLOG_REQ_HIT | SHMLOG_REQ_STALE);
    return req_synth_by_policy(r, 503, slice_of(NULL, 0), TERR_LIMIT);
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
