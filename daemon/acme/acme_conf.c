/* acme_conf.c -- settings that stand in tarnd's configuration: listen[].tls.acme.
 *
 * Read by tarnd's own loader, so that the two cannot differ in what a file means.  Texts are borrowed from the
 * configuration, which lives as long as the settings. */
#include "daemon/acme/acme_conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/acme/acme_names.h"
#include "daemon/base/terr.h"

enum {
    DAY_MS = 86400 * 1000,
};

/* The same lines and carets as `tarnd -t` shows. */
static void
conf_on_text(struct conf_sink *sink, const char *text)
{
    (void)sink;
    fputs(text, stderr);
}

/* The quick way resolves no names of backends: a DNS that does not answer must not keep a certificate from being
 * renewed. */
static enum acme_exit
acme_conf_load(struct acme_settings *set, const char *path)
{
    struct conf_sink sink = {.write = conf_on_text};
    struct conf_error *errors = NULL;
    int err = conf_load_quick(&set->conf, path, &errors);
    unsigned n;

    if (err == 0)
        return ACME_DONE;
    if (errors == NULL) {
        acme_say("%s: %s", path, terr_text(err));
        return ACME_USAGE;
    }
    n = conf_errors_print(errors, path, &sink);
    acme_say("%s: %u error%s", path, n, n == 1 ? "" : "s");
    conf_errors_free(&errors);
    return ACME_USAGE;
}

/* The listener that says how: the one with the state directory of the command line, else the first.  NULL:
 * none has `acme`.  False: there are two ways, and nothing says which. */
static bool
acme_conf_choose(const struct acme_settings *set, const struct conf_acme **out)
{
    *out = NULL;
    for (unsigned i = 0; i < set->conf->nlistens; i++) {
        const struct conf_acme *acme = &set->conf->listens[i].tls.acme;

        if (!acme->said || acme->webroot[0] != '\0')
            continue; /* or another client gets its certificates */
        /* Two state directories are two accounts, and two locks: one process keeps one of them. */
        if (set->state != NULL && strcmp(acme->state, set->state) == 0) {
            *out = acme;
            return true;
        }
        if (*out == NULL)
            *out = acme;
        else if (strcmp((*out)->state, acme->state) != 0) {
            acme_say("%s has the state directories %s and %s: --state DIR would say which",
                set->conf->path, (*out)->state, acme->state);
            return false;
        }
    }
    return true;
}

/* Those of every listener with the same state; the loader has seen to it that one file is one certificate. */
static int
acme_conf_names(struct acme_settings *set, const char *state, struct acme_fail *f)
{
    int err = 0;

    for (unsigned i = 0; i < set->conf->nlistens; i++) {
        const struct conf_acme *acme = &set->conf->listens[i].tls.acme;
        bool ours = acme->said && acme->webroot[0] == '\0' && strcmp(acme->state, state) == 0;
        const char *at = ours ? acme->names : "";

        while (*at != '\0' && err == 0) {
            size_t n = strcspn(at, " ");
            char *cert = strndup(at, n);

            err = cert == NULL ? acme_fail(f, TERR_NOMEM, "out of memory") : 0;
            if (err == 0 && !acme_names_has(set, cert))
                err = acme_names_add(set, cert, f);
            free(cert);
            at += n + (at[n] == ' ');
        }
    }
    return err;
}

/* What the command line has said stays. */
static void
acme_conf_text(const char **to, const char *text)
{
    if (*to == NULL && text[0] != '\0')
        *to = text;
}

/* Each setting by itself: to try another CA once needs `--directory` alone. */
static void
acme_conf_take(
    struct acme_settings *set, const struct acme_said *said, const struct conf_acme *acme)
{
    acme_conf_text(&set->state, acme->state);
    /* --staging is a directory, too, and is settled behind this (acme_cli.c). */
    if (!said->staging)
        acme_conf_text(&set->directory, acme->directory);
    acme_conf_text(&set->email, acme->email);
    acme_conf_text(&set->ca, acme->ca);
    acme_conf_text(&set->hook, acme->hook);
    set->agree_tos = set->agree_tos || acme->agree_tos;
    if (!said->challenge)
        set->challenge =
            strcmp(acme->challenge, "tls-alpn-01") == 0 ? ACME_TLS_ALPN_01 : ACME_HTTP_01;
    if (!said->key)
        set->key = strcmp(acme->key_type, "rsa") == 0 ? ACME_RSA : ACME_ECDSA;
    if (set->renew_before_days == 0) /* a part of a day is a day: rather early than late */
        set->renew_before_days = (unsigned)((acme->renew_before + DAY_MS - 1) / DAY_MS);
}

/* Where the hook finds tarnd, and who tarnd is when root starts it. */
static void
acme_conf_take_tarnd(struct acme_settings *set)
{
    const struct conf_admin *admin = set->conf->admin;

    acme_conf_text(&set->user, set->conf->params.user);
    if (admin == NULL)
        return;
    set->admin = admin->address.text;
    acme_conf_text(&set->token, admin->token);
    /* Else tarnd would serve the old certificate until an operator notices; without an admin listener it cannot be told. */
    if (set->hook == NULL)
        set->hook = "tarnctl tls reload";
}

void
acme_conf_admin(const struct acme_settings *set, char out[ACME_ADMIN_MAX])
{
    bool any = set->admin[0] == '*';

    snprintf(out, ACME_ADMIN_MAX, "%s%s", any ? "127.0.0.1" : "", set->admin + any);
}

enum acme_exit
acme_conf_read(struct acme_settings *set, const char *path, const struct acme_said *said,
    bool names, const struct conf_acme **out)
{
    enum acme_exit rc = acme_conf_load(set, path);
    struct acme_fail f;

    *out = NULL;
    if (rc != ACME_DONE)
        return rc;
    if (!acme_conf_choose(set, out))
        return ACME_USAGE;
    acme_conf_take_tarnd(set);
    if (*out == NULL)
        return ACME_DONE;
    acme_fail_init(&f);
    if (names && acme_conf_names(set, (*out)->state, &f) != 0) {
        acme_say("%s: %s", path, f.text);
        return ACME_USAGE;
    }
    acme_conf_take(set, said, *out);
    return ACME_DONE;
}
