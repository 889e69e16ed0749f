/* conf_check.c -- what holds of every snapshot, asserted once when a load has made it.
 *
 * The sections are read by many functions, and several of them keep a rule together.  What the
 * process relies on later, without a test where it serves, stands here in one place.  Wrong input
 * never gets here: it is an error of the load, and then there is no snapshot.
 */
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

/* `waits`: a backend's name, for which addresses may still come (daemon/origin/names.c).  A listener
 * is bound at once. */
static void
check_address(const struct conf_address *a, bool waits)
{
    tassert(a->text != NULL);
    tassert(a->text[0] != '\0');
    tassert(a->host != NULL);
    tassert(a->is_unix == (a->path != NULL));
    tassert(!a->is_unix || (a->naddrs == 0 && a->port == 0));
    tassert(a->unresolved == NULL || (waits && a->naddrs == 0));
    tassert(a->naddrs <= CONF_ADDRS_MAX);
    for (unsigned i = 0; i < a->naddrs; i++) {
        tassert(a->addr_lens[i] <= sizeof(a->addrs[i]));
        tassert(a->addrs[i].ss_family == AF_INET || a->addrs[i].ss_family == AF_INET6);
    }
}

/* A backend, a director behind them, or none. */
static void
check_backend_index(const struct conf *c, unsigned backend)
{
    tassert(backend == CONF_NO_BACKEND || backend < c->nbackends + c->ndirectors);
}

static void
check_listens(const struct conf *c)
{
    tassert(c->nlistens > 0);
    for (unsigned i = 0; i < c->nlistens; i++) {
        const struct conf_listen *l = &c->listens[i];

        check_address(&l->address, false);
        tassert(l->name[0] != '\0'); /* logs and metrics name it */
        tassert((l->line == 0) == (l->column == 0));
        tassert(l->trusted.set.n == 0 || conf_listen_is_proxied(l)); /* else nothing asks them */
        for (unsigned j = 0; j < i; j++)
            tassert(strcmp(l->name, c->listens[j].name) != 0);
    }
}

static void
check_storages(const struct conf *c)
{
    tassert(conf_main_storage(c) != NULL); /* responses go somewhere */
    for (unsigned i = 0; i < c->nstorages; i++) {
        const struct conf_storage *s = &c->storages[i];

        tassert(s->name[0] != '\0');
        tassert(s->size > 0);
        tassert(s->fault[0] == '\0' || strcmp(s->engine, "fault") == 0);
    }
}

static void
check_probe(const struct conf_probe *p)
{
    tassert(p->name != NULL);
    tassert(p->window > 0);
    tassert(p->window <= 64);           /* results are bits of 64 */
    tassert(p->threshold <= p->window); /* else it is never reached */
    tassert(p->url[0] != '\0' || p->request[0] != '\0');
    tassert(p->interval > 0);
}

static void
check_backends(const struct conf *c)
{
    tassert(c->nbackends > 0 || c->ndirectors == 0); /* directors have members */
    for (unsigned i = 0; i < c->nbackends; i++) {
        const struct conf_backend *b = &c->backends[i];

        check_address(&b->address, true);
        tassert(b->name[0] != '\0');
        /* What was left to the parameters has been taken from them. */
        tassert(b->connect_timeout != CONF_FROM_PARAM);
        tassert(b->first_byte_timeout != CONF_FROM_PARAM);
        tassert(b->between_bytes_timeout != CONF_FROM_PARAM);
        tassert(b->idle_timeout != CONF_FROM_PARAM);
        tassert(b->dns_ttl != CONF_FROM_PARAM);
        tassert(b->proxy_header >= 0 && b->proxy_header <= 2);
        if (b->probe != NULL)
            check_probe(b->probe);
    }
}

/* A member stands above the director that it is in, so that a choice ends. */
static void
check_directors(const struct conf *c)
{
    for (unsigned i = 0; i < c->ndirectors; i++) {
        const struct conf_director *d = &c->directors[i];

        tassert(d->name[0] != '\0');
        tassert(d->backends.n > 0);
        tassert(d->backends.n <= CONF_MEMBERS_MAX);
        tassert(d->balance_factor == 0 || d->balance_factor > 100);
        for (unsigned j = 0; j < d->backends.n; j++) {
            tassert(d->backends.list[j].backend < c->nbackends + i);
            tassert(d->backends.list[j].weight > 0);
        }
    }
}

static void
check_names(const struct conf_names *names)
{
    tassert(names->n <= CONF_NAMES_MAX);
    tassert(names->n == 0 || !names->all);
    for (unsigned i = 0; i < names->n; i++)
        tassert(names->list[i][0] != '\0');
}

static void
check_fields(const struct conf_fields *f)
{
    tassert(f->nunset + f->nset + f->nadd <= CONF_FIELDS_MAX);
    for (unsigned i = 0; i < f->nunset; i++)
        tassert(f->unset[i].value[0] == '\0'); /* it has a name alone */
}

static void
check_auth(const struct conf_auth *a)
{
    tassert(a->said || a->n == 0);
    for (unsigned i = 1; i < a->n; i++)
        tassert(strcmp(a->users[i - 1].name, a->users[i].name) < 0); /* conf_auth_find() halves */
}

