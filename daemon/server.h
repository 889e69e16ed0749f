/* server.h -- the process's life: from a checked configuration to exit.
 *
 * Threads: the main one.
 */
#ifndef TARN_SERVER_H
#define TARN_SERVER_H

struct conf;

/* Serves until SIGTERM or SIGINT, drains, and returns the process's exit status: 0 after a
 * drain, 1 when it could not start (and stderr says why). */
int server_run(const struct conf *conf);

#endif
