/* acme_names.c -- the certificates that are wanted, as the command line or the configuration names them. */
#include "daemon/acme/acme_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/terr.h"

static int
name_put(struct acme_wanted *w, const char *text, size_t len, struct acme_fail *f)
{
    char *name = strndup(text, len), shown[ACME_NAME_MAX + 1];
    const char *wrong;

    if (name == NULL)
        return acme_fail(f, TERR_NOMEM, "out of memory");
    /* Names are compared as bytes from here on: as a key of state.json, as a file's name, with the configuration's. */
    for (char *p = name; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    wrong = conf_acme_name_wrong(name);
    for (unsigned i = 0; wrong == NULL && i < w->nnames; i++)
        if (strcmp(w->names[i], name) == 0)
            wrong = "is there twice";
    if (wrong == NULL && w->nnames == ACME_NAMES_MAX)
        wrong = "is one too many: a certificate has 100 names at most";
    if (wrong != NULL) {
        acme_printable(shown, sizeof(shown), name);
        free(name);
        return acme_fail(f, TERR_INVALID, "the name \"%s\" %s", shown, wrong);
    }
    w->names[w->nnames++] = name;
    return 0;
}

static void
wanted_fini(struct acme_wanted *w)
{
    for (unsigned i = 0; i < w->nnames; i++)
        free((void *)(uintptr_t)w->names[i]);
    free(w->names);
}

int
acme_names_add(struct acme_settings *set, const char *arg, struct acme_fail *f)
{
    struct acme_wanted w = {.names = calloc(ACME_NAMES_MAX, sizeof(*w.names))}, *more;
    int err = w.names == NULL ? TERR_NOMEM : 0;

    while (err == 0) {
        size_t n = strcspn(arg, ",");

        err = name_put(&w, arg, n, f);
        if (arg[n] == '\0')
            break;
        arg += n + 1;
    }
    /* A certificate is called by its first name: two would replace each other's file in each pass, and use up the
     * CA's limit. */
    for (unsigned i = 0; err == 0 && i < set->nwanted; i++)
        if (strcmp(set->wanted[i].names[0], w.names[0]) == 0)
            err = acme_fail(f, TERR_INVALID,
                "two certificates begin with the name %s, and would be one file", w.names[0]);
    if (err == 0 && set->nwanted == ACME_CERTS_MAX)
        err = acme_fail(f, TERR_LIMIT, "more than %d certificates", ACME_CERTS_MAX);
    more = err == 0 ? realloc(set->wanted, (set->nwanted + 1) * sizeof(*more)) : NULL;
    if (more == NULL) {
        wanted_fini(&w);
        return err != 0 ? err : acme_fail(f, TERR_NOMEM, "out of memory");
    }
    set->wanted = more;
    set->wanted[set->nwanted++] = w;
    return 0;
}

/* By the first name: a certificate of several listeners is one.  That they list the same names is checked by
 * the configuration's loader. */
bool
acme_names_has(const struct acme_settings *set, const char *arg)
{
    size_t n = strcspn(arg, ",");

    for (unsigned i = 0; i < set->nwanted; i++)
        if (strlen(set->wanted[i].names[0]) == n && memcmp(set->wanted[i].names[0], arg, n) == 0)
            return true;
    return false;
}

void
acme_names_fini(struct acme_settings *set)
{
    for (unsigned i = 0; i < set->nwanted; i++)
        wanted_fini(&set->wanted[i]);
    free(set->wanted);
    set->wanted = NULL;
    set->nwanted = 0;
}
