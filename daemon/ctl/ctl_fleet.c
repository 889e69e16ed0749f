/* ctl_fleet.c -- nodes that share invalidations: how they are, and what became of an invalidation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl_commands.h"

/* tarnd looks at its nodes once a second while no purge waits for them. */
static const double FLEET_LOOK_S = 1.5;

static const char *
fleet_text(const json_t *o, const char *member)
{
    return json_string_value(json_object_get(o, member));
}

static double
fleet_s(const json_t *o, const char *member)
{
    return json_number_value(json_object_get(o, member)) / 1000;
}

/* ---- how it is ---- */

/* "1700000000000-3", as the engine's streams have it: milliseconds, and which one of them, which is all the same here. */
struct fleet_place {
    unsigned long long ms;
    bool known;
};

static struct fleet_place
fleet_place_of(const json_t *o, const char *member)
{
    const char *text = fleet_text(o, member);
    struct fleet_place p = {0, false};

    p.known = text != NULL && sscanf(text, "%llu-", &p.ms) == 1;
    return p;
}

static bool
fleet_node_is_well(const json_t *node)
{
    const char *state = fleet_text(node, "state");

    return state != NULL && strcmp(state, "in step") == 0;
}

static unsigned
fleet_count_bad(const json_t *o)
{
    const json_t *node;
    unsigned n = 0;
    size_t i;

    json_array_foreach(json_object_get(o, "nodes"), i, node) n += !fleet_node_is_well(node);
    return n;
}

static void
fleet_show_head(const json_t *o)
{
    const char *why = fleet_text(o, "why");
    double proofs_in = fleet_s(o, "proofs_in_ms");
    char left[24];

    ctl_seconds(left, fleet_s(o, "trusts_ms"));
    ctl_line(
        stdout, "%-12s %s, this node is %s", "fleet", fleet_text(o, "name"), fleet_text(o, "node"));
    ctl_line(stdout, "%-12s %s", "engine", fleet_text(o, "engine"));
    if (fleet_s(o, "trusts_ms") > 0)
        ctl_line(stdout, "%-12s %s, trusts what it has stored for %s", "state",
            fleet_text(o, "state"), left);
    else
        ctl_line(
            stdout, "%-12s %s, trusts nothing that it has stored", "state", fleet_text(o, "state"));
    if (why != NULL && why[0] != '\0')
        ctl_line(stdout, "%-12s %s", "why", why);
    if (json_integer_value(json_object_get(o, "queued")) > 0)
        ctl_line(stdout, "%-12s %lld invalidations are not in the log yet", "queued",
            (long long)json_integer_value(json_object_get(o, "queued")));
    ctl_seconds(left, proofs_in);
    if (why != NULL && why[0] != '\0' && (fleet_s(o, "trusts_ms") <= 0 || proofs_in > 0))
        ctl_line(stdout, "%-12s none while that is so", "proofs");
    else if (proofs_in > 0)
        ctl_line(stdout, "%-12s none for %s: the engine is new", "proofs", left);
}

/* Where it answers other nodes, if this one may ask it. */
static void
fleet_show_peer(struct ctl_table *t, const json_t *node)
{
    const char *address = fleet_text(node, "address");
    bool asked = json_is_true(json_object_get(node, "can_be_asked"));

    if (address == NULL)
        ctl_cell(t, "off");
    else if (asked || json_is_true(json_object_get(node, "self")))
        ctl_cell(t, "%s", address);
    else
        ctl_cell(t, "not asked");
}

static void
fleet_show_node(struct ctl_table *t, const json_t *node, struct fleet_place to)
{
    struct fleet_place at = fleet_place_of(node, "position");
    char text[24];

    ctl_cell(t, "%s%s", fleet_text(node, "node"),
        json_is_true(json_object_get(node, "self")) ? " (this)" : "");
    ctl_cell_of(t, node, "state");
    ctl_cell_of(t, node, "position");
    ctl_seconds(text, at.ms < to.ms ? (double)(to.ms - at.ms) / 1000 : 0);
    ctl_cell(t, "%s", at.known && to.known ? text : "-");
    ctl_seconds(text, fleet_s(node, "moved_ms"));
    if (at.known)
        ctl_cell(t, "%s ago", text);
    else
        ctl_cell(t, "-");
    fleet_show_peer(t, node);
}

