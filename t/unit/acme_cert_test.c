/* acme_cert_test.c -- requests, chains that are judged, certIDs, problem documents. */
#include "t/unit/test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/acme/acme_cert.h"
#include "daemon/acme/acme_problem.h"
#include "daemon/base/terr.h"

#define DAY INT64_C(86400)

/* RFC 9773, appendix A. */
static const char rfc_cert[] = "-----BEGIN CERTIFICATE-----\n"
                               "MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt\n"
                               "cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS\n"
                               "BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu\n"
                               "7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf\n"
                               "qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B\n"
                               "yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb\n"
                               "+FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK\n"
                               "-----END CERTIFICATE-----\n";

static const char *two_names[] = {"www.example.com", "example.com"};
static const struct acme_wanted two = {two_names, 2};

/* What a CA of the test signs. */
struct made {
    EVP_PKEY *key, *ca_key;
    struct acme_chain chain;
};

static void
put_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;

    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    CHECK(ext != NULL);
    X509_add_ext(x, ext, -1);
    X509_EXTENSION_free(ext);
}

static X509 *
make_cert(const char *subject, EVP_PKEY *key, const char *issuer, EVP_PKEY *issuer_key,
    const char *names, int64_t from_s, int64_t to_s)
{
    X509 *x = X509_new();
    X509_NAME *name = X509_get_subject_name(x);

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 0x1234567);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject, -1, -1, 0);
    name = X509_get_issuer_name(x);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)issuer, -1, -1, 0);
    X509_gmtime_adj(X509_getm_notBefore(x), (long)from_s);
    X509_gmtime_adj(X509_getm_notAfter(x), (long)to_s);
    X509_set_pubkey(x, key);
    if (names != NULL)
        put_extension(x, NID_subject_alt_name, names);
    else
        put_extension(x, NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(x, issuer_key, EVP_sha256());
    return x;
}

/* A leaf with these names, good from `from_s` to `to_s` from now, and the CA that signed it. */
static struct made
make(const char *names, int64_t from_s, int64_t to_s)
{
    struct acme_fail fail;
    struct made m;

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_key_new(ACME_ECDSA, &m.key, &fail));
    CHECK_EQ(0, acme_key_new(ACME_ECDSA, &m.ca_key, &fail));
    m.chain.certs[0] = make_cert("leaf", m.key, "ca", m.ca_key, names, from_s, to_s);
    m.chain.certs[1] = make_cert("ca", m.ca_key, "ca", m.ca_key, NULL, -DAY, 365 * DAY);
    m.chain.n = 2;
    return m;
}

static void
unmake(struct made *m)
{
    EVP_PKEY_free(m->key);
    EVP_PKEY_free(m->ca_key);
    acme_chain_fini(&m->chain);
}

/* Have both the same public half? */
static bool
same_key(EVP_PKEY *a, EVP_PKEY *b)
{
    unsigned char *one = NULL, *other = NULL;
    int n = i2d_PUBKEY(a, &one), m = i2d_PUBKEY(b, &other);
    bool same = n > 0 && n == m && memcmp(one, other, (size_t)n) == 0;

    OPENSSL_free(one);
    OPENSSL_free(other);
    return same;
}

/* "" or the reason. */
static const char *
judged(const struct made *m, EVP_PKEY *key, const struct acme_wanted *w)
{
    static struct acme_fail fail;

    acme_fail_init(&fail);
    acme_chain_judge(&m->chain, key, w, (int64_t)time(NULL), &fail);
    return fail.text;
}

static bool
says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        print_error("\"%s\" does not say \"%s\"\n", text, part);
    return strstr(text, part) != NULL;
}

TEST(ari, the_certid_of_rfc_9773)
{
    struct acme_fail fail;
    struct acme_chain chain;
    struct acme_leaf leaf;

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_chain_read(slice_str(rfc_cert), false, &chain, &fail));
    CHECK_EQ(0, acme_leaf_read(&chain, &leaf, &fail));
    CHECK_STR("aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE", leaf.certid);
    acme_chain_fini(&chain);
}

