/* synthetic.h -- a request that no client sent: for questions about what one would come to.
 *
 * It has what a request's machine looks at, and nothing that it could be answered by.  A policy that
 * it is shown to is run as for any request, except that what would change something does not
 * (`policy_ctx.explains`).
 *
 * Threads: the management thread.  Errors: TERR_*.
 */
#ifndef TARN_SYNTHETIC_H
#define TARN_SYNTHETIC_H

#include "daemon/policy/policies_priv.h"
#include "daemon/proxy/req.h"
#include "daemon/shm/log_read.h"

struct synthetic_request {
    struct arena_pool pool;
    struct loop loop;
    struct proxy proxy;
    struct exchange x;
    struct req req;
    struct http_field host;
    /* Of https: as a browser would come, by TLS and without a certificate. */
    struct conn_secure secure;
    struct conn_listener listener;
    struct conn_facts conn;
    char server_name[256];
    struct policy_ref ref;
    struct shmlog_reader *reader; /* so that the lines that ran are logged */
};

/* GET `url` ("http://host/path", or https: by TLS 1.3, for that host; the path may be missing), with the
 * active policy, if there is one.  0; TERR_SYNTAX and *why; TERR_NOMEM.  synthetic_free() is for the
 * caller whenever *out is not NULL. */
int synthetic_new(
    struct synthetic_request **out, struct policies *ps, struct slice url, const char **why);
/* One more field of it, or another value of the first of that name.  TERR_SYNTAX. */
int synthetic_set(struct synthetic_request *w, struct slice name, struct slice value);
/* When its fields are set: its route, and what that makes of the request.  0 or TERR_*. */
int synthetic_admit(struct synthetic_request *w);
/* Goes on under another policy. */
void synthetic_take_policy(struct synthetic_request *w, struct policy *pol);
/* vcl_recv has answered with `act`: the key also where nothing would be looked up, by vcl_hash or the
 * builtin one.  False: vcl_hash failed, or the host is not valid. */
bool synthetic_finish_key(struct synthetic_request *w, enum vcl_action act);
void synthetic_free(struct synthetic_request **np);

#endif
