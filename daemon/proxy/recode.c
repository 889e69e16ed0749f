/* recode.c -- from a stored response that is hit often to a shorter form beside it. */
#include "daemon/proxy/recode.h"

#include <limits.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/codings.h"
#include "daemon/http/dictionary.h"
#include "daemon/http/vary.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/recode_priv.h"
#include "daemon/tls/digest.h"

enum {
    RECODE_BODY_MIN = 256,         /* bytes, packed: below, a head is most of what is sent */
    RECODE_BODY_MAX = 8 << 20,     /* unpacked */
    RECODE_BEST_MAX = 1 << 20,     /* the same, for what takes 3 s a megabyte */
    RECODE_DCZ_BEST_MAX = 2 << 20, /* the same, with its dictionary */
    RECODE_TURN = 128 << 10,       /* unpacked in a turn: 0.2 ms */
    RECODE_ROOM = 64 << 10,        /* of the first buffer */
    RECODE_STORE_SHARE = 8,        /* of the store, that the run's memory may take */
    RECODE_LEFT_MS = 10000,        /* of its ttl, at least: else it is made for nothing */
    RECODE_LEFT_BEST_MS = 60000,   /* the same, for the best */
    RECODE_GAIN = 32,              /* a 32nd of what is stored, at least, is saved */
};

/* The configuration's forms; and the one that is wanted for itself. */
static const struct recode_kind recode_kinds[] = {
    {HTTP_FORM_BR, CONF_COMPRESS_BR, {"br", 2}, REPACK_BROTLI, 5, 11},
    {HTTP_FORM_ZSTD, CONF_COMPRESS_ZSTD, {"zstd", 4}, REPACK_ZSTD, 9, 19},
};
static const struct recode_kind recode_dcz = {
    HTTP_FORM_DCZ, CONF_COMPRESS_ZSTD, {"dcz", 3}, REPACK_DCZ, 9, 19};

const struct recode_kind *
recode_kind(unsigned form)
{
    for (unsigned i = 0; i < ARRAY_LEN(recode_kinds); i++)
        if (recode_kinds[i].form == form)
            return &recode_kinds[i];
    tassert(form == HTTP_FORM_DCZ);
    return &recode_dcz;
}

static const struct conf_compress *
recode_conf(struct proxy *p)
{
    return &snapshot_conf(registry_snapshot(p->registry))->compress;
}

/* Another number for the next version of the response, and for each thing that can be made of it.  By a dictionary it
 * is one thing: how well it can be packed is known when it was read. */
static uint64_t
recode_number(const struct recode *rc, const struct entry *base)
{
    uint64_t number =
        (base->node.key.lo ^ (uint64_t)base->received_ms * UINT64_C(0x9e3779b97f4a7c15)) +
        rc->form * 2u + (rc->best && rc->form != HTTP_FORM_DCZ);
    uint64_t of = 0;

    if (rc->form == HTTP_FORM_DCZ)
        memcpy(&of, rc->hash, sizeof(of));
    return number ^ of;
}

/* ---- Which response, and what of it ---- */

/* Its coding; .ptr NULL: none.  *fixed: its body must not be another one. */
static struct slice
recode_coding(const struct entry *base, bool *fixed)
{
    struct http_field fields[LIMIT_FIELDS];
    struct http_message stored;
    struct cache_control cc;

    entry_message(base, ENTRY_FIELDS_ALL, fields, &stored);
    cc_parse_response(&stored, &cc);
    *fixed = cc_has(&cc, CC_NO_TRANSFORM);
    return http_get_one(&stored, HTTP_F_CONTENT_ENCODING); /* in the entry */
}

/* Whole, for all clients, and of a size that is worth it. */
static bool
recode_is_whole(const struct entry *base)
{
    uint64_t len;

    if (entry_is_private(base) || entry_state(base) != ENTRY_READY || base->windowed ||
        base->partial || entry_nparts(base) != 1 || entry_status(base) != 200 || entry_is_esi(base))
        return false;
    len = stobj_len(entry_part(base, 0).body);
    return stobj_state(entry_part(base, 0).body) == STOBJ_SETTLED && len >= RECODE_BODY_MIN &&
           len <= RECODE_BODY_MAX;
}

