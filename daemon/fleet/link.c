/* link.c -- connecting, greeting, and coming back. */
#include "daemon/fleet/link.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/fleet/engine_conn.h"
#include "daemon/fleet/fleet_id.h"
#include "daemon/log/elog.h"
#include "daemon/net/resolve.h"

enum {
    LINK_PATIENCE_MS = 3000, /* to be up */
    LINK_AGAIN_MS = 100,     /* after the first failure; then twice that, and so on */
    LINK_AGAIN_MAX_MS = 2000,
};

/* Of the greeting's commands. */
enum link_tag {
    LINK_AUTH = LINK_TAGS,
    LINK_SELECT,
    LINK_NAME,
    LINK_SERVER,
    LINK_REPLICATION,
    LINK_SENTINEL,
};

void
link_init(struct link *k)
{
    k->state = LINK_DOWN;
    k->engine = NULL;
    k->lookup = NULL;
    k->failures = k->engine_nth = k->round = k->here = k->greetings = 0;
    k->asks_sentinel = k->has_master = k->overrun = false;
    k->why[0] = k->said[0] = k->incarnation[0] = k->at[0] = '\0';
    timer_init(&k->timer, k->task);
}

void
link_close(struct link *k)
{
    if (k->engine != NULL)
        engine_close(&k->engine);
    if (k->lookup != NULL)
        resolve_close(&k->lookup);
    timer_unlink(&k->timer);
    k->state = LINK_DOWN;
}

void
link_fail(struct link *k, const char *why)
{
    int64_t again = k->failures < 5 ? LINK_AGAIN_MS << k->failures : LINK_AGAIN_MAX_MS;
    char text[LINK_WHY_MAX];

    snprintf(text, sizeof(text), "%s", why); /* it may be the engine's own */
    link_close(k);
    memcpy(k->why, text, sizeof(text));
    if (strcmp(k->why, k->said) != 0)
        elog(ELOG_WARN, "fleet: engine %s (%s): %s", k->at, k->what, k->why);
    memcpy(k->said, k->why, sizeof(text));
    k->failures++;
    timer_set(&k->loop->wheel, &k->timer,
        loop_deadline(k->loop, again < LINK_AGAIN_MAX_MS ? again : LINK_AGAIN_MAX_MS));
}

/* ---- connecting ---- */

static void
link_connect_to(struct link *k, struct stream_target *to)
{
    char why[LINK_WHY_MAX];
    int err;

    to->secure = k->secure != NULL ? k->secure[k->here] : NULL;
    err = engine_open(&k->engine, k->loop, to, k->task);
    if (err != 0) {
        snprintf(why, sizeof(why), "%s", terr_text(err));
        link_fail(k, why);
        return;
    }
    k->state = LINK_CONNECT;
    timer_set(&k->loop->wheel, &k->timer, loop_deadline(k->loop, LINK_PATIENCE_MS));
}

/* False: it is no address, but a name. */
static bool
link_parse_address(const char *host, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        return true;
    }
    return false;
}

/* An address is connected to; a name is looked up. */
static void
link_connect_host(struct link *k, const char *host, uint16_t port)
{
    struct stream_target to = {.path = NULL};

    k->port = port;
    if (link_parse_address(host, port, &to.addr))
        link_connect_to(k, &to);
    else if (resolve_start(&k->lookup, k->resolver, host) != 0)
        link_fail(k, terr_text(TERR_NOMEM));
    else
        k->state = LINK_RESOLVE;
}

static void
link_connect(struct link *k)
{
    const struct conf_fleet *conf = k->conf;
    struct stream_target to = {.path = NULL};
    const struct conf_address *a;

    tassert(k->state == LINK_DOWN && conf->nengines > 0);
    k->asks_sentinel = conf->sentinel[0] != '\0' && !k->has_master;
    if (k->has_master) {
        k->has_master = false; /* for this attempt alone: afterwards a Sentinel is asked again */
        snprintf(k->at, sizeof(k->at), "%s:%u", k->master_host, k->port);
        link_connect_host(k, k->master_host, k->port);
        return;
    }
    k->here = k->engine_nth;
    k->engine_nth = (k->engine_nth + 1) % conf->nengines;
    k->round += k->engine_nth == 0;
    a = &conf->engines[k->here].address;
    snprintf(k->at, sizeof(k->at), "%s", conf->engines[k->here].text);
    if (!a->is_unix) {
        link_connect_host(k, a->host, a->port);
        return;
    }
    to.path = a->path;
    link_connect_to(k, &to);
}

static void
link_take_lookup(struct link *k)
{
    const struct resolve_addrs *addrs;
    const char *why = "it has no address";
    struct stream_target to = {.path = NULL};
    char text[LINK_WHY_MAX];
    int err = resolve_result(k->lookup, &addrs, &why);
    uint16_t port = htons(k->port);

    if (err == TERR_AGAIN)
        return;
    if (err != 0 || addrs->n == 0) {
        snprintf(text, sizeof(text), "its name cannot be looked up: %s", why);
        link_fail(k, text);
        return;
    }
    to.addr = addrs->addr[k->round % addrs->n];
    if (to.addr.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&to.addr)->sin_port = port;
    else
        ((struct sockaddr_in6 *)(void *)&to.addr)->sin6_port = port;
    resolve_close(&k->lookup);
    link_connect_to(k, &to);
}

