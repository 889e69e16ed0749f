/* admin_policies.c -- policies and labels: loaded, used, forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/cache/invalidation.h"
#include "daemon/policy/policies.h"
#include "vcl-lite/vcl.h"

static struct policies *
policies_of(const struct admin_call *c)
{
    return c->admin->env.policies;
}

static const char *const policies_name_member[] = {"name", NULL};

struct policies_active {
    char name[ADMIN_NAME_MAX];
};

static void
policies_on_active(void *ctx, const struct policy_seen *seen)
{
    struct policies_active *active = ctx;

    if (strcmp(seen->state, "active") == 0)
        snprintf(active->name, sizeof(active->name), "%s", seen->name);
}

/* null: requests are served without one. */
void
admin_put_policy(const struct admin_call *c, json_t *to)
{
    struct policies_active active = {.name = ""};

    policies_each(policies_of(c), policies_on_active, &active);
    json_put_text(to, "policy", active.name[0] != '\0' ? active.name : NULL);
}

static void
policies_on_each(void *ctx, const struct policy_seen *seen)
{
    json_t *o = json_object();

    json_put_text(o, "name", seen->name);
    json_put_text(o, "state", seen->state);
    /* A label has no text and no workers: these are of the policy it stands for. */
    if (seen->label_of != NULL) {
        json_put_text(o, "label_of", seen->label_of);
    } else {
        json_put(o, "workers", json_integer(seen->workers));
        json_put(o, "loaded", json_real(seen->loaded_s));
        json_put_text(o, "file", seen->file);
    }
    json_array_append_new(ctx, o);
}

void
admin_do_policies(struct admin_call *c)
{
    json_t *o = json_object(), *list = json_array();

    policies_each(policies_of(c), policies_on_each, list);
    json_put(o, "policies", list);
    admin_answer(c, 200, o);
}

/* What became of a name; `done` says it when err is 0.
 * The errors of policies_use(), _label(), _unlabel() and _discard(): one place, so that the same
 * mistake has the same status on each route. */
static void
policies_answer(struct admin_call *c, int err, const char *name, const char *done)
{
    json_t *o;

    if (err == 0) {
        o = json_object();
        json_put_text(o, done, name);
        admin_answer(c, 200, o);
    } else if (err == TERR_NOTFOUND) {
        admin_fail(
            c, 404, "GET /v1/policies lists them", "no policy or label is named '%.64s'", name);
    } else if (err == TERR_BUSY) {
        admin_fail(c, 409, "use another policy first, or DELETE its labels",
            "'%.64s' is in use, or labelled", name);
    } else if (err == TERR_EXISTS) {
        admin_fail(c, 409, NULL, "'%.64s' is the name of a policy", name);
    } else if (err == TERR_SYNTAX) {
        admin_fail(c, 400, "a letter, then letters, digits, - and _", "'%.64s' is no name", name);
    } else {
        admin_fail_terr(c, err, name);
    }
}

/* With the line itself, so that a client can mark the place without having the file. */
json_t *
admin_vcl_errors(const struct vcl_error *e, bool warnings, unsigned *n)
{
    json_t *list = json_array();

    *n = 0;
    for (; e != NULL; e = e->next) {
        json_t *o;

        if (e->is_warning != warnings)
            continue;
        o = json_object();
        json_put_text(o, "file", e->file);
        json_put(o, "line", json_integer(e->line));
        json_put(o, "column", json_integer(e->column));
        json_put_text(o, "message", e->message);
        json_put_text(o, "hint", e->hint);
        json_put_text(o, "source", e->source);
        json_array_append_new(list, o);
        ++*n;
    }
    return list;
}

/* Warnings are in the answer of a success too: without them an operator would not learn that a
 * word does nothing. */
static void
policies_answer_load(struct admin_call *c, int err, const struct vcl_error *errors)
{
    json_t *o = json_object();
    unsigned nerrors, nwarnings;
    json_t *list = admin_vcl_errors(errors, false, &nerrors);
    json_t *warnings = admin_vcl_errors(errors, true, &nwarnings);
    char text[96];

    if (err == 0) {
        json_put_text(o, "name", c->name);
        /* Empty: there was no error. */
        json_decref(list);
    } else {
        snprintf(text, sizeof(text), "the policy has %u error%s", nerrors, nerrors == 1 ? "" : "s");
        json_put_text(o, "error", text);
        json_put(o, "errors", list);
    }
    if (nwarnings > 0)
        json_put(o, "warnings", warnings);
    else
        json_decref(warnings);
    /* 422: the request was understood, the policy in it was not. */
    admin_answer(c, err == 0 ? 201 : 422, o);
}

void
admin_do_policy_load(struct admin_call *c)
{
    struct vcl_error *errors = NULL;
    int err;

    if (c->body.len == 0) {
        admin_fail(c, 400, "send the policy's text as the body", "the body is empty");
        return;
    }
    /* Not used by that: loaded and used are two steps, so that the second one cannot fail by a
     * mistake in the text.
     * Compiled on this thread, which may take seconds with a large policy or a name that is slow
     * to resolve: operators and probes wait, clients do not. */
    err = policies_load(policies_of(c), c->name, c->name, c->body, &errors);
    /* A policy that loads may have warnings. */
    if (err == 0 || err == TERR_CONFIG)
        policies_answer_load(c, err, errors);
    else if (err == TERR_EXISTS)
        admin_fail(c, 409, "give it another name, or DELETE the old one first",
            "there is a policy, or a label, named '%s' already", c->name);
    else
        policies_answer(c, err, c->name, NULL);
    vcl_errors_free(&errors);
}

