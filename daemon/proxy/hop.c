/* hop.c -- Tarn-Peer, written and read. */
#include "daemon/proxy/hop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/arena.h"
#include "daemon/base/hex.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/digest.h"

enum {
    ASK_WORDS = 15,
    ANSWER_WORDS = 12,
    FAILED_WORDS = 4,
    CODE_HEX = 2 * PEERS_CODE,
};

#define HOP_MS_MAX (INT64_C(100) * 365 * 24 * 60 * 60 * 1000)

/* How many words there are, at most `most`, with one space between them; 0: it is another text. */
static unsigned
hop_split(struct slice text, struct slice *words, unsigned most)
{
    unsigned n = 0;

    while (n < most && text.len > 0) {
        const char *space = memchr(text.ptr, ' ', text.len);
        size_t len = space != NULL ? (size_t)(space - text.ptr) : text.len;

        if (len == 0)
            return 0;
        words[n++] = slice_of(text.ptr, len);
        text = slice_of(text.ptr + len, text.len - len);
        if (text.len > 0)
            text = slice_of(text.ptr + 1, text.len - 1);
    }
    return text.len == 0 ? n : 0;
}

static bool
hop_number(struct slice word, unsigned base, uint64_t *out)
{
    uint64_t n = 0;

    for (size_t i = 0; i < word.len; i++) {
        int d = hex_digit(word.ptr[i]);

        if (d < 0 || d >= (int)base || n > (UINT64_MAX - (uint64_t)d) / base)
            return false;
        n = n * base + (uint64_t)d;
    }
    *out = n;
    return word.len > 0;
}

static bool
hop_ms(struct slice word, int64_t *out)
{
    bool below = word.len > 0 && word.ptr[0] == '-';
    uint64_t n;

    /* A hundred years are no time, and two of them can be added. */
    if (!hop_number(slice_of(word.ptr + below, word.len - below), 10, &n) || n > HOP_MS_MAX)
        return false;
    *out = below ? -(int64_t)n : (int64_t)n;
    return true;
}

/* ---- questions ---- */

static struct slice
hop_or_dash(struct slice s)
{
    return s.len > 0 ? s : SLICE_LIT("-");
}

