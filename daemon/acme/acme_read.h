/* acme_read.h -- what a CA answers, as JSON: read with bounds, nothing believed.
 *
 * Texts of a view are borrowed from the JSON that it was read from.  Threads: any.
 */
#ifndef TARN_ACME_READ_H
#define TARN_ACME_READ_H

#include "daemon/acme/acme_problem.h"

enum {
    ACME_TOKEN_MAX = 200, /* letters; RFC 8555 8 has 22 at least, CAs send 43 */
};

/* RFC 8555 7.1.1 */
struct acme_urls {
    char new_nonce[ACME_URL_MAX], new_account[ACME_URL_MAX], new_order[ACME_URL_MAX];
    char renewal_info[ACME_URL_MAX]; /* "": the CA has none */
    char terms[ACME_URL_MAX];        /* printable; "": none */
    bool binding_required;           /* an external account */
};

/* RFC 8555 7.1.6, of orders, authorizations and challenges. */
enum acme_status {
    ACME_PENDING,
    ACME_READY,
    ACME_PROCESSING,
    ACME_VALID,
    ACME_INVALID, /* and deactivated, expired, revoked */
};

struct acme_order_view {
    enum acme_status status;
    unsigned nauthorizations; /* 1 to ACME_NAMES_MAX */
    const char *authorizations[ACME_NAMES_MAX];
    const char *finalize;
    const char *certificate; /* NULL: there is none yet */
    struct acme_problem error;
};

struct acme_authz_view {
    enum acme_status status;
    const char *name;
    /* the challenge of the wanted kind; `url` NULL: the CA offers none */
    const char *url, *token;
    enum acme_status challenge_status;
    struct acme_problem error; /* of the first challenge that has one */
};

/* Is it a token: 1 to ACME_TOKEN_MAX letters of base64url, so that it can be a file's name? */
bool acme_token_ok(const char *token);

int acme_read_directory(const json_t *v, struct acme_urls *out, struct acme_fail *f);
int acme_read_order(const json_t *v, struct acme_order_view *out, struct acme_fail *f);
int acme_read_authz(
    const json_t *v, enum acme_challenge kind, struct acme_authz_view *out, struct acme_fail *f);
/* RFC 9773 4.2: start < end. */
int acme_read_window(const json_t *v, int64_t *start_s, int64_t *end_s, struct acme_fail *f);

const char *acme_challenge_name(enum acme_challenge kind); /* "http-01" */

#endif
