/* ctl_warm.c -- asks for every URL of a list or a sitemap, at a bounded rate, and counts what came.
 *
 *   tarnctl warm urls.txt | http://www.example.com/sitemap.xml | -
 *
 * The requests are those of an ordinary client to a listener (--to), not to the admin listener:
 * the policy, the key and Vary see them as they see any other.  What is stored afterwards is
 * what a client gets.
 *
 * First all URLs are read, so a list with a mistake in its middle warms nothing; then they are
 * asked for, --concurrency at a time and --rate a second.  One thread: curl's multi interface
 * drives all slots.
 */
#include <ctype.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/ctl_commands.h"

enum {
    WARM_URLS_MAX = 1000000,
    WARM_MAPS_MAX = 1000,      /* sitemaps that an index names */
    WARM_MAP_MAX = 50 << 20,   /* bytes of one, as the protocol has it */
    WARM_URL_MAX = 8192,       /* longer than http_req_line_len takes */
    WARM_CONCURRENCY_MAX = 64, /* requests at a time */
    WARM_CONCURRENCY = 4,
    WARM_RATE = 20, /* requests a second */
    WARM_TELL_MAX = 10,
    WARM_TIMEOUT_MS = 60000,
    WARM_BAR = 30, /* columns */
};

struct warm_list {
    char **urls; /* owned */
    size_t n, room;
};

/* One of the requests that run at a time; its handle, and with it its connection, serves many
 * URLs. */
struct warm_slot {
    struct warm *w;
    CURL *curl;
    size_t url; /* of w->list */
    bool busy, hit, stored;
    char why[CURL_ERROR_SIZE];
};

struct warm {
    struct ctl *c;
    struct warm_list list;
    struct curl_slist *by_https; /* of a URL that is https, and asked for by http: --to */
    CURLM *multi;
    struct warm_slot slots[WARM_CONCURRENCY_MAX];
    unsigned nslots, busy;
    size_t next, done;
    size_t hits, stored, passed, errors, failed;
    double rate, begun; /* monotonic */
    bool terminal;
};

/* --- what is asked for --- */

static bool
warm_is_url(const char *text)
{
    size_t len = strlen(text);

    /* A path alone has no host, and --to is an address, not a name. */
    if (len > WARM_URL_MAX ||
        (strncasecmp(text, "http://", 7) != 0 && strncasecmp(text, "https://", 8) != 0))
        return false;
    for (size_t i = 0; i < len; i++)
        /* A blank would end the request line, a line's end begin another one. */
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* Takes the text.  False: there are too many, or no memory. */
static bool
warm_add(struct warm_list *l, char *url)
{
    /* Where it cannot grow, room stays what it is: that is the test below. */
    if (url != NULL && l->n == l->room && l->n < WARM_URLS_MAX) {
        size_t room = l->room == 0 ? 256 : l->room * 2;
        char **more = realloc(l->urls, room * sizeof(*more));

        if (more != NULL) {
            l->urls = more;
            l->room = room;
        }
    }
    if (url == NULL || l->n == l->room) {
        ctl_say("there is no room for more than %zu URLs", l->n);
        free(url);
        return false;
    }
    l->urls[l->n++] = url;
    return true;
}

static void
warm_forget(struct warm_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->urls[i]);
    free(l->urls);
    *l = (struct warm_list){.urls = NULL};
}

/* The text of an element, with the five entities of XML; owned by the caller. */
static char *
warm_unescape(const char *text, size_t len)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    /* An entity only becomes shorter. */
    char *out = malloc(len + 1), *to = out;

    while (out != NULL && len > 0) {
        size_t step = 1;

        *to = *text;
        for (unsigned i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
            size_t n = strlen(entities[i].name);

            if (len >= n && memcmp(text, entities[i].name, n) == 0) {
                *to = entities[i].c;
                step = n;
            }
        }
        to++;
        text += step;
        len -= step;
    }
    if (out != NULL)
        *to = '\0';
    return out;
}

/* Each <loc> of a sitemap or of an index of sitemaps (sitemaps.org).  Looks for "<loc>" exactly,
 * so the <image:loc> and <video:...> of extensions are not taken for pages.  What stands in a
 * comment of XML is taken, too. */
