# builtin.vcl -- what happens where the policy says nothing.
#
# It stands behind every policy: a vcl_* sub that does not return goes on with its part here.  Each
# step is a sub of its own, so that one of them can be replaced: define a sub of that name, and
# return from it.  `return;` without an action leaves only the sub, and then what stands here is
# left out, too.
#
# The names and the meaning are those of Varnish 8; vcl(7) and vcl-step(7).

vcl 4.1;

# --- the client's side

sub vcl_recv {
    call vcl_builtin_recv;
    return (hash);
}

sub vcl_builtin_recv {
    call vcl_req_host;
    call vcl_req_method;
    call vcl_req_authorization;
    call vcl_req_cookie;
}

# Names of hosts have no case (RFC 9110 4.2.3), but keys have: one entry, however it is written.
sub vcl_req_host {
    if (req.http.host ~ "[[:upper:]]") {
        set req.http.host = req.http.host.lower();
    }
    # RFC 9112 3.2
    if (!req.http.host && req.esi_level == 0 && req.proto == "HTTP/1.1") {
        return (synth(400));
    }
}

sub vcl_req_method {
    # First what nearly every request is.
    if (req.method == "GET" || req.method == "HEAD") {
        return;
    }
    # The preface of HTTP/2, in a place where it makes no sense.
    if (req.method == "PRI") {
        return (synth(405));
    }
    if (req.method != "POST" && req.method != "PUT" && req.method != "PATCH" &&
        req.method != "DELETE" && req.method != "OPTIONS" && req.method != "TRACE") {
        return (synth(501));
    }
    # What changes something is never answered from the cache.
    return (pass);
}

# Responses to those who said who they are, or who carry a session, may be for them alone.
sub vcl_req_authorization {
    if (req.http.Authorization) {
        return (pass);
    }
}

sub vcl_req_cookie {
    if (req.http.Cookie) {
        return (pass);
    }
}

sub vcl_pipe {
    call vcl_builtin_pipe;
    return (pipe);
}

sub vcl_builtin_pipe {
}

sub vcl_pass {
    call vcl_builtin_pass;
    return (fetch);
}

sub vcl_builtin_pass {
}

sub vcl_hash {
    call vcl_builtin_hash;
    return (lookup);
}

sub vcl_builtin_hash {
    hash_data(req.url);
    if (req.http.host) {
        hash_data(req.http.host);
    } else {
        hash_data(server.ip);
    }
}

sub vcl_purge {
    call vcl_builtin_purge;
    return (synth(200, "Purged"));
}

sub vcl_builtin_purge {
}

sub vcl_hit {
    call vcl_builtin_hit;
    return (deliver);
}

sub vcl_builtin_hit {
}

sub vcl_miss {
    call vcl_builtin_miss;
    return (fetch);
}

sub vcl_builtin_miss {
}

sub vcl_deliver {
    call vcl_builtin_deliver;
    return (deliver);
}

sub vcl_builtin_deliver {
}

# Errors 500 and 503 come here, too, without anybody's return.
sub vcl_synth {
    call vcl_builtin_synth;
    return (deliver);
}

sub vcl_builtin_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.http.Retry-After = "5";
    set resp.body = {"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>"} + resp.status + " " + tarn.html(resp.reason) + {"</title>
<main>
<h1>"} + resp.status + " " + tarn.html(resp.reason) + {"</h1>
<p>This response was made by the cache in front of the site.</p>
<p>Request: <code>"} + req.xid + {"</code></p>
</main>
</html>
"};
}

# --- the backend's side

sub vcl_backend_fetch {
    call vcl_builtin_backend_fetch;
    return (fetch);
}

# A body in a GET means nothing (RFC 9110 9.3.1), and what is stored must not depend on it.
sub vcl_builtin_backend_fetch {
    if (bereq.method == "GET") {
        unset bereq.body;
    }
}

sub vcl_backend_refresh {
    call vcl_builtin_backend_refresh;
    return (merge);
}

# A 304 (Not Modified) says that something stored is still right: only if it was asked, about a
# whole response, that nobody has banned or purged since.
sub vcl_builtin_backend_refresh {
    call vcl_refresh_valid;
    call vcl_refresh_conditions;
    call vcl_refresh_status;
}

sub vcl_refresh_valid {
    if (!obj_stale.is_valid) {
        return (error(503, "Stored response is gone"));
    }
}

sub vcl_refresh_conditions {
    if (!bereq.http.If-None-Match && !bereq.http.If-Modified-Since) {
        return (error(503, "Unexpected 304"));
    }
}

sub vcl_refresh_status {
    if (obj_stale.status != 200) {
        return (error(503, "Stored response is not a 200"));
    }
}

sub vcl_backend_response {
    call vcl_builtin_backend_response;
    return (deliver);
}

sub vcl_builtin_backend_response {
    if (bereq.uncacheable) {
        return (deliver);
    }
    call vcl_beresp_range;
    call vcl_beresp_stale;
    call vcl_beresp_cookie;
    call vcl_beresp_control;
    call vcl_beresp_vary;
}

# Nobody asked for a part.
sub vcl_beresp_range {
    if (beresp.status == 206) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_stale {
    if (beresp.ttl <= 0s) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_cookie {
    if (beresp.http.Set-Cookie) {
        call vcl_beresp_hitmiss;
    }
}

# Surrogate-Control is said to us, Cache-Control to all: the first goes before the second.
sub vcl_beresp_control {
    if (beresp.http.Surrogate-Control ~ "(?i)no-store" ||
        (!beresp.http.Surrogate-Control &&
         beresp.http.Cache-Control ~ "(?i)no-cache|no-store|private")) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_vary {
    if (beresp.http.Vary == "*") {
        call vcl_beresp_hitmiss;
    }
}

# Remembers that it was not to be stored, so that others do not wait for each other.
sub vcl_beresp_hitmiss {
    set beresp.ttl = param.uncacheable_ttl;
    set beresp.uncacheable = true;
    return (deliver);
}

sub vcl_backend_error {
    call vcl_builtin_backend_error;
    return (deliver);
}

sub vcl_builtin_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Retry-After = "5";
    set beresp.body = {"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>"} + beresp.status + " " + tarn.html(beresp.reason) + {"</title>
<main>
<h1>"} + beresp.status + " " + tarn.html(beresp.reason) + {"</h1>
<p>The server behind the cache did not give a response.</p>
<p>Request: <code>"} + bereq.xid + {"</code></p>
</main>
</html>
"};
}

# --- the policy itself

sub vcl_init {
    return (ok);
}

sub vcl_fini {
    return (ok);
}
