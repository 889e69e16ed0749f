/* h1_origin.h -- HTTP/1 toward an origin (http/origin_exchange.h): one connection, one request at a
 * time.
 *
 * Threads: one loop's.
 */
#ifndef TARN_H1_ORIGIN_H
#define TARN_H1_ORIGIN_H

#include "daemon/http/origin_exchange.h"

struct h1_conf;

/* Borrows conf, as long as a connection of it lives. */
struct origin_protocol h1_origin_protocol(const struct h1_conf *conf);

#endif
