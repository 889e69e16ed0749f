/* conf_compress_test.c -- compression as a file says it: read, compared, refused, and asked for. */
#include "t/unit/conf_fixture.h"

#include "conf/conf_compare.h"

#define DEFAULT_TYPES                                                                            \
    "text/* application/json application/ld+json application/manifest+json application/xml "     \
    "application/rss+xml application/atom+xml application/xhtml+xml application/javascript "     \
    "application/x-javascript application/wasm application/vnd.ms-fontobject font/ttf font/otf " \
    "image/svg+xml image/bmp image/x-icon"

static void
expect_defaults(const struct conf *c)
{
    CHECK_EQ(CONF_COMPRESS_GZIP | CONF_COMPRESS_BR | CONF_COMPRESS_ZSTD, c->compress.formats);
    CHECK_EQ(5, c->compress.background_cpu);
    CHECK_STR(DEFAULT_TYPES, c->compress.types);
    CHECK_EQ(1024, c->compress.min_size);
    CHECK_EQ(16, c->compress.states);
}

TEST(conf_compress, the_defaults_are_there_whether_it_is_on_or_off)
{
    static const struct {
        const char *section;
        bool on;
    } rows[] = {{"", false}, {"compress: off\n", false}, {"compress: on\n", true},
        {"compress: false\n", false}, {"compress: 'True'\n", true}, {"compress: {}\n", true}};
    char yaml[256];

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        const struct conf *c;

        snprintf(yaml, sizeof(yaml), BACKEND "%s", rows[i].section);
        c = load(yaml);
        CHECK_EQ(rows[i].on, c->compress.on);
        CHECK_EQ(rows[i].on, c->compresses);
        expect_defaults(c);
        conf_free(&c);
    }
}

TEST(conf_compress, every_key_of_the_section_is_read)
{
    const struct conf *c = load(BACKEND "compress:\n"
                                        "  formats: [gzip, GZIP]\n"
                                        "  types: [Text/*, application/vnd.api+json, text/html]\n"
                                        "  min_size: 0\n"
                                        "  states: 1024\n"
                                        "  background_cpu: 100%\n");

    CHECK(c->compress.on && c->compresses);
    CHECK_EQ(CONF_COMPRESS_GZIP, c->compress.formats);
    CHECK_STR("text/* application/vnd.api+json text/html", c->compress.types);
    CHECK_EQ(0, c->compress.min_size);
    CHECK_EQ(1024, c->compress.states);
    CHECK_EQ(100, c->compress.background_cpu);
    conf_free(&c);
    c = load(BACKEND "compress: {formats: [Zstd, gzip], background_cpu: 0%}\n");
    CHECK_EQ(CONF_COMPRESS_GZIP | CONF_COMPRESS_ZSTD, c->compress.formats);
    CHECK_EQ(0, c->compress.background_cpu);
    conf_free(&c);
    c = load(BACKEND "compress: {formats: gzip, types: text/css, min_size: 1GiB}\n");
    CHECK_STR("text/css", c->compress.types);
    CHECK_EQ(1 << 30, c->compress.min_size);
    conf_free(&c);
}

TEST(conf_compress, a_route_says_on_or_off_or_follows_the_section)
{
    const char *routes = "routes:\n"
                         "  - {path: /a, compress: on}\n"
                         "  - {path: /b, compress: off}\n"
                         "  - {path: /c, compress: ''}\n"
                         "  - {path: /d}\n"
                         "  - {path: /e, compress: All}\n";
    char yaml[512];

    for (unsigned on = 0; on < 2; on++) {
        const struct conf *c;

        snprintf(yaml, sizeof(yaml), BACKEND "%s%s", routes, on ? "compress: on\n" : "");
        c = load(yaml);
        CHECK_EQ(CONF_COMPRESS_ON, conf_compress_extent(c, &c->routes[0]));
        CHECK_EQ(CONF_COMPRESS_OFF, conf_compress_extent(c, &c->routes[1]));
        CHECK_EQ(on ? CONF_COMPRESS_ON : CONF_COMPRESS_OFF, conf_compress_extent(c, &c->routes[2]));
        CHECK_EQ(on ? CONF_COMPRESS_ON : CONF_COMPRESS_OFF, conf_compress_extent(c, &c->routes[3]));
        CHECK_EQ(on ? CONF_COMPRESS_ON : CONF_COMPRESS_OFF, conf_compress_extent(c, NULL));
        CHECK_EQ(CONF_COMPRESS_ALL, conf_compress_extent(c, &c->routes[4]));
        CHECK(c->compresses);
        CHECK(!c->routes_act); /* it takes no part in how a request starts */
        expect_defaults(c);
        conf_free(&c);
    }
}

