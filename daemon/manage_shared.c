/* manage_shared.c -- what the fleet's nodes have alike, at this node: taken as an operator's commands would.
 *
 *   policy            "NAME\nTEXT": compiled, and used; "": the node's own again
 *   policy/try/NODE   the same, compiled alone, for that node: what no node refuses is shared as `policy` then, and this is taken back;
 *                     also when that node has gone meanwhile, or forgotten it
 *   policy/before     the one before it, for the way back
 *   parameter/NAME    a value, above that of the file; "", or taken back: the file's
 *   table/NAME        "KIND\nTEXT": the table's entries; KIND empty: as the node has it
 *   session_secret    of TLS tickets, with `session_secret: on`: the first node that finds none writes one, and each day's
 *                     is written when the first node needs it; all derive the same (tls/tls_secret.h)
 *   challenge/TOKEN   what an ACME CA is answered (RFC 8555 8.3); "", and then taken back, when it has asked
 *   challenge/tls-alpn-01/NAME   the certificate that it is shown, and its key (RFC 8737 3)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "conf/conf_params.h"
#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/fleet_shared.h"
#include "daemon/listeners.h"
#include "daemon/listeners_tls.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/policy/policies.h"
#include "daemon/proxy/challenges.h"
#include "daemon/table/table_load.h"
#include "daemon/table/table_view.h"
#include "daemon/tls/tls_secret.h"
#include "daemon/worker.h"
#include "vcl-lite/vcl.h"

#define SHARED_TRY_FRONT "policy/try/"

enum {
    SHARED_POLICIES = 16, /* loaded for the fleet: in use, before that, tried; what labels keep */
    SHARED_NAME_MAX = 80,
    SHARED_VALUE_MAX = 160,
};

struct shared_policy {
    char name[SHARED_NAME_MAX];
    uint64_t hash;   /* of its text */
    uint64_t digest; /* policies_digest_of() it, when it was loaded */
    uint64_t used;   /* the larger, the later */
};

struct shared_param {
    int i; /* of conf_params */
    char value[SHARED_VALUE_MAX];
};

struct manage_shared {
    struct shared_policy policies[SHARED_POLICIES];
    uint64_t uses;
    char own[SHARED_NAME_MAX]; /* the policy that was in use before the fleet's; "": none */
    bool in_use;               /* the fleet's is */
    char *policy, *before;     /* texts of the things; owned, or NULL */
    struct shared_param *params;
    unsigned nparams;
    bool has_secret;    /* the engine has one, which is ours */
    bool secret_is_set; /* `secret` is one */
    struct tls_secret secret;
};

/* ---- policies ---- */

/* "NAME\nTEXT" */
static bool
shared_split(struct slice text, char *name, size_t size, struct slice *rest)
{
    const char *end = text.len > 0 ? memchr(text.ptr, '\n', text.len) : NULL;
    size_t len = end != NULL ? (size_t)(end - text.ptr) : 0;

    if (end == NULL || len >= size)
        return false;
    memcpy(name, text.ptr, len);
    name[len] = '\0';
    *rest = slice_of(end + 1, text.len - len - 1);
    return true;
}

static void
shared_on_active(void *ctx, const struct policy_seen *seen)
{
    if (seen->label_of == NULL && strcmp(seen->state, "active") == 0)
        snprintf(ctx, SHARED_NAME_MAX, "%s", seen->name);
}

static struct shared_policy *
shared_find_policy(struct manage_shared *s, const char *name)
{
    for (unsigned i = 0; i < SHARED_POLICIES; i++)
        if (strcmp(s->policies[i].name, name) == 0)
            return &s->policies[i];
    return NULL;
}

/* The place of the one that was used longest ago, of those that can go: one in use, or with a label, stays.  NULL: none can. */
static struct shared_policy *
shared_policy_room(struct manage *m)
{
    struct manage_shared *s = m->shared;
    bool stays[SHARED_POLICIES] = {false};

    for (;;) {
        struct shared_policy *oldest = NULL;

        for (unsigned i = 0; i < SHARED_POLICIES; i++) {
            if (s->policies[i].name[0] == '\0')
                return &s->policies[i];
            if (!stays[i] && (oldest == NULL || s->policies[i].used < oldest->used))
                oldest = &s->policies[i];
        }
        if (oldest == NULL)
            return NULL;
        if (policies_discard(m->env.policies, oldest->name) != TERR_BUSY) {
            oldest->name[0] = '\0';
            return oldest;
        }
        stays[oldest - s->policies] = true;
    }
}

