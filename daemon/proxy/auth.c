/* auth.c -- passwords against hashes, on a thread of its own. */
#include "daemon/proxy/auth.h"

#include <crypt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/http/base64.h"
#include "daemon/log/elog.h"

enum {
    AUTH_VERDICTS = 4096, /* a power of two; those of bad passwords have a table of their own */
};
_Static_assert((AUTH_VERDICTS & (AUTH_VERDICTS - 1)) == 0, "a tag's low bits are its place");

#define AUTH_MAGIC OBJ_TAG('a', 'u', 't', 'h')
struct auth {
    uint32_t magic;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t due;
    pthread_t thread;
    bool started, ends;
    unsigned nwaiting;
    struct list waiting; /* of auth_check.link */
    const struct auth_check *running;
    /* Without the lock.  0: none. */
    _Atomic uint64_t good[AUTH_VERDICTS], bad[AUTH_VERDICTS];
    struct crypt_data data; /* the thread's */
};

int
auth_open(struct auth **out)
{
    struct auth *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return TERR_NOMEM;
    a->magic = AUTH_MAGIC;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->due, NULL);
    list_init(&a->waiting);
    *out = a;
    return 0;
}

/* The workers have ended before, so no request waits. */
void
auth_close(struct auth **ap)
{
    struct auth *a;
    bool started;

    OBJ_TAKE(a, ap, AUTH_MAGIC);
    pthread_mutex_lock(&a->lock);
    tassert(a->nwaiting == 0);
    a->ends = true;
    started = a->started;
    pthread_cond_signal(&a->due);
    pthread_mutex_unlock(&a->lock);
    if (started)
        pthread_join(a->thread, NULL);
    tassert(a->running == NULL);
    tassert(list_empty(&a->waiting));
    pthread_cond_destroy(&a->due);
    pthread_mutex_destroy(&a->lock);
    OBJ_FREE(a);
}

