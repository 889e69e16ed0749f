/* conf_keys_table.h -- types of values, and every key that is not a parameter.
 *
 * Rows as in conf_table.h: name, type, default, least, most, documentation.  A text with
 * the default NULL must be given.  CONF_FROM_PARAM: the parameter named in the documentation.
 */
#ifndef TARN_CONF_KEYS_TABLE_H
#define TARN_CONF_KEYS_TABLE_H

#include "conf/conf_table.h"

#define CONF_FROM_PARAM  (-1)
#define CONF_NAME_MAX    64 /* names stand in log lines and counters */
#define CONF_TOKEN_MIN   16 /* a shorter one can be guessed */
#define CONF_TOKEN_MAX   256
#define CONF_NETS_MAX    256  /* of one list: it is looked through */
#define CONF_WORDS_MAX   4096 /* bytes of a list of words, with the spaces between them */
#define CONF_LIMITS_MAX  64
#define CONF_TABLES_MAX  64
#define CONF_MEMBERS_MAX 1024 /* of a director: choosing looks at each */
#define CONF_NAMES_MAX   64   /* of one list of a route: each request looks through it */
#define CONF_FIELDS_MAX  64
#define CONF_USERS_MAX   10000           /* of one basic_auth */
#define CONF_AUTH_MAX    (CONF_MI)       /* bytes of its file */
#define CONF_PAGE_MAX    (256 * CONF_KI) /* bytes of an error_page */
#define CONF_STORAGE_MAX (INT64_C(1) << 50)

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
    X(AUTO,      NUMBER, COUNT,   "auto or a whole number")                                        \
    X(SLOTS,     NUMBER, COUNT,   "4 or 8")                                                        \
    X(TEXT,      STRING, TEXT,    "text")                                                          \
    X(ASCII,     STRING, TEXT,    "printable ASCII text")                                          \
    X(TOKEN,     STRING, TEXT,    "a word of letters, digits and !#$%&'*+-.^_`|~")                 \
    X(NAME,      STRING, TEXT,    "a name: a letter or _, then letters, digits, - and _")          \
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
    X(WORDS,     STRING, WORDS,   "a list of words without a space in them, as in [one, two]")     \
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
    X(TTL,       STRING, RULE,    "a time, as in 5m; empty: not said")                             \
    X(NAMES,     STRING, RULE,                                                                     \
      "true for all, or a list of names with *, as in [utm_*, fbclid]")                            \
    X(METHODS,   STRING, RULE,    "a list of methods, as in [GET, POST]")                          \
    X(FIELDS,    STRING, RULE,                                                                     \
      "a map, as in { set: { X-Frame-Options: DENY }, add: { Link: \"</a.css>\" }, unset: [Server] }")\
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
      "Other files that are part of this one, as in conf.d/*.yaml, from this file's directory on: "\
      "lists follow each other in the order of the files, maps become one, and what stands twice " \
      "is an error. A glob that matches nothing is none, and they include no others")

#define CONF_VCL_TABLE(X)                                                                          \
    X(vcl, TEXT, "", 0, 4000,                                                                      \
      "File of the policy (vcl-lite), from this file's directory on; empty: none")

#define CONF_TRUSTED_TABLE(X)                                                                      \
    X(trusted_proxies, NETS, "", 0, 0,                                                             \
      "Proxies that are believed about the client: the rightmost address of the field named "\
      "by the parameter forwarded that is not among them; and for the scheme, by their "           \
      "X-Forwarded-Proto, or proto= of Forwarded: http or https. Each must set it, whatever the "  \
      "client says. It is sent on and is of the key, so purge by the URL with https:// where TLS " \
      "ends in front; with a vcl_hash of its own a policy has the say on both")

