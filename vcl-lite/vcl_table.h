/* vcl_table.h -- types, subroutines and actions of the language, one row each.
 *
 * The reference in README.md is generated from these rows.
 */
#ifndef TARN_VCL_TABLE_H
#define TARN_VCL_TABLE_H

/* clang-format off */
/*    id, name in the language, what it is */
#define VCL_TYPE_TABLE(X)                                                                          \
    X(VOID,     "VOID",     "nothing: what some functions return")                                 \
    X(STRING,   "STRING",   "text; a header field that is not there is an unset string")           \
    X(INT,      "INT",      "a whole number, -999999999999999 to 999999999999999 (RFC 8941)")      \
    X(REAL,     "REAL",     "a number with a fraction")                                            \
    X(BOOL,     "BOOL",     "true or false")                                                       \
    X(DURATION, "DURATION", "a span of time in seconds: 10s, 1.5h, 2d")                            \
    X(TIME,     "TIME",     "a point in time: now, now + 1d")                                      \
    X(BYTES,    "BYTES",    "a number of bytes: 10KB, 1GB")                                        \
    X(IP,       "IP",       "an IPv4 or IPv6 address, perhaps with a port")                        \
    X(BACKEND,  "BACKEND",  "a backend, or a director that chooses one")                           \
    X(ACL,      "ACL",      "a list of addresses")                                                 \
    X(PROBE,    "PROBE",    "a health check of a backend")                                         \
    X(STEVEDORE,"STEVEDORE","a storage")                                                           \
    X(BODY,     "BODY",     "a body: can be set, or added to, from strings")                       \
    X(HTTP,     "HTTP",     "a message: what std.rollback and std.collect take")                   \
    X(HEADER,   "HEADER",   "a header field of a message, not only its value")                     \
    X(REGEX,    "REGEX",    "a constant regular expression (PCRE2)")                               \
    X(ENUM,     "ENUM",     "one of a few words")

/*    id, name in return(), what it means */
#define VCL_ACTION_TABLE(X)                                                                        \
    X(NONE,      "",          "the subroutine ended without return")                               \
    X(HASH,      "hash",      "look up in the cache")                                              \
    X(LOOKUP,    "lookup",    "the key is complete: look up")                                      \
    X(PASS,      "pass",      "fetch for this client alone")                                       \
    X(PIPE,      "pipe",      "connect client and backend, and copy bytes both ways")              \
    X(PURGE,     "purge",     "remove what is stored under the key, then vcl_purge")               \
    X(FETCH,     "fetch",     "fetch")                                                             \
    X(DELIVER,   "deliver",   "continue; send the response")                                       \
    X(RESTART,   "restart",   "begin again at vcl_recv, at most max_restarts times")               \
    X(RETRY,     "retry",     "fetch again, at most max_retries times")                            \
    X(ABANDON,   "abandon",   "end the fetch; the client gets 503")                                \
    X(OK,        "ok",        "the policy may be used")                                            \
    X(MERGE,     "merge",     "304: the stored fields, updated by those of the 304")               \
    X(OBJ_STALE, "obj_stale", "304: the stored fields alone")                                      \
    X(BERESP,    "beresp",    "304: the fields of the 304 alone")                                  \
    X(SYNTH,     "synth",     "build the response in vcl_synth")                                   \
    X(ERROR,     "error",     "build the response in vcl_backend_error")                           \
    X(VCL,       "vcl",       "continue in the policy with this label")                            \
    X(FAIL,      "fail",      "an error: 503, or a failed fetch")

