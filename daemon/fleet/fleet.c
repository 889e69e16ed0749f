/* fleet.c -- a node's place in its fleet: its name, its lease, and what is sent when.
 *
 * The engine has, under "PREFIX:{NAME}:",
 *
 *   log            the stream
 *   nodes          the sorted set of all names, each with the time of its last report; and of "=INCARNATION" with, below
 *                  0, the time when the first node met this engine, of this history
 *   node:NODE      "EPOCH INCARNATION ID NUMBER GUARD": a node's position, for its guard_ms; with peers also where it can be asked
 *   secret         of questions that nodes ask each other
 *
 * A proof needs every node that may trust what it has stored.  Such a node has its key, which outlives its lease, and its
 * name; unless the engine has lost them.  So an engine with a new history (another process, another replication id, or
 * emptied) gives no proof before every lease of before has run out.  Names are lost together with the time that says so. */
#include "daemon/fleet/fleet_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/cache/cache.h"
#include "daemon/cache/invalidation.h"
#include "daemon/log/elog.h"
#include "daemon/net/resolve.h"

static void
fleet_check(const struct fleet *f)
{
    tassert(f->state != FLEET_IN || !fleet_id_is_none(f->position));
    tassert(!f->trusts || f->state == FLEET_IN);
    tassert(!f->trusts || !f->distrust_due);
}

uint64_t
fleet_engine_ms(const struct fleet *f)
{
    return f->engine_timed ? (uint64_t)((int64_t)fleet_now(f) + f->engine_ahead_ms) : 0;
}

uint64_t
fleet_real_now(struct fleet *f)
{
    return clock_read_us(&f->env.loop->clock) / 1000;
}

/* ---- the lease ---- */

uint64_t
fleet_lease_end(const struct fleet *f)
{
    uint64_t from = f->reported_ms < f->read_ms ? f->reported_ms : f->read_ms;

    return from + (uint64_t)f->env.conf->max_blind;
}

void
fleet_show_lease(struct fleet *f)
{
    cache_trust_until(f->env.cache, f->trusts ? (int64_t)fleet_lease_end(f) : f->apart_ms);
    if (f->trusts != f->shown)
        counter_add_shared(
            f->env.counters, COUNTER_fleet_trusts, f->trusts ? 1 : UINT64_MAX /* less by one */);
    f->shown = f->trusts;
}

static void
fleet_leave_step(struct fleet *f, enum fleet_state to)
{
    tassert(to != FLEET_IN);
    f->state = to;
    f->anchored = false;
    f->report_due = false;
    if (f->trusts)
        f->apart_ms = (int64_t)fleet_now(f);
    f->trusts = false;
    fleet_show_lease(f);
    fleet_show_nodes(f);
}

void
fleet_rejoin(struct fleet *f)
{
    fleet_leave_step(f, FLEET_APART);
    f->claim_ms = fleet_now(f);
}

/* cache_trust_until() has said it to the workers before; here it is said to people. */
static void
fleet_look_at_lease(struct fleet *f)
{
    if (!f->trusts || fleet_now(f) < fleet_lease_end(f))
        return;
    elog(ELOG_WARN,
        "fleet: nothing was heard from the engine for %" PRId64
        " ms (max_blind): what is stored is stale until it is heard again",
        f->env.conf->max_blind);
    counter_add_shared(f->env.counters, COUNTER_fleet_blind, 1);
    fleet_rejoin(f);
}

void
fleet_distrust(struct fleet *f, const char *why)
{
    int err = cache_distrust_before(f->env.cache, &f->env.loop->clock);

    f->distrust_due = err != 0;
    counter_add_shared(f->env.counters, COUNTER_fleet_distrusts, 1);
    if (err != 0 && f->trusts) { /* nothing is trusted until that has been done */
        f->apart_ms = (int64_t)fleet_now(f);
        f->trusts = false;
        fleet_show_lease(f);
    }
    elog(f->joined ? ELOG_WARN : ELOG_DEBUG, "fleet: %s: everything stored before now is stale%s%s",
        why, err != 0 ? ", as soon as it can be written down: " : "",
        err != 0 ? terr_text(err) : "");
}

