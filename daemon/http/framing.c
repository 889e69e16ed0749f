/* framing.c -- where a message ends, and whether its connection goes on. */
#include "daemon/http/framing.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

enum {
    FRAMING_OPTIONS_MAX = 64, /* connection options; real ones have three */
    FRAMING_NAME_MAX = 32,    /* longer than any known field name */
};

/* Codings with a registration of their own: "not supported" rather than "not understood". */
static bool
framing_is_known_coding(struct slice coding)
{
    return slice_eq_nocase(coding, SLICE_LIT("gzip")) ||
           slice_eq_nocase(coding, SLICE_LIT("x-gzip")) ||
           slice_eq_nocase(coding, SLICE_LIT("deflate")) ||
           slice_eq_nocase(coding, SLICE_LIT("compress")) ||
           slice_eq_nocase(coding, SLICE_LIT("x-compress"));
}

/* Known codings, then "chunked" once and last: TERR_CODING.  Anything else: TERR_FRAMING. */
static int
framing_judge_codings(struct slice value)
{
    struct http_list_iter it;
    struct slice coding;
    bool chunked = false;

    http_list_init(&it, value);
    while (http_list_next(&it, &coding)) {
        if (chunked)
            return TERR_FRAMING;
        chunked = slice_eq_nocase(coding, SLICE_LIT("chunked"));
        if (!chunked && !framing_is_known_coding(coding))
            return TERR_FRAMING;
    }
    return chunked && it.empty == 0 ? TERR_CODING : TERR_FRAMING;
}

/* 0 when Transfer-Encoding is absent, 1 when it is exactly "chunked", or the error.  Whatever
 * some parser could overlook (a list, two lines, an empty member, HTTP/1.0) is an error:
 * RFC 9112 6.1 and 11.2. */
static int
framing_transfer_encoding(const struct http_message *h)
{
    const struct http_field *f = http_find(h, HTTP_F_TRANSFER_ENCODING, NULL);

    if (f == NULL)
        return 0;
    if (http_is_1_0(h) || http_has(h, HTTP_F_CONTENT_LENGTH))
        return TERR_FRAMING;
    if (http_find(h, HTTP_F_TRANSFER_ENCODING, f) != NULL)
        return TERR_FRAMING;
    if (slice_eq_nocase(http_value(h, f), SLICE_LIT("chunked")))
        return 1;
    return framing_judge_codings(http_value(h, f));
}

/* Fills has_length and length: exactly one field, exactly one number (RFC 9112 6.3). */
static int
framing_content_length(const struct http_message *h, struct framing *out)
{
    const struct http_field *f = http_find(h, HTTP_F_CONTENT_LENGTH, NULL);

    if (f == NULL)
        return 0;
    if (http_find(h, HTTP_F_CONTENT_LENGTH, f) != NULL)
        return TERR_FRAMING;
    if (http_parse_content_length(http_value(h, f), &out->length) < 0)
        return TERR_FRAMING;
    out->has_length = true;
    return 0;
}

/* A CGI-like gateway makes HTTP_TRANSFER_ENCODING of both spellings, so behind it the disguised one
 * would frame the request otherwise than we did (request smuggling). */
enum http_field_id
framing_disguised(struct slice name)
{
    char plain[FRAMING_NAME_MAX];
    size_t i;

    if (name.len >= sizeof(plain) || memchr(name.ptr, '_', name.len) == NULL)
        return HTTP_F_OTHER;
    for (i = 0; i < name.len; i++)
        plain[i] = name.ptr[i] == '_' ? '-' : name.ptr[i];
    return http_field_id(plain, name.len);
}

/* Is there a Transfer_Encoding or Content_Length, which a gateway behind us may obey? */
static bool
framing_is_disguised(const struct http_message *h)
{
    unsigned i;

    for (i = 0; i < h->nfields; i++) {
        enum http_field_id id = HTTP_F_OTHER;

        if (h->fields[i].id == HTTP_F_OTHER)
            id = framing_disguised(http_name(h, &h->fields[i]));
        if (id == HTTP_F_TRANSFER_ENCODING || id == HTTP_F_CONTENT_LENGTH)
            return true;
    }
    return false;
}

