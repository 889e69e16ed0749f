/* uri.c -- request targets and authorities. */
#include "daemon/http/uri.h"

#include <arpa/inet.h>
#include <ctype.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/head_out.h"
#include "daemon/http/token.h"

static const struct {
    const char *name;
    struct slice prefix;
    uint16_t port;
} http_schemes[] = {
    [HTTP_SCHEME_HTTP] = {"http", {"http://", 7}, 80},
    [HTTP_SCHEME_HTTPS] = {"https", {"https://", 8}, 443},
};

const char *
http_scheme_name(enum http_scheme s)
{
    tassert(s == HTTP_SCHEME_HTTP || s == HTTP_SCHEME_HTTPS);
    return http_schemes[s].name;
}

struct slice
http_scheme_prefix(enum http_scheme s)
{
    tassert(s == HTTP_SCHEME_HTTP || s == HTTP_SCHEME_HTTPS);
    return http_schemes[s].prefix;
}

static uint16_t
http_scheme_port(enum http_scheme s)
{
    tassert(s == HTTP_SCHEME_HTTP || s == HTTP_SCHEME_HTTPS);
    return http_schemes[s].port;
}

/* The length of "[IPv6]" at the start, or TERR_SYNTAX.  IPvFuture and zones are refused. */
static int
http_ip_literal(struct slice text)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *end = memchr(text.ptr, ']', text.len);
    size_t len;

    if (end == NULL)
        return TERR_SYNTAX;
    len = (size_t)(end - text.ptr) - 1;
    if (len >= sizeof(address))
        return TERR_SYNTAX;
    memcpy(address, text.ptr + 1, len);
    address[len] = '\0';
    /* A NUL would end the text for inet_pton(), and hide what follows. */
    if (memchr(address, '\0', len) != NULL || inet_pton(AF_INET6, address, &parsed) != 1)
        return TERR_SYNTAX;
    return (int)len + 2;
}

