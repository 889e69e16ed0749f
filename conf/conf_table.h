/* conf_table.h -- every parameter: name, type, default, least, most, unit, documentation.
 *
 * conf/README.md's table and the shipped tarn.yaml are generated from these rows, and the
 * loader checks against them.  Names are Varnish's where Varnish has the thing.
 * What a value may look like is said by its type, CONF_TYPE_TABLE in conf/conf_keys_table.h;
 * least and most bound the value of a number and the length of a text.
 */
#ifndef TARN_CONF_TABLE_H
#define TARN_CONF_TABLE_H

#define CONF_S  (1000)
#define CONF_M  (60 * 1000)
#define CONF_H  (3600 * 1000)
#define CONF_D  (24 * 3600 * INT64_C(1000))
#define CONF_KI (1024)
#define CONF_MI (1024 * 1024)

/* clang-format off */
/*    name, type, default, least, most, documentation */
#define CONF_PARAM_TABLE(X)                                                                        \
    X(default_ttl, MS, 0, 0, 3650 * CONF_D,                                                        \
      "Freshness of a cacheable response without freshness information. With a policy the "        \
      "default is 120s, as in Varnish")                                                            \
    X(default_grace, MS, 10 * CONF_S, 0, 3650 * CONF_D,                                            \
      "How long past its freshness a response may be served while it is fetched anew. RFC 9111 "   \
      "allows that only by the operator's decision, so the default applies only when the backend " \
      "fails")                                                                                     \
    X(default_keep, MS, 0, 0, 3650 * CONF_D,                                                       \
      "How long past grace a response is kept to be validated")                                    \
    X(heuristic_fraction, PERCENT, 10, 0, 100,                                                     \
      "Heuristic freshness of a response without freshness information: this fraction of the "     \
      "time since Last-Modified (RFC 9111 4.2.2). With a policy only where the file sets it or "   \
      "heuristic_max; else default_ttl applies, as in Varnish")                                    \
    X(heuristic_max, MS, 1 * CONF_H, 0, 3650 * CONF_D,                                             \
      "Longest heuristic freshness; 0s: there is none")                                            \
    X(store_set_cookie, COOKIES, "never", 1, 8,                                                    \
      "Which responses with Set-Cookie are stored, that is, sent to other clients too: never; "    \
      "public: those that Cache-Control: public or s-maxage allow, or CDN-Cache-Control or "       \
      "Surrogate-Control; always. With a policy the policy decides, and builtin.vcl stores none")  \
    X(uncacheable_ttl, MS, 120 * CONF_S, 0, 3650 * CONF_D,                                         \
      "How long a hit-for-miss marker lasts, so that requests for an uncacheable URL do not "      \
      "queue")                                                                                     \
    X(max_restarts, COUNT, 4, 0, 10, "How often a policy may restart a request; then 503")         \
    X(max_retries, COUNT, 4, 0, 10, "How often a policy may retry a fetch; then 503")              \
    X(ban_lurker_age, MS, 60 * CONF_S, 0, CONF_D,                                                  \
      "Least age of the bans that the ban lurker tests: lookups have tested most objects by then") \
    X(ban_lurker_batch, COUNT, 1000, 1, 1000000,                                                   \
      "Objects the ban lurker looks at before it sleeps for ban_lurker_sleep")                     \
    X(ban_lurker_sleep, MS, 10, 0, CONF_H,                                                         \
      "Between two batches of the ban lurker; 0: it does not run")                                 \
    X(ban_cutoff, COUNT, 0, 0, 1000000,                                                            \
      "Longest list of bans that an object is tested against: the ban lurker removes objects that "\
      "would be tested against more; 0: no limit")                                                 \
    X(ban_dups, BOOL, 1, 0, 1,                                                                     \
      "A new ban completes older bans with the same expression")                                   \
    X(vcl_path, TEXT, "", 0, 4000,                                                                 \
      "Directory of the files that a policy includes; empty: that of the policy's own file")       \
    X(policy_path, TEXT, "", 0, 4000,                                                              \
      "Directories, separated by :, below which a policy that was sent to the admin listener may " \
      "include and read files; empty: vcl_path, else that of the file in vcl; / is all")           \
    X(timeout_req, MS, 10 * CONF_S, 10, CONF_H,                                                    \
      "From the first byte of a request to the end of its header section; then 408")               \
    X(timeout_idle, MS, 5 * CONF_S, 10, CONF_D,                                                    \
      "A client connection without a request is closed after this")                                \
    X(timeout_body, MS, 300 * CONF_S, 10, CONF_D,                                                  \
      "From the end of a request's header section to the end of its body; then 408")               \
    X(timeout_body_idle, MS, 15 * CONF_S, 10, CONF_H,                                              \
      "Longest pause within a request body; then 408")                                             \
    X(req_body_rate_min, BYTES, 240, 0, 1024 * CONF_MI,                                            \
      "Least bytes a second of a request body, on average, once timeout_body_idle has passed "     \
      "since "                                                                                     \
      "it began; less is answered 408. Time in which Tarn does not read does not count. 0: no "    \
      "limit")                                                                                     \
    X(idle_send_timeout, MS, 60 * CONF_S, 10, CONF_D,                                              \
      "A client that takes no byte of a response for this long is closed")                         \
    X(pipe_timeout, MS, 60 * CONF_S, 10, CONF_D,                                                   \
      "A tunnel without traffic for this long is closed")                                          \
    X(drain_timeout, MS, 30 * CONF_S, 0, CONF_H,                                                   \
      "At SIGTERM: how long requests in flight may take to finish")                                \
    X(watchdog, MS, 30 * CONF_S, 0, CONF_H,                                                        \
      "With --supervise: a tarnd with a loop that does not turn for this long is replaced; 0: "    \
      "never; else 3s at least")                                                                   \
    X(connect_timeout, MS, 3500, 1, CONF_H, "Time to connect to a backend; then 504")              \
    X(first_byte_timeout, MS, 60 * CONF_S, 1, CONF_D,                                              \
      "From the end of the request to a backend to the first byte of its response; then 504")      \
    X(between_bytes_timeout, MS, 60 * CONF_S, 1, CONF_D,                                           \
      "Longest pause within a backend's response; then the response counts as truncated")          \
    X(backend_send_timeout, MS, 60 * CONF_S, 1, CONF_D,                                            \
      "A fetch ends when the backend takes no byte of the request for this long")                  \
    X(backend_idle_timeout, MS, 60 * CONF_S, 10, CONF_D,                                           \
      "How long an idle backend connection is kept")                                               \
    X(dns_ttl, MS, 30 * CONF_S, 0, CONF_D,                                                         \
      "The longest time that the addresses of a backend's name are used before it is looked up "   \
      "again. The TTL of the records counts where it is shorter, down to 1s; names in /etc/hosts " \
      "have none. While a lookup fails the last addresses stay. 0s: never again")                  \
    X(resolver, WORDS, "", 0, 512,                                                                 \
      "Name servers for backends' addresses while tarnd runs, as in "                              \
      "[127.0.0.1:5353, \"[::1]\"]; empty: those of /etc/resolv.conf, which is read anew when it " \
      "changes. /etc/hosts comes first. At the start, and at a reload for new backends, tarnd "    \
      "uses the system's getaddrinfo(3)")                                                          \
    X(dns_required, BOOL, 0, 0, 1,                                                                 \
      "on: a backend's name that cannot be resolved when the file is read is an error; off: "      \
      "tarnd starts, answers 503 for that backend, and repeats the lookup until it succeeds")      \
    X(max_connections, COUNT, 0, 0, 10000000,                                                      \
      "Concurrent client connections of all workers; 0: as many as open files allow")              \
    X(max_connections_per_client, COUNT, 0, 0, 10000000,                                           \
      "Concurrent client connections of one address (IPv6: one /64); further ones are closed at "  \
      "once. Connections of trusted_proxies are not counted; one with a PROXY header counts for "  \
      "the client that it names. 0: no limit; a browser opens 6, an office behind one address "    \
      "some hundred")                                                                              \
    X(listen_depth, COUNT, 1024, 1, 65535, "Length of the kernel's queue of new connections")      \
    X(tcp_notsent_lowat, BYTES, 64 * CONF_KI, 0, 1024 * CONF_MI,                                   \
      "Unsent bytes of a response in the kernel, for each client connection (TCP_NOTSENT_LOWAT): " \
      "further bytes wait in the store, where all readers share them; "                            \
      "0: as much as the socket's buffer holds")                                                   \
    X(http_req_line_len, BYTES, 8 * CONF_KI, 64, 60 * CONF_KI, "Longest request line; then 414")   \
    X(http_req_hdr_len, BYTES, 8 * CONF_KI, 64, 60 * CONF_KI, "Longest request field; then 431")   \
    X(http_req_size, BYTES, 32 * CONF_KI, 256, 60 * CONF_KI,                                       \
      "Largest request head, line and fields together; then 431")                                  \
    X(http_resp_hdr_len, BYTES, 8 * CONF_KI, 64, 60 * CONF_KI,                                     \
      "Longest field of a backend's response; then 502")                                           \
    X(http_resp_size, BYTES, 32 * CONF_KI, 256, 60 * CONF_KI,                                      \
      "Largest head of a backend's response; then 502")                                            \
    X(origin_bare_lf, CHOICE, "refuse", 1, 8,                                                      \
      "Lines of a backend's response head that end with LF alone: refuse them with a 502, or "     \
      "accept them (RFC 9112 2.2); of requests, and in chunks, they are always refused")           \
    X(origin_status, CHOICE, "refuse", 1, 8,                                                       \
      "Status 600 to 999 of a backend's response, which HTTP does not have: refuse it with a "     \
      "502, or accept it: it is forwarded, and not stored")                                        \
    X(http_head_memo, BOOL, 1, 0, 1,                                                               \
      "Parse the header fields of a request once, as long as clients repeat them byte for byte: "  \
      "each worker keeps 128 heads. off: parse each request; the responses are the same")          \
    X(http_max_hdr, COUNT, 100, 8, 250, "Fields in a message; then 431 or 502")                    \
    X(h2_max_concurrent_streams, COUNT, 100, 1, 1000,                                              \
      "HTTP/2: requests that a client connection may have under way at once")                      \
    X(h2_initial_window_size, BYTES, 65535, 65535, INT32_MAX,                                      \
      "HTTP/2: bytes of a request body that a client may send ahead of what Tarn has taken")       \
    X(h2_max_frame_size, BYTES, 16 * CONF_KI, 16 * CONF_KI, 64 * CONF_KI,                          \
      "HTTP/2: largest frame that a client may send")                                              \
    X(max_req_body, BYTES, 0, 0, INT64_MAX, "Largest request body; then 413; 0: no limit")         \
    X(transit_buffer, BYTES, 1 * CONF_MI, 16 * CONF_KI, 1024 * CONF_MI,                            \
      "Buffer of a response that is not stored, for a slow client")                                \
    X(stream_window, BYTES, 0, 0, 1024 * CONF_MI,                                                  \
      "Window of a response too large to store, which all its readers share; 0: a 16th of the "    \
      "storage, 64 MiB at most; never more than a quarter, nor less than transit_buffer, which "   \
      "is the buffer of a single reader")                                                          \
    X(req_body_buffer, BYTES, 64 * CONF_KI, 16 * CONF_KI, 64 * CONF_MI,                            \
      "Buffer of a request body for the backend")                                                  \
    X(req_buffering, BOOL, 1, 0, 1,                                                                \
      "Start a fetch only when the request body is complete, or fills req_body_buffer: until "     \
      "then a slow upload occupies no backend connection. off: as soon as the request's header "   \
      "section is complete")                                                                       \
    X(max_object_size, BYTES, 0, 0, INT64_MAX,                                                     \
      "Larger responses are streamed but not stored; 0: a tenth of the storage; never more than "  \
      "half of it")                                                                                \
    X(request_id_header, TOKEN, "", 0, 64,                                                         \
      "Field that carries the request's id to the backend and the client; empty: none")            \
    X(http_cache_status, BOOL, 1, 0, 1, "Add Cache-Status (RFC 9211) to responses")                \
    X(http_tags, BOOL, 0, 0, 1,                                                                    \
      "Forward Surrogate-Key, xkey and Cache-Tag to clients. By default they are removed, as "     \
      "Fastly and Cloudflare do; beresp, obj and bans see them in any case")                       \
    X(http_x_varnish, BOOL, 0, 0, 1,                                                               \
      "With a policy, add X-Varnish to responses: the request's id, followed on a hit by the id "  \
      "of the request that fetched it; 8 bytes more for each stored response")                     \
    X(http_via, TOKEN, "tarn", 1, 64, "Pseudonym in Via (RFC 9110 7.6.3)")                         \
    X(loop_token, TOKEN, "", 0, 64,                                                                \
      "Name of this tarnd in CDN-Loop (RFC 8586), which each request to a backend gets; a "        \
      "request that already has it is a loop: 508; empty: random at each start. Nodes in a row, "  \
      "as edge and shield, need different names")                                                  \
    X(loop_limit, COUNT, 0, 0, 8,                                                                  \
      "How often a request may return from a backend before it is answered 508: 1 where a "        \
      "backend sends requests to this tarnd and keeps the request's fields")                       \
    X(http_server, ASCII, "tarn", 1, 64, "Server field of synthetic responses")                    \
    X(user, TEXT, "", 0, 255,                                                                      \
      "Started by root, tarnd becomes this user, by name or number, before it opens any file; "    \
      "listeners below port 1024 stay possible; empty: no change")                                 \
    X(group, TEXT, "", 0, 255, "Group of that user; empty: the user's primary group")              \
    X(sandbox, BOOL, 1, 0, 1,                                                                      \
      "Confine the process: no other programs, few system calls, and writing only to the files "   \
      "named here; as far as the kernel supports it")                                              \
    X(core_dumps, BOOL, 0, 0, 1,                                                                   \
      "A crash leaves a core dump, where the system writes them, and debuggers of the same user "  \
      "may attach. It has the private keys and whatever clients and backends said: guard it as "   \
      "you guard the keys. With sandbox it needs a core_pattern that names a program, as "         \
      "systemd-coredump is")                                                                       \
    X(forwarded, FORWARDED, "x-forwarded-for", 0, 16,                                              \
      "Field that gives backends the client's address: x-forwarded-for, forwarded (RFC 7239), "    \
      "both or none. From trusted_proxies Tarn reads X-Forwarded-For, or Forwarded with the "      \
      "value forwarded")                                                                           \
    X(keep_client_fields, WORDS, "", 0, CONF_WORDS_MAX,                                            \
      "Fields to forward as the client sent them, although backends may trust them; without it "   \
      "these are removed: Proxy, X-Real-IP, True-Client-IP, CF-Connecting-IP and their like, "     \
      "X-Forwarded-Host, X-Original-*, X-Rewrite-*, X-*-Method-Override. Name one only where a "   \
      "proxy in front always sets it")                                                             \
    X(limit_keys, COUNT, 65536, 8, 67108864,                                                       \
      "Number of clients and keys that limits and tarn.rate_limit track; each takes 8 bytes of "   \
      "the main storage, once there is a limit")                                                   \
    X(log_level, LEVEL, "info", 1, 8, "Least level of the error log: error, warn, info or debug")  \
    X(log_rate, COUNT, 100, 1, 100000, "Error log lines a second; further ones are only counted")  \
    X(error_log, SYSLOG, "", 0, 255,                                                               \
      "Destination of the error log: syslog:FACILITY, optionally with @/path or @address:port; "   \
      "empty: stderr")                                                                             \
    X(log_ring, POW2, 4 * CONF_MI, 64 * CONF_KI, 1024 * CONF_MI,                                   \
      "Shared-memory log of each worker; a power of two")                                          \
    X(access_log, OUTPUT, "", 0, 4095,                                                             \
      "Destination of the access log: a file, - for stdout, or syslog:FACILITY, optionally with "  \
      "@/path or @address:port; empty: none")                                                      \
    X(access_log_format, FORMAT, "combined", 1, 1024,                                              \
      "Format of its lines: combined, as other servers have; json, an object a line; or a text "   \
      "with fields, as in '$remote_addr \"$request\" $status $cache $time'; tarn.yaml(5) lists "   \
      "them")                                                                                      \
    X(shm_dir, TEXT, "", 0, 4000,                                                                  \
      "Directory of the shared-memory files; empty: /dev/shm/tarn.PID, removed at exit")           \
    X(shm_mode, MODE, 0640, 0600, 0664,                                                            \
      "Mode of these files, which contain URLs. The directory gets the same, with x, if tarnd "    \
      "creates it")                                                                                \
    X(shm_group, TEXT, "", 0, 64,                                                                  \
      "Group of these files, by name or number, with the access of shm_mode: one that tarnd's "    \
      "user is a member of; empty: tarnd's")                                                       \
    X(table_owners, WORDS, "", 0, CONF_WORDS_MAX,                                                  \
      "Users, by name or number, that may write tables besides root and tarnd's user: files of "   \
      "other users are refused")

