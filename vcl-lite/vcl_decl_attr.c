/* vcl_decl_attr.c -- attributes of probes and backends: names, types, units, ranges.
 *
 *    .connect_timeout = 1.5s;   .port = "8080";   .probe = { .url = "/health"; }
 *
 * Types are strict, as Varnish's compiler has them: a port is a string, and a time has a unit.
 */
#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_decl_priv.h"

struct decl_attr {
    const char *name;
    enum decl_kind kind;
    double min, max;
    const char *doc;
};

#define X(id, name, kind, min, max, doc) {name, kind, min, max, doc},
static const struct decl_attr attr_probe[] = {VCL_PROBE_ATTR_TABLE(X)};
static const struct decl_attr attr_backend[] = {VCL_BACKEND_ATTR_TABLE(X)};
#undef X

static bool
attr_fail_type(struct vcl_cx *cx, const struct ast_attr *a, const char *name, const char *want,
    const char *example)
{
    vcl_fail(cx, a->value_pos, example, ".%s wants %s", name, want);
    return false;
}

static bool
attr_check_string(struct vcl_cx *cx, const struct ast_attr *a, const struct decl_attr *row)
{
    if (a->kind == AST_ATTR_NUMBER)
        return attr_fail_type(cx, a, row->name, "a string", "put it into quotes");
    if (a->kind != AST_ATTR_STRINGS)
        return attr_fail_type(cx, a, row->name, "a string in quotes", NULL);
    /* Only .request has several: its lines. */
    if (row->kind == DECL_STRING && a->strings->next != NULL)
        return attr_fail_type(cx, a, row->name, "one string", NULL);
    for (const struct ast_string *s = a->strings; s != NULL; s = s->next) {
        for (size_t i = 0; i < s->text.len; i++) {
            unsigned char c = (unsigned char)s->text.ptr[i];

            /* They go into heads and logs, line by line. */
            if ((c < 0x20 && c != '\t') || c == 0x7f)
                return attr_fail_type(cx, a, row->name, "text of one line", NULL);
        }
    }
    return true;
}

static bool
attr_check_int(struct vcl_cx *cx, const struct ast_attr *a, const struct decl_attr *row)
{
    if (a->kind != AST_ATTR_NUMBER || a->number.type != VCL_TYPE_INT)
        return attr_fail_type(cx, a, row->name, "a whole number", NULL);
    /* Whole numbers of a text have 15 digits, and are exact as double. */
    if ((double)a->number.i < row->min || (double)a->number.i > row->max) {
        vcl_fail(cx, a->value_pos, NULL, ".%s is from %.0f to %.0f", row->name, row->min, row->max);
        return false;
    }
    return true;
}

static bool
attr_check_duration(struct vcl_cx *cx, const struct ast_attr *a, const struct decl_attr *row)
{
    /* A number without a unit is the usual mistake: it gets a message of its own. */
    if (a->kind == AST_ATTR_NUMBER &&
        (a->number.type == VCL_TYPE_INT || a->number.type == VCL_TYPE_REAL))
        return attr_fail_type(cx, a, row->name, "a time with its unit", "such as 1.5s or 200ms");
    if (a->kind != AST_ATTR_NUMBER || a->number.type != VCL_TYPE_DURATION)
        return attr_fail_type(cx, a, row->name, "a time", "such as 1.5s or 200ms");
    if (a->number.r < row->min || a->number.r > row->max) {
        vcl_fail(
            cx, a->value_pos, NULL, ".%s is from %.0fs to %.0fs", row->name, row->min, row->max);
        return false;
    }
    return true;
}

/* Does the value fit?  Tells when it does not. */
static bool
attr_check(struct vcl_cx *cx, const struct ast_attr *a, const struct decl_attr *row)
{
    switch (row->kind) {
    case DECL_STRING:
    case DECL_LINES:
        return attr_check_string(cx, a, row);
    case DECL_INT:
        return attr_check_int(cx, a, row);
    case DECL_DURATION:
        return attr_check_duration(cx, a, row);
    case DECL_BOOL:
        return a->kind == AST_ATTR_BOOL || attr_fail_type(cx, a, row->name, "true or false", NULL);
    case DECL_PROBE:
        return a->kind == AST_ATTR_NAME || a->kind == AST_ATTR_BLOCK ||
               attr_fail_type(cx, a, row->name, "the name of a probe, or { ... }", NULL);
    /* Known, so that the answer is better than "no such attribute". */
    case DECL_REFUSED:
        vcl_fail(cx, a->pos, NULL, ".%s does not exist in vcl-lite: %s", row->name, row->doc);
        return false;
    }
    TUNREACHABLE("kind of attribute");
}

static void
attr_fail_unknown(struct vcl_cx *cx, const struct ast_attr *a, const struct decl_attr *rows,
    unsigned nrows, const char *what)
{
    struct vcl_guess guess = {.meant = a->name};

    /* Among those of this kind. */
    for (unsigned i = 0; i < nrows; i++)
        vcl_guess_try(&guess, rows[i].name);
    vcl_fail(cx, a->pos, guess.best == NULL ? NULL : vcl_text(cx, "did you mean .%s?", guess.best),
        "a %s has no attribute .%.*s", what, (int)(a->name.len > 60 ? 60 : a->name.len),
        a->name.ptr);
}

/* Attributes by their number in the row's table; what is not said stays NULL. */
static void
attr_sort(struct vcl_cx *cx, const struct ast_attr *attrs, const struct decl_attr *rows,
    unsigned nrows, const struct ast_attr **out)
{
    const char *what = rows == attr_probe ? "probe" : "backend";
    /* Room for either kind. */
    bool said[DECL_BACKEND_COUNT + DECL_PROBE_COUNT] = {false};

    for (const struct ast_attr *a = attrs; a != NULL; a = a->next) {
        unsigned i = 0;

        while (i < nrows && !slice_eq(a->name, slice_str(rows[i].name)))
            i++;
        if (i == nrows) {
            attr_fail_unknown(cx, a, rows, nrows, what);
        } else if (said[i]) {
            vcl_fail(cx, a->pos, NULL, ".%s is there twice", rows[i].name);
        } else {
            /* Also if it is wrong: the same attribute twice is a mistake of its own. */
            said[i] = true;
            /* Out of `out` if it is wrong: then it has its default, and the load has an error. */
            if (!a->broken && attr_check(cx, a, &rows[i]))
                out[i] = a;
        }
    }
}

void
decl_probe_attrs(
    struct vcl_cx *cx, const struct ast_attr *attrs, const struct ast_attr *out[DECL_PROBE_COUNT])
{
    attr_sort(cx, attrs, attr_probe, DECL_PROBE_COUNT, out);
}

void
decl_backend_attrs(
    struct vcl_cx *cx, const struct ast_attr *attrs, const struct ast_attr *out[DECL_BACKEND_COUNT])
{
    attr_sort(cx, attrs, attr_backend, DECL_BACKEND_COUNT, out);
}
