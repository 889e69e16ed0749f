/* why.c -- what a request for a URL would come to now. */
#include "daemon/why/why.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/why/why_priv.h"

/* --- what the policy was asked --- */

/* "FILE SUB LINE LINE-LINE ...": the last line is where it ended. */
static void
why_put_place(json_t *step, struct slice lines)
{
    const char *space = memchr(lines.ptr, ' ', lines.len);
    const char *last = memrchr(lines.ptr, ' ', lines.len);

    /* File and sub alone: no line of it ran. */
    if (space == NULL || last == space)
        return;
    json_put(step, "file", json_any_text(slice_of(lines.ptr, (size_t)(space - lines.ptr))));
    json_put(step, "line",
        json_any_text(slice_of(last + 1, lines.len - (size_t)(last + 1 - lines.ptr))));
}

/* Records come in the order in which they were written: Policy opens a step, what follows
 * belongs to it. */
static void
why_note_record(struct why *y, const struct shmlog_rec *rec)
{
    /* The last one: what follows the record of a sub belongs to it.  NULL: there is none. */
    json_t *step = json_array_get(y->steps, json_array_size(y->steps) - 1);
    const char *space;

    switch ((unsigned)rec->tag) {
    case SHMLOG_Policy:
        space = memchr(rec->payload.ptr, ' ', rec->payload.len);
        if (space == NULL)
            return;
        step = json_object();
        json_put(step, "sub",
            json_any_text(slice_of(rec->payload.ptr, (size_t)(space - rec->payload.ptr))));
        /* Behind the name: the answer as it was logged. */
        json_put(step, "return",
            json_any_text(
                slice_of(space + 1, rec->payload.len - (size_t)(space + 1 - rec->payload.ptr))));
        json_array_append_new(y->steps, step);
        return;
    case SHMLOG_PolicyLines:
        if (step != NULL)
            why_put_place(step, rec->payload);
        return;
    case SHMLOG_Error:
        if (step != NULL)
            json_put(step, "error", json_any_text(rec->payload));
        return;
    default:
        return;
    }
}

/* What has been run since is in the log. */
static void
why_take_steps(struct why *y)
{
    struct shmlog_view chunk;
    struct shmlog_rec rec;

    /* A log of its own, so what is in it is of this question alone. */
    while (shmlog_next(y->synthetic->reader, &chunk) > 0)
        while (shmlog_record_next(&chunk, &rec))
            why_note_record(y, &rec);
}

/* Never NULL: it is printed. */
static const char *
why_member(const json_t *step, const char *key)
{
    const char *text = json_string_value(json_object_get(step, key));

    return text != NULL ? text : "?";
}

/* The policy's last word, with its place. */
static void
why_say_decider(struct why *y, enum vcl_sub sub)
{
    /* From behind: after a restart the last answer of a sub counts. */
    for (size_t i = json_array_size(y->steps); i-- > 0;) {
        const json_t *step = json_array_get(y->steps, i);
        const json_t *error = json_object_get(step, "error");

        if (strcmp(why_member(step, "sub"), vcl_sub_name(sub)) != 0)
            continue;
        why_say(y, "The policy decides that: %s answers return(%s), in %s, line %s.",
            why_member(step, "sub"), why_member(step, "return"), why_member(step, "file"),
            why_member(step, "line"));
        if (error != NULL)
            why_say(y, "It failed: %s.", json_string_value(error));
        return;
    }
}

static enum vcl_action
why_run(struct why *y, enum vcl_sub sub)
{
    /* The real one: an explanation by other code would sooner or later be of other behaviour. */
    enum vcl_action act = req_policy_run(y->r, sub);

    /* At once: the private ring is as small as a ring may be. */
    why_take_steps(y);
    return act;
}

/* --- outcomes --- */

/* Where a backend would be asked. */
static const char *
why_loop(struct why *y)
{
    why_say(y, "A request for it now is answered 508: its CDN-Loop or Via shows that it has passed "
               "through this tarnd before (loop_limit), so no fetch starts.");
    return "loop";
}

/* Says the backend, too: for a pass it is chosen in any case. */
static const char *
why_pass(struct why *y, const char *because)
{
    /* As PASS does, before the policy is asked (req_do_pass). */
    if (y->loops)
        return why_loop(y);
    why_say(
        y, "A request for it now is passed to the backend, for this client alone: %s.", because);
    if (y->r->policy.ref != NULL && why_run(y, VCL_SUB_PASS) != VCL_ACT_FETCH)
        why_say_decider(y, VCL_SUB_PASS);
    why_say_backend(y);
    return "pass";
}

