/* vcl_guess.c -- "did you mean": the nearest of the names that are offered. */
#include <ctype.h>

#include "vcl-lite/vcl_priv.h"

enum {
    GUESS_NAME_MAX = 64,    /* longer names are not compared */
    GUESS_TRIES_MAX = 2000, /* names compared: more would take longer than the load */
};

static unsigned
guess_min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Damerau and Levenshtein's distance: letters to add, drop, change, or swap with the next. */
static unsigned
guess_distance(struct slice a, struct slice b)
{
    unsigned rows[3][GUESS_NAME_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];

    for (unsigned j = 0; j <= b.len; j++)
        above[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        unsigned *old = before;

        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            unsigned cost =
                tolower((unsigned char)a.ptr[i - 1]) != tolower((unsigned char)b.ptr[j - 1]);

            row[j] = guess_min(above[j - 1] + cost, guess_min(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1])
                row[j] = guess_min(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = old;
    }
    return above[b.len];
}

/* Call it for each name that would be right; the first of those that are equally near stays. */
void
vcl_guess_try(struct vcl_guess *g, const char *name)
{
    struct slice meant = g->meant, offer = slice_str(name);
    unsigned distance, most;

    if (meant.len == 0 || offer.len == 0 || meant.len > GUESS_NAME_MAX ||
        offer.len > GUESS_NAME_MAX || g->tries >= GUESS_TRIES_MAX)
        return;
    g->tries++;
    /* A third of the letters may be wrong, and at least one. */
    most = (unsigned)guess_min((unsigned)meant.len, (unsigned)offer.len) / 3;
    most = most == 0 ? 1 : most;
    distance = guess_distance(meant, offer);
    if (distance > most || (distance >= meant.len && distance >= offer.len))
        return;
    if (g->best == NULL || distance < g->distance) {
        g->best = name;
        g->distance = distance;
    }
}

const char *
vcl_guess_hint(struct vcl_cx *cx, const struct vcl_guess *g)
{
    return g->best == NULL ? NULL : vcl_text(cx, "did you mean %s?", g->best);
}
