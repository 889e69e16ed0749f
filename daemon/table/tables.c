/* tables.c -- the tables of this process, their readers, and what is reported of them. */
#include "daemon/table/tables.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"

/* What was said last of a table, so that it is said once. */
struct tables_said {
    bool once;
    enum table_status status;
    uint64_t generation;
    char why[TABLE_WHY_MAX];
};

struct tables_row {
    struct tables_conf conf;
    struct slice name;
    struct table_reader *reader; /* the management thread's */
    struct tables_said said;
    _Atomic uint64_t *lookups; /* a number for each worker, which is its only writer */
};

#define TABLES_MAGIC OBJ_TAG('t', 'b', 'l', 's')
struct tables {
    uint32_t magic;
    unsigned n, nworkers;
    struct tables_row rows[];
};

/* One table of one worker. */
struct tables_slot {
    struct slice name;
    struct table_reader *reader;
    const struct table_view *view; /* inside */
    bool inside;
    _Atomic uint64_t *lookups;
    uint64_t taken_told, refused_told; /* counted already */
    struct tables_slot *next;          /* of those we are inside of */
};

#define TABLES_SHARE_MAGIC OBJ_TAG('t', 'b', 's', 'h')
struct tables_share {
    uint32_t magic;
    unsigned n;
    struct loop *loop;
    struct counter_set *counters;
    struct tables_slot *inside; /* NULL: we are inside of none */
    struct turn_end end;        /* asked for while we are */
    struct tables_slot slots[];
};

/* --- the management thread's --- */

/* Numbers that workers write lie a cache line apart. */
enum {
    LOOKUPS_STRIDE = 8
};

/* Start-up, before the workers join: `rows` is copied, the names in it are the configuration's. */
int
tables_open(struct tables **out, const struct tables_conf *rows, unsigned n, unsigned nworkers)
{
    struct tables *t = calloc(1, sizeof(*t) + n * sizeof(t->rows[0]));
    int err = t == NULL ? TERR_NOMEM : 0;

    if (err != 0)
        return err;
    t->magic = TABLES_MAGIC;
    t->nworkers = nworkers;
    for (; t->n < n && err == 0; t->n++) {
        struct tables_row *row = &t->rows[t->n];

        row->conf = rows[t->n];
        row->name = slice_str(row->conf.name);
        /* A line of cache for each worker: they count at each lookup. */
        row->lookups = calloc((size_t)nworkers * LOOKUPS_STRIDE, sizeof(*row->lookups));
        err = row->lookups == NULL ? TERR_NOMEM
                                   : table_reader_new_of(&row->reader, row->conf.path,
                                         row->conf.kind, row->conf.trust, row->conf.owners);
    }
    if (err != 0) {
        tables_close(&t);
        return err;
    }
    /* At once: what is wrong with a table is said at the start, and not when a request needs it. */
    tables_watch(t);
    *out = t;
    return 0;
}

void
tables_close(struct tables **tp)
{
    struct tables *t;

    OBJ_TAKE(t, tp, TABLES_MAGIC);
    for (unsigned i = 0; i < t->n; i++) {
        /* Half-open ones come here, too. */
        if (t->rows[i].reader != NULL)
            table_reader_free(&t->rows[i].reader);
        free((void *)(uintptr_t)t->rows[i].lookups);
    }
    OBJ_FREE(t);
}

unsigned
tables_count(const struct tables *t)
{
    OBJ_CHECK(t, TABLES_MAGIC);
    return t->n;
}

void
tables_seen(struct tables *t, unsigned n, struct tables_seen *out)
{
    const struct table_view *v;
    struct tables_row *row;
    struct table_seen seen;

    OBJ_CHECK(t, TABLES_MAGIC);
    tassert(n < t->n);
    row = &t->rows[n];
    table_reader_check(row->reader);
    /* Counted in while the numbers are read: a writer waits for it. */
    v = table_enter(row->reader);
    table_reader_seen(row->reader, &seen);
    *out = (struct tables_seen){.name = row->conf.name,
        .path = row->conf.path,
        .owners = row->conf.owners,
        .status = seen.status,
        .why = seen.why,
        .used = v != NULL,
        .kept = seen.kept};
    if (v != NULL) {
        out->kind = v->kind;
        out->generation = v->generation;
        out->entries = v->entries;
        out->bytes = v->bytes;
        out->made_ms = v->made_ms;
    }
    table_leave(row->reader);
    for (unsigned i = 0; i < t->nworkers; i++)
        out->lookups +=
            atomic_load_explicit(&row->lookups[i * LOOKUPS_STRIDE], memory_order_relaxed);
}

static void
tables_say(const struct tables_seen *seen)
{
    if (seen->status == TABLE_OK)
        elog(ELOG_INFO, "table %s: version %llu (%s), %llu entries, %llu bytes", seen->name,
            (unsigned long long)seen->generation, table_kind_name(seen->kind),
            (unsigned long long)seen->entries, (unsigned long long)seen->bytes);
    else if (seen->used)
        elog(ELOG_WARN, "table %s: %s; version %llu stays in use", seen->name, seen->why,
            (unsigned long long)seen->generation);
    else
        elog(ELOG_WARN, "table %s: %s; every lookup in it finds nothing", seen->name, seen->why);
}

