/* tls_fail.c -- why the library could not do something, for an operator. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

/* The library opens files itself, and of one that it cannot open it says "system lib": the system is asked again, and
 * has a better word.  0: it can be opened. */
static int
fail_errno(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char byte;
    int err = errno;

    if (fd < 0)
        return err;
    err = read(fd, &byte, 1) < 0 ? errno : 0; /* of a directory only that fails */
    close(fd);
    return err;
}

const char *
tls_fail_reason(const char *file)
{
    /* The last one: calls that read files put what they did behind what went wrong in it. */
    unsigned long err = ERR_peek_last_error();
    int system = file != NULL ? fail_errno(file) : 0;
    const char *text = err != 0 ? tls_lib_reason(err) : NULL;

    ERR_clear_error();
    if (system != 0)
        return strerror(system);
    /* Without a reason in the queue it is malloc() that has refused: the library queues every other one. */
    return text != NULL ? text : "no memory";
}

int
tls_fail(char *why, size_t why_len, const char *what)
{
    snprintf(why, why_len, "%s: %s", what, tls_fail_reason(NULL));
    return TERR_CONFIG;
}

int
tls_fail_file(char *why, size_t why_len, const char *file)
{
    snprintf(why, why_len, "%s: %s", file, tls_fail_reason(file));
    return TERR_CONFIG;
}
