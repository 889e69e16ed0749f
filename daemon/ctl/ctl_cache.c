/* ctl_cache.c -- what is stored: purges, bans, the index.
 *
 * A purge names one key, or all of them, by the URL and the request fields that the policy reads; tarnd computes
 * the key from them by its policy, as it does for a request.  A ban is an expression over stored
 * objects, tested later by the ban lurker or at the next request.  Words and semantics are
 * Varnish's.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/ctl_commands.h"

/* Takes the body.  `soft` lets the response become stale and keeps it: grace and revalidation
 * still use it (Varnish's soft purge).  A purge that removed nothing is a success: the state
 * that was wanted holds. */
static int
purge_ask(struct ctl *c, json_t *body)
{
    json_t *o = NULL;
    int rc = ctl_fleet_ask(c, body);

    if (rc == CTL_DONE)
        rc = ctl_ask(c, "POST", "/v1/purge", body, &o);
    else
        json_decref(body);
    if (rc == CTL_DONE && !c->json) {
        long long n = json_integer_value(json_object_get(o, "purged"));
        const char *url = json_string_value(json_object_get(o, "url"));

        /* A path is on a host that was not said.  Of tags and of all there is no URL in the answer. */
        if (url != NULL && c->args[0][0] == '/')
            printf("%s: ", url);
        printf("%lld %s %s\n", n, n == 1 ? "response" : "responses",
            c->soft ? (n == 1 ? "is stale now" : "are stale now")
                    : (n == 1 ? "was removed" : "were removed"));
        /* The usual surprise: another scheme or host, or a key of the policy's own. */
        if (n == 0 && url != NULL) {
            printf("nothing is stored under the key of this request; its key and the reason: "
                   "tarnctl why '%s'",
                url);
            for (int i = 1; i < c->nargs; i++)
                printf(" '%s'", c->args[i]);
            puts("");
        }
    }
    if (rc == CTL_DONE)
        rc = ctl_fleet_proven(c, o);
    json_decref(o);
    return rc;
}

/* Everything.  By its word alone: an empty variable of a script is no command for that. */
static int
purge_all(struct ctl *c)
{
    if (c->nargs > 0) {
        ctl_say("purge takes a URL or --all, not both");
        return CTL_USAGE;
    }
    return purge_ask(c, json_pack("{sbsb}", "all", 1, "soft", (int)c->soft));
}

static int
purge_wrong(void)
{
    static const char *const purge[] = {"purge"};
    int used;

    fputs("tarnctl: ", stderr);
    ctl_usage(stderr, ctl_find(purge, 1, &used));
    return CTL_USAGE;
}

/* With fields, as the policy may put some of them into the key.  args[0] is a URL or a path, the
 * others are fields: `tarnctl purge /a 'Accept-Language: de'`. */
int
ctl_purge(struct ctl *c)
{
    json_t *body, *fields;

    if (c->all)
        return purge_all(c);
    if (c->nargs == 0)
        return purge_wrong();
    if (!ctl_args_are_text(c))
        return CTL_USAGE;
    body = json_pack("{sssb}", "url", c->args[0], "soft", (int)c->soft);
    fields = json_array();
    for (int i = 1; i < c->nargs; i++)
        json_array_append_new(fields, json_string(c->args[i]));
    /* Without them none is sent: the member may be there with a url only. */
    if (c->nargs > 1)
        json_object_set(body, "headers", fields);
    json_decref(fields);
    return purge_ask(c, body);
}

/* Several tags are a union: what has one of them goes. */
int
ctl_purge_tag(struct ctl *c)
{
    json_t *tags;

    if (!ctl_args_are_text(c))
        return CTL_USAGE;
    tags = json_array();
    for (int i = 0; i < c->nargs; i++)
        json_array_append_new(tags, json_string(c->args[i]));
    /* "o" takes the list over. */
    return purge_ask(c, json_pack("{sosb}", "tags", tags, "soft", (int)c->soft));
}

/* One text, or its words as a shell took them apart; freed by the caller.  NULL: no memory. */
static char *
ban_expression(const struct ctl *c)
{
    size_t bytes = 1;
    char *text;

    for (int i = 0; i < c->nargs; i++)
        bytes += strlen(c->args[i]) + 1;
    text = calloc(1, bytes);
    for (int i = 0; i < c->nargs && text != NULL; i++) {
        /* One space for what the shell has taken apart: runs of them within one word stay. */
        strcat(text, i > 0 ? " " : "");
        strcat(text, c->args[i]);
    }
    return text;
}

