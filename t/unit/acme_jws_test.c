/* acme_jws_test.c -- base64url, keys, thumbprints and signed requests, with the RFCs' own examples. */
#include "t/unit/test.h"

#include <openssl/ecdsa.h>
#include <openssl/hmac.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/acme/acme_b64.h"
#include "daemon/acme/acme_jws.h"
#include "daemon/base/terr.h"

/* The key of RFC 7515 A.3. */
static const char rfc_pem[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff\n"
                              "H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp\n"
                              "7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt\n"
                              "-----END PRIVATE KEY-----\n";

static EVP_PKEY *
rfc_key(void)
{
    EVP_PKEY *key = acme_key_read(slice_str(rfc_pem));

    CHECK(key != NULL);
    return key;
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

/* ES256 by r and s: verifying is another way than signing. */
static bool
verifies(EVP_PKEY *key, const char *text, const unsigned char *rs)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char *der = NULL;
    bool ok;
    int len;

    ECDSA_SIG_set0(sig, BN_bin2bn(rs, 32, NULL), BN_bin2bn(rs + 32, 32, NULL));
    len = i2d_ECDSA_SIG(sig, &der);
    ok = EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
         EVP_DigestVerify(ctx, der, (size_t)len, (const unsigned char *)text, strlen(text)) == 1;
    OPENSSL_free(der);
    EVP_MD_CTX_free(ctx);
    ECDSA_SIG_free(sig);
    return ok;
}

/* A member of a flattened JWS that is base64url, as the JSON it means. */
static json_t *
part_of(const json_t *jws, const char *name)
{
    char bytes[2048], why[128];
    int n = acme_b64_read(
        slice_str(json_string_value(json_object_get(jws, name))), bytes, sizeof(bytes));

    CHECK(n >= 0);
    return json_parse(slice_of(bytes, (size_t)n), why, sizeof(why));
}

static const char *
text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text != NULL ? text : "(none)";
}

TEST(b64, the_examples_of_rfc_4648_without_padding)
{
    static const char *const rows[][2] = {{"", ""}, {"f", "Zg"}, {"fo", "Zm8"}, {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}};
    char out[16];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        acme_b64_put(out, rows[i][0], strlen(rows[i][0]));
        CHECK_STR(rows[i][1], out);
        CHECK_EQ(strlen(rows[i][0]), acme_b64_read(slice_str(rows[i][1]), out, sizeof(out)));
        CHECK_MEM(rows[i][0], out, strlen(rows[i][0]));
    }
    /* RFC 7515 C: both letters that differ from base64. */
    acme_b64_put(out, "\x03\xec\xff\xe0\xc1", 5);
    CHECK_STR("A-z_4ME", out);
}

