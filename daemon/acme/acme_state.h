/* acme_state.h -- state.json: what happened to each certificate, and when it is looked at again.
 *
 *     { "version": 1, "hook_due": ["NAME"...], "certificates": { "NAME": { ... } } }
 *
 * Times are seconds since 1970; readers ignore what they do not know.  Threads: one.
 */
#ifndef TARN_ACME_STATE_H
#define TARN_ACME_STATE_H

#include "daemon/acme/acme_cert.h"
#include "daemon/acme/acme_dir.h"

struct acme_state;

struct acme_record {
    int64_t last_attempt_s,
        next_attempt_s; /* 0: none; without failures the next one is the renewal */
    unsigned failures;  /* in a row */
    char last_error[ACME_TEXT_MAX];
    char directory[ACME_URL_MAX]; /* the CA that gave the present certificate; "": not known */
    int64_t not_after_s;          /* of the present certificate; 0: none */
    /* the CA's renewal information (RFC 9773) */
    char certid[ACME_CERTID_SIZE]; /* what it is for; another certificate needs another */
    int64_t ari_start_s, ari_end_s, ari_chosen_s; /* 0: none */
    int64_t ari_next_s;                           /* when it is requested again */
};

/* What the file says; where it is not there or no JSON, nothing. */
int acme_state_open(struct acme_state **out, const struct acme_dir *dir, struct acme_fail *f);
void acme_state_close(struct acme_state **sp);
/* All zeros for a name that it does not have. */
void acme_state_get(const struct acme_state *s, const char *name, struct acme_record *out);
/* Into the file, too.  0, TERR_IO. */
int acme_state_put(struct acme_state *s, const char *name, const struct acme_record *r,
    const struct acme_wanted *w, struct acme_fail *f);

/* Certificates that changed since the hook last ran: names with spaces between them, which the caller frees;
 * NULL: none. */
char *acme_state_hook_due(const struct acme_state *s);
void acme_state_hook_add(struct acme_state *s, const char *name); /* written with the next put */
int acme_state_hook_done(struct acme_state *s, struct acme_fail *f);

#endif
