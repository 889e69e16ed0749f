/* conf_compare.c -- what a new configuration changes.
 *
 * Two snapshots are walked by the same rows that read them, so a new key is compared from its
 * first day.  Each difference is reported as live or not.  If one is not live the reload is
 * refused as a whole: half a configuration in force would be one that no file has.
 *
 *    parameters.default_grace: 10s -> 30s  live
 *    storage.main.engine: malloc -> synth  needs a restart
 *
 * Things with names are compared by name, listeners by address, routes and limits by their
 * order.
 */
#include "conf/conf_compare.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

enum {
    COMPARE_VALUE = 256, /* bytes of a value in a report, with NUL */
    COMPARE_NAME = 3 * CONF_NAME_MAX,
};

struct compare {
    conf_change_f *each;
    void *ctx;
    unsigned nrestart;
};

static const struct conf_section *
compare_section(const char *name)
{
    const struct conf_section *s = conf_sections;

    while (s->name != NULL && strcmp(s->name, name) != 0)
        s++;
    tassert(s->name != NULL); /* the callers name sections that there are */
    return s;
}

static bool
compare_address_same(const struct conf_address *a, const struct conf_address *b)
{
    if (strcmp(a->text, b->text) != 0)
        return false;
    if (a->unresolved != NULL || b->unresolved != NULL)
        return true; /* the one that is there finds, or has found, its addresses by itself */
    if (a->naddrs != b->naddrs)
        return false;
    /* The text alone does not do: a name may have other addresses since. */
    for (unsigned i = 0; i < a->naddrs; i++)
        if (a->addr_lens[i] != b->addr_lens[i] ||
            memcmp(&a->addrs[i], &b->addrs[i], a->addr_lens[i]) != 0)
            return false;
    return true;
}

static bool
compare_is_address(const struct conf_key *key)
{
    return key->type == CONF_TYPE_LISTEN || key->type == CONF_TYPE_ADDRESS;
}

static bool compare_rows_same(const char *section, const void *a, const void *b);

/* Where one was written, and under which name, makes no other probe of it. */
static bool
compare_probe_same(const struct conf_probe *a, const struct conf_probe *b)
{
    return a == b || (a != NULL && b != NULL && compare_rows_same("probes", a, b));
}

static bool
compare_nets_same(const struct address_nets *a, const struct address_nets *b)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        /* As read: one network can be written in several ways. */
        if (a->nets[i].bits != b->nets[i].bits ||
            memcmp(a->nets[i].addr, b->nets[i].addr, sizeof(a->nets[i].addr)) != 0)
            return false;
    return true;
}

static bool
compare_peers_same(const struct conf_peers *a, const struct conf_peers *b)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++) {
        const struct conf_peer *x = &a->list[i], *y = &b->list[i];

        /* By number: the user of a name may have been made since, which is a change. */
        if (x->kind != y->kind || x->known != y->known || x->id != y->id ||
            x->net.bits != y->net.bits ||
            memcmp(x->net.addr, y->net.addr, sizeof(x->net.addr)) != 0)
            return false;
    }
    return true;
}

static bool
compare_allow_same(const struct conf_allow *a, const struct conf_allow *b)
{
    return a->said == b->said && compare_peers_same(&a->read, &b->read) &&
           compare_peers_same(&a->write, &b->write);
}

/* `a` and `b`: the member of a key, in two structures.  Backends of routes and members of
 * directors are compared by name, in compare_routes_same() and compare_directors().  A type that
 * is not named here is a number or a text.  A new type that is a struct needs a line above the
 * last two, or strcmp(3) would read its first bytes as a pointer. */
static bool
compare_member_same(const struct conf_key *key, const void *a, const void *b)
{
    if (compare_is_address(key))
        return compare_address_same(a, b);
    if (key->type == CONF_TYPE_PROBE)
        return compare_probe_same(
            *(const struct conf_probe *const *)a, *(const struct conf_probe *const *)b);
    /* Their numbers are of one configuration, and mean nothing in another. */
    if (key->type == CONF_TYPE_MEMBERS || key->type == CONF_TYPE_BACKEND)
        return true;
    if (conf_type_is_rule(key->type))
        return conf_rule_same(key->type, a, b);
    if (key->type == CONF_TYPE_TLS)
        return conf_tls_same(a, b);
    if (key->type == CONF_TYPE_BACKENDTLS)
        return conf_backend_tls_same(a, b);
    if (key->type == CONF_TYPE_ALLOW)
        return compare_allow_same(a, b);
    if (key->type == CONF_TYPE_NETS)
        return compare_nets_same(
            &((const struct conf_nets *)a)->set, &((const struct conf_nets *)b)->set);
    if (conf_type_is_number(key->type))
        return *(const int64_t *)a == *(const int64_t *)b;
    return strcmp(*(const char *const *)a, *(const char *const *)b) == 0;
}