TEST(ari, a_certificate_without_an_authority_key_identifier_has_no_certid)
{
    struct made m = make("DNS:example.com", -DAY, 90 * DAY);
    struct acme_leaf leaf;
    struct acme_fail fail;

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_leaf_read(&m.chain, &leaf, &fail));
    CHECK_STR("", leaf.certid);
    CHECK_EQ(91 * DAY, leaf.not_after_s - leaf.not_before_s);
    unmake(&m);
}

TEST(chain, one_for_our_key_and_names_is_good)
{
    struct made m = make("DNS:example.com,DNS:WWW.example.com", -DAY, 90 * DAY);

    CHECK_STR("", judged(&m, m.key, &two));
    unmake(&m);
}

TEST(chain, another_key_is_refused)
{
    struct made m = make("DNS:example.com,DNS:www.example.com", -DAY, 90 * DAY);

    CHECK(says(judged(&m, m.ca_key, &two), "for another key"));
    unmake(&m);
}

TEST(chain, too_few_too_many_and_wildcard_names_are_refused)
{
    static const struct {
        const char *names, *says;
    } rows[] = {{"DNS:example.com", "lacks the name www.example.com"},
        {"DNS:example.com,DNS:www.example.com,DNS:evil.test", "it has the name evil.test"},
        {"DNS:example.com,DNS:*.example.com", "lacks the name www.example.com"},
        {"DNS:example.com,DNS:www.example.com,IP:192.0.2.1", "a name that is no DNS name"},
        {"DNS:example.com,DNS:www.example.com,DNS:\x1b[2Jx", "it has the name ?[2Jx"},
        {"email:a@example.com", "lacks the name"}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct made m = make(rows[i].names, -DAY, 90 * DAY);

        CHECK(says(judged(&m, m.key, &two), rows[i].says));
        unmake(&m);
    }
}

TEST(chain, one_that_is_over_or_has_not_begun_is_refused)
{
    struct made over = make("DNS:example.com,DNS:www.example.com", -90 * DAY, -60);
    struct made later = make("DNS:example.com,DNS:www.example.com", 2 * DAY, 90 * DAY);
    struct made soon = make("DNS:example.com,DNS:www.example.com", 600, 90 * DAY);

    CHECK(says(judged(&over, over.key, &two), "clock right?"));
    CHECK(says(judged(&later, later.key, &two), "clock right?"));
    CHECK_STR("", judged(&soon, soon.key, &two)); /* the CA's clock is ahead */
    unmake(&over);
    unmake(&later);
    unmake(&soon);
}

TEST(chain, one_whose_links_do_not_hold_is_refused)
{
    struct made m = make("DNS:example.com,DNS:www.example.com", -DAY, 90 * DAY);
    struct made other = make("DNS:example.com", -DAY, 90 * DAY);
    X509 *ca = m.chain.certs[1];

    m.chain.certs[1] = other.chain.certs[1]; /* the same name, and another key */
    CHECK(says(judged(&m, m.key, &two), "certificate 1 of the chain is not issued by the next"));
    m.chain.certs[1] = ca;
    unmake(&m);
    unmake(&other);
}

TEST(chain, what_is_no_chain_is_refused_with_its_place)
{
    static const struct {
        const char *pem, *says;
    } rows[] = {{"", "no certificate"}, {"hello", "no certificate"},
        {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "certificate 1 of the chain is malformed"},
        {"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", "malformed PEM"},
        {"-----BEGIN CERTIFICATE-----\nAAAA\n", "malformed PEM"},
        {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is no certificate"}};
    struct acme_chain chain;
    struct acme_fail fail;
    char *many = calloc(12, sizeof(rfc_cert));

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        acme_fail_init(&fail);
        CHECK(acme_chain_read(slice_str(rows[i].pem), false, &chain, &fail) < 0);
        CHECK(says(fail.text, rows[i].says));
    }
    for (unsigned i = 0; i < 11; i++)
        strcat(many, rfc_cert);
    acme_fail_init(&fail);
    CHECK_EQ(TERR_LIMIT, acme_chain_read(slice_str(many), false, &chain, &fail));
    CHECK(says(fail.text, "more than 10 certificates"));
    free(many);
}

TEST(chain, a_file_has_the_chain_then_the_key_and_is_read_again)
{
    struct made m = make("DNS:example.com", -DAY, 90 * DAY);
    struct acme_chain back;
    struct acme_fail fail;
    struct span pem;
    EVP_PKEY *key;

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_pem_join(&m.chain, m.key, &pem));
    CHECK(memcmp(pem.ptr, "-----BEGIN CERTIFICATE-----\n", 28) == 0);
    CHECK_EQ(0, acme_chain_read(slice_of(pem.ptr, pem.len), true, &back, &fail));
    CHECK_EQ(2, back.n);
    CHECK_EQ(0, X509_cmp(back.certs[0], m.chain.certs[0]));
    key = acme_key_read(slice_of(pem.ptr, pem.len));
    CHECK(key != NULL && same_key(key, m.key));
    EVP_PKEY_free(key);
    acme_chain_fini(&back);
    acme_key_forget(&pem);
    unmake(&m);
}

