/* forward.c -- the heads Tarn sends on. */
#include "daemon/http/forward.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/date.h"
#include "daemon/http/token.h"
#include "daemon/http/vary.h"

/* Once it is full nothing more is written, and the end tells. */
struct forward_out {
    char *start, *next, *end;
    bool full;
};

static void
forward_put(struct forward_out *o, struct slice s)
{
    if (o->full || s.len > (size_t)(o->end - o->next)) {
        o->full = true;
        return;
    }
    if (s.len > 0)
        memcpy(o->next, s.ptr, s.len);
    o->next += s.len;
}

#define FORWARD_LIT(o, literal) forward_put((o), SLICE_LIT(literal))

static void
forward_field(struct forward_out *o, struct slice name, struct slice value)
{
    tassert_slow(http_token_ok(name) && http_value_ok(value)); /* no CR, LF or NUL of ours */
    forward_put(o, name);
    FORWARD_LIT(o, ": ");
    forward_put(o, value);
    FORWARD_LIT(o, "\r\n");
}

static void
forward_number(struct forward_out *o, uint64_t n)
{
    char digits[20];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    forward_put(o, slice_of(digits + i, sizeof(digits) - i));
}

static struct forward_out
forward_begin(struct span out)
{
    return (struct forward_out){out.ptr, out.ptr, out.ptr + out.len, false};
}

static int
forward_end(const struct forward_out *o)
{
    tassert(o->next >= o->start && o->next <= o->end);
    if (o->full || o->next - o->start > INT32_MAX)
        return TERR_LIMIT;
    return (int)(o->next - o->start);
}

/* All values of field `id` that go on, as members of one list, each with ", " behind. */
static void
forward_members(struct forward_out *o, const struct http_head *h, enum http_field_id id)
{
    const struct http_field *f = NULL;

    while ((f = http_find(h, id, f)) != NULL) {
        if (f->drop || f->value_len == 0)
            continue;
        forward_put(o, http_value(h, f));
        FORWARD_LIT(o, ", ");
    }
}

/* Via names the version the message came in (RFC 9110 7.6.3). */
static void
forward_via(struct forward_out *o, const struct http_head *h, struct slice pseudonym)
{
    if (pseudonym.len == 0)
        return;
    tassert_slow(http_value_ok(pseudonym));
    FORWARD_LIT(o, "Via: ");
    forward_members(o, h, HTTP_F_VIA);
    if (h->minor == 0)
        FORWARD_LIT(o, "1.0 ");
    else
        FORWARD_LIT(o, "1.1 ");
    forward_put(o, pseudonym);
    FORWARD_LIT(o, "\r\n");
}

/* Fields that a fetch for the cache leaves out, so that the answer is the whole and ours. */
#define FORWARD_NOT_FETCHED                                                           \
    (HTTP_BIT(HTTP_F_RANGE) | HTTP_BIT(HTTP_F_IF_RANGE) | HTTP_BIT(HTTP_F_IF_MATCH) | \
        HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE) |         \
        HTTP_BIT(HTTP_F_IF_UNMODIFIED_SINCE) | HTTP_BIT(HTTP_F_ACCEPT_ENCODING))

/* Fields of a request that are written anew, or by us alone. */
#define FORWARD_REWRITTEN                                                                \
    (HTTP_BIT(HTTP_F_HOST) | HTTP_BIT(HTTP_F_CONTENT_LENGTH) | HTTP_BIT(HTTP_F_EXPECT) | \
        HTTP_BIT(HTTP_F_VIA))

static bool
forward_takes_request_field(
    const struct http_head *req, const struct http_field *f, const struct forward_request *how)
{
    unsigned flags = http_field_flags((enum http_field_id)f->id);

    if (f->drop || (flags & HTTP_HOP) != 0 || (FORWARD_REWRITTEN & HTTP_BIT(f->id)) != 0)
        return false;
    if (f->id == HTTP_F_X_FORWARDED_FOR && how->client_address.len > 0)
        return false; /* forward_client() extends it */
    if ((flags & HTTP_SPOOF) != 0 && !how->trusted)
        return false;
    if (how->mode == FORWARD_FETCH && (FORWARD_NOT_FETCHED & HTTP_BIT(f->id)) != 0)
        return false;
    if (how->id_name.len > 0 && slice_eq_nocase(http_name(req, f), how->id_name))
        return false;
    if (f->id == HTTP_F_OTHER) { /* X_Forwarded_For is X-Forwarded-For to a CGI */
        flags = http_field_flags(framing_disguised(http_name(req, f)));
        return (flags & (HTTP_HOP | HTTP_ACTED | HTTP_SPOOF)) == 0;
    }
    return true;
}

static void
forward_request_line(
    struct forward_out *o, const struct http_head *req, const struct forward_request *how)
{
    if (how->mode == FORWARD_FETCH)
        FORWARD_LIT(o, "GET");
    else
        forward_put(o, http_slice(req, req->method_off, req->method_len));
    FORWARD_LIT(o, " ");
    forward_put(o, how->path.len > 0 ? how->path : http_path(req));
    FORWARD_LIT(o, " HTTP/1.1\r\n");
    FORWARD_LIT(o, "Host: "); /* first: RFC 9112 3.2 */
    forward_put(o, how->host);
    FORWARD_LIT(o, "\r\n");
}

