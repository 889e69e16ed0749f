/* supervise_inherited.c -- listening sockets that outlive a child.
 *
 * A list for the child that serves, and one for a child that starts, which becomes the first
 * when that is ready.  The supervisor never accepts on a socket of these; it keeps them open, so
 * that the kernel queues connections while no child is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log/elog.h"
#include "daemon/supervise/supervise_priv.h"

void
inherited_close(const struct listen_sockets *sockets)
{
    for (unsigned i = 0; i < sockets->nfds; i++)
        close(sockets->fds[i]);
    if (sockets->lock_fd >= 0)
        close(sockets->lock_fd);
}

static void
inherited_free(struct inherited *h)
{
    inherited_close(&h->sockets);
    free(h->address);
    free(h);
}

/* Takes the sockets in every case; borrows the address. */
void
inherited_add(struct inherited **list, const struct listen_sockets *sockets, const char *address)
{
    struct inherited **end = list, *h = calloc(1, sizeof(*h));

    /* Not fatal: the child serves, only a crash would cost the address. */
    if (h == NULL || (h->address = strdup(address)) == NULL) {
        elog(ELOG_ERROR, "%s: out of memory: a crash would close it", address);
        inherited_close(sockets);
        free(h);
        return;
    }
    h->sockets = *sockets;
    while (*end != NULL) /* in their order: two free ports have the same text */
        end = &(*end)->next;
    *end = h;
}

static bool
inherited_has(const struct inherited *list, const char *address)
{
    for (; list != NULL; list = list->next)
        if (strcmp(list->address, address) == 0)
            return true;
    return false;
}

static void
inherited_remove_file(const struct inherited *h)
{
    /* A socket of the service manager is not ours to remove. */
    if (h->sockets.ours && strncmp(h->address, "unix:", 5) == 0)
        unlink(h->address + 5);
}

void
inherited_drop(struct inherited **list, const char *address)
{
    struct inherited *h;

    while (*list != NULL && strcmp((*list)->address, address) != 0)
        list = &(*list)->next;
    h = *list;
    if (h == NULL)
        return;
    *list = h->next;
    inherited_remove_file(h);
    inherited_free(h);
}

/* `kept` is the list that follows, NULL for none. */
void
inherited_release(struct inherited **list, const struct inherited *kept, bool remove)
{
    struct inherited *h;

    while ((h = *list) != NULL) {
        *list = h->next;
        /* The next child has bound the same path: its file must stay. */
        if (remove && !inherited_has(kept, h->address))
            inherited_remove_file(h);
        inherited_free(h);
    }
}

bool
inherited_print(const struct inherited *list, const char *prefix, char *to, size_t room)
{
    size_t len = strlen(prefix), n;

    to[0] = '\0';
    for (; list != NULL; list = list->next) {
        if (strchr(list->address, '\n') != NULL)
            continue; /* it would be bound anew, and refused: no address is like that */
        /* Never cut: half a line would name other descriptors. */
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
inherited_pass(const struct inherited *list, bool pass)
{
    for (; list != NULL; list = list->next) {
        for (unsigned i = 0; i < list->sockets.nfds; i++)
            child_pass_fd(list->sockets.fds[i], pass);
        if (list->sockets.lock_fd >= 0)
            child_pass_fd(list->sockets.lock_fd, pass);
    }
}
