# drupal.vcl -- Drupal's anonymous pages, invalidated by cache tags.
#
# Drupal says for how long a page may be kept (max-age, by default long) and which things it shows
# (Cache-Tags: node:12 user:3).  When one of them changes it sends a BAN with the tags.  Visitors
# with a session are passed; what other cookies they have is nothing to Drupal.

vcl 4.1;

import std;

probe front {
    .url = "/user/login";
    .expected_response = 200;
    .interval = 10s;
    .timeout = 3s;
    .window = 6;
    .threshold = 3;
    .initial = 3;
}

backend drupal {
    .host = "127.0.0.1";
    .port = "8081";
    .first_byte_timeout = 120s;
    .between_bytes_timeout = 30s;
    .max_connections = 100;
    .probe = front;
}

acl invalidators {
    "localhost";
    "127.0.0.1";
    "::1";
}

sub vcl_recv {
    set req.backend_hint = drupal;

    if (req.method == "PURGE") {
        if (client.ip !~ invalidators) {
            return (synth(403, "Not allowed"));
        }
        return (purge);
    }
    if (req.method == "BAN") {
        call drupal_ban;
    }

    # While Drupal answers, a page is served at most 15 s past its time; else for what beresp.grace
    # says below.
    if (std.healthy(drupal)) {
        set req.grace = 15s;
    }

    # For the machine's own jobs alone.
    if (req.url ~ "^/(cron|install|update)\.php" && client.ip !~ invalidators) {
        return (synth(404, "Not found"));
    }
    if (req.method != "GET" && req.method != "HEAD" && req.method != "OPTIONS") {
        return (pass);
    }
    if (req.url ~ "^/(admin|user|flag|system/ajax|batch)(/|\?|$)"
        || req.url ~ "^/(edit|node/add)" || req.url ~ "/edit(\?|$)") {
        return (pass);
    }

    # Of all cookies only sessions count: SESS... over http, SSESS... over https, and NO_CACHE,
    # which modules set after a form was sent.
    if (req.http.Cookie) {
        set req.http.Cookie = ";" + req.http.Cookie;
        set req.http.Cookie = regsuball(req.http.Cookie, "; +", ";");
        set req.http.Cookie = regsuball(req.http.Cookie,
            ";(S?SESS[a-z0-9]+|NO_CACHE)=", "; \1=");
        set req.http.Cookie = regsuball(req.http.Cookie, ";[^ ][^;]*", "");
        set req.http.Cookie = regsuball(req.http.Cookie, "^[; ]+|[; ]+$", "");
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        } else {
            return (pass);
        }
    }
}

# "Cache-Tags: node:12 node_list" on the request: all pages that have one of these tags.
sub drupal_ban {
    if (client.ip !~ invalidators) {
        return (synth(403, "Not allowed"));
    }
    if (req.http.Cache-Tags) {
        # As words: node:1 is not node:12.
        set req.http.X-Tags = regsuball(req.http.Cache-Tags, "[ ,]+", "|");
        ban("obj.http.Cache-Tags ~ (^|[[:space:]])(" + req.http.X-Tags + ")([[:space:]]|$)");
        return (synth(200, "Tags banned"));
    }
    if (req.http.X-Url-Pattern) {
        ban("obj.http.X-Url ~ " + req.http.X-Url-Pattern);
        return (synth(200, "URLs banned"));
    }
    return (synth(400, "Cache-Tags or X-Url-Pattern is missing"));
}

sub vcl_backend_response {
    set beresp.http.X-Url = bereq.url;
    set beresp.grace = 6h;

    # Drupal makes a derived image at its first request; two at once do it twice.
    if (bereq.url ~ "^/sites/[^/]+/files/" && beresp.status == 200) {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 7d;
        return (deliver);
    }
    # Robots request pages that do not exist all day.
    if (beresp.status == 404 || beresp.status == 301) {
        set beresp.ttl = 10m;
        unset beresp.http.Set-Cookie;
        return (deliver);
    }
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        return (abandon);
    }
}

sub vcl_backend_error {
    if (bereq.retries < 1 && (bereq.method == "GET" || bereq.method == "HEAD")) {
        return (retry);
    }
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Drupal-Cache-Proxy = "HIT";
    } else {
        set resp.http.X-Drupal-Cache-Proxy = "MISS";
    }
    unset resp.http.X-Url;
    unset resp.http.Cache-Tags;
    unset resp.http.X-Generator;
}
