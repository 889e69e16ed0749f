/* h2_memo.c -- field blocks that clients repeat, decoded once. */
#include "daemon/h2/h2_memo.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/http/codings.h"

enum {
    MEMO_SLOTS = 128,
    MEMO_BLOCK = 512, /* octets of a block that is kept */
    MEMO_FIELDS = 32,
    MEMO_STEPS = 128, /* transitions */
    INT_MAX_SHIFT = 21,
    PATH_NAME_1 = 4, /* RFC 7541 A: :path / and :path /index.html */
    PATH_NAME_2 = 5,
};

struct memo_head {
    uint64_t state;
    uint16_t len; /* of the block; 0: the slot is empty */
    uint16_t path_at, text_len;
    struct h2_priority priority;
    struct http_message head; /* its `base`, `fields` and `max_fields` are the finder's */
    char block[MEMO_BLOCK];
    char text[H2_MEMO_TEXT];
    struct http_field fields[MEMO_FIELDS];
};

struct memo_step {
    uint64_t from, to; /* to: 0: empty */
    uint16_t len;
    char block[MEMO_BLOCK];
};

#define H2_MEMO_MAGIC OBJ_TAG('h', '2', 'm', 'm')
struct h2_memo {
    uint32_t magic;
    uint32_t seen[MEMO_SLOTS]; /* the mark of what was seen there last */
    struct memo_head heads[MEMO_SLOTS];
    struct memo_step steps[MEMO_STEPS];
};

struct h2_memo *
h2_memo_new(void)
{
    struct h2_memo *m = calloc(1, sizeof(*m));

    if (m != NULL)
        m->magic = H2_MEMO_MAGIC;
    return m;
}

void
h2_memo_free(struct h2_memo **mp)
{
    struct h2_memo *m;

    OBJ_TAKE(m, mp, H2_MEMO_MAGIC);
    OBJ_FREE(m);
}

/* RFC 7541 5.1, behind a prefix of so many bits.  NULL: it is not whole, or larger than a block may be. */
static inline const char *
scan_int(const char *p, const char *end, unsigned bits, uint32_t *out)
{
    uint32_t most = (1U << bits) - 1, n = (uint8_t)*p++ & most;

    if (n == most) {
        unsigned shift = 0;
        uint8_t octet;

        do {
            if (p == end || shift > INT_MAX_SHIFT)
                return NULL;
            octet = (uint8_t)*p++;
            n += (uint32_t)(octet & 127) << shift;
            shift += 7;
        } while ((octet & 128) != 0);
    }
    *out = n;
    return p;
}

static inline const char *
scan_string(const char *p, const char *end, struct slice *out)
{
    uint32_t len;

    if (p == end)
        return NULL;
    p = scan_int(p, end, 7, &len);
    if (p == NULL || len > (size_t)(end - p))
        return NULL;
    *out = slice_of(p, len);
    return p + len;
}

/* A literal (RFC 7541 6.2.1 to 6.2.3): `bits` of its first octet are its name's index.  NULL: not whole. */
static inline const char *
scan_literal(const char *p, const char *end, unsigned bits, struct h2_scan *out)
{
    struct slice string;
    const char *value;
    uint32_t name;

    p = scan_int(p, end, bits, &name);
    if (p != NULL && name == 0)
        p = scan_string(p, end, &string);
    if (p == NULL)
        return NULL;
    value = p;
    p = scan_string(p, end, &string);
    if (p == NULL || bits != 4 || (name != PATH_NAME_1 && name != PATH_NAME_2) ||
        out->path.ptr != NULL)
        return p;
    out->path = string;
    out->path_is_huffman = (*value & 128) != 0;
    out->path_at = (uint16_t)(value - out->block.ptr);
    out->path_coded = (uint16_t)(p - value);
    return p;
}

