/* vcl_check_node.c -- typed expressions: how they are made, put together, converted.
 *
 * What is known at load is computed here: two literals are one, a number's text is its string.
 */
#include "vcl-lite/vcl_sema.h"

#include <arpa/inet.h>
#include <string.h>

#include "vcl-lite/vcl_machine.h"

enum {
    NODE_ADDRESSES = 8
}; /* of a name: the first is taken */

struct sema_node *
sema_node(struct sema *s, unsigned op, enum vcl_type type, struct vcl_pos pos)
{
    struct sema_node *n = vcl_alloc(s->cx, s->cx->scratch, sizeof(*n));

    if (n == NULL)
        return NULL;
    /* Zeroed otherwise: a node without kids or operands needs no more. */
    n->op = op;
    n->type = type;
    n->pos = pos;
    return n;
}

static bool
sema_adopt(struct sema *s, struct sema_node *n, unsigned nkids)
{
    n->kids = vcl_alloc(s->cx, s->cx->scratch, nkids * sizeof(struct sema_node *));
    n->nkids = n->kids == NULL ? 0 : nkids;
    return n->kids != NULL;
}

struct sema_node *
sema_node1(struct sema *s, unsigned op, enum vcl_type type, struct sema_node *kid)
{
    struct sema_node *n;

    /* NULL passes through: the error was reported where it arose, and its expression ends
     * silently. */
    if (kid == NULL)
        return NULL;
    n = sema_node(s, op, type, kid->pos);
    if (n == NULL || !sema_adopt(s, n, 1))
        return NULL;
    n->kids[0] = kid;
    return n;
}

struct sema_node *
sema_node2(struct sema *s, unsigned op, enum vcl_type type, struct sema_node *left,
    struct sema_node *right)
{
    struct sema_node *n;

    if (left == NULL || right == NULL)
        return NULL;
    n = sema_node(s, op, type, left->pos);
    if (n == NULL || !sema_adopt(s, n, 2))
        return NULL;
    n->kids[0] = left;
    n->kids[1] = right;
    return n;
}

struct sema_node *
sema_const_int(struct sema *s, enum vcl_type type, int64_t i, struct vcl_pos pos)
{
    struct sema_node *n = sema_node(s, VCL_OP_CONST, type, pos);

    if (n != NULL)
        n->value.i = i;
    return n;
}

struct sema_node *
sema_const_real(struct sema *s, enum vcl_type type, double r, struct vcl_pos pos)
{
    struct sema_node *n = sema_node(s, VCL_OP_CONST, type, pos);

    if (n != NULL)
        n->value.r = r;
    return n;
}

struct sema_node *
sema_const_string(struct sema *s, struct slice text, struct vcl_pos pos)
{
    struct sema_node *n = sema_node(s, VCL_OP_CONST, VCL_TYPE_STRING, pos);

    if (n != NULL) {
        /* NULL would be an unset string, which no literal is. */
        n->value.s = text.ptr != NULL ? text.ptr : "";
        n->value.len = text.len;
    }
    return n;
}

bool
sema_is_const(const struct sema_node *n)
{
    return n->op == VCL_OP_CONST;
}

/* --- strings put together --- */

bool
sema_is_const_string(const struct sema_node *n)
{
    return sema_is_const(n) && n->type == VCL_TYPE_STRING && n->value.s != NULL;
}

/* Two literals, as one. */
static struct sema_node *
sema_join(struct sema *s, const struct sema_node *left, const struct sema_node *right)
{
    size_t len = left->value.len + right->value.len;
    char *text = vcl_alloc(s->cx, s->cx->scratch, len + 1);

    if (text == NULL)
        return NULL;
    memcpy(text, left->value.s, left->value.len);
    memcpy(text + left->value.len, right->value.s, right->value.len);
    return sema_const_string(s, (struct slice){text, len}, left->pos);
}

/* Parts of a concatenation; a node that is none is one part. */
static unsigned
sema_parts(struct sema_node **n, struct sema_node ***parts)
{
    /* Taken apart again: a + b + c is one instruction with three parts, and one allocation when it
     * runs. */
    bool many = (*n)->op == VCL_OP_CONCAT;

    *parts = many ? (*n)->kids : n;
    return many ? (*n)->nkids : 1;
}

