/* admin_schema.c -- what answers are made of, as JSON Schema, from the rows of admin_schema_table.h. */
#include "daemon/admin/admin_schema_table.h"

#include <stdio.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"

static const struct {
    const char *object, *member, *type, *doc;
} schema_rows[] = {
#define X(object, member, type, doc) {object, member, type, doc},
    ADMIN_SCHEMA_TABLE(X)
#undef X
};

static const struct {
    enum http_method method;
    const char *path, *object;
} schema_answers[] = {
#define X(method, path, object) {HTTP_M_##method, path, object},
    ADMIN_ANSWER_TABLE(X)
#undef X
};

static json_t *
schema_ref(struct slice name)
{
    char to[96];

    snprintf(to, sizeof(to), "#/components/schemas/%.*s", (int)name.len, name.ptr);
    return json_pack("{ss}", "$ref", to);
}

/* The one type or object that is left when arrays and maps are taken off. */
static json_t *
schema_plain(struct slice type, bool nullable)
{
    char name[32];

    if (type.ptr[0] == '@') {
        json_t *ref = schema_ref(slice_of(type.ptr + 1, type.len - 1));

        /* Members beside $ref would hold in addition: null has to be another choice. */
        return nullable ? json_pack("{s[o{ss}]}", "anyOf", ref, "type", "null") : ref;
    }
    snprintf(name, sizeof(name), "%.*s", (int)type.len, type.ptr);
    return nullable ? json_pack("{s[ss]}", "type", name, "null") : json_pack("{ss}", "type", name);
}

/* A type of the table.  It nests as deep as what stands in the table: two.
 * TYPE is a JSON type or @OBJECT; [TYPE] is a list, {TYPE} a map; a ? at the end allows null.  A
 * mistake in a row shows in t/e2e/admin.py, which compares answers with the schemas. */
static json_t *
schema_type(struct slice type)
{
    struct slice inner;
    bool nullable;

    tassert(type.len > 1);
    nullable = type.ptr[type.len - 1] == '?';
    inner = slice_of(type.ptr + 1, type.len - 2);
    if (type.ptr[0] == '[')
        return json_pack("{ssso}", "type", "array", "items", schema_type(inner));
    if (type.ptr[0] == '{')
        return json_pack("{ssso}", "type", "object", "additionalProperties", schema_type(inner));
    return schema_plain(slice_of(type.ptr, type.len - nullable), nullable);
}

/* All members are required: null stands where there is nothing to tell. */
static json_t *
schema_object(const char *name)
{
    json_t *members = json_object(), *required = json_array();

    for (size_t i = 0; i < ARRAY_LEN(schema_rows); i++) {
        json_t *member;

        if (strcmp(schema_rows[i].object, name) != 0)
            continue;
        member = schema_type(slice_str(schema_rows[i].type));
        json_put_text(member, "description", schema_rows[i].doc);
        json_put(members, schema_rows[i].member, member);
        json_array_append_new(required, json_string(schema_rows[i].member));
    }
    return json_pack("{sssbsoso}", "type", "object", "additionalProperties", 0, "required",
        required, "properties", members);
}

void
admin_put_schemas(json_t *to)
{
    for (size_t i = 0; i < ARRAY_LEN(schema_rows); i++)
        /* Rows of an object stand together. */
        if (i == 0 || strcmp(schema_rows[i].object, schema_rows[i - 1].object) != 0)
            json_put(to, schema_rows[i].object, schema_object(schema_rows[i].object));
}

/* A route that is not in the table answers any object: the description is then vague, and not
 * wrong. */
json_t *
admin_schema_of(const struct admin_route *r)
{
    for (size_t i = 0; i < ARRAY_LEN(schema_answers); i++)
        if (schema_answers[i].method == r->method && strcmp(schema_answers[i].path, r->path) == 0)
            return schema_ref(slice_str(schema_answers[i].object));
    return json_pack("{ss}", "type", "object");
}
