/* acme_cert.c -- certificates: read, judged.
 *
 * A CA's answer replaces what is served.  So it is judged as if anyone had sent it; what a client checks besides, that
 * the chain ends at a root which it knows, is left to clients: staging's ends at none. */
#include "daemon/acme/acme_cert.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/acme/acme_b64.h"
#include "daemon/acme/acme_time.h"
#include "daemon/base/terr.h"

enum {
    SERIAL_MAX = 64,      /* bytes; RFC 5280 4.1.2.2 has 20 */
    CLOCK_SLACK_S = 3600, /* a leaf that begins within this time is good: clocks differ */
};

/* One block of PEM.  Freed by chain_block_free(). */
struct chain_block {
    char *name, *header;
    unsigned char *bytes;
    long len;
};

static void
chain_block_free(struct chain_block *b)
{
    if (b->bytes != NULL && b->len > 0)
        OPENSSL_cleanse(b->bytes, (size_t)b->len); /* it may be a key */
    OPENSSL_free(b->name);
    OPENSSL_free(b->header);
    OPENSSL_free(b->bytes);
    *b = (struct chain_block){.name = NULL};
}

static int
chain_add(struct acme_chain *c, const struct chain_block *b, struct acme_fail *f)
{
    const unsigned char *at = b->bytes;
    X509 *x;

    if (c->n == ACME_CHAIN_MAX)
        return acme_fail(f, TERR_LIMIT, "more than %d certificates in one chain", ACME_CHAIN_MAX);
    x = d2i_X509(NULL, &at, b->len);
    /* Bytes behind the certificate would go into the file, unread by us and read by others. */
    if (x == NULL || at != b->bytes + b->len) {
        X509_free(x);
        return acme_fail(f, TERR_SYNTAX, "certificate %u of the chain is malformed", c->n + 1);
    }
    c->certs[c->n++] = x;
    return 0;
}

int
acme_chain_read(struct slice pem, bool keys_too, struct acme_chain *out, struct acme_fail *f)
{
    BIO *bio =
        pem.len < INT32_MAX ? BIO_new_mem_buf(pem.len > 0 ? pem.ptr : "", (int)pem.len) : NULL;
    struct chain_block b = {.name = NULL};
    struct acme_chain c = {.n = 0};
    int err = bio == NULL ? TERR_NOMEM : 0;

    /* Keys stand behind the chain in our own files; only those are read with `keys_too`. */
    while (err == 0 && PEM_read_bio(bio, &b.name, &b.header, &b.bytes, &b.len) == 1) {
        if (strcmp(b.name, "CERTIFICATE") == 0)
            err = chain_add(&c, &b, f);
        else if (!keys_too) /* RFC 8555 9.1: a server sends certificates and nothing else */
            err = acme_fail(f, TERR_SYNTAX, "a block that is no certificate stands in the chain");
        chain_block_free(&b);
    }
    /* The loop ends at any error; "no start line" alone means that there is no more. */
    if (err == 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        err = acme_fail(f, TERR_SYNTAX, "malformed PEM behind certificate %u", c.n);
    if (err == 0 && c.n == 0)
        err = acme_fail(f, TERR_SYNTAX, "no certificate in it");
    ERR_clear_error();
    BIO_free(bio);
    if (err != 0)
        acme_chain_fini(&c);
    else
        *out = c;
    return err;
}

void
acme_chain_fini(struct acme_chain *c)
{
    for (unsigned i = 0; i < c->n; i++)
        X509_free(c->certs[i]);
    c->n = 0;
}

int
acme_chain_pem(const struct acme_chain *c, struct span *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL, *copy = NULL;
    bool ok = bio != NULL;
    long len = 0;

    for (unsigned i = 0; ok && i < c->n; i++)
        ok = PEM_write_bio_X509(bio, c->certs[i]) == 1;
    if (ok)
        len = BIO_get_mem_data(bio, &bytes);
    copy = len > 0 ? malloc((size_t)len) : NULL;
    if (copy != NULL) {
        memcpy(copy, bytes, (size_t)len);
        *out = (struct span){copy, (size_t)len};
    }
    BIO_free(bio);
    return copy != NULL ? 0 : TERR_NOMEM;
}

/* ---- what a leaf says ---- */

/* timegm(): the program's time zone is the machine's, ASN.1's is UTC. */
static bool
leaf_time(const ASN1_TIME *t, int64_t *out_s)
{
    struct tm tm;

    if (t == NULL || ASN1_TIME_to_tm(t, &tm) != 1)
        return false;
    *out_s = (int64_t)timegm(&tm);
    return true;
}

/* RFC 9773 4.1: the authority key identifier, a dot, the serial number's bytes as DER has them. */
static void
leaf_certid(X509 *x, char out[static ACME_CERTID_SIZE])
{
    /* Without it there is no certID, and the CA is not asked when to renew: the life decides. */
    const ASN1_OCTET_STRING *aki = X509_get0_authority_key_id(x);
    unsigned char *der = NULL;
    /* By its DER, which has the zero in front of a high bit that RFC 9773 4.1 wants; a number has it not. */
    int len = i2d_ASN1_INTEGER(X509_get0_serialNumber(x), &der);

    out[0] = '\0';
    /* Tag, a length of one byte, the number. */
    if (aki != NULL && der != NULL && len > 2 && len <= SERIAL_MAX && ASN1_STRING_length(aki) > 0 &&
        ASN1_STRING_length(aki) <= SERIAL_MAX) {
        acme_b64_put(out, ASN1_STRING_get0_data(aki), (size_t)ASN1_STRING_length(aki));
        strcat(out, ".");
        acme_b64_put(out + strlen(out), der + 2, (size_t)len - 2);
    }
    OPENSSL_free(der);
}

_Static_assert(2 * ACME_B64_SIZE(SERIAL_MAX) < ACME_CERTID_SIZE, "both parts and a dot fit");

int
acme_leaf_read(const struct acme_chain *c, struct acme_leaf *out, struct acme_fail *f)
{
    X509 *x = c->certs[0];

    if (!leaf_time(X509_get0_notBefore(x), &out->not_before_s) ||
        !leaf_time(X509_get0_notAfter(x), &out->not_after_s))
        return acme_fail(f, TERR_CORRUPT, "the certificate's times are malformed");
    leaf_certid(x, out->certid);
    return 0;
}

static bool
names_have(const struct acme_wanted *w, const char *name, size_t len)
{
    for (unsigned i = 0; i < w->nnames; i++)
        if (strlen(w->names[i]) == len && strncasecmp(w->names[i], name, len) == 0)
            return true;
    return false;
}

/* Sets *why; whether all names of the certificate are wanted.
 * One with more than were ordered was issued by mistake, and tarnd would serve it for them.  *why is good until the
 * next call. */
static bool
leaf_names_wanted(const GENERAL_NAMES *names, const struct acme_wanted *w, const char **why)
{
    static char text[ACME_NAME_MAX + 64];

    for (int i = 0; i < (int)sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, (size_t)i);

        if (n->type != GEN_DNS) {
            *why = "it has a name that is no DNS name";
            return false;
        }
        /* By length and not as a C string: a name with a NUL in it is another one than it looks (CVE-2009-2408). */
        if (!names_have(w, (const char *)ASN1_STRING_get0_data(n->d.dNSName),
                (size_t)ASN1_STRING_length(n->d.dNSName))) {
            char name[ACME_NAME_MAX + 1];

            snprintf(name, sizeof(name), "%.*s", ASN1_STRING_length(n->d.dNSName),
                (const char *)ASN1_STRING_get0_data(n->d.dNSName));
            snprintf(text, sizeof(text), "it has the name ");
            acme_printable(text + strlen(text), sizeof(text) - strlen(text), name);
            *why = text;
            return false;
        }
    }
    return true;
}

