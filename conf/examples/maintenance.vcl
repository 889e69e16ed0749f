# maintenance.vcl -- a site that is closed for maintenance, except for staff.
#
# Load this policy when the work begins, and the site's own when it is done: the cache keeps its
# content.  Meanwhile
#   - staff reach the site as always, past the cache, and see what they have changed;
#   - robots get pages that are stored, up to a day old, and nothing is fetched for them;
#   - every other client gets a page that says when to come back: 503 with Retry-After, so that search
#     engines keep what they know;
#   - the origin may be away at any time, and staff get a page with the reason.

vcl 4.1;

import std;

acl staff {
    "127.0.0.1";
    "::1";
    "192.0.2.0"/24;       # the office
    "198.51.100.17";      # the agency
}

sub vcl_recv {
    # What monitors the proxy itself.
    if (req.url == "/proxy-alive") {
        return (synth(200, "Alive"));
    }

    # The page's own picture and style live on the origin and are long stored.
    if (req.url ~ "^/maintenance/" && (req.method == "GET" || req.method == "HEAD")) {
        unset req.http.Cookie;
        set req.grace = 1d;
        return (hash);
    }

    if (client.ip ~ staff) {
        # A header from the work itself can ask to see the site as visitors will.
        if (req.http.X-As-Visitor == "yes") {
            set req.http.X-Staff = "as visitor";
        } else {
            set req.http.X-Staff = "yes";
            return (pass);
        }
    } else {
        unset req.http.X-Staff;
        # Robots that know a page keep it if they get it: what is stored may be shown, but nothing
        # is fetched for them (vcl_miss).
        if (req.http.User-Agent !~ "(?i)(googlebot|bingbot|duckduckbot)") {
            call closed;
        }
    }

    if (req.method != "GET" && req.method != "HEAD") {
        call closed;
    }
    unset req.http.Cookie;
    unset req.http.Authorization;
    set req.grace = 1d;
    return (hash);
}

sub closed {
    # Scripts want another form than people.
    if (req.http.Accept ~ "application/json" || req.url ~ "^/api/") {
        return (synth(503, "maintenance-json"));
    }
    return (synth(503, "maintenance"));
}

sub vcl_miss {
    # For robots nothing is fetched while the site is closed, except the page's own files.
    if (!req.http.X-Staff && req.url !~ "^/maintenance/") {
        return (synth(503, "maintenance"));
    }
}

sub vcl_backend_response {
    # Whatever the site says while it is worked on is not kept for long, and is served for a day.
    set beresp.grace = 1d;
    if (beresp.status >= 500) {
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
        return (deliver);
    }
    if (bereq.url ~ "^/maintenance/" && !beresp.http.Set-Cookie) {
        set beresp.ttl = 1h;
    } elseif (beresp.ttl > 1m) {
        set beresp.ttl = 1m;
    }
}

sub vcl_backend_error {
    # Only requests of staff fetch pages.
    set beresp.http.Content-Type = "text/plain; charset=utf-8";
    set beresp.http.Retry-After = "10";
    set beresp.body = {"The origin does not answer.  It is under maintenance, and so you knew.
"};
    return (deliver);
}

sub vcl_synth {
    set resp.http.Cache-Control = "no-store";
    if (resp.status == 200) {
        set resp.http.Content-Type = "text/plain";
        set resp.body = "ok";
        return (deliver);
    }
    if (resp.status == 503) {
        set resp.http.Retry-After = "1800";
        if (resp.reason == "maintenance-json") {
            set resp.http.Content-Type = "application/json";
            set resp.body = {"{"error":"maintenance","retry_after":1800}"};
        } else {
            set resp.http.Content-Type = "text/html; charset=utf-8";
            set resp.body = {"<!DOCTYPE html>
<html lang="en">
<head><title>Back soon</title><link rel="stylesheet" href="/maintenance/page.css"></head>
<body>
<h1>We are working on the site</h1>
<p>It will be back in half an hour.  You need not reload: this page does it by itself.</p>
<p><small>"} + now + {"</small></p>
<script>setTimeout(function () { location.reload(); }, 60000);</script>
</body>
</html>
"};
        }
        set resp.reason = "Service Unavailable";
        return (deliver);
    }
}

sub vcl_deliver {
    # How old is what robots and visitors get, in words that people find in the log.
    if (obj.hits > 0) {
        set resp.http.X-Cache = "hit";
        std.log("maintenance: served " + req.url + " aged " + obj.age);
    } else {
        set resp.http.X-Cache = "miss";
    }
}
