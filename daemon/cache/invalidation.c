/* invalidation.c -- one record for every way in which a response ends before its time. */
#include "daemon/cache/invalidation.h"

#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/terr.h"
#include "daemon/cache/ban.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/cache/tag_purge.h"

void
cache_set_invalidation_log(struct cache *c, const struct invalidation_log *log)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    tassert(log == NULL || log->append != NULL);
    c->log = log;
}

void
cache_set_resolver(struct cache *c, struct invalidation_resolver resolver)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    c->resolver = resolver;
}

bool
invalidation_wants_text(const struct cache *c)
{
    return c->log != NULL && c->log->wants_text;
}

static unsigned
invalidation_of_key(struct cache *c, const struct invalidation *inv, const struct clock *now)
{
    struct hash128 key;

    if (inv->key != NULL) {
        /* The text is made anew, or was kept: it must be that of the key (I3). */
        tassert_slow(inv->text.ptr == NULL ||
                     hash128_eq(*inv->key, hash_bytes(inv->text.ptr, inv->text.len)));
        key = *inv->key;
    } else {
        tassert(inv->text.ptr != NULL);
        key = hash_bytes(inv->text.ptr, inv->text.len);
    }
    if (inv->changed)
        return cache_invalidate(c, &key);
    if (inv->soft)
        return cache_purge_soft(
            c, &key, (int64_t)now->mono_ms, inv->ttl_ms, inv->grace_ms, inv->keep_ms);
    return cache_purge(c, &key);
}

static int
invalidation_of_url(struct cache *c, const struct invalidation *inv, const struct clock *now,
    struct invalidation_result *out)
{
    const char *why = NULL;
    struct hash128 key;
    int err;

    if (c->resolver.resolve == NULL)
        return TERR_INVALID;
    err = c->resolver.resolve(c->resolver.ctx, inv, &key, &why);
    if (err != 0) {
        snprintf(out->why, sizeof(out->why), "%s", why != NULL ? why : "");
        return err;
    }
    /* Only now: nothing is purged for a url that has no key of its own. */
    out->how_many = inv->soft ? cache_purge_soft(c, &key, (int64_t)now->mono_ms, 0, -1, -1)
                              : cache_purge(c, &key);
    return 0;
}

int
invalidation_apply(struct cache *c, const struct invalidation *inv, const struct clock *now,
    struct invalidation_result *out)
{
    struct invalidation_result unasked;

    OBJ_CHECK(c, CACHE_MAGIC);
    tassert(!inv->changed || (inv->kind == INVALIDATION_KEY && !inv->soft));
    if (out == NULL) {
        out = &unasked;
        out->wait = NULL;
    }
    out->how_many = 0;
    out->ticket = 0;
    out->unlogged = false;
    out->why[0] = '\0';
    switch (inv->kind) {
    case INVALIDATION_URL:
        return invalidation_of_url(c, inv, now, out);
    case INVALIDATION_KEY:
        out->how_many = invalidation_of_key(c, inv, now);
        return 0;
    case INVALIDATION_TAGS:
        return tag_purge_start(c, inv->tags, inv->ntags, inv->soft, now, out->wait);
    case INVALIDATION_BAN:
        tassert(!inv->soft);
        return bans_add(&c->bans, inv->text, now, out->why, sizeof(out->why));
    case INVALIDATION_ALL:
        return tag_purge_start_all(c, inv->soft, now, out->wait);
    }
    TUNREACHABLE("a kind of invalidation");
}

/* Applied first: what is refused here would be refused elsewhere, or the caller says it again. */
int
invalidation_make(struct cache *c, const struct invalidation *inv, const struct clock *now,
    struct invalidation_result *out)
{
    const struct invalidation_log *log = c->log;
    uint64_t ticket = 0;
    int err;

    if (__builtin_expect(log == NULL, 1))
        return invalidation_apply(c, inv, now, out);
    log->begin(log->ctx);
    err = invalidation_apply(c, inv, now, out);
    tassert(inv->kind != INVALIDATION_KEY || inv->text.ptr != NULL || !log->wants_text);
    if (err == 0)
        ticket = log->append(log->ctx, inv);
    log->end(log->ctx);
    if (err == 0 && out != NULL) {
        out->ticket = ticket;
        out->unlogged = ticket == 0;
    }
    return err;
}

int
cache_distrust_before(struct cache *c, const struct clock *now)
{
    return tag_purge_start_all(c, true, now, NULL);
}

void
invalidation_watch(struct cache *c, struct invalidation_watch *w)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    tassert(c->log != NULL && w->ticket > 0);
    w->logged = w->proven = false;
    w->token[0] = w->missing[0] = w->why[0] = '\0';
    c->log->watch(c->log->ctx, w);
}
