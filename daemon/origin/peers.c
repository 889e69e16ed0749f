/* peers.c -- the ring of a fleet's nodes. */
#include "daemon/origin/peers.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

enum {
    PEERS_EJECT_AFTER = 3, /* failures in a row, as of any backend */
    PEERS_EJECT_MS = 1000,
    PEERS_IDLE_MS = 30000,
    PEERS_IDLE_MAX = 32,    /* connections to each, of each worker */
    PEERS_LOAD_LEAST = 256, /* requests under way to a member that are never too many */
};

/* Above its share of the load by so much its keys go to the next. */
#define PEERS_BOUND 1.25

/* Read while it is written by another thread: odd while it is. */
struct place_cell {
    _Atomic uint32_t version;
    _Atomic uint64_t engine, ms, seq;
};

struct peers_slot {
    struct peers_member member;
    struct director *d; /* held */
    bool meant;
};

#define PEERS_MAGIC OBJ_TAG('p', 'e', 'e', 'r')
struct peers {
    uint32_t magic;
    struct peers_env env;
    struct registry *registry;
    _Atomic(struct peers_set *) set; /* RCU */
    struct place_cell wants, has;
    struct director *self; /* held */
    bool (*settled)(const void *ctx);
    const void *settled_ctx;
    struct peers_slot slots[PEERS_MAX];
    unsigned n;
};

/* ---- places ---- */

static void
place_put(struct place_cell *c, struct peers_place place)
{
    uint32_t v = atomic_load_explicit(&c->version, memory_order_relaxed);

    atomic_store_explicit(&c->version, v + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&c->engine, place.engine, memory_order_relaxed);
    atomic_store_explicit(&c->ms, place.ms, memory_order_relaxed);
    atomic_store_explicit(&c->seq, place.seq, memory_order_relaxed);
    atomic_store_explicit(&c->version, v + 2, memory_order_release);
}

static struct peers_place
place_get(const struct place_cell *c)
{
    struct peers_place place;
    uint32_t before, after;

    do {
        before = atomic_load_explicit(&c->version, memory_order_acquire);
        place.engine = atomic_load_explicit(&c->engine, memory_order_relaxed);
        place.ms = atomic_load_explicit(&c->ms, memory_order_relaxed);
        place.seq = atomic_load_explicit(&c->seq, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&c->version, memory_order_relaxed);
    } while (before != after || (before & 1) != 0);
    return place;
}

void
peers_set_wants(struct peers *p, struct peers_place place)
{
    OBJ_CHECK(p, PEERS_MAGIC);
    place_put(&p->wants, place);
}

void
peers_set_has(struct peers *p, struct peers_place place)
{
    OBJ_CHECK(p, PEERS_MAGIC);
    place_put(&p->has, place);
}

struct peers_place
peers_wants(const struct peers *p)
{
    return place_get(&p->wants);
}

struct peers_place
peers_has(const struct peers *p)
{
    return place_get(&p->has);
}

bool
peers_place_lacks(struct peers_place has, struct peers_place wanted)
{
    return has.engine == 0 || has.engine != wanted.engine || has.ms < wanted.ms ||
           (has.ms == wanted.ms && has.seq < wanted.seq);
}

void
peers_set_settled(struct peers *p, bool (*settled)(const void *ctx), const void *ctx)
{
    OBJ_CHECK(p, PEERS_MAGIC);
    p->settled = settled;
    p->settled_ctx = ctx;
}

bool
peers_settled(const struct peers *p)
{
    return p->settled != NULL && p->settled(p->settled_ctx);
}

/* ---- the set ---- */

static void
set_free(struct rcu_later *later)
{
    struct peers_set *s = container_of(later, struct peers_set, later);

    if (s->ring != NULL)
        director_drop(&s->ring);
    free(s);
}

/* Takes the set. */
static void
peers_adopt(struct peers *p, struct peers_set *s)
{
    struct peers_set *old = atomic_exchange_explicit(&p->set, s, memory_order_acq_rel);

    rcu_free_later(&old->later, set_free);
}

/* With all that the present one says besides its ring. */
static struct peers_set *
peers_copy(const struct peers *p)
{
    const struct peers_set *now = peers_now(p);
    struct peers_set *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->self = now->self;
    s->nsecrets = now->nsecrets;
    memcpy(s->secrets, now->secrets, sizeof(s->secrets));
    return s;
}

