/* conf_allow.c -- which clients may use the admin listener: networks, users, groups.
 *
 *    admin: { allow: { read: [10.0.0.0/8, "group:adm"], write: ["user:root"] } }
 *
 * A peer on a port has an address, one on a Unix socket a user and groups (SO_PEERCRED): either
 * kind of row is looked at only where it can match.
 */
#include "conf/conf_priv.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"

/* A number, or a name that the system knows.  Without a resolver,
 * names are not looked up. */
static bool
allow_id(struct conf_cx *cx, struct conf_peer *to, const char *name)
{
    const struct passwd *pw = NULL;
    const struct group *gr = NULL;
    char *end;
    unsigned long id = strtoul(name, &end, 10);

    tassert(to->kind == CONF_PEER_USER || to->kind == CONF_PEER_GROUP); /* a network has no id */
    /* A uid and gid of -1 is "no id" to chown(2) and others: it is none. */
    to->id = (uint32_t)id;
    to->known = *name >= '0' && *name <= '9' && *end == '\0' && id < UINT32_MAX;
    if (to->known || cx->resolve == NULL)
        return true;
    if (to->kind == CONF_PEER_USER)
        /* Looked up at the load: a request must not wait for a directory service. */
        pw = getpwnam(name);
    else
        gr = getgrnam(name);
    /* Without a resolver the name stays unknown, and matches no peer. */
    to->known = pw != NULL || gr != NULL;
    to->id = pw != NULL ? pw->pw_uid : gr != NULL ? gr->gr_gid : 0;
    return to->known;
}

static bool
allow_read_one(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_peer *to)
{
    static const struct {
        const char *prefix, *what;
        enum conf_peer_kind kind;
    } rows[] = {{"user:", "user", CONF_PEER_USER}, {"group:", "group", CONF_PEER_GROUP}};

    if (n->kind != YNODE_TEXT || ynode_is_null(n)) {
        conf_fail(
            cx, n, "%s: each of the list must be a text, as in user:root or 10.0.0.0/8", key->name);
        return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        size_t len = strlen(rows[i].prefix);

        if (n->text.len <= len || memcmp(n->text.ptr, rows[i].prefix, len) != 0)
            continue;
        to->kind = rows[i].kind;
        if (allow_id(cx, to, n->text.ptr + len))
            return true;
        conf_fail_value(cx, key, n, "names no %s that there is", rows[i].what);
        return false;
    }
    /* Without a prefix it can only be that. */
    to->kind = CONF_PEER_NET;
    to->known = true;
    if (address_read_net(n->text.ptr, n->text.len, &to->net))
        return true;
    conf_fail_value(cx, key, n, "is none of user:NAME, group:NAME, an address and a network");
    return false;
}

/* Wrong rows are reported and left out; after an error there is no snapshot, so no client gets
 * in by a shorter list. */
static void
allow_read_list(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_peers *to)
{
    unsigned i = 0;

    if (n->nchildren > CONF_NETS_MAX) {
        conf_fail(cx, n, "%s.%s has %u entries: %d are possible", key->name, n->key->text.ptr,
            n->nchildren, CONF_NETS_MAX);
        return;
    }
    to->list = conf_alloc(cx, cx->keep, n->nchildren > 0 ? n->nchildren : 1, sizeof(*to->list));
    if (to->list == NULL)
        return;
    for (const struct ynode *c = n->children; c != NULL; c = c->next)
        if (allow_read_one(cx, key, c, &to->list[i]))
            i++;
    tassert(i <= n->nchildren);
    to->n = i;
}

bool
conf_allow_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_allow *to)
{
    unsigned errors = cx->nerrors;
    char quote[CONF_QUOTE_BYTES];

    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true;
    if (!conf_kind_check(cx, n, YNODE_MAP, "key 'allow'"))
        return false;
    /* Also with empty lists: then no client may, which is not the same as no word on it. */
    to->said = true;
    for (const struct ynode *c = n->children; c != NULL; c = c->next) {
        bool read = slice_eq(c->key->text, SLICE_LIT("read"));

        if (!read && !slice_eq(c->key->text, SLICE_LIT("write")))
            conf_fail(cx, c->key, "unknown key '%s' in %s; it takes: read, write",
                conf_quote(quote, c->key->text), key->name);
        else if (conf_kind_check(cx, c, YNODE_LIST, read ? "allow.read" : "allow.write"))
            allow_read_list(cx, key, c, read ? &to->read : &to->write);
    }
    return cx->nerrors == errors;
}

/* Where the configuration of this machine is read, and so nowhere else. */
static void
shm_check_id(struct conf_cx *cx, const struct ynode *n, enum conf_peer_kind kind, const char *name)
{
    struct conf_peer id = {.kind = kind};

    if (!allow_id(cx, &id, name))
        conf_fail(cx, n, "%s: there is no %s '%s'",
            n->key != NULL ? n->key->text.ptr : "table_owners",
            kind == CONF_PEER_USER ? "user" : "group", name);
}

/* 0113: x for any, and w for others. */
void
conf_shm_check(struct conf_cx *cx, const struct ynode *params)
{
    const struct conf_params *p = &cx->conf->params;
    const struct ynode *mode = ynode_get(params, "shm_mode");
    const struct ynode *group = ynode_get(params, "shm_group");
    const struct ynode *owners = ynode_get(params, "table_owners");
    char name[64];

    /* The owner writes the rings; others that write could make a reader believe anything. */
    if (mode != NULL && ((p->shm_mode & 0600) != 0600 || (p->shm_mode & 0113) != 0))
        conf_fail(cx, mode,
            "shm_mode %04o: it has to be 06.. and without x, and others may not write, as in 0640",
            (unsigned)p->shm_mode);
    if (group != NULL && p->shm_group != NULL && p->shm_group[0] != '\0')
        shm_check_id(cx, group, CONF_PEER_GROUP, p->shm_group);
    for (const char *at = p->table_owners; owners != NULL && at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");

        if (len >= sizeof(name)) {
            conf_fail(cx, owners, "table_owners: no user has a name of %zu bytes", len);
            return;
        }
        /* The names stand in one text, and getpwnam(3) wants a NUL. */
        memcpy(name, at, len);
        name[len] = '\0';
        shm_check_id(cx, owners, CONF_PEER_USER, name);
        at += len + (at[len] == ' ');
    }
}
