/* ctl_tls.c -- certificates of TLS listeners: what there is, and reading it anew.
 *
 * No key and no certificate passes through here: the answers have names, dates and paths only.
 */
#include <stdlib.h>
#include <time.h>

#include "daemon/ctl/ctl_commands.h"

enum {
    DAY_S = 86400
};

/* "a.test, www.a.test, and 3 more" */
static void
tls_cell_names(struct ctl_table *t, const json_t *names)
{
    size_t n = json_array_size(names);
    const char *first = json_string_value(json_array_get(names, 0));
    const char *second = json_string_value(json_array_get(names, 1));

    if (n > 2)
        ctl_cell(t, "%s, %s, and %zu more", first, second, n - 2);
    else
        ctl_cell(t, "%s%s%s", n > 0 ? first : "-", n > 1 ? ", " : "", n > 1 ? second : "");
}

/* The date, and how many days are left.  Fills two cells in every case, or the columns behind
 * them would shift.  In UTC, as the certificate has it (RFC 5280 4.1.2.5). */
static void
tls_cell_until(struct ctl_table *t, const json_t *until_s)
{
    time_t until = (time_t)json_integer_value(until_s);
    double left = difftime(until, time(NULL));
    char date[32];
    struct tm tm;

    if (!json_is_integer(until_s) || gmtime_r(&until, &tm) == NULL) {
        ctl_cell(t, "-");
        ctl_cell(t, "-");
        return;
    }
    strftime(date, sizeof(date), "%Y-%m-%d", &tm);
    ctl_cell(t, "%s", date);
    if (left < 0)
        ctl_cell(t, "expired");
    else
        ctl_cell(t, "%lld", (long long)(left / DAY_S));
}

/* STATE: "bad" is a file that cannot be used now; "kept" is one that failed to reload, with the
 * certificate of before still served; "ready" is one that no handshake has needed yet, so it is
 * not parsed. */
static void
tls_row(struct ctl_table *t, const char *listener, const json_t *cert)
{
    const char *error = json_string_value(json_object_get(cert, "error"));

    ctl_cell(t, "%s", listener);
    tls_cell_names(t, json_object_get(cert, "names"));
    tls_cell_until(t, json_object_get(cert, "not_after"));
    ctl_cell(t, "%s %lld", json_string_value(json_object_get(cert, "kind")),
        (long long)json_integer_value(json_object_get(cert, "bits")));
    ctl_cell(t, "%s",
        error != NULL                                   ? "bad"
        : json_is_true(json_object_get(cert, "kept"))   ? "kept"
        : json_is_true(json_object_get(cert, "parsed")) ? "in use"
                                                        : "ready");
    ctl_cell_of(t, cert, "default");
    ctl_cell_of(t, cert, "file");
    ctl_cell(t, "%s", error != NULL ? error : "-");
}

/* Thousands of certificates are possible: a listener sends --limit of them and the number of the
 * others. */
int
ctl_tls_list(struct ctl *c)
{
    static const char *const headings[] = {
        "LISTENER", "NAMES", "EXPIRES", "DAYS", "KEY", "STATE", "DEFAULT", "FILE", "ERROR", NULL};
    char *path = ctl_escaped("/v1/tls?limit=", c->limit != NULL ? c->limit : "1000");
    const json_t *listener, *cert;
    struct ctl_table t;
    size_t i, k;
    json_t *o;
    int rc = ctl_ask(c, "GET", path, NULL, &o);

    free(path);
    if (rc == CTL_DONE && !c->json) {
        ctl_table_begin(&t, headings);
        json_array_foreach(json_object_get(o, "listeners"), i, listener)
            json_array_foreach(json_object_get(listener, "certificates"), k, cert)
                tls_row(&t, json_string_value(json_object_get(listener, "name")), cert);
        ctl_table_end(&t, "there are no certificates");
        json_array_foreach(json_object_get(o, "listeners"), i,
            listener) if (json_integer_value(json_object_get(listener, "more")) > 0)
            ctl_say("%lld more of listener %s: --limit N shows them",
                (long long)json_integer_value(json_object_get(listener, "more")),
                json_string_value(json_object_get(listener, "name")));
    }
    json_decref(o);
    return rc;
}

static size_t
tls_print_files(const json_t *listener, const char *what)
{
    const json_t *files = json_object_get(listener, what), *file;
    size_t i;

    json_array_foreach(files, i, file) printf("%s %s\n", what, json_string_value(file));
    return json_array_size(files);
}

static void
tls_say_rows(const json_t *rows, const char *kind)
{
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        const char *file = json_string_value(json_object_get(row, "file"));
        const char *why = json_string_value(json_object_get(row, "message"));
        long long line = json_integer_value(json_object_get(row, "line"));

        if (line > 0)
            ctl_say("%s%s:%lld: %s", kind, file, line, why);
        else
            ctl_say("%s%s: %s", kind, file, why);
    }
}

/* A bad file does not stop the good ones.  So the report comes first, and the exit status tells
 * that a part was refused. */
int
ctl_tls_reload(struct ctl *c)
{
    const json_t *listener;
    size_t i;
    json_t *o;
    int rc = ctl_ask(c, "POST", "/v1/tls/reload", NULL, &o);

    if (rc == CTL_DONE && json_array_size(json_object_get(o, "bad")) > 0)
        rc = CTL_REFUSED; /* in part: what was good counts */
    if (json_object_get(o, "listeners") != NULL && !c->json) {
        json_array_foreach(json_object_get(o, "listeners"), i, listener)
        {
            size_t n = tls_print_files(listener, "added");

            n += tls_print_files(listener, "changed");
            n += tls_print_files(listener, "removed");
            printf("listener %s: %lld files with certificates, %zu %s\n",
                json_string_value(json_object_get(listener, "name")),
                (long long)json_integer_value(json_object_get(listener, "files")), n,
                n == 1 ? "change" : "changes");
        }
        if (i == 0)
            puts("no listener has TLS");
        tls_say_rows(json_object_get(o, "warnings"), "warning: ");
        tls_say_rows(json_object_get(o, "bad"), "");
    }
    json_decref(o);
    return rc;
}
