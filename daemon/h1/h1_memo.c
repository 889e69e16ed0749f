/* h1_memo.c -- a table of field blocks, each in the one slot that its bytes choose. */
#include "daemon/h1/h1_memo.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/http/codings.h"

enum {
    MEMO_SLOTS = 128,  /* a power of two, at most 256: a hint is a byte */
    MEMO_FIELDS = 32,  /* browsers send up to twenty */
    MEMO_BYTES = 1600, /* with a few cookies */
    MEMO_LEAST = 16,   /* what memo_mark() reads: "Host: example.com", for one, is longer */
};

struct memo_block {
    uint32_t len; /* 0: none */
    uint16_t nfields;
    uint16_t authority_off, authority_len;
    bool persists;
    uint8_t forms; /* http_forms() */
    uint64_t present;
    struct http_field fields[MEMO_FIELDS]; /* offsets count from the block */
    char text[MEMO_BYTES];
};

#define H1_MEMO_MAGIC OBJ_TAG('h', '1', 'm', 'm')
struct h1_memo {
    uint32_t magic;
    uint32_t seen[MEMO_SLOTS]; /* the mark of what was seen there last */
    struct memo_block blocks[MEMO_SLOTS];
};

struct h1_memo *
h1_memo_new(void)
{
    struct h1_memo *m = calloc(1, sizeof(*m));

    if (m != NULL)
        m->magic = H1_MEMO_MAGIC;
    return m;
}

void
h1_memo_free(struct h1_memo **mp)
{
    struct h1_memo *m;

    OBJ_TAKE(m, mp, H1_MEMO_MAGIC);
    OBJ_FREE(m);
}

/* Chooses a slot and tells most blocks apart, by a few bytes: whether a block is the same is
 * decided by comparing it.  Its last bytes are CR LF CR LF. */
static uint32_t
memo_mark(const char *text, size_t len)
{
    uint64_t end, middle;

    memcpy(&end, text + len - 12, 8);
    memcpy(&middle, text + len / 2 - 4, 8);
    return (uint32_t)((end ^ middle * UINT64_C(0xc2b2ae3d27d4eb4f) ^ len) *
                          UINT64_C(0x9e3779b97f4a7c15) >>
                      32);
}

/* Compared whole: a mark that collides, even one that a client has chosen, costs a comparison
 * and never gives one request the fields of another. */
static bool
memo_is(const struct memo_block *b, const char *text, size_t len)
{
    return b->len != 0 && b->len <= len && memcmp(b->text, text, b->len) == 0;
}

/* What no other message has in common, and what the first line says. */
static bool
memo_fits(const struct http_message *h)
{
    return !http_is_1_0(h) && h->base[h->target_off] == '/' && h->method != HTTP_M_CONNECT;
}

/* The hint is the connection's: the slot of its last request, so that a client that repeats
 * itself needs no mark, which can only be computed where the end of the head is known. */
bool
h1_memo_find(struct h1_memo *m, uint8_t *hint, struct h1_parser *p, const char *bytes, size_t len,
    bool *persists)
{
    struct http_message *h = p->head;
    const char *text = bytes + p->fed;
    size_t room = len - p->fed;
    uint16_t at = (uint16_t)p->fed;
    const struct memo_block *b;

    if (m == NULL || room < MEMO_LEAST || !memo_fits(h))
        return false;
    b = &m->blocks[*hint];
    if (!memo_is(b, text, room)) { /* then the request may be all there is */
        *hint = (uint8_t)(memo_mark(text, room) % MEMO_SLOTS);
        b = &m->blocks[*hint];
        if (!memo_is(b, text, room))
            return false;
    }
    /* A block that was stored under larger limits: parsing says what is wrong. */
    if (p->fed + b->len > p->limits->head_max || b->nfields > h->max_fields)
        return false;
    for (unsigned i = 0; i < b->nfields; i++) {
        struct http_field f = b->fields[i];

        f.name_off = (uint16_t)(f.name_off + at);
        f.value_off = (uint16_t)(f.value_off + at);
        h->fields[i] = f;
    }
    h->nfields = b->nfields;
    h->present = b->present;
    h->forms = b->forms;
    h->len = (uint16_t)(p->fed + b->len);
    h->authority_off = (uint16_t)(b->authority_off + at);
    h->authority_len = b->authority_len;
    h->path_off = h->target_off;
    h->path_len = h->target_len;
    p->head_done = p->body_done = true;
    *persists = b->persists;
    return true;
}

/* After a head was parsed and judged.  Framing, Expect and Upgrade concern one message alone, so
 * blocks with them are never kept; Host is, and its judgement with it. */
void
h1_memo_note(struct h1_memo *m, const struct h1_parser *p, bool persists)
{
    const uint64_t own = HTTP_BIT(HTTP_F_CONTENT_LENGTH) | HTTP_BIT(HTTP_F_TRANSFER_ENCODING) |
                         HTTP_BIT(HTTP_F_EXPECT) | HTTP_BIT(HTTP_F_UPGRADE);
    const struct http_message *h = p->head;
    size_t at = h->target_off + h->target_len + sizeof(" HTTP/1.1\r\n") - 1, len = h->len - at;
    struct memo_block *b;
    uint32_t mark;

    if (m == NULL || !memo_fits(h) || (h->present & own) != 0 || len < MEMO_LEAST ||
        len > MEMO_BYTES || h->nfields > MEMO_FIELDS)
        return;
    mark = memo_mark(h->base + at, len);
    /* Seen for the first time: only the mark is kept, so clients that never repeat a head cost
     * no copy and push no block out. */
    if (m->seen[mark % MEMO_SLOTS] != mark) {
        m->seen[mark % MEMO_SLOTS] = mark;
        return;
    }
    b = &m->blocks[mark % MEMO_SLOTS];
    b->len = (uint32_t)len;
    b->nfields = h->nfields;
    b->authority_off = (uint16_t)(h->authority_off - at);
    b->authority_len = h->authority_len;
    b->persists = persists;
    b->present = h->present;
    b->forms = (uint8_t)(http_forms(h) & 15u);
    for (unsigned i = 0; i < h->nfields; i++) {
        b->fields[i] = h->fields[i];
        b->fields[i].name_off = (uint16_t)(h->fields[i].name_off - at);
        b->fields[i].value_off = (uint16_t)(h->fields[i].value_off - at);
    }
    memcpy(b->text, h->base + at, len);
}