/* Of a fleet that has another one: "NAME\nTEXT". */
static void
policies_note_shared(struct admin_call *c, const char *name)
{
    const char *text = admin_shared_text(c, "policy");
    size_t len = text != NULL ? strcspn(text, "\n") : 0;
    char has[100];

    if (text == NULL || slice_eq(slice_of(text, len), slice_str(name)))
        return;
    snprintf(has, sizeof(has), "%.*s", (int)len, text);
    admin_note_shared(c, "policy", has, "vcl use");
}

void
admin_do_policy_use(struct admin_call *c)
{
    json_t *o = admin_body(c, policies_name_member);
    const char *name;

    if (o == NULL)
        return;
    name = admin_member(c, o, "name");
    if (name != NULL) {
        policies_answer(c, policies_use(policies_of(c), name), name, "active");
        policies_note_shared(c, name);
    }
    json_decref(o);
}

void
admin_do_policy_discard(struct admin_call *c)
{
    policies_answer(c, policies_discard(policies_of(c), c->name), c->name, "discarded");
}

void
admin_do_label_set(struct admin_call *c)
{
    json_t *o = admin_body(c, policies_name_member);
    const char *name;
    int err;

    if (o == NULL)
        return;
    name = admin_member(c, o, "name");
    if (name != NULL) {
        err = policies_label(policies_of(c), c->name, name);
        if (err == TERR_INVALID)
            admin_fail(c, 409, "label a policy without return (vcl(...)); one step is all there is",
                "the policy '%.64s' goes to labels itself, so no label may stand for it", name);
        else
            policies_answer(c, err, err == TERR_NOTFOUND ? name : c->name, "label");
    }
    json_decref(o);
}

void
admin_do_label_unset(struct admin_call *c)
{
    policies_answer(c, policies_unlabel(policies_of(c), c->name), c->name, "discarded");
}

_Static_assert(
    (int)WHY_FIELDS_MAX == (int)INVALIDATION_FIELDS_MAX, "what `why` takes a purge takes");

/* `headers` is an array of "Name: value", or NULL.
 * As a request with these fields would find it: the policy's own vcl_hash makes the key, so a
 * purge by URL works where the key is not the URL. */
static void
policies_purge(struct admin_call *c, struct slice url, const json_t *headers, bool soft)
{
    struct why_field fields[WHY_FIELDS_MAX];
    struct invalidation_field said[INVALIDATION_FIELDS_MAX];
    struct invalidation inv = {.kind = INVALIDATION_URL, .soft = soft, .fields = said};
    struct invalidation_result done = {.wait = NULL};
    /* If admin_absolute() has none. */
    int err = TERR_NOMEM;
    const json_t *field;
    char *absolute;
    json_t *o;
    size_t i;

    json_array_foreach(headers, i, field)
    {
        /* NULL: no text, which is then no field. */
        const char *text = json_string_value(field);

        if (!admin_take_field(c, fields, &inv.nfields, slice_str(text != NULL ? text : "")))
            return;
        said[i] = (struct invalidation_field){fields[i].name, fields[i].value};
    }
    absolute = admin_absolute(c->admin, url);
    if (absolute != NULL) {
        inv.text = slice_str(absolute);
        err = admin_invalidate(c, &inv, &done);
    }
    if (err != 0) {
        admin_fail(c, err == TERR_SYNTAX ? 400 : 503,
            "as in http://www.example.com/path, or a path", "%s",
            done.why[0] != '\0' ? done.why : terr_text(err));
    } else {
        o = json_object();
        json_put(o, "purged", json_integer(done.how_many));
        json_put_text(o, "url", absolute);
        admin_answer_logged(c, 200, o);
    }
    free(absolute);
}

void
admin_do_purge(struct admin_call *c)
{
    static const char *const members[] = {
        "url", "headers", "tag", "tags", "all", "soft", "wait", "timeout_ms", "local", NULL};
    json_t *o = admin_body(c, members);
    const json_t *soft, *tag, *tags, *all, *url, *headers;

    if (o == NULL)
        return;
    soft = json_object_get(o, "soft");
    tag = json_object_get(o, "tag");
    tags = json_object_get(o, "tags");
    all = json_object_get(o, "all");
    url = json_object_get(o, "url");
    headers = json_object_get(o, "headers");
    if (soft != NULL && !json_is_boolean(soft)) {
        admin_fail(c, 400, NULL, "the member 'soft' must be true or false");
        /* Two of them might be meant as "and" or as "or". */
    } else if ((url != NULL) + (tag != NULL) + (tags != NULL) + (all != NULL) != 1) {
        admin_fail(
            c, 400, NULL, "the body must have one of the members 'url', 'tag', 'tags' and 'all'");
    } else if (all != NULL && !json_is_true(all)) {
        /* A script's variable that is false by mistake must not empty the cache. */
        admin_fail(c, 400, NULL, "the member 'all' must be true");
    } else if (headers != NULL && (url == NULL || !json_is_array(headers))) {
        admin_fail(c, 400, "as in \"headers\": [\"X-Language: de\"]",
            "the member 'headers' must be a list, of fields of a request for 'url'");
    } else if (!admin_fleet_asked(c, o)) {
        /* It is answered. */
    } else if (all != NULL) {
        admin_purge_all(c, json_is_true(soft));
    } else if (url == NULL) {
        admin_purge_tags(c, tag != NULL ? tag : tags, json_is_true(soft));
    } else if (admin_member(c, o, "url") != NULL) {
        policies_purge(c, slice_str(json_string_value(url)), headers, json_is_true(soft));
    }
    json_decref(o);
}
