/* conf_origins.c -- probes, and directors with their members. */
#include "conf/conf_priv.h"

#include <string.h>

#include "daemon/base/obj.h"

/* What must hold between the keys of one that is whole. */
static void
origins_check_probe(struct conf_cx *cx, const struct ynode *n, struct conf_probe *p)
{
    const struct ynode *threshold = ynode_get(n, "threshold"), *window = ynode_get(n, "window");

    p->initial_said = ynode_get(n, "initial") != NULL;
    /* As in Varnish: one good result more makes it healthy. */
    if (!p->initial_said)
        p->initial = p->threshold > 0 ? p->threshold - 1 : 0;
    if (ynode_get(n, "url") != NULL && p->request[0] != '\0')
        conf_fail(cx, ynode_get(n, "url")->key,
            "key 'url' is for a probe without 'request', which has its own target");
    if (p->threshold > p->window)
        /* At the one that was written: the other is a default. */
        conf_fail(cx, threshold != NULL ? threshold : window,
            "%lld good results of the last %lld are never reached: 'threshold' is at most 'window'",
            (long long)p->threshold, (long long)p->window);
}

static void
origins_read_probe(
    struct conf_cx *cx, const struct ynode *n, const char *what, struct conf_probe *p)
{
    unsigned errors = cx->nerrors;

    conf_keys_read(cx, conf_section_find("probes"), n, what, p);
    /* What has an error already would have others that only follow from it. */
    if (cx->nerrors == errors && !cx->nomem && !n->cut && n->kind == YNODE_MAP)
        origins_check_probe(cx, n, p);
}

/* Backends hold pointers into conf->probes: the array is made once, in full size. */
void
conf_probes_read(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;
    unsigned i = 0, errors = cx->nerrors;

    conf->probes = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*conf->probes));
    if (conf->probes == NULL)
        return;
    /* All of them, also those with errors: what names one finds it. */
    conf->nprobes = n->nchildren;
    conf_read_named(cx, n, "probe", conf->probes, sizeof(*conf->probes));
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next, i++) {
        conf->probes[i].name = conf_copy(cx, c->key->text);
        if (cx->nerrors == errors && !n->cut)
            origins_check_probe(cx, c, &conf->probes[i]);
    }
}

/* Each line and its end, and a blank one behind them: as VCL's .request. */
bool
conf_lines_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    struct conf_key line = {.name = key->name, .type = CONF_TYPE_ASCII, .least = 1, .most = 1000};
    unsigned errors = cx->nerrors;
    char *text, *at;

    if (n->kind == YNODE_TEXT || n->nchildren == 0)
        return true; /* none */
    /* The blank line and the NUL are behind the most that is allowed. */
    text = at = conf_alloc(cx, cx->keep, (size_t)key->most + 3, 1);
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        const char *one = "";
        size_t len;

        if (!conf_value_read(cx, &line, c, &one))
            continue;
        len = strlen(one);
        if (len + 2 > (size_t)(text + key->most - at)) {
            /* Once: the lines that follow would all say the same. */
            conf_fail(cx, c, "%s has more than %lld bytes", key->name, (long long)key->most);
            break;
        }
        memcpy(at, one, len);
        memcpy(at + len, "\r\n", 2);
        at += len + 2;
    }
    if (cx->nomem)
        return false;
    tassert(at <= text + key->most); /* three bytes are left */
    memcpy(at, "\r\n", 3);           /* and the NUL */
    *to = text;
    return cx->nerrors == errors;
}

static bool
origins_find_probe(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct conf_probe **to)
{
    const struct conf *conf = cx->conf;
    struct conf_guess guess = {.meant = n->text};

    if (n->text.len == 0)
        return true; /* none */
    for (unsigned i = 0; i < conf->nprobes && !cx->nomem; i++) {
        if (slice_eq(n->text, slice_str(conf->probes[i].name))) {
            *to = &conf->probes[i];
            return true;
        }
        conf_guess_try(&guess, conf->probes[i].name);
    }
    /* The section could not be read whole: it may have had the name. */
    if (cx->probes_cut || cx->nomem)
        return false;
    if (guess.best != NULL)
        conf_fail_value(cx, key, n, "is not among the probes; did you mean '%s'?", guess.best);
    else if (conf->nprobes > 0)
        conf_fail_value(
            cx, key, n, "is not among the probes: the first is '%s'", conf->probes[0].name);
    else
        conf_fail_value(cx, key, n,
            "is not among the probes: there is no section 'probes'; or give it a map, as in "
            "{ url: /health }");
    return false;
}

bool
conf_probe_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct conf_probe **to)
{
    struct conf_probe *p;

    if (n->kind == YNODE_TEXT)
        return origins_find_probe(cx, key, n, to);
    tassert(n->kind == YNODE_MAP);
    p = conf_alloc(cx, cx->keep, 1, sizeof(*p));
    if (p == NULL)
        return false;
    /* One of a backend's own has none, and no other can refer to it. */
    p->name = "";
    origins_read_probe(cx, n, "a probe", p);
    *to = p;
    return !cx->nomem;
}