#define CONF_LISTEN_TABLE(X)                                                                       \
    X(address, LISTEN, NULL, 0, 0, "Where clients connect; port 0 takes a free one")               \
    X(name, NAME, "", 0, CONF_NAME_MAX, "Name in logs; default: listen and its number, from 0")    \
    X(proxy_protocol, PROXIED, "off", 0, 8,                                                        \
      "Required: each connection begins with a PROXY header, version 1 or 2, which says who the "  \
      "client is; what has none is closed")                                                        \
    X(trusted, NETS, "", 0, 0,                                                                     \
      "With proxy_protocol: proxies that may connect; empty: any, so keep others off the address")  \
    X(max_req_body, BYTES, 0, 0, INT64_MAX,                                                        \
      "Largest request body that comes here; then 413; 0: as the parameter max_req_body")          \
    X(mode, MODE, 0666, 0, 0777,                                                                   \
      "Of a Unix socket's file: who may write to it may connect; its directory's mode counts, too")\
    X(user, TEXT, "", 0, 64, "Owner of a Unix socket's file, by name or number; empty: tarnd's")   \
    X(group, TEXT, "", 0, 64, "And which group's; one that tarnd's user is a member of")

#define CONF_STORAGE_TABLE(X)                                                                      \
    X(engine, ENGINE, "malloc", 0, 0, "What keeps the bytes: memory, references, or test faults")  \
    X(size, BYTES, 256 * CONF_MI, 4 * CONF_KI, CONF_STORAGE_MAX,                                   \
      "A promise: whatever grows with content or traffic stays within it")                         \
    X(eviction, EVICTION, "s3-fifo", 0, 0,                                                         \
      "Who leaves when room is needed: what was not used again soon, what was not used for the "   \
      "longest time, or what was not used since a hand came by")                                   \
    X(fault, TEXT, "", 0, 1024, "What the engine fault does; for tests, and for no other engine")

#define CONF_PROBE_TABLE(X)                                                                        \
    X(url, TARGET, "/", 1, 2048, "What is asked for: GET, with the Host of the backend")           \
    X(request, LINES, "", 0, 4096, "What is sent instead, line by line; the blank one is added")   \
    X(interval, MS, 5 * CONF_S, 10, CONF_D, "From the beginning of one probe to the next")         \
    X(timeout, MS, 2 * CONF_S, 1, CONF_H, "To connect and to be answered, together")               \
    X(window, COUNT, 8, 1, 64, "So many of the last results count")                                \
    X(threshold, COUNT, 3, 0, 64, "The backend is healthy while so many of them are good")         \
    X(initial, COUNT, 2, 0, 64,                                                                    \
      "Good results that it begins with. Default: threshold less one, and healthy until the first "\
      "result, which decides")                                                                     \
    X(expected_status, COUNT, 200, 100, 999, "Status of a good answer; VCL's expected_response")   \
    X(expect_close, BOOL, 1, 0, 1,                                                                 \
      "A good answer ends with the connection, as it is asked to; off: its first line is enough")

#define CONF_BACKEND_TABLE(X)                                                                      \
    X(address, ADDRESS, NULL, 0, 0, "Where the origin server listens; see dns_ttl for names")      \
    X(host_header, AUTHORITY, "", 0, 255, "Sent as Host; default: the client's")                   \
    X(connect_timeout, MS, CONF_FROM_PARAM, 1, CONF_H, "Default: the parameter connect_timeout")   \
    X(first_byte_timeout, MS, CONF_FROM_PARAM, 1, CONF_D,                                          \
      "Default: the parameter first_byte_timeout")                                                 \
    X(between_bytes_timeout, MS, CONF_FROM_PARAM, 1, CONF_D,                                       \
      "Default: the parameter between_bytes_timeout")                                              \
    X(idle_timeout, MS, CONF_FROM_PARAM, 10, CONF_D,                                               \
      "Default: the parameter backend_idle_timeout")                                               \
    X(max_connections, COUNT, 0, 0, 1000000,                                                       \
      "Connections at a time, all workers together; 0: no limit")                                  \
    X(queue_timeout, MS, 0, 0, CONF_H,                                                             \
      "How long a fetch waits for one of max_connections, in its turn; then, and with 0s at once, "\
      "503")                                                                                       \
    X(queue_max, COUNT, 1000, 1, 1000000, "Fetches of one worker that wait at a time; then 503")   \
    X(max_idle, COUNT, 64, 0, 65535, "Idle connections that each worker keeps")                    \
    X(probe, PROBE, "", 0, 0,                                                                      \
      "How it is asked whether it is well: a map with the keys of `probes`, or the name of one; "  \
      "empty: it is not asked")                                                                    \
    X(eject_after, COUNT, 5, 0, 1000,                                                              \
      "After so many fetches in a row that failed to connect, timed out or broke off before a "    \
      "response, directors leave it out for a while, as long as they have another; 0: never")      \
    X(eject_for, MS, 10 * CONF_S, 10, CONF_H,                                                      \
      "For how long; twice as long each time that it fails again soon, 5m at most. Then one "      \
      "failure is enough, until a fetch succeeds")                                                 \
    X(slow_start, MS, 0, 0, CONF_D,                                                                \
      "For so long after it became well, directors give it a share that grows from a tenth to the "\
      "whole; 0s: the whole at once")                                                              \
    X(dns_ttl, MS, CONF_FROM_PARAM, 0, CONF_D, "Default: the parameter dns_ttl")                   \
    X(proxy_header, COUNT, 0, 0, 2,                                                                \
      "Version of the PROXY header that says who the client is: each fetch has a connection of "   \
      "its own then; 0: none is sent")