bool
acme_leaf_has_names(const struct acme_chain *c, const struct acme_wanted *w, const char **why)
{
    static char text[ACME_NAME_MAX + 64];
    /* The common name counts for nothing (RFC 9525): OpenSSL would take it where there is no other. */
    GENERAL_NAMES *names = X509_get_ext_d2i(c->certs[0], NID_subject_alt_name, NULL, NULL);
    bool ok = names != NULL;

    *why = "it has no names (subjectAltName)";
    for (unsigned i = 0; ok && i < w->nnames; i++) {
        /* Exact names only: a wildcard would cover them, and is not what was ordered. */
        ok = X509_check_host(c->certs[0], w->names[i], strlen(w->names[i]),
                 X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
        snprintf(text, sizeof(text), "it lacks the name %s", w->names[i]);
        *why = text;
    }
    ok = ok && leaf_names_wanted(names, w, why);
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return ok;
}

/* Each certificate issued the one before it.  Whether the last one is trusted is the client's part.
 * By names and by signature: names alone fit another CA that calls itself the same. */
static int
chain_judge_links(const struct acme_chain *c, struct acme_fail *f)
{
    for (unsigned i = 0; i + 1 < c->n; i++) {
        EVP_PKEY *issuer = X509_get_pubkey(c->certs[i + 1]);
        bool ok = issuer != NULL && X509_check_issued(c->certs[i + 1], c->certs[i]) == X509_V_OK &&
                  X509_verify(c->certs[i], issuer) == 1;

        EVP_PKEY_free(issuer);
        ERR_clear_error();
        if (!ok)
            return acme_fail(f, TERR_CORRUPT,
                "certificate %u of the chain is not issued by the next one; leaf first, each "
                "followed by its issuer, would be right",
                i + 1);
    }
    return 0;
}

int
acme_chain_judge(const struct acme_chain *c, EVP_PKEY *key, const struct acme_wanted *w,
    int64_t now_s, struct acme_fail *f)
{
    char from[ACME_STAMP_SIZE], to[ACME_STAMP_SIZE], now[ACME_STAMP_SIZE];
    struct acme_leaf leaf;
    const char *why;
    int err;

    /* First: with another key no handshake would succeed, and all else would be said in vain. */
    if (X509_check_private_key(c->certs[0], key) != 1) {
        ERR_clear_error();
        return acme_fail(f, TERR_CORRUPT,
            "the certificate is for another key than the one in the request; it is not used");
    }
    if (!acme_leaf_has_names(c, w, &why))
        return acme_fail(f, TERR_CORRUPT,
            "the certificate has not the names of the order: %s; it is not used", why);
    /* An hour's grace at the beginning, none at the end: CAs date them back an hour, and clocks lag. */
    err = acme_leaf_read(c, &leaf, f);
    if (err != 0)
        return err;
    acme_stamp(from, leaf.not_before_s);
    acme_stamp(to, leaf.not_after_s);
    acme_stamp(now, now_s);
    if (leaf.not_after_s <= now_s || leaf.not_before_s > now_s + CLOCK_SLACK_S)
        return acme_fail(f, TERR_CORRUPT,
            "the certificate is good from %s to %s, and here it is %s; it is not used: is this "
            "machine's clock right?",
            from, to, now);
    return chain_judge_links(c, f);
}
