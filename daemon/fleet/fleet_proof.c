/* fleet_proof.c -- has every living node applied it?
 *
 * All names, then what each has reported: a node that comes between the two reads from behind what is asked for, as its
 * first entry is younger. */
#include "daemon/base/hash.h"
#include "daemon/cache/invalidation.h"
#include "daemon/fleet/fleet_priv.h"
#include "daemon/log/elog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROOF_QUICK = 6, /* looks without a pause, then one at each tick of the wheel */
};

/* Up to the next space, or to the end. */
static struct slice
value_word(struct slice *text)
{
    const char *space = text->len > 0 ? memchr(text->ptr, ' ', text->len) : NULL;
    size_t len = space != NULL ? (size_t)(space - text->ptr) : text->len;
    struct slice word = slice_of(text->ptr, len);

    *text = slice_of(text->ptr + len + (space != NULL), text->len - len - (space != NULL));
    return word;
}

bool
fleet_value_parse(struct slice text, struct fleet_value *out)
{
    char policy[24];
    struct slice word;

    out->epoch = value_word(&text);
    out->incarnation = value_word(&text);
    if (!fleet_id_parse(value_word(&text), &out->position) ||
        !fleet_number_parse(value_word(&text), &out->number) ||
        !fleet_number_parse(value_word(&text), &out->guard_ms) ||
        out->guard_ms > FLEET_GUARD_MAX_MS)
        return false;
    out->address = value_word(&text);
    word = value_word(&text);
    snprintf(policy, sizeof(policy), "%.*s", (int)(word.len < 20 ? word.len : 20), word.ptr);
    out->policy = strtoull(policy, NULL, 16);
    return true;
}

bool
fleet_proofs_wait(const struct fleet *f)
{
    return !list_empty(&f->waits);
}

/* ---- the waiting ---- */

static void
wait_end(struct fleet_wait *w, enum fleet_outcome outcome, const char *why)
{
    tassert(w->outcome == FLEET_WAITS && outcome != FLEET_WAITS);
    w->outcome = outcome;
    w->why = why;
    list_del(&w->link);
    list_init(&w->link);
    task_wake(w->task);
}

static const char wait_leaves[] = "this node is leaving its fleet";

/* Of the log, which an engine may have several of. */
static uint32_t
fleet_log_hash(const struct fleet *f)
{
    char text[LINK_INCARNATION_MAX + FLEET_KEY_MAX + 32];
    int n = snprintf(text, sizeof(text), "%s %" PRId64 " %s", f->followed,
        f->env.conf->engines[0].db, f->log_key);

    tassert(n > 0 && (size_t)n < sizeof(text));
    return (uint32_t)hash_plain(text, (size_t)n);
}

/* It is in the log, and the looks at the nodes that begin from now on count. */
static void
wait_note_logged(struct fleet *f, struct fleet_wait *w, struct fleet_id id)
{
    if (fleet_id_is_none(id)) /* the engine did not take it */
        return;
    w->token = (struct fleet_token){id, fleet_log_hash(f)};
    w->logged = true;
    w->from_look = f->looks + 1;
    if (!w->all)
        wait_end(w, FLEET_LOGGED, NULL);
    else if (f->state == FLEET_RETIRED)
        wait_end(w, FLEET_UNPROVEN, wait_leaves);
}

static struct fleet_entry *
entry_find(struct list *entries, uint64_t ticket)
{
    for (struct list *l = entries->prev; l != entries; l = l->prev) /* it came not long ago */
        if (container_of(l, struct fleet_entry, link)->ticket == ticket)
            return container_of(l, struct fleet_entry, link);
    return NULL;
}

/* Its entry has landed, as posts of a thread do in order.  One that is not known any more stands in front of what is
 * the last one now, or of where the node has joined since. */
static void
wait_find_entry(struct fleet *f, struct fleet_wait *w)
{
    const struct fleet_entry *e;

    if (entry_find(&f->unlogged, w->ticket) != NULL)
        return;
    e = entry_find(&f->recent, w->ticket);
    wait_note_logged(f, w,
        e != NULL                        ? e->id
        : !fleet_id_is_none(f->last_own) ? f->last_own
                                         : f->position);
}