TEST(csr, has_every_name_and_is_signed_by_the_key)
{
    struct acme_fail fail;
    struct span der;
    const unsigned char *at;
    EVP_PKEY *key;
    X509_REQ *req;
    STACK_OF(X509_EXTENSION) * list;
    GENERAL_NAMES *names;

    for (int kind = ACME_ECDSA; kind <= ACME_RSA; kind++) {
        acme_fail_init(&fail);
        CHECK_EQ(0, acme_key_new((enum acme_key_kind)kind, &key, &fail));
        CHECK_EQ(0, acme_csr(key, &two, &der, &fail));
        at = (const unsigned char *)der.ptr;
        req = d2i_X509_REQ(NULL, &at, (long)der.len);
        CHECK(req != NULL && X509_REQ_verify(req, key) == 1);
        list = X509_REQ_get_extensions(req);
        names = X509V3_get_d2i(list, NID_subject_alt_name, NULL, NULL);
        CHECK_EQ(2, sk_GENERAL_NAME_num(names));
        CHECK_STR("www.example.com",
            (const char *)ASN1_STRING_get0_data(sk_GENERAL_NAME_value(names, 0)->d.dNSName));
        GENERAL_NAMES_free(names);
        sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
        X509_REQ_free(req);
        EVP_PKEY_free(key);
        free(der.ptr);
    }
}

TEST(tls_alpn, the_certificate_has_one_name_and_a_critical_hash)
{
    struct acme_fail fail;
    struct acme_chain chain;
    struct span pem;
    ASN1_OBJECT *oid = OBJ_txt2obj("1.3.6.1.5.5.7.1.31", 1);
    const char *one_name[] = {"example.com"}, *why;
    struct acme_wanted one = {one_name, 1};
    unsigned char hash[32];
    X509_EXTENSION *ext;
    EVP_PKEY *key;
    int at;

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_cert_of_challenge("example.com", "token.thumb", &pem, &fail));
    CHECK_EQ(0, acme_chain_read(slice_of(pem.ptr, pem.len), true, &chain, &fail));
    CHECK_EQ(1, chain.n);
    CHECK(acme_leaf_has_names(&chain, &one, &why));
    at = X509_get_ext_by_OBJ(chain.certs[0], oid, -1);
    CHECK(at >= 0);
    ext = X509_get_ext(chain.certs[0], at);
    CHECK_EQ(1, X509_EXTENSION_get_critical(ext));
    EVP_Digest("token.thumb", 11, hash, NULL, EVP_sha256(), NULL);
    CHECK_EQ(34, ASN1_STRING_length(X509_EXTENSION_get_data(ext)));
    CHECK_MEM("\x04\x20", ASN1_STRING_get0_data(X509_EXTENSION_get_data(ext)), 2);
    CHECK_MEM(hash, ASN1_STRING_get0_data(X509_EXTENSION_get_data(ext)) + 2, 32);
    key = acme_key_read(slice_of(pem.ptr, pem.len));
    CHECK(X509_check_private_key(chain.certs[0], key) == 1);
    CHECK(X509_verify(chain.certs[0], key) == 1);
    EVP_PKEY_free(key);
    ASN1_OBJECT_free(oid);
    acme_chain_fini(&chain);
    acme_key_forget(&pem);
}

/* ---- problem documents ---- */

static const char *
problem(const char *json)
{
    static struct acme_fail fail;
    struct acme_problem p;
    json_t *v = json_loads(json, 0, NULL);

    acme_fail_init(&fail);
    acme_problem_read(v, &p);
    CHECK_EQ(TERR_UPSTREAM, acme_problem_fail(&fail, &p, 403));
    json_decref(v);
    return fail.text;
}

