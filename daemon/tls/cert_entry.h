/* cert_entry.h -- what is known of one certificate's files: of the table and the store alone.
 *
 * An entry is counted by the tables that have it (a reload takes over what has not changed) and by the job
 * that parses it.
 *
 * Threads: what is set at load, any; the rest under the store's lock.
 */
#ifndef TARN_CERT_ENTRY_H
#define TARN_CERT_ENTRY_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/tls/cert_dir.h"
#include "daemon/tls/cert_file.h"
#include "daemon/tls/cert_index.h"

struct cert_keys;

enum cert_state {
    CERT_UNPARSED, /* no handshake has needed it; or it was forgotten */
    CERT_PARSING,  /* a job is submitted; handshakes wait in `waiting` */
    CERT_PARSED,   /* `keys` are its own */
    CERT_BAD,      /* the last parse failed; tried again at retry_s */
};

struct cert_entry {
    uint32_t magic;
    _Atomic unsigned refs;

    /* set once at load */
    char *certificate, *key, *ocsp; /* as in struct cert_files; in the entry's own memory */
    struct cert_file_id certificate_id, key_id, ocsp_id;
    int64_t not_before_s, not_after_s;
    struct slice names; /* packed (cert_index.h); in the entry's own memory */
    unsigned nnames;
    unsigned key_bits;
    enum cert_kind kind;
    char issuer[CERT_ISSUER_MAX];

    /* under the store's lock */
    enum cert_state state;
    struct cert_keys
        *keys;           /* counted; where it is not PARSED, those of the file as it was before */
    struct list lru;     /* while there are keys: of the store's `used` or `kept` */
    struct list waiting; /* of waiters, while it is PARSING */
    int64_t retry_s;     /* while it is BAD */
    int rc;              /* the same: why */
    char *error;         /* owned: of the last parse; NULL: none */
    bool is_kept;        /* in the list `kept` */
    bool was_remarked;   /* its remarks are in the log */
};

#define CERT_ENTRY_MAGIC OBJ_TAG('c', 'r', 't', 'e')

/* Borrowed for the load. */
struct cert_entry_load {
    struct cert_buffer *buffer;
    struct cert_report *report;
    int64_t now_s;
};

/* Are they the files that `e` was read from, unchanged? */
bool cert_entry_is_of(const struct cert_entry *e, const struct cert_files *f);
/* Reads names; *out is counted once.  TERR_CONFIG: the report says why; TERR_NOMEM. */
int cert_entry_read(
    struct cert_entry **out, const struct cert_files *f, const struct cert_entry_load *load);
/* An entry of no table, with the names, and nothing else known.  NULL: no memory. */
struct cert_entry *cert_entry_new(const struct cert_files *f, struct slice names);
bool cert_entry_has(const struct cert_entry *e, struct slice name);

void cert_entry_ref(struct cert_entry *e);
void cert_entry_unref(struct cert_entry **ep); /* the last one: it has no keys and is in no list */

#endif