/* RFC 9112 6.3.  Each doubt is an error, for a hop that reads the same bytes otherwise would take
 * the rest of the body for a request of another client (RFC 9112 11.2). */
int
framing_of_request(const struct http_message *req, struct framing *out)
{
    int chunked = framing_transfer_encoding(req);

    *out = (struct framing){.kind = FRAMING_NONE};
    if (chunked < 0)
        return chunked;
    if (framing_content_length(req, out) < 0 || framing_is_disguised(req))
        return TERR_FRAMING;
    if (chunked == 1)
        out->kind = FRAMING_CHUNKED;
    else if (out->has_length)
        out->kind = FRAMING_LENGTH;
    return 0;
}

/* RFC 9112 6.3.  The answer to a HEAD and a 304 may have a length and no body, so what was asked is
 * needed: else the next response on the connection would be read as this one's body. */
int
framing_of_response(const struct http_message *resp, enum http_method asked, struct framing *out)
{
    int chunked = framing_transfer_encoding(resp);
    bool bare = resp->status < 200 || resp->status == 204;

    *out = (struct framing){.kind = FRAMING_NONE};
    if (chunked < 0 || framing_content_length(resp, out) < 0)
        return TERR_FRAMING;
    if (asked == HTTP_M_CONNECT && resp->status >= 200 && resp->status < 300)
        return TERR_FRAMING; /* a tunnel, which Tarn never asks for */
    if (bare && (chunked == 1 || out->length > 0)) {
        if (resp->status != 204)
            return TERR_FRAMING; /* it announces a body that it must not have, RFC 9112 6.1 */
        *out = (struct framing){.kind = FRAMING_NONE, .doubtful = true}; /* RFC 9112 6.3, 1. */
    }
    if (bare || resp->status == 304 || asked == HTTP_M_HEAD)
        return 0;
    if (chunked == 1)
        out->kind = FRAMING_CHUNKED;
    else
        out->kind = out->has_length ? FRAMING_LENGTH : FRAMING_CLOSE;
    return 0;
}

/* Marks every field of that name.  `*known` gathers ids, so that they take one pass. */
static void
framing_nominate(struct http_message *h, struct slice name, enum http_field_id id, uint64_t *known)
{
    unsigned i;

    if (id != HTTP_F_OTHER) {
        *known |= HTTP_BIT(id);
        return;
    }
    for (i = 0; i < h->nfields; i++) {
        struct http_field *f = &h->fields[i];

        if (f->id == HTTP_F_OTHER && slice_eq_nocase(http_name(h, f), name))
            f->drop = true;
    }
}

/* One Connection option.  0, or TERR_SYNTAX for one a request must not have. */
static int
framing_option(struct http_message *h, struct slice option, bool is_request,
    struct framing_connection *out, uint64_t *known)
{
    enum http_field_id id;

    if (slice_eq_nocase(option, SLICE_LIT("close"))) {
        out->close = true;
        return 0;
    }
    if (slice_eq_nocase(option, SLICE_LIT("keep-alive")))
        out->keep_alive = true; /* and nominates Keep-Alive, as any option does */
    if (slice_eq_nocase(option, SLICE_LIT("upgrade")))
        out->upgrade = true;
    id = http_field_id(option.ptr, option.len);
    /* A response that has Connection: vary or cache-control would be stored as what it is not, and
     * one without its length would end elsewhere. */
    if (!is_request) {
        if (id != HTTP_F_CONTENT_LENGTH && id != HTTP_F_TRANSFER_ENCODING &&
            id != HTTP_F_CACHE_CONTROL && id != HTTP_F_VARY)
            framing_nominate(h, option, id, known);
        return 0;
    }
    /* Else a client could have us drop a field between the judgement and the origin
     * (CVE-2026-26365). */
    if (!http_token_ok(option) || (http_field_flags(id) & HTTP_ACTED) != 0)
        return TERR_SYNTAX;
    framing_nominate(h, option, id, known);
    return 0;
}

static void
framing_drop_known(struct http_message *h, uint64_t known)
{
    unsigned i;

    if ((known & h->present) == 0)
        return;
    for (i = 0; i < h->nfields; i++) {
        if ((known & HTTP_BIT(h->fields[i].id)) != 0)
            h->fields[i].drop = true;
    }
}

