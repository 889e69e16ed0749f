/* fake_resolve.c -- net/resolve.h without a name server. */
#include "t/unit/fake_resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

const char *fake_resolve_addrs[4];
int64_t fake_resolve_ttl_ms = RESOLVE_NO_TTL;
unsigned fake_resolve_asked;
bool fake_resolve_silent;

struct resolver {
    unsigned under_way;
};

struct resolve {
    struct resolver *rs;
    struct resolve_addrs addrs;
};

static struct resolver fake_resolver;

int
resolver_open(struct resolver **out, struct loop *l, struct task *owner, const char *servers)
{
    (void)l, (void)owner, (void)servers;
    *out = &fake_resolver;
    return 0;
}

int
resolver_set_servers(struct resolver *rs, const char *servers)
{
    (void)rs, (void)servers;
    return 0;
}

void
resolver_close(struct resolver **rp)
{
    tassert((*rp)->under_way == 0);
    *rp = NULL;
}

int
resolve_start(struct resolve **out, struct resolver *rs, const char *host)
{
    struct resolve *r = calloc(1, sizeof(*r));

    tassert(r != NULL && host[0] != '\0');
    r->rs = rs;
    rs->under_way++;
    fake_resolve_asked++;
    *out = r;
    return 0;
}

int
resolve_result(const struct resolve *r, const struct resolve_addrs **addrs, const char **why)
{
    struct resolve_addrs *to = (struct resolve_addrs *)(uintptr_t)&r->addrs;

    if (fake_resolve_silent)
        return TERR_AGAIN;
    *why = "Domain name not found";
    if (fake_resolve_addrs[0] == NULL)
        return TERR_NOTFOUND;
    to->ttl_ms = fake_resolve_ttl_ms;
    for (to->n = 0; fake_resolve_addrs[to->n] != NULL; to->n++) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)&to->addr[to->n];

        in->sin_family = AF_INET;
        tassert(inet_pton(AF_INET, fake_resolve_addrs[to->n], &in->sin_addr) == 1);
    }
    *addrs = to;
    return 0;
}

void
resolve_close(struct resolve **rp)
{
    (*rp)->rs->under_way--;
    free(*rp);
    *rp = NULL;
}
