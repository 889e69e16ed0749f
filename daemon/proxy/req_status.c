/* req_status.c -- the lines of a response that say what became of the request here: Age,
 * Cache-Status (RFC 9211), the request's id, X-Varnish.
 *
 * They are written on every hit, so straight into their place, which is long enough for all. */
#include "daemon/http/field_line.h"
#include "daemon/proxy/req_priv.h"

enum {
    STATUS_MAX = 408, /* our lines at their longest, without the key: names of 64 bytes */
};
_Static_assert(
    EXCHANGE_EXTRA >= 160 + STATUS_MAX + ENTRY_KEY_SHOWN_MAX, "the protocol's lines fit too");

static inline char *
req_put(char *p, struct slice s)
{
    memcpy(p, s.ptr, s.len);
    return p + s.len;
}

/* What Cache-Status begins with on a hit.  With the usual name it has 29 bytes: both places are longer, and a copy
 * of a known length needs no call. */
static inline char *
req_put_hit(const struct proxy *proxy, char *p)
{
    if (__builtin_expect(proxy->hit_line.len <= 32, 1))
        memcpy(p, proxy->hit_text, 32);
    else
        memcpy(p, proxy->hit_text, proxy->hit_line.len);
    return p + proxy->hit_line.len;
}

/* Two digits at a time: most ages and times to live have four at most. */
static const char req_pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";

static char *
req_put_small(char *p, unsigned n)
{
    unsigned high = n / 100;

    tassert(n < 10000);
    if (high >= 10) {
        memcpy(p, req_pairs + 2 * (size_t)high, 2);
        p += 2;
    } else if (high > 0) {
        *p++ = (char)('0' + high);
    }
    n -= high * 100;
    if (high == 0 && n < 10) {
        *p = (char)('0' + n);
        return p + 1;
    }
    memcpy(p, req_pairs + 2 * (size_t)n, 2);
    return p + 2;
}

static char *
req_put_number(char *p, int64_t value)
{
    /* Without a sign, so that the smallest number has an absolute value, too. */
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned len = 1;

    if (value < 0)
        *p++ = '-';
    /* Most are below: a table of pairs costs half of what dividing digit by digit does. */
    if (n < 10000)
        return req_put_small(p, (unsigned)n);
    for (uint64_t bound = 10; n >= bound && len < 19; bound *= 10)
        len++;
    for (unsigned i = len; i-- > 0; n /= 10)
        p[i] = (char)('0' + n % 10);
    return p + len;
}

/* How long it is still fresh, in seconds; below 0: has been stale. */
static int64_t
req_ttl_s(const struct req *r)
{
    int64_t left =
        entry_ttl_ms(r->entry) - ((int64_t)r->proxy->loop->clock.mono_ms - r->entry->received_ms);

    /* Nothing that is stored is trusted (a node of a fleet that was cut off): its own time says nothing. */
    if (left >= 0 && (r->log_flags & SHMLOG_REQ_STALE) != 0) {
        left = -1 - cache_blind_for_ms(r->proxy->cache);
        left = left < 0 ? left : -1;
    }
    /* Rounded away from zero below it: what is stale must not read ttl=0. */
    return left < 0 ? -((999 - left) / 1000) : left / 1000;
}

static struct slice
req_forward_reason(const struct req *r)
{
    static const char *const names[] = {
        [CACHE_NOTHING_STORED] = "; fwd=uri-miss",
        [CACHE_OTHER_VARIANT] = "; fwd=vary-miss",
        [CACHE_IS_STALE] = "; fwd=stale",
        [CACHE_IS_PARTIAL] = "; fwd=partial",
        [CACHE_ASKED] = "; fwd=request",
        [CACHE_MARKED] = "; fwd=uri-miss",
        [CACHE_MARKED_PASS] = "; fwd=uri-miss",
    };

    tassert_slow((unsigned)r->attempt.reason < ARRAY_LEN(names));
    /* RFC 9211 2.2: the first reason that applies. */
    if (r->head->method != HTTP_M_GET && r->head->method != HTTP_M_HEAD)
        return SLICE_LIT("; fwd=method");
    if (r->attempt.choice == REQ_AS_ASKED && r->attempt.reason == CACHE_NOTHING_STORED)
        return SLICE_LIT("; fwd=bypass");
    return slice_str(names[r->attempt.reason]);
}

/* Only one may be said (RFC 9211 2.8). */
static struct slice
req_detail(const struct req *r)
{
    if (r->attempt.origin_failed) /* that one stands further on */
        return slice_of("", 0);
    /* Of an entry that is not private another loop may be writing the bit's neighbours. */
    if (entry_is_private(r->entry) && r->entry->set_cookie)
        return SLICE_LIT("; detail=set-cookie");
    if (r->attempt.reason == CACHE_MARKED || r->attempt.reason == CACHE_MARKED_PASS)
        return SLICE_LIT("; detail=uncacheable");
    return slice_of("", 0);
}

static char *
req_put_forwarded(const struct req *r, char *p)
{
    unsigned status = r->attempt.origin_failed ? r->attempt.failed_status : r->entry->origin_status;

    p = req_put(p, req_forward_reason(r));
    p = req_put(p, req_detail(r));
    if (status != 0) { /* 0: the next hop said nothing */
        p = FIELD_PUT(p, "; fwd-status=");
        p = req_put_number(p, status);
    }
    if (r->attempt.origin_failed)
        p = FIELD_PUT(p, "; detail=stale-if-error");
    /* What flows through a window is never found again. */
    else if (!entry_is_private(r->entry) && !r->entry->windowed)
        p = FIELD_PUT(p, "; stored");
    if (r->attempt.collapsed)
        p = FIELD_PUT(p, "; collapsed");
    if (!entry_is_private(r->entry) && !r->entry->windowed) {
        p = FIELD_PUT(p, "; ttl=");
        p = req_put_number(p, req_ttl_s(r));
    }
    return p;
}

