/* transit.h -- private objects of engine malloc: bytes on their way through, not kept.
 *
 *   held     cost of all segments that have not been given back; the bound counts these,
 *            whole, so it is a bound on memory whatever order leases come back in
 *   blocked  the writer was refused: nothing more comes until the reader returns something
 *   passed   a full segment of which the reader has leased the last byte, or which lies
 *            before where it began; without leases it is freed at once
 *
 * Private to storage/.
 */
#ifndef TARN_STORAGE_TRANSIT_H
#define TARN_STORAGE_TRANSIT_H

#include "storage/storage_priv.h"

int transit_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec);
void transit_free(struct stobj *o);
int transit_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w);
void transit_space_extend(struct stobj *o, size_t used);
void transit_space_cancel(struct stobj *o, struct waiter *w);
void transit_settle(struct stobj *o, enum stobj_state to);
bool transit_contains(struct stobj *o, const char *ptr, size_t len);
void transit_lease_open(struct lease_iter *it);

#endif
