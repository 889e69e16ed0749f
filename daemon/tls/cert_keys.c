/* cert_keys.c -- parses chains and keys, judges whether they belong together, and gives them to SSL objects.
 *
 * Parsing takes most of a millisecond, so it runs on a thread of the offload; only cert_pick_use() runs on loops.  What
 * is made here never changes: handshakes of any loop use it at once. */
#include "daemon/tls/cert_keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_file.h"
#include "daemon/tls/cert_index.h"
#include "daemon/tls/cert_pem.h"
#include "daemon/tls/cert_staple.h"
#include "daemon/tls/cert_store.h"
#include "daemon/tls/tls_lib.h"

#define CERT_KEYS_MAGIC OBJ_TAG('c', 'r', 't', 'k')
struct cert_keys {
    uint32_t magic;
    _Atomic unsigned refs;
    /* set once at parse */
    X509 *leaf; /* its OCSP response goes with it (cert_staple.h) */
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    bool is_acme, is_rsa;
    int64_t staple_until_s;
};

/* A parse under way. */
struct keys_parse {
    const struct cert_source *source;
    struct cert_report *report;
    X509 *certs[CERT_CHAIN_MAX]; /* owned */
    struct cert_facts facts;     /* of the first; its slices are gone with the text */
    unsigned lines[CERT_CHAIN_MAX];
    unsigned ncerts;
    EVP_PKEY *key; /* owned */
    unsigned key_line;
};

static const char *
keys_file(const struct keys_parse *p)
{
    return p->source->key != NULL ? p->source->key : p->source->certificate;
}

/* OpenSSL's reason for what it refused last, without its codes. */
static const char *
keys_reason(void)
{
    /* The last one is the outermost, which names what was read; those before it name a field of ASN.1. */
    const char *reason = tls_lib_reason(ERR_peek_last_error());

    ERR_clear_error();
    return reason != NULL ? reason : "OpenSSL does not say why";
}

/* ---- reading ---- */

/* The first certificate must be the one that the table has: else it would be served for names that it lacks. */
static int
keys_leaf(struct keys_parse *p, struct slice der, unsigned line)
{
    /* As large as the table's own (cert_entry.c), or names would differ that do not. */
    char names[65536];
    unsigned nnames, nbad;
    const char *why;
    size_t len;

    if (cert_facts_read(&p->facts, der, &why) == 0)
        why = cert_facts_misfit(&p->facts);
    if (why == NULL && p->source->names.ptr != NULL) {
        len = cert_facts_names(&p->facts, names, sizeof(names), &nnames, &nbad);
        if (!slice_eq(slice_of(names, len), p->source->names))
            why = "has other names than when it was loaded: `tarnctl tls reload` loads it again";
    }
    if (why == NULL)
        return 0;
    cert_report_add(p->report, true, p->source->certificate, line, "%s", why);
    return TERR_CONFIG;
}

/* The leaf by our own reader first: it says what is wrong with it in words, and compares the names. */
static int
keys_certificate(struct keys_parse *p, struct slice der, unsigned line)
{
    const unsigned char *at = (const unsigned char *)der.ptr;
    X509 *cert;

    /* A file of all CAs put behind a certificate by mistake would be sent whole in every handshake. */
    if (p->ncerts == CERT_CHAIN_MAX) {
        cert_report_add(p->report, true, p->source->certificate, line,
            "is the %uth certificate of the file: a chain has two to four", CERT_CHAIN_MAX + 1u);
        return TERR_CONFIG;
    }
    if (p->ncerts == 0 && keys_leaf(p, der, line) != 0)
        return TERR_CONFIG;
    cert = d2i_X509(NULL, &at, (long)der.len);
    if (cert == NULL) {
        cert_report_add(p->report, true, p->source->certificate, line,
            "the certificate is damaged: %s", keys_reason());
        return TERR_CONFIG;
    }
    p->certs[p->ncerts] = cert;
    p->lines[p->ncerts++] = line;
    return 0;
}

