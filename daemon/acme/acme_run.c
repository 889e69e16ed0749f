/* acme_run.c -- passes over all certificates.
 *
 * A pass decides by what is on disk now: the certificate, its key, the names that are wanted.  state.json adds when the
 * CA wants to be asked and how often it has refused; nothing else outlives a pass, so a pass may end anywhere. */
#include "daemon/acme/acme_run.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/acme/acme_order.h"
#include "daemon/acme/acme_state.h"
#include "daemon/acme/acme_time.h"
#include "daemon/base/terr.h"

enum {
    PATH_BYTES = 300,
    SLACK_S = 3600, /* clocks differ */
};

struct pass {
    const struct acme_settings *set;
    const struct acme_env *env;
    struct acme_dir dir;
    struct acme_state *state;
    struct acme_client client; /* when client_open */
    bool client_open;
    struct acme_fail unreachable; /* why there is no client: the CA is asked once a pass */
    int64_t next_s;
    unsigned failed; /* certificates, and the hook */
    bool retry, stopped;
};

/* One certificate in a pass. */
struct cert {
    const struct acme_wanted *w;
    const char *name; /* w's first */
    struct acme_record r;
    bool there;
    struct acme_leaf leaf; /* when it is there */
    char due[512];         /* why it is ordered; "": it is not */
};

static uint32_t
pass_random(void)
{
    uint32_t n = 0;

    RAND_bytes((unsigned char *)&n, sizeof(n)); /* 0 is as good where there is none: it is jitter */
    return n;
}

static void
pass_next(struct pass *p, int64_t at_s)
{
    if (at_s < p->next_s)
        p->next_s = at_s;
}

/* The CA's client, opened when it is first needed: a pass that finds all fresh asks no CA anything.  Where that failed
 * it is not tried again: a hundred certificates would wait a hundred times for a CA that is down. */
static int
pass_client(struct pass *p, struct acme_fail *f)
{
    int err = 0;

    if (p->client_open)
        return 0;
    if (p->unreachable.text[0] == '\0') {
        acme_fail_init(&p->unreachable);
        err = acme_client_open(&p->client, p->set, &p->dir, p->env, &p->unreachable);
        p->client_open = err == 0;
        if (err == 0)
            return 0;
    }
    *f = p->unreachable;
    return TERR_UNREACH;
}

/* ---- what is there ---- */

/* The first reason stays. */
__attribute__((format(printf, 2, 3))) static void
cert_due(struct cert *c, const char *fmt, ...)
{
    va_list ap;

    if (c->due[0] != '\0')
        return;
    va_start(ap, fmt);
    vsnprintf(c->due, sizeof(c->due), fmt, ap);
    va_end(ap);
}

/* Does the file's content fit together and to what is wanted? */
static void
cert_compare(struct pass *p, struct cert *c, const struct acme_chain *chain, EVP_PKEY *key)
{
    enum acme_key_kind kind;
    const char *why;

    if (key == NULL)
        cert_due(c, "its file has no private key");
    /* tarnd would refuse the file: what is broken is not waited with until its time. */
    else if (X509_check_private_key(chain->certs[0], key) != 1)
        cert_due(c, "its file has the key of another certificate");
    else if (!acme_key_kind(key, &kind) || kind != p->set->key)
        cert_due(c, "its key is not of the kind that --key wants");
    if (!acme_leaf_has_names(chain, c->w, &why))
        cert_due(c, "its names have changed: %s", why);
    /* From staging to production, mostly.  Without a record its CA is unknown, and it is left until its time. */
    if (c->r.directory[0] != '\0' && strcmp(c->r.directory, p->set->directory) != 0)
        cert_due(c, "it is from another CA (%.200s)", c->r.directory);
}

/* Reads certs/NAME.pem.  0; or TERR_DENIED and such: it is left alone. */
static int
cert_look(struct pass *p, struct cert *c, struct acme_fail *f)
{
    char file[PATH_BYTES];
    struct acme_chain chain;
    struct acme_fail why;
    struct span pem;
    EVP_PKEY *key;
    int err;

    acme_order_file(file, sizeof(file), c->w);
    err = acme_dir_read(&p->dir, file, &pem, f);
    if (err == TERR_NOTFOUND) {
        cert_due(c, "there is none yet");
        return 0;
    }
    if (err != 0)
        return err;
    /* A file that is damaged is ordered anew; one that cannot be read, or that others can read, is not: the operator
     * has to see that. */
    acme_fail_init(&why);
    err = acme_chain_read(slice_of(pem.ptr, pem.len), true, &chain, &why);
    if (err == 0) {
        err = acme_leaf_read(&chain, &c->leaf, &why);
        if (err == 0) {
            c->there = true;
            key = acme_key_read(slice_of(pem.ptr, pem.len));
            cert_compare(p, c, &chain, key);
            EVP_PKEY_free(key);
        }
        acme_chain_fini(&chain);
    }
    if (err != 0)
        cert_due(c, "its file cannot be used: %.300s", why.text);
    acme_key_forget(&pem);
    return 0;
}