/* It is gzip: else nothing was to be won, or its coding is the origin's choice. */
static bool
recode_is_fit(const struct recode *rc, const struct entry *base, int64_t now_ms)
{
    int64_t left = rc->best ? RECODE_LEFT_BEST_MS : RECODE_LEFT_MS;
    bool fixed;

    return entry_ttl_left_ms(base, now_ms) >= left && recode_is_whole(base) &&
           slice_eq_nocase(recode_coding(base, &fixed), SLICE_LIT("gzip")) && !fixed;
}

/* Scheme and authority, by the key.  False: it is a policy's own, and does not say. */
static bool
recode_site(const struct entry *base, struct hash128 *site)
{
    struct slice scheme = entry_key_scheme(base), rest = entry_key_rest(base);
    const char *end = rest.len > 0 ? memchr(rest.ptr, '/', rest.len) : NULL;
    char text[HTTP_AUTHORITY_MAX + 16];
    size_t len = end != NULL ? (size_t)(end - rest.ptr) : 0;

    if (scheme.len == 0 || len == 0 || scheme.len + len > sizeof(text))
        return false;
    memcpy(mempcpy(text, scheme.ptr, scheme.len), rest.ptr, len);
    *site = hash_bytes(text, scheme.len + len);
    return true;
}

/* What `form` of it was made of: it stands behind it.  NULL: that has left. */
static struct entry *
recode_base_of(const struct entry *form)
{
    for (struct entry *e = entry_next(form); e != NULL; e = entry_next(e))
        if (entry_state(e) == ENTRY_READY && vary_has_forms(entry_vary(e)) &&
            vary_recoded(entry_vary(e)).form == 0 &&
            vary_supersedes(entry_vary(e), entry_vary(form)))
            return e;
    return NULL;
}

/* Is it this form of `base`?  Of one that is being fetched, which may stand there too, nothing is published. */
static bool
recode_is(const struct entry *e, const struct entry *base, unsigned form, const uint8_t *hash)
{
    struct vary_recoding is;

    if (entry_state(e) != ENTRY_READY)
        return false;
    is = vary_recoded(entry_vary(e));
    return is.form == form && vary_supersedes(entry_vary(base), entry_vary(e)) &&
           (is.hash == NULL || (hash != NULL && memcmp(is.hash, hash, DICTIONARY_HASH_LEN) == 0));
}

/* Is there such a form of `base` already? */
static bool
recode_has(struct proxy *p, const struct entry *base, unsigned form, const uint8_t *hash)
{
    for (struct entry *e = cache_stored(p->cache, &base->node.key); e != NULL && e != base;
         e = entry_next(e))
        if (recode_is(e, base, form, hash))
            return true;
    return false;
}

/* The first that this client takes, and the configuration names; 0: none. */
static unsigned
recode_wanted(const struct conf_compress *conf, unsigned forms)
{
    for (unsigned i = 0; i < ARRAY_LEN(recode_kinds); i++)
        if ((forms & recode_kinds[i].form) != 0 && (conf->formats & recode_kinds[i].bit) != 0)
            return recode_kinds[i].form;
    return 0;
}

/* What is to be made, by a hit of `e`: the response, or NULL. */
static struct entry *
recode_choose(struct recode *rc, struct entry *e, unsigned forms)
{
    struct vary_recoding is = vary_recoded(entry_vary(e));
    struct proxy *p = recode_proxy(rc);

    rc->best = is.form != 0;
    if (is.form == HTTP_FORM_DCZ) /* made at once as well as it is made for its size */
        return NULL;
    if (is.form != 0) {
        rc->form = is.form;
        return is.best ? NULL : recode_base_of(e);
    }
    rc->form = recode_wanted(recode_conf(p), forms);
    if (rc->form == 0 || recode_has(p, e, rc->form, NULL))
        return NULL;
    /* What was packed well before it came, only the best makes shorter. */
    rc->best = recoder_is_barren(p->recoder, recode_number(rc, e));
    return e;
}