#define VCL_DO(id) (1u << VCL_ACT_##id)
/*    id, name, actions, the one by which the core goes on as if there were no sub, when it runs */
#define VCL_SUB_TABLE(X)                                                                           \
    X(RECV,             "vcl_recv",                                                                \
      VCL_DO(HASH) | VCL_DO(PASS) | VCL_DO(PIPE) | VCL_DO(PURGE) | VCL_DO(SYNTH) |                 \
      VCL_DO(RESTART) | VCL_DO(FAIL) | VCL_DO(VCL),                                                \
      HASH, "A request's head was received; also after a restart")                                 \
    X(HASH,             "vcl_hash",  VCL_DO(LOOKUP) | VCL_DO(FAIL),                                \
      LOOKUP, "The key is built, by hash_data()")                                                  \
    X(HIT,              "vcl_hit",                                                                 \
      VCL_DO(DELIVER) | VCL_DO(PASS) | VCL_DO(SYNTH) | VCL_DO(RESTART) | VCL_DO(FAIL),             \
      DELIVER, "A stored response was found, fresh or in grace")                                   \
    X(MISS,             "vcl_miss",                                                                \
      VCL_DO(FETCH) | VCL_DO(PASS) | VCL_DO(SYNTH) | VCL_DO(RESTART) | VCL_DO(FAIL),               \
      FETCH, "No usable response was found: it will be fetched")                                   \
    X(PASS,             "vcl_pass",                                                                \
      VCL_DO(FETCH) | VCL_DO(SYNTH) | VCL_DO(RESTART) | VCL_DO(FAIL),                              \
      FETCH, "No lookup: the request is passed")                                                   \
    X(PIPE,             "vcl_pipe",  VCL_DO(PIPE) | VCL_DO(SYNTH) | VCL_DO(FAIL),                  \
      PIPE, "A tunnel is about to begin")                                                          \
    X(PURGE,            "vcl_purge", VCL_DO(SYNTH) | VCL_DO(RESTART) | VCL_DO(FAIL),               \
      NONE, "What was stored under the key has been removed")                                      \
    X(DELIVER,          "vcl_deliver",                                                             \
      VCL_DO(DELIVER) | VCL_DO(SYNTH) | VCL_DO(RESTART) | VCL_DO(FAIL),                            \
      DELIVER, "A response is about to be sent")                                                   \
    X(SYNTH,            "vcl_synth", VCL_DO(DELIVER) | VCL_DO(RESTART) | VCL_DO(FAIL),             \
      DELIVER, "A synthetic response is built")                                                    \
    X(BACKEND_FETCH,    "vcl_backend_fetch",                                                       \
      VCL_DO(FETCH) | VCL_DO(ERROR) | VCL_DO(ABANDON) | VCL_DO(FAIL),                              \
      FETCH, "A request to a backend is about to be sent; also after a retry")                     \
    X(BACKEND_RESPONSE, "vcl_backend_response",                                                    \
      VCL_DO(DELIVER) | VCL_DO(RETRY) | VCL_DO(PASS) | VCL_DO(ERROR) | VCL_DO(ABANDON) |           \
      VCL_DO(FAIL),                                                                                \
      DELIVER, "A backend's response head was received")                                           \
    X(BACKEND_REFRESH,  "vcl_backend_refresh",                                                     \
      VCL_DO(MERGE) | VCL_DO(OBJ_STALE) | VCL_DO(BERESP) | VCL_DO(RETRY) | VCL_DO(ERROR) |         \
      VCL_DO(ABANDON) | VCL_DO(FAIL),                                                              \
      MERGE, "A backend answered 304 (Not Modified) to a conditional fetch")                       \
    X(BACKEND_ERROR,    "vcl_backend_error",                                                       \
      VCL_DO(DELIVER) | VCL_DO(RETRY) | VCL_DO(ABANDON) | VCL_DO(FAIL),                            \
      DELIVER, "The fetch failed: a synthetic response is built")                                  \
    X(INIT,             "vcl_init",  VCL_DO(OK) | VCL_DO(FAIL),                                    \
      OK, "The policy was loaded: directors are created here")                                     \
    X(FINI,             "vcl_fini",  VCL_DO(OK),                                                   \
      OK, "The policy is discarded, its last request over")
/* clang-format on */

#endif
