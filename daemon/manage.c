/* manage.c -- the management loop. */
#include "daemon/manage.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin.h"
#include "daemon/base/notify.h"
#include "daemon/base/terr.h"
#include "daemon/cache/ban.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/listeners.h"
#include "daemon/log/access_log.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/net/netloop.h"
#include "daemon/net/signals.h"
#include "daemon/origin/probe.h"
#include "daemon/policy/policies.h"
#include "daemon/shm/log.h"
#include "daemon/supervise/channel.h"
#include "daemon/table/tables.h"
#include "daemon/traffic.h"
#include "daemon/worker.h"
#include "storage/storage.h"

enum {
    TICK_MS = 250,
    MOMENT_MS = 20,       /* between looks while it ends */
    SWEEP_MS = 10000,     /* between looks for log readers that died */
    CUT_WAIT_MS = 5000,   /* after cutting everything: a loop that does not end is stuck */
    ADMIN_WAIT_MS = 1000, /* for operators to take their last answers */
};

/* What holds in a phase. */
static void
manage_check(const struct manage *m)
{
    tassert(m->left <= m->env.nworkers);
    switch (m->phase) {
    case MANAGE_RUNNING:
        tassert(m->left == m->env.nworkers); /* a worker ends when it is told to, and not before */
        tassert(!m->gentle);
        break;
    case MANAGE_DRAINING:
        tassert(m->left > 0);
        tassert(m->gentle == (m->deadline_ms == UINT64_MAX));
        break;
    case MANAGE_CUT:
        tassert(m->left > 0);
        tassert(m->deadline_ms != UINT64_MAX); /* what does not end by then is stuck */
        break;
    case MANAGE_ENDING:
        tassert(m->left == 0); /* operators may ask until the last request is over */
        tassert(m->deadline_ms != UINT64_MAX);
        break;
    case MANAGE_ENDED:
        tassert(m->left == 0 || m->left == m->env.nworkers); /* or it never ran */
        break;
    }
}

/* The only place that changes the phase. */
static void
manage_goto(struct manage *m, enum manage_phase next)
{
    static const unsigned may[] = {
        [MANAGE_RUNNING] = 1u << MANAGE_DRAINING | 1u << MANAGE_ENDED,
        [MANAGE_DRAINING] = 1u << MANAGE_DRAINING | 1u << MANAGE_CUT | 1u << MANAGE_ENDING,
        [MANAGE_CUT] = 1u << MANAGE_ENDING,
        [MANAGE_ENDING] = 1u << MANAGE_ENDED,
        [MANAGE_ENDED] = 0,
    };

    tassert(m->phase < ARRAY_LEN(may));
    tassert((may[m->phase] >> next & 1) != 0);
    m->phase = next;
    manage_check(m);
}

/* Tells the service manager and the supervisor; not with a successor: the service goes on. */
static void
manage_tell_end(struct manage *m, bool gentle)
{
    if (m->retired)
        return;
    notify_stopping(m->env.notify, "draining");
    channel_quit(m->env.channel, gentle);
}

/* A gentle one may be followed by one that has a deadline.
 * Also a second time, from a gentle drain: the posts `leave` and `drain` of a worker differ, so
 * each is sent once at most. */
static void
manage_begin_drain(struct manage *m, const char *why)
{
    int64_t drain_ms = m->params.drain_timeout;

    elog(ELOG_INFO, "%s: draining, for %lld ms at most", why, (long long)drain_ms);
    /* Both before manage_goto(), which asserts that they agree. */
    m->gentle = false;
    m->deadline_ms = loop_deadline(m->loop, drain_ms);
    manage_fleet_retire(m);
    manage_goto(m, MANAGE_DRAINING);
    /* In a gentle drain before, some may have been joined. */
    for (unsigned i = 0; i < m->env.nworkers; i++)
        if (m->env.workers[i] != NULL)
            worker_drain(m->env.workers[i]);
    manage_tell_end(m, false);
    m->env.release(m->env.release_ctx); /* a Unix socket would go on queueing connections */
}

/* From RUNNING alone, so every worker is there.  Connections end with their next response (RFC
 * 9112 9.6), however long that takes. */
void
manage_begin_gentle_drain(struct manage *m, const char *why)
{
    elog(ELOG_INFO, "%s: finishing requests in flight, without a deadline", why);
    m->gentle = true;
    m->deadline_ms = UINT64_MAX;
    manage_fleet_retire(m);
    manage_goto(m, MANAGE_DRAINING);
    for (unsigned i = 0; i < m->env.nworkers; i++)
        worker_drain_gently(m->env.workers[i]);
    manage_tell_end(m, true);
    m->env.release(m->env.release_ctx);
}

