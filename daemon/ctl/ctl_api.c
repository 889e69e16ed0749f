/* ctl_api.c -- questions to tarnd's admin listener.
 *
 * One command is one or a few HTTP requests, each with a connection of its own: the admin
 * listener is asked seldom, and a fresh connection shows at once that tarnd was restarted.  An
 * answer is read whole before anything of it is printed, so a half answer is never taken for a
 * table.
 *
 *   tarnctl purge /a   ->   POST /v1/purge {"url": "/a", "soft": false}   ->   {"purged": 1, "url": "..."}
 *
 * Every failure ends as one of the exit statuses of ctl.h; its reason has been printed here by
 * then.  Commands only return the status.
 */
#include <curl/curl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/slurp.h"
#include "daemon/ctl/ctl.h"

enum {
    /* Bytes.  /v1/index/dump and /v1/tables/NAME answer in pages far below it. */
    ANSWER_MAX = 64 << 20,
    CONNECT_MS = 5000,
    ANSWER_MS = 60 * 1000, /* a policy that compiles, a ban over a large cache */
    UNIX_PREFIX = 5,       /* "unix:" */
};

struct answer {
    char *text;
    size_t len, room;
    bool too_long;
};

void
ctl_say(const char *fmt, ...)
{
    va_list ap;

    fputs("tarnctl: ", stderr);
    va_start(ap, fmt);
    ctl_vline(stderr, fmt, ap);
    va_end(ap);
}

void
ctl_note(const json_t *o)
{
    const char *note = json_string_value(json_object_get(o, "note"));

    if (note != NULL)
        ctl_line(stderr, "note: %s", note);
}

int
ctl_slurp(const char *name, struct span *out)
{
    int err = slurp_file(name, out);

    if (err == 0)
        return CTL_DONE;
    ctl_say("%s: %s", name, strerror(err));
    return CTL_USAGE;
}

char *
ctl_escaped(const char *prefix, const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0), *path = NULL;

    if (escaped != NULL && asprintf(&path, "%s%s", prefix, escaped) < 0)
        path = NULL;
    curl_free(escaped);
    return path;
}

/* /v1/policies and a/b: "/v1/policies/a%2Fb". */
char *
ctl_path(const char *prefix, const char *name)
{
    /* A name may have any byte: a slash in it must not become a step of the path. */
    char *segment = ctl_escaped("/", name), *path = NULL;

    if (segment != NULL && asprintf(&path, "%s%s", prefix, segment) < 0)
        path = NULL;
    free(segment);
    return path;
}

/* json_string() gives NULL for what is not UTF-8, and what contains it is left out of its list: a purge
 * without a field would be one of another key. */
bool
ctl_args_are_text(const struct ctl *c)
{
    for (int i = 0; i < c->nargs; i++) {
        json_t *text = json_string(c->args[i]);

        if (text == NULL) {
            ctl_say("'%s' is not UTF-8, and the admin API takes nothing else", c->args[i]);
            return false;
        }
        json_decref(text);
    }
    return true;
}

/* Curl's write callback: may be called many times for one answer.  A count other than `len`
 * makes curl end the transfer with CURLE_WRITE_ERROR; `too_long` lets api_exchange() name the
 * reason. */
static size_t
answer_take(char *bytes, size_t size, size_t n, void *to)
{
    struct answer *a = to;
    size_t len = size * n;

    /* A server that is no tarnd may send without end. */
    if (a->len + len > ANSWER_MAX) {
        a->too_long = true;
        return 0;
    }
    if (a->len + len > a->room) {
        /* Doubled: an index of 64 MiB in pieces of 16 KiB would otherwise be copied four
         * thousand times. */
        size_t room = (a->len + len) * 2;
        char *more = realloc(a->text, room);

        if (more == NULL)
            return 0;
        a->text = more;
        a->room = room;
    }
    memcpy(a->text + a->len, bytes, len);
    a->len += len;
    return len;
}

