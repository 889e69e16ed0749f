/* ctl_table.h -- every command: words, arguments, how many there may be, function, the rest of
 * its help, and what it does.  Help, manual pages and the shells' completion are made of these rows.
 */
#ifndef TARN_CTL_TABLE_H
#define TARN_CTL_TABLE_H

/* clang-format off */
#define CTL_FLEET_HELP                                                                             \
    "In a fleet all nodes do the same.  --wait log waits until it is in the fleet's log, as without\n" \
    "--wait; --wait all until every node has applied it, for T at most, as in 5s.  Exit status 4:\n" \
    "not every node has by then, and those are printed; it stays in the log.  --local: this node alone.\n"
#define CTL_COMMAND_TABLE(X)                                                                       \
    X("status", "", 0, 0, status, "", "state, version, addresses, the policy in use")              \
    X("stat", "[--live] [--every S] [--count N] [PATTERN]", 0, 1, stat,                            \
      "PATTERN is part of their names, as in `tarnctl stat cache.`; then those that are 0 show,\n" \
      "too.  With --json there are all of them.  With --live they show as they change, what changes\n" \
      "most first: a frame each second, or each S seconds, until N frames or for ever.\n",         \
      "counters, those that are not 0")                                                            \
    X("log", "[OPTION]...", 0, 0, log,                                                             \
      "From now on, each with its log records and those of its fetch.  How many records the\n"     \
      "rings in shared memory lost before they were read is printed.\n\n"                          \
      "    --url TEXT       with TEXT in the URL; /TEXT/ is a regular expression\n"                \
      "    --status LIST    as in 404, 5xx, 500-599 or 404,5xx\n"                                  \
      "    --client NET     from this address or network; unix: over a Unix socket\n"              \
      "    --hit, --miss    that were hits, stale ones too; that were misses\n"                    \
      "    --tag LIST       that have records with these tags, and only those records\n"           \
      "    --format F       groups; combined or json, a line for each, as in an access log: these\n" \
      "                     ask no more of tarnd than it does anyway; raw, records as they come\n" \
      "    --count N        and end after N\n"                                                     \
      "    --all            what the rings still hold, and end; with --follow, go on\n"            \
      "    --wait           for a tarnd that is not there, and for the next one when it ends\n",   \
      "requests as they end, with their log records")                                              \
    X("hist", "[--live] [--every S] [--count N]", 0, 0, hist,                                      \
      "Of all requests since tarnd started; with --live of those since the frame before, a frame\n"\
      "each second, or each S seconds, until N frames or for ever.  Bars are powers of two.\n",    \
      "how long requests took: hits and misses as bars, all as quantiles")                         \
    X("top", "[--limit N] [--every S] [--count N] [OF] [BY]", 0, 2, top,                           \
      "OF is url, client or backend, BY requests, bytes or misses.  Default: URLs by requests.\n"  \
      "The last half minute or so counts; tarnd samples only while `top` or the page runs.  A\n"   \
      "frame each 2 seconds, or each S seconds, until N frames or for ever.\n",                    \
      "the most requested URLs, clients or backends")                                              \
    X("storage stats", "", 0, 0, storage_stats,                                                    \
      "The size of the storage bounds the process: the charged memory shows as a tree.\n",         \
      "memory, by its use")                                                                        \
    X("why", "URL [FIELD...]", 1, 33, why,                                                         \
      "URL is absolute, or a path on the first listener's address.  A FIELD is one of the request:\n" \
      "    tarnctl why http://www.example.com/page 'Accept-Encoding: gzip' 'Cookie: a=b'\n"        \
      "The real policy and cache decide, and nothing is changed, counted or fetched.\n",           \
      "the result of a request for URL now, and why; what is stored")                              \
    X("warm", "[--to A] [--rate N] [--concurrency N] LIST", 1, 1, warm,                            \
      "LIST is a file with a URL a line, or with a sitemap (sitemaps.org); or the URL of a sitemap. Of\n" \
      "an index all sitemaps are read.  - is standard input.  With --to all requests go to\n"      \
      "that address, by http, with the host of the URL: a tarnd that has no traffic yet.  https://\n" \
      "URLs are requested as by a TLS proxy (X-Forwarded-Proto), see trusted_proxies.\n"           \
      "Exit status 1: some responses were errors, or missing; 3: all were missing.\n",             \
      "request each URL of a list or a sitemap, so that it is stored")                             \
    X("purge", "[--soft] URL [FIELD...] | --all [--soft] "                                         \
      "[--wait all|log] [--timeout T] [--local]", 0, 33, purge,                                    \
      "URL is absolute, as clients request it: http://www.example.com/page, or https:// where a\n" \
      "trusted proxy sends that scheme; or a path on the first listener's address, as\n"           \
      "`why` takes it, and then it prints that URL.  All variants are removed.\n"                  \
      "Where the policy's vcl_hash reads request fields, FIELDs name the request:\n"               \
      "    tarnctl purge http://www.example.com/page 'X-Language: de'\n"                           \
      "With --soft they stay, stale, until they have been fetched anew.  With --all everything\n"  \
      "that was fetched before now leaves, or with --soft becomes stale.\n" CTL_FLEET_HELP,        \
      "remove the responses stored under URL, or all")                                             \
    X("purge-tag", "[--soft] TAG... [--wait all|log] [--timeout T] [--local]", 1, 256, purge_tag,  \
      "Tags are set by responses in Surrogate-Key, xkey or Cache-Tag, and by a policy with\n"      \
      "tarn.tag().  The next lookup obeys at once; then all responses are scanned and counted.\n"  \
      "With --soft they stay, stale, until they have been fetched anew.\n" CTL_FLEET_HELP,         \
      "remove the responses with one of the tags")                                                 \
    X("ban", "EXPRESSION... [--wait all|log] [--timeout T] [--local]", 1, 64, ban,                 \
      "EXPRESSION is as in Varnish; between quotes, or its words, as varnishadm takes them:\n"     \
      "    tarnctl ban 'obj.http.X-Product == 1234 && obj.age > 5m'\n" CTL_FLEET_HELP,             \
      "objects that match are not used any more")                                                  \
    X("ban list", "", 0, 0, ban_list, "", "bans, the newest first")                                \
    X("fleet", "[status]", 0, 1, fleet,                                                            \
      "STATE of a node: in step; lags, when it has not applied what was in the log a second\n" \
      "ago; not of this engine, when it reports to another one, or to what this one was;\n" \
      "unknown, when it has ended without a word; not seen, while this one does not reach the\n" \
      "engine.  MOVED: since it was seen in another POSITION.  PEER: its address for other nodes.\n" \
      "See also `fleet proof`, `fleet shared`, `fleet vcl`, `fleet param` and `fleet table`.  LAG is the time in the log from its position to\n" \
      "the newest.  Exit status 1: this node trusts nothing that it has stored, or a node is not\n" \
      "in step.\n",                                                                                \
      "nodes that share invalidations, and for how long this one trusts what it has stored")       \
    X("fleet proof", "[--timeout T] TOKEN", 1, 1, fleet_proof,                                     \
      "TOKEN is what a purge or ban has returned, at any node: `--wait log` and the API say it, and\n" \
      "answers to purges by a policy have it as Purge-Token.  Waits for 10 s or T.  Exit status 4:\n" \
      "not every node has applied it in that time, or the engine is another one since.\n",           \
      "has every node applied this purge or ban?")                                                 \
    X("fleet shared", "", 0, 0, fleet_shared,                                                      \
      "NODES names those that have not taken it, or refuse it: why, stands below.  Exit status 1: a\n" \
      "node refuses something, or the engine does.\n",                                             \
      "what all nodes have alike: its versions, and which nodes have them")                        \
    X("fleet vcl use", "[--timeout T] NAME FILE", 2, 2, fleet_vcl_use,                             \
      "FILE - is standard input.  When every node has compiled it all use it, and so do nodes that\n" \
      "join; where one cannot, or says nothing for 10 s or T, no node does.  Exit status 4: some\n" \
      "do not use it yet.\n",                                                                      \
      "one policy for all nodes")                                                                  \
    X("fleet vcl rollback", "[--timeout T]", 0, 0, fleet_vcl_rollback,                             \
      "Before the first one each node has its own.\n",                                             \
      "the fleet's policy of before, at all nodes")                                                \
    X("fleet param set", "[--timeout T] NAME VALUE", 2, 2, fleet_param_set,                        \
      "It counts above the files of the nodes, also behind a reload, and at nodes that join.  Where\n" \
      "one node refuses it, all have what was there before.\n",                                    \
      "set a parameter at all nodes")                                                              \
    X("fleet param unset", "[--timeout T] NAME", 1, 1, fleet_param_unset,                          \
      "Exit status 4: some nodes do not have it yet.\n",                                           \
      "each node has its file's value again")                                                      \
    X("fleet table load", "[--timeout T] NAME FILE", 2, 2, fleet_table_load,                       \
      "FILE - is standard input, as of `table load`.  The fleet is then the table's writer.\n",     \
      "load a table at all nodes")                                                                 \
    X("vcl list", "", 0, 0, vcl_list, "", "policies that are loaded, and labels")                  \
    X("vcl load", "[--use] NAME FILE", 2, 2, vcl_load,                                             \
      "FILE - is standard input.  Every error is printed; nothing changes until the policy is\n"   \
      "used: by `tarnctl vcl use NAME`, or at once with --use.\n",                                 \
      "compile a policy under a name")                                                             \
    X("vcl use", "NAME", 1, 1, vcl_use,                                                            \
      "Requests in flight keep their policy.\n",                                                   \
      "the policy, or label, of all requests from now on")                                         \
    X("vcl label", "LABEL NAME", 2, 2, vcl_label, "", "let LABEL stand for the policy NAME")       \
    X("vcl unlabel", "LABEL", 1, 1, vcl_unlabel, "", "remove a label")                             \
    X("vcl discard", "NAME", 1, 1, vcl_discard, "", "discard a policy that is not in use")         \
    X("backend list", "", 0, 0, backend_list, "",                                                  \
      "backends, their health, the results of their probes; directors and their members")          \
    X("backend set-health", "NAME auto|healthy|sick", 2, 2, backend_health, "",                    \
      "set a backend's health, in place of its probe")                                             \
    X("table list", "", 0, 0, table_list,                                                          \
      "Other programs may write them, too: tarn-table, or your own.\n",                            \
      "tables in shared memory")                                                                   \
    X("table show", "NAME", 1, 1, table_show, "", "the entries of a table")                        \
    X("table load", "NAME FILE", 2, 2, table_load,                                                 \
      "FILE - is standard input: an entry a line, a key and, behind white space, its value; # begins\n" \
      "a comment.  All of it replaces the old entries at once.\n",                                 \
      "load a table in shared memory")                                                             \
    X("tls list", "[--limit N]", 0, 0, tls_list,                                                   \
      "1,000 of each listener, or N.  STATE is in use, when its key is in memory; ready, when no\n" \
      "handshake needed it lately; kept, when its file is bad now and the one before is served;\n" \
      "bad, when it cannot be served.\n",                                                          \
      "certificates of TLS listeners: names, expiry, state, file")                                 \
    X("tls reload", "", 0, 0, tls_reload,                                                          \
      "Connections go on.  Where a listener would have no certificate nothing changes.  A bad file\n" \
      "among others is printed, and exit status is 1; the certificate before it is kept.\n",       \
      "read the certificates of TLS listeners anew")                                               \
    X("index stats", "", 0, 0, index_stats, "",                                                    \
      "the load of the index, and the cost of its inserts")                                        \
    X("index dump", "[--limit N]", 0, 0, index_dump,                                               \
      "All of them, or the first N, in the order of the index.\n",                                 \
      "keys in the index, and their entries")                                                      \
    X("param list", "[PATTERN]", 0, 1, param_list,                                                 \
      "PATTERN is part of their names.  One alone shows what it means, and its bounds.  VALUE is what\n" \
      "is in force: of some, unless they are set, under a policy as in Varnish.\n",                \
      "parameters: value, default, whether they can change")                                       \
    X("param set", "NAME VALUE", 2, 2, param_set, "", "set a parameter, until tarnd ends")         \
    X("reload", "", 0, 0, reload,                                                                  \
      "All changes apply, or, after an error or where a restart is needed, none.  The cache stays.\n" \
      "Parameters set by `tarnctl param set` have the file's values again.  A policy that was loaded by\n" \
      "hand stays in use, unless the text of the file's policy changed since its last load.\n",    \
      "read the configuration and its policy anew")                                                \
    X("stop", "", 0, 0, stop, "", "finish requests in flight, and end")                            \
    X("drain", "", 0, 0, drain,                                                                    \
      "As stop, but without a deadline: no client is cut off, and each connection gets one more\n" \
      "response.  `tarnctl stop` afterwards sets the deadline.\n",                                 \
      "finish requests in flight, without a deadline, and end")                                    \
    X("completion", "bash|zsh|fish", 1, 1, completion,                                             \
      "    source <(tarnctl completion bash)      in ~/.bashrc, or in ~/.zshrc with zsh\n"         \
      "    tarnctl completion fish | source       in ~/.config/fish/config.fish\n",                \
      "what a shell needs to complete commands")                                                   \
    X("help", "[COMMAND]", 0, 3, help,                                                             \
      "As `tarnctl COMMAND --help`; of the first word of several, as vcl, their synopses.\n",      \
      "help of one command, or of all")

/* Of all commands: an option, its default, what it is; an exit status (enum ctl_exit), what it says. */
#define CTL_OPTION_TABLE(X)                                                                        \
    X("-a, --admin ADDRESS", ". Default: TARN_ADMIN of the environment, else " CTL_ADMIN,          \
      "tarnd's admin listener: unix:/path or host:port")                                           \
    X("--token-file FILE", ". Default: TARN_TOKEN of the environment",                             \
      "its token, for a listener on TCP")                                                          \
    X("-j, --json", "", "print what tarnd answers, as JSON")                                       \
    X("-h, --help", "", "help; behind a command, that command's")                                  \
    X("-V, --version", "", "the version")
#define CTL_EXIT_TABLE(X)                                                                          \
    X(DONE, "done")                                                                                \
    X(REFUSED, "tarnd refused: standard error says why, and what would be right")                  \
    X(USAGE, "the command line, or a file that it names, is wrong")                                \
    X(UNREACHABLE, "no answer at ADDRESS, or not that of a tarnd")                                 \
    X(UNPROVEN, "done, but with --wait all not every node of the fleet has applied it in time")
/* clang-format on */

#endif
