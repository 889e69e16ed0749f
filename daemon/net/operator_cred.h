/* operator_cred.h -- which process is at the other end of a Unix socket: its user and groups.
 *
 * Threads: any.
 */
#ifndef TARN_OPERATOR_CRED_H
#define TARN_OPERATOR_CRED_H

struct conn_operator;

/* Where the kernel knows none, `peer` stays as it is. */
void operator_note_cred(struct conn_operator *peer, int fd);

#endif