static int
keys_key(struct keys_parse *p, struct slice der, const struct pem_block *block)
{
    const unsigned char *at = (const unsigned char *)der.ptr;
    const char *file = keys_file(p);

    /* Which of two is meant would depend on their order; one of them may be a leaked one that was to be replaced. */
    if (p->key != NULL) {
        cert_report_add(p->report, true, file, block->line,
            "is a second key, after that of line %u: a file has one", p->key_line);
        return TERR_CONFIG;
    }
    p->key = d2i_AutoPrivateKey(NULL, &at, (long)der.len);
    p->key_line = block->line;
    if (p->key != NULL)
        return 0;
    cert_report_add(p->report, true, file, block->line,
        "the key cannot be read: it is damaged, or of an unknown kind or curve (%s)",
        keys_reason());
    return TERR_CONFIG;
}

/* One block, as DER in memory that is overwritten afterwards. */
static int
keys_block(struct keys_parse *p, const char *file, const struct pem_block *block)
{
    struct pem_fault fault;
    uint8_t *der;
    long n;
    int rc = TERR_CONFIG;

    /* Before OpenSSL sees it, which would ask a terminal for the password. */
    if (pem_is_key(block) && block->is_encrypted) {
        cert_report_add(p->report, true, file, block->line,
            "the key is encrypted, and tarnd asks for no password: openssl pkey -in FILE -out "
            "FILE.plain, "
            "then chmod 0640");
        return TERR_CONFIG;
    }
    der = malloc(pem_room(block));
    if (der == NULL)
        return TERR_NOMEM;
    n = pem_decode(block, der, &fault);
    if (n < 0)
        cert_report_add(p->report, true, file, fault.line, "%s", fault.why);
    else if (pem_is_key(block))
        rc = keys_key(p, slice_of((char *)der, (size_t)n), block);
    else
        rc = keys_certificate(p, slice_of((char *)der, (size_t)n), block->line);
    /* Certificates, too: it costs less than to tell them apart. */
    OPENSSL_cleanse(der, pem_room(block));
    free(der);
    return rc;
}

/* Of the certificate's file its certificates; a key there counts where no file of its own is named. */
static bool
keys_wants(const struct keys_parse *p, const char *file, const struct pem_block *block)
{
    if (pem_is_key(block))
        return strcmp(file, keys_file(p)) == 0;
    return pem_is_certificate(block) && file == p->source->certificate;
}

static int
keys_text(struct keys_parse *p, const char *file, struct slice text)
{
    struct pem_scan scan;
    struct pem_block block;
    struct pem_fault fault;
    int rc = 0, got = 0;

    pem_scan_init(&scan, text);
    while (rc == 0 && (got = pem_next(&scan, &block, &fault)) == 1) {
        if (keys_wants(p, file, &block))
            rc = keys_block(p, file, &block);
    }
    if (got < 0) {
        cert_report_add(p->report, true, file, fault.line, "%s", fault.why);
        return TERR_CONFIG;
    }
    if (rc == 0 && text.len > 1 && text.ptr[0] == 0x30 && (text.ptr[1] & 0x80) != 0) {
        cert_report_add(p->report, true, file, 0,
            "is DER, and must be PEM: openssl pkey -inform der, or "
            "openssl x509 -inform der");
        return TERR_CONFIG;
    }
    return rc;
}

static int
keys_read(struct keys_parse *p, const char *file)
{
    struct cert_buffer buffer = {NULL, 0};
    struct cert_file_id id;
    struct slice text;
    /* Read anew, though the table has read it: between the two the file may have been replaced. */
    int rc = cert_file_read(file, &buffer, &text, &id, p->report);
    unsigned had = p->key != NULL;

    if (rc == 0)
        rc = keys_text(p, file, text);
    if (rc == 0 && p->key != NULL && !had && !cert_file_is_private(&id, file, p->report))
        rc = TERR_CONFIG;
    cert_buffer_fini(&buffer);
    return rc == TERR_IO ? TERR_CONFIG : rc;
}

/* ---- judging: what would end a handshake is an error, what a client may forgive a remark ---- */