/* ---- commands ---- */

static void
fleet_ask_time(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("TIME")};

    f->time_sent_ms = fleet_now(f);
    link_send(&f->commands, TAG_TIME, words, 1);
}

/* The engine is another process, or comes back: what it knows of us is asked. */
static void
fleet_ask_since(struct fleet *f)
{
    f->seen_asked = false;
    f->mature_ms = TIMER_NEVER;
    fleet_ask_time(f);
}

void
fleet_engine_is_new(struct fleet *f)
{
    f->mature_least_ms = fleet_now(f) + (uint64_t)f->guard_max_ms;
    fleet_ask_since(f);
}

/* The engine's clock, from below and from above: the reply may have been on its way for long. */
static void
fleet_take_time(struct fleet *f, const struct engine_reply *r)
{
    char text[32];
    struct slice words[5];
    int64_t ms;

    if (engine_reply_count(r) != 2)
        return;
    ms = fleet_number_near(engine_reply_text(engine_reply_at(r, 0))) * 1000 +
         fleet_number_near(engine_reply_text(engine_reply_at(r, 1))) / 1000;
    f->engine_ahead_ms = ms - (int64_t)fleet_real_now(f);
    f->engine_ahead_max_ms = ms - (int64_t)f->time_sent_ms;
    f->engine_timed = true;
    if (f->seen_asked)
        return;
    f->seen_asked = true;
    snprintf(text, sizeof(text), "-%" PRId64, (int64_t)fleet_now(f) + f->engine_ahead_max_ms);
    words[0] = SLICE_LIT("ZADD");
    words[1] = slice_str(f->nodes_key);
    words[2] = SLICE_LIT("NX");
    words[3] = slice_str(text);
    words[4] = slice_str(f->engine_mark);
    if (!link_send(&f->commands, TAG_SEE, words, 5))
        return;
    words[0] = SLICE_LIT("ZSCORE");
    words[2] = slice_str(f->engine_mark);
    link_send(&f->commands, TAG_SEEN, words, 3);
}

static void
fleet_ripen(struct fleet *f)
{
    int64_t age = (int64_t)fleet_engine_ms(f) - f->since_ms;

    if (age < 0)
        age = 0;
    f->mature_ms = age >= f->guard_max_ms ? 0 : fleet_now(f) + (uint64_t)(f->guard_max_ms - age);
    if (f->mature_ms < f->mature_least_ms)
        f->mature_ms = f->mature_least_ms;
}

static void
fleet_take_seen(struct fleet *f, const struct engine_reply *r)
{
    struct slice text = engine_reply_text(r);

    if (text.len == 0) { /* lost again */
        fleet_ask_since(f);
        return;
    }
    f->since_ms = -fleet_number_near(text);
    fleet_ripen(f);
}

void
fleet_heed_guard(struct fleet *f, int64_t guard_ms)
{
    if (guard_ms <= f->guard_max_ms)
        return;
    if (f->mature_least_ms > 0)
        f->mature_least_ms += (uint64_t)(guard_ms - f->guard_max_ms);
    f->guard_max_ms = guard_ms;
    if (f->mature_ms != TIMER_NEVER)
        fleet_ripen(f);
}

static struct slice
fleet_value(struct fleet *f, char *text, size_t size)
{
    char id[FLEET_ID_TEXT_MAX];
    int n = snprintf(text, size, "%s %s %s %" PRIu64 " %" PRId64, f->epoch, f->commands.incarnation,
        fleet_id_text(f->position, id).ptr, ++f->report_number, f->guard_ms);

    if (f->says)
        n += snprintf(text + n, size - (size_t)n, " %s %016" PRIx64, f->address, f->policy);
    tassert(n > 0 && (size_t)n < size);
    return slice_of(text, (size_t)n);
}

/* The name first: a key without it would not be looked for.  Its time is rather too late than too early, as old ones are
 * forgotten. */
