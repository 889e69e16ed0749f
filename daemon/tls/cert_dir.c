/* cert_dir.c -- a directory's files, put together by what stands in front of their last dot.
 *
 * Names alone are looked at here: a directory of 50,000 costs one readdir() and no open().  What is in a file, and
 * whether it may be read, is cert_entry.c's to say. */
#include "daemon/tls/cert_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_file.h"

enum dir_kind {
    DIR_PEM,
    DIR_CRT,
    DIR_CER,
    DIR_KEY,
    DIR_OCSP,
    DIR_FOLDER, /* of certbot's `live` */
    DIR_OTHER
};

static const char *const dir_suffixes[] = {
    [DIR_PEM] = ".pem",
    [DIR_CRT] = ".crt",
    [DIR_CER] = ".cer",
    [DIR_KEY] = ".key",
    [DIR_OCSP] = ".ocsp",
};

struct dir_name {
    char *stem; /* owned */
    enum dir_kind kind;
};

struct dir_list {
    const char *path;
    struct dir_name *names;
    unsigned n, room;
    struct cert_dir *out;
    unsigned out_room;
    struct cert_report *report;
    int rc;
};

/* The same stem's files, one bit each. */
struct dir_group {
    const char *stem;
    unsigned kinds;
};

/* A bit for each kind: the order in which a directory lists them means nothing. */
#define DIR_BIT(kind) (1u << (kind))
#define DIR_CHAIN     (DIR_BIT(DIR_CRT) | DIR_BIT(DIR_CER))

/* The last dot: a stem is mostly a host name, which has dots of its own. */
static enum dir_kind
dir_kind_of(const char *name, size_t *stem_len)
{
    const char *dot = strrchr(name, '.');

    *stem_len = strlen(name);
    for (unsigned kind = 0; dot != NULL && kind < ARRAY_LEN(dir_suffixes); kind++) {
        if (strcmp(dot, dir_suffixes[kind]) == 0) {
            *stem_len = (size_t)(dot - name);
            return (enum dir_kind)kind;
        }
    }
    return DIR_OTHER;
}

static char *
dir_path(struct dir_list *l, const char *stem, const char *rest)
{
    char *path;

    if (asprintf(&path, "%s/%s%s", l->path, stem, rest) < 0) {
        l->rc = TERR_NOMEM;
        return NULL;
    }
    return path;
}

/* Twice the room each time: a directory of any size is listed in linear time. */
static void
dir_add_name(struct dir_list *l, const char *name, size_t stem_len, enum dir_kind kind)
{
    if (l->n == l->room) {
        unsigned room = l->room > 0 ? l->room * 2 : 64;
        struct dir_name *more = realloc(l->names, room * sizeof(*more));

        if (more == NULL) {
            l->rc = TERR_NOMEM;
            return;
        }
        l->names = more;
        l->room = room;
    }
    l->names[l->n] = (struct dir_name){strndup(name, stem_len), kind};
    if (l->names[l->n].stem == NULL)
        l->rc = TERR_NOMEM;
    else
        l->n++;
}

/* A folder of certbot's, or a link to one.  Others are no certificates. */
static void
dir_add_folder(struct dir_list *l, const char *name, bool is_folder)
{
    char *chain = dir_path(l, name, "/fullchain.pem");

    /* access() follows links, as certbot's are, and as a link to a folder is. */
    if (chain != NULL && access(chain, F_OK) == 0)
        dir_add_name(l, name, strlen(name), DIR_FOLDER);
    else if (chain != NULL && is_folder)
        cert_report_add(l->report, false, chain, 0,
            "the folder has no such file and is left out: certificates lie in the directory "
            "itself, or "
            "as certbot has them");
    free(chain);
}