/* Where, as curl wants it. */
static CURLcode
api_aim(const struct ctl *c, CURL *curl, const char *path)
{
    bool is_unix = strncmp(c->admin, "unix:", UNIX_PREFIX) == 0;
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    char *url = NULL;

    /* Over a socket any name leads there; "tarn" is one that tarnd takes as its own (admin/README
     * 14). */
    if (asprintf(&url, "http://%s%s", is_unix ? "tarn" : c->admin, path) < 0)
        return rc;
    rc = curl_easy_setopt(curl, CURLOPT_URL, url);
    if (rc == CURLE_OK && is_unix)
        rc = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->admin + UNIX_PREFIX);
    free(url);
    return rc;
}

/* NULL: out of memory; a request without its token would be refused, and that be taken for the
 * reason. */
static struct curl_slist *
api_headers(const struct ctl *c)
{
    /* Empty: curl would wait for 100 Continue before a large body. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"), *longer = list;
    char *line = NULL;

    if (c->token != NULL && list != NULL) {
        int n = asprintf(&line, "Authorization: Bearer %s", c->token);

        longer = n < 0 ? NULL : curl_slist_append(list, line);
        if (n >= 0)
            free(line);
    }
    if (longer == NULL)
        curl_slist_free_all(list);
    return longer;
}

/* Why nothing came.  Curl speaks of a port 80 also where there is a socket.  `quiet` is set by
 * `log --wait`, which asks twice a second until a tarnd answers: one line a question would bury
 * the log. */
static void
api_say_lost(const struct ctl *c, CURL *curl, CURLcode rc, const char *why)
{
    long err = 0;

    if (c->quiet)
        return;
    if (curl != NULL && rc == CURLE_COULDNT_CONNECT)
        curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &err);
    /* "Connection refused" and "Permission denied" say more than curl does. */
    if (err != 0)
        why = strerror((int)err);
    ctl_say("%s: %s", c->admin, why[0] != '\0' ? why : curl_easy_strerror(rc));
    if (rc == CURLE_COULDNT_CONNECT)
        fprintf(stderr, "    hint: is tarnd running, and is that the address of `admin:` in its "
                        "configuration?\n");
}

/* What curl says, or why nothing came.  The status in *status. */
static int
api_exchange(struct ctl *c, const char *method, const char *path, struct slice body,
    struct answer *a, long *status)
{
    char why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = api_headers(c);
    CURL *curl = curl_easy_init();
    /* From here all paths lead to the same end: curl's cleanup functions take NULL. */
    CURLcode rc = curl == NULL || headers == NULL ? CURLE_OUT_OF_MEMORY : api_aim(c, curl, path);

    if (rc == CURLE_OK) {
        /* http_proxy of the environment is for other servers: the token must not go there. */
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(ANSWER_MS + c->patience_ms));
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, answer_take);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
        /* Whatever POSTFIELDS would make of it: a PUT has a body from memory, too. */
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
        /* By length: a policy's text may have a NUL in it, which tarnd is to refuse. */
        if (body.ptr != NULL) {
            curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.ptr);
        }
        rc = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    }
    if (rc != CURLE_OK)
        api_say_lost(c, curl, rc, a->too_long ? "its answer is too long" : why);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return rc == CURLE_OK ? CTL_DONE : CTL_UNREACHABLE;
}

/* The line of the policy with a mark below the column, as compilers show it.  `column` counts
 * bytes from 1:
 *
 *       if (req.urll == "/") {
 *           ^ */
static void
api_say_place(const json_t *e)
{
    const char *source = json_string_value(json_object_get(e, "source"));
    json_int_t column = json_integer_value(json_object_get(e, "column"));

    if (source == NULL)
        return;
    fprintf(stderr, "    %s\n", source);
    /* The line may be cut: a mark beyond it would point at nothing. */
    if (column > 0 && (size_t)column <= strlen(source) + 1)
        fprintf(stderr, "    %*s\n", (int)column, "^");
}

