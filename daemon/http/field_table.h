/* field_table.h -- the field names and methods that Tarn acts on. */
#ifndef TARN_FIELD_TABLE_H
#define TARN_FIELD_TABLE_H

enum http_field_flag {
    HTTP_HOP = 1,     /* hop-by-hop: never forwarded, never stored (RFC 9110 7.6.1) */
    HTTP_ACTED = 2,   /* Tarn acts on it: nominating it in Connection is refused */
    HTTP_SPOOF = 4,   /* stripped from clients that are not trusted: poisons what is keyed */
    HTTP_OURS = 8,    /* written anew on every response: not stored */
    HTTP_SINGLE = 16, /* at most one in a message */
};

/* clang-format off */
/*    id, name, flags, what Tarn does with it */
#define HTTP_FIELD_TABLE(X)                                                                        \
    X(HOST, "Host", HTTP_ACTED | HTTP_SINGLE, "routes, keys; sent to the backend")                 \
    X(CONNECTION, "Connection", HTTP_HOP | HTTP_ACTED, "persistence; nominates hop-by-hop fields") \
    X(CONTENT_LENGTH, "Content-Length", HTTP_ACTED, "framing; written anew")                       \
    X(TRANSFER_ENCODING, "Transfer-Encoding", HTTP_HOP | HTTP_ACTED, "framing; written anew")      \
    X(TE, "TE", HTTP_HOP, "removed")                                                               \
    X(TRAILER, "Trailer", HTTP_HOP, "removed: trailers are discarded")                             \
    X(UPGRADE, "Upgrade", HTTP_HOP, "removed")                                                     \
    X(HTTP2_SETTINGS, "HTTP2-Settings", HTTP_HOP, "removed")                                       \
    X(KEEP_ALIVE, "Keep-Alive", HTTP_HOP, "removed")                                               \
    X(PROXY_CONNECTION, "Proxy-Connection", HTTP_HOP, "removed")                                   \
    X(PROXY_AUTHENTICATE, "Proxy-Authenticate", HTTP_HOP, "removed")                               \
    X(PROXY_AUTHORIZATION, "Proxy-Authorization", HTTP_HOP, "removed")                             \
    X(PROXY_AUTHENTICATION_INFO, "Proxy-Authentication-Info", HTTP_HOP, "removed")                 \
    X(MAX_FORWARDS, "Max-Forwards", HTTP_ACTED, "OPTIONS: counted down, answered at 0")            \
    X(EXPECT, "Expect", HTTP_ACTED, "100-continue is answered; anything else is 417")              \
    X(VIA, "Via", HTTP_ACTED, "extended in both directions")                                       \
    X(X_FORWARDED_FOR, "X-Forwarded-For", HTTP_SPOOF, "the client's address, to the backend")      \
    X(X_FORWARDED_PROTO, "X-Forwarded-Proto", HTTP_SPOOF, "the client's scheme, to the backend")   \
    X(X_FORWARDED_HOST, "X-Forwarded-Host", HTTP_SPOOF, "stripped")                                \
    X(X_FORWARDED_PORT, "X-Forwarded-Port", HTTP_SPOOF, "stripped")                                \
    X(X_FORWARDED_PREFIX, "X-Forwarded-Prefix", HTTP_SPOOF, "stripped")                            \
    X(X_FORWARDED_SERVER, "X-Forwarded-Server", HTTP_SPOOF, "stripped")                            \
    X(FORWARDED, "Forwarded", HTTP_SPOOF, "the client's address, to the backend (RFC 7239)")       \
    X(X_ORIGINAL_URL, "X-Original-URL", HTTP_SPOOF, "stripped")                                    \
    X(X_REWRITE_URL, "X-Rewrite-URL", HTTP_SPOOF, "stripped")                                      \
    X(X_HTTP_METHOD, "X-HTTP-Method", HTTP_SPOOF, "stripped")                                      \
    X(X_HTTP_METHOD_OVERRIDE, "X-HTTP-Method-Override", HTTP_SPOOF, "stripped")                    \
    X(X_METHOD_OVERRIDE, "X-Method-Override", HTTP_SPOOF, "stripped")                              \
    X(AGE, "Age", HTTP_OURS, "freshness; written anew")                                            \
    X(CACHE_CONTROL, "Cache-Control", HTTP_ACTED, "freshness, storing")                            \
    X(PRAGMA, "Pragma", HTTP_ACTED, "no-cache in requests without Cache-Control")                  \
    X(EXPIRES, "Expires", 0, "freshness")                                                          \
    X(DATE, "Date", 0, "freshness; added when missing")                                            \
    X(LAST_MODIFIED, "Last-Modified", 0, "heuristic freshness, validation")                        \
    X(ETAG, "ETag", 0, "validation")                                                               \
    X(VARY, "Vary", HTTP_ACTED, "chooses among variants")                                          \
    X(AUTHORIZATION, "Authorization", HTTP_ACTED, "forbids storing, unless allowed (RFC 9111 3.5)") \
    X(COOKIE, "Cookie", HTTP_ACTED, "forwarded")                                                   \
    X(SET_COOKIE, "Set-Cookie", HTTP_ACTED, "forwarded")                                           \
    X(RANGE, "Range", HTTP_ACTED, "partial responses")                                             \
    X(IF_MATCH, "If-Match", HTTP_ACTED, "passed")                                                  \
    X(IF_NONE_MATCH, "If-None-Match", HTTP_ACTED, "validation")                                    \
    X(IF_MODIFIED_SINCE, "If-Modified-Since", HTTP_ACTED, "validation")                            \
    X(IF_UNMODIFIED_SINCE, "If-Unmodified-Since", HTTP_ACTED, "passed")                            \
    X(IF_RANGE, "If-Range", HTTP_ACTED, "partial responses")                                       \
    X(PRIORITY, "Priority", 0, "HTTP/2: which stream is sent first (RFC 9218)")                    \
    X(ACCEPT, "Accept", 0, "Vary")                                                                 \
    X(ACCEPT_ENCODING, "Accept-Encoding", HTTP_ACTED, "Vary; normalised")                          \
    X(ACCEPT_LANGUAGE, "Accept-Language", 0, "Vary")                                               \
    X(USER_AGENT, "User-Agent", 0, "logged")                                                       \
    X(REFERER, "Referer", 0, "logged")                                                             \
    X(CONTENT_TYPE, "Content-Type", 0, "kept")                                                     \
    X(CONTENT_ENCODING, "Content-Encoding", 0, "kept")                                             \
    X(CONTENT_RANGE, "Content-Range", 0, "partial responses")                                      \
    X(LOCATION, "Location", 0, "invalidation")                                                     \
    X(SERVER, "Server", 0, "kept")                                                                 \
    X(CACHE_STATUS, "Cache-Status", HTTP_OURS, "extended (RFC 9211)")                              \
    X(CDN_CACHE_CONTROL, "CDN-Cache-Control", 0, "freshness, before Cache-Control (RFC 9213)")     \
    X(SURROGATE_CAPABILITY, "Surrogate-Capability", HTTP_SPOOF, "our own, to the backend")         \
    X(SURROGATE_CONTROL, "Surrogate-Control", 0, "freshness, before Cache-Control")                \
    X(CDN_LOOP, "CDN-Loop", HTTP_ACTED, "extended; ours in it is a loop (RFC 8586)")               \
    X(EARLY_DATA, "Early-Data", HTTP_ACTED, "stored responses, or passed (RFC 8470)")              \
    X(AVAILABLE_DICTIONARY, "Available-Dictionary", 0, "which form of a stored response (RFC 9842)")