static int
dir_list_read(struct dir_list *l)
{
    DIR *dir = opendir(l->path);
    struct dirent *entry;

    /* An error, and no remark: a directory that cannot be read must not look like one without certificates. */
    if (dir == NULL) {
        cert_file_say(l->report, l->path, errno);
        return TERR_CONFIG;
    }
    while (l->rc == 0 && (entry = readdir(dir)) != NULL) {
        size_t stem_len;
        enum dir_kind kind = dir_kind_of(entry->d_name, &stem_len);

        if (entry->d_name[0] == '.')
            continue; /* an editor's, or Kubernetes' folders behind its links */
        /* Some file systems leave d_type DT_UNKNOWN: then a name with a suffix is taken for a file, and the read will tell. */
        if (kind != DIR_OTHER && entry->d_type != DT_DIR)
            dir_add_name(l, entry->d_name, stem_len, kind);
        else if (entry->d_type != DT_REG)
            dir_add_folder(l, entry->d_name, entry->d_type == DT_DIR);
    }
    closedir(dir);
    return l->rc;
}

/* readdir() has an order of its own: sorted, the same files give the same default on every node. */
static int
dir_compare(const void *a, const void *b)
{
    /* By bytes and not by the locale: a reload under another one would have another default. */
    const struct dir_name *x = a, *y = b;
    int order = strcmp(x->stem, y->stem);

    return order != 0 ? order : (int)x->kind - (int)y->kind;
}

/* Takes the paths, also on failure. */
static void
dir_add(struct dir_list *l, char *certificate, char *key, char *ocsp, bool key_needed)
{
    struct cert_files f = {certificate, key, ocsp};

    if (certificate == NULL || (key == NULL && key_needed))
        l->rc = TERR_NOMEM;
    if (l->rc == 0 && l->out->n == l->out_room) {
        unsigned room = l->out_room > 0 ? l->out_room * 2 : 64;
        struct cert_files *more = realloc(l->out->files, room * sizeof(*more));

        if (more == NULL) {
            l->rc = TERR_NOMEM;
        } else {
            l->out->files = more;
            l->out_room = room;
        }
    }
    if (l->rc != 0)
        cert_files_fini(&f);
    else
        l->out->files[l->out->n++] = f;
}

/* lego's, beside the certificate: the issuer alone. */
static bool
dir_is_issuer(const struct dir_group *g)
{
    size_t len = strlen(g->stem);

    return len > 7 && strcmp(g->stem + len - 7, ".issuer") == 0 &&
           (g->kinds & DIR_BIT(DIR_KEY)) == 0;
}

/* A certificate without a key file may have the key behind it; if not, reading it says so. */
static void
dir_add_group(struct dir_list *l, const struct dir_group *g)
{
    /* Four forms: NAME.pem with the key behind it; NAME.crt or NAME.cer with NAME.key, as acme.sh and lego have them; and
     * NAME.pem with NAME.key. */
    bool has_key = (g->kinds & DIR_BIT(DIR_KEY)) != 0;
    bool has_chain = (g->kinds & DIR_CHAIN) != 0, has_pem = (g->kinds & DIR_BIT(DIR_PEM)) != 0;
    enum dir_kind kind = (g->kinds & DIR_BIT(DIR_CRT)) != 0 ? DIR_CRT : DIR_CER;
    char *ocsp, *path;

    /* Mostly a certificate that was renamed without its key. */
    if (!has_chain && !has_pem && has_key) {
        path = dir_path(l, g->stem, ".key");
        if (path != NULL)
            cert_report_add(l->report, true, path, 0,
                "is a key without its certificate: that belongs into %s.crt beside it", g->stem);
        free(path);
        return;
    }
    if ((!has_chain && !has_pem) || (!has_pem && dir_is_issuer(g)))
        return;
    /* A .pem beside .crt and .key is what HAProxy is given of both: the same twice. */
    if (has_pem && !(has_chain && has_key))
        kind = DIR_PEM;
    ocsp = (g->kinds & DIR_BIT(DIR_OCSP)) != 0 ? dir_path(l, g->stem, ".ocsp") : NULL;
    dir_add(l, dir_path(l, g->stem, dir_suffixes[kind]),
        has_key ? dir_path(l, g->stem, ".key") : NULL, ocsp, has_key);
}

