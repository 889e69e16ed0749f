/* tls_check.c -- for tarnd -t: files of certificates and keys. */
#include "daemon/tls_check.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/backends_tls.h"
#include "daemon/listeners_tls.h"
#include "daemon/net/secure.h"
#include "daemon/origin/director.h"
#include "daemon/tls/cert_report.h"
#include "daemon/tls/tls.h"

static void
check_say(const struct cert_report *report)
{
    for (unsigned i = 0; i < report->nrows; i++) {
        const struct cert_report_row *row = &report->rows[i];
        char line[16] = "";

        if (row->line > 0)
            snprintf(line, sizeof(line), ":%u", row->line);
        fprintf(
            stderr, "%s%s: %s%s\n", row->file, line, row->is_error ? "" : "warning: ", row->why);
    }
    if (report->nerrors + report->nremarks > report->nrows)
        fprintf(stderr, "tarnd: and %u more of certificates\n",
            report->nerrors + report->nremarks - report->nrows);
}

/* With one loop: the files are what is checked, and a context for each worker would read them
 * again. */
static unsigned
check_backend(const struct conf_backend *b)
{
    struct secure_client *client;
    char why[512] = "";

    if (backends_tls(1)->open(&client, b, why, sizeof(why)) == 0) {
        backends_tls(1)->close(&client);
        return 0;
    }
    fprintf(stderr, "tarnd: backend '%s': %s\n", b->name, why);
    return 1;
}

unsigned
tls_check(const struct conf *conf)
{
    unsigned n = 0;

    tls_init();
    for (unsigned i = 0; i < conf->nlistens; i++) {
        struct cert_report report = {.nrows = 0};

        if (!conf->listens[i].tls.said)
            continue;
        listener_tls_check(&conf->listens[i].tls, &report);
        check_say(&report);
        n += report.nerrors;
        cert_report_free(&report);
    }
    for (unsigned i = 0; i < conf->nbackends; i++)
        if (conf->backends[i].tls.said)
            n += check_backend(&conf->backends[i]);
    return n;
}

/* A CA asks on port 80 and 443 alone (RFC 8555 8.3, RFC 8737 3); a port that is mapped to one is not seen here. */
static bool
check_has_port(const struct conf *conf, bool tls, uint16_t port)
{
    for (unsigned i = 0; i < conf->nlistens; i++)
        if (conf->listens[i].tls.said == tls &&
            (port == 0 || conf->listens[i].address.port == port))
            return true;
    return false;
}

static void
check_warn_challenge(const struct conf *conf, const struct conf_listen *l)
{
    bool http = strcmp(l->tls.acme.challenge, "http-01") == 0;

    if (http && !check_has_port(conf, false, 0))
        fprintf(stderr,
            "tarnd: warning: listener '%s': acme's challenge http-01 is answered on a plain "
            "listener, and there is none: add `{ address: \"*:80\", redirect: https }` to "
            "listen, or say `challenge: tls-alpn-01`\n",
            l->address.text);
    else if (http && !check_has_port(conf, false, 80))
        fprintf(stderr,
            "tarnd: warning: listener '%s': for acme's challenge http-01 the CA asks on port 80, "
            "and "
            "no plain listener has it: add `{ address: \"*:80\", redirect: https }` to listen, "
            "unless "
            "port 80 leads to one of them\n",
            l->address.text);
    else if (!http && !check_has_port(conf, true, 443))
        fprintf(stderr,
            "tarnd: warning: listener '%s': for acme's challenge tls-alpn-01 the CA asks on port "
            "443, "
            "and no listener with TLS has it: give one the address \"*:443\", unless port 443 "
            "leads "
            "to one of them\n",
            l->address.text);
}

void
tls_check_warn(const struct conf *conf)
{
    for (unsigned i = 0; i < conf->nlistens; i++) {
        const struct conf_listen *l = &conf->listens[i];

        if (!l->tls.acme.said)
            continue;
        check_warn_challenge(conf, l);
        if (l->tls.acme.webroot[0] != '\0')
            continue; /* what follows is of tarn-acme */
        if (l->tls.certificates.directory[0] != '\0' || l->tls.certificates.n > 0)
            fprintf(stderr,
                "tarnd: warning: listener '%s': it serves `certificates`, and none of those that "
                "acme gets: remove one of the two\n",
                l->address.text);
        if (conf->admin == NULL && l->tls.acme.hook[0] == '\0')
            fprintf(stderr,
                "tarnd: warning: listener '%s': tarn-acme cannot have new certificates served: add "
                "`admin: {}`, or a `hook` that has tarnd read them\n",
                l->address.text);
    }
}
