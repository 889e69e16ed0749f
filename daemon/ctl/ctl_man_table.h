/* ctl_man_table.h -- what a command's manual page has besides the rows of ctl_table.h: a page is of a
 * command's first word, and has all its forms.
 */
#ifndef TARN_CTL_MAN_TABLE_H
#define TARN_CTL_MAN_TABLE_H

/* clang-format off */

/* First word; what its forms are for, or "" where the only form says so; pages to look at, too. */
#define CTL_PAGE_TABLE(X)                                                                          \
    X("status", "", "stat top drain")                                                              \
    X("stat", "", "hist top log param")                                                            \
    X("log", "", "top hist why")                                                                   \
    X("hist", "", "stat top log")                                                                  \
    X("top", "", "log hist stat")                                                                  \
    X("storage", "", "index stat")                                                                 \
    X("why", "", "log purge ban vcl")                                                              \
    X("warm", "", "purge why stat")                                                                \
    X("purge", "", "purge-tag ban why")                                                            \
    X("purge-tag", "", "purge ban")                                                                \
    X("ban", "add bans, and list them", "purge purge-tag why")                                     \
    X("fleet", "show how a fleet is, and set what all its nodes have alike", "purge vcl param table")  \
    X("vcl", "load, use, label and discard policies", "reload why")                                \
    X("backend", "list backends, and set their health", "vcl stat")                                \
    X("table", "list, show and load tables in shared memory", "vcl")                               \
    X("tls", "list certificates, and read them anew", "reload log")                                \
    X("index", "show the load of the index, and its keys", "storage why")                          \
    X("param", "see and set parameters", "reload stat")                                            \
    X("reload", "", "param vcl stop")                                                              \
    X("stop", "", "drain reload")                                                                  \
    X("drain", "", "stop status")                                                                  \
    X("completion", "", "help")                                                                    \
    X("help", "", "completion")

/* First word, or "" for all of them; an argument or option as the synopsis has it; what it is.
 * Options with a line in ctl_table.h are not here again. */
#define CTL_WORD_TABLE(X)                                                                          \
    X("stat", "PATTERN", "part of the names of counters, as cache.")                               \
    X("stat", "--live", "show them as they change, what changes most first")                       \
    X("hist", "--live", "show requests since the frame before, not since tarnd started")           \
    X("", "--every S", "with frames: S seconds between them, more than 0, as 0.5")                 \
    X("", "--count N", "with frames: N of them, and end. Default: until it is interrupted")        \
    X("top", "OF", "url, client or backend. Default: url")                                         \
    X("top", "BY", "requests, bytes or misses. Default: requests")                                 \
    X("top", "--limit N", "N of them in a frame")                                                  \
    X("tls", "--limit N", "N certificates of each listener. Default: 1000")                        \
    X("index", "--limit N", "the first N keys. Default: all")                                      \
    X("why", "URL", "absolute, or a path on the first listener's address")                         \
    X("why", "FIELD", "a field of the request, as 'Accept-Encoding: gzip'; 32 at most")            \
    X("warm", "LIST", "a file with a URL a line, or a sitemap: a file or its URL; - is standard input") \
    X("warm", "--to A", "an address: host:port or unix:/path. Default: the address in the URL")    \
    X("warm", "--rate N", "N requests a second at most. Default: 20")                              \
    X("warm", "--concurrency N", "N requests at a time, 64 at most. Default: 4")                   \
    X("purge", "URL", "as clients request it, absolute; or a path on the first listener's address")\
    X("purge", "FIELD", "a field of the request that vcl_hash reads; 32 at most")                  \
    X("purge", "--all", "all responses, and the names that the negative cache knows")              \
    X("", "--soft", "the responses become stale, and stay until they have been fetched anew")      \
    X("purge-tag", "TAG", "one of a response's tags; 256 at most")                                 \
    X("ban", "EXPRESSION",                                                                         \
      "comparisons with && between them: FIELD OPERATOR ARGUMENT; between quotes, for the shell")  \
    X("", "--wait all|log",                                                                        \
      "in a fleet: all waits until every node has applied it, log until it is in the fleet's log. Default: log") \
    X("", "--timeout T", "with --wait, and of what all nodes are to have: T at most, as 5s or 300ms, up to 10m. Default: wait of the section fleet, or 10s") \
    X("", "--local", "in a fleet: at this node alone")                                             \
    X("fleet", "status", "what it prints without it, too")                                         \
    X("fleet", "TOKEN", "of a purge or ban at any node, like 1732790000000-0.5f3a9c21")              \
    X("fleet", "NAME", "of a policy, a parameter, or a table of each node's configuration")         \
    X("fleet", "FILE", "a policy, or a table's entries; - is standard input")                       \
    X("fleet", "VALUE", "as in a file; `tarnctl param list NAME` has its bounds")                   \
    X("vcl", "--use", "use it at once, for all requests from now on")                              \
    X("vcl", "LABEL", "a name that stands for a policy, and can stand for another one later")      \
    X("vcl", "NAME", "of a policy; `tarnctl vcl list` has them")                                   \
    X("vcl", "FILE", "a policy, in the subset of VCL 4.1 that tarnd knows; - is standard input")   \
    X("backend", "NAME", "of a backend; `tarnctl backend list` has them")                          \
    X("backend", "auto|healthy|sick",                                                              \
      "auto: by its probe; healthy, sick: that, whatever its probe's result")                      \
    X("table", "NAME", "of a table; `tarnctl table list` has them")                                \
    X("table", "FILE", "an entry a line; - is standard input")                                     \
    X("param", "PATTERN", "part of the names of parameters")                                       \
    X("param", "NAME", "of a parameter; `tarnctl param list` has them")                            \
    X("param", "VALUE", "as the configuration writes it, with its unit")                           \
    X("completion", "bash|zsh|fish", "the shell it is for")                                        \
    X("help", "COMMAND", "a command, or its first word. Default: all of them, a line each")