/* Both forms mean the same: ban 'obj.status == 404', and ban obj.status == 404. */
int
ctl_ban(struct ctl *c)
{
    json_t *o = NULL, *body;
    char *text;
    int rc;

    if (!ctl_args_are_text(c))
        return CTL_USAGE;
    text = ban_expression(c);
    body = json_pack("{ss}", "expression", text);
    free(text);
    rc = ctl_fleet_ask(c, body);
    if (rc == CTL_DONE)
        rc = ctl_ask(c, "POST", "/v1/bans", body, &o);
    else
        json_decref(body);
    if (rc == CTL_DONE && !c->json)
        puts("older objects that match are not used any more");
    if (rc == CTL_DONE)
        rc = ctl_fleet_proven(c, o);
    json_decref(o);
    return rc;
}

/* "at requests" marks a ban that reads req.*: no lurker can test it, for it has no request.
 * Such bans stay in the list until every older object has been tested by a request or has gone,
 * and each lookup of such an object tests them.  That is what an operator looks for here. */
int
ctl_ban_list(struct ctl *c)
{
    static const char *const headings[] = {"ADDED", "OBJECTS", "STATE", "EXPRESSION", NULL};
    struct ctl_table t;
    const json_t *ban;
    size_t i;
    json_t *o;
    int rc = ctl_ask(c, "GET", "/v1/bans", NULL, &o);

    if (rc == CTL_DONE && !c->json) {
        ctl_table_begin(&t, headings);
        json_array_foreach(json_object_get(o, "bans"), i, ban)
        {
            char ago[24];

            ctl_seconds(ago, (double)time(NULL) - json_number_value(json_object_get(ban, "added")));
            /* The two clocks may differ a little. */
            ctl_cell(&t, "%s ago", ago[0] == '-' ? "0.0s" : ago);
            ctl_cell_of(&t, ban, "objects");
            ctl_cell(&t, "%s",
                json_is_true(json_object_get(ban, "completed"))    ? "completed"
                : json_is_true(json_object_get(ban, "of_request")) ? "at requests"
                                                                   : "lurker");
            ctl_cell_of(&t, ban, "expression");
        }
        ctl_table_end(&t, "there are no bans");
        if (json_is_true(json_object_get(o, "truncated")))
            puts("... and more");
    }
    json_decref(o);
    return rc;
}

static long long
index_number(const json_t *o, const char *member)
{
    return (long long)json_integer_value(json_object_get(o, member));
}

/* The index doubles by splitting its buckets in small steps while requests use it, so both
 * shapes take memory meanwhile.  "refused" that grows means that the next doubling does not fit
 * into memory, and that keys are evicted instead. */
static void
index_show_growth(const json_t *growth)
{
    if (json_is_true(json_object_get(growth, "fixed")))
        printf("growth       its size is fixed\n");
    else if (json_is_true(json_object_get(growth, "growing")))
        printf("growth       doubling: %lld of %lld buckets are split\n",
            index_number(growth, "split"), index_number(growth, "splitting"));
    else
        printf("growth       doubles at %.2f; has done so %lld times, refused for want of memory "
               "%lld\n",
            json_number_value(json_object_get(growth, "at_load")), index_number(growth, "doubled"),
            index_number(growth, "refused"));
}

/* " 0:12 1:40 2:9": a sample of buckets by the number of keys in them.  A long tail at the full
 * end with a low load means that keys hash badly. */
static void
index_show_occupancy(const json_t *occupancy)
{
    const json_t *n;
    size_t i;

    printf("occupancy   ");
    json_array_foreach(json_object_get(occupancy, "buckets"), i, n)
        printf(" %zu:%lld", i, (long long)json_integer_value(n));
    printf("  (keys in a bucket: buckets; %lld looked at)\n", index_number(occupancy, "seen"));
}

/* Figures are read without a lock, one after another, while requests change them: they need not
 * add up. */
