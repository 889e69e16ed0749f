vcl 4.1;

# Nothing from the cache, nothing into it.

sub vcl_recv {
    return (pass);
}
