/* forward.c -- the heads Tarn sends on. */
#include "daemon/http/forward.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/codings.h"
#include "daemon/http/date.h"
#include "daemon/http/framing.h"
#include "daemon/http/message_out.h"
#include "daemon/http/tags.h"
#include "daemon/http/token.h"

enum {
    FORWARD_SPARE = 128, /* Date, Via and Content-Length, without the pseudonym */
};

enum {
    FORWARD_OURS_FIELDS = 12, /* that a request may have beside those that came */
    FORWARD_OURS_BYTES = 256, /* of them: names, and what is the same in every request */
};

/* Fields that a fetch for the cache leaves out, so that the answer is the whole and ours. */
#define FORWARD_NOT_FETCHED                                                           \
    (HTTP_BIT(HTTP_F_RANGE) | HTTP_BIT(HTTP_F_IF_RANGE) | HTTP_BIT(HTTP_F_IF_MATCH) | \
        HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE) |         \
        HTTP_BIT(HTTP_F_IF_UNMODIFIED_SINCE) | HTTP_BIT(HTTP_F_ACCEPT_ENCODING))

/* Fields of a request that are written anew, or by us alone. */
#define FORWARD_REWRITTEN                                                                \
    (HTTP_BIT(HTTP_F_HOST) | HTTP_BIT(HTTP_F_CONTENT_LENGTH) | HTTP_BIT(HTTP_F_EXPECT) | \
        HTTP_BIT(HTTP_F_VIA) | HTTP_BIT(HTTP_F_CDN_LOOP))

/* The operator allows clients to send it: a proxy in front sets it. */
static bool
forward_is_kept(const char *keep, struct slice name)
{
    while (keep != NULL && *keep != '\0') {
        size_t len = strcspn(keep, " ");

        if (slice_eq_nocase(slice_of(keep, len), name))
            return true;
        keep += len + (keep[len] == ' ');
    }
    return false;
}

/* These Tarn writes itself, and none twice. */
#define FORWARD_OURS                                                 \
    (HTTP_BIT(HTTP_F_X_FORWARDED_FOR) | HTTP_BIT(HTTP_F_FORWARDED) | \
        HTTP_BIT(HTTP_F_X_FORWARDED_PROTO) | HTTP_BIT(HTTP_F_SURROGATE_CAPABILITY))

/* The client's own word about what a proxy in front says: who it is, on which scheme it came.  An
 * origin would believe it.  A trusted proxy may say so, and the operator may name fields that every
 * client may send, but not those that Tarn writes itself. */
static bool
forward_is_spoof(
    const struct http_message *req, const struct http_field *f, const struct forward_request *how)
{
    bool is_spoof = f->id == HTTP_F_OTHER
                        ? http_name_is_spoof(http_name(req, f))
                        : (http_field_flags((enum http_field_id)f->id) & HTTP_SPOOF) != 0;

    if (!is_spoof || how->trusted || f->said)
        return false;
    return (FORWARD_OURS & HTTP_BIT(f->id)) != 0 || !forward_is_kept(how->keep, http_name(req, f));
}

/* What a client says of the body that it has, or wants a part of. */
#define FORWARD_OF_A_BODY                                                  \
    (HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE) | \
        HTTP_BIT(HTTP_F_RANGE) | HTTP_BIT(HTTP_F_IF_RANGE))

/* X_Forwarded_For is X-Forwarded-For to a CGI: an unknown name that an origin might read as one that
 * means something between neighbours, or that only a proxy may set. */
static bool
forward_is_disguised(const struct http_message *req, const struct http_field *f)
{
    unsigned flags;

    if (f->id != HTTP_F_OTHER)
        return false;
    flags = http_field_flags(framing_disguised(http_name(req, f)));
    return (flags & (HTTP_HOP | HTTP_ACTED | HTTP_SPOOF)) != 0;
}

/* forward_client() extends the client's chain of addresses, and writes the field itself. */
static bool
forward_is_extended(const struct http_field *f, const struct forward_request *how)
{
    if (f->said) /* by a policy: it has the last word */
        return false;
    return (f->id == HTTP_F_X_FORWARDED_FOR && how->client_address.len > 0) ||
           (f->id == HTTP_F_FORWARDED && how->forwarded.len > 0);
}

