/* req_purge.c -- what a policy purges or bans in a fleet, and the answer of vcl_synth that says what became of it.
 *
 *   Purge-Token: 1732790000000-0.5f3a9c21
 *   Purge-Proof: all | none; missing="edge2, edge3"; why="not every node has applied it in that time"
 *
 * The log is asked once, in front of vcl_synth, which may read, change and remove both.  The second is an Item of
 * RFC 9651.  What vcl_synth itself purges is not waited for, and then neither is said. */
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/http/message_out.h"
#include "daemon/proxy/req_priv.h"

static struct req_purged *
req_have_purged(struct req *r)
{
    if (r->policy.purged == NULL)
        r->policy.purged = arena_alloc(&r->x->arena, sizeof(*r->policy.purged));
    else
        return r->policy.purged;
    if (r->policy.purged != NULL)
        *r->policy.purged = (struct req_purged){.watch = {.waiter = &r->wait}};
    return r->policy.purged;
}

/* What was known is of before. */
static void
purge_ask_anew(struct req_purged *p)
{
    p->asked = p->settled = p->watch.logged = p->watch.proven = false;
    p->watch.token[0] = p->watch.missing[0] = p->watch.why[0] = '\0';
}

/* Without memory the answer has no token: what was purged stays so. */
void
req_note_purge(struct req *r, const struct invalidation_result *done)
{
    struct req_purged *p;

    if (done->ticket == 0 && !done->unlogged)
        return;
    p = req_have_purged(r);
    if (p == NULL)
        return;
    p->unlogged |= done->unlogged;
    if (done->ticket > 0)
        p->watch.ticket = done->ticket;
    purge_ask_anew(p); /* a restart may purge again */
}

int
req_wait_for_purge(struct req *r, int64_t timeout_ms)
{
    struct req_purged *p = req_have_purged(r);

    if (p == NULL)
        return TERR_NOMEM;
    p->watch.all = true;
    p->watch.timeout_ms = timeout_ms;
    purge_ask_anew(p);
    return 0;
}

/* What was to be proven and is not is no success. */
static void
purge_fit_status(struct req *r, const struct req_purged *p)
{
    unsigned sent = r->synth_status % 1000u;

    if (!p->watch.all || p->watch.proven || sent / 100 != 2)
        return;
    r->synth_status = (uint16_t)(r->synth_status - sent + (p->watch.logged ? 202 : 503));
    r->policy.reason = slice_of(NULL, 0);
}

bool
req_settle_purge(struct req *r)
{
    struct req_purged *p = r->policy.purged;

    if (waiter_pending(&r->wait))
        return false;
    if (p->settled)
        return true;
    if (p->unlogged)
        snprintf(p->watch.why, sizeof(p->watch.why),
            "the fleet's log could not take it: it counts at this node alone");
    else if (p->watch.ticket > 0 && !p->asked) {
        p->asked = true;
        invalidation_watch(r->proxy->cache, &p->watch);
        return false;
    }
    p->settled = true;
    if (p->watch.ticket > 0 || p->unlogged)
        purge_fit_status(r, p);
    return true;
}

void
req_leave_purge(struct req *r)
{
    if (r->policy.purged->asked && !r->policy.purged->settled)
        atomic_store(&r->policy.purged->watch.unwanted, true);
}

/* A text of ours or of the engine's, as a String of RFC 9651 3.3.3: what it cannot have becomes a space. */
static int
purge_put_string(char *to, size_t room, const char *key, const char *text)
{
    char clean[INVALIDATION_MISSING_MAX];
    size_t n = 0;

    for (; n < sizeof(clean) - 1 && text[n] != '\0'; n++)
        clean[n] = (unsigned char)text[n] < ' ' || (unsigned char)text[n] > '~' || text[n] == '"' ||
                           text[n] == '\\'
                       ? ' '
                       : text[n];
    clean[n] = '\0';
    return n == 0 ? 0 : snprintf(to, room, "; %s=\"%s\"", key, clean);
}

struct req_purge_fields
req_purge_fields(struct req *r)
{
    const struct req_purged *p = r->policy.purged;
    struct req_purge_fields out = {.token = slice_str(p->watch.token)};
    char text[REQ_PURGE_FIELDS_MAX - 128];
    int n;

    /* It waits for nothing, as nothing was purged; or what was, was in vcl_synth, which does not wait for itself. */
    if ((p->watch.ticket == 0 && !p->unlogged) || !p->settled)
        return (struct req_purge_fields){.token = slice_of(NULL, 0)};
    if (p->watch.proven) {
        out.proof = SLICE_LIT("all");
        return out;
    }
    n = snprintf(text, sizeof(text), "none");
    n += purge_put_string(text + n, sizeof(text) - (size_t)n, "missing", p->watch.missing);
    n += purge_put_string(text + n, sizeof(text) - (size_t)n, "why", p->watch.why);
    tassert((size_t)n < sizeof(text));
    out.proof = arena_copy(&r->x->arena, slice_of(text, (size_t)n));
    return out;
}

void
req_unsay_purge(struct req *r)
{
    if (r->policy.purged->settled || r->policy.resp == NULL)
        return;
    message_edit_unset(r->policy.resp, SLICE_LIT("Purge-Token"), HTTP_F_OTHER);
    message_edit_unset(r->policy.resp, SLICE_LIT("Purge-Proof"), HTTP_F_OTHER);
}
