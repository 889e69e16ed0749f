/* backend_names.c -- backends' names in shared memory. */
#include "daemon/shm/backend_names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/backend_names_priv.h"
#include "daemon/shm/dir.h"

#define BACKEND_NAMES_MAGIC OBJ_TAG('b', 'n', 'a', 'm')

enum {
    BACKEND_NAMES_BYTES =
        sizeof(struct backend_names_file) + BACKEND_NAMES_MAX * sizeof(struct backend_names_slot)
};

struct backend_names {
    uint32_t magic;
    struct backend_names_file *file;
    struct backend_names_slot *slots;
    struct backend_names_view *view;
};

int
backend_names_open(struct backend_names **out, struct shm_dir *dir)
{
    struct backend_names *n = calloc(1, sizeof(*n));
    void *base = MAP_FAILED;
    int err = 0;

    if (n == NULL)
        return TERR_NOMEM;
    n->magic = BACKEND_NAMES_MAGIC;
    if (dir != NULL)
        err = shm_file_create(&base, dir, "backends", BACKEND_NAMES_BYTES);
    else
        /* Without a directory the log's thread reads the same layout. */
        base = mmap(
            NULL, BACKEND_NAMES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (err == 0 && base == MAP_FAILED)
        err = TERR_NOMEM;
    if (err < 0)
        goto fail;
    n->file = base;
    n->slots = (struct backend_names_slot *)(n->file + 1);
    *n->file = (struct backend_names_file){.magic = BACKEND_NAMES_FILE_MAGIC,
        .version = BACKEND_NAMES_VERSION,
        .slot_bytes = sizeof(struct backend_names_slot),
        .nslots = BACKEND_NAMES_MAX,
        .pid = (uint32_t)getpid()};
    /* The process reads its own names as others do, with the same checks. */
    err = backend_names_view_mem(&n->view, base, BACKEND_NAMES_BYTES);
    if (err == 0 && dir != NULL)
        /* Last: a reader that finds the file finds a header in it. */
        err = shm_file_publish(dir, "backends");
    if (err < 0)
        goto fail;
    *out = n;
    return 0;

fail:
    backend_names_close(&n);
    return err;
}

void
backend_names_close(struct backend_names **np)
{
    struct backend_names *n;

    OBJ_TAKE(n, np, BACKEND_NAMES_MAGIC);
    /* It reads in the mapping that goes next. */
    if (n->view != NULL)
        backend_names_view_close(&n->view);
    if (n->file != NULL)
        munmap(n->file, BACKEND_NAMES_BYTES);
    OBJ_FREE(n);
}

/* Rounded up: when a request began is known to a millisecond, too, and it may have begun earlier. */
static uint64_t
backend_names_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

static bool
backend_names_slot_has(const struct backend_names_slot *s, const uint64_t text[BACKEND_NAME_WORDS])
{
    for (unsigned i = 0; i < BACKEND_NAME_WORDS; i++)
        if (atomic_load_explicit(&s->text[i], memory_order_relaxed) != text[i])
            return false;
    return true;
}

/* On the management thread alone, at a load or a reload; readers in other processes never wait
 * for it. */
void
backend_names_set(struct backend_names *n, unsigned number, const char *name)
{
    uint64_t text[BACKEND_NAME_WORDS] = {0}, turn;
    struct backend_names_slot *s;
    size_t len = strlen(name);

    OBJ_CHECK(n, BACKEND_NAMES_MAGIC);
    tassert(number < BACKEND_NAMES_MAX);
    s = &n->slots[number];
    if (len < BACKEND_NAME_MAX) /* of a longer one its number says more than half of it */
        memcpy(text, name, len);
    /* The management thread alone writes: its own value needs no order. */
    turn = atomic_load_explicit(&s->turn, memory_order_relaxed);
    if (turn != 0 && backend_names_slot_has(s, text))
        return; /* same name: also right for the requests of the previous one */
    /* Odd while it is written: a reader that sees it, or that sees another turn behind the text,
     * throws its copy away. */
    atomic_store_explicit(&s->turn, turn + 1, memory_order_relaxed);
    atomic_store_explicit(
        &s->since_ms, turn == 0 ? 0 : backend_names_wall_ms(), memory_order_release);
    for (unsigned i = 0; i < BACKEND_NAME_WORDS; i++)
        atomic_store_explicit(&s->text[i], text[i], memory_order_release);
    /* Release: the text is seen with it. */
    atomic_store_explicit(&s->turn, turn + 2, memory_order_release);
}

const struct backend_names_view *
backend_names_here(const struct backend_names *n)
{
    OBJ_CHECK(n, BACKEND_NAMES_MAGIC);
    return n->view;
}
