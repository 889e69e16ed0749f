/* acme_order.c -- one certificate from the CA. */
#include "daemon/acme/acme_order.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/acme/acme_b64.h"
#include "daemon/acme/acme_fleet.h"
#include "daemon/acme/acme_jws.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

enum {
    POLLS_MAX = 60,
    POLL_S = 2,       /* where the CA names no Retry-After */
    POLL_MOST_S = 30, /* a longer one waits for the next pass */
    POLL_ALL_S = 600,
    PATH_BYTES = 300, /* a name has 253 at most, a token fewer */
};

struct order {
    struct acme_client *c;
    const struct acme_wanted *w;
    char url[ACME_URL_MAX];
    json_t *json; /* owned; what `view` borrows from */
    struct acme_order_view view;
};

/* By its first name, as certbot and lego do; tarnd reads names from the certificate, so the file's matters to
 * people. */
void
acme_order_file(char *out, size_t size, const struct acme_wanted *w)
{
    snprintf(out, size, ACME_DIR_CERTS "/%s.pem", w->names[0]);
}

/* ---- waiting ---- */

/* A place in a wait for the CA. */
struct poll {
    unsigned n;
    int64_t waited_s;
};

/* Waits as the CA's last answer wants it.  TERR_TIMEDOUT: it has been long enough. */
static int
poll_pause(struct acme_client *c, struct poll *p, int64_t retry_after_s, struct acme_fail *f)
{
    /* 0 of a CA means "now", and would be a loop without a pause. */
    int64_t s = retry_after_s < 0 ? POLL_S : retry_after_s == 0 ? 1 : retry_after_s;

    if (s > POLL_MOST_S || ++p->n > POLLS_MAX || p->waited_s + s > POLL_ALL_S) {
        /* What was waited for goes on at the CA, and is not lost: an order's URL is not kept, but a CA may
         * give a pending order back when the same names are ordered (RFC 8555 7.4). */
        f->retry_after_s = retry_after_s;
        return acme_fail(f, TERR_TIMEDOUT,
            "the CA has not decided after %u questions in %lld s; the next attempt orders anew",
            p->n, (long long)p->waited_s);
    }
    p->waited_s += s;
    return acme_client_pause(c, (unsigned)s * 1000, f);
}

/* ---- challenges ---- */

struct challenge {
    char name[ACME_NAME_MAX + 1];
    char path[PATH_BYTES]; /* "": nothing was written */
    char key[PATH_BYTES];  /* by which the fleet's nodes find it: the token, or the name */
};

/* The CA may ask for names of the order only; the file of tls-alpn-01 has the name. */
static int
challenge_name(
    struct challenge *ch, const struct acme_wanted *w, const char *name, struct acme_fail *f)
{
    char shown[ACME_NAME_MAX + 1];

    for (unsigned i = 0; i < w->nnames; i++)
        if (strcasecmp(w->names[i], name) == 0) {
            snprintf(ch->name, sizeof(ch->name), "%s", w->names[i]);
            return 0;
        }
    acme_printable(shown, sizeof(shown), name);
    return acme_fail(
        f, TERR_SYNTAX, "the CA wants a proof for \"%s\", which was not ordered", shown);
}

/* The proof lies on disk before the CA is told to look (RFC 8555 7.5.1): it may ask at once, from several places. */
static int
challenge_write(struct order *o, struct challenge *ch, const char *token, struct acme_fail *f)
{
    char *text = acme_jws_authorization(o->c->key, token);
    struct span pem = {NULL, 0};
    int err = text == NULL ? acme_fail(f, TERR_IO, "no key authorization: %s", acme_key_why()) : 0;

    if (err == 0 && o->c->set->challenge == ACME_HTTP_01) {
        snprintf(ch->path, sizeof(ch->path), ACME_DIR_HTTP "/%s", token);
        snprintf(ch->key, sizeof(ch->key), "%s", token);
        err = acme_dir_write(o->c->dir, ch->path, slice_str(text), f);
        if (err == 0)
            acme_fleet_put(o->c->set, ch->key, slice_str(text));
    } else if (err == 0) {
        snprintf(ch->path, sizeof(ch->path), ACME_DIR_ALPN "/%s.pem", ch->name);
        snprintf(ch->key, sizeof(ch->key), "%s", ch->name);
        err = acme_cert_of_challenge(ch->name, text, &pem, f);
        if (err == 0)
            err = acme_dir_write(o->c->dir, ch->path, slice_of(pem.ptr, pem.len), f);
        if (err == 0)
            acme_fleet_put(o->c->set, ch->key, slice_of(pem.ptr, pem.len));
    }
    acme_key_forget(&pem); /* the certificate of tls-alpn-01 has a key */
    free(text);
    return err;
}

