/* fleet_read.c -- the log, as it is read and applied.
 *
 * Each reading is followed by a look at our place: while the entry that was read last is there, all behind it are, and the
 * place moves.  A log that was lost may have begun anew with lower ids. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cache/invalidation.h"
#include "daemon/cache/invalidation_pairs.h"
#include "daemon/fleet/fleet_priv.h"
#include "daemon/log/elog.h"

enum {
    READ_ENTRY_BYTES = 64, /* of the engine's, beside an entry's texts; and */
    READ_TEXT_BYTES = 4,   /* beside each of them */
};

/* A reading is [[key, [[id, [name, value, ...]], ...]]]. */
_Static_assert(3 + FLEET_READ_BATCH * (3 + 2 * INVALIDATION_PAIRS_MAX) <= ENGINE_ELEMENTS_MAX,
    "a reading of the largest entries is no reply that is refused");

void
fleet_read(struct fleet *f)
{
    char id[FLEET_ID_TEXT_MAX], count[16], block[24];
    struct slice words[] = {SLICE_LIT("XREAD"), SLICE_LIT("COUNT"), slice_of(count, 0),
        SLICE_LIT("BLOCK"), slice_of(block, 0), SLICE_LIT("STREAMS"), slice_str(f->log_key),
        fleet_id_text(f->position, id)};
    struct slice place[] = {SLICE_LIT("XRANGE"), slice_str(f->log_key), words[7], words[7]};

    snprintf(count, sizeof(count), "%d", FLEET_READ_BATCH);
    /* The lease is told of each reading: several must fit into it. */
    snprintf(block, sizeof(block), "%" PRId64,
        f->env.conf->max_blind / 4 < FLEET_READ_BLOCK_MS ? f->env.conf->max_blind / 4
                                                         : FLEET_READ_BLOCK_MS);
    words[2] = slice_str(count);
    words[4] = slice_str(block);
    f->read_sent_ms = fleet_now(f);
    f->read_to = f->position;
    f->reads = link_send(&f->reading, TAG_READ, words, ARRAY_LEN(words)) &&
               link_send(&f->reading, TAG_PLACE, place, ARRAY_LEN(place));
}

/* ---- one entry ---- */

static struct slice
read_value(const struct pair *pairs, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (slice_eq(pairs[i].name, slice_str(name)))
            return pairs[i].value;
    return slice_of("", 0);
}

/* What cannot be done as it stands there is done by the one thing that is never too little.  Has it been applied? */
static bool
read_apply(struct fleet *f, struct slice id, const struct pair *pairs, unsigned n)
{
    struct invalidation_room room;
    struct invalidation inv;
    struct invalidation_result result = {.wait = NULL};
    struct slice node = read_value(pairs, n, "node");
    char why[256] = "", text[400];
    int err;

    if (slice_eq(read_value(pairs, n, "kind"), SLICE_LIT("hello"))) {
        if (read_value(pairs, n, "shared").len > 0)
            fleet_shared_is_new(f);
        return false;
    }
    err = invalidation_from_pairs(pairs, n, &room, &inv, (struct span){why, sizeof(why)});
    if (err == 0)
        err = invalidation_apply(f->env.cache, &inv, &f->env.loop->clock, &result);
    if (err == 0) {
        counter_add_shared(f->env.counters, COUNTER_fleet_applied, 1);
        return true;
    }
    counter_add_shared(f->env.counters, COUNTER_fleet_unknown, 1);
    snprintf(text, sizeof(text), "entry %.*s of node '%.*s' cannot be applied (%s)", (int)id.len,
        id.ptr, (int)(node.len < FLEET_NAME_MAX ? node.len : FLEET_NAME_MAX), node.ptr,
        why[0] != '\0'          ? why
        : result.why[0] != '\0' ? result.why
                                : terr_text(err));
    fleet_distrust(f, text);
    return false;
}

/* [id, [name, value, ...]], behind *id, and that is its place then.  Has it been applied?  What is no such entry ends the
 * connection: it may have been one, and nothing is left out. */
