/* vcl_decl_table.h -- the attributes of probes and backends, one row each.
 *
 * From vcl-probe(7) and vcl-backend(7) of Varnish.  The reference in README.md is made from these
 * rows.
 */
#ifndef TARN_VCL_DECL_TABLE_H
#define TARN_VCL_DECL_TABLE_H

enum decl_kind {
    DECL_STRING,   /* one string */
    DECL_LINES,    /* one string or more, each a line */
    DECL_INT,      /* min to max */
    DECL_DURATION, /* min to max seconds */
    DECL_BOOL,
    DECL_PROBE,   /* a name, or { ... } */
    DECL_REFUSED, /* of Varnish alone */
};

/* clang-format off */
/*    id, name, kind, min, max, what it is; REFUSED: why */
#define VCL_PROBE_ATTR_TABLE(X)                                                                    \
    X(URL, "url", DECL_STRING, 0, 0, "the target; \"/\"")                                          \
    X(REQUEST, "request", DECL_LINES, 0, 0,                                                        \
      "a whole request instead, each string a line; it should contain Connection: close")          \
    X(EXPECTED_RESPONSE, "expected_response", DECL_INT, 100, 999,                                  \
      "the status of a good response; 200")                                                        \
    X(TIMEOUT, "timeout", DECL_DURATION, 0, 1e6, "how long it may take; 2s")                       \
    X(INTERVAL, "interval", DECL_DURATION, 0, 1e6, "from one to the next; 5s")                     \
    X(WINDOW, "window", DECL_INT, 0, 64, "how many of the latest results count; 8")                \
    X(THRESHOLD, "threshold", DECL_INT, 0, 64, "how many of them must be good; 3")                 \
    X(INITIAL, "initial", DECL_INT, 0, 1000,                                                       \
      "how many good results it starts with; threshold - 1")                                       \
    X(EXPECT_CLOSE, "expect_close", DECL_BOOL, 0, 0,                                               \
      "must the backend close the connection? true")

#define VCL_BACKEND_ATTR_TABLE(X)                                                                  \
    X(HOST, "host", DECL_STRING, 0, 0, "a name or an address, perhaps with :port")                 \
    X(PORT, "port", DECL_STRING, 0, 0, "the port, in quotes; \"80\"")                              \
    X(PATH, "path", DECL_STRING, 0, 0, "a Unix socket instead of .host")                           \
    X(HOST_HEADER, "host_header", DECL_STRING, 0, 0,                                               \
      "the Host of requests that have none, and of probes; .host")                                 \
    X(CONNECT_TIMEOUT, "connect_timeout", DECL_DURATION, 0, 1e6,                                   \
      "how long a connection may take; the parameter of this name")                                \
    X(FIRST_BYTE_TIMEOUT, "first_byte_timeout", DECL_DURATION, 0, 1e6,                             \
      "how long the response's first byte may take; the parameter")                                \
    X(BETWEEN_BYTES_TIMEOUT, "between_bytes_timeout", DECL_DURATION, 0, 1e6,                       \
      "how long it may pause; the parameter")                                                      \
    X(MAX_CONNECTIONS, "max_connections", DECL_INT, 0, 1e9, "largest number at a time; 0: any")    \
    X(PROXY_HEADER, "proxy_header", DECL_INT, 1, 2, "begin with a PROXY header of this version")   \
    X(PROBE, "probe", DECL_PROBE, 0, 0, "its health check; probe default, if there is one")        \
    X(WAIT_LIMIT, "wait_limit", DECL_INT, 0, 1e6,                                                  \
      "with .max_connections: how many fetches of a worker may wait for one; 0")                   \
    X(WAIT_TIMEOUT, "wait_timeout", DECL_DURATION, 0, 1e6, "and for how long; 30s")                \
    X(VIA, "via", DECL_REFUSED, 0, 0, "backends are reached directly")                             \
    X(AUTHORITY, "authority", DECL_REFUSED, 0, 0, "it belongs to .via")                            \
    X(PREAMBLE, "preamble", DECL_REFUSED, 0, 0, "vcl-lite has no BLOB")
/* clang-format on */

#endif
