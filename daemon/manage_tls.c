/* manage_tls.c -- for operators: which certificates listeners have, and reading them anew. */
#include <stdio.h>
#include <string.h>

#include "daemon/admin/admin.h"
#include "daemon/base/terr.h"
#include "daemon/listeners.h"
#include "daemon/listeners_tls.h"
#include "daemon/manage_priv.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/tls/cert_report.h"
#include "daemon/tls/cert_store.h"
#include "daemon/worker.h"

/* The next listener with TLS, from `d` on; NULL: none. */
static struct endpoint *
tls_endpoint(struct endpoint *d)
{
    while (d != NULL && (d->dropped || listener_conf(d)->tls == NULL))
        d = d->next;
    return d;
}

static struct endpoint *
tls_first(struct manage *m)
{
    return tls_endpoint(m->env.shared->endpoints->first);
}

/* ---- figures ---- */

void
manage_tls_each(void *ctx, void (*each)(void *to, const struct admin_tls *t), void *to)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    for (struct endpoint *d = tls_first(m); d != NULL; d = tls_endpoint(d->next)) {
        struct listener_tls *tls = listener_conf(d)->tls;
        struct cert_table *table = cert_store_table(listener_tls_certs(tls));
        struct cert_store_stats stats;
        struct admin_tls t = {.name = listener_conf(d)->in.facts.name,
            .address = d->address,
            .reload_failures = listener_tls_failures(tls),
            .soonest_file = ""};

        cert_store_stats(listener_tls_certs(tls), &stats);
        t.certificates = stats.certificates;
        t.names = stats.names;
        t.parsed = stats.parsed;
        t.parses = stats.parses;
        t.parse_failures = stats.failures;
        if (stats.certificates > 0)
            t.soonest_s = cert_table_soonest_expiry(table, &t.soonest_file);
        each(to, &t);
        cert_table_unref(&table);
    }
}

/* ---- certificates ---- */

struct tls_list {
    json_t *rows;
    unsigned most, more; /* rows; of those that were left out */
};

static json_t *
tls_names(const struct cert_info *info)
{
    struct slice names = info->names, name;
    json_t *list = json_array();

    while ((name = cert_info_name(&names)).len > 0)
        json_array_append_new(list, json_any_text(name));
    return list;
}

/* What a reload may change.
 * Compared as JSON (json_equal) before and after a reload: a member that changes by itself, such
 * as `parsed`, must not stand here. */
static json_t *
tls_identity(const struct cert_info *info)
{
    json_t *o = json_object();

    json_put(o, "names", tls_names(info));
    json_put_text(o, "file", info->file);
    json_put_text(o, "key_file", info->key_file);
    json_put(o, "issuer", json_any_text(slice_str(info->issuer)));
    json_put(o, "not_before", json_integer(info->not_before_s));
    json_put(o, "not_after", json_integer(info->not_after_s));
    json_put_text(o, "kind", info->kind == CERT_ECDSA ? "ecdsa" : "rsa");
    json_put(o, "bits", json_integer(info->key_bits));
    return o;
}

static void
tls_on_certificate(void *ctx, const struct cert_info *info)
{
    struct tls_list *list = ctx;
    json_t *o;

    if (json_array_size(list->rows) >= list->most) {
        list->more++;
        return;
    }
    tassert(list->more == 0); /* the first ones are told, and then the number of the others */
    o = tls_identity(info);
    json_put(o, "default", json_boolean(info->is_default));
    json_put(o, "parsed", json_boolean(info->is_parsed));
    json_put(o, "kept", json_boolean(info->is_kept));
    json_put(o, "staple_until",
        info->staple_until_s > 0 ? json_integer(info->staple_until_s) : json_null());
    json_put(
        o, "error", info->error[0] != '\0' ? json_any_text(slice_str(info->error)) : json_null());
    json_array_append_new(list->rows, o);
}

json_t *
manage_tls_list(void *ctx, unsigned most)
{
    struct manage *m = ctx;
    json_t *listeners = json_array();

    OBJ_CHECK(m, MANAGE_MAGIC);
    for (struct endpoint *d = tls_first(m); d != NULL; d = tls_endpoint(d->next)) {
        struct tls_list list = {.rows = json_array(), .most = most};
        json_t *o = json_object();

        json_put_text(o, "name", listener_conf(d)->in.facts.name);
        json_put_text(o, "address", d->address);
        cert_store_each(listener_tls_certs(listener_conf(d)->tls), tls_on_certificate, &list);
        json_put(o, "certificates", list.rows);
        json_put(o, "more", json_integer(list.more));
        json_array_append_new(listeners, o);
    }
    return listeners;
}

/* ---- reading them anew ---- */

