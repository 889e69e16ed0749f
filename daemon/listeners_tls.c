/* listeners_tls.c -- TLS of one listener. */
#include "daemon/listeners_tls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/conf.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/challenges.h"
#include "daemon/tls/cert_file.h"
#include "daemon/tls/cert_store.h"
#include "daemon/tls/tls.h"
#include "daemon/tls/tls_secret.h"

enum {
    RENEW_AGAIN_S = 60, /* a secret's file that could not be renewed is tried again */
    SAID_MAX = 20, /* lines of the error log for one load; a directory may have 50,000 bad files */
};

#define LISTENER_TLS_MAGIC OBJ_TAG('l', 't', 'l', 's')
struct listener_tls {
    uint32_t magic;
    struct cert_store *certs;
    struct cert_table *next; /* prepared; NULL: none is */
    struct tls_tickets *tickets;
    struct tls_server *server;
    char *conf; /* what it was opened with, as text */
    uint64_t failures;
    char *secret;          /* session_secret's file; NULL: there is none */
    int64_t renewed_day;   /* that the file is of, or of a later one */
    int64_t renew_again_s; /* since the epoch */
    bool renew_failed;     /* and that was said */
};

/* `but`: the row that the caller says; NULL: none. */
static void
report_say(const struct cert_report *report, const struct cert_report_row *but)
{
    unsigned most = report->nrows < SAID_MAX ? report->nrows : SAID_MAX;

    for (unsigned i = 0; i < most; i++) {
        const struct cert_report_row *row = &report->rows[i];
        char line[16] = "";

        if (row == but)
            continue;
        if (row->line > 0)
            snprintf(line, sizeof(line), ":%u", row->line);
        elog(row->is_error ? ELOG_ERROR : ELOG_WARN, "%s%s: %s", row->file, line, row->why);
    }
    if (report->nerrors + report->nremarks > most)
        elog(ELOG_WARN, "%u more of certificates: `tarnctl tls list` has them",
            report->nerrors + report->nremarks - most);
}

/* The first error is what the caller says. */
static const struct cert_report_row *
report_why(const struct cert_report *report, char *why, size_t why_len)
{
    for (unsigned i = 0; i < report->nrows; i++) {
        const struct cert_report_row *row = &report->rows[i];

        if (!row->is_error)
            continue;
        if (row->line > 0)
            snprintf(why, why_len, "%s:%u: %s", row->file, row->line, row->why);
        else
            snprintf(why, why_len, "%s: %s", row->file, row->why);
        return row;
    }
    return NULL;
}

/* Names, dates and files only: no key is parsed here, so 50,000 certificates take under a second
 * (tls/README).  `before` keeps entries, if their files have turned bad. */
static int
tls_load(struct cert_table **out, const struct conf_tls *conf, const struct cert_table *before,
    struct cert_report *report)
{
    const struct conf_certificates *certs = &conf->certificates;
    char issued[4100] = "", challenges[4100] = "";
    struct cert_pair *pairs = calloc(certs->n + 1, sizeof(*pairs));
    struct cert_spec spec = {.pairs = pairs, .npairs = certs->n};
    int err;

    tassert(conf->said);
    if (pairs == NULL)
        return TERR_NOMEM;
    for (unsigned i = 0; i < certs->n; i++)
        pairs[i] = (struct cert_pair){certs->pairs[i].certificate,
            certs->pairs[i].key[0] != '\0' ? certs->pairs[i].key : NULL};
    if (certs->directory[0] != '\0')
        spec.directory = certs->directory;
    if (conf->acme.said && conf->acme.webroot[0] != '\0') {
        spec.may_be_empty = true; /* as below */
    } else if (conf->acme.said) {
        snprintf(issued, sizeof(issued), "%s/certs", conf->acme.state);
        snprintf(challenges, sizeof(challenges), "%s/challenges/tls-alpn-01", conf->acme.state);
        spec.challenge_directory = challenges;
        if (spec.directory == NULL && certs->n == 0) {
            spec.directory = issued;
            spec.may_be_empty = true; /* the CA asks us before it issues the first */
        }
    }
    err = cert_table_load(out, &spec, before, report);
    free(pairs);
    return err;
}