static bool
fleet_put_name(struct fleet *f)
{
    char text[24];
    struct slice words[] = {SLICE_LIT("ZADD"), slice_str(f->nodes_key), slice_of(text, 0),
        slice_str(f->env.conf->node)};

    snprintf(text, sizeof(text), "%" PRId64, (int64_t)fleet_now(f) + f->engine_ahead_max_ms);
    words[2] = slice_str(text);
    return link_send(&f->commands, TAG_MEMBER, words, 4);
}

static bool
fleet_put_key(struct fleet *f, unsigned tag)
{
    char value[FLEET_VALUE_MAX], guard[24];
    struct slice words[6] = {SLICE_LIT("SET"), slice_str(f->node_key),
        fleet_value(f, value, sizeof(value)), SLICE_LIT("PX"), slice_of(guard, 0), SLICE_LIT("NX")};

    snprintf(guard, sizeof(guard), "%" PRId64, f->guard_ms);
    words[4] = slice_str(guard);
    return fleet_put_name(f) && link_send(&f->commands, tag, words, tag == TAG_CLAIM ? 6 : 5);
}

static bool
fleet_ask_owner(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("GET"), slice_str(f->node_key)};

    return link_send(&f->commands, TAG_OWNER, words, 2);
}

/* The name may have been lost, and taken by another process since. */
static void
fleet_report(struct fleet *f)
{
    f->report_sent_ms = fleet_now(f);
    f->report_due = false;
    f->reports = fleet_ask_owner(f) && fleet_put_key(f, TAG_REPORT);
}

static void
fleet_claim(struct fleet *f)
{
    tassert(f->state == FLEET_APART);
    if (!f->catches_up && !fleet_id_is_none(f->position))
        f->missed = f->position;
    f->catches_up = false;
    f->position = (struct fleet_id){0, 0};
    f->state = FLEET_CLAIMING;
    f->report_sent_ms = fleet_now(f);
    fleet_put_key(f, TAG_CLAIM);
}

void
fleet_send_hello(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("XADD"), slice_str(f->log_key), SLICE_LIT("MAXLEN"),
        SLICE_LIT("~"), slice_str(f->count_text), SLICE_LIT("*"), SLICE_LIT("v"), SLICE_LIT("1"),
        SLICE_LIT("kind"), SLICE_LIT("hello"), SLICE_LIT("node"), slice_str(f->env.conf->node),
        SLICE_LIT("epoch"), slice_str(f->epoch)};

    f->hello_ms = fleet_now(f);
    link_send(&f->commands, TAG_HELLO, words, ARRAY_LEN(words));
}

/* From before the first entry on there is a key without its position: a proof waits for this node, until the key runs
 * out, and then it does not trust what it has. */
static void
fleet_enter(struct fleet *f)
{
    f->state = FLEET_ENTERING;
    f->complained = false;
    f->taken_ms = 0;
    f->trouble = NULL;
    f->entered_ms = fleet_now(f);
    if (fleet_put_key(f, TAG_ENTER))
        fleet_send_hello(f);
}

static void
fleet_name_is_taken(struct fleet *f)
{
    fleet_leave_step(f, FLEET_APART);
    f->claim_ms = fleet_now(f) + FLEET_CLAIM_AGAIN_MS;
    f->trouble = "another node has this name";
    if (f->taken_ms == 0)
        f->taken_ms = fleet_now(f);
    if (f->complained || fleet_now(f) < f->taken_ms + FLEET_COMPLAIN_MS)
        return; /* an upgrade hands it over in less */
    f->complained = true;
    elog(ELOG_ERROR,
        "fleet: there is another node '%s' in fleet '%s' (or was until a moment ago, and ended "
        "without a word): each needs a name of its own. It is asked again until the engine has "
        "forgotten it, which is %" PRId64 " ms after it was heard last; `state` names a file by "
        "which a node knows its own name again",
        f->env.conf->node, f->env.conf->name, f->guard_ms);
}

/* The name was free, or was ours. */
static void
fleet_take_claim(struct fleet *f, const struct engine_reply *r)
{
    if (f->state != FLEET_CLAIMING)
        return;
    if (engine_reply_type(r) == ENGINE_STATUS)
        fleet_enter(f);
    else
        fleet_ask_owner(f);
}

