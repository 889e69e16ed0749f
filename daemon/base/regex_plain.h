/* regex_plain.h -- patterns that need no regular expression engine.
 *
 *   plain   a pattern that is one class of bytes, or a few words, perhaps anchored: "[[:upper:]]",
 *           "^/admin", "\.css$", "(?i)\.(png|jpg)$"
 *   word    bytes that must stand there as they are
 *
 * Most patterns of policies are plain, and some run on every request.  The answer is PCRE's,
 * byte for byte (t/unit/regex_test.c asks both).  For regex.c and its test only.
 *
 * Threads: a parsed pattern never changes.  Errors: what is not plain, or has no memory, has kind
 * REGEX_PLAIN_NONE.
 */
#ifndef TARN_REGEX_PLAIN_H
#define TARN_REGEX_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum regex_plain_kind {
    REGEX_PLAIN_NONE,    /* PCRE must be asked */
    REGEX_PLAIN_CLASS,   /* one byte that is in `set` */
    REGEX_PLAIN_LITERAL, /* one word, anywhere, case counts */
    REGEX_PLAIN_WORDS,   /* any of the words, where the anchors allow */
};

enum {
    REGEX_PLAIN_WORDS_MAX = 64,   /* more are better left to PCRE's own tree */
    REGEX_PLAIN_BYTES_MAX = 1024, /* of all words together: bounds the time of a search */
};

struct regex_plain {
    enum regex_plain_kind kind;
    bool at_start, at_end;        /* ^ and $ */
    bool nocase;                  /* (?i): words are in lower case */
    bool captures;                /* has a group whose place somebody may want */
    bool may_be_empty;            /* one of the words is */
    bool is_range;                /* CLASS: the set is lo to hi, below 128 */
    uint64_t from_add, above_add; /* is_range: see regex_plain_has_range() */
    unsigned nwords;
    struct slice *words; /* owned, one block with their bytes */
    uint8_t set[256];    /* CLASS: members; WORDS: bytes that a word begins with (at_end: ends) */
};

/* Words; a class is left to regex_plain_class(). */
void regex_plain_parse(struct regex_plain *p, struct slice pattern);
/* Is the whole pattern one class of bytes, as [a-z] or \d?  Which bytes those are is asked of
 * PCRE by the caller, who then calls regex_plain_set(). */
bool regex_plain_is_class(struct slice pattern);
/* p->set is filled. */
void regex_plain_set(struct regex_plain *p);
void regex_plain_fini(struct regex_plain *p);

bool regex_plain_match(const struct regex_plain *p, struct slice subject);
/* The leftmost match that begins at `from` or later, in *out. */
bool regex_plain_find(
    const struct regex_plain *p, struct slice subject, size_t from, struct slice *out);

#endif