/* Is it a folder of certbot's by itself?  Then cert.pem and chain.pem are parts of fullchain.pem. */
static bool
dir_is_certbot(const struct dir_list *l)
{
    /* `live` itself has folders; `live/NAME`, which certbot's hooks are given, has these two beside parts of the first. */
    unsigned found = 0;

    for (unsigned i = 0; i < l->n; i++) {
        if (l->names[i].kind == DIR_PEM)
            found += strcmp(l->names[i].stem, "fullchain") == 0 ||
                     strcmp(l->names[i].stem, "privkey") == 0;
    }
    return found == 2;
}

static void
dir_add_certbot(struct dir_list *l, const char *folder)
{
    char *ocsp = dir_path(l, folder, "fullchain.ocsp");

    if (ocsp != NULL && access(ocsp, F_OK) != 0) {
        free(ocsp);
        ocsp = NULL;
    }
    dir_add(
        l, dir_path(l, folder, "fullchain.pem"), dir_path(l, folder, "privkey.pem"), ocsp, true);
}

/* Sorted, so that a stem's files lie together. */
static void
dir_group_all(struct dir_list *l)
{
    /* A folder and a file of one name are two certificates. */
    for (unsigned i = 0; i < l->n && l->rc == 0;) {
        struct dir_group g = {.stem = l->names[i].stem};
        char folder[NAME_MAX + 2];

        for (; i < l->n && strcmp(l->names[i].stem, g.stem) == 0; i++)
            g.kinds |= DIR_BIT(l->names[i].kind);
        if ((g.kinds & DIR_BIT(DIR_FOLDER)) != 0) {
            snprintf(folder, sizeof(folder), "%s/", g.stem);
            dir_add_certbot(l, folder);
        }
        if ((g.kinds & ~DIR_BIT(DIR_FOLDER)) != 0)
            dir_add_group(l, &g);
    }
}

/* `default` in front of the others. */
static void
dir_default_first(struct dir_list *l, unsigned at)
{
    struct cert_files f;

    if (at >= l->out->n || l->rc != 0)
        return;
    f = l->out->files[at];
    memmove(l->out->files + 1, l->out->files, at * sizeof(f));
    l->out->files[0] = f;
}

/* Does the path's last part, or that of its folder, begin with `default` and a dot or slash? */
static bool
dir_is_default(const struct dir_list *l, const char *path)
{
    const char *name = path + strlen(l->path) + 1;

    return strncmp(name, "default.", 8) == 0 || strncmp(name, "default/", 8) == 0;
}

int
cert_dir_read(struct cert_dir *out, const char *path, struct cert_report *report)
{
    struct dir_list l = {.path = path, .out = out, .report = report};
    unsigned at = 0;

    *out = (struct cert_dir){NULL, 0};
    /* Listed whole before anything is grouped: certbot's folder is known by two of its names. */
    l.rc = dir_list_read(&l);
    if (l.rc == 0 && dir_is_certbot(&l)) {
        dir_add_certbot(&l, "");
    } else if (l.rc == 0 && l.n > 0) {
        qsort(l.names, l.n, sizeof(*l.names), dir_compare);
        dir_group_all(&l);
        while (at < out->n && !dir_is_default(&l, out->files[at].certificate))
            at++;
        dir_default_first(&l, at);
    }
    for (unsigned i = 0; i < l.n; i++)
        free(l.names[i].stem);
    free(l.names);
    return l.rc;
}

void
cert_files_fini(struct cert_files *f)
{
    free(f->certificate);
    free(f->key);
    free(f->ocsp);
}

void
cert_dir_fini(struct cert_dir *d)
{
    for (unsigned i = 0; i < d->n; i++)
        cert_files_fini(&d->files[i]);
    free(d->files);
    *d = (struct cert_dir){NULL, 0};
}
