/* conf_include.c -- other files that are part of the configuration, as in `include: more.yaml`.
 *
 * Their sections join those of the file that includes them: lists follow each other, maps become one
 * map.  What stands twice is an error that names both places.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

enum {
    INCLUDE_FILES_MAX = 1000, /* of a configuration */
};

struct include {
    struct conf_cx *cx;
    struct ynode *root; /* of the file that includes */
    unsigned nfiles;
    struct stat self; /* of that file; st_ino 0: not known */
};

/* glob(3) gives its callback no context, and its errno is not promised. */
static _Thread_local int include_glob_err;

/* What could not be read may have everything that is missed from now on. */
static void
include_mark_cut(struct include *in)
{
    /* Else a backend in the file that is missing would be reported by each route that names it. */
    in->root->cut = true;
    for (struct ynode *c = in->root->children; c != NULL; c = c->next)
        c->cut = true;
}

static struct ynode *
include_find(const struct ynode *map, struct slice key)
{
    struct ynode *c = map->children;

    while (c != NULL && !slice_eq(c->key->text, key))
        c = c->next;
    return c;
}

static void
include_append(struct include *in, struct ynode *to, struct ynode *child)
{
    /* It stood in another list until now. */
    child->next = NULL;
    if (to->nchildren == CONF_ENTRIES_MAX) {
        conf_fail(in->cx, child, "more than %d entries", CONF_ENTRIES_MAX);
        return;
    }
    tassert(to->kind == YNODE_LIST || to->kind == YNODE_MAP);
    tassert(*to->tail == NULL); /* else what followed would be lost */
    *to->tail = child;
    to->tail = &child->next;
    to->nchildren++;
}

static void
include_refuse_twice(struct include *in, const struct ynode *key, const struct ynode *first)
{
    char quote[CONF_QUOTE_BYTES];

    conf_fail(in->cx, key, "duplicate key '%s', first in %s:%u:%u: remove one",
        conf_quote(quote, key->text), conf_file_of(in->cx, first), first->line, first->column);
}

/* One section into that of the same name. */
static void
include_join(struct include *in, struct ynode *to, struct ynode *from)
{
    struct ynode *next, *there;

    tassert(slice_eq(to->key->text, from->key->text));
    to->cut |= from->cut;
    /* What is wrong with it has been said. */
    if (to->kind == YNODE_BAD || from->kind == YNODE_BAD)
        return;
    if (to->kind != from->kind || to->kind == YNODE_TEXT) {
        include_refuse_twice(in, from->key, to->key);
        return;
    }
    for (struct ynode *c = from->children; c != NULL; c = next) {
        next = c->next;
        there = to->kind == YNODE_MAP ? include_find(to, c->key->text) : NULL;
        if (there != NULL)
            include_refuse_twice(in, c->key, there->key);
        else
            include_append(in, to, c);
    }
}

static void
include_merge(struct include *in, struct ynode *from)
{
    struct ynode *next, *there;

    if (from->cut || from->kind != YNODE_MAP)
        include_mark_cut(in);
    if (from->kind == YNODE_BAD || ynode_is_null(from) ||
        !conf_kind_check(in->cx, from, YNODE_MAP, "an included file"))
        return;
    for (struct ynode *c = from->children; c != NULL; c = next) {
        /* Before the node moves into another list. */
        next = c->next;
        there = include_find(in->root, c->key->text);
        if (slice_eq(c->key->text, SLICE_LIT("include")))
            conf_fail(in->cx, c->key, "an included file includes no others: name them in %s",
                in->cx->conf->path);
        else if (there != NULL)
            include_join(in, there, c);
        else
            include_append(in, in->root, c);
    }
}

/* A whole file into scratch memory.  0 or an errno; EFBIG: CONF_FILE_MAX. */
static int
include_read(struct conf_cx *cx, const char *path, struct slice *out, struct stat *st)
{
    /* A glob may match a FIFO: open(2) must not wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
    char *buf = NULL;
    ssize_t n = 0;

    *out = slice_of("", 0);
    if (fd < 0)
        return errno;
    /* Of the open file: its name may lead elsewhere a moment later. */
    if (fstat(fd, st) != 0)
        err = errno;
    else if (!S_ISREG(st->st_mode))
        err = S_ISDIR(st->st_mode) ? EISDIR : EINVAL;
    else if (st->st_size > CONF_FILE_MAX)
        err = EFBIG;
    else if ((buf = conf_alloc(cx, cx->scratch, (size_t)st->st_size + 1, 1)) == NULL)
        err = ENOMEM;
    while (err == 0 && out->len < (size_t)st->st_size &&
           (n = read(fd, buf + out->len, (size_t)st->st_size - out->len)) > 0)
        *out = slice_of(buf, out->len + (size_t)n);
    if (err == 0 && n < 0)
        err = errno;
    close(fd);
    return err;
}

/* Is it one that has been read already?  By what it is, for a path may lead there twice. */
static const char *
include_before(const struct include *in, const struct stat *st)
{
    if (st->st_ino == in->self.st_ino && st->st_dev == in->self.st_dev)
        return in->cx->conf->path;
    for (const struct conf_file *f = in->cx->files; f != NULL; f = f->next)
        if (f->ino == st->st_ino && f->dev == st->st_dev)
            return f->path;
    return NULL;
}

