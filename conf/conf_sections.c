/* conf_sections.c -- the sections of a file, and what must hold between them.
 *
 * A section is a table of keys and a reader.  All of them are read in the order of
 * CONF_SECTION_TABLE, not of the file; then come the checks that look at several sections
 * together, and these run only if no error was found before, for they would blame what only
 * follows from it.
 *
 * A reader gets NULL for a section that is absent, and sets its defaults then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "conf/conf_row_priv.h"
#include "daemon/base/obj.h"

#define KEY_OWNER struct conf_listen
static const struct conf_key keys_listen[] = {CONF_LISTEN_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf
static const struct conf_key keys_workers[] = {CONF_TOP_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf
static const struct conf_key keys_trusted_proxies[] = {CONF_TRUSTED_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_storage
static const struct conf_key keys_storage[] = {CONF_STORAGE_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_probe
static const struct conf_key keys_probes[] = {CONF_PROBE_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_backend
static const struct conf_key keys_backends[] = {CONF_BACKEND_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_director
static const struct conf_key keys_directors[] = {CONF_DIRECTOR_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_route
static const struct conf_key keys_routes[] = {CONF_ROUTE_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_limit
static const struct conf_key keys_limits[] = {CONF_LIMIT_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf
static const struct conf_key keys_vcl[] = {CONF_VCL_TABLE(KEY_ROW)};
static const struct conf_key keys_include[] = {CONF_INCLUDE_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_admin
static const struct conf_key keys_admin[] = {CONF_ADMIN_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_index
static const struct conf_key keys_index[] = {CONF_INDEX_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_negative
static const struct conf_key keys_negative_cache[] = {CONF_NEGATIVE_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_compress
static const struct conf_key keys_compress[] = {CONF_COMPRESS_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_esi
static const struct conf_key keys_esi[] = {CONF_ESI_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_table
static const struct conf_key keys_tables[] = {CONF_TABLES_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_fleet
static const struct conf_key keys_fleet[] = {CONF_FLEET_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_params
static const struct conf_key keys_parameters[] = {CONF_PARAM_TABLE(KEY_ROW)};
#undef KEY_OWNER

#define X(name, rows, doc) static void conf_read_##name(struct conf_cx *, const struct ynode *);
CONF_SECTION_TABLE(X)
#undef X

/* In the order in which they are read: routes name backends, which name probes. */
const struct conf_section conf_sections[] = {
#define X(name, rows, doc) {#name, keys_##name, ARRAY_LEN(keys_##name), conf_read_##name, doc},
    CONF_SECTION_TABLE(X)
#undef X
        {NULL, NULL, 0, NULL, NULL},
};

static const char *const conf_unsupported[] = {
#define X(name) #name,
    CONF_UNSUPPORTED_TABLE(X)
#undef X
};

/* NULL: there is none of that name. */
const struct conf_section *
conf_section_find(const char *name)
{
    const struct conf_section *s = conf_sections;

    while (s->name != NULL && strcmp(s->name, name) != 0)
        s++;
    return s->name != NULL ? s : NULL;
}

static void
conf_listen_default_name(struct conf_cx *cx, struct conf_listen *l, unsigned i)
{
    char name[32];

    snprintf(name, sizeof(name), "listen%u", i);
    l->name = conf_copy(cx, slice_str(name));
}

bool
conf_listen_is_proxied(const struct conf_listen *l)
{
    return strcmp(l->proxy_protocol, "required") == 0;
}

/* A port has no file. */
static void
conf_owner_check(struct conf_cx *cx, const struct ynode *at, const struct conf_address *address,
    int64_t usual_mode)
{
    static const char *const keys[] = {"mode", "user", "group"};

    for (unsigned i = 0; i < ARRAY_LEN(keys) && address->text != NULL && !address->is_unix; i++) {
        const struct ynode *n = ynode_get(at, keys[i]);

        if (n == NULL || n->text.len == 0 ||
            /* A file that writes every key with its default has it, too: tarn.yaml does. */
            (i == 0 && strtoll(n->text.ptr, NULL, 8) == usual_mode))
            continue; /* as if it were not there */
        conf_fail(cx, n->key, "key '%s' is for a Unix socket, and '%s' is none: remove it", keys[i],
            address->text);
    }
}

/* A `tls` that has a mistake of its own has been meant. */
static void
conf_http2_check(struct conf_cx *cx, const struct ynode *at, struct conf_listen *l)
{
    const struct ynode *tls = ynode_get(at, "tls");
    bool plain = !l->tls.said && (tls == NULL || (tls->kind == YNODE_TEXT && tls->text.len == 0));

    l->tls.http2 = l->tls.said && l->http2 != 0;
    if (!plain && l->h2c != 0)
        conf_fail(cx, ynode_get(at, "h2c"),
            "h2c is HTTP/2 without TLS, and this listener has tls: for HTTP/2 with TLS: `http2: "
            "on`");
}

