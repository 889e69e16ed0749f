# mirror.vcl -- a mirror of files: packages that never change, and lists that do.
#
# A package has its version in its name, so it is kept for months.  Lists and signatures belong
# together and change several times a day: they are kept for minutes, and served stale while the
# upstream is away.  Parts of files (downloads that go on, package managers that want the header
# only) are cut out of what is stored.

vcl 4.1;

import std;

sub vcl_recv {
    # A mirror is read only.
    if (req.method != "GET" && req.method != "HEAD") {
        return (synth(405, "This is a mirror"));
    }

    # Files depend neither on the query nor on the client.
    set req.url = regsub(req.url, "\?.*$", "");
    unset req.http.Cookie;
    unset req.http.Authorization;

    # "//pool///x" and "/pool/x" are one file.
    set req.url = regsuball(req.url, "//+", "/");

    # What a mirror holds is packed already: one form of each file.
    unset req.http.Accept-Encoding;

    # Directories have one name.
    if (req.url ~ "^/(pool|dists|images)$") {
        return (synth(301, req.url + "/"));
    }

    # The mirror's own metadata is not served.
    if (req.url ~ "/\.(git|ht|rsync)" || req.url ~ "^/project/trace/_") {
        return (synth(404, "Not found"));
    }
    return (hash);
}

# One mirror, whatever name it was called by.
sub vcl_hash {
    hash_data(req.url);
    return (lookup);
}

sub vcl_backend_response {
    unset beresp.http.Set-Cookie;

    if (beresp.status >= 500) {
        # Stale files are better than none.
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
        return (deliver);
    }
    if (beresp.status == 404) {
        # Soon there: the list came before the package.
        set beresp.ttl = 30s;
        set beresp.grace = 0s;
        return (deliver);
    }

    if (bereq.url ~ "\.(deb|udeb|rpm|apk|tar\.(gz|xz|zst|bz2)|iso|img|qcow2|dsc|jar|whl)$") {
        set beresp.ttl = 90d;
        set beresp.http.Cache-Control = "public, max-age=7776000, immutable";
    } elseif (bereq.url ~ "/by-hash/") {
        # The name is the content's own hash.
        set beresp.ttl = 30d;
        set beresp.http.Cache-Control = "public, max-age=2592000, immutable";
    } elseif (bereq.url ~ "/(InRelease|Release|Release\.gpg|Packages|Sources|repomd\.xml)"
        || bereq.url ~ "(\.db|\.sig|SUMS|/)$") {
        # Minutes, so that the pieces of a list do not differ for long.
        set beresp.ttl = 2m;
        set beresp.http.Cache-Control = "public, max-age=120, must-revalidate";
    } else {
        set beresp.ttl = 1h;
    }
    set beresp.grace = 12h;
    # After that kept for conditional requests: lists change less often than they are requested.
    set beresp.keep = 2d;
}

sub vcl_backend_error {
    # A short word, and when to try again; package managers take the next mirror at once.
    set beresp.http.Content-Type = "text/plain; charset=utf-8";
    set beresp.http.Retry-After = "30";
    set beresp.body = "This mirror cannot reach its upstream." + {"
Please use another one.
"};
    return (deliver);
}

sub vcl_synth {
    if (resp.status == 301) {
        set resp.http.Location = resp.reason;
        set resp.reason = "Moved Permanently";
    }
    if (resp.status == 405) {
        set resp.http.Allow = "GET, HEAD";
    }
    set resp.http.Content-Type = "text/plain; charset=utf-8";
    set resp.body = "Error " + resp.status + ": " + resp.reason + {"
"};
    return (deliver);
}

sub vcl_deliver {
    set resp.http.X-Mirror = server.hostname;
    if (obj.hits > 0) {
        set resp.http.X-Mirror-Cache = "hit, " + obj.hits;
    } else {
        set resp.http.X-Mirror-Cache = "miss";
    }
    std.log("mirror " + resp.http.X-Mirror-Cache + " " + req.url);
}
