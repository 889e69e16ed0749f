/* proxy_rcu.c -- daemon/base/rcu.h for one thread: a grace period ends with the turn. */
#include "daemon/base/rcu.h"

#include "daemon/base/obj.h"
#include "t/fuzz/proxy_world.h"

struct rcu_head {
    struct rcu_head *next;
    void (*free_f)(struct rcu_head *head);
};
struct rcu_call {
    struct rcu_head head;
    void (*free_f)(struct rcu_later *later);
};
_Static_assert(sizeof(struct rcu_head) <= sizeof(struct rcu_link), "it does not fit");
_Static_assert(sizeof(struct rcu_call) <= sizeof(struct rcu_later), "it does not fit");

static bool rcu_online_now;
static struct rcu_head *rcu_first, **rcu_last = &rcu_first;

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
rcu_free_later_link(struct rcu_link *link, void (*free_f)(struct rcu_head *head))
{
    struct rcu_head *head = (struct rcu_head *)(void *)link;

    *head = (struct rcu_head){.free_f = free_f};
    *rcu_last = head;
    rcu_last = &head->next;
}

struct rcu_link *
rcu_link_of(struct rcu_head *head)
{
    return (struct rcu_link *)(void *)head;
}

static void
rcu_on_grace(struct rcu_head *head)
{
    struct rcu_call *call = container_of(head, struct rcu_call, head);

    call->free_f((struct rcu_later *)(void *)call);
}

void
rcu_free_later(struct rcu_later *later, void (*free_f)(struct rcu_later *later))
{
    struct rcu_call *call = (struct rcu_call *)(void *)later;

    call->free_f = free_f;
    rcu_free_later_link((struct rcu_link *)(void *)&call->head, rcu_on_grace);
}

bool
world_grace(void)
{
    struct rcu_head *head = rcu_first;
    bool any = head != NULL;

    tassert(!rcu_online_now);
    rcu_first = NULL;
    rcu_last = &rcu_first;
    while (head != NULL) {
        struct rcu_head *next = head->next;

        head->free_f(head);
        head = next;
    }
    return any;
}

void
rcu_barrier_wait(void)
{
    while (world_grace())
        ;
}
