/* conf_errors_test.c -- what the loader refuses, where, and in which words. */
#include "t/unit/conf_fixture.h"

#include "conf/conf_priv.h"

TEST(conf, wrong_numbers_are_refused_with_what_would_be_right)
{
    static const struct {
        const char *pair, *want;
    } rows[] = {
        /* clang-format off */
        {"heuristic_fraction: 10",
         "2:34 heuristic_fraction: '10' has no unit: write 10%\n"},
        {"heuristic_fraction: 101%",
         "2:34 heuristic_fraction: '101%' is too large: the most is 100%\n"},
        {"heuristic_fraction: 1.5%",
         "2:34 heuristic_fraction: '1.5%' is not a whole number of percent, as in 10%\n"},
        {"heuristic_fraction: 99999999999999999999%",
         "2:34 heuristic_fraction: '99999999999999999999%' is too large: the most is 100%\n"},
        {"heuristic_fraction: -1%", "2:34 heuristic_fraction: '-1%' is negative: the least is 0%\n"},
        {"heuristic_fraction: 10 %",
         "2:34 heuristic_fraction: '10 %' is not a whole number of percent, as in 10%\n"},
        {"heuristic_max: 10%", "2:29 heuristic_max: '10%' has an unknown unit: use ms, s, m, h, d, w or y\n"},
        {"store_set_cookie: sometimes",
         "2:32 store_set_cookie: 'sometimes' is unknown: it is never, public or always\n"},
        {"store_set_cookie: allways",
         "2:32 store_set_cookie: 'allways' is unknown; did you mean 'always'?\n"},
        {"default_ttl: 60",
         "2:27 default_ttl: '60' has no unit: write 60s for seconds or 60ms for milliseconds\n"},
        {"default_ttl: 0",
         "2:27 default_ttl: '0' has no unit: write 0s for seconds or 0ms for milliseconds\n"},
        {"default_ttl: 5sec",
         "2:27 default_ttl: '5sec' has an unknown unit: use ms, s, m, h, d, w or y\n"},
        {"default_ttl: 5M",
         "2:27 default_ttl: '5M' has an unknown unit: use ms, s, m, h, d, w or y\n"},
        {"default_ttl: soon",
         "2:27 default_ttl: 'soon' is not a time: a number and ms, s, m, h, d, w or y, as in "
         "3500ms, 3.5s or 2h\n"},
        {"default_ttl: 5 s",
         "2:27 default_ttl: '5 s' is not a time: a number and ms, s, m, h, d, w or y, as in "
         "3500ms, 3.5s or 2h\n"},
        {"default_ttl: .5s",
         "2:27 default_ttl: '.5s' is not a time: a number and ms, s, m, h, d, w or y, as in "
         "3500ms, 3.5s or 2h\n"},
        {"default_ttl: 5.s",
         "2:27 default_ttl: '5.s' is not a time: a number and ms, s, m, h, d, w or y, as in "
         "3500ms, 3.5s or 2h\n"},
        {"default_ttl: -5s", "2:27 default_ttl: '-5s' is negative: the least is 0s\n"},
        {"default_ttl: 0.5ms", "2:27 default_ttl: '0.5ms' is less than one millisecond\n"},
        {"default_ttl: 11y", "2:27 default_ttl: '11y' is too large: the most is 10y\n"},
        {"default_ttl: 99999999999999999999999999999999999999999y",
         "2:27 default_ttl: '99999999999999999999999999999999999999999y' is too large: the "
         "most is 10y\n"},
        {"default_ttl: [1s]",
         "2:27 default_ttl must not be a list: give it a time: a number and ms, s, m, h, d, w "
         "or y, as in 3500ms, 3.5s or 2h\n"},
        {"default_ttl: ~",
         "2:14 default_ttl has no value: give it a time: a number and ms, s, m, h, d, w or y, "
         "as in 3500ms, 3.5s or 2h\n"},
        {"timeout_idle: 9ms", "2:28 timeout_idle: '9ms' is too small: the least is 10ms\n"},
        {"timeout_idle: 25h", "2:28 timeout_idle: '25h' is too large: the most is 1d\n"},
        {"http_req_size: 255", "2:29 http_req_size: '255' is too small: the least is 256B\n"},
        {"http_req_size: 61k", "2:29 http_req_size: '61k' is too large: the most is 60KiB\n"},
        {"http_req_size: 9kb2",
         "2:29 http_req_size: '9kb2' is not a size: a number and B, KiB, MiB, GiB or TiB, as "
         "in 64KiB or 1.5GiB\n"},
        {"http_req_size: 9q",
         "2:29 http_req_size: '9q' has an unknown unit: use B, KiB, MiB, GiB or TiB (k, m, g, "
         "t)\n"},
        {"max_req_body: 0.5B", "2:28 max_req_body: '0.5B' is less than one byte\n"},
        {"log_ring: 5MiB",
         "2:24 log_ring: '5MiB' is not a power of two: the nearest are 4MiB and 8MiB\n"},
        {"log_ring: 32k", "2:24 log_ring: '32k' is too small: the least is 64KiB\n"},
        {"listen_depth: 1.0", "2:28 listen_depth: '1.0' is not a whole number\n"},
        {"listen_depth: 1k", "2:28 listen_depth: '1k' is not a whole number\n"},
        {"listen_depth: 65536", "2:28 listen_depth: '65536' is too large: the most is 65535\n"},
        {"listen_depth: {}", "2:28 listen_depth must not be a map: give it a whole number\n"},
        {"resolver: dns.test",
         "2:24 resolver: 'dns.test' is not an address: write it as in 192.0.2.1, 192.0.2.1:53 or "
         "\"[::1]:53\"\n"},
        {"resolver: [127.0.0.1, '[::1]:0']",
         "2:24 resolver: '[::1]:0' has a port that is not a number from 1 to 65535\n"},
        {"resolver: '127.0.0.1:'",
         "2:24 resolver: '127.0.0.1:' has a port that is not a number from 1 to 65535\n"},
        {"resolver: '[::1'", "2:24 resolver: '[::1' has no closing bracket, as in \"[::1]:53\"\n"},
        {"http_cache_status: yes", "2:33 http_cache_status: 'yes' is not on, off, true or false\n"},
        /* clang-format on */
    };
    char yaml[256];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(yaml, sizeof(yaml), BACKEND "parameters: {%s}", rows[i].pair);
        expect_errors(yaml, rows[i].want);
    }
}

