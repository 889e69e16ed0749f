/* vcl_corpus_test.c -- policies that must load and policies that must not: t/vcl/README.md.
 *
 * Arguments: the folders `good` and `bad`.  What fails is told by file, snippet and line.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "t/unit/test.h"
#include "vcl-lite/vcl.h"

enum {
    CORPUS_FILE_MAX = 1024 * 1024,
    CORPUS_MARKS_MAX = 16, /* of one snippet */
    CORPUS_FILES_MAX = 8,  /* included by one snippet */
};

/* What a snippet says about itself: # error: 3:5: part of the message */
struct corpus_mark {
    bool is_warning, met;
    unsigned line, column;
    char text[200];
};

/* A part of a container: a snippet, or a file that the one before it includes. */
struct corpus_snippet {
    const char *container;
    char name[100];
    struct slice text;
    struct corpus_mark marks[CORPUS_MARKS_MAX];
    unsigned nmarks;
    struct {
        char name[100];
        struct slice text;
    } files[CORPUS_FILES_MAX];
    unsigned nfiles;
};

static const char *corpus_good, *corpus_bad;
static unsigned corpus_failures;

/* --- the world of a snippet --- */

static unsigned
corpus_field_id(void *ctx, struct slice name)
{
    (void)ctx;
    return slice_eq_nocase(name, slice_str("host")) ? 1 : 0;
}

static int
corpus_read_file(
    void *ctx, const char *name, const char *from, struct span *out, char **path, const char **why)
{
    const struct corpus_snippet *s = ctx;

    (void)from;
    for (unsigned i = 0; i < s->nfiles; i++) {
        if (strcmp(s->files[i].name, name) != 0)
            continue;
        *out = (struct span){malloc(s->files[i].text.len + 1), s->files[i].text.len};
        *path = strdup(name);
        tassert(out->ptr != NULL && *path != NULL);
        memcpy(out->ptr, s->files[i].text.ptr, out->len);
        return 0;
    }
    *why = "no such file";
    return TERR_NOTFOUND;
}

/* "*.vcl" is all that there is. */
static int
corpus_glob(void *ctx, const char *pattern, const char *from, char ***out, unsigned *n)
{
    const struct corpus_snippet *s = ctx;

    (void)from;
    *n = 0;
    *out = calloc(CORPUS_FILES_MAX, sizeof(char *));
    tassert(*out != NULL);
    for (unsigned i = 0; i < s->nfiles && strcmp(pattern, "*.vcl") == 0; i++)
        (*out)[(*n)++] = strdup(s->files[i].name);
    return 0;
}

