/* vcl_decl_acl.c -- an acl of the text: its addresses, resolved and checked, as a tree.
 *
 *    acl office { "192.0.2.0"/24; ! "192.0.2.7"; "10.1"; ("vpn.example.com"); }
 *
 * Names are resolved once, at the load.  All prefixes are gathered and sorted before the tree is
 * built: so duplicates are found as neighbours, and an acl of a million lines loads in the time
 * of its sort.
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "vcl-lite/acl.h"
#include "vcl-lite/vcl_decl_priv.h"

enum {
    ACL_ADDRESSES_MAX = 64, /* of one name */
};

/* A prefix, and where it is written. */
struct decl_prefix {
    struct vcl_ip ip;
    unsigned bits;
    bool negated;
    const struct ast_acl_entry *entry;
};

struct decl_prefixes {
    struct decl_prefix *at; /* malloc'ed */
    size_t n, room;
};

/* A net as Varnish writes it, too: "10.1" is 10.1.0.0/16, so what is left out is behind the mask. */
static bool
prefix_net(const char *text, struct vcl_ip *ip, int *mask)
{
    unsigned octets = 0;

    *ip = (struct vcl_ip){.is_v4 = true, .addr = {[10] = 0xff, [11] = 0xff}};
    while (octets < 4) {
        unsigned value = 0, digits = 0;

        /* Four digits at most: a longer number cannot be an octet, and would overflow. */
        for (; *text >= '0' && *text <= '9' && digits < 4; digits++)
            value = value * 10 + (unsigned)(*text++ - '0');
        if (digits == 0 || value > 255)
            return false;
        ip->addr[12 + octets++] = (uint8_t)value;
        if (*text != '.')
            break;
        text++;
    }
    if (*text != '\0')
        return false;
    if (*mask < 0)
        /* Only where none is said: "10.1"/12 keeps its own. */
        *mask = (int)octets * 8;
    return true;
}

static bool
prefix_numeric(const char *text, struct vcl_ip *ip)
{
    *ip = (struct vcl_ip){.is_v4 = false};
    /* prefix_net() has taken those that Varnish writes; this is for the others. */
    if (inet_pton(AF_INET, text, ip->addr + 12) == 1) {
        ip->addr[10] = ip->addr[11] = 0xff;
        ip->is_v4 = true;
        return true;
    }
    return inet_pton(AF_INET6, text, ip->addr) == 1;
}

/* Clears what is behind the first bits; were they clear? */
static bool
prefix_mask(struct vcl_ip *ip, unsigned bits)
{
    bool clear = true;

    for (unsigned i = ip->is_v4 ? bits + 96 : bits; i < 128; i++) {
        uint8_t bit = (uint8_t)(0x80u >> (i % 8));

        clear &= (ip->addr[i / 8] & bit) == 0;
        /* In any case: without -pedantic the bits are left out, as in Varnish. */
        ip->addr[i / 8] = (uint8_t)(ip->addr[i / 8] & ~bit);
    }
    return clear;
}

static const char *
prefix_text(struct vcl_cx *cx, const struct vcl_ip *ip, unsigned bits)
{
    char text[INET6_ADDRSTRLEN];
    const uint8_t *addr = ip->is_v4 ? ip->addr + 12 : ip->addr;

    if (inet_ntop(ip->is_v4 ? AF_INET : AF_INET6, addr, text, sizeof(text)) == NULL)
        return NULL;
    return vcl_text(cx, "\"%s\"/%u", text, bits);
}

static void
prefix_push(struct vcl_cx *cx, struct decl_prefixes *all, const struct decl_prefix *one)
{
    if (all->n == all->room) {
        size_t room = all->room == 0 ? 64 : all->room * 2;
        /* malloc'ed: they go when the tree is built, in the middle of the load. */
        struct decl_prefix *at = realloc(all->at, room * sizeof(*at));

        if (at == NULL) {
            cx->nomem = true;
            return;
        }
        all->at = at;
        all->room = room;
    }
    all->at[all->n++] = *one;
}

static void
prefix_add(struct vcl_cx *cx, const struct ast_acl *a, struct decl_prefix one, int mask,
    struct decl_prefixes *all)
{
    const struct ast_acl_entry *e = one.entry;
    unsigned most = one.ip.is_v4 ? 32 : 128;

    one.bits = mask < 0 ? most : (unsigned)mask;
    if (one.bits > most) {
        vcl_fail(cx, e->pos, NULL, "/%d is more bits than an %s address has, %u", mask,
            one.ip.is_v4 ? "IPv4" : "IPv6", most);
        return;
    }
    if (!prefix_mask(&one.ip, one.bits) && a->pedantic) {
        vcl_fail(cx, e->pos,
            vcl_text(cx, "write %s, or acl %.*s -pedantic", prefix_text(cx, &one.ip, one.bits),
                (int)(a->name.len > 60 ? 60 : a->name.len), a->name.ptr),
            "there are bits behind the mask");
        return;
    }
    prefix_push(cx, all, &one);
}

/* The address as a text of its own, and the mask, which may stand inside of the quotes or behind
 * them; NULL: it is wrong, and reported. */
