/* fleet_shared.c -- texts that all nodes have alike, and what each node says of them.
 *
 * The engine has, under "PREFIX:{NAME}:",
 *
 *   shared           a hash: of each thing its version
 *   shared:texts     a hash: of each thing its text, written with its version
 *   shared:reports   a hash: of each node its epoch in a line, and lines "NAME VERSION +" or "NAME VERSION -WHY".  What the process before
 *                    has said of itself counts no more
 *
 * A text that has not the hash of its version was written since, and has its version at the next look.
 *
 * Where the engine's user may not use these commands, invalidations go on: what it says is kept, and shown. */
#include "daemon/fleet/fleet_shared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/fleet/fleet_priv.h"
#include "daemon/log/elog.h"

struct thing {
    char name[FLEET_THING_NAME_MAX + 1], version[FLEET_VERSION_MAX];
    bool seen;          /* by the look under way */
    bool judged, taken; /* this version was */
    bool known;         /* some version was judged */
    uint64_t again_ms;  /* its text was not of this version, and is asked for again then */
    char why[FLEET_THING_WHY_MAX];
};

struct report {
    char node[FLEET_NAME_MAX + 1];
    char *text; /* owned: the epoch's line, and what follows */
};

struct fleet_shared {
    struct fleet_shared_user user;
    char versions_key[FLEET_KEY_MAX], texts_key[FLEET_KEY_MAX], reports_key[FLEET_KEY_MAX];
    struct thing *things;
    unsigned n, room;
    int asked; /* of things: its text is on its way; -1: none's */
    bool look_due, report_due;
    struct report *reports;
    unsigned nreports;
    unsigned refused; /* of things, as the counter has it */
    struct list waits;
    char trouble[FLEET_THING_WHY_MAX], said[FLEET_THING_WHY_MAX];
    uint64_t again_ms; /* then the engine may have another opinion */
};

static struct thing *
thing_find(const struct fleet_shared *s, struct slice name)
{
    for (unsigned i = 0; i < s->n; i++)
        if (slice_eq(slice_str(s->things[i].name), name))
            return &s->things[i];
    return NULL;
}

/* It stands in lines, with spaces between. */
static bool
thing_name_ok(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] <= ' ' || name.ptr[i] == 0x7f)
            return false;
    return name.len > 0 && name.len <= FLEET_THING_NAME_MAX;
}

static struct thing *
thing_add(struct fleet_shared *s, struct slice name)
{
    if (s->n == FLEET_THINGS_MAX || !thing_name_ok(name))
        return NULL;
    if (s->n == s->room) {
        unsigned room = s->room == 0 ? 16 : 2 * s->room;
        struct thing *more = realloc(s->things, room * sizeof(*more));

        if (more == NULL)
            return NULL;
        s->things = more;
        s->room = room;
    }
    memset(&s->things[s->n], 0, sizeof(s->things[0]));
    memcpy(s->things[s->n].name, name.ptr, name.len);
    return &s->things[s->n++];
}

/* ---- writing ---- */

static uint64_t
version_hash(struct slice text)
{
    return hash_plain(text.ptr, text.len);
}

/* Its other half, the time, is for people, and so that a text that comes again is another version. */
static bool
version_is_of(const char *version, struct slice text)
{
    const char *dash = strchr(version, '-');

    return dash != NULL && strtoull(dash + 1, NULL, 16) == version_hash(text);
}

static int
shared_can_write(const struct fleet *f, const char *name)
{
    const struct fleet_shared *s = f->shared;

    tassert(s != NULL && strpbrk(name, " \t\r\n") == NULL);
    if (strlen(name) > FLEET_THING_NAME_MAX ||
        (s->n == FLEET_THINGS_MAX && thing_find(s, slice_str(name)) == NULL))
        return TERR_LIMIT;
    return f->commands.state == LINK_UP && f->state == FLEET_IN && s->trouble[0] == '\0'
               ? 0
               : TERR_UNREACH;
}

/* One transaction, so that no text has another's version; and an entry of the log, that older nodes skip.  `version` .ptr
 * NULL: it is taken back. */
