/* fleet_watch.c -- a wait for an invalidation, by the request at a worker that made it.
 *
 * The wait itself is the management loop's.  The worker hears of its end by the waiter, and until then the watch is the
 * management loop's to write, except `unwanted`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cache/invalidation.h"
#include "daemon/fleet/fleet_priv.h"

_Static_assert((int)INVALIDATION_TOKEN_MAX >= (int)FLEET_TOKEN_TEXT_MAX, "a token is never cut");

struct fleet_watch {
    struct list link;
    struct fleet *fleet;
    struct invalidation_watch *asked; /* the worker's, until its waiter is notified */
    struct fleet_wait wait;
    struct task task;
};

static void
watch_note_missing(struct fleet_watch *w)
{
    static const char more_text[] = ", ...";
    struct invalidation_watch *a = w->asked;
    const size_t room = sizeof(a->missing) - sizeof(more_text);
    size_t len = 0;
    bool cut = false;

    for (unsigned i = 0; i < w->wait.nseen; i++) {
        const struct fleet_seen *seen = &w->wait.seen[i];
        size_t more = strlen(seen->name) + 2;

        if (!seen->lives || seen->applied)
            continue;
        cut = cut || len + more >= room;
        if (!cut)
            len += (size_t)snprintf(a->missing + len, sizeof(a->missing) - len, "%s%s",
                len > 0 ? ", " : "", seen->name);
    }
    if (cut)
        memcpy(a->missing + len, more_text, sizeof(more_text));
}

static void
watch_end(struct fleet_watch *w)
{
    struct invalidation_watch *a = w->asked;
    struct waiter *waiter = a->waiter;
    struct fleet *f = w->fleet;

    a->logged = w->wait.logged;
    a->proven = w->wait.outcome == FLEET_PROVEN;
    if (a->logged)
        fleet_token_text(w->wait.token, a->token);
    if (w->wait.why != NULL)
        snprintf(a->why, sizeof(a->why), "%s", w->wait.why);
    if (w->wait.outcome == FLEET_UNPROVEN)
        watch_note_missing(w);
    if (a->all)
        counter_add_shared(
            f->env.counters, a->proven ? COUNTER_fleet_proven : COUNTER_fleet_unproven, 1);
    fleet_wait_end(f, &w->wait);
    task_cancel(&w->task);
    list_del(&w->link);
    free(w);
    waiter_notify(waiter); /* `a` may be gone from here on */
}

static void
watch_run(struct task *t)
{
    struct fleet_watch *w = container_of(t, struct fleet_watch, task);

    if (w->wait.outcome != FLEET_WAITS)
        watch_end(w);
}

/* On the management loop. */
static void
watch_land(struct post *p)
{
    struct invalidation_watch *a = container_of(p, struct invalidation_watch, post);
    struct fleet *f = a->log;
    int64_t timeout_ms = a->timeout_ms > 0 ? a->timeout_ms : f->env.conf->wait;
    struct fleet_watch *w;
    const char *why;

    OBJ_CHECK(f, FLEET_MAGIC);
    if (f->commands.state != LINK_UP) { /* in another trouble it is written all the same */
        fleet_is_up(f, &why);
        snprintf(a->why, sizeof(a->why), "the fleet's engine cannot be reached: %s", why);
        waiter_notify(a->waiter);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        snprintf(a->why, sizeof(a->why), "%s", terr_text(TERR_NOMEM));
        waiter_notify(a->waiter);
        return;
    }
    w->fleet = f;
    w->asked = a;
    task_init(&w->task, &f->env.loop->tasks, watch_run);
    w->wait = (struct fleet_wait){.task = &w->task,
        .ticket = a->ticket,
        .all = a->all,
        .deadline_ms = loop_deadline(f->env.loop, timeout_ms)};
    list_add_tail(&f->watches, &w->link);
    fleet_wait_start(f, &w->wait);
}

void
fleet_watch(struct fleet *f, struct invalidation_watch *asked)
{
    OBJ_CHECK(f, FLEET_MAGIC);
    asked->log = f;
    asked->post.land = watch_land;
    list_init(&asked->waiting);
    waiter_arm(asked->waiter, &asked->waiting); /* the management loop's from the next line on */
    inbox_send(&f->env.loop->inbox, &asked->post);
}

void
fleet_watches_tick(struct fleet *f)
{
    struct list *next;

    for (struct list *l = f->watches.next; l != &f->watches; l = next) {
        struct fleet_watch *w = container_of(l, struct fleet_watch, link);

        next = l->next;
        if (atomic_load(&w->asked->unwanted))
            watch_end(w);
    }
}
