/* names.c -- the addresses of a backend that is given by name: looked up again when their TTL ends.
 *
 * The configuration's addresses (getaddrinfo(3) found them at the load) are used until a lookup finds
 * others.  The first lookup follows at once, as only it tells the TTL.  A name that had no address at
 * the load is looked up until it has; until then its backend is not healthy.  The addresses are a set:
 * another order of the same ones changes nothing, as name servers rotate them.
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/net/resolve.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/shm/counters.h"

enum {
    NAMES_LOOKUPS_MAX = 64,  /* under way at a time: the name server has others to answer */
    NAMES_RETRY_MS = 2000,   /* while there is no address at all */
    NAMES_TTL_MIN_MS = 1000, /* of a record that may not be kept at all: it is asked for so often */
};

/* Later than anything: never. */
#define NAMES_NEVER UINT64_MAX

struct backend_addrs {
    unsigned n;
    struct sockaddr_storage addr[RESOLVE_ADDRS_MAX];
};

/* Of what makes it another address than others: not of padding. */
static uint64_t
names_key(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;

        return hash_plain(&in->sin_addr, sizeof(in->sin_addr));
    }
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)a;

        return hash_plain(&in6->sin6_addr, sizeof(in6->sin6_addr)) ^ in6->sin6_scope_id;
    }
    return 0;
}

/* A numeric host has its address already, and is never looked up. */
static bool
names_is_numeric(const char *host)
{
    struct in_addr v4;

    return strchr(host, ':') != NULL || inet_pton(AF_INET, host, &v4) == 1;
}

/* The nth, around; under the lock. */
static const struct sockaddr_storage *
names_nth(const struct backend *b, unsigned nth)
{
    const struct conf_address *first = &b->conf->address;

    tassert(b->addrs != NULL ? b->addrs->n > 0 : first->naddrs > 0); /* % */
    return b->addrs != NULL ? &b->addrs->addr[nth % b->addrs->n]
                            : &first->addrs[nth % first->naddrs];
}

static unsigned
names_count(const struct backend *b)
{
    return b->addrs != NULL ? b->addrs->n : b->conf->address.naddrs;
}

/* Any thread; another lookup may change the number at once, so names_nth goes around. */
unsigned
backend_naddrs(struct backend *b)
{
    unsigned n;

    if (b->conf->address.is_unix)
        return 1;
    pthread_mutex_lock(&b->lock);
    n = names_count(b);
    pthread_mutex_unlock(&b->lock);
    return n;
}

/* Any thread: a copy, since a lookup may replace the addresses as soon as the lock is free. */
void
backend_place_of(struct backend *b, unsigned nth, struct backend_place *out)
{
    *out = (struct backend_place){.target.secure = b->secure};
    if (b->conf->address.is_unix) {
        out->target.path = b->conf->address.path;
        return;
    }
    pthread_mutex_lock(&b->lock);
    out->target.addr = *names_nth(b, nth);
    out->generation = atomic_load_explicit(&b->generation, memory_order_relaxed);
    pthread_mutex_unlock(&b->lock);
    out->key = names_key(&out->target.addr);
}

void
backend_address_text(struct backend *b, unsigned nth, char text[ADDRESS_TEXT_MAX])
{
    uint8_t bytes[16] = {0};
    struct backend_place place;

    backend_place_of(b, nth, &place);
    if (place.target.path == NULL && place.target.addr.ss_family == AF_INET) {
        bytes[10] = bytes[11] = 0xff;
        memcpy(bytes + 12, &((struct sockaddr_in *)(void *)&place.target.addr)->sin_addr, 4);
    } else if (place.target.path == NULL) {
        memcpy(bytes, &((struct sockaddr_in6 *)(void *)&place.target.addr)->sin6_addr, 16);
    }
    address_text(bytes, text);
}

/* Under the lock, or by the only thread that changes them. */
static bool
names_has(const struct backend *b, uint64_t key)
{
    for (unsigned i = 0; i < names_count(b); i++)
        if (names_key(names_nth(b, i)) == key)
            return true;
    return false;
}

/* Does the address `key` still belong to the backend?  *generation remembers the last look, so
 * that the lock is taken only after a change. */
bool
backend_is_at(struct backend *b, uint64_t key, unsigned *generation)
{
    unsigned now = atomic_load_explicit(&b->generation, memory_order_acquire);
    bool has;

    if (*generation == now)
        return true;
    pthread_mutex_lock(&b->lock);
    has = names_has(b, key);
    *generation = atomic_load_explicit(&b->generation, memory_order_relaxed);
    pthread_mutex_unlock(&b->lock);
    return has;
}

static void
names_set_port(struct sockaddr_storage *a, in_port_t port)
{
    if (a->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)a)->sin_port = port;
    else
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = port;
}

/* In network byte order. */
uint16_t
backend_port(const struct backend *b)
{
    const struct sockaddr_storage *a = &b->conf->address.addrs[0];

    if (b->conf->address.naddrs == 0)
        return htons(b->conf->address.port);
    return a->ss_family == AF_INET ? ((const struct sockaddr_in *)(const void *)a)->sin_port
                                   : ((const struct sockaddr_in6 *)(const void *)a)->sin6_port;
}

/* Each address once, with the port of those that it had.  NULL: no memory. */
static struct backend_addrs *
names_gather(const struct backend *b, const struct resolve_addrs *found)
{
    struct backend_addrs *to = calloc(1, sizeof(*to));

    for (unsigned k = 0; to != NULL && k < found->n; k++) {
        struct sockaddr_storage *a = &to->addr[to->n];
        bool again = false;

        tassert(to->n < RESOLVE_ADDRS_MAX);
        *a = found->addr[k];
        names_set_port(a, backend_port(b));
        for (unsigned i = 0; i < to->n; i++)
            again |= names_key(&to->addr[i]) == names_key(a);
        to->n += !again;
    }
    return to;
}