static int
shared_send(struct fleet *f, const char *name, struct slice text, struct slice version)
{
    const struct slice multi = SLICE_LIT("MULTI"), exec = SLICE_LIT("EXEC");
    const struct slice command = version.ptr != NULL ? SLICE_LIT("HSET") : SLICE_LIT("HDEL");
    const struct slice texts[] = {command, slice_str(f->shared->texts_key), slice_str(name), text};
    const struct slice versions[] = {
        command, slice_str(f->shared->versions_key), slice_str(name), version};
    const struct slice hello[] = {SLICE_LIT("XADD"), slice_str(f->log_key), SLICE_LIT("MAXLEN"),
        SLICE_LIT("~"), slice_str(f->count_text), SLICE_LIT("*"), SLICE_LIT("v"), SLICE_LIT("1"),
        SLICE_LIT("kind"), SLICE_LIT("hello"), SLICE_LIT("node"), slice_str(f->env.conf->node),
        SLICE_LIT("shared"), slice_str(name)};
    const unsigned n = version.ptr != NULL ? 4 : 3;

    f->shared->look_due = true;
    return link_send(&f->commands, TAG_SHARED_SENT, &multi, 1) &&
                   link_send(&f->commands, TAG_SHARED_SENT, texts, n) &&
                   link_send(&f->commands, TAG_SHARED_SENT, versions, n) &&
                   link_send(&f->commands, TAG_SHARED_SENT, hello, ARRAY_LEN(hello)) &&
                   link_send(&f->commands, TAG_SHARED_SENT, &exec, 1)
               ? 0
               : TERR_UNREACH;
}

int
fleet_share(struct fleet *f, const char *name, struct slice text, char version[FLEET_VERSION_MAX])
{
    int err = shared_can_write(f, name);

    OBJ_CHECK(f, FLEET_MAGIC);
    if (err != 0 || text.len > FLEET_THING_BYTES_MAX)
        return err != 0 ? err : TERR_LIMIT;
    snprintf(version, FLEET_VERSION_MAX, "%" PRIu64 "-%016" PRIx64, fleet_engine_ms(f),
        version_hash(text));
    return shared_send(f, name, text, slice_str(version));
}

int
fleet_unshare(struct fleet *f, const char *name)
{
    int err = shared_can_write(f, name);

    OBJ_CHECK(f, FLEET_MAGIC);
    return err != 0 ? err : shared_send(f, name, slice_of("", 0), slice_of(NULL, 0));
}

static void
shared_wait_end(struct fleet_shared_wait *w, enum fleet_shared_outcome outcome)
{
    w->outcome = outcome;
    list_del(&w->link);
    list_init(&w->link);
    task_wake(w->task);
}

/* Else what was sent may not have arrived. */
static bool
shared_wait_is_seen(const struct fleet *f, const struct fleet_shared_wait *w)
{
    const struct thing *t = thing_find(f->shared, slice_str(w->name));

    return t != NULL && strcmp(t->version, w->version) == 0;
}

static void
shared_lose(struct fleet *f)
{
    struct list *next;

    for (struct list *l = f->shared->waits.next; l != &f->shared->waits; l = next) {
        struct fleet_shared_wait *w = container_of(l, struct fleet_shared_wait, link);

        next = l->next;
        if (!shared_wait_is_seen(f, w))
            shared_wait_end(w, FLEET_SHARED_LOST);
    }
}

/* Invalidations go on. */
static void
shared_is_refused(struct fleet *f, struct slice text)
{
    struct fleet_shared *s = f->shared;

    if (s->trouble[0] == '\0') /* behind the first one EXEC says only that there was one */
        snprintf(s->trouble, sizeof(s->trouble), "%.*s", (int)(text.len < 200 ? text.len : 200),
            text.ptr);
    if (strcmp(s->said, s->trouble) != 0)
        elog(ELOG_ERROR,
            "fleet: nothing is shared but invalidations: HGETALL, HGET, HSET, HDEL or XADD: %s",
            s->trouble);
    memcpy(s->said, s->trouble, sizeof(s->said));
    s->again_ms = fleet_now(f) + FLEET_TRIM_MS;
    s->asked = -1;
    shared_lose(f);
}

/* ---- what this node says of them ---- */

