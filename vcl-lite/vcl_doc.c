/* vcl_doc.c -- the language's reference, printed from the rows that the compiler obeys.
 *
 * README.md has the tables between two markers; `tarn_vcl_gen readme` renews them, and a ctest
 * compares.  Every row has its documentation as its last column, so a function without one does
 * not compile.
 */
#include "vcl-lite/vcl_doc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_check_args.h"
#include "vcl-lite/vcl_sema.h"

struct doc {
    void (*write)(void *ctx, const char *text);
    void *ctx;
};

static void doc_print(const struct doc *to, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
doc_print(const struct doc *to, const char *fmt, ...)
{
    char buf[1024];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(buf, sizeof(buf), fmt, args);
    va_end(args);
    /* Cut, the manual would lie: the generator fails instead. */
    tassert(len >= 0 && (size_t)len < sizeof(buf));
    to->write(to->ctx, buf);
}

/* --- where --- */

/* As Varnish's manual says it: "client", "backend", "all", or names of subs. */
static void
doc_where(const struct doc *to, unsigned where)
{
    const char *between = "";

    if (where == VCL_ALL) {
        doc_print(to, "all");
        return;
    }
    if ((where & VCL_CLIENT) == VCL_CLIENT) {
        doc_print(to, "client");
        /* What is left are subs that are named one by one. */
        where &= ~VCL_CLIENT;
        between = ", ";
    }
    if ((where & VCL_BACKEND) == VCL_BACKEND) {
        doc_print(to, "%sbackend", between);
        where &= ~VCL_BACKEND;
        between = ", ";
    }
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++) {
        if ((where & (1u << i)) == 0)
            continue;
        /* As the manual of Varnish has it: "deliver" for vcl_deliver. */
        doc_print(to, "%s%s", between, vcl_sub_name((enum vcl_sub)i) + strlen("vcl_"));
        between = ", ";
    }
}

/* --- the tables --- */

static void
doc_types(const struct doc *to)
{
    doc_print(to, "### Types\n\n| type | what it is |\n|---|---|\n");
#define X(id, name, doc) doc_print(to, "| %s | %s |\n", name, doc);
    VCL_TYPE_TABLE(X)
#undef X
}

/* The columns of the row: README 12 compares the page with what this prints. */
static void
doc_sub(const struct doc *to, const char *name, unsigned actions, const char *doc)
{
    doc_print(to, "| `%s` |", name);
    for (unsigned a = VCL_ACT_NONE + 1; a < VCL_ACT_COUNT; a++)
        if ((actions & (1u << a)) != 0)
            doc_print(to, " %s", vcl_action_name((enum vcl_action)a));
    doc_print(to, " | %s |\n", doc);
}

static void
doc_subs(const struct doc *to)
{
    doc_print(to, "\n### Subroutines\n\nThe first nine are the client's side, the next four the "
                  "backend's.\n\n| sub | return(...) | when it runs |\n|---|---|---|\n");
#define X(id, name, actions, goes_on, doc) doc_sub(to, name, actions, doc);
    VCL_SUB_TABLE(X)
#undef X
    doc_print(to, "\n| action | what it means |\n|---|---|\n");
#define X(id, name, doc) \
    if (name[0] != '\0') \
        doc_print(to, "| `%s` | %s |\n", name, doc);
    VCL_ACTION_TABLE(X)
#undef X
}

static const char *
doc_flags(unsigned flags)
{
    /* Of one version only, or settable in one only. */
    if ((flags & VCL_V40) != 0)
        return " (4.0 only)";
    if ((flags & VCL_V41) != 0)
        return " (4.1 only)";
    if ((flags & VCL_W40) != 0)
        return " (set in 4.0 only)";
    if ((flags & VCL_TARN) != 0)
        return " (Tarn's own)";
    return "";
}

/* What setting it does not do. */
static void
doc_instead(const struct doc *to, enum vcl_var var)
{
    if (sema_var_inert(var) != NULL)
        doc_print(to, "; setting it changes nothing: %s", sema_var_inert(var));
}

/* A name of the language; a family ends in a dot. */
static void
doc_var_name(const struct doc *to, const char *name)
{
    size_t len = strlen(name);

    /* The row has no NAME, which stands in the middle. */
    if (strncmp(name, "storage.", 8) == 0)
        doc_print(to, "| `storage.NAME.%s` |", name + 8);
    else
        doc_print(to, "| `%s%s` |", name, name[len - 1] == '.' ? "NAME" : "");
}