/* A numeric host is its address; any other is looked up. */
static void
address_fill(struct conf_address *a, struct sockaddr_storage *room, socklen_t *len)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)room;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)room;

    memset(room, 0, sizeof(*room));
    a->addrs = room;
    a->addr_lens = len;
    a->naddrs = 1;
    if (inet_pton(AF_INET, a->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(a->port);
        *len = sizeof(*v4);
    } else if (inet_pton(AF_INET6, a->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(a->port);
        *len = sizeof(*v6);
    } else {
        a->naddrs = 0;
        a->unresolved = "not looked up yet";
    }
}

/* A name's share of the keys follows from the name alone, so that it has them again when it comes back. */
static int
peers_backend(struct director **out, struct peers *p, const struct peers_member *m, bool is_self)
{
    char name[PEERS_NAME_MAX + 16], full[PEERS_NAME_MAX + 16], host[PEERS_ADDRESS_MAX + 1];
    struct sockaddr_storage addr;
    struct slice in_address;
    socklen_t addr_len;
    struct conf_backend c = {.name = name,
        .host_header = "",
        .connect_timeout = p->env.timeout_ms,
        .first_byte_timeout = p->env.timeout_ms,
        .between_bytes_timeout = p->env.between_ms,
        .idle_timeout = PEERS_IDLE_MS,
        .max_idle = PEERS_IDLE_MAX,
        .queue_max = 0,
        .dns_ttl = 1000,
        .eject_after = is_self ? 0 : PEERS_EJECT_AFTER,
        .eject_for = PEERS_EJECT_MS,
        .tls = {.text = "", .ca = "", .sni = "", .name = "", .certificate = "", .key = ""}};

    c.address = (struct conf_address){.text = m->address, .path = "", .host = host};
    if (!address_host_port(slice_str(m->address), &in_address, &c.address.port) ||
        in_address.len > PEERS_ADDRESS_MAX)
        return TERR_INVALID;
    snprintf(host, sizeof(host), "%.*s", (int)in_address.len, in_address.ptr);
    address_fill(&c.address, &addr, &addr_len);
    snprintf(name, sizeof(name), "%s", m->name);
    snprintf(full, sizeof(full), "peer.%s", m->name);
    return backend_new(out, p->registry, &c, NULL, name, full);
}

static int
peers_ring(struct peers *p, struct peers_set *s)
{
    int err;

    if (p->n == 0)
        return 0;
    err = director_new(&s->ring, DIRECTOR_HASH, "peers");
    if (err != 0)
        return err;
    director_set_bound(s->ring, PEERS_BOUND);
    director_set_bound_least(s->ring, PEERS_LOAD_LEAST);
    director_set_tries_others(s->ring);
    err = director_add(s->ring, p->self, 1);
    for (unsigned i = 0; i < p->n && err == 0; i++)
        err = director_add(s->ring, p->slots[i].d, 1);
    return err;
}

static struct peers_slot *
peers_find(struct peers *p, const struct peers_member *m)
{
    for (unsigned i = 0; i < p->n; i++)
        if (strcmp(p->slots[i].member.name, m->name) == 0 &&
            strcmp(p->slots[i].member.address, m->address) == 0)
            return &p->slots[i];
    return NULL;
}

static void
peers_drop_unmeant(struct peers *p)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->n; i++) {
        if (p->slots[i].meant)
            p->slots[n++] = p->slots[i];
        else
            director_drop(&p->slots[i].d);
    }
    p->n = n;
}

int
peers_set_members(struct peers *p, const struct peers_member *members, unsigned n)
{
    struct peers_set *s;
    int err = 0;

    OBJ_CHECK(p, PEERS_MAGIC);
    for (unsigned i = 0; i < p->n; i++)
        p->slots[i].meant = false;
    for (unsigned i = 0; i < n; i++) {
        struct peers_slot *slot = peers_find(p, &members[i]);

        if (slot == NULL && p->n < PEERS_MAX) {
            slot = &p->slots[p->n];
            *slot = (struct peers_slot){.member = members[i]};
            err = peers_backend(&slot->d, p, &members[i], false);
            if (err != 0)
                continue; /* the others are no worse for it; it is tried again */
            p->n++;
        }
        if (slot != NULL)
            slot->meant = true;
    }
    peers_drop_unmeant(p);
    s = peers_copy(p);
    if (s == NULL)
        return TERR_NOMEM;
    err = peers_ring(p, s);
    if (err != 0) {
        set_free(&s->later);
        return err;
    }
    peers_adopt(p, s);
    return 0;
}

int
peers_set_secret(struct peers *p, const uint8_t secret[PEERS_SECRET])
{
    struct peers_set *s = peers_copy(p);
    const struct peers_set *now = peers_now(p);

    OBJ_CHECK(p, PEERS_MAGIC);
    if (s == NULL)
        return TERR_NOMEM;
    if (now->ring != NULL)
        s->ring = director_hold(now->ring);
    memcpy(s->secrets[1], now->secrets[0], PEERS_SECRET);
    memcpy(s->secrets[0], secret, PEERS_SECRET);
    s->nsecrets = now->nsecrets > 0 ? 2 : 1;
    peers_adopt(p, s);
    return 0;
}

const struct peers_set *
peers_now(const struct peers *p)
{
    /* Acquire: what it points to is seen as it was published. */
    return atomic_load_explicit(&p->set, memory_order_acquire);
}

const struct peers_env *
peers_env(const struct peers *p)
{
    return &p->env;
}

int
peers_open(struct peers **out, const struct peers_env *env, struct registry *rg)
{
    struct peers *p = calloc(1, sizeof(*p));
    struct peers_set *s = calloc(1, sizeof(*s));
    struct peers_member self = {.address = "127.0.0.1:1"};
    int err = p == NULL || s == NULL ? TERR_NOMEM : 0;

    if (err == 0) {
        p->magic = PEERS_MAGIC;
        p->env = *env;
        p->registry = rg;
        snprintf(self.name, sizeof(self.name), "%s", env->node);
        err = peers_backend(&p->self, p, &self, true);
    }
    if (err != 0) {
        free(s);
        free(p);
        return err;
    }
    s->self = director_backend(p->self);
    atomic_init(&p->set, s);
    *out = p;
    return 0;
}

void
peers_close(struct peers **pp)
{
    struct peers *p;

    OBJ_TAKE(p, pp, PEERS_MAGIC);
    for (unsigned i = 0; i < p->n; i++)
        director_drop(&p->slots[i].d);
    set_free(&atomic_load(&p->set)->later);
    director_drop(&p->self);
    OBJ_FREE(p);
}