/* Tells the CA to look (RFC 8555 7.5.1). */
static int
challenge_begin(struct order *o, const char *url, struct acme_fail *f)
{
    /* An empty object, not an empty payload: that would be a POST-as-GET, which only reads (RFC 8555 6.3). */
    json_t *empty = json_object();
    struct acme_answer a;
    int err = acme_client_post(o->c, url, empty, &a, f);

    json_decref(empty);
    if (err == 0)
        acme_answer_fini(&a);
    return err;
}

/* The CA's verdict: 0, TERR_AGAIN, or why not. */
static int
authz_verdict(const struct acme_authz_view *v, enum acme_challenge kind, struct acme_fail *f)
{
    if (v->status == ACME_VALID)
        return 0;
    /* The reason stands in the challenge (RFC 8555 8.2), and an authorization that was deactivated or has
     * expired has none. */
    if (v->status == ACME_INVALID && v->error.type[0] == '\0' && v->error.detail[0] == '\0')
        return acme_fail(
            f, TERR_UPSTREAM, "the CA calls the authorization invalid and names no reason");
    if (v->status == ACME_INVALID)
        return acme_problem_fail(f, &v->error, 0);
    /* Pending, and no challenge of our kind: to wait for it would be to wait for nothing. */
    if (v->url == NULL)
        return acme_fail(f, TERR_UPSTREAM, "the CA offers no %s for it; try --challenge %s",
            acme_challenge_name(kind),
            acme_challenge_name(kind == ACME_HTTP_01 ? ACME_TLS_ALPN_01 : ACME_HTTP_01));
    return TERR_AGAIN;
}

/* Reads the authorization, answers it when it is there for the first time, and looks again until it is
 * decided. */
static int
authz_poll(struct order *o, const char *url, struct challenge *ch, struct acme_fail *f)
{
    struct poll p = {.n = 0};
    struct acme_authz_view v;
    struct acme_answer head;
    json_t *json;
    int err;

    for (;;) {
        err = acme_client_post_json(o->c, url, NULL, &json, &head, f);
        if (err != 0)
            return err;
        err = acme_read_authz(json, o->c->set->challenge, &v, f);
        /* Also of one that is valid already, as a CA reuses authorizations: its name is not believed the less. */
        if (err == 0 && ch->name[0] == '\0')
            err = challenge_name(ch, o->w, v.name, f);
        if (err == 0)
            err = authz_verdict(&v, o->c->set->challenge, f);
        if (err == TERR_AGAIN && ch->path[0] == '\0') {
            err = challenge_write(o, ch, v.token, f);
            /* One that is "processing" the CA looks at already (RFC 8555 8.2). */
            if (err == 0 && v.challenge_status == ACME_PENDING)
                err = challenge_begin(o, v.url, f);
            err = err == 0 ? TERR_AGAIN : err;
        }
        json_decref(json);
        if (err == TERR_AGAIN)
            err = poll_pause(o->c, &p, head.retry_after_s, f);
        else
            return err;
        if (err != 0)
            return err;
    }
}

/* One after the other (README): an error belongs to one name, and one proof lies on disk at a time. */
static int
order_authorize(struct order *o, struct acme_fail *f)
{
    int err = 0;

    for (unsigned i = 0; err == 0 && i < o->view.nauthorizations; i++) {
        struct challenge ch = {.name = ""};
        char step[ACME_NAME_MAX + 40];

        err = authz_poll(o, o->view.authorizations[i], &ch, f);
        /* Also after a failure: what lies there answers for the account's key to anyone who asks. */
        if (ch.path[0] != '\0') {
            acme_dir_remove(o->c->dir, ch.path);
            acme_fleet_remove(o->c->set, ch.key);
        }
        snprintf(step, sizeof(step), "%s for %s", acme_challenge_name(o->c->set->challenge),
            ch.name[0] != '\0' ? ch.name : "a name");
        if (err != 0)
            acme_fail_in(f, step);
    }
    return err;
}

