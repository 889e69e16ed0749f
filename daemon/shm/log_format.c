/* log_format.c -- names and documentation of tags and kinds. */
#include "daemon/shm/log_format.h"

#include <string.h>

static const struct {
    const char *name, *doc;
    enum shmlog_payload payload;
} shmlog_tags[] = {{"?", "not a tag of this version", SHMLOG_PAYLOAD_TEXT},
#define X(name, payload, when, doc) {#name, doc, SHMLOG_PAYLOAD_##payload},
    SHMLOG_TABLE(X)
#undef X
};

const char *
shmlog_tag_name(unsigned tag)
{
    /* A writer of a later version has more. */
    return shmlog_tags[tag < SHMLOG_TAG_COUNT ? tag : 0].name;
}

enum shmlog_payload
shmlog_tag_payload(unsigned tag)
{
    return shmlog_tags[tag < SHMLOG_TAG_COUNT ? tag : 0].payload;
}

const char *
shmlog_tag_doc(unsigned tag)
{
    return shmlog_tags[tag < SHMLOG_TAG_COUNT ? tag : 0].doc;
}

const char *
shmlog_kind_name(unsigned kind)
{
    static const char *const names[] = {"?",
#define X(name, doc) #name,
        SHMLOG_KIND_TABLE(X)
#undef X
    };
    return names[kind < SHMLOG_KIND_COUNT ? kind : 0];
}

enum request_result
shmlog_result(unsigned flags)
{
    /* The first match: what answered counts, and we answer a miss with a failed fetch. */
    static const struct {
        unsigned all;
        enum request_result result;
    } rows[] = {
        {SHMLOG_REQ_BAD, RESULT_error},
        {SHMLOG_REQ_SYNTH | SHMLOG_REQ_ABSENT, RESULT_absent},
        {SHMLOG_REQ_SYNTH | SHMLOG_REQ_ERROR, RESULT_error},
        {SHMLOG_REQ_SYNTH, RESULT_synth},
        {SHMLOG_REQ_PIPE, RESULT_pipe},
        {SHMLOG_REQ_HIT | SHMLOG_REQ_STALE, RESULT_stale},
        {SHMLOG_REQ_HIT, RESULT_hit},
        {SHMLOG_REQ_HITMISS, RESULT_hitmiss},
        {SHMLOG_REQ_PASS, RESULT_pass},
        {SHMLOG_REQ_MISS, RESULT_miss},
        {SHMLOG_REQ_QUEUED, RESULT_coalesced},
    };

    /* From the flags, so that the log, the counters and tarnctl say the same.  Each row is two constants then. */
#pragma GCC unroll 16
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((flags & rows[i].all) == rows[i].all)
            return rows[i].result;
    return RESULT_none;
}

const char *
shmlog_result_word(enum request_result result)
{
    static const char *const words[RESULT_COUNT] = {
#define Y(X, name, word, doc) word,
        RESULT_TABLE(Y, )
#undef Y
    };
    return words[result < RESULT_COUNT ? result : RESULT_none];
}

static const struct {
    const char *name;
    size_t most;
} shmlog_tls_texts[SHMLOG_TLS_COUNT] = {
#define X(name, most, doc) {#name, most},
    SHMLOG_TLS_TABLE(X)
#undef X
};

const char *
shmlog_tls_name(enum shmlog_tls which)
{
    return shmlog_tls_texts[which].name;
}

/* The record may be another process's, and hostile: no length of it is believed. */
struct slice
shmlog_req_tls(const struct shmlog_req *r, enum shmlog_tls which)
{
    struct slice left = r->tls, text = {NULL, 0};

    for (unsigned i = 0; i <= which; i++) {
        const char *end = left.len > 0 ? memchr(left.ptr, '\0', left.len) : NULL;

        if (end == NULL)
            return slice_of(NULL, 0);
        text = slice_of(left.ptr, (size_t)(end - left.ptr));
        left = slice_of(end + 1, left.len - text.len - 1);
    }
    if (text.len > shmlog_tls_texts[which].most)
        text.len = shmlog_tls_texts[which].most;
    return text;
}

size_t
shmlog_tls_pack(char to[SHMLOG_TLS_MAX], const char *const texts[SHMLOG_TLS_COUNT])
{
    char *at = to;

    for (unsigned i = 0; i < SHMLOG_TLS_COUNT; i++) {
        at = mempcpy(at, texts[i], strnlen(texts[i], shmlog_tls_texts[i].most));
        *at++ = '\0';
    }
    return (size_t)(at - to);
}
