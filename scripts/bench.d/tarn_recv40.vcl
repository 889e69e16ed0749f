vcl 4.1;

# A vcl_recv of forty lines as sites have them: three regular expressions and an acl that every
# request meets.

acl office {
    "192.0.2.0"/24;
    "198.51.100.7";
    "2001:db8::"/32;
    ! "192.0.2.13";
}

sub vcl_recv {
    unset req.http.X-Office;
    if (client.ip ~ office) {
        set req.http.X-Office = "yes";
    }
    if (req.method == "PURGE") {
        if (!req.http.X-Office) {
            return (synth(405, "Not allowed"));
        }
        return (purge);
    }
    if (req.http.Upgrade ~ "(?i)websocket") {
        return (pipe);
    }
    if (req.url ~ "^/(admin|login|checkout|account)(/|$|\?)") {
        return (pass);
    }
    if (req.url ~ "[?&](utm_[a-z]+|gclid|fbclid)=") {
        set req.url = regsuball(req.url, "(utm_[a-z]+|gclid|fbclid)=[^&]*&?", "");
        set req.url = regsub(req.url, "[?&]+$", "");
    }
    if (req.url ~ "\.(?:css|js|png|jpe?g|gif|webp|svg|woff2?|ico|pdf|zip)(?:\?.*)?$") {
        unset req.http.Cookie;
        return (hash);
    }
    if (req.http.Cookie) {
        set req.http.Cookie = regsuball(req.http.Cookie, "(^|; *)(_ga|_gid|_fbp)=[^;]*", "");
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        }
    }
    if (req.http.Authorization) {
        return (pass);
    }
    return (hash);
}
