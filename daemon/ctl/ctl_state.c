/* ctl_state.c -- what tarnd says of itself: status, counters, memory, parameters.
 *
 * Each is one GET or POST; its answer is printed in words.  What is absent shows as "-": tarnctl
 * and tarnd may be of neighbouring versions while one of them is replaced.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/ctl_commands.h"

static void
state_line(const char *name, const char *text)
{
    printf("%-12s %s\n", name, text != NULL ? text : "-");
}

static const char *
state_text(const json_t *o, const char *member)
{
    return json_string_value(json_object_get(o, member));
}

int
ctl_status(struct ctl *c)
{
    char text[64], up[24];
    const json_t *each;
    time_t started;
    struct tm tm;
    size_t i;
    json_t *o;
    int rc = ctl_ask(c, "GET", "/v1/status", NULL, &o);

    if (rc != CTL_DONE || c->json) {
        json_decref(o);
        return rc;
    }
    started = (time_t)json_number_value(json_object_get(o, "started"));
    ctl_seconds(up, json_number_value(json_object_get(o, "uptime_s")));
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", localtime_r(&started, &tm));
    state_line("state", state_text(o, "state"));
    state_line("version", state_text(o, "version"));
    printf("%-12s %lld, for %s, since %s\n", "process",
        (long long)json_integer_value(json_object_get(o, "pid")), up, text);
    printf("%-12s %lld, with %lld client connections\n", "workers",
        (long long)json_integer_value(json_object_get(o, "workers")),
        (long long)json_integer_value(json_object_get(o, "connections")));
    state_line("config", state_text(o, "config"));
    state_line("policy", state_text(o, "policy"));
    json_array_foreach(json_object_get(o, "listen"), i, each)
        printf("%-12s %s (%s)\n", "listen", state_text(each, "address"), state_text(each, "name"));
    state_line("admin", state_text(o, "admin"));
    state_line("shared", state_text(o, "shm_dir"));
    json_decref(o);
    return rc;
}

/* One answer here; with --live, --every or --count the frames of ctl_live.c. */
int
ctl_stat(struct ctl *c)
{
    static const char *const headings[] = {"COUNTER", "VALUE", NULL};
    const char *part = c->nargs > 0 ? c->args[0] : "", *name;
    struct ctl_table t;
    json_t *o, *v;
    int rc;

    /* --every and --count only make sense with a view that goes on. */
    if (c->live || c->every != NULL || c->count != NULL)
        return ctl_live(c);
    rc = ctl_ask(c, "GET", "/v1/counters", NULL, &o);

    if (rc == CTL_DONE && !c->json) {
        ctl_table_begin(&t, headings);
        json_object_foreach(o, name, v)
        {
            /* Without a name those that never counted anything are left out. */
            if (strstr(name, part) == NULL || (c->nargs == 0 && json_number_value(v) == 0))
                continue;
            ctl_cell(&t, "%s", name);
            ctl_cell_of(&t, o, name);
        }
        ctl_table_end(&t, c->nargs > 0 ? "no counter has that in its name" : "all are 0");
    }
    json_decref(o);
    return rc;
}

static void
storage_line(const char *name, uint64_t bytes, uint64_t size, int depth)
{
    char text[16];

    ctl_bytes(text, bytes);
    printf("%*s%-*s %12s %6.1f %%\n", 2 * depth, "", 20 - 2 * depth, name, text,
        size > 0 ? 100.0 * (double)bytes / (double)size : 0.0);
}

static uint64_t
storage_number(const json_t *o, const char *member)
{
    return (uint64_t)json_integer_value(json_object_get(o, member));
}

/* A tree of two levels, each with its share of `size`, the configured bound.  "resident" is what
 * the kernel counts, "charged" what tarnd counts by itself: a gap that grows is memory that no
 * part answers for. */
int
ctl_storage_stats(struct ctl *c)
{
    const char *name, *leaf;
    json_t *o, *branch, *bytes;
    int rc = ctl_ask(c, "GET", "/v1/memory", NULL, &o);
    /* 0 where there was no answer: jansson takes NULL. */
    uint64_t size = storage_number(o, "size");

    if (rc == CTL_DONE && !c->json) {
        const json_t *total = json_object_get(o, "total");

        storage_line("size", size, size, 0);
        storage_line("resident", storage_number(o, "resident"), size, 0);
        storage_line("sockets", storage_number(o, "sockets"), size, 0);
        storage_line("charged", storage_number(total, "bytes"), size, 0);
        json_object_foreach(json_object_get(total, "parts"), name, branch)
        {
            storage_line(name, storage_number(branch, "bytes"), size, 1);
            json_object_foreach(json_object_get(branch, "parts"), leaf, bytes)
                storage_line(leaf, (uint64_t)json_integer_value(bytes), size, 2);
        }
    }
    json_decref(o);
    return rc;
}

/* `value` is the configuration's or the one set here; `in_force` is what counts, after the
 * policy. */