struct sema_node *
sema_concat(struct sema *s, struct sema_node *left, struct sema_node *right)
{
    struct sema_node *n, *joined, **lparts, **rparts;
    unsigned nl, nr;

    if (left == NULL || right == NULL)
        return NULL;
    nl = sema_parts(&left, &lparts);
    nr = sema_parts(&right, &rparts);
    /* Only neighbours: what stands between two literals is computed. */
    if (sema_is_const_string(lparts[nl - 1]) && sema_is_const_string(rparts[0])) {
        joined = sema_join(s, lparts[nl - 1], rparts[0]);
        /* Two literals alone are a literal, and may be a pattern. */
        if (joined == NULL || (nl == 1 && nr == 1))
            return joined;
        nl--;
    } else {
        joined = rparts[0];
    }
    n = sema_node(s, VCL_OP_CONCAT, VCL_TYPE_STRING, left->pos);
    if (n == NULL || !sema_adopt(s, n, nl + nr))
        return NULL;
    memcpy(n->kids, lparts, nl * sizeof(struct sema_node *));
    memcpy(n->kids + nl, rparts, nr * sizeof(struct sema_node *));
    /* Over the first of the right side, which is part of it now, or is itself. */
    n->kids[nl] = joined;
    return n;
}

/* --- conversions --- */

static struct sema_node *
sema_to_string(struct sema *s, struct sema_node *n)
{
    static const uint8_t ops[] = {
        [VCL_TYPE_INT] = VCL_OP_INT_STR,
        [VCL_TYPE_BYTES] = VCL_OP_INT_STR,
        [VCL_TYPE_REAL] = VCL_OP_REAL_STR,
        [VCL_TYPE_DURATION] = VCL_OP_REAL_STR,
        [VCL_TYPE_TIME] = VCL_OP_TIME_STR,
        [VCL_TYPE_BOOL] = VCL_OP_BOOL_STR,
        [VCL_TYPE_IP] = VCL_OP_IP_STR,
        [VCL_TYPE_BACKEND] = VCL_OP_BACKEND_STR,
        [VCL_TYPE_STEVEDORE] = VCL_OP_STORAGE_STR,
        [VCL_TYPE_ENUM] = 0,
    };
    const char *text;

    /* No string stands for it, as for an ACL. */
    if (ops[n->type] == 0)
        return NULL;
    if (!sema_is_const(n))
        return sema_node1(s, ops[n->type], VCL_TYPE_STRING, n);
    if (n->type == VCL_TYPE_INT || n->type == VCL_TYPE_BYTES)
        text = vcl_text(s->cx, "%lld", (long long)n->value.i);
    /* An IP or a TIME that is known: made by the machine, in one place. */
    else if (n->type == VCL_TYPE_BOOL)
        text = n->value.i != 0 ? "true" : "false";
    else if (n->type == VCL_TYPE_REAL || n->type == VCL_TYPE_DURATION)
        /* As the machine writes it (vcl_format_real). */
        text = vcl_text(s->cx, "%.3f", n->value.r);
    else
        return sema_node1(s, ops[n->type], VCL_TYPE_STRING, n);
    return sema_const_string(s, (struct slice){text, strlen(text)}, n->pos);
}

/* Is a string set?  A concatenation is when one of its parts is. */
static struct sema_node *
sema_string_to_bool(struct sema *s, struct sema_node *n)
{
    struct sema_node *any = NULL;

    /* "" is set, too. */
    if (sema_is_const_string(n))
        return sema_const_int(s, VCL_TYPE_BOOL, 1, n->pos);
    if (n->op != VCL_OP_CONCAT)
        return sema_node1(s, VCL_OP_STR_BOOL, VCL_TYPE_BOOL, n);
    /* As conditions with jumps: nothing is put together for the answer. */
    for (unsigned i = 0; i < n->nkids; i++) {
        struct sema_node *one = sema_string_to_bool(s, n->kids[i]);

        any = any == NULL ? one : sema_node2(s, SEMA_OR, VCL_TYPE_BOOL, any, one);
    }
    return any;
}

static struct sema_node *
sema_to_bool(struct sema *s, struct sema_node *n)
{
    switch ((unsigned)n->type) {
    case VCL_TYPE_STRING:
        return sema_string_to_bool(s, n);
    /* A REAL has no row: what is nearly 0 would be true. It is to be compared
     * (sema_convert_hint). */
    case VCL_TYPE_INT:
        if (sema_is_const(n))
            return sema_const_int(s, VCL_TYPE_BOOL, n->value.i != 0, n->pos);
        return sema_node1(s, VCL_OP_INT_BOOL, VCL_TYPE_BOOL, n);
    case VCL_TYPE_DURATION:
        return sema_node1(s, VCL_OP_REAL_BOOL, VCL_TYPE_BOOL, n);
    case VCL_TYPE_BACKEND:
        return sema_node1(s, VCL_OP_PTR_BOOL, VCL_TYPE_BOOL, n);
    default:
        return NULL;
    }
}

