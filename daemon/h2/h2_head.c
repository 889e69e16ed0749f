/* h2_head.c -- request heads: from a field block to a message that may be acted on (RFC 9113 8).
 *
 * libnghttp2 decodes the block (its inflater, which keeps the client's dynamic table); what a field may
 * be, and what fields make a request, is judged here.  A block is decoded to its end even where the
 * request is refused, because the table is the connection's.
 *
 * A malformed request ends its stream with PROTOCOL_ERROR and no byte of it goes on (RFC 9113 8.1.1):
 * behind this file there is HTTP/1, where CR, LF, NUL, a blank at the wrong end or a Transfer-Encoding
 * make another request of it. */
#include "daemon/h2/h2_conn.h"

#include "daemon/base/terr.h"
#include "daemon/http/framing.h"
#include "daemon/http/token.h"
#include "daemon/http/websocket.h"

enum h2_pseudo {
    PSEUDO_METHOD = 1,
    PSEUDO_SCHEME = 2,
    PSEUDO_AUTHORITY = 4,
    PSEUDO_PATH = 8,
    PSEUDO_PROTOCOL = 16, /* RFC 8441 4 */
};

/* A block that is being read. */
struct h2_reading {
    struct h2_conn *c;
    struct h2_stream *s;    /* NULL: it is decoded for the table's sake alone */
    struct http_message *m; /* NULL: only the table matters */
    char *text;             /* of names and values */
    size_t len, room;
    size_t counted; /* as RFC 9113 6.5.2 counts */
    unsigned nfields, ncrumbs;
    bool trailers, regular; /* regular: a field that is no pseudo-field has come */
    uint8_t pseudo;         /* enum h2_pseudo, of those that came */
    uint16_t authority_off, authority_len, scheme_off, scheme_len;
    bool is_websocket; /* :protocol says so */
    int err;           /* the first, TERR_* */
};

static void *
h2_mem_malloc(size_t size, void *usage)
{
    return usage_alloc(usage, USAGE_CONN, size);
}

static void
h2_mem_free(void *p, void *usage)
{
    usage_free(usage, USAGE_CONN, p);
}

static void *
h2_mem_calloc(size_t n, size_t size, void *usage)
{
    return usage_calloc(usage, USAGE_CONN, n * size);
}

static void *
h2_mem_realloc(void *p, size_t size, void *usage)
{
    return usage_realloc(usage, USAGE_CONN, p, size);
}

void
h2_head_memory(struct h2_server *s)
{
    s->mem = (nghttp2_mem){
        &s->env.loop->usage, h2_mem_malloc, h2_mem_free, h2_mem_calloc, h2_mem_realloc};
}

static void
h2_refuse_head(struct h2_reading *r, int err)
{
    if (r->err == 0)
        r->err = err;
}

/* A copy behind what is there already: its offset. */
static uint16_t
h2_keep_text(struct h2_reading *r, struct slice s)
{
    uint16_t off = (uint16_t)r->len;

    tassert(s.len <= r->room - r->len);
    memcpy(r->text + r->len, s.ptr, s.len);
    r->len += s.len;
    return off;
}

/* RFC 9113 8.2.1: a token without capitals. */
static bool
h2_name_ok(struct slice name)
{
    if (!http_token_ok(name))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] >= 'A' && name.ptr[i] <= 'Z')
            return false;
    return true;
}

static bool
h2_is_blank(char ch)
{
    return ch == ' ' || ch == '\t';
}

/* RFC 9113 8.2.1, and RFC 9110 5.5: no control byte, no blank at either end. */
static bool
h2_value_ok(struct slice v)
{
    return http_value_ok(v) &&
           (v.len == 0 || !(h2_is_blank(v.ptr[0]) || h2_is_blank(v.ptr[v.len - 1])));
}