/* ---- the greeting ---- */

static void
link_greet_with(struct link *k, unsigned tag, const struct slice *words, unsigned n)
{
    /* Of one that has ended meanwhile link_ended() says why. */
    if (engine_send(k->engine, tag, words, n) == 0)
        k->greetings++;
}

static void
link_greet_engine(struct link *k)
{
    const struct conf_fleet *conf = k->conf;
    const struct conf_engine *first = &conf->engines[0]; /* user and db are alike in all */
    char name[160], db[24];
    struct slice words[3];
    unsigned n = 0;

    if (conf->password[0] != '\0') {
        words[n++] = SLICE_LIT("AUTH");
        if (first->user[0] != '\0')
            words[n++] = slice_str(first->user);
        words[n++] = slice_str(conf->password);
        link_greet_with(k, LINK_AUTH, words, n);
    }
    if (first->db > 0) {
        snprintf(db, sizeof(db), "%" PRId64, (int64_t)first->db);
        words[0] = SLICE_LIT("SELECT");
        words[1] = slice_str(db);
        link_greet_with(k, LINK_SELECT, words, 2);
    }
    snprintf(name, sizeof(name), "tarn:%s:%s", conf->name, conf->node);
    words[0] = SLICE_LIT("CLIENT");
    words[1] = SLICE_LIT("SETNAME");
    words[2] = slice_str(name);
    link_greet_with(k, LINK_NAME, words, 3);
    words[0] = SLICE_LIT("INFO");
    words[1] = SLICE_LIT("server");
    link_greet_with(k, LINK_SERVER, words, 2);
    words[1] = SLICE_LIT("replication");
    link_greet_with(k, LINK_REPLICATION, words, 2);
}

static void
link_greet(struct link *k)
{
    struct slice words[3] = {
        SLICE_LIT("SENTINEL"), SLICE_LIT("get-master-addr-by-name"), slice_str(k->conf->sentinel)};

    k->state = LINK_GREET;
    k->greetings = 0;
    k->incarnation[0] = '\0';
    if (k->asks_sentinel)
        link_greet_with(k, LINK_SENTINEL, words, 3);
    else
        link_greet_engine(k);
}

/* "run_id:1234...\r\n" among other lines. */
static struct slice
link_info(struct slice text, const char *name)
{
    size_t len = strlen(name);

    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t n = end != NULL ? (size_t)(end - text.ptr) : text.len;
        size_t line = n > 0 && text.ptr[n - 1] == '\r' ? n - 1 : n;

        if (line > len && memcmp(text.ptr, name, len) == 0 && text.ptr[len] == ':')
            return slice_of(text.ptr + len + 1, line - len - 1);
        n += end != NULL;
        text = slice_of(text.ptr + n, text.len - n);
    }
    return slice_of("", 0);
}

/* What Sentinel names is an address, or with `announce-hostnames` a name.  NULL, or why it is of no use. */
static const char *
link_take_master(struct link *k, const struct engine_reply *r)
{
    char text[LINK_AT_MAX];
    struct slice host, port;
    uint64_t n;

    if (engine_reply_count(r) != 2)
        return "Sentinel knows no master of that name";
    host = engine_reply_text(engine_reply_at(r, 0));
    port = engine_reply_text(engine_reply_at(r, 1));
    if (host.len > LINK_HOST_MAX || !fleet_number_parse(port, &n) || n > UINT16_MAX)
        return "Sentinel answers with what is no address";
    snprintf(text, sizeof(text), "%.*s:%u", (int)host.len, host.ptr, (unsigned)n);
    if (!conf_fleet_address_ok(slice_str(text)))
        return "Sentinel answers with what is no address";
    snprintf(k->master_host, sizeof(k->master_host), "%.*s", (int)host.len, host.ptr);
    k->port = (uint16_t)n;
    return NULL;
}

/* NULL, or why this connection is of no use. */
static const char *
link_greeted(struct link *k, unsigned tag, const struct engine_reply *r, char *why, size_t size)
{
    struct slice text = engine_reply_text(r), value;
    size_t len = strlen(k->incarnation);

    if (engine_reply_type(r) == ENGINE_ERROR && tag != LINK_NAME) {
        snprintf(why, size, "%s: %.*s",
            tag == LINK_AUTH       ? "AUTH"
            : tag == LINK_SELECT   ? "SELECT"
            : tag == LINK_SENTINEL ? "SENTINEL"
                                   : "INFO",
            (int)(text.len < 160 ? text.len : 160), text.ptr);
        return why;
    }
    if (tag == LINK_SERVER || tag == LINK_REPLICATION) {
        value = link_info(text, tag == LINK_SERVER ? "run_id" : "master_replid");
        if (value.len == 0 || value.len > 40)
            return "INFO does not say which engine it is: Redis 6.2 or later, or Valkey, is needed";
        snprintf(k->incarnation + len, sizeof(k->incarnation) - len, "%s%.*s", len > 0 ? ":" : "",
            (int)value.len, value.ptr);
    }
    if (tag == LINK_REPLICATION && !slice_eq(link_info(text, "role"), SLICE_LIT("master")))
        return "it is a replica: the master is looked for";
    return NULL;
}

