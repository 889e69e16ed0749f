/* h2_head_fuzz.c -- field blocks: what h2_head_read() lets through is a request as RFC 9113 8.2 and 8.3 have it, and
 * says what nghttp2's inflater, used alone, says that it says.
 *
 * The first byte is how: bit 0, the rest is text, a block of literals, of which 0xFE ends a name and 0xFF a field; else
 * it is up to 8 blocks of one connection, with two bytes of length in front of each.  Bits 1 to 7 and 0: which of them
 * have END_STREAM.
 *
 * All of it is said by three connections one behind the other: the last meets the memo of heads (h2_memo.h).
 *
 * The judge shares no line with daemon/http. */
#include <stdlib.h>
#include <strings.h>

#include "daemon/base/terr.h"
#include "daemon/h2/h2_conn.h"
#include "t/unit/fake_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    INPUT_MAX = 4096,
    BLOCKS_MAX = 8,
    TEXT_BLOCK_MAX = 2 * INPUT_MAX + 64,
    FIELDS = 2048,
    TEXTS = 1 << 19,
    HEAD_MAX = 8000,
    CONNS = 3, /* the memo of heads knows a block from the third time on */
};

struct judge_text {
    const char *p;
    size_t len;
};

struct judge_field {
    struct judge_text name, value;
};

/* A block as nghttp2 decodes it. */
static struct {
    struct judge_field fields[FIELDS];
    size_t n;
    char texts[TEXTS];
    size_t len;
    bool cut; /* there was more of it than there is room for */
} judged;

static struct counters *counters;

/* ---- decoding ---- */

static struct judge_text
judge_keep(const uint8_t *p, size_t len)
{
    struct judge_text t = {judged.texts + judged.len, len};

    memcpy(judged.texts + judged.len, p, len);
    judged.len += len;
    return t;
}

/* How many sizes of the table it begins with (RFC 7541 6.3). */
static unsigned
judge_sizes(const uint8_t *p, size_t len)
{
    bool inside = false; /* a number of several bytes */
    unsigned n = 0;

    for (size_t i = 0; i < len; i++) {
        if (inside) {
            inside = p[i] >= 128;
        } else if (p[i] >= 32 && p[i] < 64) {
            n++;
            inside = p[i] == 63;
        } else {
            break;
        }
    }
    return n;
}

/* 0 or nghttp2's error; > 0: it ended inside a field, or says more sizes than the two of RFC 7541 4.2, which nghttp2
 * takes. */
static int
judge_decode(nghttp2_hd_inflater *inflater, const uint8_t *p, size_t len)
{
    judged.n = judged.len = 0;
    judged.cut = false;
    if (judge_sizes(p, len) > 2)
        return 1;
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, p, len, 1);

        if (used < 0)
            return (int)used;
        p += used;
        len -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            if (judged.n == FIELDS || nv.namelen + nv.valuelen > TEXTS - judged.len) {
                judged.cut = true;
                return 0;
            }
            judged.fields[judged.n].name = judge_keep(nv.name, nv.namelen);
            judged.fields[judged.n++].value = judge_keep(nv.value, nv.valuelen);
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && len == 0)
            return 1;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    return 0;
}

/* ---- what a request may be ---- */

static bool
judge_is(struct judge_text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.p, s, t.len) == 0;
}

static bool
judge_is_nocase(struct judge_text t, const char *s)
{
    return t.len == strlen(s) && strncasecmp(t.p, s, t.len) == 0;
}

static bool
judge_same(struct judge_text a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.ptr, a.len) == 0);
}

