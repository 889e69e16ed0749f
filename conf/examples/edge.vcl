# edge.vcl -- blocked networks, moved pages and lifetimes, in tables that other programs write.
#
# A table is changed as a whole: the next request sees the new entries, no reload, no restart, and
# nothing that is cached is lost.
#   - blocked   networks that get 403; the value is the reason, for the log
#   - moved     paths that get 301, to what the value says; the editors' system writes it
#   - ttls      how long pages under a path are kept; the longest path counts
# A table that is not there yet has nothing in it: the site runs without.

vcl 4.1;

import std;
import tarn;

sub vcl_recv {
    if (tarn.table_contains("blocked", client.ip)) {
        std.log("blocked: " + client.ip + " " + tarn.table_lookup("blocked", client.ip, ""));
        return (synth(403));
    }

    # Moved pages are looked up without the query, which is passed on.
    set req.http.X-Moved = tarn.table_lookup("moved", regsub(req.url, "\?.*", ""), "");
    if (req.http.X-Moved != "") {
        if (req.url ~ "\?") {
            set req.http.X-Moved = req.http.X-Moved + regsub(req.url, "^[^?]*", "");
        }
        return (synth(301));
    }
    unset req.http.X-Moved;
}

sub vcl_backend_response {
    # As std.duration() reads it; -1s is what no table says.
    set beresp.http.X-TTL = tarn.table_lookup("ttls", bereq.url, "-1s");
    if (std.duration(beresp.http.X-TTL, -1s) >= 0s && beresp.status == 200) {
        set beresp.ttl = std.duration(beresp.http.X-TTL, 0s);
    }
    unset beresp.http.X-TTL;
}

sub vcl_synth {
    if (resp.status == 301) {
        set resp.http.Location = req.http.X-Moved;
        set resp.http.Cache-Control = "max-age=60";
        set resp.body = "";
        return (deliver);
    }
}
