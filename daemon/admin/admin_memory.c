/* admin_memory.c -- the tree of memory: what everything that grows has taken, by what for. */
#include <stdio.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/usage.h"

/* clang-format off */
enum memory_branch {
#define X(branch, doc) MEMORY_##branch,
    CHARGE_BRANCH_TABLE(X)
#undef X
    MEMORY_BRANCHES
};

static const char *const memory_branch_names[MEMORY_BRANCHES] = {
#define X(branch, doc) [MEMORY_##branch] = #branch,
    CHARGE_BRANCH_TABLE(X)
#undef X
};

static const struct {
    const char *name;
    enum memory_branch branch;
} memory_leaves[CHARGE_COUNT] = {
#define X(id, in, name, doc) [CHARGE_##id] = {#name, MEMORY_##in},
    CHARGE_TABLE(X)
#undef X
};
/* clang-format on */

uint64_t
memory_of_branch(const struct storage_stats *s, const char *name)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CHARGE_COUNT; i++)
        if (strcmp(memory_branch_names[memory_leaves[i].branch], name) == 0)
            sum += s->leaf[i];
    return sum;
}

uint64_t
memory_total(const struct storage_stats *s)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CHARGE_COUNT; i++)
        sum += s->leaf[i];
    return sum;
}

/* {"bytes": N, "parts": {NAME: ...}} */
static json_t *
memory_node(uint64_t bytes, json_t *parts)
{
    json_t *o = json_object();

    json_put(o, "bytes", json_integer((json_int_t)bytes));
    json_put(o, "parts", parts);
    return o;
}

/* A node is the sum of its parts: all are made of one snapshot. */
void
admin_do_memory(struct admin_call *c)
{
    json_t *o = json_object(), *branches = json_object();
    struct storage_stats s;
    uint64_t total = 0;

    storage_get_stats(c->admin->env.storage, &s);
    for (unsigned b = 0; b < MEMORY_BRANCHES; b++) {
        json_t *leaves = json_object();
        uint64_t sum = 0;

        for (unsigned i = 0; i < CHARGE_COUNT; i++) {
            if (memory_leaves[i].branch != (enum memory_branch)b)
                continue;
            json_put(leaves, memory_leaves[i].name, json_integer((json_int_t)s.leaf[i]));
            sum += s.leaf[i];
        }
        tassert_slow(sum == memory_of_branch(&s, memory_branch_names[b]));
        json_put(branches, memory_branch_names[b], memory_node(sum, leaves));
        total += sum;
    }
    tassert_slow(total == memory_total(&s));
    json_put(o, "size", json_integer((json_int_t)s.size));
    /* The kernel's figures, of a moment later: they are beside the tree and in no sum.
     * usage_sockets() makes a system call for each descriptor. */
    json_put(o, "resident", json_integer((json_int_t)usage_resident()));
    json_put(o, "sockets", json_integer((json_int_t)usage_sockets()));
    json_put(o, "total", memory_node(total, branches));
    admin_answer(c, 200, o);
}