/* What is wrong goes to the error log, and the reason of a failure to `why`. */
static int
tls_load_and_say(struct cert_table **out, const struct conf_tls *conf,
    const struct cert_table *before, char *why, size_t why_len)
{
    struct cert_report report = {.nrows = 0};
    int err = tls_load(out, conf, before, &report);

    report_say(&report, err != 0 ? report_why(&report, why, why_len) : NULL);
    cert_report_free(&report);
    return err;
}

static int64_t
tls_now_s(void)
{
    return (int64_t)time(NULL);
}

/* Where `file` is "", that of this process. */
static int
tls_read_secret(struct tls_secret *out, const char *file,
    const unsigned char secret[LISTENER_TLS_SECRET], char *why, size_t why_len)
{
    if (file[0] != '\0')
        return tls_secret_read(file, out, why, why_len);
    return tls_secret_seed(secret, LISTENER_TLS_SECRET, out) ? 0 : TERR_NOMEM;
}

/* That a clock is behind the file by a period is no trouble.  False: there is nothing to say. */
static bool
secret_is_ahead(const struct tls_secret *secret, char *why, size_t why_len)
{
    int64_t now_s = tls_now_s();
    char there[32], here[32];

    if (secret->day <= tls_secret_day(now_s + TLS_TICKET_PERIOD_S))
        return false;
    tls_secret_date(secret->day, there);
    tls_secret_date(now_s / 86400, here);
    snprintf(why, why_len,
        "session_secret: it is of %s, and by the clock it is %s: until then one key seals all "
        "tickets.  Set the "
        "clock of this machine, or of the one that wrote the file, and replace it then",
        there, here);
    return true;
}

static int
tls_open_tickets(struct tls_tickets **out, const char *file,
    const unsigned char own[LISTENER_TLS_SECRET], char *why, size_t why_len)
{
    struct tls_secret secret;
    char ahead[400];
    int err = tls_read_secret(&secret, file, own, why, why_len);

    if (err == 0 && secret_is_ahead(&secret, ahead, sizeof(ahead)))
        elog(ELOG_WARN, "%s: %s", file, ahead);
    if (err == 0)
        err = tls_tickets_open(out, &secret, tls_now_s);
    explicit_bzero(&secret, sizeof(secret));
    return err;
}

/* The loader accepts these words and no other, so what is left is "off". */
static enum tls_client_auth
tls_client_auth_of(const char *word)
{
    if (strcmp(word, "required") == 0)
        return TLS_CLIENT_REQUIRED;
    return strcmp(word, "optional") == 0 ? TLS_CLIENT_OPTIONAL : TLS_CLIENT_OFF;
}

/* Which file it is now: one that was written anew is another.  Certificates are looked at by their store. */
static void
tls_print_file(FILE *f, const char *path)
{
    struct cert_file_id id = {.inode = 0};

    if (path[0] != '\0')
        cert_file_stat(path, &id); /* who opens it says what is wrong */
    fprintf(f, "%s %" PRIu64 " %" PRId64 " %" PRId64 "\n", path, id.inode, id.mtime_ns, id.size);
}

/* All that is said of it, to be compared.  NULL: no memory.
 * What is not in it does not make another listener: certificates in a directory are compared by
 * their store, and the secret's file changes each day by itself (tls_same_secret). */