static char *
prefix_text_of(struct vcl_cx *cx, const struct ast_acl_entry *e, int *mask)
{
    char *text = vcl_alloc(cx, cx->scratch, e->address.len + 1);
    char *slash, *end;

    if (text == NULL)
        return NULL;
    memcpy(text, e->address.ptr, e->address.len);
    *mask = e->mask;
    /* "10.0.0.0/8" in quotes, which Varnish takes, too. */
    slash = strchr(text, '/');
    if (slash != NULL) {
        if (e->mask >= 0) {
            vcl_fail(cx, e->pos, NULL, "there is a mask in the quotes and one behind them");
            return NULL;
        }
        *slash = '\0';
        *mask = (int)strtoul(slash + 1, &end, 10);
        /* strtoul(3) would take a sign or blanks. */
        if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || end - slash > 4) {
            vcl_fail(cx, e->pos, NULL, "a mask is a number of bits");
            return NULL;
        }
    }
    if (text[0] == '\0') {
        vcl_fail(cx, e->pos, NULL, "an address cannot be empty");
        return NULL;
    }
    return text;
}

static void
prefix_entry(struct vcl_cx *cx, const struct ast_acl *a, const struct ast_acl_entry *e,
    struct decl_prefixes *all)
{
    struct vcl_ip ips[ACL_ADDRESSES_MAX];
    int mask;
    const char *text = prefix_text_of(cx, e, &mask);
    unsigned n = 1;

    if (text == NULL)
        return;
    if (!prefix_net(text, &ips[0], &mask) && !prefix_numeric(text, &ips[0]))
        /* Names last: the load waits for a name server. */
        n = cx->loader->resolve == NULL
                ? 0
                : cx->loader->resolve(cx->loader->ctx, text, ips, ACL_ADDRESSES_MAX);
    /* In parentheses it may be missing, as in Varnish. */
    if (n == 0 && !e->optional)
        vcl_fail(cx, e->pos,
            vcl_text(cx, "(\"%.60s\"); is left out when it cannot be resolved", text),
            "this is no address, and no name that can be resolved");
    for (unsigned i = 0; i < n; i++)
        prefix_add(cx, a, (struct decl_prefix){.ip = ips[i], .negated = e->negated, .entry = e},
            mask, all);
}

/* By address, then in the order of the text.  Equal prefixes end up beside each other, which
 * prefix_build() relies on. */
static int
prefix_compare(const void *one, const void *other)
{
    const struct decl_prefix *a = one, *b = other;
    int cmp = memcmp(a->ip.addr, b->ip.addr, sizeof(a->ip.addr));

    if (cmp != 0)
        return cmp;
    if (a->ip.is_v4 != b->ip.is_v4)
        return a->ip.is_v4 ? -1 : 1;
    if (a->bits != b->bits)
        return a->bits < b->bits ? -1 : 1;
    if (a->entry->pos.file != b->entry->pos.file)
        return a->entry->pos.file < b->entry->pos.file ? -1 : 1;
    /* The order of the text, so that the error stands at the second one. */
    return a->entry->pos.off < b->entry->pos.off ? -1 : a->entry->pos.off > b->entry->pos.off;
}

static bool
prefix_same(const struct decl_prefix *a, const struct decl_prefix *b)
{
    return a->bits == b->bits && a->ip.is_v4 == b->ip.is_v4 &&
           memcmp(a->ip.addr, b->ip.addr, sizeof(a->ip.addr)) == 0;
}

/* The same prefix twice says nothing new; with and without `!` it says nothing at all. */
static void
prefix_build(struct vcl_cx *cx, struct acl *tree, const struct decl_prefixes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct decl_prefix *one = &all->at[i];
        int err;

        /* Sorted, so that equal ones are neighbours: a list of a million is not searched for
         * each. */
        if (i > 0 && prefix_same(one, one - 1)) {
            unsigned line, column;

            vcl_pos_place(one[-1].entry->pos, &line, &column);
            if (one->negated != one[-1].negated)
                vcl_fail(cx, one->entry->pos, NULL,
                    "this address is there with and without !: see line %u", line);
            continue;
        }
        err = acl_add(tree, &one->ip, one->bits, one->negated);
        /* Those were passed over. */
        tassert(err != TERR_EXISTS);
        if (err < 0)
            cx->nomem = true;
    }
}

struct acl *
decl_acl(struct vcl_cx *cx, const struct ast_acl *a)
{
    struct decl_prefixes all = {NULL, 0, 0};
    const char *name = vcl_copy(cx, cx->scratch, a->name);
    /* The acl copies its name: scratch will do. */
    struct acl *tree = name == NULL ? NULL : acl_new(name, a->log);

    if (tree == NULL) {
        cx->nomem = true;
        return NULL;
    }
    for (const struct ast_acl_entry *e = a->entries; e != NULL && !cx->nomem; e = e->next)
        prefix_entry(cx, a, e, &all);
    if (all.n > 0)
        qsort(all.at, all.n, sizeof(*all.at), prefix_compare);
    if (!cx->nomem)
        prefix_build(cx, tree, &all);
    /* Also after an error, and without memory. */
    free(all.at);
    return tree;
}