/* ---- the order ---- */

static void
order_fini(struct order *o)
{
    json_decref(o->json);
    o->json = NULL;
}

/* Takes json, as the order's state of now. */
static int
order_take(struct order *o, json_t *json, struct acme_fail *f)
{
    order_fini(o);
    o->json = json;
    return acme_read_order(json, &o->view, f);
}

static int
order_ask(struct order *o, const char *replaces, struct acme_fail *f)
{
    json_t *payload = json_object(), *list = json_array(), *json;
    struct acme_answer head;
    int err;

    /* No notBefore and notAfter: Let's Encrypt refuses them, and how long it is good is a CA's policy. */
    for (unsigned i = 0; i < o->w->nnames; i++)
        json_array_append_new(list, json_pack("{ssss}", "type", "dns", "value", o->w->names[i]));
    json_put(payload, "identifiers", list);
    if (replaces[0] != '\0') /* RFC 9773 5 */
        json_put(payload, "replaces", json_string(replaces));
    err = acme_client_post_json(o->c, o->c->urls.new_order, payload, &json, &head, f);
    json_decref(payload);
    if (err != 0)
        return err;
    /* The order's own URL is in no member of the object: only here, in Location (RFC 8555 7.4). */
    memcpy(o->url, head.location, sizeof(o->url));
    err = order_take(o, json, f);
    if (err == 0 && o->url[0] == '\0')
        err = acme_fail(f, TERR_UPSTREAM,
            "the CA answers newOrder without a Location field that is an https:// URL");
    return err;
}

/* A CA may refuse an order for the sake of `replaces`: the old certificate was replaced already, or is not
 * its own.  Boulder had "conflict" before the RFC had its name; Pebble answers serverInternal, and loses the orders of
 * serial numbers that begin with a zero byte.  Then the order is worth more than the hint. */
static bool
order_is_about_replaces(const struct acme_fail *f)
{
    static const char *const types[] = {
        "alreadyReplaced", "conflict", "malformed", "serverInternal", "unauthorized"};

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(f->type, types[i]) == 0)
            return true;
    return false;
}

static int
order_begin(struct order *o, const char *replaces, struct acme_fail *f)
{
    struct acme_fail first;
    int err;

    acme_fail_init(&first);
    err = order_ask(o, replaces, &first);
    if (err != 0 && replaces[0] != '\0' && order_is_about_replaces(&first)) {
        acme_fail_init(&first);
        err = order_ask(o, "", &first);
    }
    /* The second answer counts: the first was about the hint. */
    if (err != 0)
        *f = first;
    return err;
}

/* Reads the order until it has left PENDING and PROCESSING; from READY on where it is finalized already.
 * A CA may answer finalize with an order that is READY still: it has not looked at the request yet. */
static int
order_wait(struct order *o, bool finalized, int64_t retry_after_s, struct acme_fail *f)
{
    struct poll p = {.n = 0};
    struct acme_answer head;
    json_t *json;
    int err;

    while (o->view.status == ACME_PENDING || o->view.status == ACME_PROCESSING ||
           (finalized && o->view.status == ACME_READY)) {
        err = poll_pause(o->c, &p, retry_after_s, f);
        if (err == 0)
            err = acme_client_post_json(o->c, o->url, NULL, &json, &head, f);
        if (err == 0) {
            err = order_take(o, json, f);
            retry_after_s = head.retry_after_s;
        }
        if (err != 0)
            return err;
    }
    if (o->view.status != ACME_INVALID)
        return 0;
    if (o->view.error.type[0] == '\0' && o->view.error.detail[0] == '\0')
        return acme_fail(f, TERR_UPSTREAM, "the CA calls the order invalid and names no reason");
    return acme_problem_fail(f, &o->view.error, 0);
}