/* Of them, those that can change while tarnd runs: every use reads the value anew. */
#define CONF_LIVE_TABLE(X)                                                                         \
    X(default_ttl) X(default_grace) X(default_keep) X(uncacheable_ttl)                             \
    X(heuristic_fraction) X(heuristic_max) X(store_set_cookie)                                     \
    X(max_restarts) X(max_retries) X(loop_limit)                                                   \
    X(ban_lurker_age) X(ban_lurker_batch) X(ban_lurker_sleep) X(ban_cutoff) X(ban_dups)            \
    X(timeout_req) X(timeout_idle) X(timeout_body) X(timeout_body_idle) X(req_body_rate_min)       \
    X(idle_send_timeout) X(pipe_timeout) X(drain_timeout) X(watchdog)                              \
    X(max_connections_per_client)                                                                  \
    X(backend_send_timeout)                                                                        \
    X(max_req_body) X(transit_buffer) X(stream_window) X(req_body_buffer) X(req_buffering)         \
    X(h2_max_concurrent_streams) X(h2_initial_window_size) X(h2_max_frame_size)                    \
    X(max_object_size) X(http_head_memo) X(http_cache_status) X(http_tags) X(log_level) X(log_rate)

/* And those that change with their file, when it is read anew. */
#define CONF_RELOADED_TABLE(X) X(access_log) X(access_log_format) X(resolver)
/* clang-format on */

#endif
