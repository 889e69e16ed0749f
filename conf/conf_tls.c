/* conf_tls.c -- what a listener says of TLS: certificates, versions and ciphers, clients' certificates.
 *
 * `tls` of a listener is a directory, a list of certificates, or a map; of a backend it is on,
 * off, or a map.
 *
 *    tls: /etc/tarn/certs
 *    tls: { certificates: [a.pem, { certificate: b.pem, key: b.key }], profile: modern }
 *
 * Nothing of these files is opened here: a load must not need the right to read keys.
 * daemon/tls reads them, and `tarnd -t` asks it to.  Paths begin at the directory of the file
 * that names them (conf_beside).
 */
#include <stdio.h>
#include <string.h>

#include "conf/conf_compare.h"
#include "conf/conf_row_priv.h"
#include "conf/conf_tls_table.h"
#include "daemon/base/obj.h"

#define KEY_OWNER struct conf_tls
static const struct conf_key keys_TLS[] = {CONF_TLS_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_tls_pair
static const struct conf_key keys_CERTIFICATES[] = {CONF_PAIR_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_acme
static const struct conf_key keys_ACME[] = {CONF_ACME_TABLE(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct conf_backend_tls
static const struct conf_key keys_BACKENDTLS[] = {CONF_BACKEND_TLS_TABLE(KEY_ROW)};
#undef KEY_OWNER

const struct conf_part conf_parts[CONF_PARTS] = {
#define X(type_, name_, title_, rows, doc_)   \
    [CONF_PART_##type_] = {                   \
        .type = CONF_TYPE_##type_,            \
        .title = (title_),                    \
        .section = {.name = #name_,           \
            .keys = keys_##type_,             \
            .nkeys = ARRAY_LEN(keys_##type_), \
            .doc = (doc_)},                   \
    },
    CONF_PART_TABLE(X)
#undef X
};

/* All of a part's keys, by their defaults. */
static void
tls_default(enum conf_part_id id, void *to)
{
    conf_keys_default(conf_parts[id].section.keys, conf_parts[id].section.nkeys, to);
}

/* One that is named without its directory lies beside the file that names it. */
static void
tls_read_pair(struct conf_cx *cx, const struct ynode *n, struct conf_tls_pair *to)
{
    unsigned errors = cx->nerrors;

    if (n->kind == YNODE_TEXT && n->text.len > 0) {
        tls_default(CONF_PART_CERTIFICATES, to);
        to->certificate = conf_copy(cx, n->text);
    } else {
        conf_keys_read(cx, &conf_parts[CONF_PART_CERTIFICATES].section, n, "a certificate", to);
    }
    if (cx->nerrors > errors || cx->nomem)
        return;
    to->certificate = conf_beside(cx, n, to->certificate);
    if (to->key[0] != '\0')
        to->key = conf_beside(cx, n, to->key);
}

/* A text is a directory, whatever lies in it by now; a list names files. */
bool
conf_certificates_read(struct conf_cx *cx, const struct ynode *n, struct conf_certificates *to)
{
    unsigned errors = cx->nerrors, i = 0;

    *to = (struct conf_certificates){.directory = ""};
    if (n->kind == YNODE_TEXT) {
        to->directory = n->text.len > 0 ? conf_beside(cx, n, conf_copy(cx, n->text)) : "";
        return !cx->nomem;
    }
    if (!conf_kind_check(cx, n, YNODE_LIST, "key 'certificates'"))
        return false;
    if (n->nchildren == 0) {
        conf_fail(cx, n, "certificates: an empty list has no certificate: give it a certificate");
        return false;
    }
    to->pairs = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*to->pairs));
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next)
        tls_read_pair(cx, c, &to->pairs[i++]);
    to->n = i;
    return cx->nerrors == errors && !cx->nomem;
}

/* What must hold between the keys.  A listener with `tls` and without any certificate would
 * refuse every handshake. */
static void
tls_check(struct conf_cx *cx, const struct ynode *n, const struct conf_tls *tls)
{
    bool asks = strcmp(tls->client_auth, "off") != 0;

    if (tls->certificates.directory[0] == '\0' && tls->certificates.n == 0 && tls->acme.said &&
        tls->acme.webroot[0] != '\0')
        conf_fail(cx, n,
            "tls has no certificate: with a `webroot` of acme name the directory that its client "
            "keeps them in in `certificates`, as /etc/letsencrypt/live");
    else if (tls->certificates.directory[0] == '\0' && tls->certificates.n == 0 && !tls->acme.said)
        conf_fail(cx, n,
            "tls has no certificate: name a directory or a list in `certificates`, or give it "
            "`acme: { names: [www.example.com] }`");
    if (asks && tls->client_ca[0] == '\0')
        conf_fail(cx, ynode_get(n, "client_auth"),
            "client_auth: '%s' needs `client_ca`, the file with the CA certificates that clients' "
            "certificates are issued by",
            tls->client_auth);
    if (!asks && tls->client_ca[0] != '\0')
        conf_fail(cx, ynode_get(n, "client_ca"),
            "client_ca is not used: it needs `client_auth: optional` or `client_auth: required`");
}

/* `said` is set last: a half-read `tls` is none, and its listener is not taken for one with TLS. */
bool
conf_tls_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_tls *to)
{
    unsigned errors = cx->nerrors;

    tls_default(CONF_PART_TLS, to);
    to->certificates.directory = "";
    tls_default(CONF_PART_ACME, &to->acme);
    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true;
    if (n->kind == YNODE_TEXT)
        conf_certificates_read(cx, n, &to->certificates);
    else if (conf_kind_check(cx, n, YNODE_MAP, "key 'tls'"))
        conf_keys_read(cx, &conf_parts[CONF_PART_TLS].section, n, key->name, to);
    if (cx->nerrors > errors || cx->nomem)
        return false;
    to->said = true;
    if (to->client_ca[0] != '\0')
        to->client_ca = conf_beside(cx, n, to->client_ca);
    if (to->session_secret[0] != '\0')
        to->session_secret = conf_beside(cx, n, to->session_secret);
    if (!cx->nomem)
        tls_check(cx, n, to);
    return cx->nerrors == errors && !cx->nomem;
}

/* By what the file says; whether certificates have changed is found by daemon/tls, by their
 * contents. */
bool
conf_tls_same(const struct conf_tls *a, const struct conf_tls *b)
{
    if (a->said != b->said || a->certificates.n != b->certificates.n ||
        !conf_acme_same(&a->acme, &b->acme))
        return false;
    if (!a->said)
        return true;
    for (unsigned i = 0; i < a->certificates.n; i++)
        if (strcmp(a->certificates.pairs[i].certificate, b->certificates.pairs[i].certificate) !=
                0 ||
            strcmp(a->certificates.pairs[i].key, b->certificates.pairs[i].key) != 0)
            return false;
    return strcmp(a->certificates.directory, b->certificates.directory) == 0 &&
           strcmp(a->profile, b->profile) == 0 && strcmp(a->client_ca, b->client_ca) == 0 &&
           strcmp(a->client_auth, b->client_auth) == 0 &&
           strcmp(a->session_secret, b->session_secret) == 0 && a->early_data == b->early_data;
}

/* ---- to a backend ---- */

static const char *
tls_beside(struct conf_cx *cx, const struct ynode *at, const char *file)
{
    return file[0] != '\0' ? conf_beside(cx, at, file) : file;
}

/* `tls: on` has the defaults: the name is verified, against the system's CAs. */
bool
conf_backend_tls_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    struct conf_backend_tls *to)
{
    struct conf_key word = {.name = key->name, .type = CONF_TYPE_BOOL, .most = 1};
    unsigned errors = cx->nerrors;
    int64_t on = 0;

    tls_default(CONF_PART_BACKENDTLS, to);
    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true;
    if (n->kind == YNODE_TEXT) {
        if (!conf_value_read(cx, &word, n, &on))
            return false;
        to->said = on != 0;
        return true;
    }
    if (!conf_kind_check(cx, n, YNODE_MAP, "key 'tls'"))
        return false;
    conf_keys_read(cx, &conf_parts[CONF_PART_BACKENDTLS].section, n, key->name, to);
    if (cx->nerrors > errors || cx->nomem)
        return false;
    to->said = true;
    to->ca = tls_beside(cx, n, to->ca);
    to->certificate = tls_beside(cx, n, to->certificate);
    to->key = tls_beside(cx, n, to->key);
    if (!to->verify && (to->ca[0] != '\0' || to->name[0] != '\0'))
        conf_fail(cx, ynode_get(n, "verify"),
            "verify: with off neither 'ca' nor 'name' is looked at: remove them, or this");
    if (to->key[0] != '\0' && to->certificate[0] == '\0')
        conf_fail(cx, ynode_get(n, "key"),
            "key 'key' is that of a certificate: name its file in 'certificate'");
    return cx->nerrors == errors && !cx->nomem;
}

