/* ctl_policy.c -- policies and labels, backends, tables.
 *
 * Each command is one question of the admin API (daemon/admin/README.md) and one table or
 * sentence.  Members that an older tarnd does not send show as "-".
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/ctl_commands.h"

/* Members of each object of a list, as rows.  `headings` ends with NULL; `members` has the same
 * order and needs no end. */
static int
policy_rows(struct ctl *c, const char *path, const char *list, const char *const *headings,
    const char *const *members, const char *none)
{
    struct ctl_table t;
    const json_t *rows, *each;
    json_t *o;
    int rc = ctl_ask(c, "GET", path, NULL, &o);

    if (rc == CTL_DONE && !c->json) {
        ctl_table_begin(&t, headings);
        rows = json_object_get(o, list);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            each = json_array_get(rows, i);
            /* `members` has as many. */
            for (unsigned k = 0; headings[k] != NULL; k++)
                ctl_cell_of(&t, each, members[k]);
        }
        ctl_table_end(&t, none);
    }
    json_decref(o);
    return rc;
}

int
ctl_vcl_list(struct ctl *c)
{
    static const char *const headings[] = {"NAME", "STATE", "LABEL OF", "WORKERS", "FILE", NULL};
    static const char *const members[] = {"name", "state", "label_of", "workers", "file"};

    return policy_rows(c, "/v1/policies", "policies", headings, members, "no policy is loaded");
}

/* "a, b (3)": a weight other than 1 is shown. */
static void
policy_cell_members(struct ctl_table *t, const json_t *members)
{
    char text[512] = "";
    const json_t *m;
    size_t i, at = 0;

    json_array_foreach(members, i, m)
    {
        const char *name = json_string_value(json_object_get(m, "name"));
        double weight = json_number_value(json_object_get(m, "weight"));
        int n = snprintf(
            text + at, sizeof(text) - at, "%s%s", i > 0 ? ", " : "", name != NULL ? name : "?");

        if (weight != 1 && n > 0 && (size_t)n < sizeof(text) - at)
            n += snprintf(text + at + n, sizeof(text) - at - (size_t)n, " (%g)", weight);
        /* The last name is cut, which shows. */
        if (n < 0 || (size_t)n >= sizeof(text) - at)
            break; /* --json has all of them */
        at += (size_t)n;
    }
    ctl_cell(t, "%s", text);
}

static void
policy_print_directors(const json_t *directors)
{
    static const char *const headings[] = {"DIRECTOR", "TYPE", "HEALTHY", "BACKENDS", NULL};
    struct ctl_table t;
    const json_t *d;
    size_t i;

    if (json_array_size(directors) == 0)
        return;
    putchar('\n');
    ctl_table_begin(&t, headings);
    json_array_foreach(directors, i, d)
    {
        ctl_cell_of(&t, d, "name");
        ctl_cell_of(&t, d, "type");
        ctl_cell_of(&t, d, "healthy");
        policy_cell_members(&t, json_object_get(d, "backends"));
    }
    ctl_table_end(&t, "");
}

/* HEALTHY is what a fetch would meet now; HEALTH is what the operator set (auto, healthy, sick).
 * A probe shows as "3/8 good", its window as in Varnish's backend.list. */
int
ctl_backend_list(struct ctl *c)
{
    static const char *const headings[] = {
        "BACKEND", "ADDRESS", "HEALTHY", "HEALTH", "PROBES", "LAST", NULL};
    struct ctl_table t;
    const json_t *b;
    size_t i;
    json_t *o;
    int rc = ctl_ask(c, "GET", "/v1/backends", NULL, &o);

    if (rc == CTL_DONE && !c->json) {
        ctl_table_begin(&t, headings);
        json_array_foreach(json_object_get(o, "backends"), i, b)
        {
            const json_t *probe = json_object_get(b, "probe");

            ctl_cell_of(&t, b, "name");
            ctl_cell_of(&t, b, "address");
            /* First: it is what fetches see. */
            if (json_is_true(json_object_get(b, "ejected")))
                ctl_cell(&t, "left out");
            else if (json_is_true(json_object_get(b, "healthy")) &&
                     json_is_false(json_object_get(b, "up")))
                ctl_cell(&t, "failing"); /* no probe says so, its fetches do */
            else
                ctl_cell_of(&t, b, "healthy");
            ctl_cell_of(&t, b, "health");
            if (json_is_object(probe))
                ctl_cell(&t, "%lld/%lld good",
                    (long long)json_integer_value(json_object_get(probe, "good")),
                    (long long)json_integer_value(json_object_get(probe, "window")));
            else
                ctl_cell(&t, "-");
            /* Without a probe a dash: ctl_cell_of() takes null. */
            ctl_cell_of(&t, probe, "last");
        }
        ctl_table_end(&t, "there are no backends");
        policy_print_directors(json_object_get(o, "directors"));
    }
    json_decref(o);
    return rc;
}

int
ctl_table_list(struct ctl *c)
{
    static const char *const headings[] = {
        "TABLE", "KIND", "STATE", "VERSION", "ENTRIES", "BYTES", "LOOKUPS", "PATH", "WHY", NULL};
    static const char *const members[] = {
        "name", "kind", "state", "version", "entries", "bytes", "lookups", "path", "why"};

    return policy_rows(
        c, "/v1/tables", "tables", headings, members, "the configuration names none");
}

/* PUT or DELETE of PREFIX/NAME, with a name to stand for it or without.  `of`: the policy of a
 * label, sent as the body's name.  Without it there is no body. */
