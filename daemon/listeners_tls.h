/* listeners_tls.h -- TLS of one listener: its certificates, the keys of its tickets, its contexts.
 *
 * Certificates may be read anew while connections are served: the new ones are prepared first, so that a
 * reload that fails elsewhere changes nothing here either.
 *
 * Threads: the main thread's; the server that it gives is for any loop.  Errors: TERR_*, with a sentence in
 * `why`; what is wrong with single files is said in the error log.
 */
#ifndef TARN_LISTENERS_TLS_H
#define TARN_LISTENERS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cert_report;
struct cert_store;
struct conf_tls;
struct listener_tls;
struct challenges;
struct offload;
struct secure_server;

enum {
    LISTENER_TLS_SECRET = 32, /* bytes that tickets are sealed by where no file has any */
};

/* Of the process.  What is pointed to is borrowed for as long as any listener lives. */
struct listener_tls_env {
    struct offload *offload;                   /* reads keys */
    struct challenges *challenges;             /* of the fleet's other nodes; NULL: no fleet */
    unsigned loops;                            /* that accept */
    unsigned char secret[LISTENER_TLS_SECRET]; /* for tickets, where no file has one */
};

/* `conf` says TLS; it is not kept. */
int listener_tls_open(struct listener_tls **out, const struct conf_tls *conf,
    const struct listener_tls_env *env, char *why, size_t why_len);
/* No connection of it is left. */
void listener_tls_close(struct listener_tls **tp);
/* The file of its secret gets each day's; a few times a second.  Blocks for a write, once a day. */
void listener_tls_tend(struct listener_tls *t);
/* The fleet's secret, where no file has another. */
struct tls_secret;
void listener_tls_take_secret(struct listener_tls *t, const struct tls_secret *secret);
struct secure_server *listener_tls_secure(struct listener_tls *t);
struct cert_store *listener_tls_certs(struct listener_tls *t);

/* For tarnd -t: reads all that `conf` names, and parses every certificate with its key.  What is wrong is
 * added to the report. */
void listener_tls_check(const struct conf_tls *conf, struct cert_report *report);

/* How often they were read anew with something bad among them. */
uint64_t listener_tls_failures(const struct listener_tls *t);

/* Was it opened with the same?  Files may have other content by now. */
bool listener_tls_same(const struct listener_tls *t, const struct conf_tls *conf);
/* Reads the certificates of `conf`, which is as it was opened with.  They wait for one of the other two. */
int listener_tls_prepare(
    struct listener_tls *t, const struct conf_tls *conf, char *why, size_t why_len);
/* The same; what is wrong is added to the report and said nowhere else. */
int listener_tls_prepare_quietly(
    struct listener_tls *t, const struct conf_tls *conf, struct cert_report *report);
void listener_tls_commit(struct listener_tls *t);
void listener_tls_unprepare(struct listener_tls *t);

#endif
