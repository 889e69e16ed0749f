/* admin_schema_table.h -- what answers are made of, for the OpenAPI description: every member, its
 * type, and what it is.  They are always there, and no others (t/e2e/admin.py compares).
 *
 * A type is one of JSON Schema's, or @NAME, another object of this table; [T] an array of T; {T} an
 * object with members of any name, each a T; T? may be null.
 */
#ifndef TARN_ADMIN_SCHEMA_TABLE_H
#define TARN_ADMIN_SCHEMA_TABLE_H

/* clang-format off */

/* Method, path, what it answers when it is done. */
#define ADMIN_ANSWER_TABLE(X)                                                                      \
    X(GET, "/v1/status", "Status")                                                                 \
    X(GET, "/v1/latency", "Latencies")                                                             \
    X(GET, "/v1/top", "Top")                                                                       \
    X(GET, "/v1/backends", "Backends")                                                             \
    X(PUT, "/v1/backends/*/health", "Backend")

/* Object, member, type, meaning; the rows of an object stand together. */
#define ADMIN_SCHEMA_TABLE(X)                                                                      \
    X("Status", "state", "string", "running or draining")                                          \
    X("Status", "version", "string", "of tarnd")                                                   \
    X("Status", "pid", "integer", "of the process that serves")                                    \
    X("Status", "uptime_s", "number", "since it started")                                          \
    X("Status", "started", "integer", "when; seconds since 1970")                                  \
    X("Status", "workers", "integer", "loops that serve clients, a thread each")                   \
    X("Status", "connections", "integer", "of clients, now")                                       \
    X("Status", "config", "string?", "the configuration's path")                                   \
    X("Status", "policy", "string?", "the name of the policy in use; null: the built-in one")      \
    X("Status", "listen", "[@Listener]", "addresses that clients can connect to")                  \
    X("Status", "admin", "string", "the address of this API")                                      \
    X("Status", "shm_dir", "string?", "where logs and counters are, in shared memory")             \
    X("Listener", "name", "string", "as in the configuration")                                     \
    X("Listener", "address", "string", "host:port or unix:/path, as it was really bound")          \
    X("Latencies", "requests", "{@Latency}", "by their result: hit, miss, hit-for-miss, pass, ...")\
    X("Latencies", "lag", "[@Lag]", "of each worker: how late its loop was for its tick")          \
    X("Latency", "count", "integer", "how many")                                                   \
    X("Latency", "sum_us", "integer", "their durations together; microseconds")                    \
    X("Latency", "p50_us", "integer?", "half of them took at most that; null: there are none")     \
    X("Latency", "p90_us", "integer?", "90 % of them")                                             \
    X("Latency", "p99_us", "integer?", "99 % of them")                                             \
    X("Latency", "p999_us", "integer?", "99.9 % of them")                                          \
    X("Latency", "buckets", "[[integer]]",                                                         \
      "each [from, to, how many], in microseconds; empty ones are left out")                       \
    X("Lag", "count", "integer", "how many ticks")                                                 \
    X("Lag", "sum_us", "integer", "how late all of them were, together; microseconds")             \
    X("Lag", "p50_us", "integer?", "half of them were at most that late; null: there are none")    \
    X("Lag", "p90_us", "integer?", "90 % of them")                                                 \
    X("Lag", "p99_us", "integer?", "99 % of them")                                                 \
    X("Lag", "p999_us", "integer?", "99.9 % of them")                                              \
    X("Lag", "buckets", "[[integer]]", "as those of Latency")                                      \
    X("Lag", "last_us", "integer", "how late the last one was")                                    \
    X("Lag", "max_us", "integer", "how late the latest of all was")                                \
    X("Top", "of", "string", "what rows are: url, client or backend")                              \
    X("Top", "by", "string", "what they are sorted by: requests, bytes or misses")                 \
    X("Top", "watched_s", "number", "for how long tarnd has been watching")                        \
    X("Top", "window_s", "number", "what sums were divided by for the rates")                      \
    X("Top", "seen", "number", "share of the requests that was sampled, 0 to 1")                   \
    X("Top", "requests_s", "number", "all requests, a second")                                     \
    X("Top", "bytes_s", "number", "bytes of all their answers, a second")                          \
    X("Top", "misses_s", "number", "all misses, a second")                                         \
    X("Top", "mean_us", "number?", "what a request took; null: none came")                         \
    X("Top", "top", "[@TopRow]", "the most first")                                                 \
    X("TopRow", "name", "string?", "URL, client or backend; null: no backend")                     \
    X("TopRow", "requests_s", "number", "its requests, a second")                                  \
    X("TopRow", "bytes_s", "number", "bytes of their answers, a second")                           \
    X("TopRow", "misses_s", "number", "its misses, a second")                                      \
    X("TopRow", "mean_us", "number?", "what a request took")                                       \
    X("TopRow", "share", "number", "its share of all, by the chosen measure, 0 to 1")              \
    X("TopRow", "unsure", "number", "by how much that may be too small")                           \
    X("Backends", "backends", "[@Backend]", "of the configuration and of all policies")            \
    X("Backends", "directors", "[@Director]", "of the configuration")                              \
    X("Backend", "name", "string", "of a policy's own: POLICY.NAME")                               \
    X("Backend", "number", "integer", "its number in log records")                                 \
    X("Backend", "address", "string", "as configured")                                             \
    X("Backend", "addresses", "[string]", "that name's addresses now")                             \
    X("Backend", "healthy", "boolean", "whether it gets requests")                                 \
    X("Backend", "up", "boolean",                                                                  \
      "healthy, and without a probe: one of its last three attempts had a response")               \
    X("Backend", "responses", "{integer}",                                                         \
      "heads received, by class of status: 1xx to 5xx, other")                                     \
    X("Backend", "failures", "integer", "attempts without a response, and responses cut short")    \
    X("Backend", "response_us", "integer", "from request to head, all of them together")           \
    X("Backend", "health", "string", "auto, or set by an operator: healthy or sick")               \
    X("Backend", "ejected", "boolean", "left out for a while, as too many requests failed")        \
    X("Backend", "waiting", "integer", "requests that wait for a connection")                      \
    X("Backend", "load", "integer", "connections in use, and fetches that have none yet")          \
    X("Backend", "changed", "number?", "when its health changed last; seconds since 1970")         \
    X("Backend", "connections", "integer", "in use or idle, of all workers")                       \
    X("Backend", "probe", "@Probe?", "what its probe saw; null: it has none")                      \
    X("Probe", "good", "integer", "results of the window that were good")                          \
    X("Probe", "window", "integer", "results that count")                                          \
    X("Probe", "threshold", "integer", "how many have to be good")                                 \
    X("Probe", "results", "string", "of the window, H good and - bad; the newest last")            \
    X("Probe", "last_ms", "integer", "what the last one took; milliseconds")                       \
    X("Probe", "average_s", "number", "what good ones take, lately; seconds")                      \
    X("Probe", "last", "string?", "HTTP/1.1 200 OK, or what went wrong")                           \
    X("Director", "name", "string", "as in the configuration")                                     \
    X("Director", "type", "string",                                                                \
      "round_robin, fallback, random, hash, shard or least_connections")                           \
    X("Director", "healthy", "boolean", "whether one of its backends is")                          \
    X("Director", "backends", "[@Member]", "its members")                                          \
    X("Member", "name", "string", "a backend, or another director")                                \
    X("Member", "weight", "number", "its part, against those of the others")

/* clang-format on */

#endif