static struct slice
hop_trimmed(struct slice s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* As both sides have it: in lower case, without the space around. */
static size_t
hop_put_field(char *out, size_t room, struct slice name, struct slice value)
{
    value = hop_trimmed(value);
    if (name.len + value.len + 2 > room)
        return room + 1;
    for (size_t i = 0; i < name.len; i++)
        out[i] = (char)(name.ptr[i] >= 'A' && name.ptr[i] <= 'Z' ? name.ptr[i] | 32 : name.ptr[i]);
    out[name.len] = ':';
    if (value.len > 0)
        memcpy(out + name.len + 1, value.ptr, value.len);
    out[name.len + 1 + value.len] = '\n';
    return name.len + value.len + 2;
}

/* Fields in front of Tarn-Peer. */
static unsigned
hop_nsigned(const struct http_message *m)
{
    const struct http_field *f = http_find_name(m, HOP_FIELD, NULL);

    tassert(f != NULL);
    return (unsigned)(f - m->fields);
}

/* The code of a question, where `front` is the field without it: of all that is asked in front of it, except what is of
 * the connection (RFC 9110 7.6.1).  False: too long. */
static bool
hop_code(const uint8_t secret[PEERS_SECRET], struct slice front, const struct http_message *m,
    uint8_t out[PEERS_CODE])
{
    struct slice method = http_slice(m, m->method_off, m->method_len);
    struct slice host = http_host(m), path = http_path(m);
    const unsigned nsigned = hop_nsigned(m);
    char text[2 * LIMIT_HEAD_BYTES];
    int n = snprintf(text, sizeof(text), "%.*s\n%.*s\n%.*s\n%.*s\n", (int)front.len, front.ptr,
        (int)method.len, method.ptr, (int)host.len, host.ptr, (int)path.len, path.ptr);
    size_t len = (size_t)n;

    if (n < 0)
        return false;
    for (unsigned i = 0; i < nsigned && len < sizeof(text); i++) {
        const struct http_field *f = &m->fields[i];
        enum http_field_id id = (enum http_field_id)f->id;

        if (id != HTTP_F_HOST && (http_field_flags(id) & HTTP_HOP) == 0)
            len += hop_put_field(text + len, sizeof(text) - len, http_name(m, f), http_value(m, f));
    }
    return len <= sizeof(text) &&
           digest_hmac(slice_of((const char *)secret, PEERS_SECRET), slice_of(text, len), out);
}

/* Or a dash; how many bytes. */
static int
hop_put_hex(char *out, struct slice bytes)
{
    if (bytes.len == 0) {
        *out = '-';
        return 1;
    }
    hex_put(out, bytes.ptr, bytes.len);
    return (int)(2 * bytes.len);
}

struct slice
hop_ask(const struct hop_question *q, struct arena *a)
{
    size_t room = 512 + q->fleet.len + q->from.len + q->to.len + q->backend.len +
                  2 * (q->key.len + q->identity.len);
    struct slice client = hop_or_dash(q->client), backend = hop_or_dash(q->backend);
    char *text = arena_alloc(a, room);
    int n;

    if (text == NULL)
        return slice_of(NULL, 0);
    n = snprintf(text, room,
        "1 %.*s %.*s %.*s %016" PRIx64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 " %s %.*s ",
        (int)q->fleet.len, q->fleet.ptr, (int)q->from.len, q->from.ptr, (int)q->to.len, q->to.ptr,
        q->wants.engine, q->wants.ms, q->wants.seq, q->policy, http_scheme_name(q->scheme),
        (int)client.len, client.ptr);
    n += hop_put_hex(text + n, q->identity);
    n += snprintf(text + n, room - (size_t)n, " %.*s ", (int)backend.len, backend.ptr);
    n += hop_put_hex(text + n, q->key);
    n += snprintf(text + n, room - (size_t)n, " %s ", q->background ? "b" : "-");
    tassert(n > 0 && (size_t)n + CODE_HEX + 2 < room);
    memset(text + n, '0', CODE_HEX);
    return slice_of(text, (size_t)n + CODE_HEX);
}

/* The field's value in front of its code. */
static struct slice
hop_front(struct slice value)
{
    tassert(value.len > CODE_HEX + 1);
    return slice_of(value.ptr, value.len - CODE_HEX - 1);
}

int
hop_sign(struct http_message *m, const struct peers_set *set)
{
    const struct http_field *f = http_find_name(m, HOP_FIELD, NULL);
    uint8_t code[PEERS_CODE];
    struct slice value;

    tassert(f != NULL && set->nsecrets > 0);
    value = http_value(m, f);
    if (!hop_code(set->secrets[0], hop_front(value), m, code))
        return TERR_HEADTOOBIG;
    /* In place: the message was built, and is the caller's. */
    hex_put((char *)(uintptr_t)value.ptr + value.len - CODE_HEX, code, sizeof(code));
    return 0;
}

/* In constant time. */
static bool
hop_codes_equal(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;

    for (unsigned i = 0; i < PEERS_CODE; i++)
        differ |= (unsigned)a[i] ^ (unsigned)b[i];
    return differ == 0;
}

/* The code at the field's end, in hexadecimal. */
static struct slice
hop_code_text(struct slice value)
{
    tassert(value.len > CODE_HEX);
    return slice_of(value.ptr + value.len - CODE_HEX, CODE_HEX);
}

static bool
hop_is_signed(const struct peers_set *set, struct slice value, const struct http_message *m,
    struct hop_seal *seal)
{
    uint8_t said[PEERS_CODE], code[PEERS_CODE];

    if (!hex_take(said, hop_code_text(value)))
        return false;
    for (unsigned i = 0; i < set->nsecrets; i++) {
        if (!hop_code(set->secrets[i], hop_front(value), m, code) || !hop_codes_equal(code, said))
            continue;
        memcpy(seal->secret, set->secrets[i], PEERS_SECRET);
        memcpy(seal->code, hop_code_text(value).ptr, CODE_HEX);
        return true;
    }
    return false;
}

void
hop_keep_signed(struct http_message *m)
{
    m->nfields = (uint16_t)hop_nsigned(m);
    m->present = 0;
    for (unsigned i = 0; i < m->nfields; i++)
        if (m->fields[i].id != HTTP_F_OTHER)
            m->present |= HTTP_BIT(m->fields[i].id);
}

static bool
hop_scheme(struct slice word, enum http_scheme *out)
{
    *out = slice_eq(word, SLICE_LIT("https")) ? HTTP_SCHEME_HTTPS : HTTP_SCHEME_HTTP;
    return slice_eq(word, slice_str(http_scheme_name(*out)));
}

static struct slice
hop_not_dash(struct slice word)
{
    return slice_eq(word, SLICE_LIT("-")) ? slice_of("", 0) : word;
}

enum hop_refusal
hop_read(struct hop_question *out, struct hop_seal *seal, const struct peers_set *set,
    const struct http_message *m)
{
    const struct http_field *f = http_find_name(m, HOP_FIELD, NULL);
    struct slice words[ASK_WORDS], value;
    unsigned n;

    if (f == NULL || http_find_name(m, HOP_FIELD, f) != NULL)
        return HOP_MALFORMED;
    value = http_value(m, f);
    n = hop_split(value, words, ASK_WORDS);
    if (value.len > 1 && (value.ptr[0] != '1' || value.ptr[1] != ' '))
        return HOP_VERSION;
    if (n != ASK_WORDS)
        return HOP_MALFORMED;
    if (words[ASK_WORDS - 1].len != CODE_HEX || !hop_is_signed(set, value, m, seal))
        return HOP_UNSIGNED;
    *out = (struct hop_question){.fleet = words[1],
        .from = words[2],
        .to = words[3],
        .client = hop_not_dash(words[9]),
        .identity = hop_not_dash(words[10]),
        .backend = hop_not_dash(words[11]),
        .key = hop_not_dash(words[12]),
        .background = slice_eq(words[13], SLICE_LIT("b"))};
    return hop_number(words[4], 16, &out->wants.engine) &&
                   hop_number(words[5], 10, &out->wants.ms) &&
                   hop_number(words[6], 10, &out->wants.seq) &&
                   hop_number(words[7], 16, &out->policy) && hop_scheme(words[8], &out->scheme)
               ? HOP_GOOD
               : HOP_MALFORMED;
}

struct slice
hop_unhexed(struct slice hex, struct arena *a)
{
    uint8_t *key = hex.len <= 2 * HOP_KEY_MAX ? arena_alloc(a, hex.len / 2 + 1) : NULL;

    if (key == NULL || hex.len == 0 || !hex_take(key, hex))
        return slice_of(NULL, 0);
    return slice_of((const char *)key, hex.len / 2);
}

/* ---- answers ---- */

/* `front` is the answer without its code. */
static bool
hop_answer_code(const uint8_t secret[PEERS_SECRET], struct slice asked, struct slice front,
    uint8_t out[PEERS_CODE])
{
    char text[CODE_HEX + HOP_ANSWER_MAX];

    if (asked.len != CODE_HEX || front.len > HOP_ANSWER_MAX)
        return false;
    memcpy(text, asked.ptr, CODE_HEX);
    memcpy(text + CODE_HEX, front.ptr, front.len);
    return digest_hmac(
        slice_of((const char *)secret, PEERS_SECRET), slice_of(text, CODE_HEX + front.len), out);
}

/* Puts the code behind the n bytes. */
static size_t
hop_sign_answer(char out[static HOP_ANSWER_MAX], int n, const struct hop_seal *seal)
{
    uint8_t code[PEERS_CODE];

    tassert(n > 0 && n + 1 + CODE_HEX <= HOP_ANSWER_MAX);
    if (!hop_answer_code(
            seal->secret, slice_of(seal->code, CODE_HEX), slice_of(out, (size_t)n), code))
        return 0;
    out[n++] = ' ';
    hex_put(out + n, code, sizeof(code));
    return (size_t)n + CODE_HEX;
}

size_t
hop_answer(char out[static HOP_ANSWER_MAX], const char *node, const struct hop_said *said,
    const struct hop_seal *seal)
{
    const struct fresh_verdict *v = &said->verdict;
    int n = snprintf(out, HOP_ANSWER_MAX,
        "1 %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
        " %s%s%s%s %s %s",
        node, v->ttl_ms, v->age_ms, v->grace_ms, v->error_ms, v->keep_ms, v->stale_if_error_ms,
        v->storable ? "s" : "-", v->must_revalidate ? "m" : "", v->no_cache ? "n" : "",
        said->failed ? "e" : "", fresh_refusal_name(v->refusal), fresh_origin_name(v->origin));

    return hop_sign_answer(out, n, seal);
}

size_t
hop_failed(char out[static HOP_ANSWER_MAX], const char *node, const struct hop_seal *seal)
{
    return hop_sign_answer(out, snprintf(out, HOP_ANSWER_MAX, "1 %s failed", node), seal);
}

static bool
hop_answers(const struct peers_set *set, const struct http_message *question, struct slice value)
{
    const struct http_field *f = http_find_name(question, HOP_FIELD, NULL);
    uint8_t said[PEERS_CODE], code[PEERS_CODE];

    tassert(f != NULL);
    if (!hex_take(said, hop_code_text(value)))
        return false;
    for (unsigned i = 0; i < set->nsecrets; i++)
        if (hop_answer_code(
                set->secrets[i], hop_code_text(http_value(question, f)), hop_front(value), code) &&
            hop_codes_equal(code, said))
            return true;
    return false;
}

static void
hop_names(struct fresh_verdict *v, struct slice refusal, struct slice origin)
{
    v->refusal = FRESH_REFUSE_POLICY; /* one that a newer node knows */
    v->origin = FRESH_FROM_POLICY;
    for (unsigned i = 0; i < FRESH_REFUSE_COUNT; i++)
        if (slice_eq(slice_str(fresh_refusal_name((enum fresh_refusal)i)), refusal))
            v->refusal = (enum fresh_refusal)i;
    for (unsigned i = 0; i < FRESH_FROM_COUNT; i++)
        if (slice_eq(slice_str(fresh_origin_name((enum fresh_origin)i)), origin))
            v->origin = (enum fresh_origin)i;
}

/* The words of an answer that is one, with its code; 0: it is none. */
static unsigned
hop_answer_words(struct slice words[ANSWER_WORDS], const struct peers_set *set, struct slice node,
    const struct http_message *question, const struct http_message *m)
{
    const struct http_field *f = http_find_name(m, HOP_FIELD, NULL);
    unsigned n;

    if (f == NULL || http_find_name(m, HOP_FIELD, f) != NULL)
        return 0;
    n = hop_split(http_value(m, f), words, ANSWER_WORDS);
    if (n < FAILED_WORDS || !slice_eq(words[0], SLICE_LIT("1")) || !slice_eq(words[1], node) ||
        words[n - 1].len != CODE_HEX || !hop_answers(set, question, http_value(m, f)))
        return 0;
    return n;
}

bool
hop_read_failed(const struct peers_set *set, struct slice node, const struct http_message *question,
    const struct http_message *m)
{
    struct slice words[ANSWER_WORDS];

    return hop_answer_words(words, set, node, question, m) == FAILED_WORDS &&
           slice_eq(words[2], SLICE_LIT("failed"));
}

bool
hop_read_answer(struct hop_said *out, const struct peers_set *set, struct slice node,
    const struct http_message *question, const struct http_message *m)
{
    struct fresh_verdict *v = &out->verdict;
    struct slice words[ANSWER_WORDS], flags;

    *out = (struct hop_said){.failed = false};
    if (hop_answer_words(words, set, node, question, m) != ANSWER_WORDS)
        return false;
    if (!hop_ms(words[2], &v->ttl_ms) || !hop_ms(words[3], &v->age_ms) ||
        !hop_ms(words[4], &v->grace_ms) || !hop_ms(words[5], &v->error_ms) ||
        !hop_ms(words[6], &v->keep_ms) || !hop_ms(words[7], &v->stale_if_error_ms) ||
        v->age_ms < 0 || v->grace_ms < 0 || v->error_ms < v->grace_ms || v->keep_ms < v->error_ms)
        return false;
    flags = words[8];
    v->storable = memchr(flags.ptr, 's', flags.len) != NULL;
    v->must_revalidate = memchr(flags.ptr, 'm', flags.len) != NULL;
    v->no_cache = memchr(flags.ptr, 'n', flags.len) != NULL;
    out->failed = memchr(flags.ptr, 'e', flags.len) != NULL;
    v->lifetime_ms = v->ttl_ms + v->age_ms;
    hop_names(v, words[9], words[10]);
    if (v->storable)
        v->refusal = FRESH_REFUSE_NONE;
    else if (v->refusal == FRESH_REFUSE_NONE)
        v->refusal = FRESH_REFUSE_POLICY;
    return true;
}
