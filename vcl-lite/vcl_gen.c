/* vcl_gen.c -- tarn_vcl_gen: prints what is generated from the tables of the language, and code.
 *
 *     tarn_vcl_gen reference               the tables alone, for tarn-vcl(7)
 *     tarn_vcl_gen readme < README.md      the same file, with its reference renewed
 *     tarn_vcl_gen code FILE               what the compiler makes of a policy, for its developers
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vcl-lite/vcl.h"
#include "vcl-lite/vcl_doc.h"
#include "vcl-lite/vcl_dump.h"

enum {
    GEN_FILE_MAX = 4 * 1024 * 1024
};

static void
gen_write(void *ctx, const char *text)
{
    fputs(text, ctx);
}

/* Copies stdin; what stood between the markers is replaced.  False: a marker is missing. */
static bool
gen_readme(void)
{
    char line[4096];
    bool inside = false;
    unsigned markers = 0;

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (strcmp(line, VCL_DOC_END) == 0) {
            inside = false;
            markers++;
        }
        /* The markers themselves stay: the end is outside again when it is printed. */
        if (!inside)
            fputs(line, stdout);
        if (strcmp(line, VCL_DOC_BEGIN) == 0) {
            inside = true;
            markers++;
            vcl_doc_reference(gen_write, stdout);
        }
    }
    return markers == 2 && !inside;
}

/* --- code: a world in which every name is known --- */

static unsigned
gen_field_id(void *ctx, struct slice name)
{
    (void)ctx;
    (void)name;
    return 0;
}

static int
gen_read_file(
    void *ctx, const char *name, const char *from, struct span *out, char **path, const char **why)
{
    (void)ctx;
    (void)name;
    (void)from;
    (void)out;
    (void)path;
    *why = "this program reads one file";
    return -1;
}

static bool
gen_has(void *ctx, struct slice name)
{
    (void)ctx;
    (void)name;
    return true;
}

/* Every name is 127.0.0.1. */
static unsigned
gen_resolve(void *ctx, const char *host, struct vcl_ip *out, unsigned max)
{
    (void)ctx;
    (void)host;
    (void)max;
    *out = (struct vcl_ip){.is_v4 = true, .addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
    return 1;
}

static int
gen_code(const char *name)
{
    static const struct vcl_loader loader = {.field_id = gen_field_id,
        .read_file = gen_read_file,
        .resolve = gen_resolve,
        .has_backend = gen_has,
        .has_storage = gen_has,
        .has_label = gen_has};
    FILE *file = fopen(name, "rb");
    char *text = malloc(GEN_FILE_MAX);
    struct vcl_error *errors = NULL;
    struct vcl_source src = {.name = name};
    struct vcl *v = NULL;

    if (file == NULL || text == NULL) {
        perror(name);
        free(text);
        return 1;
    }
    /* A longer file is cut: this is for developers, with a policy at hand. */
    src.text = (struct slice){text, fread(text, 1, GEN_FILE_MAX, file)};
    fclose(file);
    vcl_compile(&v, &src, &loader, &errors);
    vcl_errors_print(errors, gen_write, stderr);
    vcl_errors_free(&errors);
    free(text);
    if (v == NULL)
        return 1;
    vcl_dump(v, gen_write, stdout);
    vcl_free(&v);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *what = argc >= 2 ? argv[1] : "";

    if (strcmp(what, "reference") == 0 && argc == 2) {
        vcl_doc_reference(gen_write, stdout);
    } else if (strcmp(what, "readme") == 0 && argc == 2) {
        if (!gen_readme()) {
            fputs("tarn_vcl_gen: the markers of the reference are not there\n", stderr);
            return 1;
        }
    } else if (strcmp(what, "code") == 0 && argc == 3) {
        return gen_code(argv[2]);
    } else {
        fputs("Usage: tarn_vcl_gen reference | readme < README.md | code FILE\n", stderr);
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