/* RFC 9113 8.2.2: what speaks of a connection has no place here. */
static bool
h2_field_ok(enum http_field_id id, struct slice value)
{
    const uint64_t of_connection = HTTP_BIT(HTTP_F_CONNECTION) |
                                   HTTP_BIT(HTTP_F_TRANSFER_ENCODING) | HTTP_BIT(HTTP_F_UPGRADE) |
                                   HTTP_BIT(HTTP_F_KEEP_ALIVE) | HTTP_BIT(HTTP_F_PROXY_CONNECTION) |
                                   HTTP_BIT(HTTP_F_HTTP2_SETTINGS);

    if (id == HTTP_F_TE)
        return slice_eq_nocase(value, SLICE_LIT("trailers"));
    return (HTTP_BIT(id) & of_connection) == 0;
}

/* RFC 9113 8.3: each at most once, none behind a field. */
static void
h2_read_pseudo(struct h2_reading *r, struct slice name, struct slice value)
{
    struct http_message *m = r->m;
    uint8_t which;

    if (slice_eq(name, SLICE_LIT(":method")))
        which = PSEUDO_METHOD;
    else if (slice_eq(name, SLICE_LIT(":path")))
        which = PSEUDO_PATH;
    else if (slice_eq(name, SLICE_LIT(":scheme")))
        which = PSEUDO_SCHEME;
    else if (slice_eq(name, SLICE_LIT(":authority")))
        which = PSEUDO_AUTHORITY;
    else if (slice_eq(name, SLICE_LIT(":protocol")))
        which = PSEUDO_PROTOCOL;
    else
        which = 0;
    if (which == 0 || r->regular || r->trailers || (r->pseudo & which) != 0 ||
        !h2_value_ok(value)) {
        h2_refuse_head(r, TERR_SYNTAX);
        return;
    }
    r->pseudo |= which;
    if (which == PSEUDO_METHOD) {
        m->method_len = (uint16_t)value.len;
        m->method_off = h2_keep_text(r, value);
    } else if (which == PSEUDO_PATH) {
        if (value.len > r->c->server->env.conf->req_line_max) {
            h2_refuse_head(r, TERR_URITOOLONG);
            value.len = r->c->server->env.conf->req_line_max; /* 60 KiB at most */
        }
        m->target_len = (uint16_t)value.len;
        m->target_off = h2_keep_text(r, value);
    } else if (which == PSEUDO_SCHEME) {
        r->scheme_len = (uint16_t)value.len;
        r->scheme_off = h2_keep_text(r, value);
    } else if (which == PSEUDO_PROTOCOL) {
        r->is_websocket = slice_eq_nocase(value, SLICE_LIT("websocket"));
    } else {
        r->authority_len = (uint16_t)value.len;
        r->authority_off = h2_keep_text(r, value);
    }
}

/* RFC 9218 4, a dictionary of structured fields (RFC 8941) of which two members count.  What cannot be
 * read is left out: a priority is advice. */
void
h2_priority_read(struct h2_stream *s, struct slice value)
{
    while (value.ptr != NULL && value.len > 0) {
        struct slice member = http_cut(&value, ',');

        if (member.len >= 3 && memcmp(member.ptr, "u=", 2) == 0 && member.ptr[2] >= '0' &&
            member.ptr[2] <= '7' && (member.len == 3 || member.ptr[3] == ';'))
            s->priority.urgency = (uint8_t)(member.ptr[2] - '0');
        else if (member.len >= 1 && member.ptr[0] == 'i' &&
                 (member.len == 1 || member.ptr[1] == ';'))
            s->priority.incremental = true;
        else if (slice_eq(member, SLICE_LIT("i=?1")) || slice_eq(member, SLICE_LIT("i=?0")))
            s->priority.incremental = member.ptr[3] == '1';
    }
}

static void
h2_read_regular(struct h2_reading *r, struct slice name, struct slice value)
{
    struct http_message *m = r->m;
    enum http_field_id id = http_field_id(name.ptr, name.len);
    struct http_field *f = &m->fields[m->nfields];

    r->regular = true;
    if (!h2_name_ok(name) || !h2_value_ok(value) || !h2_field_ok(id, value)) {
        h2_refuse_head(r, TERR_SYNTAX);
        return;
    }
    if (r->trailers)
        return; /* as with HTTP/1 they are read and dropped */
    r->ncrumbs += id == HTTP_F_COOKIE;
    if (id == HTTP_F_PRIORITY)
        h2_priority_read(r->s, value);
    if (m->nfields == m->max_fields) {
        h2_refuse_head(r, TERR_HEADTOOBIG);
        return;
    }
    *f = (struct http_field){
        .id = (uint8_t)id, .name_len = (uint16_t)name.len, .value_len = (uint16_t)value.len};
    f->name_off = h2_keep_text(r, name);
    f->value_off = h2_keep_text(r, value);
    m->nfields++;
    m->present |= HTTP_BIT(id) & ~HTTP_BIT(HTTP_F_OTHER);
}