#define CONF_DIRECTOR_TABLE(X)                                                                     \
    X(type, DIRECTOR, "round_robin", 1, 32,                                                        \
      "Who is chosen: each in turn, by chance, who has the least to do, by the URL, or the first " \
      "that is well")                                                                              \
    X(backends, MEMBERS, NULL, 0, 0,                                                               \
      "What it chooses among: backends, and directors that stand above it; weight: 1 to 100, its " \
      "share, and 1 where none is given")                                                          \
    X(balance_factor, COUNT, 125, 0, 10000,                                                        \
      "hash: who has so many percent of the average load gets no more, and the next one gets its " \
      "URLs; more than 100, or 0: there is no bound")                                              \
    X(sticky, BOOL, 0, 0, 1, "fallback: stay with the one that works until it fails")

#define CONF_ROUTE_TABLE(X)                                                                        \
    X(host, HOST, "", 0, 253,                                                                      \
      "Host of the request, whole, in any case; *.example.com: every name below it; default: any") \
    X(path, PREFIX, "", 0, 4096, "What the path of the request begins with; default: any")         \
    X(backend, BACKEND, "", 0, 0,                                                                  \
      "What serves it; default: what serves requests that no route matches")                       \
    X(pipe, BOOL, 0, 0, 1,                                                                         \
      "Let a client upgrade its connection (WebSocket): a tunnel, once the backend has answered "  \
      "101; with a policy by vcl_pipe, as return(pipe)")                                           \
    X(ttl, TTL, "", 0, 3650 * CONF_D,                                                              \
      "How long a 2xx or a redirect is fresh from its arrival on, whatever it says itself of "     \
      "max-age, s-maxage, Expires, no-cache and must-revalidate. What is not for a shared cache "  \
      "stays out: no-store, private, Set-Cookie (see strip_cookies), Authorization, Vary: *")      \
    X(grace, TTL, "", 0, 3650 * CONF_D,                                                            \
      "As the parameter default_grace. must-revalidate stays in force, unless there is a ttl, too")\
    X(pass, BOOL, 0, 0, 1, "Never from the cache: each request goes to the backend")               \
    X(strip_cookies, NAMES, "", 0, 64,                                                             \
      "Cookies that are taken out of requests (Cookie) and out of responses (Set-Cookie), so that "\
      "these may be stored")                                                                       \
    X(strip_query, NAMES, "", 0, 64,                                                               \
      "Parameters that are taken out of the query, as they are written: they count neither for the "\
      "key nor for the backend")                                                                   \
    X(methods, METHODS, "", 0, 32,                                                                 \
      "Methods that are allowed; others get a 405 with Allow. GET allows HEAD; empty: all")        \
    X(request_headers, FIELDS, "", 0, 64,                                                          \
      "Fields of the request: unset, then set, then add; for key, Vary and backend alike")         \
    X(response_headers, FIELDS, "", 0, 64,                                                         \
      "Fields of each response from the cache or the backend, as it is sent to the client; what is "\
      "stored keeps its own. Not of what Tarn answers itself")                                     \
    X(rate, LIMITS, "", 0, CONF_NAME_MAX, "Limits, by their names, that count for this route, too") \
    X(error_page, PAGE, "", 0, 4000,                                                               \
      "Page of the errors that Tarn answers itself: an HTML file, from this file's directory on, or "\
      "{ file, text, status }: text is plain; status: which, default 500 to 599. With a policy vcl_synth and "\
      "vcl_backend_error make the pages")                                                          \
    X(basic_auth, AUTH, "", 0, 4000,                                                               \
      "Ask for a name and a password (RFC 7617), before the cache is asked: a file of NAME:HASH lines "\
      "(htpasswd -B, mkpasswd), from this file's directory on. Authorization is then taken out of the "\
      "request, so that responses may be stored; forward: on sends it on, and then they are not")  \
    X(redirect, REDIRECT, "", 0, 2048,                                                             \
      "Answer with a redirect; $host is the host without its port, $uri the path, $request_uri path "\
      "and query. https: 301 to https://$host$request_uri, of what did not come by https")

