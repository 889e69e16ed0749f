/* cert_index.c -- DER, as far as certificates use it.
 *
 * Each step takes one value off the front of a slice and checks its length against what is left, so no position is ever
 * computed from a length that the file says.  What is not needed is skipped by its length, unread: OpenSSL judges it. */
#include "daemon/tls/cert_index.h"

#include <arpa/inet.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

enum {
    DER_BOOLEAN = 0x01,
    DER_INTEGER = 0x02,
    DER_BIT_STRING = 0x03,
    DER_OCTET_STRING = 0x04,
    DER_OID = 0x06,
    DER_UTC_TIME = 0x17,
    DER_GENERALIZED_TIME = 0x18,
    DER_SEQUENCE = 0x30,
    DER_SET = 0x31,
    DER_VERSION = 0xa0,    /* [0] of TBSCertificate */
    DER_EXTENSIONS = 0xa3, /* [3] */
    DER_DNS_NAME = 0x82,   /* [2] of GeneralName */
    DER_IP_ADDRESS = 0x87, /* [7] */
};

/* Object identifiers, as their bytes. */
#define OID_COMMON_NAME  "\x55\x04\x03"
#define OID_ORGANISATION "\x55\x04\x0a"
#define OID_SAN          "\x55\x1d\x11"
#define OID_ACME         "\x2b\x06\x01\x05\x05\x07\x01\x1f"
#define OID_RSA          "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"
#define OID_EC           "\x2a\x86\x48\xce\x3d\x02\x01"
#define OID_P256         "\x2a\x86\x48\xce\x3d\x03\x01\x07"
#define OID_P384         "\x2b\x81\x04\x00\x22"
#define OID_P521         "\x2b\x81\x04\x00\x23"

/* Takes one value off `in`: its tag, what it holds, and, where wanted, the whole of it.  Lengths of DER alone:
 * definite, and below 16 MiB. */
static bool
der_take(struct slice *in, unsigned *tag, struct slice *body, struct slice *whole)
{
    const uint8_t *p = (const uint8_t *)in->ptr;
    size_t len, head = 2;

    /* 0x1f: the tag goes on in further bytes (X.690 8.1.2.4). */
    if (in->len < 2 || (p[0] & 0x1f) == 0x1f) /* no tag of more than a byte in a certificate */
        return false;
    len = p[1];
    if (len >= 0x80) {
        size_t n = len & 0x7f;

        /* n == 0 is BER's indefinite length, which DER has not (X.690 10.1). */
        if (n == 0 || n > 3 || in->len < 2 + n)
            return false;
        len = 0;
        for (size_t i = 0; i < n; i++)
            len = len << 8 | p[2 + i];
        head += n;
    }
    /* head is within in->len, so that nothing wraps here. */
    if (in->len - head < len)
        return false;
    *tag = p[0];
    *body = slice_of(in->ptr + head, len);
    if (whole != NULL)
        *whole = slice_of(in->ptr, head + len);
    *in = slice_of(in->ptr + head + len, in->len - head - len);
    return true;
}

static bool
der_expect(struct slice *in, unsigned tag, struct slice *body)
{
    unsigned got;

    return der_take(in, &got, body, NULL) && got == tag;
}

/* Takes it when it is next. */
static bool
der_optional(struct slice *in, unsigned tag, struct slice *body)
{
    return in->len > 0 && (uint8_t)in->ptr[0] == tag && der_expect(in, tag, body);
}

/* ---- times ---- */

static bool
der_digits(struct slice *in, unsigned n, int *out)
{
    *out = 0;
    if (in->len < n)
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (in->ptr[i] < '0' || in->ptr[i] > '9')
            return false;
        *out = *out * 10 + (in->ptr[i] - '0');
    }
    *in = slice_of(in->ptr + n, in->len - n);
    return true;
}

/* Days since the epoch of a date of the Gregorian calendar; years are counted from March, so that the day that
 * leap years have more is the last. */
