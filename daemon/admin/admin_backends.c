/* admin_backends.c -- backends: shown, and their health said by hand. */
#include <string.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/director.h"
#include "daemon/origin/probe.h"

static const struct {
    const char *word;
    enum backend_admin admin;
} backends_words[] = {
    {"auto", BACKEND_AUTO},
    {"healthy", BACKEND_HEALTHY},
    {"sick", BACKEND_SICK},
};

static const char *
backends_word(enum backend_admin a)
{
    for (unsigned i = 0; i < ARRAY_LEN(backends_words); i++)
        if (backends_words[i].admin == a)
            return backends_words[i].word;
    TUNREACHABLE("what an operator can say of a backend");
}

/* The newest result comes last, as on a strip of paper.
 * The window of probes is one word, so 64 results are all there can be. */
static json_t *
backends_probe(const struct probe_seen *seen)
{
    char happy[65] = "";
    unsigned n = seen->window < 64 ? seen->window : 64;
    json_t *o = json_object();

    for (unsigned i = 0; i < n; i++)
        happy[i] = (seen->happy >> (n - 1 - i) & 1) != 0 ? 'H' : '-';
    json_put(o, "good", json_integer(seen->good));
    json_put(o, "window", json_integer(seen->window));
    json_put(o, "threshold", json_integer(seen->threshold));
    json_put_text(o, "results", happy);
    json_put(o, "last_ms", json_integer(seen->last_ms));
    json_put(o, "average_s", json_real(seen->average_s));
    json_put_text(o, "last", seen->last);
    return o;
}