static bool
sema_numeric_ip(const char *text, struct vcl_ip *ip)
{
    *ip = (struct vcl_ip){.is_v4 = false};
    /* The order does not matter: no text is both. */
    if (inet_pton(AF_INET6, text, ip->addr) == 1)
        return true;
    ip->addr[10] = ip->addr[11] = 0xff;
    ip->is_v4 = true;
    return inet_pton(AF_INET, text, ip->addr + 12) == 1;
}

struct sema_node *
sema_to_ip(struct sema *s, struct sema_node *n)
{
    const struct vcl_loader *loader = s->cx->loader;
    struct sema_node *ip = sema_node(s, VCL_OP_CONST, VCL_TYPE_IP, n->pos);
    struct vcl_ip *kept = vcl_alloc(s->cx, s->cx->keep, sizeof(*kept)), found[NODE_ADDRESSES];
    const char *name = vcl_copy(s->cx, s->cx->scratch, (struct slice){n->value.s, n->value.len});

    if (ip == NULL || kept == NULL || name == NULL)
        return NULL;
    ip->value.ip = kept;
    if (sema_numeric_ip(name, kept))
        return ip;
    /* inet_pton(3) may have written into it before it gave up. */
    *kept = (struct vcl_ip){.port = 0};
    if (vcl_endpoint_parse(slice_str(name), kept)) /* "192.0.2.1:80", "[2001:db8::1]:80" */
        return ip;
    if (loader->resolve == NULL || loader->resolve(loader->ctx, name, found, NODE_ADDRESSES) == 0) {
        vcl_fail(s->cx, n->pos, "write a numeric address, as \"192.0.2.1\" or \"192.0.2.1:80\"",
            "'%s' is not an IP address, nor the name of one", name);
        return NULL;
    }
    /* Resolved once, at the load: a run never waits for a name server. */
    *kept = found[0];
    return ip;
}

static const char *
sema_convert_hint(enum vcl_type from, enum vcl_type to)
{
    if (from == VCL_TYPE_INT && to == VCL_TYPE_DURATION)
        return "a DURATION has a unit: 10s, 5m, 1h, 2d";
    if (from == VCL_TYPE_INT && to == VCL_TYPE_BYTES)
        return "BYTES have a unit: 1B, 10KB, 2MB";
    if (from == VCL_TYPE_REAL && to == VCL_TYPE_BOOL)
        return "compare it: x != 0.0";
    if (from == VCL_TYPE_STRING && to == VCL_TYPE_INT)
        return "std.integer(x, fallback) makes an INT of it";
    if (from == VCL_TYPE_STRING && to == VCL_TYPE_DURATION)
        return "std.duration(x, fallback) makes a DURATION of it";
    if (from == VCL_TYPE_STRING && to == VCL_TYPE_IP)
        return "std.ip(x, fallback) makes an IP of it";
    if (from == VCL_TYPE_STRING && to == VCL_TYPE_BACKEND)
        return "write a backend's name without quotes";
    return NULL;
}

struct sema_node *
sema_convert(struct sema *s, struct sema_node *n, enum vcl_type want, struct vcl_pos at)
{
    struct sema_node *made = NULL;

    /* VOID: any type will do. */
    if (n == NULL || want == VCL_TYPE_VOID || n->type == want)
        return n;
    if (want == VCL_TYPE_STRING || want == VCL_TYPE_BODY)
        made = n->type == VCL_TYPE_STRING ? n : sema_to_string(s, n);
    else if (want == VCL_TYPE_BOOL)
        made = sema_to_bool(s, n);
    else if (want == VCL_TYPE_REAL && n->type == VCL_TYPE_INT && sema_is_const(n))
        made = sema_const_real(s, VCL_TYPE_REAL, (double)n->value.i, n->pos);
    else if (want == VCL_TYPE_IP && sema_is_const_string(n))
        /* It has reported what is wrong by itself. */
        return sema_to_ip(s, n);
    /* Without memory there is no error of the text to report. */
    if (made == NULL && !s->cx->nomem)
        vcl_fail(s->cx, at, sema_convert_hint(n->type, want), "expression has type %s, expected %s",
            sema_type_name(n->type), sema_type_name(want));
    return made;
}
