/* conf_acme.c -- certificates by ACME, as a listener says it: read for tarnd and for tarn-acme.
 *
 *    listen: [{ address: "*:443", tls: { acme: { names: [www.example.com] } } }]
 *
 * tarnd serves the certificates and tarn-acme, a process of its own, orders them (RFC 8555).
 * Both load the same file through the same rows, so what one accepts the other does.  What would
 * fail at the CA only, hours later and with a rate limit, is refused here: wildcards, addresses,
 * names that are no host's.
 *
 * `names` becomes one text: a space between certificates, a comma between the names of one:
 *
 *    names: [a.test, "b.test,www.b.test"]   ->   "a.test b.test,www.b.test"
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "conf/conf_tls_table.h"

#define ACME_NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

enum {
    ACME_LABEL_MAX = 63, /* RFC 1035 2.3.4 */
};

/* ---- names ---- */

/* A name without a * and the like, label by label.  RFC 1035 2.3.1 in lower case; the caller has
 * folded.  A dot at the end leaves an empty label, and is refused: CAs want names without it. */
static const char *
acme_labels_wrong(const char *label)
{
    for (;;) {
        size_t n = strspn(label, ACME_NAME_CHARS);

        if (label[n] != '\0' && label[n] != '.')
            return (unsigned char)label[n] >= 0x80
                       ? "has letters that are not ASCII; write its A-label, as "
                         "xn--bcher-kva.example"
                       : "has a letter that no host's name has; a-z, 0-9, - and . would be right";
        if (n == 0)
            return "has an empty label; www.example.com would be right";
        if (n > ACME_LABEL_MAX || label[0] == '-' || label[n - 1] == '-')
            return "has a label of more than 63 letters, or one that begins or ends with -";
        if (label[n] == '\0')
            return NULL;
        label += n + 1;
    }
}

/* NULL, or what is wrong, as the end of a sentence that begins with the name.  The most frequent
 * mistakes come first, for each has another remedy. */
const char *
conf_acme_name_wrong(const char *name)
{
    if (strlen(name) > CONF_ACME_NAME_MAX)
        return "is longer than 250 letters";
    if (strchr(name, '*') != NULL)
        return "is a wildcard, which needs the challenge dns-01; name each host";
    if (strchr(name, ':') != NULL ||
        (name[0] != '\0' && name[0] != '.' && name[strspn(name, "0123456789.")] == '\0'))
        return "is no DNS name; certificates for addresses are not made";
    return acme_labels_wrong(name);
}

/* Not RFC 5322: one @, and nothing that a mailto: URL would take for more than one address (RFC
 * 8555 7.3). */
bool
conf_acme_email_ok(const char *email)
{
    const char *at = strchr(email, '@');

    return at != NULL && at != email && at[1] != '\0' &&
           email[strcspn(email, " ,<>\"?\t\r\n")] == '\0';
}

/* https only (RFC 8555 6.1): the directory decides where keys are sent. */
bool
conf_acme_url_ok(const char *url)
{
    if (strncmp(url, "https://", 8) != 0 || url[8] == '\0' || strlen(url) >= CONF_ACME_URL_MAX)
        return false;
    for (; *url != '\0'; url++)
        if (*url <= ' ' || *url > '~')
            return false;
    return true;
}

/* What stands before the next `end`, or is the rest; *rest is behind it, and NULL after the last one. */
static struct slice
acme_next(struct slice *rest, char end)
{
    const char *stop = rest->len > 0 ? memchr(rest->ptr, end, rest->len) : NULL;
    struct slice one = stop != NULL ? slice_of(rest->ptr, (size_t)(stop - rest->ptr)) : *rest;

    *rest = stop != NULL ? slice_of(stop + 1, rest->len - one.len - 1) : slice_of(NULL, 0);
    return one;
}

/* A certificate's file is called by its first name: the one of `all` that begins with the name that `cert`
 * begins with; empty: none does. */
static struct slice
acme_namesake(struct slice all, struct slice cert)
{
    struct slice name = acme_next(&cert, ',');

    while (all.len > 0) {
        struct slice other = acme_next(&all, ' '), rest = other;

        if (slice_eq(acme_next(&rest, ','), name))
            return other;
    }
    return slice_of(NULL, 0);
}

/* One certificate: its names in lower case, with commas between them.  Each name once in a
 * certificate, and 100 at most, which is the limit of Let's Encrypt. */
