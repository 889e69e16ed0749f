/* conf_tls.c -- what a listener says of TLS: certificates, versions and ciphers, clients' certificates. */
#include <stdio.h>
#include <string.h>

#include "conf/conf_compare.h"
#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

static const struct conf_key acme_keys[] = {
    {.name = "email",
        .type = CONF_TYPE_ASCII,
        .offset = offsetof(struct conf_acme, email),
        .def_text = "",
        .most = 254},
    {.name = "directory",
        .type = CONF_TYPE_ASCII,
        .offset = offsetof(struct conf_acme, directory),
        .def_text = CONF_ACME_DIRECTORY,
        .least = 1,
        .most = 1000},
    {.name = "names",
        .type = CONF_TYPE_WORDS,
        .required = true,
        .offset = offsetof(struct conf_acme, names),
        .least = 1,
        .most = CONF_WORDS_MAX},
    {.name = "state",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_acme, state),
        .def_text = "/var/lib/tarn/acme",
        .least = 1,
        .most = 4000},
    {.name = "challenge",
        .type = CONF_TYPE_CHALLENGE,
        .offset = offsetof(struct conf_acme, challenge),
        .def_text = "http-01"},
};
static const struct conf_section acme_section = {
    .name = "acme", .keys = acme_keys, .nkeys = ARRAY_LEN(acme_keys)};

static const struct conf_key pair_keys[] = {
    {.name = "certificate",
        .type = CONF_TYPE_TEXT,
        .required = true,
        .offset = offsetof(struct conf_tls_pair, certificate),
        .least = 1,
        .most = 4000},
    {.name = "key",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_tls_pair, key),
        .def_text = "",
        .most = 4000},
};
static const struct conf_section pair_section = {
    .name = "certificates", .keys = pair_keys, .nkeys = ARRAY_LEN(pair_keys)};

static const struct conf_key tls_keys[] = {
    {.name = "certificates",
        .type = CONF_TYPE_CERTIFICATES,
        .offset = offsetof(struct conf_tls, certificates),
        .def_text = ""},
    {.name = "profile",
        .type = CONF_TYPE_PROFILE,
        .offset = offsetof(struct conf_tls, profile),
        .def_text = "intermediate"},
    {.name = "client_auth",
        .type = CONF_TYPE_CLIENTAUTH,
        .offset = offsetof(struct conf_tls, client_auth),
        .def_text = "off"},
    {.name = "client_ca",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_tls, client_ca),
        .def_text = "",
        .most = 4000},
    {.name = "session_secret",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_tls, session_secret),
        .def_text = "",
        .most = 4000},
    {.name = "acme",
        .type = CONF_TYPE_ACME,
        .offset = offsetof(struct conf_tls, acme),
        .def_text = ""},
};
static const struct conf_section tls_section = {
    .name = "tls", .keys = tls_keys, .nkeys = ARRAY_LEN(tls_keys)};

static const struct conf_key backend_keys[] = {
    {.name = "verify",
        .type = CONF_TYPE_BOOL,
        .offset = offsetof(struct conf_backend_tls, verify),
        .def = 1,
        .most = 1},
    {.name = "ca",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_backend_tls, ca),
        .def_text = "",
        .most = 4000},
    {.name = "sni",
        .type = CONF_TYPE_HOST,
        .offset = offsetof(struct conf_backend_tls, sni),
        .def_text = "",
        .most = 253},
    {.name = "name",
        .type = CONF_TYPE_HOST,
        .offset = offsetof(struct conf_backend_tls, name),
        .def_text = "",
        .most = 253},
    {.name = "certificate",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_backend_tls, certificate),
        .def_text = "",
        .most = 4000},
    {.name = "key",
        .type = CONF_TYPE_TEXT,
        .offset = offsetof(struct conf_backend_tls, key),
        .def_text = "",
        .most = 4000},
};
static const struct conf_section backend_section = {
    .name = "tls", .keys = backend_keys, .nkeys = ARRAY_LEN(backend_keys)};

