/* conf_keys_table.h -- types of values, and every key that is not a parameter.
 *
 * Rows as in conf_table.h: name, type, default, least, most, documentation.  A text with
 * the default NULL must be given.  CONF_FROM_PARAM: the parameter named in the documentation.
 */
#ifndef TARN_CONF_KEYS_TABLE_H
#define TARN_CONF_KEYS_TABLE_H

#include "conf/conf_table.h"

#define CONF_FROM_PARAM    (-1)
#define CONF_NAME_MAX      64 /* names stand in log lines and counters */
#define CONF_TOKEN_MIN     16 /* a shorter one can be guessed */
#define CONF_TOKEN_MAX     256
#define CONF_NETS_MAX      256  /* of one list: it is looked through */
#define CONF_WORDS_MAX     4096 /* bytes of a list of words, with the spaces between them */
#define CONF_LIMITS_MAX    64
#define CONF_TABLES_MAX    64
#define CONF_MEMBERS_MAX   1024 /* of a director: choosing looks at each */
#define CONF_NAMES_MAX     64   /* of one list of a route: each request looks through it */
#define CONF_FIELDS_MAX    64
#define CONF_TYPES_MAX     64    /* media types: each response looks through them */
#define CONF_USERS_MAX     10000 /* of one basic_auth */
#define CONF_ENGINE_MAX    512   /* bytes of a URL of a fleet's engine */
#define CONF_ENGINE_DB_MAX 1048576
#define CONF_PASSWORD_MAX  1024            /* bytes */
#define CONF_CERTNAMES_MAX (64 * CONF_KI)  /* bytes of acme's names */
#define CONF_AUTH_MAX      (CONF_MI)       /* bytes of its file */
#define CONF_PAGE_MAX      (256 * CONF_KI) /* bytes of an error_page */
#define CONF_STORAGE_MAX   (INT64_C(1) << 50)
#define CONF_HTTP2         1 /* http2 of a listener that does not say it */

