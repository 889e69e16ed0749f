# Varnish with its built-in policy, and short deadlines.
vcl 4.1;
backend origin {
    .host = "127.0.0.1";
    .port = "@origin@";
    .first_byte_timeout = 1s;
    .between_bytes_timeout = 1s;
}
