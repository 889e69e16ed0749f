/* cert_store.c -- entries that are parsed, those that are being parsed, and those that were used last.
 *
 * One mutex for all of it: a pick costs a thousandth of the handshake that it is for.  Under the lock nothing blocks and
 * OpenSSL only frees; files are read by jobs, which know their entry and no more. */
#include "daemon/tls/cert_store.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/terr.h"
#include "daemon/base/waiter.h"
#include "daemon/log/elog.h"
#include "daemon/tls/cert_keys.h"
#include "daemon/tls/cert_table_priv.h"

enum {
    /* A handshake asks for a bad certificate again and again; its files are read again this often. */
    CERT_RETRY_S = 5,
    /* An authority asks from several places within a second or two; then the file is another one's. */
    CERT_CHALLENGE_S = 2,
    CERT_CHALLENGES_MAX = 64, /* names under validation at once */
};

#define CERT_STORE_MAGIC OBJ_TAG('c', 'r', 't', 's')
struct cert_store {
    uint32_t magic;
    struct cert_store_env env; /* set once at open */
    /* Of what follows, of what the entries say is under it, and of every waiter that is armed here.  An
     * offload's lock is taken inside it. */
    pthread_mutex_t lock;
    pthread_cond_t idle;      /* njobs is 0 */
    struct cert_table *table; /* counted */
    struct list used;         /* entries with keys, the one that was used last in front */
    struct list kept;         /* entries with keys that cannot be had again: their files are bad */
    struct list challenges;   /* entries of tls-alpn-01, counted, the oldest first */
    unsigned nused, nkept, nchallenges, njobs;
    struct cert_store_stats stats;
};

/* An entry that is being parsed. */
struct cert_job {
    struct job job;
    struct cert_store *store;
    struct cert_entry *entry; /* counted */
    bool is_challenge;
};

static int64_t
store_now(const struct cert_store *s)
{
    return s->env.now_s != NULL ? s->env.now_s(s->env.now_ctx) : (int64_t)time(NULL);
}

/* ---- the lists, under the lock ---- */

/* A handshake's keys are counted (store_take): what leaves a list stays good for those that have it. */
static void
store_unlist(struct cert_store *s, struct cert_entry *e)
{
    if (list_empty(&e->lru))
        return;
    list_del(&e->lru);
    s->nkept -= e->is_kept;
    s->nused -= !e->is_kept;
    e->is_kept = false;
}

/* In front of those that may be forgotten, or among those that may not. */
static void
store_list(struct cert_store *s, struct cert_entry *e, bool is_kept)
{
    tassert(e->keys != NULL);
    store_unlist(s, e);
    e->is_kept = is_kept;
    list_add_head(is_kept ? &s->kept : &s->used, &e->lru);
    s->nkept += is_kept;
    s->nused += !is_kept;
}

static void
store_forget(struct cert_store *s, struct cert_entry *e)
{
    store_unlist(s, e);
    if (e->keys != NULL)
        cert_keys_unref(&e->keys);
    /* One that is being parsed stays so, for its job publishes; one that is bad, until it may be tried again. */
    if (e->state == CERT_PARSED)
        e->state = CERT_UNPARSED;
}

static void
store_evict(struct cert_store *s)
{
    while (s->nused > s->table->parsed_max) {
        store_forget(s, container_of(s->used.prev, struct cert_entry, lru));
        s->stats.evictions++;
    }
}

/* ---- parsing, on a thread of the offload ---- */

static bool
challenge_has_file(const struct cert_entry *e)
{
    int stem = (int)strlen(e->certificate) - 4; /* without ".pem" */
    char other[PATH_MAX];

    snprintf(other, sizeof(other), "%.*s.crt", stem, e->certificate);
    return access(e->certificate, F_OK) == 0 || access(other, F_OK) == 0;
}

/* What the fleet's other nodes have given us for it. */
static size_t
challenge_text(
    const struct cert_store *s, const struct cert_entry *e, char out[CERT_CHALLENGE_TEXT])
{
    return s->env.challenge != NULL ? s->env.challenge(s->env.challenge_ctx,
                                          slice_of(e->names.ptr + 1, (uint8_t)e->names.ptr[0]), out)
                                    : 0;
}

