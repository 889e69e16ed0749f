/* why_priv.h -- what the two files of an explanation share. */
#ifndef TARN_WHY_PRIV_H
#define TARN_WHY_PRIV_H

#include "daemon/cache/cache.h"
#include "daemon/why/synthetic.h"
#include "daemon/why/why.h"

struct why {
    struct policies *ps;
    struct synthetic_request *synthetic;
    struct req *r;
    int64_t now_ms;
    bool was_here, loops; /* by the request as it came, not as a policy makes it: req_loop.c */
    json_t *text;         /* sentences */
    json_t *steps;        /* what the policy was asked, and said */
    struct entry *page;   /* borrowed: it would be put together (ESI); NULL: none would */
};

/* What a lookup would come to. */
struct why_lookup {
    enum cache_verdict verdict;
    struct cache_answer answer;
    bool fetches;
    const struct entry *marker; /* heeded; NULL: none */
};

/* why_text.c: sentences for the operator. */
void why_say(struct why *y, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void why_say_lookup(struct why *y, const struct why_lookup *l);
void why_say_backend(struct why *y);
void why_say_rules(struct why *y);  /* of its route */
void why_say_secure(struct why *y); /* what its policy sees of TLS, if it looks */
void why_say_limits(struct why *y); /* of the configuration */
/* What is stored under the request's key, as JSON, and in words what is said of each. */
json_t *why_stored(struct why *y, const struct cache_query *q);
json_t *why_removal(struct why *y); /* of the key; NULL: nothing is known */

/* Questions about a page and its includes. */
struct why_tree {
    unsigned level, left; /* of the page; includes that may be asked about, at all levels */
    const struct why_field *fields;
    unsigned nfields;
};
int why_ask(
    struct policies *ps, struct slice url, struct why_tree *tree, json_t **out, const char **why);
/* why_esi.c: what the includes of y->page would come to, in order; and in words, as a tree. */
json_t *why_includes(struct why *y, struct why_tree *tree);

#endif
