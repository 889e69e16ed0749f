/* acme_http.c -- one request to the CA and its answer.
 *
 * The peer is not trusted, though its certificate is checked: an https_proxy, another directory or a CA that was
 * broken into may answer anything.  So every length is bounded here, and fields are judged where they arrive. */
#include "daemon/acme/acme_http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/acme/acme_time.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define HTTP_MAGIC OBJ_TAG('a', 'c', 'm', 'h')

enum {
    CONNECT_MS = 15 * 1000,
    ANSWER_MS = 60 * 1000,
    HEAD_MAX = 64 << 10,
    FIELDS_MAX = 200, /* each costs a call; a CA sends twenty */
};

struct acme_http {
    uint32_t magic;
    CURL *curl;                 /* one connection serves all */
    const struct acme_env *env; /* borrowed */
    const char *ca;             /* borrowed */
};

/* What arrives. */
struct http_arrival {
    struct acme_answer *to;
    const struct acme_env *env;
    size_t room, head;
    unsigned nfields;
    bool too_long, stopped;
};

/* A count that is short ends the transfer.  No Accept-Encoding is sent, so the bytes are what they were on the way. */
static size_t
http_on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_arrival *a = arg;
    struct span *body = &a->to->body;
    size_t len = size * n;

    /* Checked before a byte is kept: Content-Length may be missing, or lie. */
    if (len > ACME_ANSWER_MAX - body->len) {
        a->too_long = true;
        return 0;
    }
    if (body->len + len + 1 > a->room) {
        /* Doubled, so that many small pieces cost as much as one large one. */
        size_t room = (body->len + len + 1) * 2;
        char *more = realloc(body->ptr, room);

        if (more == NULL)
            return 0;
        body->ptr = more;
        a->room = room;
    }
    memcpy(body->ptr + body->len, bytes, len);
    body->len += len;
    body->ptr[body->len] = '\0';
    return len;
}

/* The value of `line` if it is the field `name`, without white space around it. */
/* As it came: names in any case (RFC 9110 5.1), an end of CR LF or of LF. */
static bool
http_field(struct slice line, const char *name, struct slice *value)
{
    size_t n = strlen(name);

    if (line.len <= n || line.ptr[n] != ':' || strncasecmp(line.ptr, name, n) != 0)
        return false;
    *value = slice_of(line.ptr + n + 1, line.len - n - 1);
    while (value->len > 0 && strchr(" \t", value->ptr[0]) != NULL)
        *value = slice_of(value->ptr + 1, value->len - 1);
    while (value->len > 0 && strchr(" \t\r\n", value->ptr[value->len - 1]) != NULL)
        value->len--;
    return true;
}

static void
http_copy(char *out, size_t size, struct slice value)
{
    out[0] = '\0';
    /* What does not fit is none: a part of a URL is another URL. curl ends no field at a NUL, C does. */
    if (value.len < size && memchr(value.ptr, '\0', value.len) == NULL)
        snprintf(out, size, "%.*s", (int)value.len, value.ptr);
}

static size_t
http_on_field(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_arrival *a = arg;
    struct slice line = slice_of(bytes, size * n), value;

    /* curl bounds one line and, since 8.3 only, all of them.  Status lines count, too: of interim responses there
     * may be any number. */
    a->head += line.len;
    if (a->head > HEAD_MAX || ++a->nfields > FIELDS_MAX) {
        a->too_long = true;
        return 0;
    }
    if (http_field(line, "Replay-Nonce", &value)) {
        http_copy(a->to->nonce, sizeof(a->to->nonce), value);
        /* RFC 8555 6.5.1: what is not base64url is ignored. */
        if (strspn(
                a->to->nonce, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") !=
            strlen(a->to->nonce))
            a->to->nonce[0] = '\0';
    } else if (http_field(line, "Location", &value)) {
        http_copy(a->to->location, sizeof(a->to->location), value);
        /* It becomes the account's name or the order's, and is sent requests signed by our key: nothing but https. */
        if (!conf_acme_url_ok(a->to->location))
            a->to->location[0] = '\0';
    } else if (http_field(line, "Retry-After", &value)) {
        a->to->retry_after_s = acme_retry_after(value, a->env->now_s());
    }
    return line.len;
}

/* Called about once a second, also while nothing comes: a signal ends a wait for a CA that is silent. */
static int
http_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct http_arrival *arrival = arg;

    (void)a, (void)b, (void)c, (void)d;
    arrival->stopped = arrival->env->stopped();
    return arrival->stopped;
}

int
acme_http_open(
    struct acme_http **out, const char *ca, const struct acme_env *env, struct acme_fail *f)
{
    struct acme_http *h = calloc(1, sizeof(*h));

