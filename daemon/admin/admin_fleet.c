/* admin_fleet.c -- the fleet: how it is; and invalidations that all nodes are to have.
 *
 * An invalidation is applied here, and written into the log, before it is answered.  With "wait": "all" the answer
 * waits for the proof, and names the nodes; by its token the proof can be asked for later, at any node. */
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/cache/invalidation.h"
#include "daemon/fleet/fleet.h"

enum {
    FLEET_TIMEOUT_MAX_MS = 600000,
};

static json_t *
fleet_id_json(struct fleet_id id)
{
    char text[FLEET_ID_TEXT_MAX];

    return fleet_id_is_none(id) ? json_null() : json_string(fleet_id_text(id, text).ptr);
}

/* ---- how it is ---- */

static json_t *
fleet_nodes_json(struct fleet *f)
{
    struct fleet_node_status s;
    json_t *list = json_array();

    for (unsigned i = 0; fleet_node_status(f, i, &s); i++) {
        json_t *o = json_object();

        json_put_text(o, "node", s.name);
        json_put(o, "self", json_boolean(s.is_self));
        if (s.address[0] != '\0') {
            json_put(o, "address", json_string(s.address));
            json_put(o, "can_be_asked", json_boolean(s.can_be_asked));
        }
        json_put_text(o, "state", fleet_health_word(s.health));
        json_put(o, "lives", json_boolean(s.lives));
        json_put(o, "in_step", json_boolean(s.in_step));
        json_put(o, "position", fleet_id_json(s.position));
        json_put(o, "moved_ms", json_integer(s.seen_ago_ms));
        json_array_append_new(list, o);
    }
    return list;
}

struct fleet *
admin_fleet(struct admin_call *c)
{
    if (c->admin->env.fleet == NULL)
        admin_fail(c, 404, "a section 'fleet' in the configuration", "this node is in no fleet");
    return c->admin->env.fleet;
}

void
admin_do_fleet(struct admin_call *c)
{
    const struct admin_env *env = &c->admin->env;
    struct fleet_status s;
    json_t *o;

    if (admin_fleet(c) == NULL)
        return;
    fleet_status(env->fleet, &s);
    o = json_object();
    json_put_text(o, "name", env->conf->fleet.name);
    json_put_text(o, "node", env->conf->fleet.node);
    json_put_text(o, "state", s.state);
    json_put_text(o, "engine", s.engine);
    json_put_text(o, "why", s.why);
    json_put(o, "trusts_ms", json_integer(s.trusts_ms));
    json_put(o, "position", fleet_id_json(s.position));
    json_put(o, "last", fleet_id_json(s.last));
    json_put(o, "queued", json_integer(s.queued));
    json_put(o, "proofs_in_ms", json_integer(s.proofs_in_ms));
    json_put(o, "nodes", fleet_nodes_json(env->fleet));
    admin_answer(c, 200, o);
}

/* ---- what an operator asks of an invalidation ---- */

static bool
fleet_ask_wait(struct admin_call *c, const json_t *wait)
{
    const char *text = json_string_value(wait);

    if (text != NULL && (strcmp(text, "all") == 0 || strcmp(text, "log") == 0)) {
        c->fleet.all = strcmp(text, "all") == 0;
        return true;
    }
    admin_fail(c, 400, "all: every node has applied it; log: it is written down for all",
        "the member 'wait' must be \"all\" or \"log\"");
    return false;
}

/* Without a fleet, or while its engine is away, only what says that it means this node alone is done. */
static bool
fleet_ask_possible(struct admin_call *c)
{
    const char *why;

    if (c->fleet.local || c->admin->env.fleet == NULL || fleet_is_up(c->admin->env.fleet, &why))
        return true;
    admin_fail(c, 503, "\"local\": true, or --local, does it at this node alone",
        "the fleet's engine cannot be reached: %s; nothing was done", why);
    return false;
}

bool
admin_fleet_asked(struct admin_call *c, const json_t *body)
{
    const json_t *wait = json_object_get(body, "wait");
    const json_t *local = json_object_get(body, "local");
    const json_t *timeout = json_object_get(body, "timeout_ms");
    const struct conf *conf = c->admin->env.conf;

    c->fleet = (struct admin_fleet_ask){.timeout_ms = conf->fleet.wait};
    if (c->admin->env.fleet == NULL && (wait != NULL || timeout != NULL)) {
        admin_fail(c, 400, "a section 'fleet' in the configuration",
            "this node is in no fleet: there is no node to wait for");
        return false;
    }
    if (wait != NULL && !fleet_ask_wait(c, wait))
        return false;
    if (local != NULL && !json_is_boolean(local)) {
        admin_fail(c, 400, NULL, "the member 'local' must be true or false");
        return false;
    }
    c->fleet.local = json_is_true(local);
    if (c->fleet.local && c->fleet.all) {
        admin_fail(c, 400, "one of them", "what is local is not waited for at all nodes");
        return false;
    }
    if (timeout != NULL && (!json_is_integer(timeout) || json_integer_value(timeout) < 1 ||
                               json_integer_value(timeout) > FLEET_TIMEOUT_MAX_MS)) {
        admin_fail(c, 400, NULL, "the member 'timeout_ms' must be a number from 1 to %d",
            FLEET_TIMEOUT_MAX_MS);
        return false;
    }
    if (timeout != NULL)
        c->fleet.timeout_ms = json_integer_value(timeout);
    return fleet_ask_possible(c);
}

