/* cert_table.h -- the certificates of one TLS listener, by the names that they are for.
 *
 *   pair    a certificate with its chain, and its key: two files, or one
 *   entry   what is known of a pair: its names, dates, kind of key, its files' size, time and inode
 *   table   the entries of a listener, and an index of their names; never changed once it is loaded
 *   parsed  of an entry: its chain and key are in memory in OpenSSL's form (cert_store.h)
 *
 * Loading reads names only, with code of our own (cert_index.h): a listener with 50,000 certificates is
 * ready in less than a second.  The names that count are those in the certificate: dNSName and iPAddress
 * of subjectAltName; the common name when it has neither (RFC 9525 6.3 has no common name at all; old private
 * authorities have nothing else).  An exact name comes first, then a wildcard for one label, else the default:
 * the first of the list; of a directory `default.*`, else the first by file name.
 *
 * In a directory count NAME.pem (chain and key), NAME.pem, NAME.crt or NAME.cer with NAME.key, and
 * NAME/fullchain.pem with NAME/privkey.pem (certbot's `live`).  NAME.issuer.crt (lego's) and names that begin
 * with a dot are left out.  An OCSP response in DER lies beside: NAME.ocsp, NAME/fullchain.ocsp.
 *
 * Threads: loading blocks; the main thread or an offload's, never a loop.  By the user that parses them later.
 * A table is counted; any thread.  Errors: TERR_*, with reasons in the report.
 */
#ifndef TARN_CERT_TABLE_H
#define TARN_CERT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/tls/cert_report.h"

struct cert_table;

struct cert_pair {
    const char *certificate; /* a file; the leaf first, then its issuers */
    const char *key;         /* a file; NULL or the same: in that one */
};

struct cert_spec {
    const char *directory; /* NULL: none */
    /* A directory that is empty or not there yet is remarked and no error: an ACME client fills it while handshakes
     * fail, and a reload finds its first certificate. */
    bool may_be_empty;
    const struct cert_pair *pairs;
    unsigned npairs;
    /* Where an ACME client lays certificates for tls-alpn-01 (RFC 8737): NAME.pem, or NAME.crt with NAME.key.
     * They are read when they are needed, without a reload.  NULL: none. */
    const char *challenge_directory;
    unsigned parsed_max; /* entries that stay parsed; 0: CERT_PARSED_MAX */
    int64_t now_s;       /* since the epoch: what has expired is remarked; 0: time(2) */
};

enum {
    CERT_PARSED_MAX = 1000,
    CERT_TABLE_MAX = 1000000, /* certificates: at 1 kB each, 1 GB */
};

enum cert_kind {
    CERT_ECDSA,
    CERT_RSA,
    CERT_KINDS
};

/* Reads names.  Takes over what has not changed (size, time, inode) from `before` with what is parsed of it;
 * a file of `before` that is bad now keeps its entry.  NULL: there was none.
 * 0: *out is counted once for the caller, and the report may have errors still: those files are left out.
 * TERR_CONFIG: nothing to serve from: the directory cannot be read or has no certificate that can be used, or a
 * pair of the list is bad and was not in `before`.  TERR_NOMEM.  The report is added to. */
int cert_table_load(struct cert_table **out, const struct cert_spec *spec,
    const struct cert_table *before, struct cert_report *report);

/* Parses every certificate with its chain and key, and forgets them again: for tarnd -t.  Returns how many
 * are bad; the report says why. */
unsigned cert_table_check(const struct cert_table *t, int64_t now_s, struct cert_report *report);

void cert_table_ref(const struct cert_table *t);
void cert_table_unref(struct cert_table **tp);

unsigned cert_table_count(const struct cert_table *t);
/* Bytes of heap, as the allocator rounds them; not those of parsed entries. */
uint64_t cert_table_bytes(const struct cert_table *t);
/* The first notAfter of all, in seconds since the epoch, and its file (borrowed from the table).  Without any
 * certificate INT64_MAX and "". */
int64_t cert_table_soonest_expiry(const struct cert_table *t, const char **file);

#endif