TEST(problem, type_detail_and_what_would_be_right)
{
    CHECK_STR(
        "the CA answers HTTP 403, caa: CAA record forbids; a CAA record in DNS forbids this CA; "
        "allow it, or remove the record",
        problem("{\"type\":\"urn:ietf:params:acme:error:caa\",\"detail\":\"CAA record forbids\"}"));
    CHECK_STR("the CA answers HTTP 403, https://ca.test/odd: no detail",
        problem("{\"type\":\"https://ca.test/odd\"}"));
    CHECK_STR("the CA answers HTTP 403, no problem type: no detail", problem("{\"type\":7}"));
    CHECK_STR("the CA answers HTTP 403, no problem type: x",
        problem("{\"type\":\"about:blank\",\"detail\":\"x\"}"));
    CHECK_STR("the CA answers HTTP 403, no problem type: no detail", problem("[1]"));
    CHECK(acme_problem_advice("rateLimited") != NULL);
    CHECK(acme_problem_advice("") == NULL);
}

TEST(problem, subproblems_name_their_identifier)
{
    CHECK(says(problem("{\"type\":\"urn:ietf:params:acme:error:malformed\",\"detail\":\"some\","
                       "\"subproblems\":[{\"type\":\"x\",\"detail\":\"no\",\"identifier\":"
                       "{\"type\":\"dns\",\"value\":\"a.test\"}},{\"detail\":\"nor this\"}, 3]}"),
        "some [a.test: no] [-: nor this];"));
}

TEST(problem, a_strangers_text_is_bounded_and_printable)
{
    char json[3000], x[2001];

    CHECK(says(problem("{\"detail\":\"a\\u001b[2Jb\\nc\\u00e4\"}"), "a?[2Jb?c??"));
    memset(x, 'x', 2000);
    x[2000] = '\0';
    snprintf(json, sizeof(json), "{\"type\":\"%.900s\",\"detail\":\"%s\"}", x, x);
    CHECK(strlen(problem(json)) < 700);
}

TEST(fail, the_first_reason_stays_and_gets_its_step)
{
    struct acme_fail f;
    char *x = calloc(1, 2000);

    acme_fail_init(&f);
    CHECK_EQ(TERR_IO, acme_fail(&f, TERR_IO, "first"));
    CHECK_EQ(TERR_NOMEM, acme_fail(&f, TERR_NOMEM, "second"));
    acme_fail_in(&f, "finalize");
    CHECK_STR("finalize: first", f.text);
    memset(x, 'x', 1999);
    for (unsigned i = 0; i < 200; i++)
        acme_fail_in(&f, "a step with a long name");
    CHECK_EQ(ACME_TEXT_MAX - 1, strlen(f.text));
    acme_fail_in(&f, x); /* longer than all room */
    CHECK_EQ(ACME_TEXT_MAX - 1, strlen(f.text));
    free(x);
}

TEST_MAIN(TEST_ENTRY(ari, the_certid_of_rfc_9773),
    TEST_ENTRY(ari, a_certificate_without_an_authority_key_identifier_has_no_certid),
    TEST_ENTRY(chain, one_for_our_key_and_names_is_good), TEST_ENTRY(chain, another_key_is_refused),
    TEST_ENTRY(chain, too_few_too_many_and_wildcard_names_are_refused),
    TEST_ENTRY(chain, one_that_is_over_or_has_not_begun_is_refused),
    TEST_ENTRY(chain, one_whose_links_do_not_hold_is_refused),
    TEST_ENTRY(chain, what_is_no_chain_is_refused_with_its_place),
    TEST_ENTRY(chain, a_file_has_the_chain_then_the_key_and_is_read_again),
    TEST_ENTRY(csr, has_every_name_and_is_signed_by_the_key),
    TEST_ENTRY(tls_alpn, the_certificate_has_one_name_and_a_critical_hash),
    TEST_ENTRY(problem, type_detail_and_what_would_be_right),
    TEST_ENTRY(problem, subproblems_name_their_identifier),
    TEST_ENTRY(problem, a_strangers_text_is_bounded_and_printable),
    TEST_ENTRY(fail, the_first_reason_stays_and_gets_its_step))