/* First word, a command line, what it does. */
#define CTL_EXAMPLE_TABLE(X)                                                                       \
    X("status", "tarnctl --json status", "for a program: all of it as JSON")                       \
    X("stat", "tarnctl stat cache.", "counters of the cache")                                      \
    X("stat", "tarnctl stat --live --every 5", "what changes, every 5 seconds")                    \
    X("log", "tarnctl log --status 5xx", "requests that fail from now on, and why")                \
    X("log", "tarnctl log --all --url /shop --miss", "misses below /shop, from the rings")         \
    X("hist", "tarnctl hist --live", "durations, a frame each second")                             \
    X("top", "tarnctl top client bytes", "clients by bytes")                                       \
    X("top", "tarnctl top --limit 5 --count 1 url misses", "once: the five URLs missed most")      \
    X("storage", "tarnctl storage stats", "where the memory went")                                 \
    X("why", "tarnctl why http://www.example.com/page 'Accept-Encoding: gzip'",                    \
      "would that be a hit?  Why not?")                                                            \
    X("warm", "tarnctl warm --to 127.0.0.1:8080 --rate 50 https://www.example.com/sitemap.xml",    \
      "fill a new cache before it gets traffic")                                                   \
    X("purge", "tarnctl purge http://www.example.com/page", "remove all variants of the page")     \
    X("purge", "tarnctl purge --soft http://www.example.com/page",                                 \
      "they become stale, and are served until fetched anew")                                      \
    X("purge", "tarnctl purge --all --soft", "nothing is trusted any more, and served meanwhile")  \
    X("purge-tag", "tarnctl purge-tag product-1234 product-1235",                                  \
      "remove the responses that show one of two products")                                        \
    X("ban", "tarnctl ban 'obj.http.X-Product == 1234 && obj.age > 5m'",                           \
      "ends a product's responses that are older than five minutes")                               \
    X("ban", "tarnctl ban list", "bans, and how many objects each has removed")                    \
    X("purge", "tarnctl purge http://www.example.com/page --wait all --timeout 5s",                \
      "remove it at all nodes, and wait until they have")                                          \
    X("fleet", "tarnctl fleet", "are all nodes in step?")                                          \
    X("fleet", "tarnctl fleet vcl use v2 /etc/tarn/v2.vcl", "one policy for all nodes, if all can compile it") \
    X("fleet", "tarnctl fleet param set default_ttl 5m", "one value for all nodes")                 \
    X("vcl", "tarnctl vcl load --use v2 /etc/tarn/v2.vcl", "compile a policy, and use it")         \
    X("vcl", "tarnctl vcl use boot", "back to the one that tarnd began with")                      \
    X("backend", "tarnctl backend set-health app1 sick", "app1 gets no more requests")             \
    X("backend", "tarnctl backend set-health app1 auto", "its probe decides again")                \
    X("table", "tarnctl table load redirects /etc/tarn/redirects.txt", "replace its entries")      \
    X("tls", "tarnctl tls list", "certificates, and when they expire")                             \
    X("tls", "tarnctl tls reload", "after a renewal")                                              \
    X("index", "tarnctl index dump --limit 10", "ten keys, and their entries")                     \
    X("param", "tarnctl param list ttl", "parameters about lifetimes")                             \
    X("param", "tarnctl param set default_ttl 5m", "for responses without one of their own")       \
    X("reload", "tarnctl reload", "apply the file; the changes are printed")                       \
    X("stop", "tarnctl stop", "end; requests in flight have until the deadline")                   \
    X("drain", "tarnctl drain", "end when no request is in flight any more")                       \
    X("completion", "tarnctl completion fish", "for fish")                                         \
    X("help", "tarnctl help vcl load", "help of one command")

/* clang-format on */

#endif
