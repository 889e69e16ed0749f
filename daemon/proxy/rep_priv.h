/* rep_priv.h -- what reading a representation and unpacking it share. */
#ifndef TARN_REP_PRIV_H
#define TARN_REP_PRIV_H

#include "daemon/proxy/rep_reader.h"

/* As rep_take() and rep_return(), of the bytes as they are stored. */
int rep_take_stored(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait);
void rep_return_stored(struct rep_reader *rd, const struct lease_returns *back);

#endif
