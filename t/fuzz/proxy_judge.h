/* proxy_judge.h -- is what the proxy sent right, given what it read?
 *
 * Run when everything has ended, over the wires of proxy_net.h.  It holds that
 *
 *  1. all that an origin was sent is valid requests of ours, and none after a broken one;
 *  2. each of them comes from one request of the client it names, with the same method (or GET
 *     for HEAD), path, host and body, and none comes out twice, but for a retry: the first try
 *     went over a connection that had been used, and no byte of an answer had come;
 *  3. a body is ended toward an origin only if the client ended it;
 *  4. all that a client was sent is valid responses of ours, one final one a request at most, in
 *     order; nothing follows a response that closes, and who asked to close is told so;
 *  5. interim responses go to HTTP/1.1 alone, LIMIT_INTERIM of them and our own 100 at most;
 *  6. 101 goes to who asked for it alone, and then each side gets what the other sent;
 *  7. a whole response carries a whole answer that an origin gave for the same path, or is a page
 *     of Tarn's own; a part of one carries the beginning of such an answer.
 *
 * It panics with the wires in readable form when one does not hold.
 */
#ifndef TARN_PROXY_JUDGE_H
#define TARN_PROXY_JUDGE_H

#include <stdbool.h>

/* `same_host`: the origin is sent the Host that the client sent. */
void judge_wires(bool same_host);

#endif
