/* fetch_pack.c -- a body that is packed, or unpacked, while it comes, and what clients are told of it.
 *
 * With `compress` one object is stored for all values of Accept-Encoding: packed, by the origin or here, and
 * unpacked for the clients that do not take it (rep_unpack.c).  So the origin is asked for gzip for each
 * client, and the stored response answers each of them (`forms`, http/vary.h).
 *
 *   connection -> [room of ours] -> codec -> [space_get] object
 */
#include <limits.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/codings.h"
#include "daemon/http/derive.h"
#include "daemon/http/vary.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/fetch_policy.h"

enum {
    PACK_ROOM = 32768, /* bytes read from the origin at a time */
    PACK_ROOM_GZIP =
        128 << 10, /* of what is packed: in smaller pieces that takes a quarter more time */
    PACK_TURN_OUT = 1 << 20, /* bytes written in a turn: a little gzip may be much */
};

struct fetch_pack {
    struct codec *codec;
    struct slice coding; /* of what is stored */
    struct span room;
    struct slice in; /* of the room: not consumed yet */
    enum codec_flow flow;
    bool due;  /* the codec has more to write */
    bool held; /* it may hold back what came since the last flush */
};

const struct slice fetch_gzip = {"gzip", 4};

/* RFC 9110 8.4.1.3: it has two names. */
bool
fetch_head_is_gzip(const struct http_message *head)
{
    struct slice coding = http_get_one(head, HTTP_F_CONTENT_ENCODING);

    return coding.ptr != NULL &&
           (slice_eq_nocase(coding, fetch_gzip) || slice_eq_nocase(coding, SLICE_LIT("x-gzip")));
}

/* May one stored response answer every Accept-Encoding?  Where the origin chose another coding than it was
 * asked for, clients that do not take that one cannot be given it; nor can a part be unpacked. */
bool
fetch_is_form(const struct fetch *f, const struct http_message *head)
{
    tassert(f->pack == NULL || f->forms || f->esi != NULL);
    return f->forms && (!http_has(head, HTTP_F_CONTENT_ENCODING) ||
                           (head->status != 206 && fetch_head_is_gzip(head)));
}

/* Does it show, or may it, what is for one client alone?  The length of a packed page that repeats a part of
 * its request tells of the secrets beside it (BREACH). */
static bool
pack_is_secret(const struct fetch *f, const struct http_message *head,
    const struct cache_control *cc, enum fetch_readers readers)
{
    if (http_has(head, HTTP_F_SET_COOKIE) || cc_has(cc, CC_PRIVATE))
        return true;
    return readers == FETCH_FOR_ONE &&
           (cc_has(cc, CC_NO_STORE) || http_has(&f->req, HTTP_F_COOKIE) ||
               http_has(&f->req, HTTP_F_AUTHORIZATION));
}

/* Events come one by one for hours: they would hold the memory of a packed body as long. */
static bool
pack_is_events(struct slice type)
{
    const struct slice events = SLICE_LIT("text/event-stream");

    return type.len >= events.len && slice_eq_nocase(slice_of(type.ptr, events.len), events);
}

/* Would it become shorter? */
static bool
pack_is_worth_it(
    const struct fetch *f, const struct conf_compress *conf, const struct http_message *head)
{
    struct slice type = http_get_one(head, HTTP_F_CONTENT_TYPE);
    uint64_t len = fetch_exchange(f)->body_length;

    tassert(f->conn != NULL && conf->min_size >= 0);
    if (head->status != 200 || http_has(head, HTTP_F_CONTENT_ENCODING) || len == 0 ||
        (len != ORIGIN_LENGTH_UNKNOWN && len < (uint64_t)conf->min_size))
        return false;
    return type.ptr != NULL && conf_compress_has_type(conf, type) && !pack_is_events(type);
}

/* RFC 9110 7.7, RFC 9111 5.2.2.6. */
bool
fetch_pack_by_file(
    const struct fetch *f, const struct http_message *head, enum fetch_readers readers)
{
    struct cache_control cc;

    if (f->compress == CONF_COMPRESS_OFF ||
        !pack_is_worth_it(f, &snapshot_conf(registry_snapshot(f->proxy->registry))->compress, head))
        return false;
    /* What is not stored is packed for the client that asked, if it takes that, or not at all. */
    if (readers == FETCH_FOR_ONE && (http_codings(&f->req) & HTTP_TAKES_GZIP) == 0)
        return false;
    cc_parse_response(head, &cc);
    return !cc_has(&cc, CC_NO_TRANSFORM) &&
           (f->compress == CONF_COMPRESS_ALL || !pack_is_secret(f, head, &cc, readers));
}