static void
doc_vars(const struct doc *to)
{
    doc_print(to, "\n### Variables\n\n`client` and `backend` are all subs of that side.\n\n"
                  "| variable | type | read in | set in | unset in | what it is |\n"
                  "|---|---|---|---|---|---|\n");
#define X(id, name, type, read, write, unset, flags, doc) \
    doc_var_name(to, name);                               \
    doc_print(to, " %s | ", #type);                       \
    doc_where(to, read);                                  \
    doc_print(to, " | ");                                 \
    doc_where(to, write);                                 \
    doc_print(to, " | ");                                 \
    doc_where(to, unset);                                 \
    doc_print(to, " | %s%s", doc, doc_flags(flags));      \
    doc_instead(to, VCL_VAR_##id);                        \
    doc_print(to, " |\n");
    VCL_VAR_TABLE(X)
#undef X
}

/* "(STRING s, [INT fallback])" */
static void
doc_args(const struct doc *to, const char *row)
{
    struct vcl_arg args[VCL_ARGS_MAX];
    /* The same parser as the compiler's: the page cannot say anything else. */
    unsigned n = vcl_args_parse(row, args);

    for (unsigned i = 0; i < n; i++) {
        const struct vcl_arg *a = &args[i];

        doc_print(to, "%s%s%s", i > 0 ? ", " : "", a->optional ? "[" : "", sema_type_name(a->type));
        if (a->words.ptr != NULL)
            doc_print(to, " {%.*s}", (int)a->words.len, a->words.ptr);
        doc_print(to, " %.*s", (int)a->name.len, a->name.ptr);
        /* As it would be written in a policy. */
        if (a->otherwise.ptr != NULL && a->type == VCL_TYPE_STRING)
            doc_print(to, "=\"%.*s\"", (int)a->otherwise.len, a->otherwise.ptr);
        else if (a->otherwise.ptr != NULL)
            doc_print(to, "=%.*s", (int)a->otherwise.len, a->otherwise.ptr);
        doc_print(to, "%s", a->optional ? "]" : "");
    }
}

static void
doc_func(const struct doc *to, const char *name, enum vcl_type result, const char *args)
{
    doc_print(to, "| `%s%s%s(", result == VCL_TYPE_VOID ? "" : sema_type_name(result),
        result == VCL_TYPE_VOID ? "" : " ", name);
    doc_args(to, args);
    doc_print(to, ")` | ");
}

static void
doc_funcs(const struct doc *to)
{
    /* These are words of the language: they have no rows. */
    doc_print(to, "\n### Functions\n\n"
                  "| function | where | what it does |\n|---|---|---|\n"
                  "| `STRING regsub(STRING s, REGEX pattern, STRING with)` | all | The first match "
                  "replaced; `\\0` to `\\9` are what it held |\n"
                  "| `STRING regsuball(STRING s, REGEX pattern, STRING with)` | all | All matches "
                  "replaced |\n"
                  "| `STRING.lower()` | all | In lower case |\n"
                  "| `STRING.upper()` | all | In upper case |\n"
                  "| `hash_data(STRING s)` | hash | Adds to the key |\n"
                  "| `ban(STRING expression)` | client, backend | Bans what it says |\n"
                  "| `synthetic(STRING body)` | synth, backend_error | Adds to the body |\n");
#define X(id, module, name, result, args, where, how, doc)  \
    doc_func(to, module "." name, VCL_TYPE_##result, args); \
    doc_where(to, where);                                   \
    doc_print(to, " | %s |\n", doc);
    VCL_FUNC_TABLE(X)
#undef X
}

/* Methods of one kind of object. */
static void
doc_methods(const struct doc *to, unsigned kind)
{
#define X(id, kinds, name, result, args, where, doc)     \
    if ((kind & (kinds)) != 0) {                         \
        doc_func(to, "." name, VCL_TYPE_##result, args); \
        doc_where(to, where);                            \
        doc_print(to, " | %s |\n", doc);                 \
    }
    VCL_METHOD_TABLE(X)
#undef X
}

static void
doc_objects(const struct doc *to)
{
    doc_print(to, "\n### Objects\n\nMade by `new NAME = ...` in vcl_init.\n\n"
                  "| object and methods | where | what it does |\n|---|---|---|\n");
#define X(id, module, name, args, doc)                                \
    doc_func(to, "new NAME = " module "." name, VCL_TYPE_VOID, args); \
    doc_print(to, "init | **%s** |\n", doc);                          \
    doc_methods(to, VCL_KIND(id));
    VCL_OBJECT_TABLE(X)
#undef X
}

void
vcl_doc_reference(void (*write)(void *ctx, const char *text), void *ctx)
{
    struct doc to = {.write = write, .ctx = ctx};

    doc_types(&to);
    doc_subs(&to);
    doc_vars(&to);
    doc_funcs(&to);
    doc_objects(&to);
}