TEST(b64, one_text_has_one_meaning)
{
    char out[8];

    CHECK_EQ(TERR_SYNTAX, acme_b64_read(slice_str("Zg=="), out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, acme_b64_read(slice_str("Zh"), out, sizeof(out)));    /* a bit too many */
    CHECK_EQ(TERR_SYNTAX, acme_b64_read(slice_str("Zm9vY"), out, sizeof(out))); /* half a byte */
    CHECK_EQ(TERR_SYNTAX, acme_b64_read(slice_str("Zm+v"), out, sizeof(out)));
    CHECK_EQ(TERR_SYNTAX, acme_b64_read(slice_of("Zm\0v", 4), out, sizeof(out)));
    CHECK_EQ(TERR_LIMIT, acme_b64_read(slice_str("Zm9v"), out, 2));
    CHECK_EQ(3, acme_b64_read(slice_str("Zm9v"), out, 3));
}

TEST(key, jwk_of_rfc_7515_and_its_thumbprint)
{
    EVP_PKEY *key = rfc_key();
    json_t *jwk = acme_key_jwk(key);
    char thumb[ACME_THUMB_SIZE];

    CHECK_STR("EC", text_of(jwk, "kty"));
    CHECK_STR("P-256", text_of(jwk, "crv"));
    CHECK_STR("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", text_of(jwk, "x"));
    CHECK_STR("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0", text_of(jwk, "y"));
    CHECK_EQ(4, json_object_size(jwk)); /* and not the private half, d */
    CHECK_EQ(0, acme_key_thumb(key, thumb));
    CHECK_STR("oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U", thumb);
    json_decref(jwk);
    EVP_PKEY_free(key);
}

TEST(key, what_rfc_7515_signed_verifies_and_so_does_what_we_sign)
{
    /* RFC 7515 A.3.1 */
    static const char input[] =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxl"
        "LmNvbS9pc19yb290Ijp0cnVlfQ";
    static const char signature[] =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA"
        "pmWQxfKTUJqPP3-Kg6NU1Q";
    unsigned char rs[ACME_ES256_BYTES];
    EVP_PKEY *key = rfc_key();

    CHECK_EQ(ACME_ES256_BYTES, acme_b64_read(slice_str(signature), rs, sizeof(rs)));
    CHECK(verifies(key, input, rs));
    rs[5] ^= 1;
    CHECK(!verifies(key, input, rs));
    for (unsigned i = 0; i < 600;
         i++) { /* so that an r or s with a zero in front comes: 1 of 128 */
        CHECK_EQ(0, acme_key_es256(key, slice_str(input), rs));
        CHECK(verifies(key, input, rs));
    }
    EVP_PKEY_free(key);
}

TEST(key, a_new_one_is_written_and_read_as_the_same)
{
    for (int kind = ACME_ECDSA; kind <= ACME_RSA; kind++) {
        struct acme_fail fail;
        struct span pem;
        EVP_PKEY *key, *back;
        enum acme_key_kind is;
        json_t *jwk;

        acme_fail_init(&fail);
        CHECK_EQ(0, acme_key_new((enum acme_key_kind)kind, &key, &fail));
        CHECK(acme_key_kind(key, &is));
        CHECK_EQ(kind, is);
        CHECK_EQ(0, acme_key_pem(key, &pem));
        CHECK(strncmp(pem.ptr, "-----BEGIN PRIVATE KEY-----\n", 28) == 0);
        back = acme_key_read(slice_of(pem.ptr, pem.len));
        CHECK(back != NULL && same_key(key, back));
        jwk = acme_key_jwk(key);
        CHECK_EQ(kind == ACME_RSA, jwk == NULL);
        json_decref(jwk);
        acme_key_forget(&pem);
        CHECK(pem.ptr == NULL);
        EVP_PKEY_free(key);
        EVP_PKEY_free(back);
    }
    CHECK(acme_key_read(slice_str("no key")) == NULL);
    CHECK(acme_key_read(slice_str("")) == NULL);
}

TEST(jws, a_request_has_key_or_account_nonce_and_url_and_is_signed)
{
    EVP_PKEY *key = rfc_key();
    struct acme_jws j = {.key = key, .nonce = "n-1", .url = "https://ca.test/new"};
    unsigned char rs[ACME_ES256_BYTES];

    for (int with_kid = 0; with_kid < 2; with_kid++) {
        char *text, *input = NULL, why[128];
        json_t *v, *header;

        j.kid = with_kid ? "https://ca.test/acct/1" : NULL;
        text = acme_jws(&j, slice_str("{\"a\":1}"));
        v = json_parse(slice_str(text), why, sizeof(why));
        header = part_of(v, "protected");
        CHECK_EQ(3, json_object_size(v));
        CHECK_STR("eyJhIjoxfQ", text_of(v, "payload"));
        CHECK_EQ(4, json_object_size(header));
        CHECK_STR("ES256", text_of(header, "alg"));
        CHECK_STR("n-1", text_of(header, "nonce"));
        CHECK_STR("https://ca.test/new", text_of(header, "url"));
        CHECK_STR(with_kid ? j.kid : "(none)", text_of(header, "kid"));
        CHECK_EQ(with_kid, json_object_get(header, "jwk") == NULL);
        CHECK_EQ(
            ACME_ES256_BYTES, acme_b64_read(slice_str(text_of(v, "signature")), rs, sizeof(rs)));
        CHECK(asprintf(&input, "%s.%s", text_of(v, "protected"), text_of(v, "payload")) > 0);
        CHECK(verifies(key, input, rs));
        free(input);
        free(text);
        json_decref(header);
        json_decref(v);
    }
    EVP_PKEY_free(key);
}

TEST(jws, post_as_get_has_an_empty_payload)
{
    EVP_PKEY *key = rfc_key();
    struct acme_jws j = {.key = key, .kid = "https://ca.test/acct/1", .nonce = "n", .url = "u"};
    char why[128], *text = acme_jws(&j, slice_str(""));
    json_t *v = json_parse(slice_str(text), why, sizeof(why));

    CHECK_STR("", text_of(v, "payload"));
    json_decref(v);
    free(text);
    EVP_PKEY_free(key);
}

TEST(jws, an_rsa_key_is_no_account)
{
    struct acme_fail fail;
    EVP_PKEY *key;
    struct acme_jws j = {.nonce = "n", .url = "u", .kid = "k"};

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_key_new(ACME_RSA, &key, &fail));
    j.key = key;
    CHECK(acme_jws(&j, slice_str("")) == NULL);
    EVP_PKEY_free(key);
}