/* How long it takes says nothing of where they differ. */
static bool
auth_same(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned char differ = 0;

    if (strlen(b) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

static bool
auth_verify(struct auth *a, const struct auth_check *c)
{
    const char *made = crypt_r(c->password, c->hash, &a->data);

    tassert(a->running == c); /* auth_cancel() leaves it alone meanwhile */
    /* `known` is looked at last: an unknown user costs the same computation as a wrong password.
     * crypt(3) answers a hash that it does not know with "*0" or "*1". */
    return made != NULL && made[0] != '*' && auth_same(made, c->hash) && c->known;
}

static void
auth_answer(struct auth *a, struct auth_check *c, bool good)
{
    _Atomic uint64_t *table = good ? a->good : a->bad;

    tassert(c->tag != 0); /* 0: no verdict */
    tassert(
        waiter_state(c->wait) == WAITER_ARMED); /* auth_cancel() takes it out of the list first */
    explicit_bzero(c->password, sizeof(c->password));
    c->good = good;
    atomic_store_explicit(&table[c->tag % AUTH_VERDICTS], c->tag, memory_order_relaxed);
    waiter_notify(c->wait); /* from here on its memory may be gone */
}

static void *
auth_main(void *ctx)
{
    struct auth *a = ctx;

    OBJ_CHECK(a, AUTH_MAGIC);
    pthread_setname_np(pthread_self(), "tarn-auth");
    pthread_mutex_lock(&a->lock);
    for (;;) {
        struct auth_check *c;
        bool good;

        while (list_empty(&a->waiting) && !a->ends)
            pthread_cond_wait(&a->due, &a->lock);
        if (list_empty(&a->waiting))
            break;
        c = container_of(a->waiting.next, struct auth_check, link);
        tassert(a->running == NULL); /* one thread computes, one hash at a time */
        tassert(a->nwaiting > 0);
        a->running = c; /* from here on auth_cancel() says no: the request waits for the answer */
        pthread_mutex_unlock(&a->lock);
        /* Without the lock: a hash takes 100 ms on purpose, and workers must be able to queue
         * meanwhile. */
        good = auth_verify(a, c);
        pthread_mutex_lock(&a->lock);
        a->running = NULL;
        list_del(&c->link);
        a->nwaiting--;
        auth_answer(a, c, good);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Under the lock.  0, TERR_LIMIT or TERR_NOMEM. */
static int
auth_enqueue(struct auth *a, struct auth_check *c)
{
    tassert(!a->ends);
    tassert((a->nwaiting == 0) == list_empty(&a->waiting));
    if (a->nwaiting == AUTH_WAITING_MAX)
        return TERR_LIMIT;
    /* With the first password, for most configurations have none. */
    if (!a->started && pthread_create(&a->thread, NULL, auth_main, a) != 0)
        return TERR_NOMEM;
    a->started = true;
    a->nwaiting++;
    list_add_tail(&a->waiting, &c->link);
    waiter_arm(c->wait, &c->waiting);
    pthread_cond_signal(&a->due);
    return TERR_AGAIN;
}

/* Keyed with the process' secret; never 0.  An unknown user has no hash of its own: a later one may be
 * the same text. */
static uint64_t
auth_tag(const struct auth_claim *claim)
{
    struct slice user = claim->user, password = claim->password;
    const char *hash = claim->known ? claim->hash : "";
    struct {
        struct hash128 user, password, hash;
    } all = {hash_bytes(user.ptr, user.len), hash_bytes(password.ptr, password.len),
        hash_bytes(hash, strlen(hash))};

    return hash_bytes(&all, sizeof(all)).lo | 1;
}

int
auth_ask(
    struct auth *a, struct auth_check *check, const struct auth_claim *claim, struct waiter *wait)
{
    uint64_t tag = auth_tag(claim);
    int rc;

    OBJ_CHECK(a, AUTH_MAGIC);
    /* Verdicts are remembered by tag, without a lock: a hash that takes 100 ms on purpose would else be
     * computed for each request of a user. */
    if (atomic_load_explicit(&a->good[tag % AUTH_VERDICTS], memory_order_relaxed) == tag)
        return 1;
    if (claim->password.len >= AUTH_PASSWORD_MAX ||
        atomic_load_explicit(&a->bad[tag % AUTH_VERDICTS], memory_order_relaxed) == tag)
        return 0;
    *check =
        (struct auth_check){.wait = wait, .hash = claim->hash, .tag = tag, .known = claim->known};
    list_init(&check->waiting);
    tassert(claim->password.len < sizeof(check->password)); /* a NUL is behind it: crypt(3) */
    memcpy(check->password, claim->password.ptr, claim->password.len);
    pthread_mutex_lock(&a->lock);
    rc = auth_enqueue(a, check);
    pthread_mutex_unlock(&a->lock);
    /* It is in no queue, so nothing else erases it. */
    if (rc != TERR_AGAIN)
        explicit_bzero(check->password, sizeof(check->password));
    return rc;
}

bool
auth_cancel(struct auth *a, struct auth_check *check)
{
    bool waits;

    OBJ_CHECK(a, AUTH_MAGIC);
    pthread_mutex_lock(&a->lock);
    /* One that is computed cannot be taken back: the thread reads the password in it without the
     * lock. */
    waits = waiter_state(check->wait) == WAITER_ARMED && a->running != check;
    if (waits) {
        tassert(a->nwaiting > 0);
        list_del(&check->link);
        a->nwaiting--;
        /* auth_answer() does not come for it any more. */
        explicit_bzero(check->password, sizeof(check->password));
        waiter_disarm(check->wait);
    }
    pthread_mutex_unlock(&a->lock);
    return waits;
}

bool
auth_basic(struct slice value, struct span buf, struct slice *user, struct slice *password)
{
    const char *colon = NULL;
    int len;

    if (value.len < 6 || strncasecmp(value.ptr, "Basic ", 6) != 0)
        return false;
    value = slice_of(value.ptr + 6, value.len - 6);
    while (value.len > 0 && *value.ptr == ' ')
        value = slice_of(value.ptr + 1, value.len - 1);
    /* The first colon ends the name, a password may have more (RFC 7617 2).  A NUL is refused:
     * crypt(3) would compare what stands before it. */
    len = base64_decode(value, buf);
    if (len >= 0 && memchr(buf.ptr, '\0', (size_t)len) == NULL)
        colon = memchr(buf.ptr, ':', (size_t)len);
    tassert(len < 0 || (size_t)len <= buf.len);
    if (colon == NULL) {
        /* Perhaps a password with a slip in its field. */
        explicit_bzero(buf.ptr, buf.len);
        return false;
    }
    *user = slice_of(buf.ptr, (size_t)(colon - buf.ptr));
    *password = slice_of(colon + 1, (size_t)len - user->len - 1);
    return true;
}
