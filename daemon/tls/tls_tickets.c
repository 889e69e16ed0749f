/* tls_tickets.c -- keys of session tickets, from a secret and the time.
 *
 * Who has the secret has every key, so nothing is exchanged: the key of an hour is derived (HKDF, RFC 5869)
 * from the secret of the day and the number of its four hours.  A day's secret is derived from that of the
 * day before, which is forgotten, so that a process that is broken into cannot say what was said
 * yesterday. */
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/tls/tls_priv.h"

enum {
    TICKET_SECRET = 32,
    TICKET_PERIOD_S = 4 * 3600,
    TICKET_DAY_S = 86400,
    TICKET_PERIODS = TICKET_DAY_S / TICKET_PERIOD_S,
    TICKET_NAME = 16,
};

/* Of four hours. */
struct ticket_key {
    unsigned char name[TICKET_NAME]; /* stands in front of each ticket (RFC 5077 4) */
    unsigned char aes[32], mac[32];
};

#define TICKETS_MAGIC OBJ_TAG('t', 'i', 'c', 'k')
struct tls_tickets {
    uint32_t magic;
    pthread_mutex_t lock; /* held for some microseconds a handshake, which takes hundreds */
    int64_t day; /* of `secret`, since the epoch: yesterday's, for its keys are accepted still */
    unsigned char secret[TICKET_SECRET];
    int64_t period;           /* of key[1], since the epoch; 0: there are no keys yet */
    struct ticket_key key[3]; /* of the period before, of this one, of the next: clocks differ */
};

/* Every node begins to count here. */
#define TICKET_DAY_FIRST INT64_C(20454) /* 2026-01-01 */

/* HKDF-Expand (RFC 5869 2.3) of at most one block: the secret is uniform already. */
static bool
ticket_derive(const unsigned char secret[TICKET_SECRET], const char *label, int64_t number,
    unsigned char *out, size_t len)
{
    unsigned char info[32] = {0}, block[EVP_MAX_MD_SIZE];
    size_t n = strlen(label);
    bool good;

    tassert(n + 9 <= sizeof(info) && len <= TICKET_SECRET);
    memcpy(info, label, n);
    for (unsigned i = 0; i < 8; i++)
        info[n + i] = (unsigned char)((uint64_t)number >> (56 - 8 * i));
    info[n + 8] = 1;
    good = HMAC(EVP_sha256(), secret, TICKET_SECRET, info, n + 9, block, NULL) != NULL;
    memcpy(out, block, len);
    OPENSSL_cleanse(block, sizeof(block));
    return good;
}

/* The secret of `day`, which is that of a later one from then on. */
static bool
tickets_ratchet(unsigned char secret[TICKET_SECRET], int64_t *at, int64_t day)
{
    unsigned char next[TICKET_SECRET];
    bool good = true;

    for (; *at < day && good; (*at)++) {
        good = ticket_derive(secret, "day", *at + 1, next, sizeof(next));
        memcpy(secret, next, sizeof(next));
    }
    OPENSSL_cleanse(next, sizeof(next));
    return good;
}

static bool
tickets_key(const struct tls_tickets *t, int64_t period, struct ticket_key *out)
{
    unsigned char secret[TICKET_SECRET];
    int64_t day = t->day;
    bool good;

    memcpy(secret, t->secret, sizeof(secret));
    good = period / TICKET_PERIODS >= day &&
           tickets_ratchet(secret, &day, period / TICKET_PERIODS) &&
           ticket_derive(secret, "name", period, out->name, sizeof(out->name)) &&
           ticket_derive(secret, "aes", period, out->aes, sizeof(out->aes)) &&
           ticket_derive(secret, "mac", period, out->mac, sizeof(out->mac));
    OPENSSL_cleanse(secret, sizeof(secret));
    return good;
}

/* The keys of now; the day before that of the oldest is forgotten.  Under the lock. */
static bool
tickets_tend(struct tls_tickets *t)
{
    int64_t period = (int64_t)time(NULL) / TICKET_PERIOD_S;
    bool good = true;

    if (period == t->period)
        return true;
    good = tickets_ratchet(t->secret, &t->day, (period - 1) / TICKET_PERIODS);
    for (int i = 0; i < 3 && good; i++)
        good = tickets_key(t, period - 1 + i, &t->key[i]);
    t->period = good ? period : 0;
    return good;
}

/* A copy of the key that is meant; -1: there is none, 0: the current one, 1: one to be replaced. */
static int
tickets_find(struct tls_tickets *t, const unsigned char *name, struct ticket_key *out)
{
    int found = -1;

    pthread_mutex_lock(&t->lock);
    if (tickets_tend(t)) {
        for (int i = 0; i < 3 && found < 0; i++) {
            if (name == NULL ? i != 1 : memcmp(name, t->key[i].name, TICKET_NAME) != 0)
                continue;
            *out = t->key[i];
            found = i == 0;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

/* As SSL_CTX_set_tlsext_ticket_key_evp_cb(3) has it: 1: go on; 2: and give a new ticket; 0: a whole handshake;
 * -1: fail. */
static int
tickets_on_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
    EVP_MAC_CTX *mac, int seal)
{
    struct tls *tls = SSL_get_app_data(ssl);
    struct ticket_key key;
    OSSL_PARAM params[3];
    int found = tickets_find(tls->server->tickets, seal ? NULL : name, &key), rc = 0;

    if (found < 0)
        return seal ? -1 : 0;
    if (seal)
        memcpy(name, key.name, TICKET_NAME);
    params[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, sizeof(key.mac));
    params[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0);
    params[2] = OSSL_PARAM_construct_end();
    if ((!seal || RAND_bytes(iv, 16) == 1) && EVP_MAC_CTX_set_params(mac, params) == 1 &&
        EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.aes, iv, seal) == 1)
        rc = found == 0 ? 1 : 2;
    OPENSSL_cleanse(&key, sizeof(key));
    return rc == 0 ? -1 : rc;
}

void
tls_tickets_use(struct tls_tickets *t, SSL_CTX *ctx)
{
    OBJ_CHECK(t, TICKETS_MAGIC);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, tickets_on_key);
}

int
tls_tickets_open(struct tls_tickets **out, const void *secret, size_t len)
{
    struct tls_tickets *t = calloc(1, sizeof(*t));

    tassert(len >= TICKET_SECRET);
    if (t == NULL)
        return TERR_NOMEM;
    t->magic = TICKETS_MAGIC;
    pthread_mutex_init(&t->lock, NULL);
    t->day = TICKET_DAY_FIRST;
    if (EVP_Digest(secret, len, t->secret, NULL, EVP_sha256(), NULL) != 1 || !tickets_tend(t)) {
        tls_tickets_close(&t);
        return TERR_NOMEM;
    }
    *out = t;
    return 0;
}

void
tls_tickets_close(struct tls_tickets **tp)
{
    struct tls_tickets *t;

    OBJ_TAKE(t, tp, TICKETS_MAGIC);
    pthread_mutex_destroy(&t->lock);
    OPENSSL_cleanse(t, sizeof(*t));
    free(t);
}