static struct conf_file *
include_file_new(struct include *in, const char *path, struct slice text, const struct stat *st)
{
    struct conf_cx *cx = in->cx;
    struct conf_file *file = conf_alloc(cx, cx->scratch, 1, sizeof(*file)), **end = &cx->files;

    if (file == NULL)
        return NULL;
    *file = (struct conf_file){.path = conf_copy(cx, slice_str(path)),
        .text = text,
        .dev = st->st_dev,
        .ino = st->st_ino,
        .nth = 1};
    for (; *end != NULL; end = &(*end)->next)
        file->nth++;
    tassert(file->nth <= INCLUDE_FILES_MAX);
    *end = file;
    return file;
}

/* `at` names it, perhaps with a glob. */
static void
include_file(struct include *in, const struct ynode *at, const char *path)
{
    struct conf_cx *cx = in->cx;
    struct slice main_text = cx->text, text;
    const char *before;
    struct ynode *root;
    struct stat st = {.st_ino = 0};
    int err;

    tassert(cx->file == NULL); /* an included file includes no others */
    if (in->nfiles++ >= INCLUDE_FILES_MAX) {
        /* Once, however many a glob has found. */
        if (in->nfiles == INCLUDE_FILES_MAX + 1)
            conf_fail(cx, at, "include: more than %d files", INCLUDE_FILES_MAX);
        return;
    }
    err = include_read(cx, path, &text, &st);
    if (cx->nomem)
        return;
    before = err == 0 ? include_before(in, &st) : NULL;
    if (err != 0)
        conf_fail(cx, at, "include: cannot read %s: %s", path,
            err == EFBIG    ? "it is larger than 4MiB"
            : err == EINVAL ? "it is no regular file"
                            : strerror(err));
    else if (before == cx->conf->path)
        conf_fail(cx, at, "include: %s is this file itself: name others", path);
    else if (before != NULL)
        conf_fail(cx, at, "include: %s is read already, as %s: name it once", path, before);
    if (err != 0 || before != NULL) {
        include_mark_cut(in);
        return;
    }
    cx->file = include_file_new(in, path, text, &st);
    if (cx->file == NULL || cx->file->path == NULL)
        return;
    cx->text = text;
    root = yaml_read(cx);
    /* Errors of what is built later find their lines by the node's file. */
    cx->text = main_text;
    cx->file = NULL;
    if (root != NULL)
        include_merge(in, root);
}

static int
include_glob_failed(const char *path, int err)
{
    (void)path;
    if (err == ENOENT || err == ENOTDIR)
        return 0; /* nothing matches there */
    /* A directory without permission must not read as "nothing matches". */
    include_glob_err = err;
    return 1;
}

/* The directory of the configuration is no pattern, whatever it is called. */
static const char *
include_pattern_of(struct conf_cx *cx, const struct ynode *n)
{
    const char *whole = conf_beside(cx, n, n->text.ptr);
    size_t len = strlen(whole), dir = len - n->text.len;
    char *text = conf_alloc(cx, cx->scratch, 2 * len + 1, 1), *to = text;

    tassert(len >= n->text.len); /* the directory stands before what was written */
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (i < dir && strchr("*?[]\\", whole[i]) != NULL)
            *to++ = '\\';
        *to++ = whole[i];
    }
    tassert(to <= text + 2 * len);
    return text;
}

/* glob(3) gives them sorted. */
static void
include_pattern(struct include *in, const struct ynode *n)
{
    const char *pattern;
    glob_t g;
    int rc;

    if (n->kind != YNODE_TEXT || n->text.len == 0)
        return; /* the section's own reading says so */
    /* A plain name that is missing is an error; a glob without a match is none. */
    if (strpbrk(n->text.ptr, "*?[") == NULL) {
        include_file(in, n, conf_beside(in->cx, n, n->text.ptr));
        return;
    }
    pattern = include_pattern_of(in->cx, n);
    if (pattern == NULL)
        return;
    rc = glob(pattern, 0, include_glob_failed, &g);
    if (rc == GLOB_NOSPACE)
        in->cx->nomem = true;
    if (rc == GLOB_ABORTED) {
        conf_fail(in->cx, n, "include: a directory of %s cannot be read: %s",
            conf_beside(in->cx, n, n->text.ptr), strerror(include_glob_err));
        include_mark_cut(in);
    }
    for (size_t i = 0; rc == 0 && i < g.gl_pathc && !in->cx->nomem; i++)
        include_file(in, n, g.gl_pathv[i]);
    if (rc == 0)
        globfree(&g);
}

void
conf_include(struct conf_cx *cx, struct ynode *root)
{
    struct include in = {.cx = cx, .root = root};
    const struct ynode *n = root != NULL ? ynode_get(root, "include") : NULL;

    if (n == NULL || !cx->includes)
        return;
    tassert(cx->files == NULL); /* once a load */
    /* A pipe or a text has no file that could include itself. */
    if (stat(cx->conf->path, &in.self) != 0)
        in.self.st_ino = 0;
    if (n->kind != YNODE_LIST)
        include_pattern(&in, n);
    for (const struct ynode *c = n->kind == YNODE_LIST ? n->children : NULL; c != NULL; c = c->next)
        include_pattern(&in, c);
    for (const struct conf_file *f = cx->files; f != NULL; f = f->next)
        cx->conf->nincluded++;
}