/* Marks what Connection nominates as `drop`; the fields stay in the message, and what
 * forwards, stores or matches by Vary passes over them. */
static int
framing_connection(struct http_message *h, bool is_request, struct framing_connection *out)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice option;
    uint64_t known = 0;
    unsigned options = 0;

    *out = (struct framing_connection){.close = false};
    while ((f = http_find(h, HTTP_F_CONNECTION, f)) != NULL) {
        http_list_init(&it, http_value(h, f));
        while (http_list_next(&it, &option)) {
            options++;
            if (options > FRAMING_OPTIONS_MAX)
                return TERR_SYNTAX; /* each costs a walk over the fields */
            if (framing_option(h, option, is_request, out, &known) < 0)
                return TERR_SYNTAX;
        }
    }
    framing_drop_known(h, known);
    out->persists = !out->close && (!http_is_1_0(h) || out->keep_alive); /* RFC 9112 9.3 */
    return 0;
}

int
framing_expect(const struct http_message *req)
{
    const struct http_field *f = NULL;

    if (!http_has(req, HTTP_F_EXPECT))
        return 0;
    while ((f = http_find(req, HTTP_F_EXPECT, f)) != NULL)
        if (!slice_eq_nocase(http_value(req, f), SLICE_LIT("100-continue")))
            return TERR_EXPECT;
    return 0;
}

int
framing_connection_of_request(struct http_message *req, struct framing_connection *out)
{
    return framing_connection(req, true, out);
}

int
framing_connection_of_response(struct http_message *resp, struct framing_connection *out)
{
    return framing_connection(resp, false, out);
}

/* HTTP inside a tunnel would be requests that are not routed, judged or logged (h2c smuggling). */
static bool
framing_hides_requests(struct slice protocol)
{
    return slice_eq_nocase(protocol, SLICE_LIT("h2c")) ||
           slice_eq_nocase(protocol, SLICE_LIT("h2")) ||
           slice_eq_nocase(protocol, SLICE_LIT("HTTP")) ||
           slice_eq_nocase(protocol, SLICE_LIT("TLS"));
}

/* protocol-name ["/" protocol-version] */
static bool
framing_protocol_ok(struct slice protocol)
{
    const char *slash = memchr(protocol.ptr, '/', protocol.len);
    struct slice name = protocol;

    if (slash != NULL) {
        name.len = (size_t)(slash - protocol.ptr);
        if (!http_token_ok(slice_of(slash + 1, protocol.len - name.len - 1)))
            return false;
    }
    return http_token_ok(name) && !framing_hides_requests(name);
}

struct slice
framing_upgrade(const struct http_message *h, const struct framing_connection *c)
{
    const struct slice none = {NULL, 0};
    struct slice value, protocol;
    struct http_list_iter it;
    unsigned n = 0;

    if (!c->upgrade || http_is_1_0(h))
        return none; /* RFC 9110 7.8: to be ignored in HTTP/1.0 */
    value = http_get_one(h, HTTP_F_UPGRADE);
    if (value.ptr == NULL)
        return none;
    http_list_init(&it, value);
    while (http_list_next(&it, &protocol)) {
        n++;
        if (n > FRAMING_OPTIONS_MAX || !framing_protocol_ok(protocol))
            return none;
    }
    return n > 0 && it.empty == 0 ? value : none;
}

static bool
framing_upgrade_names(struct slice list, struct slice protocol)
{
    struct http_list_iter it;
    struct slice member;

    http_list_init(&it, list);
    while (http_list_next(&it, &member))
        if (slice_eq_nocase(member, protocol))
            return true;
    return false;
}

/* RFC 9110 7.8: only what the client named.  Else each end would take the bytes of the tunnel for
 * another protocol. */
bool
framing_upgrade_granted(struct slice asked, struct slice granted)
{
    struct http_list_iter it;
    struct slice protocol;

    if (asked.len == 0 || granted.len == 0)
        return false;
    http_list_init(&it, granted);
    while (http_list_next(&it, &protocol))
        if (!framing_upgrade_names(asked, protocol))
            return false;
    return true;
}
