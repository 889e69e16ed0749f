/* admin_params.c -- parameters: shown, and changed while tarnd runs. */
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/conf_params.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/policy/policies.h"

/* What was set last, here: workers may not have it yet.
 * Borrowed, until the next manage_set_params(): a handler that changes one takes a copy. */
static const struct conf_params *
params_now(const struct admin_call *c)
{
    return c->admin->env.host->params(c->admin->env.host_ctx);
}

/* `value` is the file's or the operator's, `in_force` what requests see: they differ only where
 * the active policy has defaults of its own (default_ttl, for one). */
static json_t *
params_json(const struct admin_call *c, unsigned i)
{
    /* What the active policy makes of those that neither the file nor an operator set. */
    struct conf_params in_force = *params_now(c);
    json_t *o = json_object();
    struct conf_param p, q;

    policies_params(c->admin->env.policies, &in_force);
    conf_param_see(params_now(c), i, &p);
    conf_param_see(&in_force, i, &q);
    json_put_text(o, "name", p.name);
    json_put_text(o, "value", p.value);
    json_put_text(o, "in_force", q.value);
    json_put_text(o, "default", p.def);
    if (p.least[0] != '\0')
        json_put_text(o, "least", p.least);
    if (p.most[0] != '\0')
        json_put_text(o, "most", p.most);
    json_put_text(o, "type", p.type);
    json_put(o, "live", json_boolean(p.live));
    json_put_text(o, "meaning", p.doc);
    return o;
}

void
admin_do_parameters(struct admin_call *c)
{
    json_t *o = json_object(), *list = json_array();

    for (unsigned i = 0; i < conf_params_count(); i++)
        json_array_append_new(list, params_json(c, i));
    json_put(o, "parameters", list);
    admin_answer(c, 200, o);
}

/* A number or a switch may be written as JSON has them.  False: it is a list, a map or null. */
bool
admin_param_text(const json_t *v, char *out, size_t size)
{
    if (json_is_string(v) && json_string_length(v) < size)
        memcpy(out, json_string_value(v), json_string_length(v) + 1);
    else if (json_is_integer(v))
        snprintf(out, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, size, "%g", json_real_value(v));
    else if (json_is_boolean(v))
        snprintf(out, size, "%s", json_is_true(v) ? "on" : "off");
    else
        return false;
    return true;
}

/* Until tarnd ends or reads its file anew: a reload makes the file count (reload_compare), and
 * this is not written to it. */
static void
params_change(struct admin_call *c, unsigned i, const char *value)
{
    /* A copy: what does not pass has changed nothing (invariant 7). */
    struct conf_params next = *params_now(c);
    struct conf_param p;
    char why[256] = "";
    int err;

    conf_param_see(&next, i, &p);
    if (!p.live) {
        const char *how = p.reloaded ? "reload" : "restart";

        admin_fail(c, 409,
            p.reloaded ? "write it in tarn.yaml, and `tarnctl reload`"
                       : "write it in tarn.yaml, and restart tarnd",
            "%s needs a %s", p.name, how);
        return;
    }
    err = conf_param_set(&next, i, slice_str(value), why, sizeof(why));
    if (err == TERR_CONFIG) {
        admin_fail(c, 400, p.type, "%s", why);
        return;
    }
    if (err != 0) {
        admin_fail_terr(c, err, p.name);
        return;
    }
    /* Posted to the workers: they have it from their next turn on. */
    c->admin->env.host->set_params(c->admin->env.host_ctx, &next);
    admin_answer(c, 200, params_json(c, i));
    snprintf(why, sizeof(why), "parameter/%s", p.name);
    admin_note_shared(c, why, admin_shared_text(c, why), "param set");
}

void
admin_do_parameter_set(struct admin_call *c)
{
    static const char *const members[] = {"value", NULL};
    int i = conf_param_find(slice_str(c->name));
    char value[128];
    const json_t *v;
    json_t *o;

    if (i < 0) {
        admin_fail(c, 404, "GET /v1/parameters lists them", "no parameter is named '%s'", c->name);
        return;
    }
    o = admin_body(c, members);
    if (o == NULL)
        return;
    /* Not admin_member(): a number need not be quoted. */
    v = json_object_get(o, "value");
    if (v == NULL)
        admin_fail(c, 400, NULL, "the body has no member 'value'");
    else if (!admin_param_text(v, value, sizeof(value)))
        admin_fail(c, 400, NULL, "the member 'value' must be text, a number or a switch");
    else
        params_change(c, (unsigned)i, value);
    json_decref(o);
}
