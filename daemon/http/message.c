/* message.c -- names to numbers and back, and finding fields. */
#include "daemon/http/message.h"

#include "daemon/base/arena.h"
#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

static const struct {
    const char *name;
    unsigned flags, len;
} http_fields[HTTP_F_COUNT] = {[HTTP_F_OTHER] = {"?", 0, 0},
#define X(id, name, flags, doc) [HTTP_F_##id] = {name, flags, sizeof(name) - 1},
    HTTP_FIELD_TABLE(X)
#undef X
};

static const struct {
    struct slice name;
    bool safe, idempotent;
} http_methods[HTTP_M_COUNT] = {[HTTP_M_OTHER] = {{"?", 1}, false, false},
#define X(id, name, safe, idempotent) [HTTP_M_##id] = {{name, sizeof(name) - 1}, safe, idempotent},
    HTTP_METHOD_TABLE(X)
#undef X
};

enum {
    HTTP_SLOTS = 256,   /* four times the names: a strange name mostly meets an empty slot */
    HTTP_NAME_MAX = 32, /* longer than any in the table */
};
#define X(id, name, flags, doc) _Static_assert(sizeof(name) <= HTTP_NAME_MAX, name);
HTTP_FIELD_TABLE(X)
#undef X

/* Open addressing.  Written once, before main(), and read-only from then on. */
static struct {
    char folded[HTTP_NAME_MAX]; /* lower case, as http_fold() makes it */
    uint8_t len;                /* 0: empty */
    uint8_t id;
} http_slots[HTTP_SLOTS];

/* Lower case, eight bytes at a time.  Only letters become letters: bit 5 is set where bit 6 is,
 * so '-' and digits stay what they are, and control bytes do not become them. */
static inline uint64_t
http_fold(uint64_t word)
{
    return word | (word & UINT64_C(0x4040404040404040)) >> 1;
}

/* Of a length that is known where it is inlined: one load. */
static inline uint64_t
http_load(const char *p, size_t len)
{
    uint64_t word = 0;

    memcpy(&word, p, len);
    return word;
}

/* Are the `len` bytes the folded name?  Overlapping words instead of a loop over a tail. */
static inline bool
http_folds_to(const char *name, const char *folded, size_t len)
{
    size_t i;

    if (len < 8) {
        if (len >= 4)
            return ((http_fold(http_load(name, 4)) ^ http_load(folded, 4)) |
                       (http_fold(http_load(name + len - 4, 4)) ^
                           http_load(folded + len - 4, 4))) == 0;
        for (i = 0; i < len; i++) {
            if (http_fold((uint8_t)name[i]) != (uint8_t)folded[i])
                return false;
        }
        return true;
    }
    for (i = 0; i + 8 <= len; i += 8) {
        if (http_fold(http_load(name + i, 8)) != http_load(folded + i, 8))
            return false;
    }
    return http_fold(http_load(name + len - 8, 8)) == http_load(folded + len - 8, 8);
}

/* Length, first and last letter, and the one in the middle, because X-Forwarded-Host and -Port
 * share those three.  The factors were searched for: of 61 names two share
 * the slot of another one. */
static inline unsigned
http_slot_of(const char *name, size_t len)
{
    unsigned first = (uint8_t)name[0] | 0x20u;
    unsigned middle = (uint8_t)name[len / 2] | 0x20u;
    unsigned last = (uint8_t)name[len - 1] | 0x20u;

    return ((unsigned)len * 2 + first * 11 + middle * 32 + last * 24) % HTTP_SLOTS;
}

__attribute__((constructor)) static void
http_slots_fill(void)
{
    /* A constructor: no caller, test or tool has to think of it. */
    unsigned id, slot;
    size_t i, len;

    for (id = HTTP_F_OTHER + 1; id < HTTP_F_COUNT; id++) {
        const char *name = http_fields[id].name;

        len = strlen(name);
        slot = http_slot_of(name, len);
        while (http_slots[slot].len != 0)
            slot = (slot + 1) % HTTP_SLOTS;
        for (i = 0; i < len; i++)
            http_slots[slot].folded[i] = (char)http_fold((uint8_t)name[i]);
        http_slots[slot].len = (uint8_t)len;
        http_slots[slot].id = (uint8_t)id;
    }
}