    if (h == NULL || (h->curl = curl_easy_init()) == NULL) {
        free(h);
        return acme_fail(f, TERR_NOMEM, "out of memory");
    }
    h->magic = HTTP_MAGIC;
    h->env = env;
    h->ca = ca;
    *out = h;
    return 0;
}

void
acme_http_close(struct acme_http **hp)
{
    struct acme_http *h;

    if (*hp == NULL)
        return;
    OBJ_TAKE(h, hp, HTTP_MAGIC);
    curl_easy_cleanup(h->curl);
    OBJ_FREE(h);
}

static void
http_set(struct acme_http *h, const char *url, struct http_arrival *a, char *why)
{
    CURL *c = h->curl;

    /* No option of the request before stays, and the connection does: a handshake for each would double the
     * work of both. */
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "tarn-acme/" TARN_VERSION); /* RFC 8555 6.1 */
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    /* A JWS names the URL that it is for (RFC 8555 6.4): at another one it is worthless, and not for its eyes. */
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    /* Else curl times its resolver by SIGALRM, in the midst of ours. */
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, http_on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, http_on_field);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, http_on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, a);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    /* What a proxy answers to CONNECT: its Retry-After is not the CA's. */
    curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (h->ca != NULL) {
        curl_easy_setopt(c, CURLOPT_CAINFO, h->ca);
        /* In place of the system's CAs, not besides: libcurl may have a directory of them, too. */
        curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    }
}

/* Why no answer came, and what would be right. */
static int
http_lost(const struct acme_http *h, const char *url, CURLcode rc, const struct http_arrival *a,
    const char *why, struct acme_fail *f)
{
    const char *advice = "";
    char shown[256], text[CURL_ERROR_SIZE];

    acme_printable(shown, sizeof(shown), url);
    acme_printable(text, sizeof(text), why[0] != '\0' ? why : curl_easy_strerror(rc));
    /* First: curl calls it an aborted callback, which would be a failure of the CA. */
    if (a->stopped) {
        f->stopped = true;
        return acme_fail(f, TERR_CANCELLED, "stopped by a signal");
    }
    if (a->too_long)
        return acme_fail(f, TERR_LIMIT,
            "%s: the answer is longer than %d bytes; is that an ACME CA?", shown, ACME_ANSWER_MAX);
    if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE)
        advice = h->ca != NULL ? "; is --ca the file of the CAs of that server?"
                               : "; a CA of your own needs --ca FILE, others the package "
                                 "ca-certificates and a right clock";
    else if (rc == CURLE_COULDNT_RESOLVE_HOST || rc == CURLE_COULDNT_CONNECT)
        advice = "; this machine must reach the CA, by port 443 or by https_proxy";
    return acme_fail(f, TERR_UNREACH, "%s: no answer: %s%s", shown, text, advice);
}

int
acme_http_ask(struct acme_http *h, enum acme_method method, const char *url, const char *body,
    struct acme_answer *out, struct acme_fail *f)
{
    char why[CURL_ERROR_SIZE] = "";
    struct http_arrival a = {.to = out, .env = h->env};
    struct curl_slist *fields = NULL;
    CURLcode rc;
    int err = 0;

    OBJ_CHECK(h, HTTP_MAGIC);
    *out = (struct acme_answer){.retry_after_s = -1};
    http_set(h, url, &a, why);
    if (method == ACME_HEAD)
        curl_easy_setopt(h->curl, CURLOPT_NOBODY, 1L);
    if (method == ACME_POST) {
        fields = curl_slist_append(NULL, "Content-Type: application/jose+json"); /* RFC 8555 6.2 */
        /* Not copied: it is the caller's until the transfer is over. */
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, fields);
    }
    rc = curl_easy_perform(h->curl);
    if (rc == CURLE_OK)
        curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &out->status);
    else
        err = http_lost(h, url, rc, &a, why, f);
    /* The buffer is this call's, and the handle outlives it. */
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(fields);
    if (err != 0)
        acme_answer_fini(out);
    return err;
}

void
acme_answer_fini(struct acme_answer *a)
{
    free(a->body.ptr);
    a->body = (struct span){NULL, 0};
}

json_t *
acme_answer_json(const struct acme_answer *a, struct acme_fail *f)
{
    char why[192] = "", shown[192];
    json_t *v =
        a->body.len > 0 ? json_parse(slice_of(a->body.ptr, a->body.len), why, sizeof(why)) : NULL;

    /* All that RFC 8555 defines are objects; a login page of a proxy is none. */
    if (json_is_object(v))
        return v;
    acme_printable(shown, sizeof(shown), why[0] != '\0' ? why : "no object");
    acme_fail(f, TERR_SYNTAX, "the CA's answer (HTTP %ld) is no JSON object: %s", a->status, shown);
    json_decref(v);
    return NULL;
}
