/* cert_index_test.c -- names, dates and keys of certificates that OpenSSL made, whole, cut and damaged; and
 * the blocks of PEM files. */
#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/tls/cert_index.h"
#include "daemon/tls/cert_pem.h"
#include "t/unit/cert_make.h"

static EVP_PKEY *p256;

static int
keys_make(void **state)
{
    (void)state;
    p256 = make_ec("P-256");
    return 0;
}

static int
keys_free(void **state)
{
    (void)state;
    EVP_PKEY_free(p256);
    return 0;
}

struct read {
    int rc;
    const char *why;
    struct cert_facts facts;
    char names[65536], text[65536]; /* packed; and each with a blank behind it */
    unsigned nnames, nbad;
    size_t len;
};

/* Of bytes in memory of exactly their size: the sanitizer sees one too far. */
static void
read_der(struct read *r, const char *bytes, size_t len)
{
    char *exact = malloc(len + (len == 0));
    struct slice names;
    size_t at = 0;

    CHECK(exact != NULL);
    memcpy(exact, bytes, len);
    r->rc = cert_facts_read(&r->facts, slice_of(exact, len), &r->why);
    r->text[0] = '\0';
    r->nnames = r->nbad = 0;
    if (r->rc == 0) {
        r->len = cert_facts_names(&r->facts, r->names, sizeof(r->names), &r->nnames, &r->nbad);
        names = slice_of(r->names, r->len);
        while (names.len > 0) {
            size_t n = (uint8_t)names.ptr[0];

            at += (size_t)snprintf(
                r->text + at, sizeof(r->text) - at, "%.*s ", (int)n, names.ptr + 1);
            names = slice_of(names.ptr + 1 + n, names.len - 1 - n);
        }
    }
    free(exact);
}

static void
read_wish(struct read *r, const struct cert_wish *wish)
{
    X509 *cert = make_cert(wish);
    struct span der = make_der(cert);

    read_der(r, der.ptr, der.len);
    free(der.ptr);
    X509_free(cert);
}

static struct read r;

/* AWS-LC signs by MD5 no more: the name of SHA-256's algorithm becomes that of MD5's (RFC 8017 A.2.4). */
static void
read_md5(EVP_PKEY *rsa)
{
    static const char oid[] = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b";
    X509 *cert = make_cert(&(struct cert_wish){.cn = "a.example", .key = rsa});
    struct span der = make_der(cert);
    char *at;
    unsigned n = 0;

    while ((at = memmem(der.ptr, der.len, oid, sizeof(oid) - 1)) != NULL) {
        at[sizeof(oid) - 2] = 4;
        n++;
    }
    CHECK_EQ(2, n);
    read_der(&r, der.ptr, der.len);
    free(der.ptr);
    X509_free(cert);
}

TEST(cert_index, names_are_those_of_the_alternative_names)
{
    read_wish(
        &r, &(struct cert_wish){.cn = "not.this.example",
                .san = "DNS:Shop.Example,email:a@b.example,DNS:*.shop.example,IP:192.0.2.7,IP:"
                       "2001:db8::7,DNS:xn--bcher-kva.example,DNS:under_score.example",
                .key = p256});
    CHECK_EQ(0, r.rc);
    CHECK_STR("shop.example *.shop.example 192.0.2.7 2001:db8::7 xn--bcher-kva.example "
              "under_score.example ",
        r.text);
    CHECK_EQ(6, r.nnames);
    CHECK_EQ(0, r.nbad);
    CHECK_EQ(CERT_ECDSA, r.facts.kind);
    CHECK_EQ(256, r.facts.key_bits);
    CHECK(!r.facts.is_acme);
    CHECK(cert_facts_misfit(&r.facts) == NULL);
}

