/* backends_tls.h -- TLS to backends, as the configuration wants it.
 *
 * Threads: the main thread's.
 */
#ifndef TARN_BACKENDS_TLS_H
#define TARN_BACKENDS_TLS_H

struct backend_secure;

/* `loops`: of workers.  Once a process, before the first backend: for registry_open_secure(). */
const struct backend_secure *backends_tls(unsigned loops);

#endif