static char *
tls_text(const struct conf_tls *conf)
{
    const struct conf_certificates *certs = &conf->certificates;
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    if (f == NULL)
        return NULL;
    fprintf(f, "%s\n%s\n%s\n%s\n", certs->directory, conf->profile, conf->client_auth,
        conf->session_secret);
    fprintf(f, "http2 %d early_data %d\n", conf->http2, conf->early_data != 0);
    tls_print_file(f, conf->client_ca);
    for (unsigned i = 0; i < certs->n; i++)
        fprintf(f, "%s\n%s\n", certs->pairs[i].certificate, certs->pairs[i].key);
    if (conf->acme.said)
        fprintf(f, "acme\n%s\n%s\n", conf->acme.state, conf->acme.webroot);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* The file changes each day; what counts is where it leads to.  One that is bad is another: who opens it says why. */
static bool
tls_same_secret(const struct listener_tls *t, const char *file)
{
    struct tls_secret secret;
    char why[256];
    bool same;

    if (file[0] == '\0')
        return true; /* that of the process */
    same = tls_secret_read(file, &secret, why, sizeof(why)) == 0 &&
           tls_tickets_same(t->tickets, &secret);
    explicit_bzero(&secret, sizeof(secret));
    return same;
}

bool
listener_tls_same(const struct listener_tls *t, const struct conf_tls *conf)
{
    char *text = conf->said ? tls_text(conf) : NULL;
    bool same =
        text != NULL && strcmp(text, t->conf) == 0 && tls_same_secret(t, conf->session_secret);

    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    free(text);
    return same;
}

/* What it costs, and what would be right. */
static void
secret_say_stays(const char *file, const char *why)
{
    elog(ELOG_WARN,
        "%s: session_secret: it is not replaced by today's: %s.  Who gets it can read sessions of "
        "earlier days, too, "
        "as far back as the file goes: let tarnd's user own it, with mode 0600, in a directory "
        "where that user may "
        "write",
        file, why);
}

/* On the management loop's tick.  TERR_AGAIN: another process holds the file's lock, and renews
 * it to the same bytes: the next tick looks again. */
void
listener_tls_tend(struct listener_tls *t)
{
    int64_t now_s = tls_now_s(), day = tls_secret_day(now_s);
    char why[256];
    int rc;

    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    if (t->secret == NULL || t->renewed_day >= day || now_s < t->renew_again_s)
        return;
    rc = tls_secret_renew(t->secret, day, why, sizeof(why));
    if (rc == TERR_AGAIN)
        return;
    if (rc >= 0) {
        t->renewed_day = day;
        t->renew_failed = false;
        return;
    }
    t->renew_again_s = now_s + RENEW_AGAIN_S;
    if (!t->renew_failed)
        secret_say_stays(t->secret, rc == TERR_NOMEM ? terr_text(rc) : why);
    t->renew_failed = true;
}

static size_t
tls_find_challenge(void *ctx, struct slice host, char out[CERT_CHALLENGE_TEXT])
{
    char name[CHALLENGE_NAME_MAX + 1];
    int len = snprintf(name, sizeof(name), CHALLENGE_TLS "%.*s", (int)host.len, host.ptr);

    _Static_assert(
        (int)CERT_CHALLENGE_TEXT == (int)CHALLENGE_TEXT_MAX, "each has room for the other's");
    return len < (int)sizeof(name) ? challenges_find(ctx, slice_of(name, (size_t)len), out) : 0;
}

/* In the order of need, each step with the one before as its parameter: certificates, tickets,
 * then the server that refers to both; listener_tls_close() goes the other way and copes with
 * what is missing. */
int
listener_tls_open(struct listener_tls **out, const struct conf_tls *conf,
    const struct listener_tls_env *env, char *why, size_t why_len)
{
    const struct cert_store_env store = {.offload = env->offload,
        .challenge = env->challenges != NULL ? tls_find_challenge : NULL,
        .challenge_ctx = env->challenges};
    struct listener_tls *t = calloc(1, sizeof(*t));
    struct tls_server_conf sc = {.modern = strcmp(conf->profile, "modern") == 0,
        .client_auth = tls_client_auth_of(conf->client_auth),
        .client_ca = conf->client_ca,
        .acme = conf->acme.said && conf->acme.webroot[0] == '\0',
        .http2 = conf->http2,
        .early_data = conf->early_data != 0,
        .loops = env->loops};
    struct cert_table *table = NULL;
    char more[256] = "";
    int err;

    tassert(conf->said);
    if (t == NULL)
        return TERR_NOMEM;
    t->magic = LISTENER_TLS_MAGIC;
    t->conf = tls_text(conf);
    if (conf->session_secret[0] != '\0')
        t->secret = strdup(conf->session_secret);
    err = t->conf != NULL && (t->secret != NULL || conf->session_secret[0] == '\0')
              ? tls_load_and_say(&table, conf, NULL, why, why_len)
              : TERR_NOMEM;
    if (err == 0)
        err = cert_store_open(&t->certs, &table, &store);
    if (table != NULL)
        cert_table_unref(&table);
    if (err == 0)
        err = tls_open_tickets(&t->tickets, conf->session_secret, env->secret, more, sizeof(more));
    if (more[0] != '\0')
        snprintf(why, why_len, "%s: %s", conf->session_secret, more);
    sc.certs = t->certs;
    sc.tickets = t->tickets;
    if (err == 0)
        err = tls_server_open(&t->server, &sc, why, why_len);
    if (err != 0)
        listener_tls_close(&t);
    else
        *out = t;
    return err;
}

void
listener_tls_close(struct listener_tls **tp)
{
    struct listener_tls *t;

    OBJ_TAKE(t, tp, LISTENER_TLS_MAGIC);
    listener_tls_unprepare(t);
    if (t->server != NULL)
        tls_server_close(&t->server);
    if (t->tickets != NULL)
        tls_tickets_close(&t->tickets);
    if (t->certs != NULL)
        cert_store_close(&t->certs);
    free(t->conf);
    free(t->secret);
    OBJ_FREE(t);
}

void
listener_tls_take_secret(struct listener_tls *t, const struct tls_secret *secret)
{
    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    if (t->secret == NULL && !tls_tickets_same(t->tickets, secret))
        tls_tickets_replace(t->tickets, secret);
}

struct secure_server *
listener_tls_secure(struct listener_tls *t)
{
    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    return tls_server_secure(t->server);
}

struct cert_store *
listener_tls_certs(struct listener_tls *t)
{
    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    return t->certs;
}

/* A prepared table is this thread's own until it is committed: handshakes go on with the old
 * one. */
int
listener_tls_prepare_quietly(
    struct listener_tls *t, const struct conf_tls *conf, struct cert_report *report)
{
    struct cert_table *now = cert_store_table(t->certs);
    unsigned before = report->nerrors;
    int err;

    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    listener_tls_unprepare(t);
    err = tls_load(&t->next, conf, now, report);
    cert_table_unref(&now);
    t->failures += err != 0 || report->nerrors > before;
    return err;
}

int
listener_tls_prepare(struct listener_tls *t, const struct conf_tls *conf, char *why, size_t why_len)
{
    struct cert_report report = {.nrows = 0};
    int err = listener_tls_prepare_quietly(t, conf, &report);

    report_say(&report, err != 0 ? report_why(&report, why, why_len) : NULL);
    cert_report_free(&report);
    return err;
}

uint64_t
listener_tls_failures(const struct listener_tls *t)
{
    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    return t->failures;
}

/* One swap under the store's lock: a handshake has the old table or the new one, and what was
 * picked stays (tls/README 14). */
void
listener_tls_commit(struct listener_tls *t)
{
    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    if (t->next != NULL)
        cert_store_swap(t->certs, &t->next);
}

void
listener_tls_unprepare(struct listener_tls *t)
{
    OBJ_CHECK(t, LISTENER_TLS_MAGIC);
    if (t->next != NULL)
        cert_table_unref(&t->next);
}

void
listener_tls_check(const struct conf_tls *conf, struct cert_report *report)
{
    static const unsigned char own[LISTENER_TLS_SECRET];
    struct tls_secret secret;
    struct cert_table *table = NULL;
    char why[512] = "";

    if (tls_load(&table, conf, NULL, report) == 0) {
        cert_table_check(table, time(NULL), report);
        cert_table_unref(&table);
    }
    if (conf->client_ca[0] != '\0' && tls_client_ca_check(conf->client_ca, why, sizeof(why)) != 0)
        cert_report_add(report, true, conf->client_ca, 0, "client_ca: %s", why);
    if (tls_read_secret(&secret, conf->session_secret, own, why, sizeof(why)) != 0)
        cert_report_add(report, true, conf->session_secret, 0, "%s", why);
    else if (secret_is_ahead(&secret, why, sizeof(why)))
        cert_report_add(report, false, conf->session_secret, 0, "%s", why);
    explicit_bzero(&secret, sizeof(secret));
}
