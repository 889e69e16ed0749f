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
      "Freshness of a cacheable response that says nothing of its own. With a policy it is 120s "  \
      "where the file does not say, as in Varnish")                                                \
    X(default_grace, MS, 10 * CONF_S, 0, 3650 * CONF_D,                                            \
      "How long past its freshness a response may be served while it is fetched anew. RFC 9111 "   \
      "leaves that to the operator's word, so the default counts only when the backend fails")     \
    X(default_keep, MS, 0, 0, 3650 * CONF_D,                                                       \
      "How long past grace a response is kept to be validated")                                    \
    X(heuristic_fraction, PERCENT, 10, 0, 100,                                                     \
      "Freshness of a response that says nothing of its own but when it was last modified: this "  \
      "part of the time since then (RFC 9111 4.2.2). With a policy only where the file sets it "   \
      "or heuristic_max; else default_ttl counts, as in Varnish")                                  \
    X(heuristic_max, MS, 1 * CONF_H, 0, 3650 * CONF_D,                                             \
      "Longest such freshness; 0s: there is none")                                                 \
    X(store_set_cookie, COOKIES, "never", 1, 8,                                                    \
      "Which responses with Set-Cookie are stored, that is, sent to other clients too: never; "    \
      "public: those that Cache-Control: public or s-maxage allow, or CDN-Cache-Control or "       \
      "Surrogate-Control; always. With a policy it is the policy that decides, and builtin.vcl "   \
      "stores none")                                                                               \
    X(uncacheable_ttl, MS, 120 * CONF_S, 0, 3650 * CONF_D,                                         \
      "How long a URL is remembered as not cacheable, so that requests for it do not queue")       \
    X(max_restarts, COUNT, 4, 0, 10, "How often a policy may restart a request; then 503")         \
    X(max_retries, COUNT, 4, 0, 10, "How often a policy may retry a fetch; then 503")              \
    X(ban_lurker_age, MS, 60 * CONF_S, 0, CONF_D,                                                  \
      "The ban lurker leaves bans alone that are younger: requests meet most objects by then")     \
    X(ban_lurker_batch, COUNT, 1000, 1, 1000000,                                                   \
      "Objects the ban lurker looks at before it sleeps for ban_lurker_sleep")                     \
    X(ban_lurker_sleep, MS, 10, 0, CONF_H,                                                         \
      "Between two batches of the ban lurker; 0: it does not run")                                 \
    X(ban_cutoff, COUNT, 0, 0, 1000000,                                                            \
      "Where the list of bans is longer, the ban lurker drops objects that would have to be tested "\
      "against more, instead of testing them; 0: never")                                           \
    X(ban_dups, BOOL, 1, 0, 1,                                                                     \
      "A new ban completes older ones that say the same")                                          \
    X(vcl_path, TEXT, "", 0, 4000,                                                                 \
      "Directory of the files that a policy includes; empty: that of the policy's own file")       \
    X(policy_path, TEXT, "", 0, 4000,                                                              \
      "Directories, with : between them, below which a policy that was sent to the admin listener "\
      "may include files and read them; empty: vcl_path, else that of the file in vcl; / is all")  \
    X(timeout_req, MS, 10 * CONF_S, 10, CONF_H,                                                    \
      "From the first byte of a request to the end of its header section; then 408")               \
    X(timeout_idle, MS, 5 * CONF_S, 10, CONF_D,                                                    \
      "A client connection without a request is closed after this")                                \
    X(timeout_body, MS, 300 * CONF_S, 10, CONF_D,                                                  \
      "From the end of a request's header section to the end of its body; then 408")               \
    X(timeout_body_idle, MS, 15 * CONF_S, 10, CONF_H,                                              \
      "Between two pieces of a request body; then 408")                                            \
    X(req_body_rate_min, BYTES, 240, 0, 1024 * CONF_MI,                                            \
      "Least bytes a second of a request body, on average, once timeout_body_idle has passed since "\
      "it began; less is answered 408. Time in which Tarn does not read counts not. 0: no limit")                                       \
    X(idle_send_timeout, MS, 60 * CONF_S, 10, CONF_D,                                              \
      "A client that takes no byte of a response for this long is closed")                         \
    X(pipe_timeout, MS, 60 * CONF_S, 10, CONF_D,                                                   \
      "A tunnel in which nothing moves for this long is closed")                                   \
    X(drain_timeout, MS, 30 * CONF_S, 0, CONF_H,                                                   \
      "At SIGTERM: how long what is in flight may take to finish")                                 \
    X(watchdog, MS, 30 * CONF_S, 0, CONF_H,                                                        \
      "With --supervise: a tarnd with a loop that does not turn for this long is replaced; 0: "       \
      "never; else 3s at least")                                                                   \
    X(connect_timeout, MS, 3500, 1, CONF_H, "To connect to a backend; then 504")                   \
    X(first_byte_timeout, MS, 60 * CONF_S, 1, CONF_D,                                              \
      "From the end of the request to a backend to the first byte of its response; then 504")      \
    X(between_bytes_timeout, MS, 60 * CONF_S, 1, CONF_D,                                           \
      "Between two pieces of a backend's response; then the response counts as truncated")         \
    X(backend_send_timeout, MS, 60 * CONF_S, 1, CONF_D,                                            \
      "A backend that takes no byte of a request for this long is given up")                       \
    X(backend_idle_timeout, MS, 60 * CONF_S, 10, CONF_D,                                           \
      "How long an idle backend connection is kept")                                               \
    X(dns_ttl, MS, 30 * CONF_S, 0, CONF_D,                                                         \
      "The longest time that the addresses of a backend's name are used before it is looked up "   \
      "again. The TTL of the records counts where it is shorter, down to 1s; names in /etc/hosts " \
      "have none. While a lookup fails the last addresses stay. 0s: never again")                  \
    X(resolver, WORDS, "", 0, 512,                                                                 \
      "Name servers that are asked for backends' addresses while tarnd runs, as in "               \
      "[127.0.0.1:5353, \"[::1]\"]; empty: those of /etc/resolv.conf, which is read anew when it "   \
      "changes. /etc/hosts comes first. At the start, and at a reload for new backends, the "      \
      "system's getaddrinfo(3) is asked")                                                          \
    X(dns_required, BOOL, 0, 0, 1,                                                                 \
      "on: a backend's name that cannot be resolved when the file is read is a mistake; off: tarnd " \
      "starts, answers 503 where it is needed, and asks for its addresses until there are some")   \
    X(max_connections, COUNT, 0, 0, 10000000,                                                      \
      "Client connections at a time, all workers; 0: as many as open files allow")                 \
    X(max_connections_per_client, COUNT, 0, 0, 10000000,                                           \
      "Client connections at a time of one address, of IPv6 one /64: more are closed at once. "    \
      "Those of trusted_proxies are not counted, those of a PROXY header by the client that it "   \
      "names. 0: no limit; a browser opens 6, an office behind one address some hundred")          \
    X(listen_depth, COUNT, 1024, 1, 65535, "Length of the kernel's queue of new connections")      \
    X(tcp_notsent_lowat, BYTES, 64 * CONF_KI, 0, 1024 * CONF_MI,                                   \
      "Bytes of a response that the kernel takes before it can send them, from each client "       \
      "connection (TCP_NOTSENT_LOWAT): the rest waits in the store, where all readers share it; "  \
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
      "Status 600 to 999 of a backend's response, which HTTP does not have: refuse it with a 502, "\
      "or accept it: it is passed on, and not stored")                                             \
    X(http_max_hdr, COUNT, 100, 8, 250, "Fields in a message; then 431 or 502")                    \
    X(max_req_body, BYTES, 0, 0, INT64_MAX, "Largest request body; then 413; 0: no limit")         \
    X(transit_buffer, BYTES, 1 * CONF_MI, 16 * CONF_KI, 1024 * CONF_MI,                            \
      "Bytes of a response that is not kept which may wait for its client")                        \
    X(stream_window, BYTES, 0, 0, 1024 * CONF_MI,                                                  \
      "What readers share of a response too large to keep; 0: a 16th of the storage, 64 MiB at "   \
      "most; never more than a quarter, nor less than transit_buffer, which is what one alone gets")\
    X(req_body_buffer, BYTES, 64 * CONF_KI, 16 * CONF_KI, 64 * CONF_MI,                            \
      "Bytes of a request body which may wait for the backend")                                    \
    X(req_buffering, BOOL, 1, 0, 1,                                                                \
      "Ask a backend only when a request body is whole, or as long as req_body_buffer: until "     \
      "then a slow upload occupies no backend connection. off: as soon as the request's header "   \
      "section is there")                                    \
    X(max_object_size, BYTES, 0, 0, INT64_MAX,                                                     \
      "Larger responses are streamed but not kept; 0: a tenth of the storage; never more than "    \
      "half of it")                                                                                \
    X(request_id_header, TOKEN, "", 0, 64,                                                         \
      "Field that carries the request's id to the backend and the client; empty: none")            \
    X(http_cache_status, BOOL, 1, 0, 1, "Add Cache-Status (RFC 9211) to responses")                \
    X(http_tags, BOOL, 0, 0, 1,                                                                    \
      "Send Surrogate-Key, xkey and Cache-Tag on to clients. By default they are taken away, as "  \
      "Fastly and Cloudflare do; beresp, obj and bans see them in any case")                       \
    X(http_x_varnish, BOOL, 0, 0, 1,                                                               \
      "With a policy, add X-Varnish to responses: the request's id, and behind it, on a hit, that " \
      "of the request that fetched it; 8 bytes more for each stored response")                     \
    X(http_via, TOKEN, "tarn", 1, 64, "Pseudonym in Via (RFC 9110 7.6.3)")                         \
    X(loop_token, TOKEN, "", 0, 64,                                                                \
      "Name of this tarnd in CDN-Loop (RFC 8586), which each request to a backend gets; a request "\
      "that has it already comes back from a backend: 508; empty: one drawn at each start. Nodes "  \
      "in a row, as edge and shield, need different ones")                                         \
    X(loop_limit, COUNT, 0, 0, 8,                                                                  \
      "How often a request may come back from a backend before it is answered 508: 1 where a "     \
      "backend asks this tarnd again and keeps the request's fields")                              \
    X(http_server, ASCII, "tarn", 1, 64, "Server of the answers that Tarn makes itself")           \
    X(user, TEXT, "", 0, 255,                                                                      \
      "Started by root, tarnd becomes this user, by name or number, before it opens anything; "    \
      "listeners below port 1024 stay possible; empty: it stays who it was")                       \
    X(group, TEXT, "", 0, 255, "The group to that; empty: the user's own")                         \
    X(sandbox, BOOL, 1, 0, 1,                                                                      \
      "Give up what serving never needs: other programs, system calls, writing elsewhere than the "\
      "files named here (daemon/confine/sandbox.h); as far as the kernel can")                             \
    X(forwarded, FORWARDED, "x-forwarded-for", 0, 16,                                              \
      "Which field tells backends who the client is: x-forwarded-for, forwarded (RFC 7239), both "  \
      "or none. Of trusted_proxies X-Forwarded-For is believed, with forwarded Forwarded")         \
    X(keep_client_fields, WORDS, "", 0, CONF_WORDS_MAX,                                            \
      "Fields that go on to backends as the client sent them, of those that are dropped because "  \
      "backends believe them: Proxy, X-Real-IP, True-Client-IP, CF-Connecting-IP and their like, " \
      "X-Forwarded-Host, X-Original-*, X-Rewrite-*, X-*-Method-Override. Name one only where a "   \
      "proxy in front always sets it")                                                             \
    X(limit_keys, COUNT, 65536, 8, 67108864,                                                       \
      "Clients and keys that limits and tarn.rate_limit remember at a time; each takes 8 bytes of " \
      "the main storage, once there is a limit")                                                   \
    X(log_level, LEVEL, "info", 1, 8, "Least level of the error log: error, warn, info or debug")  \
    X(log_rate, COUNT, 100, 1, 100000, "Error log lines a second; what exceeds it is counted")     \
    X(error_log, SYSLOG, "", 0, 255,                                                               \
      "Where its lines go: syslog:FACILITY, perhaps with @/path or @address:port; empty: stderr")  \
    X(log_ring, POW2, 4 * CONF_MI, 64 * CONF_KI, 1024 * CONF_MI,                                   \
      "Shared-memory log of each worker; a power of two")                                          \
    X(access_log, OUTPUT, "", 0, 4095,                                                             \
      "What gets a line for each request: a file, - for stdout, or syslog:FACILITY, perhaps with " \
      "@/path or @address:port behind it; empty: none")                                            \
    X(access_log_format, FORMAT, "combined", 1, 1024,                                              \
      "How its lines are written: combined, as other servers do; json, an object a line; or a text "\
      "with fields, as in '$remote_addr \"$request\" $status $cache $time'; tarn.yaml(5) lists them")  \
    X(shm_dir, TEXT, "", 0, 4000,                                                                  \
      "Directory of the shared-memory files; empty: /dev/shm/tarn.PID, removed at exit")           \
    X(shm_mode, MODE, 0640, 0600, 0664,                                                            \
      "Mode of these files: they hold URLs, and what stands in them. The directory gets the same, "\
      "with x, if tarnd makes it")                                                                 \
    X(shm_group, TEXT, "", 0, 64,                                                                  \
      "Group of these files, by name or number, which may read them by shm_mode; one that tarnd's "\
      "user is a member of; empty: tarnd's")                                                       \
    X(table_owners, WORDS, "", 0, CONF_WORDS_MAX,                                                  \
      "Users, by name or number, who may write tables besides root and tarnd's user: the files of "\
      "others are refused")

/* Of them, those that can change while tarnd runs: every use reads the value anew. */
#define CONF_LIVE_TABLE(X)                                                                         \
    X(default_ttl) X(default_grace) X(default_keep) X(uncacheable_ttl)                             \
    X(heuristic_fraction) X(heuristic_max) X(store_set_cookie)                                     \
    X(max_restarts) X(max_retries) X(loop_limit)                                                   \
    X(ban_lurker_age) X(ban_lurker_batch) X(ban_lurker_sleep) X(ban_cutoff) X(ban_dups)            \
    X(timeout_req) X(timeout_idle) X(timeout_body) X(timeout_body_idle) X(req_body_rate_min)       \
    X(idle_send_timeout) X(pipe_timeout) X(drain_timeout) X(watchdog)                               \
    X(max_connections_per_client)                                                                  \
    X(backend_send_timeout)                                                                        \
    X(max_req_body) X(transit_buffer) X(stream_window) X(req_body_buffer) X(req_buffering)         \
    X(max_object_size) X(http_cache_status) X(http_tags) X(log_level) X(log_rate)

/* And those that change with their file, when it is read anew. */
#define CONF_RELOADED_TABLE(X) X(access_log) X(access_log_format) X(resolver)
/* clang-format on */

#endif
