/* table_load.c -- a table from a text. */
#include "daemon/table/table_load.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/table/table_read.h"
#include "daemon/table/table_write.h"

/* The caller's image.  A reason is the text's; without one memory was missing. */
static int
load_build(
    enum table_kind kind, struct slice text, struct table_image *out, char *why, size_t why_size)
{
    char line_why[TABLE_WHY_MAX] = "";
    unsigned long line = 0;
    struct table_builder *b;
    size_t again = 0;
    int err = table_builder_new(&b, kind);

    if (err != 0)
        return err;
    err = table_builder_add_text(b, text, &line, line_why, sizeof(line_why));
    if (err != 0 && line_why[0] != '\0') {
        snprintf(why, why_size, "line %lu: %s", line, line_why);
        err = TERR_SYNTAX;
    } else if (err == 0) {
        err = table_builder_finish(b, out, &again);
    }
    table_builder_free(&b);
    if (err == TERR_EXISTS) {
        snprintf(why, why_size, "entry %zu: its key was there before", again + 1);
        err = TERR_SYNTAX;
    }
    return err;
}

/* table_write() > 0: a reader was given up, which was inside longer than the grace period; it is written. */
static int
load_write(const char *path, const struct table_image *image, char *why, size_t why_size)
{
    struct table_writer *w;
    int err = table_writer_open(&w, path, TABLE_GRACE_MS, why, why_size);

    if (err != 0)
        return err;
    err = table_write(w, image, why, why_size);
    table_writer_close(&w);
    return err > 0 ? 0 : err;
}

static void
load_say(int err, char *why, size_t why_size)
{
    if (err != 0 && why[0] == '\0')
        snprintf(why, why_size, "%s", terr_text(err));
}

int
table_load(const char *path, enum table_kind kind, struct slice text, char *why, size_t why_size)
{
    struct table_image image = {NULL, 0};
    int err;

    why[0] = '\0';
    err = load_build(kind, text, &image, why, why_size);
    if (err == 0)
        err = load_write(path, &image, why, why_size);
    free(image.base);
    load_say(err, why, why_size);
    return err;
}

int
table_check(enum table_kind kind, struct slice text, char *why, size_t why_size)
{
    struct table_image image = {NULL, 0};
    int err;

    why[0] = '\0';
    err = load_build(kind, text, &image, why, why_size);
    free(image.base);
    load_say(err, why, why_size);
    return err;
}
