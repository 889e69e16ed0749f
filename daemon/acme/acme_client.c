/* acme_client.c -- a conversation with one CA.
 *
 * What is repeated, and what is not: a nonce that the CA refuses, at once; no answer, or a fault of the CA without a
 * Retry-After, after a second or two; all else is the next pass's, which knows how often it has failed. */
#include "daemon/acme/acme_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/acme/acme_jws.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

enum {
    NONCES_MAX = 12, /* tries with a nonce that the CA had just given */
    TRIES_MAX = 3,   /* where no answer comes, or a fault of the CA */
    PAUSE_MS = 1000, /* doubled each time */
    SLICE_MS = 200,  /* a signal is seen so soon */
};

int
acme_client_pause(const struct acme_client *c, unsigned ms, struct acme_fail *f)
{
    /* In slices: a signal between the test and the sleep would else be seen when the sleep is over. */
    for (; ms > 0 && !c->env->stopped(); ms -= ms < SLICE_MS ? ms : SLICE_MS)
        c->env->pause_ms(ms < SLICE_MS ? ms : SLICE_MS);
    if (!c->env->stopped())
        return 0;
    f->stopped = true;
    return acme_fail(f, TERR_CANCELLED, "stopped by a signal");
}

/* The reason of an answer that is no 2xx.  The CA's words reach the operator whole: rate limits and policies differ,
 * and only the detail says what to do. */
static int
client_refused(const struct acme_answer *a, struct acme_fail *f)
{
    char why[128];
    struct acme_problem p;
    json_t *v;

    /* RFC 8555 6.6: of any error, a rate limit's most of all; the next attempt keeps to it. */
    f->retry_after_s = a->retry_after_s;
    /* A redirect would take a signed request to another server: it is a misconfiguration, or an attack. */
    if (a->status >= 300 && a->status < 400)
        return acme_fail(f, TERR_UPSTREAM,
            "the CA answers HTTP %ld, a redirect, which is not followed; --directory must be the "
            "CA's own "
            "URL",
            a->status);
    v = a->body.len > 0 ? json_parse(slice_of(a->body.ptr, a->body.len), why, sizeof(why)) : NULL;
    acme_problem_read(v, &p);
    json_decref(v);
    return acme_problem_fail(f, &p, a->status);
}

/* Is it worth to ask again within seconds?  Not where the CA says when it wants to be asked. */
static bool
client_is_fault(int err, const struct acme_answer *a)
{
    /* Neither a signal nor an answer that is too long gets better by asking again. */
    if (err != 0)
        return err == TERR_UNREACH;
    return a->status >= 500 && a->retry_after_s < 0;
}

/* One exchange with its repetitions.  What the CA answers last is in *out, when 0. */
static int
client_exchange(struct acme_client *c, enum acme_method method, const char *url, const char *body,
    struct acme_answer *out, struct acme_fail *f)
{
    unsigned pause_ms = PAUSE_MS;
    struct acme_fail first;
    int err;

    for (unsigned i = 1;; i++, pause_ms *= 2) {
        acme_fail_init(&first);
        err = acme_http_ask(c->http, method, url, body, out, &first);
        /* A POST has a nonce, which the CA may have taken: that one is signed anew by the caller. */
        if (method == ACME_POST || !client_is_fault(err, out) || i == TRIES_MAX)
            break;
        if (err == 0)
            acme_answer_fini(out);
        err = acme_client_pause(c, pause_ms, f);
        if (err != 0)
            return err;
    }
    /* A pause that succeeded has said nothing: the last exchange's reason is the one. */
    if (err != 0) {
        f->stopped |= first.stopped;
        return acme_fail(f, err, "%s", first.text);
    }
    /* Errors bring one, too (RFC 8555 6.5): so most requests need no question for a nonce.  The last one counts: older
     * ones may have run out. */
    if (out->nonce[0] != '\0')
        snprintf(c->nonce, sizeof(c->nonce), "%s", out->nonce);
    return 0;
}

int
acme_client_get(
    struct acme_client *c, const char *url, struct acme_answer *out, struct acme_fail *f)
{
    int err = client_exchange(c, ACME_GET, url, NULL, out, f);

    if (err == 0 && out->status / 100 != 2) {
        err = client_refused(out, f);
        acme_answer_fini(out);
    }
    return err;
}

int
acme_client_open(struct acme_client *c, const struct acme_settings *set, const struct acme_dir *dir,
    const struct acme_env *env, struct acme_fail *f)
{
    struct acme_answer a;
    json_t *v = NULL;
    int err;

    *c = (struct acme_client){.set = set, .dir = dir, .env = env};
    /* The directory is asked for anew by each pass: a CA may move its resources (RFC 8555 7.1.1), and an answer
     * that was kept would be believed for as long as the process lives. */
    err = acme_http_open(&c->http, set->ca, env, f);
    if (err == 0)
        err = acme_client_get(c, set->directory, &a, f);
    if (err == 0) {
        v = acme_answer_json(&a, f);
        err = v == NULL ? TERR_SYNTAX : acme_read_directory(v, &c->urls, f);
        json_decref(v);
        acme_answer_fini(&a);
    }
    if (err != 0) {
        acme_fail_in(f, "the CA's directory");
        acme_client_close(c);
    }
    return err;
}

