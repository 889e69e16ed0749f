/* conf_schema.c -- tarn.schema.json, printed from the rows that the loader obeys.
 *
 * A JSON Schema (draft 2020-12) of the YAML, so that an editor completes keys, shows what they mean
 * and underlines mistakes while one types.  Everything is inline: editors show what stands beside a
 * $ref, or do not.
 *
 * The loader says more, for a schema cannot count: times and sizes within their bounds, what one
 * section demands of another.  And it says it better: `tarnd -t` stays the judge.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf_doc.h"
#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

#define SCHEMA_PORT  ":[0-9]{1,5}"
#define SCHEMA_MEDIA "[A-Za-z0-9!#$&^_.+-]+"

static const struct {
    const char *name;
    const char *doc;
    bool number;
} schema_types[] = {
#define NUMBER                   true
#define STRING                   false
#define X(name, kind, form, doc) [CONF_TYPE_##name] = {#name, doc, kind},
    CONF_TYPE_TABLE(X)
#undef X
#undef NUMBER
#undef STRING
};

/* How a text of a type is written.  Without a row: any text, or one of a few words. */
static const char *const schema_patterns[ARRAY_LEN(schema_types)] = {
    [CONF_TYPE_MS] = "[0-9]+(\\.[0-9]+)?(ms|s|m|h|d|w|y)",
    [CONF_TYPE_BYTES] = "[0-9]+(\\.[0-9]+)?([kKmMgGtT]([iI]?[bB])?|[bB])?",
    [CONF_TYPE_POW2] = "[0-9]+(\\.[0-9]+)?([kKmMgGtT]([iI]?[bB])?|[bB])?",
    [CONF_TYPE_PERCENT] = "[0-9]+%",
    [CONF_TYPE_FORMAT] = "combined|json|.*\\$.*",
    [CONF_TYPE_ASCII] = "[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?",
    [CONF_TYPE_TOKEN] = "[A-Za-z0-9!#$%&'*+.^_`|~-]+",
    [CONF_TYPE_LABEL] = "[A-Za-z0-9._-]+",
    [CONF_TYPE_ENGINES] = "rediss?://[!-~]+|unix:/.+",
    [CONF_TYPE_NAME] = "[A-Za-z_][A-Za-z0-9_-]*",
    [CONF_TYPE_LISTEN] =
        "(unix:/.+|\\[[0-9A-Fa-f:.]+\\]" SCHEMA_PORT "|(\\*|[A-Za-z0-9._-]+)" SCHEMA_PORT ")",
    [CONF_TYPE_ADDRESS] =
        "(unix:/.+|\\[[0-9A-Fa-f:.]+\\]" SCHEMA_PORT "|[A-Za-z0-9._-]+" SCHEMA_PORT ")",
    [CONF_TYPE_AUTHORITY] = "(\\[[0-9A-Fa-f:.]+\\]|[^:/?#\\[\\]@*\\s]+)(" SCHEMA_PORT ")?",
    [CONF_TYPE_HOST] = "(\\[[0-9A-Fa-f:.]+\\]|(\\*\\.)?[^:/?#\\[\\]@*\\s]+)",
    [CONF_TYPE_TTL] = "[0-9]+(\\.[0-9]+)?(ms|s|m|h|d|w|y)",
    [CONF_TYPE_SWITCH] = "on|off|all|true|false",
    [CONF_TYPE_CODINGS] = "gzip|br|zstd",
    [CONF_TYPE_MEDIATYPES] = SCHEMA_MEDIA "/(" SCHEMA_MEDIA "|\\*)",
    [CONF_TYPE_PREFIX] = "/[^?#\\s]*",
    [CONF_TYPE_TARGET] = "/[^#\\s]*",
    [CONF_TYPE_BACKEND] = "[A-Za-z_][A-Za-z0-9_-]*",
    [CONF_TYPE_BACKENDTLS] = "on|off|true|false",
    [CONF_TYPE_ACME] = "", /* of texts only the empty one */
};

/* A JSON string; the tables have no control characters. */
static void
schema_string(struct conf_sink *to, const char *text)
{
    char one[2] = "";

    to->write(to, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            to->write(to, "\\");
        /* Else it needed an escape that is not written here. */
        tassert((unsigned char)*text >= ' ');
        one[0] = *text;
        to->write(to, one);
    }
    to->write(to, "\"");
}

