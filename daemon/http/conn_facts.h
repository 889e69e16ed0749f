/* conn_facts.h -- what is known of a client's connection before its protocol begins.
 *
 * net/incoming sets it once, when a connection is accepted or its PROXY header has been read.
 * The protocol server keeps a copy in the connection, and each exchange points to that.  Where
 * a trusted proxy's fields name the client of a request, that exchange points to a copy in its
 * own arena (proxy/req_client.c).
 *
 *   secure      what the handshake of TLS said
 *   forwarded   what a PROXY header, or the fields of a trusted proxy, say of the two ends
 *   operator    a connection of the admin listener, which proves its right to stay
 *
 * Threads: one loop's.
 */
#ifndef TARN_CONN_FACTS_H
#define TARN_CONN_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/uri.h"

struct arena;

enum {
    CONN_GIDS_MAX = 64
};

struct conn_operator {
    bool admitted; /* a request on it was authorized */
    bool has_cred; /* a Unix socket: the kernel says which process is at the other end */
    uint32_t uid;
    unsigned ngids; /* at least 1 */
    uint32_t gids[CONN_GIDS_MAX];
};

enum {
    CONN_SECURE_TEXT = 1024, /* bytes that are enough for all its texts; longer ones are cut */
};

/* Of a secure connection.  Texts are "" where there is nothing to say. */
struct conn_secure {
    const char *version, *cipher;   /* "TLSv1.3", "TLS_AES_128_GCM_SHA256" */
    const char *server_name;        /* that the client asked for (SNI, RFC 6066 3), in lower case */
    const char *protocol;           /* that was agreed on (ALPN, RFC 7301) */
    const char *client_subject;     /* of the client's certificate, which was verified: RFC 2253 */
    const char *client_issuer;      /* likewise */
    const char *client_serial;      /* in hexadecimal */
    const char *client_fingerprint; /* SHA-256 of the whole certificate, in hexadecimal */
    bool resumed;                   /* by a ticket */
    /* The handshake is not complete: what came until now was sent early, and another may have sent it, a copy of
     * what the client once said (RFC 8446 8).  It changes while the connection lasts. */
    bool early;
};

enum {
    CONN_SECURE_TEXTS = 8
};

static inline const char **
conn_secure_text(struct conn_secure *s, unsigned i)
{
    const char **const all[CONN_SECURE_TEXTS] = {&s->version, &s->cipher, &s->server_name,
        &s->protocol, &s->client_subject, &s->client_issuer, &s->client_serial,
        &s->client_fingerprint};

    return all[i];
}

/* With its texts, in the arena.  NULL: no memory. */
struct conn_secure *conn_secure_copy(const struct conn_secure *s, struct arena *a);

/* The client itself is conn_facts.client_addr. */
struct conn_forwarded {
    uint8_t remote_addr[16], server_addr[16]; /* our peer; the address that the client asked */
    uint16_t remote_port, server_port;
    bool has_server;           /* else the server's address is our own end */
    unsigned nhops;            /* > 0: from the client to the last proxy before our peer, */
    const uint8_t (*hops)[16]; /* addresses that trusted proxies said */
};

/* How a connection came in: a listener's name, address and limits.  Connections of one listener
 * share it.  One that is forwarded, or an operator's, has a copy of its own. */
struct conn_listener {
    const char *name, *endpoint;            /* as configured; "" */
    uint64_t body_max;                      /* bytes of a request's body; 0: the protocol's */
    const struct conn_forwarded *forwarded; /* NULL with every plain connection */
    const struct conn_secure *secure;       /* NULL: it is not encrypted, or not by us */
    bool peers;                             /* nodes of the fleet alone come in here */
    bool to_https;              /* every request is redirected to its URL with https:// */
    struct conn_operator *peer; /* NULL: a client's */
    bool is_copy;               /* of one connection's own, with what it points to */
};

/* Addresses are as in base/address.h.  An idle connection keeps one of these: every byte counts. */
struct conn_facts {
    const struct conn_listener *listener;
    uint8_t client_addr[16];   /* the peer's, or as forwarded; zeros: a Unix socket */
    uint64_t client_port : 16; /* 0: unknown */
    uint64_t session : 45;     /* the connection's number: worker, second and count */
    uint64_t scheme : 1;       /* enum http_scheme */
    uint64_t is_unix : 1;      /* of the socket */
    uint64_t is_counted : 1;   /* as one of its client's (net/incoming.h) */
};
_Static_assert(sizeof(struct conn_facts) == 32, "an idle connection grew");

/* May all that came on it be a replay? */
static inline bool
conn_is_early(const struct conn_facts *c)
{
    return c->listener->secure != NULL && c->listener->secure->early;
}

#endif
