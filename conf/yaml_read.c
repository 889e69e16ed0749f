/* yaml_read.c -- from libyaml's events to nodes; the only home of yaml.h.
 *
 * libyaml's parser and not its loader: the tree here has lines and columns for every node, keys
 * in their order, and no anchors, tags or second documents.  A file of a few KiB cannot become a
 * tree of gigabytes: depth, entries and size have bounds (conf_priv.h).
 *
 * Every scalar stays a text.  Which type it has is decided by its key and not by YAML, so that
 * `on`, 0640 and 1:30 mean what the key says and not what YAML 1.1 makes of them.
 */
#include "conf/yaml_read.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "conf/conf_priv.h"
#include "daemon/base/tassert.h"

struct yread {
    struct conf_cx *cx;
    yaml_parser_t parser;
    yaml_event_t ev; /* the one just read; zeroed before the first */
    bool stop;       /* no more events: the syntax broke, or memory is out */
};

/* Where the n-th byte stands: libyaml gives errors of its reader as offsets.  From the beginning
 * each time: there is one such error in a load. */
static void
yread_place(struct slice text, size_t offset, unsigned *line, unsigned *column)
{
    const char *p = text.ptr, *end = text.ptr + (offset < text.len ? offset : text.len);

    *line = *column = 1;
    for (; p < end; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
            /* Columns are characters: a byte that goes on with one is not counted. */
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

/* What the line has from this column on. */
static struct slice
yread_rest(struct slice text, unsigned line, unsigned column)
{
    struct slice s = conf_source_line(text, line);

    while (column > 1 && s.len > 0) {
        s.ptr++;
        s.len--;
        if (s.len == 0 || ((unsigned char)*s.ptr & 0xc0) != 0x80)
            column--;
    }
    return s;
}

/* libyaml says what it missed; this says what the writer most likely meant. */
static const char *
yread_hint(const struct yread *r, struct slice rest, struct slice line)
{
    const char *problem = r->parser.problem, *context = r->parser.context;
    char c = rest.len > 0 ? rest.ptr[0] : '\0';

    /* In the order of certainty: the character at the place tells most. */
    if (c == '\t')
        return "indent with spaces, not with tabs";
    if (context != NULL && strstr(context, "scanning an alias") != NULL)
        return "put quotes around text that begins with '*', as in \"*:8080\"";
    if (context != NULL && strstr(context, "scanning an anchor") != NULL)
        return "put quotes around text that begins with '&'";
    if (c == '%' || c == '@' || c == '`')
        return "put quotes around text that begins with this character";
    if (memmem(line.ptr, line.len, "]:", 2) != NULL)
        return "put quotes around an address with brackets, as in \"[::1]:8080\"";
    if (context != NULL && strstr(context, "quoted scalar") != NULL)
        return "a closing quote is missing";
    if (context != NULL && strstr(context, "flow ") != NULL)
        return "a comma or a closing bracket is missing";
    if (strstr(problem, "mapping values") != NULL)
        return "check the indentation, and put quotes around text with ': ' in it";
    if (strstr(problem, "':'") != NULL)
        return "a key is followed by a colon and a space";
    return "check the indentation";
}

static void
yread_reader_error(struct yread *r)
{
    unsigned line, column;
    char message[160];

    yread_place(r->cx->text, r->parser.problem_offset, &line, &column);
    snprintf(message, sizeof(message), "not YAML: %s (0x%02x); the file must be text in UTF-8",
        r->parser.problem, (unsigned)r->parser.problem_value);
    conf_fail_place(r->cx, line, column, slice_of("", 0), message);
}

static void
yread_syntax_error(struct yread *r)
{
    const yaml_parser_t *p = &r->parser;
    unsigned line = (unsigned)p->problem_mark.line + 1;
    unsigned column = (unsigned)p->problem_mark.column + 1;
    struct slice rest = yread_rest(r->cx->text, line, column);
    char message[320], begun[120] = "";

    /* A quote that is never closed is reported where the file ends: the line of its beginning is
     * what helps. */
    if (p->context != NULL && p->context_mark.line + 1 != line)
        snprintf(begun, sizeof(begun), " %s that began on line %zu", p->context,
            p->context_mark.line + 1);
    else if (p->context != NULL)
        snprintf(begun, sizeof(begun), " %s", p->context);
    snprintf(message, sizeof(message), "YAML syntax: %s%s: %s", p->problem, begun,
        yread_hint(r, rest, conf_source_line(r->cx->text, line)));
    conf_fail_place(r->cx, line, column, rest, message);
}

/* False: there is no next event; what is wrong is reported. */
static bool
yread_next(struct yread *r)
{
    yaml_event_delete(&r->ev); /* nodes have copies: no event lives longer than its step */
    if (r->stop || r->cx->nomem || !yaml_parser_parse(&r->parser, &r->ev)) {
        if (r->stop || r->cx->nomem)
            ;
        else if (r->parser.error == YAML_MEMORY_ERROR)
            r->cx->nomem = true;
        else if (r->parser.error == YAML_READER_ERROR)
            yread_reader_error(r);
        else
            yread_syntax_error(r);
        /* No node is made of an event that is not there. */
        memset(&r->ev, 0, sizeof(r->ev));
        r->stop = true;
        return false;
    }
    return true;
}

static struct ynode *
yread_new(struct yread *r, enum ynode_kind kind)
{
    struct ynode *n = conf_alloc(r->cx, r->cx->scratch, 1, sizeof(*n));

    if (n == NULL)
        return NULL;
    n->kind = kind;
    n->file = r->cx->file;
    n->line = (unsigned)r->ev.start_mark.line + 1;
    n->column = (unsigned)r->ev.start_mark.column + 1;
    n->tail = &n->children;
    return n;
}

/* Refused, and not ignored: an anchor would let a small file become a large tree. */
static void
yread_refuse_props(struct yread *r, const struct ynode *n, const void *anchor, const void *tag)
{
    if (anchor != NULL)
        conf_fail(r->cx, n, "anchors (&%s) are not supported: write the value where it is used",
            (const char *)anchor);
    if (tag != NULL)
        conf_fail(
            r->cx, n, "tags (%s) are not supported: the key decides the type", (const char *)tag);
}

static struct ynode *
yread_text(struct yread *r)
{
    struct ynode *n = yread_new(r, YNODE_TEXT);
    struct slice value = slice_of((const char *)r->ev.data.scalar.value, r->ev.data.scalar.length);

    tassert(r->ev.type == YAML_SCALAR_EVENT); /* else the union has another member */
    if (n == NULL)
        return NULL;
    n->text = arena_copy(r->cx->scratch, value);
    if (n->text.ptr == NULL) {
        r->cx->nomem = true;
        return NULL;
    }
    /* Of plain texts alone ~ and nothing are null: "~" in quotes is a text. */
    n->quoted = r->ev.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    yread_refuse_props(r, n, r->ev.data.scalar.anchor, r->ev.data.scalar.tag);
    /* The readers use texts with a NUL at the end. */
    if (memchr(value.ptr, '\0', value.len) != NULL) {
        conf_fail(r->cx, n, "text with a NUL in it is not supported");
        n->kind = YNODE_BAD;
    }
    return n;
}

static struct ynode *
yread_alias(struct yread *r)
{
    struct ynode *n = yread_new(r, YNODE_BAD);

    tassert(r->ev.type == YAML_ALIAS_EVENT);
    if (n != NULL)
        conf_fail(r->cx, n,
            "aliases (*%s) are not supported: write the value out, or put quotes around text "
            "that begins with '*'",
            (const char *)r->ev.data.alias.anchor);
    return n;
}

static void
yread_append(struct yread *r, struct ynode *parent, struct ynode *child)
{
    if (parent->nchildren == CONF_ENTRIES_MAX) {
        conf_fail(r->cx, child, "more than %d entries", CONF_ENTRIES_MAX);
        /* Bounded: keys are compared with all before them. */
        r->stop = true;
        return;
    }
    tassert(parent->kind == YNODE_LIST || parent->kind == YNODE_MAP);
    tassert((child->key != NULL) == (parent->kind == YNODE_MAP));
    tassert(*parent->tail == NULL);
    tassert(child->next == NULL); /* it is in no other list */
    *parent->tail = child;
    parent->tail = &child->next;
    parent->nchildren++;
}

static struct ynode *yread_node(struct yread *r, unsigned depth);

static struct ynode *
yread_list(struct yread *r, unsigned depth)
{
    struct ynode *n = yread_new(r, YNODE_LIST), *child;

    tassert(r->ev.type == YAML_SEQUENCE_START_EVENT);
    if (n == NULL)
        return NULL;
    yread_refuse_props(r, n, r->ev.data.sequence_start.anchor, r->ev.data.sequence_start.tag);
    while (yread_next(r) && r->ev.type != YAML_SEQUENCE_END_EVENT) {
        child = yread_node(r, depth + 1);
        if (child == NULL)
            break;
        conf_env_expand(r->cx, child);
        yread_append(r, n, child);
    }
    return n;
}

/* A pair joins the map unless its key is unusable or stands there already. */
static void
yread_pair(struct yread *r, struct ynode *map, const struct ynode *key, struct ynode *value)
{
    char quote[CONF_QUOTE_BYTES];

    /* It has its error already. */
    if (key->kind == YNODE_BAD)
        return;
    if (key->kind != YNODE_TEXT) {
        conf_fail(
            r->cx, key, "a key must be text, not a %s", key->kind == YNODE_LIST ? "list" : "map");
        return;
    }
    for (const struct ynode *c = map->children; c != NULL; c = c->next) {
        if (!slice_eq(c->key->text, key->text))
            continue;
        conf_fail(r->cx, key, "duplicate key '%s', first on line %u: remove one",
            conf_quote(quote, key->text), c->key->line);
        return;
    }
    /* A value knows its key: errors of what is missing are placed there. */
    value->key = key;
    yread_append(r, map, value);
}

static struct ynode *
yread_map(struct yread *r, unsigned depth)
{
    struct ynode *n = yread_new(r, YNODE_MAP), *key, *value;

    tassert(r->ev.type == YAML_MAPPING_START_EVENT);
    if (n == NULL)
        return NULL;
    yread_refuse_props(r, n, r->ev.data.mapping_start.anchor, r->ev.data.mapping_start.tag);
    while (yread_next(r) && r->ev.type != YAML_MAPPING_END_EVENT) {
        key = yread_node(r, depth + 1);
        if (key == NULL || !yread_next(r))
            break;
        value = yread_node(r, depth + 1);
        if (value == NULL)
            break;
        /* Values alone, never keys: a key decides what a value means. */
        conf_env_expand(r->cx, value);
        yread_pair(r, n, key, value);
    }
    return n;
}

/* The node that begins with the current event.  Recursion ends at CONF_DEPTH_MAX.  NULL: memory
 * is out, or the syntax broke; either way nothing more is read. */
static struct ynode *
yread_node(struct yread *r, unsigned depth)
{
    struct ynode *n;

    tassert(depth <= CONF_DEPTH_MAX); /* the stack is bounded */
    if (r->ev.type == YAML_SCALAR_EVENT)
        return yread_text(r);
    if (r->ev.type == YAML_ALIAS_EVENT)
        return yread_alias(r);
    if (depth == CONF_DEPTH_MAX) {
        n = yread_new(r, YNODE_BAD);
        if (n != NULL)
            conf_fail(r->cx, n, "nested more than %d deep", CONF_DEPTH_MAX);
        /* What follows would only be reported again. */
        r->stop = true;
        return n;
    }
    if (r->ev.type == YAML_SEQUENCE_START_EVENT)
        return yread_list(r, depth);
    return yread_map(r, depth); /* the parser lets no other event begin a node */
}

/* Directives of the first document need no care: libyaml refuses the ones it does not know.  An
 * included file may be empty, the first one not. */
static struct ynode *
yread_document(struct yread *r)
{
    struct ynode *root, *second;

    if (!yread_next(r)) /* the stream's start */
        return NULL;
    tassert(r->ev.type == YAML_STREAM_START_EVENT);
    if (!yread_next(r))
        return NULL;
    if (r->ev.type == YAML_STREAM_END_EVENT) {
        if (r->cx->file == NULL)
            conf_fail(r->cx, NULL, "the file is empty: it needs at least `backends`");
        return NULL;
    }
    tassert(r->ev.type == YAML_DOCUMENT_START_EVENT);
    if (!yread_next(r)) /* past the document's start */
        return NULL;
    root = yread_node(r, 0);
    if (root == NULL || !yread_next(r) || !yread_next(r)) /* past the document's end */
        return root;
    if (r->ev.type != YAML_STREAM_END_EVENT) {
        second = yread_new(r, YNODE_BAD);
        if (second != NULL)
            conf_fail(r->cx, second, "a second document begins here: a file holds one");
    }
    return root;
}

/* The nodes that were open when the reading stopped; and the last that was closed before, as
 * wrong indentation closes a map that its writer had not finished.  Readers do not report a key
 * as missing in a map that is cut. */
static void
yread_mark_cut(struct ynode *n)
{
    while (n != NULL) {
        struct ynode *last = n->children;

        n->cut = true;
        while (last != NULL && last->next != NULL)
            last = last->next;
        n = last;
    }
}

struct ynode *
yaml_read(struct conf_cx *cx)
{
    struct yread r = {.cx = cx};
    struct ynode *root;

    if (!yaml_parser_initialize(&r.parser)) {
        cx->nomem = true;
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING); /* never guess at UTF-16 */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)cx->text.ptr, cx->text.len);
    root = yread_document(&r);
    if (r.stop)
        /* So that what is missing behind the place is not reported as missing. */
        yread_mark_cut(root);
    yaml_event_delete(&r.ev);
    yaml_parser_delete(&r.parser);
    return root;
}

bool
ynode_is_null(const struct ynode *n)
{
    struct slice t = n->text;

    return n->kind == YNODE_TEXT && !n->quoted &&
           (t.len == 0 || slice_eq(t, SLICE_LIT("~")) || slice_eq_nocase(t, SLICE_LIT("null")));
}

const struct ynode *
ynode_get(const struct ynode *map, const char *key)
{
    if (map->kind != YNODE_MAP)
        return NULL;
    for (const struct ynode *c = map->children; c != NULL; c = c->next)
        /* Keys are unique: the first is the only one. */
        if (slice_eq(c->key->text, slice_str(key)))
            return c;
    return NULL;
}

const char *
conf_yaml_version(void)
{
    return yaml_get_version_string();
}