#define CONF_LIMIT_TABLE(X)                                                                        \
    X(name, NAME, "", 0, CONF_NAME_MAX,                                                            \
      "With a name it counts for the routes that name it (rate), and for no other request")        \
    X(host, HOST, "", 0, 253, "Host of the request, whole, in any case; default: any")             \
    X(path, PREFIX, "", 0, 4096,                                                                   \
      "What the path of the request begins with, as it is written or as a backend may read it: "   \
      "decoded, without empty segments, dot segments and ;parameters, so that //login, "           \
      "/a/%2e%2e/login and /login;x are /login. Default: any")            \
    X(rate, COUNT, 100, 1, 1000000, "Requests that a client may make in `per`, in the long run")   \
    X(per, MS, 1 * CONF_S, 1, CONF_D, "See rate")                                                  \
    X(burst, COUNT, 0, 0, 1000000, "Requests it may make at once; 0: as many as rate")             \
    X(except, NETS, "", 0, 0, "Clients that are not counted")

#define CONF_INDEX_TABLE(X)                                                                        \
    X(bits, AUTO, 0, 6, 32,                                                                        \
      "Log2 of the number of slots, which stays; auto: begins by the storage size, and doubles")   \
    X(slots, SLOTS, 8, 4, 8, "Slots in a bucket: 8 fill a cache line")

#define CONF_NEGATIVE_TABLE(X)                                                                     \
    X(entries, COUNT, 100000, 1, 268435456,                                                        \
      "Names it remembers; each takes 32 bytes of the main storage, of which half is the most")    \
    X(ttl, MS, 10 * CONF_S, 0, CONF_D,                                                             \
      "For how long; 0: only what a policy asks for with tarn.negative()")

#define CONF_ADMIN_TABLE(X)                                                                        \
    X(address, LISTEN, "unix:/run/tarn/admin.sock", 0, 4000,                                       \
      "Where operators connect; a Unix socket is for its owner alone by its mode, TCP needs a token")\
    X(token, ASCII, "", 0, CONF_TOKEN_MAX,                                                         \
      "Asked for in `Authorization: Bearer TOKEN`; at least 16 characters, none of them a space")  \
    X(mode, MODE, 0600, 0, 0777, "Of a Unix socket's file: who may write to it may connect")       \
    X(user, TEXT, "", 0, 64, "Owner of a Unix socket's file, by name or number; empty: tarnd's")   \
    X(group, TEXT, "", 0, 64, "And which group's; one that tarnd's user is a member of")                                                 \
    X(allow, ALLOW, "", 0, 0,                                                                      \
      "Who may look (GET), and who may change something too: { read: [...], write: [...] }, of "   \
      "networks, and on a Unix socket of user:NAME and group:NAME; a list left out is empty. "     \
      "Without allow: who can connect, and has the token")                                         \
    X(names, WORDS, "", 0, CONF_WORDS_MAX,                                                         \
      "Without a token: names in Host that are answered, besides localhost, tarn and addresses: "  \
      "so that a browser's page of another site cannot ask by a name that it points here")