static bool
read_entry(struct fleet *f, struct link *k, const struct engine_reply *r, struct fleet_id *id)
{
    struct pair pairs[INVALIDATION_PAIRS_MAX];
    const struct engine_reply *fields;
    struct fleet_id at;
    unsigned n;

    if (engine_reply_count(r) != 2 ||
        !fleet_id_parse(engine_reply_text(engine_reply_at(r, 0)), &at) ||
        fleet_id_compare(at, *id) <= 0) {
        link_fail(k, "the log: an entry has no id, or none behind the one before");
        return false;
    }
    *id = at;
    fields = engine_reply_at(r, 1);
    n = engine_reply_count(fields) / 2;
    if (n > INVALIDATION_PAIRS_MAX) {
        counter_add_shared(f->env.counters, COUNTER_fleet_unknown, 1);
        fleet_distrust(f, "an entry of the log has too many fields");
        return false;
    }
    for (unsigned i = 0; i < n; i++)
        pairs[i] = (struct pair){engine_reply_text(engine_reply_at(fields, 2 * i)),
            engine_reply_text(engine_reply_at(fields, 2 * i + 1))};
    return read_apply(f, engine_reply_text(engine_reply_at(r, 0)), pairs, n);
}

/* ---- how much of the log is kept ---- */

static void
read_trim_before(struct fleet *f, struct fleet_id id)
{
    char text[FLEET_ID_TEXT_MAX];
    struct slice words[] = {SLICE_LIT("XTRIM"), slice_str(f->log_key), SLICE_LIT("MINID"),
        SLICE_LIT("~"), fleet_id_text(id, text)};

    if (f->commands.state == LINK_UP)
        link_send(&f->commands, TAG_TRIM, words, 5);
}

void
fleet_trim(struct fleet *f)
{
    uint64_t now = fleet_engine_ms(f), age = (uint64_t)f->env.conf->log_age;

    if (now > age)
        read_trim_before(f, (struct fleet_id){now - age, 0});
}

void
fleet_read_began(struct fleet *f)
{
    f->nstrides = 0;
    f->stride_bytes = 0;
    f->measured = (struct fleet_id){0, 0};
}

static uint64_t
read_bytes(const struct engine_reply *entry)
{
    const struct engine_reply *fields;
    uint64_t bytes = READ_ENTRY_BYTES;

    if (engine_reply_count(entry) != 2)
        return bytes;
    fields = engine_reply_at(entry, 1);
    for (unsigned i = 0; i < engine_reply_count(fields); i++)
        bytes += READ_TEXT_BYTES + engine_reply_text(engine_reply_at(fields, i)).len;
    return bytes;
}

/* Each node sees all of the log go by, and removes what log_bytes have come behind: URLs are as long as clients like.  What
 * is read twice, as a connection ended, counts once. */
static void
read_measure(struct fleet *f, const struct engine_reply *entry)
{
    const uint64_t stride = (uint64_t)f->env.conf->log_bytes / FLEET_STRIDES;

    if (fleet_id_compare(f->read_to, f->measured) <= 0)
        return;
    f->measured = f->read_to;
    for (f->stride_bytes += read_bytes(entry); f->stride_bytes >= stride;
         f->stride_bytes -= stride) {
        struct fleet_id *at = &f->strides[f->nstrides % FLEET_STRIDES];

        if (f->nstrides >= FLEET_STRIDES)
            read_trim_before(f, *at);
        *at = f->read_to;
        f->nstrides++;
    }
}

/* ---- a reading ---- */

/* Before any is applied: from then on copies of other nodes have to be as young. */
static void
read_show(struct fleet *f, const struct engine_reply *entries, unsigned n)
{
    const struct engine_reply *last = n > 0 ? engine_reply_at(entries, n - 1) : NULL;
    struct fleet_id id;

    if (last != NULL && engine_reply_count(last) == 2 &&
        fleet_id_parse(engine_reply_text(engine_reply_at(last, 0)), &id))
        fleet_show_wants(f, id);
}

/* [[key, [entry, ...]]], or nothing: none has come meanwhile. */
void
fleet_take_read(struct fleet *f, const struct engine_reply *r)
{
    const struct engine_reply *entries;
    unsigned n = 0;

    if (f->state != FLEET_IN)
        return;
    if (engine_reply_count(r) == 1 && engine_reply_count(engine_reply_at(r, 0)) == 2) {
        entries = engine_reply_at(engine_reply_at(r, 0), 1);
        n = engine_reply_count(entries);
        read_show(f, entries, n);
        for (unsigned i = 0; i < n && f->reading.state == LINK_UP; i++) {
            read_entry(f, &f->reading, engine_reply_at(entries, i), &f->read_to);
            read_measure(f, engine_reply_at(entries, i));
        }
    }
    f->read_all = n < FLEET_READ_BATCH;
}

