/* conf_fleet.c -- the section fleet: this node's name, and the engine that all nodes share.
 *
 *    engine: redis://10.0.0.1
 *    engine: [rediss://tarn@a.internal/2, rediss://tarn@b.internal:6380/2]
 *    engine: unix:/run/valkey/valkey.sock
 *
 * URLs are read when the whole section is known: with `sentinel` their port is another one.
 *
 * A password stands in a file of its own, which other users cannot read.  A URL with one is refused, and no
 * message repeats it, nor does the line that is shown with a message (conf_hide).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_priv.h"
#include "daemon/base/address.h"
#include "daemon/base/obj.h"

#define ENGINE_FORMS  "write redis://host:6379, rediss://host:6379 for TLS, or unix:/path"
#define ENGINE_SECURE "rediss://"
#define ENGINE_USER_CHARS \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+=;"
#define FLEET_NO_PASSWORD                                                                  \
    "passwords do not stand in the configuration: write it into a file, and name that in " \
    "`password_file`"

/* Of addresses, for their messages; it outlives the load's own (conf_names_check). */
static const struct conf_key engine_key = {.name = "engine", .type = CONF_TYPE_ADDRESS};

/* ---- one URL ---- */

struct engine_url {
    struct slice scheme; /* with its "://"; empty: none */
    struct slice user;   /* between scheme and @ */
    struct slice host;   /* with its port, if one is written */
    struct slice db;     /* behind the / */
    bool is_unix, has_user;
};

static const char *
engine_last(struct slice s, char c)
{
    for (const char *p = s.ptr + s.len; p > s.ptr; p--)
        if (p[-1] == c)
            return p - 1;
    return NULL;
}

static struct slice
engine_from(struct slice s, const char *p)
{
    tassert(p >= s.ptr && p <= s.ptr + s.len);
    return slice_of(p, (size_t)(s.ptr + s.len - p));
}

/* By its marks alone: what stands between them is judged later.  The last @ ends the user, for a password may have
 * one in it. */
static struct engine_url
engine_split(struct slice text)
{
    struct engine_url u = {.scheme = slice_of(text.ptr, 0)};
    const char *mark = memmem(text.ptr, text.len, "://", 3);

    if (mark != NULL)
        u.scheme.len = (size_t)(mark - text.ptr) + 3;
    u.is_unix = mark == NULL && text.len >= 5 && memcmp(text.ptr, "unix:", 5) == 0;
    u.host = engine_from(text, text.ptr + u.scheme.len);
    if (u.is_unix)
        return u; /* a path may have any of these in it */
    mark = engine_last(u.host, '@');
    if (mark != NULL) {
        u.user = slice_of(u.host.ptr, (size_t)(mark - u.host.ptr));
        u.has_user = true;
        u.host = engine_from(u.host, mark + 1);
    }
    mark = memchr(u.host.ptr, '/', u.host.len);
    if (mark != NULL) {
        u.db = engine_from(u.host, mark + 1);
        u.host.len = (size_t)(mark - u.host.ptr);
    }
    return u;
}

/* NULL, or what is wrong, perhaps in `hint`. */
static const char *
engine_wrong_scheme(struct slice scheme, char *hint, size_t size)
{
    char quote[CONF_QUOTE_BYTES];

    if (slice_eq_nocase(scheme, SLICE_LIT("redis://")) ||
        slice_eq_nocase(scheme, SLICE_LIT(ENGINE_SECURE)))
        return NULL;
    if (scheme.len == 0)
        return "has no scheme: " ENGINE_FORMS;
    /* Both engines speak one protocol, and it has one name here. */
    if (slice_eq_nocase(scheme, SLICE_LIT("valkey://")))
        return "begins with valkey://: write redis://, for a Valkey server, too";
    if (slice_eq_nocase(scheme, SLICE_LIT("valkeys://")))
        return "begins with valkeys://: write rediss://, for a Valkey server, too";
    snprintf(hint, size, "begins with %s: " ENGINE_FORMS, conf_quote(quote, scheme));
    return hint;
}

