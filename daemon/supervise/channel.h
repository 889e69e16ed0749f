/* channel.h -- what a tarnd and its supervisor say to each other.
 *
 * A pair of sockets that keeps messages apart (SOCK_SEQPACKET); TARN_SUPERVISOR_CHANNEL names the
 * end of the child.
 * A message is a letter, and a text behind it that ends with the message.
 *
 *     child to supervisor
 *     H OURS LOCK ADDRESS   it listens there: the lock's descriptor, if LOCK is 1, and the sockets
 *     D ADDRESS             it does not listen there any more
 *     R LINE                it is ready; LINE is for standard output
 *     B MS                  every loop has turned since the last look; MS: the watchdog's patience
 *     S MS TEXT             one has not, TEXT says which
 *     Q 0 or 1              it was asked to end (1: gently): no other is started
 *     supervisor to child
 *     X                     another one serves: leave the listeners, finish what is in flight, end
 *
 * Threads: the main one of each process.
 */
#ifndef TARN_CHANNEL_H
#define TARN_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

struct bound;
struct listen_sockets;
struct channel;

#define CHANNEL_VARIABLE "TARN_SUPERVISOR_CHANNEL"
#define CHANNEL_VERSION  1
enum {
    CHANNEL_MESSAGE_MAX = 65536, /* bytes: a ready line names every listener */
};

enum channel_word {
    CHANNEL_HOLD = 'H',
    CHANNEL_DROP = 'D',
    CHANNEL_READY = 'R',
    CHANNEL_BEAT = 'B',
    CHANNEL_STUCK = 'S',
    CHANNEL_QUIT = 'Q',
    CHANNEL_RETIRE = 'X',
    CHANNEL_NOTHING = 0, /* channel_look: no message */
    CHANNEL_ALONE = -1,  /* channel_look: the supervisor has gone */
};

/* The end that the environment names, which forgets it.  NULL: no supervisor; then the calls
 * below do nothing.  TERR_CONFIG: it is no channel, or of another version. */
int channel_open(struct channel **out);
void channel_close(struct channel **tp);

/* The supervisor shall keep what this address is inherited by; `address` as configured. */
int channel_hold(struct channel *t, const char *address, const struct bound *b);
void channel_drop(struct channel *t, const char *address);
int channel_ready(struct channel *t, const char *line);
/* `stuck`: the loop that has not turned, as text; NULL: all have. */
void channel_beat(struct channel *t, int64_t watchdog_ms, const char *stuck);
void channel_quit(struct channel *t, bool gently);
/* What the supervisor says: CHANNEL_RETIRE, CHANNEL_ALONE or CHANNEL_NOTHING. */
enum channel_word channel_look(struct channel *t);

/* For both ends: one message, with the descriptors of `sockets` unless it is NULL; waits a moment
 * where the other end is slow and `must` is set.  0 or TERR_CLOSED, TERR_AGAIN, TERR_IO. */
int channel_send(int fd, enum channel_word word, const char *text,
    const struct listen_sockets *sockets, bool must);
/* Takes one that has come: its text, with a NUL, and descriptors, which are the caller's.
 * CHANNEL_NOTHING, CHANNEL_ALONE. */
enum channel_word channel_take(int fd, char *text, unsigned room, struct listen_sockets *sockets);

#endif