int
ctl_index_stats(struct ctl *c)
{
    const json_t *negative;
    char bytes[16];
    json_t *o;
    int rc = ctl_ask(c, "GET", "/v1/index", NULL, &o);

    if (rc != CTL_DONE || c->json) {
        json_decref(o);
        return rc;
    }
    ctl_bytes(bytes, (uint64_t)index_number(o, "bytes"));
    printf("entries      %lld of %lld, load %.3f, %s\n", index_number(o, "entries"),
        index_number(o, "capacity"), json_number_value(json_object_get(o, "load")), bytes);
    printf(
        "buckets      %lld of %lld slots\n", index_number(o, "buckets"), index_number(o, "slots"));
    index_show_growth(json_object_get(o, "growth"));
    index_show_occupancy(json_object_get(o, "occupancy"));
    printf("moves        %lld on %lld paths, %lld on the longest; %lld keys evicted\n",
        index_number(o, "moves"), index_number(o, "displacements"), index_number(o, "longest_path"),
        index_number(o, "victims"));
    printf("lookups      %lld looked twice because a key moved, %lld took the locks\n",
        index_number(o, "retried"), index_number(o, "locked"));
    negative = json_object_get(o, "negative");
    if (json_is_object(negative))
        printf("negative     %lld of %lld; %lld added, %lld evicted, %lld removed, %lld dropped\n",
            index_number(negative, "entries"), index_number(negative, "entries_max"),
            index_number(negative, "inserts"), index_number(negative, "evicted"),
            index_number(negative, "removed"), index_number(negative, "dropped"));
    else
        printf("negative     none\n");
    json_decref(o);
    return rc;
}

/* Keys of a page; returns how many.  A key shows as "A17/3 KEY": side of the cuckoo table,
 * bucket, slot.  Below it one line for each entry, which are the variants of its Vary. */
static unsigned
dump_page(const json_t *o, unsigned long most)
{
    const json_t *key, *e;
    unsigned n = 0;
    size_t i, k;

    json_array_foreach(json_object_get(o, "keys"), i, key)
    {
        if (n++ == most)
            return n - 1;
        printf("%s%lld/%lld %s\n", json_string_value(json_object_get(key, "side")),
            index_number(key, "bucket"), index_number(key, "slot"),
            json_string_value(json_object_get(key, "key")));
        json_array_foreach(json_object_get(key, "entries"), k, e)
        {
            const char *url = json_string_value(json_object_get(e, "url"));

            printf("    %-8s %3lld %10lld bytes, age %llds, ttl %.1fs, uses %lld%s  %s\n",
                json_string_value(json_object_get(e, "state")), index_number(e, "status"),
                index_number(e, "bytes"), index_number(e, "age"),
                json_number_value(json_object_get(e, "ttl")), index_number(e, "uses"),
                json_is_true(json_object_get(e, "vary")) ? ", varies" : "",
                url != NULL ? url : "-");
        }
    }
    return n;
}

int
ctl_index_dump(struct ctl *c)
{
    enum {
        PAGE = 500
    };
    /* "0" is the first page; afterwards it is the cursor of the answer, which is opaque to us.
     * The index goes on changing between pages: a key that moves may be shown twice or not at
     * all. */
    char path[128], *end = NULL, after[64] = "0";
    unsigned long left = c->limit == NULL ? ULONG_MAX : strtoul(c->limit, &end, 10);
    int rc = CTL_DONE;

    /* strtoul(3) takes a minus, and wraps. */
    if (c->limit != NULL && (*end != '\0' || end == c->limit || left == 0 || c->limit[0] == '-')) {
        ctl_say("--limit %s: a number of keys, 1 or more", c->limit);
        return CTL_USAGE;
    }
    while (rc == CTL_DONE && left > 0) {
        const char *next;
        unsigned n;
        json_t *o;

        snprintf(path, sizeof(path), "/v1/index/dump?limit=%lu&after=%s", left < PAGE ? left : PAGE,
            after);
        rc = ctl_ask(c, "GET", path, NULL, &o);
        if (rc != CTL_DONE)
            break;
        /* A page has some keys more than was asked for: a bucket is not cut. */
        n = c->json ? (unsigned)json_array_size(json_object_get(o, "keys")) : dump_page(o, left);
        /* With --json the answer is printed as it came, so its last page may have a few keys
         * more than the limit. */
        left = n < left ? left - n : 0;
        next = json_string_value(json_object_get(o, "next"));
        /* Copied: the answer goes, and the next question needs it. */
        snprintf(after, sizeof(after), "%s", next != NULL ? next : "");
        json_decref(o);
        if (after[0] == '\0')
            break;
    }
    return rc;
}
