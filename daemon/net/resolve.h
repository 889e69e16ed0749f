/* resolve.h -- the addresses of a name, asked for on a loop and without a thread (c-ares).
 *
 *   resolver  asks the name servers, for one loop
 *   resolve   one lookup of a name: under way, then an answer or an error
 *
 * /etc/hosts comes before the name servers, as nsswitch.conf orders them; `localhost`, search domains
 * and `ndots` are obeyed.  Modules of nsswitch.conf other than files and dns are not.  A lookup asks
 * each name server twice, for 2 s and for 4 s: it fails after 6 s where the only one is silent.
 * A change of /etc/resolv.conf is seen when the next lookup starts, one of /etc/hosts as well.
 *
 * Threads: the loop's.
 */
#ifndef TARN_RESOLVE_H
#define TARN_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>

struct loop;
struct resolve;
struct resolver;
struct task;

enum {
    RESOLVE_ADDRS_MAX = 64, /* of a name; more are left out */
    RESOLVE_NO_TTL = -1,    /* the name is from /etc/hosts */
};

struct resolve_addrs {
    unsigned n;
    int64_t ttl_ms; /* the shortest of all records that led here, or RESOLVE_NO_TTL */
    struct sockaddr_storage addr[RESOLVE_ADDRS_MAX]; /* the best one first (RFC 6724); port 0 */
};

/* 0 or TERR_NOMEM.  `servers`: addresses with a space between them, each perhaps with a port, as in
 * "192.0.2.1:53 [::1]"; "": those of /etc/resolv.conf.  It is copied.  `owner` is woken when a lookup
 * has ended. */
int resolver_open(struct resolver **out, struct loop *l, struct task *owner, const char *servers);
/* Other servers; what is under way is asked of these.  TERR_NOMEM: the old ones stay. */
int resolver_set_servers(struct resolver *rs, const char *servers);
/* Every lookup was closed. */
void resolver_close(struct resolver **rp);

/* 0 or TERR_NOMEM.  `host` is copied. */
int resolve_start(struct resolve **out, struct resolver *rs, const char *host);
/* TERR_AGAIN: not yet; 0: *addrs, borrowed until it is closed; TERR_NOTFOUND: *why is a static text. */
int resolve_result(const struct resolve *r, const struct resolve_addrs **addrs, const char **why);
/* At any time; an answer that comes later is dropped. */
void resolve_close(struct resolve **rp);

#endif
