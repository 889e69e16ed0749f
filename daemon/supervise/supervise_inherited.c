/* supervise_held.c -- listening sockets that outlive a child. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log/elog.h"
#include "daemon/supervise/supervise_priv.h"

void
held_close(const struct listen_sockets *sockets)
{
    for (unsigned i = 0; i < sockets->nfds; i++)
        close(sockets->fds[i]);
    if (sockets->lock_fd >= 0)
        close(sockets->lock_fd);
}

static void
held_free(struct held *h)
{
    held_close(&h->sockets);
    free(h->address);
    free(h);
}

void
held_add(struct held **list, const struct listen_sockets *sockets, const char *address)
{
    struct held **end = list, *h = calloc(1, sizeof(*h));

    if (h == NULL || (h->address = strdup(address)) == NULL) {
        elog(ELOG_ERROR, "%s: out of memory: a crash would close it", address);
        held_close(sockets);
        free(h);
        return;
    }
    h->sockets = *sockets;
    while (*end != NULL) /* in their order: two free ports have the same text */
        end = &(*end)->next;
    *end = h;
}

static bool
held_has(const struct held *list, const char *address)
{
    for (; list != NULL; list = list->next)
        if (strcmp(list->address, address) == 0)
            return true;
    return false;
}

static void
held_remove_file(const struct held *h)
{
    if (h->sockets.ours && strncmp(h->address, "unix:", 5) == 0)
        unlink(h->address + 5);
}

void
held_drop(struct held **list, const char *address)
{
    struct held *h;

    while (*list != NULL && strcmp((*list)->address, address) != 0)
        list = &(*list)->next;
    h = *list;
    if (h == NULL)
        return;
    *list = h->next;
    held_remove_file(h);
    held_free(h);
}

void
held_release(struct held **list, const struct held *kept, bool remove)
{
    struct held *h;

    while ((h = *list) != NULL) {
        *list = h->next;
        if (remove && !held_has(kept, h->address))
            held_remove_file(h);
        held_free(h);
    }
}

bool
held_print(const struct held *list, const char *prefix, char *to, size_t room)
{
    size_t len = strlen(prefix), n;

    to[0] = '\0';
    for (; list != NULL; list = list->next) {
        if (strchr(list->address, '\n') != NULL)
            continue; /* it would be bound anew, and refused: nobody calls a socket so */
        if (len + 1 >= room)
            return false;
        memcpy(to, prefix, len);
        n = inherit_print(to + len, room - len, &list->sockets, list->address);
        if (n == 0)
            return false;
        to += len + n;
        room -= len + n;
    }
    return true;
}

void
held_pass(const struct held *list, bool pass)
{
    for (; list != NULL; list = list->next) {
        for (unsigned i = 0; i < list->sockets.nfds; i++)
            child_pass_fd(list->sockets.fds[i], pass);
        if (list->sockets.lock_fd >= 0)
            child_pass_fd(list->sockets.lock_fd, pass);
    }
}
