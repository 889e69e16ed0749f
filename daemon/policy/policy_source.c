/* policy_source.c -- the texts that one policy was compiled from, kept. */
#include "daemon/policy/policy_source.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* One thing that was read.  A glob's text is the names it found, a NUL behind each. */
struct source_piece {
    bool is_glob;
    char *name, *from, *path; /* path: of files */
    struct span text;
    struct source_piece *next;
};

#define POLICY_SOURCE_MAGIC OBJ_TAG('p', 's', 'r', 'c')
/* `refs` is not atomic: policies are loaded, reloaded and freed on the management thread alone. */
struct policy_source {
    uint32_t magic;
    unsigned refs;
    bool sent;
    char *file;
    struct span text;
    struct source_piece *pieces;
};

/* One byte more than the text: malloc(0) may return NULL, which would read as out of memory. */
static bool
source_copy(struct span *out, struct slice text)
{
    tassert(text.ptr != NULL || text.len == 0);
    out->ptr = malloc(text.len + 1);
    if (out->ptr == NULL)
        return false;
    memcpy(out->ptr, text.ptr, text.len);
    out->ptr[text.len] = '\0';
    out->len = text.len;
    return true;
}

static void
source_free_piece(struct source_piece *p)
{
    free(p->name);
    free(p->from);
    free(p->path);
    free(p->text.ptr);
    free(p);
}

/* `file` and `text` are copied: the loader's buffers go when the compiler returns. */
struct policy_source *
policy_source_new(const char *file, struct slice text, bool sent)
{
    struct policy_source *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->magic = POLICY_SOURCE_MAGIC;
    s->refs = 1;
    /* A reload replays it with the same rights that it was loaded with. */
    s->sent = sent;
    s->file = strdup(file);
    if (s->file == NULL || !source_copy(&s->text, text))
        policy_source_drop(&s);
    return s;
}

struct policy_source *
policy_source_hold(struct policy_source *s)
{
    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    tassert(s->refs > 0);
    s->refs++;
    return s;
}

void
policy_source_drop(struct policy_source **sp)
{
    struct policy_source *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    tassert(s->refs > 0);
    if (--s->refs > 0)
        return;
    /* Half-made ones come here too (policy_source_new): each part may be NULL. */
    while (s->pieces != NULL) {
        struct source_piece *p = s->pieces;

        s->pieces = p->next;
        source_free_piece(p);
    }
    free(s->text.ptr);
    free(s->file);
    OBJ_FREE(s);
}

uint64_t
policy_source_digest(const struct policy_source *s)
{
    uint64_t digest = hash_plain(s->text.ptr, s->text.len);

    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    for (const struct source_piece *p = s->pieces; p != NULL; p = p->next)
        digest = digest * UINT64_C(0x9e3779b97f4a7c15) + hash_plain(p->text.ptr, p->text.len);
    return digest != 0 ? digest : 1;
}

bool
policy_source_is_sent(const struct policy_source *s)
{
    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    return s->sent;
}

struct slice
policy_source_text(const struct policy_source *s)
{
    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    return slice_of(s->text.ptr, s->text.len);
}

static int
source_add(struct policy_source *s, bool is_glob, const char *name, const char *from,
    const char *path, struct slice text)
{
    struct source_piece *p = calloc(1, sizeof(*p));

    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    tassert(is_glob == (path[0] == '\0')); /* a file was read somewhere */
    if (p == NULL)
        return TERR_NOMEM;
    p->is_glob = is_glob;
    p->name = strdup(name);
    p->from = strdup(from);
    p->path = strdup(path);
    if (p->name == NULL || p->from == NULL || p->path == NULL || !source_copy(&p->text, text)) {
        source_free_piece(p);
        return TERR_NOMEM;
    }
    /* The order does not matter: pieces are found by name. */
    p->next = s->pieces;
    s->pieces = p;
    return 0;
}

int
policy_source_add_file(struct policy_source *s, const char *name, const char *from,
    const char *path, struct slice text)
{
    return source_add(s, false, name, from, path, text);
}

/* The names of a glob as one text; ptr NULL: no memory. */
static struct span
source_join(char *const *names, unsigned n)
{
    struct span all = {NULL, 0};
    size_t len = 0;

    for (unsigned i = 0; i < n; i++)
        len += strlen(names[i]) + 1;
    /* A glob that found nothing is an empty text, and no missing one. */
    all.ptr = malloc(len + 1);
    for (unsigned i = 0; i < n && all.ptr != NULL; i++) {
        memcpy(all.ptr + all.len, names[i], strlen(names[i]) + 1);
        all.len += strlen(names[i]) + 1;
    }
    tassert(all.ptr == NULL || all.len == len);
    return all;
}