static const char *
engine_wrong_user(const struct engine_url *u)
{
    if (!u->has_user)
        return NULL;
    if (u->user.len == 0)
        return "has no user before the @: leave out the @";
    if (u->user.len > CONF_NAME_MAX)
        return "has a user of more than 64 bytes";
    for (size_t i = 0; i < u->user.len; i++)
        if (u->user.ptr[i] == '\0' || strchr(ENGINE_USER_CHARS, u->user.ptr[i]) == NULL)
            return "has a user with a character that is no letter, no digit and none of "
                   "-._~!$&'()*+=;";
    return NULL;
}

/* Digits, and no more of them than the largest has. */
static const char *
engine_wrong_db(struct slice db, int64_t *to)
{
    int64_t value = 0;

    for (size_t i = 0; i < db.len; i++) {
        if (db.ptr[i] == '?' || db.ptr[i] == '#')
            return "has something behind the number of the db: redis://host:6379/0 is all of it";
        if (db.ptr[i] < '0' || db.ptr[i] > '9')
            return "has a db that is no number, as in redis://host:6379/0";
        if (value <= CONF_ENGINE_DB_MAX) /* more digits must not wrap it */
            value = value * 10 + (db.ptr[i] - '0');
    }
    if (value > CONF_ENGINE_DB_MAX)
        return "has a db above 1048576";
    *to = value;
    return NULL;
}

/* What conf_address_read takes, at the URL's place: with a port in any case. */
static struct ynode *
engine_bare(struct conf_cx *cx, const struct ynode *n, struct slice host, const char *port)
{
    const char *close = host.len > 0 && host.ptr[0] == '[' ? engine_last(host, ']') : NULL;
    struct slice tail = close != NULL ? engine_from(host, close) : host;
    size_t room = host.len + strlen(port) + 2;
    struct ynode *bare = conf_alloc(cx, cx->scratch, 1, sizeof(*bare));
    char *text = conf_alloc(cx, cx->scratch, room, 1);

    if (bare == NULL || text == NULL)
        return NULL;
    *bare = *n;
    snprintf(text, room, "%.*s%s%s", (int)host.len, host.ptr,
        memchr(tail.ptr, ':', tail.len) == NULL ? ":" : "",
        memchr(tail.ptr, ':', tail.len) == NULL ? port : "");
    bare->text = slice_str(text);
    return bare;
}

/* Texts for people, and the URL instead of what was made of it. */
static bool
engine_name(struct conf_cx *cx, const struct ynode *n, struct conf_engine *e)
{
    struct conf_address *a = &e->address;
    char text[CONF_ENGINE_MAX + 16], port[8] = "";
    bool v6 = strchr(a->host, ':') != NULL;

    if (!a->is_unix)
        snprintf(port, sizeof(port), "%u", a->port);
    if (a->is_unix)
        snprintf(text, sizeof(text), "unix:%s", a->path);
    else
        snprintf(text, sizeof(text), "%s%s%s:%s", v6 ? "[" : "", a->host, v6 ? "]" : "", port);
    a->text = conf_copy(cx, n->text);
    e->text = conf_copy(cx, slice_str(text));
    e->host = a->host;
    e->port = conf_copy(cx, slice_str(port));
    return !cx->nomem;
}

static bool
engine_has_password(const struct engine_url *u)
{
    return u->has_user && memchr(u->user.ptr, ':', u->user.len) != NULL;
}

/* Its place without its text, which an error would repeat. */
static struct ynode
engine_place(const struct ynode *n)
{
    struct ynode at = *n;

    at.text = slice_of("", 0);
    return at;
}