static void
shared_say_errors(const struct vcl_error *e, char *why, size_t size)
{
    while (e != NULL && e->is_warning)
        e = e->next;
    if (e != NULL)
        snprintf(why, size, "%s:%u:%u: %s", e->file != NULL ? e->file : "policy", e->line,
            e->column, e->message);
}

/* It is loaded. */
static bool
shared_note_policy(struct manage *m, const char *name, uint64_t hash, char *why, size_t size)
{
    struct shared_policy *p = shared_find_policy(m->shared, name);

    if (p == NULL)
        p = shared_policy_room(m);
    if (p == NULL) {
        snprintf(why, size, "%d policies of the fleet are in use here, or have labels",
            (int)SHARED_POLICIES);
        policies_discard(m->env.policies, name);
        return false;
    }
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->hash = hash;
    p->digest = policies_digest_of(m->env.policies, name);
    p->used = ++m->shared->uses;
    return true;
}

static bool
shared_load(struct manage *m, struct slice text, char name[SHARED_NAME_MAX], char *why, size_t size)
{
    struct vcl_error *errors = NULL;
    struct shared_policy *p;
    struct slice body;
    uint64_t hash, now;
    int err;

    if (!shared_split(text, name, SHARED_NAME_MAX, &body)) {
        snprintf(why, size, "it has no name in front");
        return false;
    }
    hash = hash_plain(body.ptr, body.len);
    p = shared_find_policy(m->shared, name);
    now = policies_digest_of(m->env.policies, name);
    /* An operator may have discarded it, and loaded another one under its name. */
    if (now != 0 && p != NULL && p->hash == hash && p->digest == now)
        return true;
    if (now != 0 && p == NULL && now == hash) /* by hand, the same text, and no other included */
        return shared_note_policy(m, name, hash, why, size);
    err = policies_load(m->env.policies, name, name, body, &errors);
    if (err == TERR_EXISTS)
        snprintf(why, size, "this node has another policy named '%s': give it another name", name);
    else if (err != 0)
        snprintf(why, size, "%s", terr_text(err));
    if (err == TERR_CONFIG)
        shared_say_errors(errors, why, size);
    vcl_errors_free(&errors);
    return err == 0 && shared_note_policy(m, name, hash, why, size);
}

static void
shared_keep(char **to, struct slice text)
{
    free(*to);
    *to = text.len > 0 ? strndup(text.ptr, text.len) : NULL;
}

static bool
shared_own_policy(struct manage *m)
{
    struct manage_shared *s = m->shared;

    if (!s->in_use)
        return true;
    if (s->own[0] == '\0' || policies_use(m->env.policies, s->own) != 0)
        return false;
    s->in_use = false;
    shared_keep(&s->policy, slice_of("", 0));
    return true;
}

static bool
shared_take_policy(struct manage *m, const char *rest, struct slice text, char *why, size_t size)
{
    struct manage_shared *s = m->shared;
    char name[SHARED_NAME_MAX], active[SHARED_NAME_MAX] = "";
    int err;

    if (strcmp(rest, "/before") == 0) {
        shared_keep(&s->before, text);
        return true;
    }
    if (rest[0] != '\0' && strncmp(rest, "/try/", 5) != 0) {
        snprintf(why, size, "this node knows no such thing");
        return false;
    }
    if (text.len == 0 && rest[0] == '\0') {
        snprintf(why, size, "this node has no policy of its own to go back to");
        return shared_own_policy(m);
    }
    if (!shared_load(m, text, name, why, size))
        return false;
    if (rest[0] != '\0')
        return true;
    policies_each(m->env.policies, shared_on_active, active);
    if (!s->in_use)
        memcpy(s->own, active, sizeof(s->own));
    err = policies_use(m->env.policies, name);
    if (err != 0) {
        snprintf(why, size, "%s", terr_text(err));
        return false;
    }
    s->in_use = true;
    shared_find_policy(s, name)->used = ++s->uses;
    shared_keep(&s->policy, text);
    return true;
}