TEST(conf_compress, routes_that_are_off_compress_nothing)
{
    const struct conf *c = load(BACKEND "routes: [{path: /a, compress: off, pass: on}]\n");

    CHECK(!c->compresses);
    conf_free(&c);
}

TEST(conf_compress, a_media_type_is_matched_without_its_parameters_and_in_any_case)
{
    static const struct {
        const char *content_type;
        bool matches;
    } rows[] = {
        {"text/html", true},
        {"text/html; charset=utf-8", true},
        {"TEXT/HTML;charset=utf-8", true},
        {"text/x ; a=b", true},
        {"application/json", true},
        {"Application/JSON\t", true},
        {"application/json5", false},
        {"application/jso", false},
        {"text/", false},
        {"text", false},
        {"texts/html", false},
        {"atext/html", false},
        {"image/png", false},
        {"video/mp4; a=text/html", false},
        {"text/* application/json",
            true}, /* the text of a list is no pattern: it is a type of text */
        {"application/json application/xml", true}, /* ends at its space */
        {"", false},
        {";", false},
    };
    const struct conf *c = load(BACKEND "compress: {types: [text/*, application/json]}\n");

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(
            rows[i].matches, conf_compress_has_type(&c->compress, slice_str(rows[i].content_type)));
    conf_free(&c);
}

TEST(conf_compress, mistakes_of_the_section_are_refused_with_what_would_be_right)
{
    static const struct {
        const char *section, *want;
    } rows[] = {
        /* clang-format off */
        {"compress: gzip", "2:11 compress: 'gzip' is not on, off, true or false\n"},
        {"compress: [gzip]", "2:11 compress must not be a list: give it on, off, true or false\n"},
        {"compress:", "2:1 compress has no value: give it on, off, true or false\n"},
        {"compression: on", "2:1 unknown section 'compression'; did you mean 'compress'?\n"},
        {"gzip: on", "2:1 section 'gzip' is called compress: write `compress: on`\n"},
        {"compress: {minsize: 1KiB}",
         "2:12 unknown key 'minsize' in section 'compress'; did you mean 'min_size'?\n"},
        {"compress: {level: 6}",
         "2:12 unknown key 'level' in section 'compress'; it takes: formats, types, min_size, states,"
             " background_cpu\n"},
        {"compress: {min_size: 2GiB}", "2:22 min_size: '2GiB' is too large: the most is 1GiB\n"},
        {"compress: {min_size: -1}", "2:22 min_size: '-1' is negative: the least is 0\n"},
        {"compress: {min_size: 1s}",
         "2:22 min_size: '1s' has an unknown unit: use B, KiB, MiB, GiB or TiB (k, m, g, t)\n"},
        {"compress: {states: 0}", "2:20 states: '0' is too small: the least is 1\n"},
        {"compress: {states: 1025}", "2:20 states: '1025' is too large: the most is 1024\n"},
        {"compress: {states: [1]}", "2:20 states must not be a list: give it a whole number\n"},
        /* clang-format on */
    };
    char yaml[256];

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(yaml, sizeof(yaml), BACKEND "%s\n", rows[i].section);
        expect_errors(yaml, rows[i].want);
    }
}

TEST(conf_compress, formats_are_of_those_there_are_and_gzip_is_one_of_them)
{
    static const struct {
        const char *formats, *want;
    } rows[] = {
        /* clang-format off */
        {"[br]", "2:21 formats: gzip is missing: a response is compressed with it while it arrives, "
                 "and br and zstd are made of that\n"},
        {"zstd", "2:21 formats: gzip is missing: a response is compressed with it while it arrives, "
                 "and br and zstd are made of that\n"},
        {"[gzpi]", "2:22 formats: 'gzpi' is unknown; did you mean 'gzip'?\n"},
        {"[lzma]", "2:22 formats: 'lzma' is unknown: there are gzip, br and zstd\n"},
        {"[]", "2:21 formats: an empty list compresses nothing: give it a format, or write `compress: off`\n"},
        {"''", "2:21 formats: '' is unknown: there are gzip, br and zstd\n"},
        {"[[gzip]]", "2:22 formats: each of the list must be a text, as in gzip\n"},
        {"[~]", "2:22 formats: each of the list must be a text, as in gzip\n"},
        {"{gzip: on}", "2:21 formats must not be a map: give it a list of formats of compression, as in [gzip]\n"},
        {"~", "2:12 formats has no value: give it a list of formats of compression, as in [gzip]\n"},
        /* clang-format on */
    };
    char yaml[256];

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(yaml, sizeof(yaml), BACKEND "compress: {formats: %s}\n", rows[i].formats);
        expect_errors(yaml, rows[i].want);
    }
}

