/* fetch_route.c -- what a route does to a response before it is judged: cookies, ttl, grace. */
#include "daemon/base/terr.h"
#include "daemon/http/cookie.h"
#include "daemon/http/message_edit.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/fetch_priv.h"

void
fetch_rule_times(const struct fetch *f, struct fresh_params *fp)
{
    const struct conf_route *route = f->route;

    tassert(route != NULL);
    if (route->ttl.said) {
        fp->ttl_said = true;
        fp->ttl_ms = route->ttl.ms;
    }
    if (route->grace.said) {
        /* A grace that is said counts always, one left at its default only when the origin fails
         * (README, Decisions). */
        fp->default_grace_ms = route->grace.ms;
        fp->grace_said = true;
    }
}

/* A look first: a response without such cookies stays as it came, and is not copied. */
static bool
route_strips_some(const struct conf_names *names, const struct http_message *h)
{
    const struct http_field *f = NULL;

    while ((f = http_find(h, HTTP_F_SET_COOKIE, f)) != NULL)
        if (conf_names_match(names, cookie_name(http_value(h, f))))
            return true;
    return false;
}

/* A response that may be a dictionary by its route, and does not say so itself. */
static bool
route_offers(const struct conf_route *route, const struct http_message *h)
{
    return route->dictionary[0] != '\0' && h->status == 200 &&
           http_find_name(h, SLICE_LIT("Use-As-Dictionary"), NULL) == NULL;
}

/* match="/js/app.*.js": its pattern has nothing that would have to be quoted (conf_text.c). */
static int
route_offer(struct fetch *f, struct message_edit *e)
{
    struct slice pattern = slice_str(f->route->dictionary);
    char *text = arena_alloc(&f->arena, pattern.len + sizeof("match=\"\""));
    char *end;

    if (text == NULL)
        return TERR_NOMEM;
    end = mempcpy(text, "match=\"", 7);
    end = mempcpy(end, pattern.ptr, pattern.len);
    *end++ = '"';
    return message_edit_add(
        e, SLICE_LIT("Use-As-Dictionary"), HTTP_F_OTHER, slice_of(text, (size_t)(end - text)));
}

/* A head without the cookies that the route takes out, and with what it adds, once for each response.  0 or
 * TERR_*. */
int
fetch_rule_head(struct fetch *f, const struct http_message **head)
{
    const struct conf_names *names = &f->route->strip_cookies;
    const struct http_message *came = *head;
    const struct http_field *field = NULL;
    struct message_edit *e = f->attempt.on.stripped;
    bool strips, offers;
    int err;

    /* Of this route: an attempt has one. */
    tassert(e == NULL || names->n > 0 || names->all || f->route->dictionary[0] != '\0');
    /* A fetch that waits for room comes here again with the same head. */
    if (e != NULL) {
        *head = &e->head;
        return 0;
    }
    strips = (names->n > 0 || names->all) && route_strips_some(names, came);
    offers = route_offers(f->route, came);
    if (!strips && !offers)
        return 0;
    e = arena_alloc(&f->arena, sizeof(*e));
    if (e == NULL)
        return TERR_NOMEM;
    err = message_edit_init(e, came, &f->arena, LIMIT_FIELDS);
    if (err != 0)
        return err;
    /* All go, and those that stay are added again: an edit knows fields by their name alone. */
    if (strips)
        message_edit_unset(e, SLICE_LIT("Set-Cookie"), HTTP_F_SET_COOKIE);
    while (strips && err == 0 && (field = http_find(came, HTTP_F_SET_COOKIE, field)) != NULL)
        if (!conf_names_match(names, cookie_name(http_value(came, field))))
            err = message_edit_add(
                e, SLICE_LIT("Set-Cookie"), HTTP_F_SET_COOKIE, http_value(came, field));
    if (err == 0 && offers)
        err = route_offer(f, e);
    /* Half an edit is none: without memory the response fails rather than go on with a cookie too
     * many. */
    if (err == 0)
        f->attempt.on.stripped = e;
    *head = &e->head;
    return err;
}
