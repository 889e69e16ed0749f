/* cert_table_priv.h -- a table as the store sees it. */
#ifndef TARN_CERT_TABLE_PRIV_H
#define TARN_CERT_TABLE_PRIV_H

#include <stdatomic.h>

#include "daemon/tls/cert_entry.h"
#include "daemon/tls/cert_table.h"

/* A name's place: of each kind of key the index of its entry, and one; 0: none. */
struct cert_slot {
    uint64_t hash; /* of the name, under the process's secret */
    uint32_t entry[CERT_KINDS];
};

/* An entry of files that have changed, and the one that it replaces. */
struct cert_change {
    struct cert_entry *entry; /* the table's */
    struct cert_entry *old;   /* counted, until the table is swapped in or freed */
};

struct cert_table {
    uint32_t magic;
    _Atomic unsigned refs;
    struct cert_entry **entries; /* each counted; the list's, then the directory's by file name */
    unsigned n;
    struct cert_slot *slots; /* a power of two, at most half of them taken */
    unsigned slot_mask, nnames;
    uint32_t *by_path; /* of certificates' files: an entry's index, and one; a power of two */
    unsigned path_mask;
    struct cert_slot fallback; /* for a name that no certificate has, and for none */
    unsigned soonest;          /* entry that expires first */
    unsigned parsed_max;
    char *challenge_directory; /* owned; NULL: none */
    uint64_t bytes;
    /* for the store, when it is swapped in */
    struct cert_change *changes;
    unsigned nchanges;
    struct cert_entry **kept; /* the table's: their files are bad now */
    unsigned nkept;
};

#define CERT_TABLE_MAGIC OBJ_TAG('c', 'r', 't', 't')

/* For a name in normal form; "": the default.  Never NULL. */
const struct cert_slot *cert_table_find(const struct cert_table *t, struct slice name);
/* The entry of that certificate's file; NULL: none. */
struct cert_entry *cert_table_by_path(const struct cert_table *t, const char *path);
bool cert_table_has(const struct cert_table *t, const struct cert_entry *e);

#endif
