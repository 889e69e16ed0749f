/* doors.c -- the addresses that clients come in by. */
#include "daemon/doors.h"

#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/net/listener.h"
#include "daemon/tether.h"

static void
door_shut(struct door *d)
{
    if (d->bound != NULL)
        listen_release(&d->bound);
}

static void
door_free(struct door *d)
{
    door_shut(d);
    free((char *)(uintptr_t)d->facts.socket);
    free((char *)(uintptr_t)d->facts.endpoint);
    free((struct address_net *)(uintptr_t)d->trusted.nets);
    free(d->address);
    free(d);
}

/* The configuration may go before the door does.  0 or TERR_NOMEM; either way the door can be
 * freed. */
static int
door_describe(struct door *d, const struct conf_listen *conf)
{
    size_t bytes = conf->trusted.set.n * sizeof(conf->trusted.set.nets[0]);
    struct address_net *nets = malloc(bytes + 1);

    d->facts.socket = strdup(conf->name);
    d->facts.endpoint = strdup(conf->address.text);
    d->facts.body_max = (uint64_t)conf->max_req_body;
    d->proxied = conf_listen_is_proxied(conf);
    d->trusted = (struct address_nets){nets, conf->trusted.set.n};
    if (d->facts.socket == NULL || d->facts.endpoint == NULL || nets == NULL)
        return TERR_NOMEM;
    if (bytes > 0)
        memcpy(nets, conf->trusted.set.nets, bytes);
    return 0;
}

/* Bound, or inherited; and the supervisor keeps it, so that the next process inherits it. */
static int
door_bind(struct doors *all, struct door *d, const struct conf_listen *conf, int depth, char *why,
    size_t why_len)
{
    const struct listen_how how = {
        .depth = depth, .mode = conf->mode, .user = conf->user, .group = conf->group};
    int err = listen_bind(&d->bound, &conf->address, &how, why, why_len);

    if (err == 0 && (all->tether != NULL || listen_is_inherited(d->bound)))
        err = listen_share(d->bound, all->loops);
    if (err == 0)
        err = tether_hold(all->tether, conf->address.text, d->bound);
    return err;
}

int
doors_bind(struct doors *all, struct door **out, const struct conf_listen *conf, int depth,
    char *why, size_t why_len)
{
    struct door *d = calloc(1, sizeof(*d)), **at = &all->first;
    int err;

    if (d == NULL)
        return TERR_NOMEM;
    err = door_describe(d, conf);
    if (err == 0)
        err = door_bind(all, d, conf, depth, why, why_len);
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

    while (d != NULL && (d->dropped || strcmp(d->facts.endpoint, conf->address.text) != 0))
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
    tether_drop(all->tether, d->facts.endpoint);
    door_free(d);
}

void
doors_tend(struct doors *all)
{
    for (struct door *d = all->first; d != NULL; d = d->next)
        if (d->dropped && d->bound != NULL &&
            atomic_load_explicit(&d->nopening, memory_order_acquire) == 0) {
            tether_drop(all->tether, d->facts.endpoint);
            door_shut(d);
        }
}

void
doors_shut(struct doors *all)
{
    for (struct door *d = all->first; d != NULL; d = d->next)
        door_shut(d);
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