/* RFC 9110 5.6.2. */
static bool
judge_token(struct judge_text t, bool capitals)
{
    for (size_t i = 0; i < t.len; i++) {
        char ch = t.p[i];

        if ((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') ||
            (capitals && ch >= 'A' && ch <= 'Z'))
            continue;
        if (ch == '\0' || strchr("!#$%&'*+-.^_`|~", ch) == NULL)
            return false;
    }
    return t.len > 0;
}

/* RFC 9113 8.2.1, and no other control byte either: behind us there is HTTP/1. */
static bool
judge_value(struct judge_text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (((unsigned char)t.p[i] < ' ' && t.p[i] != '\t') || t.p[i] == 127)
            return false;
    return t.len == 0 || !(strchr(" \t", t.p[0]) != NULL || strchr(" \t", t.p[t.len - 1]) != NULL);
}

/* What stands in HTTP/1's first line, or in Host: one word. */
static bool
judge_word(struct judge_text t)
{
    for (size_t i = 0; i < t.len; i++)
        if ((unsigned char)t.p[i] <= ' ' || t.p[i] == 127)
            return false;
    return t.len > 0;
}

/* RFC 9113 8.2.2. */
static bool
judge_field(const struct judge_field *f)
{
    static const char *const of_connection[] = {
        "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"};

    for (unsigned i = 0; i < ARRAY_LEN(of_connection); i++)
        if (judge_is(f->name, of_connection[i]))
            return false;
    return !judge_is(f->name, "te") || judge_is_nocase(f->value, "trailers");
}

struct judge_head {
    const struct judge_field *pseudo[5]; /* :method, :scheme, :authority, :path, :protocol */
    const struct judge_field *host, *length;
    unsigned nhosts;
};

static bool
judge_pseudo(struct judge_head *h, const struct judge_field *f)
{
    static const char *const names[] = {":method", ":scheme", ":authority", ":path", ":protocol"};

    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (!judge_is(f->name, names[i]))
            continue;
        if (h->pseudo[i] != NULL)
            return false;
        h->pseudo[i] = f;
        return true;
    }
    return false;
}

/* Field by field. */
static bool
judge_fields(struct judge_head *h)
{
    bool regular = false;

    memset(h, 0, sizeof(*h));
    for (size_t i = 0; i < judged.n; i++) {
        const struct judge_field *f = &judged.fields[i];

        if (!judge_value(f->value))
            return false;
        if (f->name.len > 0 && f->name.p[0] == ':') {
            if (regular || !judge_pseudo(h, f))
                return false;
            continue;
        }
        regular = true;
        if (!judge_token(f->name, false) || !judge_field(f))
            return false;
        if (judge_is(f->name, "host")) {
            h->host = f;
            h->nhosts++;
        }
        if (judge_is(f->name, "content-length")) {
            if (h->length != NULL && !(h->length->value.len == f->value.len &&
                                         memcmp(h->length->value.p, f->value.p, f->value.len) == 0))
                return false;
            h->length = f;
        }
    }
    return true;
}

static bool
judge_number(struct judge_text t, bool *zero)
{
    *zero = true;
    for (size_t i = 0; i < t.len; i++) {
        if (t.p[i] < '0' || t.p[i] > '9')
            return false;
        *zero = *zero && t.p[i] == '0';
    }
    return t.len > 0;
}

/* RFC 8441 4: CONNECT and :protocol go together, with all the others, and without a body. */
static bool
judge_connect(const struct judge_head *h)
{
    bool is_connect = judge_is(h->pseudo[0]->value, "CONNECT");

    if (h->pseudo[4] == NULL)
        return !is_connect;
    return is_connect && judge_is_nocase(h->pseudo[4]->value, "websocket") &&
           h->pseudo[2] != NULL && h->length == NULL;
}

/* RFC 9113 8.3.1 and 8.1.1.  What it refuses may not go on. */
static bool
judge_request(struct judge_head *h, bool ends)
{
    struct judge_text path, host;
    bool zero;

    if (!judge_fields(h) || h->pseudo[0] == NULL || h->pseudo[1] == NULL || h->pseudo[3] == NULL)
        return false;
    path = h->pseudo[3]->value;
    if (!judge_token(h->pseudo[0]->value, true) || !judge_connect(h))
        return false;
    if (!judge_is_nocase(h->pseudo[1]->value, "http") &&
        !judge_is_nocase(h->pseudo[1]->value, "https"))
        return false;
    if (!judge_word(path) || (path.p[0] != '/' && !judge_is(path, "*")))
        return false;
    if (judge_is(path, "*") && !judge_is(h->pseudo[0]->value, "OPTIONS"))
        return false;
    if (h->nhosts > 1 || (h->host == NULL && h->pseudo[2] == NULL))
        return false;
    if (h->host != NULL && h->pseudo[2] != NULL &&
        (h->host->value.len != h->pseudo[2]->value.len ||
            strncasecmp(h->host->value.p, h->pseudo[2]->value.p, h->host->value.len) != 0))
        return false;
    host = h->pseudo[2] != NULL ? h->pseudo[2]->value : h->host->value;
    if (!judge_word(host) || memchr(host.p, '@', host.len) != NULL)
        return false;
    return h->length == NULL || (judge_number(h->length->value, &zero) && (!ends || zero));
}

