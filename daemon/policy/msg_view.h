/* msg_view.h -- the messages of a run, as its policy names them: req, bereq, beresp, resp, obj.
 *
 * One way to read a message and one to change it, whether a request or a fetch runs the policy.  A
 * message stays as it came until it is changed; then it is copied into the arena of the request or
 * fetch, once.
 *
 * Threads: the worker's that runs the policy.
 */
#ifndef TARN_MSG_VIEW_H
#define TARN_MSG_VIEW_H

#include "daemon/policy/policy.h"

/* What variables have of a message: slices as long as the run; .ptr NULL: no memory.  A response that
 * vcl_synth has not looked at yet has no head: its status and reason are known without one. */
struct slice msg_view_method(struct vcl_run *run, enum vcl_http http);
struct slice msg_view_url(struct vcl_run *run, enum vcl_http http);
struct slice msg_view_proto(struct vcl_run *run, enum vcl_http http);
struct slice msg_view_reason(struct vcl_run *run, enum vcl_http http);
/* With the policy's hint in front, if it set one (1404); obj_stale's has three digits: builtin.vcl
 * compares it with 200. */
unsigned msg_view_status(struct vcl_run *run, enum vcl_http http);
/* 0; TERR_POLICY and run->why: the value is not valid; TERR_NOMEM; TERR_HEADTOOBIG and run->why. */
int msg_view_set_method(struct vcl_run *run, enum vcl_http http, struct slice method);
int msg_view_set_url(struct vcl_run *run, enum vcl_http http, struct slice url);
int msg_view_set_status(struct vcl_run *run, enum vcl_http http, int64_t status);
int msg_view_set_reason(struct vcl_run *run, enum vcl_http http, struct slice reason);

/* Header fields: as struct vcl_host has them. */
struct slice msg_view_field(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name);
struct slice msg_view_nth_field(
    struct vcl_run *run, enum vcl_http http, const struct vcl_name *name, unsigned nth);
int msg_view_set_field(
    struct vcl_run *run, enum vcl_http http, const struct vcl_name *name, struct slice value);
int msg_view_unset_field(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name);

#endif