/* Spoofed and disguised names come last, for they cost a look at the name's text. */
static bool
forward_takes_request_field(
    const struct http_message *req, const struct http_field *f, const struct forward_request *how)
{
    unsigned flags = http_field_flags((enum http_field_id)f->id);

    /* RFC 9110 7.6.1: what is of the connection ends here. */
    if (f->drop || (flags & HTTP_HOP) != 0 || (FORWARD_REWRITTEN & HTTP_BIT(f->id)) != 0)
        return false;
    if (how->mode == FORWARD_FETCH && (FORWARD_NOT_FETCHED & HTTP_BIT(f->id)) != 0)
        return false;
    if (how->esi && (FORWARD_OF_A_BODY & HTTP_BIT(f->id)) != 0)
        return false;
    if (how->id_name.len > 0 && slice_eq_nocase(http_name(req, f), how->id_name))
        return false;
    if (how->peer.len > 0 && slice_eq_nocase(http_name(req, f), FORWARD_PEER))
        return false;
    return !forward_is_extended(f, how) && !forward_is_spoof(req, f, how) &&
           !forward_is_disguised(req, f);
}

/* All values of field `id` that go on, as members of one list, each with ", " behind. */
static void
forward_values(struct message_out *o, const struct http_message *h, enum http_field_id id)
{
    const struct http_field *f = NULL;

    while ((f = http_find(h, id, f)) != NULL) {
        if (f->drop || f->value_len == 0)
            continue;
        message_out_put(o, http_value(h, f));
        MESSAGE_OUT_LIT(o, ", ");
    }
}

/* The client's address, and how the request came here: the client's own fields count only when the
 * peer is trusted. */
static void
forward_client(
    struct message_out *o, const struct http_message *req, const struct forward_request *how)
{
    const struct http_field *proto = http_find(req, HTTP_F_X_FORWARDED_PROTO, NULL);
    const struct http_field *xff = http_find(req, HTTP_F_X_FORWARDED_FOR, NULL);
    const struct http_field *fwd = http_find(req, HTTP_F_FORWARDED, NULL);

    if (how->client_address.len > 0 && (xff == NULL || !xff->said)) {
        message_out_open(o, HTTP_F_X_FORWARDED_FOR, SLICE_LIT("X-Forwarded-For"));
        if (how->trusted)
            forward_values(o, req, HTTP_F_X_FORWARDED_FOR);
        message_out_put(o, how->client_address);
        message_out_close(o);
    }
    if (how->forwarded.len > 0 && (fwd == NULL || !fwd->said))
        MESSAGE_OUT_FIELD(o, FORWARDED, "Forwarded", how->forwarded);
    if (proto == NULL || proto->drop || (!how->trusted && !proto->said))
        MESSAGE_OUT_FIELD(
            o, X_FORWARDED_PROTO, "X-Forwarded-Proto", slice_str(http_scheme_name(how->scheme)));
}

/* What a fetch says in its own name: codings in normal form (what Vary is matched by), the
 * validators of what is stored, and the part that is missing. */
static void
forward_fetch_fields(
    struct message_out *o, const struct http_message *req, const struct forward_request *how)
{
    struct slice codings =
        how->codings != NULL ? *how->codings : http_codings_text(http_codings(req));

    if (codings.len > 0)
        MESSAGE_OUT_FIELD(o, ACCEPT_ENCODING, "Accept-Encoding", codings);
    if (how->pseudonym.len > 0) { /* Surrogate-Control may name us: Edge Architecture 1.0, 2.1 */
        message_out_open(o, HTTP_F_SURROGATE_CAPABILITY, SLICE_LIT("Surrogate-Capability"));
        message_out_put(o, how->pseudonym);
        message_out_put(o,
            how->esi ? SLICE_LIT("=\"Surrogate/1.0 ESI/1.0\"") : SLICE_LIT("=\"Surrogate/1.0\""));
        message_out_close(o);
    }
    if (how->if_none_match.len > 0)
        MESSAGE_OUT_FIELD(o, IF_NONE_MATCH, "If-None-Match", how->if_none_match);
    if (how->if_modified_since.len > 0)
        MESSAGE_OUT_FIELD(o, IF_MODIFIED_SINCE, "If-Modified-Since", how->if_modified_since);
    if (how->range.len > 0)
        MESSAGE_OUT_FIELD(o, RANGE, "Range", how->range);
    if (how->if_range.len > 0)
        MESSAGE_OUT_FIELD(o, IF_RANGE, "If-Range", how->if_range);
}

