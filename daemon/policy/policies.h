/* policies.h -- the policies of the process: loaded, labelled, in use, discarded.
 *
 *   policy   one compiled text with its backends and directors, under a name
 *   active   the one that new requests begin with
 *   label    a name that stands for a policy, for return(vcl(LABEL)); may be moved
 *   set      what workers see: the active policy and the labels, replaced as a whole (RCU)
 *
 * A request keeps the policy it began with.  A policy that was discarded goes when its last request
 * has ended: workers say so within a second.
 *
 * Threads: the management thread, except policies_set(), which workers call.  Errors: TERR_*.
 */
#ifndef TARN_POLICIES_H
#define TARN_POLICIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct cache;
struct conf;
struct backend_snapshot;
struct conf_params;
struct policies;
struct policy;
struct policy_set;
struct registry;
struct storage;
struct vcl_error;

/* Policies are loaded with the registry's snapshot.  Borrows everything until policies_close; cache and storage NULL: to check texts.  No policy is
 * active. */
int policies_open(
    struct policies **out, struct registry *registry, struct cache *cache, struct storage *storage);
/* Our name in CDN-Loop, borrowed for ever: policies_why() looks for it. */
void policies_set_loop_id(struct policies *ps, struct slice loop_id);
struct peers;
void policies_set_peers(struct policies *ps, struct peers *peers); /* NULL: none; likewise */
/* No worker runs any more, and the cache has been closed: responses of a policy's making hold it. */
void policies_close(struct policies **pp);

bool policies_name_ok(const char *name); /* of a policy or a label */
/* Compiles, makes its backends and runs vcl_init.  `file_name` stands in messages, and includes are
 * sought beside it.  0, *errors has warnings or is NULL; TERR_CONFIG and *errors (vcl_errors_free);
 * TERR_EXISTS: the name is taken; TERR_SYNTAX: it is no name; TERR_LIMIT; TERR_NOMEM. */
int policies_load(struct policies *ps, const char *name, const char *file_name, struct slice text,
    struct vcl_error **errors);
/* As above from a file; TERR_NOTFOUND with *why when it cannot be read. */
int policies_load_file(struct policies *ps, const char *name, const char *path,
    struct vcl_error **errors, const char **why);
int policies_use(struct policies *ps, const char *name); /* TERR_NOTFOUND; a label will do */
/* TERR_NOTFOUND; TERR_BUSY: active, labelled, or named by another policy. */
int policies_discard(struct policies *ps, const char *name);
/* TERR_NOTFOUND; TERR_EXISTS: `label` is a policy's name; TERR_SYNTAX; TERR_LIMIT: the policy goes
 * to labels itself, which would not end. */
int policies_label(struct policies *ps, const char *label, const char *name);
int policies_unlabel(struct policies *ps, const char *label);

struct policy_seen {
    const char *name, *file;
    const char *state;    /* "active", "warm", "discarded" */
    const char *label_of; /* a label: the policy's name; else NULL */
    unsigned workers;     /* that have requests of it, or may begin some */
    double loaded_s;      /* wall clock */
};
void policies_each(
    struct policies *ps, void (*f)(void *ctx, const struct policy_seen *seen), void *ctx);

/* What the active policy makes of parameters that neither the file nor an operator set: the values in force. */
void policies_params(const struct policies *ps, struct conf_params *params);

/* The number that nodes of a fleet compare: policy_rules() of the active policy, or of none. */
uint64_t policies_rules(const struct policies *ps);
/* Of the texts of the one with this name, the same in every process that has them; 0: there is none. */
uint64_t policies_digest_of(struct policies *ps, const char *name);

/* What workers look at. */
_Atomic(struct policy_set *) *policies_set(struct policies *ps);
/* The policy of the configuration, under the name "boot"; says what is wrong in the log.  Without
 * one nothing is done.  0, or TERR_*. */
int policies_boot(struct policies *ps);

/* What a reload of the configuration made of the policies. */
struct policies_became {
    char name[80], before[80]; /* of the active policy, now and before; "": none */
    const char *file;          /* of the active one, borrowed until the next call; "" */
    bool of_file;              /* it is the configuration's own */
    bool text_changed;         /* the configuration's text or file was another: it was taken */
    char said[256];            /* "kept X, loaded by hand" */
};
/* The configuration was read anew.  Its policy is taken, under the name "boot.N", when its text, with
 * what it includes, is not what it was when that file was last loaded; the one of before is discarded
 * then, unless it has a label.  Else the active policy stays, and where `origins_changed` it and those
 * with a label are compiled again from the same texts, for the backends that there are now.  Policies
 * are loaded with `u`, which is held, from now on.  0 and *became; or as policies_load_file(), with the
 * policy's file or name in *what, and nothing has changed. */
int policies_reload(struct policies *ps, struct backend_snapshot *u, bool origins_changed,
    struct policies_became *became, struct vcl_error **errors, const char **what, const char **why);
/* Frees what has been discarded and is no longer used.  Once a second. */
void policies_tick(struct policies *ps);

/* Reads and compiles the policy of the configuration, prints what is wrong; 0, or how many errors
 * there are. */
unsigned policies_check(
    const struct conf *conf, void (*write)(void *ctx, const char *text), void *ctx);

#endif