#define CONF_TABLES_TABLE(X)                                                                       \
    X(path, TEXT, "", 0, 4000,                                                                     \
      "Its files are this with .state, .0 and .1; empty: /dev/shm/tarn and the name. tarn-table "  \
      "writes them, or another program")                                                           \
    X(kind, TABLE, "any", 0, 0, "What it must be: versions of other kinds are refused")            \
    X(check, BOOL, 1, 0, 1,                                                                        \
      "Compute the checksum of each new version, once in each worker; off: for large tables if its "\
      "writer is trusted")

/* The top level, in the order in which it is read and documented.  The documentation begins with the
 * section's shape, which conf_schema.c reads there: A list of, A map of names, One value; else it is a map.
 *    section, rows, documentation */
#define CONF_SECTION_TABLE(X)                                                                      \
    X(listen, CONF_LISTEN_TABLE, "A list of listeners. Default: one, on 127.0.0.1:8080.")          \
    X(workers, CONF_TOP_TABLE, "One value, not a map. Default: auto.")                             \
    X(trusted_proxies, CONF_TRUSTED_TABLE,                                                         \
      "One value, not a map: a list of networks. Default: none, and then what clients say of "     \
      "themselves is replaced.")                                                                   \
    X(storage, CONF_STORAGE_TABLE,                                                                 \
      "A map of names to storages. Default: main, engine malloc, 256MiB.")                         \
    X(probes, CONF_PROBE_TABLE,                                                                    \
      "A map of names to probes, for backends to name. Names and defaults are VCL's. Default: "    \
      "none.")                                                                                     \
    X(backends, CONF_BACKEND_TABLE,                                                                \
      "A map of names to origin servers; at least one, unless there is a policy, which may declare "\
      "its own. What no route matches goes to the only one, else to the one named default, else is "\
      "answered 503.")                                                                             \
    X(directors, CONF_DIRECTOR_TABLE,                                                              \
      "A map of names to directors, which choose a backend for each request that needs one, and "  \
      "may stand wherever a backend may. What no route matches goes to the one named default, "    \
      "else to the only one. Default: none.")                                                      \
    X(routes, CONF_ROUTE_TABLE,                                                                    \
      "A list of what serves what and how; the first that matches. With a policy their backends "  \
      "count where it does not set req.backend_hint, unless it declares backends itself: then its "\
      "default is asked. Default: none.")                                                                            \
    X(limits, CONF_LIMIT_TABLE,                                                                    \
      "A list of how often each client may ask, by its address, of IPv6 its /64: who asks more is " \
      "answered 429 with Retry-After. Every one that matches counts. Default: none.")              \
    X(include, CONF_INCLUDE_TABLE, "One value, or a list of them, not a map. Default: no other file.") \
    X(vcl, CONF_VCL_TABLE, "One value, not a map. Default: no policy; HTTP's own rules decide.")   \
    X(index, CONF_INDEX_TABLE, "The hash table that finds objects.")                               \
    X(negative_cache, CONF_NEGATIVE_TABLE,                                                         \
      "What does not exist: a 404 or 410 without freshness of its own is remembered without its "  \
      "page, in a table of fixed size. Without this section there is none; `negative_cache: {}` "  \
      "has the defaults.")                                                                         \
    X(tables, CONF_TABLES_TABLE,                                                                   \
      "A map of names to tables in shared memory, which policies read with tarn.table_contains and "\
      "tarn.table_lookup, and other processes write. Default: none.")                              \
    X(admin, CONF_ADMIN_TABLE,                                                                     \
      "The listener for operators: HTTP and JSON, `GET /v1` lists what it answers. Without this "  \
      "section there is none; `admin: {}` has the default address.")                               \
    X(parameters, CONF_PARAM_TABLE, "A map; every one has a default.")

/* Sections of Tarn's design that this build refuses by name. */
#define CONF_UNSUPPORTED_TABLE(X)                                                                  \
    X(tls) X(supervisor)
/* clang-format on */

#endif
