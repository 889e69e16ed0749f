/* acme_read.c -- what a CA answers.
 *
 * Only what is used is looked at; members of later RFCs are no error.  What is used is checked here, once, so that no
 * caller has to: a URL is https, a token is no path, a list has a bound. */
#include "daemon/acme/acme_read.h"

#include <stdio.h>
#include <string.h>

#include "daemon/acme/acme_time.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* RFC 8555 8.3.  It becomes the name of a file: this alphabet has neither a dot nor a slash. */
bool
acme_token_ok(const char *token)
{
    size_t len = strlen(token);

    return len >= 1 && len <= ACME_TOKEN_MAX &&
           strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == len;
}

const char *
acme_challenge_name(enum acme_challenge kind)
{
    return kind == ACME_HTTP_01 ? "http-01" : "tls-alpn-01";
}

/* A text member; NULL: it is no text. */
static const char *
read_text(const json_t *v, const char *name)
{
    return json_string_value(json_object_get(v, name));
}

static int
read_url(const json_t *v, const char *name, const char **out, struct acme_fail *f)
{
    const char *url = read_text(v, name);

    if (url == NULL)
        return acme_fail(
            f, TERR_SYNTAX, "the CA's answer has no text \"%s\"; an ACME CA has one", name);
    /* Requests that our key has signed go there: plain http would show them to anyone on the way. */
    if (!conf_acme_url_ok(url))
        return acme_fail(f, TERR_SYNTAX,
            "the CA's answer has a \"%s\" that is no https:// URL of at most %d bytes", name,
            ACME_URL_MAX - 1);
    *out = url;
    return 0;
}

static int
read_url_copy(const json_t *v, const char *name, char out[static ACME_URL_MAX], struct acme_fail *f)
{
    const char *url = "";
    int err = read_url(v, name, &url, f);

    if (err == 0)
        memcpy(out, url, strlen(url) + 1);
    return err;
}

int
acme_read_directory(const json_t *v, struct acme_urls *out, struct acme_fail *f)
{
    const json_t *meta = json_object_get(v, "meta");
    const char *terms = read_text(meta, "termsOfService");
    int err;

    *out = (struct acme_urls){.new_nonce = ""};
    /* Copied: the JSON goes, and these are used for as long as the client. */
    err = read_url_copy(v, "newNonce", out->new_nonce, f);
    if (err == 0)
        err = read_url_copy(v, "newAccount", out->new_account, f);
    if (err == 0)
        err = read_url_copy(v, "newOrder", out->new_order, f);
    if (err == 0 && json_object_get(v, "renewalInfo") != NULL)
        err = read_url_copy(v, "renewalInfo", out->renewal_info, f);
    /* For people only; nothing asks it. */
    if (terms != NULL)
        acme_printable(out->terms, sizeof(out->terms), terms);
    out->binding_required = json_is_true(json_object_get(meta, "externalAccountRequired"));
    return err;
}

/* Of orders, authorizations and challenges: no word means two things in them, and what cannot become valid any more
 * is one case here. */
static int
read_status(const json_t *v, enum acme_status *out, struct acme_fail *f)
{
    static const struct {
        const char *name;
        enum acme_status status;
    } rows[] = {{"pending", ACME_PENDING}, {"ready", ACME_READY}, {"processing", ACME_PROCESSING},
        {"valid", ACME_VALID}, {"invalid", ACME_INVALID}, {"deactivated", ACME_INVALID},
        {"expired", ACME_INVALID}, {"revoked", ACME_INVALID}};
    const char *text = read_text(v, "status");

    for (size_t i = 0; text != NULL && i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, text) == 0) {
            *out = rows[i].status;
            return 0;
        }
    /* An unknown one is an error and no wait: what a later RFC means by it is not known here. */
    return acme_fail(f, TERR_SYNTAX, "the CA's answer has no \"status\" of RFC 8555 7.1.6");
}