static unsigned
http_hex(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* "%41": of what may stand in a name, or is no ASCII.  One that hides a delimiter or a control byte is
 * refused: a hop that decodes it would see another authority. */
static bool
http_is_escape(struct slice s)
{
    unsigned c;

    if (s.len < 3 || s.ptr[0] != '%' || !isxdigit((unsigned char)s.ptr[1]) ||
        !isxdigit((unsigned char)s.ptr[2]))
        return false;
    c = http_hex(s.ptr[1]) * 16 + http_hex(s.ptr[2]);
    return c >= 0x80 || http_char_is((char)c, HTTP_C_NAME);
}

/* The length of the host name at the start, or TERR_SYNTAX: RFC 3986's reg-name, without empty labels
 * (dropping a trailing dot must leave a name without one).  An escape stays as it is: what is keyed
 * is what is forwarded. */
static int
http_host_name(struct slice text)
{
    size_t i;

    for (i = 0; i < text.len && text.ptr[i] != ':'; i++) {
        if (i == HTTP_HOST_MAX)
            return TERR_SYNTAX;
        if (!http_char_is(text.ptr[i], HTTP_C_NAME) &&
            !http_is_escape(slice_of(text.ptr + i, text.len - i)))
            return TERR_SYNTAX;
        if (text.ptr[i] == '.' && (i == 0 || text.ptr[i - 1] == '.'))
            return TERR_SYNTAX;
    }
    return i == 0 ? TERR_SYNTAX : (int)i;
}

int
http_authority_parse(struct slice text, struct http_authority *out)
{
    struct slice port;
    uint64_t number = 0;
    int len;

    if (text.len == 0)
        return TERR_SYNTAX;
    len = text.ptr[0] == '[' ? http_ip_literal(text) : http_host_name(text);
    if (len < 0)
        return len;
    port = slice_of(text.ptr + len, text.len - (size_t)len);
    if (port.len > 0 && port.ptr[0] != ':')
        return TERR_SYNTAX;
    if (port.len > 1) { /* "h:" means the scheme's port, RFC 3986 3.2.3 */
        if (http_parse_decimal(slice_of(port.ptr + 1, port.len - 1), &number) < 0)
            return TERR_SYNTAX;
        if (number > UINT16_MAX)
            return TERR_SYNTAX;
    }
    out->host = slice_of(text.ptr, (size_t)len);
    out->port = (uint16_t)number;
    out->has_port = port.len > 1;
    return 0;
}

static size_t
http_write_port(uint16_t port, char *out)
{
    char digits[5];
    size_t n = 0, i;

    do {
        digits[n++] = (char)('0' + port % 10);
        port /= 10;
    } while (port > 0);
    out[0] = ':';
    for (i = 0; i < n; i++)
        out[1 + i] = digits[n - 1 - i];
    return n + 1;
}

/* RFC 3986 6.2.2.1 and 6.2.3: lower case, no port that the scheme implies, and no trailing dot,
 * which names the same host.  Keys and backends compare these bytes, so two spellings must not be
 * two. */
int
http_authority_normal(struct slice text, enum http_scheme scheme, struct span out)
{
    struct http_authority a;
    size_t i, len;
    int err = http_authority_parse(text, &a);

    if (err < 0)
        return err;
    if (a.host.ptr[a.host.len - 1] == '.')
        a.host.len--;
    if (out.len < a.host.len + 6)
        return TERR_LIMIT;
    for (i = 0; i < a.host.len; i++) {
        char c = a.host.ptr[i];

        out.ptr[i] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
    }
    len = a.host.len;
    if (a.has_port && a.port != http_scheme_port(scheme))
        len += http_write_port(a.port, out.ptr + len);
    tassert(len > 0 && len <= HTTP_AUTHORITY_MAX);
    return (int)len;
}

/* http://host/path: sets path and host, or TERR_SYNTAX. */
static int
http_target_absolute(struct http_message *h, enum http_scheme *scheme)
{
    struct slice target = http_slice(h, h->target_off, h->target_len);
    enum http_scheme s = HTTP_SCHEME_HTTP;
    struct http_authority a;
    size_t start, end;

    /* Only the fifth byte differs; the whole prefix is compared below. */
    if (target.len > 4 && (target.ptr[4] == 's' || target.ptr[4] == 'S'))
        s = HTTP_SCHEME_HTTPS;
    start = http_schemes[s].prefix.len;
    if (target.len < start || !slice_eq_nocase(slice_of(target.ptr, start), http_schemes[s].prefix))
        return TERR_SYNTAX;
    for (end = start; end < target.len && target.ptr[end] != '/'; end++) {
        /* "http://h?x": some read a query here, some a host. */
        if (target.ptr[end] == '?')
            return TERR_SYNTAX;
    }
    if (http_authority_parse(slice_of(target.ptr + start, end - start), &a) < 0)
        return TERR_SYNTAX;
    h->authority_off = (uint16_t)(h->target_off + start);
    h->authority_len = (uint16_t)(end - start);
    h->path_off = (uint16_t)(h->target_off + end);
    h->path_len = (uint16_t)(target.len - end);
    *scheme = s;
    return 0;
}

/* Is it an authority?  A connection mostly repeats one Host, and comparing is a tenth of parsing.
 * Only good ones are remembered (invariant 20). */
static int
http_host_check(struct slice host, struct http_host_memo *memo)
{
    struct http_authority a;

    if (memo != NULL && host.len == memo->len && host.len > 0 &&
        memcmp(host.ptr, memo->text, host.len) == 0)
        return 0;
    if (http_authority_parse(host, &a) < 0)
        return TERR_SYNTAX;
    if (memo != NULL && host.len <= sizeof(memo->text)) {
        memcpy(memo->text, host.ptr, host.len);
        memo->len = host.len;
    }
    return 0;
}

/* The Host field into authority_off and authority_len, or TERR_SYNTAX (RFC 9112 3.2). */
static int
http_target_host(struct http_message *h, struct http_host_memo *memo)
{
    const struct http_field *f = http_find(h, HTTP_F_HOST, NULL);

    h->authority_off = h->authority_len = 0;
    if (f == NULL)
        return http_is_1_0(h) ? 0 : TERR_SYNTAX;
    if (http_find(h, HTTP_F_HOST, f) != NULL || http_host_check(http_value(h, f), memo) < 0)
        return TERR_SYNTAX;
    h->authority_off = f->value_off;
    h->authority_len = f->value_len;
    return 0;
}

int
http_target_parse(struct http_message *h, enum http_scheme *scheme)
{
    return http_target_parse_memo(h, scheme, NULL);
}

/* Host is checked also where an absolute target replaces it (RFC 9112 3.2, 3.2.2): a request with a
 * bad one is a 400, and another hop might heed that one. */
int
http_target_parse_memo(
    struct http_message *h, enum http_scheme *scheme, struct http_host_memo *memo)
{
    struct slice target = http_slice(h, h->target_off, h->target_len);

    if (!http_target_bytes_ok(target))
        return TERR_SYNTAX;
    if (h->method == HTTP_M_CONNECT) /* no tunnels: RFC 9110 9.3.6 */
        return TERR_METHOD;
    if (http_target_host(h, memo) < 0)
        return TERR_SYNTAX;
    if (target.ptr[0] == '/' || (target.len == 1 && target.ptr[0] == '*')) {
        if (target.ptr[0] == '*' && h->method != HTTP_M_OPTIONS)
            return TERR_SYNTAX;
        h->path_off = h->target_off;
        h->path_len = h->target_len;
        return 0;
    }
    return http_target_absolute(h, scheme);
}

/* What stands before the first of `set`; *s keeps the rest, that byte included. */
static struct slice
http_uri_cut(struct slice *s, const char *set)
{
    struct slice piece = {s->ptr, 0};

    while (piece.len < s->len && (s->ptr[piece.len] == '\0' || !strchr(set, s->ptr[piece.len])))
        piece.len++;
    *s = slice_of(s->ptr + piece.len, s->len - piece.len);
    return piece;
}

static bool
http_uri_begins(struct slice s, struct slice with)
{
    return s.len >= with.len && slice_eq(slice_of(s.ptr, with.len), with);
}

/* Takes a scheme from the start of *ref, if it has one.  1; 0: one that is not ours. */
static int
http_uri_scheme(struct slice *ref, enum http_scheme *scheme)
{
    struct slice rest = *ref, name = http_uri_cut(&rest, ":/?");

    if (rest.len == 0 || rest.ptr[0] != ':')
        return 1;
    if (slice_eq_nocase(name, SLICE_LIT("http")))
        *scheme = HTTP_SCHEME_HTTP;
    else if (slice_eq_nocase(name, SLICE_LIT("https")))
        *scheme = HTTP_SCHEME_HTTPS;
    else
        return 0;
    *ref = slice_of(rest.ptr + 1, rest.len - 1);
    return http_uri_begins(*ref, SLICE_LIT("//")) ? 1 : TERR_SYNTAX; /* RFC 9110 4.2.1 */
}

/* Takes "//authority" from the start of *ref.  1 when it is `authority`, 0, or TERR_SYNTAX. */
static int
http_uri_authority(struct slice *ref, enum http_scheme scheme, struct slice authority)
{
    char normal[HTTP_AUTHORITY_MAX + 6];
    struct slice text;
    int len;

    *ref = slice_of(ref->ptr + 2, ref->len - 2);
    text = http_uri_cut(ref, "/?");
    len = http_authority_normal(text, scheme, (struct span){normal, sizeof(normal)});
    if (len < 0)
        return TERR_SYNTAX;
    return slice_eq(slice_of(normal, (size_t)len), authority);
}

/* Writes "/" and each segment of `path`, which lacks its first "/", and removes dot segments
 * (RFC 3986 5.2.4).  `ends`: nothing comes behind, so that a last dot leaves its "/". */
static void
http_uri_put_segments(struct head_out *o, struct slice path, bool ends)
{
    for (;;) { /* each turn takes a "/" from path, or is the last */
        struct slice segment = http_uri_cut(&path, "/");
        bool up = slice_eq(segment, SLICE_LIT(".."));
        bool dots = up || slice_eq(segment, SLICE_LIT("."));

        while (up && o->next > o->start) {
            o->next--;
            if (*o->next == '/')
                break;
        }
        if (!dots || (ends && path.len == 0))
            HEAD_OUT_LIT(o, "/");
        if (!dots)
            head_out_put(o, segment);
        if (path.len == 0)
            return;
        path = slice_of(path.ptr + 1, path.len - 1);
    }
}

/* A path that does not begin with "/" stands beside the base's last segment. */
static void
http_uri_put_beside(struct head_out *o, struct slice base, struct slice path)
{
    const char *slash = memrchr(base.ptr, '/', base.len);

    tassert(slash != NULL);
    if (slash > base.ptr)
        http_uri_put_segments(o, slice_of(base.ptr + 1, (size_t)(slash - base.ptr) - 1), false);
    http_uri_put_segments(o, path, true);
}

/* RFC 3986 5.2.2, for the paths that a response may name as changed: what is of another authority
 * comes to nothing.  An empty path keeps that of the base, and a reference of nothing but a
 * fragment the base's query too. */
int
http_uri_resolve(struct slice authority, struct slice path, struct slice reference, struct span out)
{
    struct head_out o = head_out_begin(out);
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct slice query = path, base = http_uri_cut(&query, "?"); /* RFC 3986's Base */
    struct slice ref = http_uri_cut(&reference, "#"), ref_path;
    bool elsewhere;
    int err;

    if (!http_uri_begins(base, SLICE_LIT("/")) || (ref.len > 0 && !http_target_bytes_ok(ref)))
        return TERR_SYNTAX;
    err = http_uri_scheme(&ref, &scheme);
    if (err <= 0)
        return err;
    elsewhere = http_uri_begins(ref, SLICE_LIT("//"));
    if (elsewhere) {
        err = http_uri_authority(&ref, scheme, authority);
        if (err <= 0)
            return err;
    }
    if (elsewhere || ref.len > 0)
        query = ref;
    ref_path = elsewhere || ref.len > 0 ? http_uri_cut(&query, "?") : ref;
    if (ref_path.len > 0 && ref_path.ptr[0] == '/')
        http_uri_put_segments(&o, slice_of(ref_path.ptr + 1, ref_path.len - 1), true);
    else if (ref_path.len > 0)
        http_uri_put_beside(&o, base, ref_path);
    else
        head_out_put(&o, elsewhere ? SLICE_LIT("/") : base); /* RFC 9110 4.2.3; 3986 5.2.2 */
    head_out_put(&o, query);
    return head_out_end(&o);
}
