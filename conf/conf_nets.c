/* conf_nets.c -- lists of addresses and networks. */
#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

static bool
nets_read_one(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct address_net *to)
{
    if (n->kind != YNODE_TEXT || ynode_is_null(n)) {
        conf_fail(cx, n, "%s: each of the list must be a text, as in 10.0.0.0/8", key->name);
        return false;
    }
    /* A prefix with bits behind it is refused: 10.0.0.1/8 may mean the host as well as the
     * network. */
    if (address_read_net(n->text.ptr, n->text.len, to))
        return true;
    conf_fail_value(cx, key, n,
        "is not an address, or a network without a bit behind its prefix, as in 192.0.2.1, "
        "10.0.0.0/8 or \"2001:db8::/32\"");
    return false;
}

bool
conf_nets_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_nets *to)
{
    bool is_list = n->kind == YNODE_LIST, good = true;
    unsigned count = is_list ? n->nchildren : n->text.len > 0, i = 0;
    struct address_net *nets;

    if (count > CONF_NETS_MAX) {
        conf_fail(cx, n, "%s has %u entries: %d are possible", key->name, count, CONF_NETS_MAX);
        return false;
    }
    /* One at least: memory for none may be no memory. */
    nets = conf_alloc(cx, cx->keep, count > 0 ? count : 1, sizeof(*nets));
    if (nets == NULL)
        return false;
    if (!is_list && count == 1)
        good = nets_read_one(cx, key, n, &nets[0]);
    for (const struct ynode *c = is_list ? n->children : NULL; c != NULL; c = c->next)
        /* The reading first: each wrong one of the list is reported. */
        good = nets_read_one(cx, key, c, &nets[i++]) && good;
    tassert(!is_list || i == count);
    /* Else the list stays empty: half of those that are trusted is not what was written. */
    if (good)
        to->set = (struct address_nets){nets, count};
    return good;
}
