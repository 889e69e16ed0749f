/* resolve.h -- the addresses of a name, asked for in the background.
 *
 * Each lookup is a thread of its own that calls getaddrinfo(3) and ends: it obeys nsswitch.conf and
 * the hosts file, as when the configuration was read, and one that hangs (a name server that is
 * silent takes half a minute) holds up neither a loop nor another lookup nor the end of the
 * process.  libuv's pool would: its few threads are shared, and its loop does not end before they
 * do.  What it cannot say is the record's own ttl.  Without memory for a thread's heap the answer is
 * EAI_MEMORY (heap.h).
 *
 * Threads: any one; whoever starts a lookup also closes it.
 */
#ifndef TARN_RESOLVE_H
#define TARN_RESOLVE_H

struct addrinfo;
struct resolve;

/* As getaddrinfo(3) answers, with memory for freeaddrinfo(3); it is called in another thread. */
typedef int resolve_f(
    const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out);

/* Begins; 0, or TERR_NOMEM: no memory, or no thread.  `host` is copied. */
int resolve_start(struct resolve **out, const char *host, resolve_f *ask);
/* TERR_AGAIN: not yet; 0: *list, borrowed until it is closed; TERR_NOTFOUND: and *why is a static
 * text. */
int resolve_result(const struct resolve *r, const struct addrinfo **list, const char **why);
/* At any time, an answer that comes later is dropped. */
void resolve_close(struct resolve **rp);

#endif