static void
shared_report(struct fleet *f)
{
    struct fleet_shared *s = f->shared;
    struct slice words[4] = {
        SLICE_LIT("HSET"), slice_str(s->reports_key), slice_str(f->env.conf->node)};
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    if (out == NULL)
        return;
    fprintf(out, "%s\n", f->epoch);
    for (unsigned i = 0; i < s->n; i++)
        if (s->things[i].judged)
            fprintf(out, "%s %s %s%s\n", s->things[i].name, s->things[i].version,
                s->things[i].taken ? "+" : "-", s->things[i].taken ? "" : s->things[i].why);
    if (fclose(out) == 0) {
        words[3] = slice_of(text, len);
        s->report_due = !link_send(&f->commands, TAG_SHARED_SENT, words, 4);
    }
    free(text);
}

/* The end of the reports of a node that has gone. */
void
fleet_shared_forget(struct fleet *f, const char *node)
{
    struct slice words[] = {SLICE_LIT("HDEL"), slice_of("", 0), slice_str(node)};

    if (f->shared == NULL || f->shared->trouble[0] != '\0' || f->shared->n == 0)
        return;
    words[1] = slice_str(f->shared->reports_key);
    link_send(&f->commands, TAG_SHARED_SENT, words, 3);
}

/* ---- taking ---- */

static void
shared_show_refused(struct fleet *f)
{
    struct fleet_shared *s = f->shared;
    unsigned now = 0;

    for (unsigned i = 0; i < s->n; i++)
        now += s->things[i].judged && !s->things[i].taken;
    counter_add_shared(f->env.counters, COUNTER_fleet_shared_refused, (uint64_t)now - s->refused);
    s->refused = now;
}

/* The next one that is not judged, behind `from`. */
static void
shared_ask(struct fleet *f, int from)
{
    struct fleet_shared *s = f->shared;
    struct slice words[] = {SLICE_LIT("HGET"), slice_str(s->texts_key), slice_of("", 0)};

    for (unsigned i = (unsigned)(from + 1); i < s->n && s->asked < 0; i++) {
        if (s->things[i].judged || fleet_now(f) < s->things[i].again_ms ||
            !s->user.wants(s->user.ctx, s->things[i].name))
            continue;
        words[2] = slice_str(s->things[i].name);
        if (link_send(&f->commands, TAG_SHARED_TEXT, words, 3))
            s->asked = (int)i;
    }
    if (s->asked >= 0)
        return;
    shared_show_refused(f);
    if (s->report_due)
        shared_report(f);
    s->user.looked(s->user.ctx);
}

static void
shared_drop_unseen(struct fleet_shared *s)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < s->n; i++) {
        struct thing *t = &s->things[i];

        if (t->seen) {
            if (kept != i)
                s->things[kept] = *t;
            kept++;
            continue;
        }
        s->report_due = true;
        if (t->known)
            s->user.gone(s->user.ctx, t->name);
    }
    s->n = kept;
}

/* What was said of it counts no more. */
static void
shared_drop_unwanted(struct fleet_shared *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (!s->things[i].judged || s->user.wants(s->user.ctx, s->things[i].name))
            continue;
        s->things[i].judged = false;
        s->report_due = true;
    }
}

/* [name, version, ...] */
static void
shared_take_versions(struct fleet *f, const struct engine_reply *r)
{
    struct fleet_shared *s = f->shared;

    if (s->asked >= 0) /* those of the look before are still being taken */
        return;
    if (engine_reply_count(r) > 4 * FLEET_THINGS_MAX) {
        shared_is_refused(f, SLICE_LIT("there are too many texts in the engine"));
        return;
    }
    for (unsigned i = 0; i < s->n; i++)
        s->things[i].seen = false;
    for (unsigned i = 0; i + 1 < engine_reply_count(r); i += 2) {
        struct slice name = engine_reply_text(engine_reply_at(r, i));
        struct slice version = engine_reply_text(engine_reply_at(r, i + 1));
        struct thing *t = thing_find(s, name);

        if (t == NULL)
            t = thing_add(s, name);
        if (t == NULL)
            continue;
        t->seen = true;
        if (version.len >= FLEET_VERSION_MAX || slice_eq(slice_str(t->version), version))
            continue;
        snprintf(t->version, sizeof(t->version), "%.*s", (int)version.len, version.ptr);
        t->judged = false;
        t->again_ms = 0;
    }
    shared_drop_unseen(s);
    shared_drop_unwanted(s);
    shared_ask(f, -1);
}