/* The second of two would fail only when it binds.  Pairs are compared with those above:
 * CONF_ENTRIES_MAX bounds the work. */
static void
conf_listen_check(struct conf_cx *cx, const struct ynode *at, unsigned i)
{
    struct conf_listen *l = &cx->conf->listens[i];

    tassert(i < cx->conf->nlistens);
    tassert(l->name[0] != '\0'); /* two without a name would be equal */
    if (l->trusted.set.n > 0 && !conf_listen_is_proxied(l))
        conf_fail(cx, ynode_get(at, "trusted"),
            "key 'trusted' lists the senders of PROXY headers: it needs `proxy_protocol: "
            "required`");
    if (l->tls.said && strcmp(l->redirect, "https") == 0)
        conf_fail(cx, ynode_get(at, "redirect"),
            "key 'redirect' is for a listener without 'tls': what comes in here is https already");
    conf_http2_check(cx, at, l);
    conf_acme_finish(cx, ynode_get(at, "tls"), i);
    conf_owner_check(cx, at, &l->address, 0666);
    for (unsigned j = 0; j < i; j++) {
        const struct conf_listen *other = &cx->conf->listens[j];
        /* Two that take a free port get two. */
        bool takes_free = !l->address.is_unix && l->address.port == 0;

        if (strcmp(l->name, other->name) == 0)
            conf_fail(cx, at, "two listeners are named '%s': give one another name", l->name);
        if (l->address.text != NULL && other->address.text != NULL && !takes_free &&
            strcmp(l->address.text, other->address.text) == 0)
            conf_fail(cx, at, "two listeners have the address '%s': remove one", l->address.text);
    }
}

static void
conf_read_listen(struct conf_cx *cx, const struct ynode *n)
{
    static const struct ynode usual = {
        .kind = YNODE_TEXT, .text = {"127.0.0.1:8080", sizeof("127.0.0.1:8080") - 1}};
    unsigned count = n == NULL ? 1 : n->nchildren, i = 0;
    struct conf *conf = cx->conf;

    if (n != NULL && n->kind == YNODE_TEXT && n->text.len > 0) {
        conf_listen_refuse_text(cx, n, "section 'listen' is a list of maps");
        return;
    }
    if (n != NULL && !conf_kind_check(cx, n, YNODE_LIST, "section 'listen'"))
        return;
    if (count == 0)
        conf_fail(cx, n, "section 'listen' is an empty list: give it a listener, or remove it");
    conf->listens = conf_alloc(cx, cx->keep, count, sizeof(*conf->listens));
    if (conf->listens == NULL)
        return;
    conf->nlistens = count;
    /* Without the section there is one listener, on the loopback: nothing is open to the world by
     * default. */
    if (n == NULL) {
        conf_keys_default(keys_listen, ARRAY_LEN(keys_listen), &conf->listens[0]);
        conf_address_read(cx, &keys_listen[0], &usual, &conf->listens[0].address);
        conf_listen_default_name(cx, &conf->listens[0], 0);
        return;
    }
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next, i++) {
        const struct ynode *at = ynode_get(c, "address");

        if (c->kind == YNODE_TEXT && c->text.len > 0) {
            conf_listen_refuse_text(cx, c, "a listener is a map");
            conf_listen_default_name(cx, &conf->listens[i], i);
            continue;
        }
        conf_keys_read(cx, conf_section_find("listen"), c, "a listener", &conf->listens[i]);
        conf->listens[i].file = c->file != NULL ? c->file->path : NULL;
        /* For `tarnd -t`, which reports a port that is in use at its place (ports.c). */
        conf->listens[i].line = at != NULL ? at->line : c->line;
        conf->listens[i].column = at != NULL ? at->column : c->column;
        if (conf->listens[i].name[0] == '\0')
            conf_listen_default_name(cx, &conf->listens[i], i);
        if (cx->nomem)
            break;
        conf_listen_check(cx, c, i);
        conf->listens_act = conf->listens_act || conf->listens[i].tls.acme.said ||
                            strcmp(conf->listens[i].redirect, "https") == 0;
        conf->has_peers = conf->has_peers || conf->listens[i].peers != 0;
    }
}

static void
conf_read_workers(struct conf_cx *cx, const struct ynode *n)
{
    conf_keys_default(keys_workers, ARRAY_LEN(keys_workers), cx->conf);
    if (n != NULL)
        conf_value_read(cx, &keys_workers[0], n, &cx->conf->workers);
}

