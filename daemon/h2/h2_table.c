/* h2_table.c -- the client's dynamic table (RFC 7541 2.3.2), while its connection is idle.
 *
 * libnghttp2 keeps 5.6 kB for the 25 entries that ten requests of a browser leave, of which 0.8 kB are text.
 * A connection that has been idle for two seconds keeps the field block alone that makes the same table
 * again: a literal with incremental indexing (RFC 7541 6.2.1) for each entry, the oldest first.  The
 * inflater comes back with the next field block that the memo does not know. */
#include "daemon/h2/h2_conn.h"
#include "daemon/h2/h2_hpack.h"

enum {
    STATIC_ENTRIES = 61,    /* RFC 7541 A */
    SIZE_UPDATE = 0x20,     /* RFC 7541 6.3 */
    SIZE_PREFIX = 31,       /* five bits */
    LITERAL_INDEXED = 0x40, /* RFC 7541 6.2.1, with a name of its own */
    PACKED_MAX = H2_TABLE_BYTES + 4
};

/* Each entry counts 32 bytes besides its text (RFC 7541 4.1), and takes 7 here. */
static size_t
h2_pack_table(nghttp2_hd_inflater *inflater, char block[static PACKED_MAX])
{
    size_t size = nghttp2_hd_inflate_get_max_dynamic_table_size(inflater);
    char *p = block;

    if (size != H2_TABLE_BYTES) /* the client has said less */
        p = h2_put_int(p, SIZE_UPDATE, SIZE_PREFIX, size);
    for (size_t i = nghttp2_hd_inflate_get_num_table_entries(inflater); i > STATIC_ENTRIES; i--) {
        const nghttp2_nv *nv = nghttp2_hd_inflate_get_table_entry(inflater, i);

        tassert(nv != NULL);
        *p++ = LITERAL_INDEXED;
        p = h2_put_string(p, slice_of((const char *)nv->name, nv->namelen));
        p = h2_put_string(p, slice_of((const char *)nv->value, nv->valuelen));
    }
    tassert(p <= block + PACKED_MAX);
    return (size_t)(p - block);
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
    struct h2_packed *packed = NULL;
    char block[PACKED_MAX];
    size_t len;

    tassert(!c->is_packed && c->inflater != NULL && c->block_stream == 0);
    c->table_idle = true;
    len = h2_pack_table(c->inflater, block);
    if (len > 0) {
        packed = usage_alloc(&c->server->env.loop->usage, USAGE_CONN, sizeof(*packed) + len);
        if (packed == NULL)
            return; /* it stays as it is */
        packed->len = (uint16_t)len;
        memcpy(packed->block, block, len);
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
