/* acme_http.h -- one request to the CA and its answer, by libcurl: HTTPS only, bounded in size and time, no
 * redirects.
 *
 * Threads: one.  Blocks, for a minute at most, or until a signal asks for the end.
 */
#ifndef TARN_ACME_HTTP_H
#define TARN_ACME_HTTP_H

#include "daemon/acme/acme_read.h"
#include "daemon/base/span.h"

enum {
    ACME_NONCE_MAX = 512,
    ACME_ANSWER_MAX = 1 << 20, /* bytes of a body; a chain has some kilobytes */
};

struct acme_http;

struct acme_answer {
    long status;
    struct span body;            /* NUL behind it; owned */
    char nonce[ACME_NONCE_MAX];  /* Replay-Nonce; "": none, or none of base64url */
    char location[ACME_URL_MAX]; /* "": none, or no https:// URL */
    int64_t retry_after_s;       /* -1: none */
};

enum acme_method {
    ACME_GET,
    ACME_HEAD,
    ACME_POST,
};

/* `ca`: a file, or NULL.  Borrows env until acme_http_close(). */
int acme_http_open(
    struct acme_http **out, const char *ca, const struct acme_env *env, struct acme_fail *f);
void acme_http_close(struct acme_http **hp);

/* 0: an answer with any status, which the caller gives to acme_answer_fini().  `body` is for ACME_POST.
 * TERR_UNREACH: none came; TERR_LIMIT: too long; TERR_CANCELLED: a signal. */
int acme_http_ask(struct acme_http *h, enum acme_method method, const char *url, const char *body,
    struct acme_answer *out, struct acme_fail *f);
void acme_answer_fini(struct acme_answer *a);

/* Its body as a JSON object, which the caller gives to json_decref(); NULL: `f` says why. */
json_t *acme_answer_json(const struct acme_answer *a, struct acme_fail *f);

#endif
