/* log_filter.c -- which requests of the log a reader wants to see, and which of their records. */
#include "daemon/shm/log_filter.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/regex.h"
#include "daemon/base/terr.h"

struct filter_why {
    char *text;
    size_t size;
};

enum {
    STATUS_LEAST = 100,
    STATUS_MOST = 599,
};

/* The next piece of a list that commas separate; false at its end. */
static bool
filter_next(struct slice *list, struct slice *piece)
{
    const char *comma;

    /* NULL behind the last, so that an empty list has one empty piece, which is refused. */
    if (list->ptr == NULL)
        return false;
    comma = memchr(list->ptr, ',', list->len);
    *piece = slice_of(list->ptr, comma == NULL ? list->len : (size_t)(comma - list->ptr));
    *list = comma == NULL ? slice_of(NULL, 0) : slice_of(comma + 1, list->len - piece->len - 1);
    return true;
}

static int
filter_tags(struct log_filter *f, const char *text, struct filter_why *why)
{
    struct slice list = slice_str(text), name;
    unsigned tag;

    while (filter_next(&list, &name)) {
        for (tag = 1; tag < SHMLOG_TAG_COUNT; tag++)
            /* By hand people write them in any case. */
            if (slice_eq_nocase(name, slice_str(shmlog_tag_name(tag))))
                break;
        if (tag == SHMLOG_TAG_COUNT) {
            snprintf(why->text, why->size, "no tag is called '%.*s'",
                name.len > 64 ? 64 : (int)name.len, name.ptr);
            return TERR_CONFIG;
        }
        f->tags[tag] = f->by_tag = true;
    }
    return 0;
}

/* Part of a URL, or /a regular expression/.
 * The text is borrowed for as long as the filter lives; the pattern is compiled once, here. */
static int
filter_url(struct log_filter *f, const char *text, struct filter_why *why)
{
    size_t len = strlen(text), at = 0;
    char what[200] = "";
    int err;

    f->url = text;
    /* A path begins with a slash, too: it is a pattern only with one at its end. */
    if (len < 3 || text[0] != '/' || text[len - 1] != '/')
        return 0;
    err = regex_compile(&f->regex, slice_of(text + 1, len - 2), what, sizeof(what), &at);
    if (err == 0)
        return 0;
    /* One for the slash, one to count from 1. */
    snprintf(why->text, why->size, "at character %zu: %s", at + 2,
        what[0] != '\0' ? what : terr_text(err));
    return TERR_CONFIG;
}

/* "404", "500-599", "5xx"; three digits each (RFC 9110 15), 100 to 599. */
static bool
filter_status_piece(struct slice s, unsigned *least, unsigned *most)
{
    unsigned n = 0;
    size_t i;

    for (i = 0; i < s.len && i < 3 && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++)
        n = n * 10 + (unsigned)(s.ptr[i] - '0');
    /* 5xx: a class. */
    if (i == 1 && s.len == 3 && strncasecmp(s.ptr + 1, "xx", 2) == 0) {
        *least = n * 100;
        *most = n * 100 + 99;
        return n >= 1 && n <= 5;
    }
    if (i < 3 || n < STATUS_LEAST || n > STATUS_MOST)
        return false;
    *least = *most = n;
    if (i == s.len)
        return true;
    return s.ptr[i] == '-' && s.len - i == 4 &&
           /* The end is three digits, too: n == *most says that it was no class. */
           filter_status_piece(slice_of(s.ptr + i + 1, 3), &n, most) && n == *most && *least <= n;
}

static int
filter_status(struct log_filter *f, const char *text, struct filter_why *why)
{
    struct slice list = slice_str(text), piece;

    while (filter_next(&list, &piece)) {
        if (f->nstatus == LOG_FILTER_STATUS_MAX ||
            !filter_status_piece(
                piece, &f->status[f->nstatus].least, &f->status[f->nstatus].most)) {
            snprintf(why->text, why->size,
                "'%.*s' is no status from 100 to 599, class from 1xx to 5xx or range, as in 404, "
                "5xx or 500-599; at most %d of them with commas between",
                piece.len > 32 ? 32 : (int)piece.len, piece.ptr, LOG_FILTER_STATUS_MAX);
            return TERR_CONFIG;
        }
        f->nstatus++;
    }
    return 0;
}

/* An address as records hold it, and the bits of its family. */
static bool
filter_address(const char *text, uint8_t addr[16], unsigned *bits)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

    memset(addr, 0, 16);
    if (strcmp(text, "unix") == 0) {
        *bits = 0;
        return true;
    }
    if (inet_pton(AF_INET, text, addr + 12) == 1) {
        memcpy(addr, v4, sizeof(v4));
        *bits = 32;
        return true;
    }
    *bits = 128;
    return inet_pton(AF_INET6, text, addr) == 1;
}

/* An address, a network, or "unix". */
static int
filter_client(struct log_filter *f, const char *text, struct filter_why *why)
{
    const char *slash = strchr(text, '/');
    char address[64] = "", *end = NULL;
    unsigned family = 0;
    long bits = -1;

    if (slash == NULL || (size_t)(slash - text) < sizeof(address))
        snprintf(address, sizeof(address), "%.*s",
            slash == NULL ? (int)sizeof(address) - 1 : (int)(slash - text), text);
    f->has_client = filter_address(address, f->client, &family);
    if (slash != NULL)
        bits = strtol(slash + 1, &end, 10);
    /* A socket has no network. */
    if (!f->has_client || (slash != NULL && (end == slash + 1 || *end != '\0' || bits < 0 ||
                                                bits > (long)family || family == 0))) {
        snprintf(why->text, why->size,
            "an address or a network, as in 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32; or unix");
        return TERR_CONFIG;
    }
    /* Of 128: IPv4 is kept as ::ffff:a.b.c.d. */
    f->client_bits = slash == NULL ? 128 : (unsigned)bits + (family == 32 ? 96 : 0);
    return 0;
}