TEST(cert_index, the_common_name_counts_when_there_is_nothing_else)
{
    read_wish(&r, &(struct cert_wish){.cn = "Old.Example", .key = p256});
    CHECK_STR("old.example ", r.text);
    read_wish(
        &r, &(struct cert_wish){.cn = "Old.Example", .san = "email:a@b.example", .key = p256});
    CHECK_STR("old.example ", r.text);
    read_wish(&r, &(struct cert_wish){.cn = "An authority of ours", .key = p256});
    CHECK_EQ(0, r.rc);
    CHECK_STR("", r.text);
    read_wish(&r, &(struct cert_wish){.cn = NULL, .key = p256});
    CHECK_EQ(0, r.rc);
    CHECK_STR("", r.text);
}

TEST(cert_index, a_name_with_a_nul_or_utf_8_or_a_wildcard_inside_is_left_out)
{
    static const struct slice names[] = {SLICE_LIT("good.example\0.evil.example"),
        SLICE_LIT("b\xc3\xbc"
                  "cher.example"),
        SLICE_LIT("a*.example"), SLICE_LIT("*"), SLICE_LIT("a.*.example"), SLICE_LIT(".example"),
        SLICE_LIT("a..example"), SLICE_LIT("a b.example"), SLICE_LIT("a/b.example"),
        SLICE_LIT("ok.example."), {"", 0}};
    char longest[300];
    struct slice lengths[4];

    read_wish(&r, &(struct cert_wish){.cn = "cn.example", .names = names, .key = p256});
    CHECK_EQ(0, r.rc);
    CHECK_STR("ok.example ", r.text);
    CHECK_EQ(9, r.nbad);
    memset(longest, 'a', sizeof(longest));
    for (size_t i = 63; i < sizeof(longest); i += 64)
        longest[i] = '.';
    lengths[0] = slice_of(longest, 253); /* the most that there is */
    lengths[1] = slice_of(longest, 254);
    lengths[2] = slice_of(longest + 1, 64); /* 62, a dot, 1 */
    lengths[3] = slice_of("", 0);
    read_wish(&r, &(struct cert_wish){.names = lengths, .key = p256});
    CHECK_EQ(2, r.nnames);
    CHECK_EQ(1, r.nbad);
    longest[63] = 'a'; /* a label of 64 and more */
    lengths[0] = slice_of(longest, 70);
    lengths[1] = slice_of("", 0);
    read_wish(&r, &(struct cert_wish){.cn = "cn.example", .names = lengths, .key = p256});
    CHECK_EQ(1, r.nbad);
    CHECK_STR("", r.text); /* it has alternative names, so the common name stays out */
}

TEST(cert_index, two_hundred_names_are_all_read_and_more_than_fit_are_counted)
{
    char san[8192], want[8192], small[64];
    size_t at = 0, out = 0;
    unsigned nnames, nbad;

    for (unsigned i = 0; i < 200; i++) {
        at +=
            (size_t)snprintf(san + at, sizeof(san) - at, "%sDNS:n%u.example", i > 0 ? "," : "", i);
        out += (size_t)snprintf(want + out, sizeof(want) - out, "n%u.example ", i);
    }
    read_wish(&r, &(struct cert_wish){.san = san, .key = p256});
    CHECK_EQ(200, r.nnames);
    CHECK_STR(want, r.text);
    {
        X509 *cert = make_cert(&(struct cert_wish){.san = san, .key = p256});
        struct span der = make_der(cert);
        struct cert_facts facts;
        const char *why;

        CHECK_EQ(0, cert_facts_read(&facts, slice_of(der.ptr, der.len), &why));
        CHECK(cert_facts_names(&facts, small, sizeof(small), &nnames, &nbad) <= sizeof(small));
        CHECK_EQ(200, nnames + nbad);
        CHECK_EQ(5, nnames);
        free(der.ptr);
        X509_free(cert);
    }
}

TEST(cert_index, dates_are_those_that_openssl_reads)
{
    static const int64_t times[] = {0, 951782400 /* 2000-02-29 */, 1709164799, 1709164800,
        2524607999 /* the last in two digits */, 2524608000, 4107542399, 253402300799 /* 9999 */,
        -1, -631152000 /* 1950 */};

    for (size_t i = 0; i + 1 < sizeof(times) / sizeof(times[0]); i++) {
        read_wish(&r, &(struct cert_wish){.cn = "a.example",
                          .key = p256,
                          .from_s = times[i],
                          .until_s = times[i + 1] == 0 ? 1 : times[i + 1]});
        CHECK_EQ(0, r.rc);
        CHECK_EQ(times[i], r.facts.not_before_s);
        CHECK_EQ(times[i + 1], r.facts.not_after_s);
    }
}