/* Of one that is no path.  NULL, or what is wrong, perhaps in `hint`. */
static const char *
engine_wrong(const struct engine_url *u, int64_t *db, char *hint, size_t size)
{
    const char *wrong = engine_wrong_scheme(u->scheme, hint, size);

    if (wrong == NULL)
        wrong = engine_wrong_user(u);
    if (wrong == NULL && (memchr(u->host.ptr, '?', u->host.len) != NULL ||
                             memchr(u->host.ptr, '#', u->host.len) != NULL))
        wrong = "has a ? or #: redis://host:6379/0 is all of it";
    return wrong != NULL ? wrong : engine_wrong_db(u->db, db);
}

/* False: reported, or no memory. */
static bool
engine_read(struct conf_cx *cx, const struct ynode *n, bool sentinel, struct conf_engine *to)
{
    struct engine_url u = engine_split(n->text);
    const struct ynode *bare = n;
    const struct ynode at = engine_place(n);
    const char *wrong = NULL;
    char hint[256];

    if (engine_has_password(&u)) {
        conf_fail(cx, &at, "engine: " FLEET_NO_PASSWORD);
        return false;
    }
    if (!u.is_unix)
        wrong = engine_wrong(&u, &to->db, hint, sizeof(hint));
    else if (sentinel)
        wrong = "is a Unix socket: with `sentinel` it must be the address of a Sentinel, as in "
                "redis://host:26379";
    if (wrong != NULL) {
        conf_fail_value(cx, &engine_key, n, "%s", wrong);
        return false;
    }
    if (!u.is_unix)
        bare = engine_bare(cx, n, u.host, sentinel ? "26379" : "6379");
    if (bare == NULL || !conf_address_read(cx, &engine_key, bare, &to->address))
        return false;
    to->secure = slice_eq_nocase(u.scheme, SLICE_LIT(ENGINE_SECURE));
    to->user = u.has_user ? conf_copy(cx, u.user) : "";
    to->sni = to->verify_name = "";
    return engine_name(cx, n, to);
}

/* ---- all of them ---- */

/* "": it is not added; reported, unless something else has been said of it. */
static const char *
engines_text(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n)
{
    const struct ynode at = engine_place(n);

    if (n->kind == YNODE_BAD)
        return "";
    if (n->kind != YNODE_TEXT || n->text.len == 0)
        conf_fail(cx, n, "%s: each of the list must be a URL, as in redis://host:6379", key->name);
    else if (n->text.len > (size_t)key->most)
        conf_fail(cx, &at, "%s: a URL of %zu bytes: %lld are possible", key->name, n->text.len,
            (long long)key->most);
    else
        return n->text.ptr;
    return "";
}

/* Before anything is said of them, or of what stands in the same line. */
static void
engines_hide(struct conf_cx *cx, const struct ynode *c, unsigned count)
{
    for (; count > 0; c = c->next, count--) {
        struct engine_url u = {.has_user = false};

        if (c->kind == YNODE_TEXT)
            u = engine_split(c->text);
        if (engine_has_password(&u))
            conf_hide(cx, c);
    }
}

/* One text, with a space between them: reports show it. */
bool
conf_engines_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    unsigned count = n->kind == YNODE_LIST ? n->nchildren : 1;
    size_t room = CONF_ENGINES_MAX * ((size_t)key->most + 1), used = 0;
    const struct ynode *c = n->kind == YNODE_LIST ? n->children : n;
    bool good = true;
    char *text;

    engines_hide(cx, c, count);
    if (count == 0 || count > CONF_ENGINES_MAX) {
        conf_fail(
            cx, n, "%s: a list of %u: 1 to %d are possible", key->name, count, CONF_ENGINES_MAX);
        return false;
    }
    text = conf_alloc(cx, cx->keep, room, 1);
    for (unsigned i = 0; i < count && text != NULL; c = c->next, i++) {
        const char *one = engines_text(cx, key, c);

        good = good && one[0] != '\0';
        used += (size_t)snprintf(text + used, room - used, "%s%s", used > 0 ? " " : "", one);
        tassert(used < room); /* each is bounded, and their number is */
    }
    if (good && text != NULL)
        *to = text;
    return good && text != NULL;
}

