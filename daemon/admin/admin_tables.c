/* admin_tables.c -- the tables in shared memory, as the management thread sees them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/fleet/fleet_shared.h"
#include "daemon/table/table_load.h"
#include "daemon/table/table_view.h"
#include "daemon/table/tables.h"

/* `status` may be bad and `used` true at once: then an older, good version answers lookups
 * (`kept`). */
static json_t *
tables_json(const struct tables_seen *seen)
{
    static const char *const states[] = {"missing", "empty", "ok", "refused"};
    json_t *o = json_object();

    json_put_text(o, "name", seen->name);
    json_put_text(o, "path", seen->path);
    json_put_text(o, "state", states[seen->status]);
    json_put(o, "why", seen->why[0] != '\0' ? json_string(seen->why) : json_null());
    json_put(o, "kept", json_boolean(seen->kept));
    if (seen->used) {
        json_put_text(o, "kind", table_kind_name(seen->kind));
        json_put(o, "version", json_integer((json_int_t)seen->generation));
        json_put(o, "entries", json_integer((json_int_t)seen->entries));
        json_put(o, "bytes", json_integer((json_int_t)seen->bytes));
        json_put(o, "made", json_real((double)seen->made_ms / 1000));
    } else {
        json_put(o, "kind", json_null());
        json_put(o, "version", json_null());
        json_put(o, "entries", json_integer(0));
        json_put(o, "bytes", json_integer(0));
        json_put(o, "made", json_null());
    }
    json_put(o, "lookups", json_integer((json_int_t)seen->lookups));
    return o;
}

void
admin_do_tables(struct admin_call *c)
{
    struct tables *tables = c->admin->env.tables;
    json_t *o = json_object(), *list = json_array();

    for (unsigned i = 0; tables != NULL && i < tables_count(tables); i++) {
        struct tables_seen seen;

        tables_seen(tables, i, &seen);
        json_array_append_new(list, tables_json(&seen));
    }
    json_put(o, "tables", list);
    admin_answer(c, 200, o);
}

/* The one that the path names; false: answered. */
static bool
tables_find_named(struct admin_call *c, struct tables_seen *out)
{
    struct tables *tables = c->admin->env.tables;

    for (unsigned i = 0; tables != NULL && i < tables_count(tables); i++) {
        tables_seen(tables, i, out);
        if (strcmp(out->name, c->name) == 0)
            return true;
    }
    admin_fail(c, 404, "GET /v1/tables lists them", "no table is named '%s'", c->name);
    return false;
}

/* --- show --- */

static json_t *
tables_value(enum table_kind kind, struct slice value)
{
    json_t *list;

    if (kind != TABLE_VECTOR)
        return value.len > 0 ? json_any_text(value) : json_null();
    list = json_array();
    /* Copied out: the value need not be aligned for a float. */
    for (size_t i = 0; i + sizeof(float) <= value.len; i += sizeof(float)) {
        float f;

        memcpy(&f, value.ptr + i, sizeof(f));
        json_array_append_new(list, json_real((double)f));
    }
    return list;
}

/* Of a version that stays while we are inside: *next is where to go on, 0 at the end.  `after` is a
 * place in this version: in another one it is just some place.
 * Values are copied into JSON while the reader is inside: behind table_leave() the writer may be
 * filling those bytes. */
static json_t *
tables_page(const struct table_view *v, uint64_t after, uint64_t limit, uint64_t *next)
{
    json_t *list = json_array();
    struct slice key, value;
    uint64_t n = 0;

    for (; n < limit && table_view_next(v, &after, &key, &value); n++) {
        json_t *o = json_object();

        json_put(o, "key", json_any_text(key));
        json_put(o, "value", tables_value(v->kind, value));
        json_array_append_new(list, o);
    }
    *next = n == limit ? after : 0;
    return list;
}

void
admin_do_table_show(struct admin_call *c)
{
    static const struct admin_arg args[] = {
        {"limit", 10, 1, 10000, NULL}, {"after", 10, 0, UINT64_MAX, NULL}, {NULL, 0, 0, 0, NULL}};
    uint64_t values[] = {1000, 0}, next = 0;
    const struct table_view *v;
    struct table_reader *r;
    struct tables_seen seen;
    json_t *o;
    int err;

    if (!tables_find_named(c, &seen) || !admin_args(c, args, values))
        return;
    /* A reader of its own: those of the workers are theirs alone. */
    err = table_reader_new_of(&r, seen.path, TABLE_ANY, TABLE_CHECKED, seen.owners);
    if (err != 0) {
        admin_fail_terr(c, err, seen.path);
        return;
    }
    /* `seen` is of a moment before, by the management thread's own reader: version and list may
     * differ by one write. */
    o = tables_json(&seen);
    v = table_enter(r);
    json_put(o, "list", v != NULL ? tables_page(v, values[1], values[0], &next) : json_array());
    json_put(o, "next", next > 0 ? json_integer((json_int_t)next) : json_null());
    /* The version may have been taken away within: what was copied may be of two. */
    if (table_leave(r) != 0) {
        json_decref(o);
        admin_fail(c, 503, "try again", "the table's writer overtook this reader");
    } else {
        admin_answer(c, 200, o);
    }
    table_reader_free(&r);
}

/* --- load --- */

/* Of a table of the configuration. */
static enum table_kind
tables_kind(const struct conf *conf, const struct tables_seen *seen)
{
    const struct conf_table *t = conf_find_table(conf, seen->name);
    enum table_kind kind = t != NULL ? table_kind_find(t->kind) : TABLE_ANY;

    if (kind != TABLE_ANY)
        return kind;
    /* The configuration does not say: as it was. */
    return seen->used ? seen->kind : TABLE_MAP;
}

static void
tables_note_shared(struct admin_call *c)
{
    char thing[FLEET_THING_NAME_MAX + 1];

    snprintf(thing, sizeof(thing), "table/%s", c->name);
    admin_note_shared(c, thing, NULL, "table load");
}

/* Written here, as by any writer: workers have it from their next turn on. */
void
admin_do_table_load(struct admin_call *c)
{
    struct tables_seen seen;
    char why[TABLE_WHY_MAX + 32];
    int err;

    if (!tables_find_named(c, &seen))
        return;
    /* It takes the table's lock: while another program holds it, 409. */
    err = table_load(seen.path, tables_kind(c->admin->env.conf, &seen), c->body, why, sizeof(why));
    if (err == TERR_SYNTAX)
        admin_fail(c, 422, "an entry a line: a key and, behind white space, its value", "%s", why);
    else if (err != 0)
        admin_fail(c, err == TERR_BUSY ? 409 : 503,
            err == TERR_BUSY ? "another program writes it: load it there" : NULL, "%s", why);
    /* Looked up anew: `seen` is of before. */
    else if (tables_find_named(c, &seen)) {
        admin_answer(c, 200, tables_json(&seen));
        tables_note_shared(c);
    }
}