/* Is a page packed for its clients, too, once it is put together?  A part of it may have a secret, and its length would
 * tell of that (see pack_is_secret()): so only where a policy or the route says so. */
static bool
pack_wants_page(const struct fetch *f, const struct http_message *head, enum fetch_readers readers)
{
    if (f->vcl != NULL && f->vcl->at.gzip_said)
        return f->vcl->at.gzip;
    return f->compress == CONF_COMPRESS_ALL &&
           (fetch_head_is_gzip(head) || fetch_pack_by_file(f, head, readers));
}

/* The policy's words come first. */
static bool
pack_wants(struct fetch *f, const struct http_message *head, enum fetch_readers readers,
    enum codec_kind *kind)
{
    bool packed = http_has(head, HTTP_F_CONTENT_ENCODING);

    *kind = CODEC_GZIP;
    if (fetch_esi_wants(f, head, &packed)) {
        *kind = packed ? CODEC_GUNZIP : CODEC_KINDS;
        return true;
    }
    if (f->vcl == NULL)
        return fetch_pack_by_file(f, head, readers);
    if (head->status == 206 || fetch_exchange(f)->body_length == 0)
        return false;
    if (f->vcl->at.gunzip && fetch_head_is_gzip(head)) {
        *kind = CODEC_GUNZIP;
        return true;
    }
    return f->vcl->at.gzip_said ? f->vcl->at.gzip && !packed : fetch_pack_by_file(f, head, readers);
}

/* Decided once for each head: a fetch that waits for room comes here again. */
bool
fetch_pack_open(struct fetch *f, const struct http_message *head, enum fetch_readers readers)
{
    const struct conf_compress *conf =
        &snapshot_conf(registry_snapshot(f->proxy->registry))->compress;
    struct proxy *p = f->proxy;
    struct fetch_pack *pack;
    enum codec_kind kind;
    bool esi = fetch_esi_wants(f, head, NULL);

    tassert(f->body == NULL); /* nothing was published of it */
    if (f->pack != NULL)
        return true;
    if (!pack_wants(f, head, readers, &kind))
        return false;
    pack = arena_alloc(&f->arena, sizeof(*pack));
    if (pack == NULL)
        return false;
    *pack = (struct fetch_pack){.flow = CODEC_GOES_ON};
    pack->coding = kind == CODEC_GZIP || (esi && pack_wants_page(f, head, readers))
                       ? fetch_gzip
                       : slice_of("", 0);
    if (kind != CODEC_KINDS)
        pack->codec = proxy_codec(p, kind, esi ? UINT_MAX : (unsigned)conf->states);
    pack->room.len = kind == CODEC_GZIP ? PACK_ROOM_GZIP : PACK_ROOM;
    pack->room.ptr = usage_alloc(&p->loop->usage, USAGE_REQUEST, pack->room.len);
    f->pack = pack;
    if (esi && pack->room.ptr != NULL && (pack->codec != NULL || kind == CODEC_KINDS) &&
        fetch_esi_open(f, kind == CODEC_GUNZIP) == 0) {
        f->forms =
            f->forms || pack->coding.len > 0; /* packed for those who take it, and not for others */
        return true;
    }
    if (!esi && pack->codec != NULL && pack->room.ptr != NULL) {
        f->forms = true; /* it answers every Accept-Encoding, whatever was asked for */
        counter_add(p->counters, COUNTER_compress_fetches, 1);
        return true;
    }
    counter_add(p->counters, COUNTER_compress_busy, 1);
    fetch_pack_close(f);
    return false;
}

bool
fetch_is_packed(const struct fetch *f)
{
    return f->pack != NULL && f->esi == NULL && f->pack->coding.len > 0;
}

void
fetch_pack_close(struct fetch *f)
{
    struct fetch_pack *pack = f->pack;

    if (pack == NULL)
        return;
    codec_free(&pack->codec);
    fetch_esi_close(f);
    usage_free(&f->proxy->loop->usage, USAGE_REQUEST, pack->room.ptr);
    f->pack = NULL;
}

/* What goes into the cache says how the body lies there, and on what it depends. */
int
fetch_pack_head(struct fetch *f, struct http_message *head)
{
    const struct slice *coding = f->pack != NULL ? &f->pack->coding : NULL;
    struct http_message coded;
    int err;

    if (coding == NULL && !http_has(head, HTTP_F_CONTENT_ENCODING))
        return 0;
    err = derive_coding(head, coding, &f->arena, &coded);
    if (err == 0)
        *head = coded;
    return err;
}

/* What the codec gives, into one room: its bytes; TERR_AGAIN, and the other errors of fetch_room().  `due`: it
 * has more. */