TEST(conf, workers_and_index_have_bounds)
{
    expect_errors(BACKEND "workers: 0", "2:10 workers: '0' is too small: the least is 1\n");
    expect_errors(BACKEND "workers: 257", "2:10 workers: '257' is too large: the most is 256\n");
    expect_errors(BACKEND "workers: all", "2:10 workers: 'all' is not auto or a whole number\n");
    expect_errors(BACKEND "index: {bits: 5, slots: 5}",
        "2:15 bits: '5' is too small: the least is 6\n"
        "2:25 slots: '5' is not 4 or 8\n");
}

TEST(conf, an_index_that_leaves_no_room_in_its_storage_is_refused)
{
    expect_errors("storage: {main: {size: 1MiB}}\n" BACKEND "index: {bits: 20}",
        "3:15 bits: a table of 2^20 slots takes 8192 KiB, and storage 'main' has 1024 KiB; half is "
        "the most: 16, or a larger storage\n");
    expect_errors(BACKEND "index: {bits: 32, slots: 4}", /* the default storage */
        "2:15 bits: a table of 2^32 slots takes 33554432 KiB, and storage 'main' has 262144 KiB; "
        "half is the most: 24, or a larger storage\n");
    expect_errors(BACKEND "index: {bits: 20}\nstorage: {other: {size: 1MiB}, main: {size: 12KiB}}",
        "2:15 bits: a table of 2^20 slots takes 8192 KiB, and storage 'main' has 12 KiB; half is "
        "the most: 9, or a larger storage\n");
}

TEST(conf, texts_have_a_grammar)
{
    expect_errors(BACKEND "parameters:\n"
                          "  http_via: a b\n"
                          "  http_server: \"a\\r\\nX: y\"\n"
                          "  access_log: \"a\\x01b\"\n"
                          "  log_level: wran\n"
                          "  request_id_header: 'X-Id:'\n"
                          "  shm_dir: \"a\\0b\"\n",
        "3:13 http_via: 'a b' is not a token: letters, digits and !#$%&'*+-.^_`|~ only\n"
        "4:16 http_server: 'a??X: y' has a character that is not printable ASCII\n"
        "5:15 access_log: 'a?b' has a control character\n"
        "6:14 log_level: 'wran' is unknown; did you mean 'warn'?\n"
        "7:22 request_id_header: 'X-Id:' is not a token: letters, digits and "
        "!#$%&'*+-.^_`|~ only\n"
        "8:12 text with a NUL in it is not supported\n");
    expect_errors(BACKEND "parameters:\n"
                          "  access_log: syslog:lokal6\n"
                          "  access_log_format: jsn\n"
                          "  error_log: /var/log/tarn\n",
        "3:15 access_log: 'syslog:lokal6' names no facility of syslog: daemon, user, local0 to "
        "local7, or another\n"
        "4:22 access_log_format: 'jsn' is unknown; did you mean 'json'?\n"
        "5:14 error_log: '/var/log/tarn' is not syslog:FACILITY, as in syslog:daemon\n");
    expect_errors(BACKEND "parameters:\n  access_log_format: main\n",
        "3:22 access_log_format: 'main' is unknown: it is combined, json, or a text with fields, "
        "as "
        "in '$remote_addr $status $time'\n");
    expect_errors(BACKEND "parameters:\n  access_log_format: '$status $upstream_addr'\n",
        "3:22 access_log_format: '$status $upstream_addr' names $upstream_addr, which is no field: "
        "there are $remote_addr $remote_port $time_local $time_iso8601 $msec $request "
        "$request_method $request_uri $server_protocol $host $http_host $referer $http_referer "
        "$user_agent $http_user_agent $request_length $status $bytes_sent $body_bytes_sent "
        "$request_time $time $ttfb $cache $backend $request_id $request_completion "
        "$esi_level $esi_parent $scheme $https "
        "$ssl_protocol $ssl_cipher $ssl_session_reused $ssl_early_data $ssl_server_name "
        "$ssl_client_s_dn "
        "$ssl_client_i_dn $ssl_client_serial $ssl_client_fingerprint\n");
    expect_errors(BACKEND "parameters:\n  access_log_format: 'costs 5$'\n",
        "3:22 access_log_format: 'costs 5$' has a $ that begins no name: $$ is a dollar sign; "
        "there are $remote_addr $remote_port $time_local $time_iso8601 $msec $request "
        "$request_method $request_uri $server_protocol $host $http_host $referer $http_referer "
        "$user_agent $http_user_agent $request_length $status $bytes_sent $body_bytes_sent "
        "$request_time $time $ttfb $cache $backend $request_id $request_completion "
        "$esi_level $esi_parent $scheme $https "
        "$ssl_protocol $ssl_cipher $ssl_session_reused $ssl_early_data $ssl_server_name "
        "$ssl_client_s_dn "
        "$ssl_client_i_dn $ssl_client_serial $ssl_client_fingerprint\n");
    for (unsigned i = 0; i < 4; i++) {
        static const char *const places[] = {"", "localhost:514", "192.0.2.1", "[::1:514"};
        char text[256], want[256];

        snprintf(
            text, sizeof(text), BACKEND "parameters: {access_log: 'syslog:user@%s'}\n", places[i]);
        snprintf(want, sizeof(want),
            "2:26 access_log: 'syslog:user@%s' names no place behind the @: a path of a socket, at "
            "most 107 bytes, or an address and a port, as in 192.0.2.1:514 or [2001:db8::1]:514\n",
            places[i]);
        expect_errors(text, want);
    }
    expect_errors(BACKEND "parameters: {http_via: '', log_level: all, http_server: 'a '}\n",
        "2:24 http_via: '' has 0 bytes: 1 to 64 are possible\n"
        "2:39 log_level: 'all' is unknown: it is error, warn, info or debug\n"
        "2:57 http_server: 'a ' has a space at an end\n");
}

