/* conf_keys.c -- a map of the file read into a struct, by the rows of its table. */
#include "conf/conf_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/obj.h"

enum {
    KEYS_MAX = 256, /* of a section */
};

enum {
    DISTANCE_MAX_LEN = 48
}; /* no key is longer; what is longer was not meant to be one */

/* Edits, swaps of neighbours included, that turn a into b (optimal string alignment). */
unsigned
conf_distance(struct slice a, struct slice b)
{
    unsigned rows[3][DISTANCE_MAX_LEN + 1];
    unsigned *two = rows[0], *one = rows[1], *now = rows[2], *spare;

    if (a.len > DISTANCE_MAX_LEN || b.len > DISTANCE_MAX_LEN)
        return UINT32_MAX;
    for (unsigned j = 0; j <= b.len; j++)
        one[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        now[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            int ca = tolower((unsigned char)a.ptr[i - 1]);
            int cb = tolower((unsigned char)b.ptr[j - 1]);
            unsigned best = one[j - 1] + (ca != cb);

            best = one[j] + 1 < best ? one[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b.ptr[j - 2]) &&
                cb == tolower((unsigned char)a.ptr[i - 2]) && two[j - 2] + 1 < best)
                best = two[j - 2] + 1;
            now[j] = best;
        }
        spare = two;
        two = one;
        one = now;
        now = spare;
    }
    tassert(one[b.len] <= (a.len > b.len ? a.len : b.len)); /* to write each byte anew is enough */
    return one[b.len];
}

/* Of names that are equally near the first one wins, so the order of the rows decides. */
void
conf_guess_try(struct conf_guess *g, const char *name)
{
    struct slice s = slice_str(name);
    size_t longer = s.len > g->meant.len ? s.len : g->meant.len;
    unsigned near = longer < 6 ? (unsigned)(longer + 1) / 3 : 3; /* tls is not url */
    unsigned d = conf_distance(g->meant, s);

    tassert(g->best == NULL || g->distance <= 3);
    if (d <= near && (g->best == NULL || d < g->distance)) {
        g->best = name;
        g->distance = d;
    }
}

/* One error for each node: a node that is BAD has had its own. */
bool
conf_kind_check(struct conf_cx *cx, const struct ynode *n, enum ynode_kind want, const char *what)
{
    static const char *const names[] = {"text", "a list", "a map", "nothing"};
    char quote[CONF_QUOTE_BYTES];

    tassert(want != YNODE_BAD);
    tassert(n->kind < ARRAY_LEN(names));
    if (n->kind == want)
        return true;
    if (n->kind == YNODE_BAD)
        return false; /* said already */
    if (ynode_is_null(n))
        conf_fail(cx, n->key != NULL ? n->key : n, "%s has no value: give it %s, or remove it",
            what, names[want]);
    else if (n->kind == YNODE_TEXT)
        conf_fail(
            cx, n, "%s must be %s, not text ('%s')", what, names[want], conf_quote(quote, n->text));
    else
        conf_fail(cx, n, "%s must be %s, not %s", what, names[want], names[n->kind]);
    return false;
}

/* A type that is a struct begins with a text, which gets the default of the row here; its reader
 * sets the other members. */
void
conf_keys_default(const struct conf_key *keys, unsigned nkeys, void *to)
{
    for (unsigned i = 0; i < nkeys; i++) {
        void *member = (char *)to + keys[i].offset;

        if (keys[i].required || keys[i].type == CONF_TYPE_PROBE)
            continue; /* memory begins with zeros */
        if (keys[i].type == CONF_TYPE_BACKEND) {
            *(unsigned *)member = CONF_NO_BACKEND;
            continue;
        }
        /* The member is as wide as its type's default: what is written here is not another's. */
        tassert((keys[i].def_text == NULL) == conf_type_is_number(keys[i].type));
        if (keys[i].def_text != NULL)
            *(const char **)member = keys[i].def_text;
        else
            *(int64_t *)member = keys[i].def;
    }
}

/* A key that this section does not have: meant as another one, which is returned, or unheard
 * of. */
static const char *
keys_unknown(
    struct conf_cx *cx, const struct conf_section *sec, const struct ynode *n, const char *what)
{
    const struct ynode *key = n->key;
    struct conf_guess guess = {.meant = key->text};
    char quote[CONF_QUOTE_BYTES], known[1024] = "";
    size_t len = 0;

    if (conf_admin_refuse_key(cx, sec->name, key) || conf_fleet_refuse_key(cx, sec->name, n))
        return NULL;
    conf_quote(quote, key->text);
    for (unsigned i = 0; i < sec->nkeys; i++)
        conf_guess_try(&guess, sec->keys[i].name);
    if (guess.best != NULL) {
        conf_fail(cx, key, "unknown key '%s' in %s; did you mean '%s'?", quote, what, guess.best);
        return guess.best;
    }
    if (sec->nkeys > 20) { /* the parameters: too many to list */
        conf_fail(cx, key, "unknown key '%s' in %s; tarn.yaml(5) lists them", quote, what);
        return NULL;
    }
    for (unsigned i = 0; i < sec->nkeys; i++)
        len += (size_t)snprintf(
            known + len, sizeof(known) - len, "%s%s", i > 0 ? ", " : "", sec->keys[i].name);
    tassert(len < sizeof(known));
    conf_fail(cx, key, "unknown key '%s' in %s; it takes: %s", quote, what, known);
    return NULL;
}

static const struct conf_key *
keys_find(const struct conf_section *sec, const char *name)
{
    for (unsigned i = 0; i < sec->nkeys; i++)
        if (strcmp(sec->keys[i].name, name) == 0)
            return &sec->keys[i];
    return NULL;
}

/* Defaults first, then what the file has: after an error *to holds values that can be read. */
void
conf_keys_read(struct conf_cx *cx, const struct conf_section *sec, const struct ynode *n,
    const char *what, void *to)
{
    /* Misspelled ones too, so that one mistake is not reported as "unknown" and "missing". */
    bool given[KEYS_MAX] = {false};

    tassert(sec->nkeys <= KEYS_MAX);
    conf_keys_default(sec->keys, sec->nkeys, to);
    if (!conf_kind_check(cx, n, YNODE_MAP, what))
        return;
    for (const struct ynode *c = n->children; c != NULL; c = c->next) {
        const struct conf_key *key = keys_find(sec, c->key->text.ptr);
        const char *meant = NULL;

        if (key != NULL && c->kind != YNODE_BAD)
            conf_value_read(cx, key, c, (char *)to + key->offset);
        else if (key == NULL)
            meant = keys_unknown(cx, sec, c, what);
        if (meant != NULL)
            key = keys_find(sec, meant);
        tassert(meant == NULL || key != NULL); /* what was meant is a key of this section */
        if (key != NULL)
            given[key - sec->keys] = true;
    }
    /* Of a map that the syntax broke in, the rest may have it. */
    for (unsigned i = 0; i < sec->nkeys && !n->cut; i++)
        if (sec->keys[i].required && !given[i])
            conf_fail(cx, n->key != NULL ? n->key : n, "%s has no '%s': give it one", what,
                sec->keys[i].name);
}
