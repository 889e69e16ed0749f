/* tether.h -- what a tarnd and its supervisor say to each other.
 *
 * A pair of sockets that keeps messages apart (SOCK_SEQPACKET); TARN_TETHER names the child's end.
 * A message is a letter, and a text behind it that ends with the message.
 *
 *     child to supervisor
 *     H OURS LOCK ADDRESS   it listens there: the lock's descriptor, if LOCK is 1, and the sockets
 *     D ADDRESS             it does not listen there any more
 *     R LINE                it is ready; LINE is for standard output
 *     B MS                  every loop has turned since the last look; MS: the watchdog's patience
 *     S MS TEXT             one has not, TEXT says which
 *     Q 0 or 1              somebody told it to end (1: gently): nobody shall follow it
 *     supervisor to child
 *     X                     another one serves: leave the listeners, finish what is in flight, end
 *
 * Threads: the main one of each process.
 */
#ifndef TARN_TETHER_H
#define TARN_TETHER_H

#include <stdbool.h>
#include <stdint.h>

struct bound;
struct listen_sockets;
struct tether;

#define TETHER_VARIABLE "TARN_TETHER"
#define TETHER_VERSION  1
enum {
    TETHER_MESSAGE_MAX = 65536, /* bytes: a ready line names every listener */
};

enum tether_word {
    TETHER_HOLD = 'H',
    TETHER_DROP = 'D',
    TETHER_READY = 'R',
    TETHER_BEAT = 'B',
    TETHER_STUCK = 'S',
    TETHER_QUIT = 'Q',
    TETHER_RETIRE = 'X',
    TETHER_NOTHING = 0, /* tether_look: no message */
    TETHER_ALONE = -1,  /* tether_look: the supervisor has gone */
};

/* The end that the environment names, which forgets it.  NULL: nobody supervises; then the calls
 * below do nothing.  TERR_CONFIG: it is no tether, or of another version. */
int tether_open(struct tether **out);
void tether_close(struct tether **tp);

/* The supervisor shall keep what this address is held by; `address` as configured. */
int tether_hold(struct tether *t, const char *address, const struct bound *b);
void tether_drop(struct tether *t, const char *address);
int tether_ready(struct tether *t, const char *line);
/* `stuck`: who has not turned; NULL: everybody has. */
void tether_beat(struct tether *t, int64_t watchdog_ms, const char *stuck);
void tether_quit(struct tether *t, bool gently);
/* What the supervisor says: TETHER_RETIRE, TETHER_ALONE or TETHER_NOTHING. */
enum tether_word tether_look(struct tether *t);

/* For both ends: one message, with the descriptors of `sockets` unless it is NULL; waits a moment
 * where the other end is slow and `must` is set.  0 or TERR_CLOSED, TERR_AGAIN, TERR_IO. */
int tether_send(int fd, enum tether_word word, const char *text,
    const struct listen_sockets *sockets, bool must);
/* Takes one that has come: its text, with a NUL, and descriptors, which are the caller's.
 * TETHER_NOTHING, TETHER_ALONE. */
enum tether_word tether_take(int fd, char *text, unsigned room, struct listen_sockets *sockets);

#endif