static void
thing_judge(struct fleet_shared *s, struct thing *t, struct slice text)
{
    t->why[0] = '\0';
    t->judged = t->known = true;
    /* By another program than tarnd: who takes it keeps it as C has texts. */
    if (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL) {
        t->taken = false;
        snprintf(t->why, sizeof(t->why), "it has a NUL in it");
    } else {
        t->taken = s->user.take(s->user.ctx, t->name, text, t->why, sizeof(t->why));
    }
    for (char *p = t->why; *p != '\0'; p++)
        if (*p == '\n')
            *p = ' ';
    s->report_due = true;
    if (t->taken)
        elog(ELOG_INFO, "fleet: shared %s, version %s: taken", t->name, t->version);
    else
        elog(ELOG_ERROR,
            "fleet: shared %s, version %s: refused: %s; when the cause is gone, `tarnctl reload` "
            "at "
            "this node tries again",
            t->name, t->version, t->why);
}

static void
shared_take_text(struct fleet *f, const struct engine_reply *r)
{
    struct fleet_shared *s = f->shared;
    int asked = s->asked;
    struct slice text = engine_reply_text(r);

    s->asked = -1;
    if (asked < 0 || (unsigned)asked >= s->n)
        return;
    if (engine_reply_type(r) == ENGINE_STRING && version_is_of(s->things[asked].version, text))
        thing_judge(s, &s->things[asked], text);
    else
        s->things[asked].again_ms = fleet_now(f) + FLEET_TRIM_MS;
    shared_ask(f, asked);
}

/* ---- what all of them say ---- */

static void
reports_free(struct fleet_shared *s)
{
    for (unsigned i = 0; i < s->nreports; i++)
        free(s->reports[i].text);
    free(s->reports);
    s->reports = NULL;
    s->nreports = 0;
}

/* Its lines; NULL: there is none of this process. */
static const char *
report_of(const struct fleet_shared *s, const char *node, const char *epoch)
{
    size_t len = strlen(epoch);

    for (unsigned i = 0; i < s->nreports; i++)
        if (strcmp(s->reports[i].node, node) == 0)
            return len > 0 && strncmp(s->reports[i].text, epoch, len) == 0 &&
                           s->reports[i].text[len] == '\n'
                       ? s->reports[i].text + len + 1
                       : NULL;
    return NULL;
}

/* "+", "-WHY"; NULL: the node has not said anything of it. */
static const char *
report_find(const char *report, const char *name, const char *version)
{
    size_t n = strlen(name), v = strlen(version);

    while (report != NULL && *report != '\0') {
        const char *end = strchr(report, '\n');

        if (strncmp(report, name, n) == 0 && report[n] == ' ' &&
            strncmp(report + n + 1, version, v) == 0 && report[n + 1 + v] == ' ')
            return report + n + v + 2;
        report = end != NULL ? end + 1 : NULL;
    }
    return NULL;
}

static enum fleet_thing_said
said_of(const struct fleet_shared *s, const struct fleet_node *node, const char *name,
    const char *version, char why[FLEET_THING_WHY_MAX])
{
    const char *said = report_find(report_of(s, node->name, node->epoch), name, version);

    why[0] = '\0';
    if (said == NULL)
        return FLEET_THING_SILENT;
    if (*said != '-')
        return FLEET_THING_TAKEN;
    snprintf(why, FLEET_THING_WHY_MAX, "%.*s", (int)strcspn(said + 1, "\n"), said + 1);
    return FLEET_THING_REFUSED;
}

static void
shared_judge_wait(struct fleet *f, struct fleet_shared_wait *w)
{
    const struct fleet_shared *s = f->shared;
    char why[FLEET_THING_WHY_MAX];
    unsigned taken = 0, live = 0;

    for (unsigned i = 0; i < f->nnodes; i++) {
        enum fleet_thing_said said;

        if (!f->nodes[i].lives)
            continue;
        live++;
        said = said_of(s, &f->nodes[i], w->name, w->version, why);
        taken += said == FLEET_THING_TAKEN;
        if (said == FLEET_THING_REFUSED) {
            shared_wait_end(w, FLEET_SHARED_REFUSED);
            return;
        }
    }
    /* An engine that is new may not know all nodes that live yet, as for proofs. */
    if (live > 0 && taken == live && f->polled_alive && fleet_now(f) >= f->mature_ms &&
        !f->too_many)
        shared_wait_end(w, FLEET_SHARED_TAKEN);
    /* This look began behind it. */
    else if (f->looks >= w->from_look && !shared_wait_is_seen(f, w))
        shared_wait_end(w, FLEET_SHARED_REPLACED);
}

