# wordpress.vcl -- pages of a WordPress site for visitors without a login.
#
# WordPress sets cookies that matter to few visitors: a login, an own comment, an unlocked
# protected post, a shop's cart.  These are passed.  All other cookies belong
# to scripts in the browser, and are taken off.

vcl 4.1;

import std;
import purge;

# Where purge plugins run.
acl editors {
    "localhost";
    "127.0.0.1";
    "::1";
    "192.168.0.0"/16;
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ editors) {
            return (synth(405, "Not allowed"));
        }
        return (purge);
    }
    # BAN with X-Ban-Pattern: a regular expression of paths of this host, as "^/2024/".
    if (req.method == "BAN") {
        if (client.ip !~ editors) {
            return (synth(405, "Not allowed"));
        }
        if (!req.http.X-Ban-Pattern) {
            return (synth(400, "X-Ban-Pattern is missing"));
        }
        ban("obj.http.x-host == " + req.http.host + " && obj.http.x-url ~ "
            + req.http.X-Ban-Pattern);
        return (synth(200, "Banned"));
    }

    # The pingback interface is used by attackers alone on this site.
    if (req.url ~ "^/xmlrpc\.php") {
        return (synth(403, "Forbidden"));
    }

    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.http.Authorization) {
        return (pass);
    }

    # Editing, previews, searches, the shop's own pages, calls of scripts.
    if (req.url ~ "^/wp-(admin|login|cron|comments-post)" || req.url ~ "^/wp-json/"
        || req.url ~ "[?&](preview|s|wc-ajax|add-to-cart)="
        || req.url ~ "^/(cart|my-account|checkout)(/|\?|$)") {
        return (pass);
    }

    # Files are the same for all visitors.
    if (req.url ~ "^[^?]*\.(css|js|gif|ico|jpe?g|png|svg|webp|avif|woff2?|ttf|pdf)(\?.*)?$") {
        unset req.http.Cookie;
        return (hash);
    }

    if (req.http.Cookie ~ "wordpress_logged_in_|comment_author_|wp-postpass_"
        || req.http.Cookie ~ "woocommerce_(cart_hash|items_in_cart)=[^;]") {
        return (pass);
    }
    unset req.http.Cookie;

    # Campaign marks are for the browser's scripts, which read them from the address bar.
    set req.url = regsuball(req.url, "([?&])(utm_[a-z]+|gclid|fbclid)=[^&]*", "\1");
    set req.url = regsuball(req.url, "&&+", "&");
    set req.url = regsub(req.url, "\?&", "?");
    set req.url = regsub(req.url, "[?&]+$", "");
    set req.url = std.querysort(req.url);
    return (hash);
}

sub vcl_purge {
    return (synth(200, "Purged"));
}

sub vcl_hit {
    # A reload by an editor (Ctrl-F5) replaces the page for all.  Once for each request: what is
    # found after the restart must not be purged again.
    if (req.restarts == 0 && req.http.Cache-Control ~ "no-cache" && client.ip ~ editors) {
        purge.soft(0s, 10s);
        return (restart);
    }
}

sub vcl_backend_response {
    # What the ban above looks at.  Tests of obj.* can be done behind the requests' backs; tests of
    # req.* would have to wait for the next request of each page.
    set beresp.http.x-url = bereq.url;
    set beresp.http.x-host = bereq.http.host;

    # A page is as good as new for a day if WordPress is down.
    set beresp.grace = 24h;

    if (bereq.uncacheable) {
        return (deliver);
    }
    if (beresp.status >= 500) {
        # In the background of a stale page: keep that one rather than this.
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.ttl = 0s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    if (beresp.status == 404) {
        set beresp.ttl = 60s;
    }
    # WordPress says no-cache only when it means it, and nothing at all on most pages.
    if (bereq.url ~ "^[^?]*\.(css|js|gif|ico|jpe?g|png|svg|webp|avif|woff2?|ttf|pdf)(\?.*)?$") {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 30d;
    } elseif (beresp.http.Cache-Control !~ "no-cache|no-store|private"
        && !beresp.http.Set-Cookie && beresp.status == 200) {
        set beresp.ttl = 10m;
    }
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
        set resp.http.X-Cache-Hits = obj.hits;
    } else {
        set resp.http.X-Cache = "MISS";
    }
    unset resp.http.x-url;
    unset resp.http.x-host;
    unset resp.http.X-Powered-By;
    unset resp.http.X-Pingback;
}