static void
fleet_take_owner(struct fleet *f, const struct engine_reply *r)
{
    struct slice text = engine_reply_text(r);
    struct fleet_value v;
    bool ours = fleet_value_parse(text, &v) && (slice_eq(v.epoch, slice_str(f->epoch)) ||
                                                   slice_eq(v.epoch, slice_str(f->before.epoch)));

    if (f->state == FLEET_CLAIMING && ours)
        fleet_enter(f);
    else if ((f->state == FLEET_CLAIMING || f->state == FLEET_IN) && !ours && text.len > 0)
        fleet_name_is_taken(f);
    else if (f->state == FLEET_CLAIMING) /* it has just become free */
        fleet_rejoin(f);
}

/* It reads from its own entry on; what came before may be stored here in its old version. */
static void
fleet_take_hello(struct fleet *f, const struct engine_reply *r)
{
    char text[FLEET_ID_TEXT_MAX];
    struct fleet_id id;

    if (!fleet_take_id(f, r, &id))
        return;
    if (f->state != FLEET_ENTERING)
        return; /* one that keeps the log young: it is read like any other */
    f->position = id;
    f->last_own =
        (struct fleet_id){0, 0}; /* of a log before this one, perhaps; and all stored is stale */
    f->state = FLEET_IN;
    f->anchored = true;
    f->read_ms = f->reported_ms = f->entered_ms;
    f->reads = false;
    link_close(&f->reading); /* a reading from another place may be under way */
    f->reading_was_up = false;
    fleet_distrust(f, "the node joins anew");
    if (f->joined) /* at its start it knows no other yet: the look that finds them sees their places */
        fleet_be_alone(f);
    f->joined = true;
    elog(ELOG_INFO, "fleet: node '%s' has joined fleet '%s' at %s", f->env.conf->node,
        f->env.conf->name, fleet_id_text(id, text).ptr);
    f->catches_up = true;
    f->nmissed = 0;
    fleet_read_began(f);
    fleet_read_missed(f);
}

static bool
fleet_may_report(const struct fleet *f)
{
    return f->commands.state == LINK_UP && f->state == FLEET_IN && f->anchored && !f->reports &&
           !f->catches_up;
}

static void
fleet_take_report(struct fleet *f, const struct engine_reply *r)
{
    f->reports = false;
    if (f->state != FLEET_IN || engine_reply_type(r) != ENGINE_STATUS)
        return;
    /* The key may have been gone meanwhile, and a proof given without this node. */
    if (fleet_real_now(f) >= f->reported_ms + (uint64_t)f->env.conf->max_blind) {
        fleet_rejoin(f);
        return;
    }
    f->reported_ms = f->report_sent_ms;
    if (f->distrust_due)
        return;
    f->trusts = true;
    fleet_show_lease(f);
}

/* Is the entry still there that we have read last?  Then what followed is there too. */
static void
fleet_ask_anchor(struct fleet *f)
{
    char text[FLEET_ID_TEXT_MAX];
    struct slice id = fleet_id_text(f->position, text);
    struct slice words[] = {SLICE_LIT("XRANGE"), slice_str(f->log_key), id, id};

    link_send(&f->commands, TAG_ANCHOR, words, 4);
}

static void
fleet_take_anchor(struct fleet *f, const struct engine_reply *r)
{
    if (f->state != FLEET_IN)
        return;
    if (engine_reply_count(r) == 1) {
        f->anchored = true;
        f->report_due = true;
        if (f->catches_up) /* its question went with the connection before */
            fleet_read_missed(f);
        return;
    }
    /* The engine has lost what it had, or has trimmed it. */
    elog(ELOG_WARN, "fleet: the engine's log has lost the place of this node");
    fleet_write_recent(f);
    fleet_rejoin(f);
}

bool
fleet_queue(struct fleet *f, const struct slice *words, unsigned n)
{
    return link_send(&f->commands, TAG_QUEUED, words, n);
}

/* A proof need not wait for one that trusts nothing any more, and the one that follows gets the name: if the key is not
 * another process's by now, which the engine checks. */
