/* tls.h -- TLS for the connections of a listener (RFC 8446, RFC 5246, RFC 8422).
 *
 *   tls_server   what a listener says of TLS, as OpenSSL wants it: a context for each loop, so that
 *                loops share nothing but certificates
 *   tickets      keys for the tickets that a client resumes by (RFC 5077, RFC 8446 4.6.1): all loops,
 *                processes and nodes with one secret make the same
 *
 * Threads: open and close are the main thread's; a server's `secure.accept` is for any loop that it was
 * opened for.  Errors: TERR_*, with a sentence in `why` where one is taken.
 */
#ifndef TARN_TLS_H
#define TARN_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/net/secure.h"

struct cert_store;
struct tls_secret;
struct tls_server;
struct tls_tickets;

/* Before any other call that leads to OpenSSL, once a process: from here on its memory is counted. */
void tls_init(void);
/* Bytes that OpenSSL holds, of all threads, to within 64 KiB a thread; any thread. */
int64_t tls_memory(void);

/* Of a thread that serves connections: between the two, some memory lies ready for its next records.  Not
 * left, it would be lost when the thread ends. */
void tls_thread_enter(void);
void tls_thread_leave(void);
/* Half of what lies ready goes back: see net_loop_trim(). */
void tls_trim(void);

/* The secret is copied, and forgotten as its day passes.  `now_s`: seconds since the epoch, from any thread.
 * TERR_NOMEM. */
int tls_tickets_open(
    struct tls_tickets **out, const struct tls_secret *secret, int64_t (*now_s)(void));
/* From now on by this one, copied; what was sealed before is not opened any more.  Any thread. */
void tls_tickets_replace(struct tls_tickets *t, const struct tls_secret *secret);
/* Do they come from this secret, of whatever day it is?  Any thread. */
bool tls_tickets_same(struct tls_tickets *t, const struct tls_secret *secret);
void tls_tickets_close(struct tls_tickets **tp);

enum tls_client_auth {
    TLS_CLIENT_OFF,
    TLS_CLIENT_OPTIONAL, /* none is fine, a bad one is not */
    TLS_CLIENT_REQUIRED,
};

struct tls_server_conf {
    struct cert_store *certs;    /* borrowed until the server is closed */
    struct tls_tickets *tickets; /* borrowed likewise; NULL: no connection is resumed */
    bool modern;                 /* TLS 1.3 only */
    enum tls_client_auth client_auth;
    const char *client_ca; /* file in PEM; with client_auth */
    bool acme;             /* the store has challenges of tls-alpn-01, for clients that want one */
    bool http2;            /* "h2" is agreed on with a client that offers it */
    bool early_data;       /* 0-RTT is accepted: the answerer heeds conn_is_early() */
    unsigned loops;        /* their ids are below it */
};

/* Has the file certificates that clients' can be judged by?  0 or TERR_CONFIG. */
int tls_client_ca_check(const char *file, char *why, size_t why_len);
int tls_server_open(
    struct tls_server **out, const struct tls_server_conf *conf, char *why, size_t why_len);
/* No connection of it is left. */
void tls_server_close(struct tls_server **sp);
struct secure_server *tls_server_secure(struct tls_server *s);

struct tls_client_conf {
    bool verify;             /* the certificate: its chain, its dates, its names */
    const char *ca;          /* file in PEM; "": the system's */
    const char *sni;         /* RFC 6066 3; "": none is sent */
    const char *name;        /* or address that it must be for; with verify */
    const char *certificate; /* ours, a file in PEM with its chain; "": none */
    const char *key;         /* a file; "": in the certificate's */
    unsigned loops;          /* those with ids below it resume connections */
};

/* Reads files: the main thread. */
int tls_client_open(
    struct secure_client **out, const struct tls_client_conf *conf, char *why, size_t why_len);
enum {
    TLS_CLIENT_FILES = 3
};
/* Are ca, certificate and key, "" where there is none, what they were when it was opened? */
bool tls_client_is_current(
    const struct secure_client *c, const char *const files[TLS_CLIENT_FILES]);
/* Connections of it may go on. */
void tls_client_close(struct secure_client **cp);

/* "OpenSSL 3.0.22 25 Aug 2026", as linked. */
const char *tls_library_version(void);

#endif
