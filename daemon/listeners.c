/* listeners.c -- the addresses that clients come in by. */
#include "daemon/listeners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/listeners_tls.h"
#include "daemon/supervise/channel.h"

/* Gives the address back; what connections say of it stays. */
static void
endpoint_shut(struct endpoint *d)
{
    if (d->bound != NULL)
        listen_release(&d->bound);
}

/* Takes *tp. */
static void
endpoint_terms_free(struct listener_conf **tp)
{
    struct listener_conf *t = *tp;

    *tp = NULL;
    if (t->tls != NULL)
        listener_tls_close(&t->tls);
    /* const for the workers that read it; the owner may end it. */
    free((char *)(uintptr_t)t->in.facts.name);
    free((char *)(uintptr_t)t->in.facts.endpoint);
    free((struct address_net *)(uintptr_t)t->in.trusted.nets);
    free(t->user);
    free(t->group);
    free(t);
}

/* The configuration may go before the endpoint does.  0 or TERR_NOMEM. */
static int
endpoint_terms_new(struct listener_conf **out, const struct conf_listen *conf)
{
    size_t bytes = conf->trusted.set.n * sizeof(conf->trusted.set.nets[0]);
    /* One byte more: malloc(0) may return NULL, which would read as out of memory. */
    struct address_net *nets = malloc(bytes + 1);
    struct listener_conf *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        free(nets);
        return TERR_NOMEM;
    }
    t->in.facts.name = strdup(conf->name);
    t->in.facts.endpoint = strdup(conf->address.text);
    t->in.facts.body_max = (uint64_t)conf->max_req_body;
    /* All of `in` is read by workers without a lock: from endpoint_alter() on it never changes. */
    t->in.facts.peers = conf->peers != 0;
    t->in.facts.to_https = strcmp(conf->redirect, "https") == 0;
    t->in.is_proxied = conf_listen_is_proxied(conf);
    t->in.h2c = conf->h2c != CONF_H2C_OFF;
    t->in.h2c_only = conf->h2c == CONF_H2C_ONLY;
    t->in.trusted = (struct address_nets){nets, conf->trusted.set.n};
    t->mode = conf->mode;
    t->user = strdup(conf->user);
    t->group = strdup(conf->group);
    if (t->in.facts.name == NULL || t->in.facts.endpoint == NULL || nets == NULL ||
        t->user == NULL || t->group == NULL) {
        endpoint_terms_free(&t);
        return TERR_NOMEM;
    }
    if (bytes > 0)
        memcpy(nets, conf->trusted.set.nets, bytes);
    *out = t;
    return 0;
}

/* Apart from the terms: only another mode or owner touches the file. */
static bool
endpoint_file_same(const struct listener_conf *a, const struct listener_conf *b)
{
    return a->mode == b->mode && strcmp(a->user, b->user) == 0 && strcmp(a->group, b->group) == 0;
}

/* All that a connection reads of its listener: terms that are equal need not be replaced.
 * `b` has no TLS of its own yet: `conf` says what it will be. */
static bool
endpoint_terms_same(
    const struct listener_conf *a, const struct listener_conf *b, const struct conf_tls *conf)
{
    tassert(b->tls == NULL);
    if ((a->tls != NULL) != conf->said || (a->tls != NULL && !listener_tls_same(a->tls, conf)) ||
        a->in.facts.to_https != b->in.facts.to_https || a->in.facts.peers != b->in.facts.peers)
        return false;
    if (strcmp(a->in.facts.name, b->in.facts.name) != 0 ||
        a->in.facts.body_max != b->in.facts.body_max || a->in.is_proxied != b->in.is_proxied ||
        a->in.h2c != b->in.h2c || a->in.h2c_only != b->in.h2c_only ||
        a->in.trusted.n != b->in.trusted.n || !endpoint_file_same(a, b))
        return false;
    for (unsigned i = 0; i < a->in.trusted.n; i++)
        if (a->in.trusted.nets[i].bits != b->in.trusted.nets[i].bits ||
            memcmp(a->in.trusted.nets[i].addr, b->in.trusted.nets[i].addr,
                sizeof(a->in.trusted.nets[i].addr)) != 0)
            return false;
    return true;
}

static void
endpoint_free(struct endpoint *d)
{
    struct listener_conf *t = atomic_load_explicit(&d->terms, memory_order_relaxed);

    OBJ_CHECK(d, ENDPOINT_MAGIC);
    endpoint_shut(d);
    if (d->next_terms != NULL)
        endpoint_terms_free(&d->next_terms);
    /* The earlier terms, too: connections read them until now, and all of those have ended. */
    while (t != NULL) {
        struct listener_conf *before = t->before;

        endpoint_terms_free(&t);
        t = before;
    }
    free(d->address);
    OBJ_FREE(d);
}

