/* conf_copy.h -- a backend's settings, copied into one block of memory. */
#ifndef TARN_CONF_COPY_H
#define TARN_CONF_COPY_H

#include "conf/conf.h"

/* One block, freed with free().  NULL: no memory. */
struct conf_backend *conf_backend_copy(const struct conf_backend *conf);

#endif