void
fleet_retire(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("WATCH"), slice_str(f->node_key)};
    bool was_in = f->state == FLEET_IN;

    OBJ_CHECK(f, FLEET_MAGIC);
    if (f->state == FLEET_RETIRED)
        return;
    fleet_leave_step(f, FLEET_RETIRED);
    counter_add_shared(f->env.counters, COUNTER_fleet_member, UINT64_MAX /* less by one */);
    f->trouble = "this node is leaving its fleet";
    fleet_proofs_leave(f);
    if (!was_in || f->commands.state != LINK_UP || !fleet_queue(f, words, 2))
        return;
    words[0] = SLICE_LIT("GET");
    link_send(&f->commands, TAG_LEAVING, words, 2);
}

static void
fleet_take_leaving(struct fleet *f, const struct engine_reply *r)
{
    const struct slice multi = SLICE_LIT("MULTI"), exec = SLICE_LIT("EXEC");
    const struct slice unwatch = SLICE_LIT("UNWATCH");
    const struct slice key[] = {SLICE_LIT("DEL"), slice_str(f->node_key)};
    const struct slice member[] = {
        SLICE_LIT("ZREM"), slice_str(f->nodes_key), slice_str(f->env.conf->node)};
    struct fleet_value v;

    if (!fleet_value_parse(engine_reply_text(r), &v) || !slice_eq(v.epoch, slice_str(f->epoch))) {
        fleet_queue(f, &unwatch, 1);
        return;
    }
    if (fleet_queue(f, &multi, 1) && fleet_queue(f, key, 2) && fleet_queue(f, member, 3))
        fleet_queue(f, &exec, 1);
    fleet_shared_forget(f, f->env.conf->node);
    elog(ELOG_INFO, "fleet: node '%s' has left fleet '%s'", f->env.conf->node, f->env.conf->name);
}

/* ---- the state file ---- */

static int
fleet_open_state(struct fleet *f)
{
    char why[128];

    f->state_fd = -1;
    if (f->env.conf->state[0] == '\0')
        return 0;
    f->state_fd = fleet_state_open(f->env.conf, &f->before, why, sizeof(why));
    if (f->state_fd >= 0)
        return 0;
    elog(ELOG_ERROR, "fleet: state: %s: %s", f->env.conf->state, why);
    f->state_fd = -1;
    return TERR_IO;
}

/* Behind the position, never in front of it: what is applied twice does no harm. */
static void
fleet_keep_state(struct fleet *f)
{
    if (f->state_fd < 0 || f->state != FLEET_IN || fleet_now(f) < f->state_ms ||
        (fleet_id_compare(f->kept.position, f->position) == 0 && f->kept.epoch[0] != '\0'))
        return;
    f->state_ms = fleet_now(f) + FLEET_STATE_MS;
    memcpy(f->kept.epoch, f->epoch, sizeof(f->epoch));
    f->kept.position = f->position;
    if (fleet_state_write(f->state_fd, f->env.conf, &f->kept) != 0)
        elog(ELOG_WARN, "fleet: state: %s cannot be written", f->env.conf->state);
}

/* Engines that were met so long ago. */
static void
fleet_trim_engines(struct fleet *f)
{
    char from[24];
    struct slice words[] = {
        SLICE_LIT("ZREMRANGEBYSCORE"), slice_str(f->nodes_key), slice_of(from, 0), SLICE_LIT("-1")};

    snprintf(
        from, sizeof(from), "-%" PRIu64, fleet_engine_ms(f) - (uint64_t)FLEET_ENGINE_AGE_S * 1000);
    words[2] = slice_str(from);
    link_send(&f->commands, TAG_TRIM, words, 4);
}

/* ---- replies ---- */

