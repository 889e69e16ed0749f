/* proxy_strict.h -- HTTP/1.1 messages, read by the letter: what the fuzzer judges the proxy by.
 *
 * Written from RFC 9110 and 9112 for this one use.  It shares nothing with daemon/http and
 * llhttp, on purpose: an error must be made twice to go unseen.  Slow, and without limits.
 *
 *   foreign  a peer's message: valid, but written by somebody else
 *   ours     a message that Tarn wrote: one spelling only, nothing hop-by-hop, no extensions
 *
 * Slices point into the input; bodies are decoded into the arena.
 *
 * Threads: none of its own.
 */
#ifndef TARN_PROXY_STRICT_H
#define TARN_PROXY_STRICT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/arena.h"
#include "daemon/base/span.h"

enum strict_result {
    STRICT_BAD = -1, /* message.why says why */
    STRICT_PART,     /* valid so far, and not whole */
    STRICT_WHOLE,
};

enum strict_writer {
    STRICT_FOREIGN,
    STRICT_OURS,
};

struct strict_message {
    bool has_head; /* it is complete and valid */
    size_t used;   /* bytes of the message; until its end is met, those that were read */
    const char *why;
    unsigned minor, status;
    struct slice method, path, host; /* path: without scheme and authority; host: without port */
    struct slice server, client;     /* Server; X-Forwarded-For */
    bool persists, closes;           /* by version and Connection; "close" was said */
    bool asks_less;                  /* has Range, If-None-Match or If-Modified-Since */
    bool upgrades;                   /* has Upgrade, and Connection says so */
    bool has_length, chunked;
    bool until_close; /* a response without length: nothing here says that it is whole */
    uint64_t length;
    struct slice body; /* decoded, so far */
};

/* Empty lines before a foreign request are skipped.  `used` covers them. */
enum strict_result strict_request(
    struct slice in, enum strict_writer by, struct arena *arena, struct strict_message *out);
/* `bare`: it answers HEAD. */
enum strict_result strict_response(struct slice in, enum strict_writer by, bool bare,
    struct arena *arena, struct strict_message *out);

#endif
