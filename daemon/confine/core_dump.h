/* core_dump.h -- whether a crash leaves a copy of the process's memory.
 *
 * That memory has the private keys of certificates, the secrets of tickets, and what clients and backends
 * say to each other.  So there is none unless the operator says so; and then other processes of the same user
 * may attach to this one, too, as debuggers do: the kernel has one switch for both.
 *
 * Threads: before there are others.
 */
#ifndef TARN_CORE_DUMP_H
#define TARN_CORE_DUMP_H

#include <stdbool.h>

/* Behind privilege_drop(), for the kernel takes a change of the user for a reason to refuse them, and before the
 * first key is read. */
void core_dump_set(bool allowed);

#endif
