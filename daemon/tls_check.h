/* tls_check.h -- for tarnd -t: is all that TLS needs there, and good?
 *
 * Threads: the main thread's, before there are others.
 */
#ifndef TARN_TLS_CHECK_H
#define TARN_TLS_CHECK_H

struct conf;

/* Certificates and keys of listeners, client_ca, session_secret; of backends ca, certificate and key.  What
 * is wrong goes to stderr with its file and line, one line each.  Returns how many errors there are. */
unsigned tls_check(const struct conf *conf);
/* What may be meant otherwise, to stderr. */
void tls_check_warn(const struct conf *conf);

#endif