/* What an engine refuses is said with the command, as that is what its ACL lacks. */
static bool
fleet_is_refused(struct link *k, unsigned tag, const struct engine_reply *r)
{
    static const char *const names[] = {[TAG_TIME] = "TIME",
        [TAG_SEE] = "ZADD",
        [TAG_SEEN] = "ZSCORE",
        [TAG_ANCHOR] = "XRANGE",
        [TAG_QUEUED] = "MULTI, DEL, ZREM or EXEC",
        [TAG_CLAIM] = "SET",
        [TAG_MEMBER] = "ZADD",
        [TAG_OWNER] = "GET",
        [TAG_ENTER] = "SET",
        [TAG_HELLO] = "XADD",
        [TAG_REPORT] = "SET",
        [TAG_ADD] = "XADD",
        [TAG_TRIM] = "XTRIM or ZREMRANGEBYSCORE",
        [TAG_NODES] = "ZRANGE",
        [TAG_VALUES] = "MGET",
        [TAG_NEWEST] = "XREVRANGE",
        [TAG_READ] = "XREAD",
        [TAG_PLACE] = "XRANGE",
        [TAG_MISSED] = "XRANGE",
        [TAG_LEAVING] = "GET",
        [TAG_TIDY] = "GET",
        [TAG_SECRET] = "SET"};
    struct slice text = engine_reply_text(r);
    char why[LINK_WHY_MAX];

    if (engine_reply_type(r) != ENGINE_ERROR)
        return false;
    snprintf(
        why, sizeof(why), "%s: %.*s", names[tag], (int)(text.len < 200 ? text.len : 200), text.ptr);
    link_fail(k, why);
    return true;
}

static void
fleet_take(struct fleet *f, unsigned tag, const struct engine_reply *r)
{
    switch ((enum fleet_tag)tag) {
    case TAG_TIME:
        fleet_take_time(f, r);
        break;
    case TAG_SEEN:
        fleet_take_seen(f, r);
        break;
    case TAG_ANCHOR:
        fleet_take_anchor(f, r);
        break;
    case TAG_CLAIM:
        fleet_take_claim(f, r);
        break;
    case TAG_OWNER:
        fleet_take_owner(f, r);
        break;
    case TAG_HELLO:
        fleet_take_hello(f, r);
        break;
    case TAG_REPORT:
        fleet_take_report(f, r);
        break;
    case TAG_ADD:
        fleet_take_added(f, r);
        break;
    case TAG_NODES:
        fleet_take_nodes(f, r);
        break;
    case TAG_VALUES:
        fleet_take_values(f, r);
        break;
    case TAG_NEWEST:
        fleet_take_newest(f, r);
        break;
    case TAG_READ:
        fleet_take_read(f, r);
        break;
    case TAG_PLACE:
        fleet_take_place(f, r);
        break;
    case TAG_MISSED:
        fleet_take_missed(f, r);
        break;
    case TAG_LEAVING:
        fleet_take_leaving(f, r);
        break;
    case TAG_TIDY:
        fleet_take_tidy(f, r);
        break;
    case TAG_SECRET:
        fleet_take_given(f, r);
        break;
    case TAG_SEE:
    case TAG_QUEUED:
    case TAG_MEMBER:
    case TAG_ENTER:
    case TAG_TRIM:
        break;
    case TAG_SHARED_VERSIONS:
    case TAG_SHARED_TEXT:
    case TAG_SHARED_REPORTS:
    case TAG_SHARED_SENT:
        TUNREACHABLE("they are fleet_shared_take()'s");
    }
}

static void
fleet_take_all(struct fleet *f, struct link *k)
{
    struct engine_reply *r;
    unsigned tag;

    while ((r = link_take(k, &tag)) != NULL) {
        if (!fleet_shared_take(f, tag, r) && !fleet_is_refused(k, tag, r))
            fleet_take(f, tag, r);
        engine_reply_free(&r);
    }
    if (k->overrun)
        fleet_read_past(f, k);
}

/* ---- what is due ---- */

