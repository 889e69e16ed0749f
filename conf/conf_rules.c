/* conf_rules.c -- what a route does: times, names, fields, redirects.
 *
 * Each action is a key of a route, with a reader and a comparison here.  What could not work is
 * refused at the load, as a name in lower case among methods or a $variable that there is none
 * of, because at run time it would silently do nothing.
 *
 * Names of cookies and query parameters may have `*`.  Fields are `set`, `add` and `unset`:
 *
 *    response_headers: { set: { x-served-by: tarn }, unset: [server, x-powered-by] }
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

/* --- names --- */

/* `*` stands for any bytes, none too.  Linear in practice: without recursion, and at most
 * pattern times name in the worst case. */
static bool
rules_glob(const char *pattern, struct slice name)
{
    const char *star =
        NULL; /* the last one: to go back to it is enough, an earlier one need not grow */
    size_t at = 0, back = 0;

    while (at < name.len) {
        if (*pattern == '*') {
            star = ++pattern;
            back = at;
        } else if (*pattern != '\0' && *pattern == name.ptr[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star;
            at = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

const struct conf_table *
conf_find_table(const struct conf *conf, const char *name)
{
    for (unsigned i = 0; i < conf->ntables; i++)
        if (strcmp(conf->tables[i].name, name) == 0)
            return &conf->tables[i];
    return NULL;
}

/* On the path of a request: it allocates nothing, and lists are short (CONF_NAMES_MAX). */
bool
conf_names_match(const struct conf_names *names, struct slice name)
{
    if (names->all)
        return true;
    for (unsigned i = 0; i < names->n; i++)
        if (rules_glob(names->list[i], name))
            return true;
    return false;
}

/* NULL, or what is wrong with it. */
static const char *
rules_wrong_name(const struct conf_key *key, struct slice s)
{
    if (s.len == 0)
        return "is empty: leave it out";
    if (s.len > (size_t)key->most)
        return "is longer than such a name can be";
    /* Methods are case-sensitive (RFC 9110 9.1): "get" would match none. */
    if (key->type == CONF_TYPE_METHODS) {
        for (size_t i = 0; i < s.len; i++)
            if (!isupper((unsigned char)s.ptr[i]) && s.ptr[i] != '-')
                return "is not a method: capital letters, as in GET";
        return NULL;
    }
    if (key->type == CONF_TYPE_LIMITS)
        return conf_text_wrong(CONF_TYPE_NAME, s);
    /* What ends a name in Cookie or in a query: such a name could match nothing. */
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= ' ' || s.ptr[i] >= 0x7f || strchr("=;&?#,\"", s.ptr[i]) != NULL)
            return "is not a name: printable ASCII without spaces and = ; & ? # , \"";
    return NULL;
}

/* NAMES alone may be a switch: all, or none. */
static bool
rules_read_all(const struct conf_key *key, const struct ynode *n, struct conf_names *to)
{
    bool on = slice_eq(n->text, SLICE_LIT("true")) || slice_eq(n->text, SLICE_LIT("on"));
    bool off = slice_eq(n->text, SLICE_LIT("false")) || slice_eq(n->text, SLICE_LIT("off"));

    if (key->type != CONF_TYPE_NAMES || n->kind != YNODE_TEXT || (!on && !off))
        return false;
    /* `off` is the default, written out. */
    if (on)
        to->all = true;
    return true;
}

static void
rules_read_list(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_names *to)
{
    const char **list =
        conf_alloc(cx, cx->keep, n->nchildren > 0 ? n->nchildren : 1, sizeof(*list));
    unsigned i = 0;

    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        const char *wrong = c->kind != YNODE_TEXT || ynode_is_null(c)
                                ? "is not a name"
                                : rules_wrong_name(key, c->text);

        if (wrong != NULL)
            conf_fail_value(cx, key, c, "%s", wrong);
        else
            list[i++] = conf_copy(cx, c->text);
    }
    tassert(i <= n->nchildren);
    to->list = list;
    to->n = i;
}

static bool
rules_read_names(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_names *to)
{
    unsigned errors = cx->nerrors;

    tassert(to->n == 0); /* as memory begins: a route has one such key */
    if (rules_read_all(key, n, to))
        return true;
    if (n->kind != YNODE_LIST) {
        conf_fail(cx, n, "%s must be a list%s", key->name,
            key->type == CONF_TYPE_METHODS  ? ", as in [GET, POST]"
            : key->type == CONF_TYPE_LIMITS ? " of names of limits, as in [login]"
                                            : " of names, or true for all");
        return false;
    }
    if (n->nchildren > CONF_NAMES_MAX) {
        conf_fail(
            cx, n, "%s has %u names: %d are possible", key->name, n->nchildren, CONF_NAMES_MAX);
        return false;
    }
    rules_read_list(cx, key, n, to);
    return cx->nerrors == errors && !cx->nomem;
}

/* --- header fields --- */

/* What HTTP needs between two neighbours, and Tarn writes itself. */
static const char *
rules_wrong_field(const struct conf_key *key, struct slice name)
{
    static const char *const ours[] = {"Connection", "Content-Length", "Transfer-Encoding",
        "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Upgrade"};

    if (conf_text_wrong(CONF_TYPE_TOKEN, name) != NULL || name.len == 0)
        return "is not a field name: letters, digits and !#$%&'*+-.^_`|~ only";
    if (name.len > (size_t)key->most)
        return "is longer than 64 bytes";
    for (unsigned i = 0; i < ARRAY_LEN(ours); i++)
        if (slice_eq_nocase(name, slice_str(ours[i])))
            return "is of the connection, not of the message: Tarn writes it itself";
    /* What is keyed must be what is asked for: with another Host one site's pages were stored under
     * another's key. */
    if (strcmp(key->name, "request_headers") == 0 && slice_eq_nocase(name, SLICE_LIT("Host")))
        return "is of the key: give the backend a host_header instead";
    return NULL;
}

static bool
rules_field_name(struct conf_cx *cx, const struct conf_key *key, const struct ynode *at)
{
    const char *wrong = rules_wrong_field(key, at->text);
    char quote[CONF_QUOTE_BYTES];

    if (wrong != NULL)
        conf_fail(cx, at, "%s: '%s' %s", key->name, conf_quote(quote, at->text), wrong);
    return wrong == NULL;
}

static void
rules_read_unset(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_fields *to)
{
    if (!conf_kind_check(cx, n, YNODE_LIST, "unset"))
        return;
    to->unset = conf_alloc(cx, cx->keep, n->nchildren + 1, sizeof(*to->unset));
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        if (!conf_kind_check(cx, c, YNODE_TEXT, "a field's name") || !rules_field_name(cx, key, c))
            continue;
        tassert(to->nunset < n->nchildren);
        to->unset[to->nunset++] = (struct conf_field){conf_copy(cx, c->text), ""};
    }
}

/* A list of values for one name is for `add` alone. */
static void
rules_read_value(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct ynode *name, struct conf_field *list, unsigned *used)
{
    struct conf_key value = {
        .name = name->text.ptr, .type = CONF_TYPE_ASCII, .least = 1, .most = 4096};
    const char *text = "";

    if (!conf_value_read(cx, &value, n, &text))
        return;
    (void)key;
    list[*used] = (struct conf_field){conf_copy(cx, name->text), text};
    ++*used;
}

static void
rules_read_set(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, bool adds,
    struct conf_field **to, unsigned *used)
{
    unsigned most = 0;

    if (!conf_kind_check(cx, n, YNODE_MAP, adds ? "add" : "set"))
        return;
    /* Counted first: a name may have a list of values. */
    for (const struct ynode *c = n->children; c != NULL; c = c->next)
        most += c->kind == YNODE_LIST && adds ? c->nchildren : 1;
    *to = conf_alloc(cx, cx->keep, most + 1, sizeof(**to));
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        if (!rules_field_name(cx, key, c->key))
            continue;
        if (c->kind != YNODE_LIST || !adds) {
            rules_read_value(cx, key, c, c->key, *to, used);
            continue;
        }
        for (const struct ynode *v = c->children; v != NULL && !cx->nomem; v = v->next)
            rules_read_value(cx, key, v, c->key, *to, used);
    }
    tassert(*used <= most); /* of the first loop */
}