static int64_t
der_days(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3;

    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

/* RFC 5280 4.1.2.5: with seconds, in UTC. */
static bool
der_time(struct slice *in, int64_t *out_s)
{
    int year, month, day, hour, minute, second;
    struct slice t;
    unsigned tag;

    if (!der_take(in, &tag, &t, NULL))
        return false;
    if (tag == DER_UTC_TIME) {
        if (!der_digits(&t, 2, &year))
            return false;
        /* RFC 5280 4.1.2.5.1. */
        year += year >= 50 ? 1900 : 2000;
    } else if (tag != DER_GENERALIZED_TIME || !der_digits(&t, 4, &year))
        return false;
    if (!der_digits(&t, 2, &month) || !der_digits(&t, 2, &day) || !der_digits(&t, 2, &hour) ||
        !der_digits(&t, 2, &minute) || !der_digits(&t, 2, &second) || !slice_eq(t, SLICE_LIT("Z")))
        return false;
    /* So that der_days() stays in range.  31 February, or second 99, moves an end by days or seconds: that is no harm. */
    if (month < 1 || month > 12 || day < 1 || day > 31)
        return false;
    *out_s = der_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

/* ---- the parts of a certificate ---- */

/* Of a Name the last value of that type; empty: it has none. */
static struct slice
name_value(struct slice name, struct slice type)
{
    struct slice rdns, set, pair, oid, value, found = {NULL, 0};
    unsigned tag;

    if (!der_expect(&name, DER_SEQUENCE, &rdns))
        return found;
    /* A name is a list of sets of pairs, which nearly always have one member each (RFC 5280 4.1.2.4). */
    while (der_expect(&rdns, DER_SET, &set)) {
        while (der_expect(&set, DER_SEQUENCE, &pair)) {
            if (der_expect(&pair, DER_OID, &oid) && slice_eq(oid, type) &&
                der_take(&pair, &tag, &value, NULL))
                found = value;
        }
    }
    return found;
}

/* SHA-1 and MD5 by their identifiers; what is not known here is OpenSSL's to judge. */
static enum cert_digest
facts_digest(struct slice algorithm)
{
    static const struct slice rsa = {
        "\x2a\x86\x48\x86\xf7\x0d\x01\x01", 8}; /* PKCS #1, one byte more */
    struct slice oid;

    /* Only the two that every client refuses: a certificate by them would break each handshake without a word here. */
    if (!der_expect(&algorithm, DER_OID, &oid))
        return CERT_DIGEST_OTHER;
    if (slice_eq(oid, SLICE_LIT("\x2a\x86\x48\xce\x3d\x04\x01"))) /* ecdsa-with-SHA1 */
        return CERT_DIGEST_SHA1;
    if (oid.len != rsa.len + 1 || memcmp(oid.ptr, rsa.ptr, rsa.len) != 0)
        return CERT_DIGEST_OTHER;
    if (oid.ptr[8] == 5)
        return CERT_DIGEST_SHA1;
    return oid.ptr[8] == 2 || oid.ptr[8] == 4 ? CERT_DIGEST_MD5 : CERT_DIGEST_OTHER;
}

static unsigned
curve_bits(struct slice oid)
{
    if (slice_eq(oid, SLICE_LIT(OID_P256)))
        return 256;
    if (slice_eq(oid, SLICE_LIT(OID_P384)))
        return 384;
    return slice_eq(oid, SLICE_LIT(OID_P521)) ? 521 : 0;
}

/* The modulus, without the zeros in front of it. */
static bool
rsa_bits(struct slice key, unsigned *bits)
{
    struct slice numbers, modulus;

    /* INTEGER is signed: a modulus has a zero in front, which is none of its bits. */
    if (key.len < 1 || key.ptr[0] != 0) /* unused bits of the BIT STRING */
        return false;
    key = slice_of(key.ptr + 1, key.len - 1);
    if (!der_expect(&key, DER_SEQUENCE, &numbers) || !der_expect(&numbers, DER_INTEGER, &modulus))
        return false;
    while (modulus.len > 0 && modulus.ptr[0] == 0)
        modulus = slice_of(modulus.ptr + 1, modulus.len - 1);
    if (modulus.len == 0)
        return false;
    *bits = (unsigned)modulus.len * 8;
    for (uint8_t top = (uint8_t)modulus.ptr[0]; (top & 0x80) == 0; top = (uint8_t)(top << 1))
        (*bits)--;
    return true;
}

static bool
facts_key(struct cert_facts *f, struct slice spki)
{
    struct slice algorithm, oid, curve, key;

    f->kind = CERT_KINDS;
    if (!der_expect(&spki, DER_SEQUENCE, &algorithm) || !der_expect(&algorithm, DER_OID, &oid) ||
        !der_expect(&spki, DER_BIT_STRING, &key))
        return false;
    if (slice_eq(oid, SLICE_LIT(OID_RSA))) {
        f->kind = CERT_RSA;
        return rsa_bits(key, &f->key_bits);
    }
    if (slice_eq(oid, SLICE_LIT(OID_EC))) {
        f->kind = CERT_ECDSA;
        if (der_expect(&algorithm, DER_OID, &curve)) /* else the curve is written out */
            f->key_bits = curve_bits(curve);
    }
    return true;
}

static bool
facts_extension(struct cert_facts *f, struct slice extension)
{
    struct slice oid, critical, value, names;

    if (!der_expect(&extension, DER_OID, &oid))
        return false;
    /* DEFAULT FALSE, so it is left out where it is not critical. */
    (void)der_optional(&extension, DER_BOOLEAN, &critical);
    if (!der_expect(&extension, DER_OCTET_STRING, &value))
        return false;
    if (slice_eq(oid, SLICE_LIT(OID_SAN))) {
        if (!der_expect(&value, DER_SEQUENCE, &names))
            return false;
        f->san = names;
    }
    /* id-pe-acmeIdentifier (RFC 8737 3): such a certificate is a proof, and must never be served as one. */
    f->is_acme = f->is_acme || slice_eq(oid, SLICE_LIT(OID_ACME));
    return true;
}

static bool
facts_extensions(struct cert_facts *f, struct slice list)
{
    struct slice extensions, extension;

    if (!der_expect(&list, DER_SEQUENCE, &extensions))
        return false;
    while (extensions.len > 0) {
        if (!der_expect(&extensions, DER_SEQUENCE, &extension) || !facts_extension(f, extension))
            return false;
    }
    return true;
}

static bool
facts_validity(struct cert_facts *f, struct slice *tbs)
{
    struct slice validity;

    return der_expect(tbs, DER_SEQUENCE, &validity) && der_time(&validity, &f->not_before_s) &&
           der_time(&validity, &f->not_after_s);
}

static bool
facts_tbs(struct cert_facts *f, struct slice tbs)
{
    struct slice skip, spki, extensions;
    unsigned tag;

    (void)der_optional(&tbs, DER_VERSION, &skip);
    if (!der_expect(&tbs, DER_INTEGER, &skip) || !der_expect(&tbs, DER_SEQUENCE, &skip))
        return false; /* serial number, signature algorithm */
    if (!der_take(&tbs, &tag, &skip, &f->issuer) || tag != DER_SEQUENCE ||
        !facts_validity(f, &tbs) || !der_take(&tbs, &tag, &skip, &f->subject) ||
        tag != DER_SEQUENCE)
        return false;
    if (!der_expect(&tbs, DER_SEQUENCE, &spki) || !facts_key(f, spki))
        return false;
    while (tbs.len > 0) { /* unique identifiers, which nothing uses; extensions */
        if (!der_take(&tbs, &tag, &extensions, NULL))
            return false;
        if (tag == DER_EXTENSIONS && !facts_extensions(f, extensions))
            return false;
    }
    return true;
}

int
cert_facts_read(struct cert_facts *out, struct slice der, const char **why)
{
    struct slice certificate, tbs, algorithm, signature;

    /* Nothing may follow it: what OpenSSL does not read would be in the file for something else. */
    *out = (struct cert_facts){.kind = CERT_KINDS};
    if (!der_expect(&der, DER_SEQUENCE, &certificate) || der.len != 0 ||
        !der_expect(&certificate, DER_SEQUENCE, &tbs) ||
        !der_expect(&certificate, DER_SEQUENCE, &algorithm) ||
        !der_expect(&certificate, DER_BIT_STRING, &signature) || !facts_tbs(out, tbs)) {
        *why = "the block is not a certificate of X.509, or is damaged";
        return TERR_SYNTAX;
    }
    out->signed_by = facts_digest(algorithm);
    out->cn = name_value(out->subject, SLICE_LIT(OID_COMMON_NAME));
    return 0;
}

/* What the library would take and clients do not: said when it is loaded, and not by a visitor. */
const char *
cert_facts_misfit(const struct cert_facts *f)
{
    if (f->kind == CERT_KINDS)
        return "the key is neither ECDSA nor RSA, which browsers need: make one with "
               "`openssl ecparam -name prime256v1 -genkey -noout`";
    if (f->kind == CERT_ECDSA && f->key_bits == 0)
        return "the key is on a curve that TLS clients do not know: use P-256 (prime256v1)";
    if (f->kind == CERT_RSA && f->key_bits < CERT_RSA_BITS_MIN)
        return "the RSA key is shorter than 2048 bits, which clients refuse: use ECDSA P-256, or "
               "RSA 2048";
    if (f->signed_by == CERT_DIGEST_MD5)
        return "it is signed with MD5, which clients refuse: have it issued anew with SHA-256";
    if (f->signed_by == CERT_DIGEST_SHA1)
        return "it is signed with SHA-1, which clients refuse: have it issued anew with SHA-256";
    return NULL;
}

/* ---- names ---- */

/* Letters, digits, hyphens, underscores (they occur), and dots between labels of 1 to 63 bytes; a first
 * label may be `*`, whole (RFC 9525 6.3). */
size_t
cert_name_fold(struct slice in, char out[CERT_NAME_MAX])
{
    size_t label = 0;

    /* As a root of DNS, which some clients send and RFC 6066 3 forbids. */
    if (in.len > 0 && in.ptr[in.len - 1] == '.')
        in.len--;
    if (in.len == 0 || in.len >= CERT_NAME_MAX)
        return 0;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];
        bool star = c == '*' && i == 0 && in.len > 2 && in.ptr[1] == '.';

        if (c == '.' && label == 0)
            return 0;
        label = c == '.' ? 0 : label + 1;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (label > 63 || !(star || c == '.' || c == '-' || c == '_' || (c >= 'a' && c <= 'z') ||
                              (c >= '0' && c <= '9')))
            return 0;
        out[i] = c;
    }
    out[in.len] = '\0';
    return in.len;
}