static void
fleet_show(const json_t *o)
{
    static const char *const headings[] = {
        "NODE", "STATE", "POSITION", "LAG", "MOVED", "PEER", NULL};
    struct fleet_place to = fleet_place_of(o, "last");
    const json_t *node;
    struct ctl_table t;
    size_t i;

    fleet_show_head(o);
    puts("");
    ctl_table_begin(&t, headings);
    json_array_foreach(json_object_get(o, "nodes"), i, node) fleet_show_node(&t, node, to);
    ctl_table_end(&t, "no node is known yet");
}

static int
fleet_judge(const json_t *o)
{
    const json_t *node;
    int rc = CTL_DONE;
    size_t i;

    if (fleet_s(o, "trusts_ms") <= 0) {
        const char *why = fleet_text(o, "why");

        ctl_say("this node trusts nothing that it has stored%s%s",
            why != NULL && why[0] != '\0' ? ": " : "", why != NULL ? why : "");
        rc = CTL_REFUSED;
    }
    json_array_foreach(json_object_get(o, "nodes"), i, node)
    {
        const char *state = fleet_text(node, "state");

        if (fleet_node_is_well(node))
            continue;
        ctl_say("node %s: %s", fleet_text(node, "node"), state != NULL ? state : "-");
        rc = CTL_REFUSED;
    }
    return rc;
}

int
ctl_fleet(struct ctl *c)
{
    bool json = c->json;
    json_t *o;
    int rc;

    if (c->nargs > 0 && strcmp(c->args[0], "status") != 0) {
        ctl_say("fleet %s: there is `tarnctl fleet status`, or `tarnctl fleet` for short; `tarnctl "
                "help "
                "fleet` lists the others",
            c->args[0]);
        return CTL_USAGE;
    }
    rc = ctl_ask(c, "GET", "/v1/fleet", NULL, &o);
    if (rc != CTL_DONE)
        return rc;
    if (fleet_count_bad(o) > 0) {
        /* Once more: it may be joining.  What is printed as JSON stays the first answer. */
        json_decref(o);
        ctl_pause(FLEET_LOOK_S);
        c->json = false;
        rc = ctl_ask(c, "GET", "/v1/fleet", NULL, &o);
    }
    if (rc == CTL_DONE && !json)
        fleet_show(o);
    if (rc == CTL_DONE)
        rc = fleet_judge(o);
    json_decref(o);
    return rc;
}

/* ---- what is asked of an invalidation ---- */

/* "5s", "300ms", "1m" in milliseconds; -1: it is none. */
static long long
fleet_ms(const char *text)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}};
    char *end;
    double n = strtod(text, &end);

    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && n * units[i].ms >= 1 &&
            n * units[i].ms <= CTL_TIMEOUT_MAX_MS)
            return (long long)(n * units[i].ms);
    return -1;
}

/* --timeout; -1: said to be wrong. */
static long long
fleet_timeout(const struct ctl *c)
{
    long long ms = fleet_ms(c->timeout);

    if (ms < 0)
        ctl_say("--timeout %s: a time with its unit, as 5s or 300ms, from 1ms to 10m", c->timeout);
    return ms;
}

