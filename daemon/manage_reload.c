/* manage_reload.c -- the configuration read anew, and put in place of the one before.
 *
 * Everything that can fail is done before anything that can be seen: the file is read, what it would
 * change is compared, its backends are made, its addresses bound, its policy compiled.  Then it counts.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_compare.h"
#include "daemon/admin/admin.h"
#include "daemon/base/notify.h"
#include "daemon/base/terr.h"
#include "daemon/listeners.h"
#include "daemon/log/access_log.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/director.h"
#include "daemon/policy/policies.h"
#include "daemon/worker.h"
#include "storage/storage.h"
#include "vcl-lite/vcl.h"

#define RELOAD_MAGIC OBJ_TAG('r', 'l', 'o', 'd')
struct reload {
    uint32_t magic;
    struct manage *m;
    const struct conf *conf;
    struct backend_snapshot *snapshot; /* held; owns conf */
    struct access_aim *access;         /* owned; NULL: the access log stays as it is */
    json_t *changes, *restarts;
    bool origins_changed, vcl_told; /* something that policies name; the key `vcl` itself */
    struct policies_became policy;
    const char *path;
};

/* --- what is reported --- */

/* What no policy is compiled against.  Anything else counts as changed for them. */
static bool
reload_is_no_origin(const char *what)
{
    /* A list of exceptions: a section that is added later counts as one that policies name, which
     * is always safe. */
    static const char *const sections[] = {
        "listen", "parameters.", "admin", "storage.", "vcl", "limits", "trusted_proxies"};

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (strncmp(what, sections[i], strlen(sections[i])) == 0)
            return true;
    return false;
}

static void
reload_on_change(void *ctx, const struct conf_change *change)
{
    struct reload *r = ctx;
    json_t *o = json_object();

    OBJ_CHECK(r, RELOAD_MAGIC);
    r->origins_changed |= !reload_is_no_origin(change->what);
    r->vcl_told |= strcmp(change->what, "vcl") == 0;
    json_put_text(o, "what", change->what);
    json_put_text(o, "from", change->from);
    json_put_text(o, "to", change->to);
    if (!change->live) {
        char text[256];

        snprintf(text, sizeof(text), "%.120s needs a restart of tarnd", change->what);
        json_put_text(o, "message", text);
    }
    /* A change that needs a restart is no change: the whole file is refused for it, and the answer
     * names all of them. */
    json_array_append_new(change->live ? r->changes : r->restarts, o);
    elog(change->live ? ELOG_INFO : ELOG_ERROR, "reload: %s%s%s%s%s%s", change->what,
        change->from[0] != '\0' ? " was " : "", change->from, change->to[0] != '\0' ? " is " : "",
        change->to, change->live ? "" : ": needs a restart");
}

