/* vcl_func_table.h -- functions, objects and methods of std, cookie, directors, purge and tarn.
 *
 * From vmod_std(3), vmod_cookie(3), vmod_directors(3) and vmod_purge(3) of Varnish; tarn is our own.
 *
 * Arguments are written as "TYPE name" separated by commas, optional ones in brackets, with their
 * default behind '='; an ENUM lists its words: "[ENUM {a,b} name=a]".  An argument "HEADER",
 * "HTTP" or "REGEX" is resolved at load.  A STRANDS-like STRING argument takes a concatenation.
 *   where   mask of subs it may be called in
 *   how     VCL_PURE: vcl_FN in vcl_std*.c;  VCL_HOST: asked of the host as VCL_FN_id
 */
#ifndef TARN_VCL_FUNC_TABLE_H
#define TARN_VCL_FUNC_TABLE_H

#include "vcl-lite/vcl.h"

enum vcl_func_how {
    VCL_PURE,
    VCL_HOST
};

/* clang-format off */
/*    id, module, name, result, arguments, where, how, what it does */
#define VCL_FUNC_TABLE(X)                                                                          \
    X(STD_TOUPPER, "std", "toupper", STRING, "STRING s", VCL_ALL, VCL_PURE, "In upper case")       \
    X(STD_TOLOWER, "std", "tolower", STRING, "STRING s", VCL_ALL, VCL_PURE, "In lower case")       \
    X(STD_QUERYSORT, "std", "querysort", STRING, "STRING url", VCL_ALL, VCL_PURE,                  \
      "The query's parameters in order")                                                           \
    X(STD_STRSTR, "std", "strstr", STRING, "STRING s1, STRING s2", VCL_ALL, VCL_PURE,              \
      "s1 from the first occurrence of s2; unset: there is none")                                  \
    X(STD_FNMATCH, "std", "fnmatch", BOOL,                                                         \
      "STRING pattern, STRING subject, [BOOL pathname=true], [BOOL noescape=false], "              \
      "[BOOL period=false]", VCL_ALL, VCL_PURE, "Does a shell pattern match?")                     \
    X(STD_INTEGER, "std", "integer", INT,                                                          \
      "[STRING s], [INT fallback], [BOOL bool], [BYTES bytes], [DURATION duration], "              \
      "[REAL real], [TIME time]", VCL_ALL, VCL_PURE, "Converts to INT")                            \
    X(STD_REAL, "std", "real", REAL,                                                               \
      "[STRING s], [REAL fallback], [INT integer], [BOOL bool], [BYTES bytes], "                   \
      "[DURATION duration], [TIME time]", VCL_ALL, VCL_PURE, "Converts to REAL")                   \
    X(STD_DURATION, "std", "duration", DURATION,                                                   \
      "[STRING s], [DURATION fallback], [REAL real], [INT integer]", VCL_ALL, VCL_PURE,            \
      "Converts to DURATION")                                                                      \
    X(STD_BYTES, "std", "bytes", BYTES,                                                            \
      "[STRING s], [BYTES fallback], [REAL real], [INT integer]", VCL_ALL, VCL_PURE,               \
      "Converts to BYTES")                                                                         \
    X(STD_TIME, "std", "time", TIME,                                                               \
      "[STRING s], [TIME fallback], [REAL real], [INT integer]", VCL_ALL, VCL_PURE,                \
      "Converts to TIME: an HTTP date, ISO 8601, or seconds since 1970")                           \
    X(STD_REAL2INTEGER, "std", "real2integer", INT, "REAL r, INT fallback", VCL_ALL, VCL_PURE,     \
      "Rounded to the nearest INT; std.integer(real=r) cuts off")                                  \
    X(STD_REAL2TIME, "std", "real2time", TIME, "REAL r, TIME fallback", VCL_ALL, VCL_PURE,         \
      "The time of seconds since 1970")                                                            \
    X(STD_TIME2INTEGER, "std", "time2integer", INT, "TIME t, INT fallback", VCL_ALL, VCL_PURE,     \
      "Seconds since 1970, rounded")                                                               \
    X(STD_TIME2REAL, "std", "time2real", REAL, "TIME t, REAL fallback", VCL_ALL, VCL_PURE,         \
      "Seconds since 1970")                                                                        \
    X(STD_IP, "std", "ip", IP,                                                                     \
      "STRING s, [IP fallback], [BOOL resolve=true], [STRING p]", VCL_ALL, VCL_PURE,               \
      "Converts to IP, numeric only; p: a port")                                                   \
    X(STD_PORT, "std", "port", INT, "IP ip", VCL_ALL, VCL_PURE, "The port of an address")          \
    X(STD_RANDOM, "std", "random", REAL, "REAL lo, REAL hi", VCL_ALL, VCL_PURE,                    \
      "Evenly from lo, below hi")                                                                  \
    X(STD_ROUND, "std", "round", REAL, "REAL r", VCL_ALL, VCL_PURE, "To the nearest whole number") \
    X(STD_STRFTIME, "std", "strftime", STRING, "TIME time, STRING format", VCL_ALL, VCL_PURE,      \
      "A time in UTC, by strftime(3)")                                                             \
    X(STD_NOW, "std", "now", TIME, "", VCL_ALL, VCL_HOST, "The time now, also within one sub")     \
    X(STD_GETENV, "std", "getenv", STRING, "STRING name", VCL_ALL, VCL_HOST,                       \
      "A variable of the daemon's environment; unset: there is none")                              \
    X(STD_FILE_EXISTS, "std", "file_exists", BOOL, "STRING path", VCL_ALL, VCL_HOST,               \
      "Is there such a file?")                                                                     \
    X(STD_FILEREAD, "std", "fileread", STRING, "STRING path", VCL_ALL, VCL_HOST,                   \
      "A file's contents, read once")                                                              \
    X(STD_LOG, "std", "log", VOID, "STRING s", VCL_ALL, VCL_HOST, "A record VCL_Log")              \
    X(STD_SYSLOG, "std", "syslog", VOID, "INT priority, STRING s", VCL_ALL, VCL_HOST,              \
      "A line in the daemon's own log")                                                            \
    X(STD_TIMESTAMP, "std", "timestamp", VOID, "STRING s", VCL_ALL, VCL_HOST,                      \
      "A record Timestamp")                                                                        \
    X(STD_COLLECT, "std", "collect", VOID, "HEADER hdr, [STRING sep=\", \"]", VCL_ALL, VCL_PURE,   \
      "Combines the field lines of a name into one")                                               \
    X(STD_HEALTHY, "std", "healthy", BOOL, "BACKEND be", VCL_ALL, VCL_HOST, "Is it healthy?")      \
    X(STD_CACHE_REQ_BODY, "std", "cache_req_body", BOOL, "BYTES size", VCL_IN(RECV), VCL_HOST,     \
      "Caches the request's body, so that it can be sent again")                                   \
    X(STD_ROLLBACK, "std", "rollback", VOID, "HTTP h", VCL_CLIENT | VCL_BACKEND, VCL_HOST,         \
      "Restores the message as it was received")                                                   \
    X(STD_BAN, "std", "ban", BOOL, "STRING ban", VCL_ALL, VCL_HOST,                                \
      "As ban(); false: the expression is wrong, see std.ban_error()")                             \
    X(STD_BAN_ERROR, "std", "ban_error", STRING, "", VCL_ALL, VCL_HOST,                            \
      "What was wrong with the last std.ban() of this task")                                       \
    X(STD_LATE_100, "std", "late_100_continue", VOID, "BOOL late", VCL_IN(RECV), VCL_HOST,         \
      "Accepted: 100 (Continue) is always sent when Tarn reads the body")                          \
    X(STD_SET_IP_TOS, "std", "set_ip_tos", VOID, "INT tos", VCL_CLIENT, VCL_HOST,                  \
      "Accepted, and does nothing")                                                                \
    X(STD_RFC_TTL, "std", "rfc_ttl", DURATION, "[BOOL refresh=false]",                             \
      VCL_IN(BACKEND_RESPONSE) | VCL_IN(BACKEND_REFRESH) | VCL_IN(BACKEND_ERROR), VCL_HOST,        \
      "beresp.ttl by RFC 9111 alone")                                                              \
    X(COOKIE_PARSE, "cookie", "parse", VOID, "STRING cookieheader", VCL_ALL, VCL_PURE,             \
      "Reads the cookies of a Cookie field's value; an empty or unset one changes nothing")        \
    X(COOKIE_GET, "cookie", "get", STRING, "STRING cookiename", VCL_ALL, VCL_PURE,                 \
      "A cookie's value; unset: there is none")                                                    \
    X(COOKIE_GET_RE, "cookie", "get_re", STRING, "REGEX expression", VCL_ALL, VCL_PURE,            \
      "The value of the first cookie with a matching name; unset: there is none")                  \
    X(COOKIE_ISSET, "cookie", "isset", BOOL, "STRING cookiename", VCL_ALL, VCL_PURE,               \
      "Is there such a cookie?")                                                                   \
    X(COOKIE_SET, "cookie", "set", VOID, "STRING cookiename, STRING value", VCL_ALL, VCL_PURE,     \
      "Adds or replaces a cookie; without a name or a value it does nothing")                      \
    X(COOKIE_DELETE, "cookie", "delete", VOID, "STRING cookiename", VCL_ALL, VCL_PURE,             \
      "Removes a cookie")                                                                          \
    X(COOKIE_FILTER, "cookie", "filter", VOID, "STRING filterstring", VCL_ALL, VCL_PURE,           \
      "Removes the cookies of this list, commas between the names")                                \
    X(COOKIE_FILTER_RE, "cookie", "filter_re", VOID, "REGEX expression", VCL_ALL, VCL_PURE,        \
      "Removes the cookies with a matching name")                                                  \
    X(COOKIE_KEEP, "cookie", "keep", VOID, "STRING filterstring", VCL_ALL, VCL_PURE,               \
      "Removes all cookies but those of this list, commas between the names")                      \
    X(COOKIE_KEEP_RE, "cookie", "keep_re", VOID, "REGEX expression", VCL_ALL, VCL_PURE,            \
      "Removes all cookies but those with a matching name")                                        \
    X(COOKIE_CLEAN, "cookie", "clean", VOID, "", VCL_ALL, VCL_PURE, "Removes all cookies")         \
    X(COOKIE_GET_STRING, "cookie", "get_string", STRING, "", VCL_ALL, VCL_PURE,                    \
      "All cookies as the value of a Cookie field; empty: there are none")                         \
    X(COOKIE_FORMAT_DATE, "cookie", "format_date", STRING, "TIME now, DURATION timedelta",         \
      VCL_ALL, VCL_PURE, "An HTTP date, for Expires of a Set-Cookie field")                        \
    X(COOKIE_FORMAT_RFC1123, "cookie", "format_rfc1123", STRING, "TIME now, DURATION timedelta",   \
      VCL_ALL, VCL_PURE, "The older name of cookie.format_date()")                                 \
    X(DIRECTORS_LOOKUP, "directors", "lookup", BACKEND, "STRING name", VCL_IN(INIT) | VCL_IN(FINI),\
      VCL_HOST, "The backend of this name")                                                        \
    X(PURGE_HARD, "purge", "hard", INT, "", VCL_IN(HIT) | VCL_IN(MISS), VCL_HOST,                  \
      "Removes all responses stored under the key; returns their number")                          \
    X(PURGE_SOFT, "purge", "soft", INT,                                                            \
      "[DURATION ttl=0], [DURATION grace=-1], [DURATION keep=-1]", VCL_IN(HIT) | VCL_IN(MISS),     \
      VCL_HOST, "Shortens their ttl, grace and keep; returns their number")                        \
    X(TARN_HTML, "tarn", "html", STRING, "STRING s", VCL_ALL, VCL_PURE,                            \
      "Escapes & < > and both quotes for HTML")                                                    \
    X(TARN_NEGATIVE, "tarn", "negative", VOID, "DURATION d", VCL_IN(BACKEND_RESPONSE), VCL_HOST,   \
      "Adds a negative cache entry for this time, without the body, if the status is 404 or 410")  \
    X(TARN_TAG, "tarn", "tag", VOID, "STRING tags",                                                \
      VCL_IN(BACKEND_RESPONSE) | VCL_IN(BACKEND_ERROR), VCL_HOST,                                  \
      "Tags of the response, separated by spaces or commas, in addition to those in its fields")   \
    X(TARN_PURGE_TAG, "tarn", "purge_tag", INT, "STRING tags, [BOOL soft=false]",                  \
      VCL_CLIENT | VCL_BACKEND, VCL_HOST,                                                          \
      "Removes, or makes stale (soft), all responses with one of these tags, separated by spaces " \
      "or commas, with effect on the next lookup; returns the number of tags; -1: refused, with "  \
      "the reason in the daemon's log")                                                            \
    X(TARN_PURGE_WAIT, "tarn", "purge_wait", VOID, "[DURATION timeout=0]",                         \
      VCL_CLIENT & ~VCL_IN(SYNTH), VCL_HOST,                                                       \
      "In a fleet: vcl_synth waits until every node has applied what this request purges or bans, " \
      "for the timeout at most (0: `wait` of the section fleet); when not all have, a status 2xx "  \
      "becomes 202, or 503 if the fleet's log lacks it")                                           \
    X(TARN_RATE_LIMIT, "tarn", "rate_limit", BOOL,                                                 \
      "STRING key, INT rate, DURATION per, [INT burst=0]", VCL_CLIENT, VCL_HOST,                   \
      "Is the key above its rate limit? rate in per, burst at once (0: rate); if not, the "        \
      "request is counted")                                                                        \
    X(TARN_TABLE_CONTAINS, "tarn", "table_contains", BOOL, "STRING name, STRING key",              \
      VCL_CLIENT | VCL_BACKEND, VCL_HOST,                                                          \
      "Is the key in this table of the configuration? false: no, or the table has no version yet") \
    X(TARN_TABLE_LOOKUP, "tarn", "table_lookup", STRING,                                           \
      "STRING name, STRING key, STRING fallback", VCL_CLIENT | VCL_BACKEND, VCL_HOST,              \
      "The key's value in the table; fallback: none, or the table has no version yet")