/* Whichever of them answers, it is one engine: only the address may differ. */
static void
engines_check(struct conf_cx *cx, const struct ynode *n, const struct conf_fleet *fleet, unsigned i)
{
    const struct conf_engine *first = &fleet->engines[0], *e = &fleet->engines[i];

    if (e->secure != first->secure || e->address.is_unix != first->address.is_unix)
        conf_fail(cx, n, "engine: '%s' has another scheme than '%s': one scheme for all",
            e->address.text, first->address.text);
    else if (strcmp(e->user, first->user) != 0 || e->db != first->db)
        conf_fail(cx, n, "engine: '%s' has another user or db than '%s': the same for all",
            e->address.text, first->address.text);
    for (unsigned j = 0; j < i; j++)
        if (strcmp(e->text, fleet->engines[j].text) == 0)
            conf_fail(cx, n, "engine: '%s' stands twice: remove one", e->text);
}

static void
fleet_read_engines(struct conf_cx *cx, const struct ynode *n, struct conf_fleet *fleet)
{
    const struct ynode *c = n->kind == YNODE_LIST ? n->children : n;
    unsigned count = n->kind == YNODE_LIST ? n->nchildren : 1, i = 0;
    bool good = true;

    tassert(count <= CONF_ENGINES_MAX); /* conf_engines_read() */
    for (; i < count && !cx->nomem; c = c->next, i++) {
        good = engine_read(cx, c, fleet->sentinel[0] != '\0', &fleet->engines[i]) && good;
        if (good)
            engines_check(cx, c, fleet, i);
    }
    fleet->nengines = good && !cx->nomem ? count : 0;
}

/* ---- the password ---- */

static bool
password_fail(struct conf_cx *cx, const struct ynode *at, const char *path, const char *why)
{
    conf_fail(cx, at, "password_file: %s %s", path, why);
    return false;
}

/* `text` has room for one byte more than there may be.  Not by stdio, which would keep a copy in its buffer. */
static bool
password_read_fd(
    struct conf_cx *cx, const struct ynode *at, const char *path, int fd, struct span *text)
{
    size_t room = text->len;
    struct stat st;
    ssize_t n = 1;

    text->len = 0;
    if (fstat(fd, &st) != 0)
        return password_fail(cx, at, path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return password_fail(cx, at, path, "is no regular file");
    /* The group may read it: tarnd's user mostly has it by a group. */
    if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0)
        return password_fail(cx, at, path,
            "has a password, and every user may read or write it: chmod 0640, with the group of "
            "tarnd's user");
    while (n > 0 && text->len < room) {
        n = read(fd, text->ptr + text->len, room - text->len);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n < 0)
            return password_fail(cx, at, path, strerror(errno));
        else
            text->len += (size_t)n;
    }
    return true;
}

static const char *
password_wrong(struct slice text)
{
    if (text.len > CONF_PASSWORD_MAX)
        return "has more than 1024 bytes";
    if (text.len == 0)
        return "is empty: write the password into it, or leave out `password_file`";
    if (memchr(text.ptr, '\0', text.len) != NULL)
        return "has a NUL in it: it must be text";
    if (memchr(text.ptr, '\n', text.len) != NULL || memchr(text.ptr, '\r', text.len) != NULL)
        return "has a line end in the password: only one newline at the end may be there";
    return NULL;
}