/* The file's policy may have been taken: that is the one to go back to. */
static void
shared_above_file(struct manage *m)
{
    struct manage_shared *s = m->shared;
    char active[SHARED_NAME_MAX] = "", name[SHARED_NAME_MAX];
    struct slice text;

    if (!s->in_use || s->policy == NULL ||
        !shared_split(slice_str(s->policy), name, sizeof(name), &text))
        return;
    policies_each(m->env.policies, shared_on_active, active);
    if (strcmp(active, name) == 0)
        return;
    memcpy(s->own, active, sizeof(s->own));
    if (policies_use(m->env.policies, name) == 0)
        elog(ELOG_INFO, "fleet: policy '%s' of the fleet counts above '%s'", name, active);
}

void
manage_shared_reloaded(struct manage *m)
{
    if (m->shared == NULL)
        return;
    shared_above_file(m);
    fleet_shared_again(m->fleet);
}

static void
shared_policy_gone(struct manage *m, const char *rest)
{
    if (rest[0] == '\0')
        shared_own_policy(m);
    else if (strcmp(rest, "/before") == 0)
        shared_keep(&m->shared->before, slice_of("", 0));
}

/* ---- policies that are tried ---- */

/* Its node is there, and waits for what becomes of it. */
static bool
shared_try_counts(const struct manage *m, const char *name)
{
    const char *node = name + sizeof(SHARED_TRY_FRONT) - 1;
    struct fleet_node_status s;

    if (strcmp(node, m->env.conf->fleet.node) == 0)
        return fleet_shared_is_waited(m->fleet, name);
    for (unsigned i = 0; fleet_node_status(m->fleet, i, &s); i++)
        if (strcmp(s.name, node) == 0)
            return s.lives;
    return false;
}

/* One is enough, to remove what a node that has gone left behind. */
static bool
shared_is_first(const struct manage *m)
{
    struct fleet_node_status s;

    for (unsigned i = 0; fleet_node_status(m->fleet, i, &s); i++)
        if (s.lives)
            return s.is_self;
    return false;
}

static void
shared_tend_tries(struct manage *m)
{
    bool first = shared_is_first(m);
    struct fleet_thing_status s;
    const char *node;

    for (unsigned i = 0; fleet_thing_status(m->fleet, i, &s); i++) {
        if (strncmp(s.name, SHARED_TRY_FRONT, sizeof(SHARED_TRY_FRONT) - 1) != 0 ||
            shared_try_counts(m, s.name))
            continue;
        node = s.name + sizeof(SHARED_TRY_FRONT) - 1;
        if (first || strcmp(node, m->env.conf->fleet.node) == 0)
            fleet_unshare(m->fleet, s.name);
    }
}

/* ---- parameters ---- */

/* The file's value counts again, or the default, which a policy may have another one of. */
static void
shared_param_gone(struct manage *m, const char *name)
{
    const struct conf *conf = snapshot_conf(registry_snapshot(m->env.registry));
    struct manage_shared *s = m->shared;
    struct conf_params next = m->params;
    int i = conf_param_find(slice_str(name));
    struct conf_param p;

    for (unsigned at = 0; at < s->nparams; at++)
        if (s->params[at].i == i)
            s->params[at--] = s->params[--s->nparams];
    if (i < 0)
        return;
    conf_param_see(&conf->params, (unsigned)i, &p);
    if (!p.live)
        return;
    conf_param_take(&next, &conf->params, (unsigned)i);
    manage_set_params(m, &next);
}