static int
keys_match(struct keys_parse *p)
{
    const char *file = keys_file(p);

    if (p->ncerts == 0 || p->key == NULL) {
        cert_report_add(p->report, true, p->ncerts == 0 ? p->source->certificate : file, 0,
            p->ncerts == 0 ? "has no block -----BEGIN CERTIFICATE-----"
                           : "has no block -----BEGIN PRIVATE KEY-----");
        return TERR_CONFIG;
    }
    if (X509_check_private_key(p->certs[0], p->key) == 1)
        return 0;
    ERR_clear_error();
    /* The commonest mistake, a chain written upside down, has a message of its own. */
    for (unsigned i = 1; i < p->ncerts; i++) {
        if (X509_check_private_key(p->certs[i], p->key) == 1) {
            cert_report_add(p->report, true, p->source->certificate, p->lines[i],
                "is the certificate of the key, and must stand first, its issuers behind it");
            return TERR_CONFIG;
        }
        ERR_clear_error();
    }
    cert_report_add(p->report, true, file, p->key_line,
        "is the key of another certificate than %s has", p->source->certificate);
    return TERR_CONFIG;
}

/* Through our own reader, which leaves nothing unprintable in it. */
static void
keys_show(X509 *cert, bool issuer, char out[CERT_ISSUER_MAX])
{
    X509_NAME *name = issuer ? X509_get_issuer_name(cert) : X509_get_subject_name(cert);
    unsigned char *der = NULL;
    int len = i2d_X509_NAME(name, &der);

    out[0] = '\0';
    if (len > 0)
        cert_name_show(slice_of((char *)der, (size_t)len), out);
    OPENSSL_free(der);
}

/* Puts the issuer of certs[n - 1] at certs[n].  False: it is not in the file. */
static bool
keys_issuer(struct keys_parse *p, unsigned n)
{
    for (unsigned i = n; i < p->ncerts; i++) {
        X509 *cert = p->certs[i];
        unsigned line = p->lines[i];

        /* By names and key identifiers; the signature is a client's to check, and costs a tenth of a millisecond. */
        if (X509_check_issued(cert, p->certs[n - 1]) != X509_V_OK)
            continue;
        if (i != n)
            cert_report_add(p->report, false, p->source->certificate, line,
                "issued the certificate of line %u, and belongs right behind it: it is sent in "
                "that order",
                p->lines[n - 1]);
        memmove(&p->certs[n + 1], &p->certs[n], (i - n) * sizeof(*p->certs));
        memmove(&p->lines[n + 1], &p->lines[n], (i - n) * sizeof(*p->lines));
        p->certs[n] = cert;
        p->lines[n] = line;
        return true;
    }
    return false;
}

/* Leaf first, each issued by the next (RFC 8446 4.4.2).  What belongs elsewhere is not sent. */
static void
keys_order(struct keys_parse *p)
{
    char subject[CERT_ISSUER_MAX], issuer[CERT_ISSUER_MAX];
    unsigned n = 1;

    /* A root that issued itself ends the search, for it is not behind itself.  It is sent if it is there: the operator
     * put it there. */
    while (n < p->ncerts && keys_issuer(p, n))
        n++;
    ERR_clear_error();
    keys_show(p->certs[n - 1], true, issuer);
    for (unsigned i = n; i < p->ncerts; i++) {
        keys_show(p->certs[i], false, subject);
        cert_report_add(p->report, false, p->source->certificate, p->lines[i],
            "\"%s\" issued none of those before it, and is not sent: the certificate of line %u is "
            "issued by \"%s\"",
            subject, p->lines[n - 1], issuer);
        X509_free(p->certs[i]);
    }
    p->ncerts = n;
}

static void
keys_dates(const struct keys_parse *p)
{
    /* At the parse, too: weeks may lie between it and the load. */
    if (p->facts.not_after_s < p->source->now_s)
        cert_report_add(p->report, false, p->source->certificate, p->lines[0],
            "has expired: it is served, and clients refuse it until it is renewed");
    else if (p->facts.not_before_s > p->source->now_s)
        cert_report_add(p->report, false, p->source->certificate, p->lines[0],
            "is not valid yet: it is served, and clients refuse it until then");
}

/* ---- the result ---- */

