/* doors.c -- the addresses that clients come in by. */
#include "daemon/listeners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/supervise/channel.h"

static void
door_shut(struct door *d)
{
    if (d->bound != NULL)
        listen_release(&d->bound);
}

/* Takes *tp. */
static void
door_terms_free(struct door_terms **tp)
{
    struct door_terms *t = *tp;

    *tp = NULL;
    free((char *)(uintptr_t)t->facts.socket);
    free((char *)(uintptr_t)t->facts.endpoint);
    free((struct address_net *)(uintptr_t)t->trusted.nets);
    free(t->user);
    free(t->group);
    free(t);
}

/* The configuration may go before the door does.  0 or TERR_NOMEM. */
static int
door_terms_new(struct door_terms **out, const struct conf_listen *conf)
{
    size_t bytes = conf->trusted.set.n * sizeof(conf->trusted.set.nets[0]);
    struct address_net *nets = malloc(bytes + 1);
    struct door_terms *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        free(nets);
        return TERR_NOMEM;
    }
    t->facts.socket = strdup(conf->name);
    t->facts.endpoint = strdup(conf->address.text);
    t->facts.body_max = (uint64_t)conf->max_req_body;
    t->proxied = conf_listen_is_proxied(conf);
    t->trusted = (struct address_nets){nets, conf->trusted.set.n};
    t->mode = conf->mode;
    t->user = strdup(conf->user);
    t->group = strdup(conf->group);
    if (t->facts.socket == NULL || t->facts.endpoint == NULL || nets == NULL || t->user == NULL ||
        t->group == NULL) {
        door_terms_free(&t);
        return TERR_NOMEM;
    }
    if (bytes > 0)
        memcpy(nets, conf->trusted.set.nets, bytes);
    *out = t;
    return 0;
}

static bool
door_file_same(const struct door_terms *a, const struct door_terms *b)
{
    return a->mode == b->mode && strcmp(a->user, b->user) == 0 && strcmp(a->group, b->group) == 0;
}

static bool
door_terms_same(const struct door_terms *a, const struct door_terms *b)
{
    if (strcmp(a->facts.socket, b->facts.socket) != 0 || a->facts.body_max != b->facts.body_max ||
        a->proxied != b->proxied || a->trusted.n != b->trusted.n || !door_file_same(a, b))
        return false;
    for (unsigned i = 0; i < a->trusted.n; i++)
        if (a->trusted.nets[i].bits != b->trusted.nets[i].bits ||
            memcmp(a->trusted.nets[i].addr, b->trusted.nets[i].addr,
                sizeof(a->trusted.nets[i].addr)) != 0)
            return false;
    return true;
}

static void
door_free(struct door *d)
{
    struct door_terms *t = atomic_load_explicit(&d->terms, memory_order_relaxed);

    door_shut(d);
    if (d->next_terms != NULL)
        door_terms_free(&d->next_terms);
    while (t != NULL) {
        struct door_terms *before = t->before;

        door_terms_free(&t);
        t = before;
    }
    free(d->address);
    free(d);
}

/* Bound, or inherited; and the supervisor keeps it, so that the next process inherits it. */
static int
door_bind(struct doors *all, struct door *d, const struct conf_listen *conf,
    const struct conf_params *params, char *why, size_t why_len)
{
    const struct listen_how how = {.depth = (int)params->listen_depth,
        .notsent_bytes = (int)params->tcp_notsent_lowat,
        .mode = conf->mode,
        .user = conf->user,
        .group = conf->group};
    int err = listen_bind(&d->bound, &conf->address, &how, why, why_len);

    if (err == 0 && (all->tether != NULL || listen_is_inherited(d->bound)))
        err = listen_share(d->bound, all->loops);
    if (err == 0)
        err = tether_hold(all->tether, conf->address.text, d->bound);
    return err;
}

/* Whose it is no more is the process's own, as a new socket's file is.  Nothing is done to a file
 * of which the same is said as before: somebody may have had his reasons. */