static void
param_explain(const json_t *p)
{
    const char *value = state_text(p, "value"), *in_force = state_text(p, "in_force");

    printf("%s = %s\n\n%s.\n\n", state_text(p, "name"), in_force, state_text(p, "meaning"));
    /* A policy changes defaults (policies_params). */
    if (strcmp(value, in_force) != 0)
        printf("  by       the policy that is in use: without one it is %s\n", value);
    printf("  default  %s\n", state_text(p, "default"));
    if (state_text(p, "least") != NULL)
        printf("  least    %s\n", state_text(p, "least"));
    if (state_text(p, "most") != NULL)
        printf("  most     %s\n", state_text(p, "most"));
    printf("  value    %s\n  changes  %s\n", state_text(p, "type"),
        json_is_true(json_object_get(p, "live")) ? "while tarnd runs"
                                                 : "in the configuration, and with a restart");
}

static void
param_rows(const json_t *list, const char *part)
{
    static const char *const headings[] = {"PARAMETER", "VALUE", "DEFAULT", "LIVE", NULL};
    static const char *const members[] = {"name", "in_force", "default", "live"};
    struct ctl_table t;
    const json_t *p;
    size_t i;

    ctl_table_begin(&t, headings);
    json_array_foreach(list, i,
        p) if (strstr(state_text(p, "name"), part) != NULL) for (unsigned k = 0; k < 4; k++)
        ctl_cell_of(&t, p, members[k]);
    ctl_table_end(&t, "no parameter has that in its name");
}

/* One match, or the exact name, is explained at length; several are a table.  Two passes, as the
 * exact name may come after others of which it is a part. */
int
ctl_param_list(struct ctl *c)
{
    const char *part = c->nargs > 0 ? c->args[0] : "";
    const json_t *list, *p, *only = NULL;
    unsigned n = 0;
    size_t i;
    json_t *o;
    int rc = ctl_ask(c, "GET", "/v1/parameters", NULL, &o);

    if (rc == CTL_DONE && !c->json) {
        list = json_object_get(o, "parameters");
        json_array_foreach(list, i, p)
        {
            if (strstr(state_text(p, "name"), part) == NULL)
                continue;
            n++;
            /* The one of exactly this name, though it is a part of others. */
            if (n == 1 || strcmp(state_text(p, "name"), part) == 0)
                only = p;
        }
        if (only != NULL && (n == 1 || strcmp(state_text(only, "name"), part) == 0))
            param_explain(only);
        else
            param_rows(list, part);
    }
    json_decref(o);
    return rc;
}

int
ctl_param_set(struct ctl *c)
{
    char *path;
    json_t *o;
    int rc;

    if (!ctl_args_are_text(c))
        return CTL_USAGE;
    path = ctl_path("/v1/parameters", c->args[0]);
    rc = ctl_ask(c, "PUT", path, json_pack("{ss}", "value", c->args[1]), &o);
    if (rc == CTL_DONE && !c->json)
        printf("%s is %s, until tarnd ends\n", c->args[0], c->args[1]);
    ctl_note(o);
    json_decref(o);
    free(path);
    return rc;
}

static const char *
state_or(const json_t *o, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text == NULL || text[0] == '\0' ? otherwise : text;
}

/* Of lists, and of what has the same name as before, both ends look the same. */
static void
state_print_change(const json_t *change)
{
    const char *what = state_or(change, "what", "?"), *from = state_or(change, "from", "-"),
               *to = state_or(change, "to", "-");

    if (strcmp(from, to) == 0)
        printf("%s: changed\n", what);
    else
        printf("%s: %s -> %s\n", what, from, to);
}

/* A configuration with a mistake is refused as a whole: then nothing has changed, and the exit
 * status is CTL_REFUSED. */
int
ctl_reload(struct ctl *c)
{
    const json_t *change;
    size_t i;
    json_t *o;
    int rc = ctl_ask(c, "POST", "/v1/reload", NULL, &o);

    if (rc == CTL_DONE && !c->json) {
        json_array_foreach(json_object_get(o, "changed"), i, change) state_print_change(change);
        i = json_array_size(json_object_get(o, "changed"));
        printf("%s is in force: %zu %s\n", state_or(o, "config", "the configuration"), i,
            i == 1 ? "change" : "changes");
        printf("policy: %s\n", state_or(json_object_get(o, "policy"), "said", "-"));
    }
    json_decref(o);
    return rc;
}

/* Returns when tarnd has agreed, not when it has ended: it may have long downloads in flight. */
int
ctl_stop(struct ctl *c)
{
    json_t *o;
    int rc = ctl_ask(c, "POST", "/v1/stop", NULL, &o);

    if (rc == CTL_DONE && !c->json)
        puts("it finishes what is in flight, and ends");
    json_decref(o);
    return rc;
}

int
ctl_drain(struct ctl *c)
{
    json_t *o;
    int rc = ctl_ask(c, "POST", "/v1/drain", NULL, &o);

    if (rc == CTL_DONE && !c->json)
        puts("it accepts no more connections, and ends when its requests have ended");
    json_decref(o);
    return rc;
}
