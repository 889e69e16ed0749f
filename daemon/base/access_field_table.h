/* access_field_table.h -- what `access_log_format` can name. */
#ifndef TARN_ACCESS_FIELD_TABLE_H
#define TARN_ACCESS_FIELD_TABLE_H

/* Bytes of a text of the log, each of them escaped as \xHH; access_pattern_line.c asserts it. */
#define ACCESS_FIELD_TEXT (4 * 1023)
/* And of one that TLS said. */
#define ACCESS_FIELD_NAME (4 * 255)

/* clang-format off */
/* X(name, most bytes that it takes, documentation).  Names that nginx has mean the same. */
#define ACCESS_FIELD_TABLE(X)                                                                      \
    X(remote_addr, 64, "Client's address; unix: for a Unix socket")                                \
    X(remote_port, 8, "Client's port")                                                             \
    X(time_local, 64, "Time of the request's first byte, as in 21/Nov/2026:04:10:50 +0000")        \
    X(time_iso8601, 32, "The same in UTC, as in 2026-11-21T04:10:50.123Z")                         \
    X(msec, 32, "The same in seconds since 1970, with milliseconds")                               \
    X(request, ACCESS_FIELD_TEXT + 16, "Request line, as it came")                                 \
    X(request_method, ACCESS_FIELD_TEXT, "Method")                                                 \
    X(request_uri, ACCESS_FIELD_TEXT, "Target, with its query, as it came")                        \
    X(server_protocol, 16, "HTTP/1.0, HTTP/1.1 or HTTP/2.0")                                               \
    X(host, ACCESS_FIELD_TEXT, "Host, as it came")                                                 \
    X(http_host, ACCESS_FIELD_TEXT, "The same")                                                    \
    X(referer, ACCESS_FIELD_TEXT, "Referer")                                                       \
    X(http_referer, ACCESS_FIELD_TEXT, "The same")                                                 \
    X(user_agent, ACCESS_FIELD_TEXT, "User-Agent")                                                 \
    X(http_user_agent, ACCESS_FIELD_TEXT, "The same")                                              \
    X(request_length, 24, "Bytes of the request, head and body")                                   \
    X(status, 8, "Status of the response")                                                         \
    X(bytes_sent, 24, "Bytes of the response, head and body")                                      \
    X(body_bytes_sent, 24, "Bytes of the response's body, as sent")                                \
    X(request_time, 24, "Seconds from the first byte in to the last byte out, with milliseconds")  \
    X(time, 16, "The same in microseconds")                                                        \
    X(ttfb, 16, "Microseconds from the first byte in to the first byte out")                       \
    X(cache, 16, "Result of the request: hit, stale, miss, coalesced, hit-for-miss, pass, "        \
      "pipe, absent, synth or error")                                                              \
    X(backend, 1024, "Name of the backend of the fetch")                                           \
    X(request_id, 24, "Id of the request, as request_id_header sends it")                          \
    X(request_completion, 8, "OK if the client got the whole response")                            \
    X(esi_level, 8, "Depth of an include (ESI); 0: a client's request")                            \
    X(esi_parent, 24, "Id of the request that it is included in; - of a client's")                \
    X(scheme, 8, "http or https; where a trusted proxy says it, the client's")                     \
    X(https, 8, "on, if the scheme is https")                                                      \
    X(ssl_protocol, ACCESS_FIELD_NAME, "TLSv1.2 or TLSv1.3; - on a plain connection, as all of ssl_") \
    X(ssl_cipher, ACCESS_FIELD_NAME, "Cipher suite, by its name in the standard")                  \
    X(ssl_session_reused, 8, "r: the connection was resumed by a ticket; .: it was not")           \
    X(ssl_early_data, 8, "1: the request came in early data, before the handshake was complete")   \
    X(ssl_server_name, ACCESS_FIELD_NAME, "Server name of the handshake (SNI)")                  \
    X(ssl_client_s_dn, ACCESS_FIELD_NAME, "Subject of the client's certificate (RFC 2253); - without one") \
    X(ssl_client_i_dn, ACCESS_FIELD_NAME, "Its issuer")                                            \
    X(ssl_client_serial, ACCESS_FIELD_NAME, "Its serial number, in hexadecimal")                   \
    X(ssl_client_fingerprint, ACCESS_FIELD_NAME, "Its SHA-256, in hexadecimal (nginx has SHA-1)")
/* clang-format on */

enum access_field {
#define X(name, most, doc) ACCESS_FIELD_##name,
    ACCESS_FIELD_TABLE(X)
#undef X
    ACCESS_FIELD_COUNT
};

#endif
