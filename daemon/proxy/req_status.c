/* req_status.c -- the lines of a response that say what became of the request here: Age,
 * Cache-Status (RFC 9211), the request's id. */
#include "daemon/proxy/req_priv.h"

enum {
    STATUS_KEY_MAX = 200, /* a longer key is not shown */
};

static void
req_add_line(struct exchange *x, struct slice name, struct slice value)
{
    size_t len = name.len + value.len + 4;
    char *p = x->extra + x->extra_len;

    if (x->extra_len + len > EXCHANGE_EXTRA - 160)
        return; /* the protocol's own lines come first */
    memcpy(p, name.ptr, name.len);
    p += name.len;
    *p++ = ':';
    *p++ = ' ';
    memcpy(p, value.ptr, value.len);
    p += value.len;
    *p++ = '\r';
    *p = '\n';
    x->extra_len += (uint16_t)len;
}

static struct slice
req_decimal(char buf[24], int64_t value)
{
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char *p = buf + 24;

    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    if (value < 0)
        *--p = '-';
    return slice_of(p, (size_t)(buf + 24 - p));
}

struct req_line {
    char *next, *end;
};

static void
req_put(struct req_line *l, struct slice s)
{
    if (s.len > (size_t)(l->end - l->next))
        return;
    memcpy(l->next, s.ptr, s.len);
    l->next += s.len;
}

static void
req_put_number(struct req_line *l, struct slice name, int64_t n)
{
    char buf[24];

    req_put(l, name);
    req_put(l, req_decimal(buf, n));
}

/* How long it is still fresh, in seconds; below 0: has been stale. */
static int64_t
req_ttl_s(const struct req *r)
{
    int64_t left = r->entry->ttl_ms - (r->proxy->loop->clock.wall_ms - r->entry->received_ms);

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
        [CACHE_MARKED] = "; fwd=uri-miss; detail=uncacheable",
    };

    if (r->x->head.method != HTTP_M_GET && r->x->head.method != HTTP_M_HEAD)
        return SLICE_LIT("; fwd=method");
    return slice_str(names[r->reason]);
}

static void
req_put_forwarded(const struct req *r, struct req_line *l)
{
    req_put(l, req_forward_reason(r));
    req_put_number(l, SLICE_LIT("; fwd-status="), r->entry->origin_status);
    if (!r->entry->is_private)
        req_put(l, SLICE_LIT("; stored"));
    if (r->collapsed)
        req_put(l, SLICE_LIT("; collapsed"));
    if (!r->entry->is_private)
        req_put_number(l, SLICE_LIT("; ttl="), req_ttl_s(r));
}

/* A quote in the key would end the string (RFC 8941 3.3.3): then it is not shown. */
static void
req_put_key(const struct req *r, struct req_line *l)
{
    struct slice key = entry_key_text(r->entry);

    if (key.len == 0 || key.len > STATUS_KEY_MAX || memchr(key.ptr, '"', key.len) != NULL)
        return;
    req_put(l, SLICE_LIT("; key=\""));
    req_put(l, key);
    req_put(l, SLICE_LIT("\""));
}

/* RFC 9211. */
static void
req_cache_status(struct req *r)
{
    char text[STATUS_KEY_MAX + 200];
    struct req_line l = {text, text + sizeof(text)};

    req_put(&l, slice_str(r->proxy->conf->params.http_via));
    if ((r->log_flags & SHMLOG_REQ_HIT) != 0) {
        req_put_number(&l, SLICE_LIT("; hit; ttl="), req_ttl_s(r));
        if (r->origin_failed)
            req_put(&l, SLICE_LIT("; detail=stale-if-error"));
    } else {
        req_put_forwarded(r, &l);
    }
    req_put_key(r, &l);
    req_add_line(r->x, SLICE_LIT("Cache-Status"), slice_of(text, (size_t)(l.next - text)));
}

void
req_extra_lines(struct req *r)
{
    const struct conf_params *params = &r->proxy->conf->params;
    struct exchange *x = r->x;
    char buf[24];

    if (r->entry != NULL && !r->entry->is_private) {
        int64_t age = entry_age_s(r->entry, r->proxy->loop->clock.wall_ms);

        if (age > 0 || (r->log_flags & SHMLOG_REQ_HIT) != 0)
            req_add_line(x, SLICE_LIT("Age"), req_decimal(buf, age));
    }
    if (r->entry != NULL && params->http_cache_status)
        req_cache_status(r);
    if (params->request_id_header[0] != '\0') {
        static const char hex[] = "0123456789abcdef";

        for (unsigned i = 0; i < 16; i++)
            buf[i] = hex[x->xid >> (60 - 4 * i) & 15];
        req_add_line(x, slice_str(params->request_id_header), slice_of(buf, 16));
    }
}
