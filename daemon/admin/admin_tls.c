/* admin_tls.c -- certificates of TLS listeners: what there is, and reading it anew. */
#include "daemon/admin/admin_priv.h"

enum {
    TLS_LIMIT = 1000, /* certificates of a listener, unless more are asked for */
    TLS_LIMIT_MAX = 1000000,
};

void
admin_do_tls(struct admin_call *c)
{
    static const struct admin_arg args[] = {
        {"limit", 10, 1, TLS_LIMIT_MAX, NULL}, {NULL, 0, 0, 0, NULL}};
    const struct admin *a = c->admin;
    uint64_t limit = TLS_LIMIT;
    json_t *o;

    if (!admin_args(c, args, &limit))
        return;
    o = json_object();
    json_put(o, "listeners", a->env.host->tls_list(a->env.host_ctx, (unsigned)limit));
    admin_answer(c, 200, o);
}

static void
tls_add_summary(void *to, const struct admin_tls *t)
{
    json_t *list = to, *o = json_object();

    json_put_text(o, "name", t->name);
    json_put_text(o, "address", t->address);
    json_put(o, "certificates", json_integer(t->certificates));
    json_put(o, "names", json_integer(t->names));
    json_put(o, "parsed", json_integer(t->parsed));
    json_put(o, "parses", json_integer((json_int_t)t->parses));
    json_put(o, "parse_failures", json_integer((json_int_t)t->parse_failures));
    json_put(o, "reload_failures", json_integer((json_int_t)t->reload_failures));
    json_put(o, "soonest", t->certificates > 0 ? json_integer(t->soonest_s) : json_null());
    json_put(o, "soonest_file",
        t->certificates > 0 ? json_any_text(slice_str(t->soonest_file)) : json_null());
    json_array_append_new(list, o);
}

void
admin_do_tls_summary(struct admin_call *c)
{
    const struct admin *a = c->admin;
    json_t *o = json_object(), *list = json_array();

    a->env.host->tls(a->env.host_ctx, tls_add_summary, list);
    json_put(o, "listeners", list);
    admin_answer(c, 200, o);
}

void
admin_do_tls_reload(struct admin_call *c)
{
    const struct admin *a = c->admin;
    json_t *answer = NULL;
    unsigned status = a->env.host->tls_reload(a->env.host_ctx, &answer);

    admin_answer(c, status, answer);
}