static void
conf_read_trusted_proxies(struct conf_cx *cx, const struct ynode *n)
{
    conf_keys_default(keys_trusted_proxies, ARRAY_LEN(keys_trusted_proxies), cx->conf);
    if (n != NULL)
        conf_value_read(cx, &keys_trusted_proxies[0], n, &cx->conf->trusted_proxies);
}

/* `kind` is a word for people ("backend"), `sec` has the rows. */
void
conf_read_item(struct conf_cx *cx, const struct conf_section *sec, const struct ynode *c,
    const char *kind, void *item)
{
    char quote[CONF_QUOTE_BYTES], what[CONF_QUOTE_BYTES + 16];

    conf_quote(quote, c->key->text);
    snprintf(what, sizeof(what), "%s '%s'", kind, quote);
    if (!conf_name_ok(c->key->text))
        conf_fail(cx, c->key,
            "'%s' cannot name a %s: a name is a letter or _, then letters, digits, - and _, "
            "%d at most",
            quote, kind, CONF_NAME_MAX);
    /* In spite of a bad name: its keys may have mistakes, too. */
    conf_keys_read(cx, sec, c, what, item);
}

void
conf_read_named(
    struct conf_cx *cx, const struct ynode *n, const char *kind, void *items, size_t item_size)
{
    const struct conf_section *sec = conf_section_find(n->key->text.ptr);
    char *item = items;

    tassert(sec != NULL); /* its own reader calls this */
    tassert(n->kind == YNODE_MAP);
    for (const struct ynode *c = n->children; c != NULL; c = c->next, item += item_size)
        conf_read_item(cx, sec, c, kind, item);
}

/* Without the section there is one store, "main", with the defaults of its rows. */
static void
conf_read_storage(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;
    unsigned i = 0, count = n == NULL ? 1 : n->nchildren;

    if (n != NULL && !conf_kind_check(cx, n, YNODE_MAP, "section 'storage'"))
        return;
    if (count == 0)
        conf_fail(cx, n, "section 'storage' is an empty map: give it a storage, or remove it");
    conf->storages = conf_alloc(cx, cx->keep, count, sizeof(*conf->storages));
    if (conf->storages == NULL)
        return;
    conf->nstorages = count;
    if (n == NULL) {
        conf_keys_default(keys_storage, ARRAY_LEN(keys_storage), conf->storages);
        conf->storages[0].name = "main";
        return;
    }
    conf_read_named(cx, n, "storage", conf->storages, sizeof(*conf->storages));
    for (const struct ynode *c = n->children; c != NULL; c = c->next, i++) {
        struct conf_storage *s = &conf->storages[i];
        const struct ynode *fault = ynode_get(c, "fault"), *engine = ynode_get(c, "engine");
        const struct ynode *eviction = ynode_get(c, "eviction");

        s->name = conf_copy(cx, c->key->text);
        /* s->engine is the default then, and would be blamed for what another engine was meant to
         * be. */
        if (engine != NULL && !slice_eq(engine->text, slice_str(s->engine)))
            continue; /* refused already */
        if (s->fault[0] != '\0' && strcmp(s->engine, "fault") != 0)
            conf_fail(
                cx, fault->key, "key 'fault' is for the engine fault, and this is %s", s->engine);
        if (eviction != NULL && strcmp(s->engine, "synth") == 0)
            conf_fail(
                cx, eviction->key, "key 'eviction' is for an engine that evicts: synth does not");
    }
}

static void
conf_read_probes(struct conf_cx *cx, const struct ynode *n)
{
    cx->probes_cut = n != NULL && (n->cut || n->kind != YNODE_MAP);
    if (n != NULL && conf_kind_check(cx, n, YNODE_MAP, "section 'probes'"))
        conf_probes_read(cx, n);
}

/* What would change nothing was meant otherwise. */
static void
conf_backend_check(struct conf_cx *cx, const struct ynode *n, const struct conf_backend *b)
{
    const struct ynode *queue = ynode_get(n, "queue_timeout");

    if (queue != NULL && b->queue_timeout > 0 && b->max_connections == 0)
        conf_fail(cx, queue->key,
            "key 'queue_timeout' is for a backend with 'max_connections': without it no fetch "
            "waits");
}

/* A backend's number is its place here, for directors, routes and the policy.  So the list is
 * never shortened, also not for one that is wrong. */
