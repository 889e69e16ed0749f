/* vcl_check_args.c -- arguments of functions, as the tables write them. */
#include "vcl-lite/vcl_check_args.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"

static const char *const args_types[] = {
#define X(id, name, doc) [VCL_TYPE_##id] = name,
    VCL_TYPE_TABLE(X)
#undef X
};

static const char *
args_skip(const char *p, const char *chars)
{
    return p + strspn(p, chars);
}

/* One word, up to any of `end`. */
static const char *
args_word(const char *p, const char *end, struct slice *out)
{
    *out = (struct slice){p, strcspn(p, end)};
    return p + out->len;
}

static enum vcl_type
args_type(struct slice word)
{
    for (unsigned i = 0; i < sizeof(args_types) / sizeof(args_types[0]); i++)
        if (sema_is(word, args_types[i]))
            return (enum vcl_type)i;
    /* Rows are compiled in: no text of an operator comes here. */
    TUNREACHABLE("a type in vcl_func_table.h");
}

/* "TYPE name", "[TYPE name=default]", "[ENUM {a,b} name=a]".  The rows are ours: what is wrong in
 * one is found by the first test that loads a policy. */
static const char *
args_parse_one(const char *p, struct vcl_arg *arg)
{
    struct slice word;

    *arg = (struct vcl_arg){0};
    arg->optional = *p == '[';
    p = args_skip(p, "[ ");
    p = args_skip(args_word(p, " ", &word), " ");
    arg->type = args_type(word);
    if (*p == '{') {
        p = args_word(p + 1, "}", &arg->words);
        p = args_skip(p, "} ");
    }
    p = args_word(p, "=],", &arg->name);
    /* In quotes a default may have a comma or a bracket in it. */
    if (*p == '=' && p[1] == '"') {
        p = args_word(p + 2, "\"", &arg->otherwise);
        p++;
    } else if (*p == '=') {
        p = args_word(p + 1, "],", &arg->otherwise);
    }
    return args_skip(p, "], ");
}

unsigned
vcl_args_parse(const char *row, struct vcl_arg args[VCL_ARGS_MAX])
{
    unsigned n = 0;

    while (*row != '\0') {
        /* `present` has a bit for each. */
        tassert(n < VCL_ARGS_MAX);
        row = args_parse_one(row, &args[n]);
        n++;
    }
    return n;
}

/* Its place among the words is the value that the host gets. */
int
vcl_arg_word(const struct vcl_arg *arg, struct slice word)
{
    const char *p = arg->words.ptr, *end = p + arg->words.len;

    /* An argument of another type has no words. */
    for (int i = 0; p != NULL && p < end; i++) {
        struct slice one = {p, 0};

        while (p < end && *p != ',')
            p++;
        one.len = (size_t)(p - one.ptr);
        if (one.len == word.len && memcmp(one.ptr, word.ptr, word.len) == 0)
            return i;
        p++;
    }
    return -1;
}
