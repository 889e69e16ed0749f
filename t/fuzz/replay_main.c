/* replay_main.c -- runs a fuzz target over stored inputs, so that corpora are plain tests.
 *
 * Every argument is a file or a directory of files.  Each input is given in memory of exactly
 * its size, so that the address sanitizer sees one byte read too many, and so is every beginning
 * of a short one: what comes from a network or a torn file is cut anywhere.  A target that takes long
 * is built with a REPLAY_CUTS_MAX that is smaller: then some of the beginnings have to do.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef REPLAY_CUTS_MAX
#define REPLAY_CUTS_MAX 2048
#endif

enum {
    REPLAY_BYTES_MAX = 64 * 1024 * 1024,
    REPLAY_CUT_MAX = 2048, /* longer inputs are not cut: their beginnings would take all day */
};

static _Noreturn void
replay_die(const char *path, const char *what)
{
    fprintf(stderr, "replay: %s: %s\n", path, what);
    exit(1);
}

static void
replay_input(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size == 0 ? 1 : size);

    if (exact == NULL)
        replay_die("memory", strerror(ENOMEM));
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void
replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;

    if (file == NULL)
        replay_die(path, strerror(errno));
    if (size > REPLAY_BYTES_MAX)
        replay_die(path, "larger than an input may be");
    bytes = malloc(size + 1);
    if (bytes == NULL || fread(bytes, 1, size + 1, file) != size)
        replay_die(path, "cannot be read, or changed meanwhile");
    fclose(file);
    if (size <= REPLAY_CUT_MAX)
        for (size_t cut = 0; cut < size; cut += 1 + size / REPLAY_CUTS_MAX)
            replay_input(bytes, cut);
    replay_input(bytes, size);
    free(bytes);
}

/* How many files there were under `path`. */
static unsigned
replay_path(const char *path)
{
    struct dirent **names;
    struct stat st;
    unsigned files = 0;
    int n;

    if (stat(path, &st) != 0)
        replay_die(path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return 1;
    }
    n = scandir(path, &names, NULL, alphasort);
    if (n < 0)
        replay_die(path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char below[4096];

        if (names[i]->d_name[0] != '.') {
            snprintf(below, sizeof(below), "%s/%s", path, names[i]->d_name);
            files += replay_path(below);
        }
        free(names[i]);
    }
    free(names);
    return files;
}

int
main(int argc, char **argv)
{
    unsigned files = 0;

    for (int i = 1; i < argc; i++)
        files += replay_path(argv[i]);
    printf("%u inputs\n", files);
    return files > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