static void
conf_read_backends(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;
    unsigned i = 0, errors = cx->nerrors;

    if (n == NULL)
        return; /* conf_check_backends() judges */
    /* Names that are missed from now on may be in what was not read. */
    cx->backends_cut |= n->cut || n->kind != YNODE_MAP;
    if (!conf_kind_check(cx, n, YNODE_MAP, "section 'backends'"))
        return;
    for (struct ynode *c = n->children; c != NULL; c = c->next)
        conf_backend_check_text(cx, c);
    if (n->nchildren == 0 && !n->cut)
        conf_fail(cx, n, "section 'backends' is empty: at least one is needed");
    conf->backends = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*conf->backends));
    if (conf->backends == NULL)
        return;
    /* All of them, also those with errors: numbers in directors and routes count them. */
    conf->nbackends = n->nchildren;
    conf_read_named(cx, n, "backend", conf->backends, sizeof(*conf->backends));
    for (const struct ynode *c = n->children; c != NULL; c = c->next, i++) {
        conf->backends[i].name = conf_copy(cx, c->key->text);
        if (cx->nerrors == errors && !n->cut && !cx->nomem)
            conf_backend_tls_finish(cx, c, &conf->backends[i]);
        if (cx->nerrors == errors && !n->cut)
            conf_backend_check(cx, c, &conf->backends[i]);
    }
}

/* A policy may declare backends of its own, and whether it does is not known here. */
static void
conf_check_backends(struct conf_cx *cx, const struct ynode *root)
{
    const struct ynode *vcl = ynode_get(root, "vcl");
    /* A `vcl` that could not be read counts: it may have been one. */
    bool policy = vcl != NULL && (vcl->kind != YNODE_TEXT || vcl->text.len > 0);

    if (ynode_get(root, "backends") == NULL && !policy && !cx->backends_cut)
        conf_fail(cx, NULL,
            "no backends: at least one is needed, as in "
            "`backends: { origin: { address: 127.0.0.1:9000 } }`");
}

static void
conf_read_directors(struct conf_cx *cx, const struct ynode *n)
{
    if (n == NULL)
        return;
    cx->backends_cut |= n->cut || n->kind != YNODE_MAP;
    if (conf_kind_check(cx, n, YNODE_MAP, "section 'directors'"))
        conf_directors_read(cx, n);
}

static void
conf_read_routes(struct conf_cx *cx, const struct ynode *n)
{
    if (n != NULL && conf_kind_check(cx, n, YNODE_LIST, "section 'routes'"))
        conf_routes_read(cx, n);
}

/* At most one request a microsecond, and a burst of at most the requests of a week. */
static void
conf_limit_check(struct conf_cx *cx, const struct ynode *at, const struct conf_limit *l)
{
    int64_t burst = l->burst > 0 ? l->burst : l->rate;

    if (l->name[0] != '\0' && (l->host[0] != '\0' || l->path[0] != '\0'))
        conf_fail(cx, at,
            "a limit with a name counts for the routes that name it (rate): leave out "
            "'host' and 'path', or the name");
    if (l->rate > l->per * 1000)
        conf_fail(cx, at, "%lld requests in %lld ms are more than one a microsecond: no limit",
            (long long)l->rate, (long long)l->per);
    else if (burst > 7 * CONF_D / l->per * l->rate)
        conf_fail(cx, at,
            "burst: %lld at once take %lld ms for each %lld to be earned again, which is more than "
            "7d: a smaller burst, or a higher rate",
            (long long)burst, (long long)l->per, (long long)l->rate);
}

/* A route holds limits as bits of 64 (routes_find_limits). */
static void
conf_read_limits(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;
    unsigned i = 0, errors;

    if (n == NULL || !conf_kind_check(cx, n, YNODE_LIST, "section 'limits'"))
        return;
    if (n->nchildren > CONF_LIMITS_MAX) {
        conf_fail(cx, n, "section 'limits' has %u: %d are possible", n->nchildren, CONF_LIMITS_MAX);
        return;
    }
    conf->limits = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*conf->limits));
    if (conf->limits == NULL)
        return;
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next, i++) {
        errors = cx->nerrors;
        conf_keys_read(cx, conf_section_find("limits"), c, "a limit", &conf->limits[i]);
        if (cx->nerrors == errors && !c->cut)
            conf_limit_check(cx, c, &conf->limits[i]);
    }
    conf->nlimits = n->nchildren;
}

/* The files have been read: conf_include.c. */
static void
conf_read_include(struct conf_cx *cx, const struct ynode *n)
{
    conf_keys_default(keys_include, ARRAY_LEN(keys_include), cx->conf);
    if (n != NULL && conf_value_read(cx, &keys_include[0], n, &cx->conf->include) &&
        !cx->includes && cx->conf->include[0] != '\0')
        conf_fail(cx, n, "include: this configuration is no file, so there is nothing beside it");
}