/* clang-format off */
/*    type, kind of default, form (which function of conf_value.c reads it), what a value is */
#define CONF_TYPE_TABLE(X)                                                                         \
    X(MS,        NUMBER, SCALED,                                                                   \
      "a time: a number and ms, s, m, h, d, w or y, as in 3500ms, 3.5s or 2h")                     \
    X(BYTES,     NUMBER, SCALED,                                                                   \
      "a size: a number and B, KiB, MiB, GiB or TiB, as in 64KiB or 1.5GiB")                       \
    X(POW2,      NUMBER, SCALED,  "a size that is a power of two, as in 4MiB")                     \
    X(COUNT,     NUMBER, COUNT,   "a whole number")                                                \
    X(MODE,      NUMBER, MODE,    "a mode in octal, as in 0660")                                   \
    X(PERCENT,   NUMBER, PERCENT, "a whole number of percent, as in 10%")                          \
    X(BOOL,      NUMBER, BOOL,    "on, off, true or false")                                        \
    X(H2C,       NUMBER, BOOL,    "on, off, only, true or false")                                  \
    X(AUTO,      NUMBER, COUNT,   "auto or a whole number")                                        \
    X(SLOTS,     NUMBER, COUNT,   "4 or 8")                                                        \
    X(TEXT,      STRING, TEXT,    "text")                                                          \
    X(ASCII,     STRING, TEXT,    "printable ASCII text")                                          \
    X(TOKEN,     STRING, TEXT,    "a word of letters, digits and !#$%&'*+-.^_`|~")                 \
    X(NAME,      STRING, TEXT,    "a name: a letter or _, then letters, digits, - and _")          \
    X(LABEL,     STRING, TEXT,    "a word of letters, digits, ., - and _")                         \
    X(LEVEL,     STRING, WORD,    "error, warn, info or debug")                                    \
    X(FORMAT,    STRING, TEXT,                                                                     \
      "combined, json, or a text with fields, as in '$remote_addr $status $time'")                 \
    X(OUTPUT,    STRING, TEXT,    "a file, - or syslog:FACILITY")                                  \
    X(SYSLOG,    STRING, TEXT,    "syslog:FACILITY, as in syslog:daemon")                          \
    X(ENGINE,    STRING, WORD,    "malloc, synth or fault")                                        \
    X(EVICTION,  STRING, WORD,    "s3-fifo, lru or sieve")                                         \
    X(FORWARDED, STRING, WORD,    "x-forwarded-for, forwarded, both or none")                      \
    X(COOKIES,   STRING, WORD,    "never, public or always")                                       \
    X(CHOICE,    STRING, WORD,    "refuse or accept")                                              \
    X(ALLOW,     STRING, ALLOW,                                                                    \
      "a map, as in { read: [group:adm], write: [user:root, 10.0.0.0/8] }")                        \
    X(CODINGS,   NUMBER, CODINGS, "a list of formats of compression, as in [gzip]")                \
    X(MEDIATYPES, STRING, MEDIATYPES,                                                              \
      "a list of media types without parameters, as in [text/*, image/svg+xml]")                   \
    X(WORDS,     STRING, WORDS,   "a list of words without a space in them, as in [one, two]")     \
    X(PROFILE,   STRING, WORD,    "intermediate or modern")                                        \
    X(CLIENTAUTH, STRING, WORD,   "off, optional or required")                                     \
    X(CHALLENGE, STRING, WORD,    "http-01 or tls-alpn-01")                                        \
    X(KEYTYPE,   STRING, WORD,    "ecdsa or rsa")                                                  \
    X(CERTNAMES, STRING, CERTNAMES,                                                                \
      "a list of names, as in [shop.example.com, \"example.com,www.example.com\"]")              \
    X(SECURED,   STRING, WORD,    "off or https")                                                  \
    X(CERTIFICATES, STRING, CERTIFICATES,                                                          \
      "a directory, or a list of maps, as in [{ certificate: a.crt, key: a.key }]")                \
    X(ACME,      STRING, ACME,                                                                     \
      "a map, as in { email: me@example.com, names: [www.example.com] }")                          \
    X(TLS,       STRING, TLS,                                                                      \
      "a directory of certificates, or a map, as in { certificates: /etc/tarn/tls, profile: "      \
      "modern, client_auth: required, client_ca: clients.pem }")                                   \
    X(BACKENDTLS, STRING, BACKENDTLS,                                                              \
      "on, off, or a map, as in { ca: ca.pem, sni: shop, name: shop.internal, verify: on }")       \
    X(ENGINES,   STRING, ENGINES,                                                                  \
      "a URL, or a list of them, as in [redis://10.0.0.1:6379, redis://10.0.0.2:6379]")            \
    X(PROXIED,   STRING, WORD,    "off or required")                                               \
    X(NETS,      STRING, NETS,                                                                     \
      "addresses and networks, as in [10.0.0.0/8, \"2001:db8::/32\", unix]")                       \
    X(TABLE,     STRING, WORD,    "any, set, map, prefix, address or vector")                      \
    X(LISTEN,    STRING, ADDRESS,                                                                  \
      "an address: host:port, \"[v6]:port\", \"*:port\" or unix:/path")                            \
    X(ADDRESS,   STRING, ADDRESS, "an address: host:port, \"[v6]:port\" or unix:/path")            \
    X(AUTHORITY, STRING, TEXT,    "a host name, and perhaps a port, as in www.example.com:8080")   \
    X(HOST,      STRING, TEXT,                                                                     \
      "a host name without a port, as in img.example.com or \"*.example.com\"")                    \
    X(PREFIX,    STRING, TEXT,    "the beginning of a path, as in /thumbs/")                       \
    X(TARGET,    STRING, TEXT,    "a path, and perhaps a query, as in /health?deep=1")             \
    X(LINES,     STRING, LINES,                                                                    \
      "a list of lines, as in [GET / HTTP/1.1, \"Host: a.test\", \"Connection: close\"]")          \
    X(PROBE,     STRING, PROBE,   "a map with the keys of `probes`, or the name of one of these")  \
    X(DIRECTOR,  STRING, WORD,    "round_robin, random, least_connections, hash or fallback")      \
    X(MEMBERS,   STRING, MEMBERS,                                                                  \
      "a list of names, each alone or in a map with its weight, as in [a, {name: b, weight: 3}]")  \
    X(BACKEND,   STRING, BACKEND, "the name of a backend or of a director")                        \
    X(TTL,       STRING, RULE,    "a time, as in 5m; empty: not set")                              \
    X(SWITCH,    STRING, RULE,    "on, off, all, true or false; empty: not set")                   \
    X(NAMES,     STRING, RULE,                                                                     \
      "true for all, or a list of names with *, as in [utm_*, fbclid]")                            \
    X(METHODS,   STRING, RULE,    "a list of methods, as in [GET, POST]")                          \
    X(FIELDS,    STRING, RULE,                                                                     \
      "a map, as in { set: { X-Frame-Options: DENY }, add: { Link: \"</a.css>\" }, unset: "        \
      "[Server] }")                                                                                \
    X(LIMITS,    STRING, RULE,    "a list of names of limits, as in [login]")                      \
    X(PAGE,      STRING, RULE,                                                                     \
      "a file, or a map, as in { text: \"Back soon\", status: [502, 503, 504] }")                  \
    X(AUTH,      STRING, RULE,                                                                     \
      "a file, or a map, as in { file: users.htpasswd, realm: Staff, forward: on }")               \
    X(REDIRECT,  STRING, RULE,                                                                     \
      "https, or a map, as in { status: 301, to: \"https://www.example.com$request_uri\" }")

