/* resolve.c -- a lookup: a thread that asks, and ends. */
#include "daemon/net/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/heap.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

enum {
    RESOLVE_STACK_BYTES = 512 * 1024 /* for what nsswitch.conf may load */
};

#define RESOLVE_MAGIC OBJ_TAG('r', 's', 'l', 'v')
struct resolve {
    uint32_t magic;
    _Atomic unsigned refs; /* the thread's, and its owner's; the last one frees */
    _Atomic bool done;     /* what is below is written before, and read after */
    int err;               /* getaddrinfo's */
    struct addrinfo *list;
    resolve_f *ask;
    char host[];
};

static void
resolve_drop(struct resolve *r)
{
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (r->err == 0 && r->list != NULL)
        freeaddrinfo(r->list);
    OBJ_FREE(r);
}

static void *
resolve_main(void *arg)
{
    struct resolve *r = arg;
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC, .ai_flags = AI_ADDRCONFIG};

    pthread_setname_np(pthread_self(), "tarn-resolve");
    r->err = heap_has_room() ? r->ask(r->host, NULL, &hints, &r->list) : EAI_MEMORY;
    atomic_store_explicit(&r->done, true, memory_order_release);
    resolve_drop(r);
    return NULL;
}

static int
resolve_spawn(struct resolve *r)
{
    pthread_attr_t attr;
    pthread_t thread;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, RESOLVE_STACK_BYTES);
    err = pthread_create(&thread, &attr, resolve_main, r);
    pthread_attr_destroy(&attr);
    return err == 0 ? 0 : TERR_NOMEM;
}

int
resolve_start(struct resolve **out, const char *host, resolve_f *ask)
{
    size_t len = strlen(host) + 1;
    struct resolve *r = calloc(1, sizeof(*r) + len);

    if (r == NULL)
        return TERR_NOMEM;
    r->magic = RESOLVE_MAGIC;
    r->ask = ask;
    memcpy(r->host, host, len);
    atomic_init(&r->refs, 2);
    if (resolve_spawn(r) != 0) {
        OBJ_FREE(r);
        return TERR_NOMEM;
    }
    *out = r;
    return 0;
}

int
resolve_result(const struct resolve *r, const struct addrinfo **list, const char **why)
{
    OBJ_CHECK(r, RESOLVE_MAGIC);
    if (!atomic_load_explicit(&r->done, memory_order_acquire))
        return TERR_AGAIN;
    if (r->err == 0) {
        *list = r->list;
        return 0;
    }
    *why = gai_strerror(r->err);
    return TERR_NOTFOUND;
}

void
resolve_close(struct resolve **rp)
{
    struct resolve *r;

    OBJ_TAKE(r, rp, RESOLVE_MAGIC);
    resolve_drop(r);
}
