/* vcl_removed.c -- words of older VCL and of Varnish's modules, and what is right today.
 *
 * From Varnish's notes on upgrading to 4.0 and later.  Each row is a hint behind an error.
 *
 * Looked up only when a name is unknown, so the table costs a right policy nothing.
 */
#include "vcl-lite/vcl_priv.h"

/* clang-format off */
#define REMOVED_TABLE(X)                                                                           \
    X(VAR,    "req.backend",          "it is req.backend_hint since 4.0")                          \
    X(VAR,    "req.backend.healthy",  "std.healthy(req.backend_hint) since 4.0")                   \
    X(VAR,    "req.request",          "it is req.method since 4.0")                                \
    X(VAR,    "bereq.request",        "it is bereq.method since 4.0")                              \
    X(VAR,    "req.esi",              "set resp.do_esi in vcl_deliver since 4.1")                  \
    X(VAR,    "beresp.backend.ip",    "it was removed with 4.1")                                   \
    X(VAR,    "beresp.backend.port",  "it was removed with 4.0")                                   \
    X(VAR,    "beresp.response",      "it is beresp.reason since 4.0")                             \
    X(VAR,    "beresp.saintmode",     "saint mode was removed: return (retry), or mark it sick")   \
    X(VAR,    "beresp.storage_hint",  "set beresp.storage = storage.NAME since 4.1")               \
    X(VAR,    "obj.response",         "it is resp.reason, in vcl_synth, since 4.0")                \
    X(VAR,    "obj.lastuse",          "it was removed with 4.0")                                   \
    X(VAR,    "obj.cacheable",        "set beresp.uncacheable since 4.0")                          \
    X(VAR,    "resp.response",        "it is resp.reason since 4.0")                               \
    X(VAR,    "client.port",          "std.port(client.ip) since 4.0")                             \
    X(VAR,    "server.port",          "std.port(server.ip) since 4.0")                             \
    X(ACTION, "error",                "return (synth(404, \"Not Found\")) since 4.0")              \
    X(ACTION, "hit_for_pass",         "set beresp.uncacheable = true; or return (pass(120s)) in "  \
                                      "vcl_backend_response")                                      \
    X(ACTION, "lookup",               "vcl_recv says return (hash) since 4.0")                     \
    X(ACTION, "esi",                  "set beresp.do_esi = true since 4.0")                        \
    X(SUB,    "vcl_fetch",            "it is vcl_backend_response, and beresp stays, since 4.0")   \
    X(SUB,    "vcl_error",            "it is vcl_synth, and vcl_backend_error for failed "         \
                                      "fetches, since 4.0")                                        \
    X(WORD,   "remove",               "it is unset since 4.0")                                     \
    X(WORD,   "error",                "return (synth(404, \"Not Found\")); since 4.0")             \
    X(WORD,   "esi",                  "set beresp.do_esi = true; since 4.0")                       \
    X(WORD,   "purge",                "return (purge) in vcl_recv, or purge.hard() of import "     \
                                      "purge, since 4.0")                                          \
    X(WORD,   "purge_url",            "ban(\"req.url ~ ...\"); since 3.0")                         \
    X(WORD,   "ban_url",              "ban(\"req.url ~ ...\"); since 4.0")                         \
    X(WORD,   "rollback",             "std.rollback(req); since 4.1")                              \
    X(WORD,   "log",                  "std.log(\"...\"); since 3.0")                               \
    X(WORD,   "pass",                 "return (pass);")                                            \
    X(WORD,   "pipe",                 "return (pipe);")                                            \
    X(WORD,   "lookup",               "return (hash);")                                            \
    X(WORD,   "fetch",                "return (fetch);")                                           \
    X(WORD,   "deliver",              "return (deliver);")                                         \
    X(WORD,   "restart",              "return (restart);")                                         \
    X(WORD,   "insert",               "return (deliver);")                                         \
    X(WORD,   "panic",                "return (fail);")                                            \
    X(FUNC,   "std.blobread",         "vcl-lite has no BLOB; std.fileread() gives a file's "       \
                                      "contents as a STRING")                                      \
    X(FUNC,   "std.syntax",           "the version stands in the first line: vcl 4.1;")            \
    X(FUNC,   "remove_backend",       "a director does not change while it serves: load another "  \
                                      "policy, or take the backend out by the admin API: "         \
                                      "tarnctl backend set-health NAME sick")                      \
    X(FUNC,   "add_backend",          "a director does not change while it serves: add all in "    \
                                      "vcl_init; one that is sick is left out")                    \
    X(MODULE, "blob",                 "it comes with Varnish; vcl-lite has no BLOB")               \
    X(MODULE, "debug",                "it is for Varnish's own tests")                             \
    X(MODULE, "h2",                   "it comes with Varnish; vcl-lite does not have it")          \
    X(MODULE, "math",                 "it comes with Varnish 8; vcl-lite does not have it")        \
    X(MODULE, "proxy",                "it comes with Varnish; vcl-lite does not have it: "         \
                                      "client.ip is what the PROXY header says")                   \
    X(MODULE, "unix",                 "it comes with Varnish; vcl-lite does not have it")          \
    X(MODULE, "vtc",                  "it is for Varnish's own tests")                             \
    X(MODULE, "bodyaccess",           "a module of varnish-modules that vcl-lite does not have")   \
    X(MODULE, "header",               "a module of varnish-modules that vcl-lite does not have: "  \
                                      "set and unset work on all fields of a name, std.collect "   \
                                      "joins them")                                                \
    X(MODULE, "saintmode",            "a module of varnish-modules that vcl-lite does not have: "  \
                                      "probes and return (retry) do most of it")                   \
    X(MODULE, "softpurge",            "purge.soft() of import purge does it")                      \
    X(MODULE, "str",                  "a module of varnish-modules that vcl-lite does not have")   \
    X(MODULE, "tcp",                  "a module of varnish-modules that vcl-lite does not have")   \
    X(MODULE, "var",                  "a module of varnish-modules that vcl-lite does not have: "  \
                                      "a field such as req.http.x-var keeps a value")              \
    X(MODULE, "vsthrottle",           "tarn.rate_limit() of import tarn does it")                  \
    X(MODULE, "accept",               "a module of varnish-modules that vcl-lite does not have")   \
    X(MODULE, "xkey",                 "tarn.purge_tag() of import tarn does it; xkey fields are "  \
                                      "heeded without an import")                                  \
    X(MODULE, "dynamic",              "a third-party module that vcl-lite does not have")          \
    X(MODULE, "goto",                 "a module of Varnish Enterprise that vcl-lite does not have")\
    X(MODULE, "bodyproxy",            "a third-party module that vcl-lite does not have")          \
    X(MODULE, "curl",                 "a third-party module that vcl-lite does not have")          \
    X(MODULE, "digest",               "a third-party module that vcl-lite does not have")          \
    X(MODULE, "geoip",                "a third-party module that vcl-lite does not have")          \
    X(MODULE, "geoip2",               "a third-party module that vcl-lite does not have")          \
    X(MODULE, "maxminddb",            "a third-party module that vcl-lite does not have")          \
    X(MODULE, "querystring",          "a third-party module that vcl-lite does not have: "         \
                                      "std.querysort and regsuball do most of it")                 \
    X(MODULE, "redis",                "a third-party module that vcl-lite does not have")          \
    X(MODULE, "reqwest",              "a third-party module that vcl-lite does not have")          \
    X(MODULE, "uuid",                 "a third-party module that vcl-lite does not have")          \
    X(MODULE, "urlplus",              "a module of Varnish Enterprise that vcl-lite does not have")\
    X(MODULE, "edgestash",            "a module of Varnish Enterprise that vcl-lite does not have")\
    X(MODULE, "kvstore",              "a module of Varnish Enterprise that vcl-lite does not have")
/* clang-format on */

static const struct {
    enum vcl_removed_kind kind;
    const char *name, *hint;
} removed_names[] = {
#define X(kind, name, hint) {VCL_REMOVED_##kind, name, hint},
    REMOVED_TABLE(X)
#undef X
};

const char *
vcl_removed(enum vcl_removed_kind kind, struct slice name)
{
    for (unsigned i = 0; i < sizeof(removed_names) / sizeof(removed_names[0]); i++)
        if (removed_names[i].kind == kind && slice_eq(name, slice_str(removed_names[i].name)))
            return removed_names[i].hint;
    return NULL;
}
