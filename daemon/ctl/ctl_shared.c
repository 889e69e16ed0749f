/* ctl_shared.c -- what all nodes of a fleet have alike: a policy, parameters, tables.
 *
 * tarnd answers when every node has said something of it, or when the time is over; each node's word is printed where
 * it is not "taken". */
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl_commands.h"

static const char *
shared_text(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));

    return text != NULL ? text : "-";
}

/* Who has not, and how many have. */
static int
shared_show(const struct ctl *c, const json_t *o)
{
    bool all = json_is_true(json_object_get(o, "all"));
    const char *removed = json_string_value(json_object_get(o, "removed"));
    const json_t *node;
    size_t i, n = 0;

    json_array_foreach(json_object_get(o, "nodes"), i, node)
    {
        bool taken = strcmp(shared_text(node, "state"), "taken") == 0;

        n += taken;
        if (!taken && json_is_true(json_object_get(node, "lives")))
            ctl_line(
                stderr, "    node %s: %s", shared_text(node, "node"), shared_text(node, "state"));
    }
    if (!c->json && removed != NULL)
        ctl_line(stdout, "%s: %zu nodes have their file's value again", removed, n);
    else if (!c->json)
        ctl_line(stdout, "%s, version %s: %zu nodes have it", shared_text(o, "shared"),
            shared_text(o, "version"), n);
    if (!all)
        ctl_say("%s", shared_text(o, "why"));
    return all ? CTL_DONE : CTL_UNPROVEN;
}

/* `text` is taken. */
static int
shared_put(
    struct ctl *c, const char *prefix, const char *name, const char *method, struct span text)
{
    json_t *o = NULL;
    char *path;
    int rc = ctl_fleet_path(c, prefix, name, &path);

    c->patience_ms *= 2; /* a policy is tried, and then used */
    if (rc == CTL_DONE)
        rc = ctl_ask_with(c, method, path, slice_of(text.ptr, text.len), &o);
    if (rc == CTL_DONE)
        rc = shared_show(c, o);
    json_decref(o);
    free(path);
    free(text.ptr);
    return rc;
}

static int
shared_put_file(struct ctl *c, const char *prefix)
{
    struct span text;
    int rc = ctl_slurp(c->args[1], &text);

    return rc == CTL_DONE ? shared_put(c, prefix, c->args[0], "PUT", text) : rc;
}

int
ctl_fleet_vcl_use(struct ctl *c)
{
    return shared_put_file(c, "/v1/fleet/policies");
}

int
ctl_fleet_vcl_rollback(struct ctl *c)
{
    return shared_put(c, "/v1/fleet/rollback", NULL, "POST", (struct span){NULL, 0});
}

int
ctl_fleet_table_load(struct ctl *c)
{
    return shared_put_file(c, "/v1/fleet/tables");
}

int
ctl_fleet_param_set(struct ctl *c)
{
    json_t *body = json_pack("{ss}", "value", c->args[1]);
    char *text = body != NULL ? json_dumps(body, 0) : NULL;

    json_decref(body);
    if (text == NULL) {
        ctl_say("'%s' is not UTF-8, and the admin API takes nothing else", c->args[1]);
        return CTL_USAGE;
    }
    return shared_put(
        c, "/v1/fleet/parameters", c->args[0], "PUT", (struct span){text, strlen(text)});
}

int
ctl_fleet_param_unset(struct ctl *c)
{
    return shared_put(c, "/v1/fleet/parameters", c->args[0], "DELETE", (struct span){NULL, 0});
}

/* By each node that lives. */
static bool
shared_is_taken(const json_t *nodes)
{
    const json_t *node;
    size_t i;

    json_array_foreach(nodes, i, node)
    {
        if (json_is_true(json_object_get(node, "lives")) &&
            strcmp(shared_text(node, "state"), "taken") != 0)
            return false;
    }
    return true;
}

/* A row for each thing; who has not taken it stands in the last column. */
static void
shared_cell_nodes(struct ctl_table *t, const json_t *nodes)
{
    char text[512] = "";
    const json_t *node;
    size_t i, at = 0;

    json_array_foreach(nodes, i, node)
    {
        const char *state = shared_text(node, "state");
        int n;

        if (strcmp(state, "taken") == 0 || !json_is_true(json_object_get(node, "lives")))
            continue;
        n = snprintf(text + at, sizeof(text) - at, "%s%s %s", at > 0 ? ", " : "",
            shared_text(node, "node"), state);
        if (n < 0 || (size_t)n >= sizeof(text) - at)
            break; /* --json has all of them */
        at += (size_t)n;
    }
    ctl_cell(t, "%s", at > 0 ? text : "all");
}

/* Which nodes refuse what, and why. */
static int
shared_judge(const json_t *o)
{
    const json_t *thing, *node;
    int rc = CTL_DONE;
    size_t i, j;

    json_array_foreach(json_object_get(o, "shared"), i, thing)
    {
        json_array_foreach(json_object_get(thing, "nodes"), j, node)
        {
            if (strcmp(shared_text(node, "state"), "refused") != 0 ||
                !json_is_true(json_object_get(node, "lives")))
                continue;
            ctl_say("node %s refuses %s: %s", shared_text(node, "node"), shared_text(thing, "name"),
                shared_text(node, "why"));
            rc = CTL_REFUSED;
        }
    }
    return rc;
}

static void
shared_show_all(const json_t *o)
{
    static const char *const headings[] = {"NAME", "VERSION", "NODES", NULL};
    const json_t *thing;
    struct ctl_table t;
    size_t i;

    ctl_table_begin(&t, headings);
    json_array_foreach(json_object_get(o, "shared"), i, thing)
    {
        bool removed = json_is_true(json_object_get(thing, "removed"));

        if (removed && shared_is_taken(json_object_get(thing, "nodes")))
            continue;
        ctl_cell_of(&t, thing, "name");
        ctl_cell(&t, "%s", removed ? "taken back" : shared_text(thing, "version"));
        shared_cell_nodes(&t, json_object_get(thing, "nodes"));
    }
    ctl_table_end(&t, "nothing is shared but invalidations");
}

int
ctl_fleet_shared(struct ctl *c)
{
    const char *why;
    json_t *o;
    int rc = ctl_ask(c, "GET", "/v1/fleet/shared", NULL, &o);

    if (rc != CTL_DONE)
        return rc;
    if (!c->json)
        shared_show_all(o);
    rc = shared_judge(o);
    why = json_string_value(json_object_get(o, "why"));
    if (why != NULL && why[0] != '\0') {
        ctl_say("the engine refuses: %s", why);
        rc = CTL_REFUSED;
    }
    json_decref(o);
    return rc;
}