/* Where this engine has lost its log since, every node has begun anew, and trusts nothing of before. */
static void
wait_take_token(struct fleet *f, struct fleet_wait *w)
{
    tassert(w->all && !fleet_id_is_none(w->token.id));
    if (w->token.engine == fleet_log_hash(f))
        wait_note_logged(f, w, w->token.id);
    else
        wait_end(w, FLEET_UNPROVEN,
            "it is of another fleet, or of another engine, or of before this one was restarted, "
            "and this one may lack it");
}

void
fleet_wait_start(struct fleet *f, struct fleet_wait *w)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    tassert(w->task != NULL);
    w->outcome = FLEET_WAITS;
    w->began_us = f->env.loop->clock.mono_us;
    w->logged = false;
    w->why = NULL;
    w->seen = NULL;
    w->nseen = 0;
    list_add_tail(&f->waits, &w->link);
    f->quick = 0;
    if (w->ticket > 0)
        wait_find_entry(f, w);
    else
        wait_take_token(f, w);
    task_wake(&f->task);
}

void
fleet_wait_end(struct fleet *f, struct fleet_wait *w)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    list_del(&w->link); /* of one that is over: its own */
    free(w->seen);
    w->seen = NULL;
}

void
fleet_note_logged(struct fleet *f, const struct fleet_entry *e)
{
    struct list *next;

    for (struct list *l = f->waits.next; l != &f->waits; l = next) {
        struct fleet_wait *w = container_of(l, struct fleet_wait, link);

        next = l->next;
        if (w->ticket == e->ticket)
            wait_note_logged(f, w, e->id);
    }
    f->quick = 0;
}

/* It looks no more. */
void
fleet_proofs_leave(struct fleet *f)
{
    struct list *next;

    for (struct list *l = f->waits.next; l != &f->waits; l = next) {
        struct fleet_wait *w = container_of(l, struct fleet_wait, link);

        next = l->next;
        if (w->logged) /* the others are still being written */
            wait_end(w, FLEET_UNPROVEN, wait_leaves);
    }
}

void
fleet_proofs_again(struct fleet *f)
{
    struct list *next;

    for (struct list *l = f->waits.next; l != &f->waits; l = next) {
        struct fleet_wait *w = container_of(l, struct fleet_wait, link);

        next = l->next;
        if (!w->logged)
            continue;
        if (w->ticket > 0 && entry_find(&f->unlogged, w->ticket) != NULL)
            w->logged = false;
        else
            wait_end(w, FLEET_UNPROVEN, "the engine is another one, and may have lost it");
    }
}

void
fleet_proofs_tick(struct fleet *f)
{
    struct list *next;

    for (struct list *l = f->waits.next; l != &f->waits; l = next) {
        struct fleet_wait *w = container_of(l, struct fleet_wait, link);

        next = l->next;
        if (fleet_now(f) < w->deadline_ms)
            continue;
        if (!w->logged)
            wait_end(w, FLEET_LOST, "the engine has not confirmed it");
        else if (fleet_now(f) < f->mature_ms)
            wait_end(w, FLEET_UNPROVEN,
                "the engine is new, or has lost what it had: a node that it does not know yet may "
                "serve what it has stored, until max_blind has passed");
        else if (w->ticket == 0 && fleet_id_compare(w->token.id, f->last) > 0)
            wait_end(
                w, FLEET_UNPROVEN, "the log has nothing there: it is of another fleet, or wrong");
        else
            wait_end(w, FLEET_UNPROVEN, "not every node has applied it in that time");
    }
}

/* ---- the looks ---- */

void
fleet_poll(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("ZRANGE"), slice_str(f->nodes_key), SLICE_LIT("0"),
        SLICE_LIT("-1"), SLICE_LIT("WITHSCORES")};

    if (f->polls || f->state != FLEET_IN)
        return;
    if (!fleet_proofs_wait(f) && !fleet_shared_waits(f)
            ? fleet_now(f) < f->polled_ms + FLEET_POLL_MS + FLEET_POLL_NODE_MS * f->nnodes &&
                  !fleet_shared_is_due(f)
            : f->quick > PROOF_QUICK && fleet_now(f) < f->polled_ms + TIMER_TICK_MS)
        return;
    f->polled_ms = fleet_now(f);
    f->quick++;
    f->looks++;
    f->polls = link_send(&f->commands, TAG_NODES, words, 5);
}

