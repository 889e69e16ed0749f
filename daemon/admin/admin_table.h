/* admin_table.h -- every route: method, path, handler, what it is asked with, documentation.
 *
 * Asked with: members of a JSON object, NAME=TYPE, with ! behind those that must be there; `text`, a
 * body of any text; ?NAME=TYPE, in the query.
 *
 * A path ends in * where a name stands: one segment, not empty.  The first path that matches
 * and has the method answers.  The table of README.md is made of these rows.
 */
#ifndef TARN_ADMIN_TABLE_H
#define TARN_ADMIN_TABLE_H

/* clang-format off */
#define ADMIN_ROUTE_TABLE(X)                                                                       \
    X(GET, "/", page, "", "A page for browsers, with live figures; it asks for the token itself")  \
    X(GET, "/healthz", healthz, "",                                                                \
      "200 while this tarnd lives, draining or not; asks for no token")                            \
    X(GET, "/readyz", readyz, "",                                                                  \
      "200 while this tarnd takes requests, 503 while it drains; asks for no token")               \
    X(GET, "/metrics", metrics, "",                                                                \
      "Every number in Prometheus' text format: counters, histograms, backends, loops, memory")    \
    X(GET, "/v1", routes, "", "This list")                                                         \
    X(GET, "/v1/openapi.json", openapi, "", "The same as an OpenAPI description")                  \
    X(GET, "/v1/status", status, "",                                                               \
      "State, version, uptime, the policy in use, and the addresses really bound")                 \
    X(GET, "/v1/counters", counters, "", "Every counter, name to value; storage and index, too")   \
    X(GET, "/v1/latency", latency, "",                                                             \
      "Durations of requests, by result: quantiles, histograms; lag of the loops")                 \
    X(GET, "/v1/top", top, "?of=string ?by=string ?limit=integer",                                 \
      "?of=url|client|backend&by=requests|bytes|misses&limit=N: the most requested, lately")       \
    X(GET, "/v1/errors", errors, "",                                                               \
      "The last 50 failed responses: status 500 and more, malformed, truncated")                   \
    X(GET, "/v1/memory", memory, "",                                                               \
      "Memory charged to the storage, as a tree; the storage's size bounds it")                    \
    X(GET, "/v1/policies", policies, "", "Loaded policies and labels, and their state")            \
    X(PUT, "/v1/policies/active", policy_use, "name=string!",                                      \
      "{\"name\": NAME}: the policy, or label, of every request from the next one on")             \
    X(PUT, "/v1/policies/*", policy_load, "text",                                                  \
      "The body is a policy's text: 201, or 422 with every error; nothing changes until it is "    \
      "used")                                                                                      \
    X(DELETE, "/v1/policies/*", policy_discard, "",                                                \
      "Discards it; 409 while it is in use or labelled.  Requests that began with it continue")    \
    X(PUT, "/v1/labels/*", label_set, "name=string!",                                              \
      "{\"name\": NAME}: the policy that the label stands for")                                    \
    X(DELETE, "/v1/labels/*", label_unset, "", "Removes the label; 409 while it is in use")        \
    X(GET, "/v1/bans", bans, "", "Bans, the newest first")                                         \
    X(POST, "/v1/bans", ban_add, "expression=string! wait=string timeout_ms=integer local=boolean", \
      "{\"expression\": TEXT}: objects that match are not used any more; \"wait\" and \"local\" as " \
      "of a purge")                                                                                \
    X(POST, "/v1/purge", purge,                                                                    \
      "url=string headers=array tag=string tags=array all=boolean soft=boolean wait=string "        \
      "timeout_ms=integer local=boolean",                                                          \
      "{\"url\": URL}, {\"tag\": TAG}, {\"tags\": [TAG, ...]} or {\"all\": true}, and \"soft\": "     \
      "removes the responses stored under the URL (a path: on the first listener's address), with " \
      "one of the tags, or all; soft: makes them stale; returns how many. In a fleet \"wait\": "    \
      "\"all\" answers when every node has applied it, or with 202 and the list after "            \
      "timeout_ms; \"local\": true means this node alone")                                         \
    X(GET, "/v1/fleet", fleet, "",                                                                 \
      "This node's fleet: its engine, its place in the log, for how long stored responses are "    \
      "trusted, and all nodes")                                                                    \
    X(GET, "/v1/fleet/proofs/*", fleet_proof, "?timeout_ms=integer",                               \
      "Has every node applied the purge or ban with this token, of this node or another one? 200; " \
      "202 and the list when not all have after timeout_ms; 409: it is of another engine")         \
    X(GET, "/v1/fleet/shared", fleet_shared, "",                                                   \
      "What all nodes have alike, its versions, and what each node says of them")                  \
    X(PUT, "/v1/fleet/policies/*", fleet_policy, "?timeout_ms=integer text",                       \
      "The body is a policy's text: when every node has compiled it all use it; 422 when one "     \
      "cannot, 503 when one says nothing: then no node uses it; 202: not all have it in use yet")   \
    X(POST, "/v1/fleet/rollback", fleet_rollback, "?timeout_ms=integer",                           \
      "The fleet's policy of before, at all nodes; before the first one each has its own")         \
    X(PUT, "/v1/fleet/parameters/*", fleet_parameter, "?timeout_ms=integer value=string!",         \
      "{\"value\": VALUE}: at all nodes, and those that join; above what files say")               \
    X(DELETE, "/v1/fleet/parameters/*", fleet_parameter_unset, "?timeout_ms=integer",              \
      "Each node has its file's value again; 202: not all have it yet")                            \
    X(PUT, "/v1/fleet/tables/*", fleet_table, "?timeout_ms=integer text",                          \
      "The body is its entries: the table's newest version at all nodes, and those that join")     \
    X(PUT, "/v1/fleet/challenges/*", fleet_challenge, "?timeout_ms=integer text",                  \
      "The body is what every node answers an ACME CA for this token; by tarn-acme")               \
    X(DELETE, "/v1/fleet/challenges/*", fleet_challenge_end, "?timeout_ms=integer",                \
      "It is answered no more, by any node")                                                       \
    X(PUT, "/v1/fleet/alpn_challenges/*", fleet_alpn_challenge, "?timeout_ms=integer text",        \
      "The body is the certificate of tls-alpn-01 for this name, with its key, as PEM: every "     \
      "node shows it to an ACME CA; by tarn-acme")                                                 \
    X(DELETE, "/v1/fleet/alpn_challenges/*", fleet_alpn_challenge_end, "?timeout_ms=integer",      \
      "It is shown no more, by any node")                                                          \
    X(GET, "/v1/backends", backends, "",                                                           \
      "Backends, their health, what their probes saw; directors and their members")                \
    X(PUT, "/v1/backends/*/health", backend_health, "health=string!",                              \
      "{\"health\": \"auto\"|\"healthy\"|\"sick\"}: its health, in place of the probe's result")   \
    X(GET, "/v1/parameters", parameters, "", "Every parameter: value, default, bounds, meaning")   \
    X(PUT, "/v1/parameters/*", parameter_set, "value=string!",                                     \
      "{\"value\": VALUE}: from now on, until tarnd ends; 409 if it needs a restart")              \
    X(POST, "/v1/stop", stop, "", "Drains and ends, as SIGTERM does")                              \
    X(GET, "/v1/why", why, "?url=string ?header=string",                                           \
      "?url=URL&header=NAME:VALUE...: the result of a request for it now and why, the responses "  \
      "stored under its key, and the last removal")                                                \
    X(GET, "/v1/index", index, "",                                                                 \
      "The index: size, load, growth, how full its buckets are, moves, victims")                   \
    X(GET, "/v1/index/dump", index_dump, "?limit=integer ?after=string",                           \
      "?limit=N&after=CURSOR: its keys and their entries, bucket by bucket, in pages")             \
    X(GET, "/v1/tables", tables, "", "Tables in shared memory: version, entries, state, lookups")  \
    X(GET, "/v1/tables/*", table_show, "?limit=integer ?after=string",                             \
      "?limit=N&after=CURSOR: its entries in `list`, in pages")                                    \
    X(PUT, "/v1/tables/*", table_load, "text",                                                     \
      "The body is its entries, a line each: the newest version from now on; 422 with the line "   \
      "that "                                                                                      \
      "is wrong, 409 while another program writes it")                                             \
    X(POST, "/v1/reload", reload, "",                                                              \
      "Reads the configuration and its policy anew: `changed`, and `policy`, the one that is "     \
      "active "                                                                                    \
      "now; 422 with every error, or 409 with what needs a restart, then nothing has changed")     \
    X(GET, "/v1/tls", tls, "?limit=integer",                                                       \
      "?limit=N: TLS listeners and their certificates: names, files, dates, state, errors")        \
    X(GET, "/v1/tls/summary", tls_summary, "",                                                     \
      "TLS listeners in figures: certificates, names, failures, the soonest expiry")               \
    X(POST, "/v1/tls/reload", tls_reload, "",                                                      \
      "Reads the certificates of all listeners anew: what was added, changed and removed, and "    \
      "`bad` files: what was read before is kept; 422 where a listener would have none: then "   \
      "nothing has changed")                                                                       \
    X(POST, "/v1/drain", drain, "",                                                                \
      "Accepts no connection, finishes requests in flight without a deadline, and ends")           \
    X(GET, "/v1/log", log, "?follow=integer ?count=integer ?filter=string",                        \
      "Requests as JSON lines: what the log holds, or with follow=1 from now on; "                 \
      "filter=status:5xx, "                                                                        \
      "url:, client:, cache:, and again")
/* clang-format on */

#endif
