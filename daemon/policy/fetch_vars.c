/* fetch_vars.c -- a backend's response as a policy changes it, and the body of an error page. */
#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_policy.h"

int
fetch_edit_beresp(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;
    struct message_edit *e;
    int err;

    if (v->at.beresp != NULL)
        return 0;
    tassert(
        v->at.came != NULL); /* vcl_backend_response and _error have it, and no other sub asks */
    e = arena_alloc(&f->arena, sizeof(*e));
    if (e == NULL)
        return TERR_NOMEM;
    /* Set only when it is whole: a half-made copy is never read. */
    err = message_edit_init(e, v->at.came, &f->arena, LIMIT_FIELDS);
    if (err == 0)
        v->at.beresp = e;
    return err;
}

enum {
    FETCH_BODY_PARTS_MAX = 4096
};

int
fetch_set_body(
    struct vcl_run *run, struct fetch *f, const struct slice *parts, unsigned n, bool append)
{
    struct fetch_policy *v = f->vcl;

    /* `set` begins anew; the list's room stays for it. */
    if (!append)
        v->at.nbody = 0;
    if (v->at.nbody + n > FETCH_BODY_PARTS_MAX)
        return policy_fail(run, "beresp.body has too many parts");
    if (v->at.nbody + n > v->at.body_room) {
        /* The list before stays in the arena: doubling bounds what is left there. */
        unsigned room = 2 * (v->at.nbody + n) + 8;
        struct slice *list = arena_alloc(&f->arena, room * sizeof(*list));

        if (list == NULL)
            return TERR_NOMEM;
        if (v->at.nbody > 0)
            memcpy(list, v->at.body, v->at.nbody * sizeof(*list));
        v->at.body = list;
        v->at.body_room = room;
    }
    tassert(v->at.nbody + n <= v->at.body_room);
    if (n > 0)
        memcpy(v->at.body + v->at.nbody, parts, n * sizeof(*parts));
    v->at.nbody += n;
    tassert(v->at.nbody <= FETCH_BODY_PARTS_MAX);
    return 0;
}