void
acme_client_close(struct acme_client *c)
{
    EVP_PKEY_free(c->key);
    c->key = NULL;
    acme_http_close(&c->http);
}

/* RFC 8555 7.2; used once, so it is taken from the client. */
static int
client_nonce(struct acme_client *c, char out[static ACME_NONCE_MAX], struct acme_fail *f)
{
    struct acme_answer a;
    int err;

    if (c->nonce[0] == '\0') {
        err = client_exchange(c, ACME_HEAD, c->urls.new_nonce, NULL, &a, f);
        if (err != 0)
            return err;
        acme_answer_fini(&a);
        if (a.status / 100 != 2) {
            f->retry_after_s = a.retry_after_s;
            return acme_fail(
                f, TERR_UPSTREAM, "the CA answers HTTP %ld instead of a nonce", a.status);
        }
        if (c->nonce[0] == '\0')
            return acme_fail(
                f, TERR_UPSTREAM, "the CA's newNonce answers without a Replay-Nonce field");
    }
    memcpy(out, c->nonce, sizeof(c->nonce));
    /* Taken before it is sent: whether or not an answer comes, the CA has it, and takes it no second time. */
    c->nonce[0] = '\0';
    return 0;
}

/* Signs and sends once. */
static int
client_post_once(struct acme_client *c, const char *url, const char *payload,
    struct acme_answer *out, struct acme_fail *f)
{
    char nonce[ACME_NONCE_MAX], *body;
    /* With the account's URL as kid, or, for newAccount alone, with the key itself (RFC 8555 6.2). */
    struct acme_jws j = {
        .key = c->key, .kid = c->kid[0] != '\0' ? c->kid : NULL, .nonce = nonce, .url = url};
    int err = client_nonce(c, nonce, f);

    if (err != 0)
        return err;
    body = acme_jws(&j, slice_str(payload));
    if (body == NULL)
        return acme_fail(f, TERR_IO, "a request cannot be signed: %s", acme_key_why());
    /* Signed for each try: the nonce is in what is signed. */
    err = client_exchange(c, ACME_POST, url, body, out, f);
    free(body);
    return err;
}

/* By its type and not by the status: 400 is also the answer to a request that is wrong. */
static bool
client_is_bad_nonce(const struct acme_answer *a)
{
    char why[128];
    struct acme_problem p;
    json_t *v;

    if (a->status != 400 || a->body.len == 0)
        return false;
    v = json_parse(slice_of(a->body.ptr, a->body.len), why, sizeof(why));
    acme_problem_read(v, &p);
    json_decref(v);
    return strcmp(p.type, "badNonce") == 0;
}

static int
client_post_text(struct acme_client *c, const char *url, const char *payload,
    struct acme_answer *out, struct acme_fail *f)
{
    unsigned nonces = 1, tries = 1, pause_ms = PAUSE_MS;
    struct acme_fail why;
    int err;

    for (;;) {
        acme_fail_init(&why);
        err = client_post_once(c, url, payload, out, &why);
        /* The only refusal that is repeated at once: the request itself was right. Bounded, for a CA may
         * refuse all. */
        if (err == 0 && client_is_bad_nonce(out) && nonces++ < NONCES_MAX) {
            acme_answer_fini(out); /* the refusal brought the next nonce (RFC 8555 6.5) */
            continue;
        }
        if (why.stopped || !client_is_fault(err, out) || tries++ == TRIES_MAX)
            break;
        if (err == 0)
            acme_answer_fini(out);
        err = acme_client_pause(c, pause_ms, &why);
        if (err != 0)
            break;
        pause_ms *= 2;
    }
    if (err == 0)
        return 0;
    f->stopped |= why.stopped;
    f->retry_after_s = why.retry_after_s;
    return acme_fail(f, err, "%s", why.text);
}

int
acme_client_post(struct acme_client *c, const char *url, const json_t *payload,
    struct acme_answer *out, struct acme_fail *f)
{
    /* POST-as-GET has a payload of no bytes (RFC 8555 6.3), and so reads what is not public. */
    char *text = payload != NULL ? json_dumps(payload, JSON_COMPACT) : strdup("");
    int err;

    if (text == NULL)
        return acme_fail(f, TERR_NOMEM, "out of memory");
    err = client_post_text(c, url, text, out, f);
    /* A caller sees an answer that is a success, or none. */
    free(text);
    if (err == 0 && out->status / 100 != 2) {
        err = client_refused(out, f);
        acme_answer_fini(out);
    }
    return err;
}

int
acme_client_post_json(struct acme_client *c, const char *url, const json_t *payload, json_t **out,
    struct acme_answer *head, struct acme_fail *f)
{
    struct acme_answer a;
    int err = acme_client_post(c, url, payload, &a, f);

    if (err != 0)
        return err;
    *out = acme_answer_json(&a, f);
    acme_answer_fini(&a);
    if (head != NULL)
        *head = a;
    return *out != NULL ? 0 : TERR_SYNTAX;
}
