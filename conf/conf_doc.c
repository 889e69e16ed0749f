/* conf_doc.c -- the reference and tarn.yaml, printed from the rows that the loader obeys.
 *
 * One row has a key's name, type, default, bounds and meaning; the loader obeys it, and the
 * reference, tarn.yaml, the schema and `tarnctl param` print it.  So a document is never older
 * than the code, and a ctest compares the printed files with those in the tree.
 */
#include "conf/conf_doc.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/access_field_table.h"
#include "daemon/base/obj.h"

enum {
    DOC_COLUMNS = 96,
    DOC_DEFAULT = 768, /* bytes of a default in a document, with NUL */
};

enum doc_kind {
    DOC_NUMBER,
    DOC_STRING
};

static const struct {
    const char *name;
    enum doc_kind kind;
    const char *doc;
} doc_types[] = {
#define X(name, kind, form, doc) [CONF_TYPE_##name] = {#name, DOC_##kind, doc},
    CONF_TYPE_TABLE(X)
#undef X
};

void
conf_doc_print(struct conf_sink *to, const char *fmt, ...)
{
    char buf[1024];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(buf, sizeof(buf), fmt, args);
    va_end(args);
    /* A row that is cut would be a manual that lies: the build fails instead. */
    tassert(len >= 0 && (size_t)len < sizeof(buf));
    to->write(to, buf);
}

/* For a backend's timeout: the parameter that stands in, the last word of its documentation. */
static const struct conf_key *
doc_param(const struct conf_key *key)
{
    /* A convention of the table, which the generator enforces: a row that breaks it fails the
     * build. */
    const char *name = strrchr(key->doc, ' ') + 1;
    const struct conf_section *s = conf_sections;

    while (strcmp(s->name, "parameters") != 0)
        s++;
    for (unsigned i = 0; i < s->nkeys; i++)
        if (strcmp(s->keys[i].name, name) == 0)
            return &s->keys[i];
    TUNREACHABLE("a row with CONF_FROM_PARAM names no parameter");
}

/* Words with a space between them, as a list of YAML. */
static const char *
doc_list(const char *words, char *buf, size_t len)
{
    size_t used = (size_t)snprintf(buf, len, "[");

    for (; *words != '\0'; words++)
        used += (size_t)snprintf(buf + used, len - used, *words == ' ' ? ",%c" : "%c", *words);
    used += (size_t)snprintf(buf + used, len - used, "]");
    tassert(used < len);
    return buf;
}

/* The default as a file would have it.  `buf` may be what is returned. */
static const char *
doc_default(const struct conf_key *key, char *buf, size_t len)
{
    tassert((key->def_text != NULL || key->required) == (doc_types[key->type].kind == DOC_STRING));
    if (key->type == CONF_TYPE_MEDIATYPES)
        return doc_list(key->def_text, buf, len);
    if (doc_types[key->type].kind == DOC_STRING)
        return key->def_text == NULL ? NULL : key->def_text[0] == '\0' ? "\"\"" : key->def_text;
    if (key->def == CONF_FROM_PARAM)
        key = doc_param(key);
    return conf_value_format(key->type, key->def, buf, len);
}

static bool
doc_has_bounds(const struct conf_key *key)
{
    return doc_types[key->type].kind == DOC_NUMBER && key->type != CONF_TYPE_BOOL &&
           key->type != CONF_TYPE_H2C && key->type != CONF_TYPE_SLOTS &&
           key->type != CONF_TYPE_CODINGS;
}

/* "auto" is not a bound, so an AUTO's bounds are formatted as plain numbers. */
static const char *
doc_bound(const struct conf_key *key, int64_t value, char *buf, size_t len)
{
    enum conf_type type = key->type == CONF_TYPE_AUTO ? CONF_TYPE_COUNT : key->type;

    /* No bound but that of the type. */
    if (!doc_has_bounds(key) || value == INT64_MAX)
        return "";
    return conf_value_format(type, value, buf, len);
}

