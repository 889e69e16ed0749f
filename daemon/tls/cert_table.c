/* cert_table.c -- loads a listener's certificates and sorts them by name.
 *
 * A table is made beside the one in use, whole, and takes its place by one pointer (cert_store_swap): a load that fails
 * changes nothing.  Entries with unchanged files are shared by both, with what was parsed of them. */
#include "daemon/tls/cert_table.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_keys.h"
#include "daemon/tls/cert_table_priv.h"

struct table_load {
    struct cert_table *t;
    const struct cert_table *before; /* or NULL */
    struct cert_entry_load read;
    unsigned room, changes_room, kept_room; /* of the table's arrays */
};

/* ---- the index ---- */

/* Under a secret of the process: names are the clients' to choose, and could else be made to collide. */
static uint64_t
table_hash(struct slice name)
{
    return hash_bytes(name.ptr, name.len).lo;
}

/* Half full at most, so that a search by steps of one ends soon. */
static unsigned
table_power(unsigned n)
{
    unsigned power = 8;

    while (power < n)
        power *= 2;
    return power;
}

/* Has one of the slot's entries that name?  Hashes are 64 bits under a secret, and are not trusted alone. */
static bool
slot_is(const struct cert_table *t, const struct cert_slot *s, uint64_t hash, struct slice name)
{
    uint32_t at = s->entry[CERT_ECDSA] != 0 ? s->entry[CERT_ECDSA] : s->entry[CERT_RSA];

    return s->hash == hash && cert_entry_has(t->entries[at - 1], name);
}

/* The slot of that name, or the free one where it belongs. */
static struct cert_slot *
table_slot(const struct cert_table *t, struct slice name)
{
    uint64_t hash = table_hash(name);

    for (unsigned i = (unsigned)hash & t->slot_mask;; i = (i + 1) & t->slot_mask) {
        struct cert_slot *s = &t->slots[i];

        /* The caller fills it at once: a slot with a hash and no entry would be free to others. */
        if ((s->entry[CERT_ECDSA] | s->entry[CERT_RSA]) == 0) {
            s->hash = hash;
            return s;
        }
        if (slot_is(t, s, hash, name))
            return s;
    }
}

/* The same for lookups: nothing is written. */
static const struct cert_slot *
table_look(const struct cert_table *t, struct slice name)
{
    uint64_t hash = table_hash(name);

    for (unsigned i = (unsigned)hash & t->slot_mask;; i = (i + 1) & t->slot_mask) {
        const struct cert_slot *s = &t->slots[i];

        if ((s->entry[CERT_ECDSA] | s->entry[CERT_RSA]) == 0)
            return NULL;
        if (slot_is(t, s, hash, name))
            return s;
    }
}

const struct cert_slot *
cert_table_find(const struct cert_table *t, struct slice name)
{
    const struct cert_slot *s = name.len > 0 ? table_look(t, name) : NULL;
    const char *dot = name.len > 0 ? memchr(name.ptr, '.', name.len) : NULL;
    char wild[CERT_NAME_MAX];

    /* One label, the first, whole (RFC 9525 6.3).  An exact name without this kind of key does not fall back to the
     * wildcard's: all of a name's certificates are of one slot. */
    if (s == NULL && dot != NULL && dot > name.ptr) {
        size_t rest = name.len - (size_t)(dot - name.ptr);

        tassert(rest + 1 < sizeof(wild)); /* a label of at least one byte became the star */
        wild[0] = '*';
        memcpy(wild + 1, dot, rest);
        s = table_look(t, slice_of(wild, rest + 1));
    }
    return s != NULL ? s : &t->fallback;
}

struct cert_entry *
cert_table_by_path(const struct cert_table *t, const char *path)
{
    uint64_t hash = table_hash(slice_str(path));

    for (unsigned i = (unsigned)hash & t->path_mask; t->by_path[i] != 0;
         i = (i + 1) & t->path_mask) {
        struct cert_entry *e = t->entries[t->by_path[i] - 1];

        if (strcmp(e->certificate, path) == 0)
            return e;
    }
    return NULL;
}

/* By its path, and then by itself: an entry that was read anew has the same path. */
bool
cert_table_has(const struct cert_table *t, const struct cert_entry *e)
{
    return cert_table_by_path(t, e->certificate) == e;
}