TEST(jws, an_external_account_is_bound_by_hs256_without_a_nonce)
{
    static const char mac_key[] = "0123456789abcdef0123456789abcdef";
    unsigned char mac[32], got[32];
    unsigned len = 0;
    EVP_PKEY *key = rfc_key();
    json_t *v = acme_jws_binding(key, "kid-7", slice_str(mac_key), "https://ca.test/acct");
    json_t *header = part_of(v, "protected"), *payload = part_of(v, "payload");
    char *input = NULL;

    CHECK_EQ(3, json_object_size(header));
    CHECK_STR("HS256", text_of(header, "alg"));
    CHECK_STR("kid-7", text_of(header, "kid"));
    CHECK_STR("https://ca.test/acct", text_of(header, "url"));
    CHECK_STR("EC", text_of(payload, "kty"));
    CHECK(asprintf(&input, "%s.%s", text_of(v, "protected"), text_of(v, "payload")) > 0);
    HMAC(EVP_sha256(), mac_key, (int)strlen(mac_key), (unsigned char *)input, strlen(input), mac,
        &len);
    CHECK_EQ(32, acme_b64_read(slice_str(text_of(v, "signature")), got, sizeof(got)));
    CHECK_MEM(mac, got, 32);
    free(input);
    json_decref(header);
    json_decref(payload);
    json_decref(v);
    EVP_PKEY_free(key);
}

TEST(jws, a_key_authorization_is_the_token_and_the_thumbprint)
{
    EVP_PKEY *key = rfc_key();
    char *text = acme_jws_authorization(key, "tok_en-1");

    CHECK_STR("tok_en-1.oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U", text);
    free(text);
    EVP_PKEY_free(key);
}

TEST_MAIN(TEST_ENTRY(b64, the_examples_of_rfc_4648_without_padding),
    TEST_ENTRY(b64, one_text_has_one_meaning), TEST_ENTRY(key, jwk_of_rfc_7515_and_its_thumbprint),
    TEST_ENTRY(key, what_rfc_7515_signed_verifies_and_so_does_what_we_sign),
    TEST_ENTRY(key, a_new_one_is_written_and_read_as_the_same),
    TEST_ENTRY(jws, a_request_has_key_or_account_nonce_and_url_and_is_signed),
    TEST_ENTRY(jws, post_as_get_has_an_empty_payload), TEST_ENTRY(jws, an_rsa_key_is_no_account),
    TEST_ENTRY(jws, an_external_account_is_bound_by_hs256_without_a_nonce),
    TEST_ENTRY(jws, a_key_authorization_is_the_token_and_the_thumbprint))