static bool
rules_read_fields(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_fields *to)
{
    unsigned errors = cx->nerrors;
    char quote[CONF_QUOTE_BYTES];

    if (!conf_kind_check(cx, n, YNODE_MAP, key->name))
        return false;
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        if (slice_eq(c->key->text, SLICE_LIT("set")))
            rules_read_set(cx, key, c, false, &to->set, &to->nset);
        else if (slice_eq(c->key->text, SLICE_LIT("add")))
            rules_read_set(cx, key, c, true, &to->add, &to->nadd);
        else if (slice_eq(c->key->text, SLICE_LIT("unset")))
            rules_read_unset(cx, key, c, to);
        else
            conf_fail(cx, c->key, "unknown key '%s' in %s; it takes: set, add, unset",
                conf_quote(quote, c->key->text), key->name);
    }
    /* They must fit into a head beside those that came (LIMIT_FIELDS). */
    if (to->nset + to->nadd + to->nunset > CONF_FIELDS_MAX)
        conf_fail(cx, n, "%s has %u fields: %d are possible", key->name,
            to->nset + to->nadd + to->nunset, CONF_FIELDS_MAX);
    return cx->nerrors == errors && !cx->nomem;
}

/* --- redirect --- */

static const struct conf_key rules_redirect_keys[] = {
    {.name = "status",
        .type = CONF_TYPE_COUNT,
        .offset = offsetof(struct conf_redirect, status),
        .def = 301,
        .least = 301,
        .most = 308},
    {.name = "to",
        .type = CONF_TYPE_ASCII,
        .required = true,
        .offset = offsetof(struct conf_redirect, to),
        .least = 1,
        .most = 2048},
};
static const struct conf_section rules_redirect = {
    .name = "redirect", .keys = rules_redirect_keys, .nkeys = ARRAY_LEN(rules_redirect_keys)};