/* On the management loop's tick, so four times a second. */
void
tables_watch(struct tables *t)
{
    OBJ_CHECK(t, TABLES_MAGIC);
    for (unsigned i = 0; i < t->n; i++) {
        struct tables_said *said = &t->rows[i].said;
        struct tables_seen seen;

        tables_seen(t, i, &seen);
        /* By its contents: the same mistake is not said four times a second. */
        if (said->once && said->status == seen.status && said->generation == seen.generation &&
            strcmp(said->why, seen.why) == 0)
            continue;
        tables_say(&seen);
        *said = (struct tables_said){
            .once = true, .status = seen.status, .generation = seen.generation};
        snprintf(said->why, sizeof(said->why), "%s", seen.why);
    }
}

/* --- a worker's --- */

static void
tables_on_turn_end(struct turn_end *end)
{
    struct tables_share *s = container_of(end, struct tables_share, end);

    while (s->inside != NULL) {
        struct tables_slot *slot = s->inside;

        s->inside = slot->next;
        slot->inside = false;
        slot->view = NULL;
        /* Only a turn that took longer than the writer's grace period: what was found has been used
         * by now, so it is said and counted. */
        if (table_leave(slot->reader) != 0) {
            counter_add(s->counters, COUNTER_table_overtaken, 1);
            elog(ELOG_WARN,
                "table %.*s: its writer overtook a worker with a slow turn; its lookups may be of "
                "two versions",
                (int)slot->name.len, slot->name.ptr);
        }
    }
}

int
tables_join(struct tables_share **out, struct tables *t, unsigned worker, struct loop *loop,
    struct counter_set *counters)
{
    struct tables_share *s = calloc(1, sizeof(*s) + t->n * sizeof(s->slots[0]));
    int err = s == NULL ? TERR_NOMEM : 0;

    OBJ_CHECK(t, TABLES_MAGIC);
    tassert(worker < t->nworkers);
    if (err != 0)
        return err;
    s->magic = TABLES_SHARE_MAGIC;
    s->loop = loop;
    s->counters = counters;
    s->end.run = tables_on_turn_end;
    for (; s->n < t->n && err == 0; s->n++) {
        const struct tables_row *row = &t->rows[s->n];
        struct tables_slot *slot = &s->slots[s->n];

        slot->name = row->name;
        slot->lookups = &row->lookups[worker * LOOKUPS_STRIDE];
        /* A reader for each worker: it is counted in and out without a lock. */
        err = table_reader_new_of(
            &slot->reader, row->conf.path, row->conf.kind, row->conf.trust, row->conf.owners);
    }
    *out = s;
    if (err != 0)
        tables_leave(out);
    return err;
}

void
tables_leave(struct tables_share **sp)
{
    struct tables_share *s;

    OBJ_TAKE(s, sp, TABLES_SHARE_MAGIC);
    tables_on_turn_end(&s->end);
    /* The loop must not call into freed memory. */
    if (s->loop->turn_end == &s->end)
        s->loop->turn_end = NULL;
    for (unsigned i = 0; i < s->n; i++)
        if (s->slots[i].reader != NULL)
            table_reader_free(&s->slots[i].reader);
    OBJ_FREE(s);
}

/* Once a second, in the worker's own thread: readers belong to one thread each. */
void
tables_tick(struct tables_share *s)
{
    OBJ_CHECK(s, TABLES_SHARE_MAGIC);
    tables_on_turn_end(&s->end); /* what was found in this turn was copied */
    for (unsigned i = 0; i < s->n; i++) {
        struct tables_slot *slot = &s->slots[i];
        struct table_seen seen;

        /* Outside, as it asserts: that is why the turn's end was run above. */
        table_reader_check(slot->reader);
        table_reader_seen(slot->reader, &seen);
        counter_add(s->counters, COUNTER_table_taken, seen.taken - slot->taken_told);
        counter_add(s->counters, COUNTER_table_refused, seen.refused - slot->refused_told);
        slot->taken_told = seen.taken;
        slot->refused_told = seen.refused;
    }
}

/* The first look of a turn. */
static void
tables_go_inside(struct tables_share *s, struct tables_slot *slot)
{
    slot->view = table_enter(slot->reader);
    slot->inside = true;
    slot->next = s->inside;
    s->inside = slot;
    tassert(s->loop->turn_end == NULL || s->loop->turn_end == &s->end);
    /* Out again when the turn ends, however many requests look into it. */
    s->loop->turn_end = &s->end;
}

static struct tables_slot *
tables_named(struct tables_share *s, struct slice name)
{
    /* There are few. */
    for (unsigned i = 0; i < s->n; i++)
        if (slice_eq(s->slots[i].name, name))
            return &s->slots[i];
    return NULL;
}

/* In a run of a policy.  *value is good until the turn ends: what a request keeps longer is
 * copied (policy_table.c). */
enum tables_answer
tables_find(struct tables_share *s, struct slice table, struct slice key, struct slice *value,
    enum table_kind *kind)
{
    struct tables_slot *slot;

    OBJ_CHECK(s, TABLES_SHARE_MAGIC);
    slot = tables_named(s, table);
    if (slot == NULL)
        return TABLES_UNKNOWN;
    if (!slot->inside)
        tables_go_inside(s, slot);
    /* Load and store, no locked addition: this worker alone writes it. */
    atomic_store_explicit(slot->lookups,
        atomic_load_explicit(slot->lookups, memory_order_relaxed) + 1, memory_order_relaxed);
    counter_add(s->counters, COUNTER_table_lookups, 1);
    /* No good version: the policy gets its fallback, and the counter shows how often. */
    if (slot->view == NULL) {
        counter_add(s->counters, COUNTER_table_unanswered, 1);
        return TABLES_NONE;
    }
    *kind = slot->view->kind;
    return table_view_find(slot->view, key, value) ? TABLES_FOUND : TABLES_ABSENT;
}
