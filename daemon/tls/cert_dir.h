/* cert_dir.h -- which certificates and keys a directory has, by the names of its files (cert_table.h).
 *
 * Threads: any.  Blocks.
 */
#ifndef TARN_CERT_DIR_H
#define TARN_CERT_DIR_H

#include <stdbool.h>

#include "daemon/tls/cert_report.h"

/* Paths of one certificate. */
struct cert_files {
    char *certificate; /* owned */
    char *key;         /* owned; NULL: in the certificate's file */
    char *ocsp;        /* owned; NULL: there is none */
};

struct cert_dir {
    struct cert_files *files; /* the default first, the others by name */
    unsigned n;
};

/* What is not complete is reported and left out.  TERR_CONFIG: the directory cannot be read; TERR_NOMEM.
 * *out is to be given to cert_dir_fini() in each case. */
int cert_dir_read(struct cert_dir *out, const char *path, struct cert_report *report);
void cert_dir_fini(struct cert_dir *d);
void cert_files_fini(struct cert_files *f);

#endif