bool
h2_scan(const char *block, size_t len, struct h2_scan *out)
{
    const char *p = block, *end = block + len;

    *out = (struct h2_scan){.block = slice_of(block, len)};
    if (len > UINT16_MAX)
        return false;
    while (p != NULL && p < end) {
        uint8_t first = (uint8_t)*p;
        uint32_t n;

        if (first >= 128) {
            p = scan_int(p, end, 7, &n);
        } else if (first >= 64) {
            out->changes = true;
            p = scan_literal(p, end, 6, out);
        } else if (first >= 32) {
            out->changes = true;
            p = scan_int(p, end, 5, &n);
        } else {
            p = scan_literal(p, end, 4, out);
        }
    }
    return p != NULL;
}

/* RFC 7541 B is a canonical code: of each length the symbols in the order of their codes, which follow one
 * another.  These are those of five to eight bits. */
static const char huffman_5[] = "012aceiost";
static const char huffman_6[] = " %-./3456789=A_bdfghlmnpru";
static const char huffman_7[] = ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz";
static const char huffman_8[] = "&*,;XZ";

enum {
    HUFFMAN_FIRST_6 = 0x14, /* the first code of each length; of five bits it is 0 */
    HUFFMAN_FIRST_7 = 0x5c,
    HUFFMAN_FIRST_8 = 0xf8,
    HUFFMAN_END_8 = 0xfe, /* from here on codes are longer */
};

/* Of the next eight bits the symbol and its length; 0: it has a longer code. */
static inline unsigned
huffman_next(unsigned octet, char *out)
{
    unsigned code;

    if (octet < HUFFMAN_FIRST_6 << 2) {
        *out = huffman_5[octet >> 3];
        return 5;
    }
    code = octet >> 2;
    if (octet < HUFFMAN_FIRST_7 << 1) {
        *out = huffman_6[code - HUFFMAN_FIRST_6];
        return 6;
    }
    code = octet >> 1;
    if (octet < HUFFMAN_FIRST_8) {
        *out = huffman_7[code - HUFFMAN_FIRST_7];
        return 7;
    }
    if (octet >= HUFFMAN_END_8)
        return 0;
    *out = huffman_8[octet - HUFFMAN_FIRST_8];
    return 8;
}

int
h2_huffman_short(struct slice s, char *out)
{
    uint64_t bits = 0; /* those not read yet are its lowest `have` */
    unsigned have = 0;
    size_t at = 0;
    char *to = out;

    for (;;) {
        unsigned octet, used;

        while (have <= 56 && at < s.len) {
            bits = bits << 8 | (uint8_t)s.ptr[at++];
            have += 8;
        }
        if (have == 0)
            return (int)(to - out);
        /* Behind the end stand ones, as in padding: a code that would need them is none of ours. */
        octet = have >= 8 ? (unsigned)(bits >> (have - 8)) & 255
                          : ((unsigned)(bits << (8 - have)) | ((1U << (8 - have)) - 1)) & 255;
        if (have < 8 && octet == 255)
            return (int)(to - out); /* padding: the beginning of EOS (RFC 7541 5.2) */
        used = huffman_next(octet, to);
        if (used == 0 || used > have)
            return -1;
        have -= used;
        to++;
    }
}