/* [entry], or nothing: it is not there. */
void
fleet_take_place(struct fleet *f, const struct engine_reply *r)
{
    f->reads = false;
    if (f->state != FLEET_IN)
        return;
    if (engine_reply_count(r) != 1) {
        counter_add_shared(f->env.counters, COUNTER_fleet_gaps, 1);
        fleet_distrust(f, "the log was trimmed behind the place of this node, or is another one");
        fleet_rejoin(f);
        return;
    }
    if (f->read_all) {
        f->read_ms = f->read_sent_ms;
        fleet_show_lease(f);
    }
    if (fleet_id_compare(f->read_to, f->position) == 0)
        return;
    f->position = f->read_to;
    f->report_due = true;
}

/* An entry that is too large for any connection would keep the node out of step for as long as the log has it.  So the node
 * begins behind it, and what it missed in front of it stays unread. */
void
fleet_read_past(struct fleet *f, struct link *k)
{
    unsigned tag = k->overrun_tag;

    k->overrun = false;
    if (tag != TAG_READ && tag != TAG_MISSED && tag != TAG_NEWEST) /* those that have entries */
        return;
    /* A look at the newest entry was under way as well, and the node has no place any more. */
    if (f->state == FLEET_RETIRED || (fleet_id_is_none(f->position) && fleet_id_is_none(f->missed)))
        return;
    counter_add_shared(f->env.counters, COUNTER_fleet_gaps, 1);
    fleet_distrust(f, "the log has an entry that is too large to be read");
    link_fail(&f->reading, "the log has an entry that is too large to be read: the node joins anew "
                           "behind it");
    if (f->state == FLEET_IN)
        fleet_rejoin(f);
    f->position = f->missed = (struct fleet_id){0, 0};
    f->catches_up = false;
}

/* ---- what was missed ---- */

static void
read_end_missed(struct fleet *f)
{
    if (f->nmissed > 0)
        elog(ELOG_INFO, "fleet: of while the node was apart it has applied %u invalidations",
            f->nmissed);
    f->catches_up = false;
    f->missed = (struct fleet_id){0, 0};
    f->report_due = true;
    task_wake(&f->task);
}

/* What is stored is stale already.  But in its grace it may be served, and what was purged is to be gone: so, before the
 * node is in step again, it is applied as far as the log has it. */
void
fleet_read_missed(struct fleet *f)
{
    char from[1 + FLEET_ID_TEXT_MAX] = "(", to[FLEET_ID_TEXT_MAX], count[16];
    struct slice words[] = {SLICE_LIT("XRANGE"), slice_str(f->log_key), slice_of(from, 0),
        fleet_id_text(f->position, to), SLICE_LIT("COUNT"), slice_of(count, 0)};

    tassert(f->catches_up && f->state == FLEET_IN);
    if (fleet_id_is_none(f->missed)) {
        read_end_missed(f);
        return;
    }
    words[2] = slice_of(from, 1 + fleet_id_text(f->missed, from + 1).len);
    snprintf(count, sizeof(count), "%d", FLEET_READ_BATCH);
    words[5] = slice_str(count);
    link_send(&f->commands, TAG_MISSED, words, ARRAY_LEN(words));
}

/* [entry, ...]: behind f->missed. */
void
fleet_take_missed(struct fleet *f, const struct engine_reply *r)
{
    const struct fleet_id from = f->missed;
    unsigned n = engine_reply_count(r);

    if (f->state != FLEET_IN || !f->catches_up)
        return;
    for (unsigned i = 0; i < n && f->commands.state == LINK_UP; i++)
        f->nmissed += read_entry(f, &f->commands, engine_reply_at(r, i), &f->missed);
    if (f->commands.state != LINK_UP)
        return;
    if (n < FLEET_READ_BATCH || fleet_id_compare(f->missed, from) <= 0)
        read_end_missed(f);
    else
        fleet_read_missed(f);
}