static bool
acme_names_check(struct conf_cx *cx, const struct ynode *n, struct slice cert)
{
    char quote[CONF_QUOTE_BYTES], name[CONF_ACME_NAME_MAX + 2];
    struct slice rest = cert;
    unsigned count = 0;

    do {
        struct slice one = acme_next(&rest, ','), before = slice_of(cert.ptr, 0);
        const char *wrong;

        snprintf(name, sizeof(name), "%.*s", (int)one.len, one.ptr);
        wrong = conf_acme_name_wrong(name);
        if (one.ptr > cert.ptr)
            before.len = (size_t)(one.ptr - cert.ptr) - 1;
        while (wrong == NULL && before.len > 0)
            if (slice_eq(acme_next(&before, ','), one))
                wrong = "is there twice";
        if (wrong == NULL && ++count > CONF_ACME_NAMES_MAX)
            wrong = "is one too many: a certificate has 100 names at most";
        if (wrong != NULL) {
            conf_fail(cx, n, "names: '%s' %s", conf_quote(quote, one), wrong);
            return false;
        }
    } while (rest.ptr != NULL);
    return true;
}

/* Appends to `all`, which has room for key->most bytes and a NUL; *len counts the space behind,
 * too. */
static bool
acme_names_read_one(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, char *all, size_t *len)
{
    char *cert = all + *len, quote[CONF_QUOTE_BYTES];
    size_t size = n->text.len;

    if (n->kind != YNODE_TEXT || ynode_is_null(n)) {
        conf_fail(cx, n, "names: each of the list must be a text");
        return false;
    }
    if (*len + size + 1 > (size_t)key->most) {
        conf_fail(cx, n, "names has more than %lld bytes", (long long)key->most);
        return false;
    }
    for (size_t i = 0; i < size; i++)
        cert[i] = (char)tolower((unsigned char)n->text.ptr[i]);
    if (!acme_names_check(cx, n, slice_of(cert, size)))
        return false;
    if (acme_namesake(slice_of(all, *len), slice_of(cert, size)).len > 0) {
        conf_fail(cx, n, "names: '%s' begins with a name that another certificate begins with",
            conf_quote(quote, n->text));
        return false;
    }
    /* A space for the next one; behind the last one it becomes the end. */
    cert[size] = ' ';
    *len += size + 1;
    return true;
}

/* Each wrong entry is reported before the whole is refused. */
bool
conf_acme_names_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    char *all = conf_alloc(cx, cx->keep, (size_t)key->most + 1, 1);
    bool good = true;
    size_t len = 0;

    if (all == NULL)
        return false;
    if (n->kind == YNODE_TEXT && n->text.len > 0)
        good = acme_names_read_one(cx, key, n, all, &len);
    for (const struct ynode *c = n->kind == YNODE_LIST ? n->children : NULL; c != NULL; c = c->next)
        good = acme_names_read_one(cx, key, c, all, &len) && good;
    if (len > 0)
        all[len - 1] = '\0';
    *to = all;
    return good;
}

/* ---- the map ---- */

/* What must hold of its keys.  `n` is the map; ynode_get() of a key that is a default gives
 * NULL, and the error then stands at the file. */
static void
acme_check(struct conf_cx *cx, const struct ynode *n, struct conf_acme *to)
{
    if (to->names[0] == '\0' && to->webroot[0] == '\0')
        conf_fail(cx, n->key != NULL ? n->key : n,
            "acme has no 'names': give it the names of hosts, as in names: [www.example.com]; or "
            "'webroot', where another ACME client leaves its proofs");
    if (to->names[0] != '\0' && to->webroot[0] != '\0')
        conf_fail(cx, ynode_get(n, "webroot"),
            "webroot is for another ACME client, and 'names' are for tarn-acme: remove one of "
            "them");
    if (!conf_acme_url_ok(to->directory))
        conf_fail(cx, ynode_get(n, "directory"),
            "directory: '%s' is not the https:// URL of an ACME directory", to->directory);
    if (to->email[0] != '\0' && !conf_acme_email_ok(to->email))
        conf_fail(cx, ynode_get(n, "email"),
            "email: '%s' is not one address, as in admin@example.com", to->email);
    if (to->staging && ynode_get(n, "directory") != NULL &&
        strcmp(to->directory, CONF_ACME_STAGING) != 0)
        conf_fail(cx, ynode_get(n, "staging"),
            "staging is a directory of Let's Encrypt's: remove it, or 'directory'");
    if ((to->eab_kid[0] == '\0') != (to->eab_key_file[0] == '\0'))
        conf_fail(cx, ynode_get(n, to->eab_kid[0] != '\0' ? "eab_kid" : "eab_key_file"),
            "eab_kid and eab_key_file belong together: the CA gave you both");
    if (to->staging)
        to->directory = CONF_ACME_STAGING;
}