int
policy_source_add_glob(
    struct policy_source *s, const char *pattern, const char *from, char *const *names, unsigned n)
{
    struct span all = source_join(names, n);
    int err = TERR_NOMEM;

    if (all.ptr != NULL)
        err = source_add(s, true, pattern, from, "", slice_of(all.ptr, all.len));
    free(all.ptr);
    return err;
}

/* `from` belongs to the key: a relative name means another file where another file includes it. */
static const struct source_piece *
source_find(const struct policy_source *s, bool is_glob, const char *name, const char *from)
{
    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    for (const struct source_piece *p = s->pieces; p != NULL; p = p->next)
        /* A pattern without a wildcard may read as the name of a file. */
        if (p->is_glob == is_glob && strcmp(p->name, name) == 0 && strcmp(p->from, from) == 0)
            return p;
    return NULL;
}

/* *out and *path are the caller's, as with a file that is read from disk. */
int
policy_source_read(const struct policy_source *s, const char *name, const char *from,
    struct span *out, char **path, const char **why)
{
    const struct source_piece *p = source_find(s, false, name, from);

    /* A text that is replayed asks for what it asked for before; with other tables or labels it may
     * take another way. */
    *why = "it was not part of the policy";
    if (p == NULL)
        return TERR_NOTFOUND;
    *path = strdup(p->path);
    /* The loader frees what it gets, so it gets copies. */
    if (*path == NULL || !source_copy(out, slice_of(p->text.ptr, p->text.len))) {
        free(*path);
        *path = NULL;
        *why = terr_text(TERR_NOMEM);
        return TERR_NOMEM;
    }
    return 0;
}

int
policy_source_glob(
    const struct policy_source *s, const char *pattern, const char *from, char ***out, unsigned *n)
{
    const struct source_piece *p = source_find(s, true, pattern, from);
    const char *at, *end;
    unsigned count = 0;

    *out = NULL;
    *n = 0;
    /* A pattern that was not recorded found nothing. */
    if (p == NULL)
        return 0;
    end = p->text.ptr + p->text.len;
    tassert(p->text.len == 0 || end[-1] == '\0'); /* source_join(): names end where the text ends */
    for (at = p->text.ptr; at < end; at += strlen(at) + 1)
        count++;
    tassert(at == end); /* else a name would be read past the text */
    *out = calloc(count + 1, sizeof(**out));
    if (*out == NULL)
        return TERR_NOMEM;
    for (at = p->text.ptr; at < end; at += strlen(at) + 1)
        /* One that fails is counted below, and then all go. */
        if (((*out)[*n] = strdup(at)) != NULL)
            ++*n;
    if (*n == count)
        return 0;
    while (*n > 0)
        free((*out)[--*n]);
    free(*out);
    *out = NULL;
    return TERR_NOMEM;
}

/* Would the loader read the same again? */
static bool
source_piece_is_current(const struct source_piece *p, struct policy_reader now)
{
    struct span text = {NULL, 0};
    struct slice kept = slice_of(p->text.ptr, p->text.len);
    const char *why;
    char *path = NULL, **names = NULL;
    unsigned n = 0;
    bool same = false;

    if (!p->is_glob) {
        same = now.read_file(now.ctx, p->name, p->from, &text, &path, &why) == 0 &&
               /* The same text elsewhere is another source: its own includes are relative to that
                * place. */
               strcmp(path, p->path) == 0 && slice_eq(slice_of(text.ptr, text.len), kept);
    } else if (now.glob(now.ctx, p->name, p->from, &names, &n) == 0) {
        /* Compared as it was kept: a file that came or went is a change, though no text was
         * touched. */
        text = source_join(names, n);
        same = text.ptr != NULL && slice_eq(slice_of(text.ptr, text.len), kept);
    }
    while (n > 0)
        free(names[--n]);
    free(names);
    free(path);
    free(text.ptr);
    return same;
}

/* Any failure, such as no memory, says no: then the policy is compiled again, which is always
 * correct. */
bool
policy_source_is_current(
    const struct policy_source *s, const char *file, struct slice text, struct policy_reader now)
{
    OBJ_CHECK(s, POLICY_SOURCE_MAGIC);
    /* The cheap part first: without includes it is all. */
    if (strcmp(s->file, file) != 0 || !slice_eq(policy_source_text(s), text))
        return false;
    for (const struct source_piece *p = s->pieces; p != NULL; p = p->next)
        if (!source_piece_is_current(p, now))
            return false;
    return true;
}