int
ctl_fleet_path(struct ctl *c, const char *prefix, const char *name, char **out)
{
    char *path = name != NULL ? ctl_path(prefix, name) : strdup(prefix), *longer;
    long long ms = 10000;

    *out = NULL;
    if (name != NULL && name[0] == '\0') {
        ctl_say("the name or token is empty");
        free(path);
        return CTL_USAGE;
    }
    if (c->timeout != NULL)
        ms = fleet_timeout(c);
    if (ms < 0) {
        free(path);
        return CTL_USAGE;
    }
    c->patience_ms = ms;
    if (path == NULL || asprintf(&longer, "%s?timeout_ms=%lld", path, ms) < 0)
        longer = NULL;
    free(path);
    *out = longer; /* NULL: ctl_ask() says so */
    return CTL_DONE;
}

int
ctl_fleet_ask(struct ctl *c, json_t *body)
{
    if (c->wait && (c->wait_for == NULL ||
                       (strcmp(c->wait_for, "all") != 0 && strcmp(c->wait_for, "log") != 0))) {
        ctl_say(
            "--wait %s: all, for every node to have applied it; or log, for it to be in the log",
            c->wait_for != NULL ? c->wait_for : "");
        return CTL_USAGE;
    }
    if (c->timeout != NULL) {
        long long ms = fleet_timeout(c);

        if (ms < 0)
            return CTL_USAGE;
        c->patience_ms = ms;
        json_object_set_new(body, "timeout_ms", json_integer(ms));
    } else if (c->wait) {
        c->patience_ms = CTL_WAIT_MAX_MS;
    }
    if (c->wait)
        json_object_set_new(body, "wait", json_string(c->wait_for));
    if (c->local)
        json_object_set_new(body, "local", json_true());
    return CTL_DONE;
}

/* Which nodes have not applied it.  `lives`: the engine knows it, so it may serve what it has stored. */
static void
fleet_say_missing(const json_t *o)
{
    const json_t *node;
    size_t i;

    json_array_foreach(
        json_object_get(o, "nodes"), i, node) if (!json_is_true(json_object_get(node, "applied")) &&
                                                  json_is_true(json_object_get(node, "lives")))
        ctl_line(stderr, "    node %s has not", fleet_text(node, "node"));
}

static void
fleet_show_proof(const json_t *o)
{
    const json_t *node;
    double slowest = 0;
    size_t i, n = 0;

    json_array_foreach(json_object_get(o, "nodes"), i, node)
    {
        double ms = json_number_value(json_object_get(node, "ms"));

        n += json_is_true(json_object_get(node, "applied"));
        slowest = ms > slowest ? ms : slowest;
    }
    printf("every node has applied it: %zu of them, the last after %.1f ms\n", n, slowest);
}

/* Of what all nodes are asked for. */
static int
fleet_judge_proof(const struct ctl *c, const json_t *o)
{
    const char *proof = fleet_text(o, "proof"), *why = fleet_text(o, "why");

    if (proof != NULL && strcmp(proof, "all") == 0) {
        if (!c->json)
            fleet_show_proof(o);
        return CTL_DONE;
    }
    ctl_say("unproven: %s", why != NULL ? why : "tarnd gives no proof");
    fleet_say_missing(o);
    if (fleet_text(o, "token") != NULL)
        ctl_line(stderr, "    later: tarnctl fleet proof %s", fleet_text(o, "token"));
    return CTL_UNPROVEN;
}

int
ctl_fleet_proven(const struct ctl *c, const json_t *o)
{
    if (c->wait && strcmp(c->wait_for, "log") != 0)
        return fleet_judge_proof(c, o);
    if (!c->json && fleet_text(o, "token") != NULL)
        ctl_line(stdout, "it is in the fleet's log: %s", fleet_text(o, "token"));
    return CTL_DONE;
}

/* `tarnctl fleet proof TOKEN` */
int
ctl_fleet_proof(struct ctl *c)
{
    json_t *o = NULL;
    char *path;
    int rc = ctl_fleet_path(c, "/v1/fleet/proofs", c->args[0], &path);

    if (rc == CTL_DONE)
        rc = ctl_ask(c, "GET", path, NULL, &o);
    if (rc == CTL_DONE)
        rc = fleet_judge_proof(c, o);
    json_decref(o);
    free(path);
    return rc;
}
