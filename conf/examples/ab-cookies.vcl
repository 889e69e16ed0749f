# ab-cookies.vcl -- a test of two versions of a site, which caches both.
#
# A new visitor is assigned to a bucket at random, and gets a cookie with it; from then on the
# cookie decides.  The bucket is part of the key, never the cookie itself: a site with a million
# visitors still has two copies of each page.
#
#     ab=a   as before, 4 of 5          ab=b   the new version, 1 of 5
#
# To end the test, replace `call ab_draw` by the bucket that won, and the cookies die out.

vcl 4.1;

import std;

sub vcl_recv {
    # A client chooses its bucket by the cookie alone.
    unset req.http.X-AB;
    unset req.http.X-AB-New;

    # Robots see what was there before: what they see must not depend on the day.
    if (req.http.User-Agent ~ "(?i)(bot|crawl|spider|slurp)") {
        set req.http.X-AB = "a";
    } elseif (req.http.Cookie ~ "(^|;\s*)ab=[ab](;|$)") {
        set req.http.X-AB = regsub(req.http.Cookie, "^(?:.*?;\s*)?ab=([ab])(?:;.*)?$", "\1");
    } else {
        call ab_draw;
    }

    # For people who test: a bucket for this request alone.
    if (req.url ~ "[?&]ab=[ab](&|$)") {
        set req.http.X-AB = regsub(req.url, "^.*[?&]ab=([ab]).*$", "\1");
        set req.url = regsub(req.url, "([?&])ab=[ab]&?", "\1");
        set req.url = regsub(req.url, "[?&]$", "");
        unset req.http.X-AB-New;
    }

    if (req.http.X-AB == "b") {
        set req.backend_hint = site_b;
    } else {
        set req.backend_hint = default;
    }
    # A new version that is down must not take a fifth of the visitors with it.
    if (!std.healthy(req.backend_hint)) {
        set req.backend_hint = default;
        set req.http.X-AB = "a";
        unset req.http.X-AB-New;
    }

    # The site's own cookie for the signed-in is called sid: theirs is not cached.
    if (req.http.Cookie ~ "(^|;\s*)sid=") {
        return (pass);
    }
    if (req.method == "GET" || req.method == "HEAD") {
        unset req.http.Cookie;
    }
}

# The shares are here and nowhere else.
sub ab_draw {
    if (std.random(0, 10) < 8.0) {
        set req.http.X-AB = "a";
    } else {
        set req.http.X-AB = "b";
    }
    set req.http.X-AB-New = req.http.X-AB;
}

sub vcl_hash {
    hash_data(req.http.X-AB);
}

sub vcl_backend_fetch {
    # The versions may want to know (for links, for counting), but not whether the visitor is new.
    unset bereq.http.X-AB-New;
}

sub vcl_backend_response {
    # A version that sets the cookie itself would give every visitor the bucket of the first.
    if (beresp.http.Set-Cookie ~ "^ab=" && !bereq.uncacheable) {
        unset beresp.http.Set-Cookie;
    }
    # Both versions are served stale for the same time, or one looks faster than it is.
    set beresp.grace = 1m;
}

sub vcl_deliver {
    # On the way out, never in what is stored.  Not HttpOnly: the page's own counting reads it.
    if (req.http.X-AB-New) {
        set resp.http.Set-Cookie = "ab=" + req.http.X-AB-New
            + "; Max-Age=2592000; Path=/; SameSite=Lax";
        # The next cache down the line must not keep the response of a first visit.
        set resp.http.Cache-Control = "private, no-cache";
    } elseif (resp.http.Cache-Control !~ "private|no-store") {
        # The browser may keep the page, but others share no cookie with it.
        set resp.http.Cache-Control = "private, max-age=30";
    }
    set resp.http.X-AB = req.http.X-AB;
    if (obj.hits > 0) {
        set resp.http.X-Cache = "hit";
    } else {
        set resp.http.X-Cache = "miss";
    }
}