/* The view borrows from `v`. */
int
acme_read_order(const json_t *v, struct acme_order_view *out, struct acme_fail *f)
{
    const json_t *list = json_object_get(v, "authorizations");
    /* One for each name that was ordered: more than can be ordered are no answer to us. */
    size_t n = json_array_size(list);
    int err;

    *out = (struct acme_order_view){.nauthorizations = 0};
    acme_problem_read(json_object_get(v, "error"), &out->error);
    err = read_status(v, &out->status, f);
    if (err == 0 && (n == 0 || n > ACME_NAMES_MAX))
        err = acme_fail(f, TERR_SYNTAX,
            "the CA's order has %zu \"authorizations\"; 1 to %d would be right", n, ACME_NAMES_MAX);
    for (size_t i = 0; err == 0 && i < n; i++) {
        const char *url = json_string_value(json_array_get(list, i));

        if (url == NULL || !conf_acme_url_ok(url))
            err = acme_fail(
                f, TERR_SYNTAX, "the CA's order has an authorization that is no https:// URL");
        else
            out->authorizations[out->nauthorizations++] = url;
    }
    if (err == 0)
        err = read_url(v, "finalize", &out->finalize, f);
    if (err == 0 && json_object_get(v, "certificate") != NULL)
        err = read_url(v, "certificate", &out->certificate, f);
    return err;
}

static int
read_challenge(const json_t *v, struct acme_authz_view *out, struct acme_fail *f)
{
    int err = read_url(v, "url", &out->url, f);

    out->token = read_text(v, "token");
    if (err == 0 && (out->token == NULL || !acme_token_ok(out->token)))
        err = acme_fail(f, TERR_SYNTAX,
            "the CA's challenge has no \"token\" of 1 to %d letters of base64url", ACME_TOKEN_MAX);
    return err == 0 ? read_status(v, &out->challenge_status, f) : err;
}

int
acme_read_authz(
    const json_t *v, enum acme_challenge kind, struct acme_authz_view *out, struct acme_fail *f)
{
    const json_t *list = json_object_get(v, "challenges"), *identifier;
    int err;

    *out = (struct acme_authz_view){.name = NULL};
    err = read_status(v, &out->status, f);
    identifier = json_object_get(v, "identifier");
    out->name = read_text(identifier, "value");
    /* RFC 8738 has addresses, which are not ordered: a proof for one would be written for something else. */
    if (err == 0 && (out->name == NULL || read_text(identifier, "type") == NULL ||
                        strcmp(read_text(identifier, "type"), "dns") != 0))
        err = acme_fail(f, TERR_SYNTAX, "the CA's authorization is for no DNS name");
    /* A CA offers a handful; the bound is for one that does not end. */
    for (size_t i = 0; err == 0 && i < json_array_size(list) && i < ACME_NAMES_MAX; i++) {
        const json_t *c = json_array_get(list, i);
        const char *type = read_text(c, "type");

        /* Of any challenge: the CA may have tried another kind than ours, for an authorization that it reuses. */
        if (out->error.type[0] == '\0')
            acme_problem_read(json_object_get(c, "error"), &out->error);
        if (out->url == NULL && type != NULL && strcmp(type, acme_challenge_name(kind)) == 0)
            err = read_challenge(c, out, f);
    }
    return err;
}

/* In any order of members, with any offset of time zone (RFC 3339). */
int
acme_read_window(const json_t *v, int64_t *start_s, int64_t *end_s, struct acme_fail *f)
{
    const json_t *window = json_object_get(v, "suggestedWindow");
    const char *start = read_text(window, "start"), *end = read_text(window, "end");

    if (start == NULL || end == NULL || acme_stamp_read(slice_str(start), start_s) != 0 ||
        acme_stamp_read(slice_str(end), end_s) != 0)
        return acme_fail(
            f, TERR_SYNTAX, "the CA's answer has no \"suggestedWindow\" with two times");
    /* RFC 9773 4.2: one that ends before it starts is treated as none. */
    if (*start_s >= *end_s)
        return acme_fail(f, TERR_SYNTAX, "the CA's \"suggestedWindow\" ends before it starts");
    return 0;
}
