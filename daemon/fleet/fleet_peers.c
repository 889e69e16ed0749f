/* fleet_peers.c -- what nodes know of each other, to ask each other for objects: address, policy, place, secret. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/hash.h"
#include "daemon/base/hex.h"
#include "daemon/fleet/fleet_priv.h"
#include "daemon/log/elog.h"

void
fleet_say(struct fleet *f, const char *address, uint64_t policy)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    tassert(strlen(address) <= FLEET_ADDRESS_MAX);
    if (f->says && f->policy == policy && strcmp(f->address, address) == 0)
        return;
    f->says = true;
    f->policy = policy;
    snprintf(f->address, sizeof(f->address), "%s", address);
    f->report_due = f->state == FLEET_IN;
    task_wake(&f->task);
}

const char *
fleet_secret(const struct fleet *f)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    return f->secret;
}

/* It had none, or has lost it: one of ours, unless another node is faster.  What counts is what the next look finds. */
static void
fleet_give_secret(struct fleet *f)
{
    char text[2 * FLEET_SECRET_BYTES];
    uint8_t bytes[FLEET_SECRET_BYTES];
    struct slice words[] = {
        SLICE_LIT("SET"), slice_str(f->secret_key), slice_of(text, sizeof(text)), SLICE_LIT("NX")};

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return;
    hex_put(text, bytes, sizeof(bytes));
    if (f->secret[0] != '\0') /* then those of other nodes need not change */
        memcpy(text, f->secret, sizeof(text));
    link_send(&f->commands, TAG_SECRET, words, ARRAY_LEN(words));
}

/* To SET NX: the key was there meanwhile, of another node, or of a type that MGET shows as nothing. */
void
fleet_take_given(struct fleet *f, const struct engine_reply *r)
{
    f->secret_refused = engine_reply_type(r) == ENGINE_NIL;
}

/* Said once, until there is a secret again. */
static void
fleet_miss_secret(struct fleet *f)
{
    if (f->secret_why[0] != '\0')
        return;
    snprintf(f->secret_why, sizeof(f->secret_why),
        "the key '%s' in the engine is no secret that nodes write: a node that knows none does not "
        "ask the others. DEL it, and the nodes write another",
        f->secret_key);
    elog(ELOG_ERROR, "fleet: %s", f->secret_why);
}

void
fleet_take_secret(struct fleet *f, const struct engine_reply *r)
{
    struct slice text = engine_reply_text(r);
    uint8_t bytes[FLEET_SECRET_BYTES];
    bool none = engine_reply_type(r) == ENGINE_NIL;

    if (none)
        fleet_give_secret(f);
    if (none && !f->secret_refused)
        return;
    if (text.len != 2 * sizeof(bytes) || !hex_take(bytes, text)) {
        fleet_miss_secret(f);
        return;
    }
    if (f->secret_why[0] != '\0')
        elog(ELOG_INFO, "fleet: the key '%s' is a secret again", f->secret_key);
    f->secret_why[0] = '\0';
    f->secret_refused = false;
    snprintf(f->secret, sizeof(f->secret), "%.*s", (int)text.len, text.ptr);
}

/* A lease lasts for max_blind from a reading that found its place; the guard time is longer. */
void
fleet_be_alone(struct fleet *f)
{
    f->alone_ms = fleet_now(f) + (uint64_t)f->guard_max_ms;
}

static void
fleet_show(struct fleet *f, bool has, struct fleet_id id)
{
    const char *engine = f->commands.incarnation;
    bool good = f->state == FLEET_IN && f->trusts && f->anchored && engine[0] != '\0' &&
                (has || fleet_now(f) >= f->alone_ms);

    if (f->env.place != NULL)
        f->env.place(f->env.place_ctx, has, good ? hash_plain(engine, strlen(engine)) | 1 : 0, id);
}

void
fleet_show_wants(struct fleet *f, struct fleet_id id)
{
    fleet_show(f, false, id);
}

/* What has been read may not be confirmed yet (fleet_take_place), and counts for what is wanted. */
void
fleet_show_place(struct fleet *f)
{
    bool ahead = f->state == FLEET_IN && f->reads && fleet_id_compare(f->read_to, f->position) > 0;

    if (f->state == FLEET_IN && fleet_id_compare(f->position, f->last_own) >= 0)
        atomic_store(&f->own_behind, false);
    fleet_show(f, true, f->position);
    fleet_show(f, false, ahead ? f->read_to : f->position);
}
