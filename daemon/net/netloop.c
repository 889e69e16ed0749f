/* netloop.c -- the event loop: eight lines of policy around uv_run. */
#include "daemon/net/netloop.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/net/net_priv.h"

struct net_loop *
net_loop_of(struct loop *l)
{
    struct net_loop *nl = container_of(l, struct net_loop, base);

    OBJ_CHECK(nl, NET_LOOP_MAGIC);
    return nl;
}

struct loop *
net_loop_base(struct net_loop *nl)
{
    OBJ_CHECK(nl, NET_LOOP_MAGIC);
    return &nl->base;
}

/* Of this loop's thread alone. */
uint64_t
net_loop_turns(const struct net_loop *nl)
{
    return nl->turns;
}

const char *
net_uv_version(void)
{
    return uv_version_string();
}

/* The clock is read once a turn; the date is written again only when the second changes. */
static void
net_loop_tick(struct net_loop *nl)
{
    struct clock *c = &nl->base.clock;
    struct timespec mono, wall;
    int64_t wall_ms;

    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_REALTIME, &wall);
    c->mono_us = (uint64_t)mono.tv_sec * 1000000 + (uint64_t)mono.tv_nsec / 1000;
    c->mono_ms = c->mono_us / 1000;
    wall_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    if (wall_ms / 1000 != c->wall_ms / 1000 || c->http_date[0] == '\0') {
        struct tm tm;

        gmtime_r(&wall.tv_sec, &tm);
        strftime(c->http_date, sizeof(c->http_date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    }
    c->wall_ms = wall_ms;
}

static void
net_on_idle(uv_idle_t *idle)
{
    (void)idle; /* its being active is its work */
}

/* An idle handle makes uv_run poll with a timeout of 0: tasks that are left over must not wait
 * for a socket. */
static void
net_loop_run_tasks(struct net_loop *nl)
{
    if (task_queue_run(&nl->base.tasks, LIMIT_TASKS_PER_TURN))
        uv_idle_start(&nl->idle, net_on_idle);
}

/* Behind poll, in this order: RCU before anything reads shared structures, the time before tasks
 * set deadlines by it, and the inbox before the tasks that its posts wake. */
static void
net_on_check(uv_check_t *check)
{
    struct net_loop *nl = check->data;

    rcu_online();
    nl->turns++;
    net_loop_tick(nl);
    uv_idle_stop(&nl->idle);
    inbox_drain(&nl->base.inbox);
    if (__builtin_expect(nl->nhandshakes > 0 || !list_empty(&nl->roomless), 0))
        net_secure_turn(nl);
    net_loop_run_tasks(nl);
}

/* Cleared before it runs: what it does may ask for the end of the next turn. */
static void
net_loop_end_turn(struct net_loop *nl)
{
    struct turn_end *end = nl->base.turn_end;

    nl->base.turn_end = NULL;
    end->run(end);
}

/* Before poll, which may sleep.  Tasks that timers woke run first; then what they held back
 * leaves; RCU goes offline last, because a sleeping thread that is online would stop every grace
 * period. */
static void
net_on_prepare(uv_prepare_t *prepare)
{
    struct net_loop *nl = prepare->data;

    if (!task_queue_is_empty(&nl->base.tasks))
        net_loop_run_tasks(nl);
    if (nl->ncorked > 0)
        net_stream_uncork_all(nl);
    if (__builtin_expect(nl->base.turn_end != NULL, 0))
        net_loop_end_turn(nl);
    if (__builtin_expect(nl->base.next_turn != NULL, 0)) {
        task_wake(nl->base.next_turn);
        nl->base.next_turn = NULL;
        uv_idle_start(&nl->idle, net_on_idle);
    }
    if (__builtin_expect(!list_empty(&nl->handshakes) || !list_empty(&nl->roomless), 0))
        uv_idle_start(&nl->idle, net_on_idle);
    rcu_offline();
}

static void
net_on_async(uv_async_t *async)
{
    (void)async; /* the check handle that follows drains the inbox */
}

/* The one timer of libuv for a loop: the wheel has all deadlines. */
static void
net_on_timer(uv_timer_t *timer)
{
    struct net_loop *nl = timer->data;

    task_wake(&nl->wheel_task);
}

/* The time is read anew: in prepare, behind the timers' phase, that of the last check may be
 * old. */
static void
net_wheel_run(struct task *t)
{
    struct net_loop *nl = container_of(t, struct net_loop, wheel_task);

    net_loop_tick(nl);
    timer_wheel_run(&nl->base.wheel, nl->base.clock.mono_ms);
}

static void
net_wheel_rearm(struct timer_wheel *w, uint64_t at_ms)
{
    struct net_loop *nl = container_of(w, struct net_loop, base.wheel);
    uint64_t now = nl->base.clock.mono_ms;

    /* The handle is closing then, and may not be started. */
    if (!nl->stopping)
        uv_timer_start(&nl->timer, net_on_timer, at_ms > now ? at_ms - now : 0, 0);
}

/* From any thread: uv_async_send() is the one call of libuv that is safe there. */
static void
net_loop_wake(struct inbox *in)
{
    struct net_loop *nl = container_of(in, struct net_loop, base.inbox);

    uv_async_send(&nl->async);
}

/* Never called: the descriptor is closed in the same function that watches it. */
static void
net_on_high(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events;
}

enum {
    GROW_FDS = 65536 /* half a MiB a loop; above, the table grows when it has to */
};

/* libuv aborts when its table of descriptors cannot grow, and it grows it when a connection
 * comes: so it grows now.  Best effort: without it only that moment differs. */
static void
net_loop_grow(struct net_loop *nl)
{
    struct rlimit rl;
    int low, high;

    if (getrlimit(RLIMIT_NOFILE, &rl) != 0 || rl.rlim_cur < 64)
        return;
    low = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (low < 0)
        return;
    high = fcntl(low, F_DUPFD_CLOEXEC, rl.rlim_cur > GROW_FDS ? GROW_FDS : (int)rl.rlim_cur - 8);
    close(low);
    if (high < 0)
        return;
    if (uv_poll_init(&nl->uv, &nl->high, high) == 0) {
        uv_poll_start(&nl->high, UV_READABLE, net_on_high);
        uv_close((uv_handle_t *)&nl->high, NULL);
    }
    close(high);
}

/* On the thread that will run it or before that thread starts; nothing of it may be used by two
 * threads but the inbox. */
int
net_loop_open(struct net_loop **out, unsigned id)
{
    struct net_loop *nl = calloc(1, sizeof(*nl));

    if (nl == NULL)
        return TERR_NOMEM;
    nl->magic = NET_LOOP_MAGIC;
    nl->base.id = id;
    if (uv_loop_init(&nl->uv) != 0) {
        free(nl);
        return TERR_LIMIT;
    }
    list_init(&nl->handshakes);
    list_init(&nl->roomless);
    task_queue_init(&nl->base.tasks);
    inbox_init(&nl->base.inbox, net_loop_wake);
    arena_pool_init(&nl->base.arenas, 64, &nl->base.usage);
    net_loop_tick(nl);
    timer_wheel_init(&nl->base.wheel, nl->base.clock.mono_ms, net_wheel_rearm);
    task_init(&nl->wheel_task, &nl->base.tasks, net_wheel_run);
    uv_prepare_init(&nl->uv, &nl->prepare);
    uv_check_init(&nl->uv, &nl->check);
    uv_idle_init(&nl->uv, &nl->idle);
    uv_timer_init(&nl->uv, &nl->timer);
    if (uv_async_init(&nl->uv, &nl->async, net_on_async) != 0) {
        uv_loop_close(&nl->uv);
        free(nl);
        return TERR_LIMIT;
    }
    nl->prepare.data = nl->check.data = nl->idle.data = nl->timer.data = nl;
    uv_prepare_start(&nl->prepare, net_on_prepare);
    uv_check_start(&nl->check, net_on_check);
    net_loop_grow(nl);
    *out = nl;
    return 0;
}

/* The loop's whole life, on its thread.  RCU knows the thread from here to the end.  Posts that
 * other threads sent while the loop stopped still land, so that no memory of theirs is lost. */
void
net_loop_run(struct net_loop *nl)
{
    OBJ_CHECK(nl, NET_LOOP_MAGIC);
    rcu_join();
    inbox_here = &nl->base.inbox;
    uv_run(&nl->uv, UV_RUN_DEFAULT);
    tassert(nl->stopping);
    if (!rcu_is_online())
        rcu_online();
    inbox_drain(&nl->base.inbox);
    while (task_queue_run(&nl->base.tasks, LIMIT_TASKS_PER_TURN))
        ;
    inbox_here = NULL;
    rcu_leave();
}

/* On the loop's thread.  uv_run() returns when no handle is left, so streams and listeners
 * must be closed too. */
void
net_loop_stop(struct net_loop *nl)
{
    OBJ_CHECK(nl, NET_LOOP_MAGIC);
    if (nl->stopping)
        return;
    nl->stopping = true;
    uv_close((uv_handle_t *)&nl->prepare, NULL);
    uv_close((uv_handle_t *)&nl->check, NULL);
    uv_close((uv_handle_t *)&nl->idle, NULL);
    uv_close((uv_handle_t *)&nl->timer, NULL);
    uv_close((uv_handle_t *)&nl->async, NULL);
}

/* ---- Read buffers ---- */

/* No more than LIMIT_READ_SLABS: what finds none is read in the next turn, when they have been
 * consumed. */
static struct read_slab *
net_slab_new(struct net_loop *nl)
{
    struct read_slab *s = NULL;

    if (nl->nslabs < LIMIT_READ_SLABS)
        s = usage_alloc(&nl->base.usage, USAGE_READ, sizeof(*s));
    if (s != NULL)
        nl->nslabs++;
    return s;
}

static void
net_slab_free(struct net_loop *nl, struct read_slab *s)
{
    tassert(nl->nslabs > 0);
    nl->nslabs--;
    usage_free(&nl->base.usage, USAGE_READ, s);
}

/* Idle slabs only: those in use come back through net_slab_release(). */
static void
net_slabs_trim(struct net_loop *nl, unsigned keep)
{
    struct read_slab **at = &nl->idle_slabs;

    while (*at != NULL && keep > 0) {
        at = &(*at)->next;
        keep--;
    }
    while (*at != NULL) {
        struct read_slab *s = *at;

        *at = s->next;
        net_slab_free(nl, s);
    }
}

/* Once a second, from the owner's tick.  Half of what is idle: after a burst a loop gives back
 * most of its memory in a few seconds, and a load that comes in waves finds some of it. */
void
net_loop_trim(struct net_loop *nl)
{
    OBJ_CHECK(nl, NET_LOOP_MAGIC);
    net_slabs_trim(nl, nl->nslabs / 2);
    net_streams_trim(nl, nl->nidle_streams / 2);
    arena_pool_trim(&nl->base.arenas, nl->base.arenas.nidle / 2);
}

/* Behind net_loop_run().  The asserts say that each stream, slab and arena came back: what is
 * missing here is a leak of a connection. */
void
net_loop_close(struct net_loop **nlp)
{
    struct net_loop *nl;

    OBJ_TAKE(nl, nlp, NET_LOOP_MAGIC);
    tassert(uv_loop_close(&nl->uv) == 0); /* a handle was left open */
    if (nl->slab != NULL) {
        tassert(nl->slab->users == 0);
        net_slab_free(nl, nl->slab);
    }
    net_slabs_trim(nl, 0);
    net_streams_trim(nl, 0);
    tassert(nl->nslabs == 0 && list_empty(&nl->handshakes) && list_empty(&nl->roomless));
    usage_free(&nl->base.usage, USAGE_CONN, nl->secure);
    arena_pool_fini(&nl->base.arenas);
    for (unsigned i = 0; i < USAGE_KINDS; i++)
        tassert_slow(nl->base.usage.bytes[i] == 0); /* memory was kept, or miscounted */
    OBJ_FREE(nl);
}

/* Valid until the next call: room is taken by net_slab_use(), or not at all. */
char *
net_slab_room(struct net_loop *nl, size_t *room)
{
    struct read_slab *s = nl->slab;

    if (s != NULL && s->users == 0)
        s->used = 0;
    if (s == NULL || LIMIT_READ_SLAB - s->used < LIMIT_READ_MIN) {
        s = nl->idle_slabs;
        if (s != NULL)
            nl->idle_slabs = s->next;
        else
            s = net_slab_new(nl);
        if (s == NULL)
            return NULL;
        s->users = 0;
        s->used = 0;
        nl->slab = s; /* the former one lives on with its users */
    }
    *room = LIMIT_READ_SLAB - s->used;
    return s->bytes + s->used;
}

/* The current slab's, always: no other call may come between it and net_slab_room(). */
struct read_slab *
net_slab_use(struct net_loop *nl, size_t n)
{
    struct read_slab *s = nl->slab;

    tassert(s->used + n <= LIMIT_READ_SLAB);
    /* The next read begins on a word, as memory from malloc() does. */
    s->used = (s->used + n + 7) & ~(size_t)7;
    if (s->used > LIMIT_READ_SLAB)
        s->used = LIMIT_READ_SLAB;
    s->users++;
    return s;
}

/* A slab goes idle when the last stream that read into it has consumed; the current one stays
 * current. */
void
net_slab_release(struct net_loop *nl, struct read_slab *slab)
{
    tassert(slab->users > 0);
    if (--slab->users > 0 || slab == nl->slab)
        return;
    slab->next = nl->idle_slabs;
    nl->idle_slabs = slab;
}