/* What its name stands for now: it is asked for again every dns_ttl. */
static json_t *
backends_addresses(struct backend *b)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < backend_naddrs(b); i++) {
        char text[ADDRESS_TEXT_MAX];

        backend_address_text(b, i, text);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

/* Counted at the fetch, whatever a policy makes of it for the client (README). */
static void
backends_put_outcome(const struct backend *b, json_t *o)
{
    static const char *const classes[BACKEND_CLASSES] = {
        "1xx", "2xx", "3xx", "4xx", "5xx", "other"};
    json_t *responses = json_object();
    struct backend_seen seen;

    backend_see(b, &seen);
    for (unsigned i = 0; i < BACKEND_CLASSES; i++)
        json_put(responses, classes[i], json_integer((json_int_t)seen.responses[i]));
    json_put(o, "up", json_boolean(backend_up(b)));
    json_put(o, "responses", responses);
    json_put(o, "failures", json_integer((json_int_t)seen.failures));
    json_put(o, "response_us", json_integer((json_int_t)seen.sum_us));
}

/* Each number is whole, and they are of no single moment: workers go on counting meanwhile, so
 * sums of one answer may differ by what came in between. */
static json_t *
backends_json(struct backend *b)
{
    const struct conf_backend *conf = backend_conf(b);
    struct probe_seen seen = {.probed = false};
    json_t *o = json_object();
    double changed_s = 0;

    backend_probe_seen(b, &seen);
    director_healthy(backend_director(b), &changed_s);
    json_put_text(o, "name", backend_full_name(b));
    json_put(o, "number", json_integer(backend_number(b)));
    json_put_text(o, "address", conf->address.text);
    json_put(o, "addresses", backends_addresses(b));
    json_put(o, "healthy", json_boolean(backend_healthy(b)));
    backends_put_outcome(b, o);
    json_put_text(o, "health", backends_word(backend_admin(b)));
    json_put(o, "ejected", json_boolean(backend_ejected(b)));
    json_put(o, "waiting", json_integer(backend_queued(b)));
    json_put(o, "load", json_integer(backend_load(b)));
    /* 0: its health has never changed. */
    json_put(o, "changed", changed_s > 0 ? json_real(changed_s) : json_null());
    json_put(o, "connections", json_integer(backend_connections(b)));
    json_put(o, "probe", seen.probed ? backends_probe(&seen) : json_null());
    return o;
}

/* On the management thread, which alone adds and removes backends: the registry is walked
 * without a lock. */
static void
backends_on_each(void *ctx, struct backend *b)
{
    json_array_append_new(ctx, backends_json(b));
}

static const char *const backends_types[DIRECTOR_KINDS] = {
    [DIRECTOR_BACKEND] = "backend",
    [DIRECTOR_ROUND_ROBIN] = "round_robin",
    [DIRECTOR_FALLBACK] = "fallback",
    [DIRECTOR_RANDOM] = "random",
    [DIRECTOR_HASH] = "hash",
    [DIRECTOR_SHARD] = "shard",
    [DIRECTOR_LEAST] = "least_connections",
};

static json_t *
backends_director(const struct director *d)
{
    json_t *o = json_object(), *list = json_array();

    json_put_text(o, "name", director_name(d));
    json_put_text(o, "type", backends_types[director_kind(d)]);
    json_put(o, "healthy", json_boolean(director_healthy(d, NULL)));
    for (unsigned i = 0; i < director_members(d); i++) {
        json_t *m = json_object();
        double weight;

        json_put_text(m, "name", director_name(director_member(d, i, &weight)));
        json_put(m, "weight", json_real(weight));
        json_array_append_new(list, m);
    }
    json_put(o, "backends", list);
    return o;
}

/* Those of the configuration: a policy's are its own. */
static json_t *
backends_directors(struct registry *rg)
{
    json_t *list = json_array();
    struct director *d;

    for (unsigned n = 0; (d = snapshot_nth(registry_snapshot(rg), n)) != NULL; n++)
        if (director_kind(d) != DIRECTOR_BACKEND)
            json_array_append_new(list, backends_director(d));
    return list;
}

void
admin_do_backends(struct admin_call *c)
{
    json_t *o = json_object(), *list = json_array();

    registry_each(c->admin->env.registry, backends_on_each, list);
    json_put(o, "backends", list);
    json_put(o, "directors", backends_directors(c->admin->env.registry));
    admin_answer(c, 200, o);
}

struct backends_seek {
    const char *name;
    enum backend_admin admin;
    json_t *found;
};

/* Called for each backend, for the registry has no search by name: operators' requests are rare,
 * and backends few. */
static void
backends_on_seek(void *ctx, struct backend *b)
{
    struct backends_seek *seek = ctx;

    /* One of a name: a backend that is about to leave may have it, too. */
    if (seek->found != NULL || strcmp(backend_full_name(b), seek->name) != 0)
        return;
    backend_set_admin(b, seek->admin);
    /* Behind the change: the answer shows what is in force. */
    seek->found = backends_json(b);
}

/* What is set stays until it is set again, or the backend leaves.  `auto` gives the say back to
 * the probe. */
static void
backends_set(struct admin_call *c, const char *word)
{
    for (unsigned i = 0; i < ARRAY_LEN(backends_words); i++) {
        struct backends_seek seek = {.name = c->name, .admin = backends_words[i].admin};

        if (strcmp(word, backends_words[i].word) != 0)
            continue;
        /* Also those that a policy declared: full names are the policy's name and theirs. */
        registry_each(c->admin->env.registry, backends_on_seek, &seek);
        if (seek.found != NULL)
            admin_answer(c, 200, seek.found);
        else
            admin_fail(c, 404, "GET /v1/backends lists them", "no backend is named '%s'", c->name);
        return;
    }
    admin_fail(c, 400, "auto, healthy or sick", "'%.64s' is no state of a backend", word);
}

void
admin_do_backend_health(struct admin_call *c)
{
    static const char *const members[] = {"health", NULL};
    json_t *o = admin_body(c, members);
    const char *word;

    if (o == NULL)
        return;
    word = admin_member(c, o, "health");
    if (word != NULL)
        backends_set(c, word);
    json_decref(o);
}