/* SIGTERM, or an operator's stop. */
void
manage_end(struct manage *m, const char *why)
{
    if (m->phase == MANAGE_RUNNING || (m->phase == MANAGE_DRAINING && m->gentle))
        manage_begin_drain(m, why);
}

/* Connections accepted before the last worker left its listeners are counted by then. */
static bool
manage_nobody_left(const struct manage *m)
{
    struct worker_env *env = m->env.shared;

    return atomic_load_explicit(&env->leaving, memory_order_acquire) == m->env.nworkers &&
           atomic_load(&env->conns) == 0;
}

/* `drain` may still be on its way to a worker: posts land in order, so the cut comes behind it. */
static void
manage_cut(struct manage *m)
{
    int64_t conns = atomic_load(&m->env.shared->conns);

    /* An orderly drain comes here too, with none left: that is no warning. */
    if (conns > 0)
        elog(ELOG_WARN, "drain: %lld client connections are cut", (long long)conns);
    m->deadline_ms = loop_deadline(m->loop, CUT_WAIT_MS);
    manage_goto(m, MANAGE_CUT);
    for (unsigned i = 0; i < m->env.nworkers; i++)
        if (m->env.workers[i] != NULL)
            worker_cut(m->env.workers[i]);
}

static void
manage_on_signal(struct manage *m, int sig)
{
    if (sig == SIGTERM || sig == SIGINT) {
        /* The second one, from an operator that does not want to wait. */
        if (m->phase == MANAGE_DRAINING && !m->gentle)
            manage_cut(m);
        else
            manage_end(m, strsignal(sig));
    } else if (sig == SIGUSR1) {
        access_log_reopen(m->env.access);
    } else if (sig == SIGUSR2) {
        elog(ELOG_WARN,
            "SIGUSR2: a new binary is for the supervisor to start (tarnd --supervise)%s",
            m->env.channel != NULL ? ": signal the parent" : "");
    } else if (sig == SIGHUP) {
        /* No operator waits for it: the error log has all of it. */
        json_t *answer = NULL;

        manage_reload(m, &answer);
        json_decref(answer);
    }
}

static void
manage_join(struct manage *m)
{
    for (unsigned i = 0; i < m->env.nworkers; i++)
        /* Without a wait: this loop answers operators meanwhile. */
        if (m->env.workers[i] != NULL && worker_join(&m->env.workers[i], 0) == 0) {
            tassert(m->left > 0);
            m->left--;
        }
    if (m->left > 0)
        return;
    m->deadline_ms = loop_deadline(m->loop, ADMIN_WAIT_MS);
    manage_goto(m, MANAGE_ENDING);
    /* Last: until the last request was over operators could follow the drain. */
    manage_admin_drain(m);
}

/* Nothing of ours is left on the loop, and it ends. */
static void
manage_stop(struct manage *m)
{
    manage_goto(m, MANAGE_ENDED); /* first: what ends below wakes no task any more */
    probes_stop(m->env.registry);
    manage_fleet_close(m);
    if (m->signals != NULL)
        signals_close(&m->signals);
    timer_unlink(&m->tick);
    task_cancel(&m->task);
    timer_unlink(&m->lurk);
    task_cancel(&m->lurk_task);
    /* The lurker may have asked for another turn, which would never end. */
    m->loop->next_turn = NULL;
    net_loop_stop(m->net);
}

static void
manage_on_lurk(struct task *t)
{
    struct manage *m = container_of(t, struct manage, lurk_task);
    int64_t again_ms;

    OBJ_CHECK(m, MANAGE_MAGIC);
    tassert(m->phase != MANAGE_ENDED);
    if (tag_purge_walk(m->env.cache, (int64_t)m->loop->clock.mono_ms)) {
        m->loop->next_turn = t; /* a purge waits for it */
        sched_yield();          /* but a worker that has to share this CPU comes first */
        return;
    }
    again_ms = bans_lurk(cache_bans(m->env.cache), (int64_t)m->loop->clock.mono_ms);
    /* The sooner of both. */
    again_ms = cache_tend_index(m->env.cache, again_ms);
    timer_set(&m->loop->wheel, &m->lurk, loop_deadline(m->loop, again_ms));
}

static void
manage_apply_params(struct manage *m)
{
    const struct conf_params *p = &m->params;
    struct bans_conf bans = {.lurker_age_ms = p->ban_lurker_age,
        .lurker_batch = (unsigned)p->ban_lurker_batch,
        .lurker_sleep_ms = p->ban_lurker_sleep,
        .cutoff = (unsigned)p->ban_cutoff,
        .dups = p->ban_dups != 0};
    enum elog_level level = ELOG_INFO;

    elog_level_parse(&level, p->log_level);
    elog_set(level, (unsigned)p->log_rate);
    bans_configure(cache_bans(m->env.cache), &bans);
    /* It may sleep by the old parameters. */
    task_wake(&m->lurk_task);
}