/* Equal in all keys that a file can say. */
static bool
compare_rows_same(const char *section, const void *a, const void *b)
{
    const struct conf_section *s = compare_section(section);

    for (unsigned i = 0; i < s->nkeys; i++)
        if (!compare_member_same(&s->keys[i], (const char *)a + s->keys[i].offset,
                (const char *)b + s->keys[i].offset))
            return false;
    return true;
}

static const char *
compare_probe_text(const struct conf_probe *p)
{
    if (p == NULL)
        return "none";
    if (p->name[0] != '\0')
        return p->name;
    /* A probe that is written at its backend has no name. */
    return p->request[0] != '\0' ? "a request of its own" : p->url;
}

static const char *
compare_text(const struct conf_key *key, const void *member, char buf[COMPARE_VALUE])
{
    if (key->type == CONF_TYPE_PROBE)
        return compare_probe_text(*(const struct conf_probe *const *)member);
    if (compare_is_address(key))
        /* As it is written, though its addresses decided. */
        return ((const struct conf_address *)member)->text;
    if (key->type == CONF_TYPE_BACKEND)
        return "";
    if (conf_type_is_number(key->type))
        return conf_value_format(key->type, *(const int64_t *)member, buf, COMPARE_VALUE);
    if (key->type == CONF_TYPE_OUTPUT && **(const char *const *)member == '\0')
        return "none"; /* - is standard output */
    return *(const char *const *)member;
}

/* The texts are borrowed for the call of `each`. */
static void
compare_say(struct compare *c, const char *what, const char *from, const char *to, bool live)
{
    struct conf_change change = {.what = what, .from = from, .to = to, .live = live};

    tassert(what[0] != '\0');
    /* With one of these the reload is refused, and nothing changes. */
    c->nrestart += !live;
    c->each(c->ctx, &change);
}

/* For sections that need a restart as a whole. */
static bool
compare_never(const struct conf_key *key)
{
    /* A key that belongs to memory or threads of the start. */
    (void)key;
    return false;
}

static bool
compare_always(const struct conf_key *key)
{
    (void)key;
    return true;
}

/* Key by key.  `prefix` ends in a dot. */
static void
compare_rows(struct compare *c, const char *section, const char *prefix, const void *a,
    const void *b, bool (*is_live)(const struct conf_key *key))
{
    const struct conf_section *s = compare_section(section);

    for (unsigned i = 0; i < s->nkeys; i++) {
        const struct conf_key *key = &s->keys[i];
        const char *old = (const char *)a + key->offset, *next = (const char *)b + key->offset;
        char what[COMPARE_NAME], from[COMPARE_VALUE], to[COMPARE_VALUE];

        if (compare_member_same(key, old, next))
            continue;
        /* As the file has it, so that a person finds the line. */
        snprintf(what, sizeof(what), "%s%s", prefix, key->name);
        if (strcmp(key->name, "token") == 0) /* reports are read by more than may know it */
            compare_say(c, what, "", "", is_live(key));
        else
            compare_say(
                c, what, compare_text(key, old, from), compare_text(key, next, to), is_live(key));
    }
}

/* Two arrays of things with names, as the sections that are maps have them. */
struct compare_list {
    const char *section;
    const void *items;
    unsigned n;
    size_t size, name_at; /* of an item; of its name */
};

static const void *
compare_item(const struct compare_list *l, unsigned i)
{
    tassert(i < l->n);
    return (const char *)l->items + i * l->size;
}

static const char *
compare_item_name(const struct compare_list *l, unsigned i)
{
    return *(const char *const *)(const void *)((const char *)compare_item(l, i) + l->name_at);
}

/* l->n: none. */
static unsigned
compare_find(const struct compare_list *l, const char *name)
{
    unsigned i = 0;

    while (i < l->n && strcmp(compare_item_name(l, i), name) != 0)
        i++;
    return i;
}

