/* policies_reload.c -- the policy of the configuration: at start, and when the file is read anew. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/policy/policies_priv.h"

static void
policies_write(void *ctx, const char *text)
{
    (void)ctx;
    fputs(text, stderr);
}

/* `pol`, NULL: none, is what the configuration says from now on. */
static void
policies_is_of_file(struct policies *ps, struct policy *pol)
{
    tassert(pol == NULL || !pol->discarded);
    tassert(pol == NULL || pol->source != NULL);
    ps->of_file = pol;
    policy_source_drop(&ps->last_file);
    if (pol == NULL)
        return;
    pol->of_conf = true;
    ps->last_file = policy_source_hold(pol->source);
}

/* At the start.  Errors of the text go to standard error, where the operator reads them. */
int
policies_boot(struct policies *ps)
{
    const char *path = policies_conf(ps)->vcl, *why = "";
    struct vcl_error *errors = NULL;
    int err;

    tassert(ps->of_file == NULL); /* once, before there are others */
    if (path[0] == '\0')
        return 0;
    err = policies_load_file(ps, "boot", path, &errors, &why);
    if (err != 0 && errors == NULL)
        elog(ELOG_ERROR, "%s: %s", path, err == TERR_NOTFOUND ? why : terr_text(err));
    vcl_errors_print(errors, policies_write, NULL);
    vcl_errors_free(&errors);
    if (err != 0)
        return err;
    policies_is_of_file(ps, ps->all);
    return policies_publish(ps, ps->of_file);
}

/* --- is the text of the file another one? --- */

static bool
reload_text_changed(struct policies *ps)
{
    const char *path = policies_conf(ps)->vcl, *why;
    struct span text;
    bool current;

    /* A policy now, and none at the last look, or the other way round. */
    if (path[0] == '\0' || ps->last_file == NULL)
        return (path[0] == '\0') != (ps->last_file == NULL);
    if (policy_slurp(&(struct policy_dirs){.all = true}, path, POLICY_FILE_MAX, &text, &why) != 0)
        return true; /* to load it says what is wrong */
    current = policy_source_is_current(
        ps->last_file, path, slice_of(text.ptr, text.len), policy_reader(ps));
    free(text.ptr);
    return !current;
}

/* --- the same policies, for other backends --- */

/* Its text is compiled once more, under its name; the new one is in pol->instead, not linked. */
static int
reload_remake(struct policies *ps, struct policy *pol, struct vcl_error **errors)
{
    int err;

    tassert(pol->instead == NULL);
    tassert(ps->replayed == NULL);
    /* The loader answers from the kept texts: the policy stays as it was loaded, even if an
     * include has been edited since. */
    ps->replayed = pol->source;
    err = policy_new(
        &pol->instead, ps, pol->name, pol->file, policy_source_text(pol->source), errors);
    ps->replayed = NULL;
    tassert((err == 0) == (pol->instead != NULL));
    if (err == 0)
        pol->instead->of_conf = pol->of_conf;
    return err;
}

/* Not linked, so no worker has seen them: they are freed at once. */
static void
reload_forget_remade(struct policies *ps)
{
    for (struct policy *p = ps->all; p != NULL; p = p->next) {
        if (p->instead == NULL)
            continue;
        tassert(p->instead->next == NULL);
        tassert(p->instead->nlabels == 0); /* they were moved back, if they were moved */
        policy_free(&p->instead);
    }
}

/* Those that requests may begin with, and the configuration's own.  `stays`: the active one and that
 * of the configuration are still wanted. */
static int
reload_remake_all(struct policies *ps, bool stays, struct vcl_error **errors, const char **what)
{
    for (struct policy *p = ps->all; p != NULL; p = p->next) {
        bool wanted = p->nlabels > 0 || (stays && (p == ps->active || p == ps->of_file));
        int err;

        if (p->discarded || !wanted)
            continue;
        err = reload_remake(ps, p, errors);
        if (err != 0) {
            *what = p->name;
            reload_forget_remade(ps);
            return err;
        }
    }
    return 0;
}

static struct policy *
reload_now(struct policy *pol)
{
    return pol != NULL && pol->instead != NULL ? pol->instead : pol;
}

/* Each label stands for the new policy in place of the old; or, `back`, for the old one again. */
static void
reload_move_labels(struct policies *ps, bool back)
{
    for (struct policy *p = ps->all; p != NULL; p = p->next) {
        struct policy *from = back ? p->instead : p, *to = back ? p : p->instead;
        unsigned moved = 0;

        if (p->instead == NULL)
            continue;
        for (struct policy_tag *t = ps->labels; t != NULL; t = t->next)
            if (t->policy == from) {
                t->policy = to;
                moved++;
            }
        tassert(to->nlabels == 0);
        tassert(from->nlabels == moved);
        to->nlabels = from->nlabels;
        from->nlabels = 0;
    }
}