#define CONF_TOP_TABLE(X)                                                                          \
    X(workers, AUTO, 0, 1, LIMIT_WORKERS,                                                          \
      "Threads that serve; auto: one for each CPU that this process may use")

#define CONF_INCLUDE_TABLE(X)                                                                      \
    X(include, WORDS, "", 0, CONF_WORDS_MAX,                                                       \
      "Other files that are part of this one, as in conf.d/*.yaml, relative to this file's "       \
      "directory: lists are appended in the order of the files, maps are merged, and a key that "  \
      "two files have is an error. A glob may match no file. Included files include no others")

#define CONF_VCL_TABLE(X)                                                                          \
    X(vcl, TEXT, "", 0, 4000,                                                                      \
      "File of the policy (vcl-lite), relative to this file's directory; empty: none")

#define CONF_TRUSTED_TABLE(X)                                                                      \
    X(trusted_proxies, NETS, "", 0, 0,                                                             \
      "Proxies with trusted forwarding fields. The client is the rightmost address that is "       \
      "not in this list, in the field that the parameter forwarded names. The scheme is http or "  \
      "https, from their X-Forwarded-Proto, or proto= of Forwarded; each proxy must overwrite "    \
      "what the client sent. The scheme is forwarded and is part of the key, so where TLS ends "   \
      "in front, purge by the URL with https://; a policy with its own vcl_hash decides on both")

#define CONF_LISTEN_TABLE(X)                                                                       \
    X(address, LISTEN, NULL, 0, 0, "Where clients connect; port 0 takes a free one")               \
    X(name, NAME, "", 0, CONF_NAME_MAX, "Name in logs; default: listen and its number, from 0")    \
    X(proxy_protocol, PROXIED, "off", 0, 8,                                                        \
      "Required: each connection begins with a PROXY header, version 1 or 2, which gives the "     \
      "client's address, and in version 2 what TLS said at the proxy: then the scheme is "         \
      "https; a connection without one is closed")                                      \
    X(trusted, NETS, "", 0, 0,                                                                     \
      "With proxy_protocol: proxies that may connect; empty: any, so no other client may reach "   \
      "the address")                                                                               \
    X(max_req_body, BYTES, 0, 0, INT64_MAX,                                                        \
      "Largest request body on this listener; then 413; 0: as the parameter max_req_body")         \
    X(tls, TLS, "", 0, 4000,                                                                       \
      "HTTPS: a directory of certificates, or a map: certificates or acme, profile, client_auth, " \
      "client_ca, session_secret, early_data. Empty: HTTP")                                        \
    X(http2, BOOL, CONF_HTTP2, 0, 1,                                                               \
      "With tls: HTTP/2 for clients that offer it in the handshake (ALPN), HTTP/1.1 for others. "   \
      "Without tls it means nothing: see h2c")                                                     \
    X(h2c, H2C, CONF_H2C_OFF, CONF_H2C_OFF, CONF_H2C_ONLY,                                         \
      "Without tls: HTTP/2 for clients that begin with it (prior knowledge), HTTP/1.1 for "        \
      "others; only: HTTP/2 alone, and a connection that begins otherwise is closed")              \
    X(redirect, SECURED, "off", 0, 8,                                                              \
      "https: every request is redirected to its URL with https:// (301), but " \
      "ACME's challenges are answered")                                                            \
    X(peers, BOOL, 0, 0, 1,                                                                        \
      "For the other nodes of the fleet alone (fleet.peers): a request that no node has signed is " \
      "refused with 403. An address that clients cannot reach")                                    \
    X(mode, MODE, 0666, 0, 0777,                                                                   \
      "Mode of a Unix socket's file: users with write permission may connect; its directory's "    \
      "mode counts, too")                                                                          \
    X(user, TEXT, "", 0, 64, "Owner of a Unix socket's file, by name or number; empty: tarnd's")   \
    X(group, TEXT, "", 0, 64, "Group of a Unix socket's file: one that tarnd's user is a member of")

#define CONF_STORAGE_TABLE(X)                                                                      \
    X(engine, ENGINE, "malloc", 0, 0, "What keeps the bytes: memory, references, or test faults")  \
    X(size, BYTES, 256 * CONF_MI, 4 * CONF_KI, CONF_STORAGE_MAX,                                   \
      "Bound of all memory that grows with content or traffic")                                    \
    X(eviction, EVICTION, "s3-fifo", 0, 0,                                                         \
      "Eviction policy. s3-fifo: new objects that are not used again soon leave first; lru: the "  \
      "least recently used; sieve: those that were not used since the hand last passed")           \
    X(fault, TEXT, "", 0, 1024, "What the engine fault does; for tests only")