#define NO_PATTERN                                                                                 \
    "is a pattern that is not supported: a * stands for a whole subtype, as in text/*, and types " \
    "with a suffix are named each, as in application/ld+json\n"
#define NO_TYPE "is not a media type: type/subtype, as in text/html, or type/*, as in text/*\n"

TEST(conf_compress, a_media_type_has_a_grammar)
{
    static const struct {
        const char *types, *want;
    } rows[] = {
        /* clang-format off */
        {"[html]", "2:20 types: 'html' has no slash: a media type is type/subtype, as in text/html, "
                   "or type/*, as in text/*\n"},
        {"['text/html; charset=utf-8']",
         "2:20 types: 'text/html; charset=utf-8' has parameters: a media type is given without "
         "them, as in text/html\n"},
        {"['*/*']", "2:20 types: '*/*' " NO_PATTERN},
        {"[application/*+json]", "2:20 types: 'application/*+json' " NO_PATTERN},
        {"[text/h*]", "2:20 types: 'text/h*' " NO_PATTERN},
        {"[te*t/html]", "2:20 types: 'te*t/html' " NO_PATTERN},
        {"[text/]", "2:20 types: 'text/' " NO_TYPE},
        {"[/html]", "2:20 types: '/html' " NO_TYPE},
        {"[a/b/c]", "2:20 types: 'a/b/c' " NO_TYPE},
        {"['text/html text/css']", "2:20 types: 'text/html text/css' " NO_TYPE},
        {"[\"text/a\\x01b\"]", "2:20 types: 'text/a?b' " NO_TYPE},
        {"[text/css, html, a/]",
         "2:30 types: 'html' has no slash: a media type is type/subtype, as in text/html, or "
         "type/*, as in text/*\n2:36 types: 'a/' " NO_TYPE},
        {"[]", "2:19 types: an empty list compresses nothing: give it a media type, or write `compress: off`\n"},
        {"[{a: b}]", "2:20 types: each of the list must be a text, as in text/html\n"},
        {"[~]", "2:20 types: each of the list must be a text, as in text/html\n"},
        /* clang-format on */
    };
    char yaml[256];

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(yaml, sizeof(yaml), BACKEND "compress: {types: %s}\n", rows[i].types);
        expect_errors(yaml, rows[i].want);
    }
}

/* `n` types of `len` bytes each. */
static char *
many_types(unsigned n, int len)
{
    size_t size = (size_t)n * ((size_t)len + 1) + 128, used = 0;
    char *yaml = calloc(1, size);

    used += (size_t)snprintf(yaml, size, BACKEND "compress: {types: [");
    for (unsigned i = 0; i < n; i++)
        used +=
            (size_t)snprintf(yaml + used, size - used, "%sa/%0*u", i > 0 ? "," : "", len - 2, i);
    snprintf(yaml + used, size - used, "]}\n");
    return yaml;
}

TEST(conf_compress, media_types_have_a_bound)
{
    char *yaml = many_types(64, 63); /* with their spaces: 4096 bytes */
    const struct conf *c = load(yaml);

    CHECK_EQ(64 * 64 - 1, strlen(c->compress.types));
    CHECK(conf_compress_has_type(&c->compress,
        slice_str("a/0000000000000000000000000000000000000000000000000000000000063")));
    conf_free(&c);
    free(yaml);
    yaml = many_types(65, 10);
    expect_errors(yaml, "2:19 types has 65 entries: 64 are possible\n");
    free(yaml);
    yaml = many_types(1, 4096);
    expect_errors(yaml, "2:20 types has more than 4096 bytes\n");
    free(yaml);
}