/* The connection is another one: nothing is under way. */
static void
fleet_commands_began(struct fleet *f)
{
    f->reports = f->polls = false;
    f->tidied[0] = '\0';
    f->anchored = false;
    f->report_due = false;
    f->engine_timed = false;
    snprintf(f->engine_mark, sizeof(f->engine_mark), "=%s", f->commands.incarnation);
    fleet_write_again(f);
    fleet_shared_began(f);
    /* Another one may lack what the one before has confirmed, also what is not read here yet. */
    if (strcmp(f->followed, f->commands.incarnation) != 0)
        fleet_write_recent(f);
    snprintf(f->followed, sizeof(f->followed), "%s", f->commands.incarnation);
    if (f->state == FLEET_CLAIMING || f->state == FLEET_ENTERING)
        f->state = FLEET_APART;
    fleet_ask_since(f);
    if (f->commands.state == LINK_UP && f->state == FLEET_IN)
        fleet_ask_anchor(f);
}

static void
fleet_due_seldom(struct fleet *f)
{
    uint64_t now = fleet_now(f);

    if (f->state == FLEET_IN && now >= f->trimmed_ms) {
        f->trimmed_ms = now + FLEET_TRIM_MS;
        fleet_trim(f);
        fleet_write_tidy(f);
        if (f->commands.state == LINK_UP)
            fleet_tidy(f);
    }
    if (f->commands.state == LINK_UP && f->engine_timed && now >= f->time_sent_ms + FLEET_TRIM_MS)
        fleet_trim_engines(f);
    if (f->commands.state == LINK_UP && f->engine_timed && now >= f->time_sent_ms + FLEET_TRIM_MS)
        fleet_ask_time(f); /* clocks go unequally */
}

static void
fleet_due(struct fleet *f)
{
    uint64_t now = fleet_now(f);

    if (f->distrust_due && f->state == FLEET_IN)
        fleet_distrust(f, "once more");
    if (f->state == FLEET_APART && now >= f->claim_ms && f->engine_timed)
        fleet_claim(f);
    if (fleet_may_report(f) &&
        (f->report_due || now >= f->report_sent_ms + (uint64_t)f->env.conf->max_blind / 10 ||
            now >= f->report_sent_ms + 1000))
        fleet_report(f);
    if (f->commands.state == LINK_UP)
        fleet_write(f);
    if (f->commands.state == LINK_UP)
        fleet_due_seldom(f);
    /* Our place may not become older than what is kept. */
    if (f->commands.state == LINK_UP && f->state == FLEET_IN &&
        fleet_engine_ms(f) > f->position.ms + (uint64_t)f->env.conf->log_age / 4 &&
        now > f->hello_ms + 10000)
        fleet_send_hello(f);
    if (f->commands.state == LINK_UP)
        fleet_poll(f);
}

static void
fleet_work_commands(struct fleet *f)
{
    bool up = link_work(&f->commands);

    if (up && !f->commands_were_up)
        fleet_commands_began(f);
    if (up)
        fleet_take_all(f, &f->commands);
    up = f->commands.state == LINK_UP;
    if (up)
        fleet_due(f);
    f->commands_were_up = f->commands.state == LINK_UP;
}

/* Only from where it stands, of the engine that it reports to. */
static void
fleet_work_reading(struct fleet *f)
{
    if (f->state != FLEET_IN || f->commands.state != LINK_UP || !f->anchored)
        return;
    if (!link_work(&f->reading)) {
        f->reading_was_up = false;
        return;
    }
    if (strcmp(f->reading.incarnation, f->commands.incarnation) != 0) {
        link_fail(&f->reading, "it is another engine than the one that commands go to");
        f->reading_was_up = false;
        return;
    }
    if (!f->reading_was_up)
        f->reads = false;
    f->reading_was_up = true;
    fleet_take_all(f, &f->reading);
    if (f->reading.state == LINK_UP && !f->reads && f->state == FLEET_IN)
        fleet_read(f);
    f->reading_was_up = f->reading.state == LINK_UP;
}

static void
fleet_run(struct task *t)
{
    struct fleet *f = container_of(t, struct fleet, task);
    uint64_t tick = 100;

    OBJ_CHECK(f, FLEET_MAGIC);
    fleet_look_at_lease(f);
    fleet_work_commands(f);
    fleet_work_reading(f);
    if (f->commands.state != LINK_UP)
        fleet_show_nodes(f);
    /* What was read is reported in the same turn. */
    if (fleet_may_report(f) && f->report_due)
        fleet_report(f);
    fleet_show_place(f);
    fleet_keep_state(f);
    fleet_proofs_tick(f);
    fleet_watches_tick(f);
    fleet_shared_tick(f);
    fleet_check(f);
    if (fleet_proofs_wait(f) || fleet_shared_waits(f))
        tick = TIMER_TICK_MS;
    timer_set(&f->env.loop->wheel, &f->timer, fleet_now(f) + tick);
}

