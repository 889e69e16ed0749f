/* acme_names.c -- the certificates of the command line. */
#include "daemon/acme/acme_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/terr.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-"

enum {
    LABEL_MAX = 63, /* RFC 1035 2.3.4 */
};

/* What is wrong with a name in lower case; NULL: nothing. */
static const char *
name_wrong(const char *name)
{
    const char *label = name;

    if (strlen(name) > ACME_NAME_MAX)
        return "is longer than 250 letters";
    if (strchr(name, '*') != NULL)
        return "is a wildcard, which needs the challenge dns-01; name each host";
    if (strchr(name, ':') != NULL ||
        (name[0] != '\0' && name[0] != '.' && name[strspn(name, "0123456789.")] == '\0'))
        return "is no DNS name; certificates for addresses are not made";
    for (;;) {
        size_t n = strspn(label, NAME_LETTERS);

        if (label[n] != '\0' && label[n] != '.')
            return (unsigned char)label[n] >= 0x80
                       ? "has letters that are not ASCII; write its A-label, as "
                         "xn--bcher-kva.example"
                       : "has a letter that no host's name has; a-z, 0-9, - and . would be right";
        if (n == 0)
            return "has an empty label; www.example.com would be right";
        if (n > LABEL_MAX || label[0] == '-' || label[n - 1] == '-')
            return "has a label of more than 63 letters, or one that begins or ends with -";
        if (label[n] == '\0')
            return NULL;
        label += n + 1;
    }
}

static int
name_put(struct acme_wanted *w, const char *text, size_t len, struct acme_fail *f)
{
    char *name = strndup(text, len), shown[ACME_NAME_MAX + 1];
    const char *wrong;

    if (name == NULL)
        return acme_fail(f, TERR_NOMEM, "out of memory");
    for (char *p = name; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    wrong = name_wrong(name);
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
    /* A certificate is called by its first name. */
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

void
acme_names_fini(struct acme_settings *set)
{
    for (unsigned i = 0; i < set->nwanted; i++)
        wanted_fini(&set->wanted[i]);
    free(set->wanted);
    set->wanted = NULL;
    set->nwanted = 0;
}
