/* conf_mistakes.c -- mistakes that are made often, with what would be right. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conf/conf_memory.h"
#include "conf/conf_priv.h"

/* `listen: 8080` or `:8080`, and `listen: [127.0.0.1:8080]`. */
void
conf_listen_refuse_text(struct conf_cx *cx, const struct ynode *n, const char *what)
{
    /* The mistake is taken for what it most likely means, and the answer can be copied. */
    bool port = strspn(n->text.ptr, "0123456789") == n->text.len;
    bool colon = n->text.len > 0 && n->text.ptr[0] == ':';
    char quote[CONF_QUOTE_BYTES];

    conf_fail(cx, n, "%s, not text: write `listen: [ { address: \"%s%s\" } ]`", what,
        port    ? "*:"
        : colon ? "*"
                : "",
        conf_quote(quote, n->text));
}

/* Keys of a listener of clients. */
bool
conf_admin_refuse_key(struct conf_cx *cx, const char *section, const struct ynode *key)
{
    if (strcmp(section, "admin") != 0 ||
        (strcmp(key->text.ptr, "http2") != 0 && strcmp(key->text.ptr, "h2c") != 0))
        return false;
    conf_fail(cx, key, "key '%s' is for 'listen': the admin listener speaks HTTP/1.1: remove it",
        key->text.ptr);
    return true;
}

/* `backends: { web: 127.0.0.1:3000 }`, or with http:// in front. */
void
conf_backend_check_text(struct conf_cx *cx, struct ynode *c)
{
    char name[CONF_QUOTE_BYTES], quote[CONF_QUOTE_BYTES];
    struct slice to = c->text;
    bool http = to.len > 7 && strncasecmp(to.ptr, "http://", 7) == 0;

    /* Empty: the reader of maps says what is missing. */
    if (c->kind != YNODE_TEXT || c->text.len == 0)
        return;
    if (http)
        to = slice_of(to.ptr + 7, strcspn(to.ptr + 7, "/"));
    conf_quote(name, c->key->text);
    conf_fail(cx, c, "backend '%s' is a map: write `%s: { address: \"%s%s\" }`%s", name, name,
        conf_quote(quote, to), http && memchr(to.ptr, ':', to.len) == NULL ? ":80" : "",
        http ? ", without http://" : "");
    c->kind = YNODE_BAD; /* it has been said */
}

/* Nothing says which of them serves: every request would be answered 503. */
void
conf_default_check(struct conf_cx *cx, const struct ynode *root)
{
    const struct conf *conf = cx->conf;

    if (conf->nbackends < 2 || conf->ndirectors > 0 || conf->nroutes > 0 || conf->vcl[0] != '\0' ||
        /* With routes conf_routes_finish() has judged each of them. */
        conf->default_backend != CONF_NO_BACKEND)
        return;
    conf_fail(cx, ynode_get(root, "backends")->key,
        "%u backends and no route: no default is chosen; name one of them 'default', "
        "or "
        "add `routes: [ { backend: %s } ]`",
        conf->nbackends, conf->backends[0].name);
}

/* A store takes its memory as it fills, so one that is too large is killed at its fullest. */
void
conf_memory_check(struct conf_cx *cx, const struct ynode *n)
{
    const struct ynode *size;
    char is[32];

    for (unsigned i = 0; i < cx->conf->nstorages && n != NULL && cx->memory != NULL; i++) {
        const struct conf_storage *s = &cx->conf->storages[i];

        size = ynode_get(ynode_get(n, s->name), "size");
        /* Only what the operator wrote is judged, and only where the machine says what it has. */
        if (size != NULL && cx->memory->bytes > 0 && s->size > cx->memory->bytes)
            conf_fail(cx, size, "size: '%s' is more than the memory there is: %s has %s",
                size->text.ptr, cx->memory->limit,
                conf_value_format(CONF_TYPE_BYTES,
                    (int64_t)(cx->memory->bytes & ~(uint64_t)0xfffff), is, sizeof(is)));
    }
}

void
conf_vcl_check(struct conf_cx *cx, const struct ynode *n)
{
    const char *path = cx->conf->vcl;
    /* Its text is compiled later, by daemon/policy; that it cannot be opened is the file's own
     * mistake. */
    int err = path[0] == '\0' || cx->readable == NULL ? 0 : cx->readable(path);

    if (err != 0)
        conf_fail(cx, n, "vcl: the policy's file %s cannot be read: %s", path, strerror(err));
}
