/* admin_shared.c -- what all nodes of the fleet are to have alike: policies, parameters, tables, answers to CAs.
 *
 * A thing is written into the engine, and every node says whether it has taken it (fleet/fleet_shared.h); the answer waits
 * for that.
 *
 *   policy      tried -> used                      every living node has compiled it, then all use it; the one that
 *                                                  was in use is the way back, unless it is the same
 *               tried -> refused, or too late      it is forgotten, and no node has used it
 *   policy      used, and refused by a node        the one of before is set again, and its way back
 *   parameter   set, and refused by a node         the value of before is set again
 *   table       set, and refused by a node         the others have it: the answer says who has not
 *   taken back  an empty text is set               every node has gone back to its own
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/conf_params.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/fleet_shared.h"
#include "daemon/policy/policies.h"
#include "daemon/proxy/challenges.h"
#include "daemon/table/table_load.h"
#include "daemon/table/table_view.h"
#include "vcl-lite/vcl.h"

enum {
    SHARED_TIMEOUT_MS = 10000, /* unless the query says another; a policy is compiled meanwhile */
    SHARED_TIMEOUT_MAX_MS = 600000,
    SHARED_WHY_MAX = 320,
};

#define THING_POLICY    "policy"
#define THING_TRY       "policy/try/%s" /* of this node */
#define THING_BEFORE    "policy/before"
#define THING_CHALLENGE "challenge/" /* as in manage_shared.c */
#define THING_ALPN      THING_CHALLENGE CHALLENGE_TLS

enum shared_step {
    SHARED_TRY, /* a policy: does every node compile it? */
    SHARED_SET,
    SHARED_UNSET, /* an empty text: each node goes back to its own */
    SHARED_END,   /* the same, and the engine forgets it then: the next one has another name */
};

struct shared_call {
    struct fleet_shared_wait wait;
    enum shared_step step;
    uint64_t timeout_ms;
    struct slice text; /* TRY: owned; what is set when no node refuses */
    char *before; /* SET: owned; what was there before, "": nothing; NULL: it is not taken back */
    char *
        way_back; /* SET, of a policy: owned; the text of policy/before that was replaced; NULL: it was not */
};

/* ---- what there is ---- */

