/* vcl_var_table.h -- every variable of the language: type, and where it may be read, set and unset.
 *
 * From vcl-var(7) of Varnish.  A name that ends in '.' is a family: header fields, storages.
 */
#ifndef TARN_VCL_VAR_TABLE_H
#define TARN_VCL_VAR_TABLE_H

#define VCL_IN(sub) (1u << VCL_SUB_##sub)
#define VCL_CLIENT                                                                            \
    (VCL_IN(RECV) | VCL_IN(HASH) | VCL_IN(HIT) | VCL_IN(MISS) | VCL_IN(PASS) | VCL_IN(PIPE) | \
        VCL_IN(PURGE) | VCL_IN(DELIVER) | VCL_IN(SYNTH))
#define VCL_BACKEND                                                               \
    (VCL_IN(BACKEND_FETCH) | VCL_IN(BACKEND_RESPONSE) | VCL_IN(BACKEND_REFRESH) | \
        VCL_IN(BACKEND_ERROR))
/* Where there is a backend's response, a response to the client, a stored one. */
#define VCL_BERESP (VCL_IN(BACKEND_RESPONSE) | VCL_IN(BACKEND_REFRESH) | VCL_IN(BACKEND_ERROR))
#define VCL_RESP   (VCL_IN(DELIVER) | VCL_IN(SYNTH))
#define VCL_HITS   (VCL_IN(HIT) | VCL_IN(DELIVER))
#define VCL_ALL    (VCL_CLIENT | VCL_BACKEND | VCL_IN(INIT) | VCL_IN(FINI))

enum vcl_var_flag {
    VCL_V40 = 1,   /* only in vcl 4.0 */
    VCL_V41 = 2,   /* only in vcl 4.1 */
    VCL_W40 = 8,   /* set only in vcl 4.0 */
    VCL_TARN = 16, /* Tarn's own: Varnish has none of this name */
};

/* clang-format off */
/* Those that are read as what holds, and are set with a warning that nothing changes:
 *    id, what Tarn does instead */
#define VCL_INERT_TABLE(X)                                                                         \
    X(REQ_PROTO, "messages are sent as HTTP/1.1")                                                  \
    X(BEREQ_PROTO, "messages are sent as HTTP/1.1")                                                \
    X(BERESP_PROTO, "messages are sent as HTTP/1.1")                                               \
    X(RESP_PROTO, "messages are sent as HTTP/1.1")                                                 \
    X(REQ_FILTERS, "a request's body is sent as it came")                                          \
    X(BEREQ_FILTERS, "a request's body is sent as it came")                                        \
    X(BERESP_STORAGE_HINT, "there is one storage")                                                 \
    X(REQ_TRACE, "the log has the lines that ran while a reader is attached")                      \
    X(BEREQ_TRACE, "the log has the lines that ran while a reader is attached")                    \
    X(BEREQ_TASK_DEADLINE,                                                                         \
      "a tunnel that carries bytes has no end; a silent one has pipe_timeout")                     \
    X(SESS_IDLE_SEND_TIMEOUT, "the parameter idle_send_timeout holds for all connections")         \
    X(SESS_SEND_TIMEOUT, "a response may take any time while the client takes some of it within "  \
      "idle_send_timeout")                                                                         \
    X(SESS_TIMEOUT_IDLE, "the parameter timeout_idle holds for all connections")                   \
    X(SESS_TIMEOUT_LINGER, "no thread waits for a connection's next request")

