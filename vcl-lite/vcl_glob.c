/* vcl_glob.c -- shell patterns, for std.fnmatch.
 *
 * fnmatch(3) of libc is not used: its result depends on the locale, and it can take exponential
 * time.  Bytes are compared here, and a pattern of n bytes costs at most n times the subject.
 */
#include "vcl-lite/vcl_machine.h"

#include <ctype.h>

struct vcl_globber {
    const char *p, *pend;        /* the pattern */
    const char *s, *begin, *end; /* the subject */
    unsigned flags;
};

/* "[:alpha:]" at `p`, behind its '['.  NULL: it is none. */
static const char *
vcl_glob_named(const char *p, const char *end, uint8_t c, bool *in)
{
    static const struct {
        const char *name;
        int (*is)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
        {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
        {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};

    if (p == end || *p++ != ':')
        return NULL;
    for (unsigned i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        size_t len = strlen(classes[i].name);

        if ((size_t)(end - p) >= len + 2 && memcmp(p, classes[i].name, len) == 0 && p[len] == ':' &&
            p[len + 1] == ']') {
            *in = *in || (c < 128 && classes[i].is(c));
            return p + len + 2;
        }
    }
    return NULL;
}

/* One byte of a bracket expression, perhaps escaped. */
static bool
vcl_glob_member(struct vcl_globber *g, const char **p, uint8_t *out)
{
    if (**p == '\\' && (g->flags & VCL_GLOB_NOESCAPE) == 0)
        ++*p;
    if (*p == g->pend)
        return false;
    *out = (uint8_t)(*p)[0];
    ++*p;
    return true;
}

/* A bracket expression at g->p, behind its '['; moves there behind its ']'.  false: it is never
 * closed, and so a plain '['. */
static bool
vcl_glob_bracket(struct vcl_globber *g, uint8_t c, bool *in)
{
    const char *p = g->p, *first, *named;
    bool negated = p < g->pend && (*p == '!' || *p == '^'), found = false;
    uint8_t lo, hi;

    first = p += negated;
    while (p < g->pend && (*p != ']' || p == first)) {
        named = *p == '[' ? vcl_glob_named(p + 1, g->pend, c, &found) : NULL;
        if (named != NULL) {
            p = named;
            continue;
        }
        if (!vcl_glob_member(g, &p, &lo))
            return false;
        hi = lo;
        if (g->pend - p >= 2 && p[0] == '-' && p[1] != ']') {
            p++;
            if (!vcl_glob_member(g, &p, &hi))
                return false;
        }
        found = found || (lo <= c && c <= hi);
    }
    if (p == g->pend)
        return false;
    g->p = p + 1;
    *in = found != negated;
    return true;
}

/* A period that only a period matches? */
static bool
vcl_glob_leading(const struct vcl_globber *g)
{
    if ((g->flags & VCL_GLOB_PERIOD) == 0 || *g->s != '.')
        return false;
    return g->s == g->begin || ((g->flags & VCL_GLOB_PATHNAME) != 0 && g->s[-1] == '/');
}

/* May a wildcard match the byte that is next? */
static bool
vcl_glob_wild(const struct vcl_globber *g)
{
    return !(*g->s == '/' && (g->flags & VCL_GLOB_PATHNAME) != 0) && !vcl_glob_leading(g);
}

/* The pattern's next part, that is no star, against the subject's next byte. */
static bool
vcl_glob_one(struct vcl_globber *g)
{
    char c = *g->p++;
    bool in;

    if (c == '?')
        return vcl_glob_wild(g);
    if (c == '[') {
        if (vcl_glob_bracket(g, (uint8_t)*g->s, &in))
            return in && vcl_glob_wild(g);
    } else if (c == '\\' && (g->flags & VCL_GLOB_NOESCAPE) == 0) {
        if (g->p == g->pend)
            return false;
        c = *g->p++;
    }
    return c == *g->s;
}

/* Only the last star need be tried again: what an earlier one could take more, the last one can
 * take as well, and neither takes a '/' of a path. */
bool
vcl_glob(struct slice pattern, struct slice subject, unsigned flags)
{
    struct vcl_globber g = {.p = pattern.ptr,
        .pend = pattern.ptr + pattern.len,
        .s = subject.ptr,
        .begin = subject.ptr,
        .end = subject.ptr + subject.len,
        .flags = flags};
    const char *star = NULL, *taken = NULL; /* behind the star; what it took ends here */

    for (;;) {
        if (g.p < g.pend && *g.p == '*') {
            if (g.s < g.end && vcl_glob_leading(&g))
                return false;
            star = ++g.p;
            taken = g.s;
            continue;
        }
        if (g.s == g.end && g.p == g.pend)
            return true;
        if (g.s < g.end && g.p < g.pend && vcl_glob_one(&g)) {
            g.s++;
            continue;
        }
        if (star == NULL || taken == g.end)
            return false;
        g.p = star;
        g.s = taken;
        if (!vcl_glob_wild(&g))
            return false;
        g.s = ++taken;
    }
}