static struct fleet_node *
nodes_find(struct fleet *f, struct slice name)
{
    for (unsigned i = 0; i < f->nnodes; i++)
        if (slice_eq(slice_str(f->nodes[i].name), name))
            return &f->nodes[i];
    return NULL;
}

static int
nodes_compare(const void *a, const void *b)
{
    const struct fleet_node *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static bool
fleet_ask_newest(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("XREVRANGE"), slice_str(f->log_key), SLICE_LIT("+"),
        SLICE_LIT("-"), SLICE_LIT("COUNT"), SLICE_LIT("1")};

    return link_send(&f->commands, TAG_NEWEST, words, 6);
}

/* Since when is the engine known?  Another time than the one that was read: its set of names was lost between. */
static void
nodes_take_mark(struct fleet *f, struct slice mark, struct slice since)
{
    if (slice_eq(mark, slice_str(f->engine_mark)) && since.len > 0)
        f->polled_alive = -fleet_number_near(since) == f->since_ms;
}

/* Any client of the engine can write there.  It is said once, until a look finds nothing of the kind. */
static void
nodes_refuse(struct fleet *f, const char *what, struct slice text)
{
    if (!f->refused && !f->refused_before)
        elog(ELOG_WARN, "fleet: the engine has %s that no node can have, and it is ignored: '%.*s'",
            what, (int)(text.len < 100 ? text.len : 100), text.ptr);
    f->refused = true;
}

/* One name, with its score. */
static void
nodes_take_name(
    struct fleet *f, struct slice name, struct slice score, struct fleet_node *new, unsigned *nnew)
{
    const struct fleet_node *was = nodes_find(f, name);
    struct fleet_node *node = &new[*nnew];

    if (name.len > 0 && name.ptr[0] == '=') {
        nodes_take_mark(f, name, score);
        return;
    }
    if (!conf_fleet_node_ok(name)) {
        nodes_refuse(f, "a name", name);
        return;
    }
    f->too_many |= *nnew == FLEET_NODES_MAX;
    if (*nnew == FLEET_NODES_MAX)
        return;
    if (was != NULL)
        *node = *was;
    else
        node->seen_ms = fleet_real_now(f);
    memcpy(node->name, name.ptr, name.len);
    node->name[name.len] = '\0';
    (*nnew)++;
}

/* The names, of which each keeps what was known of it; then what they have reported is asked for. */
void
fleet_take_nodes(struct fleet *f, const struct engine_reply *r)
{
    unsigned n = engine_reply_count(r) / 2, nwords = 1;
    struct fleet_node *old = f->nodes, *new = calloc(FLEET_NODES_MAX, sizeof(*new));
    struct slice *words = malloc((2 + (size_t)FLEET_NODES_MAX) * sizeof(*words));
    char *keys = malloc((size_t)FLEET_NODES_MAX * FLEET_KEY_MAX);
    unsigned nnew = 0;

    f->polls = f->polled_alive = f->too_many = false;
    if (new == NULL || words == NULL || keys == NULL) {
        free(new);
        free(words);
        free(keys);
        return;
    }
    f->refused_before = f->refused;
    f->refused = false;
    for (unsigned i = 0; i < n; i++)
        nodes_take_name(f, engine_reply_text(engine_reply_at(r, 2 * i)),
            engine_reply_text(engine_reply_at(r, 2 * i + 1)), new, &nnew);
    qsort(new, nnew, sizeof(*new), nodes_compare);
    f->nodes = new;
    f->nnodes = nnew;
    free(old);
    words[0] = SLICE_LIT("MGET");
    if (f->says)
        words[nwords++] = slice_str(f->secret_key);
    for (unsigned i = 0; i < nnew; i++) {
        char *key = keys + (size_t)i * FLEET_KEY_MAX;

        snprintf(key, FLEET_KEY_MAX, "%s:{%s}:node:%s", f->env.conf->key_prefix, f->env.conf->name,
            new[i].name);
        words[nwords++] = slice_str(key);
    }
    if (nwords > 1)
        f->polls = link_send(&f->commands, TAG_VALUES, words, nwords);
    if (f->polls) {
        fleet_shared_look(f);
        f->polls = fleet_ask_newest(f);
    }
    free(words);
    free(keys);
}