TEST(cert_index, keys_and_signatures_that_no_client_takes_are_named)
{
    EVP_PKEY *rsa = make_rsa(2048), *short_rsa = make_rsa(1024), *p384 = make_ec("P-384"),
             *k1 = make_ec("secp256k1"), *ed = make_ed25519();
    X509 *cert;
    struct span der;

    read_wish(&r, &(struct cert_wish){.cn = "a.example", .key = rsa});
    CHECK_EQ(CERT_RSA, r.facts.kind);
    CHECK_EQ(2048, r.facts.key_bits);
    CHECK(cert_facts_misfit(&r.facts) == NULL);
    read_wish(&r, &(struct cert_wish){.cn = "a.example", .key = short_rsa});
    CHECK_EQ(1024, r.facts.key_bits);
    CHECK(strstr(cert_facts_misfit(&r.facts), "2048") != NULL);
    read_wish(&r, &(struct cert_wish){.cn = "a.example", .key = p384});
    CHECK_EQ(384, r.facts.key_bits);
    CHECK(cert_facts_misfit(&r.facts) == NULL);
    read_wish(&r, &(struct cert_wish){.cn = "a.example", .key = k1});
    CHECK_EQ(CERT_ECDSA, r.facts.kind);
    CHECK(strstr(cert_facts_misfit(&r.facts), "P-256") != NULL);
    read_wish(&r, &(struct cert_wish){.cn = "a.example", .key = p256, .digest = EVP_sha1()});
    CHECK(strstr(cert_facts_misfit(&r.facts), "SHA-1") != NULL);
    read_wish(&r, &(struct cert_wish){.cn = "a.example", .key = rsa, .digest = EVP_sha1()});
    CHECK(strstr(cert_facts_misfit(&r.facts), "SHA-1") != NULL);
    read_md5(rsa);
    CHECK(strstr(cert_facts_misfit(&r.facts), "MD5") != NULL);
    /* An Ed25519 key, signed by another: make_cert() signs with a digest. */
    cert = make_cert(&(struct cert_wish){.cn = "a.example", .key = ed, .issuer_key = p256});
    der = make_der(cert);
    read_der(&r, der.ptr, der.len);
    CHECK_EQ(0, r.rc);
    CHECK_EQ(CERT_KINDS, r.facts.kind);
    CHECK(strstr(cert_facts_misfit(&r.facts), "ECDSA") != NULL);
    free(der.ptr);
    X509_free(cert);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(short_rsa);
    EVP_PKEY_free(p384);
    EVP_PKEY_free(k1);
    EVP_PKEY_free(ed);
}

TEST(cert_index, an_acme_challenge_and_an_issuer_are_seen)
{
    char shown[CERT_ISSUER_MAX];
    X509 *cert = make_cert(&(struct cert_wish){.san = "DNS:a.example",
        .key = p256,
        .is_acme = 1,
        .issuer_cn_only = "R\xc3\xbc"
                          "be 3"});
    struct span der = make_der(cert);
    struct cert_facts f;
    const char *why;

    CHECK_EQ(0, cert_facts_read(&f, slice_of(der.ptr, der.len), &why));
    CHECK(f.is_acme);
    cert_name_show(f.issuer, shown);
    CHECK_STR("R??be 3", shown);
    cert_name_show(f.subject, shown);
    CHECK_STR("", shown);
    free(der.ptr);
    X509_free(cert);
}

