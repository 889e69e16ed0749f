/* vcl_decl_backend.c -- backends and probes: what their attributes amount to. */
#include <stdlib.h>

#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_decl_priv.h"

enum {
    DECL_PATH_MAX = 107, /* bytes of a Unix socket's address, unix(7) */
    DECL_PORT_MAX = 65535,
};

static const char *
decl_keep_string(struct vcl_cx *cx, const struct ast_attr *a)
{
    return a == NULL ? NULL : vcl_copy(cx, cx->keep, a->strings->text);
}

static double
decl_seconds(const struct ast_attr *a, double otherwise)
{
    return a == NULL ? otherwise : a->number.r;
}

static int64_t
decl_int(const struct ast_attr *a, int64_t otherwise)
{
    return a == NULL ? otherwise : a->number.i;
}

/* --- probes --- */

/* The lines of .request as they are sent. */
static const char *
decl_request(struct vcl_cx *cx, const struct ast_attr *a)
{
    size_t len = 3;
    char *text, *to;

    for (const struct ast_string *s = a->strings; s != NULL; s = s->next)
        len += s->text.len + 2;
    text = to = vcl_alloc(cx, cx->keep, len);
    if (text == NULL)
        return NULL;
    for (const struct ast_string *s = a->strings; s != NULL; s = s->next) {
        memcpy(to, s->text.ptr, s->text.len);
        memcpy(to + s->text.len, "\r\n", 2);
        to += s->text.len + 2;
    }
    /* The blank line that ends the head, and the NUL. */
    memcpy(to, "\r\n", 3);
    return text;
}

/* .url goes into a request line as it is. */
static void
decl_check_url(struct vcl_cx *cx, const struct ast_attr *a)
{
    struct slice url = a->strings->text;

    if (url.len == 0 || memchr(url.ptr, ' ', url.len) != NULL ||
        memchr(url.ptr, '\t', url.len) != NULL)
        vcl_fail(cx, a->value_pos, NULL, ".url is a path without spaces: \"/health\"");
}

static void
decl_check_window(struct vcl_cx *cx, const struct ast_attr *window,
    const struct ast_attr *threshold, const struct vcl_probe_decl *d)
{
    /* As in Varnish: a window of another size with the default threshold was hardly meant. */
    if (window != NULL && threshold == NULL)
        vcl_fail(cx, window->pos, NULL, ".window wants a .threshold beside it");
    else if (threshold != NULL && d->threshold > d->window)
        vcl_fail(
            cx, threshold->value_pos, NULL, ".threshold is more than .window, %d", (int)d->window);
}

struct vcl_probe_decl *
decl_probe(struct vcl_cx *cx, const char *name, const struct ast_attr *attrs)
{
    const struct ast_attr *a[DECL_PROBE_COUNT] = {NULL};
    struct vcl_probe_decl *d = vcl_alloc(cx, cx->keep, sizeof(*d));

    if (d == NULL)
        return NULL;
    decl_probe_attrs(cx, attrs, a);
    if (a[DECL_PROBE_URL] != NULL && a[DECL_PROBE_REQUEST] != NULL)
        vcl_fail(cx, a[DECL_PROBE_REQUEST]->pos, NULL, "a probe has .url or .request, not both");
    if (a[DECL_PROBE_URL] != NULL)
        decl_check_url(cx, a[DECL_PROBE_URL]);
    d->name = name;
    d->url = decl_keep_string(cx, a[DECL_PROBE_URL]);
    if (a[DECL_PROBE_REQUEST] != NULL)
        d->request = decl_request(cx, a[DECL_PROBE_REQUEST]);
    else if (d->url == NULL)
        d->url = "/";
    /* The defaults are Varnish's, all of them. */
    d->timeout_s = decl_seconds(a[DECL_PROBE_TIMEOUT], 2);
    d->interval_s = decl_seconds(a[DECL_PROBE_INTERVAL], 5);
    d->window = decl_int(a[DECL_PROBE_WINDOW], 8);
    d->threshold = decl_int(a[DECL_PROBE_THRESHOLD], 3);
    d->initial = decl_int(a[DECL_PROBE_INITIAL], -1);
    d->expected_response = decl_int(a[DECL_PROBE_EXPECTED_RESPONSE], 200);
    d->expect_close = a[DECL_PROBE_EXPECT_CLOSE] == NULL || a[DECL_PROBE_EXPECT_CLOSE]->yes;
    /* Behind the defaults: a threshold is compared with a window that is not said, too. */
    decl_check_window(cx, a[DECL_PROBE_WINDOW], a[DECL_PROBE_THRESHOLD], d);
    return d;
}

