/* counter_table.h -- every counter: group, name, kind, documentation.
 *
 * COUNTER only grows; GAUGE goes up and down.  A counter's name is "group.name"; in C it is
 * COUNTER_group_name.  Readers in other processes find rows by name, so order is free.
 *
 * Responses are counted once, by result and class of status; a counter of COUNTER_SUMS is the
 * sum of some of them, which the reader makes.
 */
#ifndef TARN_COUNTER_TABLE_H
#define TARN_COUNTER_TABLE_H

#include "daemon/shm/result_table.h"

/* clang-format off */
#define COUNTER_TABLE(X)                                                                           \
    X(sess, accepted, COUNTER, "Client connections accepted")                                      \
    X(sess, closed, COUNTER, "Client connections closed, by either side")                          \
    X(sess, dropped, COUNTER, "Client connections closed at once: max_connections or no memory")   \
    X(sess, refused, COUNTER, "Client connections closed at once: max_connections_per_client")     \
    X(sess, shed, COUNTER, "Idle client connections closed to make room for new ones")             \
    X(sess, emfile, COUNTER, "Connections not accepted: no file descriptor left")                  \
    X(sess, timeout, COUNTER, "Client connections closed by a timeout")                            \
    X(sess, proxied, COUNTER, "Client connections that began with a PROXY header")                 \
    X(sess, tls, COUNTER, "Client connections with a completed TLS handshake")                     \
    X(sess, tls_resumed, COUNTER, "Of these: resumed by a session ticket")                         \
    X(sess, tls_early, COUNTER, "Of these: with early data (0-RTT)")                               \
    X(sess, http2, COUNTER, "Client connections that speak HTTP/2")                                \
    X(sess, http2_calmed, COUNTER, "Of these: ended with ENHANCE_YOUR_CALM, for bringing no work") \
    X(sess, http2_failed, COUNTER, "Of these: ended with GOAWAY for any other error of the client")\
    X(sess, tls_failed, COUNTER, "TLS handshakes that failed")                                     \
    X(sess, proxied_bad, COUNTER, "Closed: PROXY header missing, malformed, or not trusted")       \
    X(req, total, COUNTER, "Requests, malformed ones included")                                    \
    X(req, http2, COUNTER, "Requests over HTTP/2")                                                 \
    X(req, bad, COUNTER, "Requests answered 4xx or cut off because they were malformed")           \
    X(req, hit, COUNTER, "Requests answered from a stored response")                               \
    X(req, miss, COUNTER, "Requests that waited for their own fetch, if cacheable")                \
    X(req, stale, COUNTER, "Of the hits: served past their freshness")                             \
    X(req, not_modified, COUNTER, "Conditional requests answered 304 from a stored response")      \
    X(req, partial, COUNTER, "Requests answered 206 from a stored response")                       \
    X(req, pass, COUNTER, "Requests without a lookup in the cache")                                \
    X(req, hitmiss, COUNTER, "Requests that found a hit-for-miss marker; not among the misses")    \
    X(req, queued, COUNTER, "Times a request waited for another's fetch")                          \
    X(req, coalesced, COUNTER, "Requests answered by another request's fetch")                     \
    X(req, synth, COUNTER, "Requests with a synthetic response")                                   \
    X(req, restarted, COUNTER, "Restarts of requests by a policy")                                 \
    X(req, limited, COUNTER, "Requests answered 429: above a limit of the configuration")          \
    X(req, early, COUNTER, "Requests that came in early data (0-RTT)")                             \
    X(req, too_early, COUNTER, "Of these: answered 425, since no stored response would do")        \
    X(req, loop, COUNTER, "Requests answered 508: a loop (CDN-Loop)")                              \
    X(auth, computed, COUNTER, "Passwords of basic_auth computed, also for unknown users")         \
    X(limit, refused, COUNTER, "Times a bucket was empty, of limits and of tarn.rate_limit")       \
    X(limit, forgotten, COUNTER, "Buckets replaced by another key's before they were full")        \
    X(policy, failed, COUNTER, "Runs of a policy that failed, by return(fail) or an error")        \
    X(req, bytes_in, COUNTER, "Bytes of requests, heads and bodies")                               \
    X(resp, head_bytes, COUNTER, "Bytes of response heads sent to clients")                        \
    X(resp, body_bytes, COUNTER, "Bytes of response bodies sent to clients")                       \
    X(resp, truncated, COUNTER, "Responses that the client did not get completely")                \
    X(resp, behind, COUNTER, "Times a slow client fell behind a shared window")                    \
    X(waiter, posts_cross_loop, COUNTER, "Notifications sent to another loop")                     \
    X(waiter, wakeups, COUNTER, "Times a loop was woken for them; others were batched")            \
    X(compress, fetches, COUNTER, "Bodies packed while they came")                                 \
    X(compress, in_bytes, COUNTER, "Bytes of them")                                                \
    X(compress, out_bytes, COUNTER, "Bytes they were packed to")                                   \
    X(compress, busy, COUNTER, "Bodies stored as they came: too many at once")                     \
    X(compress, unpacked, COUNTER, "Responses unpacked for their clients")                         \
    X(compress, broken, COUNTER, "Of these: cut, for the body is no gzip")                         \
    X(compress, refused, COUNTER, "Requests answered 503: too many responses being unpacked")      \
    X(compress, recoded, COUNTER, "Shorter forms made of what is hit often: br, zstd")             \
    X(compress, dictionaries, COUNTER, "Contents of responses kept as dictionaries for later ones") \
    X(compress, recode_cpu, COUNTER, "Time of a processor for these, in microseconds")              \
    X(compress, barren, COUNTER, "Bodies that did not become shorter, or were too large for it")   \
    X(compress, saved_bytes, COUNTER, "Bytes not sent, since clients got a shorter form")          \
    X(esi, parsed, COUNTER, "Bodies parsed for ESI while they came")                               \
    X(esi, malformed, COUNTER, "Elements of them that were malformed, and dropped")                \
    X(esi, pages, COUNTER, "Responses put together of a page and its includes")                    \
    X(esi, packed, COUNTER, "Those of them that were packed for their client")                     \
    X(esi, includes, COUNTER, "Includes of them that were requested")                              \
    X(esi, refused, COUNTER, "Includes that were not: too deep, too many, or no URL")              \
    X(esi, failed, COUNTER, "Includes without a usable response, alt and all")                     \
    X(esi, bytes, COUNTER, "Bytes of included bodies")                                             \
    X(fetch, total, COUNTER, "Fetches started")                                                    \
    X(fetch, failed, COUNTER, "Fetches that got no usable response")                               \
    X(fetch, retried, COUNTER, "Attempts of a fetch after its first")                              \
    X(fetch, truncated, COUNTER, "Fetches with a body that broke off")                             \
    X(fetch, uncacheable, COUNTER, "Fetches with a response that was not stored")                  \
    X(fetch, windows, COUNTER, "Of these: too large, and streamed through a shared window")        \
    X(fetch, rest, COUNTER, "Range fetches for a reader behind its window")                        \
    X(fetch, not_modified, COUNTER, "Fetches answered 304: the stored response was validated")     \
    X(fetch, joined, COUNTER, "Fetches that completed a stored partial response")                  \
    X(fetch, bytes, COUNTER, "Bytes of response bodies received from backends")                    \
    X(backend, conn_new, COUNTER, "Connections opened to backends")                                \
    X(backend, conn_reused, COUNTER, "Times an idle connection to a backend was reused")           \
    X(backend, conn_failed, COUNTER, "Connections to backends that could not be opened")           \
    X(backend, conn_closed, COUNTER, "Connections to backends closed, by either side")             \
    X(backend, busy, COUNTER, "Fetches refused: a backend had max_connections in use")             \
    X(backend, queued, COUNTER, "Fetches that waited for one of max_connections")                  \
    X(backend, queue_timeout, COUNTER, "Of these: given up after queue_timeout")                   \
    X(backend, unhealthy, COUNTER, "Fetches refused: a backend was sick")                          \
    X(backend, ejected, COUNTER, "Times directors ejected a backend because its fetches failed")   \
    X(backend, dns_changed, COUNTER, "Times the addresses of a backend's name changed")            \
    X(backend, dns_failed, COUNTER, "Failed lookups of a backend's name; its addresses stay")      \
    X(backend, probe_good, COUNTER, "Probes with the expected response")                           \
    X(backend, probe_bad, COUNTER, "Probes that failed")                                           \
    X(cache, inserts, COUNTER, "Responses stored")                                                 \
    X(cache, invalidated, COUNTER, "Keys invalidated by an unsafe request")                        \
    X(cache, evicted, COUNTER, "Responses removed to make room")                                   \
    X(cache, evicted_bytes, COUNTER, "Bytes that evictions freed")                                 \
    X(cache, evicted_small, COUNTER, "Of the evicted: from the small queue (s3-fifo)")             \
    X(cache, evicted_main, COUNTER,                                                                \
      "Of the evicted: from the main queue; with sieve and lru, all")                              \
    X(cache, ghost_hits, COUNTER, "Responses stored again soon after they were evicted (s3-fifo)") \
    X(cache, small_bytes, GAUGE, "Bytes in the small queue (s3-fifo)")                             \
    X(cache, main_bytes, GAUGE, "Bytes in the main queue; with sieve and lru, all")                \
    X(cache, purged, COUNTER, "Responses removed by purges")                                       \
    X(cache, purged_soft, COUNTER, "Responses made stale by soft purges")                          \
    X(cache, tag_purges, COUNTER, "Purges by tag; their responses count as purged")                \
    X(cache, tag_overflow, COUNTER, "Responses with too many tags: every purge by tag takes them") \
    X(negative, hits, COUNTER, "Requests answered 404 or 410 by the negative cache")               \
    X(negative, entries, GAUGE, "Entries; expired ones count until they are replaced")             \
    X(negative, inserts, COUNTER, "Entries added or renewed")                                      \
    X(negative, evicted, COUNTER, "Entries replaced before they expired")                          \
    X(negative, removed, COUNTER, "Entries removed: the name exists, was purged or changed")       \
    X(negative, dropped, COUNTER, "Entries dropped together: by a ban, a policy, a parameter")     \
    X(fleet, member, GAUGE, "1: this node is in a fleet; 0: the configuration has none")           \
    X(fleet, trusts, GAUGE,                                                                        \
      "1: stored responses are trusted; 0: they are stale, as the engine was not heard")           \
    X(fleet, sent, COUNTER, "Invalidations of this node that the engine has confirmed")            \
    X(fleet, applied, COUNTER,                                                                     \
      "Invalidations of the log that were applied, those of this node included")                   \
    X(fleet, lost, COUNTER,                                                                        \
      "Invalidations that did not get into the log: too many while the engine was away")           \
    X(fleet, unknown, COUNTER,                                                                     \
      "Entries of the log that could not be applied: everything became stale")                     \
    X(fleet, gaps, COUNTER, "Times that the log was trimmed behind the place of this node")        \
    X(fleet, blind, COUNTER, "Times that nothing was heard from the engine for max_blind")         \
    X(fleet, peers, GAUGE, "Other nodes that this one may ask for objects (fleet.peers)")              \
    X(fleet, peer_hops, COUNTER, "Fetches for which the node that owns the key was asked")         \
    X(fleet, peer_left, COUNTER,                                                                   \
      "Of these: it did not answer in time, or not with the object, or the origin had failed it")  \
    X(fleet, peer_asked, COUNTER, "Requests of other nodes that were looked up here")              \
    X(fleet, peer_served, COUNTER, "Of these: answered with the object")                           \
    X(fleet, peer_refused, COUNTER,                                                                \
      "Of these: not answered, for the object is not cacheable, an ESI page, or its tags do not fit a field")    \
    X(fleet, peer_denied, COUNTER,                                                                 \
      "Requests on a listener with `peers` that were refused: not signed, another policy, or this " \
      "node is behind")                                                                            \
    X(fleet, shared_refused, GAUGE,                                                                \
      "Texts of the fleet that this node refuses: a policy that it cannot compile, or a table that it " \
      "does not have")                                                                              \
    X(fleet, nodes, GAUGE,                                                                         \
      "Nodes that live, this one included; 0: it is in no fleet, or does not reach the engine")     \
    X(fleet, nodes_behind, GAUGE,                                                                  \
      "Of these: they lag, or report to another engine, as `tarnctl fleet` shows")                  \
    X(fleet, distrusts, COUNTER,                                                                   \
      "Times that everything stored was made stale: when the node joins, again too, or for a gap "  \
      "or an entry that it cannot apply")                                                          \
    X(fleet, proven, COUNTER,                                                                      \
      "Invalidations that every living node had applied in time (wait=all)")                       \
    X(fleet, unproven, COUNTER,                                                                    \
      "Invalidations that not every node had applied in time (wait=all)")                          \
    X(bans, now, GAUGE, "Bans in the list")                                                        \
    X(bans, completed, GAUGE, "Of these: no object is tested against them any more")               \
    X(bans, added, COUNTER, "Bans added to the list")                                              \
    X(bans, deleted, COUNTER, "Bans that left the list, because no entry needed them")             \
    X(bans, dups, COUNTER, "Bans completed by a newer one with the same expression")               \
    X(bans, tested, COUNTER, "Bans tested by lookups")                                             \
    X(bans, tests_tested, COUNTER, "Comparisons made for these")                                   \
    X(bans, obj_killed, COUNTER, "Responses removed by lookups: banned")                           \
    X(bans, lurker_tested, COUNTER, "Bans tested by the lurker")                                   \
    X(bans, lurker_tests_tested, COUNTER, "Comparisons made for these")                            \
    X(bans, lurker_obj_killed, COUNTER, "Responses removed by the lurker: banned")                 \
    X(bans, lurker_obj_killed_cutoff, COUNTER, "Responses removed because of ban_cutoff")          \
    X(index, evicted, COUNTER, "Index entries removed because both places were full")              \
    X(table, lookups, COUNTER, "Lookups in tables by policies")                                    \
    X(table, unanswered, COUNTER, "Of these: the table had no usable version")                     \
    X(table, taken, COUNTER, "Versions of tables loaded, once per worker")                         \
    X(table, refused, COUNTER, "Versions refused: torn, short, foreign, of another kind")          \
    X(table, overtaken, COUNTER, "Times a table's writer overtook a slow worker")                  \
    X(log, lost_access, COUNTER,                                                                   \
      "Requests missing from the access log: ring lapped, or disk full")                           \
    X(loop, turns, COUNTER, "Turns of the workers' loops")                                         \
    RESULT_TABLE(COUNTER_RESPONSES, X)

/* Of each result a row for each class of status, in this order. */
#define COUNTER_RESPONSES(X, result, word, doc)                                                    \
    X(responses, result##_1xx, COUNTER, "Requests ended with 1xx, result " word)                   \
    X(responses, result##_2xx, COUNTER, "Requests ended with 2xx, result " word)                   \
    X(responses, result##_3xx, COUNTER, "Requests ended with 3xx, result " word)                   \
    X(responses, result##_4xx, COUNTER, "Requests ended with 4xx, result " word)                   \
    X(responses, result##_5xx, COUNTER, "Requests ended with 5xx, result " word)                   \
    X(responses, result##_other, COUNTER, "Requests ended without a status of a class, result " word)

/* Counters that are sums of others: Y(group, name, first result, last result). */
#define COUNTER_SUMS(Y)                                                                       \
    Y(req, hit, hit, stale)                                                                        \
    Y(req, stale, stale, stale)                                                                    \
    Y(req, miss, miss, miss)                                                                       \
    Y(req, hitmiss, hitmiss, hitmiss)                                                              \
    Y(req, pass, pass, pipe)                                                                       \
    Y(req, synth, absent, error)
/* clang-format on */

#endif