/*    id, module, name, arguments of new, what it is */
#define VCL_OBJECT_TABLE(X)                                                                        \
    X(ROUND_ROBIN, "directors", "round_robin", "", "Each in turn")                                 \
    X(FALLBACK, "directors", "fallback", "[BOOL sticky=false]", "The first that is healthy")       \
    X(RANDOM, "directors", "random", "", "Random, by weight")                                      \
    X(HASH, "directors", "hash", "", "By hash and weight")                                         \
    X(SHARD, "directors", "shard", "", "By consistent hash of the request's key")                  \
    X(LEAST, "tarn", "least_connections", "", "The one with the fewest requests for its weight")

/*    id, kinds (mask of VCL_KIND), name, result, arguments, where, what it does */
#define VCL_KIND(id) (1u << VCL_OBJECT_##id)
#define VCL_METHOD_TABLE(X)                                                                        \
    X(ADD, VCL_KIND(ROUND_ROBIN) | VCL_KIND(FALLBACK), "add_backend", VOID, "BACKEND be",          \
      VCL_IN(INIT), "Adds a backend")                                                              \
    X(ADD_WEIGHT, VCL_KIND(RANDOM) | VCL_KIND(HASH) | VCL_KIND(LEAST), "add_backend", VOID,        \
      "BACKEND be, [REAL weight=1.0]", VCL_IN(INIT), "Adds a backend with its weight")             \
    X(ADD_SHARD, VCL_KIND(SHARD), "add_backend", BOOL,                                             \
      "BACKEND be, [STRING ident], [DURATION rampup], [REAL weight=1.0]", VCL_IN(INIT),            \
      "Adds a backend, from the next reconfigure on")                                              \
    X(REMOVE,                                                                                      \
      VCL_KIND(ROUND_ROBIN) | VCL_KIND(FALLBACK) | VCL_KIND(RANDOM) | VCL_KIND(HASH) |             \
          VCL_KIND(LEAST),                                                                         \
      "remove_backend", VOID, "BACKEND be", VCL_IN(INIT) | VCL_IN(FINI), "Removes a backend")      \
    X(REMOVE_SHARD, VCL_KIND(SHARD), "remove_backend", BOOL, "BACKEND be",                         \
      VCL_IN(INIT) | VCL_IN(FINI), "Removes a backend, from the next reconfigure on")              \
    X(PICK, VCL_KIND(ROUND_ROBIN) | VCL_KIND(FALLBACK) | VCL_KIND(RANDOM) | VCL_KIND(LEAST),       \
      "backend", BACKEND, "", VCL_ALL, "This director, which chooses when the request is sent")    \
    X(PICK_HASH, VCL_KIND(HASH), "backend", BACKEND, "STRING s", VCL_ALL,                          \
      "The one for this text")                                                                     \
    X(PICK_SHARD, VCL_KIND(SHARD), "backend", BACKEND,                                             \
      "[ENUM {HASH,URL,KEY,BLOB} by=HASH], [INT key], [INT alt=0], [REAL warmup=-1], "             \
      "[BOOL rampup=true], [ENUM {CHOSEN,IGNORE,ALL} healthy=CHOSEN], "                            \
      "[ENUM {LAZY,NOW} resolve=LAZY]", VCL_ALL, "The one for this key")                           \
    X(STICKY, VCL_KIND(FALLBACK), "set_sticky", VOID, "BOOL sticky", VCL_IN(INIT), "See new")      \
    X(SHARD_RECONFIGURE, VCL_KIND(SHARD), "reconfigure", BOOL, "[INT replicas=67]", VCL_IN(INIT),  \
      "Builds the ring")                                                                           \
    X(SHARD_CLEAR, VCL_KIND(SHARD), "clear", BOOL, "", VCL_IN(INIT), "Removes all")                \
    X(SHARD_WARMUP, VCL_KIND(SHARD), "set_warmup", VOID, "REAL probability=0.0", VCL_IN(INIT),     \
      "Share of requests that go to the next choice, to warm it up")                               \
    X(SHARD_RAMPUP, VCL_KIND(SHARD), "set_rampup", VOID, "DURATION duration=0", VCL_IN(INIT),      \
      "How long a backend that became healthy gets fewer requests")                                \
    X(BALANCE, VCL_KIND(HASH), "set_balance_factor", VOID, "REAL factor=1.25", VCL_IN(INIT),       \
      "A backend with this many times its share of the load gets no more requests; the next one "  \
      "gets its keys; 0, the default: no bound")
/* clang-format on */

enum vcl_func {
#define X(id, module, name, result, args, where, how, doc) VCL_FN_##id,
    VCL_FUNC_TABLE(X)
#undef X
    VCL_FN_COUNT
};

enum vcl_object_kind {
#define X(id, module, name, args, doc) VCL_OBJECT_##id,
    VCL_OBJECT_TABLE(X)
#undef X
    VCL_OBJECT_COUNT
};

enum vcl_method {
#define X(id, kinds, name, result, args, where, doc) VCL_METHOD_##id,
    VCL_METHOD_TABLE(X)
#undef X
    VCL_METHOD_COUNT
};

#endif
