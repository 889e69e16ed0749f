/* framing.h -- where a message ends, and whether its connection goes on (RFC 9112 6.3, 9.3).
 *
 * Stricter than the RFC: whatever two parsers could read differently is TERR_FRAMING, and the
 * connection it came on must be closed without interpreting one more byte.
 */
#ifndef TARN_FRAMING_H
#define TARN_FRAMING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/message.h"

enum framing_kind {
    FRAMING_NONE,   /* no body */
    FRAMING_LENGTH, /* `length` bytes; may be 0 */
    FRAMING_CHUNKED,
    FRAMING_CLOSE, /* responses only: until the connection closes */
};

struct framing {
    enum framing_kind kind;
    bool doubtful;   /* a 204 that announced a body: nothing behind its head may be read */
    bool has_length; /* a valid Content-Length came, even where no body does (HEAD, 304) */
    uint64_t length;
};

/* 0, TERR_FRAMING, or TERR_CODING for known transfer codings before a final chunked. */
int framing_of_request(const struct http_message *req, struct framing *out);
/* `asked` is the method the request was sent with.  0 or TERR_FRAMING. */
int framing_of_response(
    const struct http_message *resp, enum http_method asked, struct framing *out);

/* Only 100-continue is known (RFC 9110 10.1.1).  0, also where nothing is expected, or TERR_EXPECT. */
int framing_expect(const struct http_message *req);

struct framing_connection {
    bool close, keep_alive, upgrade; /* the options as they came */
    bool persists;                   /* what they mean with the version (RFC 9112 9.3) */
};

/* Reads Connection and sets `drop` on the fields it nominates.  In a request, nominating
 * what Tarn acts on, or what is no token, is TERR_SYNTAX (CVE-2026-26365). */
int framing_connection_of_request(struct http_message *req, struct framing_connection *out);
/* In a response, nominating Content-Length, Transfer-Encoding, Cache-Control or Vary is
 * ignored, and so is what is no token.  TERR_SYNTAX when it nominates more than is sane. */
int framing_connection_of_response(struct http_message *resp, struct framing_connection *out);

/* What a head's Upgrade says, if it may lead to a tunnel: HTTP/1.1, the option in Connection
 * (`c`, of this head), and one field, a list of protocols (RFC 9110 7.8).  Else .ptr is NULL.
 * h2c, HTTP and TLS lead to none: requests would go by that Tarn never saw. */
struct slice framing_upgrade(const struct http_message *h, const struct framing_connection *c);
/* Was every protocol that the 101's Upgrade names asked for?  Both from framing_upgrade. */
bool framing_upgrade_granted(struct slice asked, struct slice granted);

/* The known field that a name with '_' passes for behind a gateway which turns '-' into '_'
 * (Transfer_Encoding); HTTP_F_OTHER when none. */
enum http_field_id framing_disguised(struct slice name);

#endif