/* Of a text that is loaded without touching the world no file is read. */
static void
fleet_read_password(struct conf_cx *cx, const struct ynode *at, struct conf_fleet *fleet)
{
    char bytes[CONF_PASSWORD_MAX + 2]; /* a newline, and one more than may be there */
    struct span text = {bytes, sizeof(bytes)};
    const char *path = fleet->password_file, *wrong;
    int fd;

    if (cx->resolve == NULL)
        return;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold up the load */
    if (fd < 0) {
        conf_fail(cx, at, "password_file: cannot read %s: %s", path, strerror(errno));
        return;
    }
    if (password_read_fd(cx, at, path, fd, &text)) {
        if (text.len > 0 && bytes[text.len - 1] == '\n')
            text.len--;
        wrong = password_wrong(slice_of(bytes, text.len));
        if (wrong != NULL)
            password_fail(cx, at, path, wrong);
        else
            fleet->password = conf_copy(cx, slice_of(bytes, text.len));
    }
    explicit_bzero(bytes, sizeof(bytes));
    close(fd);
}

/* ---- the section ---- */

/* The key is unknown all the same, but what stands behind it is not to be shown. */
bool
conf_fleet_refuse_key(struct conf_cx *cx, const char *section, const struct ynode *n)
{
    if (strcmp(section, "fleet") != 0 || !slice_eq_nocase(n->key->text, SLICE_LIT("password")))
        return false;
    conf_hide(cx, n);
    conf_fail(cx, n->key, "password: " FLEET_NO_PASSWORD);
    return true;
}

bool
conf_fleet_node_ok(struct slice name)
{
    return name.len > 0 && name.len <= CONF_NAME_MAX &&
           conf_text_wrong(CONF_TYPE_LABEL, name) == NULL;
}

static void
fleet_name_node(struct conf_cx *cx, const struct ynode *n, struct conf_fleet *fleet)
{
    char host[256] = "", quote[CONF_QUOTE_BYTES];
    struct slice name;

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    name = slice_str(host);
    if (!conf_fleet_node_ok(name))
        conf_fail(cx, n->key,
            "this host's name, '%s', cannot name a node: give `node` a name of letters, digits, "
            "., - and _, %d at most",
            conf_quote(quote, name), CONF_NAME_MAX);
    fleet->node = conf_copy(cx, name);
}

/* A node that was blind for as long as it may be, and one that starts then, find all that they missed. */
static void
fleet_check_times(struct conf_cx *cx, const struct ynode *n, const struct conf_fleet *fleet)
{
    const struct ynode *age = ynode_get(n, "log_age"), *blind = ynode_get(n, "max_blind");
    char has[32], needs[32], max[32];

    if (fleet->log_age >= 2 * fleet->max_blind)
        return;
    conf_value_format(CONF_TYPE_MS, fleet->log_age, has, sizeof(has));
    conf_value_format(CONF_TYPE_MS, fleet->max_blind, max, sizeof(max));
    conf_value_format(CONF_TYPE_MS, 2 * fleet->max_blind, needs, sizeof(needs));
    conf_fail(cx, age != NULL ? age : blind,
        "log_age: %s is less than twice max_blind, which is %s: %s at least, or a smaller "
        "max_blind",
        has, max, needs);
}

/* ---- the other nodes ---- */

static const struct conf_listen *
fleet_peer_listener(const struct conf *conf)
{
    for (unsigned i = 0; i < conf->nlistens; i++)
        if (conf->listens[i].peers)
            return &conf->listens[i];
    return NULL;
}

bool
conf_fleet_address_ok(struct slice text)
{
    struct slice host;
    uint16_t port;

    return address_host_port(text, &host, &port) &&
           conf_text_wrong(CONF_TYPE_ASCII, text) == NULL &&
           memchr(text.ptr, ' ', text.len) == NULL && host.ptr[0] != '*' &&
           !slice_eq(host, SLICE_LIT("0.0.0.0")) && !slice_eq(host, SLICE_LIT("::"));
}