static void
nodes_take_address(struct fleet *f, struct fleet_node *node, struct slice address)
{
    bool good = address.len <= FLEET_ADDRESS_MAX && conf_fleet_address_ok(address);

    if (!good && address.len > 0)
        nodes_refuse(f, "an address", address);
    snprintf(
        node->address, sizeof(node->address), "%.*s", good ? (int)address.len : 0, address.ptr);
}

static void
nodes_take_value(struct fleet *f, struct fleet_node *node, const struct engine_reply *r)
{
    uint64_t now = fleet_real_now(f);
    uint64_t guard = node->guard_ms > 0 ? node->guard_ms : (uint64_t)f->guard_max_ms;
    struct fleet_value v;

    node->in_step = false;
    node->epoch[0] = '\0';
    /* A key that went before its time was lost: until then its node may trust what it has. */
    node->lives = engine_reply_type(r) == ENGINE_STRING || now < node->seen_ms + guard;
    if (node->lives)
        node->gone_ms = 0;
    else if (node->gone_ms == 0)
        node->gone_ms = now;
    if (!fleet_value_parse(engine_reply_text(r), &v))
        return;
    snprintf(node->epoch, sizeof(node->epoch), "%.*s", (int)v.epoch.len, v.epoch.ptr);
    nodes_take_address(f, node, v.address);
    node->policy = v.policy;
    node->guard_ms = v.guard_ms;
    fleet_heed_guard(f, (int64_t)v.guard_ms);
    node->in_step = slice_eq(v.incarnation, slice_str(f->commands.incarnation));
    if (v.number != node->number)
        node->seen_ms = now;
    node->number = v.number;
    if (fleet_id_compare(v.position, node->position) != 0) {
        node->position = v.position;
        node->changed_ms = fleet_now(f);
    }
}

/* One that is not known is none that trusts what it has. */
static bool
node_has(const struct fleet_node *node, struct fleet_id id)
{
    return node->in_step && fleet_id_compare(node->position, id) >= 0;
}

/* What each has done so far; the times are those of the first look that saw it. */
static void
wait_note_nodes(struct fleet *f, struct fleet_wait *w)
{
    struct fleet_seen *seen = calloc(f->nnodes, sizeof(*seen));

    if (seen == NULL)
        return;
    for (unsigned i = 0; i < f->nnodes; i++) {
        const struct fleet_node *node = &f->nodes[i];

        memcpy(seen[i].name, node->name, sizeof(seen[i].name));
        seen[i].lives = node->lives;
        seen[i].applied = node_has(node, w->token.id);
        seen[i].after_us = f->env.loop->clock.mono_us - w->began_us;
        for (unsigned j = 0; j < w->nseen; j++)
            if (strcmp(w->seen[j].name, node->name) == 0 && w->seen[j].applied && seen[i].applied)
                seen[i].after_us = w->seen[j].after_us;
    }
    free(w->seen);
    w->seen = seen;
    w->nseen = f->nnodes;
}

static bool
wait_is_proven(const struct fleet *f, const struct fleet_wait *w)
{
    for (unsigned i = 0; i < f->nnodes; i++)
        if (f->nodes[i].lives && !node_has(&f->nodes[i], w->token.id))
            return false;
    return f->polled_alive && fleet_now(f) >= f->mature_ms && f->nnodes > 0 && !f->too_many;
}

void
fleet_take_values(struct fleet *f, const struct engine_reply *r)
{
    unsigned n = engine_reply_count(r), front = n == f->nnodes + 1u;

    if (n != f->nnodes + front) {
        f->polled_alive = false;
        return;
    }
    if (front)
        fleet_take_secret(f, engine_reply_at(r, 0));
    for (unsigned i = 0; i < f->nnodes; i++)
        nodes_take_value(f, &f->nodes[i], engine_reply_at(r, front + i));
}