static json_t *
shared_nodes_json(struct fleet *f, const char *name, const char *version)
{
    static const char *const words[] = {[FLEET_THING_SILENT] = "silent",
        [FLEET_THING_TAKEN] = "taken",
        [FLEET_THING_REFUSED] = "refused"};
    struct fleet_node_status s;
    json_t *list = json_array();
    char why[FLEET_THING_WHY_MAX];

    for (unsigned i = 0; fleet_node_status(f, i, &s); i++) {
        json_t *o = json_object();

        json_put_text(o, "node", s.name);
        json_put(o, "lives", json_boolean(s.lives));
        json_put_text(o, "state", words[fleet_thing_at(f, i, name, version, why)]);
        json_put(o, "why", why[0] != '\0' ? json_any_text(slice_str(why)) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

void
admin_do_fleet_shared(struct admin_call *c)
{
    struct fleet *f = admin_fleet(c);
    struct fleet_thing_status s;
    json_t *o, *list;

    if (f == NULL)
        return;
    o = json_object();
    list = json_array();
    for (unsigned i = 0; fleet_thing_status(f, i, &s); i++) {
        json_t *thing = json_object();

        json_put(thing, "name", json_any_text(slice_str(s.name)));
        json_put_text(thing, "version", s.version);
        json_put(thing, "removed", json_boolean(s.is_empty));
        json_put(thing, "nodes", shared_nodes_json(f, s.name, s.version));
        json_array_append_new(list, thing);
    }
    json_put(o, "shared", list);
    json_put_text(o, "why", fleet_shared_trouble(f));
    admin_answer(c, 200, o);
}

/* ---- what is changed at this node alone ---- */

const char *
admin_shared_text(const struct admin_call *c, const char *thing)
{
    const struct admin_env *env = &c->admin->env;

    return env->fleet != NULL ? env->host->shared_text(env->host_ctx, thing) : NULL;
}

void
admin_note_shared(struct admin_call *c, const char *thing, const char *has, const char *command)
{
    struct fleet *f = c->admin->env.fleet;
    struct fleet_thing_status s;
    char text[FLEET_THING_NAME_MAX + 256];

    if (f == NULL || c->status != 200)
        return;
    for (unsigned i = 0; fleet_thing_status(f, i, &s); i++) {
        if (strcmp(s.name, thing) != 0 || s.is_empty)
            continue;
        snprintf(text, sizeof(text),
            "this node alone: the fleet has %.100s, and `tarnctl fleet %s` changes it everywhere",
            has != NULL ? has : "one of its own", command);
        json_put(c->json, "note", json_any_text(slice_str(text)));
    }
}

/* ---- waiting for the nodes ---- */

static void
shared_call_leave(struct admin_call *c)
{
    struct shared_call *call = c->waits;
    bool ends = call->step == SHARED_END && call->wait.outcome != FLEET_SHARED_REPLACED;

    /* A try: the client has gone, or tarnd ends, and it would stay. */
    if (call->wait.task != NULL &&
        (ends || (call->step == SHARED_TRY && call->wait.outcome == FLEET_SHARED_WAITS)))
        fleet_unshare(c->admin->env.fleet, call->wait.name);
    fleet_shared_wait_end(c->admin->env.fleet, &call->wait);
    free((char *)(uintptr_t)call->text.ptr);
    free(call->before);
    free(call->way_back);
    free(call);
    c->waits = NULL;
}

/* What is wrong with the engine; `none` where that is over. */
static const char *
shared_engine_why(const struct fleet *f, const char *none)
{
    const char *why;

    if (fleet_is_up(f, &why))
        why = fleet_shared_trouble(f);
    return why != NULL && why[0] != '\0' ? why : none;
}

/* 0, and it is sent; else answered. */
static int
shared_send(
    struct admin_call *c, const char *name, struct slice text, char version[FLEET_VERSION_MAX])
{
    struct fleet *f = c->admin->env.fleet;
    int err = fleet_share(f, name, text, version);

    if (err == TERR_LIMIT) {
        admin_fail(c, 413, NULL, "%d bytes and %d things are the most that a fleet shares",
            (int)FLEET_THING_BYTES_MAX, (int)FLEET_THINGS_MAX);
    } else if (err != 0) {
        admin_fail(c, 503, NULL,
            "the fleet's engine cannot be reached, or refuses: %s; nothing was done",
            shared_engine_why(f, "this node is not in step yet"));
    }
    return err;
}

/* What the nodes say is wrong; with `silent` also which have said nothing. */
static json_t *
shared_errors_json(struct fleet *f, const char *name, const char *version, bool silent)
{
    char why[FLEET_THING_WHY_MAX], text[FLEET_THING_WHY_MAX + 80];
    struct fleet_node_status s;
    json_t *list = json_array();

    for (unsigned i = 0; fleet_node_status(f, i, &s); i++) {
        enum fleet_thing_said said = fleet_thing_at(f, i, name, version, why);
        json_t *o;

        if (!s.lives || said == FLEET_THING_TAKEN || (said == FLEET_THING_SILENT && !silent))
            continue;
        o = json_object();
        snprintf(text, sizeof(text), "node %s: %s", s.name,
            said == FLEET_THING_SILENT ? "it has said nothing yet" : why);
        json_put(o, "message", json_any_text(slice_str(text)));
        json_array_append_new(list, o);
    }
    return list;
}

static void
shared_fail(struct admin_call *c, unsigned status, const char *text)
{
    struct shared_call *call = c->waits;
    json_t *o = json_object();

    json_put_text(o, "error", text);
    json_put(o, "errors",
        shared_errors_json(c->admin->env.fleet, call->wait.name, call->wait.version,
            call->wait.outcome == FLEET_SHARED_LATE));
    json_put_text(o, "version", call->wait.version);
    json_put(
        o, "nodes", shared_nodes_json(c->admin->env.fleet, call->wait.name, call->wait.version));
    admin_answer(c, status, o);
}

static void
shared_done(struct admin_call *c, unsigned status, const char *why)
{
    struct shared_call *call = c->waits;
    json_t *o = json_object();

    json_put_text(o, call->step >= SHARED_UNSET ? "removed" : "shared", call->wait.name);
    json_put_text(o, "version", call->wait.version);
    json_put(o, "all", json_boolean(status == 200));
    if (why != NULL)
        json_put_text(o, "why", why);
    json_put(
        o, "nodes", shared_nodes_json(c->admin->env.fleet, call->wait.name, call->wait.version));
    admin_answer(c, status, o);
}

static void
shared_put_back(struct fleet *f, const char *name, const char *before)
{
    char version[FLEET_VERSION_MAX];

    if (before != NULL && before[0] != '\0')
        fleet_share(f, name, slice_str(before), version);
    else if (before != NULL)
        fleet_unshare(f, name);
}

static void
shared_take_back(struct admin_call *c)
{
    struct shared_call *call = c->waits;
    struct fleet *f = c->admin->env.fleet;

    shared_put_back(f, THING_BEFORE, call->way_back);
    shared_put_back(f, call->wait.name, call->before);
}

/* As for proofs. */
static const char *
shared_why_late(const struct admin_call *c, const char *why)
{
    struct fleet_status s;

    fleet_status(c->admin->env.fleet, &s);
    return s.proofs_in_ms > 0
               ? "the engine is new, or has lost what it had: it may not know a node that lives, "
                 "until max_blind has passed"
               : why;
}

static void
shared_fail_lost(struct admin_call *c)
{
    char text[FLEET_THING_WHY_MAX + 160];

    snprintf(text, sizeof(text),
        "the engine has not confirmed it: %s; GET /v1/fleet/shared shows whether it is there",
        shared_engine_why(c->admin->env.fleet, "it did not answer in time, or was lost meanwhile"));
    shared_fail(c, 503, text);
}

static void
shared_set_outcome(struct admin_call *c)
{
    struct shared_call *call = c->waits;

    switch (call->wait.outcome) {
    case FLEET_SHARED_WAITS:
        return;
    case FLEET_SHARED_TAKEN:
        shared_done(c, 200, NULL);
        return;
    case FLEET_SHARED_LATE:
        shared_done(c, 202,
            shared_why_late(c,
                "not every node has taken it in that time; the others will, at their "
                "next look"));
        return;
    case FLEET_SHARED_REPLACED:
        shared_fail(c, 409, "another one was set meanwhile");
        return;
    case FLEET_SHARED_LOST:
        shared_fail_lost(c);
        return;
    case FLEET_SHARED_REFUSED:
        shared_take_back(c);
        shared_fail(c, 422,
            call->before != NULL ? "a node refuses it: what was there before counts again"
                                 : "a node refuses it; those that say taken have it");
        return;
    }
}

/* What this node has of the thing; "": nothing.  Owned; NULL: no memory. */
static char *
shared_before(const struct admin_call *c, const char *name)
{
    const char *text = admin_shared_text(c, name);

    return strdup(text != NULL ? text : "");
}

/* The policy in use gets to be the one before.  0; else answered. */
static int
shared_keep_way_back(struct admin_call *c)
{
    struct shared_call *call = c->waits;
    char version[FLEET_VERSION_MAX];

    call->before = shared_before(c, THING_POLICY);
    if (call->before == NULL) {
        admin_fail_terr(c, TERR_NOMEM, THING_POLICY);
        return TERR_NOMEM;
    }
    /* The same once more has the same one before it. */
    if (call->before[0] == '\0' || slice_eq(slice_str(call->before), call->text))
        return 0;
    call->way_back = shared_before(c, THING_BEFORE);
    return shared_send(c, THING_BEFORE, slice_str(call->before), version);
}

/* Every node has compiled it. */
static void
shared_use_tried(struct admin_call *c)
{
    struct shared_call *call = c->waits;
    struct fleet *f = c->admin->env.fleet;
    char tried[FLEET_THING_NAME_MAX + 1];

    memcpy(tried, call->wait.name, sizeof(tried));
    if (shared_keep_way_back(c) != 0 ||
        shared_send(c, THING_POLICY, call->text, call->wait.version) != 0)
        return;
    fleet_unshare(f, tried);
    call->step = SHARED_SET;
    snprintf(call->wait.name, sizeof(call->wait.name), "%s", THING_POLICY);
    call->wait.deadline_ms = loop_deadline(c->admin->env.loop, (int64_t)call->timeout_ms);
    fleet_shared_wait_start(f, &call->wait);
}

static void
shared_try_outcome(struct admin_call *c)
{
    struct shared_call *call = c->waits;

    if (call->wait.outcome == FLEET_SHARED_WAITS)
        return;
    if (call->wait.outcome == FLEET_SHARED_TAKEN) {
        shared_use_tried(c);
        return;
    }
    if (call->wait.outcome == FLEET_SHARED_REFUSED)
        shared_fail(c, 422, "a node cannot compile it: no node uses it");
    else if (call->wait.outcome == FLEET_SHARED_LATE)
        shared_fail(c, 503,
            shared_why_late(c, "not every node has compiled it in that time: no node uses it"));
    else if (call->wait.outcome == FLEET_SHARED_LOST)
        shared_fail_lost(c);
    else
        shared_fail(c, 409, "another policy is tried at this node: no node uses this one");
    if (call->wait.outcome != FLEET_SHARED_REPLACED)
        fleet_unshare(c->admin->env.fleet, call->wait.name);
}

static void
shared_call_resume(struct admin_call *c)
{
    struct shared_call *call = c->waits;

    if (call->step == SHARED_TRY)
        shared_try_outcome(c);
    else
        shared_set_outcome(c);
}

/* Takes text's memory and before's.  Answered, or it is later. */
static void
shared_begin(
    struct admin_call *c, enum shared_step step, const char *name, struct slice text, char *before)
{
    static const struct admin_arg args[] = {
        {"timeout_ms", 10, 0, SHARED_TIMEOUT_MAX_MS, NULL}, {NULL, 0, 0, 0, NULL}};
    uint64_t timeout = SHARED_TIMEOUT_MS;
    struct shared_call *call = calloc(1, sizeof(*call));

    if (call != NULL)
        *call = (struct shared_call){.step = step, .text = text, .before = before};
    if (call == NULL || text.ptr == NULL) {
        free((char *)(uintptr_t)text.ptr);
        free(before);
        free(call);
        admin_fail_terr(c, TERR_NOMEM, name);
        return;
    }
    list_init(&call->wait.link);
    c->waits = call;
    c->leave = shared_call_leave;
    if (memchr(text.ptr, '\0', text.len) != NULL) { /* nodes keep texts as C has them */
        admin_fail(c, 400, NULL, "it has a NUL in it");
        return;
    }
    if (!admin_args(c, args, &timeout) || shared_send(c, name, text, call->wait.version) != 0)
        return;
    call->timeout_ms = timeout;
    call->wait.task = c->task;
    call->wait.deadline_ms = loop_deadline(c->admin->env.loop, (int64_t)timeout);
    snprintf(call->wait.name, sizeof(call->wait.name), "%s", name);
    c->resume = shared_call_resume;
    fleet_shared_wait_start(c->admin->env.fleet, &call->wait);
}

/* "FRONT\nTEXT", owned; .ptr NULL: no memory. */
static struct slice
shared_join(const char *front, struct slice text)
{
    size_t len = strlen(front);
    char *p = malloc(len + text.len + 2);

    if (p == NULL)
        return slice_of(NULL, 0);
    memcpy(p, front, len);
    p[len] = '\n';
    memcpy(p + len + 1, text.ptr, text.len);
    p[len + 1 + text.len] = '\0';
    return slice_of(p, len + 1 + text.len);
}

static struct slice
shared_copy(struct slice text)
{
    char *p = malloc(text.len + 1);

    if (p == NULL)
        return slice_of(NULL, 0);
    if (text.len > 0)
        memcpy(p, text.ptr, text.len);
    p[text.len] = '\0';
    return slice_of(p, text.len);
}

/* "parameter/NAME"; false: answered. */
static bool
shared_name(struct admin_call *c, const char *kind, char out[FLEET_THING_NAME_MAX + 1])
{
    if (strpbrk(c->name, " \t\r\n") == NULL) {
        snprintf(out, FLEET_THING_NAME_MAX + 1, "%s%s", kind, c->name);
        return true;
    }
    admin_fail(c, 400, NULL, "'%s' has white space", c->name);
    return false;
}

/* ---- policies ---- */

/* Takes text's memory. */
static void
shared_try(struct admin_call *c, struct slice text)
{
    char name[FLEET_THING_NAME_MAX + 1];

    snprintf(name, sizeof(name), THING_TRY, c->admin->env.conf->fleet.node);
    shared_begin(c, SHARED_TRY, name, text, NULL);
}

void
admin_do_fleet_policy(struct admin_call *c)
{
    if (admin_fleet(c) == NULL)
        return;
    if (c->body.len == 0) {
        admin_fail(c, 400, "send the policy's text as the body", "the body is empty");
        return;
    }
    if (!policies_name_ok(c->name)) {
        admin_fail(
            c, 400, "a letter, then letters, digits, - and _", "'%.64s' is no name", c->name);
        return;
    }
    shared_try(c, shared_join(c->name, c->body));
}

void
admin_do_fleet_rollback(struct admin_call *c)
{
    struct fleet *f = admin_fleet(c);
    char *before, *now;

    if (f == NULL)
        return;
    before = shared_before(c, THING_BEFORE);
    now = shared_before(c, THING_POLICY);
    if (now != NULL && now[0] == '\0')
        admin_fail(c, 409, "PUT /v1/fleet/policies/NAME sets one",
            "the fleet has no policy: each node has its own");
    else if (before != NULL && before[0] != '\0')
        shared_try(c, shared_copy(slice_str(before)));
    else /* before it each node had its own */
        shared_begin(c, SHARED_SET, THING_POLICY, shared_copy(slice_of("", 0)),
            shared_before(c, THING_POLICY));
    free(before);
    free(now);
}

/* ---- parameters ---- */

/* Would it do here?  False: answered. */
static bool
shared_check_param(struct admin_call *c, const char *value)
{
    const struct admin_env *env = &c->admin->env;
    struct conf_params next = *env->host->params(env->host_ctx);
    int i = conf_param_find(slice_str(c->name));
    struct conf_param p;
    char why[256] = "";

    if (i < 0) {
        admin_fail(c, 404, "GET /v1/parameters lists them", "no parameter is named '%s'", c->name);
        return false;
    }
    conf_param_see(&next, (unsigned)i, &p);
    if (!p.live) {
        admin_fail(c, 409, "write it in tarn.yaml of each node",
            "%s cannot change while tarnd runs", p.name);
        return false;
    }
    if (value != NULL &&
        conf_param_set(&next, (unsigned)i, slice_str(value), why, sizeof(why)) != 0) {
        admin_fail(c, 400, p.type, "%s", why);
        return false;
    }
    return true;
}

void
admin_do_fleet_parameter(struct admin_call *c)
{
    static const char *const members[] = {"value", NULL};
    char name[FLEET_THING_NAME_MAX + 1], value[128];
    json_t *o;

    o = admin_body(c, members);
    if (o == NULL)
        return;
    if (!admin_param_text(json_object_get(o, "value"), value, sizeof(value)))
        admin_fail(c, 400, NULL, "the member 'value' must be text, a number or a switch");
    else if (admin_fleet(c) != NULL && shared_name(c, "parameter/", name) &&
             shared_check_param(c, value))
        shared_begin(c, SHARED_SET, name, shared_copy(slice_str(value)), shared_before(c, name));
    json_decref(o);
}

void
admin_do_fleet_parameter_unset(struct admin_call *c)
{
    char name[FLEET_THING_NAME_MAX + 1];

    if (admin_fleet(c) != NULL && shared_name(c, "parameter/", name) && shared_check_param(c, NULL))
        shared_begin(c, SHARED_UNSET, name, shared_copy(slice_of("", 0)), NULL);
}

/* ---- tables ---- */

void
admin_do_fleet_table(struct admin_call *c)
{
    const struct conf_table *t = conf_find_table(c->admin->env.conf, c->name);
    char name[FLEET_THING_NAME_MAX + 1], why[SHARED_WHY_MAX];
    enum table_kind kind;

    if (admin_fleet(c) == NULL || !shared_name(c, "table/", name))
        return;
    if (t == NULL) {
        admin_fail(c, 404, "GET /v1/tables lists them", "no table is named '%s'", c->name);
        return;
    }
    kind = table_kind_find(t->kind);
    if (table_check(kind == TABLE_ANY ? TABLE_MAP : kind, c->body, why, sizeof(why)) != 0) {
        admin_fail(c, 422, "an entry a line: a key and, behind white space, its value", "%s", why);
        return;
    }
    shared_begin(c, SHARED_SET, name,
        shared_join(kind == TABLE_ANY ? "" : table_kind_name(kind), c->body), NULL);
}

/* ---- answers to CAs ---- */

static void
shared_challenge(struct admin_call *c, const char *kind, const char *right)
{
    char name[FLEET_THING_NAME_MAX + 1];

    if (admin_fleet(c) == NULL || !shared_name(c, kind, name))
        return;
    if (!challenge_is_name(slice_str(name + sizeof(THING_CHALLENGE) - 1)) || c->body.len == 0 ||
        c->body.len > CHALLENGE_TEXT_MAX)
        admin_fail(c, 400, right, "this is no challenge");
    else
        shared_begin(c, SHARED_SET, name, shared_copy(c->body), strdup(""));
}

void
admin_do_fleet_challenge(struct admin_call *c)
{
    shared_challenge(c, THING_CHALLENGE,
        "a token of RFC 8555 8.1 in the path, what it is answered with as the body");
}

void
admin_do_fleet_alpn_challenge(struct admin_call *c)
{
    shared_challenge(c, THING_ALPN,
        "a host's name in lower case in the path, the certificate and its key as PEM in the body");
}

static void
shared_challenge_end(struct admin_call *c, const char *kind)
{
    char name[FLEET_THING_NAME_MAX + 1];

    if (admin_fleet(c) == NULL || !shared_name(c, kind, name))
        return;
    if (challenge_is_name(slice_str(name + sizeof(THING_CHALLENGE) - 1)))
        shared_begin(c, SHARED_END, name, shared_copy(slice_of("", 0)), NULL);
    else
        admin_fail(c, 400, NULL, "this is no challenge");
}

void
admin_do_fleet_challenge_end(struct admin_call *c)
{
    shared_challenge_end(c, THING_CHALLENGE);
}

void
admin_do_fleet_alpn_challenge_end(struct admin_call *c)
{
    shared_challenge_end(c, THING_ALPN);
}