static int
warm_read_xml(const char *name, const char *text, struct warm_list *to)
{
    const char *at = text, *end;

    /* Without a parser of XML: this one element is all that is wanted. */
    while ((at = strstr(at, "<loc>")) != NULL) {
        char *url;

        at += strlen("<loc>");
        end = strstr(at, "</loc>");
        /* A list that was cut would warm a part and look like success. */
        if (end == NULL) {
            ctl_say("%s: a <loc> has no </loc>: is the file whole?", name);
            return CTL_USAGE;
        }
        /* Pretty-printed sitemaps have line ends in there. */
        for (; at < end && isspace((unsigned char)*at); at++)
            continue;
        while (end > at && isspace((unsigned char)end[-1]))
            end--;
        url = warm_unescape(at, (size_t)(end - at));
        if (url != NULL && !warm_is_url(url)) {
            ctl_say(
                "%s: '%.60s' is not an absolute URL, as in http://www.example.com/page", name, url);
            free(url);
            return CTL_USAGE;
        }
        if (!warm_add(to, url))
            return CTL_USAGE;
    }
    return CTL_DONE;
}

/* A URL a line; empty lines and what begins with # say nothing.  Cuts `text` into its lines. */
static int
warm_read_lines(const char *name, char *text, struct warm_list *to)
{
    unsigned number = 0;

    for (char *line = text, *next; line != NULL; line = next) {
        size_t len;

        number++;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        len = strlen(line);
        while (len > 0 && isspace((unsigned char)line[len - 1]))
            line[--len] = '\0';
        if (len == 0 || *line == '#')
            continue;
        if (!warm_is_url(line)) {
            ctl_say("%s:%u: '%.60s' is not an absolute URL, as in http://www.example.com/page",
                name, number, line);
            return CTL_USAGE;
        }
        if (!warm_add(to, strdup(line)))
            return CTL_USAGE;
    }
    return CTL_DONE;
}

struct warm_text {
    char *text; /* with a NUL behind it */
    size_t len;
};

/* Grows by what came; a sitemap is read once, and 50 MiB in pieces of 16 KiB are few enough. */
static size_t
warm_take(char *bytes, size_t size, size_t n, void *ctx)
{
    struct warm_text *t = ctx;
    /* A server may send without end; 0 ends the transfer. */
    char *more = t->len + n * size > WARM_MAP_MAX ? NULL : realloc(t->text, t->len + n * size + 1);

    if (more == NULL)
        return 0;
    memcpy(more + t->len, bytes, n * size);
    t->text = more;
    t->len += n * size;
    t->text[t->len] = '\0';
    return n * size;
}

/* Where and how.  With --to by http, whatever the URL says: it names a listener without TLS.  Without
 * memory the request must not be made: it would go to another server, or for the URL before. */
static CURLcode
warm_aim(const struct warm *w, CURL *curl, const char *url)
{
    const char *to = w->c->to;
    bool https = strncasecmp(url, "https://", 8) == 0;
    char plain[WARM_URL_MAX + 8], connect[512];
    struct curl_slist *list = NULL;
    CURLcode rc = curl_easy_setopt(curl, CURLOPT_URL, url);

    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)WARM_TIMEOUT_MS);
    /* Else curl would use SIGALRM for resolving, of which there is one for all slots. */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tarnctl-warm/" TARN_VERSION);
    if (to == NULL || rc != CURLE_OK)
        return rc;
    /* A proxy of the environment would be warmed instead. */
    rc = curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    /* The policy and the key see the scheme by X-Forwarded-Proto (by_https). */
    if (https && rc == CURLE_OK) {
        snprintf(plain, sizeof(plain), "http://%s", url + 8);
        rc = curl_easy_setopt(curl, CURLOPT_URL, plain);
    }
    /* Also NULL: the handle had another URL before. */
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, https ? w->by_https : NULL);
    if (rc != CURLE_OK)
        return rc;
    if (strncmp(to, "unix:", 5) == 0)
        return curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, to + 5);
    /* For any host and port: Host keeps the name of the URL. */
    snprintf(connect, sizeof(connect), "::%s", to);
    list = curl_slist_append(NULL, connect);
    if (list == NULL)
        return CURLE_OUT_OF_MEMORY;
    curl_easy_setopt(curl, CURLOPT_CONNECT_TO, list);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, list); /* freed when the transfer is over */
    return CURLE_OK;
}