/* [entry]: where the log is. */
static void
fleet_take_last(struct fleet *f, const struct engine_reply *r)
{
    f->last = (struct fleet_id){0, 0};
    if (engine_reply_count(r) == 1 && engine_reply_count(engine_reply_at(r, 0)) == 2)
        fleet_id_parse(engine_reply_text(engine_reply_at(engine_reply_at(r, 0), 0)), &f->last);
}

/* No position is behind its last entry, unless the log was lost and began anew with lower ids.  Then positions of before
 * say nothing of it. */
static bool
nodes_are_of_this_log(const struct fleet *f)
{
    for (unsigned i = 0; i < f->nnodes; i++)
        if (f->nodes[i].in_step && fleet_id_compare(f->nodes[i].position, f->last) > 0)
            return false;
    return true;
}

/* All nodes are to see that. */
static void
fleet_forget_engine(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("ZREM"), slice_str(f->nodes_key), slice_str(f->engine_mark)};

    f->polled_alive = false;
    link_send(&f->commands, TAG_TRIM, words, 3);
}

/* The end of a look. */
void
fleet_take_newest(struct fleet *f, const struct engine_reply *r)
{
    struct list *next;

    f->polls = false;
    fleet_take_last(f, r);
    fleet_show_nodes(f);
    if (f->state == FLEET_IN && !nodes_are_of_this_log(f))
        fleet_be_alone(f);
    if (f->state != FLEET_IN || f->mature_ms == TIMER_NEVER)
        return; /* it is being asked since when the engine is known */
    if (f->polled_alive && !nodes_are_of_this_log(f))
        fleet_forget_engine(f);
    if (!f->polled_alive && f->commands.state == LINK_UP)
        fleet_engine_is_new(f);
    for (struct list *l = f->waits.next; l != &f->waits; l = next) {
        struct fleet_wait *w = container_of(l, struct fleet_wait, link);

        next = l->next;
        /* Nodes that came while it was written are not in a list of before. */
        if (!w->logged || f->looks < w->from_look)
            continue;
        wait_note_nodes(f, w);
        if (wait_is_proven(f, w))
            wait_end(w, FLEET_PROVEN, NULL);
    }
    if (fleet_proofs_wait(f) || fleet_shared_waits(f) || fleet_shared_is_due(f))
        task_wake(&f->task);
}

/* ---- names that no node has any more ---- */

static const char *
tidy_key(const struct fleet *f, char key[FLEET_KEY_MAX])
{
    snprintf(key, FLEET_KEY_MAX, "%s:{%s}:node:%s", f->env.conf->key_prefix, f->env.conf->name,
        f->tidied);
    return key;
}

/* One at a time.  A node that takes the name meanwhile touches its key, and the transaction fails. */
void
fleet_tidy(struct fleet *f)
{
    uint64_t patience = FLEET_GONE_GUARDS * (uint64_t)f->guard_max_ms;
    char key[FLEET_KEY_MAX];
    struct slice words[2] = {SLICE_LIT("WATCH")};

    for (unsigned i = 0; i < f->nnodes && f->tidied[0] == '\0'; i++)
        if (f->nodes[i].gone_ms > 0 && fleet_now(f) > f->nodes[i].gone_ms + patience)
            memcpy(f->tidied, f->nodes[i].name, sizeof(f->tidied));
    if (f->tidied[0] == '\0')
        return;
    words[1] = slice_str(tidy_key(f, key));
    if (!fleet_queue(f, words, 2))
        return;
    words[0] = SLICE_LIT("GET");
    link_send(&f->commands, TAG_TIDY, words, 2);
}

void
fleet_take_tidy(struct fleet *f, const struct engine_reply *r)
{
    const struct slice multi = SLICE_LIT("MULTI"), exec = SLICE_LIT("EXEC");
    const struct slice unwatch = SLICE_LIT("UNWATCH");
    const struct slice member[] = {
        SLICE_LIT("ZREM"), slice_str(f->nodes_key), slice_str(f->tidied)};

    if (engine_reply_type(r) != ENGINE_NIL)
        fleet_queue(f, &unwatch, 1);
    else if (fleet_queue(f, &multi, 1) && fleet_queue(f, member, 3))
        fleet_queue(f, &exec, 1);
    if (engine_reply_type(r) == ENGINE_NIL)
        fleet_shared_forget(f, f->tidied);
    f->tidied[0] = '\0';
}
