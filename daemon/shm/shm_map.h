/* shm_map.h -- a shared file, of another process or of this one, as its readers have it.
 *
 * Nothing in such a file is believed: a reader copies the header once, checks it against the mapping,
 * and reads the rest in between.
 *
 * Threads: any.  Needs libc alone.
 */
#ifndef TARN_SHM_MAP_H
#define TARN_SHM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shm_map {
    const void *base;
    size_t bytes;
    bool is_ours;  /* mapped here, to be unmapped; else the bytes are borrowed */
    bool writable; /* writing was wanted, and is allowed */
};

/* Maps a file of another process.  0; TERR_NOTFOUND, TERR_DENIED, TERR_IO, TERR_CORRUPT (empty, or not a
 * file). */
int shm_map_open(struct shm_map *m, const char *path, bool wants_to_write);
/* Bytes that are mapped already, on a 64-byte boundary: borrowed until the close. */
struct shm_map shm_map_of(const void *base, size_t bytes, bool writable);
/* Unmaps what shm_map_open() mapped. */
void shm_map_close(struct shm_map *m);

/* What every shared file begins with. */
struct shm_file_head {
    uint64_t magic;
    uint32_t version, item_bytes; /* of a row, a slot; in a log: of its header */
};
/* Copies the file's first `bytes` to *header, and compares their beginning.  0 or TERR_CORRUPT. */
int shm_map_header(const struct shm_map *m, void *header, size_t bytes, uint64_t magic,
    uint32_t version, uint32_t item_bytes);
/* Do `n` items of `each` bytes from `off` on lie within the file, all at multiples of 8? */
bool shm_map_fits(const struct shm_map *m, uint64_t off, uint64_t n, uint64_t each);

#endif