/* ---- The end ---- */

static void recode_next(struct recode *rc);

static void
recode_end(struct recode *rc)
{
    struct proxy *p = recode_proxy(rc);
    struct usage *u = &p->loop->usage;

    tassert(rc->state != RECODE_IDLE && !waiter_pending(&rc->wait));
    rep_forget(&rc->rep);
    usage_free(u, USAGE_REQUEST, rc->plain);
    usage_free(u, USAGE_REQUEST, rc->packed);
    rc->plain = rc->packed = NULL;
    if (rc->body != NULL)
        stobj_unref(&rc->body);
    if (rc->dictionary != NULL)
        dictionaries_drop(recoder_dictionaries(p->recoder), &rc->dictionary);
    recoder_give(p->recoder, p->loop->clock.mono_us, rc->cpu_us, rc->percent);
    entry_drop(&rc->base);
    rc->state = RECODE_IDLE;
    recode_next(rc);
    if (p->on_idle != NULL && proxy_is_idle(p))
        p->on_idle(p->on_idle_ctx);
}

/* Not again for this version. */
static void
recode_end_barren(struct recode *rc)
{
    struct proxy *p = recode_proxy(rc);

    recoder_set_barren(p->recoder, recode_number(rc, rc->base));
    counter_add(p->counters, COUNTER_compress_barren, 1);
    recode_end(rc);
}

/* ---- READ ---- */

/* Room for one extent more.  0, TERR_NOMEM, or TERR_LIMIT: too long. */
static int
recode_grow(struct recode *rc, size_t more)
{
    const size_t most = rc->best && rc->form != HTTP_FORM_DCZ ? RECODE_BEST_MAX : RECODE_BODY_MAX;
    size_t room = rc->plain_room == 0 ? RECODE_ROOM : rc->plain_room;
    char *p;

    if (rc->plain_len + more > most)
        return TERR_LIMIT;
    if (rc->plain != NULL && rc->plain_len + more <= rc->plain_room)
        return 0;
    while (room < rc->plain_len + more)
        room *= 2;
    p = usage_realloc(&recode_proxy(rc)->loop->usage, USAGE_REQUEST, rc->plain, room);
    if (p == NULL)
        return TERR_NOMEM;
    rc->plain = p;
    rc->plain_room = room;
    return 0;
}

/* One extent of the body.  Its bytes, 0 at the end, or TERR_*. */
static int
recode_read(struct recode *rc)
{
    struct lease_extent ext = {.len = 0};
    struct lease_batch b = {.extents = &ext, .n = 0, .max = 1};
    const struct lease_returns back = {.ids = &ext.id, .n = 1};
    int n = rep_take(&rc->rep, &b, false, &rc->wait), err;

    if (n <= 0)
        return n;
    err = recode_grow(rc, ext.len);
    if (err == 0) {
        memcpy(rc->plain + rc->plain_len, ext.ptr, ext.len);
        rc->plain_len += ext.len;
    }
    rep_return(&rc->rep, &back);
    return err == 0 ? (int)ext.len : err;
}

static bool
recode_must_stop(void *ctx)
{
    const struct recode *rc = ctx;

    return atomic_load_explicit(&rc->stop, memory_order_relaxed);
}

static uint64_t
recode_thread_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* On the recoder's thread: what it reads and writes is its own until `wait` is notified. */
static void
recode_run(struct job *j)
{
    struct recode *rc = container_of(j, struct recode, job);
    struct slice plain = slice_of(rc->plain, rc->plain_len);
    uint64_t from = recode_thread_us();

    if (rc->form == 0)
        rc->said = digest_sha256(plain, rc->hash) ? REPACK_DONE : TERR_NOMEM;
    else
        rc->said = repack(&rc->how, plain, &rc->out);
    rc->cpu_us = recode_thread_us() - from;
}

