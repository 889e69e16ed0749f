/* shm_map.h -- a shared file of another process in our memory.
 *
 * Threads: any.  Needs libc alone.
 */
#ifndef TARN_SHM_MAP_H
#define TARN_SHM_MAP_H

#include <stddef.h>

/* Maps a file of another process.  *writable: in, whether writing is wanted;
 * out, whether it was allowed.  TERR_NOTFOUND, TERR_IO, TERR_CORRUPT (empty or absurd). */
int shm_file_map(const void **base, size_t *bytes, const char *path, int *writable);
void shm_file_unmap(const void *base, size_t bytes);

#endif
