/* policies.c -- the policies of the process, and what workers see of them. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/http/date.h"
#include "daemon/log/elog.h"
#include "daemon/policy/policies_priv.h"

/* A discarded policy that still serves requests is not found: its name is free for another one at
 * once. */
struct policy *
policies_find(struct policies *ps, const char *name)
{
    for (struct policy *p = ps->all; p != NULL; p = p->next)
        if (!p->discarded && strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

struct policy_tag *
policies_find_label(struct policies *ps, const char *label)
{
    for (struct policy_tag *t = ps->labels; t != NULL; t = t->next)
        if (strcmp(t->name, label) == 0)
            return t;
    return NULL;
}

/* A policy's or a label's: as an ID of the language, and dots. */
bool
policies_name_ok(const char *name)
{
    size_t len = strlen(name);

    /* Names go into paths of the API and into labels of metrics. */
    if (len == 0 || len > POLICY_NAME_MAX || !((name[0] | 32) >= 'a' && (name[0] | 32) <= 'z'))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == len;
}

/* A set that was replaced, until no worker can be in a turn that has read it. */
struct policies_later {
    struct rcu_later later;
    struct policy_set *set;
};

static void
policies_set_free(struct rcu_later *later)
{
    struct policies_later *l = container_of(later, struct policies_later, later);

    tassert(l->set != NULL); /* the first set replaced none, and nothing waited for it */
    free(l->set);
    free(l);
}

int
policies_publish(struct policies *ps, struct policy *active)
{
    struct policy_set *set, *old;
    struct policies_later *later = calloc(1, sizeof(*later));
    unsigned n = 0;

    tassert(active == NULL || !active->discarded);
    set = calloc(1, sizeof(*set) + ps->nlabels * sizeof(set->labels[0]));
    /* All memory before anything changes: once workers see the new set, the old one must get its
     * grace period. */
    if (set == NULL || later == NULL) {
        free(set);
        free(later);
        return TERR_NOMEM;
    }
    set->generation = ++ps->generation;
    set->active = active;
    for (struct policy_tag *t = ps->labels; t != NULL; t = t->next) {
        tassert(n < ps->nlabels); /* the room that was made */
        tassert(!t->policy->discarded);
        set->labels[n++] = (struct policy_label){t->name, t->policy};
    }
    tassert(n == ps->nlabels);
    set->nlabels = n;
    old = atomic_load_explicit(&ps->set, memory_order_relaxed);
    /* Only this thread writes it: a set is read whole or not at all, and counts up. */
    tassert(old == NULL || set->generation > old->generation);
    atomic_store_explicit(&ps->set, set, memory_order_release);
    ps->active = active;
    if (ps->cache != NULL)
        cache_forget_absent(ps->cache); /* behind the store: see policy_is_in_use() */
    later->set = old;
    if (old != NULL)
        rcu_free_later(&later->later, policies_set_free);
    else
        free(later);
    return 0;
}

int
policies_open(
    struct policies **out, struct registry *registry, struct cache *cache, struct storage *storage)
{
    struct policies *ps = calloc(1, sizeof(*ps));

    if (ps == NULL)
        return TERR_NOMEM;
    ps->magic = POLICIES_MAGIC;
    ps->registry = registry;
    ps->snapshot = snapshot_hold(registry_snapshot(registry));
    ps->cache = cache;
    ps->storage = storage;
    /* Workers read the set without asking whether there is one (policy_look), so an empty one is
     * there first. */
    if (policies_publish(ps, NULL) != 0) {
        snapshot_drop(&ps->snapshot);
        OBJ_FREE(ps);
        return TERR_NOMEM;
    }
    tassert(ps->generation == 1); /* workers begin with 0, and so look at once */
    if (cache != NULL)
        cache_set_resolver(cache, (struct invalidation_resolver){policies_resolve, ps});
    *out = ps;
    return 0;
}

void
policies_set_loop_id(struct policies *ps, struct slice loop_id)
{
    OBJ_CHECK(ps, POLICIES_MAGIC);
    ps->loop_id = loop_id;
}

void
policies_set_peers(struct policies *ps, struct peers *peers)
{
    ps->peers = peers;
}

void
policies_close(struct policies **pp)
{
    struct policies *ps;

    OBJ_TAKE(ps, pp, POLICIES_MAGIC);
    ps->cache = NULL;   /* it has gone: vcl_fini bans nothing */
    rcu_barrier_wait(); /* for those discarded just now */
    while (ps->labels != NULL) {
        struct policy_tag *t = ps->labels;

        ps->labels = t->next;
        free(t->name);
        free(t);
    }
    while (ps->all != NULL) {
        struct policy *p = ps->all;

        tassert(p->instead == NULL); /* no reload is under way */
        ps->all = p->next;
        policy_free(&p);
    }
    /* The workers have ended, so the last set needs no grace period. */
    free(atomic_load(&ps->set));
    policy_source_drop(&ps->last_file);
    snapshot_drop(&ps->snapshot);
    OBJ_FREE(ps);
}

void
policies_link(struct policies *ps, struct policy *pol)
{
    OBJ_CHECK(pol, POLICY_MAGIC);
    tassert(pol->next == NULL);
    tassert(pol->policies == ps);
    tassert(!pol->discarded);
    /* On the management thread, as the whole list: workers find policies by the set alone. */
    pol->next = ps->all;
    ps->all = pol;
    ps->npolicies++;
}

static int
policies_load_text(struct policies *ps, const char *name, const char *file_name, struct slice text,
    bool sent, struct vcl_error **errors)
{
    struct policy *pol;
    int err;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    tassert(!ps->sent); /* no load within another one: what it may read is said by this */
    tassert(ps->replayed == NULL);
    *errors = NULL;
    if (!policies_name_ok(name))
        return TERR_SYNTAX;
    if (policies_find(ps, name) != NULL || policies_find_label(ps, name) != NULL)
        return TERR_EXISTS;
    /* Discarded policies count against the limit until they are freed: free those that can go
     * first. */
    policies_tick(ps);
    if (ps->npolicies >= POLICIES_MAX || text.len > POLICY_FILE_MAX)
        return TERR_LIMIT;
    /* Read by the loader's callbacks below, which have no other way to know. */
    ps->sent = sent;
    err = policy_new(&pol, ps, name, file_name, text, errors);
    ps->sent = false;
    if (err != 0)
        return err;
    policies_link(ps, pol);
    return 0;
}

int
policies_load(struct policies *ps, const char *name, const char *file_name, struct slice text,
    struct vcl_error **errors)
{
    return policies_load_text(ps, name, file_name, text, true, errors);
}

int
policies_load_file(struct policies *ps, const char *name, const char *path,
    struct vcl_error **errors, const char **why)
{
    struct span text;
    /* The configuration names it, so it may be any file. */
    int err = policy_slurp(&(struct policy_dirs){.all = true}, path, POLICY_FILE_MAX, &text, why);

    *errors = NULL;
    if (err != 0)
        return err == TERR_NOMEM ? err : TERR_NOTFOUND;
    err = policies_load_text(ps, name, path, slice_of(text.ptr, text.len), false, errors);
    free(text.ptr);
    return err;
}

_Atomic(struct policy_set *) *
policies_set(struct policies *ps)
{
    OBJ_CHECK(ps, POLICIES_MAGIC);
    return &ps->set;
}

/* A label may stand for the policy: names and labels are one name space (TERR_EXISTS in
 * policies_label). */
int
policies_use(struct policies *ps, const char *name)
{
    struct policy_tag *t = policies_find_label(ps, name);
    struct policy *pol = t != NULL ? t->policy : policies_find(ps, name);

    OBJ_CHECK(ps, POLICIES_MAGIC);
    /* A policy without requests is ready at once: it was compiled and its vcl_init run when it was
     * loaded. */
    return pol == NULL ? TERR_NOTFOUND : policies_publish(ps, pol);
}

/* No worker is between having found it and having counted itself in. */
static void
policies_on_grace(struct rcu_later *later)
{
    struct policy *pol = container_of(later, struct policy, later);

    OBJ_CHECK(pol, POLICY_MAGIC);
    tassert(pol->discarded);
    tassert(!atomic_load_explicit(&pol->let_go, memory_order_relaxed));
    atomic_store_explicit(&pol->let_go, true, memory_order_relaxed);
    atomic_fetch_sub_explicit(&pol->refs, 1, memory_order_release); /* it may go from here on */
}

void
policies_let_go(struct policies *ps, struct policy *pol)
{
    tassert(pol != ps->active);
    tassert(pol->nlabels == 0);
    tassert(!pol->discarded); /* the registry's count goes once */
    pol->discarded = true;
    /* A reload compares with it, and must not find freed memory. */
    if (pol == ps->of_file)
        ps->of_file = NULL;
    rcu_free_later(&pol->later, policies_on_grace);
}

int
policies_discard(struct policies *ps, const char *name)
{
    struct policy *pol = policies_find(ps, name);

    OBJ_CHECK(ps, POLICIES_MAGIC);
    if (pol == NULL)
        return TERR_NOTFOUND;
    if (pol == ps->active || pol->nlabels > 0)
        return TERR_BUSY;
    policies_let_go(ps, pol);
    /* Others may be due: the name is free at once, the memory when its last request has ended. */
    policies_tick(ps);
    return 0;
}

/* NULL: no memory. */
static struct policy_tag *
policies_label_new(struct policies *ps, const char *label)
{
    struct policy_tag *t = calloc(1, sizeof(*t));

    tassert(ps->nlabels < POLICY_LABELS_MAX);
    if (t == NULL || (t->name = strdup(label)) == NULL) {
        free(t);
        return NULL;
    }
    t->next = ps->labels;
    ps->labels = t;
    ps->nlabels++;
    return t;
}

/* The newest, before it was published: no other thread has seen it. */
static void
policies_label_undo(struct policies *ps, struct policy_tag *t)
{
    tassert(ps->labels == t);
    tassert(ps->nlabels > 0);
    ps->labels = t->next;
    ps->nlabels--;
    free(t->name);
    free(t);
}

int
policies_label(struct policies *ps, const char *label, const char *name)
{
    struct policy *pol = policies_find(ps, name), *old;
    struct policy_tag *t = policies_find_label(ps, label);
    int err;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    if (pol == NULL)
        return TERR_NOTFOUND;
    if (!policies_name_ok(label))
        return TERR_SYNTAX;
    if (policies_find(ps, label) != NULL)
        return TERR_EXISTS;
    /* A labelled policy switches to no label itself: else labels could form a circle that a
     * request never leaves. */
    if (vcl_labels(pol->vcl) > 0)
        return TERR_INVALID;
    if (t == NULL && ps->nlabels >= POLICY_LABELS_MAX)
        return TERR_LIMIT;
    if (t == NULL)
        t = policies_label_new(ps, label);
    if (t == NULL)
        return TERR_NOMEM;
    old = t->policy; /* NULL: the label is new */
    t->policy = pol;
    err = policies_publish(ps, ps->active);
    if (err != 0) { /* workers see the labels as they were */
        t->policy = old;
        if (old == NULL)
            policies_label_undo(ps, t);
        return err;
    }
    /* Behind the publishing: a failure above leaves every count as it was. */
    pol->nlabels++;
    if (old != NULL) {
        tassert(old->nlabels > 0);
        old->nlabels--;
    }
    return 0;
}

/* Does a policy go to it? */
static bool
policies_label_is_named(struct policies *ps, const char *label)
{
    for (struct policy *p = ps->all; p != NULL; p = p->next)
        /* A discarded one still has requests, but begins none that could switch. */
        for (unsigned i = 0; i < vcl_labels(p->vcl) && !p->discarded; i++)
            if (strcmp(vcl_label_name(p->vcl, i), label) == 0)
                return true;
    return false;
}

struct policies_tag_later {
    struct rcu_later later;
    struct policy_tag *tag;
};

static void
policies_tag_free(struct rcu_later *later)
{
    struct policies_tag_later *l = container_of(later, struct policies_tag_later, later);

    free(l->tag->name);
    free(l->tag);
    free(l);
}

int
policies_unlabel(struct policies *ps, const char *label)
{
    struct policy_tag *t = policies_find_label(ps, label), **at;
    struct policies_tag_later *later;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    if (t == NULL)
        return TERR_NOTFOUND;
    if (policies_label_is_named(ps, label))
        return TERR_BUSY;
    /* Before the label leaves the list: its name may be freed only behind a grace period. */
    later = calloc(1, sizeof(*later));
    if (later == NULL)
        return TERR_NOMEM;
    for (at = &ps->labels; *at != t; at = &(*at)->next)
        ;
    tassert(ps->nlabels > 0);
    *at = t->next;
    ps->nlabels--;
    if (policies_publish(ps, ps->active) != 0) {
        /* Its place in the list does not matter. */
        t->next = ps->labels;
        ps->labels = t;
        ps->nlabels++;
        free(later);
        return TERR_NOMEM;
    }
    tassert(t->policy->nlabels > 0);
    t->policy->nlabels--;
    later->tag = t; /* workers may still compare its name, in the set of before */
    rcu_free_later(&later->later, policies_tag_free);
    return 0;
}

void
policies_each(struct policies *ps, void (*f)(void *ctx, const struct policy_seen *seen), void *ctx)
{
    OBJ_CHECK(ps, POLICIES_MAGIC);
    for (struct policy *p = ps->all; p != NULL; p = p->next) {
        /* `workers` is for people: until the grace period is over, one reference is the registry's
         * own. */
        unsigned refs = atomic_load_explicit(&p->refs, memory_order_relaxed);
        struct policy_seen seen = {
            .name = p->name,
            .file = p->file,
            .state = p->discarded      ? "discarded"
                     : p == ps->active ? "active"
                                       : "warm",
            .workers = atomic_load_explicit(&p->let_go, memory_order_relaxed) || refs == 0
                           ? refs
                           : refs - 1,
            .loaded_s = p->loaded_s,
        };

        f(ctx, &seen);
    }
    for (struct policy_tag *t = ps->labels; t != NULL; t = t->next) {
        struct policy_seen seen = {
            .name = t->name, .file = "", .state = "label", .label_of = t->policy->name};

        tassert(t->policy->nlabels > 0); /* it is counted, and so the policy cannot go */
        f(ctx, &seen);
    }
}

void
policies_tick(struct policies *ps)
{
    struct policy **at = &ps->all;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    while (*at != NULL) {
        struct policy *p = *at;

        /* Acquire: all that its last worker did with it is over.  A loaded policy stays without
         * references too: it may be made active. */
        if (!p->discarded || atomic_load_explicit(&p->refs, memory_order_acquire) > 0) {
            at = &p->next;
            continue;
        }
        tassert(p != ps->active);
        tassert(p != ps->of_file);
        tassert(p->nlabels == 0);
        tassert(atomic_load_explicit(&p->let_go, memory_order_relaxed)); /* the registry's count */
        tassert(ps->npolicies > 0);
        *at = p->next;
        ps->npolicies--;
        elog(ELOG_INFO, "policy %s: its last request has ended", p->name);
        policy_free(&p);
    }
}

uint64_t
policies_digest_of(struct policies *ps, const char *name)
{
    const struct policy *p = policies_find(ps, name);

    return p != NULL ? p->digest : 0;
}

uint64_t
policies_rules(const struct policies *ps)
{
    OBJ_CHECK(ps, POLICIES_MAGIC);
    return policy_rules(ps->active, ps->registry);
}

void
policies_params(const struct policies *ps, struct conf_params *params)
{
    if (ps->active == NULL)
        return;
    tassert(!ps->active->discarded);
    /* Varnish's defaults where the file says nothing: policies count on them. */
    params->default_ttl = policy_default_ttl_ms(params);
    if (!params->heuristic_said)
        params->heuristic_max = 0;
}