static bool
shared_take_param(struct manage *m, const char *name, struct slice text, char *why, size_t size)
{
    struct manage_shared *s = m->shared;
    struct conf_params next = m->params;
    int i = conf_param_find(slice_str(name));
    struct shared_param *all;
    struct conf_param p;
    unsigned at = 0;

    if (i < 0 || text.len >= SHARED_VALUE_MAX) {
        snprintf(why, size, "this node has no such parameter");
        return false;
    }
    if (text.len == 0) {
        shared_param_gone(m, name);
        return true;
    }
    conf_param_see(&next, (unsigned)i, &p);
    if (!p.live) {
        snprintf(why, size, "it cannot change while tarnd runs");
        return false;
    }
    if (conf_param_set(&next, (unsigned)i, text, why, size) != 0)
        return false;
    while (at < s->nparams && s->params[at].i != i)
        at++;
    if (at == s->nparams) {
        all = realloc(s->params, (s->nparams + 1) * sizeof(*all));
        if (all == NULL) {
            snprintf(why, size, "%s", terr_text(TERR_NOMEM));
            return false;
        }
        s->params = all;
        s->nparams++;
    }
    s->params[at].i = i;
    snprintf(s->params[at].value, SHARED_VALUE_MAX, "%.*s", (int)text.len, text.ptr);
    manage_set_params(m, &next);
    return true;
}

void
manage_shared_params(struct manage *m, struct conf_params *params)
{
    char why[128];

    for (unsigned i = 0; m->shared != NULL && i < m->shared->nparams; i++)
        conf_param_set(params, (unsigned)m->shared->params[i].i,
            slice_str(m->shared->params[i].value), why, sizeof(why));
}

/* ---- tables ---- */

static bool
shared_take_table(struct manage *m, const char *name, struct slice text, char *why, size_t size)
{
    const struct conf_table *t = conf_find_table(m->env.conf, name);
    enum table_kind kind;
    char word[32];
    struct slice body;

    if (t == NULL) {
        snprintf(why, size, "this node's configuration has no such table");
        return false;
    }
    if (!shared_split(text, word, sizeof(word), &body)) {
        snprintf(why, size, "it has no kind in front");
        return false;
    }
    kind = table_kind_find(t->kind);
    if (kind == TABLE_ANY)
        kind = table_kind_find(word);
    return table_load(t->path, kind == TABLE_ANY ? TABLE_MAP : kind, body, why, size) == 0;
}

static void
shared_table_gone(struct manage *m, const char *name)
{
    (void)m;
    (void)name; /* it keeps what it has */
}

/* ---- the secret of session tickets ---- */

void
manage_shared_secret(struct manage *m)
{
    if (m->shared == NULL || !m->shared->secret_is_set)
        return;
    for (struct endpoint *d = m->env.shared->endpoints->first; d != NULL; d = d->next)
        if (!d->dropped && listener_conf(d)->tls != NULL)
            listener_tls_take_secret(listener_conf(d)->tls, &m->shared->secret);
}

static bool
shared_take_secret(struct manage *m, const char *rest, struct slice text, char *why, size_t size)
{
    struct tls_secret secret;

    if (rest[0] != '\0' || !m->env.conf->fleet.session_secret)
        return rest[0] == '\0'; /* not asked for here: no listener uses it */
    if (tls_secret_parse(text, &secret, why, size) != 0)
        return false;
    m->shared->secret = secret;
    m->shared->has_secret = m->shared->secret_is_set = true;
    explicit_bzero(&secret, sizeof(secret));
    manage_shared_secret(m);
    return true;
}

static void
shared_secret_gone(struct manage *m, const char *rest)
{
    (void)rest;
    m->shared->has_secret = false;
}

/* Nodes that do it at the same time write what leads to the same, or take what was written last. */
static void
shared_tend_secret(struct manage *m)
{
    struct manage_shared *s = m->shared;
    int64_t day = tls_secret_day((int64_t)time(NULL));
    char text[TLS_SECRET_TEXT], version[FLEET_VERSION_MAX];
    uint8_t seed[TLS_SECRET];

    if (!m->env.conf->fleet.session_secret || (s->has_secret && s->secret.day >= day))
        return;
    if (!s->secret_is_set && (getrandom(seed, sizeof(seed), 0) != sizeof(seed) ||
                                 !tls_secret_seed(seed, sizeof(seed), &s->secret)))
        return;
    s->secret_is_set = true;
    if (tls_secret_advance(&s->secret, day))
        fleet_share(m->fleet, "session_secret", slice_of(text, tls_secret_print(&s->secret, text)),
            version);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(seed, sizeof(seed));
}

/* ---- answers to CAs ---- */