/* ---- when ---- */

/* What the CA suggests, when it is time to ask.  That it does not answer is no failure of the certificate. */
static void
cert_ask_window(struct pass *p, struct cert *c)
{
    int64_t start, end, now = p->env->now_s();
    struct acme_answer a;
    struct acme_fail f;
    char url[ACME_URL_MAX + ACME_CERTID_SIZE];
    json_t *v;

    acme_fail_init(&f);
    c->r.ari_next_s = now + ACME_ARI_ELSE_S;
    if (pass_client(p, &f) != 0 || p->client.urls.renewal_info[0] == '\0') {
        if (f.text[0] != '\0' && !f.stopped)
            acme_say("%s: renewal information: %s", c->name, f.text);
        return;
    }
    snprintf(url, sizeof(url), "%s/%s", p->client.urls.renewal_info, c->leaf.certid);
    if (acme_client_get(&p->client, url, &a, &f) == 0) {
        c->r.ari_next_s = now + acme_ari_pause(a.retry_after_s);
        v = acme_answer_json(&a, &f);
        /* The moment is chosen once for a window: chosen anew with each look, it would move to the window's start. */
        if (v != NULL && acme_read_window(v, &start, &end, &f) == 0 &&
            (start != c->r.ari_start_s || end != c->r.ari_end_s)) {
            c->r.ari_start_s = start;
            c->r.ari_end_s = end;
            c->r.ari_chosen_s = acme_choose(start, end, pass_random());
        }
        json_decref(v);
        acme_answer_fini(&a);
    } else {
        c->r.ari_next_s = now + acme_ari_pause(f.retry_after_s);
    }
    if (f.text[0] != '\0' && !f.stopped)
        acme_say("%s: renewal information: %s; its life decides", c->name, f.text);
}

static int64_t
cert_renew_at(const struct pass *p, const struct cert *c)
{
    struct acme_life life = {.not_before_s = c->leaf.not_before_s,
        .not_after_s = c->leaf.not_after_s,
        .suggested = c->r.ari_chosen_s != 0,
        .start_s = c->r.ari_start_s,
        .end_s = c->r.ari_end_s,
        .chosen_s = c->r.ari_chosen_s,
        .renew_before_days = p->set->renew_before_days};

    return acme_renew_at(&life);
}

/* Is it due by time?  The CA is asked only where nothing else has decided. */
static void
cert_time(struct pass *p, struct cert *c)
{
    int64_t now = p->env->now_s();
    char when[ACME_STAMP_SIZE], span[32];

    /* Another certificate than the record's, by us or by an operator: what was suggested for that one is over. */
    if (strcmp(c->r.certid, c->leaf.certid) != 0) {
        snprintf(c->r.certid, sizeof(c->r.certid), "%s", c->leaf.certid);
        c->r.ari_start_s = c->r.ari_end_s = c->r.ari_chosen_s = c->r.ari_next_s = 0;
    }
    c->r.not_after_s = c->leaf.not_after_s;
    acme_stamp(when, c->leaf.not_after_s);
    acme_span_text(span, now - c->leaf.not_after_s);
    if (c->leaf.not_after_s <= now)
        cert_due(c, "it expired %s ago, at %s, and is renewed at once", span, when);
    if (c->leaf.not_before_s > now + SLACK_S)
        acme_say("%s: the certificate is not good yet: is this machine's clock right?", c->name);
    if (c->due[0] == '\0' && c->leaf.certid[0] != '\0' &&
        !acme_is_ahead(c->r.ari_next_s, now, ACME_ARI_MOST_S))
        cert_ask_window(p, c);
    if (cert_renew_at(p, c) <= now) {
        acme_stamp(when, cert_renew_at(p, c));
        cert_due(c, "its renewal was due at %s, %s", when,
            c->r.ari_chosen_s != 0 ? "as the CA suggests" : "by its life");
    }
}

/* ---- what becomes of it ---- */

