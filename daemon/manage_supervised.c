/* manage_supervised.c -- signs of life for the supervisor, and what it says. */
#include <stdio.h>

#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/net/incoming.h"
#include "daemon/net/listener.h"
#include "daemon/shm/dir.h"
#include "daemon/supervise/channel.h"
#include "daemon/worker.h"

enum {
    BEAT_MS = 1000
};

/* All workers are asked each time, the stuck one's neighbours too: each answers by turning. */
static void
manage_beat(struct manage *m)
{
    char stuck[96] = "";

    for (unsigned i = 0; i < m->env.nworkers; i++)
        if (m->env.workers[i] != NULL && !worker_beats(m->env.workers[i]) && stuck[0] == '\0')
            /* The first one is enough: the supervisor restarts the process. */
            snprintf(stuck, sizeof(stuck), "worker %u has not turned its loop for %u s", i,
                m->stuck_beats + 1);
    m->stuck_beats = stuck[0] != '\0' ? m->stuck_beats + 1 : 0;
    channel_beat(m->env.channel, m->params.watchdog, stuck[0] != '\0' ? stuck : NULL);
}

/* Another process accepts from the same sockets by now: what we leave there is its own. */
static void
manage_retire(struct manage *m)
{
    if (m->phase != MANAGE_RUNNING)
        return;
    tassert(m->env.channel != NULL);
    m->retired = true; /* first: the supervisor knows, and is not told again */
    manage_begin_gentle_drain(m, "another tarnd serves");
    if (m->listener != NULL)
        listener_close(&m->listener);
    if (m->incoming != NULL)
        incoming_drain_gently(m->incoming); /* operators, too, are to ask the other one */
    if (m->params.shm_dir[0] != '\0')
        shm_dir_yield(m->env.dir);
}

/* On each tick of the management loop.  Without a supervisor there is nothing to do. */
void
manage_supervised(struct manage *m)
{
    uint64_t now = m->loop->clock.mono_ms;

    OBJ_CHECK(m, MANAGE_MAGIC);
    tassert(m->phase != MANAGE_ENDED);
    if (m->env.channel == NULL)
        return;
    switch (channel_look(m->env.channel)) {
    case CHANNEL_RETIRE:
        manage_retire(m);
        break;
    case CHANNEL_ALONE:
        m->retired = true; /* there is no supervisor to report to */
        manage_end(m, "the supervisor has gone");
        break;
    /* The others go the other way: the supervisor never sends them. */
    case CHANNEL_NOTHING:
    case CHANNEL_HOLD:
    case CHANNEL_DROP:
    case CHANNEL_READY:
    case CHANNEL_BEAT:
    case CHANNEL_STUCK:
    case CHANNEL_QUIT:
        break;
    }
    if (!m->retired)
        shm_dir_settle(m->env.dir);
    if (now >= m->beat_ms) {
        m->beat_ms = now + BEAT_MS;
        manage_beat(m);
    }
}
