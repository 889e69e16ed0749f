/* terr_table.h -- every operating error: name, what a client is answered when the client
 * caused it, when an origin did (0: no client sees it), and what an operator reads. */
#ifndef TARN_TERR_TABLE_H
#define TARN_TERR_TABLE_H

/* clang-format off */
/*    name     client origin  what an operator reads */
#define TERR_TABLE(X)                                                           \
    X(AGAIN,        0,    0, "not ready; the task is woken later")              \
    X(NOMEM,      503,  503, "out of memory")                                   \
    X(LIMIT,      503,  503, "a configured limit was reached")                  \
    X(SYNTAX,     400,  502, "malformed message")                               \
    X(FRAMING,    400,  502, "ambiguous message framing")                       \
    X(VERSION,    505,  502, "HTTP version not supported")                      \
    X(METHOD,     501,  502, "method not known")                                \
    X(CODING,     501,  502, "transfer coding not known")                       \
    X(URITOOLONG, 414,  502, "request target too long")                         \
    X(HEADTOOBIG, 431,  502, "header section too large")                        \
    X(BODYTOOBIG, 413,  502, "body too large")                                  \
    X(EXPECT,     417,  502, "expectation not known")                           \
    X(TIMEDOUT,   408,  504, "peer was too slow")                               \
    X(CLOSED,     400,  502, "peer closed too early")                           \
    X(REFUSED,    503,  502, "connection refused")                              \
    X(UNREACH,    503,  502, "no route to the peer")                            \
    X(CONNTIMEO,  503,  504, "connect timeout")                                 \
    X(BUSY,       503,  503, "max_connections reached")                         \
    X(IO,         400,  502, "input/output error")                              \
    X(UPSTREAM,   503,  503, "the origin answered with an error")               \
    X(OTHERPART,  502,  502, "the partial response is not the requested range") \
    X(CANCELLED,    0,    0, "no request needs it any more")                    \
    X(CONFIG,       0,    0, "invalid configuration")                           \
    X(INVALID,      0,    0, "not a valid argument")                            \
    X(CORRUPT,      0,    0, "shared file is torn, short or foreign")           \
    X(NOTFOUND,   404,  502, "not there")                                       \
    X(EXISTS,     503,  503, "exists already")                                  \
    X(NOBACKEND,  503,  503, "no healthy backend")                              \
    X(POLICY,     503,  502, "the policy failed")                               \
    X(BARELF,     400,  502, "a line of the head ends with a bare LF (parameter origin_bare_lf)") \
    X(STATUS,     502,  502, "status from 600 to 999 (parameter origin_status)")\
    X(LOOP,       508,  508, "request loop (CDN-Loop, Via)")                    \
    X(TLS,        400,  502, "the TLS handshake failed")                        \
    X(DENIED,       0,    0, "no permission: only its owner, root or a member of its group has it")
/* clang-format on */

#endif