#define CONF_PROBE_TABLE(X)                                                                        \
    X(url, TARGET, "/", 1, 2048, "Target of the probe: GET, with the Host of the backend")         \
    X(request, LINES, "", 0, 4096,                                                                 \
      "The whole request instead, line by line; the empty line is added")                          \
    X(interval, MS, 5 * CONF_S, 10, CONF_D,                                                        \
      "Time from the start of one probe to the start of the next")                                 \
    X(timeout, MS, 2 * CONF_S, 1, CONF_H, "Time for connection and response together")             \
    X(window, COUNT, 8, 1, 64, "Number of the latest results that count")                          \
    X(threshold, COUNT, 3, 0, 64,                                                                  \
      "The backend is healthy while at least this many of them are good")                          \
    X(initial, COUNT, 2, 0, 64,                                                                    \
      "Good results at the start. Default: threshold less one, and healthy until the first "       \
      "result, which decides")                                                                     \
    X(expected_status, COUNT, 200, 100, 999, "Status of a good response; VCL's expected_response") \
    X(expect_close, BOOL, 1, 0, 1,                                                                 \
      "A good response ends with the connection's close, as the probe requests; off: its status "  \
      "line is enough")

#define CONF_BACKEND_TABLE(X)                                                                      \
    X(address, ADDRESS, NULL, 0, 0,                                                                \
      "Where the origin server listens, with https:// in front if it speaks TLS there; see dns_ttl " \
      "for names")                                                                                 \
    X(tls, BACKENDTLS, "", 0, 0,                                                                   \
      "TLS to it: on, off, or a map: verify, ca, sni, name, certificate, key. Default: on where "  \
      "the address begins with https://")                                                          \
    X(host_header, AUTHORITY, "", 0, 255, "Sent as Host; default: the client's")                   \
    X(connect_timeout, MS, CONF_FROM_PARAM, 1, CONF_H, "Default: the parameter connect_timeout")   \
    X(first_byte_timeout, MS, CONF_FROM_PARAM, 1, CONF_D,                                          \
      "Default: the parameter first_byte_timeout")                                                 \
    X(between_bytes_timeout, MS, CONF_FROM_PARAM, 1, CONF_D,                                       \
      "Default: the parameter between_bytes_timeout")                                              \
    X(idle_timeout, MS, CONF_FROM_PARAM, 10, CONF_D,                                               \
      "Default: the parameter backend_idle_timeout")                                               \
    X(max_connections, COUNT, 0, 0, 1000000,                                                       \
      "Concurrent connections of all workers; 0: no limit")                                        \
    X(queue_timeout, MS, 0, 0, CONF_H,                                                             \
      "How long a fetch waits in the queue for one of max_connections; then 503; 0s: 503 at once") \
    X(queue_max, COUNT, 1000, 1, 1000000,                                                          \
      "Largest number of fetches in one worker's queue; then 503")                                 \
    X(max_idle, COUNT, 64, 0, 65535, "Idle connections that each worker keeps")                    \
    X(probe, PROBE, "", 0, 0,                                                                      \
      "Health probe: a map with the keys of `probes`, or the name of one; empty: none")            \
    X(eject_after, COUNT, 5, 0, 1000,                                                              \
      "After this many consecutive fetches that failed to connect, timed out or broke off before " \
      "a response, directors leave it out for eject_for, as long as they have another backend; "   \
      "0: never")                                                                                  \
    X(eject_for, MS, 10 * CONF_S, 10, CONF_H,                                                      \
      "How long directors leave it out; doubled each time that it fails again soon, 5m at most. "  \
      "After that one failure is enough, until a fetch succeeds")                                  \
    X(slow_start, MS, 0, 0, CONF_D,                                                                \
      "Time after it became healthy in which directors raise its share from a tenth to the "       \
      "whole; 0s: the whole at once")                                                              \
    X(dns_ttl, MS, CONF_FROM_PARAM, 0, CONF_D, "Default: the parameter dns_ttl")                   \
    X(proxy_header, COUNT, 0, 0, 2,                                                                \
      "Version of the PROXY header that gives the client's address to the backend, version 2 "     \
      "what TLS said of the client, too: each fetch then has its own connection; 0: none is sent")

#define CONF_DIRECTOR_TABLE(X)                                                                     \
    X(type, DIRECTOR, "round_robin", 1, 32,                                                        \
      "round_robin: each in turn; random: by weight; least_connections: the one with the fewest "  \
      "requests; hash: by the URL; fallback: the first healthy one")                               \
    X(backends, MEMBERS, NULL, 0, 0,                                                               \
      "Members: backends, and directors that are defined above it; weight: 1 to 100, the "         \
      "member's share, by default 1")                                                              \
    X(balance_factor, COUNT, 125, 0, 10000,                                                        \
      "hash: a member with this percentage of the average load gets no more requests; the next "   \
      "one gets its URLs; more than 100, or 0: no bound")                                          \
    X(sticky, BOOL, 0, 0, 1, "fallback: stay with the current member until it fails")