/*    id, name, type, read in, set in, unset in, flags, what it is */
#define VCL_VAR_TABLE(X)                                                                           \
    X(CLIENT_IDENTITY, "client.identity", STRING, VCL_CLIENT | VCL_BACKEND, VCL_CLIENT, 0, 0,      \
      "Identity of the client, for directors and logs; client.ip until it is set")                 \
    X(CLIENT_IP, "client.ip", IP, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,                               \
      "The client's address: the connection's, or that of a PROXY header or a trusted proxy; of "  \
      "a Unix socket 0.0.0.0")                                                                     \
    X(CLIENT_TLS_VERSION, "client.tls.version", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_TARN,  \
      "TLSv1.2 or TLSv1.3; unset on a plain connection. Of a PROXY header what it says, as of all "  \
      "of client.tls and client.cert")                                                             \
    X(CLIENT_TLS_CIPHER, "client.tls.cipher", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_TARN,    \
      "The cipher suite, as TLS_AES_128_GCM_SHA256; unset on a plain connection")                  \
    X(CLIENT_TLS_SERVER_NAME, "client.tls.server_name", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0,    \
      VCL_TARN, "The server name of the handshake (SNI), in lower case; unset without one")        \
    X(CLIENT_TLS_RESUMED, "client.tls.resumed", BOOL, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_TARN,    \
      "The connection was resumed by a session ticket")                                            \
    X(CLIENT_TLS_EARLY_DATA, "client.tls.early_data", BOOL, VCL_CLIENT | VCL_BACKEND, 0, 0,        \
      VCL_TARN, "The request came in early data, and the handshake is not complete: only a fresh " \
      "hit is answered, anything else is 425")                                                     \
    X(CLIENT_CERT_SUBJECT, "client.cert.subject", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0,          \
      VCL_TARN, "Subject of the client's certificate, which was verified, as CN=joe,O=Work "       \
      "(RFC 2253); unset without one")                                                             \
    X(CLIENT_CERT_ISSUER, "client.cert.issuer", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_TARN,  \
      "Its issuer, likewise")                                                                      \
    X(CLIENT_CERT_SERIAL, "client.cert.serial", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_TARN,  \
      "Its serial number, in hexadecimal, lower case")                                             \
    X(CLIENT_CERT_FINGERPRINT, "client.cert.fingerprint", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0,  \
      VCL_TARN, "Its SHA-256, in hexadecimal, lower case")                                         \
    X(SERVER_HOSTNAME, "server.hostname", STRING, VCL_ALL, 0, 0, 0,                                \
      "The host's name, as hostname(1) prints it")                                                 \
    X(SERVER_IDENTITY, "server.identity", STRING, VCL_ALL, 0, 0, 0,                                \
      "The daemon's name: that of the host")                                                       \
    X(SERVER_IP, "server.ip", IP, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,                               \
      "The server's end of the client's connection; behind a proxy, that of the PROXY header")     \
    X(REMOTE_IP, "remote.ip", IP, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,                               \
      "The other end of the connection itself: the proxy, if there is one")                        \
    X(LOCAL_ENDPOINT, "local.endpoint", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_V41,           \
      "The `listen` entry that took the connection, as it is written there")                       \
    X(LOCAL_IP, "local.ip", IP, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,                                 \
      "The server's end of the connection itself")                                                 \
    X(LOCAL_SOCKET, "local.socket", STRING, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_V41,               \
      "The name of the `listen` entry that took the connection")                                   \
    X(REQ, "req", HTTP, VCL_CLIENT, 0, 0, 0, "The client's request, for std.rollback()")           \
    X(REQ_BACKEND_HINT, "req.backend_hint", BACKEND, VCL_CLIENT, VCL_CLIENT, 0, 0,                 \
      "Backend or director of a later fetch. Until it is set: the backend of the route that "      \
      "matches the request as it is now, else the default; where the policy declares backends, "   \
      "its default")                                                                               \
    X(REQ_CAN_GZIP, "req.can_gzip", BOOL, VCL_CLIENT, 0, 0, 0,                                     \
      "Accept-Encoding accepts gzip")                                                              \
    X(REQ_ESI, "req.esi", BOOL, VCL_CLIENT, VCL_CLIENT, 0, VCL_V40,                                \
      "Is ESI carried out in its response?")                                          \
    X(REQ_ESI_LEVEL, "req.esi_level", INT, VCL_CLIENT, 0, 0, 0,                                    \
      "Depth of ESI includes; 0: a client's request")                                              \
    X(REQ_FILTERS, "req.filters", STRING, VCL_IN(RECV), VCL_IN(RECV), 0, 0,                        \
      "Filters of the request's body: none")                                                             \
    X(REQ_GRACE, "req.grace", DURATION, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0,                     \
      "Upper bound of the grace of a stored response; unset: its own grace")                       \
    X(REQ_HASH_ALWAYS_MISS, "req.hash_always_miss", BOOL, VCL_CLIENT, VCL_CLIENT, 0, 0,            \
      "Fetch even if a fresh response is stored, and replace it")                                  \
    X(REQ_HASH_IGNORE_BUSY, "req.hash_ignore_busy", BOOL, VCL_CLIENT, VCL_CLIENT, 0, 0,            \
      "Do not wait for the fetch of another request (no coalescing)")                              \
    X(REQ_HASH_IGNORE_VARY, "req.hash_ignore_vary", BOOL, VCL_CLIENT, VCL_CLIENT, 0, 0,            \
      "Take any stored variant, whatever Vary says")                                               \
    X(REQ_HTTP, "req.http.", HEADER, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0,                        \
      "The request's header fields")                                                               \
    X(REQ_IS_HITMISS, "req.is_hitmiss", BOOL, VCL_CLIENT, 0, 0, 0,                                 \
      "The lookup found a hit-for-miss marker; false before the lookup")                           \
    X(REQ_IS_HITPASS, "req.is_hitpass", BOOL, VCL_CLIENT, 0, 0, 0,                                 \
      "The lookup found a hit-for-pass marker; false before the lookup")                           \
    X(REQ_METHOD, "req.method", STRING, VCL_CLIENT, VCL_CLIENT, 0, 0, "GET, HEAD, POST ...")       \
    X(REQ_PROTO, "req.proto", STRING, VCL_CLIENT, VCL_CLIENT, 0, VCL_W40, \
      "HTTP/2.0, HTTP/1.1, HTTP/1.0")                                                              \
    X(REQ_RESTARTS, "req.restarts", INT, VCL_CLIENT, 0, 0, 0, "Number of restarts")                \
    X(REQ_STORAGE, "req.storage", STEVEDORE, VCL_CLIENT, VCL_CLIENT, 0, 0,                         \
      "Storage of a cached request body")                                                          \
    X(REQ_TIME, "req.time", TIME, VCL_CLIENT, 0, 0, 0,                                             \
      "When its head was read, or when it restarted")                                              \
    X(REQ_TRACE, "req.trace", BOOL, VCL_CLIENT, VCL_CLIENT, 0, 0,                                  \
      "Log the lines that run (VCL_trace)")                                                        \
    X(REQ_TRANSPORT, "req.transport", STRING, VCL_CLIENT, 0, 0, 0, "How the request came: HTTP/1") \
    X(REQ_MAX_AGE, "req.max_age", DURATION, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0,                 \
      "Largest age of a stored response; unset: any")                                              \
    X(REQ_TTL, "req.ttl", DURATION, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0,                         \
      "An older name of req.max_age")                                                              \
    X(REQ_URL, "req.url", STRING, VCL_CLIENT, VCL_CLIENT, 0, 0,                                    \
      "Request target: path and query")                                                            \
    X(REQ_XID, "req.xid", INT, VCL_CLIENT, 0, 0, 0, "The request's number in the log")             \
    X(REQ_TOP_HTTP, "req_top.http.", HEADER, VCL_CLIENT, 0, 0, 0,                                  \
      "Header fields of the client's request that an ESI include belongs to")                      \
    X(REQ_TOP_METHOD, "req_top.method", STRING, VCL_CLIENT, 0, 0, 0, "Its method")                 \
    X(REQ_TOP_PROTO, "req_top.proto", STRING, VCL_CLIENT, 0, 0, 0, "Its protocol")                 \
    X(REQ_TOP_TIME, "req_top.time", TIME, VCL_CLIENT, 0, 0, 0, "When it came")                     \
    X(REQ_TOP_URL, "req_top.url", STRING, VCL_CLIENT, 0, 0, 0, "Its URL")                          \
    X(BEREQ, "bereq", HTTP, VCL_BACKEND, 0, 0, 0,                                                  \
      "The request to the backend, for std.rollback()")                                            \
    X(BEREQ_BACKEND, "bereq.backend", BACKEND, VCL_IN(PIPE) | VCL_BACKEND, VCL_IN(PIPE) |          \
      VCL_BACKEND, 0, 0, "The backend of the fetch, or a director that will choose one")           \
    X(BEREQ_BETWEEN_BYTES_TIMEOUT, "bereq.between_bytes_timeout", DURATION, VCL_BACKEND,           \
      VCL_BACKEND, VCL_IN(PIPE) | VCL_BACKEND, 0,                                                  \
      "How long the backend may be silent within a response")                                      \
    X(BEREQ_BODY, "bereq.body", BODY, 0, 0, VCL_IN(BACKEND_FETCH), 0,                              \
      "The request's body; unset: none is sent")                                                   \
    X(BEREQ_CONNECT_TIMEOUT, "bereq.connect_timeout", DURATION, VCL_IN(PIPE) | VCL_BACKEND,        \
      VCL_IN(PIPE) | VCL_BACKEND, VCL_IN(PIPE) | VCL_BACKEND, 0, "How long connecting may take")   \
    X(BEREQ_FILTERS, "bereq.filters", STRING, VCL_IN(BACKEND_FETCH), VCL_IN(BACKEND_FETCH), 0,     \
      0, "Filters of the body that is sent: none")                                               \
    X(BEREQ_FIRST_BYTE_TIMEOUT, "bereq.first_byte_timeout", DURATION, VCL_BACKEND, VCL_BACKEND,    \
      VCL_IN(PIPE) | VCL_BACKEND, 0, "Time to the first byte of the response")                     \
    X(BEREQ_HTTP, "bereq.http.", HEADER, VCL_IN(PIPE) | VCL_BACKEND, VCL_IN(PIPE) | VCL_BACKEND,   \
      VCL_IN(PIPE) | VCL_BACKEND, 0, "Header fields of the request to the backend")                \
    X(BEREQ_IS_BGFETCH, "bereq.is_bgfetch", BOOL, VCL_BACKEND, 0, 0, 0,                            \
      "It is a background fetch: the client got a stale response")                                 \
    X(BEREQ_IS_HITMISS, "bereq.is_hitmiss", BOOL, VCL_BACKEND, 0, 0, 0,                            \
      "As req.is_hitmiss of the request that caused it")                                           \
    X(BEREQ_IS_HITPASS, "bereq.is_hitpass", BOOL, VCL_BACKEND, 0, 0, 0,                            \
      "As req.is_hitpass of the request that caused it")                                           \
    X(BEREQ_METHOD, "bereq.method", STRING, VCL_IN(PIPE) | VCL_BACKEND, VCL_IN(PIPE) |             \
      VCL_BACKEND, 0, 0, "Its method; GET for a response that may be stored")                      \
    X(BEREQ_PROTO, "bereq.proto", STRING, VCL_IN(PIPE) | VCL_BACKEND, VCL_IN(PIPE) |               \
      VCL_BACKEND, 0, VCL_W40, "HTTP/1.1, HTTP/1.0")                                               \
    X(BEREQ_RETRIES, "bereq.retries", INT, VCL_BACKEND, 0, 0, 0,                                   \
      "Number of retries")                                                                         \
    X(BEREQ_RETRY_CONNECT, "bereq.retry_connect", BOOL, VCL_BACKEND, VCL_BACKEND, 0, 0,            \
      "May it be sent again on a new connection when a reused one was closed?")                    \
    X(BEREQ_TASK_DEADLINE, "bereq.task_deadline", DURATION, VCL_IN(PIPE), VCL_IN(PIPE),            \
      VCL_IN(PIPE), 0, "How long a tunnel may last; unset: pipe_task_deadline")                    \
    X(BEREQ_TIME, "bereq.time", TIME, VCL_IN(PIPE) | VCL_BACKEND, 0, 0, 0,                         \
      "When the fetch, or its retry, began")                                                       \
    X(BEREQ_TRACE, "bereq.trace", BOOL, VCL_BACKEND, VCL_BACKEND, 0, 0,                            \
      "As req.trace, for the fetch")                                                               \
    X(BEREQ_UNCACHEABLE, "bereq.uncacheable", BOOL, VCL_BACKEND, 0, 0, 0,                          \
      "The response will not be stored, whatever its fields")                                      \
    X(BEREQ_URL, "bereq.url", STRING, VCL_IN(PIPE) | VCL_BACKEND, VCL_IN(PIPE) | VCL_BACKEND, 0,   \
      0, "Request target: path and query")                                                         \
    X(BEREQ_XID, "bereq.xid", INT, VCL_IN(PIPE) | VCL_BACKEND, 0, 0, 0,                            \
      "The fetch's number in the log")                                                             \
    X(BERESP, "beresp", HTTP, VCL_BERESP, 0, 0, 0, "The backend's response, for std.rollback()")   \
    X(BERESP_AGE, "beresp.age", DURATION, VCL_BERESP, 0, 0, 0, "The Age of the response")          \
    X(BERESP_BACKEND, "beresp.backend", BACKEND, VCL_BERESP, 0, 0, 0,                              \
      "The backend that answered, not its director")                                               \
    X(BERESP_BACKEND_IP, "beresp.backend.ip", IP, VCL_IN(BACKEND_RESPONSE), 0, 0, VCL_V40,         \
      "The address that answered")                                                                 \
    X(BERESP_BACKEND_NAME, "beresp.backend.name", STRING, VCL_BERESP, 0, 0, 0,                     \
      "The name of beresp.backend")                                                                \
    X(BERESP_BODY, "beresp.body", BODY, 0, VCL_IN(BACKEND_ERROR), 0, 0,                            \
      "The body of an error page")                                                                 \
    X(BERESP_DO_ESI, "beresp.do_esi", BOOL, VCL_BERESP, VCL_BERESP, 0, 0,                          \
      "Search it for ESI; until it is set, what the route says")                                                                         \
    X(BERESP_DO_GUNZIP, "beresp.do_gunzip", BOOL, VCL_BERESP, VCL_BERESP, 0, 0,                    \
      "Unpack it before it is stored, if it is gzip")                                                             \
    X(BERESP_DO_GZIP, "beresp.do_gzip", BOOL, VCL_BERESP, VCL_BERESP, 0, 0,                        \
      "Pack it before it is stored; at first what `compress` says")                                                               \
    X(BERESP_DO_STREAM, "beresp.do_stream", BOOL, VCL_BERESP, VCL_BERESP, 0, 0,                    \
      "Deliver while the body arrives; false: when it is complete")                                \
    X(BERESP_FILTERS, "beresp.filters", STRING, VCL_IN(BACKEND_RESPONSE),                          \
      VCL_IN(BACKEND_RESPONSE), 0, 0,                                                              \
      "Filters of the body that is received: of gunzip, esi and gzip those that do something")              \
    X(BERESP_GRACE, "beresp.grace", DURATION, VCL_BERESP, VCL_BERESP, 0, 0,                        \
      "How long it may be served stale while a new one is fetched")                                \
    X(BERESP_HTTP, "beresp.http.", HEADER, VCL_BERESP, VCL_BERESP, VCL_BERESP, 0,                  \
      "Header fields of the backend's response")                                                   \
    X(BERESP_KEEP, "beresp.keep", DURATION, VCL_BERESP, VCL_BERESP, 0, 0,                          \
      "How long after grace it is kept for conditional fetches (304)")                             \
    X(BERESP_PROTO, "beresp.proto", STRING, VCL_BERESP, VCL_BERESP, 0, VCL_W40,                    \
      "HTTP/1.1, HTTP/1.0")                                                                        \
    X(BERESP_REASON, "beresp.reason", STRING, VCL_BERESP, VCL_BERESP, 0, 0,                        \
      "The reason phrase")                                                                         \
    X(BERESP_STATUS, "beresp.status", INT, VCL_BERESP, VCL_BERESP, 0, 0,                           \
      "The status: 200, 404 ...")                                                                  \
    X(BERESP_STORAGE, "beresp.storage", STEVEDORE, VCL_BERESP, VCL_BERESP, 0, 0,                   \
      "Where it will be stored")                                                                   \
    X(BERESP_STORAGE_HINT, "beresp.storage_hint", STRING, VCL_BERESP, VCL_BERESP, 0,               \
      VCL_V40, "The name of the storage to be used: there is one")                     \
    X(BERESP_TIME, "beresp.time", TIME, VCL_BERESP, 0, 0, 0, "When its head was received")         \
    X(BERESP_TRANSIT_BUFFER, "beresp.transit_buffer", BYTES, VCL_IN(BACKEND_RESPONSE),             \
      VCL_IN(BACKEND_RESPONSE), 0, 0,                                                              \
      "How many bytes a passed response may be ahead of the client; 0: any")                       \
    X(BERESP_TTL, "beresp.ttl", DURATION, VCL_BERESP, VCL_BERESP, 0, 0,                            \
      "How long it is fresh, from now")                                                            \
    X(BERESP_UNCACHEABLE, "beresp.uncacheable", BOOL, VCL_BERESP, VCL_BERESP, 0, 0,                \
      "It is not stored; true adds a hit-for-miss marker, and cannot be set back")                 \
    X(BERESP_WAS_304, "beresp.was_304", BOOL, VCL_BERESP, 0, 0, 0,                                 \
      "The backend answered 304: the stored response was validated")                               \
    X(OBJ_STALE_AGE, "obj_stale.age", DURATION, VCL_IN(BACKEND_REFRESH), 0, 0, 0,                  \
      "Age of the stored response that the 304 validates")                                         \
    X(OBJ_STALE_CAN_ESI, "obj_stale.can_esi", BOOL, VCL_IN(BACKEND_REFRESH), 0, 0, 0,              \
      "It has been searched for ESI")                                                              \
    X(OBJ_STALE_GRACE, "obj_stale.grace", DURATION, VCL_IN(BACKEND_REFRESH), 0, 0, 0, "Its grace") \
    X(OBJ_STALE_HITS, "obj_stale.hits", INT, VCL_IN(BACKEND_REFRESH), 0, 0, 0,                     \
      "How often it was delivered from the cache")                                                 \
    X(OBJ_STALE_HTTP, "obj_stale.http.", HEADER, VCL_IN(BACKEND_REFRESH), 0, 0, 0,                 \
      "Its header fields")                                                                         \
    X(OBJ_STALE_KEEP, "obj_stale.keep", DURATION, VCL_IN(BACKEND_REFRESH), 0, 0, 0, "Its keep")    \
    X(OBJ_STALE_PROTO, "obj_stale.proto", STRING, VCL_IN(BACKEND_REFRESH), 0, 0, 0,                \
      "Its protocol")                                                                              \
    X(OBJ_STALE_REASON, "obj_stale.reason", STRING, VCL_IN(BACKEND_REFRESH), 0, 0, 0,              \
      "Its reason phrase")                                                                         \
    X(OBJ_STALE_STATUS, "obj_stale.status", INT, VCL_IN(BACKEND_REFRESH), 0, 0, 0, "Its status")   \
    X(OBJ_STALE_STORAGE, "obj_stale.storage", STEVEDORE, VCL_IN(BACKEND_REFRESH), 0, 0, 0,         \
      "Where it is stored")                                                                        \
    X(OBJ_STALE_TIME, "obj_stale.time", TIME, VCL_IN(BACKEND_REFRESH), 0, 0, 0,                    \
      "When it was stored")                                                                        \
    X(OBJ_STALE_TTL, "obj_stale.ttl", DURATION, VCL_IN(BACKEND_REFRESH), 0, 0, 0,                  \
      "Remaining freshness; below 0: for how long it has been stale")                              \
    X(OBJ_STALE_UNCACHEABLE, "obj_stale.uncacheable", BOOL, VCL_IN(BACKEND_REFRESH), 0, 0, 0,      \
      "It is a hit-for-miss or hit-for-pass entry")                                                \
    X(OBJ_STALE_IS_VALID, "obj_stale.is_valid", BOOL, VCL_IN(BACKEND_REFRESH), 0, 0, 0,            \
      "It was neither banned nor purged during the fetch")                                         \
    X(OBJ_AGE, "obj.age", DURATION, VCL_HITS, 0, 0, 0, "Its age")                                  \
    X(OBJ_CAN_ESI, "obj.can_esi", BOOL, VCL_HITS, 0, 0, 0, "It has been searched for ESI")         \
    X(OBJ_GRACE, "obj.grace", DURATION, VCL_HITS, 0, 0, 0, "How long it may be served stale")      \
    X(OBJ_HITS, "obj.hits", INT, VCL_HITS, 0, 0, 0,                                                \
      "How often it was delivered from the cache; 0: it was just fetched")                         \
    X(OBJ_HTTP, "obj.http.", HEADER, VCL_IN(HIT), 0, 0, 0,                                         \
      "Its header fields, as they are stored")                                                     \
    X(OBJ_KEEP, "obj.keep", DURATION, VCL_HITS, 0, 0, 0, "How long behind grace it is kept")       \
    X(OBJ_PROTO, "obj.proto", STRING, VCL_IN(HIT), 0, 0, 0, "Its protocol")                        \
    X(OBJ_REASON, "obj.reason", STRING, VCL_IN(HIT), 0, 0, 0, "Its reason phrase")                 \
    X(OBJ_STATUS, "obj.status", INT, VCL_IN(HIT), 0, 0, 0, "Its status")                           \
    X(OBJ_STORAGE, "obj.storage", STEVEDORE, VCL_HITS, 0, 0, 0, "Where it is stored")              \
    X(OBJ_TIME, "obj.time", TIME, VCL_HITS, 0, 0, 0, "When it was stored")                         \
    X(OBJ_TTL, "obj.ttl", DURATION, VCL_HITS, 0, 0, 0,                                             \
      "Remaining freshness; below 0: it is stale")                                                 \
    X(OBJ_UNCACHEABLE, "obj.uncacheable", BOOL, VCL_IN(DELIVER), 0, 0, 0,                          \
      "It is not in the cache: passed, or hit-for-miss")                                           \
    X(RESP, "resp", HTTP, VCL_RESP, 0, 0, 0, "The response to the client, for std.rollback()")     \
    X(RESP_BODY, "resp.body", BODY, 0, VCL_IN(SYNTH), 0, 0,                                        \
      "The body of a synthetic response")                                                          \
    X(RESP_DO_ESI, "resp.do_esi", BOOL, VCL_RESP, VCL_RESP, 0, VCL_V41,                            \
      "Is ESI carried out in it?")                                                                      \
    X(RESP_FILTERS, "resp.filters", STRING, VCL_RESP, VCL_RESP, 0, 0,                              \
      "Filters of the body that is sent: of esi, gunzip and range those that do something")                                                          \
    X(RESP_HTTP, "resp.http.", HEADER, VCL_RESP, VCL_RESP, VCL_RESP, 0,                            \
      "Header fields of the response to the client")                                               \
    X(RESP_IS_STREAMING, "resp.is_streaming", BOOL, VCL_RESP, 0, 0, 0,                             \
      "The backend is still sending it")                                                           \
    X(RESP_PROTO, "resp.proto", STRING, VCL_RESP, VCL_RESP, 0, VCL_W40, "HTTP/1.1, HTTP/1.0")      \
    X(RESP_REASON, "resp.reason", STRING, VCL_RESP, VCL_RESP, 0, 0, "The reason phrase")           \
    X(RESP_STATUS, "resp.status", INT, VCL_RESP, VCL_RESP, 0, 0,                                   \
      "The status: 200, 404 ...; of more than three digits the last three are sent")               \
    X(RESP_TIME, "resp.time", TIME, VCL_RESP, 0, 0, 0, "When the response was about to be sent")   \
    X(NOW, "now", TIME, VCL_ALL, 0, 0, 0, "The time; the same throughout one vcl_* sub")           \
    X(SESS_IDLE_SEND_TIMEOUT, "sess.idle_send_timeout", DURATION, VCL_CLIENT, VCL_CLIENT,          \
      VCL_CLIENT, 0, "How long the client may take no byte of a response")                         \
    X(SESS_SEND_TIMEOUT, "sess.send_timeout", DURATION, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0,     \
      "How long sending a response may take")                                                      \
    X(SESS_TIMEOUT_IDLE, "sess.timeout_idle", DURATION, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0,     \
      "How long the connection may wait for its next request")                                     \
    X(SESS_TIMEOUT_LINGER, "sess.timeout_linger", DURATION, VCL_CLIENT, VCL_CLIENT, VCL_CLIENT, 0, \
      "How long of that a worker waits itself (Varnish only)")                                     \
    X(SESS_XID, "sess.xid", INT, VCL_CLIENT | VCL_BACKEND, 0, 0, VCL_V41,                          \
      "The connection's number in the log")                                                        \
    X(STORAGE_FREE_SPACE, "storage.free_space", BYTES, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,          \
      "Bytes that are free; written storage.NAME.free_space")                                      \
    X(STORAGE_HAPPY, "storage.happy", BOOL, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,                     \
      "Is it healthy?  Written storage.NAME.happy")                                                \
    X(STORAGE_USED_SPACE, "storage.used_space", BYTES, VCL_CLIENT | VCL_BACKEND, 0, 0, 0,          \
      "Bytes that are in use; written storage.NAME.used_space")                                    \
    X(PARAM_BACKEND_IDLE_TIMEOUT, "param.backend_idle_timeout", DURATION, VCL_ALL, 0, 0, 0,        \
      "How long a backend's idle connection is kept")                                              \
    X(PARAM_BACKEND_WAIT_LIMIT, "param.backend_wait_limit", INT, VCL_ALL, 0, 0, 0,                 \
      "How many requests may wait for a backend's connection")                                     \
    X(PARAM_BACKEND_WAIT_TIMEOUT, "param.backend_wait_timeout", DURATION, VCL_ALL, 0, 0, 0,        \
      "How long they wait")                                                                        \
    X(PARAM_BETWEEN_BYTES_TIMEOUT, "param.between_bytes_timeout", DURATION, VCL_ALL, 0, 0, 0,      \
      "How long a backend may be silent within a response")                                        \
    X(PARAM_CONNECT_TIMEOUT, "param.connect_timeout", DURATION, VCL_ALL, 0, 0, 0,                  \
      "How long connecting may take")                                                              \
    X(PARAM_DEFAULT_GRACE, "param.default_grace", DURATION, VCL_ALL, 0, 0, 0,                      \
      "Grace of responses without their own")                                                      \
    X(PARAM_DEFAULT_KEEP, "param.default_keep", DURATION, VCL_ALL, 0, 0, 0,                        \
      "Keep of responses without their own")                                                       \
    X(PARAM_DEFAULT_TTL, "param.default_ttl", DURATION, VCL_ALL, 0, 0, 0,                          \
      "TTL of responses without freshness information")                                            \
    X(PARAM_FIRST_BYTE_TIMEOUT, "param.first_byte_timeout", DURATION, VCL_ALL, 0, 0, 0,            \
      "Time to the first byte of a response")                                                      \
    X(PARAM_IDLE_SEND_TIMEOUT, "param.idle_send_timeout", DURATION, VCL_ALL, 0, 0, 0,              \
      "How long a client may take no byte of a response")                                          \
    X(PARAM_MAX_ESI_DEPTH, "param.max_esi_depth", INT, VCL_ALL, 0, 0, 0,                           \
      "Largest depth of ESI includes")                                                             \
    X(PARAM_MAX_RESTARTS, "param.max_restarts", INT, VCL_ALL, 0, 0, 0,                             \
      "How often a request may restart")                                                           \
    X(PARAM_MAX_RETRIES, "param.max_retries", INT, VCL_ALL, 0, 0, 0,                               \
      "How often a fetch may be retried")                                                          \
    X(PARAM_PIPE_TASK_DEADLINE, "param.pipe_task_deadline", DURATION, VCL_ALL, 0, 0, 0,            \
      "How long a tunnel may last")                                                                \
    X(PARAM_PIPE_TIMEOUT, "param.pipe_timeout", DURATION, VCL_ALL, 0, 0, 0,                        \
      "How long a tunnel may be silent")                                                           \
    X(PARAM_SEND_TIMEOUT, "param.send_timeout", DURATION, VCL_ALL, 0, 0, 0,                        \
      "How long sending a response may take")                                                      \
    X(PARAM_SHORTLIVED, "param.shortlived", DURATION, VCL_ALL, 0, 0, 0,                            \
      "Responses with a shorter life do not go to a storage on disk")                              \
    X(PARAM_TIMEOUT_IDLE, "param.timeout_idle", DURATION, VCL_ALL, 0, 0, 0,                        \
      "How long a client's connection may wait for its next request")                              \
    X(PARAM_TRANSIT_BUFFER, "param.transit_buffer", BYTES, VCL_ALL, 0, 0, 0,                       \
      "How many bytes a passed response may be ahead of its client")                               \
    X(PARAM_UNCACHEABLE_TTL, "param.uncacheable_ttl", DURATION, VCL_ALL, 0, 0, 0,                  \
      "How long a hit-for-miss marker lasts")
/* clang-format on */

#endif