/* Bound, or inherited; and the supervisor keeps it, so that the next process inherits it. */
static int
endpoint_bind(struct endpoints *all, struct endpoint *d, const struct conf_listen *conf,
    const struct conf_params *params, char *why, size_t why_len)
{
    const struct listen_how how = {.depth = (int)params->listen_depth,
        .notsent_bytes = (int)params->tcp_notsent_lowat,
        .mode = conf->mode,
        .user = conf->user,
        .group = conf->group};
    int err;

    tassert(d->bound == NULL);
    tassert(all->tls.loops > 0);
    err = listen_bind(&d->bound, &conf->address, &how, why, why_len);
    /* Where another process may follow, its sockets are made now and given to the supervisor: what the
     * kernel has queued on them outlives this process. */
    if (err == 0 && (all->channel != NULL || listen_is_inherited(d->bound)))
        err = listen_share(d->bound, all->tls.loops);
    if (err == 0)
        err = channel_hold(all->channel, conf->address.text, d->bound);
    return err;
}

/* Without a user or a group any more, the file gets the process's own, as a new one does.  A file
 * that is configured as before is left alone: the operator may have changed it on purpose. */
static int
endpoint_own(struct endpoint *d, const struct conf_listen *conf, char *why, size_t why_len)
{
    const struct listener_conf *now = listener_conf(d);
    struct listen_how how = {.mode = conf->mode, .user = conf->user, .group = conf->group};
    char uid[16], gid[16];

    tassert(d->bound != NULL); /* else there is no file */
    snprintf(uid, sizeof(uid), "%u", geteuid());
    snprintf(gid, sizeof(gid), "%u", getegid());
    if (how.user[0] == '\0' && now->user[0] != '\0')
        how.user = uid;
    if (how.group[0] == '\0' && now->group[0] != '\0')
        how.group = gid;
    return listen_own(d->bound, &conf->address, &how, &d->was, why, why_len);
}

static void
endpoint_unprepare(struct endpoint *d)
{
    const struct listener_conf *now = listener_conf(d);

    if (now != NULL && now->tls != NULL)
        listener_tls_unprepare(now->tls);
    if (d->next_terms == NULL)
        return;
    tassert(d->next_terms->before == NULL); /* no connection has read them */
    endpoint_terms_free(&d->next_terms);
    /* The file changed its owner when it was prepared: that is taken back. */
    if (d->bound != NULL)
        listen_disown(d->bound, &d->was);
    d->was.changed = false;
}

/* Of terms that are new. */
static int
endpoint_terms_secure(struct endpoints *all, struct listener_conf *t,
    const struct conf_listen *conf, char *why, size_t why_len)
{
    int err;

    tassert(t->tls == NULL);
    if (!conf->tls.said)
        return 0;
    err = listener_tls_open(&t->tls, &conf->tls, &all->tls, why, why_len);
    if (err == 0)
        t->in.secure = listener_tls_secure(t->tls);
    return err;
}

/* Nothing that a client can see: the terms wait in next_terms, the certificates in the
 * listener's store, until endpoints_alter() or endpoints_unprepare() decides for all listeners
 * of the reload. */
int
endpoints_prepare(struct endpoints *all, struct endpoint *d, const struct conf_listen *conf,
    char *why, size_t why_len)
{
    const struct listener_conf *now = listener_conf(d);
    struct listener_conf *t;
    int err = endpoint_terms_new(&t, conf);

    OBJ_CHECK(d, ENDPOINT_MAGIC);
    tassert(!d->dropped); /* endpoints_find() passes over those */
    if (err != 0)
        return err;
    endpoint_unprepare(d); /* a port 0 that is written twice: the last one counts */
    /* The usual case of a reload: connections of before and after share their terms. */
    if (now != NULL && endpoint_terms_same(now, t, &conf->tls)) {
        endpoint_terms_free(&t);
        return now->tls == NULL ? 0 : listener_tls_prepare(now->tls, &conf->tls, why, why_len);
    }
    err = endpoint_terms_secure(all, t, conf, why, why_len);
    if (err == 0 && now != NULL && !endpoint_file_same(now, t))
        err = endpoint_own(d, conf, why, why_len);
    if (err != 0)
        endpoint_terms_free(&t);
    else
        d->next_terms = t;
    return err;
}