/* Each beginning is none; neither is one with a byte more.  Nothing is read behind its end. */
TEST(cert_index, a_certificate_that_is_cut_anywhere_is_none)
{
    X509 *cert = make_cert(
        &(struct cert_wish){.cn = "a.example", .san = "DNS:a.example,IP:192.0.2.1", .key = p256});
    struct span der = make_der(cert);
    char *more = malloc(der.len + 1);

    for (size_t len = 0; len < der.len; len++) {
        read_der(&r, der.ptr, len);
        CHECK_EQ(TERR_SYNTAX, r.rc);
    }
    CHECK(more != NULL);
    memcpy(more, der.ptr, der.len);
    more[der.len] = 0;
    read_der(&r, more, der.len + 1);
    CHECK_EQ(TERR_SYNTAX, r.rc);
    free(more);
    free(der.ptr);
    X509_free(cert);
}

/* Lengths that are negative to somebody who counts in int, without end, or longer than all; tags; anything. */
TEST(cert_index, a_byte_that_is_anything_else_reads_nothing_behind_the_end)
{
    static const char *const lengths[] = {"\x84\xff\xff\xff\xff", "\x83\xff\xff\xff", "\x80",
        "\xff", "\x84\x80\x00\x00\x00", "\x88\xff\xff\xff\xff\xff\xff\xff\xff"};
    X509 *cert = make_cert(
        &(struct cert_wish){.cn = "a.example", .san = "DNS:a.example,IP:192.0.2.1", .key = p256});
    struct span der = make_der(cert);
    unsigned whole = 0;

    for (size_t at = 0; at < der.len; at++) {
        char was = der.ptr[at], saved[16];

        for (unsigned v = 0; v < 256; v++) {
            der.ptr[at] = (char)v;
            read_der(&r, der.ptr, der.len);
            whole += r.rc == 0;
        }
        der.ptr[at] = was;
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            size_t n = i == 2 ? 1 : i == 4 ? 5 : strlen(lengths[i]);

            n = n < der.len - at ? n : der.len - at;
            memcpy(saved, der.ptr + at, n);
            memcpy(der.ptr + at, lengths[i], n);
            read_der(&r, der.ptr, der.len);
            memcpy(der.ptr + at, saved, n);
        }
    }
    CHECK(whole > 256 * 64); /* those within the signature at least */
    read_der(&r, der.ptr, der.len);
    CHECK_STR("a.example 192.0.2.1 ", r.text);
    free(der.ptr);
    X509_free(cert);
}

/* ---- PEM ---- */

static int
pem_first(const char *text, struct pem_block *block, struct pem_fault *fault)
{
    struct pem_scan scan;

    pem_scan_init(&scan, slice_str(text));
    return pem_next(&scan, block, fault);
}

TEST(cert_pem, blocks_have_their_line_and_text_around_them_is_skipped)
{
    static const char text[] =
        "Bag Attributes\n    localKeyID: 01\r\n-----BEGIN CERTIFICATE-----\r\n"
        "AAEC\r\nAwQ=\r\n-----END CERTIFICATE-----\r\n\n# a key\n"
        "-----BEGIN EC PRIVATE KEY-----\n/+8=\n-----END EC PRIVATE KEY-----";
    struct pem_scan scan;
    struct pem_block b;
    struct pem_fault fault;
    uint8_t out[64];

    pem_scan_init(&scan, slice_str(text));
    CHECK_EQ(1, pem_next(&scan, &b, &fault));
    CHECK(pem_is_certificate(&b) && !pem_is_key(&b) && !b.is_encrypted);
    CHECK_EQ(3, b.line);
    CHECK_EQ(5, pem_decode(&b, out, &fault));
    CHECK_MEM("\0\1\2\3\4", out, 5);
    CHECK_EQ(1, pem_next(&scan, &b, &fault));
    CHECK(pem_is_key(&b) && !pem_is_certificate(&b));
    CHECK_EQ(9, b.line);
    CHECK_EQ(2, pem_decode(&b, out, &fault));
    CHECK_MEM("\xff\xef", out, 2);
    CHECK_EQ(0, pem_next(&scan, &b, &fault));
}