TEST(conf, routes_name_hosts_paths_and_backends)
{
    expect_errors(BACKEND "routes:\n"
                          "  - {host: 'a:80', backend: o}\n"
                          "  - {host: 'a.*.b', backend: o}\n"
                          "  - {host: 'a/b', backend: o}\n"
                          "  - {host: '[::1]:80', backend: o}\n"
                          "  - {path: x, backend: o}\n"
                          "  - {path: /x?y, backend: o}\n"
                          "  - {path: '/x y', backend: o}\n"
                          "  - {backend: p}\n"
                          "  - {backend: other}\n"
                          "  - o\n",
        "3:12 host: 'a:80' has a port: a route matches the host name alone, on any port\n"
        "4:12 host: 'a.*.b' has a wildcard that is not its first label: *.example.com stands for "
        "every name below example.com\n"
        "5:12 host: 'a/b' is not a host name, as in img.example.com\n"
        "6:12 host: '[::1]:80' has a port: a route matches the host name alone, on any port\n"
        "7:12 path: 'x' does not begin with '/'\n"
        "8:12 path: '/x?y' has a character that no path has: it ends where '?' or '#' would "
        "stand\n"
        "9:12 path: '/x y' has a character that a URL writes percent-encoded, as in %20\n"
        "10:15 backend: 'p' is not among the backends: the first is 'o'\n"
        "11:15 backend: 'other' is not among the backends: the first is 'o'\n"
        "12:5 a route must be a map, not text ('o')\n");
    expect_errors("backends: {origin: {address: '1.2.3.4:5'}}\nroutes: [{backend: orgin}]",
        "2:20 backend: 'orgin' is not among the backends; did you mean 'origin'?\n");
    expect_errors("backends: {a: {address: '1.2.3.4:5'}, b: {address: '1.2.3.4:6'}}\n"
                  "routes:\n  - {path: /x, pass: on}\n  - {path: /y, redirect: {to: /z}}\n",
        "3:5 a route has no 'backend', and no backend is the default: give it one, or name one of "
        "the backends default\n");
}

TEST(conf, actions_of_a_route_are_checked_each)
{
    expect_errors(BACKEND
        "routes:\n"
        "  - {path: /a, ttl: 5, grace: [x]}\n"
        "  - {path: /b, pass: on, ttl: 5m}\n"
        "  - {path: /c, strip_cookies: all, methods: [get, POST]}\n"
        "  - {path: /d, strip_query: ['a=b', {x: y}]}\n"
        "  - {path: /e, request_headers: {set: {Host: x, 'A b': c}, remove: [X]}}\n"
        "  - {path: /f, response_headers: {unset: [Content-Length], add: {X: \"a\\nb\"}}}\n"
        "  - {path: /g, redirect: http}\n"
        "  - {path: /h, redirect: {to: 'ftp://x', status: 305}}\n"
        "  - {path: /i, redirect: {to: 'https://$hots/'}}\n"
        "  - {path: /j, redirect: {to: /x, status: 305}}\n"
        "  - {path: /k, redirect: {to: /x}, backend: o}\n"
        "  - {path: /l, methods: true, response_headers: x}\n",
        "3:21 ttl: '5' has no unit: write 5s for seconds or 5ms for milliseconds\n"
        "3:31 grace must not be a list: give it a time: a number and ms, s, m, h, d, w or y, as in "
        "3500ms, 3.5s or 2h\n"
        "4:26 key 'ttl' is for stored responses, and 'pass' stores none: leave out one of the "
        "two\n"
        "5:31 strip_cookies must be a list of names, or true for all\n"
        "5:46 methods: 'get' is not a method: capital letters, as in GET\n"
        "6:30 strip_query: 'a=b' is not a name: printable ASCII without spaces and = ; & ? # , \"\n"
        "6:37 strip_query: '' is not a name\n"
        "7:40 request_headers: 'Host' is of the key: give the backend a host_header instead\n"
        "7:49 request_headers: 'A b' is not a field name: letters, digits and !#$%&'*+-.^_`|~ "
        "only\n"
        "7:60 unknown key 'remove' in request_headers; it takes: set, add, unset\n"
        "8:43 response_headers: 'Content-Length' is of the connection, not of the message: Tarn "
        "writes it itself\n"
        "8:69 X: 'a?b' has a character that is not printable ASCII\n"
        "9:26 redirect: 'http' is not https: for another target write { to: "
        "\"https://www.example.com$request_uri\" }\n"
        "10:31 to: 'ftp://x' begins with none of http://, https:// and /\n"
        "10:50 status: '305' is no redirect: it is 301, 302, 303, 307 or 308\n"
        "11:31 to: 'https://$hots/' has a $ that is none of $host, $uri and $request_uri\n"
        "12:43 status: '305' is no redirect: it is 301, 302, 303, 307 or 308\n"
        "13:36 key 'backend' is never used: this route answers every request with a redirect\n"
        "14:25 methods must be a list, as in [GET, POST]\n"
        "14:49 response_headers must be a map, not text ('x')\n");
}