/* NAME.pem, or NAME.crt with NAME.key, or what there is without a file. */
static int
challenge_parse(const struct cert_job *j, struct cert_keys **keys, struct cert_report *report)
{
    struct cert_source source = {.certificate = j->entry->certificate,
        .names = j->entry->names,
        .now_s = store_now(j->store)};
    /* The clients of ACME that write tls-alpn-01 differ in the form, and none says which it will be. */
    int stem = (int)strlen(j->entry->certificate) - 4; /* without ".pem" */
    char *certificate = NULL, *key = NULL;
    char text[CERT_CHALLENGE_TEXT];
    int rc;

    if (!challenge_has_file(j->entry) &&
        (source.text.len = challenge_text(j->store, j->entry, text)) > 0) {
        source.text.ptr = text;
    } else if (access(j->entry->certificate, F_OK) != 0) {
        if (asprintf(&certificate, "%.*s.crt", stem, j->entry->certificate) < 0 ||
            asprintf(&key, "%.*s.key", stem, j->entry->certificate) < 0) {
            free(certificate);
            return TERR_NOMEM;
        }
        source.certificate = certificate;
        source.key = key;
    }
    /* Else a client that offers acme-tls/1 would be shown any certificate that lies there. */
    rc = cert_keys_parse(keys, &source, report);
    if (rc == 0 && !cert_keys_is_acme(*keys)) {
        cert_report_add(report, true, source.certificate, 0,
            "is not a certificate of tls-alpn-01: others do not belong into this directory");
        cert_keys_unref(keys);
        rc = TERR_CONFIG;
    }
    explicit_bzero(text, sizeof(text));
    free(certificate);
    free(key);
    return rc;
}

static int
entry_parse(const struct cert_job *j, struct cert_keys **keys, struct cert_report *report)
{
    const struct cert_entry *e = j->entry;
    struct cert_source source = {.certificate = e->certificate,
        .key = e->key,
        .ocsp = e->ocsp,
        .names = e->names,
        .now_s = store_now(j->store)};

    return cert_keys_parse(keys, &source, report);
}

/* FILE:LINE: WHY, owned by the caller; NULL: no memory. */
static char *
report_text(const struct cert_report_row *row)
{
    char *text;

    if ((row->line > 0 ? asprintf(&text, "%s:%u: %s", row->file, row->line, row->why)
                       : asprintf(&text, "%s: %s", row->file, row->why)) < 0)
        return NULL;
    return text;
}

/* The first error: those behind it are its consequences. */
static char *
report_error(const struct cert_report *report)
{
    for (unsigned i = 0; i < report->nrows; i++) {
        if (report->rows[i].is_error)
            return report_text(&report->rows[i]);
    }
    return NULL;
}

static void
report_log_remarks(const struct cert_report *report)
{
    for (unsigned i = 0; i < report->nrows; i++) {
        char *text = report->rows[i].is_error ? NULL : report_text(&report->rows[i]);

        if (text != NULL)
            elog(ELOG_WARN, "tls: %s", text);
        free(text);
    }
}

/* Under the lock.  What the table does not have any more is dropped: its handshakes look again. */
static void
store_publish(struct cert_store *s, const struct cert_job *j, struct cert_keys *keys, int rc)
{
    struct cert_entry *e = j->entry;
    bool is_ours = j->is_challenge || cert_table_has(s->table, e);

    tassert(e->state == CERT_PARSING);
    tassert((rc == 0) == (keys != NULL));
    /* Notified last, in all cases: a handshake that is not woken waits until its deadline. */
    e->state = rc == 0 ? CERT_PARSED : CERT_BAD;
    e->rc = rc;
    e->retry_s = store_now(s) + (j->is_challenge ? CERT_CHALLENGE_S : CERT_RETRY_S);
    s->stats.parses++;
    s->stats.failures += rc != 0 && rc != TERR_NOTFOUND;
    if (rc == 0) {
        if (e->keys != NULL)
            cert_keys_unref(&e->keys); /* those of the file as it was before */
        e->keys = keys;
    }
    if (!is_ours)
        store_forget(s, e);
    else if (!j->is_challenge && e->keys != NULL)
        store_list(s, e, rc != 0);
    store_evict(s);
    waiter_notify_all(&e->waiting);
}

