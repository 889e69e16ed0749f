/* fleet_write.c -- invalidations of this node, into the log.
 *
 * One that has been sent counts as written when the engine has said where it stands.  A connection that ends before has
 * perhaps written it: it is sent again, and twice is as good as once. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cache/invalidation.h"
#include "daemon/cache/invalidation_pairs.h"
#include "daemon/fleet/fleet_priv.h"
#include "daemon/log/elog.h"

enum {
    WRITE_WINDOW = 1024, /* sent and not confirmed */
    RECENT_MAX = 20000,  /* kept for an engine that may have lost them; and */
    RECENT_BYTES_MAX = 32 << 20,
};

/* ---- one entry ---- */

static struct slice
entry_copy(char **to, struct slice text)
{
    char *at = *to;

    if (text.len > 0)
        memcpy(at, text.ptr, text.len);
    *to += text.len;
    return slice_of(at, text.len);
}

/* What the texts of an URL's fields take, and the numbers. */
static size_t
entry_room(const struct invalidation *inv)
{
    size_t room = INVALIDATION_NUMBERS_MAX;

    for (unsigned i = 0; i < inv->nfields; i++)
        room += inv->fields[i].name.len + inv->fields[i].value.len + 4;
    return room;
}

/* The command: XADD, its bounds, and the record's names and values.  NULL: no memory. */
static struct fleet_entry *
entry_of_pairs(struct fleet *f, const struct pairs *pairs)
{
    const struct slice front[] = {SLICE_LIT("XADD"), slice_str(f->log_key), SLICE_LIT("MAXLEN"),
        SLICE_LIT("~"), slice_str(f->count_text), SLICE_LIT("*"), SLICE_LIT("node"),
        slice_str(f->env.conf->node)};
    const unsigned nfront = ARRAY_LEN(front);
    struct fleet_entry *e;
    size_t bytes = 0, size;
    char *at;

    for (unsigned i = 0; i < nfront; i++)
        bytes += front[i].len;
    for (unsigned i = 0; i < pairs->n; i++)
        bytes += pairs->list[i].name.len + pairs->list[i].value.len;
    size = sizeof(*e) + (nfront + 2 * (size_t)pairs->n) * sizeof(struct slice) + bytes;
    e = malloc(size);
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof(*e));
    e->fleet = f;
    e->bytes = size;
    atomic_fetch_add(&f->entry_bytes, size);
    e->nwords = nfront + 2 * pairs->n;
    at = (char *)&e->words[e->nwords];
    for (unsigned i = 0; i < nfront; i++)
        e->words[i] = entry_copy(&at, front[i]);
    for (unsigned i = 0; i < pairs->n; i++) {
        e->words[nfront + 2 * i] = entry_copy(&at, pairs->list[i].name);
        e->words[nfront + 2 * i + 1] = entry_copy(&at, pairs->list[i].value);
    }
    return e;
}

/* 0, TERR_NOMEM, or that no other node could read it. */
static int
entry_new(struct fleet *f, const struct invalidation *inv, struct fleet_entry **out)
{
    struct pair list[INVALIDATION_PAIRS_MAX];
    size_t room = entry_room(inv);
    struct pairs pairs = {.list = list, .max = ARRAY_LEN(list), .room = {malloc(room), room}};
    int err = TERR_NOMEM;

    *out = NULL;
    if (pairs.room.ptr != NULL)
        err = invalidation_to_pairs(inv, &pairs);
    if (err == 0) {
        *out = entry_of_pairs(f, &pairs);
        err = *out != NULL ? 0 : TERR_NOMEM;
    }
    free(pairs.room.ptr);
    return err;
}

static void
entry_free(struct fleet_entry *e)
{
    list_del(&e->link);
    atomic_fetch_sub(&e->fleet->entry_bytes, e->bytes);
    free(e);
}

/* On the management loop. */
static void
entry_land(struct post *p)
{
    struct fleet_entry *e = container_of(p, struct fleet_entry, post);
    struct fleet *f = e->fleet;

    OBJ_CHECK(f, FLEET_MAGIC);
    list_add_tail(&f->unlogged, &e->link);
    task_wake(&f->task);
}

static uint64_t
fleet_lose(struct fleet *f, const char *why)
{
    atomic_fetch_sub(&f->nqueued, 1);
    counter_add_shared(f->env.counters, COUNTER_fleet_lost, 1);
    elog(ELOG_ERROR, "fleet: an invalidation counts at this node alone: %s", why);
    return 0;
}

uint64_t
fleet_append(struct fleet *f, const struct invalidation *inv)
{
    struct fleet_entry *e;
    uint64_t ticket;
    int err;

    OBJ_CHECK(f, FLEET_MAGIC);
    if (atomic_fetch_add(&f->nqueued, 1) >= FLEET_QUEUED_MAX ||
        atomic_load(&f->entry_bytes) >= FLEET_ENTRY_BYTES_MAX)
        return fleet_lose(f, "too many wait for the engine");
    err = entry_new(f, inv, &e);
    if (err != 0) /* a tag with a control character, as a policy may make */
        return fleet_lose(f, err == TERR_NOMEM
                                 ? terr_text(err)
                                 : "other nodes could not read it, by its characters");
    ticket = atomic_fetch_add(&f->tickets, 1) + 1;
    e->ticket = ticket;
    e->post.land = entry_land;
    inbox_send(&f->env.loop->inbox, &e->post); /* the management loop's from here on */
    return ticket;
}