static void
warm_aim_end(CURL *curl)
{
    char *list = NULL;

    curl_easy_getinfo(curl, CURLINFO_PRIVATE, &list);
    /* Before it is freed: the handle goes on to the next URL. */
    curl_easy_setopt(curl, CURLOPT_CONNECT_TO, NULL);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, NULL);
    curl_slist_free_all((struct curl_slist *)(void *)list);
}

/* *out is owned by the caller in every case, also after an error. */
static int
warm_download(const struct warm *w, const char *url, struct warm_text *out)
{
    char why[CURL_ERROR_SIZE] = "";
    CURL *curl = curl_easy_init();
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    long status = 0;

    *out = (struct warm_text){.text = calloc(1, 1)};
    if (curl != NULL && out->text != NULL) {
        rc = warm_aim(w, curl, url);
        /* All that curl can undo: sitemaps are often sent compressed. */
        curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, warm_take);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
        if (rc == CURLE_OK)
            rc = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        warm_aim_end(curl);
    }
    curl_easy_cleanup(curl);
    if (rc != CURLE_OK)
        ctl_say("%s: %s", url, why[0] != '\0' ? why : curl_easy_strerror(rc));
    else if (status != 200)
        ctl_say("%s: its answer has status %ld, and a sitemap needs 200", url, status);
    return rc != CURLE_OK ? CTL_UNREACHABLE : status != 200 ? CTL_REFUSED : CTL_DONE;
}