/* The main thread's copy first, then the workers: what an operator reads back is what was set,
 * also before the workers have it. */
void
manage_set_params(struct manage *m, const struct conf_params *next)
{
    OBJ_CHECK(m, MANAGE_MAGIC);
    m->params = *next;
    manage_apply_params(m);
    cache_forget_absent(m->env.cache); /* each new configuration decides anew what is absent */
    for (unsigned i = 0; i < m->env.nworkers; i++)
        if (m->env.workers[i] != NULL)
            worker_set_params(m->env.workers[i], next, m->storage_bytes);
}

void
manage_set_storage(struct manage *m, uint64_t bytes)
{
    tassert(bytes > 0);
    m->storage_bytes = bytes;
    m->resizing = true; /* a smaller one in steps of this task: evicting takes time */
    task_wake(&m->task);
}

/* What grows and is not in the store itself: its size bounds that too.
 * Bytes that other loops charge themselves are not here (worker_on_charge): each loop tells its
 * own. */
static void
manage_charge(struct manage *m)
{
    uint64_t bans = bans_bytes(cache_bans(m->env.cache));
    struct storage_stats synths;

    /* Each call names what was charged before: a difference, so a missed tick loses nothing. */
    storage_charge(m->env.storage, CHARGE_BAN, m->bans_charged, bans);
    m->bans_charged = bans;
    manage_fleet_charge(m);
    storage_get_stats(m->env.synth, &synths);
    storage_charge(m->env.storage, CHARGE_SYNTH, m->synths_charged, synths.charged);
    m->synths_charged = synths.charged;
    traffic_charge(m->env.storage, &m->charged, &m->loop->usage);
    footprint_follow(&m->footprint);
}

/* In any order, but all of them: storage_close() asserts that every leaf is 0. */
static void
manage_uncharge(struct manage *m)
{
    storage_charge(m->env.storage, CHARGE_SYNTH, m->synths_charged, 0);
    m->synths_charged = 0;
    storage_charge(m->env.storage, CHARGE_BAN, m->bans_charged, 0);
    m->bans_charged = 0;
    storage_charge(m->env.storage, CHARGE_FLEET, m->fleet_charged, 0);
    m->fleet_charged = 0;
    /* Those of connections that were closed by the loop's last turn. */
    traffic_uncharge(m->env.storage, &m->charged);
    footprint_close(&m->footprint);
}

/* What every turn of the phase looks at. */
static void
manage_step(struct manage *m)
{
    uint64_t now = m->loop->clock.mono_ms;

    switch (m->phase) {
    case MANAGE_RUNNING:
        if (now >= m->sweep_ms) {
            m->sweep_ms = now + SWEEP_MS;
            /* A reader that was killed leaves its mark in the ring, and workers would write details
             * for it for ever. */
            for (unsigned i = 0; i < m->env.nworkers; i++)
                shmlog_sweep(m->env.logs[i]);
        }
        break;
    case MANAGE_DRAINING:
        if (now >= m->deadline_ms || manage_nobody_left(m))
            manage_cut(m);
        manage_join(m);
        break;
    /* A thread that does not end cannot be ended: the process aborts, and a supervisor starts the
     * next. */
    case MANAGE_CUT:
        manage_join(m);
        tassert(m->phase != MANAGE_CUT || now < m->deadline_ms); /* a worker does not end */
        break;
    case MANAGE_ENDING:
        if (manage_admin_ended(m, now >= m->deadline_ms))
            manage_stop(m);
        break;
    case MANAGE_ENDED:
        break;
    }
}

/* A gentle drain may take days.  Otherwise the loop looks often: an operator waits for the end, or
 * a smaller store for its steps. */
static bool
manage_is_calm(const struct manage *m)
{
    return (m->phase == MANAGE_RUNNING || (m->phase == MANAGE_DRAINING && m->gentle)) &&
           !m->resizing;
}

static void
manage_on_task(struct task *t)
{
    struct manage *m = container_of(t, struct manage, task);
    int sig;

    OBJ_CHECK(m, MANAGE_MAGIC);
    elog_flush();
    /* Housekeeping first, the phase next, signals behind it: a signal acts on the phase of this
     * tick, and not on one that has just ended. */
    heartbeat_look(&m->heartbeat, m->env.workers, m->loop->clock.mono_ms);
    policies_tick(m->env.policies);
    if (m->env.tables != NULL)
        tables_watch(m->env.tables);
    manage_peers_tick(m);
    manage_charge(m);
    if (m->resizing)
        m->resizing = !storage_resize(m->env.storage, m->storage_bytes);
    storage_tidy(false);
    endpoints_tend(m->env.shared->endpoints);
    manage_admin_tend(m);
    manage_step(m);
    while (m->phase != MANAGE_ENDED && (sig = signals_take(m->signals)) != 0)
        manage_on_signal(m, sig);
    /* manage_stop() has taken everything off the loop. */
    if (m->phase != MANAGE_ENDED)
        manage_supervised(m);
    /* Asked for in an operator's request: done here, where no request is in the middle of a
     * step. */
    if (m->stop_asked) {
        m->stop_asked = false;
        manage_end(m, "admin: stop");
    }
    if (m->drain_asked && m->phase == MANAGE_RUNNING)
        manage_begin_gentle_drain(m, "admin: drain");
    if (m->phase != MANAGE_ENDED)
        timer_set(&m->loop->wheel, &m->tick,
            loop_deadline(m->loop, manage_is_calm(m) ? TICK_MS : MOMENT_MS));
}

