/* tls_tickets.c -- keys of session tickets, from a secret and the time.
 *
 * Who has the secret has every key, so nothing is exchanged: the key of an hour is derived (HKDF, RFC 5869)
 * from the secret of the day and the number of its four hours.  A day's secret is derived from that of the
 * day before, which is forgotten (tls_secret.h), so that a process that is broken into cannot say what was
 * said yesterday. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

#define TICKETS_MAGIC OBJ_TAG('t', 'i', 'c', 'k')
struct tls_tickets {
    uint32_t magic;
    int64_t (*now_s)(void);
    pthread_mutex_t lock;     /* held for some microseconds a handshake, which takes hundreds */
    struct tls_secret secret; /* yesterday's for four hours, for its last keys are accepted still */
    int64_t period;           /* of key[1], since the epoch; 0: there are no keys yet */
    struct ticket_key key[3]; /* of the period before, of this one, of the next: clocks differ */
    bool first;               /* key[0] is of a day before the secret's, and there is none */
};

static bool
tickets_key(const struct tls_tickets *t, int64_t period, struct ticket_key *out)
{
    struct tls_secret of_day = t->secret;
    bool good;

    tassert(period / TLS_TICKET_DAY_PERIODS >= of_day.day);
    good = tls_secret_advance(&of_day, period / TLS_TICKET_DAY_PERIODS) &&
           tls_secret_derive(&of_day, "name", period, out->name, sizeof(out->name)) &&
           tls_secret_derive(&of_day, "aes", period, out->aes, sizeof(out->aes)) &&
           tls_secret_derive(&of_day, "mac", period, out->mac, sizeof(out->mac));
    OPENSSL_cleanse(&of_day, sizeof(of_day));
    return good;
}

/* The keys of now; the day before that of the oldest is forgotten.  Under the lock. */
static bool
tickets_tend(struct tls_tickets *t)
{
    int64_t now_s = t->now_s(), period = now_s / TLS_TICKET_PERIOD_S, least;
    bool good = true;

    least = t->secret.day * TLS_TICKET_DAY_PERIODS;
    /* The clock was set back, or is behind those of other nodes: no way leads back to the secret of a day before.  The
     * first keys there are will do, and are those that a node a little ahead has. */
    if (period < least)
        period = least;
    /* Nearly always: four times a day, but for the clock, keys are derived. */
    if (period == t->period)
        return true;
    good = tls_secret_advance(&t->secret, (period - 1) / TLS_TICKET_DAY_PERIODS);
    t->first = period == t->secret.day * TLS_TICKET_DAY_PERIODS;
    for (int i = t->first; i < 3 && good; i++)
        good = tickets_key(t, period - 1 + i, &t->key[i]);
    t->period = good ? period : 0;
    return good;
}

int
tls_tickets_find(struct tls_tickets *t, const unsigned char *name, struct ticket_key *out)
{
    int found = -1;

    pthread_mutex_lock(&t->lock);
    if (tickets_tend(t)) {
        for (int i = t->first; i < 3 && found < 0; i++) {
            /* To seal, this period's alone; to open, that of each: the name in the ticket says which. */
            if (name == NULL ? i != 1 : memcmp(name, t->key[i].name, TICKET_NAME) != 0)
                continue;
            *out = t->key[i];
            found = i == 0;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

/* As SSL_CTX_set_tlsext_ticket_key_evp_cb(3) has it, and AWS-LC's ..._ticket_key_cb: 1: go on; 2: and give a new ticket; 0: a whole handshake;
 * -1: fail. */
static int
tickets_on_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
    tls_lib_mac *mac, int seal)
{
    struct tls *tls = tls_current(ssl);
    struct ticket_key key;
    int found = tls_tickets_find(tls->server->tickets, seal ? NULL : name, &key), rc = 0;

    /* A ticket that is too old, or another's, is no error: the handshake is a whole one. */
    if (found < 0)
        return seal ? -1 : 0;
    if (seal)
        memcpy(name, key.name, TICKET_NAME);
    if ((!seal || RAND_bytes(iv, 16) == 1) && tls_lib_mac_init(mac, key.mac, sizeof(key.mac)) &&
        EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.aes, iv, seal) == 1)
        rc = found == 0 ? 1 : 2;
    OPENSSL_cleanse(&key, sizeof(key));
    return rc == 0 ? -1 : rc;
}

void
tls_tickets_use(struct tls_tickets *t, SSL_CTX *ctx)
{
    OBJ_CHECK(t, TICKETS_MAGIC);
    tls_lib_set_ticket_cb(ctx, tickets_on_key);
}

int
tls_tickets_open(struct tls_tickets **out, const struct tls_secret *secret, int64_t (*now_s)(void))
{
    struct tls_tickets *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return TERR_NOMEM;
    t->magic = TICKETS_MAGIC;
    pthread_mutex_init(&t->lock, NULL);
    t->secret = *secret;
    t->now_s = now_s;
    if (!tickets_tend(t)) {
        tls_tickets_close(&t);
        return TERR_NOMEM;
    }
    *out = t;
    return 0;
}

void
tls_tickets_replace(struct tls_tickets *t, const struct tls_secret *secret)
{
    OBJ_CHECK(t, TICKETS_MAGIC);
    pthread_mutex_lock(&t->lock);
    t->secret = *secret;
    t->period = 0; /* the next handshake derives the keys */
    pthread_mutex_unlock(&t->lock);
}

bool
tls_tickets_same(struct tls_tickets *t, const struct tls_secret *secret)
{
    bool same;

    OBJ_CHECK(t, TICKETS_MAGIC);
    pthread_mutex_lock(&t->lock);
    same = tls_secret_same(&t->secret, secret);
    pthread_mutex_unlock(&t->lock);
    return same;
}

void
tls_tickets_close(struct tls_tickets **tp)
{
    struct tls_tickets *t;

    OBJ_TAKE(t, tp, TICKETS_MAGIC);
    pthread_mutex_destroy(&t->lock);
    /* The keys open every ticket of the day. */
    OPENSSL_cleanse(t, sizeof(*t));
    free(t);
}