TEST(conf_compress, a_route_that_could_not_compress_is_refused)
{
    const struct conf *c;

    expect_errors(BACKEND "routes:\n"
                          "  - {path: /a, compress: any}\n"
                          "  - {path: /b, redirect: {to: /x}, compress: on}\n"
                          "  - {path: /c, compress: {min_size: 1KiB}}\n"
                          "  - {path: /d, compress: gzip}\n"
                          "  - {path: /e, compress: [on]}\n"
                          "  - {path: /f, compres: on}\n",
        "3:26 compress: 'any' is not on, off, all, true or false\n"
        "4:36 key 'compress' is never used: this route answers every request with a redirect\n"
        "5:26 compress of a route is on, off or all: what else there is to say stands in section "
        "'compress', for all routes\n"
        "6:26 compress: 'gzip' is not on, off, all, true or false\n"
        "7:26 compress must not be a list: give it on, off, true or false\n"
        "8:16 unknown key 'compres' in a route; did you mean 'compress'?\n");
    /* Requests that come by https are answered from the backend. */
    c = load(BACKEND "routes: [{redirect: https, compress: on}]\n");
    CHECK(c->compresses);
    conf_free(&c);
}

struct told {
    char text[4096];
    size_t len;
};

static void
told_each(void *ctx, const struct conf_change *c)
{
    struct told *t = ctx;

    t->len += (size_t)snprintf(t->text + t->len, sizeof(t->text) - t->len, "%s%s: '%s' '%s'\n",
        c->live ? "" : "! ", c->what, c->from, c->to);
}

static void
expect_changes(const char *old, const char *next, const char *want)
{
    const struct conf *a = load(old), *b = load(next);
    struct told t = {.len = 0};

    CHECK_EQ(0, conf_compare(a, b, told_each, &t)); /* none needs a restart */
    CHECK_STR(want, t.text);
    conf_free(&a);
    conf_free(&b);
}

TEST(conf_compress, a_reload_applies_each_change_without_a_restart)
{
    const char *on = BACKEND "compress: on\n";

    expect_changes(BACKEND, BACKEND "compress: off\n", "");
    expect_changes(on, BACKEND "compress: {formats: [zstd, gzip, br], min_size: 1024}\n", "");
    expect_changes(BACKEND, on, "compress: 'off' 'on'\n");
    expect_changes(on, BACKEND, "compress: 'on' 'off'\n");
    expect_changes(BACKEND, BACKEND "compress: {min_size: 0}\n", "compress: 'off' 'on'\n");
    expect_changes(BACKEND "compress: {types: [text/*, font/ttf]}\n",
        BACKEND "compress: {types: [text/css], min_size: 2KiB, states: 3}\n",
        "compress.types: 'text/* font/ttf' 'text/css'\ncompress.min_size: '1KiB' '2KiB'\n"
        "compress.states: '16' '3'\n");
}

TEST(conf_compress, what_a_route_says_is_compared)
{
    static const char *const routes[] = {BACKEND "routes: [{path: /x}]\n",
        BACKEND "routes: [{path: /x, compress: off}]\n",
        BACKEND "routes: [{path: /x, compress: on}]\n"};

    for (unsigned i = 0; i < ARRAY_LEN(routes); i++)
        for (unsigned j = 0; j < ARRAY_LEN(routes); j++)
            expect_changes(routes[i], routes[j], i == j ? "" : "routes: '' ''\n");
}

TEST_MAIN(TEST_ENTRY(conf_compress, the_defaults_are_there_whether_it_is_on_or_off),
    TEST_ENTRY(conf_compress, every_key_of_the_section_is_read),
    TEST_ENTRY(conf_compress, a_route_says_on_or_off_or_follows_the_section),
    TEST_ENTRY(conf_compress, routes_that_are_off_compress_nothing),
    TEST_ENTRY(conf_compress, a_media_type_is_matched_without_its_parameters_and_in_any_case),
    TEST_ENTRY(conf_compress, mistakes_of_the_section_are_refused_with_what_would_be_right),
    TEST_ENTRY(conf_compress, formats_are_of_those_there_are_and_gzip_is_one_of_them),
    TEST_ENTRY(conf_compress, a_media_type_has_a_grammar),
    TEST_ENTRY(conf_compress, media_types_have_a_bound),
    TEST_ENTRY(conf_compress, a_route_that_could_not_compress_is_refused),
    TEST_ENTRY(conf_compress, a_reload_applies_each_change_without_a_restart),
    TEST_ENTRY(conf_compress, what_a_route_says_is_compared))