/* Cannot fail: everything that could has been done by endpoints_prepare(). */
static void
endpoint_alter(struct endpoint *d)
{
    struct listener_conf *t = d->next_terms, *now;

    now = atomic_load_explicit(&d->terms, memory_order_relaxed);
    if (now != NULL && now->tls != NULL)
        listener_tls_commit(now->tls);
    if (t == NULL)
        return;
    tassert(t->before == NULL); /* it never counted */
    tassert(!d->dropped);
    d->next_terms = NULL;
    d->was.changed = false; /* the file is as it shall be: nothing to undo */
    /* Kept, for connections that came in on them; a reload costs so much memory and no more. */
    t->before = now;
    /* Release, for the acquire in listener_conf(): a worker sees terms that are whole. */
    atomic_store_explicit(&d->terms, t, memory_order_release);
}

void
endpoints_alter(struct endpoints *all)
{
    for (struct endpoint *d = all->first; d != NULL; d = d->next)
        endpoint_alter(d);
}

void
endpoints_unprepare(struct endpoints *all)
{
    for (struct endpoint *d = all->first; d != NULL; d = d->next)
        endpoint_unprepare(d);
}

/* At a start, and for an address that a reload adds.  On failure nothing is left, and `why` says
 * what the operator can do. */
int
endpoints_bind(struct endpoints *all, struct endpoint **out, const struct conf_listen *conf,
    const struct conf_params *params, char *why, size_t why_len)
{
    struct endpoint *d = calloc(1, sizeof(*d)), **at = &all->first;
    int err;

    tassert(!all->shut);
    if (d == NULL)
        return TERR_NOMEM;
    d->magic = ENDPOINT_MAGIC;
    err = endpoints_prepare(all, d, conf, why, why_len);
    if (err == 0) {
        endpoint_alter(d);
        tassert(listener_conf(d) != NULL); /* from its first connection on */
        err = endpoint_bind(all, d, conf, params, why, why_len);
    }
    if (err == 0) {
        d->address = strdup(listen_address(d->bound));
        err = d->address != NULL ? 0 : TERR_NOMEM;
    }
    if (err != 0) {
        endpoint_free(d);
        return err;
    }
    /* At the end: a reload finds the new ones by their place behind the last of before. */
    while (*at != NULL)
        at = &(*at)->next;
    *at = *out = d;
    return 0;
}

/* By what is written: port 0 of before is the port 0 of now. */
struct endpoint *
endpoints_find(struct endpoints *all, const struct conf_listen *conf)
{
    struct endpoint *d = all->first;

    while (d != NULL &&
           (d->dropped || strcmp(listener_conf(d)->in.facts.endpoint, conf->address.text) != 0))
        d = d->next;
    return d;
}

void
endpoints_forget(struct endpoints *all, struct endpoint *d)
{
    struct endpoint **at = &all->first;

    OBJ_CHECK(d, ENDPOINT_MAGIC);
    tassert(atomic_load_explicit(&d->nopening, memory_order_acquire) == 0);
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    /* Else the supervisor would hold the socket, and the kernel would go on to queue clients on
     * it. */
    channel_drop(all->channel, listener_conf(d)->in.facts.endpoint);
    endpoint_free(d);
}

/* On each tick.  `nopening` counts orders that are on their way to workers: to release the
 * address before they land would have a worker open a descriptor that is another file's by then. */
void
endpoints_tend(struct endpoints *all)
{
    for (struct endpoint *d = all->first; d != NULL; d = d->next) {
        if (!d->dropped && listener_conf(d)->tls != NULL)
            listener_tls_tend(listener_conf(d)->tls);
        if ((!d->dropped && !all->shut) || d->bound == NULL ||
            atomic_load_explicit(&d->nopening, memory_order_acquire) > 0)
            continue;
        /* Only then: what is shut because this process ends stays with the supervisor, for the next
         * one. */
        if (d->dropped)
            channel_drop(all->channel, listener_conf(d)->in.facts.endpoint);
        endpoint_shut(d);
    }
}

/* From here on endpoints_tend() releases each address that no worker is about to open. */
void
endpoints_shut(struct endpoints *all)
{
    all->shut = true;
    endpoints_tend(all);
}

/* The workers have been joined: no connection refers to terms any more. */
void
endpoints_free(struct endpoints *all)
{
    while (all->first != NULL) {
        struct endpoint *d = all->first;

        all->first = d->next;
        endpoint_free(d);
    }
}
