/* table_fixture.h -- a table in a directory of its own, with what tests do to it. */
#ifndef TARN_TABLE_FIXTURE_H
#define TARN_TABLE_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/table/table_read.h"
#include "daemon/table/table_state.h"
#include "daemon/table/table_write.h"
#include "t/unit/test.h"

struct table_fixture {
    char dir[64], path[80], why[TABLE_WHY_MAX];
};

static inline void
fixture_open(struct table_fixture *f)
{
    strcpy(f->dir, "/dev/shm/tarn-test-XXXXXX");
    CHECK(mkdtemp(f->dir) != NULL);
    snprintf(f->path, sizeof(f->path), "%s/t", f->dir);
}

static inline const char *
fixture_file(const struct table_fixture *f, const char *suffix)
{
    static char full[96];

    snprintf(full, sizeof(full), "%s%s", f->path, suffix);
    return full;
}

static inline void
fixture_close(struct table_fixture *f)
{
    static const char *const suffixes[] = {".state", ".0", ".1"};

    for (unsigned i = 0; i < 3; i++)
        unlink(fixture_file(f, suffixes[i]));
    CHECK_EQ(0, rmdir(f->dir));
}

/* An image of the text, to be freed. */
static inline struct table_image
fixture_image(enum table_kind kind, const char *text)
{
    struct table_builder *b;
    struct table_image image;
    unsigned long line;
    char why[TABLE_WHY_MAX];
    size_t again;

    CHECK_EQ(0, table_builder_new(&b, kind));
    CHECK_EQ(0, table_builder_add_text(b, slice_str(text), &line, why, sizeof(why)));
    CHECK_EQ(0, table_builder_finish(b, &image, &again));
    table_builder_free(&b);
    return image;
}

/* Written as a new process would: 0 or 1. */
static inline int
fixture_write(struct table_fixture *f, enum table_kind kind, const char *text)
{
    struct table_image image = fixture_image(kind, text);
    struct table_writer *w;
    int err;

    CHECK_EQ(0, table_writer_open(&w, f->path, 50, f->why, sizeof(f->why)));
    err = table_write(w, &image, f->why, sizeof(f->why));
    table_writer_close(&w);
    free(image.base);
    return err;
}

/* What the reader gets for the key: "-" not there, "!" there is nothing to read. */
static inline const char *
fixture_get(struct table_reader *r, const char *key)
{
    static char out[256];
    const struct table_view *v = table_enter(r);
    struct slice value;

    strcpy(out, v == NULL ? "!" : "-");
    if (v != NULL && table_view_find(v, slice_str(key), &value))
        snprintf(out, sizeof(out), "%.*s", (int)value.len, value.ptr);
    table_leave(r);
    return out;
}

/* Changes bytes of a file where it lies. */
static inline void
fixture_poke(struct table_fixture *f, const char *suffix, off_t at, const void *bytes, size_t len)
{
    int fd = open(fixture_file(f, suffix), O_RDWR);

    CHECK(fd >= 0);
    CHECK_EQ(len, pwrite(fd, bytes, len, at));
    close(fd);
}

#endif
