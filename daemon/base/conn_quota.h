/* conn_quota.h -- how many connections each client has open.
 *
 *   client   an IPv4 address, or the /64 of an IPv6 address: what one customer has (RFC 6177)
 *
 * One table for all workers, in stripes that each have a lock and grow by doubling: 16 bytes for a
 * client that is counted, and nothing for others.  Connections are counted when they come and when
 * they end, never for a request.
 *
 * Threads: any.  Errors: without memory a connection is not counted, and not refused.
 */
#ifndef TARN_CONN_QUOTA_H
#define TARN_CONN_QUOTA_H

#include <stdint.h>

struct conn_quota;

enum conn_quota_answer {
    CONN_QUOTA_COUNTED,   /* conn_quota_give() follows when the connection ends */
    CONN_QUOTA_UNCOUNTED, /* no memory */
    CONN_QUOTA_REFUSED,   /* the client has `most` already */
};

/* 0 or TERR_NOMEM. */
int conn_quota_open(struct conn_quota **out);
/* No connection is counted. */
void conn_quota_close(struct conn_quota **qp);

/* `addr` is IPv6, or IPv4 as ::ffff:a.b.c.d. */
enum conn_quota_answer conn_quota_take(struct conn_quota *q, const uint8_t addr[16], int64_t most);
void conn_quota_give(struct conn_quota *q, const uint8_t addr[16]);
/* How many it has. */
uint64_t conn_quota_count(struct conn_quota *q, const uint8_t addr[16]);

#endif
