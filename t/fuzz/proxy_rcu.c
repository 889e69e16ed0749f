/* proxy_rcu.c -- daemon/base/rcu.h for one thread: a grace period ends with the turn. */
#include "daemon/base/rcu.h"

#include "daemon/base/obj.h"
#include "t/fuzz/proxy_world.h"

struct rcu_call {
    struct rcu_call *next;
    void (*free_f)(struct rcu_later *later);
};
_Static_assert(sizeof(struct rcu_call) <= sizeof(struct rcu_later), "it does not fit");

static bool rcu_online_now;
static struct rcu_call *rcu_first, **rcu_last = &rcu_first;

void
rcu_join(void)
{
    rcu_online_now = true;
}

void
rcu_leave(void)
{
    rcu_online_now = false;
}

void
rcu_online(void)
{
    tassert(!rcu_online_now);
    rcu_online_now = true;
}

void
rcu_offline(void)
{
    tassert(rcu_online_now);
    rcu_online_now = false;
}

bool
rcu_is_online(void)
{
    return rcu_online_now;
}

void
rcu_free_later(struct rcu_later *later, void (*free_f)(struct rcu_later *later))
{
    struct rcu_call *call = (struct rcu_call *)(void *)later;

    *call = (struct rcu_call){.free_f = free_f};
    *rcu_last = call;
    rcu_last = &call->next;
}

bool
world_grace(void)
{
    struct rcu_call *call = rcu_first;
    bool any = call != NULL;

    tassert(!rcu_online_now);
    rcu_first = NULL;
    rcu_last = &rcu_first;
    while (call != NULL) {
        struct rcu_call *next = call->next;

        call->free_f((struct rcu_later *)(void *)call);
        call = next;
    }
    return any;
}

void
rcu_barrier_wait(void)
{
    while (world_grace())
        ;
}