static void
recode_start_run(struct recode *rc)
{
    usage_note(&recode_proxy(rc)->loop->usage, USAGE_REQUEST, rc->memory);
    rc->state = RECODE_RUN;
    job_init(&rc->job, recode_run, &rc->wait);
    recoder_submit(recode_proxy(rc)->recoder, &rc->job);
}

/* Is what it takes at that level a small part of the store? */
static bool
recode_fits(struct recode *rc, int level)
{
    rc->how.level = level;
    rc->memory = repack_memory(&rc->how, rc->plain_len);
    return rc->memory <= recode_proxy(rc)->storage_bytes / RECODE_STORE_SHARE;
}

/* The level.  False: none takes so little.  By a dictionary a low one is much shorter than the best without. */
static bool
recode_set_level(struct recode *rc, const struct recode_kind *kind)
{
    static const int lower[] = {9, 6, 3};

    if (rc->dictionary == NULL)
        return recode_fits(rc, rc->best ? kind->best : kind->level);
    rc->best = rc->plain_len + rc->how.dictionary.len <= RECODE_DCZ_BEST_MAX &&
               recode_fits(rc, kind->best);
    for (unsigned i = 0; i < ARRAY_LEN(lower) && !rc->best; i++)
        if (recode_fits(rc, lower[i]))
            return true;
    return rc->best;
}

/* All of the body is there. */
static void
recode_submit_form(struct recode *rc)
{
    const struct recode_kind *kind = recode_kind(rc->form);
    struct proxy *p = recode_proxy(rc);
    struct usage *u = &p->loop->usage;
    uint64_t gain = rc->base_len / RECODE_GAIN;

    rc->how = (struct repack){.form = kind->repack, .stop = recode_must_stop, .ctx = rc};
    if (rc->dictionary != NULL) {
        rc->how.dictionary = dictionary_bytes(rc->dictionary);
        rc->how.hash = dictionary_hash_of(rc->dictionary);
    }
    rc->packed_room = rc->base_len - gain;
    if (rc->plain_len == 0 || !recode_set_level(rc, kind)) {
        recode_end_barren(rc);
        return;
    }
    rc->packed = usage_alloc(u, USAGE_REQUEST, rc->packed_room);
    if (rc->packed == NULL) {
        recode_end(rc);
        return;
    }
    rc->out = (struct span){rc->packed, rc->packed_room};
    recode_start_run(rc);
}

static void
recode_submit(struct recode *rc)
{
    rep_forget(&rc->rep);
    if (rc->form != 0) {
        recode_submit_form(rc);
    } else {
        rc->memory = 0;
        recode_start_run(rc);
    }
}

static void
recode_do_read(struct recode *rc)
{
    size_t from = rc->plain_len;
    int n;

    do {
        if (recode_must_stop(rc)) {
            recode_end(rc);
            return;
        }
        n = rc->rep.over ? 0 : recode_read(rc);
        if (n == 0) {
            recode_submit(rc);
            return;
        }
        if (n == TERR_LIMIT || n == TERR_CLOSED) { /* TERR_CLOSED: its body is no gzip */
            recode_end_barren(rc);
            return;
        }
        if (n < 0) {
            tassert(n == TERR_NOMEM); /* it is whole: nothing is waited for */
            recode_end(rc);
            return;
        }
    } while (rc->plain_len - from < RECODE_TURN);
    task_wake(&rc->task);
}

/* ---- STORE ---- */

