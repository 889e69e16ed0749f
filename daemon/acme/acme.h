/* acme.h -- what the parts of tarn-acme share: its settings, its exit status, and why a step failed.
 *
 *   certificate   what the program keeps fresh: a chain and its key in one file, for one or more names
 *   name          a DNS name; a certificate is called by its first one
 *   pass          one look at every certificate, with what it needs done
 *
 * Private to acme/ and its tests.  Threads: one.
 */
#ifndef TARN_ACME_H
#define TARN_ACME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"

enum {
    ACME_NAMES_MAX = CONF_ACME_NAMES_MAX, /* of one certificate */
    ACME_CERTS_MAX = 1000,
    ACME_NAME_MAX = CONF_ACME_NAME_MAX,
    ACME_URL_MAX = CONF_ACME_URL_MAX,
    ACME_TEXT_MAX = 1024,
    ACME_EAB_MAX = 512,
};

enum acme_exit {
    ACME_DONE = 0,
    ACME_FAILED = 1,
    ACME_USAGE = 2,
    ACME_BUSY = 3,
    ACME_STATE = 4,
};

enum acme_challenge {
    ACME_HTTP_01,
    ACME_TLS_ALPN_01,
};

enum acme_key_kind {
    ACME_ECDSA, /* P-256 */
    ACME_RSA,   /* 2048 bits */
};

/* One certificate as it is wanted. */
struct acme_wanted {
    const char **names; /* lower case, distinct; owned with their texts */
    unsigned nnames;    /* 1 to ACME_NAMES_MAX */
};

/* What the command line says, and what the configuration says of the rest.  Texts are borrowed: of the
 * command line, or of `conf`. */
struct acme_settings {
    const struct conf *conf; /* owned; NULL: none was read */
    const char *state;       /* the state directory */
    const char *directory;   /* the CA's, https:// */
    const char *email;       /* NULL: the account has no contact */
    const char *ca;   /* a file of CAs that the CA's own server is checked by; NULL: the system's */
    const char *hook; /* a shell command; NULL: none */
    const char *admin, *token; /* where tarnd's admin listener is, for the hook; NULL: not known */
    const char *user;          /* who owns a state directory that root makes; NULL: root */
    const char *eab_kid;       /* external account binding (RFC 8555 7.3.4); NULL: none */
    unsigned char eab_key[ACME_EAB_MAX];
    unsigned eab_key_bytes;
    enum acme_challenge challenge;
    enum acme_key_kind key;
    unsigned renew_before_days; /* 0: by the CA's renewal information, else a third of the life */
    bool agree_tos, dry_run, once, retry;
    struct acme_wanted *wanted; /* owned */
    unsigned nwanted;
};

/* What the program gets of the machine; tests have another clock. */
struct acme_env {
    int64_t (*now_s)(void); /* since 1970 */
    void (*pause_ms)(unsigned ms);
    bool (*stopped)(void); /* a signal asks for the end */
};

/* Why a step failed, for the operator and for the next attempt. */
struct acme_fail {
    char text[ACME_TEXT_MAX]; /* which step, what the other side says, what would be right */
    char type[64];            /* of a problem document, without urn:ietf:params:acme:error: */
    int64_t
        retry_after_s; /* seconds from now that the server wants us to wait; -1: it names none */
    bool stopped;      /* a signal ended it: this is no failure of the certificate */
};

/* Says why; the first reason stays, a later call adds nothing.  Returns `err`, a TERR_*. */
__attribute__((format(printf, 3, 4))) int acme_fail(
    struct acme_fail *f, int err, const char *fmt, ...);
/* Puts "STEP: " in front of it. */
void acme_fail_in(struct acme_fail *f, const char *step);
void acme_fail_init(struct acme_fail *f);

/* "tarn-acme: ..." on standard error: what is wrong; and on standard output: what is so now. */
__attribute__((format(printf, 1, 2))) void acme_say(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void acme_report(const char *fmt, ...);

/* Text of a peer as a terminal may show it: one line, printable ASCII, at most `size` - 1 bytes. */
void acme_printable(char *out, size_t size, const char *text);

#endif