#define CONF_ROUTE_TABLE(X)                                                                        \
    X(host, HOST, "", 0, 253,                                                                      \
      "Host of the request, whole, in any case; *.example.com: every name below it; default: any") \
    X(path, PREFIX, "", 0, 4096, "Prefix of the request's path; default: any")                     \
    X(backend, BACKEND, "", 0, 0,                                                                  \
      "Backend or director; default: that of requests that no route matches")                      \
    X(pipe, BOOL, 0, 0, 1,                                                                         \
      "Allow an upgrade of the connection (WebSocket): a tunnel, once the backend has answered "   \
      "101; with a policy through vcl_pipe, as return(pipe)")                                      \
    X(ttl, TTL, "", 0, 3650 * CONF_D,                                                              \
      "How long a 2xx or a redirect is fresh from its arrival, in place of its own max-age, "      \
      "s-maxage, Expires, no-cache and must-revalidate. Responses that a shared cache must not "   \
      "store are still not stored: no-store, private, Set-Cookie (see strip_cookies), "            \
      "Authorization, Vary: *")                                                                    \
    X(grace, TTL, "", 0, 3650 * CONF_D,                                                            \
      "As the parameter default_grace. must-revalidate stays in force, unless the route has a "    \
      "ttl, too")                                                                                  \
    X(pass, BOOL, 0, 0, 1, "Never from the cache: each request goes to the backend")               \
    X(strip_cookies, NAMES, "", 0, 64,                                                             \
      "Cookies to remove from requests (Cookie) and from responses (Set-Cookie), so that the "     \
      "responses may be stored")                                                                   \
    X(strip_query, NAMES, "", 0, 64,                                                               \
      "Parameters to remove from the query, by their names as written: neither the key nor the "   \
      "backend's request has them")                                                                \
    X(methods, METHODS, "", 0, 32,                                                                 \
      "Allowed methods; others get a 405 with Allow. GET allows HEAD; empty: all")                 \
    X(request_headers, FIELDS, "", 0, 64,                                                          \
      "Changes to the request's fields: unset, then set, then add; key, Vary and backend see the " \
      "result")                                                                                    \
    X(response_headers, FIELDS, "", 0, 64,                                                         \
      "Changes to the fields of responses from the cache or the backend, as they are sent to the " \
      "client; the stored response keeps its own. Synthetic responses keep theirs")                \
    X(rate, LIMITS, "", 0, CONF_NAME_MAX, "Names of limits that also apply to this route")         \
    X(error_page, PAGE, "", 0, 4000,                                                               \
      "Body of the errors that Tarn generates: an HTML file, relative to this file's directory, "  \
      "or { file, text, status }: text is plain text; status: for which statuses, default 500 to " \
      "599. With a policy vcl_synth and vcl_backend_error make the pages")                         \
    X(basic_auth, AUTH, "", 0, 4000,                                                               \
      "Require a user and a password (RFC 7617), before the lookup: a file of NAME:HASH lines "    \
      "(htpasswd -B, mkpasswd), relative to this file's directory. Authorization is then removed " \
      "from the request, so that responses may be stored; forward: on forwards it, and then they " \
      "are not stored")                                                                            \
    X(dictionary, TARGET, "", 0, 1024,                                                             \
      "Offer responses as dictionaries (RFC 9842) for later ones at paths of this pattern, as in " \
      "/js/app.*.js: a field Use-As-Dictionary where the backend sends none")                      \
    X(esi, BOOL, 0, 0, 1,                                                                          \
      "Edge Side Includes in its responses: <esi:include>, <esi:remove>, <esi:comment> and "       \
      "<!--esi -->. With a policy beresp.do_esi begins with it. The section esi has the limits")   \
    X(compress, SWITCH, "", 0, 0,                                                                  \
      "Compression of its responses, on, off, or all: private ones and those with cookies, too. "  \
      "With the defaults of the section compress where that is off. Default: as the section")      \
    X(redirect, REDIRECT, "", 0, 2048,                                                             \
      "Answer with a redirect; $host is the host without its port, $uri the path, $request_uri "   \
      "path "                                                                                      \
      "and query. https: 301 to https://$host$request_uri, for requests that did not come by https")

