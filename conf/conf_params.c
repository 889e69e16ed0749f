/* conf_params.c -- looking at one parameter, and reading a new value for it. */
#include "conf/conf_params.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* Where the parameters that may change begin in struct conf_params. */
static const size_t params_live[] = {
#define X(name) offsetof(struct conf_params, name),
    CONF_LIVE_TABLE(X)
#undef X
};

static const size_t params_reloaded[] = {
#define X(name) offsetof(struct conf_params, name),
    CONF_RELOADED_TABLE(X)
#undef X
};

static const struct {
    bool is_number;
    const char *doc;
} params_types[] = {
#define KIND_NUMBER                true
#define KIND_STRING                false
#define X(type_, kind, form, doc_) [CONF_TYPE_##type_] = {KIND_##kind, doc_},
    CONF_TYPE_TABLE(X)
#undef X
};

static const struct conf_section *
params_section(void)
{
    const struct conf_section *s = conf_sections;

    while (strcmp(s->name, "parameters") != 0)
        s++;
    tassert(s->nkeys > 0);
    return s;
}

bool
conf_type_is_number(enum conf_type type)
{
    tassert(type < ARRAY_LEN(params_types));
    return params_types[type].is_number;
}

/* May this row of the parameters change at any time? */
static bool
conf_param_key_is_live(const struct conf_key *key)
{
    for (unsigned i = 0; i < ARRAY_LEN(params_live); i++)
        /* A member's place identifies it: the tables name members, not rows. */
        if (params_live[i] == key->offset)
            return true;
    return false;
}

bool
conf_param_key_is_reloaded(const struct conf_key *key)
{
    for (unsigned i = 0; i < ARRAY_LEN(params_reloaded); i++)
        if (params_reloaded[i] == key->offset)
            return true;
    return conf_param_key_is_live(key);
}

unsigned
conf_params_count(void)
{
    return params_section()->nkeys;
}

/* Texts are the snapshot's or lie in out->texts: *out must not be moved while they are used. */
void
conf_param_see(const struct conf_params *p, unsigned i, struct conf_param *out)
{
    const struct conf_section *sec = params_section();
    const struct conf_key *key = &sec->keys[i];
    const char *member = (const char *)p + key->offset;
    bool number = params_types[key->type].is_number;

    tassert(i < sec->nkeys);
    *out = (struct conf_param){.name = key->name,
        .type = params_types[key->type].doc,
        .doc = key->doc,
        .least = "",
        .most = "",
        .live = conf_param_key_is_live(key),
        .reloaded = conf_param_key_is_reloaded(key)};
    if (!number) {
        out->value = *(const char *const *)(const void *)member;
        out->def = key->def_text;
        return;
    }
    out->value = conf_value_format(
        key->type, *(const int64_t *)(const void *)member, out->texts[0], sizeof(out->texts[0]));
    out->def = conf_value_format(key->type, key->def, out->texts[1], sizeof(out->texts[1]));
    /* 0 and 1 as bounds of a switch tell nothing. */
    if (key->type == CONF_TYPE_BOOL)
        return;
    out->least = conf_value_format(key->type, key->least, out->texts[2], sizeof(out->texts[2]));
    if (key->most != INT64_MAX)
        out->most = conf_value_format(key->type, key->most, out->texts[3], sizeof(out->texts[3]));
}

int
conf_param_find(struct slice name)
{
    const struct conf_section *sec = params_section();

    for (unsigned i = 0; i < sec->nkeys; i++)
        if (slice_eq(name, slice_str(sec->keys[i].name)))
            return (int)i;
    return TERR_NOTFOUND;
}

/* The same reader as for a file, so bounds and messages are the same.  *p is the caller's copy;
 * it is put in force by the caller, for all workers at once. */
int
conf_param_set(struct conf_params *p, unsigned i, struct slice text, char *why, size_t why_size)
{
    const struct conf_section *sec = params_section();
    const struct conf_key *key = &sec->keys[i];
    /* As if it stood in a file, in quotes: an empty text is a value, and no missing one. */
    struct ynode n = {.kind = YNODE_TEXT, .quoted = true, .text = text};
    /* Without memory to keep anything: that is why texts are refused above. */
    struct conf_cx cx = {.text = text};
    bool ok;

    tassert(i < sec->nkeys && conf_param_key_is_live(key));
    tassert(params_types[key->type].is_number || key->type == CONF_TYPE_LEVEL ||
            key->type == CONF_TYPE_COOKIES); /* no copies */
    ok = conf_value_read(&cx, key, &n, (char *)p + key->offset);
    tassert(ok == (cx.errors == NULL && !cx.nomem)); /* refused with a reason, or stored */
    if (cx.errors != NULL)
        /* The first is the only one: there is one value. */
        snprintf(why, why_size, "%s", cx.errors->message);
    conf_errors_free(&cx.errors);
    if (cx.nomem)
        return TERR_NOMEM;
    if (!ok)
        return TERR_CONFIG;
    /* An operator's word, even where it is the default (RFC 9111 4.2.4): as conf_read_parameters(). */
    p->ttl_said |= key->offset == offsetof(struct conf_params, default_ttl);
    p->grace_said |= key->offset == offsetof(struct conf_params, default_grace);
    p->heuristic_said |= key->offset == offsetof(struct conf_params, heuristic_fraction) ||
                         key->offset == offsetof(struct conf_params, heuristic_max);
    return 0;
}

void
conf_param_take(struct conf_params *to, const struct conf_params *from, unsigned i)
{
    const struct conf_key *key = &params_section()->keys[i];
    struct conf_param p;
    char why[128];

    conf_param_see(from, i, &p);
    if (conf_param_set(to, i, slice_str(p.value), why, sizeof(why)) != 0)
        return;
    if (key->offset == offsetof(struct conf_params, default_ttl))
        to->ttl_said = from->ttl_said;
    else if (key->offset == offsetof(struct conf_params, default_grace))
        to->grace_said = from->grace_said;
    else if (key->offset == offsetof(struct conf_params, heuristic_fraction) ||
             key->offset == offsetof(struct conf_params, heuristic_max))
        to->heuristic_said = from->heuristic_said || /* for both: the other one may be set */
                             to->heuristic_fraction != from->heuristic_fraction ||
                             to->heuristic_max != from->heuristic_max;
}