static int
pack_write(struct fetch *f)
{
    struct fetch_pack *pack = f->pack;
    struct span room, out;
    int err = fetch_room(f, &room), said;
    size_t n;

    tassert(pack != NULL && (pack->codec != NULL || f->esi != NULL));
    if (err != 0)
        return err;
    out = room;
    said = f->esi != NULL ? fetch_esi_run(f, pack->codec, &pack->in, &out, pack->flow)
                          : codec_run(pack->codec, &pack->in, &out, pack->flow);
    if (said < 0)
        return said;
    n = (size_t)(out.ptr - room.ptr);
    tassert(n + out.len == room.len && n <= INT_MAX);
    if (n > 0)
        fetch_stored(f, n);
    if (f->esi == NULL)
        counter_add(f->proxy->counters, COUNTER_compress_out_bytes, n);
    pack->due = said == CODEC_WANTS_ROOM;
    return (int)n;
}

/* No byte came of what was to be unpacked: that is an empty body, with and without a coding. */
static bool
pack_is_empty(const struct fetch_pack *pack)
{
    return pack->flow == CODEC_ENDS && pack->coding.len == 0 && pack->in.len == 0 &&
           pack->codec != NULL && codec_in(pack->codec) == 0;
}

/* The output that is due, and where that leads.  FETCH_MORE: the state changed; *went: go on here. */
static enum fetch_next
pack_go_on(struct fetch *f, bool *went)
{
    struct fetch_pack *pack = f->pack;
    int all = 0, n;

    *went = false;
    if (pack_is_empty(pack))
        return fetch_goto(f, FETCH_DONE);
    do {
        n = pack_write(f);
        all += n > 0 ? n : 0;
    } while (n >= 0 && pack->due && all < PACK_TURN_OUT);
    if (n == TERR_AGAIN) {
        pack->due = true;
        return fetch_stall(f);
    }
    if (n < 0)
        return fetch_fail(f, n);
    if (pack->due) { /* the loop's other tasks come first */
        task_wake(&f->task);
        return FETCH_WAIT;
    }
    if (pack->flow == CODEC_ENDS)
        return fetch_goto(f, FETCH_DONE);
    tassert(pack->in.len == 0); /* all of it was consumed: the room is free */
    pack->flow = CODEC_GOES_ON;
    *went = true;
    return FETCH_WAIT;
}

/* The body's next piece.  While the origin pauses, readers get what came so far. */
static enum fetch_next
pack_read(struct fetch *f, size_t *got)
{
    struct origin_exchange *x = fetch_exchange(f);
    struct fetch_pack *pack = f->pack;
    ssize_t n = x->body_done ? 0 : x->ops->body(x, pack->room);
    bool went;

    tassert(!pack->due && pack->in.len == 0 && pack->flow == CODEC_GOES_ON);
    tassert(n <= (ssize_t)pack->room.len);
    /* Of what is held until it is whole no reader waits for a part; nor does it become longer by flushes. */
    if (n == TERR_AGAIN && (!pack->held || f->held != NULL))
        return timer_expired(&f->timer) ? fetch_fail(f, TERR_TIMEDOUT) : FETCH_WAIT;
    if (n < 0 && n != TERR_AGAIN)
        return fetch_fail(f, (int)n);
    pack->held = n > 0;
    if (n == TERR_AGAIN) {
        pack->flow = CODEC_FLUSH;
    } else if (n == 0) {
        pack->flow = CODEC_ENDS;
    } else {
        pack->in = slice_of(pack->room.ptr, (size_t)n);
        *got = (size_t)n;
        counter_add(f->proxy->counters, COUNTER_fetch_bytes, *got);
        if (f->esi == NULL)
            counter_add(f->proxy->counters, COUNTER_compress_in_bytes, *got);
        fetch_deadline(f, fetch_between_bytes_ms(f));
    }
    return pack_go_on(f, &went);
}

/* As fetch_move(). */
enum fetch_next
fetch_pack_move(struct fetch *f, size_t *got)
{
    enum fetch_next next = FETCH_WAIT;
    bool went = true;

    *got = 0;
    tassert(f->state == FETCH_BODY && f->body != NULL);
    if (waiter_pending(&f->space))
        return FETCH_WAIT;
    if (f->pack->due)
        next = pack_go_on(f, &went);
    if (f->attempt.stalled && went) /* the backend's time begins again with the room */
        fetch_deadline(f, fetch_between_bytes_ms(f));
    f->attempt.stalled = f->attempt.stalled && !went;
    return went ? pack_read(f, got) : next;
}