/* *t has a NUL behind its text.  One that has a NUL in it ends there, and no URL may have one. */
static int
warm_read_text(const char *name, struct warm_text *t, struct warm_list *to)
{
    const char *at = t->text;

    /* sitemap.xml.gz is a file that is compressed, not a coding of the response: curl leaves it as
     * it is. */
    if (t->len > 1 && memcmp(at, "\x1f\x8b", 2) == 0) {
        ctl_say("%s is compressed by gzip: unpack it first, as in `gzip -dc %s | tarnctl warm -`",
            name, name);
        return CTL_USAGE;
    }
    /* A byte order mark. */
    if (strncmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3;
    while (isspace((unsigned char)*at))
        at++;
    /* By what is in it: names and media types of sitemaps are of all kinds. */
    return *at == '<' ? warm_read_xml(name, at, to) : warm_read_lines(name, t->text, to);
}

/* Of a URL, of standard input ("-") or of a file. */
static int
warm_read(const struct warm *w, const char *name, struct warm_list *to, bool *is_index)
{
    struct warm_text t;
    struct span file;
    int rc;

    if (warm_is_url(name)) {
        rc = warm_download(w, name, &t);
    } else {
        t = (struct warm_text){.text = NULL};
        rc = ctl_slurp(name, &file);
        if (rc == CTL_DONE) {
            t.text = calloc(1, file.len + 1);
            if (t.text != NULL && file.len > 0)
                memcpy(t.text, file.ptr, file.len);
            t.len = t.text != NULL ? file.len : 0;
            free(file.ptr);
        }
        if (rc == CTL_DONE && t.text == NULL)
            rc = CTL_USAGE;
    }
    if (rc == CTL_DONE) {
        *is_index = strstr(t.text, "<sitemapindex") != NULL;
        rc = warm_read_text(name, &t, to);
    }
    free(t.text);
    return rc;
}

/* An index names sitemaps, and no index (sitemaps.org).  Leaves the URLs in w->list.  A failed
 * index leaves those of the sitemaps before it, which warm_close() frees. */
static int
warm_gather(struct warm *w)
{
    struct warm_list maps = {.urls = NULL};
    bool is_index, nested;
    int rc = warm_read(w, w->c->args[0], &maps, &is_index);

    if (rc != CTL_DONE || !is_index) {
        w->list = maps;
        return rc;
    }
    if (maps.n > WARM_MAPS_MAX) {
        ctl_say("%s names %zu sitemaps: %d are possible", w->c->args[0], maps.n, WARM_MAPS_MAX);
        rc = CTL_USAGE;
    }
    for (size_t i = 0; i < maps.n && rc == CTL_DONE; i++) {
        rc = warm_read(w, maps.urls[i], &w->list, &nested);
        if (rc == CTL_DONE && nested) {
            ctl_say(
                "%s is an index that an index names: sitemaps.org has no such thing", maps.urls[i]);
            rc = CTL_USAGE;
        }
    }
    warm_forget(&maps);
    return rc;
}

/* --- asking --- */

static size_t
warm_drop(char *bytes, size_t size, size_t n, void *ctx)
{
    (void)bytes;
    (void)ctx;
    /* Taken, and thrown away: a smaller count would end the transfer. */
    return size * n;
}

/* RFC 9211: the last member is of the cache that is nearest.
 *   Cache-Status: "far"; hit, tarn; fwd=miss; stored
 *
 * A field on several lines is one list (RFC 9110 5.2): the last line that comes decides. */
static size_t
warm_on_field(char *bytes, size_t size, size_t n, void *ctx)
{
    static const char name[] = "Cache-Status:";
    struct warm_slot *s = ctx;
    size_t len = size * n;
    char value[1024], *last;

    /* Longer than any that tarnd writes: of such a one nothing is known. */
    if (len < sizeof(name) || len >= sizeof(value) ||
        strncasecmp(bytes, name, sizeof(name) - 1) != 0)
        return len;
    memcpy(value, bytes, len);
    value[len] = '\0';
    last = strrchr(value, ',');
    last = last != NULL ? last : value;
    s->hit = strstr(last, "; hit") != NULL;
    s->stored = strstr(last, "; stored") != NULL;
    return len;
}

static void
warm_tell(const struct warm *w, const char *url, const char *why)
{
    /* The first few say what is wrong; the others are counted. */
    if (w->errors + w->failed > WARM_TELL_MAX)
        return;
    if (w->terminal)
        fputs("\r\033[K", stderr);
    fprintf(stderr, "%s: %s\n", url, why);
}

/* Each URL ends in exactly one of the five counters, so that they add up to `done`.  A response
 * that was neither a hit nor stored was passed, or comes from a server without Cache-Status. */
static void
warm_count(struct warm *w, struct warm_slot *s, CURLcode rc)
{
    const char *url = w->list.urls[s->url];
    char why[64];
    long status = 0;

    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    w->done++;
    if (rc != CURLE_OK) {
        w->failed++;
        warm_tell(w, url, s->why[0] != '\0' ? s->why : curl_easy_strerror(rc));
    } else if (status >= 400) {
        w->errors++;
        snprintf(why, sizeof(why), "status %ld", status);
        warm_tell(w, url, why);
    } else if (s->hit) {
        w->hits++;
    } else if (s->stored) {
        w->stored++;
    } else {
        w->passed++;
    }
}

/* Also counts a request that could not begin; `done` must reach the list's length, or warm_run()
 * would not end. */
static void
warm_start(struct warm *w)
{
    struct warm_slot *s = w->slots;
    CURLcode rc;

    /* There is one: busy is below nslots. */
    while (s->busy)
        s++;
    s->w = w;
    s->url = w->next++;
    /* Of the URL before. */
    s->hit = s->stored = false;
    s->why[0] = '\0';
    rc = warm_aim(w, s->curl, w->list.urls[s->url]);
    curl_easy_setopt(s->curl, CURLOPT_ERRORBUFFER, s->why);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, warm_drop);
    curl_easy_setopt(s->curl, CURLOPT_HEADERFUNCTION, warm_on_field);
    curl_easy_setopt(s->curl, CURLOPT_HEADERDATA, s);
    /* Of one that is not added no end would be told. */
    if (rc == CURLE_OK && curl_multi_add_handle(w->multi, s->curl) != CURLM_OK)
        rc = CURLE_OUT_OF_MEMORY;
    if (rc != CURLE_OK) {
        warm_count(w, s, rc);
        warm_aim_end(s->curl);
        return;
    }
    s->busy = true;
    w->busy++;
}

static void
warm_finish(struct warm *w)
{
    const CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(w->multi, &left)) != NULL) {
        /* Read now: the message is gone with the handle's removal. */
        CURL *curl = m->easy_handle;
        CURLcode rc = m->data.result;
        struct warm_slot *s = w->slots;

        if (m->msg != CURLMSG_DONE)
            continue;
        while (s->curl != curl)
            s++;
        warm_count(w, s, rc);
        curl_multi_remove_handle(w->multi, curl);
        warm_aim_end(curl);
        s->busy = false;
        w->busy--;
    }
}