static int
cert_order(struct pass *p, struct cert *c, struct acme_fail *f)
{
    const char *replaces = "";
    int err = pass_client(p, f);

    if (err != 0)
        return err;
    /* Of this CA alone: another one knows no such certificate, and refuses the order (RFC 9773 5). */
    if (c->there && p->client.urls.renewal_info[0] != '\0' &&
        strcmp(c->r.directory, p->set->directory) == 0)
        replaces = c->leaf.certid;
    err = acme_order_run(&p->client, c->w, replaces, f);
    /* Once: what the CA says of the new account counts. */
    if (err != 0 && strcmp(f->type, "accountDoesNotExist") == 0) {
        acme_account_forget(&p->client);
        acme_fail_init(f);
        err = acme_order_run(&p->client, c->w, replaces, f);
    }
    return err;
}

/* A signal is no failure: the certificate's back-off stays as it was, and the next pass begins at once. */
static void
cert_failed(struct pass *p, struct cert *c, const struct acme_fail *f)
{
    int64_t now = p->env->now_s();
    char when[ACME_STAMP_SIZE];

    if (f->stopped) {
        p->stopped = true;
        return;
    }
    p->failed++;
    c->r.failures++;
    c->r.next_attempt_s = now + acme_backoff(c->r.failures, f->retry_after_s, pass_random());
    snprintf(c->r.last_error, sizeof(c->r.last_error), "%s", f->text);
    acme_stamp(when, c->r.next_attempt_s);
    acme_say("%s: %s", c->name, f->text);
    acme_say(
        "%s: failure %u in a row; the next attempt is not before %s", c->name, c->r.failures, when);
}

static void
cert_renewed(struct pass *p, struct cert *c)
{
    struct acme_fail f;
    char until[ACME_STAMP_SIZE], at[ACME_STAMP_SIZE];

    acme_fail_init(&f);
    c->due[0] = '\0';
    snprintf(c->r.directory, sizeof(c->r.directory), "%s", p->set->directory);
    c->r.failures = 0;
    c->r.last_error[0] = '\0';
    c->r.certid[0] = '\0';
    c->r.ari_start_s = c->r.ari_end_s = c->r.ari_chosen_s = c->r.ari_next_s = 0;
    if (cert_look(p, c, &f) == 0 && c->there) {
        c->r.not_after_s = c->leaf.not_after_s;
        c->r.next_attempt_s = cert_renew_at(p, c);
    }
    pass_next(p, p->env->now_s() + ACME_LOOK_LEAST_S); /* the CA has renewal information by then */
    /* Before cert_put(), which writes both. */
    acme_state_hook_add(p->state, c->name);
    acme_stamp(until, c->r.not_after_s);
    acme_stamp(at, c->r.next_attempt_s);
    acme_report("%s: a new certificate, good until %s; renewal about %s", c->name, until, at);
}

static void
cert_put(struct pass *p, struct cert *c)
{
    struct acme_fail f;

    acme_fail_init(&f);
    if (p->set->dry_run || acme_state_put(p->state, c->name, &c->r, c->w, &f) == 0)
        return;
    acme_say("%s: %s", c->name, f.text);
    p->failed++;
}

static void
cert_is_fresh(struct pass *p, struct cert *c)
{
    char until[ACME_STAMP_SIZE], at[ACME_STAMP_SIZE];

    c->r.next_attempt_s = cert_renew_at(p, c);
    c->r.failures = 0;
    c->r.last_error[0] = '\0';
    pass_next(p, c->r.next_attempt_s);
    if (c->leaf.certid[0] != '\0')
        pass_next(p, c->r.ari_next_s);
    acme_stamp(until, c->leaf.not_after_s);
    acme_stamp(at, c->r.next_attempt_s);
    acme_report("%s: fresh until %s; renewal at %s", c->name, until, at);
    cert_put(p, c);
}

/* After a failure: whether it is too early. */
static bool
cert_waits(struct pass *p, struct cert *c)
{
    char when[ACME_STAMP_SIZE];

    if (c->r.failures == 0 || p->retry ||
        !acme_is_ahead(c->r.next_attempt_s, p->env->now_s(), ACME_WAIT_MOST_S))
        return false;
    acme_stamp(when, c->r.next_attempt_s);
    acme_say("%s: waits until %s after failure %u: %s; --retry tries at once", c->name, when,
        c->r.failures, c->r.last_error);
    pass_next(p, c->r.next_attempt_s);
    p->failed++;
    return true;
}