static void
recode_do_store(struct recode *rc)
{
    struct proxy *p = recode_proxy(rc);
    struct arena a;
    int err;

    if (waiter_pending(&rc->wait)) {
        if (!recode_must_stop(rc))
            return;
        if (waiter_state(&rc->wait) == WAITER_ARMED)
            space_cancel(rc->body, &rc->wait);
        if (waiter_pending(&rc->wait)) /* on its way: we are woken again */
            return;
    }
    err = recode_must_stop(rc) ? TERR_CANCELLED : recode_store(rc);
    if (err == TERR_AGAIN)
        return;
    if (err == 0) {
        arena_init(&a, &p->loop->arenas);
        err = recode_publish(rc, &a);
        arena_fini(&a);
    }
    if (err == 0) {
        rc->body = NULL; /* the entry's */
        counter_add(p->counters, COUNTER_compress_recoded, 1);
    } else if (rc->body != NULL && stobj_state(rc->body) == STOBJ_FILLING) {
        space_fail(rc->body, TERR_CANCELLED);
    }
    recode_end(rc);
}

/* ---- RUN ---- */

/* The content that was read, under the hash that came of it. */
static void
recode_keep_dictionary(struct recode *rc)
{
    struct proxy *p = recode_proxy(rc);
    struct hash128 site;

    if (rc->said == REPACK_DONE && recode_site(rc->base, &site) &&
        dictionaries_add(
            recoder_dictionaries(p->recoder), rc->hash, &site, slice_of(rc->plain, rc->plain_len)))
        counter_add(p->counters, COUNTER_compress_dictionaries, 1);
    recode_end(rc);
}

static void
recode_do_run(struct recode *rc)
{
    struct proxy *p = recode_proxy(rc);

    if (waiter_pending(&rc->wait))
        return;
    usage_unnote(&p->loop->usage, USAGE_REQUEST, rc->memory);
    counter_add(p->counters, COUNTER_compress_recode_cpu, rc->cpu_us);
    if (rc->form == 0) {
        recode_keep_dictionary(rc);
        return;
    }
    usage_free(&p->loop->usage, USAGE_REQUEST, rc->plain);
    rc->plain = NULL;
    if (rc->said == REPACK_TOO_LARGE) {
        recode_end_barren(rc);
    } else if (rc->said != REPACK_DONE) {
        recode_end(rc);
    } else {
        rc->state = RECODE_STORE;
        recode_do_store(rc);
    }
}

static void
recode_on_task(struct task *t)
{
    struct recode *rc = container_of(t, struct recode, task);

    switch (rc->state) {
    case RECODE_IDLE:
        return;
    case RECODE_READ:
        recode_do_read(rc);
        return;
    case RECODE_RUN:
        recode_do_run(rc);
        return;
    case RECODE_STORE:
        recode_do_store(rc);
        return;
    }
}

void
recode_init(struct recode *rc, struct proxy *p)
{
    task_init(&rc->task, &p->loop->tasks, recode_on_task);
    waiter_init(&rc->wait, &rc->task, &p->loop->inbox);
}

void
recode_stop(struct proxy *p)
{
    atomic_store_explicit(&p->recode.stop, true, memory_order_relaxed);
    recode_next(&p->recode);
    if (!recode_is_idle(&p->recode))
        task_wake(&p->recode.task);
}

/* The thread is ours.  rc->form 0: for its content, as a dictionary. */
static void
recode_begin(struct recode *rc, struct entry *base)
{
    struct proxy *p = recode_proxy(rc);
    bool fixed, unpacks = recode_coding(base, &fixed).ptr != NULL;
    struct codec *codec = unpacks ? proxy_codec(p, CODEC_GUNZIP, UINT_MAX) : NULL;

    rc->state = RECODE_READ;
    rc->base = entry_hold(base);
    rc->base_len = stobj_len(entry_part(base, 0).body);
    rc->plain_len = rc->plain_room = 0;
    rc->cpu_us = 0;
    rc->rep = (struct rep_reader){.entry = NULL};
    if ((unpacks && codec == NULL) || !rep_begin(&rc->rep, base, false)) {
        codec_free(&codec);
        recode_end(rc);
        return;
    }
    rep_seek(&rc->rep, 0, LEASE_TO_END);
    if (unpacks && rep_unpack(&rc->rep, codec, &p->loop->usage) != 0) {
        codec_free(&codec);
        recode_end(rc);
        return;
    }
    task_wake(&rc->task);
}