/* What is counted is what came, references to the table included: one byte of a block may stand for
 * 4 KiB of text, or for 32 bytes of our memory (CVE-2026-49975). */
static void
h2_read_field(struct h2_reading *r, struct slice name, struct slice value)
{
    const struct client_conf *conf = r->c->server->env.conf;

    r->counted += name.len + value.len + H2_FIELD_BYTES;
    r->nfields++;
    if (r->nfields > H2_FIELDS_MAX || r->counted > conf->req_head_max ||
        (name.len + value.len > conf->req_field_max && !slice_eq(name, SLICE_LIT(":path"))) ||
        name.len + value.len > r->room - r->len)
        h2_refuse_head(r, TERR_HEADTOOBIG);
    if (r->err != 0 || r->m == NULL)
        return;
    if (name.len > 0 && name.ptr[0] == ':')
        h2_read_pseudo(r, name, value);
    else
        h2_read_regular(r, name, value);
}

/* RFC 7541 4.2: at its beginning a block may say a table's size twice, the least and the last.  More of them are
 * work that asks for nothing. */
static bool
h2_sizes_ok(const char *block, size_t len)
{
    unsigned n = 0;

    for (size_t at = 0; at < len && (block[at] & 0xe0) == 0x20; n++)
        if ((block[at++] & 0x1f) == 0x1f)
            while (at < len && (block[at++] & 0x80) != 0)
                ;
    return n <= 2;
}

/* The block, to its end.  0 or an error of the connection. */
static int
h2_read_block(struct h2_reading *r, const char *block, size_t len)
{
    struct h2_conn *c = r->c;
    const uint8_t *p = (const uint8_t *)block;

    if (!h2_sizes_ok(block, len))
        return H2_COMPRESSION_ERROR;
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, p, len, 1);

        if (n < 0)
            return n == NGHTTP2_ERR_NOMEM ? H2_INTERNAL_ERROR : H2_COMPRESSION_ERROR;
        p += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
            h2_read_field(r, slice_of((const char *)nv.name, nv.namelen),
                slice_of((const char *)nv.value, nv.valuelen));
        /* Far beyond what is answered: the rest is not even decoded. */
        if (r->counted > (size_t)8 * c->server->env.conf->req_head_max)
            return H2_ENHANCE_YOUR_CALM;
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && len == 0)
            return H2_COMPRESSION_ERROR; /* it ends inside a field */
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
    return 0;
}

/* RFC 9113 8.2.3: crumbs are one field again, as everything behind expects. */
static void
h2_join_cookies(struct h2_reading *r)
{
    struct http_message *m = r->m;
    struct http_field *first = NULL;
    unsigned kept = 0;
    size_t need = 0;
    uint16_t off = (uint16_t)r->len;

    for (unsigned i = 0; i < m->nfields; i++)
        need += m->fields[i].id == HTTP_F_COOKIE ? m->fields[i].value_len + 2u : 0;
    if (need > r->room - r->len) {
        h2_refuse_head(r, TERR_HEADTOOBIG);
        return;
    }
    for (unsigned i = 0; i < m->nfields; i++) {
        struct http_field f = m->fields[i];

        if (f.id != HTTP_F_COOKIE || first == NULL)
            m->fields[kept++] = f;
        if (f.id != HTTP_F_COOKIE)
            continue;
        if (first != NULL)
            h2_keep_text(r, SLICE_LIT("; "));
        else
            first = &m->fields[kept - 1];
        h2_keep_text(r, slice_of(r->text + f.value_off, f.value_len));
    }
    tassert(first != NULL);
    first->value_off = off;
    first->value_len = (uint16_t)(r->len - off);
    m->nfields = (uint16_t)kept;
}