static bool
shared_take_challenge(struct manage *m, const char *name, struct slice text, char *why, size_t size)
{
    if (challenges_set(m->env.challenges, slice_str(name), text))
        return true;
    snprintf(why, size, "too many challenges, or no challenge");
    return false;
}

static void
shared_challenge_gone(struct manage *m, const char *name)
{
    challenges_set(m->env.challenges, slice_str(name), slice_of("", 0));
}

/* ---- all of them ---- */

static const struct shared_kind {
    const char *front;
    bool (*take)(struct manage *m, const char *rest, struct slice text, char *why, size_t size);
    void (*gone)(struct manage *m, const char *rest);
} shared_kinds[] = {
    {"parameter/", shared_take_param, shared_param_gone},
    {"table/", shared_take_table, shared_table_gone},
    {"challenge/", shared_take_challenge, shared_challenge_gone},
    {"session_secret", shared_take_secret, shared_secret_gone},
    {"policy", shared_take_policy, shared_policy_gone},
};

static const struct shared_kind *
shared_kind_of(const char *name, const char **rest)
{
    for (unsigned i = 0; i < ARRAY_LEN(shared_kinds); i++) {
        size_t len = strlen(shared_kinds[i].front);

        if (strncmp(name, shared_kinds[i].front, len) == 0) {
            *rest = name + len;
            return &shared_kinds[i];
        }
    }
    return NULL;
}

static bool
manage_shared_take(void *ctx, const char *name, struct slice text, char *why, size_t size)
{
    const char *rest;
    const struct shared_kind *kind = shared_kind_of(name, &rest);

    if (kind != NULL)
        return kind->take(ctx, rest, text, why, size);
    snprintf(why, size, "this node knows no such thing: is it an older tarnd?");
    return false;
}

static void
manage_shared_gone(void *ctx, const char *name)
{
    const char *rest;
    const struct shared_kind *kind = shared_kind_of(name, &rest);

    if (kind != NULL)
        kind->gone(ctx, rest);
}

static void
manage_shared_looked(void *ctx)
{
    shared_tend_secret(ctx);
    shared_tend_tries(ctx);
}

static bool
manage_shared_wants(void *ctx, const char *name)
{
    return strncmp(name, SHARED_TRY_FRONT, sizeof(SHARED_TRY_FRONT) - 1) != 0 ||
           shared_try_counts(ctx, name);
}

const char *
manage_shared_text(void *ctx, const char *name)
{
    struct manage *m = ctx;
    struct manage_shared *s = m->shared;
    const char *rest;

    OBJ_CHECK(m, MANAGE_MAGIC);
    if (s == NULL)
        return NULL;
    if (strcmp(name, "policy") == 0)
        return s->policy;
    if (strcmp(name, "policy/before") == 0)
        return s->before;
    if (shared_kind_of(name, &rest) == &shared_kinds[0])
        for (unsigned i = 0; i < s->nparams; i++)
            if (s->params[i].i == conf_param_find(slice_str(rest)))
                return s->params[i].value;
    return NULL;
}

int
manage_shared_open(struct manage *m)
{
    const struct fleet_shared_user user = {.take = manage_shared_take,
        .gone = manage_shared_gone,
        .looked = manage_shared_looked,
        .wants = manage_shared_wants,
        .ctx = m};

    tassert(m->fleet != NULL && m->shared == NULL);
    m->shared = calloc(1, sizeof(*m->shared));
    return m->shared != NULL ? fleet_shared_use(m->fleet, &user) : TERR_NOMEM;
}

uint64_t
manage_shared_bytes(const struct manage *m)
{
    const struct manage_shared *s = m->shared;

    if (s == NULL)
        return 0;
    return sizeof(*s) + s->nparams * sizeof(*s->params) +
           (s->policy != NULL ? strlen(s->policy) + 1 : 0) +
           (s->before != NULL ? strlen(s->before) + 1 : 0);
}

void
manage_shared_close(struct manage *m)
{
    if (m->shared == NULL)
        return;
    explicit_bzero(&m->shared->secret, sizeof(m->shared->secret));
    free(m->shared->policy);
    free(m->shared->before);
    free(m->shared->params);
    free(m->shared);
    m->shared = NULL;
}