/* Nothing in it that a limit, or a rule of another place, could be about: then it must be let through. */
static bool
judge_is_plain(const struct judge_head *h)
{
    struct judge_text host = h->pseudo[2] != NULL ? h->pseudo[2]->value : h->host->value;

    if (judged.n > 20 || judged.len > 1000 || h->length != NULL)
        return false;
    if (!judge_is(h->pseudo[0]->value, "GET") && !judge_is(h->pseudo[0]->value, "POST"))
        return false;
    for (size_t i = 0; i < judged.n; i++)
        if (judge_is(judged.fields[i].name, "expect") ||
            judge_is(judged.fields[i].name, "http2-settings"))
            return false;
    for (size_t i = 0; i < host.len; i++)
        if (host.p[i] < 'a' || host.p[i] > 'z')
            return false;
    for (size_t i = 0; i < h->pseudo[3]->value.len; i++)
        if (h->pseudo[3]->value.p[i] < '/' || h->pseudo[3]->value.p[i] > 'z')
            return false;
    return true;
}

/* ---- the same, field by field ---- */

/* All crumbs, joined (RFC 9113 8.2.3). */
static void
judge_cookie(struct slice got)
{
    size_t at = 0;
    bool first = true;

    for (size_t i = 0; i < judged.n; i++) {
        const struct judge_field *f = &judged.fields[i];

        if (!judge_is(f->name, "cookie"))
            continue;
        if (!first) {
            tassert(got.len - at >= 2 && memcmp(got.ptr + at, "; ", 2) == 0);
            at += 2;
        }
        first = false;
        tassert(got.len - at >= f->value.len);
        tassert(f->value.len == 0 || memcmp(got.ptr + at, f->value.p, f->value.len) == 0);
        at += f->value.len;
    }
    tassert(at == got.len);
}

static void
judge_compare(const struct judge_head *h, const struct http_message *m)
{
    unsigned at = 0;
    bool cookie = false;

    bool is_connect = h->pseudo[4] != NULL;
    struct slice method = http_slice(m, m->method_off, m->method_len);

    if (is_connect)
        tassert(slice_eq(method, SLICE_LIT("GET")));
    else
        tassert(judge_same(h->pseudo[0]->value, method));
    tassert(judge_same(h->pseudo[3]->value, http_slice(m, m->target_off, m->target_len)));
    if (h->nhosts == 0) {
        const struct http_field *f = &m->fields[at++];

        tassert(m->nfields > 0 && f->id == HTTP_F_HOST);
        tassert(slice_eq(http_name(m, f), SLICE_LIT("Host")));
        tassert(judge_same(h->pseudo[2]->value, http_value(m, f)));
    }
    for (size_t i = 0; i < judged.n; i++) {
        const struct judge_field *want = &judged.fields[i];
        const struct http_field *f = &m->fields[at];

        if (want->name.p[0] == ':' || (cookie && judge_is(want->name, "cookie")))
            continue;
        if (is_connect && judge_is(want->name, "sec-websocket-key"))
            continue;
        tassert(at++ < m->nfields && judge_same(want->name, http_name(m, f)));
        tassert(f->id == http_field_id(want->name.p, want->name.len));
        tassert(f->id == HTTP_F_OTHER || http_has(m, (enum http_field_id)f->id));
        if (judge_is(want->name, "cookie")) {
            cookie = true;
            judge_cookie(http_value(m, f));
        } else {
            tassert(judge_same(want->value, http_value(m, f)));
        }
    }
    tassert(at + (is_connect ? 3u : 0) == m->nfields); /* Upgrade, Connection, and a key of ours */
}

/* ---- blocks ---- */

/* False: the connection has ended. */
static bool
fuzz_block(
    struct h2_conn *c, nghttp2_hd_inflater *inflater, const uint8_t *p, size_t len, bool ends)
{
    struct h2_stream *s = h2_stream_new(c, c->last_id += 2);
    char *exact = malloc(len + 1);
    struct judge_head h;
    int rc, err;

    tassert(s != NULL && exact != NULL);
    if (len > 0)
        memcpy(exact + 1, p, len);
    s->in_ended = ends;
    rc = h2_head_read(c, s, exact + 1, len, false);
    free(exact);
    err = judge_decode(inflater, p, len);
    tassert((err == 0) == (rc <= 0 || rc == H2_ENHANCE_YOUR_CALM));
    if (rc == 0) {
        tassert(!judged.cut && judge_request(&h, ends));
        judge_compare(&h, &s->x.head);
    } else if (rc < 0 && !judged.cut && judge_request(&h, ends)) {
        tassert(!judge_is_plain(&h));
    }
    h2_stream_free(s);
    c->server->heads_len = 0;
    return rc <= 0 && !judged.cut;
}