/* Compared as sets: name servers rotate the order of the same addresses. */
static bool
names_are_news(const struct backend *b, const struct backend_addrs *now)
{
    unsigned known = 0;

    for (unsigned i = 0; i < now->n; i++)
        known += names_has(b, names_key(&now->addr[i]));
    /* The load may have listed one twice: count those that are left. */
    for (unsigned i = 0; known == now->n && i < names_count(b); i++) {
        const struct sockaddr_storage *addr = names_nth(b, i);
        bool kept = false;

        for (unsigned j = 0; j < now->n; j++)
            kept |= names_key(&now->addr[j]) == names_key(addr);
        if (!kept)
            return true;
    }
    return known < now->n;
}

static void
names_count_one(const struct backend *b, enum counter what)
{
    if (b->registry->counters != NULL)
        counter_add_shared(b->registry->counters, what, 1);
}

static void
names_fail(struct backend *b, const char *why)
{
    names_count_one(b, COUNTER_backend_dns_failed);
    if (!b->name.failed && b->placed) /* without an address that was said when it was made */
        elog(ELOG_WARN, "backend %s: '%s' cannot be resolved: %s; it stays where it was", b->full,
            b->conf->address.host, why);
    b->name.failed = true;
}

/* On the management thread, the only one that changes addresses: it reads them without the lock. */
static void
names_set(struct backend *b, const struct resolve_addrs *found)
{
    struct backend_addrs *now = names_gather(b, found), *old;

    if (now == NULL || now->n == 0) {
        names_fail(b, now == NULL ? "out of memory" : "no address");
        free(now);
        return;
    }
    if (b->name.failed && b->placed)
        elog(ELOG_INFO, "backend %s: '%s' is resolved again", b->full, b->conf->address.host);
    b->name.failed = false;
    if (!names_are_news(b, now)) {
        free(now);
        return;
    }
    names_count_one(b, COUNTER_backend_dns_changed);
    elog(ELOG_INFO, "backend %s: '%s' %s: %u addresses now", b->full, b->conf->address.host,
        b->placed ? "has changed" : "is resolved", now->n);
    pthread_mutex_lock(&b->lock);
    old = b->addrs;
    b->addrs = now;
    atomic_fetch_add_explicit(&b->generation, 1, memory_order_release);
    pthread_mutex_unlock(&b->lock);
    if (!b->placed)
        backend_set_placed(b);
    /* Other threads copy under the lock, so none refers to the old ones any more. */
    free(old);
}

/* How long the addresses of an answer are used; 0: for ever. */
static int64_t
names_ttl(const struct conf_backend *conf, int64_t ttl_ms)
{
    if (ttl_ms == RESOLVE_NO_TTL || ttl_ms > conf->dns_ttl)
        return conf->dns_ttl;
    return ttl_ms > NAMES_TTL_MIN_MS ? ttl_ms : NAMES_TTL_MIN_MS;
}

/* When it is looked up next, once its addresses are known. */
static void
names_wait(struct backend *b, uint64_t now_ms, int64_t ttl_ms)
{
    b->name.due_ms = b->conf->dns_ttl > 0 ? now_ms + (uint64_t)ttl_ms : NAMES_NEVER;
}

static void
names_take(struct backend *b, uint64_t now_ms)
{
    const struct resolve_addrs *found;
    const char *why;
    int err = resolve_result(b->name.lookup, &found, &why);

    if (err == TERR_AGAIN)
        return;
    if (err == 0) {
        names_set(b, found);
        names_wait(b, now_ms, names_ttl(b->conf, found->ttl_ms));
    } else {
        names_fail(b, why);
        names_wait(b, now_ms, b->conf->dns_ttl);
    }
    /* Without any address the retry is soon, whatever the TTL said. */
    if (!b->placed)
        b->name.due_ms = now_ms + NAMES_RETRY_MS;
    backend_forget_lookup(b);
}

void
backend_forget_lookup(struct backend *b)
{
    if (b->name.lookup == NULL)
        return;
    resolve_close(&b->name.lookup);
    tassert(b->registry->nlookups > 0);
    b->registry->nlookups--;
}

/* Never: it is no name, or its addresses are for ever. */
static uint64_t
names_first(const struct backend *b, uint64_t now_ms)
{
    const struct conf_backend *conf = b->conf;

    if (b->none || conf->address.is_unix || names_is_numeric(conf->address.host))
        return NAMES_NEVER;
    return b->placed && conf->dns_ttl == 0 ? NAMES_NEVER : now_ms;
}

void
backend_name_tick(struct backend *b, uint64_t now_ms)
{
    struct registry *rg = b->registry;

    /* 0: this is the first tick of the backend. */
    if (b->name.due_ms == 0)
        b->name.due_ms = names_first(b, now_ms);
    if (b->name.lookup != NULL) {
        names_take(b, now_ms);
    } else if (rg->resolver != NULL && now_ms >= b->name.due_ms &&
               rg->nlookups < NAMES_LOOKUPS_MAX && !backend_is_retired(b)) {
        tassert(!b->conf->address.is_unix); /* it is due never */
        if (resolve_start(&b->name.lookup, rg->resolver, b->conf->address.host) == 0) {
            rg->nlookups++;
        } else {
            names_fail(b, terr_text(TERR_NOMEM));
            b->name.due_ms = now_ms + NAMES_RETRY_MS;
        }
    }
}