TEST(conf, limits_and_error_pages_of_a_route_are_checked)
{
    expect_errors(BACKEND "routes:\n"
                          "  - {path: /a, rate: [logn, more, login]}\n"
                          "limits: [{name: login}]\n",
        "3:23 rate: 'logn' is the name of no limit; did you mean 'login'?\n"
        "3:29 rate: 'more' is the name of no limit: give one of `limits` this name\n");
    expect_errors(BACKEND "routes:\n"
                          "  - {path: /b, rate: login}\n"
                          "  - {path: /c, error_page: {file: x, text: y}}\n"
                          "  - {path: /d, error_page: {text: y, status: [200, 503], code: 1}}\n"
                          "limits: [{name: login, path: /x}]\n",
        "3:22 rate must be a list of names of limits, as in [login]\n"
        "4:16 error_page needs 'file' or 'text', one of them\n"
        "5:47 status: '200' is too small: the least is 400\n"
        "5:58 unknown key 'code' in error_page; it takes: file, text, status\n"
        "6:10 a limit with a name counts for the routes that name it (rate): leave out 'host' and "
        "'path', or the name\n");
    expect_errors(BACKEND "routes: [{rate: [login]}]\n"
                          "limits: [{name: login}, {name: unused}, {name: login, rate: 5}]\n",
        "3:25 no route names the limit 'unused', so it has no effect: give a route `rate: "
        "[unused]`, or leave out the name\n"
        "3:41 limit 1 has the name 'login', too\n"
        "3:41 no route names the limit 'login', so it has no effect: give a route `rate: "
        "[login]`, or leave out the name\n");
}

TEST(conf, a_route_behind_one_that_covers_it_is_refused)
{
    expect_errors(BACKEND "routes:\n"
                          "  - {path: /a, backend: o}\n"
                          "  - {path: /b, host: x, backend: o}\n"
                          "  - {path: /abc, host: x, backend: o}\n"
                          "  - {path: /b/c, host: X, backend: o}\n",
        "5:5 this route is never reached: route 1 matches all that it does\n"
        "6:5 this route is never reached: route 2 matches all that it does\n");
    expect_errors(BACKEND "routes:\n"
                          "  - {host: '*.a.b', backend: o}\n"
                          "  - {host: 'a.b', backend: o}\n"
                          "  - {host: 'x.y.A.b', backend: o}\n"
                          "  - {host: '*.y.a.b', path: /x, backend: o}\n",
        "5:5 this route is never reached: route 1 matches all that it does\n"
        "6:5 this route is never reached: route 1 matches all that it does\n");
}

TEST(conf, wrong_addresses_are_refused_with_the_right_form)
{
    static const struct {
        const char *address, *want;
    } rows[] = {
        /* clang-format off */
        {"127.0.0.1", "has no port, as in host:8080"},
        {"8080", "has no host, as in 127.0.0.1:8080"},
        {":8080", "has no host before the colon, as in 127.0.0.1:8080"},
        {"a:", "has no port behind the colon, as in host:8080"},
        {"a:http", "has a port that is not a number, as in host:8080"},
        {"a:65536", "has a port above 65535"},
        {"a:99999999999999999999", "has a port above 65535"},
        {"a:0", "has port 0: only a listener can take a free port"},
        {"*:80", "means any address, which only a listener can have"},
        {"::1:80", "is an IPv6 address without brackets: write it as in \"[::1]:8080\""},
        {"[::1]", "has no port, as in \"[::1]:8080\""},
        {"[::1:80", "has no closing bracket, as in \"[::1]:8080\""},
        {"[::x]:80", "is not a valid IPv6 address, as in \"[::1]:8080\""},
        {"[]:80", "is not a valid IPv6 address, as in \"[::1]:8080\""},
        {"1.2.3:80", "is not a valid IPv4 address"},
        {"1.2.3.256:80", "is not a valid IPv4 address"},
        {"http://a:80", "begins with http://: leave out http://, as in a:80"},
        {"HTTP://a:80/b/", "begins with http://: leave out http:// and the path, as in a:80"},
        {"http://a", "begins with http://: leave out http://, as in a:80"},
        {"https://a/b",
         "is https:// with a path, or with unix: write https://host or https://host:8443"},
        {"a/b:80",
         "has a host that is neither a name nor an address: write host:port, \"[v6]:port\" or "
         "unix:/path"},
        {"a b:80", "has a space or control character"},
        {"unix:", "needs an absolute path, as in unix:/run/tarn.sock"},
        {"unix:run/x", "needs an absolute path, as in unix:/run/tarn.sock"},
        {"", "has no host, as in 127.0.0.1:8080"},
        /* clang-format on */
    };
    char yaml[256], want[512];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(yaml, sizeof(yaml), "backends: {o: {address: '%s'}}", rows[i].address);
        snprintf(want, sizeof(want), "1:25 address: '%s' %s\n", rows[i].address, rows[i].want);
        expect_errors(yaml, want);
    }
}

TEST(conf, listeners_are_distinct)
{
    expect_errors(BACKEND "listen:\n"
                          "  - {address: '127.0.0.1:80', name: a}\n"
                          "  - {address: '127.0.0.1:80', name: b}\n"
                          "  - {address: '127.0.0.1:0', name: c}\n"
                          "  - {address: '127.0.0.1:0', name: a}\n",
        "4:5 two listeners have the address '127.0.0.1:80': remove one\n"
        "6:5 two listeners are named 'a': give one another name\n");
    expect_errors(BACKEND "listen: []",
        "2:9 section 'listen' is an empty list: give it a listener, or remove it\n");
}

