/* policies_priv.h -- what the registry of policies and their loading share. */
#ifndef TARN_POLICIES_PRIV_H
#define TARN_POLICIES_PRIV_H

#include "daemon/cache/invalidation.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/policy/policies.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/policy_source.h"

enum {
    POLICIES_MAX = 256,        /* loaded at a time, discarded ones that are still run included */
    POLICY_LABELS_MAX = 256,   /* labels */
    POLICY_NAME_MAX = 64,      /* bytes of a name */
    POLICY_FILE_MAX = 4 << 20, /* bytes of a text */
};

struct policy_tag {
    char *name;
    struct policy *policy;
    struct policy_tag *next;
};

#define POLICIES_MAGIC OBJ_TAG('p', 'l', 's', '.')
struct policies {
    uint32_t magic;
    struct registry *registry;
    struct backend_snapshot *snapshot; /* held: those that policies are loaded with */
    struct cache *cache;
    struct storage *storage;
    struct policy *all; /* the newest first */
    struct policy_tag *labels;
    struct policy *active, *of_file; /* of_file: the configuration's own; NULL: none */
    struct policy_source *last_file; /* held: the configuration's, when it was last loaded */
    /* during a load */
    struct policy_source *recorded; /* borrowed: keeps what is read */
    struct policy_source *replayed; /* borrowed: what is read comes from here, not from files */
    struct slice loop_id;           /* for explanations: our name in CDN-Loop; borrowed for ever */
    struct peers *peers;            /* likewise: the other nodes of the fleet, or NULL; borrowed */
    bool sent; /* the text comes from an operator, not from the configuration */
    unsigned nreloads;
    unsigned npolicies, nlabels;
    uint64_t generation;
    _Atomic(struct policy_set *) set; /* RCU */
};

/* What the file said with which policies are loaded. */
static inline const struct conf *
policies_conf(const struct policies *ps)
{
    return snapshot_conf(ps->snapshot);
}

/* policy_load.c: one text, whole, or what is wrong with it. */
int policy_new(struct policy **out, struct policies *ps, const char *name, const char *file,
    struct slice text, struct vcl_error **errors);
/* The files of now.  Neither records nor replays outside of a load. */
struct policy_reader policy_reader(struct policies *ps);
/* No request runs it any more: vcl_fini, and all goes. */
void policy_free(struct policy **pp);
struct policy_tag *policies_find_label(struct policies *ps, const char *label);
/* policy_purge.c, struct invalidation_resolver: what a request for this URL ("http://host/path") with these
 * fields is stored under, by the active policy's vcl_hash. */
int policies_resolve(
    void *ctx, const struct invalidation *inv, struct hash128 *key, const char **why);

/* policies.c, for policies_reload.c */
struct policy *policies_find(struct policies *ps, const char *name);
void policies_link(struct policies *ps, struct policy *pol); /* takes it, as the newest */
/* What workers see is replaced as a whole.  0 or TERR_NOMEM, and nothing has changed. */
int policies_publish(struct policies *ps, struct policy *active);
/* It goes when its last request has ended.  It is neither active nor labelled. */
void policies_let_go(struct policies *ps, struct policy *pol);

/* policy_world.c: vcl_init and vcl_fini; files for std.fileread.  Whether it says ok. */
bool policy_run_init(struct policy *pol, enum vcl_sub sub, struct vcl_run *run);
void policy_free_objects(struct policy *pol);
void policy_free_files(struct policy *pol);
int policy_hold(struct policy *pol, struct director *d); /* takes the hold.  0 or TERR_NOMEM */

/* policy_files.c: which files may be read: all, or those below the directories that `conf` names. */
struct policy_dirs {
    const struct conf *conf;
    bool all;
};
/* A whole file; *out is malloc'ed.  It waits for nothing: what is no regular file is refused.  0, or TERR_*
 * and *why. */
int policy_slurp(const struct policy_dirs *dirs, const char *path, size_t most, struct span *out,
    const char **why);
/* Is it there, a regular file, and among those? */
bool policy_may_read(const struct policy_dirs *dirs, const char *path, const char **why);

#endif
