# For scripts/bench tags: /t/GROUP/NUMBER has the group's tag, and three that others have, too.
vcl 4.1;

import tarn;

sub vcl_backend_response {
    tarn.tag(regsub(bereq.url, "^/t/([0-9]+)/.*$", "group-\1") + " site page theme-7");
}