/* Reads the order once more: all of its names are authorized, it may be READY already. */
static int
order_refresh(struct order *o, struct acme_fail *f)
{
    struct acme_answer head;
    json_t *json;
    int err;

    /* An order that was PENDING when it was made is not told that its authorizations are valid now; finalize is
     * refused (orderNotReady) until the CA itself calls it ready (RFC 8555 7.4). */
    if (o->view.status != ACME_PENDING)
        return 0;
    err = acme_client_post_json(o->c, o->url, NULL, &json, &head, f);
    if (err == 0)
        err = order_take(o, json, f);
    return err != 0 ? err : order_wait(o, false, head.retry_after_s, f);
}

static int
order_finalize(struct order *o, EVP_PKEY *key, struct acme_fail *f)
{
    struct span csr;
    struct acme_answer head;
    json_t *payload, *json;
    char *text;
    int err = order_refresh(o, f);

    if (err == 0)
        err = acme_csr(key, o->w, &csr, f);
    if (err != 0)
        return err;
    /* base64url of DER, no PEM (RFC 8555 7.4). */
    text = acme_b64(csr.ptr, csr.len);
    payload = json_pack("{ss}", "csr", text != NULL ? text : "");
    free(text);
    free(csr.ptr);
    err = acme_client_post_json(o->c, o->view.finalize, payload, &json, &head, f);
    json_decref(payload);
    if (err == 0)
        err = order_take(o, json, f);
    return err != 0 ? err : order_wait(o, true, head.retry_after_s, f);
}

/* RFC 8555 7.4.2.  The CA's default chain: alternates (Link, rel=alternate) end at other roots, and none is asked for. */
static int
order_download(struct order *o, struct acme_chain *out, struct acme_fail *f)
{
    struct acme_answer a;
    int err;

    if (o->view.certificate == NULL)
        return acme_fail(f, TERR_SYNTAX, "the CA's order is valid and has no \"certificate\"");
    err = acme_client_post(o->c, o->view.certificate, NULL, &a, f);
    if (err == 0) {
        err = acme_chain_read(slice_of(a.body.ptr, a.body.len), false, out, f);
        acme_answer_fini(&a);
    }
    return err;
}

static int
order_keep(struct order *o, const struct acme_chain *chain, EVP_PKEY *key, struct acme_fail *f)
{
    char file[PATH_BYTES];
    struct span pem;
    /* Judged before it is written: what replaces a good certificate cannot be taken back, and tarnd reads it
     * at once. */
    int err = acme_chain_judge(chain, key, o->w, o->c->env->now_s(), f);

    if (err == 0 && acme_pem_join(chain, key, &pem) != 0)
        err = acme_fail(f, TERR_NOMEM, "out of memory");
    if (err != 0)
        return err;
    acme_order_file(file, sizeof(file), o->w);
    err = acme_dir_write(o->c->dir, file, slice_of(pem.ptr, pem.len), f);
    acme_key_forget(&pem);
    return err;
}

/* One step after the other; which one failed is said.
 * Nothing of a failed order is kept: what the CA has validated it remembers itself, and an order anew costs one
 * request. */
static int
order_steps(struct order *o, const char *replaces, EVP_PKEY *key, struct acme_fail *f)
{
    struct acme_chain chain;
    const char *step = "order";
    int err = order_begin(o, replaces, f);

    if (err == 0) {
        step = NULL; /* it names itself */
        err = order_authorize(o, f);
    }
    if (err == 0) {
        step = "finalize";
        err = order_finalize(o, key, f);
    }
    if (err == 0) {
        step = "download";
        err = order_download(o, &chain, f);
    }
    if (err == 0) {
        step = "certificate";
        err = order_keep(o, &chain, key, f);
        acme_chain_fini(&chain);
    }
    if (err != 0 && step != NULL)
        acme_fail_in(f, step);
    return err;
}

int
acme_order_run(
    struct acme_client *c, const struct acme_wanted *w, const char *replaces, struct acme_fail *f)
{
    struct order o = {.c = c, .w = w};
    EVP_PKEY *key;
    int err = acme_account_ready(c, f);

    /* A key for this order alone, in memory until there is a certificate for it: an attempt that fails leaves no
     * key, and a key that leaked is gone with the next renewal. */
    if (err == 0)
        err = acme_key_new(c->set->key, &key, f);
    if (err != 0)
        return err;
    err = order_steps(&o, replaces, key, f);
    order_fini(&o);
    EVP_PKEY_free(key);
    return err;
}