/* RFC 9110 7.6.2: one less.  0 does not come here; what is no number means nothing, and goes. */
static void
forward_max_forwards(struct message_out *o, struct slice value)
{
    uint64_t n;

    if (http_parse_decimal(value, &n) != 0 || n == 0)
        return;
    message_out_open(o, HTTP_F_MAX_FORWARDS, SLICE_LIT("Max-Forwards"));
    message_out_number(o, n - 1);
    message_out_close(o);
}

/* An upper bound of the bytes of a request's message. */
static size_t
forward_request_max(const struct http_message *req, const struct forward_request *how)
{
    return FORWARD_OURS_BYTES + req->len + (size_t)req->nfields * MESSAGE_LINE_EXTRA +
           how->host.len + how->path.len + how->client_address.len + how->forwarded.len +
           2 * how->pseudonym.len + how->cdn_loop.len + how->id_name.len + how->id_value.len +
           how->if_none_match.len + how->if_modified_since.len + how->range.len +
           how->if_range.len + how->peer.len;
}

int
forward_request(const struct http_message *req, const struct forward_request *how,
    struct arena *arena, struct http_message *out)
{
    bool fetch = how->mode == FORWARD_FETCH;
    struct message_out o;
    int err;

    tassert(fetch || (how->range.len == 0 && how->if_range.len == 0));
    tassert(how->if_range.len == 0 || how->range.len > 0); /* RFC 9110 13.1.5 */
    err = message_out_begin(
        &o, out, arena, forward_request_max(req, how), req->nfields + FORWARD_OURS_FIELDS);
    if (err != 0)
        return err;
    message_out_request(&o, fetch ? HTTP_M_GET : (enum http_method)req->method,
        fetch ? SLICE_LIT("GET") : http_slice(req, req->method_off, req->method_len),
        how->path.len > 0 ? how->path : http_path(req), how->host);
    for (unsigned i = 0; i < req->nfields; i++) {
        const struct http_field *f = &req->fields[i];

        if (f->id == HTTP_F_MAX_FORWARDS && req->method == HTTP_M_OPTIONS)
            forward_max_forwards(&o, http_value(req, f));
        else if (forward_takes_request_field(req, f, how))
            message_out_copy(&o, req, f);
    }
    if (fetch)
        forward_fetch_fields(&o, req, how);
    forward_client(&o, req, how);
    message_out_via(&o, req, how->pseudonym);
    if (how->cdn_loop.len > 0)
        MESSAGE_OUT_FIELD(&o, CDN_LOOP, "CDN-Loop", how->cdn_loop);
    if (how->id_name.len > 0)
        message_out_field(
            &o, http_field_id(how->id_name.ptr, how->id_name.len), how->id_name, how->id_value);
    if (how->peer.len > 0)
        message_out_field(&o, HTTP_F_OTHER, FORWARD_PEER, how->peer);
    return message_out_end(&o);
}

/* What forward_request() built, as a policy has changed it since: so Via and the client's address
 * are in it, and only what no policy may write is left out (invariant 19). */
int
forward_bereq(const struct http_message *req, struct slice host, struct slice cdn_loop,
    struct arena *arena, struct http_message *out)
{
    const uint64_t ours = HTTP_BIT(HTTP_F_HOST) | HTTP_BIT(HTTP_F_CONTENT_LENGTH) |
                          HTTP_BIT(HTTP_F_EXPECT) | HTTP_BIT(HTTP_F_CDN_LOOP);
    size_t max = FORWARD_OURS_BYTES + (size_t)req->method_len + req->path_len + req->authority_len +
                 host.len + cdn_loop.len + message_lines_bytes(req);
    struct message_out o;
    int err = message_out_begin(&o, out, arena, max, req->nfields + 1u);

    if (err != 0)
        return err;
    message_out_request(&o, (enum http_method)req->method,
        http_slice(req, req->method_off, req->method_len),
        http_slice(req, req->path_off, req->path_len), host.len > 0 ? host : http_host(req));
    for (unsigned i = 0; i < req->nfields; i++) {
        const struct http_field *f = &req->fields[i];

        if (f->id != HTTP_F_OTHER && (ours & HTTP_BIT(f->id)) != 0)
            continue;
        if ((http_field_flags((enum http_field_id)f->id) & HTTP_HOP) == 0)
            message_out_copy(&o, req, f);
    }
    if (cdn_loop.len > 0)
        MESSAGE_OUT_FIELD(&o, CDN_LOOP, "CDN-Loop", cdn_loop);
    return message_out_end(&o);
}

/* Content-Length and Via are written anew behind the others; Age and Cache-Status are each answer's
 * own, unless it is passed on for one client (invariant 7). */