/* What every sub may answer.
 * The word that is returned is the member `now` of the answer: an interface, as is each word of
 * why_verdict_name(). */
static const char *
why_elsewhere(struct why *y, enum vcl_sub sub, enum vcl_action act)
{
    const struct vcl_run *run = &y->synthetic->proxy.run;

    switch ((unsigned)act) {
    case VCL_ACT_SYNTH:
        why_say(y, "A request for it now is answered by the policy itself: %u %.*s.", run->status,
            (int)run->reason.len, run->reason.ptr != NULL ? run->reason.ptr : "");
        why_say_decider(y, sub);
        return "synth";
    case VCL_ACT_PASS:
        return why_pass(y, "the policy returns pass");
    case VCL_ACT_PIPE:
        if (y->loops)
            return why_loop(y);
        why_say(y, "A request for it now becomes a tunnel to the backend, if the backend accepts.");
        why_say_decider(y, sub);
        return "pipe";
    case VCL_ACT_PURGE:
        why_say(y, "A request for it now removes what is stored under its key.");
        why_say_decider(y, sub);
        return "purge";
    /* By vcl_hit or vcl_miss, or once too often: it is said, and not followed. */
    case VCL_ACT_RESTART:
        why_say(y, "A request for it now begins again at vcl_recv.");
        why_say_decider(y, sub);
        return "restart";
    default:
        why_say(y, "A request for it now gets a 503: the policy fails.");
        why_say_decider(y, sub);
        return "fail";
    }
}

/* What was found is shown to the policy, as it would be. */
static const char *
why_asked(struct why *y, const struct why_lookup *l, const char *now)
{
    enum vcl_sub sub = l->verdict == CACHE_MISS ? VCL_SUB_MISS : VCL_SUB_HIT;
    enum vcl_action act;

    if (y->r->policy.ref == NULL ||
        (l->verdict != CACHE_HIT && l->verdict != CACHE_STALE && l->verdict != CACHE_MISS))
        return now;
    /* vcl_hit reads obj: it is lent for the run. */
    if (sub == VCL_SUB_HIT)
        y->r->entry = l->answer.entry;
    act = why_run(y, sub);
    y->r->entry = NULL;
    if (act == (sub == VCL_SUB_HIT ? VCL_ACT_DELIVER : VCL_ACT_FETCH))
        return now;
    why_say(y, "But the policy decides otherwise.");
    /* The others say it in why_elsewhere(). */
    if (act == VCL_ACT_PASS)
        why_say_decider(y, sub);
    return why_elsewhere(y, sub, act);
}

static const char *
why_verdict_name(const struct why_lookup *l)
{
    if (l->marker != NULL && l->verdict != CACHE_HIT)
        return l->answer.reason == CACHE_MARKED_PASS ? "hit-for-pass" : "hit-for-miss";
    switch (l->verdict) {
    case CACHE_HIT:
        return "hit";
    case CACHE_STALE:
        return "stale";
    case CACHE_MISS:
        return "miss";
    case CACHE_QUEUED:
        return "wait";
    case CACHE_ABSENT:
        return "absent";
    case CACHE_PASS:
        return "pass";
    }
    TUNREACHABLE("a verdict");
}

/* Leaves in `q` what was asked, for the list of what is stored.  Nothing is counted, linked or
 * fetched: cache_peek() judges by the same code as a lookup (cache/README E13). */
static const char *
why_look_up(struct why *y, struct cache_query *q)
{
    struct cache *c = y->ps->cache;
    struct why_lookup l;

    req_query(y->r, q);
    /* As cache_lookup() would answer, without its effects. */
    l.verdict = cache_peek(c, q, &l.answer, &l.fetches);
    l.marker = l.answer.reason == CACHE_MARKED || l.answer.reason == CACHE_MARKED_PASS
                   ? cache_marker(c, q)
                   : NULL;
    /* A hit is served whatever its CDN-Loop says (proxy/README 28). */
    if (l.verdict == CACHE_MISS || l.verdict == CACHE_PASS || l.verdict == CACHE_QUEUED) {
        if (y->loops)
            return why_loop(y);
        if (l.verdict == CACHE_QUEUED && y->was_here)
            return why_pass(
                y, "it has passed through this tarnd before, and could wait for itself");
    }
    why_say_lookup(y, &l);
    if ((l.verdict == CACHE_HIT || l.verdict == CACHE_STALE) && entry_is_esi(l.answer.entry))
        y->page = l.answer.entry;
    return why_asked(y, &l, why_verdict_name(&l));
}