/* Of nearly every hit: so each scheme has a copy of known length. */
static inline char *
req_put_key(const struct req *r, char *p)
{
    const struct entry *e = r->entry;

    if (!e->key_shows)
        return p;
    if (__builtin_expect(e->block->scheme == 1 + HTTP_SCHEME_HTTP, 1))
        p = FIELD_PUT(p, "; key=\"http://");
    else if (e->block->scheme == 1 + HTTP_SCHEME_HTTPS)
        p = FIELD_PUT(p, "; key=\"https://");
    else
        p = FIELD_PUT(p, "; key=\"");
    p = req_put(p, entry_key_rest(e));
    *p++ = '"';
    return p;
}

/* RFC 9211. */
static char *
req_put_cache_status(const struct req *r, char *p)
{
    /* A stale response in place of a failure was forwarded first, and says so. */
    if ((r->log_flags & SHMLOG_REQ_HIT) != 0 && !r->attempt.origin_failed) {
        p = req_put_hit(r->proxy, p);
        p = req_put_number(p, req_ttl_s(r));
    } else {
        p = FIELD_BEGIN(p, "Cache-Status");
        p = req_put(p, slice_str(r->proxy->params.http_via));
        p = req_put_forwarded(r, p);
    }
    return FIELD_END(req_put_key(r, p));
}

struct slice
req_cache_status(const struct req *r)
{
    const size_t front = sizeof("Cache-Status: ") - 1;
    char *line, *end;

    if (!r->proxy->params.http_cache_status)
        return slice_of("", 0);
    line = arena_alloc(&r->x->arena, STATUS_MAX + ENTRY_KEY_SHOWN_MAX);
    if (line == NULL)
        return slice_of("", 0);
    end = req_put_cache_status(r, line);
    return slice_of(line + front, (size_t)(end - line) - front - 2);
}

char *
req_put_absent(const struct req *r, const struct negative_answer *a, char *p)
{
    const struct proxy *proxy = r->proxy;

    p = FIELD_BEGIN(p, "Age");
    p = req_put_number(p, a->age_ms / 1000);
    p = FIELD_END(p);
    /* Age is not optional (RFC 9111 5.1), Cache-Status is. */
    if (!proxy->params.http_cache_status)
        return p;
    p = req_put_hit(proxy, p);
    p = req_put_number(p, a->left_ms / 1000);
    p = FIELD_PUT(p, "; detail=negative");
    return FIELD_END(p);
}

static char *
req_put_id(const struct req *r, char *p)
{
    static const char hex[] = "0123456789abcdef";

    p = req_put(p, slice_str(r->proxy->params.request_id_header));
    p = FIELD_PUT(p, ": ");
    /* As in the log: leading zeros too, so that all ids are found by one pattern. */
    for (unsigned i = 0; i < 16; i++)
        *p++ = hex[r->x->xid >> (60 - 4 * i) & 15];
    return FIELD_END(p);
}

/* As Varnish has it: a second number says that the response was there, and which request fetched it. */
char *
req_put_x_varnish(const struct req *r, char *p)
{
    uint64_t stored = r->entry != NULL ? entry_xid(r->entry) : 0;

    p = FIELD_BEGIN(p, "X-Varnish");
    p = req_put_number(p, (int64_t)(r->x->xid % POLICY_XID_MAX));
    if (stored != 0 && !entry_is_private(r->entry) &&
        ((r->log_flags & SHMLOG_REQ_HIT) != 0 || r->attempt.collapsed)) {
        *p++ = ' ';
        p = req_put_number(p, (int64_t)(stored % POLICY_XID_MAX));
    }
    return FIELD_END(p);
}

/* Apart, so that a response without them has one test for both. */
static __attribute__((noinline)) char *
req_put_ids(const struct req *r, char *p)
{
    if (r->proxy->params.request_id_header[0] != '\0')
        p = req_put_id(r, p);
    return req_says_x_varnish(r) ? req_put_x_varnish(r, p) : p;
}

void
req_extra_lines(struct req *r)
{
    const struct conf_params *params = &r->proxy->params;
    struct exchange *x = r->x;
    char *p = x->extra + x->extra_len;

    tassert(x->extra_len == 0);
    if (r->entry != NULL && !entry_is_private(r->entry)) {
        int64_t age = entry_age_s(r->entry, (int64_t)r->proxy->loop->clock.mono_ms);

        /* With a policy on every response that is stored, as Varnish does it. */
        if (age > 0 || (r->log_flags & SHMLOG_REQ_HIT) != 0 || r->policy.ref != NULL) {
            p = FIELD_BEGIN(p, "Age");
            p = req_put_number(p, age);
            p = FIELD_END(p);
        }
    }
    if (r->entry != NULL && params->http_cache_status)
        p = req_put_cache_status(r, p);
    if (r->proxy->says_ids)
        p = req_put_ids(r, p);
    x->extra_len = (uint16_t)(p - x->extra);
    tassert(x->extra_len <= EXCHANGE_EXTRA - 160);
}
