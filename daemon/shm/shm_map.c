/* shm_map.c -- a shared file of another process in our memory. */
#include "daemon/shm/shm_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/terr.h"

int
shm_file_map(const void **base, size_t *bytes, const char *path, int *writable)
{
    struct stat st;
    void *map;
    int fd = -1, err = 0;

    if (*writable)
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *writable = fd >= 0;
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? TERR_NOTFOUND : errno == EACCES ? TERR_DENIED : TERR_IO;
    if (fstat(fd, &st) < 0)
        err = TERR_IO;
    else if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        err = TERR_CORRUPT;
    if (err == 0) {
        map = mmap(
            NULL, (size_t)st.st_size, PROT_READ | (*writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
        err = map == MAP_FAILED ? TERR_IO : 0;
    }
    close(fd);
    if (err < 0)
        return err;
    *base = map;
    *bytes = (size_t)st.st_size;
    return 0;
}

void
shm_file_unmap(const void *base, size_t bytes)
{
    munmap((void *)(uintptr_t)base, bytes);
}