TEST(conf, names_are_words)
{
    expect_errors("backends: {'a b': {address: '1.2.3.4:5'}}\nstorage: {'1x': {engine: synth}}",
        "1:12 'a b' cannot name a backend: a name is a letter or _, then letters, digits, - and "
        "_, 64 at most\n"
        "2:11 '1x' cannot name a storage: a name is a letter or _, then letters, digits, - and "
        "_, 64 at most\n");
}

TEST(conf, storages_have_a_known_engine)
{
    expect_errors(BACKEND "storage:\n"
                          "  main: {engine: maloc}\n"
                          "  disk: {engine: persistent, fault: x}\n"
                          "  tiny: {size: 1k}\n"
                          "  odd: {fault: x}\n",
        "3:18 engine: 'maloc' is unknown; did you mean 'malloc'?\n"
        "4:18 engine: 'persistent' is unknown: it is malloc, synth or fault\n"
        "5:16 size: '1k' is too small: the least is 4KiB\n"
        "6:9 key 'fault' is for the engine fault, and this is malloc\n");
    expect_errors(BACKEND "storage:\n"
                          "  main: {eviction: seive}\n"
                          "  disk: {eviction: random}\n",
        "3:20 eviction: 'seive' is unknown; did you mean 'sieve'?\n"
        "4:20 eviction: 'random' is unknown: it is s3-fifo, lru or sieve\n");
    expect_errors(BACKEND "storage:\n"
                          "  main: {eviction: lru}\n"
                          "  pages: {engine: synth, eviction: lru}\n",
        "4:26 key 'eviction' is for an engine that evicts: synth does not\n");
    expect_errors(BACKEND "storage: {}",
        "2:10 section 'storage' is an empty map: give it a storage, or remove it\n");
}

TEST(conf, unknown_keys_get_a_suggestion)
{
    expect_errors("listn: []\n"
                  "backends:\n"
                  "  o: {adress: '1.2.3.4:5', first-byte-timeout: 1s, weight: 3}\n"
                  "default_tll: 5s\n"
                  "bogus: 1\n"
                  "parameters: {timeout_ilde: 5s, wobble: 1}\n",
        "1:1 unknown section 'listn'; did you mean 'listen'?\n"
        "3:7 unknown key 'adress' in backend 'o'; did you mean 'address'?\n"
        "3:28 unknown key 'first-byte-timeout' in backend 'o'; did you mean "
        "'first_byte_timeout'?\n"
        "3:52 unknown key 'weight' in backend 'o'; it takes: address, tls, host_header, "
        "connect_timeout, first_byte_timeout, between_bytes_timeout, idle_timeout, "
        "max_connections, queue_timeout, queue_max, max_idle, probe, eject_after, eject_for, "
        "slow_start, dns_ttl, proxy_header\n"
        "4:1 unknown section 'default_tll'; did you mean the parameter 'default_ttl'? It belongs "
        "under 'parameters'\n"
        "5:1 unknown section 'bogus'; there are: listen, workers, trusted_proxies, storage, "
        "probes, backends, directors, routes, limits, include, vcl, index, negative_cache, "
        "compress, esi, tables, fleet, admin, parameters\n"
        "6:14 unknown key 'timeout_ilde' in section 'parameters'; did you mean 'timeout_idle'?\n"
        "6:32 unknown key 'wobble' in section 'parameters'; tarn.yaml(5) lists them\n");
}

TEST(conf, tables_are_checked)
{
    expect_errors(BACKEND "tables:\n"
                          "  a: {kind: prefx, paths: /x}\n"
                          "  b: {path: relative}\n"
                          "  c: {path: /x}\n"
                          "  d: {path: /x, check: maybe}\n"
                          "  1e: {}\n",
        "3:13 kind: 'prefx' is unknown; did you mean 'prefix'?\n"
        "3:20 unknown key 'paths' in table 'a'; did you mean 'path'?\n"
        "4:13 path: 'relative' does not begin with /: which directory is meant?\n"
        "6:13 tables 'c' and 'd' have the same path: remove one\n"
        "6:24 check: 'maybe' is not on, off, true or false\n"
        "7:3 '1e' cannot name a table: a name is a letter or _, then letters, digits, - and _, 64 "
        "at most\n");
}

