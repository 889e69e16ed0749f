/* forward.h -- the messages Tarn sends on: every byte is written anew.
 *
 * What is never sent on: hop-by-hop fields, what Connection nominates (run framing_connection_*
 * before), Content-Length, Expect, spoofable fields of untrusted clients, and names with '_'
 * that would pass for one of these behind a CGI-like gateway.
 *
 * Heads are written into the caller's buffer, never over its end.
 */
#ifndef TARN_FORWARD_H
#define TARN_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/arena.h"
#include "daemon/base/span.h"
#include "daemon/http/message.h"
#include "daemon/http/uri.h"

enum forward_mode {
    FORWARD_PASS,  /* for one client: method, body, ranges and conditions as they are */
    FORWARD_FETCH, /* for the cache: a GET for what it lacks, Accept-Encoding in normal form */
};

/* Slices with .len 0 write nothing. */
struct forward_request {
    enum forward_mode mode;
    bool trusted;                /* the peer may set X-Forwarded-* and the like */
    enum http_scheme scheme;     /* of the client's connection */
    struct slice host;           /* the authority: the normal form that was keyed */
    struct slice path;           /* instead of the request's own, when .len is not 0 */
    struct slice client_address; /* appended to X-Forwarded-For */
    struct slice forwarded;      /* Forwarded (RFC 7239), instead of the client's */
    struct slice pseudonym;      /* for Via */
    bool esi; /* what comes is a page with ESI: the whole of it, whatever its client has or wants */
    struct slice cdn_loop; /* CDN-Loop, of cdn_loop_extend(); what came of it does not go on else */
    const char *keep;      /* NULL, or spoofable fields that go on: names, a space between */
    struct slice id_name, id_value; /* a request id; replaces the client's field of that name */
    struct slice
        peer; /* FORWARD_PEER, for another node of the fleet; a client's does not go on then */
    struct slice if_none_match, if_modified_since; /* FETCH: revalidate what is stored */
    const struct slice
        *codings; /* FETCH: for Accept-Encoding, instead of the client's; NULL: the client's */
    struct slice range, if_range; /* FETCH: only this part; the client's own never go on then */
};

/* Built in the arena (message_out.h): method, path, authority and end-to-end fields.  Host, framing
 * and connection-level fields are the protocol's (origin_exchange.h).  0, TERR_NOMEM or
 * TERR_LIMIT. */
int forward_request(const struct http_message *req, const struct forward_request *how,
    struct arena *arena, struct http_message *out);
/* The same of a request as a policy left it: without hop-by-hop fields and framing, with `host` as
 * its authority if that is not empty, and this CDN-Loop alone, which no policy changes. */
int forward_bereq(const struct http_message *req, struct slice host, struct slice cdn_loop,
    struct arena *arena, struct http_message *out);

enum forward_keep {
    FORWARD_STORED, /* for the cache: without Age and Cache-Status */
    FORWARD_PASSED, /* for one client: Age and Cache-Status are the upstream's */
};

#define FORWARD_NO_LENGTH UINT64_MAX

#define FORWARD_PEER SLICE_LIT("Tarn-Peer")

struct forward_response {
    enum forward_keep keep;
    struct slice pseudonym; /* for Via */
    int64_t now_s;          /* for Date, when the origin did not say (RFC 9110 6.6.1) */
    uint64_t length;        /* for Content-Length; FORWARD_NO_LENGTH: it is not said */
    bool shows_hop; /* it came from a node of the fleet, and keeps that one's Cache-Status */
};

/* Responses are built in the arena.  0, TERR_NOMEM or TERR_LIMIT. */

/* As a policy left it: the last three digits of its status, its reason and fields; nothing
 * hop-by-hop. */
int forward_edited(const struct http_message *resp, struct arena *a, struct http_message *out);

/* Status, reason and end-to-end fields; nothing of connection and framing (but the Upgrade of a
 * 101): the protocol adds those, Age and Cache-Status to every response.  A 206 keeps its
 * Content-Range: derive_whole() takes it off. */
int forward_response(const struct http_message *resp, const struct forward_response *how,
    struct arena *a, struct http_message *out);

/* An interim response: status and end-to-end fields, as forward_response does, but nothing of ours. */
int forward_interim(const struct http_message *resp, struct arena *a, struct http_message *out);

#endif
