/* tls_secret.h -- the secret of a day, of which the keys of its session tickets are made, and its file.
 *
 *   day      of UTC, since the epoch.  A day's secret leads to that of the next one (HKDF, RFC 5869), and not back
 *   seed     32 or more random bytes, as an operator makes them: the secret of the first day there is
 *   to renew a file: to write that of a later day in its place
 *
 * The file of a seed is renewed once, into three lines of text:
 *
 *     tarn-session-secret 1
 *     day 2026-11-23
 *     secret 5f0c...           32 bytes in hexadecimal digits
 *
 * Copies of a file, however old, come to the same secret of a day.  So nodes and processes may share one file, or
 * have a copy each, and all renew them alike.
 *
 * Threads: any.  Files block.  Errors: TERR_*, with a sentence in `why`.
 */
#ifndef TARN_TLS_SECRET_H
#define TARN_TLS_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum {
    TLS_SECRET = 32, /* bytes */
    TLS_SECRET_SEED_MAX = 4096,
    TLS_SECRET_TEXT = 128,          /* a file's text fits, with the NUL behind it */
    TLS_TICKET_PERIOD_S = 4 * 3600, /* one key seals for so long */
    TLS_TICKET_DAY_PERIODS = 6,     /* of a day */
};

struct tls_secret {
    int64_t day;
    unsigned char bytes[TLS_SECRET];
};

/* The day that a secret must be of at this time: that of the period before, which is accepted still. */
int64_t tls_secret_day(int64_t now_s);
/* "2026-11-23"; any day. */
void tls_secret_date(int64_t day, char out[32]);

/* That of the first day.  False: no memory. */
bool tls_secret_seed(const void *seed, size_t len, struct tls_secret *out);
/* That of `day`, if it is a later one.  False: no memory, and nothing has changed. */
bool tls_secret_advance(struct tls_secret *s, int64_t day);
/* HKDF-Expand (RFC 5869 2.3) of at most one block, for a purpose and a number.  False: no memory. */
bool tls_secret_derive(const struct tls_secret *s, const char *purpose, int64_t number,
    unsigned char *out, size_t len);
/* Do both lead to the same secrets? */
bool tls_secret_same(const struct tls_secret *a, const struct tls_secret *b);

/* A file's content.  0, TERR_CONFIG or TERR_NOMEM. */
int tls_secret_parse(struct slice text, struct tls_secret *out, char *why, size_t why_len);
/* The length of the text. */
size_t tls_secret_print(const struct tls_secret *s, char out[TLS_SECRET_TEXT]);

/* A file that every user may read or write is refused. */
int tls_secret_read(const char *file, struct tls_secret *out, char *why, size_t why_len);

/* 1: the file had one of a day before `day`, and has that of `day` now, or the old content after a crash, and never
 * anything else.  0: it had one of that day, or of a later one.  TERR_AGAIN: another process is about to renew it.
 * TERR_DENIED: it cannot be renewed, and is as it was; TERR_CONFIG, TERR_NOMEM as when it is read. */
int tls_secret_renew(const char *file, int64_t day, char *why, size_t why_len);

#endif
