/* recode_priv.h -- what the files of recoding share. */
#ifndef TARN_RECODE_PRIV_H
#define TARN_RECODE_PRIV_H

#include "daemon/proxy/dictionaries.h"
#include "daemon/proxy/proxy.h"
#include "daemon/proxy/recoder.h"

/* What a form is called, and how it is made: at first, and at its best. */
struct recode_kind {
    unsigned form; /* enum http_forms */
    int64_t bit;   /* enum conf_compress_format */
    struct slice coding;
    enum repack_form repack;
    int level, best;
};

const struct recode_kind *recode_kind(unsigned form);

static inline struct proxy *
recode_proxy(struct recode *rc)
{
    return container_of(rc, struct proxy, recode);
}

/* What came of the run, into the store, as rc->body.  0, TERR_AGAIN: `wait` is armed, or TERR_LIMIT. */
int recode_store(struct recode *rc);
/* With its head, beside the response.  0: the body is the entry's; TERR_* */
int recode_publish(struct recode *rc, struct arena *a);

#endif
