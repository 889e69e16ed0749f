# api.vcl -- a JSON API that tags its answers, and tells this cache what has changed.
#
# The service sends Surrogate-Key: "product-7 products" with its answers.  After a write it calls
#     PURGE / with Surrogate-Key: product-7      everything that shows product 7
#     PURGE /v1/products/7                       this URL
# Answers to a caller with a token are the caller's own; catalogues are public.

vcl 4.1;

import std;
import tarn;

# The service's own machines.
acl publishers {
    "localhost";
    "127.0.0.1";
    "::1";
    "10.20.0.0"/16;
    ! "10.20.99.0"/24;   # test machines purge their own cache
}

sub vcl_recv {
    if (req.method == "PURGE") {
        call api_purge;
    }

    # Preflights are the same for all clients and come before each call of a browser: answered here.
    if (req.method == "OPTIONS" && req.http.Origin && req.http.Access-Control-Request-Method) {
        return (synth(204, "Preflight"));
    }

    # A version is part of each path.
    if (req.url !~ "^/v[0-9]+/" && req.url != "/health") {
        return (synth(404, "No such version"));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.url == "/health") {
        return (pass);
    }

    # A token may come as a header or, from old clients, as a parameter; neither goes into a key.
    if (req.http.Authorization ~ "(?i)^bearer " || req.url ~ "[?&]access_token=") {
        return (pass);
    }
    unset req.http.Cookie;

    # One form of the query: sorted, without those that only defeat caches.
    set req.url = regsuball(req.url, "([?&])(_|nocache|callback)=[^&]*", "\1");
    set req.url = regsuball(req.url, "[?&]+$", "");
    set req.url = regsuball(req.url, "([?&])&+", "\1");
    set req.url = std.querysort(req.url);

    # Two forms of an answer, and not as many as there are Accept headers.
    if (req.http.Accept ~ "application/hal\+json") {
        set req.http.Accept = "application/hal+json";
    } else {
        set req.http.Accept = "application/json";
    }
    return (hash);
}

sub api_purge {
    if (client.ip !~ publishers) {
        return (synth(403, "Not allowed to purge"));
    }
    if (!req.http.Surrogate-Key) {
        return (purge);
    }
    # One key, or several with spaces between.
    if (tarn.purge_tag(req.http.Surrogate-Key) > 0) {
        return (synth(200, "Purged " + req.http.Surrogate-Key));
    }
    return (synth(400, "Not a list of keys"));
}

sub vcl_purge {
    return (synth(200, "Purged " + req.url));
}

sub vcl_hash {
    # The requested form; Vary: Accept would come too late for the purge of one form.
    hash_data(req.http.Accept);
}

sub vcl_backend_response {
    # The service speaks to caches with Surrogate-Control, and to browsers with Cache-Control.
    # Where the former forbids storing builtin.vcl obeys it, and else does not look at the latter;
    # so it is taken off in vcl_deliver, not here.
    if (beresp.http.Surrogate-Control ~ "max-age=[0-9]+") {
        set beresp.ttl = std.duration(
            regsub(beresp.http.Surrogate-Control, "^.*max-age=([0-9]+).*$", "\1s"), 0s);
    }
    set beresp.grace = 5m;

    if (beresp.status >= 500) {
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.ttl = 0s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    # What does not exist may exist soon, but not within ten seconds.
    if (beresp.status == 404 && beresp.ttl <= 0s) {
        set beresp.ttl = 10s;
        set beresp.grace = 0s;
        return (deliver);
    }
}

sub vcl_backend_error {
    set beresp.http.Content-Type = "application/problem+json";
    set beresp.http.Retry-After = "5";
    set beresp.body = {"{"title":"The service cannot be reached","status":"} + beresp.status + "}";
    return (deliver);
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "hit";
    } else {
        set resp.http.X-Cache = "miss";
    }
    # Surrogate-Key, too, is between the service and this cache, but that is not sent anyway.
    unset resp.http.Surrogate-Control;
    set resp.http.Access-Control-Allow-Origin = "*";
}

sub vcl_synth {
    if (resp.status == 204) {
        set resp.http.Access-Control-Allow-Origin = "*";
        set resp.http.Access-Control-Allow-Methods = "GET, HEAD, POST, PUT, PATCH, DELETE";
        set resp.http.Access-Control-Allow-Headers = "Authorization, Content-Type";
        set resp.http.Access-Control-Max-Age = "86400";
        return (deliver);
    }
    set resp.http.Content-Type = "application/problem+json";
    set resp.body = {"{"title":""} + resp.reason + {"","status":"} + resp.status + "}";
    return (deliver);
}
