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
    X(early_data, BOOL, 0, 0, 1,                                                                   \
      "on: TLS 1.3 early data (0-RTT). What comes early is answered from the cache, or 425")       \
    X(acme, ACME, "", 0, 0, "Certificates from a CA by ACME (RFC 8555): tarn-acme reads this, too, and gets them")

#define CONF_PAIR_TABLE(X)                                                                         \
    X(certificate, TEXT, NULL, 1, 4000, "File with the chain in PEM, its own certificate first")   \
    X(key, TEXT, "", 0, 4000, "File with its key; empty: the certificate's")

#define CONF_ACME_TABLE(X)                                                                         \
    X(names, CERTNAMES, "", 0, CONF_CERTNAMES_MAX,                                                 \
      "Names of hosts: a certificate for each element; commas stand between the names of one "     \
      "certificate")                                                                               \
    X(email, ASCII, "", 0, 254, "Where the CA may write to about the account")                     \
    X(agree_tos, BOOL, 0, 0, 1, "You agree to the CA's terms of service; the CA wants it for an account") \
    X(directory, ASCII, CONF_ACME_PRODUCTION, 1, 1000, "URL of the CA's directory, https")         \
    X(staging, BOOL, 0, 0, 1,                                                                      \
      "Let's Encrypt's staging environment: no client trusts its certificates, and its limits are wide") \
    X(challenge, CHALLENGE, "http-01", 0, 0,                                                       \
      "http-01: the CA asks on port 80; tls-alpn-01: on port 443")                                 \
    X(webroot, TEXT, "", 0, 4000,                                                                  \
      "In place of names: another ACME client, as certbot or lego, gets the certificates, and "    \
      "leaves its proofs of http-01 in this directory's .well-known/acme-challenge")               \
    X(state, TEXT, CONF_ACME_STATE, 1, 4000,                                                       \
      "Directory of the account, certificates and challenges, which tarn-acme makes")              \
    X(key_type, KEYTYPE, "ecdsa", 0, 0, "Of the certificates: ecdsa (P-256) or rsa (2048 bits)")   \
    X(renew_before, MS, 0, 0, 365 * CONF_D,                                                        \
      "Renew so long before the end, or earlier where the CA suggests it; 0s: when a third of the "\
      "life is left, or as the CA suggests")                                                       \
    X(hook, TEXT, "", 0, 4000,                                                                     \
      "Command that /bin/sh runs after certificates have changed; empty: `tarnctl tls reload` at " \
      "the admin listener")                                                                        \
    X(ca, TEXT, "", 0, 4000,                                                                       \
      "File with CA certificates in PEM that the CA's own server is verified by; empty: the system's") \
    X(eab_kid, ASCII, "", 0, 1000, "External account binding: the key's id, as the CA gave it")    \
    X(eab_key_file, TEXT, "", 0, 4000, "And a file of mode 0600 with the key in base64url")

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
    X(ACME, acme, "acme of tls", CONF_ACME_TABLE, \
      "A map of these keys, which tarn-acme reads; names or webroot must be given. Listeners with the same "  \
      "state have all of them but names alike")                       \
    X(BACKENDTLS, tls, "tls of a backend", CONF_BACKEND_TLS_TABLE,        \
      "on, off, or a map of these keys. on: an address without https:// speaks TLS, too")
/* clang-format on */

#endif