/* :authority becomes Host (RFC 9113 8.3.1), in front; a Host that says other is no mistake of ours to
 * guess about. */
static int
h2_set_host(struct h2_reading *r)
{
    struct http_message *m = r->m;
    const struct http_field *host = http_find(m, HTTP_F_HOST, NULL);

    if ((r->pseudo & PSEUDO_AUTHORITY) == 0)
        return 0; /* http_target_parse() wants one Host then */
    if (host != NULL)
        return slice_eq_nocase(
                   http_value(m, host), slice_of(r->text + r->authority_off, r->authority_len))
                   ? 0
                   : TERR_SYNTAX;
    if (m->nfields == m->max_fields)
        return TERR_HEADTOOBIG;
    memmove(m->fields + 1, m->fields, m->nfields * sizeof(m->fields[0]));
    m->fields[0] = (struct http_field){.id = HTTP_F_HOST,
        .name_len = 4,
        .value_off = r->authority_off,
        .value_len = r->authority_len};
    if (r->room - r->len < 4)
        return TERR_HEADTOOBIG;
    m->fields[0].name_off = h2_keep_text(r, SLICE_LIT("Host"));
    m->nfields++;
    m->present |= HTTP_BIT(HTTP_F_HOST);
    return 0;
}

static int
h2_add_field(struct h2_reading *r, enum http_field_id id, struct slice name, struct slice value)
{
    struct http_message *m = r->m;

    if (m->nfields == m->max_fields || r->room - r->len < name.len + value.len)
        return TERR_HEADTOOBIG;
    m->fields[m->nfields++] = (struct http_field){.id = (uint8_t)id,
        .name_off = h2_keep_text(r, name),
        .name_len = (uint16_t)name.len,
        .value_off = h2_keep_text(r, value),
        .value_len = (uint16_t)value.len};
    m->present |= HTTP_BIT(id) & ~HTTP_BIT(HTTP_F_OTHER);
    return 0;
}

/* CONNECT of RFC 8441 in the words of HTTP/1.1, as everything behind knows an upgrade.  DATA is the tunnel's,
 * and no body: a length of it says something else. */
static int
h2_make_upgrade(struct h2_reading *r, struct h2_stream *s)
{
    static const struct slice key = {"Sec-WebSocket-Key", 17};
    struct http_message *m = r->m;
    char text[WEBSOCKET_KEY_LEN];
    unsigned kept = 0;
    int err;

    if (!r->is_websocket)
        return TERR_METHOD;
    if (http_has(m, HTTP_F_CONTENT_LENGTH))
        return TERR_SYNTAX;
    for (unsigned i = 0; i < m->nfields; i++) /* RFC 8441 5.1: a client's own means nothing */
        if (m->fields[i].id != HTTP_F_OTHER || !slice_eq_nocase(http_name(m, &m->fields[i]), key))
            m->fields[kept++] = m->fields[i];
    m->nfields = (uint16_t)kept;
    if (r->room - r->len < 3)
        return TERR_HEADTOOBIG;
    m->method = HTTP_M_GET;
    m->method_len = 3;
    m->method_off = h2_keep_text(r, SLICE_LIT("GET"));
    if (!websocket_key(text))
        return TERR_LIMIT;
    err = h2_add_field(r, HTTP_F_UPGRADE, SLICE_LIT("Upgrade"), SLICE_LIT("websocket"));
    if (err == 0)
        err = h2_add_field(r, HTTP_F_CONNECTION, SLICE_LIT("Connection"), SLICE_LIT("upgrade"));
    if (err == 0)
        err = h2_add_field(r, HTTP_F_OTHER, key, slice_of(text, sizeof(text)));
    s->x.upgrade = s->x.connect = true;
    return err;
}