TEST(cert_pem, a_block_that_is_not_whole_is_named_with_its_line)
{
    struct pem_block b;
    struct pem_fault fault;
    uint8_t out[64];

    CHECK_EQ(0, pem_first("", &b, &fault));
    CHECK_EQ(0, pem_first("-----BEGIN CERTIFICATE----", &b, &fault));
    CHECK_EQ(TERR_SYNTAX, pem_first("\n-----BEGIN CERTIFICATE-----\nAAEC\n", &b, &fault));
    CHECK_EQ(2, fault.line);
    CHECK(strstr(fault.why, "END") != NULL);
    CHECK_EQ(TERR_SYNTAX,
        pem_first("-----BEGIN CERTIFICATE-----\nAA\n-----BEGIN CERTIFICATE-----\n", &b, &fault));
    CHECK_EQ(TERR_SYNTAX,
        pem_first("-----BEGIN CERTIFICATE-----\nAAEC\n-----END PRIVATE KEY-----\n", &b, &fault));
    CHECK_EQ(3, fault.line);
    CHECK_EQ(
        1, pem_first("-----BEGIN CERTIFICATE-----\nAAE\n-----END CERTIFICATE-----", &b, &fault));
    CHECK_EQ(TERR_SYNTAX, pem_decode(&b, out, &fault));
    CHECK_EQ(1, fault.line);
    CHECK_EQ(1, pem_first("-----BEGIN CERTIFICATE-----\nAAEC\nA!EC\n-----END CERTIFICATE-----", &b,
                    &fault));
    CHECK_EQ(TERR_SYNTAX, pem_decode(&b, out, &fault));
    CHECK_EQ(3, fault.line);
    CHECK_EQ(
        1, pem_first("-----BEGIN CERTIFICATE-----\nAA=C\n-----END CERTIFICATE-----", &b, &fault));
    CHECK_EQ(TERR_SYNTAX, pem_decode(&b, out, &fault));
    CHECK_EQ(1, pem_first("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", &b, &fault));
    CHECK_EQ(TERR_SYNTAX, pem_decode(&b, out, &fault));
}

TEST(cert_pem, a_key_with_a_password_is_seen_in_both_forms)
{
    struct pem_block b;
    struct pem_fault fault;
    uint8_t out[64];

    CHECK_EQ(1, pem_first("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAEC\n"
                          "-----END ENCRYPTED PRIVATE KEY-----",
                    &b, &fault));
    CHECK(b.is_encrypted && pem_is_key(&b));
    CHECK_EQ(
        1, pem_first("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: X,00\n"
                     "\nAAEC\n-----END RSA PRIVATE KEY-----",
               &b, &fault));
    CHECK(b.is_encrypted && pem_is_key(&b));
    CHECK_EQ(5, b.body_line);
    CHECK_EQ(3, pem_decode(&b, out, &fault));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(cert_index, names_are_those_of_the_alternative_names),
        TEST_ENTRY(cert_index, the_common_name_counts_when_there_is_nothing_else),
        TEST_ENTRY(cert_index, a_name_with_a_nul_or_utf_8_or_a_wildcard_inside_is_left_out),
        TEST_ENTRY(cert_index, two_hundred_names_are_all_read_and_more_than_fit_are_counted),
        TEST_ENTRY(cert_index, dates_are_those_that_openssl_reads),
        TEST_ENTRY(cert_index, keys_and_signatures_that_no_client_takes_are_named),
        TEST_ENTRY(cert_index, an_acme_challenge_and_an_issuer_are_seen),
        TEST_ENTRY(cert_index, a_certificate_that_is_cut_anywhere_is_none),
        TEST_ENTRY(cert_index, a_byte_that_is_anything_else_reads_nothing_behind_the_end),
        TEST_ENTRY(cert_pem, blocks_have_their_line_and_text_around_them_is_skipped),
        TEST_ENTRY(cert_pem, a_block_that_is_not_whole_is_named_with_its_line),
        TEST_ENTRY(cert_pem, a_key_with_a_password_is_seen_in_both_forms),
    };

    return cmocka_run_group_tests(tests, keys_make, keys_free);
}
