# magento.vcl -- full page cache of a Magento 2 shop.
#
# Visitors without a session get pages from the cache; a session's own parts (cart, name) come
# by AJAX from /customer/section/load, which is passed.  Magento tags each page with what it shows
# (X-Magento-Tags: cat_p_42,cat_c_7) and, when a product changes, sends a PURGE with a pattern of
# tags.  Nothing here needs to change when the catalogue does.

vcl 4.1;

import std;

# Clients that may purge: the machines that run Magento, its cron jobs among them.
acl purge {
    "localhost";
    "127.0.0.1";
    "::1";
    "10.0.0.0"/8;
}

# The TLS proxies in front of this cache, which set X-Forwarded-Proto.
acl tls_ends_at {
    "127.0.0.1";
    "::1";
    "10.0.0.0"/8;
}

sub vcl_recv {
    # The word of a stranger would choose the page that others get; what is set here is sent on.
    if (remote.ip ~ tls_ends_at && req.http.X-Forwarded-Proto == "https") {
        set req.http.X-Forwarded-Proto = "https";
    } else {
        unset req.http.X-Forwarded-Proto;
    }

    # One page, one object: the order of parameters and the marks of campaigns do not change it.
    if (req.url ~ "(\?|&)(gclid|fbclid|msclkid|cx|ie|cof|siteurl|utm_[a-z]+|mc_[a-z]+|_ga)=") {
        set req.url = regsuball(req.url,
            "(gclid|fbclid|msclkid|cx|ie|cof|siteurl|utm_[a-z]+|mc_[a-z]+|_ga)=[^&]*&?", "");
        set req.url = regsub(req.url, "[?&]+$", "");
    }
    set req.url = std.querysort(req.url);

    if (req.method == "PURGE") {
        call magento_purge;
    }

    # Long grace is for a shop that is down; while it works, 10 s hide the regeneration of a page.
    if (std.healthy(req.backend_hint)) {
        set req.grace = 10s;
    }

    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }

    # What belongs to one visitor.
    if (req.url ~ "^/(checkout|customer|sales|wishlist|paypal)(/|$|\?)"
        || req.url ~ "^/(index\.php/)?admin(_[a-z0-9]+)?(/|$)"
        || req.url ~ "^/rest/") {
        return (pass);
    }

    # GraphQL is cached only when Magento said how (X-Magento-Cache-Id), and for no logged-in customer.
    if (req.url ~ "^/graphql") {
        if (!req.http.X-Magento-Cache-Id || req.http.Authorization) {
            return (pass);
        }
    } elseif (req.http.Authorization) {
        return (pass);
    }

    # The hash takes X-Magento-Vary out of the cookies; all others are the session's, and no page
    # that is cached hangs on them.
    std.collect(req.http.Cookie, "; ");
    if (req.http.Cookie ~ "X-Magento-Vary=") {
        set req.http.X-Vary-Cookie = regsub(req.http.Cookie,
            "^.*?X-Magento-Vary=([^;]*).*$", "\1");
    } else {
        unset req.http.X-Vary-Cookie;
    }
    if (req.url ~ "^/(pub/)?(media|static)/") {
        unset req.http.Cookie;
        unset req.http.X-Vary-Cookie;
    }
    # Past the built-in policy, which would pass a request that has a cookie.
    return (hash);
}

# PURGE from Magento: by tags, by all tags (".*"), or one URL.
sub magento_purge {
    if (client.ip !~ purge) {
        return (synth(405, "Method not allowed"));
    }
    if (req.http.X-Magento-Tags-Pattern) {
        ban("obj.http.X-Magento-Tags ~ " + req.http.X-Magento-Tags-Pattern);
        return (synth(200, "Purged"));
    }
    if (req.http.X-Pool) {
        ban("obj.http.X-Pool ~ " + req.http.X-Pool);
        return (synth(200, "Purged"));
    }
    return (purge);
}

sub vcl_hash {
    # Currency, customer group, store view: all that Magento folds into one value.
    if (req.http.X-Vary-Cookie) {
        hash_data(req.http.X-Vary-Cookie);
    }
    # http and https pages link to themselves differently.
    hash_data(req.http.X-Forwarded-Proto);
    if (req.url ~ "^/graphql") {
        hash_data(req.http.X-Magento-Cache-Id);
        hash_data(req.http.Store);
        hash_data(req.http.Content-Currency);
    }
}

sub vcl_backend_fetch {
    unset bereq.http.X-Vary-Cookie; # between recv and hash only
}

sub vcl_backend_response {
    set beresp.grace = 3d;

    # The text behind the tags is what bans look at; without any it would match no pattern.
    if (beresp.status != 200 && beresp.status != 404) {
        set beresp.ttl = 0s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    if (beresp.http.Cache-Control ~ "private|no-cache|no-store"
        || beresp.http.X-Magento-Cache-Control ~ "private|no-cache|no-store") {
        set beresp.ttl = 120s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    # A page that may be stored must not start a session.
    if (beresp.ttl > 0s && (bereq.method == "GET" || bereq.method == "HEAD")) {
        unset beresp.http.Set-Cookie;
    }
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }

    # Browsers keep files, but ask for each page anew: only this cache learns of a purge.
    if (resp.http.Cache-Control !~ "private" && req.url !~ "^/(pub/)?(media|static)/") {
        set resp.http.Pragma = "no-cache";
        set resp.http.Expires = "-1";
        set resp.http.Cache-Control = "no-store, no-cache, must-revalidate, max-age=0";
    }
    unset resp.http.X-Magento-Tags;
    unset resp.http.X-Powered-By;
}
