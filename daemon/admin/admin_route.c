/* admin_route.c -- from method and path to a handler. */
#include <stdio.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/hex.h"

const struct admin_route admin_routes[] = {
#define X(method, path, handler, asks, doc) {HTTP_M_##method, path, admin_do_##handler, asks, doc},
    ADMIN_ROUTE_TABLE(X)
#undef X
};
const unsigned admin_nroutes = ARRAY_LEN(admin_routes);

/* A segment as it was meant, into out.  False: it is no name.
 * Decoded once: %252f is the text %2f, which no file or policy is named.  A name with a slash
 * (%2f) is possible, and is only ever compared. */
static bool
route_name(struct slice s, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        int high = 0, low = (unsigned char)s.ptr[i];

        if (s.ptr[i] == '%') {
            if (s.len - i < 3)
                return false;
            high = hex_digit(s.ptr[i + 1]);
            low = hex_digit(s.ptr[i + 2]);
            if (high < 0 || low < 0)
                return false;
            low += high * 16;
            i += 2;
        }
        /* Names go into logs and answers; %00 would cut one. */
        if (low < 0x20 || low == 0x7f || n + 1 >= ADMIN_NAME_MAX)
            return false;
        out[n++] = (char)low;
    }
    out[n] = '\0';
    return n > 0;
}

/* `name` is written although a later test may fail: the caller reads it for the row that matches
 * only. */
static bool
route_matches(const char *pattern, struct slice path, char *name)
{
    const char *star = strchr(pattern, '*'), *slash;
    size_t before = star != NULL ? (size_t)(star - pattern) : 0;
    struct slice rest;

    name[0] = '\0';
    if (star == NULL)
        return slice_eq(path, slice_str(pattern));
    if (path.len <= before || memcmp(path.ptr, pattern, before) != 0)
        return false;
    rest = slice_of(path.ptr + before, path.len - before);
    slash = memchr(rest.ptr, '/', rest.len);
    /* What follows the name must be the rest of the pattern: a * is one segment. */
    if (!slice_eq(
            slash != NULL ? slice_of(slash, rest.len - (size_t)(slash - rest.ptr)) : SLICE_LIT(""),
            slice_str(star + 1)))
        return false;
    return route_name(
        slice_of(rest.ptr, slash != NULL ? (size_t)(slash - rest.ptr) : rest.len), name);
}

/* RFC 9110 15.5.6: each method that the path has; HEAD comes with GET. */
static void
route_allow(struct admin_call *c, enum http_method m)
{
    size_t len = strlen(c->allow);

    /* A method once, though several rows may match. */
    if (strstr(c->allow, http_method_name(m)) != NULL)
        return;
    snprintf(c->allow + len, sizeof(c->allow) - len, "%s%s%s", len > 0 ? ", " : "",
        http_method_name(m), m == HTTP_M_GET ? ", HEAD" : "");
}

/* What exists, with or without its documentation. */
static json_t *
route_list(bool docs)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < admin_nroutes; i++) {
        const char *method = http_method_name(admin_routes[i].method);
        char line[128];
        json_t *o;

        if (!docs) {
            snprintf(line, sizeof(line), "%s %s", method, admin_routes[i].path);
            json_array_append_new(list, json_string(line));
            continue;
        }
        o = json_object();
        json_put_text(o, "method", method);
        json_put_text(o, "path", admin_routes[i].path);
        json_put_text(o, "answer", admin_routes[i].doc);
        json_array_append_new(list, o);
    }
    return list;
}

void
admin_do_routes(struct admin_call *c)
{
    json_t *o = json_object();

    json_put(o, "routes", route_list(true));
    admin_answer(c, 200, o);
}

static void
route_missing(struct admin_call *c)
{
    json_t *o = json_object();

    json_put_text(o, "error", "there is nothing here");
    json_put_text(o, "hint", "GET /v1 lists the resources");
    json_put(o, "routes", route_list(false));
    admin_answer(c, 404, o);
}

/* Balancers and browsers put things of their own behind what they read. */
static bool
route_takes_query(struct admin_call *c, const struct admin_route *route)
{
    if (c->query.len == 0 || c->method == HTTP_M_GET || c->method == HTTP_M_HEAD ||
        strchr(route->asks, '?') != NULL)
        return true;
    admin_fail(c, 400, "in the body: see GET /v1",
        "this takes nothing in the query, which is '%.*s'",
        (int)(c->query.len < ADMIN_NAME_MAX ? c->query.len : ADMIN_NAME_MAX), c->query.ptr);
    return false;
}

void
admin_route(struct admin_call *c)
{
    /* HEAD is GET without its body (RFC 9110 9.3.2), so no row has it. */
    enum http_method method = c->method == HTTP_M_HEAD ? HTTP_M_GET : c->method;

    /* Rows are tried in order, and an earlier one may have had another method. */
    c->allow[0] = '\0';
    for (unsigned i = 0; i < admin_nroutes; i++) {
        if (!route_matches(admin_routes[i].path, c->path, c->name))
            continue;
        if (admin_routes[i].method == method) {
            c->allow[0] = '\0';
            if (!route_takes_query(c, &admin_routes[i]))
                return;
            admin_routes[i].handler(c);
            tassert((c->status != 0) != (c->resume != NULL)); /* each answers, now or later */
            return;
        }
        route_allow(c, admin_routes[i].method);
    }
    if (c->allow[0] == '\0')
        route_missing(c);
    else
        admin_fail(c, 405, NULL, "this method is not for this path, which takes %s", c->allow);
}