static bool
forward_takes_response_field(
    const struct http_message *resp, const struct http_field *f, const struct forward_response *how)
{
    unsigned flags = http_field_flags((enum http_field_id)f->id);

    if (f->drop || (flags & HTTP_HOP) != 0)
        return false;
    if (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_VIA)
        return false;
    /* What nodes of a fleet say to each other no origin may say. */
    if (f->id == HTTP_F_OTHER && !how->shows_hop &&
        (slice_eq_nocase(http_name(resp, f), FORWARD_PEER) ||
            slice_eq_nocase(http_name(resp, f), TAGS_OURS)))
        return false;
    return (flags & HTTP_OURS) == 0 || how->keep == FORWARD_PASSED ||
           (how->shows_hop && f->id == HTTP_F_CACHE_STATUS);
}

/* The origin's own phrase goes on: clients show it. */
static struct slice
forward_reason(const struct http_message *resp)
{
    struct slice reason = http_reason_of(resp);

    /* A longer one has no room in what is stored; a byte that is no text would split the head. */
    if (reason.len == 0 || reason.len > HTTP_REASON_MAX || !http_value_ok(reason))
        return slice_str(http_reason(resp->status));
    return reason;
}

static void
forward_response_fields(
    struct message_out *o, const struct http_message *resp, const struct forward_response *how)
{
    for (unsigned i = 0; i < resp->nfields; i++) {
        if (forward_takes_response_field(resp, &resp->fields[i], how))
            message_out_copy(o, resp, &resp->fields[i]);
    }
}

int
forward_response(const struct http_message *resp, const struct forward_response *how,
    struct arena *a, struct http_message *out)
{
    struct slice reason = forward_reason(resp), upgrade;
    size_t bytes = FORWARD_SPARE + reason.len + how->pseudonym.len + message_lines_bytes(resp);
    char date[HTTP_DATE_LEN];
    struct message_out o;

    /* Date, Via and Content-Length may be more than came. */
    if (message_out_begin(&o, out, a, bytes, resp->nfields + 3u) != 0)
        return TERR_NOMEM;
    message_out_status(&o, resp->status, reason);
    forward_response_fields(&o, resp, how);
    if (!http_has(out, HTTP_F_DATE)) {
        http_date_format(how->now_s, date);
        MESSAGE_OUT_FIELD(&o, DATE, "Date", slice_of(date, sizeof(date)));
    }
    upgrade = resp->status == 101 ? http_get_one(resp, HTTP_F_UPGRADE) : slice_of(NULL, 0);
    if (upgrade.ptr != NULL) /* framing_upgrade() has judged it (RFC 9110 7.8) */
        MESSAGE_OUT_FIELD(&o, UPGRADE, "Upgrade", upgrade);
    message_out_via(&o, resp, how->pseudonym);
    if (how->length != FORWARD_NO_LENGTH) {
        message_out_open(&o, HTTP_F_CONTENT_LENGTH, SLICE_LIT("Content-Length"));
        message_out_number(&o, how->length);
        message_out_close(&o);
    }
    return message_out_end(&o);
}

int
forward_interim(const struct http_message *resp, struct arena *a, struct http_message *out)
{
    const struct forward_response how = {.keep = FORWARD_PASSED};
    struct slice reason = forward_reason(resp);
    struct message_out o;

    tassert(resp->status < 200);
    if (message_out_begin(&o, out, a, reason.len + message_lines_bytes(resp), resp->nfields) != 0)
        return TERR_NOMEM;
    message_out_status(&o, resp->status, reason);
    forward_response_fields(&o, resp, &how);
    return message_out_end(&o);
}

/* A policy has the last word on all but hop-by-hop fields.  Statuses like 1404 are its own: a
 * client sees the last three digits. */
int
forward_edited(const struct http_message *resp, struct arena *a, struct http_message *out)
{
    struct slice said = http_reason_of(resp);
    struct slice reason = said.len <= HTTP_REASON_MAX ? said : forward_reason(resp);
    struct message_out o;

    if (message_out_begin(&o, out, a, reason.len + message_lines_bytes(resp), resp->nfields) != 0)
        return TERR_NOMEM;
    message_out_status(&o, resp->status % 1000u, reason);
    for (unsigned i = 0; i < resp->nfields; i++) {
        const struct http_field *f = &resp->fields[i];

        if (!f->drop && (http_field_flags((enum http_field_id)f->id) & HTTP_HOP) == 0)
            message_out_copy(&o, resp, f);
    }
    return message_out_end(&o);
}