static void
tls_on_identity(void *ctx, const struct cert_info *info)
{
    json_t *by_file = ctx, *list = json_object_get(by_file, info->file);

    /* A file may stand in a list twice. */
    if (list == NULL) {
        list = json_array();
        json_put(by_file, info->file, list);
    }
    json_array_append_new(list, tls_identity(info));
}

static json_t *
tls_identities(struct listener_tls *tls)
{
    json_t *by_file = json_object();

    cert_store_each(listener_tls_certs(tls), tls_on_identity, by_file);
    return by_file;
}

/* Files that are in `a` and not in `b`; with `same`: that are in both, and differ. */
static json_t *
tls_difference(const json_t *a, const json_t *b, bool in_both)
{
    json_t *files = json_array(), *mine, *theirs;
    const char *file;

    json_object_foreach((json_t *)(uintptr_t)a, file, mine)
    {
        theirs = json_object_get(b, file);
        if ((theirs != NULL) == in_both && (theirs == NULL || !json_equal(mine, theirs)))
            json_array_append_new(files, json_any_text(slice_str(file)));
    }
    return files;
}

static void
tls_put_report(json_t *to, const char *listener, const struct cert_report *report, bool errors)
{
    for (unsigned i = 0; i < report->nrows; i++) {
        const struct cert_report_row *row = &report->rows[i];
        json_t *o;

        if (row->is_error != errors)
            continue;
        o = json_object();
        json_put_text(o, "listener", listener);
        json_put(o, "file", json_any_text(slice_str(row->file)));
        json_put(o, "line", row->line > 0 ? json_integer(row->line) : json_null());
        json_put(o, "message", json_any_text(slice_str(row->why)));
        json_array_append_new(to, o);
    }
}

/* 0 or TERR_*: nothing of this listener changes.  What is wrong is added to bad and warnings. */
static int
tls_prepare(struct manage *m, struct endpoint *d, json_t *bad, json_t *warnings)
{
    const struct conf *conf = snapshot_conf(registry_snapshot(m->env.registry));
    struct cert_report report = {.nrows = 0};
    int err = TERR_NOTFOUND; /* a reload under way drops it */

    for (unsigned i = 0; i < conf->nlistens; i++)
        if (endpoints_find(m->env.shared->endpoints, &conf->listens[i]) == d)
            err =
                listener_tls_prepare_quietly(listener_conf(d)->tls, &conf->listens[i].tls, &report);
    tls_put_report(bad, listener_conf(d)->in.facts.name, &report, true);
    tls_put_report(warnings, listener_conf(d)->in.facts.name, &report, false);
    cert_report_free(&report);
    return err;
}

static void
tls_commit(struct endpoint *d, json_t *listeners)
{
    struct listener_tls *tls = listener_conf(d)->tls;
    json_t *before = tls_identities(tls), *after, *o = json_object();

    tassert(!d->dropped); /* tls_prepare() has found it by the configuration */
    listener_tls_commit(tls);
    after = tls_identities(tls);
    json_put_text(o, "name", listener_conf(d)->in.facts.name);
    json_put_text(o, "address", d->address);
    json_put(o, "files", json_integer((json_int_t)json_object_size(after)));
    json_put(o, "added", tls_difference(after, before, false));
    json_put(o, "changed", tls_difference(after, before, true));
    json_put(o, "removed", tls_difference(before, after, false));
    json_array_append_new(listeners, o);
    json_decref(before);
    json_decref(after);
}

/* All listeners are prepared before one is committed: two that share a file must not serve
 * different versions of it. */
unsigned
manage_tls_reload(void *ctx, json_t **answer)
{
    struct manage *m = ctx;
    json_t *o = json_object(), *bad = json_array(), *warnings = json_array(), *listeners;
    const char *failed = NULL;
    int err = 0;

    OBJ_CHECK(m, MANAGE_MAGIC);
    *answer = o;
    /* All are looked at: each mistake is told at once. */
    for (struct endpoint *d = tls_first(m); d != NULL; d = tls_endpoint(d->next)) {
        err = tls_prepare(m, d, bad, warnings);
        if (err != 0)
            failed = listener_conf(d)->in.facts.name;
    }
    if (failed != NULL) {
        char text[256];

        for (struct endpoint *d = tls_first(m); d != NULL; d = tls_endpoint(d->next))
            listener_tls_unprepare(listener_conf(d)->tls);
        snprintf(text, sizeof(text), "listener %.100s: its certificates cannot be used", failed);
        json_put_text(o, "error", text);
        json_put_text(
            o, "hint", "nothing has changed; `errors` says what is wrong with which file");
        json_put(o, "errors", bad);
        json_decref(warnings);
        return 422;
    }
    listeners = json_array();
    for (struct endpoint *d = tls_first(m); d != NULL; d = tls_endpoint(d->next))
        tls_commit(d, listeners);
    json_put(o, "listeners", listeners);
    json_put(o, "bad", bad);
    json_put(o, "warnings", warnings);
    return 200;
}