static void
shared_judge_waits(struct fleet *f)
{
    struct list *next;

    for (struct list *l = f->shared->waits.next; l != &f->shared->waits; l = next) {
        next = l->next;
        shared_judge_wait(f, container_of(l, struct fleet_shared_wait, link));
    }
}

static void
shared_take_reports(struct fleet *f, const struct engine_reply *r)
{
    struct fleet_shared *s = f->shared;
    unsigned n = engine_reply_count(r) / 2;

    reports_free(s);
    s->reports = calloc(n + 1, sizeof(*s->reports));
    for (unsigned i = 0; i < n && s->reports != NULL; i++) {
        struct slice node = engine_reply_text(engine_reply_at(r, 2 * i));
        struct slice text = engine_reply_text(engine_reply_at(r, 2 * i + 1));
        struct report *to = &s->reports[s->nreports];

        if (node.len > FLEET_NAME_MAX)
            continue;
        to->text = strndup(text.len > 0 ? text.ptr : "", text.len);
        if (to->text == NULL)
            continue;
        memcpy(to->node, node.ptr, node.len);
        s->nreports++;
    }
    /* An engine that was emptied, or is another one. */
    if (s->n > 0 && s->asked < 0 && report_of(s, f->env.conf->node, f->epoch) == NULL)
        shared_report(f);
    shared_judge_waits(f);
}

/* ---- as the fleet has it done ---- */

void
fleet_shared_look(struct fleet *f)
{
    struct slice words[] = {SLICE_LIT("HGETALL"), slice_of("", 0)};

    if (f->shared == NULL)
        return;
    f->shared->look_due = false;
    if (f->shared->trouble[0] != '\0' && fleet_now(f) < f->shared->again_ms)
        return;
    f->shared->trouble[0] = '\0';
    words[1] = slice_str(f->shared->versions_key);
    link_send(&f->commands, TAG_SHARED_VERSIONS, words, 2);
    words[1] = slice_str(f->shared->reports_key);
    if (f->shared->n > 0 || !list_empty(&f->shared->waits))
        link_send(&f->commands, TAG_SHARED_REPORTS, words, 2);
}

bool
fleet_shared_take(struct fleet *f, unsigned tag, const struct engine_reply *r)
{
    if (tag < TAG_SHARED_VERSIONS)
        return false;
    if (engine_reply_type(r) == ENGINE_ERROR) {
        shared_is_refused(f, engine_reply_text(r));
        return true;
    }
    for (unsigned i = 0; tag == TAG_SHARED_SENT && i < engine_reply_count(r); i++)
        if (engine_reply_type(engine_reply_at(r, i)) == ENGINE_ERROR) /* of a transaction */
            shared_is_refused(f, engine_reply_text(engine_reply_at(r, i)));
    if (tag == TAG_SHARED_VERSIONS)
        shared_take_versions(f, r);
    else if (tag == TAG_SHARED_TEXT)
        shared_take_text(f, r);
    else if (tag == TAG_SHARED_REPORTS)
        shared_take_reports(f, r);
    return true;
}

/* The connection is another one: what was under way is not. */
void
fleet_shared_began(struct fleet *f)
{
    if (f->shared == NULL)
        return;
    f->shared->asked = -1;
    f->shared->trouble[0] = '\0';
    f->shared->report_due = f->shared->n > 0;
    shared_lose(f);
}

void
fleet_shared_is_new(struct fleet *f)
{
    if (f->shared != NULL)
        f->shared->look_due = true;
}

bool
fleet_shared_is_due(const struct fleet *f)
{
    return f->shared != NULL && f->shared->look_due;
}

bool
fleet_shared_waits(const struct fleet *f)
{
    return f->shared != NULL && !list_empty(&f->shared->waits);
}