void
fleet_append_begin(struct fleet *f)
{
    atomic_fetch_add(&f->making, 1);
}

void
fleet_append_end(struct fleet *f)
{
    atomic_fetch_sub(&f->making, 1);
}

/* In the order in which one passes from the first to the last. */
bool
fleet_is_settled(const struct fleet *f)
{
    return atomic_load(&f->making) == 0 && atomic_load(&f->nqueued) == 0 &&
           !atomic_load(&f->own_behind);
}

/* ---- sending ---- */

/* The first ones, as many as may be under way; those that are stand in front. */
void
fleet_write(struct fleet *f)
{
    unsigned n = 0;

    for (struct list *l = f->unlogged.next; l != &f->unlogged && n < WRITE_WINDOW; l = l->next) {
        struct fleet_entry *e = container_of(l, struct fleet_entry, link);

        n++;
        if (e->sent)
            continue;
        if (!link_send(&f->commands, TAG_ADD, e->words, e->nwords))
            return;
        e->sent = true;
    }
}

void
fleet_write_again(struct fleet *f)
{
    for (struct list *l = f->unlogged.next; l != &f->unlogged; l = l->next)
        container_of(l, struct fleet_entry, link)->sent = false;
}

static void
recent_forget_oldest(struct fleet *f)
{
    struct fleet_entry *e = container_of(f->recent.next, struct fleet_entry, link);

    tassert(f->nrecent > 0);
    f->nrecent--;
    f->recent_bytes -= e->bytes;
    entry_free(e);
}

bool
fleet_take_id(struct fleet *f, const struct engine_reply *r, struct fleet_id *id)
{
    struct fleet_id taken;

    if (fleet_id_parse(engine_reply_text(r), &taken) && !fleet_id_is_none(taken)) {
        *id = taken;
        return true;
    }
    link_fail(&f->commands, "XADD: the reply is no id of an entry");
    return false;
}

/* Without an id it is sent again on the next connection. */
void
fleet_take_added(struct fleet *f, const struct engine_reply *r)
{
    struct fleet_entry *e = container_of(f->unlogged.next, struct fleet_entry, link);

    tassert(!list_empty(&f->unlogged) && e->sent); /* replies come in the order of the commands */
    if (!fleet_take_id(f, r, &e->id))
        return;
    list_del(&e->link);
    list_add_tail(&f->recent, &e->link);
    f->nrecent++;
    f->recent_bytes += e->bytes;
    while (f->nrecent > RECENT_MAX || f->recent_bytes > RECENT_BYTES_MAX)
        recent_forget_oldest(f);
    if (fleet_id_compare(e->id, f->last_own) > 0) {
        f->last_own = e->id;
        atomic_store(&f->own_behind, true); /* before it counts as logged */
    }
    atomic_fetch_sub(&f->nqueued, 1);
    counter_add_shared(f->env.counters, COUNTER_fleet_sent, 1);
    fleet_note_logged(f, e);
    task_wake(&f->task);
}

/* An engine that was promoted may lack the last ones that the one before had confirmed.  They go behind those that are on
 * their way, which replies are for. */
void
fleet_write_recent(struct fleet *f)
{
    struct list *at = f->unlogged.next;

    while (at != &f->unlogged && container_of(at, struct fleet_entry, link)->sent)
        at = at->next;
    while (!list_empty(&f->recent)) {
        struct fleet_entry *e = container_of(f->recent.next, struct fleet_entry, link);

        list_del(&e->link);
        e->sent = false;
        e->id = (struct fleet_id){0, 0};
        list_add_tail(at, &e->link);
        atomic_fetch_add(&f->nqueued, 1);
    }
    f->nrecent = 0;
    f->recent_bytes = 0;
    fleet_proofs_again(f);
}

void
fleet_write_tidy(struct fleet *f)
{
    uint64_t now = fleet_engine_ms(f), age = (uint64_t)f->guard_max_ms;

    while (!list_empty(&f->recent) &&
           container_of(f->recent.next, struct fleet_entry, link)->id.ms + age <= now)
        recent_forget_oldest(f);
}

/* The process ends. */
void
fleet_write_forget(struct fleet *f)
{
    unsigned n = 0;

    for (struct list *l = f->unlogged.next; l != &f->unlogged; l = l->next)
        n++;
    if (n > 0) {
        counter_add_shared(f->env.counters, COUNTER_fleet_lost, n);
        elog(ELOG_ERROR,
            "fleet: %u invalidations of this node are lost to the others: the engine has not "
            "confirmed them, and the process ends",
            n);
    }
    while (!list_empty(&f->unlogged))
        entry_free(container_of(f->unlogged.next, struct fleet_entry, link));
    while (!list_empty(&f->recent))
        entry_free(container_of(f->recent.next, struct fleet_entry, link));
}