/* The Sentinel's one reply: the next connection is to the master. */
static void
link_ask_master(struct link *k, const struct engine_reply *r)
{
    const char *why = link_take_master(k, r);

    if (why != NULL) {
        link_fail(k, why);
        return;
    }
    link_close(k);
    k->has_master = true;
    link_connect(k);
}

static void
link_take_greetings(struct link *k)
{
    struct engine_reply *r;
    char text[LINK_WHY_MAX];
    unsigned tag;

    while (k->state == LINK_GREET && (r = engine_take(k->engine, &tag)) != NULL) {
        const char *why = link_greeted(k, tag, r, text, sizeof(text));

        tassert(k->greetings > 0);
        k->greetings--;
        if (why != NULL)
            link_fail(k, why);
        else if (tag == LINK_SENTINEL)
            link_ask_master(k, r);
        else if (k->greetings == 0)
            k->state = LINK_UP;
        engine_reply_free(&r);
    }
    if (k->state != LINK_UP)
        return;
    timer_unlink(&k->timer);
    if (k->failures > 0 || k->said[0] == '\0')
        elog(ELOG_INFO, "fleet: engine %s (%s): connected", k->at, k->what);
    k->failures = 0;
    k->why[0] = '\0';
    snprintf(k->said, sizeof(k->said), "connected");
}

/* ---- at work ---- */

/* Why the connection has ended, or NULL. */
static const char *
link_ended(struct link *k, char *text, size_t size)
{
    const char *more;
    int err = engine_ended(k->engine, &more);

    if (err == 0)
        return NULL;
    if (err == TERR_LIMIT && more[0] != '\0') /* it is no limit of the configuration */
        return more;
    snprintf(text, size, "%s%s%s",
        k->state == LINK_UP && err == TERR_CLOSED ? "closed by the engine" : terr_text(err),
        more[0] != '\0' ? ": " : "", more);
    return text;
}

bool
link_work(struct link *k)
{
    char text[LINK_WHY_MAX];
    const char *why;

    if (k->state == LINK_DOWN && (k->timer.deadline_ms == TIMER_NEVER || timer_expired(&k->timer)))
        link_connect(k);
    if (k->state == LINK_RESOLVE)
        link_take_lookup(k);
    if (k->state == LINK_DOWN || k->state == LINK_RESOLVE)
        return false;
    engine_work(k->engine);
    if (k->state == LINK_CONNECT && engine_is_up(k->engine))
        link_greet(k);
    if (k->state == LINK_GREET)
        link_take_greetings(k);
    if (k->state == LINK_DOWN || k->state == LINK_RESOLVE) /* of the master that Sentinel named */
        return false;
    /* What has come in front of the end is still to be taken. */
    if (k->state != LINK_UP && (why = link_ended(k, text, sizeof(text))) != NULL)
        link_fail(k, why);
    else if (k->state != LINK_UP && timer_expired(&k->timer))
        link_fail(k, k->state == LINK_CONNECT ? "no connection in 3 s" : "no reply in 3 s");
    return k->state == LINK_UP;
}

bool
link_send(struct link *k, unsigned tag, const struct slice *words, unsigned n)
{
    int err;

    tassert(tag < LINK_TAGS);
    /* A command before it, of the same step, may have failed. */
    if (k->state != LINK_UP)
        return false;
    if (engine_waiting(k->engine) == 0)
        k->heard_ms = k->loop->clock.mono_ms;
    err = engine_send(k->engine, tag, words, n);
    if (err != 0)
        link_fail(k, err == TERR_LIMIT ? "it takes no more commands" : terr_text(err));
    return err == 0;
}

struct engine_reply *
link_take(struct link *k, unsigned *tag)
{
    struct engine_reply *r;
    char text[LINK_WHY_MAX];
    const char *why;

    if (k->state != LINK_UP)
        return NULL;
    r = engine_take(k->engine, tag);
    /* A long reply is heard as it comes. */
    if (r != NULL || engine_received(k->engine) != k->received)
        k->heard_ms = k->loop->clock.mono_ms;
    k->received = engine_received(k->engine);
    if (r != NULL)
        return r;
    k->overrun = engine_is_overrun(k->engine, &k->overrun_tag);
    if ((why = link_ended(k, text, sizeof(text))) != NULL)
        link_fail(k, why);
    else if (engine_waiting(k->engine) > 0 &&
             k->loop->clock.mono_ms >= k->heard_ms + LINK_SILENT_MS)
        link_fail(k, "no reply in 4 s");
    return NULL;
}

size_t
link_bytes(const struct link *k)
{
    return k->engine != NULL ? engine_bytes(k->engine) : 0;
}