static int
policy_do(struct ctl *c, const char *method, const char *prefix, const char *name, const char *of,
    const char *done)
{
    char *path = ctl_path(prefix, name);
    json_t *o;
    int rc = ctl_ask(c, method, path, of != NULL ? json_pack("{ss}", "name", of) : NULL, &o);

    if (rc == CTL_DONE && !c->json)
        printf("%s %s\n", name, done);
    json_decref(o);
    free(path);
    return rc;
}

/* The policy is active for requests that begin from now on; those under way end with the one
 * they began with.  The old one stays loaded, and `vcl use` goes back to it. */
static int
policy_ref(struct ctl *c, const char *name)
{
    json_t *o;
    int rc = ctl_ask(c, "PUT", "/v1/policies/active", json_pack("{ss}", "name", name), &o);

    if (rc == CTL_DONE && !c->json)
        printf("%s is the policy of all requests from now on\n", name);
    ctl_note(o);
    json_decref(o);
    return rc;
}

int
ctl_vcl_use(struct ctl *c)
{
    return policy_ref(c, c->args[0]);
}

static void
policy_warn(const json_t *warnings)
{
    const json_t *w;
    size_t i;

    json_array_foreach(warnings, i, w)
    {
        const char *text = json_is_string(w) ? json_string_value(w)
                                             : json_string_value(json_object_get(w, "message"));

        fprintf(stderr, "warning: line %lld: %s\n",
            (long long)json_integer_value(json_object_get(w, "line")), text != NULL ? text : "?");
    }
}

/* The file is read here and sent as text: tarnd need not see the caller's files.  Its warnings
 * go to standard error, as those of a compiler do. */
int
ctl_vcl_load(struct ctl *c)
{
    struct span text;
    int rc = ctl_slurp(c->args[1], &text);
    char *path;
    json_t *o;

    if (rc != CTL_DONE)
        return rc;
    path = ctl_path("/v1/policies", c->args[0]);
    rc = ctl_ask_with(c, "PUT", path, slice_of(text.ptr, text.len), &o);
    if (rc == CTL_DONE && !c->json) {
        policy_warn(json_object_get(o, "warnings"));
        printf("%s is loaded%s\n", c->args[0], c->use ? "" : "; tarnctl vcl use activates it");
    }
    json_decref(o);
    free(path);
    free(text.ptr);
    /* Only what was loaded now: a name that was taken is refused above. */
    return rc == CTL_DONE && c->use ? policy_ref(c, c->args[0]) : rc;
}

int
ctl_vcl_label(struct ctl *c)
{
    return policy_do(c, "PUT", "/v1/labels", c->args[0], c->args[1], "stands for it");
}

int
ctl_vcl_unlabel(struct ctl *c)
{
    return policy_do(c, "DELETE", "/v1/labels", c->args[0], NULL, "is removed");
}

int
ctl_vcl_discard(struct ctl *c)
{
    return policy_do(c, "DELETE", "/v1/policies", c->args[0], NULL, "is discarded");
}

int
ctl_backend_health(struct ctl *c)
{
    char *path = ctl_path("/v1/backends", c->args[0]), *full = NULL;
    json_t *o = NULL;
    int rc = CTL_REFUSED;

    if (path != NULL && asprintf(&full, "%s/health", path) >= 0)
        rc = ctl_ask(c, "PUT", full, json_pack("{ss}", "health", c->args[1]), &o);
    if (rc == CTL_DONE && !c->json)
        printf("%s: %s\n", c->args[0], c->args[1]);
    json_decref(o);
    free(full);
    free(path);
    return rc;
}

/* As it would be loaded again.  A key alone, a key and a text, or a key and the numbers of a
 * vector. */
static void
table_print_entry(const json_t *e)
{
    const json_t *value = json_object_get(e, "value"), *number;
    const char *text = json_string_value(value);
    size_t i;

    fputs(json_string_value(json_object_get(e, "key")), stdout);
    if (text != NULL)
        printf(" %s", text);
    /* Nine digits: it reads back as the same float. */
    json_array_foreach(value, i, number) printf(" %.9g", json_number_value(number));
    putchar('\n');
}

/* A table may have millions of entries; it comes in pages, each from the `next` of the one
 * before.  A table that is replaced meanwhile is shown in part from both. */
int
ctl_table_show(struct ctl *c)
{
    long long after = 0;
    int rc = CTL_DONE;

    do {
        char *base = ctl_path("/v1/tables", c->args[0]), *path = NULL;
        const json_t *e;
        size_t i;
        json_t *o = NULL;

        if (base == NULL || asprintf(&path, "%s?after=%lld", base, after) < 0)
            path = NULL;
        free(base);
        rc = path != NULL ? ctl_ask(c, "GET", path, NULL, &o) : CTL_REFUSED;
        free(path);
        if (rc == CTL_DONE && !c->json) {
            json_array_foreach(json_object_get(o, "list"), i, e) table_print_entry(e);
        }
        /* 0, or not there: this was the last page. */
        after = json_integer_value(json_object_get(o, "next"));
        json_decref(o);
    } while (rc == CTL_DONE && after > 0);
    return rc;
}

int
ctl_table_load(struct ctl *c)
{
    struct span text;
    char *path;
    json_t *o;
    int rc = ctl_slurp(c->args[1], &text);

    if (rc != CTL_DONE)
        return rc;
    path = ctl_path("/v1/tables", c->args[0]);
    rc = ctl_ask_with(c, "PUT", path, slice_of(text.ptr, text.len), &o);
    if (rc == CTL_DONE && !c->json)
        printf("%s: version %lld, %lld entries\n", c->args[0],
            (long long)json_integer_value(json_object_get(o, "version")),
            (long long)json_integer_value(json_object_get(o, "entries")));
    ctl_note(o);
    json_decref(o);
    free(path);
    free(text.ptr);
    return rc;
}
