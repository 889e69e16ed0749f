vcl 4.1;

# The same as tarn_synth.vcl, for Varnish.

backend default none;

sub vcl_recv {
    return (synth(200));
}

sub vcl_synth {
    set resp.body = "42";
    return (deliver);
}