/* Of operators, which are few and may be slow, and of probes. */
static void
manage_open_conf(struct manage *m)
{
    m->client_conf = (struct client_conf){
        .fields_max = (uint16_t)m->params.http_max_hdr,
        /* Fixed: operators must get in whatever the parameters for clients are. */
        .req_line_max = 8192,
        .req_field_max = 8192,
        .req_head_max = 32768,
        .head_memo = true,
        .req_body_max = ADMIN_BODY_MAX,
        .idle_ms = 60000,
        .head_ms = 10000,
        .body_ms = 60000,
        .body_idle_ms = 15000,
        .send_idle_ms = 60000,
        .pipe_ms = 60000,
    };
    m->h1_conf = (struct h1_conf){
        .fields_max = (uint16_t)m->params.http_max_hdr,
        .resp_field_max = (uint32_t)m->params.http_resp_hdr_len,
        .resp_head_max = (uint32_t)m->params.http_resp_size,
        .resp_bare_lf = strcmp(m->params.origin_bare_lf, "accept") == 0,
        .resp_any_status = strcmp(m->params.origin_status, "accept") == 0,
    };
}

/* On the main thread, before there are workers: the address of `admin` is bound here, so a
 * mistake in it ends the start. */
int
manage_open(struct manage **out, const struct manage_env *env)
{
    struct manage *m = calloc(1, sizeof(*m));
    int err;

    tassert(env->nworkers > 0);
    tassert(env->release != NULL);
    if (m == NULL)
        return TERR_NOMEM;
    *m = (struct manage){
        .magic = MANAGE_MAGIC, .env = *env, .params = env->conf->params, .left = env->nworkers};
    err = net_loop_open(&m->net, env->nworkers); /* workers have the numbers below */
    /* Half-open: manage_close() stops what was started. */
    if (err != 0) {
        elog(ELOG_ERROR, "management loop: %s", terr_text(err));
        OBJ_FREE(m);
        return err;
    }
    m->loop = net_loop_base(m->net);
    task_init(&m->task, &m->loop->tasks, manage_on_task);
    timer_init(&m->tick, &m->task);
    task_init(&m->lurk_task, &m->loop->tasks, manage_on_lurk);
    timer_init(&m->lurk, &m->lurk_task);
    manage_open_conf(m);
    err = signals_open(&m->signals, m->loop, &m->task);
    if (err != 0)
        elog(ELOG_ERROR, "signals: %s", terr_text(err));
    if (err == 0)
        err = probes_start(env->registry, m->loop, h1_origin_protocol(&m->h1_conf));
    if (err == 0)
        err = manage_fleet_open(m);
    if (err == 0 && env->conf->admin != NULL)
        err = manage_admin_open(m);
    if (err != 0) {
        manage_close(&m);
        return err;
    }
    footprint_open(&m->footprint, env->storage,
        (uint64_t)env->nworkers * (uint64_t)env->conf->params.log_ring);
    heartbeat_open(&m->heartbeat, env->notify, env->counters, env->nworkers);
    m->sweep_ms = loop_deadline(m->loop, SWEEP_MS);
    m->storage_bytes = env->shared->storage_bytes;
    manage_apply_params(m);
    *out = m;
    return 0;
}

void
manage_run(struct manage *m)
{
    OBJ_CHECK(m, MANAGE_MAGIC);
    /* The first tick at once; each sets the next. */
    task_wake(&m->task);
    net_loop_run(m->net);
    tassert(m->phase == MANAGE_ENDED);
    tassert(m->left == 0);
}

/* One that never ran has its handles closed by a turn that does nothing else. */
void
manage_close(struct manage **mp)
{
    struct manage *m;

    OBJ_TAKE(m, mp, MANAGE_MAGIC);
    if (m->phase != MANAGE_ENDED) {
        manage_admin_drain(m);
        manage_stop(m);
        net_loop_run(m->net);
    }
    manage_admin_close(m);
    manage_uncharge(m); /* storage_close() asserts that all of it was given back */
    net_loop_close(&m->net);
    OBJ_FREE(m);
}