/* --- backends --- */

/* A number from 1 to 65535, as text; "http" as services(5) has it. */
static const char *
decl_port(struct vcl_cx *cx, const struct ast_attr *at, struct slice text)
{
    unsigned long port = 0;

    if (slice_eq(text, slice_str("http")))
        /* Something valid: the error is reported, and no second one follows from it. */
        return "80";
    for (size_t i = 0; i < text.len && port <= DECL_PORT_MAX; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            /* Out of range after the next line. */
            port = DECL_PORT_MAX;
        port = port * 10 + (unsigned long)(text.ptr[i] - '0');
    }
    if (port == 0 || port > DECL_PORT_MAX) {
        vcl_fail(
            cx, at->value_pos, NULL, "a port is from 1 to %u, in quotes: \"8080\"", DECL_PORT_MAX);
        return "80";
    }
    return vcl_copy(cx, cx->keep, text);
}

/* Takes the port off "host:port", "[::1]:port" and "host port"; an address of IPv6 without
 * brackets has none. */
static struct slice
decl_split_port(struct slice *host)
{
    struct slice none = {NULL, 0}, port;
    const char *first = memchr(host->ptr, ':', host->len);
    const char *last = memrchr(host->ptr, ':', host->len);
    const char *space = memchr(host->ptr, ' ', host->len);
    /* Noted before: host->len changes below. */
    const char *end = host->ptr + host->len, *cut = NULL;

    if (host->len > 0 && host->ptr[0] == '[') {
        const char *close = memchr(host->ptr, ']', host->len);

        if (close == NULL)
            return none;
        host->ptr++;
        host->len = (size_t)(close - host->ptr);
        if (close + 1 == end)
            return none;
        if (close[1] == ':' || close[1] == ' ')
            return slice_of(close + 2, (size_t)(end - close - 2));
        host->len = 0; /* "[::1]x": no host, which is reported */
        return none;
    }
    if (space != NULL)
        cut = space;
    /* More than one colon: an address of IPv6. */
    else if (first != NULL && first == last)
        cut = first;
    if (cut == NULL)
        return none;
    port = slice_of(cut + 1, (size_t)(end - cut - 1));
    host->len = (size_t)(cut - host->ptr);
    return port;
}

static bool
decl_is_host(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                /* The percent sign is of a zone, as in fe80::1%eth0. */
                c == '.' || c == '-' || c == '_' || c == ':' || c == '%'))
            return false;
    }
    return host.len > 0;
}

static void
decl_host(struct vcl_cx *cx, const struct ast_attr *host, const struct ast_attr *port,
    struct vcl_backend_decl *out)
{
    struct slice name = host->strings->text;
    bool is_url = name.len > 0 && memchr(name.ptr, '/', name.len) != NULL;
    struct slice said = {NULL, 0};

    /* The colon of a URL is no port's; that it is none is what is reported. */
    if (!is_url)
        said = decl_split_port(&name);

    if (!decl_is_host(name))
        vcl_fail(cx, host->value_pos,
            "such as \"192.0.2.1\", \"[2001:db8::1]:8080\" or "
            "\"www.example.com\"",
            "this is no host");
    out->host = vcl_copy(cx, cx->keep, name);
    /* Varnish's default. */
    out->port = "80";
    if (said.ptr != NULL && port != NULL)
        vcl_fail(cx, port->pos, NULL, "the port is part of .host already");
    else if (said.ptr != NULL)
        out->port = decl_port(cx, host, said);
    else if (port != NULL)
        out->port = decl_port(cx, port, port->strings->text);
}

static void
decl_address(struct vcl_cx *cx, const struct ast_decl *d, const struct ast_attr *const *a,
    struct vcl_backend_decl *out)
{
    const struct ast_attr *host = a[DECL_BACKEND_HOST], *path = a[DECL_BACKEND_PATH];

    if (host != NULL && path != NULL) {
        /* At the one that stands below: the first may be right. */
        vcl_fail(cx, (host->pos.off > path->pos.off ? host : path)->pos, NULL,
            "a backend has .host or .path, not both");
    } else if (host != NULL) {
        decl_host(cx, host, a[DECL_BACKEND_PORT], out);
    } else if (path != NULL) {
        struct slice text = path->strings->text;

        if (text.len == 0 || text.ptr[0] != '/' || text.len > DECL_PATH_MAX)
            vcl_fail(cx, path->value_pos, NULL,
                ".path is an absolute path of at most %u characters", DECL_PATH_MAX);
        out->path = decl_keep_string(cx, path);
    } else {
        bool said = false; /* but wrong, and that is reported */

        for (const struct ast_attr *any = d->attrs; any != NULL; any = any->next)
            said |=
                slice_eq(any->name, slice_str("host")) || slice_eq(any->name, slice_str("path"));
        if (!said)
            vcl_fail(cx, d->pos, ".host = \"192.0.2.1\";", "a backend needs .host or .path");
    }
}