#define CONF_LIMIT_TABLE(X)                                                                        \
    X(name, NAME, "", 0, CONF_NAME_MAX,                                                            \
      "A limit with a name applies to the routes that name it (rate), and to no other request")    \
    X(host, HOST, "", 0, 253, "Host of the request, whole, in any case; default: any")             \
    X(path, PREFIX, "", 0, 4096,                                                                   \
      "Prefix of the request's path, as written or as a backend may read it: decoded, without "    \
      "empty segments, dot segments and ;parameters, so that //login, "                            \
      "/a/%2e%2e/login and /login;x are /login. Default: any")                                     \
    X(rate, COUNT, 100, 1, 1000000, "Requests of one client in each `per`, on average")            \
    X(per, MS, 1 * CONF_S, 1, CONF_D, "See rate")                                                  \
    X(burst, COUNT, 0, 0, 1000000, "Requests that it may send at once; 0: as many as rate")        \
    X(except, NETS, "", 0, 0, "Clients without this limit")

#define CONF_INDEX_TABLE(X)                                                                        \
    X(bits, AUTO, 0, 6, 32,                                                                        \
      "Log2 of the number of slots, which is then fixed; auto: chosen by the storage size, and "   \
      "doubled as it fills")                                                                       \
    X(slots, SLOTS, 8, 4, 8, "Slots in a bucket: 8 fill a cache line")

#define CONF_NEGATIVE_TABLE(X)                                                                     \
    X(entries, COUNT, 100000, 1, 268435456,                                                        \
      "Number of entries; each takes 32 bytes of the main storage; all of them at most half of "   \
      "it")                                                                                        \
    X(ttl, MS, 10 * CONF_S, 0, CONF_D,                                                             \
      "How long an entry is used; 0: only entries that a policy adds with tarn.negative()")

#define CONF_COMPRESS_TABLE(X)                                                                     \
    X(formats, CODINGS, CONF_COMPRESS_GZIP | CONF_COMPRESS_BR | CONF_COMPRESS_ZSTD, 1, 7,          \
      "Formats that Tarn compresses to: gzip while a response arrives, which must be there; br "   \
      "and zstd in the background, of what is requested often, for clients that accept them")      \
    X(types, MEDIATYPES,                                                                           \
      "text/* application/json application/ld+json application/manifest+json application/xml "     \
      "application/rss+xml application/atom+xml application/xhtml+xml application/javascript "     \
      "application/x-javascript application/wasm application/vnd.ms-fontobject font/ttf font/otf " \
      "image/svg+xml image/bmp image/x-icon",                                                      \
      1, CONF_WORDS_MAX,                                                                           \
      "Media types to compress, by Content-Type without its parameters, 64 at most; text/* is "    \
      "every type of text")                                                                        \
    X(min_size, BYTES, 1 * CONF_KI, 0, 1024 * CONF_MI,                                             \
      "Smaller bodies stay as they are; a body of unknown length is compressed")                   \
    X(states, COUNT, 16, 1, 1024,                                                                  \
      "Bodies that each worker compresses at the same time; beyond it a body is stored as it "     \
      "arrives")                                                                                   \
    X(background_cpu, PERCENT, 5, 0, 100,                                                          \
      "Percent of one CPU core that the whole process may use for br and zstd; 0: neither is made")

#define CONF_ESI_TABLE(X)                                                                          \
    X(depth, COUNT, 5, 1, 16, "How deep includes may lie in included bodies: 1: in the page alone")  \
    X(includes, COUNT, 64, 1, 1024, "Includes for one request of a client, at all depths")         \
    X(timeout, MS, 30 * CONF_S, 1, CONF_D,                                                         \
      "Time in which the response to an include must begin; then its alt is requested, or it is "  \
      "left out")                                                                                  \
    X(bytes, BYTES, 64 * CONF_MI, 1, 1024 * CONF_MI, "Bytes of all included bodies together")

#define CONF_ADMIN_TABLE(X)                                                                        \
    X(address, LISTEN, "unix:/run/tarn/admin.sock", 0, 4000,                                       \
      "Where operators connect; by its mode only the owner of a Unix socket can connect; TCP "     \
      "needs a token")                                                                             \
    X(token, ASCII, "", 0, CONF_TOKEN_MAX,                                                         \
      "Required in `Authorization: Bearer TOKEN`; at least 16 characters, no space")               \
    X(mode, MODE, 0600, 0, 0777,                                                                   \
      "Mode of a Unix socket's file: users with write permission may connect")                     \
    X(user, TEXT, "", 0, 64, "Owner of a Unix socket's file, by name or number; empty: tarnd's")   \
    X(group, TEXT, "", 0, 64,                                                                      \
      "Group of a Unix socket's file: one that tarnd's user is a member of")                       \
    X(allow, ALLOW, "", 0, 0,                                                                      \
      "Clients that may read (GET), and clients that may also change something: { read: [...], "   \
      "write: [...] }, of networks, and on a Unix socket of user:NAME and group:NAME; a list "     \
      "that is left out is empty. Without allow: every client that can connect, and has the "      \
      "token")                                                                                     \
    X(names, WORDS, "", 0, CONF_WORDS_MAX,                                                         \
      "Without a token: names in Host that are accepted, besides localhost, tarn and addresses. "  \
      "It protects against DNS rebinding by pages of other sites in a browser")

