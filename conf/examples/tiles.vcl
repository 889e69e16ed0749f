# tiles.vcl -- map tiles from several renderers: /LAYER/Z/X/Y.png, @2x for sharp screens.
#
# To render a tile costs seconds; to serve it, microseconds.  So there is one form of each URL, one
# renderer for each area (its own cache is warm for it), and tiles are served stale for weeks while
# a renderer is busy, and by another one when theirs is down.

vcl 4.1;

import std;
import directors;

probe render_probe {
    .url = "/status";
    .interval = 5s;
    .timeout = 2s;
    .window = 5;
    .threshold = 3;
    .initial = 3;          # at once: a restart must not stop the map
}

backend render1 {
    .host = "127.0.0.1";
    .port = "8081";
    .probe = render_probe;
    .max_connections = 32; # twice its threads; more would only queue there
}

backend render2 {
    .host = "127.0.0.1";
    .port = "8082";
    .probe = render_probe;
    .max_connections = 32;
}

# Bare tiles of the whole world down to zoom 6, on disk: the fallback when no renderer is healthy.
backend spare {
    .host = "127.0.0.1";
    .port = "8083";
}

sub vcl_init {
    new renderers = directors.hash();
    renderers.add_backend(render1, 1.0);
    renderers.add_backend(render2, 1.0);

    # The first healthy one; spare has no probe, and always is.
    new any = directors.fallback();
    any.add_backend(render1);
    any.add_backend(render2);
    any.add_backend(spare);
    return (ok);
}

sub vcl_recv {
    if (req.method != "GET" && req.method != "HEAD") {
        return (synth(405, "Tiles are read only"));
    }
    # Tiles are the same for all clients.
    unset req.http.Cookie;
    unset req.http.Authorization;
    unset req.http.Accept-Encoding;    # png, webp and mvt come packed

    call tile_url;
    # .mvt are vector tiles; everything else is not a tile, and not here.
    if (req.url !~ "^/[a-z][a-z0-9-]*/([0-9]|1[0-9]|2[0-2])/[0-9]+/[0-9]+(@2x)?\.(png|webp|mvt)$") {
        return (synth(404, "No such tile"));
    }

    # Neighbours go to one renderer: eight by eight tiles are one piece of work for it (a metatile),
    # and zoom, x / 8 and y / 8 are near enough to x and y without their last digit.
    set req.http.X-Area = regsub(req.url,
        "^/([^/]+)/([0-9]+)/([0-9]*?)[0-9]/([0-9]*?)[0-9](@2x)?\.[a-z]+$", "\1/\2/\3/\4");
    set req.backend_hint = renderers.backend(req.http.X-Area);

    if (std.healthy(req.backend_hint)) {
        set req.grace = 1h;
    } else {
        set req.backend_hint = any.backend();
        set req.grace = 4w;
    }
    return (hash);
}

# One URL for each tile: hosts a., b., c. are from the days of HTTP/1.0, and queries are keys of
# users (checked by the gateway in front) and the time, to defeat caches.
sub tile_url {
    set req.url = regsub(req.url, "\?.*$", "");
    set req.url = std.tolower(req.url);
    set req.url = regsuball(req.url, "//+", "/");
    set req.url = regsub(req.url, "\.jpe?g$", ".webp");
    # /layer/z/x/y@1x.png is /layer/z/x/y.png, and leading zeros are nothing.
    set req.url = regsub(req.url, "@1x\.", ".");
    set req.url = regsuball(req.url, "/0+([0-9])", "/\1");
    set req.http.Host = regsub(std.tolower(req.http.Host), "^[a-d]\.", "");
}

sub vcl_backend_fetch {
    unset bereq.http.X-Area;
}

sub vcl_backend_response {
    unset beresp.http.Set-Cookie;
    if (beresp.status == 200) {
        # The deeper, the more often it is edited, and the fewer look at it.
        if (bereq.url ~ "^/[^/]+/[0-9]/") {
            set beresp.ttl = 7d;
        } elseif (bereq.url ~ "^/[^/]+/1[0-4]/") {
            set beresp.ttl = 1d;
        } else {
            set beresp.ttl = 3h;
        }
        set beresp.grace = 4w;
        return (deliver);
    }
    if (beresp.status == 404) {
        # Sea.
        set beresp.ttl = 1d;
        return (deliver);
    }
    if (beresp.status >= 500) {
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        # Busy: the other one may have it.
        if (bereq.retries == 0) {
            set bereq.http.X-Retry = "1";
            return (retry);
        }
        set beresp.ttl = 2s;
        set beresp.grace = 0s;
        set beresp.uncacheable = true;
    }
}

sub vcl_backend_error {
    if (bereq.retries < 2) {
        return (retry);
    }
}

sub vcl_deliver {
    set resp.http.Access-Control-Allow-Origin = "*";
    # Browsers ask again after an hour, and get a 304.
    if (resp.status == 200) {
        set resp.http.Cache-Control = "public, max-age=3600, stale-while-revalidate=86400";
    }
    if (obj.hits > 0) {
        set resp.http.X-Tile = "hit";
    } else {
        set resp.http.X-Tile = "miss";
    }
}