TEST(conf, distance_counts_edits_and_swaps)
{
#define DISTANCE(a, b) conf_distance(slice_str(a), slice_str(b))
    CHECK_EQ(0, DISTANCE("ABC", "abc"));
    CHECK_EQ(1, DISTANCE("abc", "acb"));
    CHECK_EQ(1, DISTANCE("abc", "ab"));
    CHECK_EQ(1, DISTANCE("ab", "abc"));
    CHECK_EQ(1, DISTANCE("abc", "axc"));
    CHECK_EQ(3, DISTANCE("", "abc"));
    CHECK_EQ(3, DISTANCE("kitten", "sitting"));
    CHECK(DISTANCE("a", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") > 99);
}

TEST(conf, sections_not_built_yet_are_refused_by_name)
{
    static const char *const names[] = {"supervisor"};
    char yaml[256], want[256];

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(yaml, sizeof(yaml), BACKEND "%s: x", names[i]);
        snprintf(want, sizeof(want),
            "2:1 section '%s' is not supported by this build yet: remove it\n", names[i]);
        expect_errors(yaml, want);
    }
}

TEST(conf, a_negative_cache_has_room_in_the_storage_and_a_time_that_passes)
{
    static const struct {
        const char *yaml, *errors;
    } cases[] = {
        {"negative_cache: {entries: 0}", "2:27 entries: '0' is too small: the least is 1\n"},
        {"negative_cache: {entries: -1}", "2:27 entries: '-1' is negative: the least is 1\n"},
        {"negative_cache: {entries: 268435457}",
            "2:27 entries: '268435457' is too large: the most is 268435456\n"},
        {"negative_cache: {ttl: -1s}", "2:23 ttl: '-1s' is negative: the least is 0s\n"},
        {"negative_cache: {ttl: 25h}", "2:23 ttl: '25h' is too large: the most is 1d\n"},
        {"negative_cache: {ttl: soon}",
            "2:23 ttl: 'soon' is not a time: a number and ms, s, m, h, d, w or y, as in 3500ms, "
            "3.5s or 2h\n"},
        {"negative_cache: {size: 5}",
            "2:18 unknown key 'size' in section 'negative_cache'; it takes: entries, ttl\n"},
        {"negative_cache: on", "2:17 section 'negative_cache' must be a map, not text ('on')\n"},
        {"negative_cache: {entries: 65537}\nstorage: {main: {size: 4MiB}}",
            "2:27 65537 entries take 2049 KiB, and storage 'main' has 4096 KiB; half is the most: "
            "65536 entries, or a larger storage\n"},
        {"negative_cache: {entries: 65537}\nstorage: {main: {size: 8MiB}}\nindex: {bits: 18}",
            "2:27 65537 entries take 2049 KiB, and storage 'main' has 8192 KiB; half is the most "
            "with the index: 65536 entries, or a larger storage\n"},
        {"negative_cache: {}\nstorage: {small: {size: 1MiB}}",
            "2:17 100000 entries take 3125 KiB, and storage 'small' has 1024 KiB; half is the "
            "most: 16384 entries, or a larger storage\n"},
        {"negative_cache: {entries: 65536}\nstorage: {main: {size: 4MiB}}\nlimits: [{rate: 1}]\n"
         "parameters: {limit_keys: 131073}",
            "5:26 limits: 131073 limit_keys take 2048 KiB, the other tables 2048 KiB, and storage "
            "'main' has 4096 KiB; three quarters is the most: fewer limit_keys, or a "
            "larger storage\n"},
    };
    char yaml[256];

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(yaml, sizeof(yaml), BACKEND "%s", cases[i].yaml);
        expect_errors(yaml, cases[i].errors);
    }
}

TEST(conf, a_key_that_stands_twice_is_refused)
{
    expect_errors(BACKEND "workers: 1\nworkers: 2\nindex: {bits: 9, bits: 9}",
        "3:1 duplicate key 'workers', first on line 2: remove one\n"
        "4:18 duplicate key 'bits', first on line 4: remove one\n");
}

TEST(conf, a_file_without_backends_is_refused)
{
    const char *no_backends = "0:0 no backends: at least one is needed, as in "
                              "`backends: { origin: { address: 127.0.0.1:9000 } }`\n";

    expect_errors("", "0:0 the file is empty: it needs at least `backends`\n");
    expect_errors("# nothing\n---\n", "0:0 the file is empty: it needs at least `backends`\n");
    expect_errors("{}", no_backends);
    expect_errors("workers: 1", no_backends);
    expect_errors("backends: {}", "1:11 section 'backends' is empty: at least one is needed\n");
    expect_errors(
        "backends:", "1:1 section 'backends' has no value: give it a map, or remove it\n");
    expect_errors("backends: {o: {}}", "1:12 backend 'o' has no 'address': give it one\n");
    expect_errors("backends: {o: '1.2.3.4:5'}",
        "1:15 backend 'o' is a map: write `o: { address: \"1.2.3.4:5\" }`\n");
}

TEST(conf, sections_have_their_shapes)
{
    expect_errors(BACKEND "listen: 127.0.0.1:80\nstorage: [a]\nroutes: {}\nindex: x\nparameters:\n"
                          "workers: []\n",
        "2:9 section 'listen' is a list of maps, not text: write `listen: [ { address: "
        "\"127.0.0.1:80\" } ]`\n"
        "3:10 section 'storage' must be a map, not a list\n"
        "4:9 section 'routes' must be a list, not a map\n"
        "5:8 section 'index' must be a map, not text ('x')\n"
        "6:1 section 'parameters' has no value: give it a map, or remove it\n"
        "7:10 workers must not be a list: give it auto or a whole number\n");
    expect_errors("- a\n", "1:1 the file must be a map, not a list\n");
    expect_errors("text\n", "1:1 the file must be a map, not text ('text')\n");
}

TEST(conf, anchors_aliases_tags_and_second_documents_are_refused)
{
    expect_errors("backends: &b {o: {address: !!str '1.2.3.4:5'}}\nindex: *b\n---\nx: 1\n",
        "1:11 anchors (&b) are not supported: write the value where it is used\n"
        "1:28 tags (tag:yaml.org,2002:str) are not supported: the key decides the type\n"
        "2:8 aliases (*b) are not supported: write the value out, or put quotes around text that "
        "begins with '*'\n"
        "3:1 a second document begins here: a file holds one\n");
    expect_errors(BACKEND "? [a]\n: b\n", "2:3 a key must be text, not a list\n");
}