#define CONF_TABLES_TABLE(X)                                                                       \
    X(path, TEXT, "", 0, 4000,                                                                     \
      "Prefix of its files, which end in .state, .0 and .1; empty: /dev/shm/tarn and the name. "   \
      "tarn-table writes them, or another program")                                                \
    X(kind, TABLE, "any", 0, 0, "Required kind: versions of other kinds are refused")              \
    X(check, BOOL, 1, 0, 1,                                                                        \
      "Verify the checksum of each new version, once in each worker; off: for large tables with "  \
      "a trusted writer")

#define CONF_FLEET_TABLE(X)                                                                        \
    X(name, LABEL, NULL, 1, CONF_NAME_MAX,                                                         \
      "Name of the fleet: the same on all its nodes, and part of every key in the engine")         \
    X(node, LABEL, "", 0, CONF_NAME_MAX,                                                           \
      "Name of this node, which no other node of the fleet has; empty: the host's name. A second " \
      "node with the same name is refused when it joins")                                          \
    X(engine, ENGINES, NULL, 1, CONF_ENGINE_MAX,                                                   \
      "The Redis or Valkey server: redis://[user@]host[:6379][/db], rediss:// for the same over "  \
      "TLS, or unix:/path; or a list of them, 8 at most, with the same scheme, user and db. The "  \
      "password is in password_file")                                                              \
    X(sentinel, LABEL, "", 0, CONF_NAME_MAX,                                                       \
      "Name of a master: engine then lists Sentinels, port 26379 by default, which give its "      \
      "address; empty: engine is the server itself")                                               \
    X(state, TEXT, "", 0, 4000,                                                                    \
      "File that keeps which process had the node's name, and how far it was, relative to this "   \
      "file's directory; tarnd's user must be able to write it. Without it a node that crashed "   \
      "has its name back only when the engine has forgotten it: after max_blind and some more")    \
    X(password_file, TEXT, "", 0, 4000,                                                            \
      "File with the engine's password, relative to this file's directory, which is read when the "\
      "configuration is. One newline at its end does not count. Other users must not be able to "  \
      "read it, and tarnd's user must; empty: no password")                                        \
    X(tls, BACKENDTLS, "", 0, 0,                                                                   \
      "TLS of rediss://, as that of a backend; default: on. The certificate must be for the host " \
      "of the URL, or for `name`")                                                                 \
    X(max_blind, MS, 30 * CONF_S, 1 * CONF_S, CONF_H,                                              \
      "How long a node trusts what it has stored without having heard from the engine; then "      \
      "everything stored is stale until it has")                                                   \
    X(wait, MS, 2 * CONF_S, 10, 60 * CONF_S,                                                       \
      "How long a purge with wait=all waits for all nodes, by default; and any other one, and the " \
      "answer of a policy that purges, for the engine to have it")                            \
    X(peers, WORDS, "off", 0, CONF_WORDS_MAX,                                                      \
      "engine: a node that lacks an object asks the one that owns its key, of those that the engine " \
      "knows, by consistent hashing; so the fleet fetches it once. A list of host:port, or dns:NAME: " \
      "the same, but no node is asked at another address, whatever the engine says. Needs a listener " \
      "with `peers`")                                                                               \
    X(address, TEXT, "", 0, 300,                                                                   \
      "Where the other nodes reach this one's listener with `peers`, as in 10.0.0.1:8089; empty: " \
      "that listener's own address, unless it is *")                                               \
    X(peer_timeout, MS, 500, 10, CONF_M,                                                           \
      "How long a peer may take to connect, and then to answer, or to say that it fetches; then "  \
      "the origin is asked")                                                                       \
    X(session_secret, BOOL, 0, 0, 1,                                                               \
      "on: TLS listeners without a session_secret of their own seal tickets by one that the engine " \
      "keeps, so that a client's session goes on at any node. Who reads the engine can open them")  \
    X(key_prefix, LABEL, "tarn", 1, CONF_NAME_MAX, "First part of every key in the engine")        \
    X(log_entries, COUNT, 1000000, 1000, 100000000,                                                \
      "Most entries of the stream of invalidations that the engine keeps")                         \
    X(log_bytes, BYTES, 128 * CONF_MI, 1 * CONF_MI, INT64_C(65536) * CONF_MI,                               \
      "Bytes of the stream behind which older entries are removed; the engine needs twice as much")  \
    X(log_age, MS, 1 * CONF_H, 1 * CONF_M, 30 * CONF_D,                                            \
      "How long the stream keeps an entry; at least twice max_blind")