/* Each path once: a certificate that is listed twice is found by its first entry. */
static void
table_put_path(struct cert_table *t, unsigned at)
{
    unsigned i = (unsigned)table_hash(slice_str(t->entries[at]->certificate)) & t->path_mask;

    while (t->by_path[i] != 0)
        i = (i + 1) & t->path_mask;
    t->by_path[i] = at + 1;
}

/* Of two certificates with one kind of key the one that is good for longer; of equal ones the first. */
static void
table_put_name(struct cert_table *t, unsigned at, struct slice name, struct cert_report *report)
{
    struct cert_entry *e = t->entries[at], *other, *loser;
    struct cert_slot *s = table_slot(t, name);
    uint32_t *place = &s->entry[e->kind];

    t->nnames += (s->entry[CERT_ECDSA] | s->entry[CERT_RSA]) == 0;
    if (*place == 0) {
        *place = at + 1;
        return;
    }
    other = t->entries[*place - 1];
    if (other == e || strcmp(other->certificate, e->certificate) == 0)
        return; /* the certificate has the name twice, or is listed twice */
    /* Mostly a certificate and its renewal, under two files' names. */
    loser = e->not_after_s > other->not_after_s ? other : e;
    if (loser == other)
        *place = at + 1;
    cert_report_add(report, false, loser->certificate, 0,
        "%.*s is served from %s, which is valid for longer", (int)name.len, name.ptr,
        (loser == e ? other : e)->certificate);
}

static struct slice
entry_first_name(const struct cert_entry *e)
{
    return e->names.len > 0 ? slice_of(e->names.ptr + 1, (uint8_t)e->names.ptr[0])
                            : slice_of("", 0);
}

/* The first entry; and of the other kind one for the same name. */
static void
table_put_fallback(struct cert_table *t)
{
    struct slice name = t->n > 0 ? entry_first_name(t->entries[0]) : slice_of("", 0);
    const struct cert_slot *s = name.len > 0 ? table_look(t, name) : NULL;

    /* Both kinds stay 0 then, and every handshake ends for want of a certificate. */
    if (t->n == 0)
        return; /* spec.may_be_empty */
    if (s != NULL)
        t->fallback = *s;
    /* That of the first entry even where its name is served from another: an operator who names a default means it. */
    t->fallback.entry[t->entries[0]->kind] = 1;
}

/* When all entries are there. */
static int
table_index(struct cert_table *t, struct cert_report *report)
{
    unsigned names = 0;

    /* Counted first, so that the index never grows: it is read without a lock. */
    for (unsigned i = 0; i < t->n; i++)
        names += t->entries[i]->nnames;
    t->slot_mask = table_power(names * 2) - 1;
    t->path_mask = table_power(t->n * 2) - 1;
    t->slots = calloc(t->slot_mask + 1u, sizeof(*t->slots));
    t->by_path = calloc(t->path_mask + 1u, sizeof(*t->by_path));
    if (t->slots == NULL || t->by_path == NULL)
        return TERR_NOMEM;
    t->bytes = malloc_usable_size(t) + malloc_usable_size(t->slots) +
               malloc_usable_size(t->by_path) + malloc_usable_size(t->entries);
    for (unsigned i = 0; i < t->n; i++) {
        struct cert_entry *e = t->entries[i];
        struct slice rest = e->names;

        while (rest.len > 0) {
            size_t len = (uint8_t)rest.ptr[0];

            table_put_name(t, i, slice_of(rest.ptr + 1, len), report);
            rest = slice_of(rest.ptr + 1 + len, rest.len - 1 - len);
        }
        table_put_path(t, i);
        t->bytes += malloc_usable_size(e);
        if (e->not_after_s < t->entries[t->soonest]->not_after_s)
            t->soonest = i;
    }
    table_put_fallback(t);
    return 0;
}

/* ---- loading ---- */

/* The array with room for one more; NULL: no memory, and it is as it was. */
static void *
table_grow(void *array, unsigned n, unsigned *room, size_t size)
{
    unsigned more = *room > 0 ? *room * 2 : 64;
    void *grown;

    /* The new room is not the caller's before it is there: a failure leaves both as they were. */
    if (n < *room)
        return array;
    grown = realloc(array, more * size);
    if (grown != NULL)
        *room = more;
    return grown;
}