static const struct vcl_probe_decl *
decl_backend_probe(struct vcl_cx *cx, const struct ast_attr *a)
{
    struct vcl_pos declared = {NULL, 0, 0};
    const struct vcl_probe_decl *probe;

    /* A probe called default is that of all backends that name none; there need not be one. */
    if (a == NULL)
        return decl_probe_named(cx, slice_str("default"), &declared);
    if (a->kind == AST_ATTR_BLOCK)
        /* Its own, without a name. */
        return decl_probe(cx, NULL, a->attrs);
    probe = decl_probe_named(cx, a->word, &declared);
    if (probe == NULL) {
        struct vcl_guess guess = {.meant = a->word};

        for (const struct ast_decl *d = cx->ast.probes; d != NULL; d = d->next)
            vcl_guess_try(&guess,
                vcl_text(cx, "%.*s", (int)(d->name.len > 64 ? 64 : d->name.len), d->name.ptr));
        vcl_fail(cx, a->value_pos, vcl_guess_hint(cx, &guess), "there is no probe %.*s",
            (int)(a->word.len > 60 ? 60 : a->word.len), a->word.ptr);
    } else if (declared.file == a->pos.file && declared.off > a->pos.off) {
        vcl_warn(cx, a->value_pos, NULL, "Varnish wants a probe above the backends that name it");
    }
    return probe;
}

enum {
    DECL_WAIT_TIMEOUT_S = 30 /* Varnish's backend_wait_timeout */
};

/* Said, and of no effect. */
static void
decl_warn_wait(struct vcl_cx *cx, const struct vcl_backend_decl *b, const struct ast_attr *const *a)
{
    const struct ast_attr *limit = a[DECL_BACKEND_WAIT_LIMIT],
                          *timeout = a[DECL_BACKEND_WAIT_TIMEOUT];

    /* A warning: with a policy for Varnish both may come from different places. */
    if (b->wait_limit > 0 && b->max_connections == 0)
        vcl_warn(cx, limit->pos, "add .max_connections",
            ".wait_limit does nothing without .max_connections: nothing waits for a connection");
    else if (timeout != NULL && b->wait_limit == 0)
        vcl_warn(cx, timeout->pos, "add .wait_limit",
            ".wait_timeout does nothing without .wait_limit: nothing waits for a connection");
}

/* *out is zeroed, and stays valid after errors: code that names the backend is checked all the
 * same. */
void
decl_backend(struct vcl_cx *cx, const struct ast_decl *d, struct vcl_backend_decl *out)
{
    const struct ast_attr *a[DECL_BACKEND_COUNT] = {NULL};
    unsigned column;

    out->name = vcl_copy(cx, cx->keep, d->name);
    out->none = d->none;
    out->file = d->pos.file->name;
    vcl_pos_place(d->pos, &out->line, &column);
    /* -1: the configuration's parameters. */
    out->connect_timeout_s = out->first_byte_timeout_s = out->between_bytes_timeout_s = -1;
    /* The name is known all the same, so that uses of it are no errors. */
    if (d->none || d->broken)
        return;
    decl_backend_attrs(cx, d->attrs, a);
    decl_address(cx, d, a, out);
    out->host_header = decl_keep_string(cx, a[DECL_BACKEND_HOST_HEADER]);
    out->connect_timeout_s = decl_seconds(a[DECL_BACKEND_CONNECT_TIMEOUT], -1);
    out->first_byte_timeout_s = decl_seconds(a[DECL_BACKEND_FIRST_BYTE_TIMEOUT], -1);
    out->between_bytes_timeout_s = decl_seconds(a[DECL_BACKEND_BETWEEN_BYTES_TIMEOUT], -1);
    out->max_connections = decl_int(a[DECL_BACKEND_MAX_CONNECTIONS], 0);
    out->wait_limit = decl_int(a[DECL_BACKEND_WAIT_LIMIT], 0);
    out->wait_timeout_s = decl_seconds(a[DECL_BACKEND_WAIT_TIMEOUT], DECL_WAIT_TIMEOUT_S);
    decl_warn_wait(cx, out, a);
    out->proxy_header = decl_int(a[DECL_BACKEND_PROXY_HEADER], 0);
    out->probe = decl_backend_probe(cx, a[DECL_BACKEND_PROBE]);
}