/* hit has the stale ones, too, and miss what is remembered as not cacheable. */
static unsigned
filter_results(struct slice word)
{
    unsigned results = 0;

    for (unsigned i = 0; i < RESULT_COUNT; i++)
        if (slice_eq(word, slice_str(shmlog_result_word((enum request_result)i))))
            results = 1u << i;
    if (results == 1u << RESULT_hit)
        results |= 1u << RESULT_stale;
    if (results == 1u << RESULT_miss)
        results |= 1u << RESULT_hitmiss;
    return results;
}

static int
filter_cache(struct log_filter *f, const char *text, struct filter_why *why)
{
    struct slice list = slice_str(text), word;

    while (filter_next(&list, &word)) {
        unsigned results = filter_results(word);
        size_t n = 0;

        /* Any of them: conditions of one name are joined by or, those of several by and. */
        f->results |= results;
        if (results != 0)
            continue;
        n = (size_t)snprintf(why->text, why->size,
            "'%.*s' is no result; there are:", word.len > 32 ? 32 : (int)word.len, word.ptr);
        for (unsigned i = 0; i < RESULT_COUNT && n < why->size; i++)
            n += (size_t)snprintf(why->text + n, why->size - n, "%s %s", i > 0 ? "," : "",
                shmlog_result_word((enum request_result)i));
        return TERR_CONFIG;
    }
    return 0;
}

/* A second one of these would take the place of the first, and no line would tell. */
static bool
filter_was_said(const struct log_filter *f, const char *name)
{
    return (strcmp(name, "url") == 0 && f->url != NULL) ||
           (strcmp(name, "client") == 0 && f->has_client);
}

/* On a mistake the filter may have taken a part of the text: the caller gives it up
 * (log_filter_fini). */
int
log_filter_add(struct log_filter *f, const char *name, const char *text, char *why, size_t why_size)
{
    static const struct {
        const char *name;
        int (*add)(struct log_filter *f, const char *text, struct filter_why *why);
    } conditions[] = {{"cache", filter_cache}, {"client", filter_client}, {"status", filter_status},
        {"tag", filter_tags}, {"url", filter_url}};
    struct filter_why out = {why, why_size};
    int err = TERR_NOTFOUND;

    if (filter_was_said(f, name)) {
        snprintf(why, why_size, "%s may be given once%s", name,
            strcmp(name, "url") == 0 ? ": /a|b/ asks for either" : "; a network has many clients");
        return TERR_CONFIG;
    }
    for (size_t i = 0; i < ARRAY_LEN(conditions) && err == TERR_NOTFOUND; i++)
        if (strcmp(conditions[i].name, name) == 0)
            err = conditions[i].add(f, text, &out);
    /* Else records need not be gathered until their request is over. */
    f->by_request = f->url != NULL || f->nstatus > 0 || f->has_client || f->results != 0;
    return err;
}

void
log_filter_fini(struct log_filter *f)
{
    if (f->regex != NULL)
        regex_free(&f->regex);
}

/* The target, and the same with the host before it.
 * A pattern that reaches its limits (regex.h) does not match: a reader misses a line, and does
 * not hang. */
static bool
filter_takes_url(const struct log_filter *f, const struct shmlog_req *r)
{
    char text[2 * SHMLOG_TEXT_MAX + 2];
    const char *space = r->line.len > 0 ? memchr(r->line.ptr, ' ', r->line.len) : NULL;
    struct slice target = r->line, whole;

    if (space != NULL)
        target = slice_of(space + 1, (size_t)(r->line.ptr + r->line.len - space) - 1);
    if (r->host.len > 0)
        /* Both are bounded by SHMLOG_TEXT_MAX. */
        memcpy(text, r->host.ptr, r->host.len);
    if (target.len > 0)
        memcpy(text + r->host.len, target.ptr, target.len);
    whole = slice_of(text, r->host.len + target.len);
    if (f->regex != NULL)
        /* Either: ^/img means the path, and example.com/img the whole. */
        return regex_match(f->regex, target) == 1 || regex_match(f->regex, whole) == 1;
    return memmem(whole.ptr, whole.len, f->url, strlen(f->url)) != NULL;
}

static bool
filter_takes_client(const struct log_filter *f, const uint8_t addr[16])
{
    unsigned bytes = f->client_bits / 8, bits = f->client_bits % 8;

    if (memcmp(f->client, addr, bytes) != 0)
        return false;
    return bits == 0 || (f->client[bytes] ^ addr[bytes]) >> (8 - bits) == 0;
}

bool
log_filter_takes(const struct log_filter *f, const struct shmlog_req *r)
{
    bool good = f->nstatus == 0;

    /* The cheap tests first, the pattern last. */
    if (f->results != 0 && (f->results >> shmlog_result(r->fixed.flags) & 1) == 0)
        return false;
    for (unsigned i = 0; i < f->nstatus && !good; i++)
        good = r->fixed.status >= f->status[i].least && r->fixed.status <= f->status[i].most;
    if (!good || (f->has_client && !filter_takes_client(f, r->fixed.addr)))
        return false;
    return f->url == NULL || filter_takes_url(f, r);
}

bool
log_filter_takes_tag(const struct log_filter *f, unsigned tag)
{
    return !f->by_tag || (tag < SHMLOG_TAG_COUNT && f->tags[tag]);
}
