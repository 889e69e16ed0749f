/* elog_priv.h -- the parts of the error log that tests look at. */
#ifndef TARN_ELOG_PRIV_H
#define TARN_ELOG_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELOG_LINE_MAX 1024

/* May a line be written in this second?  *lost: lines dropped in seconds now over, for the
 * caller to report; 0 when there is nothing to say. */
bool elog_admit(uint32_t now_s, uint32_t *lost);

#endif