/* Those that were remade are in the registry, and those of before go. */
static void
reload_replace(struct policies *ps)
{
    struct policy *next;

    for (struct policy *p = ps->all; p != NULL; p = next) {
        struct policy *fresh = p->instead;

        next = p->next;
        if (fresh == NULL)
            continue;
        tassert(p->nlabels == 0); /* they were moved, and the new set is published */
        p->instead = NULL;
        policies_link(ps, fresh);
        /* Before policies_let_go, which forgets the configuration's policy when it is `p`. */
        if (p == ps->of_file)
            policies_is_of_file(ps, fresh);
        policies_let_go(ps, p);
    }
}

/* --- what is said --- */

static void
reload_say(const struct policies *ps, bool remade, struct policies_became *b)
{
    const struct policy *pol = ps->active;
    const char *file = pol != NULL ? pol->file : "";
    const char *slash = strrchr(file, '/');

    if (slash != NULL)
        file = slash + 1;
    snprintf(b->name, sizeof(b->name), "%s", pol != NULL ? pol->name : "");
    b->file = pol != NULL ? pol->file : "";
    b->of_file = pol != NULL && pol == ps->of_file;
    if (pol == NULL)
        snprintf(
            b->said, sizeof(b->said), "none%s", b->text_changed ? ": the file names none" : "");
    else if (b->text_changed)
        snprintf(b->said, sizeof(b->said), "%.64s from %.120s, text changed", pol->name, file);
    else if (b->of_file && remade)
        snprintf(b->said, sizeof(b->said),
            "kept %.64s, %.120s has not changed; loaded again for the current backends", pol->name,
            file);
    else if (b->of_file)
        snprintf(b->said, sizeof(b->said), "kept %.64s, %.120s has not changed", pol->name, file);
    else
        snprintf(b->said, sizeof(b->said), "kept %.64s, %s by hand%s", pol->name,
            pol->of_conf ? "put in use" : "loaded",
            remade ? "; loaded again for the current backends" : "");
}

/* --- the steps --- */

/* The configuration's policy, anew, or none: *out, linked. */
static int
reload_take(struct policies *ps, struct policy **out, struct vcl_error **errors, const char **what,
    const char **why)
{
    const char *path = policies_conf(ps)->vcl;
    char name[32];
    int err;

    *out = NULL;
    if (path[0] == '\0')
        return 0;
    *what = path;
    /* A number is never used again, but an operator may have taken the name. */
    do
        snprintf(name, sizeof(name), "boot.%u", ++ps->nreloads);
    while (policies_find(ps, name) != NULL || policies_find_label(ps, name) != NULL);
    err = policies_load_file(ps, name, path, errors, why);
    if (err != 0)
        return err;
    tassert(strcmp(ps->all->name, name) == 0); /* the newest first */
    *out = ps->all;
    return 0;
}

/* What is loaded names the backends of ps->snapshot. */
static int
reload_policies(struct policies *ps, bool origins_changed, struct policies_became *became,
    struct vcl_error **errors, const char **what, const char **why)
{
    struct policy *before = ps->of_file, *taken = NULL, *active = NULL;
    int err = 0;

    became->text_changed = reload_text_changed(ps);
    if (became->text_changed)
        err = reload_take(ps, &taken, errors, what, why);
    if (err == 0 && origins_changed)
        err = reload_remake_all(ps, !became->text_changed, errors, what);
    if (err == 0) {
        active = became->text_changed ? taken : reload_now(ps->active);
        origins_changed = !became->text_changed && active != ps->active;
        /* Labels first, then one publication: no worker sees a label of before beside the new
         * active policy. */
        reload_move_labels(ps, false);
        err = policies_publish(ps, active);
        if (err != 0) {
            reload_move_labels(ps, true);
            reload_forget_remade(ps);
        }
    }
    if (err != 0) {
        if (taken != NULL)
            policies_let_go(ps, taken);
        return err;
    }
    reload_replace(ps);
    if (became->text_changed) {
        /* A failed load has changed nothing until here; from here on nothing can fail. */
        if (before != NULL && before == ps->of_file)
            policies_discard(ps, before->name); /* unless it has a label */
        policies_is_of_file(ps, taken);
    }
    reload_say(ps, origins_changed, became);
    return 0;
}

int
policies_reload(struct policies *ps, struct backend_snapshot *u, bool origins_changed,
    struct policies_became *became, struct vcl_error **errors, const char **what, const char **why)
{
    struct backend_snapshot *old = ps->snapshot;
    int err;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    tassert(ps->recorded == NULL && ps->replayed == NULL); /* no load is under way */
    *became = (struct policies_became){.text_changed = false};
    if (ps->active != NULL)
        snprintf(became->before, sizeof(became->before), "%s", ps->active->name);
    *errors = NULL;
    *why = "";
    *what = "";
    /* Loads find the new backends here; on an error the old snapshot is back, as if nothing had
     * been. */
    ps->snapshot = snapshot_hold(u);
    err = reload_policies(ps, origins_changed, became, errors, what, why);
    if (err != 0) {
        snapshot_drop(&ps->snapshot);
        ps->snapshot = old;
        return err;
    }
    snapshot_drop(&old);
    policies_tick(ps);
    return 0;
}
