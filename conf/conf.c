/* conf.c -- from a file to a snapshot, and its end. */
#include "conf/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_memory.h"
#include "conf/conf_priv.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define CONF_MAGIC OBJ_TAG('c', 'o', 'n', 'f')
struct conf_box {
    uint32_t magic;
    struct arena_pool pool;
    struct arena arena; /* everything the snapshot points to */
    struct conf conf;
};

static void
conf_box_free(struct conf_box **bp)
{
    const char *password;
    struct conf_box *box;

    OBJ_TAKE(box, bp, CONF_MAGIC);
    password = box->conf.fleet.password;
    /* It lies in the arena, and that goes back to the system as it is. */
    if (password != NULL && password[0] != '\0')
        explicit_bzero((void *)(uintptr_t)password, strlen(password));
    /* Everything of the snapshot is in it, so nothing is freed singly. */
    arena_fini(&box->arena);
    arena_pool_fini(&box->pool);
    OBJ_FREE(box);
}

static struct conf_box *
conf_box_new(void)
{
    struct conf_box *box = calloc(1, sizeof(*box));

    if (box == NULL)
        return NULL;
    box->magic = CONF_MAGIC;
    arena_pool_init(&box->pool, 0, NULL);
    arena_init(&box->arena, &box->pool);
    return box;
}

int
conf_load_source(const struct conf **out, const struct conf_source *src, struct conf_error **errors)
{
    struct conf_box *box = conf_box_new();
    struct arena scratch;
    struct conf_cx cx = {.text = src->text,
        .resolve = src->resolve,
        .memory = src->memory,
        .readable = src->readable,
        .includes = src->includes,
        .env = src->env};
    struct ynode *root;

    *errors = NULL;
    if (box == NULL)
        return TERR_NOMEM;
    /* The tree, names that were looked up and texts of included files go with the load; only what the
     * snapshot points to stays in the box. */
    arena_init(&scratch, &box->pool);
    cx.keep = &box->arena;
    cx.scratch = &scratch;
    cx.conf = &box->conf;
    /* First: errors and included files name their places by it. */
    box->conf.path = conf_copy(&cx, slice_str(src->name));
    root = yaml_read(&cx);
    conf_include(&cx, root);
    tassert(cx.file == NULL); /* what is built now names its places by node */
    tassert(cx.text.ptr == src->text.ptr);
    conf_build(&cx, root);
    conf_errors_attach(&cx); /* while the texts of included files are there */
    arena_fini(&scratch);

    if (cx.nomem || cx.errors != NULL) {
        /* An incomplete list of errors would look like a complete one. */
        if (cx.nomem)
            conf_errors_free(&cx.errors);
        *errors = cx.errors;
        conf_box_free(&box);
        return cx.nomem ? TERR_NOMEM : TERR_CONFIG;
    }
    /* Behind the errors: what it asserts holds only for a file that has none. */
    conf_check(&box->conf);
    *out = &box->conf;
    return 0;
}

int
conf_load_text(const struct conf **out, const char *name, const char *text, size_t len,
    struct conf_error **errors)
{
    struct conf_source src = {.name = name, .text = {text, len}};

    return conf_load_source(out, &src, errors);
}

/* The file as a whole is wrong, before there is anything to read. */
static int
conf_refuse_file(struct conf_error **errors, const char *why, const char *what)
{
    struct conf_cx cx = {.nomem = false};

    conf_fail(&cx, NULL, "%s%s", why, what);
    tassert(cx.nomem || cx.errors != NULL); /* TERR_CONFIG comes with its reason */
    *errors = cx.errors;
    return cx.nomem ? TERR_NOMEM : TERR_CONFIG;
}

/* Reads to the end, as a pipe has no size.  0, or a negative errno. */
static int
conf_slurp(int fd, char *buf, size_t size, size_t *len)
{
    *len = 0;
    while (*len < size) {
        ssize_t n = read(fd, buf + *len, size - *len);

        /* A reload runs beside signals. */
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        *len += (size_t)n;
        tassert(*len <= size);
    }
    return 0; /* full: the caller has asked for one byte more than it takes */
}

static const char *
conf_getenv(const char *name)
{
    return getenv(name);
}

/* By the ids that count when it is opened. */
static int
conf_readable(const char *path)
{
    /* access(2) would ask by the real ids: a service that was started as root is another user by
     * then. */
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int
conf_load_file(const struct conf **out, const struct conf_source *world, struct conf_error **errors)
{
    struct conf_source src = *world;
    char *buf;
    int fd, err;

    *errors = NULL;
    /* No O_NONBLOCK: the file may be a pipe, as in `tarnd -c <(make-config)`, and its writer late. */
    fd = open(src.name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return conf_refuse_file(errors, "cannot open the file: ", strerror(errno));
    buf = malloc(CONF_FILE_MAX + 1); /* one more than may be there, so that too much shows */
    if (buf == NULL) {
        close(fd);
        return TERR_NOMEM;
    }
    err = conf_slurp(fd, buf, CONF_FILE_MAX + 1, &src.text.len);
    close(fd);
    src.text.ptr = buf;
    if (err < 0)
        err = conf_refuse_file(errors, "cannot read the file: ", strerror(-err));
    else if (src.text.len > CONF_FILE_MAX)
        err = conf_refuse_file(errors, "the file is larger than 4MiB", "");
    else
        /* The snapshot copies what it keeps: the text goes. */
        err = conf_load_source(out, &src, errors);
    free(buf);
    return err;
}

int
conf_load(const struct conf **out, const char *path, struct conf_error **errors)
{
    struct conf_memory memory;
    const struct conf_source src = {.name = path,
        .resolve = getaddrinfo,
        .memory = &memory,
        .readable = conf_readable,
        .includes = true,
        .env = conf_getenv};

    conf_memory_read(&memory, "");
    return conf_load_file(out, &src, errors);
}

int
conf_load_quick(const struct conf **out, const char *path, struct conf_error **errors)
{
    const struct conf_source src = {.name = path, .includes = true, .env = conf_getenv};

    return conf_load_file(out, &src, errors);
}

void
conf_free(const struct conf **cp)
{
    struct conf_box *box;

    if (*cp == NULL)
        return;
    /* The snapshot is const for its readers; its owner may end it. */
    box = container_of((uintptr_t)*cp, struct conf_box, conf);
    *cp = NULL;
    conf_box_free(&box);
}