TEST(conf, broken_syntax_is_placed_and_explained)
{
    static const struct {
        const char *yaml, *want;
    } rows[] = {
        /* clang-format off */
        {"backends:\n\to: 1\n",
         "2:1 YAML syntax: found character that cannot start any token while scanning for the "
         "next token: indent with spaces, not with tabs\n"},
        {"listen:\n  - address: *:80\n",
         "2:15 YAML syntax: did not find expected alphabetic or numeric character while "
         "scanning an alias: put quotes around text that begins with '*', as in \"*:8080\"\n"},
        {"a: @x\n",
         "1:4 YAML syntax: found character that cannot start any token while scanning for the "
         "next token: put quotes around text that begins with this character\n"},
        {"backends: {\n",
         "2:1 YAML syntax: did not find expected node content while parsing a flow node: a "
         "comma or a closing bracket is missing\n"},
        {"backends: 'x\n",
         "2:1 YAML syntax: found unexpected end of stream while scanning a quoted scalar that "
         "began on line 1: a closing quote is missing\n"},
        {"backends:\n  o:\n    a: 1\n   b: 2\n",
         "4:4 YAML syntax: did not find expected key while parsing a block mapping that began "
         "on line 2: check the indentation\n"},
        {"index: a: b\n",
         "1:9 YAML syntax: mapping values are not allowed in this context: check the "
         "indentation, and put quotes around text with ': ' in it\n"},
        {"a: \xc3\xa4\xff\n",
         "1:5 not YAML: invalid leading UTF-8 octet (0xff); the file must be text in UTF-8\n"},
        {"a: 1\nb: \x01\n",
         "2:4 not YAML: control characters are not allowed (0x01); the file must be text in "
         "UTF-8\n"},
        /* clang-format on */
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct conf *c = NULL;
        struct conf_error *errors, *last;
        char got[512];

        CHECK_EQ(TERR_CONFIG, conf_load_text(&c, "t", rows[i].yaml, strlen(rows[i].yaml), &errors));
        for (last = errors; last->next != NULL; last = last->next)
            continue;
        snprintf(got, sizeof(got), "%u:%u %s\n", last->line, last->column, last->message);
        CHECK_STR(rows[i].want, got);
        conf_errors_free(&errors);
    }
}

TEST(conf, what_stands_before_broken_syntax_is_checked_too)
{
    expect_errors("workers: 0\nroutes: [{backend: later}]\nlisten:\n  - name: a\n   x: 1\n",
        "1:10 workers: '0' is too small: the least is 1\n"
        "5:4 YAML syntax: did not find expected '-' indicator while parsing a block collection "
        "that began on line 4: check the indentation\n");
}

TEST(conf, all_errors_come_at_once_in_the_order_of_their_places)
{
    expect_errors("parameters: {log_rate: 0}\ntls: x\nroutes: [{backend: x}]\n"
                  "backends: {o: {address: a}}\nworkers: -1\n",
        "1:24 log_rate: '0' is too small: the least is 1\n"
        "2:1 section 'tls' is a key of a listener: write `listen: [ { address: \"*:443\", tls: { "
        "certificates: DIRECTORY } } ]`\n"
        "3:20 backend: 'x' is not among the backends: the first is 'o'\n"
        "4:25 address: 'a' has no port, as in host:8080\n"
        "5:10 workers: '-1' is negative: the least is 1\n");
}

TEST(conf, edges_are_checked)
{
    expect_errors("backends: {o: {address: '127.0.0.1:9'}}\n"
                  "trusted_proxies: [10.0.0.1/8, {}]\n",
        "2:19 trusted_proxies: '10.0.0.1/8' is not an address, or a network without a bit behind "
        "its "
        "prefix, as in 192.0.2.1, 10.0.0.0/8 or \"2001:db8::/32\"\n"
        "2:31 trusted_proxies: each of the list must be a text, as in 10.0.0.0/8\n");
    expect_errors(
        "backends: {o: {address: '127.0.0.1:9'}}\n"
        "listen: [{address: '*:0', trusted: '::1'}, {address: '*:1', proxy_protocol: on}]\n",
        "2:36 key 'trusted' lists the senders of PROXY headers: it needs `proxy_protocol: "
        "required`\n"
        "2:77 proxy_protocol: 'on' is unknown: it is off or required\n");
    expect_errors("backends: {o: {address: '127.0.0.1:9'}}\n"
                  "listen: [{address: '*:0', mode: 0660}, {address: unix:/a, mode: 0888}]\n"
                  "admin: {mode: 01000}\n",
        "2:27 key 'mode' is for a Unix socket, and '*:0' is none: remove it\n"
        "2:65 mode: '0888' is not a mode in octal, as in 0660\n"
        "3:15 mode: '01000' is too large: the most is 0777\n");
    expect_errors("backends: {o: {address: '127.0.0.1:9'}}\n"
                  "limits:\n"
                  "  - {rate: 10, per: 1d, burst: 71}\n"
                  "  - {rate: 10000, per: 1ms}\n",
        "3:5 burst: 71 at once take 86400000 ms for each 10 to be earned again, which is more than "
        "7d: a smaller burst, or a higher rate\n"
        "4:5 10000 requests in 1 ms are more than one a microsecond: no limit\n");
}

TEST(conf, nesting_has_a_bound)
{
    expect_errors("a: [[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]",
        "1:1 unknown section 'a'; there are: listen, workers, trusted_proxies, storage, probes, "
        "backends, directors, routes, limits, include, vcl, index, negative_cache, compress, "
        "esi, tables, fleet, admin, parameters\n"
        "1:19 nested more than 16 deep\n");
}

TEST(conf, errors_have_a_bound)
{
    char *yaml = calloc(1, 20000), *p = yaml;
    const struct conf *c = NULL;
    struct conf_error *errors, *last;
    unsigned n = 1;

    for (unsigned i = 0; i < 1000; i++)
        p += sprintf(p, "q%u: x\n", i);
    CHECK_EQ(TERR_CONFIG, conf_load_text(&c, "t", yaml, strlen(yaml), &errors));
    for (last = errors; last->next != NULL; last = last->next)
        n++;
    CHECK_EQ(501, n);
    CHECK_STR("too many errors: the rest is not shown", last->message);
    conf_errors_free(&errors);
    free(yaml);
}

