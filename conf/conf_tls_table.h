/* conf_tls_table.h -- the keys of maps that are values: TLS of listeners and of backends, ACME.
 *
 * Rows as in conf_keys_table.h.
 */
#ifndef TARN_CONF_TLS_TABLE_H
#define TARN_CONF_TLS_TABLE_H

#include "conf/conf_keys_table.h"

/* clang-format off */
#define CONF_TLS_TABLE(X)                                                                          \
    X(certificates, CERTIFICATES, "", 0, 4000,                                                     \
      "A directory of NAME.pem (chain, then key), or NAME.crt and NAME.key, or a list of files. "  \
      "With acme it may be left out: acme's own")                                                  \
    X(profile, PROFILE, "intermediate", 0, 0,                                                      \
      "intermediate: TLS 1.2 and 1.3, with forward secrecy; modern: TLS 1.3")                      \
    X(client_auth, CLIENTAUTH, "off", 0, 0,                                                        \
      "Certificates of clients: required; optional: a client may have none, but no bad one")       \
    X(client_ca, TEXT, "", 0, 4000, "File with the CA certificates that issue clients' "           \
      "certificates")                                                                              \
    X(session_secret, TEXT, "", 0, 4000,                                                           \
      "File of 32 to 4096 random bytes that session tickets are sealed by, on all nodes alike; "   \
      "tarnd's user owns it, for each day's secret takes its place; empty: one of this process")   \
    X(acme, ACME, "", 0, 0, "Certificates from a CA by ACME (RFC 8555); tarn-acme gets them")

#define CONF_PAIR_TABLE(X)                                                                         \
    X(certificate, TEXT, NULL, 1, 4000, "File with the chain in PEM, its own certificate first")   \
    X(key, TEXT, "", 0, 4000, "File with its key; empty: the certificate's")

#define CONF_ACME_TABLE(X)                                                                         \
    X(email, ASCII, "", 0, 254, "Where the CA may write to about the account")                     \
    X(directory, ASCII, CONF_ACME_DIRECTORY, 1, 1000, "URL of the CA's directory, https")          \
    X(names, WORDS, NULL, 1, CONF_WORDS_MAX, "Names of hosts: a certificate for each")             \
    X(state, TEXT, "/var/lib/tarn/acme", 1, 4000,                                                  \
      "Directory of the account, certificates and challenges, which tarn-acme makes")              \
    X(challenge, CHALLENGE, "http-01", 0, 0,                                                       \
      "http-01: the CA asks on port 80; tls-alpn-01: on port 443")

#define CONF_BACKEND_TLS_TABLE(X)                                                                  \
    X(verify, BOOL, 1, 0, 1, "Verify its certificate: chain, dates, name")                         \
    X(ca, TEXT, "", 0, 4000, "File with CA certificates in PEM; empty: the system's")              \
    X(sni, HOST, "", 0, 253, "Server name in the handshake; default: the address's host, if it is a name") \
    X(name, HOST, "", 0, 253,                                                                      \
      "Name or address that its certificate must be for; default: as sni, else the address")       \
    X(certificate, TEXT, "", 0, 4000, "File with a certificate of ours, for a backend that asks for one") \
    X(key, TEXT, "", 0, 4000, "File with its key; empty: the certificate's")

/* The type that has such a map for its value, the map's name in messages, the key that has it, its rows, what it is. */
#define CONF_PART_TABLE(X)                                                                         \
    X(TLS, tls, "tls of a listener", CONF_TLS_TABLE,                              \
      "A directory of certificates, or a map of these keys")                                       \
    X(CERTIFICATES, certificates, "certificates of tls", CONF_PAIR_TABLE,    \
      "A directory, or a list of files and of maps of these keys; the first is for clients that "  \
      "request no name of a certificate")                                                          \
    X(ACME, acme, "acme of tls", CONF_ACME_TABLE, "A map")                       \
    X(BACKENDTLS, tls, "tls of a backend", CONF_BACKEND_TLS_TABLE,        \
      "on, off, or a map of these keys. on: an address without https:// speaks TLS, too")
/* clang-format on */

#endif
