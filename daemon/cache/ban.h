/* ban.h -- "whatever matches this, and was fetched before now, is not good any more".
 *
 * A ban is an expression as Varnish has it (vcl(7), varnish-cli(7)):
 *
 *     FIELD OPERATOR ARGUMENT [&& FIELD OPERATOR ARGUMENT ...]
 *
 *   field      req.url, req.http.NAME, obj.http.NAME, obj.status (texts); obj.ttl, obj.age,
 *              obj.grace, obj.keep, obj.last_hit (durations)
 *   operator   texts: == != ~ !~; durations: == != > >= < <=
 *   argument   a word, or "quoted" with \" for a quote; a duration is a number with its unit
 *   completed  nothing is tested against it any more
 *   lurker     tests entries in the background, so that bans complete without lookups
 *
 * A field that is missing makes ==, ~ and !~ false, and != true.  Of a field with several lines
 * the first counts.  ttl, age and last_hit are as they were when the ban was added; an entry
 * that was never hit counts from its arrival.  An expression that takes too long to match holds:
 * a fetch too many does less harm than a page too old.
 *
 * Threads: any that is online for RCU; bans_lurk() on one at a time.  Memory: the list's own; the
 * management loop has the store charged for it.
 */
#ifndef TARN_BAN_H
#define TARN_BAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct bans; /* of a cache: cache_bans() */
struct clock;

enum {
    BAN_TEXT_MAX = 16384, /* of an expression: Varnish's command line takes no more */
    BAN_TESTS_MAX = 32,   /* in one: people write three */
    /* Of all bans, estimated: a million plain ones, or 200,000 with regular expressions; and not
     * more than a part of the store, for what is kept makes room for them. */
    BANS_BYTES_MAX = 512 << 20,
    BANS_SHARE = 8,
    BANS_SPARE = 64 << 10, /* behind that, for what must not be refused: purges of everything */
};

struct bans_conf {
    int64_t lurker_age_ms;   /* the lurker leaves younger ones to lookups */
    unsigned lurker_batch;   /* entries it looks at in one go */
    int64_t lurker_sleep_ms; /* between; 0: no lurker */
    unsigned cutoff;         /* entries behind so many bans are removed untested; 0: never */
    bool dups;               /* an older equal ban is completed by a new one */
};

/* Copied; from the next pass on. */
void bans_configure(struct bans *b, const struct bans_conf *conf);

/* 0: every lookup that begins from now on heeds it.  TERR_SYNTAX: `why` says what is wrong, and
 * what would be right; TERR_LIMIT: too many (why too); TERR_NOMEM. */
int bans_add(
    struct bans *b, struct slice expression, const struct clock *now, char *why, size_t why_size);

/* What the list takes now. */
uint64_t bans_bytes(struct bans *b);

/* The lurker's next step, short; returns after how many milliseconds it wants to be called
 * again, at least 1. */
int64_t bans_lurk(struct bans *b, int64_t now_ms);

struct ban_info {
    struct slice text; /* the expression, with single spaces */
    int64_t wall_ms;   /* when it was added */
    uint64_t refs;     /* entries that were last tested against this one */
    bool completed;
    bool of_request; /* has req.*: the lurker cannot test it */
};

/* Newest first; the callback's `info` is borrowed for its call.  True: go on. */
typedef bool bans_each_f(void *ctx, const struct ban_info *info);
void bans_each(struct bans *b, bans_each_f *each, void *ctx);

#endif