static int
keys_make(struct cert_keys **out, struct keys_parse *p)
{
    struct cert_keys *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return TERR_NOMEM;
    k->magic = CERT_KEYS_MAGIC;
    atomic_init(&k->refs, 1);
    k->is_acme = p->facts.is_acme;
    k->is_rsa = p->facts.kind == CERT_RSA;
    /* An empty one where there is no issuer: without any OpenSSL would build a chain of the clients' CAs. */
    k->chain = sk_X509_new_null();
    if (k->chain == NULL) {
        OBJ_FREE(k);
        return TERR_NOMEM;
    }
    k->leaf = p->certs[0];
    /* What is taken over is not the parse's to free any more. */
    k->key = p->key;
    p->key = NULL;
    for (unsigned i = 1; i < p->ncerts; i++) {
        if (sk_X509_push(k->chain, p->certs[i]) <= 0)
            X509_free(
                p->certs[i]); /* a chain that is shorter: out of memory, clients may complete it */
    }
    p->ncerts = 0;
    if (p->source->ocsp != NULL)
        k->staple_until_s =
            cert_staple_read(k->leaf, sk_X509_num(k->chain) > 0 ? sk_X509_value(k->chain, 0) : NULL,
                p->source->ocsp, p->source->now_s, p->report);
    *out = k;
    return 0;
}

int
cert_keys_parse(
    struct cert_keys **out, const struct cert_source *source, struct cert_report *report)
{
    struct keys_parse p = {.source = source, .report = report};
    int rc;

    /* What another job left on this thread would be given as the reason of ours. */
    ERR_clear_error();
    rc = source->text.ptr != NULL ? keys_text(&p, source->certificate, source->text)
                                  : keys_read(&p, source->certificate);
    if (rc == 0 && source->key != NULL)
        rc = keys_read(&p, source->key);
    if (rc == 0)
        rc = keys_match(&p);
    if (rc == 0) {
        keys_order(&p);
        keys_dates(&p);
        rc = keys_make(out, &p);
    }
    for (unsigned i = 0; i < p.ncerts; i++)
        X509_free(p.certs[i]);
    EVP_PKEY_free(p.key);
    ERR_clear_error(); /* the thread's, which others use */
    return rc;
}

void
cert_keys_ref(struct cert_keys *k)
{
    OBJ_CHECK(k, CERT_KEYS_MAGIC);
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
}

void
cert_keys_unref(struct cert_keys **kp)
{
    struct cert_keys *k;

    OBJ_TAKE(k, kp, CERT_KEYS_MAGIC);
    /* SSL objects have counts of their own on what is in it (SSL_use_certificate). */
    if (atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1)
        return;
    X509_free(k->leaf);
    sk_X509_pop_free(k->chain, X509_free);
    EVP_PKEY_free(k->key);
    OBJ_FREE(k);
}

bool
cert_keys_is_acme(const struct cert_keys *k)
{
    OBJ_CHECK(k, CERT_KEYS_MAGIC);
    return k->is_acme;
}

bool
cert_keys_is_rsa(const struct cert_keys *k)
{
    OBJ_CHECK(k, CERT_KEYS_MAGIC);
    return k->is_rsa;
}

int64_t
cert_keys_staple_until(const struct cert_keys *k)
{
    OBJ_CHECK(k, CERT_KEYS_MAGIC);
    return k->staple_until_s;
}

/* ---- use ---- */

/* The calls for one kind of key leave the other's alone; the chain goes to the certificate that was set last. */
static bool
keys_use(const struct cert_keys *k, SSL *ssl)
{
    return k == NULL ||
           (SSL_use_certificate(ssl, k->leaf) == 1 && SSL_use_PrivateKey(ssl, k->key) == 1 &&
               SSL_set1_chain(ssl, k->chain) == 1);
}

int
cert_pick_use(const struct cert_pick *pick, SSL *ssl)
{
    bool with_rsa = true, with_ecdsa = true;

    tassert(pick->ecdsa != NULL || pick->rsa != NULL);
    ERR_clear_error();
    /* With one kind alone there is nothing to choose: a client that does not take it gets the library's alert. */
    if (pick->ecdsa != NULL && pick->rsa != NULL) {
        with_rsa = tls_lib_peer_takes(ssl, EVP_PKEY_RSA);
        with_ecdsa = tls_lib_peer_takes(ssl, EVP_PKEY_EC) || !with_rsa; /* the library says why */
    }
    if ((!with_rsa || keys_use(pick->rsa, ssl)) && (!with_ecdsa || keys_use(pick->ecdsa, ssl)))
        return 0;
    ERR_clear_error();
    return TERR_CONFIG;
}

/* Safe for a pick that has neither. */
void
cert_pick_drop(struct cert_pick *pick)
{
    if (pick->ecdsa != NULL)
        cert_keys_unref(&pick->ecdsa);
    if (pick->rsa != NULL)
        cert_keys_unref(&pick->rsa);
}