/* An address of numbers is no server name (RFC 6066 3), but a certificate can be for one. */
static bool
tls_is_numeric(const char *host)
{
    return strspn(host, "0123456789.") == strlen(host) || strchr(host, ':') != NULL;
}

/* What the map leaves open follows from the address: server name (RFC 6066 3) and the name that
 * the certificate must have (RFC 9525 6).  It runs when the whole backend was read, because the
 * order of its keys is free. */
void
conf_backend_tls_finish(struct conf_cx *cx, const struct ynode *at, struct conf_backend *backend)
{
    const struct ynode *said = ynode_get(at, "tls");
    struct conf_backend_tls *tls = &backend->tls;
    const char *host = backend->address.host;

    if (backend->address.text == NULL)
        return; /* it has been refused */
    if (backend->address.is_https && said != NULL && !tls->said && said->text.len > 0)
        conf_fail(cx, said, "tls: off, but the address begins with https://: remove one of them");
    if (backend->address.is_https && !tls->said) {
        tls_default(CONF_PART_BACKENDTLS, tls);
        tls->said = true;
    }
    if (!tls->said)
        return;
    if (tls->sni[0] == '\0' && host != NULL && !tls_is_numeric(host))
        tls->sni = host;
    if (tls->verify && tls->name[0] == '\0')
        tls->name = tls->sni[0] != '\0' || host == NULL ? tls->sni : host;
    if (tls->verify && tls->name[0] == '\0')
        conf_fail(cx, said != NULL ? said : at,
            "tls: it is not known for which name the certificate must be: give it 'name'");
}