/* First what is gone or altered, in the old order; then what is new, in the new one. */
static void
compare_named(struct compare *c, const struct compare_list *a, const struct compare_list *b,
    bool live, bool (*is_live)(const struct conf_key *key))
{
    char what[COMPARE_NAME];

    tassert(a->size == b->size); /* two arrays of one type */
    tassert(a->name_at == b->name_at);
    for (unsigned i = 0; i < a->n; i++) {
        unsigned j = compare_find(b, compare_item_name(a, i));

        snprintf(what, sizeof(what), "%s.%s%s", a->section, compare_item_name(a, i),
            j < b->n ? "." : "");
        /* By name, and not by place: a new backend at the top must not make all others look
         * changed. */
        if (j < b->n)
            compare_rows(c, a->section, what, compare_item(a, i), compare_item(b, j), is_live);
        else
            compare_say(c, what, "there", "gone", live);
    }
    for (unsigned j = 0; j < b->n; j++) {
        if (compare_find(a, compare_item_name(b, j)) < a->n)
            continue;
        snprintf(what, sizeof(what), "%s.%s", b->section, compare_item_name(b, j));
        compare_say(c, what, "", "new", live);
    }
}

static bool
compare_storage_live(const struct conf_key *key)
{
    /* The one key of a store that can follow: engine and eviction lie in its memory. */
    return key->offset == offsetof(struct conf_storage, size);
}

static void
compare_storages(struct compare *c, const struct conf *a, const struct conf *b)
{
    struct compare_list old = {"storage", a->storages, a->nstorages, sizeof(a->storages[0]),
        offsetof(struct conf_storage, name)};
    struct compare_list next = {"storage", b->storages, b->nstorages, sizeof(b->storages[0]),
        offsetof(struct conf_storage, name)};

    compare_named(c, &old, &next, false, compare_storage_live);
}

static void
compare_tables(struct compare *c, const struct conf *a, const struct conf *b)
{
    struct compare_list old = {
        "tables", a->tables, a->ntables, sizeof(a->tables[0]), offsetof(struct conf_table, name)};
    struct compare_list next = {
        "tables", b->tables, b->ntables, sizeof(b->tables[0]), offsetof(struct conf_table, name)};

    compare_named(c, &old, &next, false, compare_never);
}

static void
compare_backends(struct compare *c, const struct conf *a, const struct conf *b)
{
    struct compare_list old = {"backends", a->backends, a->nbackends, sizeof(a->backends[0]),
        offsetof(struct conf_backend, name)};
    struct compare_list next = {"backends", b->backends, b->nbackends, sizeof(b->backends[0]),
        offsetof(struct conf_backend, name)};

    compare_named(c, &old, &next, true, compare_always);
}

/* The one with the same address, whatever else is said of it. */
static const struct conf_listen *
compare_listen_altered(const struct conf *in, const struct conf_listen *l)
{
    for (unsigned i = 0; i < in->nlistens; i++)
        /* The address is what clients know: all else may change under it. */
        if (compare_address_same(&in->listens[i].address, &l->address))
            return &in->listens[i];
    return NULL;
}

static void
compare_say_altered(struct compare *c, const struct conf_listen *a, const struct conf_listen *b)
{
    const struct conf_section *s = compare_section("listen");

    for (unsigned i = 0; i < s->nkeys; i++) {
        const struct conf_key *key = &s->keys[i];
        char what[COMPARE_NAME];

        if (key->offset == offsetof(struct conf_listen, name) ||
            compare_member_same(key, (const char *)a + key->offset, (const char *)b + key->offset))
            continue;
        snprintf(what, sizeof(what), "listen.%.130s.%s", a->address.text, key->name);
        /* Without values: some are lists. */
        compare_say(c, what, "", "", true);
    }
}

/* Listeners are compared by address: without a name of their own, they are named by number.
 * Called twice, with the snapshots exchanged.  One with the same address in both is
 * reported key by key, and not as one that is gone and one that is new. */
static void
compare_listens_in(struct compare *c, const struct conf *a, const struct conf *b, bool gone)
{
    for (unsigned i = 0; i < a->nlistens; i++) {
        const struct conf_listen *other = compare_listen_altered(b, &a->listens[i]);
        unsigned j = 0;

        while (j < b->nlistens && !conf_listen_same(&a->listens[i], &b->listens[j]))
            j++;
        if (j == b->nlistens && other != NULL) {
            /* Else it would be reported from both sides. */
            if (gone)
                compare_say_altered(c, &a->listens[i], other);
        } else if (j == b->nlistens) {
            compare_say(c, "listen", gone ? a->listens[i].address.text : "",
                gone ? "" : a->listens[i].address.text, true);
        }
    }
}