static void
warm_show(const struct warm *w)
{
    unsigned full = w->list.n > 0 ? (unsigned)(w->done * WARM_BAR / w->list.n) : WARM_BAR;

    if (!w->terminal)
        return;
    fprintf(stderr, "\r[%.*s%*s] %zu of %zu, %zu hits, %zu stored, %zu not, %zu wrong\033[K",
        (int)full, "##############################", (int)(WARM_BAR - full), "", w->done, w->list.n,
        w->hits, w->stored, w->passed, w->errors + w->failed);
}

/* The n-th URL is due n / rate seconds after the beginning. */
static void
warm_run(struct warm *w)
{
    w->begun = ctl_clock();
    while (w->done < w->list.n) {
        /* By the time since the beginning: what a slow answer held up is caught up. */
        double due = (ctl_clock() - w->begun) * w->rate;
        int running;

        while (w->busy < w->nslots && w->next < w->list.n && (double)w->next <= due)
            warm_start(w);
        curl_multi_perform(w->multi, &running);
        warm_finish(w);
        warm_show(w);
        if (w->done < w->list.n)
            /* 20 ms: so often it is looked whether one more is due. */
            curl_multi_poll(w->multi, NULL, 0, w->next < w->list.n ? 20 : 200, NULL);
    }
    if (w->terminal)
        fputs("\r\033[K", stderr);
}

/* False leaves a part of it, which warm_close() takes: curl's functions allow NULL. */
static bool
warm_open(struct warm *w)
{
    w->multi = curl_multi_init();
    w->by_https = curl_slist_append(NULL, "X-Forwarded-Proto: https");
    if (w->multi == NULL || w->by_https == NULL)
        return false;
    for (unsigned i = 0; i < w->nslots; i++)
        if ((w->slots[i].curl = curl_easy_init()) == NULL)
            return false;
    return true;
}

static void
warm_close(struct warm *w)
{
    for (unsigned i = 0; i < w->nslots; i++)
        curl_easy_cleanup(w->slots[i].curl);
    curl_multi_cleanup(w->multi);
    curl_slist_free_all(w->by_https);
    warm_forget(&w->list);
}

/* What came, and what that is as an exit status. */
static int
warm_report(const struct warm *w)
{
    double s = ctl_clock() - w->begun;

    if (w->c->json)
        printf("{\"urls\": %zu, \"hits\": %zu, \"stored\": %zu, \"not_stored\": %zu, "
               "\"errors\": %zu, \"failed\": %zu, \"seconds\": %.1f}\n",
            w->list.n, w->hits, w->stored, w->passed, w->errors, w->failed, s);
    else
        printf("%zu URLs in %.1f s: %zu hits, %zu stored now, %zu not stored, %zu errors, %zu "
               "without an answer\n",
            w->list.n, s, w->hits, w->stored, w->passed, w->errors, w->failed);
    if (w->errors + w->failed > WARM_TELL_MAX)
        fprintf(stderr, "... and %zu more\n", w->errors + w->failed - WARM_TELL_MAX);
    /* Not one answer: that is not the URLs' fault. */
    if (w->list.n > 0 && w->failed == w->list.n)
        return CTL_UNREACHABLE;
    return w->errors + w->failed > 0 ? CTL_REFUSED : CTL_DONE;
}

/* A fraction below one request at a time is one; more than the slots is all of them. */
int
ctl_warm(struct ctl *c)
{
    struct warm *w = calloc(1, sizeof(*w));
    double rate = WARM_RATE, at_once = WARM_CONCURRENCY;
    int rc = CTL_USAGE;

    if (w == NULL)
        return rc;
    if (!ctl_positive("--rate", c->rate, &rate) ||
        !ctl_positive("--concurrency", c->concurrency, &at_once)) {
        free(w);
        return rc;
    }
    w->c = c;
    w->rate = rate;
    w->nslots = at_once < 1                      ? 1
                : at_once < WARM_CONCURRENCY_MAX ? (unsigned)at_once
                                                 : WARM_CONCURRENCY_MAX;
    /* The bar is on stderr: stdout has the result. */
    w->terminal = isatty(STDERR_FILENO) && !c->json;
    if (warm_open(w))
        rc = warm_gather(w);
    else
        ctl_say("out of memory");
    if (rc == CTL_DONE) {
        warm_run(w);
        rc = warm_report(w);
    }
    warm_close(w);
    free(w);
    return rc;
}
