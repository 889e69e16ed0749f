/* tls_suspend.c -- a connection without traffic becomes a few hundred bytes.
 *
 * AWS-LC writes the state of a server's connection as bytes, and makes a connection of the bytes again
 * (SSL_to_bytes(), SSL_from_bytes()), for a process that hands a connection to another one.  Here the bytes replace the
 * SSL while nothing is sent or received: 0.6 kB instead of 3.0, or of 4.2 with X25519MLKEM768, because AWS-LC keeps the
 * client's share.  The keys of the ciphers are derived again from the secrets in the bytes: restoring costs 100,000
 * instructions, as much as six hits of 1 KiB.
 *
 * Each thread has its connections in two lists.  A round takes a second.  At its start all of the first list, those
 * that wait, go to the second one, and are looked at there, some at each tick of the wheel: a connection that was used
 * since the last look goes back to the first list.  Each time that it is restored doubles the number of rounds without
 * use before it is suspended again, to 64 s at most: a client that asks every ten seconds costs four restores in all. */
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

#ifdef OPENSSL_IS_AWSLC

#include <string.h>

enum {
    SUSPEND_ROUND_MS =
        1000, /* of the 5 s that timeout_idle leaves a connection, the last three are cheap */
    SUSPEND_BATCH =
        32, /* at each tick of the wheel: 0.2 ms, less than a handshake's signature takes with RSA */
    SUSPEND_PATIENCE = 6, /* 2^6 rounds */
};

static _Thread_local struct {
    struct list waiting; /* for the next round */
    struct list due;     /* to be looked at in this one */
    uint64_t round_ms;   /* when the next one begins */
    unsigned awake;      /* in both */
    struct loop *loop;   /* NULL: none of the two has any, and no timer runs */
    struct timer timer;
    struct task task;
} suspend;

/* ---- one connection ---- */

/* The buffer that AWS-LC made has room for twice as much. */
static void
suspend_keep(struct tls *t, uint8_t *bytes, size_t len)
{
    uint8_t *fit = OPENSSL_malloc(len);

    if (fit != NULL) {
        memcpy(fit, bytes, len);
        OPENSSL_free(bytes); /* overwritten: it has secrets (TLS_LIB_FREE_CLEANSES) */
        bytes = fit;
    }
    t->suspended.bytes = bytes;
    t->suspended.len = len;
}

/* False: it has bytes of a record, or an end, or there is no memory: as it is, it goes on. */
static bool
suspend_one(struct tls *t)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    bool done =
        t->ended == 0 && SSL_has_pending(t->ssl) == 0 && SSL_to_bytes(t->ssl, &bytes, &len) == 1;

    if (done) {
        SSL_free(t->ssl);
        t->ssl = NULL;
        suspend_keep(t, bytes, len);
    }
    tls_memory_refused();
    ERR_clear_error();
    return done;
}

/* ---- those of a thread ---- */

static void
suspend_look(struct tls *t)
{
    OBJ_CHECK(t, TLS_MAGIC);
    tassert(t->ssl != NULL);
    list_del(&t->link);
    t->quiet = t->used ? 0 : t->quiet + 1u;
    t->used = false;
    if (t->quiet >= 1u << t->patience && suspend_one(t)) {
        suspend.awake--;
        return;
    }
    if (t->quiet >= 1u << t->patience)
        t->quiet = 0;
    list_add_tail(&suspend.waiting, &t->link);
}

static void
suspend_set_timer(uint64_t now_ms)
{
    timer_set(&suspend.loop->wheel, &suspend.timer,
        list_empty(&suspend.due) ? suspend.round_ms : now_ms + TIMER_TICK_MS);
}

static void
suspend_end(void)
{
    tassert(list_empty(&suspend.waiting) && list_empty(&suspend.due));
    timer_unlink(&suspend.timer);
    task_cancel(&suspend.task);
    suspend.loop = NULL;
}

static void
suspend_run(struct task *task)
{
    uint64_t now_ms = suspend.loop->clock.mono_ms;

    tassert(task == &suspend.task);
    if (now_ms >= suspend.round_ms) {
        list_splice(&suspend.due, &suspend.waiting);
        suspend.round_ms = now_ms + SUSPEND_ROUND_MS;
    }
    for (unsigned n = 0; n < SUSPEND_BATCH && !list_empty(&suspend.due); n++)
        suspend_look(container_of(suspend.due.next, struct tls, link));
    if (suspend.awake == 0)
        suspend_end();
    else
        suspend_set_timer(now_ms);
}

void
tls_suspend_watch(struct tls *t)
{
    tassert(t->server != NULL && t->ssl != NULL && list_empty(&t->link));
    if (suspend.loop == NULL) {
        list_init(&suspend.waiting);
        list_init(&suspend.due);
        suspend.loop = t->loop;
        task_init(&suspend.task, &t->loop->tasks, suspend_run);
        timer_init(&suspend.timer, &suspend.task);
        suspend.round_ms = t->loop->clock.mono_ms + SUSPEND_ROUND_MS;
        suspend_set_timer(t->loop->clock.mono_ms);
    }
    tassert(suspend.loop == t->loop);
    t->used = true;
    list_add_tail(&suspend.waiting, &t->link);
    suspend.awake++;
}

void
tls_suspend_forget(struct tls *t)
{
    if (t->ssl == NULL) {
        OPENSSL_free(t->suspended.bytes);
        return;
    }
    if (list_empty(&t->link))
        return;
    list_del(&t->link);
    tassert(suspend.awake > 0);
    if (--suspend.awake == 0)
        suspend_end();
}

bool
tls_restore(struct tls *t)
{
    void *bytes = t->suspended.bytes;
    SSL *ssl = SSL_from_bytes(bytes, t->suspended.len, t->server->ctx[t->loop->id]);

    tassert(t->ssl == NULL);
    tls_memory_refused();
    ERR_clear_error();
    if (ssl == NULL) {
        t->why = "no memory";
        return false;
    }
    OPENSSL_free(bytes);
    t->ssl = ssl;
    list_init(&t->link);
    tls_layer_set_bio(t);
    t->quiet = 0;
    t->patience += t->patience < SUSPEND_PATIENCE;
    tls_suspend_watch(t);
    return true;
}

#else

void
tls_suspend_watch(struct tls *t)
{
    (void)t;
}

void
tls_suspend_forget(struct tls *t)
{
    (void)t;
}

bool
tls_restore(struct tls *t)
{
    (void)t;
    TUNREACHABLE("none is suspended");
}

#endif
