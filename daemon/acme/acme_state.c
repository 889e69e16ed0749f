/* acme_state.c -- state.json: what a pass knows of those before it.
 *
 * Certificates are judged by their own files, never by this one.  So all of it may be lost: what is forgotten
 * is how often a CA has failed, what it suggested, and that the hook has not run yet. */
#include "daemon/acme/acme_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/json.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define STATE_FILE  "state.json"
#define STATE_MAGIC OBJ_TAG('a', 'c', 'm', 's')

enum {
    VERSION = 1,
};

struct acme_state {
    uint32_t magic;
    const struct acme_dir *dir; /* borrowed */
    json_t *json;
};

/* The members that are numbers: one list to write and to read, so that none is written and not read. */
#define STATE_TIMES(X) \
    X(last_attempt_s)  \
    X(next_attempt_s)  \
    X(not_after_s)     \
    X(ari_start_s)     \
    X(ari_end_s)       \
    X(ari_chosen_s)    \
    X(ari_next_s)

int
acme_state_open(struct acme_state **out, const struct acme_dir *dir, struct acme_fail *f)
{
    struct acme_state *s;
    struct span text;
    char why[128];
    json_t *v = NULL;
    int err = acme_dir_read(dir, STATE_FILE, &text, f);

    if (err != 0 && err != TERR_NOTFOUND)
        return err;
    if (err == 0) {
        v = json_parse(slice_of(text.ptr, text.len), why, sizeof(why));
        /* Said, and no more: without this file a few attempts come early, and without a pass certificates expire. */
        if (!json_is_object(v))
            acme_say("%s/" STATE_FILE " is no JSON object (%s): failures and waits before now are "
                     "forgotten",
                dir->path, v == NULL ? why : "another value");
    }
    free(text.ptr);
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        json_decref(v);
        return acme_fail(f, TERR_NOMEM, "out of memory");
    }
    s->magic = STATE_MAGIC;
    s->dir = dir;
    s->json = json_is_object(v) ? v : json_object();
    if (!json_is_object(v))
        json_decref(v);
    *out = s;
    return 0;
}

void
acme_state_close(struct acme_state **sp)
{
    struct acme_state *s;

    if (*sp == NULL)
        return;
    OBJ_TAKE(s, sp, STATE_MAGIC);
    json_decref(s->json);
    OBJ_FREE(s);
}

static void
state_text(const json_t *o, const char *member, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(o, member));

    snprintf(out, size, "%s", text != NULL ? text : "");
}

void
acme_state_get(const struct acme_state *s, const char *name, struct acme_record *out)
{
    const json_t *o = json_object_get(json_object_get(s->json, "certificates"), name);
    /* What is no number reads as 0, which is "never" or "none" for each of them. */
    json_int_t failures = json_integer_value(json_object_get(o, "failures"));

    OBJ_CHECK(s, STATE_MAGIC);
    *out = (struct acme_record){
        .failures = failures > 0 && failures < 1000000 ? (unsigned)failures : 0};
#define X(member) out->member = json_integer_value(json_object_get(o, #member));
    STATE_TIMES(X)
#undef X
    state_text(o, "last_error", out->last_error, sizeof(out->last_error));
    state_text(o, "directory", out->directory, sizeof(out->directory));
    state_text(o, "certid", out->certid, sizeof(out->certid));
}

static int
state_write(struct acme_state *s, struct acme_fail *f)
{
    char *text;
    int err;

    json_put(s->json, "version", json_integer(VERSION));
    text = json_print(s->json);
    if (text == NULL)
        return acme_fail(f, TERR_NOMEM, "out of memory");
    err = acme_dir_write(s->dir, STATE_FILE, slice_str(text), f);
    free(text);
    return err;
}

int
acme_state_put(struct acme_state *s, const char *name, const struct acme_record *r,
    const struct acme_wanted *w, struct acme_fail *f)
{
    json_t *all = json_object_get(s->json, "certificates"), *o = json_object(),
           *names = json_array();

    OBJ_CHECK(s, STATE_MAGIC);
    if (!json_is_object(all)) {
        json_put(s->json, "certificates", json_object());
        all = json_object_get(s->json, "certificates");
    }
    /* For people: no pass reads it. */
    for (unsigned i = 0; i < w->nnames; i++)
        json_array_append_new(names, json_string(w->names[i]));
    json_put(o, "names", names);
    json_put(o, "failures", json_integer(r->failures));
#define X(member) json_put(o, #member, json_integer(r->member));
    STATE_TIMES(X)
#undef X
    json_put_text(o, "last_error", r->last_error);
    json_put_text(o, "directory", r->directory);
    json_put_text(o, "certid", r->certid);
    json_put(all, name, o);
    return state_write(s, f);
}

char *
acme_state_hook_due(const struct acme_state *s)
{
    const json_t *list = json_object_get(s->json, "hook_due");
    char *text = NULL;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        char *more = NULL;

        if (name == NULL ||
            asprintf(&more, "%s%s%s", text != NULL ? text : "", text != NULL ? " " : "", name) < 0)
            continue;
        free(text);
        text = more;
    }
    return text;
}

/* Not written here but with the certificate's record (acme_state_put), in one file: a process that dies
 * between them leaves both or neither. */
void
acme_state_hook_add(struct acme_state *s, const char *name)
{
    json_t *list = json_object_get(s->json, "hook_due");

    if (!json_is_array(list)) {
        json_put(s->json, "hook_due", json_array());
        list = json_object_get(s->json, "hook_due");
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)) &&
            strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return;
    json_array_append_new(list, json_string(name));
}

/* Written after the hook, so a process that dies meanwhile has it run again: twice does no harm, never does. */
int
acme_state_hook_done(struct acme_state *s, struct acme_fail *f)
{
    json_object_del(s->json, "hook_due");
    return state_write(s, f);
}