static const struct conf_key origins_member_keys[] = {
    {.name = "name",
        .type = CONF_TYPE_BACKEND,
        .required = true,
        .offset = offsetof(struct conf_member, backend)},
    {.name = "weight",
        .type = CONF_TYPE_COUNT,
        .offset = offsetof(struct conf_member, weight),
        .def = 1,
        .least = 1,
        .most = 100},
};
static const struct conf_section origins_member = {
    .name = "member", .keys = origins_member_keys, .nkeys = ARRAY_LEN(origins_member_keys)};

/* One that stands there twice would have two turns: that is what a weight is for. */
static void
origins_check_member(
    struct conf_cx *cx, const struct ynode *n, const struct conf_members *to, unsigned i)
{
    for (unsigned j = 0; j < i; j++)
        if (to->list[j].backend == to->list[i].backend)
            conf_fail(cx, n, "the same as number %u of the list: give that one a weight", j + 1);
}

/* `backends: [a, { name: b, weight: 2 }]`.  The list has a place for each entry, also for wrong
 * ones, so numbers in messages are those of the file. */
bool
conf_members_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_members *to)
{
    struct conf_key alone = origins_member_keys[0];
    unsigned i = 0, errors = cx->nerrors;

    /* A member without a map is reported under the list's key. */
    alone.name = key->name;
    if (n->nchildren == 0 && !n->cut)
        conf_fail(cx, n, "%s is an empty list: at least one is needed", key->name);
    if (n->nchildren > CONF_MEMBERS_MAX)
        conf_fail(
            cx, n, "%s has %u members: %d are possible", key->name, n->nchildren, CONF_MEMBERS_MAX);
    to->list = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*to->list));
    if (to->list == NULL)
        return false;
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next, i++) {
        struct conf_member *m = &to->list[i];

        tassert(i < n->nchildren);
        m->weight = 1;
        /* `[a, b]` for most; a map where a weight is said. */
        if (c->kind == YNODE_TEXT)
            conf_value_read(cx, &alone, c, &m->backend);
        else
            conf_keys_read(cx, &origins_member, c, "a member", m);
        if (cx->nerrors == errors && !n->cut)
            origins_check_member(cx, c, to, i);
    }
    to->n = n->nchildren;
    return cx->nerrors == errors && !cx->nomem;
}

/* A key that is for another type would change nothing. */
static void
origins_check_type(struct conf_cx *cx, const struct ynode *n, const struct conf_director *d)
{
    static const struct {
        const char *key, *type;
    } rows[] = {{"balance_factor", "hash"}, {"sticky", "fallback"}};
    const struct ynode *members = ynode_get(n, "backends");

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        const struct ynode *at = ynode_get(n, rows[i].key);

        /* Where it stands in the file, and not by its value: the default is no mistake. */
        if (at != NULL && strcmp(d->type, rows[i].type) != 0)
            conf_fail(cx, at->key, "key '%s' is for type %s, and this is %s", rows[i].key,
                rows[i].type, d->type);
    }
    if (strcmp(d->type, "fallback") != 0 || members == NULL)
        return;
    for (const struct ynode *m = members->children; m != NULL; m = m->next)
        if (ynode_get(m, "weight") != NULL)
            conf_fail(cx, ynode_get(m, "weight")->key,
                "a fallback takes the first healthy member, whatever its weight: remove it");
}

static void
origins_check_director(struct conf_cx *cx, const struct ynode *n, const struct conf_director *d)
{
    const struct ynode *factor = ynode_get(n, "balance_factor");

    for (unsigned i = 0; i < cx->conf->nbackends; i++)
        /* Routes name either by one name. */
        if (strcmp(cx->conf->backends[i].name, d->name) == 0)
            conf_fail(cx, n->key, "'%s' is the name of a backend: give the director another one",
                d->name);
    if (d->balance_factor > 0 && d->balance_factor <= 100 && factor != NULL)
        conf_fail(cx, factor,
            "balance_factor: with %lld percent of the average not all requests find a backend: "
            "more than 100, or 0 for no bound",
            (long long)d->balance_factor);
    origins_check_type(cx, n, d);
}

/* One after the other: those above are there to be named.  A director may have directors as
 * members, and those must stand above it: so there is no circle, and choosing a backend ends
 * (check_directors). */
void
conf_directors_read(struct conf_cx *cx, const struct ynode *n)
{
    const struct conf_section *sec = conf_section_find("directors");
    struct conf *conf = cx->conf;
    unsigned errors;

    tassert(conf->ndirectors == 0);
    tassert(cx->directors == NULL);
    conf->directors = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*conf->directors));
    if (conf->directors == NULL)
        return;
    /* So that a name from below can be told from one that is wrong: see conf_backend_read(). */
    cx->directors = n;
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        struct conf_director *d = &conf->directors[conf->ndirectors];

        tassert(conf->ndirectors < n->nchildren);
        errors = cx->nerrors;
        conf_read_item(cx, sec, c, "director", d);
        d->name = conf_copy(cx, c->key->text);
        if (d->name == NULL)
            return;
        if (cx->nerrors == errors && !n->cut && c->kind == YNODE_MAP)
            origins_check_director(cx, c, d);
        /* Behind its reading: it cannot name itself. */
        conf->ndirectors++;
    }
    cx->directors = NULL;
}
