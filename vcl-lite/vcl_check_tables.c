/* vcl_check_tables.c -- constants, field names, patterns and places of a policy, by number.
 *
 * Each table grows while bodies are checked, and a value that is there already gets the same
 * number: a pattern that ten lines have is compiled once.  Numbers are places in the policy's
 * arrays.
 */
#include "vcl-lite/vcl_sema.h"

#include <string.h>
#include <strings.h>

#include "daemon/base/terr.h"

void *
sema_grow(struct sema *s, void *items, unsigned n, unsigned *room, size_t size)
{
    unsigned more = *room == 0 ? 32 : *room * 2;
    void *bigger;

    if (n < *room)
        return items;
    /* The old one stays in the arena: doubling bounds what is lost by what is used. */
    bigger = vcl_alloc(s->cx, s->cx->scratch, more * size);
    if (bigger == NULL)
        return NULL;
    if (n > 0)
        memcpy(bigger, items, n * size);
    *room = more;
    return bigger;
}

/* --- numbers by hash --- */

/* FNV-1a in small letters, as names of fields have no case: what is alike is compared anyway. */
uint32_t
sema_hash(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 0x20u : p[i])) * 16777619u;
    return h ^ h >> 15;
}

/* The next number with this hash; *at is the hash at first.  UINT32_MAX: no more. */
static uint32_t
index_next(const struct sema_index *x, uint32_t hash, uint32_t *at)
{
    while (x->room > 0) {
        const struct sema_slot *slot = &x->slots[(*at)++ & (x->room - 1)];

        /* Empty: nothing with this hash lies further on. */
        if (slot->number == UINT32_MAX || slot->hash == hash)
            return slot->number;
    }
    return UINT32_MAX;
}

static void
index_put(struct sema_index *x, struct sema_slot slot)
{
    uint32_t at = slot.hash;

    while (x->slots[at & (x->room - 1)].number != UINT32_MAX)
        at++;
    x->slots[at & (x->room - 1)] = slot;
    x->n++;
}

/* At most half full, so that there is an end to index_next(). */
static void
index_add(struct sema *s, struct sema_index *x, uint32_t hash, uint32_t number)
{
    struct sema_index more = {.room = x->room == 0 ? 64 : x->room * 2};

    if (x->n >= x->room / 2) {
        more.slots = vcl_alloc(s->cx, s->cx->scratch, more.room * sizeof(*more.slots));
        if (more.slots == NULL)
            return;
        /* UINT32_MAX in each: 0 is a number. */
        memset(more.slots, 0xff, more.room * sizeof(*more.slots));
        for (unsigned i = 0; i < x->room; i++)
            if (x->slots[i].number != UINT32_MAX)
                index_put(&more, x->slots[i]);
        *x = more;
    }
    index_put(x, (struct sema_slot){hash, number});
}

/* --- the tables --- */

uint32_t
sema_name(struct sema *s, struct slice name)
{
    uint32_t hash = sema_hash(name.ptr, name.len), at = hash, i;
    struct vcl_name *names;
    const char *kept;

    while ((i = index_next(&s->name_index, hash, &at)) != UINT32_MAX)
        /* The first spelling is kept: fields have no case. */
        if (s->names[i].text.len == name.len &&
            strncasecmp(s->names[i].text.ptr, name.ptr, name.len) == 0)
            return i;
    names = sema_grow(s, s->names, s->nnames, &s->names_room, sizeof(*names));
    kept = vcl_copy(s->cx, s->cx->keep, name);
    if (names == NULL || kept == NULL)
        return UINT32_MAX;
    s->names = names;
    names[s->nnames].text = (struct slice){kept, name.len};
    /* Asked once, at the load: a run compares numbers. */
    names[s->nnames].id = s->cx->loader->field_id(s->cx->loader->ctx, names[s->nnames].text);
    index_add(s, &s->name_index, hash, s->nnames);
    return s->nnames++;
}

uint32_t
sema_regex(struct sema *s, struct slice pattern, struct vcl_pos at)
{
    char why[200];
    uint32_t hash = sema_hash(pattern.ptr, pattern.len), at_slot = hash, i;
    size_t where = 0;
    struct regex **regexes;
    struct slice *patterns;
    int err;

    while ((i = index_next(&s->regex_index, hash, &at_slot)) != UINT32_MAX)
        if (s->patterns[i].len == pattern.len &&
            memcmp(s->patterns[i].ptr, pattern.ptr, pattern.len) == 0)
            return i;
    regexes = sema_grow(s, s->regexes, s->nregexes, &s->regexes_room, sizeof(struct regex *));
    patterns = sema_grow(s, s->patterns, s->nregexes, &s->patterns_room, sizeof(*patterns));
    if (regexes == NULL || patterns == NULL)
        return UINT32_MAX;
    s->regexes = regexes;
    s->patterns = patterns;
    err = regex_compile(&regexes[s->nregexes], pattern, why, sizeof(why), &where);
    if (err == TERR_NOMEM) {
        s->cx->nomem = true;
        return UINT32_MAX;
    }
    if (err < 0) {
        vcl_fail(s->cx, at, NULL, "the regular expression is wrong at its character %zu: %s",
            where + 1, why);
        return UINT32_MAX;
    }
    /* Only when it was compiled: a wrong one must not be found by the next that has it. */
    patterns[s->nregexes] = pattern;
    index_add(s, &s->regex_index, hash, s->nregexes);
    return s->nregexes++;
}

static bool
sema_const_equal(const struct vcl_value *x, const struct sema_node *n)
{
    if (n->type == VCL_TYPE_STRING)
        return x->len == n->value.len && x->len > 0 && x->s != NULL && n->value.s != NULL &&
               memcmp(x->s, n->value.s, x->len) == 0;
    /* By bits: 0.0 and -0.0 are two, and NaN is itself. */
    return x->len == 0 && n->value.len == 0 && memcmp(&x->i, &n->value.i, sizeof(x->i)) == 0;
}

/* A string's bytes in the policy's own memory; numbers, pointers and "" are their bits. */
uint32_t
sema_const(struct sema *s, const struct sema_node *n)
{
    struct vcl_value *consts, v = n->value;
    bool text = n->type == VCL_TYPE_STRING && v.s != NULL;
    uint32_t hash = text ? sema_hash(v.s, v.len) : sema_hash(&v.i, sizeof(v.i)), at = hash, i;

    while ((i = index_next(&s->const_index, hash, &at)) != UINT32_MAX) {
        /* A string's .len tells it from a number.  An empty string has none, and is not shared. */
        if ((n->type == VCL_TYPE_STRING) == (s->consts[i].len > 0) &&
            sema_const_equal(&s->consts[i], n))
            return i;
    }
    consts = sema_grow(s, s->consts, s->nconsts, &s->consts_room, sizeof(*consts));
    /* In the arena that stays: a run reads it there. */
    if (text)
        v.s = vcl_copy(s->cx, s->cx->keep, (struct slice){v.s, v.len});
    if (consts == NULL || s->cx->nomem)
        return UINT32_MAX;
    s->consts = consts;
    consts[s->nconsts] = v;
    index_add(s, &s->const_index, hash, s->nconsts);
    return s->nconsts++;
}

uint32_t
sema_place(struct sema *s, const struct vcl_place *place)
{
    struct vcl_place *places;

    places = sema_grow(s, s->places, s->nplaces, &s->places_room, sizeof(*places));
    if (places == NULL || s->nplaces > UINT16_MAX)
        return UINT32_MAX; /* a run's trace has 16 bits: later places are not remembered */
    s->places = places;
    places[s->nplaces] = *place;
    return s->nplaces++;
}
