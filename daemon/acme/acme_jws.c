/* acme_jws.c -- signed requests: JWS in its flattened form (RFC 7515 7.2.2), which ACME alone takes (RFC 8555 6.2). */
#include "daemon/acme/acme_jws.h"

#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/acme/acme_b64.h"

/* "HEADER.PAYLOAD", what is signed; takes header.
 * The very bytes that are sent: JSON has no one form, so what is signed is encoded once and not printed again. */
static char *
jws_input(json_t *header, struct slice payload)
{
    char *text = header != NULL ? json_dumps(header, JSON_COMPACT) : NULL;
    char *first = text != NULL ? acme_b64(text, strlen(text)) : NULL;
    char *second = acme_b64(payload.ptr, payload.len);
    size_t room = first != NULL && second != NULL ? strlen(first) + strlen(second) + 2 : 0;
    char *whole = room > 0 ? malloc(room) : NULL;

    if (whole != NULL)
        snprintf(whole, room, "%s.%s", first, second);
    free(text);
    free(first);
    free(second);
    json_decref(header);
    return whole;
}

/* Takes input, which is cut at its dot: base64url has none. */
static json_t *
jws_whole(char *input, const unsigned char *signature, size_t len)
{
    char *text = acme_b64(signature, len), *dot = strchr(input, '.');
    json_t *v = NULL;

    if (text != NULL) {
        *dot = '\0';
        v = json_pack("{ssssss}", "protected", input, "payload", dot + 1, "signature", text);
    }
    free(text);
    free(input);
    return v;
}

char *
acme_jws(const struct acme_jws *j, struct slice payload)
{
    unsigned char signature[ACME_ES256_BYTES];
    json_t *header = json_pack("{ssss}", "alg", "ES256", "url", j->url), *v = NULL;
    char *input, *text;

    /* In what is signed, so that a request can neither be sent twice nor to another resource (RFC 8555 6.4, 6.5). */
    if (j->nonce != NULL)
        json_put(header, "nonce", json_string(j->nonce));
    /* One of the two, never both (RFC 8555 6.2). */
    if (j->kid != NULL)
        json_put(header, "kid", json_string(j->kid));
    else
        json_put(header, "jwk", acme_key_jwk(j->key));
    input = jws_input(header, payload);
    if (input != NULL && acme_key_es256(j->key, slice_str(input), signature) == 0)
        v = jws_whole(input, signature, sizeof(signature));
    else
        free(input);
    text = v != NULL ? json_dumps(v, JSON_COMPACT) : NULL;
    json_decref(v);
    return text;
}

/* Signed with the CA's MAC key and not ours: it says that the customer wants this account.  It has no nonce, for the
 * request that it goes in has one (RFC 8555 7.3.4). */
json_t *
acme_jws_binding(EVP_PKEY *account, const char *kid, struct slice mac_key, const char *url)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    json_t *jwk = acme_key_jwk(account);
    char *payload = jwk != NULL ? json_dumps(jwk, JSON_COMPACT) : NULL, *input = NULL;

    json_decref(jwk);
    if (payload != NULL)
        input = jws_input(
            json_pack("{ssssss}", "alg", "HS256", "kid", kid, "url", url), slice_str(payload));
    free(payload);
    if (input == NULL || HMAC(EVP_sha256(), mac_key.ptr, (int)mac_key.len, (unsigned char *)input,
                             strlen(input), mac, &len) == NULL) {
        free(input);
        return NULL;
    }
    return jws_whole(input, mac, len);
}

/* RFC 8555 8.1.  With the key's thumbprint: the token alone travels in clear, and would prove the name for any
 * account. */
char *
acme_jws_authorization(EVP_PKEY *account, const char *token)
{
    char thumb[ACME_THUMB_SIZE], *text = NULL;

    if (acme_key_thumb(account, thumb) != 0 || asprintf(&text, "%s.%s", token, thumb) < 0)
        return NULL;
    return text;
}
