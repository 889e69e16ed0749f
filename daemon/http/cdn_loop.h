/* cdn_loop.h -- has this request been here before?  CDN-Loop (RFC 8586), and Via beside it.
 *
 *   cdn-id   the first word of a member of CDN-Loop: the name of a tarnd, here always a token
 *
 * Threads: any; pure functions, except for the caller's arena.
 */
#ifndef TARN_CDN_LOOP_H
#define TARN_CDN_LOOP_H

#include "daemon/base/arena.h"
#include "daemon/http/message.h"

/* Members of CDN-Loop with this cdn-id, in any case.  A member begins behind each comma, those in
 * quoted strings too: a client that opens a quote hides nothing that follows. */
unsigned cdn_loop_count(const struct http_message *h, struct slice id);
/* Is the last member of them all one? */
bool cdn_loop_is_last(const struct http_message *h, struct slice id);
/* Members of Via that this pseudonym received. */
unsigned cdn_loop_count_via(const struct http_message *h, struct slice pseudonym);

/* The value to send: the members that came, as they are, and `id` behind them.  `id` itself if there
 * are none, and nothing without an id; else in the arena, .ptr NULL without memory. */
struct slice cdn_loop_extend(const struct http_message *h, struct slice id, struct arena *arena);

#endif
