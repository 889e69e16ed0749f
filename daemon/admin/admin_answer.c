/* admin_answer.c -- answers and the bodies of questions, for every handler. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/hex.h"

#define ANSWER_NOMEM "{\"error\": \"out of memory\"}\n"

/* Takes `json`.  Nothing is rendered or sent here: admin_state_answer() does that when the
 * handler has returned. */
void
admin_answer(struct admin_call *c, unsigned status, json_t *json)
{
    /* Once (invariant 2). */
    tassert(c->status == 0 && status >= 200);
    /* NULL: memory was out somewhere below, and admin_render() has a text for that. */
    c->status = json != NULL ? status : 503;
    c->json = json;
}

/* Takes `s`: its free() runs in admin_req_free(), also when the client leaves before the first
 * piece. */
void
admin_answer_stream(struct admin_call *c, struct admin_stream *s)
{
    tassert(c->status == 0);
    c->status = 200;
    c->stream = s;
    c->type = "application/x-ndjson";
}

/* Cut at 511 bytes.  Texts that a client chose have a precision in `fmt`, or they would push the
 * reason out of the message. */
void
admin_fail(struct admin_call *c, unsigned status, const char *hint, const char *fmt, ...)
{
    json_t *o = json_object();
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    json_put_text(o, "error", text);
    if (hint != NULL)
        json_put_text(o, "hint", hint);
    admin_answer(c, status, o);
}

/* For errors of the layers below that mean the same on every route.  What is not listed is 503:
 * the request was right, and this tarnd cannot do it now. */
void
admin_fail_terr(struct admin_call *c, int err, const char *what)
{
    unsigned status = err == TERR_NOTFOUND                        ? 404
                      : err == TERR_BUSY || err == TERR_EXISTS    ? 409
                      : err == TERR_CONFIG || err == TERR_INVALID ? 400
                                                                  : 503;

    admin_fail(c, status, NULL, "%s: %s", what, terr_text(err));
}

static bool
answer_knows(const char *const *members, const char *key)
{
    for (; *members != NULL; members++)
        if (strcmp(*members, key) == 0)
            return true;
    return false;
}

json_t *
admin_body(struct admin_call *c, const char *const *members)
{
    char why[256], hint[128];
    const char *key;
    json_t *o, *value;

    snprintf(hint, sizeof(hint), "the body is a JSON object, as in {\"%s\": ...}", members[0]);
    /* A member that stands there twice is refused by the parser (JSON_REJECT_DUPLICATES): a
     * proxy in front may have judged the other one. */
    o = json_parse(c->body, why, sizeof(why));
    if (o == NULL) {
        admin_fail(c, 400, hint, "the body is not JSON: %s", why);
        return NULL;
    }
    if (!json_is_object(o)) {
        admin_fail(c, 400, hint, "the body is not a JSON object");
        json_decref(o);
        return NULL;
    }
    /* Refused, not passed over: a misspelt "soft" would purge hard (invariant 5). */
    json_object_foreach(o, key, value)
    {
        if (answer_knows(members, key))
            continue;
        admin_fail(c, 400, hint, "unknown member '%.64s'", key);
        json_decref(o);
        return NULL;
    }
    return o;
}

/* The text is the object's: the caller drops that behind its last use of it. */
const char *
admin_member(struct admin_call *c, const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    if (json_is_string(v))
        return json_string_value(v);
    if (v == NULL)
        admin_fail(c, 400, NULL, "the body has no member '%s'", key);
    else
        admin_fail(c, 400, NULL, "the member '%s' must be text", key);
    return NULL;
}

/* The whole of it, and within bounds. */
static bool
answer_number(struct slice text, const struct admin_arg *arg, uint64_t *out)
{
    uint64_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_digit(text.ptr[i]);

        /* No number wraps: it would pass for a small one. */
        if (digit < 0 || (unsigned)digit >= arg->base ||
            n > (UINT64_MAX - (unsigned)digit) / arg->base)
            return false;
        n = n * arg->base + (unsigned)digit;
    }
    *out = n;
    return text.len > 0 && n >= arg->least && n <= arg->most;
}

/* One of some words; else it is answered which. */
static bool
answer_word(struct admin_call *c, struct slice text, const struct admin_arg *arg, uint64_t *out)
{
    char all[128] = "";
    size_t len = 0;

    for (unsigned i = 0; arg->words[i] != NULL; i++) {
        if (slice_eq(text, slice_str(arg->words[i]))) {
            *out = i;
            return true;
        }
        len += (size_t)snprintf(
            all + len, sizeof(all) - len, "%s%s", i == 0 ? "" : ", ", arg->words[i]);
        tassert(len < sizeof(all));
    }
    admin_fail(c, 400, NULL, "%s must be one of: %s", arg->name, all);
    return false;
}

/* One NAME=NUMBER of the query.
 * Names and values are compared as they were sent: no number or word of the API needs an escape,
 * so one that has %31 for 1 is refused and not guessed at. */
static bool
answer_arg(struct admin_call *c, struct slice text, const struct admin_arg *args, uint64_t *values)
{
    const char *equals = memchr(text.ptr, '=', text.len);
    struct slice name = text, value = SLICE_LIT("");
    unsigned i = 0;

    if (equals != NULL) {
        name.len = (size_t)(equals - text.ptr);
        value = slice_of(equals + 1, text.len - name.len - 1);
    }
    while (args[i].name != NULL && !slice_eq(name, slice_str(args[i].name)))
        i++;
    if (args[i].name == NULL)
        admin_fail(c, 400, "see the route in GET /v1", "unknown argument '%.*s' in the query",
            name.len > 64 ? 64 : (int)name.len, name.ptr);
    else if (args[i].words != NULL)
        answer_word(c, value, &args[i], &values[i]);
    else if (!answer_number(value, &args[i], &values[i]))
        admin_fail(c, 400, NULL,
            args[i].base == 16 ? "%s must be a hexadecimal number from %" PRIx64 " to %" PRIx64
                               : "%s must be a whole number from %" PRIu64 " to %" PRIu64,
            args[i].name, args[i].least, args[i].most);
    return c->status == 0;
}

/* An argument that comes twice counts as it came last.  Values that the query does not name stay
 * as the handler has set them: they are the defaults. */
bool
admin_args(struct admin_call *c, const struct admin_arg *args, uint64_t *values)
{
    struct slice rest = c->query;

    while (rest.len > 0) {
        const char *amp = memchr(rest.ptr, '&', rest.len);
        size_t len = amp != NULL ? (size_t)(amp - rest.ptr) : rest.len;
        size_t skip = amp != NULL ? len + 1 : len;

        if (!answer_arg(c, slice_of(rest.ptr, len), args, values))
            return false;
        rest = slice_of(rest.ptr + skip, rest.len - skip);
    }
    return true;
}

char *
admin_render(struct admin_call *c, size_t *len)
{
    char *text = c->text != NULL ? c->text : json_print(c->json);

    /* Taken over: admin_req_free() frees what is still there. */
    c->text = NULL;
    json_decref(c->json);
    c->json = NULL;
    if (text == NULL) {
        /* The head is made behind this, with this status. */
        c->status = 503;
        text = strdup(ANSWER_NOMEM);
    }
    *len = text != NULL ? strlen(text) : 0;
    return text;
}