/* Something may be begun at all. */
static bool
recode_is_free(struct recode *rc)
{
    return recode_proxy(rc)->recoder != NULL && rc->state == RECODE_IDLE && !recode_must_stop(rc);
}

/* ---- Dictionaries ---- */

static void
recode_next(struct recode *rc)
{
    struct proxy *p = recode_proxy(rc);
    struct entry *e;

    if (rc->noffered == 0)
        return;
    if (recode_must_stop(rc)) {
        while (rc->noffered > 0)
            entry_drop(&rc->offered[--rc->noffered]);
        return;
    }
    /* A hash takes a millisecond: for that the thread need not have rested. */
    if (!recode_is_free(rc) || !recoder_take(p->recoder, UINT64_MAX))
        return;
    e = rc->offered[--rc->noffered];
    rc->form = 0;
    rc->best = false;
    recode_begin(rc, e); /* holds it, too */
    entry_drop(&e);
}

void
recode_offer(struct proxy *p, struct entry *e)
{
    struct recode *rc = &p->recode;
    const struct conf_compress *conf = recode_conf(p);
    struct slice coding;
    bool fixed;

    if (p->recoder == NULL || recode_must_stop(rc) || (conf->formats & CONF_COMPRESS_ZSTD) == 0 ||
        conf->background_cpu == 0 || rc->noffered == RECODE_OFFERED || !recode_is_whole(e))
        return;
    /* Without `compress` a later version gets no forms, either. */
    if (!vary_has_forms(entry_vary(e)))
        return;
    coding = recode_coding(e, &fixed);
    if (coding.ptr != NULL && !slice_eq_nocase(coding, SLICE_LIT("gzip")))
        return;
    rc->percent = (unsigned)conf->background_cpu;
    rc->offered[rc->noffered++] = entry_hold(e);
    recode_next(rc);
}

void
recode_look_dictionary(struct proxy *p, struct entry *e, const struct http_message *req)
{
    struct recode *rc = &p->recode;
    const struct conf_compress *conf = recode_conf(p);
    struct entry *base = vary_recoded(entry_vary(e)).form != 0 ? recode_base_of(e) : e;
    struct hash128 site;

    if (!recode_is_free(rc) || base == NULL || (conf->formats & CONF_COMPRESS_ZSTD) == 0 ||
        conf->background_cpu == 0 || !dictionary_available(req, rc->hash) ||
        !dictionaries_may_have(recoder_dictionaries(p->recoder), rc->hash) ||
        !recode_site(base, &site))
        return;
    rc->form = HTTP_FORM_DCZ;
    rc->best = false;
    rc->percent = (unsigned)conf->background_cpu;
    if (recoder_is_barren(p->recoder, recode_number(rc, base)) ||
        recode_has(p, base, HTTP_FORM_DCZ, rc->hash) ||
        !recode_is_fit(rc, base, (int64_t)p->loop->clock.mono_ms) ||
        !recoder_take(p->recoder, p->loop->clock.mono_us))
        return;
    rc->dictionary = dictionaries_find(recoder_dictionaries(p->recoder), rc->hash, &site);
    if (rc->dictionary == NULL)
        recoder_give(p->recoder, p->loop->clock.mono_us, 0, rc->percent);
    else
        recode_begin(rc, base);
}

/* ---- Hits ---- */

void
recode_look(struct proxy *p, struct entry *e, unsigned forms)
{
    struct recode *rc = &p->recode;
    struct entry *base;

    recode_next(rc); /* what could not begin when it was offered */
    if (!recode_is_free(rc))
        return;
    rc->percent = (unsigned)recode_conf(p)->background_cpu;
    base = rc->percent > 0 ? recode_choose(rc, e, forms) : NULL;
    if (base == NULL || !recode_is_fit(rc, base, (int64_t)p->loop->clock.mono_ms))
        return;
    if (recoder_is_hot(p->recoder, recode_number(rc, base)) &&
        recoder_take(p->recoder, p->loop->clock.mono_us))
        recode_begin(rc, base);
}