static void
doc_type_name(enum conf_type type, char *buf, size_t len)
{
    tassert(type < ARRAY_LEN(doc_types));
    tassert(strlen(doc_types[type].name) < len);
    snprintf(buf, len, "%s", doc_types[type].name);
    for (char *p = buf; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
}

static void
doc_row(struct conf_sink *to, const struct conf_key *key)
{
    char type[32], def_buf[DOC_DEFAULT], least[32], most[32];
    const char *def = doc_default(key, def_buf, sizeof(def_buf));

    doc_type_name(key->type, type, sizeof(type));
    conf_doc_print(to, "| `%s` | %s | %s%s%s | %s | %s | %s |\n", key->name, type,
        def == NULL ? "" : "`", def == NULL ? "must be given" : def, def == NULL ? "" : "`",
        doc_bound(key, key->least, least, sizeof(least)),
        doc_bound(key, key->most, most, sizeof(most)), key->doc);
}

static void
doc_rows(struct conf_sink *to, const struct conf_section *s)
{
    conf_doc_print(to, "| key | type | default | least | most | meaning |\n");
    conf_doc_print(to, "|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < s->nkeys; i++)
        doc_row(to, &s->keys[i]);
}

/* Has a section above this one such a value?  Parts of parts stand in no section. */
static bool
doc_stands_above(const struct conf_section *s, enum conf_type type)
{
    for (const struct conf_section *a = conf_sections; a->name != NULL && a != s; a++)
        for (unsigned i = 0; i < a->nkeys; i++)
            if (a->keys[i].type == type)
                return true;
    return false;
}

/* A value that is a map: its keys stand behind those of the first section that has it. */
static void
doc_parts(struct conf_sink *to, const struct conf_section *s)
{
    for (unsigned i = 0; i < s->nkeys; i++) {
        const struct conf_part *part = conf_part_find(s->keys[i].type);

        if (part == NULL || doc_stands_above(s, part->type))
            continue;
        conf_doc_print(to, "\n#### `%s`\n\n%s.\n\n", part->title, part->section.doc);
        doc_rows(to, &part->section);
        doc_parts(to, &part->section);
    }
}

const struct conf_part *
conf_part_find(enum conf_type type)
{
    for (unsigned i = 0; i < CONF_PARTS; i++)
        if (conf_parts[i].type == type)
            return &conf_parts[i];
    return NULL;
}

/* What `access_log_format` can name. */
static const struct {
    const char *name, *doc;
} doc_fields[] = {
#define X(name, most, doc) {#name, doc},
    ACCESS_FIELD_TABLE(X)
#undef X
};

void
conf_doc_reference(struct conf_sink *to)
{
    char name[32];

    conf_doc_print(to, "### Types of values\n\n");
    for (unsigned i = 0; i < ARRAY_LEN(doc_types); i++) {
        doc_type_name((enum conf_type)i, name, sizeof(name));
        conf_doc_print(to, "- **%s**: %s\n", name, doc_types[i].doc);
    }
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++) {
        conf_doc_print(to, "\n### `%s`\n\n%s\n\n", s->name, s->doc);
        doc_rows(to, s);
        doc_parts(to, s);
    }
    conf_doc_print(to, "\n### Fields of `access_log_format`\n\n"
                       "| field | value; `-` where there is none |\n|---|---|\n");
    for (unsigned i = 0; i < ARRAY_LEN(doc_fields); i++)
        conf_doc_print(to, "| `$%s` | %s |\n", doc_fields[i].name, doc_fields[i].doc);
}

/* A comment, broken between words. */
static void
doc_comment(struct conf_sink *to, int indent, const char *text)
{
    size_t room = (size_t)(DOC_COLUMNS - indent - 2);

    while (*text != '\0') {
        size_t len = strlen(text);

        if (len > room)
            for (len = room; len > 0 && text[len] != ' '; len--)
                continue;
        tassert(len > 0); /* no word is as long as a line */
        conf_doc_print(to, "%*s# %.*s\n", indent, "", (int)len, text);
        text += len;
        /* The space at which the line was broken. */
        text += *text == ' ';
    }
}

/* "key: value", a long list broken between two elements. */
static void
doc_yaml_value(
    struct conf_sink *to, const char *name, const char *value, int indent, const char *dash)
{
    int before = indent - (int)strlen(dash);
    size_t room = (size_t)DOC_COLUMNS - (size_t)indent - strlen(name) - 2;

    conf_doc_print(to, "%*s%s%s: ", before, "", dash, name);
    while (strlen(value) > room) {
        size_t len = room;

        while (len > 0 && value[len] != ' ')
            len--;
        tassert(len > 0);        /* no element is as long as a line */
        tassert(dash[0] != '-'); /* it would begin another entry */
        conf_doc_print(to, "%.*s\n%*s%s  ", (int)len, value, before, "", dash);
        value += len + 1;
        room = (size_t)DOC_COLUMNS - (size_t)indent - 2;
    }
    conf_doc_print(to, "%s\n", value);
}

/* Its comment above, then "key: default".  With `dash` the line begins an entry of a list, or is
 * commented out: the dash stands in the place of the last blanks of the indentation. */
static void
doc_yaml_key(struct conf_sink *to, const struct conf_key *key, int indent, const char *dash)
{
    char comment[512], def_buf[DOC_DEFAULT], least_buf[32], most_buf[32];
    const char *def = doc_default(key, def_buf, sizeof(def_buf));
    const char *least = doc_bound(key, key->least, least_buf, sizeof(least_buf));
    const char *most = doc_bound(key, key->most, most_buf, sizeof(most_buf));

    tassert(indent >= (int)strlen(dash)); /* the dash stands within the indentation */
    tassert(strlen(key->doc) + sizeof(least_buf) + sizeof(most_buf) + 8 <= sizeof(comment));
    if (most[0] != '\0')
        snprintf(comment, sizeof(comment), "%s (%s to %s)", key->doc, least, most);
    else
        snprintf(comment, sizeof(comment), "%s", key->doc);
    doc_comment(to, indent, comment);
    if (def == NULL) /* an example, as there is no default */
        def = key->type == CONF_TYPE_LISTEN    ? "127.0.0.1:8080"
              : key->type == CONF_TYPE_ADDRESS ? "127.0.0.1:9000"
              : key->type == CONF_TYPE_MEMBERS ? "[origin]"
              : key->type == CONF_TYPE_ENGINES ? "redis://127.0.0.1:6379"
              : key->type == CONF_TYPE_LABEL   ? "shop"
                                               : "origin";
    doc_yaml_value(to, key->name, def, indent, dash);
}

/* The shapes: a value, a map of names to maps, a list of maps, a map. */
static void
doc_yaml_section(struct conf_sink *to, const struct conf_section *s)
{
    static const struct {
        const char *section, *entry;
    } named[] = {{"storage", "main"}, {"probes", "health"}, {"backends", "origin"},
        {"directors", "pool"}, {"tables", "blocked"}};
    bool is_list = strcmp(s->name, "listen") == 0 || strcmp(s->name, "routes") == 0;
    bool is_limits = strcmp(s->name, "limits") == 0;
    bool is_map = strcmp(s->name, "tables") == 0 || strcmp(s->name, "probes") == 0 ||
                  strcmp(s->name, "directors") == 0;
    /* Their being there means something. */
    bool is_off = strcmp(s->name, "admin") == 0 || strcmp(s->name, "negative_cache") == 0 ||
                  strcmp(s->name, "compress") == 0 || strcmp(s->name, "fleet") == 0 || is_map ||
                  is_limits;
    int indent = is_limits ? 6 : is_list || is_off ? 4 : 2;

    conf_doc_print(to, "\n");
    doc_comment(to, 0, s->doc);
    /* A section that is one value has a key of its own name. */
    if (strcmp(s->name, s->keys[0].name) == 0) {
        doc_yaml_key(to, &s->keys[0], 0, "");
        return;
    }
    conf_doc_print(to, "%s%s:\n", is_off ? "# " : "", s->name);
    /* Examples of names: the file that is printed has to load. */
    for (unsigned i = 0; i < ARRAY_LEN(named); i++) {
        if (strcmp(s->name, named[i].section) != 0)
            continue;
        conf_doc_print(to, "  %s%s:\n", is_off ? "# " : "", named[i].entry);
        indent = is_off ? 6 : 4;
    }
    for (unsigned i = 0; i < s->nkeys; i++)
        doc_yaml_key(to, &s->keys[i], indent,
            is_limits           ? (i == 0 ? "# - " : "#   ")
            : is_off            ? "# "
            : is_list && i == 0 ? "- "
                                : "");
}

void
conf_doc_yaml(struct conf_sink *to)
{
    conf_doc_print(to,
        "# tarn.yaml -- every key of the configuration, with its default.\n"
        "#\n"
        "# Printed by tarn_conf_gen from the tables that the loader obeys.  Only backends\n"
        "# must be given; every other key has the value shown here by default.\n"
        "# Check a file with: tarnd -t -c FILE\n");
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        doc_yaml_section(to, s);
}
