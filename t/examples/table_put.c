/* table_put.c -- an example of a writer: a map that has just what the command line says.
 *
 *     cc table_put.c $(pkg-config --cflags --libs tarntable) -o table_put
 *     table_put /dev/shm/tarn/moved /old /new /older /newer
 *
 * tarnd, with `tables: { moved: { path: /dev/shm/tarn/moved, kind: map } }`, and whoever else reads
 * the table has it at the next lookup.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarntable.h>

/* 0, or TERR_*, and why. */
static int
build(struct table_image *image, int n, char **words, const char **why)
{
    struct table_builder *b;
    size_t again;
    int err = table_builder_new(&b, TABLE_MAP);

    if (err != 0)
        return err;
    for (int i = 0; i + 1 < n && err == 0; i += 2)
        err = table_builder_add(b, slice_of(words[i], strlen(words[i])),
            slice_of(words[i + 1], strlen(words[i + 1])), why);
    if (err == 0)
        err = table_builder_finish(b, image, &again);
    if (err == TERR_EXISTS)
        *why = "a key is there twice";
    table_builder_free(&b);
    return err;
}

int
main(int argc, char **argv)
{
    struct table_image image;
    struct table_writer *w;
    const char *why = NULL;
    char text[256] = "";
    int err;

    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: table_put PATH [KEY VALUE]...\n");
        return 2;
    }
    err = build(&image, argc - 2, argv + 2, &why);
    if (err != 0) {
        fprintf(stderr, "table_put: %s\n", why != NULL ? why : terr_text(err));
        return 1;
    }
    err = table_writer_open(&w, argv[1], TABLE_GRACE_MS, text, sizeof(text));
    if (err == 0) {
        err = table_write(w, &image, text, sizeof(text)); /* 1: and a reader was given up */
        table_writer_close(&w);
    }
    free(image.base);
    if (err < 0)
        fprintf(stderr, "table_put: %s\n", text);
    return err < 0 ? 1 : 0;
}
