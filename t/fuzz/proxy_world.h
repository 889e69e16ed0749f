/* proxy_world.h -- one whole worker in memory: loop, cache, proxy, h1 server; no sockets, no
 * clock, no threads.
 *
 *   turn   what one turn of net/'s loop does, from the poll to the end of the grace period
 *
 * Threads: one.
 */
#ifndef TARN_PROXY_WORLD_H
#define TARN_PROXY_WORLD_H

#include <stdbool.h>
#include <stdint.h>

struct proxy;

/* The configurations that an input chooses from. */
unsigned world_variants(void);

/* A worker with WIRE_CLIENTS connected clients. */
void world_open(unsigned variant);
/* True: something happened. */
bool world_turn(void);
/* Turns until nothing happens any more. */
void world_settle(void);
void world_advance(uint64_t ms);
/* To the next deadline; false: there is none. */
bool world_advance_to_deadline(void);
/* SIGTERM has come: connections end after what they are at. */
void world_drain(void);
/* Is no client connection, request or fetch left? */
bool world_is_idle(void);
/* Everything is given back, and it is checked that everything was. */
void world_close(void);

/* Does this variant send another Host to the origin than the client did? */
bool world_changes_host(void);

/* What it is made of, for tests that say more than a script can. */
struct proxy *world_proxy(void);

/* Ends a grace period (proxy_rcu.c).  False: nobody waited for it. */
bool world_grace(void);

#endif
