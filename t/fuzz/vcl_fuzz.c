/* vcl_fuzz.c -- any text as a policy: code, or errors that point into it.
 *
 * The text is cut at lines of "---": what is behind the first is the file that every include reads.
 * Texts of an even length have no builtin.vcl behind them, which is most of the time that one takes.
 * Bounded: the compiler's time may grow with the text, and not with what it says.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "vcl-lite/vcl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_SECONDS_MAX = 8, /* of a text of a few thousand bytes, in the slowest of builds */
    FUZZ_FILES_MAX = 40,  /* read: more of the same is only slow */
};

/* What stands behind the line "---". */
struct fuzz_part {
    struct slice text; /* .ptr NULL: there is no such line */
    unsigned nread;
};

static unsigned
fuzz_field_id(void *ctx, struct slice name)
{
    (void)ctx;
    return (unsigned)name.len % 3;
}

static int
fuzz_read_file(
    void *ctx, const char *name, const char *from, struct span *out, char **path, const char **why)
{
    struct fuzz_part *part = ctx;

    (void)from;
    if (part->text.ptr == NULL || part->nread++ >= FUZZ_FILES_MAX) {
        *why = "no such file";
        return TERR_NOTFOUND;
    }
    *out = (struct span){malloc(part->text.len + 1), part->text.len};
    *path = strdup(name);
    tassert(out->ptr != NULL && *path != NULL);
    memcpy(out->ptr, part->text.ptr, part->text.len);
    return 0;
}

static int
fuzz_glob(void *ctx, const char *pattern, const char *from, char ***out, unsigned *n)
{
    (void)ctx;
    (void)from;
    *n = 2;
    *out = calloc(2, sizeof(char *));
    tassert(*out != NULL);
    (*out)[0] = strdup(pattern);
    (*out)[1] = strdup("other");
    return 0;
}

static unsigned
fuzz_resolve(void *ctx, const char *host, struct vcl_ip *out, unsigned max)
{
    (void)ctx;
    tassert(max >= 2);
    out[0] = (struct vcl_ip){.is_v4 = true, .addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
    out[1] = (struct vcl_ip){.addr = {0x20, 0x01}};
    return (unsigned)strlen(host) % 3;
}

static bool
fuzz_has(void *ctx, struct slice name)
{
    (void)ctx;
    return name.len % 2 == 1;
}

/* How many lines a text has. */
static unsigned
fuzz_lines(struct slice text)
{
    unsigned n = 1;

    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    return n;
}

/* What goes to a terminal has no control character but line ends and tabs. */
static void
fuzz_write(void *ctx, const char *text)
{
    (void)ctx;
    for (const char *p = text; *p != '\0'; p++)
        tassert((unsigned char)*p >= 0x20 || *p == '\n' || *p == '\t');
}

static unsigned
fuzz_check_errors(const struct vcl_error *errors, struct slice text)
{
    unsigned n = 0;

    for (const struct vcl_error *e = errors; e != NULL; e = e->next) {
        tassert(e->message[0] != '\0' && e->source != NULL && e->file[0] != '\0');
        tassert(e->line > 0 && e->column > 0 && e->width > 0);
        if (strcmp(e->file, "fuzz") == 0)
            tassert(e->line <= fuzz_lines(text) && e->column <= text.len + 1);
        n += !e->is_warning;
    }
    tassert(vcl_errors_print(errors, fuzz_write, NULL) == n);
    return n;
}

static void
fuzz_check_policy(const struct vcl *v)
{
    const struct vcl_backend_decl *decls;
    unsigned n = vcl_backend_decls(v, &decls);
    enum vcl_action action;

    tassert(n <= vcl_backends(v) && vcl_default_backend(v) < (int)n);
    for (unsigned i = 0; i < n; i++) {
        tassert(decls[i].none || (decls[i].host != NULL) != (decls[i].path != NULL));
        tassert(decls[i].probe == NULL ||
                (decls[i].probe->url != NULL) != (decls[i].probe->request != NULL));
        tassert(strcmp(decls[i].name, vcl_backend_name(v, i)) == 0);
    }
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        (void)vcl_is_trivial(v, (enum vcl_sub)i, &action);
}

/* The text in front of a line "---", and what is behind it in *part. */
static struct slice
fuzz_cut(const uint8_t *data, size_t size, struct slice *part)
{
    struct slice all = slice_of((const char *)data, size);
    const char *cut = size == 0 ? NULL : memmem(all.ptr, all.len, "\n---\n", 5);

    *part = (struct slice){NULL, 0};
    if (cut == NULL)
        return all;
    *part = slice_of(cut + 5, (size_t)(all.ptr + all.len - cut - 5));
    return slice_of(all.ptr, (size_t)(cut - all.ptr));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part part = {.nread = 0};
    struct slice text = fuzz_cut(data, size, &part.text);
    const struct vcl_source source = {
        .name = "fuzz", .text = text, .without_builtin = size % 2 == 0};
    const struct vcl_loader loader = {.ctx = &part,
        .field_id = fuzz_field_id,
        .method_id = fuzz_field_id,
        .read_file = fuzz_read_file,
        .glob = fuzz_glob,
        .resolve = fuzz_resolve,
        .has_backend = fuzz_has,
        .has_storage = fuzz_has,
        .has_label = fuzz_has};
    struct vcl_error *errors = NULL;
    struct vcl *v = NULL;
    clock_t start = clock();
    int err = vcl_compile(&v, &source, &loader, &errors);

    tassert((clock() - start) / CLOCKS_PER_SEC < FUZZ_SECONDS_MAX);
    tassert(err == 0 || err == TERR_CONFIG);
    tassert((err == 0) == (v != NULL));
    tassert((fuzz_check_errors(errors, text) == 0) == (err == 0));
    if (v != NULL)
        fuzz_check_policy(v);
    vcl_errors_free(&errors);
    vcl_free(&v);
    return 0;
}