/* *to has its defaults in every case, also after an error: what is checked later reads its
 * texts. */
bool
conf_acme_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_acme *to)
{
    const struct conf_section *rows = &conf_parts[CONF_PART_ACME].section;
    unsigned errors = cx->nerrors;

    conf_keys_default(rows->keys, rows->nkeys, to);
    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true;
    if (!conf_kind_check(cx, n, YNODE_MAP, "key 'acme'"))
        return false;
    conf_keys_read(cx, rows, n, key->name, to);
    if (cx->nerrors > errors || cx->nomem || n->cut)
        return false;
    to->said = true;
    to->state = conf_beside(cx, n, to->state);
    if (to->webroot[0] != '\0')
        to->webroot = conf_beside(cx, n, to->webroot);
    if (to->ca[0] != '\0')
        to->ca = conf_beside(cx, n, to->ca);
    if (to->eab_key_file[0] != '\0')
        to->eab_key_file = conf_beside(cx, n, to->eab_key_file);
    acme_check(cx, n, to);
    return cx->nerrors == errors && !cx->nomem;
}

static bool
acme_key_same(const struct conf_key *key, const struct conf_acme *a, const struct conf_acme *b)
{
    const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;

    if (conf_type_is_number(key->type))
        return memcmp(x, y, sizeof(int64_t)) == 0;
    return strcmp(*(const char *const *)(const void *)x, *(const char *const *)(const void *)y) ==
           0;
}

bool
conf_acme_same(const struct conf_acme *a, const struct conf_acme *b)
{
    const struct conf_section *rows = &conf_parts[CONF_PART_ACME].section;
    bool same = a->said == b->said;

    for (unsigned i = 0; i < rows->nkeys && same && a->said; i++)
        same = acme_key_same(&rows->keys[i], a, b);
    return same;
}

/* Two listeners with one state directory: one account, and one pass of tarn-acme over the names
 * of both.  Every key but the names has to be alike, because there is one account and one way to
 * renew. */
static void
acme_check_two(struct conf_cx *cx, const struct ynode *n, const struct conf_listen *l,
    const struct conf_listen *other)
{
    const struct conf_section *rows = &conf_parts[CONF_PART_ACME].section;
    struct slice all = slice_str(other->tls.acme.names), mine = slice_str(l->tls.acme.names);
    char quote[CONF_QUOTE_BYTES];

    for (unsigned i = 0; i < rows->nkeys; i++) {
        const struct conf_key *key = &rows->keys[i];
        const struct ynode *at = ynode_get(n, key->name);

        if (strcmp(key->name, "names") != 0 && !acme_key_same(key, &l->tls.acme, &other->tls.acme))
            conf_fail(cx, at != NULL ? at : n,
                "%s: listener '%s' has another one, and both have the state directory %s, so one "
                "account: write the same, or another 'state'",
                key->name, other->name, l->tls.acme.state);
    }
    while (mine.len > 0) {
        struct slice cert = acme_next(&mine, ' '), same = acme_namesake(all, cert);

        if (same.len > 0 && !slice_eq(same, cert))
            conf_fail(cx, ynode_get(n, "names"),
                "names: the certificate '%s' has other names at listener '%s': they would be one "
                "file",
                conf_quote(quote, cert), other->name);
    }
}

/* Each listener is compared with those above it; `nth` itself has been read. */
void
conf_acme_finish(struct conf_cx *cx, const struct ynode *tls, unsigned nth)
{
    const struct conf_listen *l = &cx->conf->listens[nth];

    for (unsigned i = 0; i < nth && l->tls.acme.said && l->tls.acme.names[0] != '\0'; i++) {
        const struct conf_listen *other = &cx->conf->listens[i];

        if (other->tls.acme.said && other->tls.acme.names[0] != '\0' &&
            strcmp(other->tls.acme.state, l->tls.acme.state) == 0)
            acme_check_two(cx, ynode_get(tls, "acme"), l, other);
    }
}