/* Once for each text: a bad file is read again every few seconds. */
static void
store_say(struct cert_store *s, struct cert_entry *e, const struct cert_report *report)
{
    char *error = report_error(report);
    bool same, was_remarked;

    /* Decided under the lock, written without it: the error log may block. */
    pthread_mutex_lock(&s->lock);
    same = error == NULL || (e->error != NULL && strcmp(e->error, error) == 0);
    was_remarked = e->was_remarked;
    e->was_remarked = was_remarked || report->nremarks > 0;
    if (!same || report->nerrors == 0) {
        free(e->error);
        e->error = error != NULL ? strdup(error) : NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (!same)
        elog(ELOG_ERROR, "tls: %s", error);
    if (!was_remarked)
        report_log_remarks(report);
    free(error);
}

static void
store_run(struct job *job)
{
    struct cert_job *j = container_of(job, struct cert_job, job);
    struct cert_store *s = j->store;
    struct cert_report report = {.nrows = 0};
    struct cert_keys *keys = NULL;
    int rc = j->is_challenge ? challenge_parse(j, &keys, &report) : entry_parse(j, &keys, &report);

    if (rc != TERR_NOTFOUND || !j->is_challenge) /* any client may ask for any challenge */
        store_say(s, j->entry, &report);
    cert_report_free(&report);
    pthread_mutex_lock(&s->lock);
    /* A certificate without its file is a bad one until a reload takes it out; a challenge without its file is over. */
    store_publish(s, j, keys, rc == TERR_NOTFOUND && !j->is_challenge ? TERR_CONFIG : rc);
    cert_entry_unref(&j->entry);
    free(j);
    if (--s->njobs == 0)
        pthread_cond_signal(&s->idle);
    pthread_mutex_unlock(&s->lock); /* cert_store_close() waits for this, too */
}

/* Under the lock.  0, TERR_LIMIT or TERR_NOMEM. */
static int
store_submit(struct cert_store *s, struct cert_entry *e, bool is_challenge)
{
    struct cert_job *j = malloc(sizeof(*j));
    int rc;

    if (j == NULL)
        return TERR_NOMEM;
    *j = (struct cert_job){.store = s, .entry = e, .is_challenge = is_challenge};
    job_init(&j->job, store_run, NULL);
    /* The job may run before this returns, and waits for the lock that we have. */
    rc = offload_submit(s->env.offload, &j->job);
    if (rc < 0) {
        free(j);
        return rc;
    }
    cert_entry_ref(e);
    e->state = CERT_PARSING;
    s->njobs++;
    return 0;
}

/* ---- picking, under the lock ---- */

/* 0: it has keys.  TERR_AGAIN: it is being parsed. */
static int
store_want(struct cert_store *s, struct cert_entry *e)
{
    int rc;

    /* To the front of those that were used last.  What must not be forgotten has no order. */
    if (e->state == CERT_PARSED || (e->state == CERT_BAD && e->keys != NULL)) {
        if (!e->is_kept)
            store_list(s, e, false);
        return 0;
    }
    if (e->state == CERT_PARSING)
        return TERR_AGAIN;
    /* Else each handshake would read the file, and clients decide how many there are. */
    if (e->state == CERT_BAD && store_now(s) < e->retry_s)
        return e->rc;
    rc = store_submit(s, e, false);
    if (rc < 0) /* what was parsed of the file before is better than nothing */
        return e->keys != NULL ? 0 : rc;
    return TERR_AGAIN;
}

static struct cert_keys *
store_take(struct cert_entry *e)
{
    cert_keys_ref(e->keys);
    return e->keys;
}

/* Both kinds, for which of them a client takes is OpenSSL's to find out. */
static int
store_pick_name(struct cert_store *s, struct slice name, struct waiter *w, struct cert_pick *out)
{
    const struct cert_slot *slot = cert_table_find(s->table, name);
    int rc[CERT_KINDS], worst = TERR_NOTFOUND;
    struct cert_entry *e[CERT_KINDS], *busy = NULL;

    /* Both are wanted even if the first is busy: the second parse runs meanwhile. */
    for (unsigned kind = 0; kind < CERT_KINDS; kind++) {
        e[kind] = slot->entry[kind] != 0 ? s->table->entries[slot->entry[kind] - 1] : NULL;
        rc[kind] = e[kind] != NULL ? store_want(s, e[kind]) : TERR_NOTFOUND;
        if (rc[kind] == TERR_AGAIN)
            busy = e[kind];
        else if (rc[kind] != TERR_NOTFOUND)
            worst = rc[kind];
    }
    if (busy != NULL) {
        waiter_arm(w, &busy->waiting);
        s->stats.waits++;
        return TERR_AGAIN;
    }
    /* One good kind is enough; why the other is not to be had was said when it was parsed. */
    out->ecdsa = rc[CERT_ECDSA] == 0 ? store_take(e[CERT_ECDSA]) : NULL;
    out->rsa = rc[CERT_RSA] == 0 ? store_take(e[CERT_RSA]) : NULL;
    return out->ecdsa != NULL || out->rsa != NULL ? 0 : worst;
}

/* At most 64: a list is enough. */
static struct cert_entry *
challenge_find(struct cert_store *s, struct slice name)
{
    struct list *at, *next;

    LIST_FOREACH_SAFE(at, next, &s->challenges)
    {
        struct cert_entry *e = container_of(at, struct cert_entry, lru);

        if (cert_entry_has(e, name))
            return e;
    }
    return NULL;
}

static void
challenge_drop(struct cert_store *s, struct cert_entry *e)
{
    tassert(e->state != CERT_PARSING);
    list_del(&e->lru);
    s->nchallenges--;
    if (e->keys != NULL)
        cert_keys_unref(&e->keys);
    cert_entry_unref(&e);
}

static void
challenge_drop_idle(struct cert_store *s, bool all)
{
    struct list *at, *next;

    LIST_FOREACH_SAFE(at, next, &s->challenges)
    {
        struct cert_entry *e = container_of(at, struct cert_entry, lru);

        if (e->state == CERT_PARSING)
            continue;
        challenge_drop(s, e);
        if (!all)
            break;
    }
}

/* The name is a host name in normal form: no path leads out of the directory by it. */
static int
challenge_new(struct cert_store *s, struct slice name, struct cert_entry **out)
{
    char packed[CERT_NAME_MAX];
    struct cert_files f = {NULL, NULL, NULL};
    struct cert_entry *e;

    /* The oldest goes, by a stranger's question too: where its proof still lies there, the CA's next one reads it again. */
    if (s->nchallenges == CERT_CHALLENGES_MAX)
        challenge_drop_idle(s, false);
    if (s->nchallenges == CERT_CHALLENGES_MAX)
        return TERR_LIMIT;
    if (asprintf(&f.certificate, "%s/%.*s.pem", s->table->challenge_directory, (int)name.len,
            name.ptr) < 0)
        return TERR_NOMEM;
    tassert(name.len < sizeof(packed));
    packed[0] = (char)(uint8_t)name.len;
    memcpy(packed + 1, name.ptr, name.len);
    e = cert_entry_new(&f, slice_of(packed, name.len + 1));
    free(f.certificate);
    if (e == NULL)
        return TERR_NOMEM;
    list_add_tail(&s->challenges, &e->lru);
    s->nchallenges++;
    *out = e;
    return 0;
}

/* Any client may ask for any name before there is a proof: that must not make the CA wait, which asks once there is
 * one.  Asked on the loop, under the lock: it is one name that the kernel has in memory. */
static bool
challenge_has_come(const struct cert_store *s, const struct cert_entry *e)
{
    char text[CERT_CHALLENGE_TEXT];
    bool has;

    if (e->rc != TERR_NOTFOUND)
        return false;
    has = challenge_has_file(e) || challenge_text(s, e, text) > 0;
    explicit_bzero(text, sizeof(text));
    return has;
}

static int
store_pick_challenge(
    struct cert_store *s, struct slice name, struct waiter *w, struct cert_pick *out)
{
    struct cert_entry *e = challenge_find(s, name);
    int rc = 0;

    /* A server name is no pattern (RFC 6066 3), and no path either: it was folded. */
    if (name.len == 0 || name.ptr[0] == '*' || s->table->challenge_directory == NULL)
        return TERR_NOTFOUND;
    if (e == NULL)
        rc = challenge_new(s, name, &e);
    else if (e->state == CERT_BAD && store_now(s) < e->retry_s && !challenge_has_come(s, e))
        return e->rc;
    else if (e->state == CERT_PARSED && store_now(s) < e->retry_s) {
        if (cert_keys_is_rsa(e->keys))
            out->rsa = store_take(e);
        else
            out->ecdsa = store_take(e);
        return 0;
    }
    if (rc == 0 && e->state != CERT_PARSING)
        rc = store_submit(s, e, true);
    /* What was made for it stays, UNPARSED, and the next question submits it again. */
    if (rc < 0)
        return rc;
    waiter_arm(w, &e->waiting);
    s->stats.waits++;
    return TERR_AGAIN;
}

int
cert_store_pick(
    struct cert_store *s, struct slice sni, bool acme_alpn, struct waiter *w, struct cert_pick *out)
{
    char folded[CERT_NAME_MAX];
    struct slice name = slice_of(folded, cert_name_fold(sni, folded));
    int rc;

    OBJ_CHECK(s, CERT_STORE_MAGIC);
    tassert(!waiter_pending(w));
    *out = (struct cert_pick){NULL, NULL};
    pthread_mutex_lock(&s->lock);
    rc = acme_alpn ? store_pick_challenge(s, name, w, out) : store_pick_name(s, name, w, out);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* False: the notification is on its way, and the waiter's memory must stay until it has landed. */
bool
cert_pick_cancel(struct cert_store *s, struct waiter *w)
{
    bool idle;

    OBJ_CHECK(s, CERT_STORE_MAGIC);
    pthread_mutex_lock(&s->lock);
    if (waiter_state(w) == WAITER_ARMED)
        waiter_disarm(w);
    idle = waiter_state(w) == WAITER_IDLE;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

/* ---- open, swap, close ---- */

int
cert_store_open(
    struct cert_store **out, struct cert_table **table, const struct cert_store_env *env)
{
    struct cert_store *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return TERR_NOMEM;
    tassert(env->offload != NULL);
    s->magic = CERT_STORE_MAGIC;
    s->env = *env;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    list_init(&s->used);
    list_init(&s->kept);
    list_init(&s->challenges);
    OBJ_TAKE(s->table, table, CERT_TABLE_MAGIC);
    *out = s;
    return 0;
}

/* A file has changed: what was parsed of it serves until, and unless, the new one can be.
 * A job of the old entry may run still: it finds its entry in no table, and drops what it has made. */
static void
store_change(struct cert_store *s, const struct cert_change *c)
{
    if (c->old->keys == NULL)
        return;
    tassert(c->entry->keys == NULL);
    store_unlist(s, c->old);
    c->entry->keys = c->old->keys;
    c->old->keys = NULL;
    if (c->old->state == CERT_PARSED)
        c->old->state = CERT_UNPARSED;
    store_list(s, c->entry, false);
}

/* What is in the list and not in the table; or all. */
static void
store_forget_others(struct cert_store *s, struct list *entries, bool all)
{
    struct list *at, *next;

    LIST_FOREACH_SAFE(at, next, entries)
    {
        struct cert_entry *e = container_of(at, struct cert_entry, lru);

        if (all || !cert_table_has(s->table, e))
            store_forget(s, e);
    }
}

/* Entries of files that are bad now must not be forgotten, and others may be again. */
static void
store_keep(struct cert_store *s)
{
    struct list *at, *next;

    LIST_FOREACH_SAFE(at, next, &s->kept)
    {
        struct cert_entry *e = container_of(at, struct cert_entry, lru);

        if (e->state != CERT_BAD)
            store_list(s, e, false);
    }
    for (unsigned i = 0; i < s->table->nkept; i++) {
        if (s->table->kept[i]->keys != NULL)
            store_list(s, s->table->kept[i], true);
    }
}

void
cert_store_swap(struct cert_store *s, struct cert_table **table)
{
    struct cert_table *before, *now;

    OBJ_CHECK(s, CERT_STORE_MAGIC);
    OBJ_TAKE(now, table, CERT_TABLE_MAGIC);
    pthread_mutex_lock(&s->lock);
    before = s->table;
    s->table = now;
    for (unsigned i = 0; i < now->nchanges; i++)
        store_change(s, &now->changes[i]);
    store_forget_others(s, &s->used, false);
    store_forget_others(s, &s->kept, false);
    store_keep(s);
    store_evict(s);
    /* The directory may be another one now. */
    challenge_drop_idle(s, true);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < now->nchanges; i++)
        cert_entry_unref(&now->changes[i].old);
    now->nchanges = 0;
    /* Without the lock: the last count frees 50,000 entries. */
    cert_table_unref(&before);
}

void
cert_store_close(struct cert_store **sp)
{
    struct cert_store *s;

    OBJ_TAKE(s, sp, CERT_STORE_MAGIC);
    pthread_mutex_lock(&s->lock);
    /* Loops are gone by now, and with them every waiter; jobs have a pointer to us. */
    while (s->njobs > 0)
        pthread_cond_wait(&s->idle, &s->lock);
    store_forget_others(s, &s->used, true);
    store_forget_others(s, &s->kept, true);
    challenge_drop_idle(s, true);
    tassert(s->nused == 0 && s->nkept == 0 && s->nchallenges == 0);
    pthread_mutex_unlock(&s->lock);
    cert_table_unref(&s->table);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    OBJ_FREE(s);
}

struct cert_table *
cert_store_table(struct cert_store *s)
{
    struct cert_table *t;

    OBJ_CHECK(s, CERT_STORE_MAGIC);
    pthread_mutex_lock(&s->lock);
    t = s->table;
    cert_table_ref(t);
    pthread_mutex_unlock(&s->lock);
    return t;
}

/* ---- for operators ---- */

void
cert_store_stats(struct cert_store *s, struct cert_store_stats *out)
{
    OBJ_CHECK(s, CERT_STORE_MAGIC);
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->certificates = s->table->n;
    out->names = s->table->nnames;
    out->parsed = s->nused + s->nkept;
    out->table_bytes = s->table->bytes;
    pthread_mutex_unlock(&s->lock);
}

struct slice
cert_info_name(struct slice *names)
{
    struct slice name = slice_of("", 0);

    if (names->len > 0) {
        name = slice_of(names->ptr + 1, (uint8_t)names->ptr[0]);
        *names = slice_of(name.ptr + name.len, names->len - 1 - name.len);
    }
    return name;
}

/* Under the lock, which is released before anything else looks at the copy. */
static void
store_info(const struct cert_entry *e, struct cert_info *out)
{
    *out = (struct cert_info){.file = e->certificate,
        .key_file = e->key,
        .issuer = e->issuer,
        .nnames = e->nnames,
        .names = e->names,
        .not_before_s = e->not_before_s,
        .not_after_s = e->not_after_s,
        .kind = e->kind,
        .key_bits = e->key_bits,
        .is_parsed = e->keys != NULL,
        .is_kept = e->is_kept,
        .staple_until_s = e->keys != NULL ? cert_keys_staple_until(e->keys) : 0};
    snprintf(out->error, sizeof(out->error), "%s", e->error != NULL ? e->error : "");
}

void
cert_store_each(
    struct cert_store *s, void (*each)(void *ctx, const struct cert_info *info), void *ctx)
{
    /* The lock is taken for each entry and not for all: handshakes go on while an operator's list of 50,000 is written. */
    struct cert_table *t = cert_store_table(s);

    for (unsigned i = 0; i < t->n; i++) {
        struct cert_info info;

        pthread_mutex_lock(&s->lock);
        store_info(t->entries[i], &info);
        pthread_mutex_unlock(&s->lock);
        info.is_default = t->fallback.entry[info.kind] == i + 1;
        each(ctx, &info);
    }
    cert_table_unref(&t);
}
