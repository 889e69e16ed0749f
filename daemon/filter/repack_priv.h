/* repack_priv.h -- what the forms of repack.h have in common.  For daemon/filter alone. */
#ifndef TARN_REPACK_PRIV_H
#define TARN_REPACK_PRIV_H

#include "daemon/filter/repack.h"

struct repack_block; /* private to repack.c */

/* One call of repack(). */
struct repack_run {
    const struct repack *how;    /* borrowed */
    size_t len;                  /* of the body */
    size_t memory_left;          /* of repack_memory() */
    struct repack_block *blocks; /* owned: what repack_alloc() gave; the last is the first */
    void *state;                 /* the form's, of repack_alloc() */
};

enum repack_fed {
    REPACK_FED,  /* all of the piece was consumed, and behind the last one everything was written */
    REPACK_FULL, /* there was too little room */
};

struct repack_ops {
    int level_min, level_max;
    size_t (*memory)(const struct repack *how, size_t len);
    /* 0 and r->state, or TERR_NOMEM. */
    int (*open)(struct repack_run *r);
    /* enum repack_fed, or TERR_NOMEM. */
    int (*feed)(struct repack_run *r, struct slice piece, struct span *out, bool is_last);
};

extern const struct repack_ops repack_gzip_ops, repack_brotli_ops, repack_zstd_ops, repack_dcz_ops;

/* As libbrotli and libzstd want them; `run` is a struct repack_run.  NULL: no memory, or more than repack_memory().
 * At the end of the run all that is left is given back, so a form releases nothing by itself. */
void *repack_alloc(void *run, size_t size);
void repack_release(void *run, void *p);

#endif