/* off, engine, dns:NAME, or addresses. */
static bool
fleet_peers_ok(struct conf_cx *cx, const struct ynode *at, const char *peers)
{
    struct slice rest = slice_str(peers);

    if (strcmp(peers, "off") == 0 || strcmp(peers, "engine") == 0 ||
        (strncmp(peers, "dns:", 4) == 0 && peers[4] != '\0' && strpbrk(peers + 4, " :/") == NULL))
        return true;
    while (rest.len > 0) {
        const char *end = memchr(rest.ptr, ' ', rest.len);
        struct slice one = slice_of(rest.ptr, end != NULL ? (size_t)(end - rest.ptr) : rest.len);

        /* dns: takes one name, without a port: each node says its own. */
        if (!conf_fleet_address_ok(one) || strncmp(one.ptr, "dns:", 4) == 0) {
            conf_fail(cx, at,
                "peers: '%.*s' is none of: off, engine, dns:NAME, or a list of addresses as in "
                "[10.0.0.1:8089, 10.0.0.2:8089]",
                (int)one.len, one.ptr);
            return false;
        }
        rest = slice_of(one.ptr + one.len + (end != NULL), rest.len - one.len - (end != NULL));
    }
    if (peers[0] == '\0')
        conf_fail(
            cx, at, "peers: it is empty: write off, engine, dns:NAME, or a list of addresses");
    return peers[0] != '\0';
}

/* Listeners were read before. */
static void
fleet_read_peers(struct conf_cx *cx, const struct ynode *n, struct conf_fleet *fleet)
{
    const struct conf_listen *l = fleet_peer_listener(cx->conf);
    const struct ynode *at = ynode_get(n, "address");

    if (!fleet_peers_ok(cx, ynode_get(n, "peers"), fleet->peers))
        return;
    if (strcmp(fleet->peers, "off") == 0) {
        if (l != NULL)
            conf_fail(cx, n,
                "peers: it is off, and the listener on '%s' is for peers: write `peers: engine` "
                "here, or "
                "remove `peers` there",
                l->address.text);
        return;
    }
    if (l == NULL) {
        conf_fail(cx, ynode_get(n, "peers"),
            "peers: no listener has `peers: on`: the other nodes need an address of this "
            "one, as in `listen: [..., { address: \"10.0.0.1:8089\", peers: on }]`");
        return;
    }
    if (fleet->address[0] == '\0' && !l->address.is_unix)
        fleet->address = l->address.text;
    if (!conf_fleet_address_ok(slice_str(fleet->address)))
        conf_fail(cx, at != NULL ? at : n,
            "address: %s host:port at which the other nodes reach the listener on '%s', as "
            "in 10.0.0.1:8089",
            at != NULL ? "it must be the" : "it is missing: the", l->address.text);
}

void
conf_fleet_read(struct conf_cx *cx, const struct conf_section *sec, const struct ynode *n)
{
    struct conf_fleet *fleet = &cx->conf->fleet;
    const struct ynode *engine = ynode_get(n, "engine"), *file = ynode_get(n, "password_file"),
                       *state = ynode_get(n, "state");
    unsigned errors = cx->nerrors;

    conf_keys_read(cx, sec, n, "section 'fleet'", fleet);
    if (n->kind != YNODE_MAP || cx->nomem)
        return;
    /* Only what was read without an error: else it has its default. */
    if (engine != NULL && fleet->engine[0] != '\0')
        fleet_read_engines(cx, engine, fleet);
    if (file != NULL && fleet->password_file[0] != '\0') {
        fleet->password_file = conf_beside(cx, file, fleet->password_file);
        fleet_read_password(cx, file, fleet);
    }
    if (state != NULL && fleet->state[0] != '\0')
        fleet->state = conf_beside(cx, state, fleet->state);
    if (cx->nerrors > errors || cx->nomem || n->cut)
        return;
    if (fleet->node[0] == '\0')
        fleet_name_node(cx, n, fleet);
    fleet_check_times(cx, n, fleet);
    fleet_read_peers(cx, n, fleet);
    conf_fleet_tls_finish(cx, n, fleet);
    fleet->said = cx->nerrors == errors && !cx->nomem;
}