static size_t
fuzz_put_string(uint8_t *to, const uint8_t *p, size_t len)
{
    size_t at = 0, rest = len;

    if (len < 127) {
        to[at++] = (uint8_t)len;
    } else {
        to[at++] = 127;
        for (rest -= 127; rest >= 128; rest >>= 7)
            to[at++] = (uint8_t)(rest | 128);
        to[at++] = (uint8_t)rest;
    }
    memcpy(to + at, p, len);
    return at + len;
}

static void
fuzz_text(struct h2_conn *c, nghttp2_hd_inflater *inflater, const uint8_t *p, size_t len, bool ends)
{
    static uint8_t block[4 * TEXT_BLOCK_MAX];
    size_t at = 0;

    while (len > 0) {
        const uint8_t *end = memchr(p, 0xFF, len), *name;
        size_t line = end != NULL ? (size_t)(end - p) : len, n;

        name = memchr(p, 0xFE, line);
        n = name != NULL ? (size_t)(name - p) : line;
        block[at++] = 0;
        at += fuzz_put_string(block + at, p, n);
        at += fuzz_put_string(block + at, p + n + (name != NULL), line - n - (name != NULL));
        p += line + (end != NULL);
        len -= line + (end != NULL);
    }
    fuzz_block(c, inflater, block, at, ends);
}

static void
fuzz_blocks(
    struct h2_conn *c, nghttp2_hd_inflater *inflater, const uint8_t *p, size_t len, uint8_t how)
{
    for (unsigned i = 0; i < BLOCKS_MAX && len >= 2; i++) {
        size_t n = (size_t)p[0] << 8 | p[1];

        p += 2;
        len -= 2;
        if (n > len)
            n = len;
        if (!fuzz_block(c, inflater, p, n, (how >> (i + 1) % 8 & 1) != 0))
            return;
        p += n;
        len -= n;
    }
}

static void
fuzz_on_ended(void *ctx, const struct conn_facts *facts)
{
    (void)ctx;
    (void)facts;
}

static void
fuzz_conn(struct loop *loop, struct conn_server *server, const uint8_t *data, size_t size)
{
    static const struct conn_listener listener = {.name = "", .endpoint = ""};
    static const struct conn_facts facts = {.listener = &listener};
    nghttp2_hd_inflater *inflater;
    struct stream *s;
    struct h2_conn *c;

    tassert(nghttp2_hd_inflate_new(&inflater) == 0);
    tassert(stream_accept(&s, loop, -1, false, NULL) == 0);
    tassert(server->ops->adopt(server, &s, &facts) == 0);
    c = container_of(h2_server_of(server)->conns.next, struct h2_conn, link);
    c->last_id = 1;
    if ((data[0] & 1) != 0)
        fuzz_text(c, inflater, data + 1, size - 1, (data[0] & 2) != 0);
    else
        fuzz_blocks(c, inflater, data + 1, size - 1, data[0]);
    server->ops->cut(server);
    fake_run(loop);
    nghttp2_hd_inflate_del(inflater);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct client_conf conf = {.fields_max = 64,
        .req_line_max = 2000,
        .req_field_max = 4000,
        .req_head_max = HEAD_MAX,
        .any_method = true,
        .head_memo = true};
    static const struct h2_conf h2 = {
        .streams_max = 1, .initial_window = H2_WINDOW_DEFAULT, .max_frame = H2_FRAME_MIN_MAX};
    struct loop loop;
    struct h2_server_env env = {.loop = &loop, .conf = &conf, .h2 = &h2};
    struct conn_server *server;

    if (size < 2 || size > INPUT_MAX)
        return 0;
    if (counters == NULL)
        tassert(counters_open(&counters, NULL, 1) == 0);
    env.counters = counters_worker(counters, 0);
    fake_loop_open(&loop);
    tassert(h2_server_open(&server, &env) == 0);
    server->ended = fuzz_on_ended;
    for (unsigned i = 0; i < CONNS; i++)
        fuzz_conn(&loop, server, data, size);
    server->ops->close(&server);
    for (unsigned i = 0; i < USAGE_KINDS; i++)
        tassert(loop.usage.bytes[i] == 0);
    fake_loop_close(&loop);
    return 0;
}