/*    id, name, safe, idempotent (RFC 9110 9.2) */
#define HTTP_METHOD_TABLE(X)                                                                       \
    X(GET, "GET", true, true)                                                                      \
    X(HEAD, "HEAD", true, true)                                                                    \
    X(POST, "POST", false, false)                                                                  \
    X(PUT, "PUT", false, true)                                                                     \
    X(DELETE, "DELETE", false, true)                                                               \
    X(OPTIONS, "OPTIONS", true, true)                                                              \
    X(TRACE, "TRACE", true, true)                                                                  \
    X(CONNECT, "CONNECT", false, false)                                                            \
    X(PATCH, "PATCH", false, false)                                                                \
    X(PROPFIND, "PROPFIND", true, true)                                                            \
    X(PROPPATCH, "PROPPATCH", false, true)                                                         \
    X(MKCOL, "MKCOL", false, true)                                                                 \
    X(COPY, "COPY", false, true)                                                                   \
    X(MOVE, "MOVE", false, true)                                                                   \
    X(LOCK, "LOCK", false, false)                                                                  \
    X(UNLOCK, "UNLOCK", false, true)                                                               \
    X(SEARCH, "SEARCH", true, true)                                                                \
    X(REPORT, "REPORT", true, true)                                                                \
    X(MKCALENDAR, "MKCALENDAR", false, true)                                                       \
    X(ACL, "ACL", false, true)                                                                     \
    X(BIND, "BIND", false, true)                                                                   \
    X(LINK, "LINK", false, true)                                                                   \
    X(UNLINK, "UNLINK", false, true)                                                               \
    X(PURGE, "PURGE", false, true)                                                                 \
    X(REBIND, "REBIND", false, true)                                                               \
    X(UNBIND, "UNBIND", false, true)                                                               \
    X(MKACTIVITY, "MKACTIVITY", false, true)                                                       \
    X(CHECKOUT, "CHECKOUT", false, true)                                                           \
    X(MERGE, "MERGE", false, true)                                                                 \
    X(M_SEARCH, "M-SEARCH", false, false)                                                          \
    X(NOTIFY, "NOTIFY", false, false)                                                              \
    X(SUBSCRIBE, "SUBSCRIBE", false, false)                                                        \
    X(UNSUBSCRIBE, "UNSUBSCRIBE", false, false)                                                    \
    X(SOURCE, "SOURCE", false, false)                                                              \
    X(QUERY, "QUERY", true, true)
/* clang-format on */

#endif