/* An upgrade on a route with `pipe`. */
static const char *
why_pipe(struct why *y)
{
    if (y->loops)
        return why_loop(y);
    why_say(y, "A request for it now becomes a tunnel to the backend, if the backend accepts: it "
               "asks for an "
               "upgrade, and its route has `pipe: on`.");
    why_say_backend(y);
    return "pipe";
}

/* NULL: the question itself is wrong, and *why says how; the caller answers 400. */
static const char *
why_without_policy(struct why *y, struct cache_query *q, const char **why)
{
    struct req *r = y->r;

    *why = "the url's host is not valid";
    if (req_make_key(r) != 0)
        return NULL;
    r->key = hash_bytes(y->synthetic->proxy.key_text, r->key_len);
    if (req_read_directives(r) != 0)
        return NULL;
    /* In the order of req_do_recv(). */
    if (r->x->upgrade && req_route_pipes(r)) {
        req_query(r, q);
        return why_pipe(y);
    }
    if (req_is_for_cache(r))
        return why_look_up(y, q);
    req_query(r, q);
    return why_pass(y, req_is_origins(r) ? "the origin must evaluate its conditions"
                       : r->passes       ? "its route has `pass: on`"
                       : r->ask.no_store ? "its Cache-Control says no-store"
                                         : "its method is not cacheable");
}

/* return(vcl(label)) goes on there. */
static bool
why_follow_label(struct why *y)
{
    struct policy *pol = y->r->policy.ref->policy;
    const char *label = vcl_label_name(pol->vcl, y->synthetic->proxy.run.label);
    struct policy_tag *tag = policies_find_label(y->ps, label);

    if (tag == NULL)
        return false;
    why_say(y, "The policy continues with the label %s, which stands for the policy %s.", label,
        tag->policy->name);
    synthetic_take_policy(y->synthetic, tag->policy);
    return true;
}

/* Restarts and labels are followed as a request follows them, so this ends: max_restarts bounds
 * the one, and a label's policy has none to go to. */
static const char *
why_with_policy(struct why *y, struct cache_query *q, const char **why)
{
    struct req *r = y->r;
    enum vcl_action act;
    bool again;
    int err;

    do {
        r->policy.key = slice_of(NULL, 0);
        err = req_policy_ask(r, &act);
        why_take_steps(y);
        if (policy_is_trivial(r->policy.ref->policy, VCL_SUB_RECV)) /* not run, but it has a line */
            why_run(y, VCL_SUB_RECV);
        *why = err == TERR_POLICY ? "vcl_hash failed for this url" : "the url's host is not valid";
        if (err != 0)
            return NULL;
        /* As a request goes: by a label, and max_restarts times. */
        again = act == VCL_ACT_VCL ? why_follow_label(y)
                                   : act == VCL_ACT_RESTART &&
                                         r->policy.restarts++ < r->proxy->params.max_restarts;
    } while (again);
    if (!synthetic_finish_key(y->synthetic, act)) { /* what is stored is shown all the same */
        *why = "vcl_hash failed for this url";
        return NULL;
    }
    why_take_steps(y);
    if (r->x->upgrade && (act == VCL_ACT_HASH || act == VCL_ACT_PASS) && req_route_pipes(r)) {
        req_query(r, q);
        return why_pipe(y);
    }
    if (act == VCL_ACT_HASH && !req_is_origins(r) && !r->passes)
        return why_look_up(y, q);
    req_query(r, q);
    if (act == VCL_ACT_HASH && r->passes)
        return why_pass(y, "its route has `pass: on`");
    if (act == VCL_ACT_HASH)
        return why_pass(y, "the origin must evaluate its conditions");
    if (act == VCL_ACT_PASS)
        why_say_decider(y, VCL_SUB_RECV);
    return why_elsewhere(y, VCL_SUB_RECV, act);
}

/* Its route answers, and nothing else is asked; NULL: it does not. */
static const char *
why_redirected(struct why *y, struct cache_query *q)
{
    const struct req *r = y->r;

    if (req_rules(r) == NULL || !req_is_redirected(r))
        return NULL;
    /* The answer lists what is stored under the key all the same. */
    req_query(r, q);
    why_say(y, "A request for it now is answered with a redirect: %lld to %s.",
        (long long)r->rules->route->redirect.status, r->rules->route->redirect.to);
    return "redirect";
}