static void
conf_read_vcl(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;

    conf_keys_default(keys_vcl, ARRAY_LEN(keys_vcl), conf);
    if (n == NULL || !conf_value_read(cx, &keys_vcl[0], n, &conf->vcl))
        return;
    /* Beside the file that names it, whatever the directory is that tarnd was started in. */
    conf->vcl = conf_beside(cx, n, conf->vcl);
    if (conf->vcl != NULL)
        conf_vcl_check(cx, n);
}

/* A client that gets in may stop the process, so a port that all can reach needs a secret. */
static void
conf_admin_check(struct conf_cx *cx, const struct ynode *n, const struct conf_admin *a)
{
    const struct ynode *token = ynode_get(n, "token"), *at = ynode_get(n, "address");
    size_t len = strlen(a->token);

    conf_owner_check(cx, n, &a->address, 0600);
    if (len > 0 && len < CONF_TOKEN_MIN)
        conf_fail(
            cx, token, "the token has %zu characters: it needs at least %d", len, CONF_TOKEN_MIN);
    /* RFC 6750 2.1: a token has none. */
    else if (strchr(a->token, ' ') != NULL)
        conf_fail(cx, token, "the token has a space in it, which Authorization cannot carry");
    else if (len == 0 && !a->address.is_unix && token == NULL)
        conf_fail(cx, at,
            "'%s' is open to every client that can connect: add a 'token' of at least %d "
            "characters, or use unix:/path",
            a->address.text, CONF_TOKEN_MIN);
    else if (len == 0 && !a->address.is_unix)
        conf_fail(cx, token, "the token is empty: it needs at least %d characters", CONF_TOKEN_MIN);
}

/* conf->admin is set also after errors: no snapshot is made of it then. */
static void
conf_read_admin(struct conf_cx *cx, const struct ynode *n)
{
    static const struct ynode usual = {.kind = YNODE_TEXT,
        .text = {"unix:/run/tarn/admin.sock", sizeof("unix:/run/tarn/admin.sock") - 1}};
    unsigned errors = cx->nerrors;
    struct conf_admin *a;

    /* Without the section there is no listener for operators. */
    if (n == NULL)
        return;
    a = conf_alloc(cx, cx->keep, 1, sizeof(*a));
    if (a == NULL)
        return;
    conf_keys_read(cx, conf_section_find("admin"), n, "section 'admin'", a);
    if (ynode_get(n, "address") == NULL)
        conf_address_read(cx, &keys_admin[0], &usual, &a->address);
    if (cx->nerrors == errors && !cx->nomem && !n->cut)
        conf_admin_check(cx, n, a);
    cx->conf->admin = a;
}

/* The index lies in the storage: a table that leaves no room for what it finds is a mistake.  What
 * grows by itself stays within it anyway. */
static void
conf_index_check(struct conf_cx *cx, const struct ynode *bits)
{
    const struct conf *conf = cx->conf;
    const struct conf_storage *store = NULL;
    unsigned fit = 0;

    for (unsigned i = 0; i < conf->nstorages; i++)
        if (store == NULL || strcmp(conf->storages[i].name, "main") == 0)
            store = &conf->storages[i];
    if (store == NULL || conf->index.bits == 0)
        return;
    /* The largest that fits is named in the message. */
    while (CONF_INDEX_SLOT_BYTES << (fit + 1) <= store->size / 2)
        fit++;
    if ((uint64_t)conf->index.bits > fit)
        conf_fail(cx, bits,
            "bits: a table of 2^%llu slots takes %llu KiB, and storage '%s' has %llu KiB; half is "
            "the most: %u, or a larger storage",
            (unsigned long long)conf->index.bits,
            (unsigned long long)(CONF_INDEX_SLOT_BYTES << conf->index.bits) >> 10, store->name,
            (unsigned long long)store->size >> 10, fit);
}

static void
conf_read_index(struct conf_cx *cx, const struct ynode *n)
{
    unsigned errors = cx->nerrors;

    conf_keys_default(keys_index, ARRAY_LEN(keys_index), &cx->conf->index);
    if (n == NULL)
        return;
    conf_keys_read(cx, conf_section_find("index"), n, "section 'index'", &cx->conf->index);
    if (cx->nerrors == errors && !cx->nomem && !n->cut)
        conf_index_check(cx, ynode_get(n, "bits"));
}

const struct conf_storage *
conf_main_storage(const struct conf *conf)
{
    for (unsigned i = 0; i < conf->nstorages; i++)
        if (strcmp(conf->storages[i].name, "main") == 0)
            return &conf->storages[i];
    /* Without that name it is the first. */
    return conf->nstorages > 0 ? &conf->storages[0] : NULL;
}

uint64_t
conf_tables_most(uint64_t store_bytes)
{
    /* Three quarters: beside its tables a store must have room for what they find. */
    return store_bytes - store_bytes / 4;
}

/* The table of limits comes with the first request that is counted; without room for it nothing
 * would be limited. */
