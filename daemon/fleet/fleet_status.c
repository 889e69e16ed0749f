/* fleet_status.c -- how a node and its fleet are, for operators. */
#include <string.h>

#include "daemon/fleet/fleet_priv.h"

bool
fleet_is_up(const struct fleet *f, const char **why)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    *why = f->commands.state != LINK_UP
               ? (f->commands.why[0] != '\0' ? f->commands.why : "it is being connected to")
               : f->trouble;
    return f->commands.state == LINK_UP && f->trouble == NULL;
}

uint64_t
fleet_bytes(const struct fleet *f)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    return sizeof(*f) + FLEET_NODES_MAX * sizeof(*f->nodes) + atomic_load(&f->entry_bytes) +
           link_bytes(&f->commands) + link_bytes(&f->reading) + fleet_shared_bytes(f);
}

void
fleet_status(struct fleet *f, struct fleet_status *out)
{
    uint64_t now = fleet_now(f), end = fleet_lease_end(f);
    const char *why;

    OBJ_CHECK(f, FLEET_MAGIC);
    fleet_is_up(f, &why);
    *out = (struct fleet_status){.state = f->state != FLEET_IN ? "apart"
                                          : f->trusts          ? "in step"
                                                               : "blind",
        .engine = f->commands.at,
        .why = why != NULL                 ? why
               : f->reading.why[0] != '\0' ? f->reading.why
                                           : f->secret_why,
        .trusts_ms = f->trusts && end > now ? (int64_t)(end - now) : 0,
        .position = f->position,
        .last = f->last,
        .queued = atomic_load(&f->nqueued),
        .proofs_in_ms = f->commands.state != LINK_UP || f->mature_ms == TIMER_NEVER
                            ? f->guard_max_ms
                        : f->mature_ms > now ? (int64_t)(f->mature_ms - now)
                                             : 0};
}

static bool
nodes_are_seen(const struct fleet *f)
{
    return f->state == FLEET_IN && f->commands.state == LINK_UP;
}

/* A node reports when it has applied something, so at one look it is often behind by what has just come: it lags when it
 * is not where the log was at a look before. */
static enum fleet_health
node_health(const struct fleet *f, const struct fleet_node *node)
{
    if (!nodes_are_seen(f))
        return FLEET_UNSEEN;
    if (!node->lives)
        return FLEET_UNKNOWN;
    if (!node->in_step)
        return FLEET_ELSEWHERE;
    return fleet_id_compare(node->position, f->marks[0].newest) < 0 ? FLEET_LAGS : FLEET_IN_STEP;
}

const char *
fleet_health_word(enum fleet_health h)
{
    static const char *const words[] = {[FLEET_IN_STEP] = "in step",
        [FLEET_LAGS] = "lags",
        [FLEET_ELSEWHERE] = "not of this engine",
        [FLEET_UNKNOWN] = "unknown",
        [FLEET_UNSEEN] = "not seen"};

    return words[h];
}

/* The older mark gives way when the one behind it is old enough. */
static void
marks_move(struct fleet *f)
{
    if (fleet_now(f) < f->marks[1].at_ms + FLEET_LAG_MS)
        return;
    f->marks[0] = f->marks[1];
    f->marks[1] = (struct fleet_mark){f->last, fleet_now(f)};
}

void
fleet_show_nodes(struct fleet *f)
{
    bool known = nodes_are_seen(f);
    unsigned nodes = 0, behind = 0;

    if (known)
        marks_move(f);
    else
        memset(f->marks, 0, sizeof(f->marks));
    for (unsigned i = 0; i < f->nnodes && known; i++) {
        nodes += f->nodes[i].lives;
        behind += f->nodes[i].lives && node_health(f, &f->nodes[i]) != FLEET_IN_STEP;
    }
    counter_add_shared(f->env.counters, COUNTER_fleet_nodes, (uint64_t)nodes - f->shown_nodes);
    counter_add_shared(
        f->env.counters, COUNTER_fleet_nodes_behind, (uint64_t)behind - f->shown_behind);
    f->shown_nodes = nodes;
    f->shown_behind = behind;
}

bool
fleet_node_status(struct fleet *f, unsigned n, struct fleet_node_status *out)
{
    const struct fleet_node *node = &f->nodes[n];
    bool is_self;

    OBJ_CHECK(f, FLEET_MAGIC);
    if (n >= f->nnodes)
        return false;
    is_self = strcmp(node->name, f->env.conf->node) == 0;
    *out = (struct fleet_node_status){.name = node->name,
        .lives = node->lives,
        .address = node->address,
        .is_self = is_self,
        .can_be_asked =
            f->says && !is_self && node->lives && node->in_step && node->address[0] != '\0' &&
            node->policy == f->policy &&
            (f->env.may_ask == NULL || f->env.may_ask(f->env.may_ask_ctx, node->address)),
        .in_step = node->in_step,
        .position = node->position,
        .seen_ago_ms = (int64_t)(fleet_now(f) - node->changed_ms),
        .health = node_health(f, node)};
    return true;
}
