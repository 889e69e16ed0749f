/* admin_openapi.c -- the routes as an OpenAPI 3.1 description, to generate clients from. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"

enum {
    OPENAPI_WORD_MAX = 64
};

/* Of an array: what is taken as a list is a list of texts. */
static json_t *
openapi_type(const char *type)
{
    json_t *o = json_pack("{ss}", "type", type);

    if (strcmp(type, "array") == 0)
        json_put(o, "items", openapi_type("string"));
    return o;
}

/* NAME=TYPE, and perhaps a mark that it must be there, of `asks`: the next word. */
struct openapi_word {
    char name[OPENAPI_WORD_MAX], type[OPENAPI_WORD_MAX];
    bool query, needed;
};

/* The grammar of a row's `asks`: words with blanks between; each is [?]NAME=TYPE[!].  ? : it
 * stands in the query; ! : it must be there. */
static bool
openapi_next(const char **asks, struct openapi_word *w)
{
    size_t len;
    const char *is;

    *asks += strspn(*asks, " ");
    len = strcspn(*asks, " ");
    if (len == 0)
        return false;
    *w = (struct openapi_word){.query = **asks == '?', .needed = (*asks)[len - 1] == '!'};
    is = memchr(*asks, '=', len);
    /* The text is a row of ADMIN_ROUTE_TABLE: a row without = is found by the first test. */
    tassert(is != NULL);
    snprintf(w->name, sizeof(w->name), "%.*s", (int)(is - *asks) - w->query, *asks + w->query);
    snprintf(w->type, sizeof(w->type), "%.*s", (int)(*asks + len - is - 1) - w->needed, is + 1);
    *asks += len;
    return true;
}

static json_t *
openapi_content(const char *kind, json_t *schema)
{
    return json_pack("{s{s{so}}}", "content", kind, "schema", schema);
}

/* The last word, `text`, is left. */
static bool
openapi_is_only_text(const char *asks)
{
    return strcmp(asks + strspn(asks, " "), "text") == 0;
}

/* The body is no object. */
static bool
openapi_is_text(const char *asks)
{
    const char *last = strrchr(asks, ' ');

    return openapi_is_only_text(last != NULL ? last : asks);
}

/* Members of an object; NULL: the route takes none. */
static json_t *
openapi_body(const char *asks)
{
    json_t *properties, *required, *schema;
    struct openapi_word w;

    if (openapi_is_text(asks))
        return openapi_content("text/plain", openapi_type("string"));
    properties = json_object();
    required = json_array();
    while (openapi_next(&asks, &w)) {
        if (w.query)
            continue;
        json_put(properties, w.name, openapi_type(w.type));
        if (w.needed)
            json_array_append_new(required, json_string(w.name));
    }
    /* json_pack() takes over what "o" gets: nothing is left to free. */
    schema = json_pack("{sssbsoso}", "type", "object", "additionalProperties", 0, "properties",
        properties, "required", required);
    if (json_object_size(properties) > 0)
        return openapi_content("application/json", schema);
    json_decref(schema);
    return NULL;
}

/* What stands for * in the path, and what the query may say. */
static json_t *
openapi_parameters(const struct admin_route *r)
{
    const char *asks = r->asks;
    json_t *list = json_array();
    struct openapi_word w;

    if (strchr(r->path, '*') != NULL)
        json_array_append_new(list, json_pack("{sssssbso}", "name", "name", "in", "path",
                                        "required", 1, "schema", openapi_type("string")));
    while (!openapi_is_only_text(asks) && openapi_next(&asks, &w))
        if (w.query)
            json_array_append_new(
                list, json_pack("{sssssbso}", "name", w.name, "in", "query", "required",
                          (int)w.needed, "schema", openapi_type(w.type)));
    return list;
}

/* A client that is generated gets one type for all good answers, and one for all errors: so no
 * route may answer 2xx in two forms. */
static json_t *
openapi_operation(const struct admin_route *r)
{
    const char *kind = strcmp(r->path, "/metrics") == 0 ? "text/plain"
                       : strcmp(r->path, "/") == 0      ? "text/html"
                                                        : "application/json";
    bool is_json = strcmp(kind, "application/json") == 0;
    json_t *o = json_object(), *body = openapi_body(r->asks);

    json_put_text(o, "summary", r->doc);
    json_put(o, "parameters", openapi_parameters(r));
    if (body != NULL) {
        /* Of the body itself: which members must be there says its schema. */
        json_put(body, "required", json_true());
        json_put(o, "requestBody", body);
    }
    json_put(o, "responses",
        json_pack("{s{sss{s{so}}}s{sss{s{s{ss}}}}}", "2XX", "description", "done", "content", kind,
            "schema", is_json ? admin_schema_of(r) : openapi_type("string"), "default",
            "description", "why not", "content", "application/json", "schema", "$ref",
            "#/components/schemas/Error"));
    return o;
}

/* One member for each path, and in it one for each of its methods.
 * A path stands once, with its methods as members: OpenAPI has no other place for a second
 * method. */
static json_t *
openapi_paths(void)
{
    json_t *paths = json_object();

    for (unsigned i = 0; i < admin_nroutes; i++) {
        const struct admin_route *r = &admin_routes[i];
        const char *star = strchr(r->path, '*');
        char path[128], method[16];
        json_t *of;
        size_t k;

        snprintf(path, sizeof(path), "%.*s%s%s",
            star != NULL ? (int)(star - r->path) : (int)strlen(r->path), r->path,
            star != NULL ? "{name}" : "", star != NULL ? star + 1 : "");
        for (k = 0; k + 1 < sizeof(method) && http_method_name(r->method)[k] != '\0'; k++)
            method[k] = (char)tolower((unsigned char)http_method_name(r->method)[k]);
        method[k] = '\0';
        if (json_object_get(paths, path) == NULL)
            json_put(paths, path, json_object());
        /* Methods of a path need not stand together in the table. */
        of = json_object_get(paths, path);
        if (of != NULL)
            json_put(of, method, openapi_operation(r));
    }
    return paths;
}

void
admin_do_openapi(struct admin_call *c)
{
    json_t *o = json_object();

    json_put_text(o, "openapi", "3.1.0");
    json_put(o, "info",
        json_pack("{ssssss}", "title", "Tarn's admin API", "version", TARN_VERSION, "description",
            "Over a Unix socket, or over TCP with a token.  Every error is an object with `error`, "
            "and "
            "perhaps `hint`."));
    json_put(o, "paths", openapi_paths());
    json_put(o, "components",
        json_pack("{s{s{ssss}}s{s{sss[s]s{s{ss}s{ss}}}}}", "securitySchemes", "token", "type",
            "http", "scheme", "bearer", "schemas", "Error", "type", "object", "required", "error",
            "properties", "error", "type", "string", "hint", "type", "string"));
    admin_put_schemas(json_object_get(json_object_get(o, "components"), "schemas"));
    /* Either will do: the empty one is for a Unix socket without a token. */
    json_put(o, "security", json_pack("[{s[]}{}]", "token"));
    admin_answer(c, 200, o);
}