static void
conf_limits_check(struct conf_cx *cx, const struct ynode *root)
{
    const struct conf *conf = cx->conf;
    const struct conf_storage *store = conf_main_storage(conf);
    const struct ynode *params = ynode_get(root, "parameters"), *at = NULL;
    uint64_t others = (uint64_t)conf->negative.entries * CONF_NEGATIVE_ENTRY_BYTES, own = 1;

    if (conf->index.bits > 0)
        others += CONF_INDEX_SLOT_BYTES << conf->index.bits;
    /* As rates_open() rounds it. */
    while (own < (uint64_t)conf->params.limit_keys)
        own *= 2;
    own *= CONF_LIMIT_KEY_BYTES;
    if (conf->nlimits == 0 || store == NULL || others + own <= conf_tables_most(store->size))
        return;
    if (params != NULL)
        at = ynode_get(params, "limit_keys");
    conf_fail(cx, at != NULL ? at : ynode_get(root, "limits"),
        "limits: %lld limit_keys take %llu KiB, the other tables %llu KiB, and storage '%s' has "
        "%llu KiB; three quarters is the most: fewer limit_keys, or a larger storage",
        (long long)conf->params.limit_keys, (unsigned long long)own >> 10,
        (unsigned long long)others >> 10, store->name, (unsigned long long)store->size >> 10);
}

/* It is charged to the storage from the start, and pages need room too.  Half of the store at
 * most, with an index of fixed size. */
static void
conf_negative_check(struct conf_cx *cx, const struct ynode *at, uint64_t entries)
{
    const struct conf_storage *store = conf_main_storage(cx->conf);
    uint64_t bits = (uint64_t)cx->conf->index.bits, index, most;

    if (store == NULL)
        return;
    index = bits > 0 ? CONF_INDEX_SLOT_BYTES << bits : 0; /* auto: it fits into what there is */
    most = index < store->size / 2 ? (store->size / 2 - index) / CONF_NEGATIVE_ENTRY_BYTES : 0;
    if (entries > most)
        conf_fail(cx, at,
            "%llu entries take %llu KiB, and storage '%s' has %llu KiB; half is the most%s: "
            "%llu entries, or a larger storage",
            (unsigned long long)entries,
            (unsigned long long)(entries * CONF_NEGATIVE_ENTRY_BYTES + 1023) >> 10, store->name,
            (unsigned long long)store->size >> 10, index > 0 ? " with the index" : "",
            (unsigned long long)most);
}

static void
conf_read_negative_cache(struct conf_cx *cx, const struct ynode *n)
{
    struct conf_negative *neg = &cx->conf->negative;
    unsigned errors = cx->nerrors;
    const struct ynode *entries;

    if (n == NULL)
        return;
    conf_keys_read(cx, conf_section_find("negative_cache"), n, "section 'negative_cache'", neg);
    entries = ynode_get(n, "entries");
    if (cx->nerrors == errors && !cx->nomem && !n->cut)
        conf_negative_check(cx, entries != NULL ? entries : n, (uint64_t)neg->entries);
}

static void
conf_read_compress(struct conf_cx *cx, const struct ynode *n)
{
    conf_keys_default(keys_compress, ARRAY_LEN(keys_compress), &cx->conf->compress);
    if (n != NULL)
        conf_compress_read(cx, n);
}

static void
conf_read_esi(struct conf_cx *cx, const struct ynode *n)
{
    conf_keys_default(keys_esi, ARRAY_LEN(keys_esi), &cx->conf->esi);
    if (n != NULL)
        conf_keys_read(cx, conf_section_find("esi"), n, "section 'esi'", &cx->conf->esi);
}

/* Two names for the same files would be one table. */
static void
conf_table_check(struct conf_cx *cx, const struct ynode *at, unsigned i)
{
    const struct conf_table *t = &cx->conf->tables[i];

    tassert(i < cx->conf->ntables);
    tassert(t->path != NULL);
    if (t->path[0] != '/')
        conf_fail(cx, at, "path: '%s' does not begin with /: which directory is meant?", t->path);
    for (unsigned j = 0; j < i; j++)
        if (strcmp(t->path, cx->conf->tables[j].path) == 0)
            conf_fail(cx, at, "tables '%s' and '%s' have the same path: remove one",
                cx->conf->tables[j].name, t->name);
}