/* The request line, in the words of RFC 9110. */
static int
h2_check_target(struct h2_reading *r)
{
    struct http_message *m = r->m;
    struct slice method = http_slice(m, m->method_off, m->method_len);
    struct slice path = http_slice(m, m->target_off, m->target_len);
    struct slice scheme = slice_of(r->text + r->scheme_off, r->scheme_len);

    if ((r->pseudo & PSEUDO_METHOD) == 0 || !http_token_ok(method))
        return TERR_SYNTAX;
    m->method = (uint8_t)http_method_id(method);
    if (m->method == HTTP_M_CONNECT && (r->pseudo & PSEUDO_PROTOCOL) == 0)
        /* RFC 9113 8.5: and neither scheme nor path */
        return r->pseudo == (PSEUDO_METHOD | PSEUDO_AUTHORITY) ? TERR_METHOD : TERR_SYNTAX;
    /* RFC 8441 4. */
    if ((r->pseudo & PSEUDO_PROTOCOL) != 0 &&
        (m->method != HTTP_M_CONNECT || (r->pseudo & PSEUDO_AUTHORITY) == 0))
        return TERR_SYNTAX;
    if ((r->pseudo & PSEUDO_SCHEME) == 0 || (r->pseudo & PSEUDO_PATH) == 0 || path.len == 0)
        return TERR_SYNTAX;
    if (!(slice_eq_nocase(scheme, SLICE_LIT("http")) ||
            slice_eq_nocase(scheme, SLICE_LIT("https"))))
        return TERR_SYNTAX;
    if (path.ptr[0] != '/' && !(path.len == 1 && path.ptr[0] == '*'))
        return TERR_SYNTAX;
    return 0;
}

/* Everything that must be true of a head before it is acted on. */
static int
h2_head_check(struct h2_reading *r, struct h2_stream *s)
{
    const struct client_conf *conf = r->c->server->env.conf;
    struct http_message *m = r->m;
    uint64_t body_max = client_body_max(conf, &r->c->facts);
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct framing framing;
    int err = h2_check_target(r);

    if (err == 0 && (r->pseudo & PSEUDO_PROTOCOL) != 0)
        err = h2_make_upgrade(r, s);
    if (err != 0)
        return err;
    err = h2_set_host(r);
    if (err == 0)
        err = framing_of_request(m, &framing);
    if (err == 0)
        err = http_target_parse_memo(m, &scheme, &r->c->server->host);
    if (err == 0 && m->method == HTTP_M_OTHER && !conf->any_method)
        err = TERR_METHOD;
    if (err == 0)
        err = framing_expect(m);
    if (err != 0)
        return err;
    s->expects_100 = http_has(m, HTTP_F_EXPECT);
    if (framing.kind == FRAMING_CHUNKED)
        return TERR_SYNTAX;
    /* RFC 9113 8.1.1: what Content-Length says must be what comes. */
    if (framing.kind == FRAMING_LENGTH && s->in_ended && framing.length > 0)
        return TERR_SYNTAX;
    s->x.has_body = !s->in_ended && !s->x.connect;
    s->x.body_length = framing.kind == FRAMING_LENGTH ? framing.length : EXCHANGE_LENGTH_UNKNOWN;
    if (framing.kind == FRAMING_LENGTH && body_max > 0 && framing.length > body_max)
        return TERR_BODYTOOBIG;
    return 0;
}

/* Both sorts of a head that nothing is asked with: RFC 9113 8.1.1 has a malformed one end its stream. */
static int
h2_head_error(int err)
{
    return err == TERR_FRAMING || err == TERR_CODING || err == TERR_BARELF ? TERR_SYNTAX : err;
}

/* A path that is a literal, behind the texts that are known: its length, -1: the inflater must read it. */
static int
h2_path_read(const struct h2_scan *scan, char *to)
{
    if (scan->path_is_huffman)
        return h2_huffman_short(scan->path, to);
    memcpy(to, scan->path.ptr, scan->path.len);
    return (int)scan->path.len;
}