static void
check_actions(const struct conf_route *r)
{
    tassert(!r->pass || (!r->ttl.said && !r->grace.said));
    check_names(&r->strip_cookies);
    check_names(&r->strip_query);
    check_names(&r->methods);
    check_names(&r->rate);
    check_fields(&r->request_headers);
    check_fields(&r->response_headers);
    check_auth(&r->basic_auth);
    tassert(r->redirect.to == NULL || (r->redirect.status >= 301 && r->redirect.status <= 308));
    for (unsigned i = 0; i < r->error_page.n; i++)
        tassert(r->error_page.status[i] >= 400 && r->error_page.status[i] <= 599);
}

static void
check_compress(const struct conf_compress *c)
{
    tassert((c->formats & CONF_COMPRESS_GZIP) != 0); /* also where it is off: a route may be on */
    tassert(c->background_cpu >= 0 && c->background_cpu <= 100);
    tassert(c->types[0] != '\0');
    tassert(c->min_size >= 0);
    tassert(c->states > 0);
}

static void
check_routes(const struct conf *c)
{
    bool act = false, compresses = c->compress.on;

    for (unsigned i = 0; i < c->nroutes; i++) {
        const struct conf_route *r = &c->routes[i];

        tassert(strcmp(r->host, "!") != 0); /* conf_routes.c: one that was read in part */
        tassert(r->path[0] == '\0' || r->path[0] == '/');
        check_backend_index(c, r->backend);
        /* Nothing to ask: then it answers itself, or a policy names the backend. */
        tassert(r->backend != CONF_NO_BACKEND || r->redirect.to != NULL || c->vcl[0] != '\0');
        tassert(c->nlimits == CONF_LIMITS_MAX || r->limits >> c->nlimits == 0);
        check_actions(r);
        act = act || r->acts;
        compresses = compresses || r->compress.on;
        tassert(!r->compress.on || r->compress.said);
        tassert(!r->compress.all || r->compress.on);
    }
    tassert(c->routes_act == act);
    tassert(c->compresses == compresses);
}

static void
check_limits(const struct conf *c)
{
    tassert(c->nlimits <= CONF_LIMITS_MAX);
    for (unsigned i = 0; i < c->nlimits; i++) {
        const struct conf_limit *l = &c->limits[i];

        tassert(l->rate > 0);
        tassert(l->per > 0);
        tassert(l->rate <= l->per * 1000); /* a request takes a microsecond at least: rates.c */
        tassert(l->name[0] == '\0' || (l->host[0] == '\0' && l->path[0] == '\0'));
        tassert(l->path[0] == '\0' || l->path[0] == '/');
    }
}

static void
check_tables(const struct conf *c)
{
    tassert(c->ntables <= CONF_TABLES_MAX);
    for (unsigned i = 0; i < c->ntables; i++) {
        tassert(c->tables[i].name[0] != '\0');
        tassert(c->tables[i].path[0] == '/');
    }
}

/* A port that all can reach has a secret. */
static void
check_admin(const struct conf_admin *a)
{
    check_address(&a->address, false);
    tassert(a->address.is_unix || strlen(a->token) >= CONF_TOKEN_MIN);
    tassert(a->allow.said || a->allow.read.n + a->allow.write.n == 0);
}

static void
check_fleet(const struct conf_fleet *f)
{
    tassert(f->password != NULL);
    tassert(f->said == (f->nengines > 0));
    tassert(f->nengines <= CONF_ENGINES_MAX);
    tassert(!f->said || f->name[0] != '\0');
    tassert(!f->said || f->node[0] != '\0'); /* the engine knows this node by it */
    tassert(f->log_age >= 2 * f->max_blind); /* a node that comes back finds what it missed */
    for (unsigned i = 0; i < f->nengines; i++) {
        const struct conf_engine *e = &f->engines[i];

        check_address(&e->address, true);
        tassert(e->secure == f->tls.said);
        tassert(e->db == f->engines[0].db);
        tassert(strcmp(e->user, f->engines[0].user) == 0);
        tassert(f->sentinel[0] == '\0' || !e->address.is_unix);
        tassert(!e->secure || !f->tls.verify || e->verify_name[0] != '\0');
    }
}

void
conf_check(const struct conf *c)
{
    _Static_assert(CONF_LIMITS_MAX <= 64, "conf_route.limits has a bit for each");

    tassert(c->path != NULL);
    tassert(c->include != NULL);
    tassert(c->workers >= 0);
    tassert(c->workers <= LIMIT_WORKERS);
    tassert(c->index.slots == 4 || c->index.slots == 8);
    tassert(c->ttl_said == c->params.ttl_said);
    tassert(c->grace_said == c->params.grace_said);
    tassert(c->nbackends > 0 || c->vcl[0] != '\0'); /* a policy declares its own */
    check_backend_index(c, c->default_backend);
    check_listens(c);
    check_storages(c);
    for (unsigned i = 0; i < c->nprobes; i++)
        check_probe(&c->probes[i]);
    check_backends(c);
    check_directors(c);
    check_routes(c);
    check_compress(&c->compress);
    check_limits(c);
    check_tables(c);
    check_fleet(&c->fleet);
    if (c->admin != NULL)
        check_admin(c->admin);
}
