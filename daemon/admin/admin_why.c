/* admin_why.c -- what a request for a URL would come to, and why. */
#include "daemon/why/why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/hex.h"

struct why_asked {
    struct slice url; /* .ptr NULL: not said */
    struct why_field fields[WHY_FIELDS_MAX];
    unsigned nfields;
};

/* Percent-encoding (RFC 3986 2.1) undone, in place; a + stays one.  False: a % without its digits. */
static bool
why_decode(char *text, size_t *len)
{
    size_t n = 0;

    for (size_t i = 0; i < *len; i++, n++) {
        text[n] = text[i];
        if (text[i] != '%')
            continue;
        if (i + 2 >= *len || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0)
            return false;
        text[n] = (char)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
        i += 2;
    }
    *len = n;
    return true;
}

/* Borrows `text` (the decoded query, or the body's JSON), which must stay until the question is
 * answered. */
bool
admin_take_field(
    struct admin_call *c, struct why_field fields[WHY_FIELDS_MAX], unsigned *n, struct slice text)
{
    const char *colon = memchr(text.ptr, ':', text.len);
    struct why_field *f = &fields[*n];

    if (colon == NULL || colon == text.ptr)
        admin_fail(c, 400, "as in 'Accept-Encoding: gzip'",
            "'%.*s' is no field: a name, a colon, a value", text.len > 64 ? 64 : (int)text.len,
            text.ptr);
    else if (*n == WHY_FIELDS_MAX)
        admin_fail(c, 400, NULL, "more than %d fields", WHY_FIELDS_MAX);
    if (c->status != 0)
        return false;
    f->name = slice_of(text.ptr, (size_t)(colon - text.ptr));
    f->value = slice_of(colon + 1, text.len - f->name.len - 1);
    while (f->value.len > 0 && f->value.ptr[0] == ' ')
        f->value = slice_of(f->value.ptr + 1, f->value.len - 1);
    ++*n;
    return true;
}

/* One NAME=VALUE of the query, which is ours to write to.
 * `text` is decoded in place: each value gets shorter or stays, so what is behind it has not
 * been overwritten when it is read. */
static bool
why_take(struct admin_call *c, struct why_asked *a, char *text, size_t len)
{
    char *equals = memchr(text, '=', len);
    size_t name_len = equals != NULL ? (size_t)(equals - text) : len;
    struct slice name = slice_of(text, name_len);
    char *value = equals != NULL ? equals + 1 : text + len;
    size_t value_len = len - (size_t)(value - text);

    /* The value alone, behind the split: an encoded & or = is a part of it. */
    if (!why_decode(value, &value_len)) {
        admin_fail(c, 400, "write it as %25", "a %% in the query has no two hexadecimal digits");
        return false;
    }
    if (slice_eq(name, SLICE_LIT("header")))
        return admin_take_field(c, a->fields, &a->nfields, slice_of(value, value_len));
    if (slice_eq(name, SLICE_LIT("url"))) {
        a->url = slice_of(value, value_len);
        return true;
    }
    admin_fail(c, 400, "see the route in GET /v1", "unknown argument '%.*s' in the query",
        name_len > 64 ? 64 : (int)name_len, text);
    return false;
}

/* In any order; `header` may come several times. */
static bool
why_read(struct admin_call *c, struct why_asked *a, char *query, size_t len)
{
    for (size_t at = 0; at < len;) {
        char *amp = memchr(query + at, '&', len - at);
        size_t n = amp != NULL ? (size_t)(amp - query) - at : len - at;

        if (!why_take(c, a, query + at, n))
            return false;
        at += n + 1;
    }
    if (a->url.ptr == NULL || a->url.len == 0)
        admin_fail(c, 400, "?url=http://www.example.com/page", "say which url");
    return c->status == 0;
}

static void
why_first_listener(void *to, const char *name, const char *address)
{
    const char **first = to;

    (void)name;
    /* A socket's path is no host. */
    if (*first == NULL && strncmp(address, "unix:", 5) != 0)
        *first = address;
}

char *
admin_absolute(const struct admin *a, struct slice url)
{
    const char *host = NULL;
    char *text = NULL;

    /* It is absolute, or refused by the one who parses it. */
    if (url.len == 0 || url.ptr[0] != '/') {
        text = malloc(url.len + 1);
        if (text == NULL)
            return NULL;
        if (url.len > 0)
            memcpy(text, url.ptr, url.len);
        text[url.len] = '\0';
        return text;
    }
    a->env.host->listeners(a->env.host_ctx, why_first_listener, (void *)&host);
    if (asprintf(&text, "http://%s%.*s", host != NULL ? host : "localhost", (int)url.len, url.ptr) <
        0)
        return NULL;
    return text;
}

static void
why_answer(struct admin_call *c, const struct why_asked *a)
{
    char *url = admin_absolute(c->admin, a->url);
    const char *why = "";
    json_t *o = NULL;
    int err = TERR_NOMEM;

    if (url != NULL)
        err = policies_why(c->admin->env.policies, slice_str(url), a->fields, a->nfields, &o, &why);
    free(url);
    if (err == 0)
        admin_answer(c, 200, o);
    else if (err == TERR_SYNTAX)
        admin_fail(c, 400, NULL, "%s", why);
    else
        admin_fail_terr(c, err, "why");
}

void
admin_do_why(struct admin_call *c)
{
    struct why_asked a = {.nfields = 0};
    /* A copy: it is decoded in place. */
    char *query = malloc(c->query.len + 1);

    if (query == NULL) {
        admin_fail_terr(c, TERR_NOMEM, "why");
        return;
    }
    if (c->query.len > 0)
        memcpy(query, c->query.ptr, c->query.len);
    if (why_read(c, &a, query, c->query.len))
        why_answer(c, &a);
    free(query);
}