/* NULL, or what is wrong with it.  $host, $uri and $request_uri are those of nginx, as people
 * know them. */
static const char *
rules_wrong_target(const char *to)
{
    static const char *const known[] = {"$host", "$uri", "$request_uri"};

    if (strncmp(to, "http://", 7) != 0 && strncmp(to, "https://", 8) != 0 && to[0] != '/')
        return "begins with none of http://, https:// and /";
    /* Location is written as it stands here. */
    if (strpbrk(to, " \"<>\\^`{|}") != NULL)
        return "has a character that a URL writes percent-encoded, as in %20";
    for (const char *p = strchr(to, '$'); p != NULL; p = strchr(p + 1, '$')) {
        /* The whole word: $uri must not match in $uris. */
        size_t len = 1 + strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
        bool is_known = false;

        for (unsigned i = 0; i < ARRAY_LEN(known); i++)
            is_known |= strlen(known[i]) == len && strncmp(p, known[i], len) == 0;
        if (!is_known)
            return "has a $ that is none of $host, $uri and $request_uri";
    }
    return NULL;
}

static bool
rules_read_redirect(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_redirect *to)
{
    unsigned errors = cx->nerrors;
    const struct ynode *at = ynode_get(n, "to");
    const char *wrong;

    if (n->kind == YNODE_TEXT && slice_eq(n->text, SLICE_LIT("https"))) {
        *to = (struct conf_redirect){
            .text = "", .to = "https://$host$request_uri", .status = 301, .unless_https = true};
        return true;
    }
    if (n->kind == YNODE_TEXT) {
        conf_fail_value(cx, key, n,
            "is not https: for another target write { to: \"https://www.example.com$request_uri\" "
            "}");
        return false;
    }
    conf_keys_read(cx, &rules_redirect, n, key->name, to);
    to->text = "";
    /* conf_routes_finish() asks whether the route answers: a half-read redirect does not. */
    if (cx->nerrors > errors)
        to->to = NULL;
    if (cx->nerrors > errors || cx->nomem || to->to == NULL)
        return false;
    wrong = rules_wrong_target(to->to);
    if (wrong != NULL)
        conf_fail_value(cx, &rules_redirect_keys[1], at, "%s", wrong);
    if (to->status > 303 && to->status < 307)
        conf_fail_value(cx, &rules_redirect_keys[0], ynode_get(n, "status"),
            "is no redirect: it is 301, 302, 303, 307 or 308");
    /* The long form of `https`, which would else be a loop for those that come by https. */
    to->unless_https = strcmp(to->to, "https://$host$request_uri") == 0;
    return cx->nerrors == errors;
}

/* --- error page --- */

/* Of a text that is loaded without touching the world files are not read.  The result is in the
 * snapshot's memory; the scratch buffer of most + 1 bytes goes with the load. */