bool
conf_acme_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_acme *to)
{
    unsigned errors = cx->nerrors;

    conf_keys_default(acme_keys, ARRAY_LEN(acme_keys), to);
    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true;
    if (!conf_kind_check(cx, n, YNODE_MAP, "key 'acme'"))
        return false;
    conf_keys_read(cx, &acme_section, n, key->name, to);
    if (cx->nerrors > errors || cx->nomem)
        return false;
    if (strncmp(to->directory, "https://", 8) != 0)
        conf_fail(cx, ynode_get(n, "directory"),
            "directory: '%s' is not the https:// URL of an ACME directory", to->directory);
    to->said = true;
    to->state = conf_beside(cx, n, to->state);
    return cx->nerrors == errors && !cx->nomem;
}

/* One that is named without its directory lies beside the file that names it. */
static void
tls_read_pair(struct conf_cx *cx, const struct ynode *n, struct conf_tls_pair *to)
{
    unsigned errors = cx->nerrors;

    if (n->kind == YNODE_TEXT && n->text.len > 0) {
        conf_keys_default(pair_keys, ARRAY_LEN(pair_keys), to);
        to->certificate = conf_copy(cx, n->text);
    } else {
        conf_keys_read(cx, &pair_section, n, "a certificate", to);
    }
    if (cx->nerrors > errors || cx->nomem)
        return;
    to->certificate = conf_beside(cx, n, to->certificate);
    if (to->key[0] != '\0')
        to->key = conf_beside(cx, n, to->key);
}

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

/* What must hold between the keys. */
static void
tls_check(struct conf_cx *cx, const struct ynode *n, const struct conf_tls *tls)
{
    bool asks = strcmp(tls->client_auth, "off") != 0;

    if (tls->certificates.directory[0] == '\0' && tls->certificates.n == 0 && !tls->acme.said)
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

bool
conf_tls_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_tls *to)
{
    unsigned errors = cx->nerrors;

    conf_keys_default(tls_keys, ARRAY_LEN(tls_keys), to);
    to->certificates.directory = "";
    conf_keys_default(acme_keys, ARRAY_LEN(acme_keys), &to->acme);
    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true;
    if (n->kind == YNODE_TEXT)
        conf_certificates_read(cx, n, &to->certificates);
    else if (conf_kind_check(cx, n, YNODE_MAP, "key 'tls'"))
        conf_keys_read(cx, &tls_section, n, key->name, to);
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

bool
conf_tls_same(const struct conf_tls *a, const struct conf_tls *b)
{
    if (a->said != b->said || a->certificates.n != b->certificates.n ||
        a->acme.said != b->acme.said)
        return false;
    if (!a->said)
        return true;
    for (unsigned i = 0; i < a->certificates.n; i++)
        if (strcmp(a->certificates.pairs[i].certificate, b->certificates.pairs[i].certificate) !=
                0 ||
            strcmp(a->certificates.pairs[i].key, b->certificates.pairs[i].key) != 0)
            return false;
    for (unsigned i = 0; i < ARRAY_LEN(acme_keys) && a->acme.said; i++)
        if (strcmp(*(const char *const *)((const char *)&a->acme + acme_keys[i].offset),
                *(const char *const *)((const char *)&b->acme + acme_keys[i].offset)) != 0)
            return false;
    return strcmp(a->certificates.directory, b->certificates.directory) == 0 &&
           strcmp(a->profile, b->profile) == 0 && strcmp(a->client_ca, b->client_ca) == 0 &&
           strcmp(a->client_auth, b->client_auth) == 0 &&
           strcmp(a->session_secret, b->session_secret) == 0;
}

/* ---- to a backend ---- */

static const char *
tls_beside(struct conf_cx *cx, const struct ynode *at, const char *file)
{
    return file[0] != '\0' ? conf_beside(cx, at, file) : file;
}

bool
conf_backend_tls_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    struct conf_backend_tls *to)
{
    struct conf_key word = {.name = key->name, .type = CONF_TYPE_BOOL, .most = 1};
    unsigned errors = cx->nerrors;
    int64_t on = 0;

    conf_keys_default(backend_keys, ARRAY_LEN(backend_keys), to);
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
    conf_keys_read(cx, &backend_section, n, key->name, to);
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
        conf_keys_default(backend_keys, ARRAY_LEN(backend_keys), tls);
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