enum http_field_id
http_field_id(const char *name, size_t len)
{
    unsigned slot;

    if (len == 0 || len >= HTTP_NAME_MAX)
        return HTTP_F_OTHER;
    slot = http_slot_of(name, len);
    while (http_slots[slot].len != 0) { /* ends: most slots are empty */
        if (http_slots[slot].len == len && http_folds_to(name, http_slots[slot].folded, len))
            return (enum http_field_id)http_slots[slot].id;
        slot = (slot + 1) % HTTP_SLOTS;
    }
    return HTTP_F_OTHER;
}

static bool
http_name_has(struct slice name, size_t at, struct slice piece)
{
    if (name.len < piece.len || at > name.len - piece.len)
        return false;
    for (size_t i = 0; i < piece.len; i++) {
        char c = name.ptr[at + i];

        /* CGI and WSGI make one name of '_' and '-': "X_Forwarded_For" is the same lie. */
        if ((c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c) != piece.ptr[i])
            return false;
    }
    return true;
}

bool
http_name_is_spoof(struct slice name)
{
    /* What begins so: the request's other self, as gateways tell it.  And what is named so: the client's
     * address, by the words of nginx, of CDNs and of clouds; and what CGI makes HTTP_PROXY of (httpoxy). */
    static const char *const families[] = {"x-forwarded", "x-original-", "x-rewrite-"};
    static const char *const names[] = {"proxy", "client-ip", "true-client-ip", "x-real-ip",
        "x-client-ip", "x-cluster-client-ip", "x-remote-ip", "x-remote-addr", "x-remote-address",
        "x-originating-ip", "x-proxyuser-ip", "x-azure-clientip", "x-azure-socketip",
        "x-appengine-user-ip", "x-envoy-external-address", "cf-connecting-ip", "cf-connecting-ipv6",
        "cf-pseudo-ipv4", "fastly-client-ip", "fly-client-ip", "do-connecting-ip",
        "x-nf-client-connection-ip", "x-sucuri-clientip", "incap-client-ip", "ali-cdn-real-ip",
        "cdn-src-ip", "wl-proxy-client-ip", "proxy-client-ip", "forwarded-for", "x-scheme",
        "x-url-scheme", "x-host", "front-end-https"};
    const struct slice override = SLICE_LIT("-method-override");
    char first = name.len > 0 ? (char)(name.ptr[0] | 0x20) : '\0';

    /* The first letters of all these names: a new one adds its own.  Most fields end here. */
    if (first == '\0' || strchr("xptcfdiaw", first) == NULL)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strlen(names[i]) == name.len && http_name_has(name, 0, slice_str(names[i])))
            return true;
    }
    if (first != 'x')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (http_name_has(name, 0, slice_str(families[i])))
            return true;
    }
    return name.len > override.len && http_name_has(name, name.len - override.len, override);
}

const char *
http_field_name(enum http_field_id id)
{
    tassert((unsigned)id < HTTP_F_COUNT);
    return http_fields[id].name;
}

size_t
http_field_name_len(enum http_field_id id)
{
    tassert(id > HTTP_F_OTHER && id < HTTP_F_COUNT);
    return http_fields[id].len;
}

unsigned
http_field_flags(enum http_field_id id)
{
    tassert((unsigned)id < HTTP_F_COUNT);
    return http_fields[id].flags;
}

enum http_method
http_method_id(struct slice token)
{
    unsigned m;

    for (m = HTTP_M_OTHER + 1; m < HTTP_M_COUNT; m++) { /* GET is the first */
        if (slice_eq(token, http_methods[m].name))
            return (enum http_method)m;
    }
    return HTTP_M_OTHER;
}

const char *
http_method_name(enum http_method m)
{
    tassert((unsigned)m < HTTP_M_COUNT);
    return http_methods[m].name.ptr;
}

bool
http_method_is_safe(enum http_method m)
{
    tassert((unsigned)m < HTTP_M_COUNT);
    return http_methods[m].safe;
}

bool
http_method_is_idempotent(enum http_method m)
{
    tassert((unsigned)m < HTTP_M_COUNT);
    return http_methods[m].idempotent;
}

static const struct http_field *
http_after(const struct http_message *h, const struct http_field *prev)
{
    tassert(prev == NULL || (prev >= h->fields && prev < h->fields + h->nfields));
    return prev == NULL ? h->fields : prev + 1;
}