/* localhost is 127.0.0.1; mixed.test has an address of each family. */
static unsigned
corpus_resolve(void *ctx, const char *host, struct vcl_ip *out, unsigned max)
{
    (void)ctx;
    tassert(max >= 2);
    if (strcmp(host, "localhost") != 0 && strcmp(host, "mixed.test") != 0)
        return 0;
    out[0] = (struct vcl_ip){.is_v4 = true, .addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
    out[1] = (struct vcl_ip){.addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    return host[0] == 'm' ? 2 : 1;
}

static bool
corpus_has_backend(void *ctx, struct slice name)
{
    (void)ctx;
    return slice_eq(name, slice_str("yaml_backend"));
}

static bool
corpus_has_storage(void *ctx, struct slice name)
{
    (void)ctx;
    return slice_eq(name, slice_str("s0")) || slice_eq(name, slice_str("Transient"));
}

static bool
corpus_has_label(void *ctx, struct slice name)
{
    (void)ctx;
    return slice_eq(name, slice_str("label"));
}

static const char *
corpus_table(void *ctx, unsigned n)
{
    static const char *const names[] = {"words", "networks"};

    (void)ctx;
    return n < 2 ? names[n] : NULL;
}

/* --- reading containers --- */

static char *
corpus_load(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(CORPUS_FILE_MAX + 1);
    size_t n;

    if (f == NULL || text == NULL) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    n = fread(text, 1, CORPUS_FILE_MAX, f);
    tassert(n < CORPUS_FILE_MAX);
    text[n] = '\0';
    fclose(f);
    return text;
}

static void
corpus_fail(const struct corpus_snippet *s, const char *what, const struct vcl_error *e)
{
    printf("%s: %s: %s", s->container, s->name, what);
    if (e != NULL)
        printf(": %s:%u:%u: %s: %s", e->file, e->line, e->column,
            e->is_warning ? "warning" : "error", e->message);
    printf("\n");
    corpus_failures++;
}

/* "# error: LINE:COL: text" and "# warning: ..." at the beginning of a line. */
static void
corpus_mark(struct corpus_snippet *s, const char *line, size_t len)
{
    struct corpus_mark *m = &s->marks[s->nmarks];
    char copy[400];

    if (len >= sizeof(copy) || len < 3)
        return;
    memcpy(copy, line, len);
    copy[len] = '\0';
    m->is_warning = strncmp(copy, "# warning: ", 11) == 0;
    if (!m->is_warning && strncmp(copy, "# error: ", 9) != 0)
        return;
    tassert(s->nmarks < CORPUS_MARKS_MAX);
    m->met = false;
    if (sscanf(strchr(copy, ':') + 1, " %u:%u: %199[^\n]", &m->line, &m->column, m->text) != 3)
        corpus_fail(s, "a line with a mark is not LINE:COLUMN: text", NULL);
    s->nmarks++;
}

static void
corpus_marks(struct corpus_snippet *s)
{
    const char *p = s->text.ptr, *end = p + s->text.len;

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl == NULL ? end : nl;

        corpus_mark(s, p, (size_t)(stop - p));
        p = stop + 1;
    }
}

/* The next "=== name" or "--- file" at the beginning of a line; the end of the text. */
static char *
corpus_next(char *p)
{
    for (; p != NULL; p = strchr(p, '\n')) {
        if (*p == '\n')
            p++;
        if (strncmp(p, "=== ", 4) == 0 || strncmp(p, "--- ", 4) == 0)
            return p;
    }
    return NULL;
}

/* Takes the name off a head line; where its text begins. */
static char *
corpus_head(char *p, char *name, size_t size)
{
    char *nl = strchr(p, '\n');
    size_t len;

    tassert(nl != NULL);
    len = (size_t)(nl - p - 4);
    tassert(len > 0 && len < size);
    memcpy(name, p + 4, len);
    name[len] = '\0';
    return nl + 1;
}

/* One snippet with the files behind it; where the next one begins, NULL: nowhere. */
static char *
corpus_read(char *p, struct corpus_snippet *s)
{
    char *text = corpus_head(p, s->name, sizeof(s->name));

    p = corpus_next(text);
    s->text = slice_of(text, p == NULL ? strlen(text) : (size_t)(p - text));
    while (p != NULL && p[0] == '-') {
        tassert(s->nfiles < CORPUS_FILES_MAX);
        text = corpus_head(p, s->files[s->nfiles].name, sizeof(s->files[0].name));
        p = corpus_next(text);
        s->files[s->nfiles++].text = slice_of(text, p == NULL ? strlen(text) : (size_t)(p - text));
    }
    corpus_marks(s);
    return p;
}

/* --- judging --- */

static bool
corpus_expects(struct corpus_snippet *s, const struct vcl_error *e)
{
    for (unsigned i = 0; i < s->nmarks; i++) {
        struct corpus_mark *m = &s->marks[i];

        if (!m->met && m->is_warning == e->is_warning && m->line == e->line &&
            m->column == e->column && strstr(e->message, m->text) != NULL) {
            m->met = true;
            return true;
        }
    }
    return false;
}

static void
corpus_judge(struct corpus_snippet *s, bool good, int err, const struct vcl_error *errors)
{
    unsigned nerrors = 0;

    for (const struct vcl_error *e = errors; e != NULL; e = e->next) {
        nerrors += !e->is_warning;
        if (!corpus_expects(s, e))
            corpus_fail(s, "not expected", e);
    }
    for (unsigned i = 0; i < s->nmarks; i++)
        if (!s->marks[i].met)
            corpus_fail(s, s->marks[i].text, NULL);
    if (good && err != 0)
        corpus_fail(s, "it must load", NULL);
    if (!good && nerrors == 0)
        corpus_fail(s, "it must not load", NULL);
    tassert((err == TERR_CONFIG) == (nerrors > 0) && (err == 0 || err == TERR_CONFIG));
}

static void
corpus_try(struct corpus_snippet *s, bool good)
{
    const struct vcl_loader loader = {
        .ctx = s,
        .field_id = corpus_field_id,
        .read_file = corpus_read_file,
        .glob = corpus_glob,
        .resolve = corpus_resolve,
        .has_backend = corpus_has_backend,
        .has_storage = corpus_has_storage,
        .has_label = corpus_has_label,
        .table = corpus_table,
        .backend_needed = true,
    };
    const struct vcl_source source = {.name = "main.vcl", .text = s->text};
    struct vcl_error *errors = NULL;
    struct vcl *v = NULL;
    int err = vcl_compile(&v, &source, &loader, &errors);

    corpus_judge(s, good, err, errors);
    vcl_errors_free(&errors);
    vcl_free(&v);
}

/* All containers of a folder; how many snippets they have. */
static unsigned
corpus_run(const char *folder, bool good)
{
    struct dirent **names;
    unsigned snippets = 0;
    int n = scandir(folder, &names, NULL, alphasort);

    corpus_failures = 0;
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(names[i]->d_name, '.');
        char path[4096], *text, *p;

        if (dot != NULL && strcmp(dot, ".txt") == 0) {
            snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
            text = corpus_load(path);
            for (p = corpus_next(text); p != NULL; snippets++) {
                struct corpus_snippet s = {.container = names[i]->d_name};

                p = corpus_read(p, &s);
                corpus_try(&s, good);
            }
            free(text);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    printf("%s: %u snippets, %u failures\n", folder, snippets, corpus_failures);
    return snippets;
}

TEST(vcl, what_is_good_loads_without_a_word)
{
    CHECK(corpus_run(corpus_good, true) >= 300);
    CHECK_EQ(0, corpus_failures);
}

TEST(vcl, what_is_bad_gets_each_of_its_errors_and_no_other)
{
    CHECK(corpus_run(corpus_bad, false) >= 200);
    CHECK_EQ(0, corpus_failures);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(vcl, what_is_good_loads_without_a_word),
        TEST_ENTRY(vcl, what_is_bad_gets_each_of_its_errors_and_no_other),
    };

    corpus_good = argc == 3 ? argv[1] : "t/vcl/good";
    corpus_bad = argc == 3 ? argv[2] : "t/vcl/bad";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
