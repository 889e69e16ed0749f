/* admin_answer.c -- answers and the bodies of questions, for every handler. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"

#define ANSWER_NOMEM "{\"error\": \"out of memory\"}\n"

void
admin_answer(struct admin_call *c, unsigned status, json_t *json)
{
    tassert(c->status == 0 && status >= 200);
    c->status = json != NULL ? status : 503;
    c->json = json;
}

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

char *
admin_render(struct admin_call *c, size_t *len)
{
    char *text = c->text != NULL ? c->text : json_print(c->json);

    c->text = NULL;
    json_decref(c->json);
    c->json = NULL;
    if (text == NULL) {
        c->status = 503;
        text = strdup(ANSWER_NOMEM);
    }
    *len = text != NULL ? strlen(text) : 0;
    return text;
}