/* Nothing has changed.  `list`, taken, may be NULL. */
static unsigned reload_refuse(struct reload *r, json_t **answer, unsigned status, json_t *list,
    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static unsigned
reload_refuse(
    struct reload *r, json_t **answer, unsigned status, json_t *list, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    tassert(status >= 400);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    elog(ELOG_ERROR, "reload: %s: %s; nothing has changed", r->path, text);
    *answer = json_object();
    json_put_text(*answer, "error", text);
    json_put_text(*answer, "hint",
        /* A mistake of the file can be found without a running tarnd. */
        status == 422 ? "nothing has changed; `tarnd -t` checks a file beforehand"
                      : "nothing has changed");
    if (list != NULL)
        json_put(*answer, "errors", list);
    return status;
}

static json_t *
reload_conf_errors(const struct reload *r, const struct conf_error *errors, unsigned *n)
{
    json_t *list = json_array();

    for (*n = 0; errors != NULL; errors = errors->next, ++*n) {
        const char *file = errors->file != NULL ? errors->file : r->path;
        json_t *o = json_object();

        json_put_text(o, "file", file);
        json_put(o, "line", json_integer(errors->line));
        json_put(o, "column", json_integer(errors->column));
        json_put_text(o, "message", errors->message);
        json_put_text(o, "source", errors->source);
        json_array_append_new(list, o);
        elog(ELOG_ERROR, "reload: %s:%u:%u: %s", file, errors->line, errors->column,
            errors->message);
    }
    return list;
}

static void
reload_log_vcl(const struct vcl_error *e)
{
    for (; e != NULL; e = e->next)
        elog(e->is_warning ? ELOG_WARN : ELOG_ERROR, "reload: %s:%u:%u: %s%s%s", e->file, e->line,
            e->column, e->message, e->hint != NULL ? "; " : "", e->hint != NULL ? e->hint : "");
}

/* --- the steps --- */

/* 0: r->conf is there; else an HTTP status.
 * On failure r->conf stays NULL, and the errors are in the answer and, each a line, in the error
 * log. */
static unsigned
reload_read(struct reload *r, json_t **answer)
{
    struct conf_error *errors = NULL;
    int err = conf_load(&r->conf, r->path, &errors);
    unsigned n = 0;
    json_t *list;

    tassert((err == 0) == (r->conf != NULL));
    if (err == 0)
        return 0;
    /* Not the file's fault: it may go well the next time. */
    if (errors == NULL)
        return reload_refuse(r, answer, 503, NULL, "%s", terr_text(err));
    list = reload_conf_errors(r, errors, &n);
    conf_errors_free(&errors);
    return reload_refuse(r, answer, 422, list, "%u error%s", n, n == 1 ? "" : "s");
}

/* Parameters are compared with those of now, which an operator may have set: the file counts. */
static unsigned
reload_compare(struct reload *r, json_t **answer)
{
    struct conf now = *snapshot_conf(registry_snapshot(r->m->env.registry));
    struct conf next = *r->conf;
    unsigned n;

    /* Else a parameter that an operator set by hand would look unchanged, and would keep its
     * value. */
    now.params = r->m->params;
    /* As they are behind it: where the fleet has a value, the file's is none that comes into force. */
    manage_shared_params(r->m, &next.params);
    /* Another text that means the same changes nothing, but other nodes of a fleet compare the texts that policies were
     * loaded with. */
    r->origins_changed = now.content != r->conf->content;
    n = conf_compare(&now, &next, reload_on_change, r);
    tassert(n == json_array_size(r->restarts));
    if (n == 0)
        return 0;
    return reload_refuse(r, answer, 409, json_incref(r->restarts),
        "%u change%s need%s a restart of tarnd", n, n == 1 ? "" : "s", n == 1 ? "s" : "");
}

/* A smaller store must still hold the tables that were made for the larger one.  What is declared was
 * checked by the loader, as at a start; a table that grew by itself is no reason to refuse a file that
 * asks for nothing smaller. */
static unsigned
reload_check_storage(struct reload *r, json_t **answer)
{
    const struct conf_storage *store = conf_main_storage(r->conf);
    struct storage_stats s;
    uint64_t tables;

    if (store->size >= r->m->storage_bytes)
        return 0;
    storage_get_stats(r->m->env.storage, &s);
    tables = s.leaf[CHARGE_INDEX] + s.leaf[CHARGE_GHOST] + s.leaf[CHARGE_NEGATIVE] +
             s.leaf[CHARGE_RATES];
    if (tables <= conf_tables_most(store->size))
        return 0;
    return reload_refuse(r, answer, 409, NULL,
        "storage.%s.size: its tables take %llu bytes, more than three quarters of that; restart "
        "tarnd, or make it at least %llu",
        store->name, (unsigned long long)tables, (unsigned long long)tables / 3 * 4 + 4);
}

/* Backends that are configured as before are the same objects in the new snapshot, with their
 * connections and health: only changed ones begin anew. */
static unsigned
reload_make_snapshot(struct reload *r, json_t **answer)
{
    struct registry *rg = r->m->env.registry;
    int err = snapshot_open(&r->snapshot, rg, r->conf, registry_snapshot(rg));

    tassert((err == 0) == (r->snapshot != NULL));
    if (err != 0)
        return reload_refuse(r, answer, 503, NULL, "backends: %s", terr_text(err));
    /* From here on the configuration lives as long as requests hold the snapshot. */
    snapshot_own_conf(r->snapshot);
    return 0;
}

static unsigned
reload_make_access_log(struct reload *r, json_t **answer)
{
    const struct conf_params *was = &r->m->params, *next = &r->conf->params;
    char why[256] = "";

    tassert(r->access == NULL);
    /* The log's thread goes on with the file that it has. */
    if (strcmp(was->access_log, next->access_log) == 0 &&
        strcmp(was->access_log_format, next->access_log_format) == 0)
        return 0;
    if (access_log_prepare(r->m->env.access, &r->access, next->access_log, next->access_log_format,
            why, sizeof(why)) == 0)
        return 0;
    return reload_refuse(r, answer, 409, NULL, "parameters.access_log: %.200s: %s%s",
        next->access_log, why,
        was->sandbox && strcmp(why, strerror(EACCES)) == 0
            ? ": its permissions; or the sandbox, for which another directory takes a restart"
            : "");
}

/* Behind `last`, the last of before, are those that were bound now.
 * Addresses that this reload bound were never given to a worker, so endpoints_forget() may free
 * them at once. */
static void
reload_undo_endpoints(struct reload *r, const struct endpoint *last)
{
    struct endpoints *all = r->m->env.shared->endpoints;

    endpoints_unprepare(all);
    while ((last != NULL ? last->next : all->first) != NULL)
        endpoints_forget(all, last != NULL ? last->next : all->first);
}

static unsigned
reload_make_endpoints(struct reload *r, const struct endpoint *last, json_t **answer)
{
    struct endpoints *all = r->m->env.shared->endpoints;

    /* An address that an earlier reload dropped may be free by now, and may be wanted again. */
    endpoints_tend(all);
    for (unsigned i = 0; i < r->conf->nlistens; i++) {
        char why[256] = "";
        struct endpoint *d = endpoints_find(all, &r->conf->listens[i]);
        int err;

        if (d != NULL)
            err = endpoints_prepare(all, d, &r->conf->listens[i], why, sizeof(why));
        else
            /* With the process's parameters: those of binding need a restart. */
            err = endpoints_bind(all, &d, &r->conf->listens[i], &r->m->params, why, sizeof(why));
        if (err != 0) {
            reload_undo_endpoints(r, last);
            return reload_refuse(
                r, answer, 409, NULL, "listen: %s", why[0] != '\0' ? why : terr_text(err));
        }
    }
    return 0;
}

static unsigned
reload_policy(struct reload *r, json_t **answer)
{
    struct vcl_error *errors = NULL;
    const char *why = "", *what = "";
    int err = policies_reload(
        r->m->env.policies, r->snapshot, r->origins_changed, &r->policy, &errors, &what, &why);
    unsigned n = 0;
    json_t *list;

    tassert(r->snapshot != NULL); /* policies name the backends of it */
    reload_log_vcl(errors);
    if (err == 0) {
        vcl_errors_free(&errors);
        return 0;
    }
    list = admin_vcl_errors(errors, false, &n);
    vcl_errors_free(&errors);
    if (n > 0)
        return reload_refuse(r, answer, 422, list, "%s: %u error%s", what, n, n == 1 ? "" : "s");
    json_decref(list);
    /* A policy's file that is missing is the configuration's mistake. */
    return reload_refuse(r, answer, err == TERR_NOTFOUND ? 422 : 503, NULL, "%s: %s", what,
        err == TERR_NOTFOUND ? why : terr_text(err));
}

/* A text that changed is a change, as a key of the file is. */
static void
reload_tell_policy(struct reload *r)
{
    char to[128];

    if (!r->policy.text_changed || r->vcl_told)
        return;
    snprintf(to, sizeof(to), "%s, text changed", r->policy.name);
    reload_on_change(
        r, &(struct conf_change){.what = "vcl", .from = r->policy.before, .to = to, .live = true});
}

static json_t *
reload_policy_json(const struct reload *r)
{
    json_t *o = json_object();

    json_put_text(o, "name", r->policy.name);
    json_put_text(o, "file", r->policy.file);
    json_put_text(o, "before", r->policy.before);
    json_put(o, "by_hand", json_boolean(r->policy.name[0] != '\0' && !r->policy.of_file));
    json_put(o, "text_changed", json_boolean(r->policy.text_changed));
    json_put_text(o, "said", r->policy.said);
    return o;
}

/* --- from here on it counts --- */

static void
reload_tell_workers(struct reload *r, struct endpoint *d, bool open)
{
    tassert(!open || d->bound != NULL);
    tassert(open != d->dropped);
    for (unsigned i = 0; i < r->m->env.nworkers; i++) {
        struct worker *w = r->m->env.workers[i];
        int err = w == NULL ? 0 : open ? worker_open_endpoint(w, d) : worker_close_endpoint(w, d);

        /* It counts already: what one worker cannot open, the others serve. */
        if (err != 0)
            elog(ELOG_ERROR, "reload: listener %s, worker %u: %s", d->address, i, terr_text(err));
    }
}

/* A walk in the order of the list: those of before first, and behind `last` those that were
 * bound now.  These hold their ports already, so no other process takes one in between. */
static void
reload_move_endpoints(struct reload *r, const struct endpoint *last)
{
    struct endpoints *all = r->m->env.shared->endpoints;
    bool is_new = last == NULL;

    for (struct endpoint *d = all->first; d != NULL; d = d->next) {
        bool named = d->dropped;

        for (unsigned i = 0; i < r->conf->nlistens && !named; i++)
            named = endpoints_find(all, &r->conf->listens[i]) == d;
        if (is_new)
            reload_tell_workers(r, d, true);
        /* Behind the call above: the last of before is none of the new. */
        is_new |= d == last;
        if (named)
            continue;
        d->dropped = true;
        reload_tell_workers(r, d, false);
    }
    tassert(is_new); /* `last` is one of the list, so workers have opened all behind it */
}

/* Nothing below fails the reload.  Its order is what a client may see in between: routes, then
 * listeners, then parameters. */
static void
reload_commit(struct reload *r, const struct endpoint *last)
{
    struct manage *m = r->m;
    struct conf_params params = m->params;

    tassert(m->phase == MANAGE_RUNNING);
    tassert(json_array_size(r->restarts) == 0);
    /* Backends first: what comes in by a new listener finds the routes that belong to it. */
    registry_adopt(m->env.registry, &r->snapshot);
    tassert(r->snapshot == NULL); /* workers read it now, and with it r->conf */
    endpoints_alter(m->env.shared->endpoints);
    reload_move_endpoints(r, last);
    /* The others keep what the process began with, or reload_compare() had refused the file. */
    conf_params_take_live(&params, &r->conf->params);
    manage_shared_params(m, &params);
    /* Before the parameters: they take the size along to the workers. */
    manage_set_storage(m, conf_main_storage(r->conf)->size);
    manage_set_params(m, &params);
    manage_shared_secret(m);
    if (r->access != NULL)
        access_log_turn(m->env.access, &r->access);
    tassert(r->access == NULL);
}

static unsigned
reload_run(struct reload *r, json_t **answer)
{
    struct endpoint *last = r->m->env.shared->endpoints->first;
    unsigned status = reload_read(r, answer);

    while (last != NULL && last->next != NULL)
        last = last->next;
    if (status == 0)
        status = reload_compare(r, answer);
    if (status == 0)
        status = reload_check_storage(r, answer);
    if (status == 0)
        status = reload_make_snapshot(r, answer);
    if (status == 0)
        status = reload_make_endpoints(r, last, answer);
    if (status == 0) {
        status = reload_make_access_log(r, answer); /* behind them, for it may make a file */
        if (status == 0)
            /* Last: a policy that is taken is active, and nothing may fail behind it. */
            status = reload_policy(r, answer);
        if (status != 0)
            reload_undo_endpoints(r, last);
    }
    if (status != 0)
        return status;
    reload_commit(r, last);
    manage_shared_reloaded(r->m);
    reload_tell_policy(r);
    elog(ELOG_INFO, "reload: %s: %zu %s; policy: %s", r->path, json_array_size(r->changes),
        json_array_size(r->changes) == 1 ? "change" : "changes", r->policy.said);
    *answer = json_object();
    json_put_text(*answer, "config", r->path);
    json_put(*answer, "changed", json_incref(r->changes));
    json_put(*answer, "policy", reload_policy_json(r));
    return 200;
}

unsigned
manage_reload(struct manage *m, json_t **answer)
{
    struct reload r = {.magic = RELOAD_MAGIC, .m = m, .path = m->env.conf->path};
    unsigned status;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* A listener that opens now would never be closed. */
    if (m->phase != MANAGE_RUNNING)
        return reload_refuse(&r, answer, 409, NULL, "this tarnd is draining");
    /* Each is followed by notify_ready(), also when it is refused: the service manager waits for
     * it. */
    notify_reloading(m->env.notify);
    r.changes = json_array();
    r.restarts = json_array();
    status = reload_run(&r, answer);
    tassert(status != 200 || r.snapshot == NULL); /* as a whole, or not at all */
    notify_ready(m->env.notify,
        status == 200 ? "serving; reloaded" : "serving as before; the last reload was refused");
    if (r.snapshot != NULL)
        snapshot_drop(&r.snapshot); /* and its conf */
    /* No snapshot owns it yet. */
    else if (status != 200 && r.conf != NULL)
        conf_free(&r.conf);
    if (r.access != NULL)
        access_aim_drop(&r.access);
    json_decref(r.changes);
    json_decref(r.restarts);
    return status;
}