static uint32_t
memo_mark(uint64_t state, const char *p, size_t len)
{
    uint64_t a = 0, b = 0;

    if (len >= 8) {
        memcpy(&a, p + len - 8, 8);
        memcpy(&b, p + (len - 8) / 2, 8);
    } else {
        memcpy(&a, p, len);
    }
    a ^= b * UINT64_C(0xc2b2ae3d27d4eb4f) ^ state << 20 ^ len;
    return (uint32_t)(a * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* What is compared: the block without the path's string. */
static size_t
memo_len(const struct h2_scan *scan)
{
    return scan->block.len - scan->path_coded;
}

static uint32_t
memo_mark_of(uint64_t state, const struct h2_scan *scan)
{
    const char *p = scan->block.ptr, *behind = p + scan->path_at + scan->path_coded;
    size_t rest = scan->block.len - scan->path_at - scan->path_coded;

    return memo_mark(state, p, scan->path_at) * 31 + memo_mark(state, behind, rest);
}

static bool
memo_is(const struct memo_head *h, uint64_t state, const struct h2_scan *scan)
{
    const char *p = scan->block.ptr;

    return h->len != 0 && h->state == state && h->len == memo_len(scan) &&
           h->path_at == scan->path_at && memcmp(h->block, p, h->path_at) == 0 &&
           memcmp(h->block + h->path_at, p + scan->path_at + scan->path_coded,
               h->len - h->path_at) == 0;
}

size_t
h2_memo_find(struct h2_memo *m, uint64_t state, const struct h2_scan *scan, char *text,
    struct http_message *head, struct h2_priority *priority)
{
    struct http_field *fields = head->fields;
    uint16_t max_fields = head->max_fields;
    const struct memo_head *h;

    if (scan->changes || memo_len(scan) > MEMO_BLOCK)
        return 0;
    h = &m->heads[memo_mark_of(state, scan) % MEMO_SLOTS];
    if (!memo_is(h, state, scan) || h->head.nfields > max_fields)
        return 0;
    memcpy(text, h->text, h->text_len);
    memcpy(fields, h->fields, h->head.nfields * sizeof(h->fields[0]));
    *head = h->head;
    head->base = text;
    head->fields = fields;
    head->max_fields = max_fields;
    *priority = h->priority;
    return h->text_len;
}

/* Framing and Expect concern one message alone. */
static bool
memo_fits(const struct http_message *head, const struct h2_scan *scan, size_t len)
{
    const uint64_t own = HTTP_BIT(HTTP_F_CONTENT_LENGTH) | HTTP_BIT(HTTP_F_EXPECT);

    return !scan->changes && memo_len(scan) <= MEMO_BLOCK && len <= H2_MEMO_TEXT &&
           head->nfields <= MEMO_FIELDS && (head->present & own) == 0;
}

void
h2_memo_note(struct h2_memo *m, uint64_t state, const struct h2_scan *scan, size_t len,
    const struct http_message *head, struct h2_priority priority)
{
    uint32_t mark = memo_mark_of(state, scan);
    struct memo_head *h = &m->heads[mark % MEMO_SLOTS];

    if (!memo_fits(head, scan, len))
        return;
    /* Seen for the first time: only the mark is kept, so that what never comes again costs no copy. */
    if (m->seen[mark % MEMO_SLOTS] != mark) {
        m->seen[mark % MEMO_SLOTS] = mark;
        return;
    }
    h->state = state;
    h->len = (uint16_t)memo_len(scan);
    h->path_at = scan->path_at;
    h->text_len = (uint16_t)len;
    h->head = *head;
    h->head.forms = (uint8_t)(http_forms(head) & 15u);
    h->priority = priority;
    memcpy(h->block, scan->block.ptr, scan->path_at);
    memcpy(h->block + scan->path_at, scan->block.ptr + scan->path_at + scan->path_coded,
        (size_t)h->len - scan->path_at);
    memcpy(h->text, head->base, len);
    memcpy(h->fields, head->fields, head->nfields * sizeof(head->fields[0]));
}

uint64_t
h2_memo_next(struct h2_memo *m, uint64_t state, struct slice block, uint64_t *last)
{
    struct memo_step *s = &m->steps[memo_mark(state, block.ptr, block.len) % MEMO_STEPS];

    if (block.len > MEMO_BLOCK)
        return ++*last;
    if (s->to != 0 && s->from == state && s->len == block.len &&
        memcmp(s->block, block.ptr, block.len) == 0)
        return s->to;
    s->to = ++*last;
    s->from = state;
    s->len = (uint16_t)block.len;
    memcpy(s->block, block.ptr, block.len);
    return s->to;
}