bool
conf_file_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *at,
    const char *name, size_t most, struct slice *out)
{
    const char *path = conf_beside(cx, at, name);
    char *buf = conf_alloc(cx, cx->scratch, most + 1, 1);
    ssize_t n = -1;
    size_t got = 0;
    struct stat st;
    int fd;

    *out = slice_of("", 0);
    if (cx->resolve == NULL || buf == NULL)
        return buf != NULL;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold up the load */
    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    /* No size is asked for: files of /proc say 0. */
    else if (fd >= 0)
        while ((n = read(fd, buf + got, most + 1 - got)) > 0)
            got += (size_t)n;
    if (n < 0)
        conf_fail(cx, at, "%s: cannot read %s: %s", key->name, path, strerror(errno));
    else if (got > most)
        conf_fail(cx, at, "%s: %s has more than %zu bytes", key->name, path, most);
    tassert(got <= most + 1); /* one more than may be there, so that it shows */
    if (fd >= 0)
        close(fd);
    if (n < 0 || got > most)
        return false;
    /* The buffer is scratch, as large as the limit. */
    *out = slice_of(conf_copy(cx, slice_of(buf, got)), got);
    return out->ptr != NULL;
}

static void
rules_read_statuses(struct conf_cx *cx, const struct ynode *n, struct conf_page *to)
{
    struct conf_key status = {.name = "status", .type = CONF_TYPE_COUNT, .least = 400, .most = 599};

    if (!conf_kind_check(cx, n, YNODE_LIST, "status"))
        return;
    to->status = conf_alloc(cx, cx->keep, n->nchildren + 1, sizeof(*to->status));
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next) {
        int64_t value = 0;

        tassert(to->n < n->nchildren);
        if (conf_value_read(cx, &status, c, &value))
            to->status[to->n++] = (uint16_t)value;
    }
}

/* `error_page: 503.html`, or { file: 503.html, status: [502, 503] }, or { text: "back soon" }.
 * Without `status` it is for all errors that Tarn itself answers with. */
static bool
rules_read_page(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_page *to)
{
    const struct ynode *file = n->kind == YNODE_TEXT ? n : ynode_get(n, "file");
    const struct ynode *text = ynode_get(n, "text"), *status = ynode_get(n, "status");
    unsigned errors = cx->nerrors;
    char quote[CONF_QUOTE_BYTES];

    if (n->kind != YNODE_TEXT && !conf_kind_check(cx, n, YNODE_MAP, key->name))
        return false;
    for (const struct ynode *c = n->children; c != NULL; c = c->next)
        if (c != file && c != text && c != status)
            conf_fail(cx, c->key, "unknown key '%s' in %s; it takes: file, text, status",
                conf_quote(quote, c->key->text), key->name);
    if (status != NULL)
        rules_read_statuses(cx, status, to);
    if ((file == NULL) == (text == NULL))
        conf_fail(
            cx, n->key != NULL ? n->key : n, "%s needs 'file' or 'text', one of them", key->name);
    /* Named before it is read: .text of a list would be empty, and the page with it. */
    else if (!conf_kind_check(cx, file != NULL ? file : text, YNODE_TEXT, "the page"))
        return false;
    else if (file != NULL)
        conf_file_read(cx, key, file, file->text.ptr, CONF_PAGE_MAX, &to->body);
    else if (text->text.len > CONF_PAGE_MAX)
        conf_fail(cx, text, "%s: the text has more than %d bytes", key->name, CONF_PAGE_MAX);
    else
        to->body = slice_of(conf_copy(cx, text->text), text->text.len);
    to->plain = text != NULL;
    return cx->nerrors == errors && !cx->nomem;
}

static bool
rules_page_same(const struct conf_page *a, const struct conf_page *b)
{
    return slice_eq(a->body, b->body) && a->plain == b->plain && a->n == b->n &&
           (a->n == 0 || memcmp(a->status, b->status, a->n * sizeof(a->status[0])) == 0);
}

/* --- all --- */

static bool
rules_read_time(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_time *to)
{
    struct conf_key time = *key;

    time.type = CONF_TYPE_MS;
    to->said = conf_value_read(cx, &time, n, &to->ms);
    return to->said;
}

