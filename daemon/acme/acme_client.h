/* acme_client.h -- a conversation with one CA: its directory, nonces, signed requests, the account.
 *
 * Threads: one.  Blocks.
 */
#ifndef TARN_ACME_CLIENT_H
#define TARN_ACME_CLIENT_H

#include "daemon/acme/acme_dir.h"
#include "daemon/acme/acme_http.h"
#include "daemon/acme/acme_key.h"

struct acme_client {
    const struct acme_settings *set; /* borrowed, as dir and env */
    const struct acme_dir *dir;
    const struct acme_env *env;
    struct acme_http *http;
    struct acme_urls urls;
    EVP_PKEY *key;          /* the account's; NULL: not read yet */
    char kid[ACME_URL_MAX]; /* the account; "": not known yet */
    char nonce[ACME_NONCE_MAX];
};

/* Reads the CA's directory.  0 and a client for acme_client_close(); else nothing is left. */
int acme_client_open(struct acme_client *c, const struct acme_settings *set,
    const struct acme_dir *dir, const struct acme_env *env, struct acme_fail *f);
void acme_client_close(struct acme_client *c);

/* A GET that is not signed, repeated where no answer comes.  0: a 2xx. */
int acme_client_get(
    struct acme_client *c, const char *url, struct acme_answer *out, struct acme_fail *f);
/* A signed POST; `payload` NULL: POST-as-GET (RFC 8555 6.3).  It is repeated with a new nonce after badNonce,
 * and where no answer comes or a fault of the CA does; bounded.  0: a 2xx, which the caller gives to
 * acme_answer_fini(). */
int acme_client_post(struct acme_client *c, const char *url, const json_t *payload,
    struct acme_answer *out, struct acme_fail *f);
/* The same for an answer that is JSON; the caller gives *out to json_decref().  *head is the answer without
 * its body, and may be NULL. */
int acme_client_post_json(struct acme_client *c, const char *url, const json_t *payload,
    json_t **out, struct acme_answer *head, struct acme_fail *f);
/* Waits; TERR_CANCELLED: a signal. */
int acme_client_pause(const struct acme_client *c, unsigned ms, struct acme_fail *f);

/* ---- acme_account.c ---- */

/* The key and the account that the state directory has for this CA, or new ones. */
int acme_account_ready(struct acme_client *c, struct acme_fail *f);
/* The CA does not know it: the next acme_account_ready() makes another. */
void acme_account_forget(struct acme_client *c);

#endif