static void
expect_printed(const char *yaml, const char *want, unsigned count)
{
    struct memo *m = memo_new();
    const struct conf *c = NULL;
    struct conf_error *errors;

    CHECK_EQ(TERR_CONFIG, conf_load_text(&c, "t", yaml, strlen(yaml), &errors));
    CHECK_EQ(count, conf_errors_print(errors, "tarn.yaml", &m->sink));
    CHECK_STR(want, m->text);
    conf_errors_free(&errors);
    free(m);
}

TEST(conf, errors_are_printed_with_line_and_caret)
{
    expect_printed("# \xc3\xa4\r\nworkers: 99999\n\nindex: {  # x\n  slots: \t7\n}",
        "tarn.yaml: no backends: at least one is needed, as in "
        "`backends: { origin: { address: 127.0.0.1:9000 } }`\n"
        "tarn.yaml:2:10: workers: '99999' is too large: the most is 256\n"
        "    2 | workers: 99999\n"
        "      |          ^~~~~\n"
        "tarn.yaml:5:11: slots: '7' is not 4 or 8\n"
        "    5 |   slots: \t7\n"
        "      |          \t^\n",
        3);
}

TEST(conf, a_long_line_is_shown_around_its_error)
{
    expect_printed(BACKEND "parameters: {http_server: \"0123456789012345678901234567890123456789"
                           "01234567890123456789\", http_via: '\xc3\xa4', shm_dir: /tmp/a-directory"
                           "-with-a-longer-name, log_rate: 5}",
        "tarn.yaml:2:101: http_via: '\xc3\xa4' is not a token: letters, digits and "
        "!#$%&'*+-.^_`|~ only\n"
        "    2 | 34567890123456789012345678901234567890123456789\", http_via: '\xc3\xa4', "
        "shm_dir: /tmp/a-directory-with-a-lo\n"
        "      |                                                             ^\n",
        1);
}

TEST(conf, messages_are_printable)
{
    char buf[CONF_QUOTE_BYTES];

    CHECK_STR("a?[31m?", conf_quote(buf, slice_str("a\x1b[31m\x7f")));
    CHECK_STR("??x", conf_quote(buf, slice_str("\xc2\x9bx"))); /* a C1 control */
    CHECK_STR("?\xe2\x82\xac", conf_quote(buf, slice_str("\xff\xe2\x82\xac")));
    CHECK_STR("??", conf_quote(buf, slice_str("\xe2\x82"))); /* cut short */
}

TEST(conf, a_file_that_cannot_be_read_is_an_error)
{
    const struct conf *c = NULL;
    struct conf_error *errors;

    CHECK_EQ(TERR_CONFIG, conf_load(&c, "/nowhere/tarn.yaml", &errors));
    CHECK_STR("cannot open the file: No such file or directory", errors->message);
    CHECK_EQ(0, errors->line);
    conf_errors_free(&errors);
    CHECK_EQ(TERR_CONFIG, conf_load(&c, "/", &errors));
    CHECK_STR("cannot read the file: Is a directory", errors->message);
    conf_errors_free(&errors);
    CHECK_EQ(TERR_CONFIG, conf_load(&c, "/dev/zero", &errors));
    CHECK_STR("the file is larger than 4MiB", errors->message);
    conf_errors_free(&errors);
}

TEST_MAIN(TEST_ENTRY(conf, wrong_numbers_are_refused_with_what_would_be_right),
    TEST_ENTRY(conf, workers_and_index_have_bounds),
    TEST_ENTRY(conf, an_index_that_leaves_no_room_in_its_storage_is_refused),
    TEST_ENTRY(conf, texts_have_a_grammar), TEST_ENTRY(conf, routes_name_hosts_paths_and_backends),
    TEST_ENTRY(conf, actions_of_a_route_are_checked_each),
    TEST_ENTRY(conf, limits_and_error_pages_of_a_route_are_checked),
    TEST_ENTRY(conf, a_route_behind_one_that_covers_it_is_refused),
    TEST_ENTRY(conf, wrong_addresses_are_refused_with_the_right_form),
    TEST_ENTRY(conf, listeners_are_distinct), TEST_ENTRY(conf, names_are_words),
    TEST_ENTRY(conf, storages_have_a_known_engine), TEST_ENTRY(conf, unknown_keys_get_a_suggestion),
    TEST_ENTRY(conf, tables_are_checked), TEST_ENTRY(conf, distance_counts_edits_and_swaps),
    TEST_ENTRY(conf, sections_not_built_yet_are_refused_by_name),
    TEST_ENTRY(conf, a_negative_cache_has_room_in_the_storage_and_a_time_that_passes),
    TEST_ENTRY(conf, a_key_that_stands_twice_is_refused),
    TEST_ENTRY(conf, a_file_without_backends_is_refused),
    TEST_ENTRY(conf, sections_have_their_shapes),
    TEST_ENTRY(conf, anchors_aliases_tags_and_second_documents_are_refused),
    TEST_ENTRY(conf, broken_syntax_is_placed_and_explained),
    TEST_ENTRY(conf, what_stands_before_broken_syntax_is_checked_too),
    TEST_ENTRY(conf, all_errors_come_at_once_in_the_order_of_their_places),
    TEST_ENTRY(conf, edges_are_checked), TEST_ENTRY(conf, nesting_has_a_bound),
    TEST_ENTRY(conf, errors_have_a_bound), TEST_ENTRY(conf, errors_are_printed_with_line_and_caret),
    TEST_ENTRY(conf, a_long_line_is_shown_around_its_error),
    TEST_ENTRY(conf, messages_are_printable),
    TEST_ENTRY(conf, a_file_that_cannot_be_read_is_an_error))