static const char *
why_refused(struct why *y, struct cache_query *q)
{
    req_query(y->r, q);
    why_say(y,
        "A request for it now is answered 400: backends may read its path as that of another "
        "route, and one of the two has actions.");
    return "refused";
}

/* A policy's own key has a NUL behind each of its parts. */
static json_t *
why_key(struct why *y)
{
    struct slice key = req_key_text(y->r);
    char *text = malloc(key.len + 1);
    size_t n = text != NULL ? key.len : 0;
    json_t *made;

    for (size_t i = 0; i < n; i++)
        /* As text for people; `hash` is the key itself. */
        text[i] = key.ptr[i] != '\0' ? key.ptr[i] : ' ';
    while (n > 0 && text[n - 1] == ' ')
        n--;
    made = json_any_text(slice_of(text, n));
    free(text);
    return made;
}

/* The tree is the caller's.  What it tells is of this turn: entries are not held. */
static json_t *
why_answer(struct why *y, const char *now, const struct cache_query *q, struct why_tree *tree)
{
    json_t *o = json_object(), *removal;
    char hash[33];

    snprintf(hash, sizeof(hash), "%016llx%016llx", (unsigned long long)y->r->key.hi,
        (unsigned long long)y->r->key.lo);
    json_put_text(o, "now", now);
    json_put(o, "key", why_key(y));
    json_put_text(o, "hash", hash);
    json_put(o, "stored", why_stored(y, q));
    removal = why_removal(y);
    if (removal != NULL)
        json_put(o, "last", removal);
    if (y->r->policy.ref != NULL)
        json_put_text(o, "policy", y->r->policy.ref->policy->name);
    if (y->page != NULL)
        json_put(o, "includes", why_includes(y, tree));
    /* The caller drops its own reference in any case. */
    json_put(o, "asked", json_incref(y->steps));
    json_put(o, "text", json_incref(y->text));
    return o;
}

/* The order is a request's: listener and route, then policy, then cache.  What needs a client
 * (its limits, its password) is told and not applied. */
int
why_ask(
    struct policies *ps, struct slice url, struct why_tree *tree, json_t **out, const char **why)
{
    struct why y = {.ps = ps};
    struct cache_query q;
    const char *now;
    int err = synthetic_new(&y.synthetic, ps, url, why);

    if (err != 0)
        return err;
    y.r = &y.synthetic->req;
    y.now_ms = (int64_t)y.synthetic->loop.clock.mono_ms;
    *why = "a field of the request is not valid: `Name: value`";
    for (unsigned i = 0; i < tree->nfields && err == 0; i++)
        err = synthetic_set(y.synthetic, tree->fields[i].name, tree->fields[i].value);
    if (err != 0) {
        synthetic_free(&y.synthetic);
        return err == TERR_NOMEM ? err : TERR_SYNTAX;
    }
    /* By the fields that were given: they stand for those of a client. */
    y.was_here = req_was_here(&y.synthetic->proxy, y.r->head, false);
    y.loops = req_loops(&y.synthetic->proxy, y.r->head, false);
    y.text = json_array();
    y.steps = json_array();
    /* Before the policy, as on a request (proxy/README 30). */
    err = synthetic_admit(y.synthetic);
    why_say_limits(&y);
    why_say_rules(&y);
    why_say_secure(&y);
    now = err == TERR_SYNTAX ? why_refused(&y, &q) : why_redirected(&y, &q);
    if (now == NULL && err == 0)
        now = y.r->policy.ref != NULL ? why_with_policy(&y, &q, why)
                                      : why_without_policy(&y, &q, why);
    /* NULL: *why says what is wrong with the question. */
    if (now != NULL) {
        *out = why_answer(&y, now, &q, tree);
        json_put(*out, "url", json_any_text(url));
    }
    json_decref(y.text);
    json_decref(y.steps);
    synthetic_free(&y.synthetic);
    return now != NULL ? 0 : TERR_SYNTAX;
}

int
policies_why(struct policies *ps, struct slice url, const struct why_field *fields,
    unsigned nfields, json_t **out, const char **why)
{
    struct why_tree tree = {.left = WHY_INCLUDES_MAX, .fields = fields, .nfields = nfields};

    return why_ask(ps, url, &tree, out, why);
}
