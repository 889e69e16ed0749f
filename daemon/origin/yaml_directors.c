/* yaml_directors.c -- directors as the configuration describes them. */
#include "daemon/origin/yaml_directors.h"

#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

static enum director_kind
directors_kind(const char *type)
{
    static const struct {
        const char *type;
        enum director_kind kind;
    } rows[] = {
        {"round_robin", DIRECTOR_ROUND_ROBIN},
        {"random", DIRECTOR_RANDOM},
        {"least_connections", DIRECTOR_LEAST},
        {"hash", DIRECTOR_HASH},
        {"fallback", DIRECTOR_FALLBACK},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].type, type) == 0)
            return rows[i].kind;
    TUNREACHABLE("the loader knows the types");
}

/* `made` are those that stand above. */
static int
directors_fill(struct director *d, struct director *const *backends, unsigned nbackends,
    const struct conf_director *from, struct director *const *made)
{
    int err = 0;

    for (unsigned i = 0; i < from->backends.n && err == 0; i++) {
        const struct conf_member *m = &from->backends.list[i];
        /* The loader allows only directors that stand above: so there is no circle, and `made` has
         * them. */
        struct director *member =
            m->backend < nbackends ? backends[m->backend] : made[m->backend - nbackends];

        err = director_add(d, member, (double)m->weight);
    }
    return err;
}

static int
directors_make_one(struct director **out, struct director *const *backends, unsigned nbackends,
    const struct conf_director *from, struct director *const *made)
{
    enum director_kind kind = directors_kind(from->type);
    struct director *d;
    int err = director_new(&d, kind, from->name);

    if (err != 0)
        return err;
    /* An error is looked at only at the end: what follows changes the director alone, which goes
     * then. */
    err = directors_fill(d, backends, nbackends, from, made);
    director_set_sticky(d, from->sticky != 0);
    director_set_tries_others(d);
    if (kind == DIRECTOR_HASH)
        /* The file has percent. */
        director_set_bound(d, (double)from->balance_factor / 100);
    /* Behind its members: the round is laid out by their weights. */
    if (kind == DIRECTOR_ROUND_ROBIN && err == 0)
        err = director_set_weighted(d);
    if (err != 0)
        director_drop(&d);
    else
        *out = d;
    return err;
}

int
directors_make(struct director ***out, struct director *const *backends, const struct conf *conf)
{
    /* One place more: with none, calloc(0) might return NULL, which means no memory here. */
    struct director **made = calloc(conf->ndirectors + 1, sizeof(struct director *));
    int err = made == NULL ? TERR_NOMEM : 0;

    for (unsigned i = 0; i < conf->ndirectors && err == 0; i++)
        err = directors_make_one(&made[i], backends, conf->nbackends, &conf->directors[i], made);
    if (err != 0)
        directors_free(&made, conf->ndirectors);
    else
        *out = made;
    return err;
}

void
directors_free(struct director ***dp, unsigned n)
{
    struct director **made = *dp;

    *dp = NULL;
    if (made == NULL)
        return;
    /* The last first: it may hold those before it. */
    while (n > 0) {
        n--;
        if (made[n] != NULL)
            director_drop(&made[n]);
    }
    free(made);
}
