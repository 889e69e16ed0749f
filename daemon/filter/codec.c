/* codec.c -- pools of codecs, and what is the same for every kind. */
#include "daemon/filter/codec.h"

#include "daemon/base/usage.h"
#include "daemon/filter/codec_priv.h"

static const struct codec_ops *const codec_kinds[CODEC_KINDS] = {
    [CODEC_GZIP] = &codec_gzip_ops,
    [CODEC_GUNZIP] = &codec_gunzip_ops,
    [CODEC_ZSTD] = &codec_zstd_ops,
    [CODEC_UNZSTD] = &codec_unzstd_ops,
    [CODEC_UNBROTLI] = &codec_unbrotli_ops,
};

#define CODEC_POOL_MAGIC OBJ_TAG('c', 'd', 'c', 'p')
struct codec_pool {
    uint32_t magic;
    unsigned most;       /* in use at once, of each kind */
    struct usage *usage; /* borrowed */
    struct {
        unsigned used;
        unsigned nidle;
        struct codec *idle; /* the one that was used last is the first */
    } kinds[CODEC_KINDS];
};

struct codec_pool *
codec_pool_new(struct usage *u, unsigned most)
{
    struct codec_pool *p;

    tassert(most > 0);
    p = usage_calloc(u, USAGE_REQUEST, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->magic = CODEC_POOL_MAGIC;
    p->most = most;
    p->usage = u;
    return p;
}

void
codec_pool_free(struct codec_pool **pp)
{
    struct codec_pool *p;
    struct usage *u;

    OBJ_TAKE(p, pp, CODEC_POOL_MAGIC);
    for (unsigned i = 0; i < CODEC_KINDS; i++)
        tassert(p->kinds[i].used == 0);
    codec_pool_trim(p, 0);
    u = p->usage;
    OBJ_BURY(p);
    usage_free(u, USAGE_REQUEST, p);
}

static struct codec *
codec_pool_pop(struct codec_pool *p, enum codec_kind kind)
{
    struct codec *c = p->kinds[kind].idle;

    if (c == NULL)
        return NULL;
    tassert(c->magic == OBJ_DEAD);
    p->kinds[kind].idle = c->next;
    p->kinds[kind].nidle--;
    return c;
}

static void
codec_pool_drop(struct codec_pool *p, enum codec_kind kind)
{
    struct codec *c = codec_pool_pop(p, kind);

    if (codec_kinds[kind]->drop != NULL)
        codec_kinds[kind]->drop(c);
    usage_free(p->usage, USAGE_REQUEST, c);
}

void
codec_pool_trim(struct codec_pool *p, unsigned keep)
{
    OBJ_CHECK(p, CODEC_POOL_MAGIC);
    for (unsigned i = 0; i < CODEC_KINDS; i++)
        while (p->kinds[i].nidle > keep)
            codec_pool_drop(p, (enum codec_kind)i);
}

unsigned
codec_pool_used(const struct codec_pool *p, enum codec_kind kind)
{
    OBJ_CHECK(p, CODEC_POOL_MAGIC);
    tassert(kind < CODEC_KINDS);
    return p->kinds[kind].used;
}

/* One that is idle, or new memory.  NULL: no memory. */
static struct codec *
codec_pool_take(struct codec_pool *p, enum codec_kind kind)
{
    const struct codec_ops *ops = codec_kinds[kind];
    struct codec *c = codec_pool_pop(p, kind);
    bool is_new = c == NULL;

    if (is_new)
        c = usage_alloc(p->usage, USAGE_REQUEST, ops->size());
    if (c == NULL)
        return NULL;
    *c = (struct codec){.magic = CODEC_MAGIC, .kind = kind, .pool = p, .usage = p->usage};
    if (is_new && ops->make != NULL)
        ops->make(c);
    return c;
}

static void
codec_pool_put(struct codec_pool *p, struct codec *c)
{
    OBJ_BURY(c); /* codec_pool_take() brings it back */
    c->next = p->kinds[c->kind].idle;
    p->kinds[c->kind].idle = c;
    p->kinds[c->kind].nidle++;
}

struct codec *
codec_new(struct codec_pool *p, enum codec_kind kind)
{
    struct codec *c;

    OBJ_CHECK(p, CODEC_POOL_MAGIC);
    tassert(kind < CODEC_KINDS);
    if (p->kinds[kind].used == p->most)
        return NULL;
    c = codec_pool_take(p, kind);
    if (c == NULL)
        return NULL;
    if (!codec_kinds[kind]->init(c)) {
        codec_pool_put(p, c);
        return NULL;
    }
    p->kinds[kind].used++;
    return c;
}

void
codec_free(struct codec **cp)
{
    struct codec_pool *p;
    struct codec *c;

    if (*cp == NULL)
        return;
    OBJ_TAKE(c, cp, CODEC_MAGIC);
    p = c->pool;
    OBJ_CHECK(p, CODEC_POOL_MAGIC);
    tassert(p->kinds[c->kind].used > 0);
    if (codec_kinds[c->kind]->fini != NULL)
        codec_kinds[c->kind]->fini(c);
    p->kinds[c->kind].used--;
    codec_pool_put(p, c);
}

int
codec_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow)
{
    int said;

    OBJ_CHECK(c, CODEC_MAGIC);
    tassert(!c->failed);
    said = codec_kinds[c->kind]->run(c, in, out, flow);
    tassert(said != CODEC_WANTS_INPUT || (in->len == 0 && flow != CODEC_ENDS));
    tassert(said != CODEC_WANTS_ROOM || out->len == 0);
    tassert(said != CODEC_ENDED || (in->len == 0 && flow == CODEC_ENDS));
    c->failed = said < 0;
    return said;
}

uint64_t
codec_in(const struct codec *c)
{
    OBJ_CHECK(c, CODEC_MAGIC);
    return c->in;
}

uint64_t
codec_out(const struct codec *c)
{
    OBJ_CHECK(c, CODEC_MAGIC);
    return c->out;
}
