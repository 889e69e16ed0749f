/* conf_fuzz.c -- any text as a configuration: a snapshot or errors, and nothing unprintable. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/conf_keys_table.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What goes to a terminal has no control character but line ends and tabs. */
static void
fuzz_write(struct conf_sink *sink, const char *text)
{
    (void)sink;
    for (const char *p = text; *p != '\0'; p++)
        tassert((unsigned char)*p >= 0x20 || *p == '\n' || *p == '\t');
}

static void
fuzz_check_errors(const struct conf_error *errors)
{
    struct conf_sink sink = {.write = fuzz_write};
    unsigned n = 0;

    for (const struct conf_error *e = errors; e != NULL; e = e->next, n++) {
        tassert(e->message[0] != '\0');
        tassert((e->line > 0) == (e->column > 0));
        tassert((e->line > 0) == (e->source != NULL));
        tassert(e->next == NULL || e->line < e->next->line ||
                (e->line == e->next->line && e->column <= e->next->column));
    }
    tassert(n > 0);
    tassert(conf_errors_print(errors, "fuzz", &sink) == n);
}

static void
fuzz_check_snapshot(const struct conf *conf)
{
    const unsigned targets = conf->nbackends + conf->ndirectors;

    tassert(conf->nlistens > 0 && conf->nstorages > 0);
    tassert(conf->nbackends > 0 || conf->vcl[0] != '\0');
    tassert(conf->admin == NULL || conf->admin->address.is_unix || conf->admin->token[0] != '\0');
    tassert(conf->default_backend == CONF_NO_BACKEND || conf->default_backend < targets);
    for (unsigned i = 0; i < conf->nroutes; i++)
        tassert(conf->routes[i].backend < targets);
    for (unsigned i = 0; i < conf->ndirectors; i++) {
        const struct conf_members *members = &conf->directors[i].backends;

        tassert(members->n > 0 && members->n <= CONF_MEMBERS_MAX);
        for (unsigned j = 0; j < members->n; j++) /* none in itself, however deep */
            tassert(members->list[j].backend < conf->nbackends + i && members->list[j].weight > 0);
    }
    tassert(conf->fleet.said == (conf->fleet.nengines > 0));
    tassert(conf->fleet.password[0] == '\0'); /* no file is read */
    for (unsigned i = 0; i < conf->fleet.nengines; i++)
        tassert(strstr(conf->fleet.engines[i].user, ":") == NULL);
    for (unsigned i = 0; i < conf->nlistens; i++)
        tassert(conf->listens[i].address.text != NULL && conf->listens[i].name[0] != '\0');
    for (unsigned i = 0; i < conf->nbackends; i++) {
        tassert(conf->backends[i].address.text != NULL);
        tassert(conf->backends[i].connect_timeout > 0 && conf->backends[i].idle_timeout > 0);
        tassert(conf->backends[i].queue_timeout == 0 || conf->backends[i].max_connections > 0);
        tassert(conf->backends[i].dns_ttl >= 0);
        if (conf->backends[i].probe != NULL)
            tassert(conf->backends[i].probe->threshold <= conf->backends[i].probe->window);
    }
    tassert((conf->params.log_ring & (conf->params.log_ring - 1)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct conf *conf = NULL;
    struct conf_error *errors = NULL;
    int err = conf_load_text(&conf, "fuzz", (const char *)data, size, &errors);

    tassert(err == 0 || err == TERR_CONFIG);
    tassert((err == 0) == (conf != NULL) && (err == 0) == (errors == NULL));
    if (err == 0)
        fuzz_check_snapshot(conf);
    else
        fuzz_check_errors(errors);
    conf_free(&conf);
    conf_errors_free(&errors);
    return 0;
}
