/* admin_tables.c -- the tables in shared memory, as the management thread sees them. */
#include "daemon/admin/admin_priv.h"
#include "daemon/shm/tables.h"

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