/* Of a director, too; CONF_NO_BACKEND: of none. */
static const char *
compare_backend_name(const struct conf *c, unsigned n)
{
    tassert(n == CONF_NO_BACKEND || n < c->nbackends + c->ndirectors);
    /* Numbers of directors follow those of backends. */
    if (n < c->nbackends)
        return c->backends[n].name;
    return n - c->nbackends < c->ndirectors ? c->directors[n - c->nbackends].name : "";
}

/* What does not fit is left out of reports. */
static void
compare_members_text(
    const struct conf *c, const struct conf_members *members, char buf[COMPARE_VALUE])
{
    size_t used = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < members->n && used < COMPARE_VALUE; i++)
        used += (size_t)snprintf(buf + used, COMPARE_VALUE - used, "%s%s (%lld)", i > 0 ? ", " : "",
            compare_backend_name(c, members->list[i].backend), (long long)members->list[i].weight);
}

static bool
compare_members_same(const struct conf *a, const struct conf_members *x, const struct conf *b,
    const struct conf_members *y)
{
    if (x->n != y->n)
        return false;
    for (unsigned i = 0; i < x->n; i++)
        if (x->list[i].weight != y->list[i].weight ||
            /* By name: numbers move when a backend is added in front. */
            strcmp(compare_backend_name(a, x->list[i].backend),
                compare_backend_name(b, y->list[i].backend)) != 0)
            return false;
    return true;
}

static void
compare_directors(struct compare *c, const struct conf *a, const struct conf *b)
{
    struct compare_list old = {"directors", a->directors, a->ndirectors, sizeof(a->directors[0]),
        offsetof(struct conf_director, name)};
    struct compare_list next = {"directors", b->directors, b->ndirectors, sizeof(b->directors[0]),
        offsetof(struct conf_director, name)};

    compare_named(c, &old, &next, true, compare_always);
    for (unsigned i = 0; i < old.n; i++) {
        const struct conf_director *x = &a->directors[i], *y;
        unsigned j = compare_find(&next, x->name);
        char what[COMPARE_NAME], from[COMPARE_VALUE], to[COMPARE_VALUE];

        /* compare_named() has said that it is gone. */
        if (j == next.n)
            continue;
        y = &b->directors[j];
        if (compare_members_same(a, &x->backends, b, &y->backends))
            continue;
        snprintf(what, sizeof(what), "directors.%s.backends", x->name);
        compare_members_text(a, &x->backends, from);
        compare_members_text(b, &y->backends, to);
        compare_say(c, what, from, to, true);
    }
}

static bool
compare_routes_same(const struct conf *a, const struct conf *b)
{
    if (a->nroutes != b->nroutes || strcmp(compare_backend_name(a, a->default_backend),
                                        compare_backend_name(b, b->default_backend)) != 0)
        return false;
    for (unsigned i = 0; i < a->nroutes; i++) {
        const struct conf_route *x = &a->routes[i], *y = &b->routes[i];

        /* In order: the first route that matches counts, so a changed order is a change. */
        if (!compare_rows_same("routes", x, y) ||
            strcmp(compare_backend_name(a, x->backend), compare_backend_name(b, y->backend)) != 0)
            return false;
    }
    return true;
}

static bool
compare_limits_same(const struct conf *a, const struct conf *b)
{
    if (a->nlimits != b->nlimits)
        return false;
    /* In order, too: a bucket's key has the limit's number (limit_key). */
    for (unsigned i = 0; i < a->nlimits; i++)
        if (!compare_rows_same("limits", &a->limits[i], &b->limits[i]))
            return false;
    return true;
}

static bool
compare_negative_live(const struct conf_key *key)
{
    /* `entries` is the size of a table. */
    return key->offset == offsetof(struct conf_negative, ttl);
}

/* Requests read all of it in the snapshot that the routes are in. */
static void
compare_compress(struct compare *c, const struct conf_compress *a, const struct conf_compress *b)
{
    if (a->on != b->on)
        compare_say(c, "compress", a->on ? "on" : "off", b->on ? "on" : "off", true);
    else
        compare_rows(c, "compress", "compress.", a, b, compare_always);
}

static bool
compare_admin_live(const struct conf_key *key)
{
    return key->offset == offsetof(struct conf_admin, allow) ||
           key->offset == offsetof(struct conf_admin, names);
}

