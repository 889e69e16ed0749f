/* ctl_commands.h -- the functions behind the rows of ctl_table.h.  Each returns an exit status. */
#ifndef TARN_CTL_COMMANDS_H
#define TARN_CTL_COMMANDS_H

#include "daemon/ctl/ctl.h"

struct ctl_command {
    const char *name, *args; /* words; what follows them */
    int least, most;         /* arguments */
    int (*run)(struct ctl *c);
    const char *what, *more; /* in a line; the rest of its help */
};

/* ctl_main.c */
/* The command with the longest name that the words begin with; NULL: none.  *used: its words. */
const struct ctl_command *ctl_find(const char *const *words, int n, int *used);
/* Says what begins with the first of them, or that nothing does; CTL_USAGE. */
int ctl_unknown(const char *const *words);

/* ctl_help.c */
extern const struct ctl_command ctl_commands[];
extern const size_t ctl_ncommands;
void ctl_usage(FILE *to, const struct ctl_command *cmd);
void ctl_help_all(void);
/* Help of a command, of all commands that begin with this word, or of all.  An exit status. */
int ctl_help_on(const char *const *words, int n);
int ctl_help(struct ctl *c);
int ctl_completion(struct ctl *c);

/* ctl_state.c */
int ctl_status(struct ctl *c);
int ctl_stat(struct ctl *c);
int ctl_storage_stats(struct ctl *c);
int ctl_param_list(struct ctl *c);
int ctl_param_set(struct ctl *c);
int ctl_reload(struct ctl *c);
int ctl_stop(struct ctl *c);
int ctl_drain(struct ctl *c);

/* ctl_live.c */
int ctl_live(struct ctl *c);

/* ctl_log.c */
int ctl_log(struct ctl *c);

/* ctl_hist.c, ctl_top.c */
int ctl_hist(struct ctl *c);
int ctl_top(struct ctl *c);

/* ctl_cache.c */
int ctl_purge(struct ctl *c);
int ctl_purge_tag(struct ctl *c);
int ctl_ban(struct ctl *c);
int ctl_ban_list(struct ctl *c);
int ctl_index_stats(struct ctl *c);
int ctl_index_dump(struct ctl *c);

/* ctl_fleet.c */
int ctl_fleet(struct ctl *c);
/* Puts --wait, --timeout and --local into the body of an invalidation.  CTL_DONE or CTL_USAGE. */
int ctl_fleet_ask(struct ctl *c, json_t *body);
/* Prints what the answer proves, where that was asked.  CTL_DONE or CTL_UNPROVEN. */
int ctl_fleet_proven(const struct ctl *c, const json_t *o);
int ctl_fleet_proof(struct ctl *c);
/* PREFIX/NAME, with the query of --timeout, or of 10 s.  CTL_DONE, and the caller frees *out; or CTL_USAGE. */
int ctl_fleet_path(struct ctl *c, const char *prefix, const char *name, char **out);

/* ctl_shared.c */
int ctl_fleet_shared(struct ctl *c);
int ctl_fleet_vcl_use(struct ctl *c);
int ctl_fleet_vcl_rollback(struct ctl *c);
int ctl_fleet_param_set(struct ctl *c);
int ctl_fleet_param_unset(struct ctl *c);
int ctl_fleet_table_load(struct ctl *c);

/* ctl_tls.c */
int ctl_tls_list(struct ctl *c);
int ctl_tls_reload(struct ctl *c);

/* ctl_why.c */
int ctl_why(struct ctl *c);

/* ctl_warm.c */
int ctl_warm(struct ctl *c);

/* ctl_policy.c */
int ctl_vcl_list(struct ctl *c);
int ctl_vcl_load(struct ctl *c);
int ctl_vcl_use(struct ctl *c);
int ctl_vcl_label(struct ctl *c);
int ctl_vcl_unlabel(struct ctl *c);
int ctl_vcl_discard(struct ctl *c);
int ctl_backend_list(struct ctl *c);
int ctl_backend_health(struct ctl *c);
int ctl_table_list(struct ctl *c);
int ctl_table_show(struct ctl *c);
int ctl_table_load(struct ctl *c);

#endif
