/* shm_map.c -- a shared file in our memory, and what it must be. */
#include "daemon/shm/shm_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

/* The file's size is taken once: a file that is cut afterwards would end its reader by SIGBUS.
 * tarnd never cuts its own: a new one takes its name. */
int
shm_map_open(struct shm_map *m, const char *path, bool wants_to_write)
{
    struct stat st;
    bool writable;
    void *map = NULL;
    int fd = -1, err = 0;

    if (wants_to_write)
        /* Readers of the log mark themselves in it, where they may write; those that may not can
         * still read. */
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    writable = fd >= 0;
    /* NOFOLLOW and NONBLOCK: in a directory that others write, a link or a FIFO must neither lead
     * away nor hold up. */
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? TERR_NOTFOUND : errno == EACCES ? TERR_DENIED : TERR_IO;
    if (fstat(fd, &st) < 0)
        err = TERR_IO;
    /* mmap(2) of nothing is an error of its own. */
    else if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        err = TERR_CORRUPT;
    if (err == 0) {
        map = mmap(
            NULL, (size_t)st.st_size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
        err = map == MAP_FAILED ? TERR_IO : 0;
    }
    /* The mapping keeps the file. */
    close(fd);
    if (err < 0)
        return err;
    *m = (struct shm_map){
        .base = map, .bytes = (size_t)st.st_size, .is_ours = true, .writable = writable};
    return 0;
}

struct shm_map
shm_map_of(const void *base, size_t bytes, bool writable)
{
    /* As a mapping is: numbers in it are read as they lie. */
    tassert((uintptr_t)base % 64 == 0);
    return (struct shm_map){.base = base, .bytes = bytes, .writable = writable};
}

void
shm_map_close(struct shm_map *m)
{
    /* Else the process that writes the file lent its own mapping. */
    if (m->is_ours)
        munmap((void *)(uintptr_t)m->base, m->bytes);
    *m = (struct shm_map){.base = NULL};
}

int
shm_map_header(const struct shm_map *m, void *header, size_t bytes, uint64_t magic,
    uint32_t version, uint32_t item_bytes)
{
    struct shm_file_head head;

    tassert(bytes >= sizeof(head));
    if (m->bytes < bytes)
        return TERR_CORRUPT;
    /* Copied once, and only the copy is looked at: the file may change between two looks. */
    memcpy(header, m->base, bytes);
    memcpy(&head, header, sizeof(head));
    if (head.magic != magic || head.version != version || head.item_bytes != item_bytes)
        return TERR_CORRUPT;
    return 0;
}

bool
shm_map_fits(const struct shm_map *m, uint64_t off, uint64_t n, uint64_t each)
{
    /* Divided, not multiplied: numbers of a hostile file must not wrap. */
    return off % 8 == 0 && each % 8 == 0 && off <= m->bytes && each <= m->bytes &&
           (each == 0 || n <= (m->bytes - off) / each);
}