/* A client that connects to an address sends no name (RFC 6066 3): it is kept for the operator to see. */
static size_t
name_address(struct slice in, char out[CERT_NAME_MAX])
{
    if (in.len != 4 && in.len != 16)
        return 0;
    if (inet_ntop(in.len == 4 ? AF_INET : AF_INET6, in.ptr, out, CERT_NAME_MAX) == NULL)
        return 0;
    return strlen(out);
}

struct name_list {
    char *out;
    size_t len, room;
    unsigned nnames, nbad;
};

static void
names_add(struct name_list *l, const char *name, size_t len)
{
    /* Left out and counted, for the operator hears of it: the others still serve. */
    if (len == 0 || l->nnames == CERT_NAMES_MAX || l->room - l->len < len + 1) {
        l->nbad++;
        return;
    }
    l->out[l->len] = (char)(uint8_t)len;
    memcpy(l->out + l->len + 1, name, len);
    l->len += len + 1;
    l->nnames++;
}

size_t
cert_facts_names(
    const struct cert_facts *f, char *out, size_t room, unsigned *nnames, unsigned *nbad)
{
    struct name_list l = {.out = out, .room = room};
    struct slice rest = f->san, value;
    char name[CERT_NAME_MAX];
    unsigned tag;

    _Static_assert(CERT_NAME_MAX - 1 <= UINT8_MAX, "a byte has its length");
    while (der_take(&rest, &tag, &value, NULL)) {
        if (tag == DER_DNS_NAME)
            names_add(&l, name, cert_name_fold(value, name));
        else if (tag == DER_IP_ADDRESS)
            names_add(&l, name, name_address(value, name));
    }
    l.nbad += rest.len > 0; /* what is no GeneralName ends the list */
    /* Only where there is no alternative name at all: with one the common name counts for nothing (RFC 9525 2). */
    if (l.nnames == 0 && l.nbad == 0 && f->cn.len > 0)
        names_add(&l, name, cert_name_fold(f->cn, name));
    *nnames = l.nnames;
    *nbad = l.nbad;
    return l.len;
}

void
cert_name_show(struct slice name, char out[CERT_ISSUER_MAX])
{
    struct slice text = name_value(name, SLICE_LIT(OID_COMMON_NAME));
    size_t len;

    if (text.len == 0)
        text = name_value(name, SLICE_LIT(OID_ORGANISATION));
    len = text.len < CERT_ISSUER_MAX - 1 ? text.len : CERT_ISSUER_MAX - 1;
    /* It goes to a terminal and into JSON: an issuer's name may have any bytes. */
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(text.ptr[i] >= ' ' && text.ptr[i] <= '~' ? text.ptr[i] : '?');
    out[len] = '\0';
}
