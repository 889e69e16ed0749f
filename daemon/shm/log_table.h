/* log_table.h -- every tag of the shared-memory log: name, payload, documentation.
 *
 * Payloads: TEXT bytes; NUM one number; EVENT a number and a label; FIELD "Name: value";
 * REQ struct shmlog_req_fixed and its strings; TLS the texts of SHMLOG_TLS_TABLE.  Tags are numbered by their order here, and
 * the numbers stand in files that other programs read: new rows go to the end.
 */
#ifndef TARN_LOG_TABLE_H
#define TARN_LOG_TABLE_H

/* clang-format off */
/*    name, payload, when it is written: A always, D only while a reader is attached; meaning */
#define SHMLOG_TABLE(X)                                                                            \
    X(Req, REQ, A, "A request, whole, in one compact record, written when it has ended")           \
    X(Begin, TEXT, D, "The transaction begins; why: rxreq, fetch, bgfetch, restart, esi")          \
    X(Link, NUM, D, "Id of a transaction that this one started")                                   \
    X(End, NUM, D, "The transaction ended; how long it took in microseconds")                      \
    X(Timestamp, EVENT, D, "Microseconds since the transaction began, and the event")              \
    X(State, TEXT, D, "The machine entered this state")                                            \
    X(SessOpen, TEXT, D, "A client connected: its address, a space, the listener's name")          \
    X(SessClose, TEXT, D, "The client's HTTP/2 connection ended, and why")                         \
    X(ReqStart, TEXT, D, "Address and port of the client")                                         \
    X(ReqMethod, TEXT, D, "Method of the request")                                                 \
    X(ReqURL, TEXT, D, "Target of the request, as received or as the policy set it")               \
    X(ReqProtocol, TEXT, D, "Version of the request, as HTTP/1.1 or HTTP/2.0")                                 \
    X(ReqHeader, FIELD, D, "A field of the request")                                               \
    X(ReqUnset, FIELD, D, "A field that was removed from the request")                             \
    X(RespProtocol, TEXT, D, "Version of the response, as HTTP/1.1")                               \
    X(RespStatus, NUM, D, "Status of the response to the client")                                  \
    X(RespReason, TEXT, D, "Reason phrase of the response to the client")                          \
    X(RespHeader, FIELD, D, "A field of the response to the client")                               \
    X(RespUnset, FIELD, D, "A field that was removed from the response")                           \
    X(ReqAcct, TEXT, D, "Bytes: request head, body, both; response head, body, both")              \
    X(Hash, TEXT, D, "Key of the lookup")                                                          \
    X(Hit, NUM, D, "A stored response is used; id of the fetch that stored it")                    \
    X(HitStale, NUM, D, "As Hit, but stale: within grace, or because the fetch failed")            \
    X(HitMiss, NUM, D, "A hit-for-miss marker was found; id of the fetch that stored it")          \
    X(Miss, TEXT, D, "No usable response is stored; optionally the reason")                        \
    X(Pass, TEXT, D, "No lookup; optionally the reason")                                           \
    X(Queued, NUM, D, "Waits for the fetch of another transaction")                                \
    X(Policy, TEXT, D, "Result of a policy: the subroutine, a space, its action")                  \
    X(VCL_Log, TEXT, D, "Written by the policy itself")                                            \
    X(BereqMethod, TEXT, D, "Method of the request to the backend")                                \
    X(BereqURL, TEXT, D, "Target of the request to the backend")                                   \
    X(BereqHeader, FIELD, D, "A field of the request to the backend")                              \
    X(BerespProtocol, TEXT, D, "Version of the backend's response, as HTTP/1.1")                   \
    X(BerespStatus, NUM, D, "Status of the backend's response")                                    \
    X(BerespReason, TEXT, D, "Reason phrase of the backend's response")                            \
    X(BerespHeader, FIELD, D, "A field of the backend's response")                                 \
    X(Backend, TEXT, D, "Name of the backend that was chosen")                                     \
    X(BackendOpen, TEXT, D, "A connection to a backend, new or reused: name, address, which")      \
    X(BackendClose, TEXT, D, "The connection to the backend ended, or went back to the pool")      \
    X(Storage, TEXT, D, "Storage of the response")                                                 \
    X(TTL, TEXT, D, "Freshness, grace and keep in milliseconds, and their origin")                 \
    X(Length, NUM, D, "Bytes of the body that was stored")                                         \
    X(FetchError, TEXT, D, "Why the fetch failed")                                                 \
    X(Error, TEXT, D, "Why the request failed")                                                    \
    X(BogoHeader, TEXT, D, "The defect of a malformed message")                                    \
    X(Debug, TEXT, D, "For developers of Tarn")                                                    \
    X(PolicyLines, TEXT, D, "Lines of a policy that ran: file, subroutine, line numbers")          \
    X(ReqTLS, TLS, A, "Behind the Req of a request that came by TLS: what the handshake said")
/* clang-format on */

/* The texts of a ReqTLS record, in this order, each with a NUL behind it.
 * X(name, most bytes: what is longer is cut, meaning) */
/* clang-format off */
#define SHMLOG_TLS_TABLE(X)                                                                        \
    X(version, 16, "TLSv1.2 or TLSv1.3")                                                           \
    X(cipher, 48, "Cipher suite, by its name in the standard")                                     \
    X(reused, 1, "r: resumed by a session ticket; .: not")                                         \
    X(server_name, 255, "Server name that the client sent (SNI)")                                    \
    X(client_serial, 64, "Serial number of the client's certificate, in hexadecimal")              \
    X(client_fingerprint, 64, "SHA-256 of the client's certificate, in hexadecimal")               \
    X(client_subject, 255, "Subject of the client's certificate (RFC 2253)")                       \
    X(client_issuer, 255, "Its issuer, likewise")
/* clang-format on */

/* What a chunk tells of: the kind of its transaction. */
/* clang-format off */
#define SHMLOG_KIND_TABLE(X)                                \
    X(SESS, "a client's connection")                                                               \
    X(REQ, "a client's request")                                                                   \
    X(FETCH, "a request to a backend")                                                             \
    X(RAW, "no transaction: the daemon itself")
/* clang-format on */

#endif