/* Only names and paths: the files are opened later, by daemon/table. */
static void
conf_read_tables(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;
    unsigned i = 0;

    if (n == NULL || !conf_kind_check(cx, n, YNODE_MAP, "section 'tables'"))
        return;
    if (n->nchildren > CONF_TABLES_MAX)
        conf_fail(cx, n, "section 'tables' has %u tables: %d are possible", n->nchildren,
            CONF_TABLES_MAX);
    conf->tables = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*conf->tables));
    if (conf->tables == NULL)
        return;
    conf->ntables = n->nchildren;
    conf_read_named(cx, n, "table", conf->tables, sizeof(*conf->tables));
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next, i++) {
        struct conf_table *t = &conf->tables[i];
        const struct ynode *at = ynode_get(c, "path");
        char usual[sizeof("/dev/shm/tarn/") + CONF_NAME_MAX];

        t->name = conf_copy(cx, c->key->text);
        if (t->path[0] == '\0') {
            /* Where tarn-table writes it without a path. */
            snprintf(usual, sizeof(usual), "/dev/shm/tarn/%.*s", (int)c->key->text.len,
                c->key->text.ptr);
            t->path = conf_copy(cx, slice_str(usual));
        }
        if (!cx->nomem)
            conf_table_check(cx, at != NULL ? at : c, i);
    }
}

/* Without the section nothing of it counts; its texts can be read all the same. */
static void
conf_read_fleet(struct conf_cx *cx, const struct ynode *n)
{
    struct conf_fleet *fleet = &cx->conf->fleet;

    conf_keys_default(keys_fleet, ARRAY_LEN(keys_fleet), fleet);
    fleet->name = fleet->engine = fleet->password = "";
    if (n != NULL)
        conf_fleet_read(cx, conf_section_find("fleet"), n);
}

static void
conf_read_parameters(struct conf_cx *cx, const struct ynode *n)
{
    conf_keys_default(keys_parameters, ARRAY_LEN(keys_parameters), &cx->conf->params);
    if (n != NULL)
        conf_keys_read(
            cx, conf_section_find("parameters"), n, "section 'parameters'", &cx->conf->params);
    /* What the operator writes is his word, also where it is the default (RFC 9111 4.2.4). */
    for (const struct ynode *c = n != NULL ? n->children : NULL; c != NULL; c = c->next) {
        cx->conf->grace_said |= strcmp(c->key->text.ptr, "default_grace") == 0;
        cx->conf->ttl_said |= strcmp(c->key->text.ptr, "default_ttl") == 0;
        cx->conf->params.heuristic_said |= strcmp(c->key->text.ptr, "heuristic_fraction") == 0 ||
                                           strcmp(c->key->text.ptr, "heuristic_max") == 0;
    }
    tassert(n == NULL || n->kind != YNODE_BAD);
    /* The parameters are copied for workers and operators, and take it along. */
    cx->conf->params.grace_said = cx->conf->grace_said;
    cx->conf->params.ttl_said = cx->conf->ttl_said;
    if (n != NULL && !cx->nomem && !n->cut) {
        conf_shm_check(cx, n);
        conf_resolver_check(cx, n);
    }
}

/* A section that is none: not built yet, a parameter without its section, or a typo. */
static void
conf_refuse_section(struct conf_cx *cx, const struct ynode *key)
{
    struct conf_guess guess = {.meant = key->text}, param = guess;
    char quote[CONF_QUOTE_BYTES];

    conf_quote(quote, key->text);
    if (slice_eq(key->text, SLICE_LIT("tls"))) {
        conf_fail(cx, key,
            "section 'tls' is a key of a listener: write `listen: [ { address: \"*:443\", tls: { "
            "certificates: DIRECTORY } } ]`");
        return;
    }
    if (slice_eq(key->text, SLICE_LIT("gzip"))) {
        conf_fail(cx, key, "section 'gzip' is called compress: write `compress: on`");
        return;
    }
    for (unsigned i = 0; i < ARRAY_LEN(conf_unsupported); i++) {
        if (slice_eq(key->text, slice_str(conf_unsupported[i]))) {
            conf_fail(cx, key, "section '%s' is not supported by this build yet: remove it", quote);
            return;
        }
    }
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        conf_guess_try(&guess, s->name);
    for (unsigned i = 0; i < ARRAY_LEN(keys_parameters); i++)
        conf_guess_try(&param, keys_parameters[i].name);
    /* A parameter at the top level is a mistake that is made often: the nearer of both is named. */
    if (param.best != NULL && (guess.best == NULL || param.distance < guess.distance))
        conf_fail(cx, key,
            "unknown section '%s'; did you mean the parameter '%s'? It belongs "
            "under 'parameters'",
            quote, param.best);
    else if (guess.best != NULL)
        conf_fail(cx, key, "unknown section '%s'; did you mean '%s'?", quote, guess.best);
    else
        conf_fail(cx, key,
            "unknown section '%s'; there are: listen, workers, trusted_proxies, storage, probes, "
            "backends, directors, routes, limits, include, vcl, index, negative_cache, compress, "
            "esi, tables, fleet, admin, parameters",
            quote);
}

