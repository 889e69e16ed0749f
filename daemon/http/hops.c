/* hops.c -- the client that a trusted proxy asks for. */
#include "daemon/http/hops.h"

#include <string.h>

#include "daemon/http/token.h"

/* Members from the last one on.  From the front an unclosed quote would hide what
 * honest proxies appended behind it. */
struct hops_back {
    const struct http_message *h;
    enum http_field_id field;
    unsigned line;     /* fields not yet looked at */
    struct slice rest; /* of the one being looked at */
};

/* The last member of what is left, trimmed; perhaps empty. */
static struct slice
hops_cut_last(struct hops_back *b)
{
    size_t at = b->rest.len;
    bool quoted = false;
    struct slice member;

    for (; at > 0 && (quoted || b->rest.ptr[at - 1] != ','); at--)
        if (b->rest.ptr[at - 1] == '"' && b->field == HTTP_F_FORWARDED)
            quoted = !quoted;
    if (quoted) { /* it never began: no honest proxy wrote that */
        b->rest.len = b->line = 0;
        return b->rest;
    }
    member = http_trim(slice_of(b->rest.ptr + at, b->rest.len - at));
    b->rest.len = at > 0 ? at - 1 : 0;
    return member;
}

/* False: there are no more. */
static bool
hops_prev(struct hops_back *b, struct slice *member)
{
    for (;;) {
        while (b->rest.len > 0) {
            *member = hops_cut_last(b);
            if (member->len > 0)
                return true;
        }
        if (b->line == 0)
            return false;
        b->line--;
        if (b->h->fields[b->line].id == (uint8_t)b->field && !b->h->fields[b->line].drop)
            b->rest = http_value(b->h, &b->h->fields[b->line]);
    }
}

/* "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80". */
static bool
hops_address(struct slice s, uint8_t addr[16])
{
    const char *end = s.ptr + s.len, *close, *colon;

    if (s.len > 0 && s.ptr[0] == '[') {
        close = memchr(s.ptr, ']', s.len);
        if (close == NULL || (close + 1 != end && close[1] != ':'))
            return false;
        s = slice_of(s.ptr + 1, (size_t)(close - s.ptr) - 1);
        return memchr(s.ptr, ':', s.len) != NULL && address_read(s.ptr, s.len, addr);
    }
    colon = s.len > 0 ? memchr(s.ptr, ':', s.len) : NULL;
    if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon) - 1) == NULL)
        s.len = (size_t)(colon - s.ptr);
    return address_read(s.ptr, s.len, addr);
}

/* RFC 7239 4: one parameter ("for=") of an element, as a token or a quoted string; .ptr NULL: none,
 * or two. */
static struct slice
hops_forwarded(struct slice element, struct slice name)
{
    struct slice found = slice_of(NULL, 0);

    while (element.ptr != NULL) {
        struct slice pair = http_cut(&element, ';');

        if (pair.len < name.len || !slice_eq_nocase(slice_of(pair.ptr, name.len), name))
            continue;
        if (found.ptr != NULL)
            return slice_of(NULL, 0);
        found = slice_of(pair.ptr + name.len, pair.len - name.len);
    }
    if (found.len >= 2 && found.ptr[0] == '"' && found.ptr[found.len - 1] == '"')
        found = slice_of(found.ptr + 1, found.len - 2); /* neither needs a backslash */
    return found;
}

static bool
hops_member(struct slice member, enum http_field_id field, uint8_t addr[16])
{
    if (field == HTTP_F_FORWARDED)
        member = hops_forwarded(member, SLICE_LIT("for="));
    return member.ptr != NULL && hops_address(member, addr);
}

void
hops_of_request(const struct http_message *h, enum http_field_id field,
    const struct address_nets *trusted, const uint8_t peer[16], struct hops *out)
{
    struct hops_back back = {.h = h, .field = field, .line = h->nfields};
    uint8_t walk[HOPS_MAX][16]; /* the peer first */
    struct slice member;
    bool https = false, reads = true;
    unsigned n = 1;

    memcpy(walk[0], peer, sizeof(walk[0]));
    if (field != HTTP_F_FORWARDED && address_in(trusted, peer))
        https = slice_eq(http_get_one(h, HTTP_F_X_FORWARDED_PROTO), SLICE_LIT("https"));
    /* Only what a trusted hop appended counts, so it ends at the first that is not trusted: what
     * stands in front of that the client may have made up. */
    while (reads && n < HOPS_MAX && address_in(trusted, walk[n - 1]) && hops_prev(&back, &member)) {
        if (field == HTTP_F_FORWARDED)
            https = slice_eq(hops_forwarded(member, SLICE_LIT("proto=")), SLICE_LIT("https"));
        reads = hops_member(member, field, walk[n]);
        n += reads;
    }
    out->n = n;
    out->https = https;
    for (unsigned i = 0; i < n; i++)
        memcpy(out->addr[i], walk[n - 1 - i], sizeof(walk[0]));
}