/* "malloc, synth or fault" are three words, "auto or a whole number" are not: calls `each` with
 * every word of the former, and returns how many; of the latter it returns 0. */
static unsigned
schema_words(const char *doc, void (*each)(struct conf_sink *to, const char *word, unsigned i),
    struct conf_sink *to)
{
    char word[32];
    unsigned n = 0;

    while (*doc != '\0') {
        size_t len = strcspn(doc, ", ");

        /* A word with a space in it is a sentence. */
        if (len == 0 || len >= sizeof(word))
            return 0;
        snprintf(word, sizeof(word), "%.*s", (int)len, doc);
        doc += len;
        if (strncmp(doc, ", ", 2) == 0)
            doc += 2;
        else if (strncmp(doc, " or ", 4) == 0)
            doc += 4;
        else if (*doc != '\0')
            return 0;
        if (each != NULL)
            each(to, word, n);
        n++;
    }
    /* A single word is a description, as "text". */
    return n > 1 ? n : 0;
}

/* An editor's YAML may be 1.1, where on and off are truth values, or 1.2, where they are words: so
 * they are both here, and true and false need no mention of their own. */
static void
schema_word(struct conf_sink *to, const char *word, unsigned i)
{
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        return;
    if (i > 0)
        to->write(to, ", ");
    if (word[strspn(word, "0123456789")] == '\0')
        to->write(to, word);
    else
        schema_string(to, word);
    if (strcmp(word, "on") == 0)
        to->write(to, ", true");
    if (strcmp(word, "off") == 0)
        to->write(to, ", false");
}

static void
schema_integer(struct conf_sink *to, const struct conf_key *key)
{
    tassert(key->least <= key->most); /* else no value is valid */
    conf_doc_print(to, "\"type\": \"integer\", \"minimum\": %" PRId64, key->least);
    if (key->most != INT64_MAX)
        conf_doc_print(to, ", \"maximum\": %" PRId64, key->most);
}

static bool
schema_is_list(const struct conf_key *key)
{
    return key->type == CONF_TYPE_CODINGS || key->type == CONF_TYPE_MEDIATYPES ||
           key->type == CONF_TYPE_ENGINES;
}

/* A type that is described as a list or a map is left to the loader.  From the type's
 * documentation where no rule is special: "a list of ..." is an array. */
static const char *
schema_json_type(const struct conf_key *key)
{
    const char *doc = schema_types[key->type].doc;

    if (key->type == CONF_TYPE_MS || key->type == CONF_TYPE_PERCENT)
        return "\"string\"";
    if (schema_is_list(key))
        return "[\"string\", \"array\"]";
    if (key->type == CONF_TYPE_SWITCH)
        return "[\"string\", \"boolean\"]";
    /* A size may be written as 1024 or as 1KiB. */
    if (schema_types[key->type].number)
        return "[\"string\", \"integer\"]";
    if (key->type == CONF_TYPE_CERTIFICATES || key->type == CONF_TYPE_CERTNAMES)
        return "[\"string\", \"array\"]";
    if (key->type == CONF_TYPE_TLS || key->type == CONF_TYPE_ACME)
        return "[\"string\", \"object\"]";
    if (key->type == CONF_TYPE_BACKENDTLS)
        return "[\"string\", \"boolean\", \"object\"]";
    if (strncmp(doc, "true", 4) == 0)
        return "[\"string\", \"boolean\", \"array\"]";
    if (strstr(doc, "a map") != NULL || strstr(doc, "a list") != NULL ||
        (schema_patterns[key->type] == NULL && strchr(doc, '[') != NULL))
        return "[\"string\", \"array\", \"object\"]";
    return "\"string\"";
}

/* Anchored: a pattern of JSON Schema matches anywhere else. */
static void
schema_pattern(struct conf_sink *to, const char *pattern, bool may_be_empty)
{
    to->write(to, "\"pattern\": ");
    to->write(to, may_be_empty ? "\"^$|^(" : "\"^(");
    /* A backslash of the pattern is two in JSON. */
    for (; *pattern != '\0'; pattern++)
        conf_doc_print(to, "%s%c", *pattern == '\\' ? "\\" : "", *pattern);
    to->write(to, ")$\"");
}

