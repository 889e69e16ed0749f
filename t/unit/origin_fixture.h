/* origin_fixture.h -- backends without servers, for tests of directors. */
#ifndef TARN_ORIGIN_FIXTURE_H
#define TARN_ORIGIN_FIXTURE_H

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/director.h"
#include "t/unit/test.h"

enum {
    PICK_YAML = 2, /* backends that the configuration names: "y0", "y1" */
    PICK_MAX = 32
};

/* A registry, and backends "b0", "b1" ... of a policy. */
struct picks {
    struct registry *rg;
    struct director *b[PICK_MAX];
    unsigned n;
};

static inline const struct conf *
picks_conf(void)
{
    static const struct conf_address address = {
        .text = "unix:/none", .is_unix = true, .path = "/none", .host = ""};
    static struct conf_backend backends[PICK_YAML] = {
        {.name = "y0", .address = {.text = ""}, .host_header = ""},
        {.name = "y1", .address = {.text = ""}, .host_header = ""},
    };
    static struct conf conf = {
        .params = {.resolver = ""}, .backends = backends, .nbackends = PICK_YAML};

    backends[0].address = backends[1].address = address;
    return &conf;
}

static inline struct director *
picks_backend(struct picks *p, const char *name)
{
    struct director *d = NULL;
    char full[32];

    snprintf(full, sizeof(full), "boot.%s", name);
    CHECK_EQ(0, backend_new(&d, p->rg, &picks_conf()->backends[0], NULL, name, full));
    return d;
}

static inline void
picks_open(struct picks *p, unsigned n)
{
    *p = (struct picks){.n = n};
    CHECK_EQ(0, registry_open(&p->rg, picks_conf()));
    for (unsigned i = 0; i < n; i++) {
        char name[8];

        snprintf(name, sizeof(name), "b%u", i);
        p->b[i] = picks_backend(p, name);
    }
}

static inline void
picks_close(struct picks *p)
{
    for (unsigned i = 0; i < p->n; i++)
        director_drop(&p->b[i]);
    registry_close(&p->rg);
}

/* A director of `kind` with all of them. */
static inline struct director *
picks_director(struct picks *p, enum director_kind kind)
{
    struct director *d = NULL;

    CHECK_EQ(0, director_new(&d, kind, "d"));
    for (unsigned i = 0; i < p->n; i++)
        CHECK_EQ(0, director_add(d, p->b[i], 1));
    return d;
}

static inline void
picks_set(struct picks *p, unsigned i, enum backend_admin a)
{
    static const struct director_ask nothing;

    backend_set_admin(director_pick(p->b[i], &nothing), a);
}

/* The name of what is chosen; "": nothing. */
static inline const char *
picks_ask(struct director *d, const struct director_ask *ask)
{
    struct backend *b = director_pick(d, ask);

    return b == NULL ? "" : director_name(backend_director(b));
}

/* splitmix64: a run of numbers that is the same every time. */
static inline uint64_t
picks_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
