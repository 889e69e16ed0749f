/* vcl_load_test.c -- a load takes time as its text is long, whatever the text says.
 *
 * Each text once took from minutes to forever, which ends this program's time limit; half a second
 * is usual for all of them.  Nothing here looks at a clock.  Under sanitizers the texts are short.
 */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "t/unit/test.h"
#include "vcl-lite/vcl.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum {
    MANY = 1000
};
#else
enum {
    MANY = 30000
};
#endif

enum {
    TEXT_MAX = 4 * 1024 * 1024
};

static char text[TEXT_MAX];
static size_t text_len;

static void put(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
put(const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text + text_len, sizeof(text) - text_len, fmt, ap);
    va_end(ap);
    tassert(n >= 0 && (size_t)n < sizeof(text) - text_len);
    text_len += (size_t)n;
}

static void
begin(void)
{
    text_len = 0;
    put("vcl 4.1;\nimport directors;\nbackend default { .host = \"127.0.0.1\"; }\n");
}

static unsigned
field_id(void *ctx, struct slice name)
{
    (void)ctx;
    (void)name;
    return 0;
}

/* What the first error of the text says, "" when there is none. */
static const char *
load(void)
{
    static char message[200];
    const struct vcl_source source = {.name = "main.vcl", .text = slice_of(text, text_len)};
    const struct vcl_loader loader = {.field_id = field_id};
    struct vcl_error *errors = NULL;
    struct vcl *v = NULL;
    int err = vcl_compile(&v, &source, &loader, &errors);

    CHECK(err == 0 || err == TERR_CONFIG);
    snprintf(message, sizeof(message), "%s", err == 0 ? "" : errors->message);
    vcl_errors_free(&errors);
    vcl_free(&v);
    return message;
}

TEST(vcl_load, short_subs_that_call_short_ones_twice)
{
    begin();
    put("sub s0 { }\n");
    for (unsigned i = 1; i < 60; i++)
        put("sub s%u { if (false) { call s%u; call s%u; } }\n", i, i - 1, i - 1);
    put("sub vcl_recv { call s59; call s59; }\n");
    CHECK_STR("", load());
}

TEST(vcl_load, many_subs)
{
    begin();
    for (unsigned i = 0; i < MANY; i++)
        put("sub s%u { unset req.http.a; }\n", i);
    put("sub vcl_recv {\n");
    for (unsigned i = 0; i < MANY; i++)
        put("call s%u;\n", i);
    put("}\n");
    CHECK_STR("", load());
}

TEST(vcl_load, many_subs_that_are_not_there)
{
    begin();
    for (unsigned i = 0; i < MANY; i++)
        put("sub s%u { unset req.http.a; }\n", i);
    put("sub vcl_recv {\n");
    for (unsigned i = 0; i < MANY; i++)
        put("call t%u;\n", i);
    put("}\n");
    CHECK_STR("there is no sub 't0'", load());
}

TEST(vcl_load, many_names_that_are_reserved)
{
    begin();
    for (unsigned i = 0; i < MANY * 5; i++)
        put("sub vcl_x%u { }\n", i);
    CHECK(strstr(load(), "names that begin with 'vcl_' are the language's own") != NULL);
}

TEST(vcl_load, many_texts_fields_and_patterns)
{
    begin();
    put("sub vcl_recv {\n");
    for (unsigned i = 0; i < MANY / 2; i++)
        put("if (req.url ~ \"^/a%u\") { set req.http.x%u = \"text %u\"; }\n", i, i, i);
    put("}\n");
    CHECK_STR("", load());
}

TEST(vcl_load, many_objects_are_too_many)
{
    begin();
    put("sub vcl_init {\n");
    for (unsigned i = 0; i < 70000; i++)
        put("new o%u = directors.hash();\n", i);
    put("}\n");
    CHECK_STR("more than 1000 objects are made", load());
}

TEST(vcl_load, all_in_one_line)
{
    begin();
    put("sub vcl_recv {");
    for (unsigned i = 0; i < MANY / 4; i++)
        put("if(req.http.a){set req.http.b=\"x\";if(req.http.c){unset req.http.d;}}");
    put("}\n");
    CHECK_STR("", load());
}

TEST(vcl_load, one_line_of_things_that_are_not_possible)
{
    begin();
    put("sub vcl_recv {");
    for (unsigned i = 0; i < MANY * 5; i++)
        put("set req.http.b= \"x\" \"y\" ");
    put("}\n");
    CHECK(load()[0] != '\0');
}

TEST(vcl_load, one_line_of_typographic_quotes)
{
    begin();
    for (unsigned i = 0; i < 33 * MANY; i++)
        put("\xe2\x80\x9c");
    CHECK(strstr(load(), "is no quote") != NULL);
}

TEST_MAIN(TEST_ENTRY(vcl_load, short_subs_that_call_short_ones_twice),
    TEST_ENTRY(vcl_load, many_subs), TEST_ENTRY(vcl_load, many_subs_that_are_not_there),
    TEST_ENTRY(vcl_load, many_names_that_are_reserved),
    TEST_ENTRY(vcl_load, many_texts_fields_and_patterns),
    TEST_ENTRY(vcl_load, many_objects_are_too_many), TEST_ENTRY(vcl_load, all_in_one_line),
    TEST_ENTRY(vcl_load, one_line_of_things_that_are_not_possible),
    TEST_ENTRY(vcl_load, one_line_of_typographic_quotes))