/* Each of it is as the one that may stand without a list. */
static void
schema_items(struct conf_sink *to, const struct conf_key *key)
{
    if (!schema_is_list(key))
        return;
    conf_doc_print(to, ", \"minItems\": 1, \"maxItems\": %d, ",
        key->type == CONF_TYPE_ENGINES ? CONF_ENGINES_MAX : CONF_TYPES_MAX);
    to->write(to, "\"items\": {\"type\": \"string\", ");
    schema_pattern(to, schema_patterns[key->type], false);
    to->write(to, "}");
}

static void
schema_text(struct conf_sink *to, const struct conf_key *key)
{
    const char *pattern = schema_patterns[key->type];
    bool may_be_empty = key->def_text != NULL && key->def_text[0] == '\0';

    conf_doc_print(to, "\"type\": %s", schema_json_type(key));
    if (key->type == CONF_TYPE_BYTES || key->type == CONF_TYPE_POW2)
        conf_doc_print(to, ", \"minimum\": %" PRId64, key->least);
    if (!schema_types[key->type].number && key->most > 0)
        conf_doc_print(to, ", \"maxLength\": %" PRId64, key->most);
    if (pattern == NULL)
        return;
    to->write(to, ", ");
    schema_pattern(to, pattern, may_be_empty);
}

static void
schema_value(struct conf_sink *to, const struct conf_key *key)
{
    const char *doc = schema_types[key->type].doc;

    tassert(key->type < ARRAY_LEN(schema_types));
    if (key->type == CONF_TYPE_AUTO) {
        to->write(to, "\"anyOf\": [{\"const\": \"auto\"}, {");
        schema_integer(to, key);
        to->write(to, "}]");
    } else if (key->type == CONF_TYPE_COUNT) {
        schema_integer(to, key);
    } else if (schema_patterns[key->type] == NULL && schema_words(doc, NULL, to) > 0) {
        to->write(to, "\"enum\": [");
        schema_words(doc, schema_word, to);
        to->write(to, "]");
    } else {
        schema_text(to, key);
    }
}

/* Words with a space between them. */
static void
schema_words_array(struct conf_sink *to, const char *words)
{
    to->write(to, "[\"");
    for (; *words != '\0'; words++)
        conf_doc_print(to, *words == ' ' ? "\",%c\"" : "%c", *words);
    to->write(to, "\"]");
}

/* As an operator would write it: "30s" and not 30000. */
static void
schema_default(struct conf_sink *to, const struct conf_key *key)
{
    char buf[32];
    bool is_bare = key->type == CONF_TYPE_COUNT || key->type == CONF_TYPE_SLOTS ||
                   (key->type == CONF_TYPE_AUTO && key->def != 0);

    /* A default that follows from another parameter cannot be said as a value. */
    if (key->required || (schema_types[key->type].number && key->def == CONF_FROM_PARAM))
        return;
    to->write(to, ", \"default\": ");
    if (key->type == CONF_TYPE_MEDIATYPES)
        schema_words_array(to, key->def_text);
    else if (key->type == CONF_TYPE_CODINGS)
        to->write(to, "[\"gzip\", \"br\", \"zstd\"]");
    else if (!schema_types[key->type].number)
        schema_string(to, key->def_text);
    else if (key->type == CONF_TYPE_BOOL || key->type == CONF_TYPE_H2C)
        to->write(to, key->def != 0 ? "true" : "false");
    else if (is_bare)
        conf_doc_print(to, "%" PRId64, key->def);
    else
        schema_string(to, conf_value_format(key->type, key->def, buf, sizeof(buf)));
}

/* What a key means, how its value is written, and its bounds where the schema cannot hold them. */
static void
schema_describe(struct conf_sink *to, const struct conf_key *key)
{
    char text[1024], least[32], most[32];
    bool scaled =
        key->type == CONF_TYPE_MS || key->type == CONF_TYPE_BYTES || key->type == CONF_TYPE_POW2;
    int len = snprintf(text, sizeof(text), "%s. It is %s", key->doc, schema_types[key->type].doc);

    if (scaled)
        len += snprintf(text + len, sizeof(text) - (size_t)len, "; the least is %s",
            conf_value_format(key->type, key->least, least, sizeof(least)));
    if (scaled && key->most != INT64_MAX)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ", the most %s",
            conf_value_format(key->type, key->most, most, sizeof(most)));
    tassert((size_t)len < sizeof(text));
    to->write(to, "\"description\": ");
    schema_string(to, text);
}

static void schema_keys(struct conf_sink *to, const struct conf_section *s);