static int
door_own(struct door *d, const struct conf_listen *conf, char *why, size_t why_len)
{
    const struct door_terms *now = door_terms(d);
    struct listen_how how = {.mode = conf->mode, .user = conf->user, .group = conf->group};
    char uid[16], gid[16];

    snprintf(uid, sizeof(uid), "%u", geteuid());
    snprintf(gid, sizeof(gid), "%u", getegid());
    if (how.user[0] == '\0' && now->user[0] != '\0')
        how.user = uid;
    if (how.group[0] == '\0' && now->group[0] != '\0')
        how.group = gid;
    return listen_own(d->bound, &conf->address, &how, &d->was, why, why_len);
}

static void
door_unprepare(struct door *d)
{
    if (d->next_terms == NULL)
        return;
    door_terms_free(&d->next_terms);
    if (d->bound != NULL)
        listen_disown(d->bound, &d->was);
    d->was.changed = false;
}

int
doors_prepare(struct door *d, const struct conf_listen *conf, char *why, size_t why_len)
{
    const struct door_terms *now = door_terms(d);
    struct door_terms *t;
    int err = door_terms_new(&t, conf);

    if (err != 0)
        return err;
    door_unprepare(d); /* a port 0 that is written twice: the last one counts */
    if (now != NULL && door_terms_same(now, t)) {
        door_terms_free(&t);
        return 0;
    }
    if (now != NULL && !door_file_same(now, t))
        err = door_own(d, conf, why, why_len);
    if (err != 0)
        door_terms_free(&t);
    else
        d->next_terms = t;
    return err;
}

static void
door_alter(struct door *d)
{
    struct door_terms *t = d->next_terms;

    if (t == NULL)
        return;
    d->next_terms = NULL;
    d->was.changed = false;
    t->before = atomic_load_explicit(&d->terms, memory_order_relaxed);
    atomic_store_explicit(&d->terms, t, memory_order_release);
}

void
doors_alter(struct doors *all)
{
    for (struct door *d = all->first; d != NULL; d = d->next)
        door_alter(d);
}

void
doors_unprepare(struct doors *all)
{
    for (struct door *d = all->first; d != NULL; d = d->next)
        door_unprepare(d);
}

int
doors_bind(struct doors *all, struct door **out, const struct conf_listen *conf,
    const struct conf_params *params, char *why, size_t why_len)
{
    struct door *d = calloc(1, sizeof(*d)), **at = &all->first;
    int err;

    if (d == NULL)
        return TERR_NOMEM;
    err = doors_prepare(d, conf, why, why_len);
    if (err == 0) {
        door_alter(d);
        err = door_bind(all, d, conf, params, why, why_len);
    }
    if (err == 0) {
        d->address = strdup(listen_address(d->bound));
        err = d->address != NULL ? 0 : TERR_NOMEM;
    }
    if (err != 0) {
        door_free(d);
        return err;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *at = *out = d;
    return 0;
}

/* By what is written: port 0 of before is the port 0 of now. */
struct door *
doors_find(struct doors *all, const struct conf_listen *conf)
{
    struct door *d = all->first;

    while (
        d != NULL && (d->dropped || strcmp(door_terms(d)->facts.endpoint, conf->address.text) != 0))
        d = d->next;
    return d;
}

void
doors_forget(struct doors *all, struct door *d)
{
    struct door **at = &all->first;

    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    tether_drop(all->tether, door_terms(d)->facts.endpoint);
    door_free(d);
}

void
doors_tend(struct doors *all)
{
    for (struct door *d = all->first; d != NULL; d = d->next) {
        if ((!d->dropped && !all->shut) || d->bound == NULL ||
            atomic_load_explicit(&d->nopening, memory_order_acquire) > 0)
            continue;
        if (d->dropped)
            tether_drop(all->tether, door_terms(d)->facts.endpoint);
        door_shut(d);
    }
}

void
doors_shut(struct doors *all)
{
    all->shut = true;
    doors_tend(all);
}

void
doors_free(struct doors *all)
{
    while (all->first != NULL) {
        struct door *d = all->first;

        all->first = d->next;
        door_free(d);
    }
}