/* The count of `e` is the table's from now on. */
static int
table_add(struct table_load *l, struct cert_entry *e)
{
    struct cert_table *t = l->t;
    struct cert_entry **entries =
        t->n < CERT_TABLE_MAX ? table_grow(t->entries, t->n, &l->room, sizeof(e)) : NULL;

    if (entries == NULL) {
        cert_entry_unref(&e);
        return TERR_NOMEM;
    }
    t->entries = entries;
    t->entries[t->n++] = e;
    return 0;
}

/* Its file is bad now: what was known stays. */
static int
table_keep(struct table_load *l, struct cert_entry *old)
{
    struct cert_table *t = l->t;
    struct cert_entry **kept = table_grow(t->kept, t->nkept, &l->kept_room, sizeof(old));

    if (kept == NULL)
        return TERR_NOMEM;
    t->kept = kept;
    t->kept[t->nkept++] = old;
    cert_entry_ref(old);
    return table_add(l, old);
}

/* Takes the count of `e`. */
static int
table_change(struct table_load *l, struct cert_entry *e, struct cert_entry *old)
{
    struct cert_table *t = l->t;
    struct cert_change *changes =
        table_grow(t->changes, t->nchanges, &l->changes_room, sizeof(*changes));

    if (changes == NULL) {
        cert_entry_unref(&e);
        return TERR_NOMEM;
    }
    t->changes = changes;
    t->changes[t->nchanges++] = (struct cert_change){e, old};
    cert_entry_ref(old);
    return table_add(l, e);
}

/* 0; TERR_CONFIG: there is nothing for these files, and the report says why; TERR_NOMEM. */
static int
table_load_one(struct table_load *l, const struct cert_files *f)
{
    struct cert_entry *e,
        *old = l->before != NULL ? cert_table_by_path(l->before, f->certificate) : NULL;
    int rc;

    if (old != NULL && cert_entry_is_of(old, f)) {
        cert_entry_ref(old);
        return table_add(l, old);
    }
    rc = cert_entry_read(&e, f, &l->read);
    /* Read, and bad: a reload in the midst of a copy must not end a site.  The report has said it. */
    if (rc == TERR_CONFIG && old != NULL)
        return table_keep(l, old);
    if (rc != 0)
        return rc;
    return old != NULL ? table_change(l, e, old) : table_add(l, e);
}

/* What the operator has listed must be there. */
static int
table_load_pairs(struct table_load *l, const struct cert_spec *spec)
{
    int rc = 0;

    for (unsigned i = 0; i < spec->npairs; i++) {
        const struct cert_pair *p = &spec->pairs[i];
        bool one = p->key == NULL || strcmp(p->key, p->certificate) == 0;
        struct cert_files f = {strdup(p->certificate), one ? NULL : strdup(p->key), NULL};
        const char *dot = strrchr(p->certificate, '.');
        int got = TERR_NOMEM;

        /* As in a directory: the response lies beside the certificate, by the same name. */
        if (f.certificate != NULL && (one || f.key != NULL) &&
            asprintf(&f.ocsp, "%.*s.ocsp",
                (int)(dot != NULL ? (size_t)(dot - p->certificate) : strlen(p->certificate)),
                p->certificate) >= 0)
            got = table_load_one(l, &f);
        cert_files_fini(&f);
        if (got == TERR_NOMEM)
            return got;
        rc = got != 0 ? got : rc; /* the others are read, so that all that is wrong is said */
    }
    return rc;
}

static void
table_say_empty(struct table_load *l, const struct cert_spec *spec)
{
    if (spec->may_be_empty)
        cert_report_add(l->read.report, false, spec->directory, 0,
            "has no certificate yet, so handshakes fail: an ACME client puts one there, and a "
            "reload "
            "reads it");
    else
        cert_report_add(l->read.report, true, spec->directory, 0,
            "has no certificate: NAME.pem with chain and key, or NAME.crt and NAME.key");
}

/* A file that is bad is left out; a directory that cannot be read is not. */
static int
table_load_directory(struct table_load *l, const struct cert_spec *spec)
{
    struct cert_dir dir = {NULL, 0};
    /* An ACME client makes it with the first certificate: until then a listener has to start without. */
    bool missing = spec->may_be_empty && access(spec->directory, F_OK) != 0 && errno == ENOENT;
    int rc = missing ? 0 : cert_dir_read(&dir, spec->directory, l->read.report);

    if (rc == 0 && dir.n == 0)
        table_say_empty(l, spec);
    for (unsigned i = 0; i < dir.n && rc == 0; i++) {
        rc = table_load_one(l, &dir.files[i]);
        rc = rc == TERR_CONFIG ? 0 : rc;
    }
    cert_dir_fini(&dir);
    return rc;
}