static void
cert_pass(struct pass *p, const struct acme_wanted *w)
{
    struct cert c = {.w = w, .name = w->names[0]};
    struct acme_fail f;

    acme_fail_init(&f);
    /* By its first name, as its file is. */
    acme_state_get(p->state, c.name, &c.r);
    if (cert_look(p, &c, &f) != 0) {
        acme_say("%s: %s", c.name, f.text);
        p->failed++;
        return;
    }
    if (c.there)
        cert_time(p, &c);
    if (c.due[0] == '\0') {
        cert_is_fresh(p, &c);
        return;
    }
    if (cert_waits(p, &c)) {
        cert_put(p, &c);
        return;
    }
    acme_report("%s: %s: %s", c.name, p->set->dry_run ? "would be ordered" : "ordering", c.due);
    if (p->set->dry_run)
        return;
    c.r.last_attempt_s = p->env->now_s();
    if (cert_order(p, &c, &f) == 0)
        cert_renewed(p, &c);
    else
        cert_failed(p, &c, &f);
    if (!f.stopped) {
        if (c.r.failures > 0)
            pass_next(p, c.r.next_attempt_s);
        cert_put(p, &c);
    }
}

/* ---- a pass ---- */

static void
pass_hook(struct pass *p)
{
    struct acme_fail f;
    char *names = acme_state_hook_due(p->state);
    int err = 0;

    acme_fail_init(&f);
    if (names != NULL && p->set->hook != NULL)
        err = acme_hook_run(p->set, names, &f);
    /* Without a hook, too: one that is set later is not run for changes that tarnd has long seen. */
    if (names != NULL && err == 0)
        err = acme_state_hook_done(p->state, &f);
    if (err != 0) {
        acme_say("%s", f.text);
        p->failed++;
    }
    free(names);
}

static enum acme_exit
pass_open(struct pass *p)
{
    struct acme_fail f;
    int err;

    acme_fail_init(&f);
    /* To look, nothing is made and nothing locked: --dry-run may run beside the timer's pass. */
    err = acme_dir_open(&p->dir, p->set->state, p->set->dry_run, &f);
    if (err == 0 && !p->set->dry_run)
        err = acme_dir_lock(&p->dir, &f);
    if (err == 0)
        err = acme_state_open(&p->state, &p->dir, &f);
    if (err == 0)
        return ACME_DONE;
    acme_say("%s", f.text);
    acme_dir_close(&p->dir);
    return err == TERR_BUSY ? ACME_BUSY : ACME_STATE;
}

/* What the account needs is the same for all: with --dry-run it is seen before the first order. */
static void
pass_look_at_ca(struct pass *p)
{
    struct acme_fail f;

    acme_fail_init(&f);
    if (pass_client(p, &f) == 0)
        acme_report("%s: answers%s%s", p->set->directory,
            p->client.urls.terms[0] != '\0' ? "; its terms: " : "", p->client.urls.terms);
    else {
        acme_say("%s", f.text);
        p->failed++;
    }
}

/* One pass, under the lock; with `retry` earlier failures are not waited for.  *next_s is when the next one has
 * something to do. */
static enum acme_exit
pass_run(const struct acme_settings *set, const struct acme_env *env, bool retry, int64_t *next_s)
{
    struct pass p = {.set = set, .env = env, .retry = retry, .next_s = INT64_MAX};
    enum acme_exit rc = pass_open(&p);

    *next_s = env->now_s() + ACME_LOOK_LEAST_S;
    if (rc != ACME_DONE)
        return rc;
    if (set->dry_run)
        pass_look_at_ca(&p);
    else
        acme_dir_sweep(&p.dir);
    for (unsigned i = 0; i < set->nwanted && !env->stopped(); i++)
        cert_pass(&p, &set->wanted[i]);
    /* Also after failures: others have succeeded, and tarnd should serve them. */
    if (!set->dry_run)
        pass_hook(&p);
    if (p.client_open)
        acme_client_close(&p.client);
    acme_state_close(&p.state);
    acme_dir_close(&p.dir);
    *next_s = p.next_s;
    if (p.stopped || env->stopped())
        acme_say("stopped by a signal; what was under way is begun anew by the next pass");
    return p.failed > 0 || p.stopped ? ACME_FAILED : ACME_DONE;
}

enum acme_exit
acme_run(const struct acme_settings *set, const struct acme_env *env)
{
    bool retry = set->retry; /* for the operator's one look, not for each */

    for (;; retry = false) {
        int64_t next_s, now_s;
        enum acme_exit rc = pass_run(set, env, retry, &next_s);

        if (set->once || set->dry_run || rc == ACME_STATE)
            return rc;
        now_s = env->now_s();
        if (next_s < now_s + ACME_LOOK_LEAST_S)
            next_s = now_s + ACME_LOOK_LEAST_S;
        if (next_s > now_s + ACME_LOOK_MOST_S)
            next_s = now_s + ACME_LOOK_MOST_S;
        /* Not the whole time at once: the clock may be put right meanwhile. */
        while (!env->stopped() && env->now_s() < next_s && env->now_s() >= now_s)
            env->pause_ms(1000);
        if (env->stopped())
            return ACME_DONE;
    }
}
