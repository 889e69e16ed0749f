/* conf_auth.c -- files of users and hashes of their passwords, as htpasswd writes them.
 *
 *    alice:$2y$10$...          one line for each user, as `htpasswd -B` writes it
 *    # a comment
 *
 * The file is read at the load, so a request never touches the disk, and a reload reads it anew.
 * Hashes are checked here by their form alone; libcrypt computes them on a thread of its own
 * (daemon/proxy/auth.c).
 */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

static const struct conf_key auth_keys[] = {
    {.name = "file",
        .type = CONF_TYPE_TEXT,
        .required = true,
        .offset = offsetof(struct conf_auth, text),
        .least = 1,
        .most = 4000},
    {.name = "realm",
        .type = CONF_TYPE_ASCII,
        .offset = offsetof(struct conf_auth, realm),
        .def_text = "tarn",
        .least = 1,
        .most = 64},
    {.name = "forward", .type = CONF_TYPE_BOOL, .offset = offsetof(struct conf_auth, forward)},
};
static const struct conf_section auth_section = {
    .name = "basic_auth", .keys = auth_keys, .nkeys = ARRAY_LEN(auth_keys)};

/* bcrypt, SHA-256, SHA-512 and yescrypt, of crypt(5); others are broken, or not known to libcrypt. */
static bool
auth_hash_ok(struct slice hash)
{
    static const char *const begins[] = {"$2y$", "$2b$", "$2a$", "$5$", "$6$", "$y$"};

    for (unsigned i = 0; i < ARRAY_LEN(begins); i++) {
        size_t len = strlen(begins[i]);

        /* Long enough to have a salt and a hash behind it. */
        if (hash.len > len + 20 && hash.len < 256 && memcmp(hash.ptr, begins[i], len) == 0)
            return true;
    }
    return false;
}

static int
auth_compare(const void *a, const void *b)
{
    return strcmp(((const struct conf_user *)a)->name, ((const struct conf_user *)b)->name);
}

/* NAME:HASH, and perhaps more behind another colon.  NULL, or what is wrong.  Both texts are
 * copied into the snapshot: the file's text is scratch. */
static const char *
auth_read_line(struct conf_cx *cx, struct slice line, struct conf_auth *to)
{
    const char *colon = memchr(line.ptr, ':', line.len), *end;
    struct slice hash;

    if (colon == NULL || colon == line.ptr)
        return "is not NAME:HASH";
    hash = slice_of(colon + 1, line.len - (size_t)(colon + 1 - line.ptr));
    end = hash.len > 0 ? memchr(hash.ptr, ':', hash.len) : NULL;
    /* /etc/shadow has more fields behind the hash. */
    if (end != NULL)
        hash.len = (size_t)(end - hash.ptr);
    if (!auth_hash_ok(hash))
        return "has a hash that is neither bcrypt nor SHA-512: make it with `htpasswd -B` or "
               "`mkpasswd -m sha-512`";
    if (to->n == CONF_USERS_MAX)
        return "is one user too many: 10000 are possible";
    to->users[to->n++] = (struct conf_user){
        conf_copy(cx, slice_of(line.ptr, (size_t)(colon - line.ptr))), conf_copy(cx, hash)};
    return NULL;
}

/* Errors name the line in the message and stand at the key: the file of users is no file of the
 * configuration, and no line of it is quoted, for it has hashes. */
static void
auth_read_users(struct conf_cx *cx, const struct ynode *at, struct slice text, struct conf_auth *to)
{
    unsigned number = 0, lines = 1;

    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    lines = lines < CONF_USERS_MAX ? lines : CONF_USERS_MAX; /* more are refused, line by line */
    to->users = conf_alloc(cx, cx->keep, lines, sizeof(*to->users));
    for (const char *p = text.ptr, *end = p + text.len, *next; p < end && !cx->nomem; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *wrong = NULL;
        size_t len = (size_t)((newline != NULL ? newline : end) - p);

        /* Comments and empty lines too: an editor counts them. */
        number++;
        next = newline != NULL ? newline + 1 : end;
        /* Files that were written under Windows. */
        if (len > 0 && p[len - 1] == '\r')
            len--;
        if (len > 0 && *p != '#')
            wrong = auth_read_line(cx, slice_of(p, len), to);
        tassert(to->n <= lines); /* the room that was made for them */
        if (wrong != NULL)
            conf_fail(cx, at, "basic_auth: %s, line %u %s", to->text, number, wrong);
    }
    if (cx->nomem)
        return;
    if (to->n > 1) /* a request looks its user up by halving */
        qsort(to->users, to->n, sizeof(to->users[0]), auth_compare);
    for (unsigned i = 1; i < to->n; i++)
        /* Which of two passwords counts would hang on the order of qsort(3). */
        if (strcmp(to->users[i].name, to->users[i - 1].name) == 0)
            conf_fail(cx, at, "basic_auth: %s names '%s' twice", to->text, to->users[i].name);
    /* Of a text that is loaded without touching the world no file is read. */
    if (to->n == 0 && cx->resolve != NULL)
        conf_fail(cx, at, "basic_auth: %s names no user: no request could pass", to->text);
}

bool
conf_auth_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_auth *to)
{
    const struct ynode *at = n->kind == YNODE_TEXT ? n : ynode_get(n, "file");
    unsigned errors = cx->nerrors;
    struct slice text;

    conf_keys_default(auth_keys, ARRAY_LEN(auth_keys), to);
    if (n->kind == YNODE_TEXT)
        to->text = conf_copy(cx, n->text);
    else
        conf_keys_read(cx, &auth_section, n, key->name, to);
    if (cx->nerrors > errors || cx->nomem)
        return false;
    /* It is written into a quoted string of WWW-Authenticate, without escapes. */
    if (strpbrk(to->realm, "\"\\") != NULL)
        conf_fail(cx, ynode_get(n, "realm"), "realm: '%s' has a quote or a backslash", to->realm);
    to->said = true;
    tassert(to->n == 0); /* a route has one */
    if (conf_file_read(cx, key, at, to->text, CONF_AUTH_MAX, &text))
        auth_read_users(cx, at, text, to);
    return cx->nerrors == errors && !cx->nomem;
}

const char *
conf_auth_find(const struct conf_auth *auth, struct slice user)
{
    unsigned low = 0, high = auth->n;

    tassert(auth->n == 0 || auth->users != NULL);
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        const char *name = auth->users[mid].name;
        int order = strncmp(name, user.ptr, user.len);

        /* strncmp(3) finds the beginning of a longer name equal, too: that one is behind.  `user` has no
         * NUL in it (auth_basic() refuses it), or name[user.len] could lie behind the name. */
        if (order == 0 && name[user.len] == '\0')
            return auth->users[mid].hash;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

bool
conf_auth_same(const struct conf_auth *a, const struct conf_auth *b)
{
    if (a->said != b->said || a->n != b->n)
        return false;
    if (!a->said)
        return true;
    if (a->forward != b->forward || strcmp(a->realm, b->realm) != 0 ||
        strcmp(a->text, b->text) != 0)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        /* The file may have changed though the configuration names it as before. */
        if (strcmp(a->users[i].name, b->users[i].name) != 0 ||
            strcmp(a->users[i].hash, b->users[i].hash) != 0)
            return false;
    return true;
}
