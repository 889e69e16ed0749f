/* h1_parse_try.h -- for tests: a head parsed from pieces, its bytes moving between calls.
 *
 * Each call sees a new block of exactly the bytes that have arrived, and the old block is gone
 * then, so that the address sanitizer catches whoever looks ahead or back.
 */
#ifndef TARN_H1_PARSE_TRY_H
#define TARN_H1_PARSE_TRY_H

#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_parse.h"

struct h1_try {
    struct h1_limits limits;
    struct h1_parser parser;
    struct http_message head;
    struct http_field fields[LIMIT_FIELDS];
    unsigned max_fields;
    char *block; /* where the head's bytes are now */
    int rc;      /* of the last call */
};

static inline void
h1_try_init(struct h1_try *t)
{
    memset(t, 0, sizeof(*t));
    t->limits = (struct h1_limits){.line_max = 8192, .field_max = 8192, .head_max = 32768};
    t->max_fields = LIMIT_FIELDS;
}

static inline void
h1_try_fini(struct h1_try *t)
{
    free(t->block);
    t->block = NULL;
}

static inline void
h1_try_start(struct h1_try *t, bool is_response)
{
    h1_try_fini(t);
    t->head.fields = t->fields;
    t->head.max_fields = (uint16_t)t->max_fields;
    t->rc = 0;
    h1_parse_init(&t->parser, is_response, &t->head, &t->limits);
}

/* `len` bytes have arrived by now.  Not after an answer other than 0. */
static inline int
h1_try_feed(struct h1_try *t, const char *bytes, size_t len)
{
    char *block = (char *)malloc(len == 0 ? 1 : len);

    tassert(block != NULL && t->rc == 0);
    memcpy(block, bytes, len);
    free(t->block);
    t->block = block;
    t->rc = h1_parse_head(&t->parser, block, len);
    return t->rc;
}

/* As the server and the origin side do it: what has come is looked at each `step` bytes. */
static inline int
h1_try_steps(struct h1_try *t, bool is_response, struct slice text, size_t step)
{
    size_t len = 0;

    h1_try_start(t, is_response);
    while (len < text.len && t->rc == 0) {
        len = text.len - len < step ? text.len : len + step;
        h1_try_feed(t, text.ptr, len);
    }
    return t->rc;
}

static inline int
h1_try_whole(struct h1_try *t, bool is_response, struct slice text)
{
    return h1_try_steps(t, is_response, text, text.len);
}

static inline int
h1_try_split(struct h1_try *t, bool is_response, struct slice text, size_t at)
{
    h1_try_start(t, is_response);
    if (at > 0 && h1_try_feed(t, text.ptr, at) != 0)
        return t->rc;
    return h1_try_feed(t, text.ptr, text.len);
}

static inline bool
h1_try_same_heads(const struct h1_try *a, const struct h1_try *b)
{
    const struct http_message *x = &a->head, *y = &b->head;
    unsigned i;

    if (x->len != y->len || x->nfields != y->nfields || x->present != y->present ||
        x->version_minor != y->version_minor || x->version_major != y->version_major ||
        x->method != y->method || x->method_len != y->method_len ||
        x->target_off != y->target_off || x->target_len != y->target_len ||
        x->status != y->status || x->reason_off != y->reason_off || x->reason_len != y->reason_len)
        return false;
    for (i = 0; i < x->nfields; i++) {
        const struct http_field *f = &x->fields[i], *g = &y->fields[i];

        if (f->name_off != g->name_off || f->name_len != g->name_len ||
            f->value_off != g->value_off || f->value_len != g->value_len || f->id != g->id ||
            f->drop != g->drop)
            return false;
    }
    return true;
}

#endif
