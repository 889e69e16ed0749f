/* result_table.h -- what became of a request: the one classification of the counters, the histograms,
 * the access log, the page and tarnctl.
 *
 * Each request has exactly one result: that of the way its response came, at last.  A request that a
 * policy restarts has the result of its last round.
 */
#ifndef TARN_RESULT_TABLE_H
#define TARN_RESULT_TABLE_H

/* clang-format off */
/* Y(X, name, word, documentation).  In C it is RESULT_name; people and Prometheus read the word.
 * Counters sum over neighbours (COUNTER_SUMS), and `none` is the last one. */
#define RESULT_TABLE(Y, X)                                                                         \
    Y(X, hit, "hit", "Requests answered from a stored response that was fresh")                    \
    Y(X, stale, "stale", "Requests answered from a stored response past its freshness (grace)")    \
    Y(X, miss, "miss", "Requests that waited for their own fetch of a cacheable response")         \
    Y(X, coalesced, "coalesced", "Requests answered by another request's fetch")                   \
    Y(X, hitmiss, "hit-for-miss", "Requests that found a hit-for-miss marker: fetched")            \
    Y(X, pass, "pass", "Requests sent to a backend without a lookup")                              \
    Y(X, pipe, "pipe", "Requests that became tunnels: an upgrade, or return(pipe)")                \
    Y(X, absent, "absent", "Requests answered 404 or 410 by the negative cache")                   \
    Y(X, synth, "synth", "Requests that the configuration or the policy answered")                 \
    Y(X, error, "error", "Requests answered by Tarn because they, or their fetch, failed")         \
    Y(X, none, "none", "Requests that ended before any of that: the client has gone")
/* clang-format on */

enum request_result {
#define Y(X, name, word, doc) RESULT_##name,
    RESULT_TABLE(Y, )
#undef Y
    RESULT_COUNT
};

#endif