/* A head that the memo has: only its path is read.  False: it is decoded. */
static bool
h2_head_known(struct h2_reading *r, const struct h2_scan *scan)
{
    const struct client_conf *conf = r->c->server->env.conf;
    struct http_message *m = r->m;
    enum http_scheme scheme = HTTP_SCHEME_HTTP;

    if (r->room < H2_MEMO_TEXT + 8 * scan->path.len / 5 + 1)
        return false;
    r->len = h2_memo_find(r->c->server->memo, r->c->table_state, scan, r->text, m, &r->s->priority);
    if (r->len == 0)
        return false;
    if (scan->path.ptr != NULL) {
        int n = h2_path_read(scan, r->text + r->len);

        if (n <= 0 || (uint32_t)n > conf->req_line_max)
            return false;
        m->target_off = (uint16_t)r->len;
        m->target_len = (uint16_t)n;
        r->len += (size_t)n;
    }
    return r->len + (m->nfields + 4u) * H2_FIELD_BYTES <= conf->req_head_max &&
           (r->text[m->target_off] == '/' || r->text[m->target_off] == '*') &&
           http_target_parse_memo(m, &scheme, &r->c->server->host) == 0;
}

/* Room for the texts of a head. */
static void
h2_reading_begin(struct h2_reading *r, bool trailers)
{
    struct h2_server *server = r->c->server;
    /* Twice: crumbs of cookies are written a second time, as one. */
    size_t need = (size_t)2 * server->env.conf->req_head_max + 64;

    if (need > sizeof(server->heads))
        need = sizeof(server->heads);
    if (sizeof(server->heads) - server->heads_len < need)
        h2_keep_heads(r->c);
    r->text = server->heads + server->heads_len;
    r->room = sizeof(server->heads) - server->heads_len;
    if (r->room > LIMIT_HEAD_BYTES)
        r->room = LIMIT_HEAD_BYTES;
    r->m = &r->s->x.head;
    r->trailers = trailers;
    if (!trailers)
        r->m->base = r->text;
}

/* What a memo found and the caller could not use is as if it had never been. */
static void
h2_reading_again(struct h2_reading *r)
{
    r->m->nfields = 0;
    r->m->present = 0;
    r->m->base = r->text;
    r->m->method_len = r->m->target_len = r->m->authority_len = 0;
    r->s->priority = (struct h2_priority){.urgency = H2_URGENCY_DEFAULT};
    r->len = 0;
}

int
h2_head_read(struct h2_conn *c, struct h2_stream *s, const char *block, size_t len, bool trailers)
{
    struct h2_server *server = c->server;
    struct h2_reading r = {.c = c, .s = s};
    struct h2_scan scan;
    bool scanned = server->memo != NULL && h2_scan(block, len, &scan);
    bool notes = scanned && s != NULL && !trailers;
    int err;

    if (s != NULL)
        h2_reading_begin(&r, trailers);
    if (notes && h2_head_known(&r, &scan)) {
        s->x.has_body = !s->in_ended;
        s->x.body_length = EXCHANGE_LENGTH_UNKNOWN;
        s->x.head.len = (uint16_t)r.len;
        server->heads_len += r.len;
        return 0;
    }
    if (notes)
        h2_reading_again(&r);
    /* At the first field block: an idle connection has none.  It is charged as the connection is. */
    if (!h2_table_unpack(c))
        return H2_INTERNAL_ERROR;
    err = h2_read_block(&r, block, len);
    if (err != 0)
        return err;
    if (!scanned)
        c->table_state = ++server->table_states;
    else if (scan.changes)
        c->table_state =
            h2_memo_next(server->memo, c->table_state, scan.block, &server->table_states);
    if (s == NULL || trailers)
        return h2_head_error(r.err);
    if (r.err == 0 && r.ncrumbs > 1)
        h2_join_cookies(&r);
    if (r.err == 0)
        r.err = h2_head_check(&r, s);
    /* Of a head that broke off only a whole first line is of use, for the log. */
    s->x.head.len = r.m->method_len > 0 && r.m->target_len > 0 ? (uint16_t)r.len : 0;
    server->heads_len += r.len;
    if (r.err == 0 && notes && !s->x.connect) /* each has a key of its own */
        h2_memo_note(server->memo, c->table_state, &scan, r.len, r.m, s->priority);
    return h2_head_error(r.err);
}
