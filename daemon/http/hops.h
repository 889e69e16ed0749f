/* hops.h -- the client that a trusted proxy asks for: X-Forwarded-For, and Forwarded (RFC 7239).
 *
 * Each proxy appends the address that it was asked by.  So the last member was written by
 * the peer, the one before by the host that the last member names, and so on: a member is as
 * trustworthy as its writer.  The client is the rightmost address that is not trusted; members
 * before it may be forged.
 *
 * Threads: any; pure functions.
 */
#ifndef TARN_HOPS_H
#define TARN_HOPS_H

#include "daemon/base/address.h"
#include "daemon/http/message.h"

enum {
    HOPS_MAX = 32 /* proxies in a row; beyond it is a loop, or made up */
};

struct hops {
    unsigned n;                 /* at least 1 */
    uint8_t addr[HOPS_MAX][16]; /* the client first, the peer last; all but the first are trusted */
    bool https;                 /* the client used it, as a trusted proxy says */
};

/* From `field`, X_FORWARDED_FOR or FORWARDED, of a request that came from `peer`.  Reading ends
 * at a member that is no address ("unknown", "_hidden"), for the writer of what stands
 * before it is not known.  The scheme is that of X-Forwarded-Proto, one line that is
 * exactly http or https, if the peer is trusted; of Forwarded `proto` of the
 * first member that a trusted proxy wrote. */
void hops_of_request(const struct http_message *h, enum http_field_id field,
    const struct address_nets *trusted, const uint8_t peer[16], struct hops *out);

#endif