/* ---- its life ---- */

static void
fleet_open_link(struct fleet *f, struct link *k, const char *what)
{
    k->loop = f->env.loop;
    k->conf = f->env.conf;
    k->secure = f->env.secure;
    k->resolver = f->resolver;
    k->task = &f->task;
    k->what = what;
    link_init(k);
}

int
fleet_open(struct fleet **out, const struct fleet_env *env)
{
    struct fleet *f = calloc(1, sizeof(*f));
    const struct conf_fleet *conf = env->conf;
    uint64_t epoch;
    int err;

    if (f == NULL)
        return TERR_NOMEM;
    f->nodes = calloc(FLEET_NODES_MAX, sizeof(*f->nodes));
    if (f->nodes == NULL || getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch)) {
        free(f->nodes);
        free(f);
        return TERR_NOMEM;
    }
    f->magic = FLEET_MAGIC;
    f->env = *env;
    f->state = FLEET_APART;
    task_init(&f->task, &env->loop->tasks, fleet_run);
    err = fleet_open_state(f);
    f->missed = f->before.position;
    if (err == 0)
        err = resolver_open(&f->resolver, env->loop, &f->task, env->name_servers);
    if (err != 0) {
        if (f->state_fd >= 0)
            close(f->state_fd);
        free(f->nodes);
        OBJ_FREE(f);
        return err;
    }
    f->guard_ms = conf->max_blind + conf->max_blind / 8 + 500; /* clocks go unequally */
    f->guard_max_ms = f->guard_ms;
    f->mature_ms = TIMER_NEVER;
    snprintf(f->epoch, sizeof(f->epoch), "%016" PRIx64, epoch);
    snprintf(f->log_key, FLEET_KEY_MAX, "%s:{%s}:log", conf->key_prefix, conf->name);
    snprintf(f->nodes_key, FLEET_KEY_MAX, "%s:{%s}:nodes", conf->key_prefix, conf->name);
    snprintf(
        f->node_key, FLEET_KEY_MAX, "%s:{%s}:node:%s", conf->key_prefix, conf->name, conf->node);
    snprintf(f->secret_key, FLEET_KEY_MAX, "%s:{%s}:secret", conf->key_prefix, conf->name);
    snprintf(f->count_text, sizeof(f->count_text), "%" PRId64, conf->log_entries);
    list_init(&f->unlogged);
    list_init(&f->recent);
    list_init(&f->waits);
    list_init(&f->watches);
    timer_init(&f->timer, &f->task);
    fleet_open_link(f, &f->commands, "commands");
    fleet_open_link(f, &f->reading, "reading");
    f->apart_ms = (int64_t)fleet_now(f);
    counter_add_shared(env->counters, COUNTER_fleet_member, 1);
    fleet_show_lease(f);
    task_wake(&f->task);
    *out = f;
    return 0;
}

void
fleet_close(struct fleet **fp)
{
    struct fleet *f;

    OBJ_TAKE(f, fp, FLEET_MAGIC);
    tassert(list_empty(&f->waits) && list_empty(&f->watches));
    if (f->state != FLEET_RETIRED)
        counter_add_shared(f->env.counters, COUNTER_fleet_member, UINT64_MAX /* less by one */);
    f->state = FLEET_RETIRED;
    fleet_show_nodes(f);
    link_close(&f->commands);
    link_close(&f->reading);
    resolver_close(&f->resolver);
    timer_unlink(&f->timer);
    task_cancel(&f->task);
    fleet_write_forget(f);
    fleet_shared_close(f);
    if (f->state_fd >= 0)
        close(f->state_fd);
    free(f->nodes);
    OBJ_FREE(f);
}