/* "FILE:LINE:COLUMN: ", as far as it is known. */
static void
api_say_file(const json_t *e, const char *file)
{
    long long line = json_integer_value(json_object_get(e, "line"));
    long long column = json_integer_value(json_object_get(e, "column"));

    fprintf(stderr, "%s:", file);
    if (line > 0)
        fprintf(stderr, "%lld:", line);
    if (column > 0)
        fprintf(stderr, "%lld:", column);
    fputc(' ', stderr);
}

/* An error as tarnd tells it: what, what would be right, and of a policy each mistake.  A policy
 * that does not compile has `errors`, one row for each mistake, and these come first: the last
 * line on a terminal is then the summary.  Answers of other commands have `error` and `hint`
 * only.  Any member may be absent: a proxy between us and tarnd may answer with JSON of its own. */
static void
api_say_refusal(const json_t *o, long status)
{
    const char *error = json_string_value(json_object_get(o, "error"));
    const char *hint = json_string_value(json_object_get(o, "hint"));
    const json_t *errors = json_object_get(o, "errors");
    json_t *e;
    size_t i;

    json_array_foreach(errors, i, e)
    {
        const char *message = json_string_value(json_object_get(e, "message"));
        const char *file = json_string_value(json_object_get(e, "file"));
        const char *what = json_string_value(json_object_get(e, "hint"));

        if (file != NULL)
            api_say_file(e, file);
        ctl_line(stderr, "%s", message != NULL ? message : "?");
        api_say_place(e);
        if (what != NULL)
            ctl_line(stderr, "    hint: %s", what);
    }
    /* Applied there, and its place in the fleet's log is not known. */
    if (error == NULL && json_object_get(o, "proof") != NULL)
        error = json_string_value(json_object_get(o, "why"));
    if (error != NULL)
        ctl_say("%s%s",
            json_object_get(o, "proof") != NULL ? "done at this node, and perhaps nowhere else: "
                                                : "",
            error);
    else
        ctl_say("tarnd answered with status %ld", status);
    if (hint != NULL)
        ctl_line(stderr, "    hint: %s", hint);
    if (status == 401)
        fprintf(stderr, "    hint: tarnctl takes the token from TARN_TOKEN or --token-file\n");
}

/* Three things may go wrong, and each has its exit status: no answer (UNREACHABLE), an answer
 * that is not JSON (UNREACHABLE: it is another server), a status outside 2xx (REFUSED).  *out is
 * NULL in all of them, so that callers may give it to json_decref() without a look at the
 * result. */
int
ctl_ask_with(struct ctl *c, const char *method, const char *path, struct slice body, json_t **out)
{
    struct answer a = {.text = NULL};
    char why[256] = "";
    long status = 0;
    int rc;

    *out = NULL;
    /* ctl_path() had no memory. */
    if (path == NULL) {
        ctl_say("out of memory");
        return CTL_REFUSED;
    }
    rc = api_exchange(c, method, path, body, &a, &status);
    if (rc == CTL_DONE) {
        *out = json_parse(slice_of(a.text, a.len), why, sizeof(why));
        if (*out == NULL) {
            ctl_say("%s: status %ld, and what came is not JSON (%s): is that a tarnd?", c->admin,
                status, why);
            rc = CTL_UNREACHABLE;
            /* As it came, also when it is a refusal: scripts read that, too. */
        } else if (c->json) {
            fwrite(a.text, 1, a.len, stdout);
        }
    }
    if (rc == CTL_DONE && (status < 200 || status > 299)) {
        api_say_refusal(*out, status);
        rc = CTL_REFUSED;
    }
    free(a.text);
    if (rc != CTL_DONE) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

int
ctl_ask(struct ctl *c, const char *method, const char *path, json_t *body, json_t **out)
{
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    bool whole = body == NULL || text != NULL;
    int rc;

    json_decref(body);
    *out = NULL;
    if (!whole) {
        ctl_say("out of memory");
        return CTL_REFUSED;
    }
    rc = ctl_ask_with(c, method, path, text == NULL ? slice_of(NULL, 0) : slice_str(text), out);
    free(text);
    return rc;
}