/* As for a backend, for each of the addresses: what the map leaves open follows from the URL's host. */
static void
tls_of_engine(const struct conf_backend_tls *tls, struct conf_engine *e)
{
    const char *host = e->address.host;

    e->sni = tls->sni[0] != '\0' || tls_is_numeric(host) ? tls->sni : host;
    e->verify_name = !tls->verify           ? ""
                     : tls->name[0] != '\0' ? tls->name
                     : e->sni[0] != '\0'    ? e->sni
                                            : host;
    tassert(!tls->verify || e->verify_name[0] != '\0'); /* a URL has a host */
}

void
conf_fleet_tls_finish(struct conf_cx *cx, const struct ynode *at, struct conf_fleet *fleet)
{
    const struct ynode *said = ynode_get(at, "tls");
    struct conf_backend_tls *tls = &fleet->tls;

    tassert(fleet->nengines > 0); /* all of one scheme */
    if (!fleet->engines[0].secure && tls->said)
        conf_fail(cx, said, "tls is for an engine that begins with rediss://, and '%s' does not",
            fleet->engines[0].address.text);
    if (!fleet->engines[0].secure)
        return;
    if (said != NULL && !tls->said && said->text.len > 0)
        conf_fail(cx, said, "tls: off, but the engine begins with rediss://: write redis:// or on");
    if (!tls->said) {
        tls_default(CONF_PART_BACKENDTLS, tls);
        tls->said = true;
    }
    for (unsigned i = 0; i < fleet->nengines; i++)
        tls_of_engine(tls, &fleet->engines[i]);
}

/* A key more in CONF_BACKEND_TLS_TABLE needs a line here. */
bool
conf_backend_tls_same(const struct conf_backend_tls *a, const struct conf_backend_tls *b)
{
    if (a->said != b->said)
        return false;
    if (!a->said)
        return true;
    return a->verify == b->verify && strcmp(a->ca, b->ca) == 0 && strcmp(a->sni, b->sni) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->certificate, b->certificate) == 0 &&
           strcmp(a->key, b->key) == 0;
}
