/* acl.c -- lists of addresses as a radix tree.
 *
 * Nodes are prefixes; the children of one are longer and begin with it.  A path is compressed: a
 * node is there because the text has its prefix, or because two prefixes part there.
 */
#include "vcl-lite/acl.h"

#include <endian.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* An address, or its first bits and zeros. */
struct acl_key {
    uint64_t hi, lo;
};

struct acl_node {
    struct acl_key key, mask;
    unsigned bits;
    bool says;    /* is of the text, and decides */
    bool negated; /* says no */
    struct acl_node *child[2];
};

#define ACL_MAGIC OBJ_TAG('a', 'c', 'l', '.')
struct acl {
    uint32_t magic;
    bool log;
    char *name;
    struct acl_node *v4, *v6;
};

struct acl *
acl_new(const char *name, bool log)
{
    struct acl *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->magic = ACL_MAGIC;
    a->log = log;
    a->name = strdup(name);
    if (a->name == NULL)
        acl_free(&a);
    return a;
}

/* No deeper than there are bits. */
static void
acl_free_nodes(struct acl_node *n)
{
    if (n == NULL)
        return;
    acl_free_nodes(n->child[0]);
    acl_free_nodes(n->child[1]);
    free(n);
}

void
acl_free(struct acl **ap)
{
    struct acl *a;

    if (*ap == NULL)
        return;
    OBJ_TAKE(a, ap, ACL_MAGIC);
    acl_free_nodes(a->v4);
    acl_free_nodes(a->v6);
    free(a->name);
    OBJ_FREE(a);
}

static uint64_t
acl_load(const uint8_t *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof(x));
    /* In network order, so that the first bit of the address is the highest of the number. */
    return be64toh(x);
}

static struct acl_key
acl_key_of(const struct vcl_ip *ip)
{
    return (struct acl_key){acl_load(ip->addr), acl_load(ip->addr + 8)};
}

static struct acl_key
acl_mask_of(unsigned bits)
{
    return (struct acl_key){
        /* A shift by 64 is undefined: 0 and 64 bits have cases of their own. */
        bits == 0 ? 0 : UINT64_MAX << (bits >= 64 ? 0 : 64 - bits),
        bits <= 64 ? 0 : UINT64_MAX << (128 - bits),
    };
}

static inline bool
acl_holds(const struct acl_node *n, struct acl_key k)
{
    return (((k.hi ^ n->key.hi) & n->mask.hi) | ((k.lo ^ n->key.lo) & n->mask.lo)) == 0;
}

/* The first bit is 0. */
static inline unsigned
acl_bit(struct acl_key k, unsigned at)
{
    return (unsigned)(at < 64 ? k.hi >> (63 - at) : k.lo >> (127 - at)) & 1;
}

/* How many bits do they share, of at most `max`? */
static unsigned
acl_shared(struct acl_key a, struct acl_key b, unsigned max)
{
    uint64_t hi = a.hi ^ b.hi, lo = a.lo ^ b.lo;
    /* Equal in all: __builtin_clzll(0) is undefined. */
    unsigned n = 128;

    if (hi != 0)
        n = (unsigned)__builtin_clzll(hi);
    else if (lo != 0)
        n = 64 + (unsigned)__builtin_clzll(lo);
    return n < max ? n : max;
}

static struct acl_node *
acl_node_new(struct acl_key key, unsigned bits)
{
    struct acl_node *n = calloc(1, sizeof(*n));

    if (n == NULL)
        return NULL;
    n->mask = acl_mask_of(bits);
    /* Cut to its bits: acl_holds() compares under the mask only, but acl_shared() compares all. */
    n->key = (struct acl_key){key.hi & n->mask.hi, key.lo & n->mask.lo};
    n->bits = bits;
    return n;
}

/* Puts a node of `bits` of `key` between *at and its parent; or, when *at goes another way, a
 * node where they part, with both below it. */
static int
acl_split(struct acl_node **at, struct acl_key key, unsigned bits, struct acl_node **out)
{
    struct acl_node *old = *at, *new = acl_node_new(key, bits), *fork;
    unsigned shared = old == NULL ? 0 : acl_shared(key, old->key, bits);

    if (new == NULL)
        return TERR_NOMEM;
    *out = new;
    if (old == NULL) {
        *at = new;
    } else if (shared == bits) {
        new->child[acl_bit(old->key, bits)] = old;
        *at = new;
    } else {
        fork = acl_node_new(key, shared);
        if (fork == NULL) {
            /* Nothing of the tree has changed: *at is written last. */
            free(new);
            return TERR_NOMEM;
        }
        /* They part at this bit, so each has a side of its own. */
        fork->child[acl_bit(old->key, shared)] = old;
        fork->child[acl_bit(key, shared)] = new;
        *at = fork;
    }
    return 0;
}

/* The tree is built once, at the load, and then only read: any thread may call acl_match()
 * without a lock. */
int
acl_add(struct acl *a, const struct vcl_ip *ip, unsigned bits, bool negated)
{
    struct acl_node **at, *n = NULL;
    struct acl_key key;
    int err;

    OBJ_CHECK(a, ACL_MAGIC);
    tassert(bits <= (ip->is_v4 ? 32u : 128u));
    key = acl_key_of(ip);
    /* Two trees: ::ffff:192.0.2.1 is an IPv6 address to an acl, as in Varnish. */
    at = ip->is_v4 ? &a->v4 : &a->v6;
    if (ip->is_v4)
        bits += 96;
    while (*at != NULL && (*at)->bits < bits && acl_holds(*at, key))
        at = &(*at)->child[acl_bit(key, (*at)->bits)];
    if (*at != NULL && (*at)->bits == bits && acl_holds(*at, key)) {
        n = *at;
        /* A fork that stands at this very prefix is none of the text's, and may become one. */
        if (n->says)
            return TERR_EXISTS;
    } else {
        err = acl_split(at, key, bits, &n);
        if (err < 0)
            return err;
    }
    n->says = true;
    n->negated = negated;
    return 0;
}

bool
acl_match(const struct acl *a, const struct vcl_ip *ip)
{
    const struct acl_node *n, *best = NULL;
    struct acl_key key;

    OBJ_CHECK(a, ACL_MAGIC);
    key = acl_key_of(ip);
    n = ip->is_v4 ? a->v4 : a->v6;
    while (n != NULL && acl_holds(n, key)) {
        if (n->says)
            /* The longest prefix decides, wherever it stands in the text. */
            best = n;
        /* There is no bit behind the last. */
        n = n->bits == 128 ? NULL : n->child[acl_bit(key, n->bits)];
    }
    return best != NULL && !best->negated;
}

const char *
acl_name(const struct acl *a)
{
    OBJ_CHECK(a, ACL_MAGIC);
    return a->name;
}

bool
acl_logs(const struct acl *a)
{
    OBJ_CHECK(a, ACL_MAGIC);
    return a->log;
}
