/* esi_include_head.c -- the request for an include: the client's own, for another path.
 *
 * What the client said of its page's body, version and part is not said of the include's: conditions, ranges,
 * a body and its fields stay out, and codings, since the bytes go into another body. */
#include "daemon/base/terr.h"
#include "daemon/http/message_out.h"
#include "daemon/proxy/esi_priv.h"

enum {
    HEAD_SPARE = 64,
};

static bool
head_is_left_out(const struct http_field *f)
{
    const uint64_t out = HTTP_BIT(HTTP_F_HOST) | /* it is put first */
                         HTTP_BIT(HTTP_F_ACCEPT_ENCODING) | HTTP_BIT(HTTP_F_CONNECTION) |
                         HTTP_BIT(HTTP_F_CONTENT_ENCODING) | HTTP_BIT(HTTP_F_CONTENT_LENGTH) |
                         HTTP_BIT(HTTP_F_CONTENT_TYPE) | HTTP_BIT(HTTP_F_EXPECT) |
                         HTTP_BIT(HTTP_F_IF_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE) |
                         HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_RANGE) |
                         HTTP_BIT(HTTP_F_IF_UNMODIFIED_SINCE) | HTTP_BIT(HTTP_F_RANGE) |
                         HTTP_BIT(HTTP_F_TE) | HTTP_BIT(HTTP_F_TRAILER) |
                         HTTP_BIT(HTTP_F_TRANSFER_ENCODING) | HTTP_BIT(HTTP_F_UPGRADE);

    return f->drop || (out >> f->id & 1) != 0;
}

/* All but the path, in the page's request's arena. */
static int
head_make(struct http_message *m, const struct http_message *from, struct slice authority,
    struct arena *a)
{
    struct message_out o;
    int err = message_out_begin(
        &o, m, a, HEAD_SPARE + 2 * authority.len + message_lines_bytes(from), from->nfields + 1u);

    if (err != 0)
        return err;
    message_out_request(
        &o, HTTP_M_GET, SLICE_LIT("GET"), slice_of("", 0), slice_of(authority.ptr, authority.len));
    if (authority.len > 0)
        MESSAGE_OUT_FIELD(&o, HOST, "Host", authority);
    for (unsigned i = 0; i < from->nfields; i++)
        if (!head_is_left_out(&from->fields[i]))
            message_out_copy(&o, from, &from->fields[i]);
    return message_out_end(&o);
}

/* scheme "://" authority: is it there?  Then the rest is its path. */
static bool
head_split(struct slice url, struct slice *authority)
{
    const char *at, *slash;

    if (url.len > 1 && url.ptr[0] == '/' && url.ptr[1] != '/')
        return false;
    if (url.len > 7 && strncasecmp(url.ptr, "http://", 7) == 0)
        at = url.ptr + 7;
    else if (url.len > 8 && strncasecmp(url.ptr, "https://", 8) == 0)
        at = url.ptr + 8;
    else if (url.len > 2 && memcmp(url.ptr, "//", 2) == 0)
        at = url.ptr + 2;
    else
        return false;
    slash = at;
    while (slash < url.ptr + url.len && *slash != '/' && *slash != '?' && *slash != '#')
        slash++;
    *authority = slice_of(at, (size_t)(slash - at));
    return true;
}

static bool
head_authority_ok(struct slice authority)
{
    char normal[HTTP_AUTHORITY_MAX];

    return http_authority_normal(
               authority, HTTP_SCHEME_HTTP, (struct span){normal, sizeof(normal)}) > 0;
}

/* Most are: a path, with nothing in it to be resolved. */
static bool
head_is_path(struct slice url)
{
    if (url.len == 0 || url.ptr[0] != '/' || (url.len > 1 && url.ptr[1] == '/'))
        return false;
    for (size_t i = 1; i < url.len; i++)
        if (url.ptr[i] == '.' && url.ptr[i - 1] == '/')
            return false;
    return http_target_bytes_ok(url); /* has no '#' */
}

int
esi_resolve(struct slice *authority, struct slice page, struct slice url, struct span out)
{
    struct slice named;
    int n;

    if (head_is_path(url)) {
        if (url.len > out.len)
            return TERR_LIMIT;
        memcpy(out.ptr, url.ptr, url.len);
        return (int)url.len;
    }
    if (head_split(url, &named)) {
        if (!head_authority_ok(named))
            return TERR_SYNTAX;
        url = slice_of(named.ptr + named.len, url.len - (size_t)(named.ptr + named.len - url.ptr));
        if (url.len == 0 || url.ptr[0] != '/')
            page = SLICE_LIT("/");
        *authority = named;
    }
    n = http_uri_resolve(*authority, page, url, out);
    return n == 0 ? TERR_SYNTAX : n;
}

/* Copies the head, and writes the path behind it. */
static int
head_add_path(struct esi_inc *inc, const struct http_message *m, struct slice url)
{
    struct slice base = http_path(&inc->page->x->head), authority = http_host(m);
    size_t table = m->nfields * sizeof(*m->fields);
    size_t max = base.len + url.len + 2;
    struct http_message *out = &inc->x.head;
    char *room, *text;
    int n;

    if (m->len + max > LIMIT_HEAD_BYTES)
        return TERR_LIMIT;
    room = arena_alloc(&inc->x.arena, table + m->len + max);
    if (room == NULL)
        return TERR_NOMEM;
    text = room + table;
    memcpy(room, m->fields, table);
    memcpy(text, m->base, m->len);
    n = esi_resolve(&authority, base, url, (struct span){text + m->len, max});
    if (n < 0)
        return n;
    *out = *m;
    out->base = text;
    out->fields = (struct http_field *)(void *)room;
    out->lines_off = 0; /* the path lies behind them */
    out->path_off = out->target_off = m->len;
    out->path_len = out->target_len = (uint16_t)n;
    out->len = (uint16_t)(m->len + n);
    return 0;
}

int
esi_include_head(struct esi_inc *inc, struct slice url)
{
    struct esi_page *page = inc->page;
    const struct http_message *from = &page->x->head;
    struct slice authority;
    struct http_message other;
    int err;

    if (head_split(url, &authority)) {
        if (!head_authority_ok(authority))
            return TERR_SYNTAX;
        err = head_make(&other, from, authority, &inc->x.arena);
        return err == 0 ? head_add_path(inc, &other, url) : err;
    }
    if (!page->head.made) {
        err = head_make(&page->head.m, from, http_host(from), &page->x->arena);
        if (err != 0)
            return err;
        page->head.made = true;
    }
    return head_add_path(inc, &page->head.m, url);
}