static bool
rules_read_switch(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_switch *to)
{
    struct conf_key word = {.name = key->name, .type = CONF_TYPE_BOOL, .most = 1};
    int64_t on = 0;

    if (n->kind == YNODE_MAP) {
        conf_fail(cx, n,
            "%s of a route is on, off or all: what else there is to say stands in section '%s', "
            "for all routes",
            key->name, key->name);
        return false;
    }
    if (n->kind == YNODE_TEXT && slice_eq_nocase(n->text, SLICE_LIT("all"))) {
        to->said = to->on = to->all = true;
        return true;
    }
    if (n->kind == YNODE_TEXT && !ynode_is_null(n) && !conf_bool_of(n->text, &on)) {
        conf_fail_value(cx, key, n, "is not on, off, all, true or false");
        return false;
    }
    to->said = conf_value_read(cx, &word, n, &on);
    to->on = on != 0;
    return to->said;
}

/* Keep in step with conf_rule_same(): a type that is read and not compared would survive a
 * reload unseen. */
bool
conf_rule_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, void *to)
{
    /* The default of each such row, written out: tarn.yaml has them all. */
    if (n->kind == YNODE_TEXT && n->text.len == 0)
        return true; /* not said */
    switch ((unsigned)key->type) {
    case CONF_TYPE_TTL:
        return rules_read_time(cx, key, n, to);
    case CONF_TYPE_SWITCH:
        return rules_read_switch(cx, key, n, to);
    case CONF_TYPE_NAMES:
    case CONF_TYPE_METHODS:
    case CONF_TYPE_LIMITS:
        return rules_read_names(cx, key, n, to);
    case CONF_TYPE_FIELDS:
        return rules_read_fields(cx, key, n, to);
    case CONF_TYPE_PAGE:
        return rules_read_page(cx, key, n, to);
    case CONF_TYPE_AUTH:
        return conf_auth_read(cx, key, n, to);
    case CONF_TYPE_REDIRECT:
        return rules_read_redirect(cx, key, n, to);
    default:
        TUNREACHABLE("no type of a route's action");
    }
}

static bool
rules_names_same(const struct conf_names *a, const struct conf_names *b)
{
    if (a->n != b->n || a->all != b->all)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        /* In order: what is written differently is reported, though it may mean the same. */
        if (strcmp(a->list[i], b->list[i]) != 0)
            return false;
    return true;
}

static bool
rules_list_same(const struct conf_field *a, unsigned na, const struct conf_field *b, unsigned nb)
{
    if (na != nb)
        return false;
    for (unsigned i = 0; i < na; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || strcmp(a[i].value, b[i].value) != 0)
            return false;
    return true;
}

static bool
rules_fields_same(const struct conf_fields *a, const struct conf_fields *b)
{
    return rules_list_same(a->unset, a->nunset, b->unset, b->nunset) &&
           rules_list_same(a->set, a->nset, b->set, b->nset) &&
           rules_list_same(a->add, a->nadd, b->add, b->nadd);
}

static bool
rules_redirect_same(const struct conf_redirect *a, const struct conf_redirect *b)
{
    if ((a->to == NULL) != (b->to == NULL))
        return false;
    /* unless_https follows from the target. */
    return a->to == NULL || (strcmp(a->to, b->to) == 0 && a->status == b->status);
}

static bool
rules_switch_same(const struct conf_switch *a, const struct conf_switch *b)
{
    return a->said == b->said && a->on == b->on && a->all == b->all;
}

bool
conf_rule_same(enum conf_type type, const void *a, const void *b)
{
    const struct conf_time *x = a, *y = b;

    switch ((unsigned)type) {
    case CONF_TYPE_TTL:
        return x->said == y->said && x->ms == y->ms;
    case CONF_TYPE_SWITCH:
        return rules_switch_same(a, b);
    case CONF_TYPE_NAMES:
    case CONF_TYPE_METHODS:
    case CONF_TYPE_LIMITS:
        return rules_names_same(a, b);
    case CONF_TYPE_FIELDS:
        return rules_fields_same(a, b);
    case CONF_TYPE_PAGE:
        return rules_page_same(a, b);
    case CONF_TYPE_AUTH:
        return conf_auth_same(a, b);
    case CONF_TYPE_REDIRECT:
        return rules_redirect_same(a, b);
    default:
        TUNREACHABLE("no type of a route's action");
    }
}
