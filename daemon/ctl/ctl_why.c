/* ctl_why.c -- what a request for a URL would come to, in words.
 *
 * tarnd runs the policy for a request that nothing sent, looks its key up, and reports each
 * step; no origin is asked, no counter moves, and a purge or ban of the policy does nothing.  So
 * it may be used while clients are served.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl_commands.h"

static const char *
why_text(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text != NULL ? text : "";
}

static double
why_number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* One row for each variant.  A row is a response or a marker (hit-for-miss, hit-for-pass), which
 * has a reason and a lifetime, and no body. */
static void
why_print_stored(const json_t *list)
{
    static const char *const headings[] = {"STORED", "STATUS", "AGE", "FRESH FOR", "BY", "GRACE",
        "BYTES", "CODING", "VARY", "FOR THIS", NULL};
    struct ctl_table t;
    const json_t *e;
    size_t i;

    ctl_table_begin(&t, headings);
    json_array_foreach(list, i, e)
    {
        char age[24], left[24], grace[24], bytes[16];
        /* A marker has none, and no age to show. */
        bool response = json_is_integer(json_object_get(e, "status"));
        const char *by = why_text(e, response ? "ttl_from" : "because");

        ctl_seconds(age, why_number(e, "age_s"));
        ctl_seconds(left, why_number(e, "ttl_left_s") > 0 ? why_number(e, "ttl_left_s") : 0);
        ctl_seconds(grace, why_number(e, "grace_s"));
        ctl_bytes(bytes, (uint64_t)json_integer_value(json_object_get(e, "bytes")));
        ctl_cell_of(&t, e, "state");
        ctl_cell_of(&t, e, "status");
        ctl_cell(&t, "%s", response ? age : "-");
        ctl_cell(&t, "%s", json_is_number(json_object_get(e, "ttl_left_s")) ? left : "-");
        ctl_cell(&t, "%s", by[0] != '\0' ? by : "-");
        ctl_cell(&t, "%s", response ? grace : "-");
        ctl_cell(&t, "%s", response ? bytes : "-");
        ctl_cell_of(&t, e, "coding");
        ctl_cell_of(&t, e, "vary");
        ctl_cell_of(&t, e, "for_this_request");
    }
    ctl_table_end(&t, "nothing is stored under this key");
}

/* The order is from the answer to its grounds: what would happen now, why in sentences, the key,
 * what each VCL subroutine returned and where, and then what is stored. */
static void
why_print(const json_t *o)
{
    const json_t *each;
    size_t i;

    printf("%s: %s\n\n", why_text(o, "url"), why_text(o, "now"));
    json_array_foreach(json_object_get(o, "text"), i, each)
        printf("  %s\n", json_string_value(each));
    if (why_text(o, "key")[0] != '\0') /* a redirect has none */
        printf("\n  key: %s\n", why_text(o, "key"));
    json_array_foreach(json_object_get(o, "asked"), i, each)
        printf("  %s: return(%s)  %s %s\n", why_text(each, "sub"), why_text(each, "return"),
            why_text(each, "file"), why_text(each, "line"));
    putchar('\n');
    why_print_stored(json_object_get(o, "stored"));
}

/* PATH?url=...&header=...; freed by the caller.  NULL: no memory. */
static char *
why_path(struct ctl *c)
{
    char *path = ctl_escaped("/v1/why?url=", c->args[0]);

    for (int i = 1; i < c->nargs && path != NULL; i++) {
        /* A field's value may have & and = in it. */
        char *field = ctl_escaped("&header=", c->args[i]), *longer = NULL;

        if (field != NULL && asprintf(&longer, "%s%s", path, field) < 0)
            longer = NULL;
        free(field);
        free(path);
        path = longer;
    }
    return path;
}

int
ctl_why(struct ctl *c)
{
    char *path = why_path(c);
    json_t *o = NULL;
    int rc;

    if (path == NULL) {
        ctl_say("no memory");
        return CTL_REFUSED;
    }
    rc = ctl_ask(c, "GET", path, NULL, &o);
    if (rc == CTL_DONE && !c->json)
        why_print(o);
    json_decref(o);
    free(path);
    return rc;
}