/* The top level, in the order in which it is read and documented.  The documentation begins with the
 * section's shape, which conf_schema.c reads there: A list of, A map of names, One value; else it is a map.
 *    section, rows, documentation */
#define CONF_SECTION_TABLE(X)                                                                      \
    X(listen, CONF_LISTEN_TABLE, "A list of listeners. Default: one, on 127.0.0.1:8080.")          \
    X(workers, CONF_TOP_TABLE, "One value, not a map. Default: auto.")                             \
    X(trusted_proxies, CONF_TRUSTED_TABLE,                                                         \
      "One value, not a map: a list of networks. Default: none: forwarding fields of clients are " \
      "replaced.")                                                                                 \
    X(storage, CONF_STORAGE_TABLE,                                                                 \
      "A map of names to storages. Default: main, engine malloc, 256MiB.")                         \
    X(probes, CONF_PROBE_TABLE,                                                                    \
      "A map of names to probes, for backends to name. Names and defaults are VCL's. Default: "    \
      "none.")                                                                                     \
    X(backends, CONF_BACKEND_TABLE,                                                                \
      "A map of names to origin servers; at least one, unless there is a policy, which may "       \
      "declare "                                                                                   \
      "its own. A request that no route matches goes to the only one, else to the one named "      \
      "default, else gets a 503.")                                                                 \
    X(directors, CONF_DIRECTOR_TABLE,                                                              \
      "A map of names to directors, which choose a backend for each fetch, and may be named "      \
      "wherever a backend may. A request that no route matches goes to the one named default, "    \
      "else to the only one. Default: none.")                                                      \
    X(routes, CONF_ROUTE_TABLE,                                                                    \
      "A list of routes; the first that matches a request applies. A policy that sets "            \
      "req.backend_hint overrides their backend; a policy that declares backends itself uses its " \
      "own default instead. Default: none.")                                                       \
    X(limits, CONF_LIMIT_TABLE,                                                                    \
      "A list of rate limits of each client, by its address (IPv6: its /64); above a limit the "   \
      "response is 429 with Retry-After. Every limit that matches applies. Default: none.")        \
    X(include, CONF_INCLUDE_TABLE,                                                                 \
      "One value, or a list of them, not a map. Default: no other file.")                          \
    X(vcl, CONF_VCL_TABLE, "One value, not a map. Default: no policy; HTTP's own rules decide.")   \
    X(index, CONF_INDEX_TABLE, "The hash table of stored objects.")                                \
    X(negative_cache, CONF_NEGATIVE_TABLE,                                                         \
      "Negative caching: a 404 or 410 without freshness information is stored without its body, "  \
      "in a table of fixed size. Without this section there is none; `negative_cache: {}` has "    \
      "the defaults.")                                                                             \
    X(compress, CONF_COMPRESS_TABLE,                                                               \
      "On, off, or a map. On: a response with status 200, of one of types, is compressed while "   \
      "it arrives, unless it has Content-Encoding or Cache-Control: no-transform, or is for one "  \
      "client: private, no-store, with Set-Cookie, or not stored and requested with Cookie or "     \
      "Authorization. It gets Content-Encoding: gzip, Vary: Accept-Encoding and a weak ETag. One " \
      "object is stored: a client that does not accept gzip gets it decompressed. For what may "   \
      "be stored backends are asked with Accept-Encoding: gzip; what they compress is stored as "  \
      "it arrives. Default: off; `compress: {}` is on, with the defaults.")                        \
    X(esi, CONF_ESI_TABLE,                                                                         \
      "Limits of Edge Side Includes, which a route (esi: on) or a policy (beresp.do_esi) turns on. " \
      "An include beyond them is left out.")                                                       \
    X(tables, CONF_TABLES_TABLE,                                                                   \
      "A map of names to tables in shared memory, which policies read with tarn.table_contains "   \
      "and "                                                                                       \
      "tarn.table_lookup, and other processes write. Default: none.")                              \
    X(fleet, CONF_FLEET_TABLE,                                                                     \
      "Several tarnd nodes that share invalidations: a purge or a ban at one of them applies at all, "\
      "through a Redis or Valkey server, the engine. Without this section there is none.")         \
    X(admin, CONF_ADMIN_TABLE,                                                                     \
      "The listener for operators: HTTP and JSON, `GET /v1` lists its resources. Without this "    \
      "section there is none; `admin: {}` has the default address.")                               \
    X(parameters, CONF_PARAM_TABLE, "A map; every one has a default.")

/* Sections of Tarn's design that this build refuses by name. */
#define CONF_UNSUPPORTED_TABLE(X)                                                                  \
    X(supervisor)
/* clang-format on */

#endif