static struct cert_table *
table_new(const struct cert_spec *spec)
{
    struct cert_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    t->magic = CERT_TABLE_MAGIC;
    atomic_init(&t->refs, 1);
    /* Of the table and not of the store: a reload may change it. */
    t->parsed_max = spec->parsed_max > 0 ? spec->parsed_max : CERT_PARSED_MAX;
    if (spec->challenge_directory != NULL) {
        t->challenge_directory = strdup(spec->challenge_directory);
        if (t->challenge_directory == NULL)
            OBJ_FREE(t);
    }
    return t;
}

int
cert_table_load(struct cert_table **out, const struct cert_spec *spec,
    const struct cert_table *before, struct cert_report *report)
{
    struct cert_buffer buffer = {NULL, 0};
    struct table_load l = {.t = table_new(spec),
        .before = before,
        .read = {&buffer, report, spec->now_s != 0 ? spec->now_s : (int64_t)time(NULL)}};
    int rc;

    if (l.t == NULL)
        return TERR_NOMEM;
    /* Pairs first: the first certificate of a list is the default, and a directory's is where there is none. */
    rc = table_load_pairs(&l, spec);
    if (rc == 0 && spec->directory != NULL)
        rc = table_load_directory(&l, spec);
    /* A listener that can answer no handshake must not start, nor take the place of one that can. */
    if (rc == 0 && l.t->n == 0 && !spec->may_be_empty)
        rc = TERR_CONFIG; /* the report says why of each file */
    if (rc == 0)
        rc = table_index(l.t, report);
    cert_buffer_fini(&buffer);
    if (rc == 0)
        *out = l.t;
    else
        cert_table_unref(&l.t);
    return rc;
}

/* For `tarnd -t`, which may take its time: each is parsed, and nothing is kept. */
unsigned
cert_table_check(const struct cert_table *t, int64_t now_s, struct cert_report *report)
{
    unsigned bad = 0;

    OBJ_CHECK(t, CERT_TABLE_MAGIC);
    for (unsigned i = 0; i < t->n; i++) {
        const struct cert_entry *e = t->entries[i];
        struct cert_source source = {.certificate = e->certificate,
            .key = e->key,
            .ocsp = e->ocsp,
            .names = e->names,
            .now_s = now_s};
        struct cert_keys *keys;

        if (cert_keys_parse(&keys, &source, report) == 0)
            cert_keys_unref(&keys);
        else
            bad++;
    }
    return bad;
}

void
cert_table_ref(const struct cert_table *t)
{
    struct cert_table *counted;

    OBJ_CHECK(t, CERT_TABLE_MAGIC);
    memcpy(&counted, &t, sizeof(counted)); /* what is const is what it says of certificates */
    atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
}

void
cert_table_unref(struct cert_table **tp)
{
    struct cert_table *t;

    OBJ_TAKE(t, tp, CERT_TABLE_MAGIC);
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* Of a table that was never swapped in: the swap has taken its changes' counts. */
    for (unsigned i = 0; i < t->nchanges; i++)
        cert_entry_unref(&t->changes[i].old);
    for (unsigned i = 0; i < t->n; i++)
        cert_entry_unref(&t->entries[i]);
    free(t->changes);
    free(t->kept);
    free(t->entries);
    free(t->slots);
    free(t->by_path);
    free(t->challenge_directory);
    OBJ_FREE(t);
}

unsigned
cert_table_count(const struct cert_table *t)
{
    OBJ_CHECK(t, CERT_TABLE_MAGIC);
    return t->n;
}

uint64_t
cert_table_bytes(const struct cert_table *t)
{
    OBJ_CHECK(t, CERT_TABLE_MAGIC);
    return t->bytes;
}

int64_t
cert_table_soonest_expiry(const struct cert_table *t, const char **file)
{
    OBJ_CHECK(t, CERT_TABLE_MAGIC);
    *file = t->n > 0 ? t->entries[t->soonest]->certificate : "";
    return t->n > 0 ? t->entries[t->soonest]->not_after_s : INT64_MAX;
}
