vcl 4.1;

# An answer of our own, of two bytes: no lookup, no backend.

backend none_at_all none;

sub vcl_recv {
    return (synth(200));
}

sub vcl_synth {
    set resp.body = "42";
    return (deliver);
}
