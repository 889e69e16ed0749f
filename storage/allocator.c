/* allocator.c -- which allocator this build uses, for --version. */
#include <stddef.h>

#if !defined(TARN_LIBC_MALLOC)
#include <jemalloc/jemalloc.h>
#endif

#include "storage/storage.h"

const char *
storage_allocator(void)
{
#if defined(TARN_LIBC_MALLOC)
    return "libc malloc (sanitizer build)";
#else
    return "jemalloc " JEMALLOC_VERSION;
#endif
}