static void
compare_admin(struct compare *c, const struct conf *a, const struct conf *b)
{
    /* The listener is opened at the start, and closed at the end. */
    if ((a->admin == NULL) != (b->admin == NULL))
        compare_say(
            c, "admin", a->admin != NULL ? "there" : "", b->admin != NULL ? "new" : "gone", false);
    else if (a->admin != NULL)
        compare_rows(c, "admin", "admin.", a->admin, b->admin, compare_admin_live);
}

/* A node joins its fleet at the start.  Engines are compared as they are written: a name that has
 * other addresses by now is looked up again by itself. */
static void
compare_fleet(struct compare *c, const struct conf_fleet *a, const struct conf_fleet *b)
{
    if (a->said != b->said) {
        compare_say(c, "fleet", a->said ? "there" : "", a->said ? "gone" : "new", false);
        return;
    }
    compare_rows(c, "fleet", "fleet.", a, b, compare_never);
    /* The file has another one since; neither of them is for a report. */
    if (strcmp(a->password_file, b->password_file) == 0 && strcmp(a->password, b->password) != 0)
        compare_say(c, "fleet.password_file", "", "", false);
}

/* Returns how many changes need a restart.  A new section needs a line here, or a reload would
 * change it without a word.  Probes are compared through the backends that name them. */
unsigned
conf_compare(const struct conf *old, const struct conf *next, conf_change_f *each, void *ctx)
{
    struct compare c = {.each = each, .ctx = ctx};

    compare_listens_in(&c, old, next, true);  /* gone or altered */
    compare_listens_in(&c, next, old, false); /* new: each altered one has been reported */
    compare_rows(&c, "workers", "", old, next, compare_never);
    compare_rows(&c, "trusted_proxies", "", old, next, compare_always);
    compare_storages(&c, old, next);
    compare_backends(&c, old, next);
    compare_directors(&c, old, next);
    if (!compare_routes_same(old, next))
        compare_say(&c, "routes", "", "", true);
    if (!compare_limits_same(old, next))
        compare_say(&c, "limits", "", "", true);
    compare_rows(&c, "vcl", "", old, next, compare_always);
    compare_rows(&c, "index", "index.", &old->index, &next->index, compare_never);
    compare_rows(&c, "negative_cache", "negative_cache.", &old->negative, &next->negative,
        compare_negative_live);
    compare_compress(&c, &old->compress, &next->compress);
    compare_rows(&c, "esi", "esi.", &old->esi, &next->esi, compare_always);
    compare_tables(&c, old, next);
    compare_fleet(&c, &old->fleet, &next->fleet);
    compare_admin(&c, old, next);
    compare_rows(
        &c, "parameters", "parameters.", &old->params, &next->params, conf_param_key_is_reloaded);
    return c.nrestart;
}

bool
conf_backend_same(const struct conf_backend *a, const struct conf_backend *b)
{
    return strcmp(a->name, b->name) == 0 && compare_rows_same("backends", a, b);
}

/* The name by itself, which is a number where none was given, makes no other listener of it. */
bool
conf_listen_same(const struct conf_listen *a, const struct conf_listen *b)
{
    const struct conf_section *s = compare_section("listen");

    for (unsigned i = 0; i < s->nkeys; i++)
        if (s->keys[i].offset != offsetof(struct conf_listen, name) &&
            !compare_member_same(&s->keys[i], (const char *)a + s->keys[i].offset,
                (const char *)b + s->keys[i].offset))
            return false;
    return true;
}

/* The parameters of a reload: live ones from the file, all others as they are. */
void
conf_params_take_live(struct conf_params *to, const struct conf_params *from)
{
    const struct conf_section *s = compare_section("parameters");

    for (unsigned i = 0; i < s->nkeys; i++) {
        const struct conf_key *key = &s->keys[i];
        size_t size = conf_type_is_number(key->type) ? sizeof(int64_t) : sizeof(const char *);

        /* A row of another type would be copied by half. */
        tassert(key->offset + size <= sizeof(*to));
        if (!conf_param_key_is_reloaded(key))
            continue;
        /* Texts are borrowed: the snapshot that has them is in force as long as they count. */
        memcpy((char *)to + key->offset, (const char *)from + key->offset, size);
    }
    /* Not rows of the table, and of the new file all the same. */
    to->ttl_said = from->ttl_said;
    to->grace_said = from->grace_said;
    to->heuristic_said = from->heuristic_said;
}