/* What is left to the parameters, once those are known.  Their section is read before the
 * parameters, whatever the order in the file. */
static void
conf_finish_backends(struct conf *conf)
{
    for (unsigned i = 0; i < conf->nbackends; i++) {
        struct conf_backend *b = &conf->backends[i];

        if (b->connect_timeout == CONF_FROM_PARAM)
            b->connect_timeout = conf->params.connect_timeout;
        if (b->first_byte_timeout == CONF_FROM_PARAM)
            b->first_byte_timeout = conf->params.first_byte_timeout;
        if (b->between_bytes_timeout == CONF_FROM_PARAM)
            b->between_bytes_timeout = conf->params.between_bytes_timeout;
        if (b->dns_ttl == CONF_FROM_PARAM)
            b->dns_ttl = conf->params.dns_ttl;
        if (b->idle_timeout == CONF_FROM_PARAM)
            b->idle_timeout = conf->params.backend_idle_timeout;
    }
}

/* In this order: the name "default", the only director, the only backend, the backend of a route
 * for everything.  None of these: a policy or each route has to name one. */
static unsigned
conf_find_default(const struct conf *conf)
{
    for (unsigned i = 0; i < conf->nbackends; i++)
        if (strcmp(conf->backends[i].name, "default") == 0)
            return i;
    for (unsigned i = 0; i < conf->ndirectors; i++)
        if (strcmp(conf->directors[i].name, "default") == 0)
            return conf->nbackends + i;
    /* Before the backends: they are mostly its members. */
    if (conf->ndirectors == 1)
        return conf->nbackends;
    if (conf->ndirectors == 0 && conf->nbackends == 1)
        return 0;
    for (unsigned i = 0; i < conf->nroutes; i++)
        /* A route for everything is a default in other words. */
        if (conf->routes[i].host[0] == '\0' && conf->routes[i].path[0] == '\0' &&
            conf->routes[i].backend != CONF_NO_BACKEND)
            return conf->routes[i].backend;
    return CONF_NO_BACKEND;
}

void
conf_build(struct conf_cx *cx, const struct ynode *root)
{
    if (root == NULL || root->kind == YNODE_BAD)
        return;
    if (ynode_is_null(root)) {
        conf_fail(cx, NULL, "the file is empty: it needs at least `backends`");
        return;
    }
    if (!conf_kind_check(cx, root, YNODE_MAP, "the file"))
        return;
    /* A file that broke off may have had them behind that place. */
    cx->backends_cut = root->cut;
    for (const struct ynode *c = root->children; c != NULL; c = c->next)
        /* All sections that are none, before any is read: typos there explain what is missed
         * below. */
        if (conf_section_find(c->key->text.ptr) == NULL)
            conf_refuse_section(cx, c->key);
    /* In the order of conf_sections, not of the file: what is named is read before what names it.  A
     * section that is absent is read, too, for its defaults. */
    for (const struct conf_section *s = conf_sections; s->name != NULL && !cx->nomem; s++) {
        const struct ynode *n = ynode_get(root, s->name);

        if (n == NULL || n->kind != YNODE_BAD)
            s->read(cx, n);
        else if (strcmp(s->name, "backends") == 0 || strcmp(s->name, "directors") == 0)
            cx->backends_cut = true;
        else if (strcmp(s->name, "probes") == 0)
            cx->probes_cut = true;
    }
    conf_check_backends(cx, root);
    if (cx->conf->params.dns_required)
        conf_names_check(cx);
    /* What follows looks at several sections together, and would blame the wrong one after an error. */
    if (cx->nomem || cx->errors != NULL)
        return;
    tassert(!root->cut); /* what was cut has an error */
    if (cx->conf->has_peers && ynode_get(root, "fleet") == NULL)
        conf_fail(cx, ynode_get(root, "listen"),
            "a listener has `peers`, and there is no section 'fleet': only nodes of a fleet ask "
            "there");
    conf_loops_check(cx, root);
    conf_limits_check(cx, root);
    /* Routes last: they take the default backend, and the parameters' times are in the backends. */
    conf_finish_backends(cx->conf);
    cx->conf->default_backend = conf_find_default(cx->conf);
    conf_routes_finish(cx, root);
    conf_compress_finish(cx->conf);
    for (unsigned i = 0; i < cx->conf->nroutes; i++)
        cx->conf->has_esi = cx->conf->has_esi || cx->conf->routes[i].esi != 0;
    conf_default_check(cx, root);
    /* Last: a size that is too large is judged only where all else is right. */
    conf_memory_check(cx, ynode_get(root, "storage"));
    cx->conf->content = conf_content(root);
}
