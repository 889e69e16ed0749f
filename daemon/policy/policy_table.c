/* policy_table.c -- tarn.table_contains and tarn.table_lookup. */
#include <stdio.h>

#include "daemon/policy/policy.h"
#include "daemon/table/tables.h"

enum {
    FLOAT_TEXT = 16 /* bytes of one: -1.17549435e-38 and a space */
};

/* A run's mistake, for readers of the log. */
static void
policy_table_unknown(struct vcl_run *r, struct slice name)
{
    const struct policy_ctx *ctx = r->ctx;
    struct shmlog *log = ctx->proxy->log;

    tassert((ctx->fetch == NULL) != (ctx->req == NULL)); /* of one of them */
    /* A misspelt name must not fill the error log with a line a request. */
    if (!shmlog_readers(log))
        return;
    shmlog_begin(
        log, policy_ctx_xid(ctx), ctx->fetch != NULL ? SHMLOG_KIND_FETCH : SHMLOG_KIND_REQ, 0);
    shmlog_printf(log, SHMLOG_Error, "there is no table '%.*s' in the configuration",
        name.len < 64 ? (int)name.len : 64, name.ptr);
    shmlog_end(log);
}

/* "0.5 1 2000": as tarn-table loads it. */
static int
policy_table_floats(struct vcl_run *r, struct slice value, struct vcl_value *out)
{
    size_t n = value.len / sizeof(float), len = 0;
    char *text = arena_alloc(r->arena, n * FLOAT_TEXT + 1);
    float f;

    if (text == NULL)
        return TERR_NOMEM;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        /* A value need not be aligned. */
        memcpy(&f, value.ptr + i * sizeof(f), sizeof(f));
        len += (size_t)snprintf(
            text + len, n * FLOAT_TEXT + 1 - len, "%s%.9g", i > 0 ? " " : "", (double)f);
    }
    tassert(len <= n * FLOAT_TEXT);
    out->s = text;
    out->len = len;
    return 0;
}

static enum tables_answer
policy_table_find(
    struct vcl_run *r, const struct vcl_value *args, struct slice *value, enum table_kind *kind)
{
    const struct policy_ctx *ctx = r->ctx;
    struct slice name = policy_string(&args[0]), key = policy_string(&args[1]);
    enum tables_answer answer = TABLES_UNKNOWN;

    if (key.ptr == NULL) /* unset: as VCL has it, an empty text */
        key = SLICE_LIT("");
    if (ctx->proxy != NULL && ctx->proxy->tables != NULL)
        answer = tables_find(ctx->proxy->tables, name, key, value, kind);
    /* vcl_init has no worker, and so no tables. */
    if (ctx->proxy != NULL && answer == TABLES_UNKNOWN)
        policy_table_unknown(r, name);
    return answer;
}

int
policy_table_contains(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out)
{
    enum table_kind kind;
    struct slice value;

    out->i = policy_table_find(r, args, &value, &kind) == TABLES_FOUND;
    return 0;
}

/* The value lies in a mapping that is ours until the turn ends: the run gets a copy. */
int
policy_table_lookup(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out)
{
    enum table_kind kind;
    struct slice value, copy;

    if (policy_table_find(r, args, &value, &kind) != TABLES_FOUND) {
        /* The fallback that the policy gave. */
        *out = args[2];
        return 0;
    }
    if (kind == TABLE_VECTOR)
        return policy_table_floats(r, value, out);
    copy = arena_copy(r->arena, value);
    if (copy.ptr == NULL)
        return TERR_NOMEM;
    out->s = copy.ptr;
    out->len = copy.len;
    return 0;
}
