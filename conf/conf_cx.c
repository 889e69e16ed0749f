/* conf_cx.c -- the memory of one load. */
#include "conf/conf_priv.h"

#include <string.h>

#include "daemon/base/obj.h"

/* After the first failure nothing is tried any more: the load goes on to its end, and each caller
 * tests one flag in the end instead of unwinding in the middle. */
void *
conf_alloc(struct conf_cx *cx, struct arena *from, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    tassert(from == cx->keep || from == cx->scratch); /* of this load, and no other's */
    tassert(size > 0);
    if (cx->nomem || __builtin_mul_overflow(n, size, &bytes))
        p = NULL;
    else
        p = arena_alloc(from, bytes);
    if (p == NULL) {
        cx->nomem = true;
        return NULL;
    }
    memset(p, 0, bytes);
    return p;
}

const char *
conf_copy(struct conf_cx *cx, struct slice text)
{
    struct slice copy = {NULL, 0};

    tassert(cx->keep != NULL); /* conf_param_set() has none: it reads no text that is copied */
    if (!cx->nomem)
        copy = arena_copy(cx->keep, text);
    if (copy.ptr == NULL)
        cx->nomem = true;
    return copy.ptr;
}

const char *
conf_file_of(const struct conf_cx *cx, const struct ynode *at)
{
    return at->file != NULL ? at->file->path : cx->conf->path;
}

const char *
conf_beside(struct conf_cx *cx, const struct ynode *at, const char *path)
{
    const char *file = conf_file_of(cx, at), *slash = strrchr(file, '/');
    size_t dir = slash != NULL ? (size_t)(slash - file) + 1 : 0, len = strlen(path);
    char *joined;

    if (len == 0 || path[0] == '/' || dir == 0)
        return path;
    joined = conf_alloc(cx, cx->keep, dir + len + 1, 1);
    if (joined == NULL)
        return path;
    memcpy(joined, file, dir);
    memcpy(joined + dir, path, len + 1);
    return joined;
}