void
fleet_shared_tick(struct fleet *f)
{
    struct list *next;

    if (f->shared == NULL)
        return;
    for (struct list *l = f->shared->waits.next; l != &f->shared->waits; l = next) {
        struct fleet_shared_wait *w = container_of(l, struct fleet_shared_wait, link);

        next = l->next;
        if (fleet_now(f) >= w->deadline_ms)
            shared_wait_end(w, shared_wait_is_seen(f, w) ? FLEET_SHARED_LATE : FLEET_SHARED_LOST);
    }
}

void
fleet_shared_close(struct fleet *f)
{
    if (f->shared == NULL)
        return;
    tassert(list_empty(&f->shared->waits));
    reports_free(f->shared);
    free(f->shared->things);
    free(f->shared);
    f->shared = NULL;
}

size_t
fleet_shared_bytes(const struct fleet *f)
{
    const struct fleet_shared *s = f->shared;
    size_t bytes = s != NULL ? sizeof(*s) + s->room * sizeof(*s->things) : 0;

    for (unsigned i = 0; s != NULL && i < s->nreports; i++)
        bytes += sizeof(s->reports[i]) + strlen(s->reports[i].text) + 1;
    return bytes;
}

/* ---- for its users ---- */

int
fleet_shared_use(struct fleet *f, const struct fleet_shared_user *user)
{
    struct fleet_shared *s = calloc(1, sizeof(*s));
    const struct conf_fleet *conf = f->env.conf;

    OBJ_CHECK(f, FLEET_MAGIC);
    tassert(f->shared == NULL);
    if (s == NULL)
        return TERR_NOMEM;
    s->user = *user;
    s->asked = -1;
    list_init(&s->waits);
    snprintf(s->versions_key, FLEET_KEY_MAX, "%s:{%s}:shared", conf->key_prefix, conf->name);
    snprintf(s->texts_key, FLEET_KEY_MAX, "%s:{%s}:shared:texts", conf->key_prefix, conf->name);
    snprintf(s->reports_key, FLEET_KEY_MAX, "%s:{%s}:shared:reports", conf->key_prefix, conf->name);
    f->shared = s;
    return 0;
}

void
fleet_shared_wait_start(struct fleet *f, struct fleet_shared_wait *w)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    tassert(f->shared != NULL && w->task != NULL);
    w->outcome = FLEET_SHARED_WAITS;
    w->from_look = f->looks + 1;
    list_add_tail(&f->shared->waits, &w->link);
    f->quick = 0;
    task_wake(&f->task);
}

void
fleet_shared_wait_end(struct fleet *f, struct fleet_shared_wait *w)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    list_del(&w->link); /* of one that is over: its own */
    list_init(&w->link);
}

bool
fleet_shared_is_waited(const struct fleet *f, const char *name)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    for (struct list *l = f->shared->waits.next; l != &f->shared->waits; l = l->next)
        if (strcmp(container_of(l, struct fleet_shared_wait, link)->name, name) == 0)
            return true;
    return false;
}

bool
fleet_thing_status(const struct fleet *f, unsigned n, struct fleet_thing_status *out)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    if (f->shared == NULL || n >= f->shared->n)
        return false;
    *out = (struct fleet_thing_status){.name = f->shared->things[n].name,
        .version = f->shared->things[n].version,
        .is_empty = version_is_of(f->shared->things[n].version, slice_of("", 0))};
    return true;
}

void
fleet_shared_again(struct fleet *f)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    for (unsigned i = 0; f->shared != NULL && i < f->shared->n; i++) {
        struct thing *t = &f->shared->things[i];

        if (!t->judged || t->taken)
            continue;
        t->judged = false;
        t->again_ms = 0;
        f->shared->look_due = true;
    }
}

enum fleet_thing_said
fleet_thing_at(const struct fleet *f, unsigned node, const char *name, const char *version,
    char why[FLEET_THING_WHY_MAX])
{
    OBJ_CHECK(f, FLEET_MAGIC);
    tassert(f->shared != NULL && node < f->nnodes);
    return said_of(f->shared, &f->nodes[node], name, version, why);
}

const char *
fleet_shared_trouble(const struct fleet *f)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    return f->shared != NULL ? f->shared->trouble : "";
}
