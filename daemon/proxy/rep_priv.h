/* rep_priv.h -- what reading a representation and unpacking it share. */
#ifndef TARN_REP_PRIV_H
#define TARN_REP_PRIV_H

#include "daemon/proxy/rep_reader.h"

/* A source of leases on top of the stored body's, or of another one; the first member of its own struct. */
struct rep_filter {
    /* As rep_take() and rep_return(), of its own bytes. */
    int (*take)(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait);
    void (*give_back)(struct rep_reader *rd, const struct lease_returns *back);
    /* What was leased of the stored body goes back, its own leases count as returned, and it is freed.  False: not
     * yet, the reader's owner is woken. */
    bool (*end)(struct rep_reader *rd);
    bool busy; /* end() may say false */
    /* Its bytes are taken of this one, which is `rd->filter` during its calls; NULL: of the stored body. */
    struct rep_filter *below;
};

/* As rep_take() and rep_return(), of the bytes as they are stored. */
int rep_take_stored(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait);
void rep_return_stored(struct rep_reader *rd, const struct lease_returns *back);

#endif