int
admin_invalidate(
    struct admin_call *c, const struct invalidation *inv, struct invalidation_result *result)
{
    const struct admin_env *env = &c->admin->env;
    int err = c->fleet.local ? invalidation_apply(env->cache, inv, &env->loop->clock, result)
                             : invalidation_make(env->cache, inv, &env->loop->clock, result);

    c->fleet.ticket = result->ticket;
    return err;
}

/* ---- the answer, later ---- */

struct fleet_call {
    struct fleet_wait wait;
    unsigned status; /* of a success */
    json_t *answer;
};

static void
fleet_call_leave(struct admin_call *c)
{
    struct fleet_call *call = c->waits;

    fleet_wait_end(c->admin->env.fleet, &call->wait);
    json_decref(call->answer);
    free(call);
    c->waits = NULL;
}

static json_t *
fleet_seen_json(const struct fleet_wait *w)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < w->nseen; i++) {
        const struct fleet_seen *seen = &w->seen[i];
        json_t *o = json_object();

        json_put_text(o, "node", seen->name);
        json_put(o, "lives", json_boolean(seen->lives));
        json_put(o, "applied", json_boolean(seen->applied));
        json_put(o, "ms", seen->applied ? json_real((double)seen->after_us / 1000) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *
fleet_token_json(const struct fleet_wait *w)
{
    char text[FLEET_TOKEN_TEXT_MAX];

    return w->logged ? json_string(fleet_token_text(w->token, text).ptr) : json_null();
}

static void
fleet_call_resume(struct admin_call *c)
{
    struct fleet_call *call = c->waits;
    const struct fleet_wait *w = &call->wait;
    json_t *o = call->answer;

    if (w->outcome == FLEET_WAITS)
        return;
    if (!w->logged && w->ticket == 0) {
        admin_fail(c, 409, "purge again: that has a token of this engine", "%s", w->why);
        return;
    }
    json_put(o, "token", fleet_token_json(w));
    json_put_text(o, "proof", w->outcome == FLEET_PROVEN ? "all" : "none");
    if (w->why != NULL)
        json_put_text(o, "why", w->why);
    if (w->all)
        json_put(o, "nodes", fleet_seen_json(w));
    counter_add_shared(c->admin->env.counters,
        w->outcome == FLEET_PROVEN ? COUNTER_fleet_proven : COUNTER_fleet_unproven,
        w->all && w->ticket > 0 ? 1 : 0); /* a token is asked for again and again */
    call->answer = NULL;
    admin_answer(c,
        w->outcome == FLEET_PROVEN || w->outcome == FLEET_LOGGED ? call->status
        : w->outcome == FLEET_UNPROVEN                           ? 202
                                                                 : 503,
        o);
}

static void
fleet_call_begin(struct admin_call *c, struct fleet_call *call, unsigned status, json_t *answer)
{
    const struct admin_env *env = &c->admin->env;

    call->status = status;
    call->answer = answer;
    call->wait.task = c->task;
    call->wait.deadline_ms = loop_deadline(env->loop, c->fleet.timeout_ms);
    c->waits = call;
    c->resume = fleet_call_resume;
    c->leave = fleet_call_leave;
    fleet_wait_start(env->fleet, &call->wait);
}

void
admin_answer_logged(struct admin_call *c, unsigned status, json_t *answer)
{
    const struct admin_fleet_ask *ask = &c->fleet;
    const struct admin_env *env = &c->admin->env;
    struct fleet_call *call;

    if (c->waits != NULL) /* for its number, which is known now */
        c->leave(c);
    c->resume = NULL;
    c->leave = NULL;
    if (env->fleet == NULL || ask->local) {
        admin_answer(c, status, answer);
        return;
    }
    call = ask->ticket > 0 ? calloc(1, sizeof(*call)) : NULL;
    if (call == NULL) {
        json_put_text(answer, "proof", "none");
        json_put_text(answer, "why", "there is no room for it until the engine is there");
        admin_answer(c, 503, answer);
        return;
    }
    call->wait.ticket = ask->ticket;
    call->wait.all = ask->all;
    fleet_call_begin(c, call, status, answer);
}

/* GET /v1/fleet/proofs/TOKEN */
void
admin_do_fleet_proof(struct admin_call *c)
{
    const struct admin_env *env = &c->admin->env;
    static const struct admin_arg args[] = {
        {"timeout_ms", 10, 1, FLEET_TIMEOUT_MAX_MS, NULL}, {NULL, 0, 0, 0, NULL}};
    uint64_t timeout = (uint64_t)env->conf->fleet.wait;
    struct fleet_token token;
    struct fleet_call *call;
    const char *why;

    if (admin_fleet(c) == NULL || !admin_args(c, args, &timeout))
        return;
    if (!fleet_token_parse(slice_str(c->name), &token)) {
        admin_fail(c, 400, "as a purge was answered, like 1732790000000-0.5f3a9c21",
            "'%s' is not a token", c->name);
        return;
    }
    if (!fleet_is_up(env->fleet, &why)) {
        admin_fail(c, 503, NULL, "the fleet's engine cannot be reached: %s", why);
        return;
    }
    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        admin_fail_terr(c, TERR_NOMEM, c->name);
        return;
    }
    c->fleet.timeout_ms = (int64_t)timeout;
    call->wait.token = token;
    call->wait.all = true;
    fleet_call_begin(c, call, 200, json_object());
}
