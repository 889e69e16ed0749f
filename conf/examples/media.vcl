# media.vcl -- the edge of a video and audio site.
#
#   /vod/...     films: whole files by parts, and segments of HLS and DASH; signed URLs
#   /live/...    streams: a playlist changes every few seconds, its segments never
#   /ads/...     chosen for each viewer: never stored
#   /chat        WebSocket
#   /audio/...   podcasts: files, with a counted address in front
#
# A signature is a permission of a viewer, and not part of the film's identity.  The gateway in front of this has checked
# it, so it is taken off before the key is made: all viewers share one copy.

vcl 4.1;

import std;
import directors;

backend vod {
    .host = "127.0.0.1";
    .port = "8081";
    .between_bytes_timeout = 20s;
}

# Two packagers take the same feed.
backend packager1 {
    .host = "127.0.0.1";
    .port = "8082";
    .connect_timeout = 500ms;
    .first_byte_timeout = 3s;
}

backend packager2 {
    .host = "127.0.0.1";
    .port = "8083";
    .connect_timeout = 500ms;
    .first_byte_timeout = 3s;
}

# Ads and chat.
backend app {
    .host = "127.0.0.1";
    .port = "8084";
}

sub vcl_init {
    new live = directors.round_robin();
    live.add_backend(packager1);
    live.add_backend(packager2);
}

sub vcl_recv {
    # Backends by path.
    if (req.url ~ "^/live/") {
        set req.backend_hint = live.backend();
    } elseif (req.url ~ "^/(ads|chat)(/|\?|$)") {
        set req.backend_hint = app;
    } else {
        set req.backend_hint = vod;
    }

    if (req.url ~ "^/chat(\?|$)") {
        if (req.http.Upgrade ~ "(?i)^websocket$") {
            return (pipe);
        }
        return (synth(426, "Upgrade Required"));
    }
    if (req.url ~ "^/ads/") {
        return (pass);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (synth(405, "Method Not Allowed"));
    }

    # "/c/SPONSOR/audio/12.mp3" counts and is audio/12.mp3.
    set req.url = regsub(req.url, "^/c/[^/]+/", "/");

    # Signatures, sessions of players, and what defeats caches.  What chooses content stays.
    set req.url = regsuball(req.url,
        "([?&])(sig|signature|expires|token|key-pair-id|policy|session|cb)=[^&]*", "\1");
    set req.url = regsuball(req.url, "([?&])&+", "\1");
    set req.url = regsub(req.url, "[?&]+$", "");
    set req.url = std.querysort(req.url);

    unset req.http.Cookie;
    unset req.http.Authorization;
    unset req.http.Accept-Encoding;
    return (hash);
}

sub vcl_pipe {
    # The one connection of a request that asks for another protocol.
    set bereq.http.Upgrade = req.http.Upgrade;
    set bereq.http.Connection = req.http.Connection;
}

sub vcl_backend_response {
    unset beresp.http.Set-Cookie;

    if (bereq.uncacheable && !(bereq.url ~ "^/(vod|live|audio)/")) {
        return (deliver); # an ad
    }
    if (beresp.status >= 500) {
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        # One packager restarts: the round has the other one next.
        if (bereq.url ~ "^/live/" && bereq.retries < 1) {
            set bereq.backend = live.backend();
            return (retry);
        }
        set beresp.ttl = 1s;
        set beresp.grace = 0s;
        return (deliver);
    }
    if (beresp.status == 404) {
        # A player at the live edge asks for a segment a moment too early.
        set beresp.ttl = 500ms;
        set beresp.grace = 0s;
        return (deliver);
    }

    if (bereq.url ~ "^/live/.*\.(m3u8|mpd)$") {
        set beresp.ttl = 1s;
        set beresp.grace = 2s;
    } elseif (bereq.url ~ "\.(m3u8|mpd)$") {
        set beresp.ttl = 10m;
        set beresp.grace = 1h;
    } elseif (bereq.url ~ "^/live/") {
        # As long as one can go back.
        set beresp.ttl = 10m;
        set beresp.grace = 0s;
    } else {
        set beresp.ttl = 30d;
        set beresp.grace = 1d;
    }
    # Bytes are sent as they arrive: no viewer waits for a whole film.
    set beresp.do_stream = true;
}

sub vcl_backend_error {
    if (bereq.url ~ "^/live/" && bereq.retries < 1) {
        set bereq.backend = live.backend();
        return (retry);
    }
}

sub vcl_deliver {
    set resp.http.Access-Control-Allow-Origin = "*";
    set resp.http.Access-Control-Expose-Headers = "Content-Length, Content-Range";
    if (req.url ~ "\.(m3u8|mpd)$") {
        set resp.http.Cache-Control = "no-cache";
    } elseif (req.url !~ "^/ads/") {
        set resp.http.Cache-Control = "public, max-age=86400";
    }
    if (obj.hits > 0) {
        set resp.http.X-Cache = "hit";
    } else {
        set resp.http.X-Cache = "miss";
    }
}

sub vcl_synth {
    if (resp.status == 426) {
        set resp.http.Upgrade = "websocket";
        set resp.http.Connection = "Upgrade";
    } elseif (resp.status == 405) {
        set resp.http.Allow = "GET, HEAD";
    }
    set resp.body = resp.reason;
    return (deliver);
}
