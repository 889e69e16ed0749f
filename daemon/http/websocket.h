/* websocket.h -- the two fields of WebSocket's handshake that prove it (RFC 6455 1.3, 4.2.2).
 *
 * A client of HTTP/2 sends none of them (RFC 8441 5.1), and an origin that is asked by HTTP/1.1 wants them: they
 * are then Tarn's own.  Between an HTTP/1 client and its origin they are none of our business.
 *
 * Threads: any.
 */
#ifndef TARN_WEBSOCKET_H
#define TARN_WEBSOCKET_H

#include <stdbool.h>

#include "daemon/base/span.h"

enum {
    WEBSOCKET_KEY_LEN = 24, /* 16 bytes as base64 */
    WEBSOCKET_ACCEPT_LEN = 28,
};

/* A value of Sec-WebSocket-Key, of random bytes; not ended by a zero.  False: the kernel has none to give. */
bool websocket_key(char out[WEBSOCKET_KEY_LEN]);
/* The Sec-WebSocket-Accept that answers it.  False: that is no key. */
bool websocket_accept(struct slice key, char out[WEBSOCKET_ACCEPT_LEN]);

#endif
