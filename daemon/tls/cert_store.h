/* cert_store.h -- which certificate answers a ClientHello.
 *
 *   pick   the certificates for one handshake, at most one of each kind of key, counted
 *   keys   a certificate with its chain, key and OCSP response, in OpenSSL's form
 *
 * A certificate is parsed when a handshake needs it first, on a thread of the offload; the handshake waits
 * and asks again.  The `parsed_max` that were used last stay parsed.  Handshakes that hold a pick, and
 * connections that used one, keep what they have, whatever is forgotten or reloaded meanwhile.
 *
 * How a listener uses it:
 *
 *     SSL_CTX_set_tlsext_status_cb(ctx, cert_on_status);        once for each SSL_CTX: OCSP stapling
 *     rc = cert_store_pick(store, sni, acme, &waiter, &pick);   from the client-hello callback
 *     TERR_AGAIN: return and wait; the waiter wakes the task: ask again
 *     0: cert_pick_use(&pick, ssl); cert_pick_drop(&pick);
 *     else: alert: unrecognized_name for TERR_NOTFOUND, internal_error for others
 *
 * Threads: any, under a mutex that is held for some hundred nanoseconds; a handshake costs a thousand times
 * that.  open, swap and close: the main thread.
 */
#ifndef TARN_CERT_STORE_H
#define TARN_CERT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "daemon/base/span.h"
#include "daemon/tls/cert_table.h"

struct cert_keys;
struct cert_store;
struct offload;
struct waiter;

struct cert_pick {
    struct cert_keys *ecdsa, *rsa; /* NULL: none of that kind */
};

enum {
    CERT_CHALLENGE_TEXT = 4096,
};

struct cert_store_env {
    struct offload *offload;     /* borrowed until cert_store_close(), which waits for its jobs */
    int64_t (*now_s)(void *ctx); /* seconds since the epoch, any thread; NULL: time(2) */
    void *now_ctx;
    /* The PEM text of tls-alpn-01's certificate for a host's name, where no file has it: its length, 0: there is none.  Any thread, under the store's
     * lock too.  NULL: there are files alone. */
    size_t (*challenge)(void *ctx, struct slice name, char out[CERT_CHALLENGE_TEXT]);
    void *challenge_ctx;
};

/* Takes the caller's count of *table and leaves NULL.  0 or TERR_NOMEM (and the table stays the caller's). */
int cert_store_open(
    struct cert_store **out, struct cert_table **table, const struct cert_store_env *env);
/* Handshakes that begin from now on use this one.  Takes the caller's count of *table and leaves NULL. */
void cert_store_swap(struct cert_store *s, struct cert_table **table);
/* No handshake waits any more.  Waits for jobs under way. */
void cert_store_close(struct cert_store **sp);

/* The table of now, counted: for `before` of cert_table_load(), which may run on another thread. */
struct cert_table *cert_store_table(struct cert_store *s);

/* `sni` as the client sent it; empty: none.  `acme_alpn`: the client offers acme-tls/1 and nothing else.
 * 0: *out is counted, and the caller's to drop.
 * TERR_AGAIN: a certificate is being parsed, and `w` (IDLE before) is ARMED: ask again when it has landed.
 * TERR_NOTFOUND: there is none.  TERR_CONFIG: there is one, and its files are bad: the error log says why, once.
 * TERR_LIMIT: too much is to be parsed.  TERR_NOMEM.  But for TERR_AGAIN, `w` is IDLE. */
int cert_store_pick(struct cert_store *s, struct slice sni, bool acme_alpn, struct waiter *w,
    struct cert_pick *out);
/* A handshake that ends while it waits.  True: `w` is IDLE.  False: its notification is on its way. */
bool cert_pick_cancel(struct cert_store *s, struct waiter *w);

/* Certificate, key and chain for each kind.  0, or TERR_NOMEM or TERR_CONFIG: OpenSSL refused one. */
int cert_pick_use(const struct cert_pick *pick, SSL *ssl);
void cert_pick_drop(struct cert_pick *pick); /* leaves an empty one */

/* For SSL_CTX_set_tlsext_status_cb(): staples the OCSP response of the certificate that was chosen, while
 * it is fresh.  `ctx` is not used. */
int cert_on_status(SSL *ssl, void *ctx);

/* ---- for metrics, the page and tarnctl ---- */

struct cert_store_stats {
    unsigned certificates, names;
    unsigned parsed;   /* now */
    uint64_t parses;   /* so far; bad ones too */
    uint64_t failures; /* parses that found something bad */
    uint64_t evictions, waits;
    uint64_t table_bytes;
};

void cert_store_stats(struct cert_store *s, struct cert_store_stats *out);

struct cert_info {
    const char *file, *key_file; /* key_file is NULL: in the same */
    const char *issuer;          /* its common name, or its organisation; "" */
    unsigned nnames;
    struct slice names; /* packed: cert_info_name() */
    int64_t not_before_s, not_after_s;
    enum cert_kind kind;
    unsigned key_bits;
    bool is_default, is_parsed;
    bool is_kept;           /* its file is bad, and what was parsed before is served */
    int64_t staple_until_s; /* nextUpdate of its OCSP response; 0: none, or not parsed */
    char error[320];        /* of the last parse; "": none */
};

/* Takes the first name off `names`: lower case, `*.` in front of a wildcard's.  Empty: there is no other. */
struct slice cert_info_name(struct slice *names);

/* Calls `each` for every certificate in the order of the list and of file names; what `info` points to stays
 * until it returns.  Any thread that may take the time. */
void cert_store_each(
    struct cert_store *s, void (*each)(void *ctx, const struct cert_info *info), void *ctx);

#endif
