vcl 4.1;

# Nothing of its own: what builtin.vcl says.