/* Who asks, and how it came here: the client's word counts only when the peer is trusted. */
static void
forward_client(
    struct forward_out *o, const struct http_head *req, const struct forward_request *how)
{
    const struct http_field *proto = http_find(req, HTTP_F_X_FORWARDED_PROTO, NULL);

    if (how->client_address.len > 0) {
        tassert_slow(http_value_ok(how->client_address));
        FORWARD_LIT(o, "X-Forwarded-For: ");
        if (how->trusted)
            forward_members(o, req, HTTP_F_X_FORWARDED_FOR);
        forward_put(o, how->client_address);
        FORWARD_LIT(o, "\r\n");
    }
    if (!how->trusted || proto == NULL || proto->drop)
        forward_field(o, SLICE_LIT("X-Forwarded-Proto"), slice_str(http_scheme_name(how->scheme)));
}

static void
forward_request_framing(struct forward_out *o, const struct forward_request *how)
{
    switch (how->framing) {
    case FRAMING_NONE:
        break;
    case FRAMING_LENGTH:
        FORWARD_LIT(o, "Content-Length: ");
        forward_number(o, how->length);
        FORWARD_LIT(o, "\r\n");
        break;
    case FRAMING_CHUNKED:
        FORWARD_LIT(o, "Transfer-Encoding: chunked\r\n");
        break;
    case FRAMING_CLOSE:
        TUNREACHABLE("a request never ends by closing");
    }
    if (!how->keep_connection)
        FORWARD_LIT(o, "Connection: close\r\n");
}

/* What a fetch says in its own name: codings in normal form (what Vary is matched by), and
 * the validators of what is stored. */
static void
forward_fetch_fields(
    struct forward_out *o, const struct http_head *req, const struct forward_request *how)
{
    struct slice codings = http_codings_text(http_codings(req));

    if (codings.len > 0)
        forward_field(o, SLICE_LIT("Accept-Encoding"), codings);
    if (how->if_none_match.len > 0)
        forward_field(o, SLICE_LIT("If-None-Match"), how->if_none_match);
    if (how->if_modified_since.len > 0)
        forward_field(o, SLICE_LIT("If-Modified-Since"), how->if_modified_since);
}

int
forward_request(const struct http_head *req, const struct forward_request *how, struct span out)
{
    struct forward_out o = forward_begin(out);
    unsigned i;

    tassert(how->mode == FORWARD_PASS || how->framing == FRAMING_NONE);
    forward_request_line(&o, req, how);
    for (i = 0; i < req->nfields; i++) {
        const struct http_field *f = &req->fields[i];

        if (forward_takes_request_field(req, f, how))
            forward_field(&o, http_name(req, f), http_value(req, f));
    }
    if (how->mode == FORWARD_FETCH)
        forward_fetch_fields(&o, req, how);
    forward_client(&o, req, how);
    forward_via(&o, req, how->pseudonym);
    if (how->id_name.len > 0)
        forward_field(&o, how->id_name, how->id_value);
    forward_request_framing(&o, how);
    FORWARD_LIT(&o, "\r\n");
    return forward_end(&o);
}

static bool
forward_takes_response_field(const struct http_field *f, const struct forward_response *how)
{
    unsigned flags = http_field_flags((enum http_field_id)f->id);

    if (f->drop || (flags & HTTP_HOP) != 0)
        return false;
    if (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_VIA)
        return false;
    return (flags & HTTP_OURS) == 0 || how->keep == FORWARD_PASSED;
}

/* The origin's own phrase goes on: clients show it. */
static struct slice
forward_reason(const struct http_head *resp)
{
    struct slice reason = http_slice(resp, resp->reason_off, resp->reason_len);

    if (reason.len == 0 || !http_value_ok(reason))
        return slice_str(http_reason(resp->status));
    return reason;
}

static void
forward_status_line(struct forward_out *o, const struct http_head *resp)
{
    tassert(resp->status >= 100 && resp->status <= 999);
    FORWARD_LIT(o, "HTTP/1.1 ");
    forward_number(o, resp->status);
    FORWARD_LIT(o, " ");
    forward_put(o, forward_reason(resp));
    FORWARD_LIT(o, "\r\n");
}

int
forward_response(const struct http_head *resp, const struct forward_response *how, struct span out)
{
    struct forward_out o = forward_begin(out);
    char date[HTTP_DATE_LEN];
    bool dated = false;
    unsigned i;

    forward_status_line(&o, resp);
    for (i = 0; i < resp->nfields; i++) {
        const struct http_field *f = &resp->fields[i];

        if (!forward_takes_response_field(f, how))
            continue;
        dated = dated || f->id == HTTP_F_DATE;
        forward_field(&o, http_name(resp, f), http_value(resp, f));
    }
    if (!dated) {
        http_date_format(how->now_s, date);
        forward_field(&o, SLICE_LIT("Date"), slice_of(date, sizeof(date)));
    }
    forward_via(&o, resp, how->pseudonym);
    return forward_end(&o);
}

size_t
forward_response_max(const struct http_head *resp, const struct forward_response *how)
{
    size_t max = sizeof("HTTP/1.1 000 \r\nVia: 1.1 \r\nDate: \r\n") + HTTP_DATE_LEN;
    unsigned i;

    max += forward_reason(resp).len + how->pseudonym.len;
    for (i = 0; i < resp->nfields; i++) /* ": " and CRLF; ", " for a member of Via is less */
        max += resp->fields[i].name_len + resp->fields[i].value_len + 4u;
    return max;
}
