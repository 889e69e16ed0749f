/* table_fuzz.c -- hostile tables: refused, or read without harm and to an end.
 *
 * The first byte says what the rest is:
 *   'd'  a version as it stands, not hashed
 *   'h'  one whose tag, byte order, size and hash are put right, so that what lies behind is reached
 *   's'  256 bytes of a state file, and a version that lies in both copies; through the reader
 *   't'  a kind (a letter from 'a' on) and a text to build a table of, which must then be found
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/tassert.h"
#include "daemon/table/table_build.h"
#include "daemon/table/table_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = 65536
};

static union {
    struct table_data data;
    uint8_t bytes[FUZZ_MAX];
} fuzz_mem;

/* Touches every byte that was handed out, so that the sanitizer sees what lies outside. */
static volatile uint64_t fuzz_sum;

static void
fuzz_touch(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        fuzz_sum += (unsigned char)s.ptr[i];
}

static void
fuzz_ask(const struct table_view *v, struct slice key)
{
    struct slice value;

    if (table_view_find(v, key, &value))
        fuzz_touch(value);
}

static void
fuzz_view(const struct table_view *v)
{
    static const uint8_t v6[16] = {0x20, 1, 0xd, 0xb8};
    struct slice key, value;
    uint64_t at = 0;
    size_t n = 0;

    while (table_view_next(v, &at, &key, &value)) {
        tassert(n++ < v->bytes / TABLE_RECORD_MIN);
        fuzz_touch(key);
        fuzz_touch(value);
        if (n < 64)
            fuzz_ask(v, key);
    }
    fuzz_ask(v, SLICE_LIT(""));
    fuzz_ask(v, SLICE_LIT("a"));
    fuzz_ask(v, SLICE_LIT("/a/b/c"));
    fuzz_ask(v, SLICE_LIT("10.1.2.3"));
    fuzz_ask(v, SLICE_LIT("2001:db8::1"));
    if (table_view_find_address(v, v6, &value))
        fuzz_touch(value);
}

/* In memory of exactly that size, as the sanitizer wants it. */
static void
fuzz_version(const uint8_t *bytes, size_t size, enum table_trust trust)
{
    void *mem = malloc(size + 1);
    char why[TABLE_WHY_MAX];
    struct table_view v;

    tassert(mem != NULL);
    memcpy(mem, bytes, size);
    if (table_view_open(&v, mem, size, trust, why, sizeof(why)) == 0)
        fuzz_view(&v);
    else
        tassert(why[0] != '\0');
    free(mem);
}

static void
fuzz_put_right(size_t size)
{
    struct table_data *d = &fuzz_mem.data;

    memcpy(d->tag, TABLE_DATA_TAG, sizeof(d->tag));
    d->order = TABLE_ORDER;
    d->layout = TABLE_LAYOUT;
    d->header_bytes = sizeof(*d);
    d->bytes = size;
    if (d->kind == TABLE_ANY || d->kind >= TABLE_KIND_COUNT)
        d->kind = 1 + d->kind % (TABLE_KIND_COUNT - 1);
    d->hash = hash_plain(fuzz_mem.bytes + 16, size - 16);
}

static void
fuzz_file(const char *path, const char *suffix, const uint8_t *bytes, size_t size)
{
    char full[128];
    int fd;

    snprintf(full, sizeof(full), "%s%s", path, suffix);
    fd = open(full, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    tassert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static char fuzz_dir[] = "/dev/shm/tarn-fuzz-XXXXXX", fuzz_path[64];

static void
fuzz_clean_up(void)
{
    static const char *const suffixes[] = {".state", ".0", ".1"};
    char full[128];

    for (unsigned i = 0; i < 3; i++) {
        snprintf(full, sizeof(full), "%s%s", fuzz_path, suffixes[i]);
        unlink(full);
    }
    rmdir(fuzz_dir);
}

static void
fuzz_reader(const uint8_t *data, size_t size)
{
    size_t head = size < sizeof(struct table_state) ? size : sizeof(struct table_state);
    struct table_reader *r;
    const struct table_view *v;

    if (fuzz_path[0] == '\0') {
        tassert(mkdtemp(fuzz_dir) != NULL);
        snprintf(fuzz_path, sizeof(fuzz_path), "%s/t", fuzz_dir);
        atexit(fuzz_clean_up);
    }
    fuzz_file(fuzz_path, ".state", data, head);
    fuzz_file(fuzz_path, ".0", data + head, size - head);
    fuzz_file(fuzz_path, ".1", data + head, size - head);
    tassert(table_reader_new(&r, fuzz_path, TABLE_ANY, TABLE_UNCHECKED) == 0);
    for (unsigned i = 0; i < 2; i++) {
        v = table_enter(r);
        if (v != NULL)
            fuzz_view(v);
        table_leave(r);
        table_reader_check(r);
    }
    table_reader_free(&r);
}

static void
fuzz_text(enum table_kind kind, struct slice text)
{
    struct table_builder *b;
    struct table_image image;
    struct table_view v;
    struct slice key, value, found;
    char why[TABLE_WHY_MAX];
    unsigned long line;
    uint64_t at = 0;
    size_t again;

    tassert(table_builder_new(&b, kind) == 0);
    table_builder_add_text(b, text, &line, why, sizeof(why));
    if (table_builder_finish(b, &image, &again) == 0) {
        tassert(table_view_open(&v, image.base, image.bytes, TABLE_CHECKED, why, sizeof(why)) == 0);
        fuzz_view(&v);
        while (kind != TABLE_ADDRESS && table_view_next(&v, &at, &key, &value))
            tassert(table_view_find(&v, key, &found) && found.ptr == value.ptr);
        free(image.base);
    }
    table_builder_free(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int what;

    if (size < 2 || size > FUZZ_MAX)
        return 0;
    what = *data++;
    size--;
    memcpy(fuzz_mem.bytes, data, size);
    if (what == 'h' && size >= sizeof(struct table_data)) {
        fuzz_put_right(size);
        fuzz_version(fuzz_mem.bytes, size, TABLE_CHECKED);
    } else if (what == 's') {
        fuzz_reader(data, size);
    } else if (what == 't') {
        fuzz_text((enum table_kind)(1 + (*data + 256u - 'a') % (TABLE_KIND_COUNT - 1)),
            slice_of((const char *)data + 1, size - 1));
    } else {
        fuzz_version(data, size, TABLE_UNCHECKED);
    }
    return 0;
}