const struct http_field *
http_find(const struct http_message *h, enum http_field_id id, const struct http_field *prev)
{
    const struct http_field *f, *end = h->fields + h->nfields;

    /* A bit for each known name: most that are looked for are not there. */
    if (!http_has(h, id))
        return NULL;
    for (f = http_after(h, prev); f < end; f++) {
        if (f->id == id)
            return f;
    }
    return NULL;
}

const struct http_field *
http_find_name(const struct http_message *h, struct slice name, const struct http_field *prev)
{
    enum http_field_id id = http_field_id(name.ptr, name.len);
    const struct http_field *f, *end = h->fields + h->nfields;

    if (id != HTTP_F_OTHER)
        return http_find(h, id, prev);
    for (f = http_after(h, prev); f < end; f++) {
        /* A field with a number has another name: it is not compared. */
        if (f->id == HTTP_F_OTHER && slice_eq_nocase(http_name(h, f), name))
            return f;
    }
    return NULL;
}

struct slice
http_get_one(const struct http_message *h, enum http_field_id id)
{
    const struct http_field *f = http_find(h, id, NULL);

    /* Two are as none: of two values another hop might take the other one. */
    if (f == NULL || http_find(h, id, f) != NULL)
        return slice_of(NULL, 0);
    return http_value(h, f);
}

/* clang-format off */
static const char *const http_reasons[] = { /* the IANA registry; [status - 100] */
    [  0] = "Continue", [1] = "Switching Protocols", [2] = "Processing", [3] = "Early Hints",
    [100] = "OK", [101] = "Created", [102] = "Accepted", [103] = "Non-Authoritative Information",
    [104] = "No Content", [105] = "Reset Content", [106] = "Partial Content",
    [107] = "Multi-Status", [108] = "Already Reported", [126] = "IM Used",
    [200] = "Multiple Choices", [201] = "Moved Permanently", [202] = "Found",
    [203] = "See Other", [204] = "Not Modified", [205] = "Use Proxy",
    [207] = "Temporary Redirect", [208] = "Permanent Redirect",
    [300] = "Bad Request", [301] = "Unauthorized", [302] = "Payment Required",
    [303] = "Forbidden", [304] = "Not Found", [305] = "Method Not Allowed",
    [306] = "Not Acceptable", [307] = "Proxy Authentication Required",
    [308] = "Request Timeout", [309] = "Conflict", [310] = "Gone", [311] = "Length Required",
    [312] = "Precondition Failed", [313] = "Content Too Large", [314] = "URI Too Long",
    [315] = "Unsupported Media Type", [316] = "Range Not Satisfiable",
    [317] = "Expectation Failed", [321] = "Misdirected Request",
    [322] = "Unprocessable Content", [323] = "Locked", [324] = "Failed Dependency",
    [325] = "Too Early", [326] = "Upgrade Required", [328] = "Precondition Required",
    [329] = "Too Many Requests", [331] = "Request Header Fields Too Large",
    [351] = "Unavailable For Legal Reasons",
    [400] = "Internal Server Error", [401] = "Not Implemented", [402] = "Bad Gateway",
    [403] = "Service Unavailable", [404] = "Gateway Timeout",
    [405] = "HTTP Version Not Supported", [406] = "Variant Also Negotiates",
    [407] = "Insufficient Storage", [408] = "Loop Detected", [410] = "Not Extended",
    [411] = "Network Authentication Required",
};
/* clang-format on */

const char *
http_reason(unsigned status)
{
    if (status < 100 || status - 100 >= ARRAY_LEN(http_reasons))
        return "Unknown";
    return http_reasons[status - 100] == NULL ? "Unknown" : http_reasons[status - 100];
}

int
http_message_keep(struct http_message *m, struct arena *arena)
{
    size_t room = (size_t)(m->max_fields - m->nfields) * sizeof(struct http_field);
    char *kept = (char *)(m->fields + m->nfields);

    if (m->len == 0)
        return 0;
    if (m->len > room)
        kept = arena_alloc(arena, m->len);
    if (kept == NULL) {
        m->len = m->nfields = 0;
        m->present = 0;
        return TERR_NOMEM;
    }
    memcpy(kept, m->base, m->len);
    m->base = kept;
    return 0;
}
