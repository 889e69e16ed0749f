/* h2_table.c -- the client's dynamic table (RFC 7541 2.3.2), while its connection is idle.
 *
 * libnghttp2 keeps 5.6 kB for the 25 entries that ten requests of a browser leave, of which 0.8 kB are text.
 * A connection that has been idle for two seconds keeps the field block alone that makes the same table
 * again: a literal with incremental indexing (RFC 7541 6.2.1) for each entry, the oldest first.  The
 * inflater comes back with the next field block that the memo does not know. */
#include "daemon/h2/h2_conn.h"

enum {
    STATIC_ENTRIES = 61,   /* RFC 7541 A */
    SIZE_UPDATE = 0x20,    /* RFC 7541 6.3 */
    SIZE_PREFIX = 31,      /* five bits */
    LITERAL_INDEXED = 0x40 /* RFC 7541 6.2.1, with a name of its own */
};

/* A block in the making; `to` NULL: its bytes are counted only. */
struct h2_pack {
    char *to;
    size_t len;
};

static void
h2_pack_byte(struct h2_pack *p, size_t byte)
{
    if (p->to != NULL)
        p->to[p->len] = (char)(unsigned char)byte;
    p->len++;
}

/* RFC 7541 5.1 */
static void
h2_pack_int(struct h2_pack *p, unsigned first, unsigned prefix, size_t n)
{
    if (n < prefix) {
        h2_pack_byte(p, first | n);
        return;
    }
    h2_pack_byte(p, first | prefix);
    for (n -= prefix; n >= 128; n >>= 7)
        h2_pack_byte(p, (n & 127) | 128);
    h2_pack_byte(p, n);
}

/* RFC 7541 5.2, without Huffman's code. */
static void
h2_pack_string(struct h2_pack *p, const uint8_t *text, size_t len)
{
    h2_pack_int(p, 0, 127, len);
    if (p->to != NULL && len > 0)
        memcpy(p->to + p->len, text, len);
    p->len += len;
}

static void
h2_pack_table(nghttp2_hd_inflater *inflater, struct h2_pack *p)
{
    size_t size = nghttp2_hd_inflate_get_max_dynamic_table_size(inflater);

    p->len = 0;
    if (size != H2_TABLE_BYTES) /* the client has said less */
        h2_pack_int(p, SIZE_UPDATE, SIZE_PREFIX, size);
    for (size_t i = nghttp2_hd_inflate_get_num_table_entries(inflater); i > STATIC_ENTRIES; i--) {
        const nghttp2_nv *nv = nghttp2_hd_inflate_get_table_entry(inflater, i);

        tassert(nv != NULL);
        h2_pack_byte(p, LITERAL_INDEXED);
        h2_pack_string(p, nv->name, nv->namelen);
        h2_pack_string(p, nv->value, nv->valuelen);
    }
}

/* 0, or an error of the library's. */
static int
h2_unpack_table(nghttp2_hd_inflater *inflater, const uint8_t *p, size_t len)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, p, len, 1);

        if (n < 0)
            return (int)n;
        p += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    return 0;
}

void
h2_table_pack(struct h2_conn *c)
{
    struct h2_pack p = {NULL, 0};
    struct h2_packed *packed = NULL;

    tassert(!c->is_packed && c->inflater != NULL && c->block_stream == 0);
    c->table_idle = true;
    h2_pack_table(c->inflater, &p);
    if (p.len > 0) {
        packed = usage_alloc(&c->server->env.loop->usage, USAGE_CONN, sizeof(*packed) + p.len);
        if (packed == NULL)
            return; /* it stays as it is */
        tassert(p.len <= UINT16_MAX);
        packed->len = (uint16_t)p.len;
        p.to = packed->block;
        h2_pack_table(c->inflater, &p);
    }
    nghttp2_hd_inflate_del(c->inflater);
    c->packed = packed;
    c->is_packed = packed != NULL;
}

bool
h2_table_unpack(struct h2_conn *c)
{
    nghttp2_hd_inflater *inflater;
    int err = 0;

    if (!c->is_packed && c->inflater != NULL)
        return true;
    if (nghttp2_hd_inflate_new2(&inflater, &c->server->mem) != 0)
        return false;
    if (c->is_packed)
        err = h2_unpack_table(inflater, (const uint8_t *)c->packed->block, c->packed->len);
    tassert(err == 0 || err == NGHTTP2_ERR_NOMEM); /* the block is ours */
    h2_table_drop(c);
    c->inflater = inflater;
    return err == 0;
}

void
h2_table_drop(struct h2_conn *c)
{
    if (c->is_packed)
        usage_free(&c->server->env.loop->usage, USAGE_CONN, c->packed);
    else if (c->inflater != NULL)
        nghttp2_hd_inflate_del(c->inflater);
    c->inflater = NULL;
    c->is_packed = false;
}