/* What there is to say of a value that is a map, or a list of such, as one that is no text. */
static void
schema_part(struct conf_sink *to, const struct conf_key *key)
{
    const struct conf_part *part = conf_part_find(key->type);

    if (part == NULL)
        return;
    to->write(to, ", ");
    if (key->type == CONF_TYPE_CERTIFICATES)
        to->write(to, "\"minItems\": 1, \"items\": {\"type\": [\"string\", \"object\"], ");
    schema_keys(to, &part->section);
    if (key->type == CONF_TYPE_CERTIFICATES)
        to->write(to, "}");
}

static void
schema_key(struct conf_sink *to, const struct conf_key *key)
{
    to->write(to, "{");
    schema_value(to, key);
    schema_items(to, key);
    schema_part(to, key);
    schema_default(to, key);
    to->write(to, ",\n            ");
    schema_describe(to, key);
    to->write(to, "}");
}

/* These keys and no others, of a value that is a map; one of another type is none of their concern.
 * additionalProperties false: that is how an editor underlines a misspelt key. */
static void
schema_keys(struct conf_sink *to, const struct conf_section *s)
{
    bool any = false;

    to->write(to, "\"additionalProperties\": false,\n        \"required\": [");
    for (unsigned i = 0; i < s->nkeys; i++) {
        if (!s->keys[i].required)
            continue;
        conf_doc_print(to, "%s\"%s\"", any ? ", " : "", s->keys[i].name);
        any = true;
    }
    to->write(to, "],\n        \"properties\": {");
    for (unsigned i = 0; i < s->nkeys; i++) {
        conf_doc_print(to, "%s\n          \"%s\": ", i > 0 ? "," : "", s->keys[i].name);
        schema_key(to, &s->keys[i]);
    }
    to->write(to, "\n        }");
}

static void
schema_map(struct conf_sink *to, const struct conf_section *s)
{
    to->write(to, "\"type\": \"object\", ");
    schema_keys(to, s);
}

/* A section's shape stands in how its documentation begins: people rely on those words, too. */
static bool
schema_begins(const struct conf_section *s, const char *words)
{
    return strncmp(s->doc, words, strlen(words)) == 0;
}

static void
schema_section(struct conf_sink *to, const struct conf_section *s)
{
    conf_doc_print(to, "    \"%s\": {\n      \"description\": ", s->name);
    schema_string(to, s->doc);
    to->write(to, ",\n      ");
    if (schema_begins(s, "One value")) {
        schema_value(to, &s->keys[0]);
        schema_default(to, &s->keys[0]);
    } else if (schema_begins(s, "A list of")) {
        to->write(to, "\"type\": \"array\", \"items\": {\n        ");
        schema_map(to, s);
        to->write(to, "}");
    } else if (schema_begins(s, "A map of names")) {
        conf_doc_print(to,
            "\"type\": \"object\", \"additionalProperties\": false,\n"
            "      \"patternProperties\": {\"^[A-Za-z_][A-Za-z0-9_-]{0,%d}$\": {\n        ",
            CONF_NAME_MAX - 1);
        schema_map(to, s);
        to->write(to, "}}");
    } else if (schema_begins(s, "On, off, or a map")) {
        to->write(to, "\"type\": [\"string\", \"boolean\", \"object\"], ");
        schema_pattern(to, schema_patterns[CONF_TYPE_BACKENDTLS], false);
        to->write(to, ", ");
        schema_keys(to, s);
    } else {
        schema_map(to, s);
    }
    to->write(to, "\n    }");
}

void
conf_doc_schema(struct conf_sink *to)
{
    to->write(to, "{\n"
                  "  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                  "  \"title\": \"tarn.yaml\",\n"
                  "  \"description\": \"The configuration of tarnd, an HTTP caching reverse proxy. "
                  "Printed by "
                  "tarn_conf_gen from the tables that the loader obeys.\",\n"
                  "  \"type\": \"object\",\n"
                  "  \"additionalProperties\": false,\n"
                  "  \"anyOf\": [{\"required\": [\"backends\"]}, {\"required\": [\"vcl\"]}, "
                  "{\"required\": [\"include\"]}],\n"
                  "  \"properties\": {\n");
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++) {
        schema_section(to, s);
        to->write(to, s[1].name != NULL ? ",\n" : "\n");
    }
    to->write(to, "  }\n}\n");
}
