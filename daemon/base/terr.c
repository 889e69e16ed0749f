/* terr.c -- names, texts and HTTP statuses of operating errors. */
#include "daemon/base/terr.h"

#include <errno.h>

#include "daemon/base/tassert.h"

static const struct {
    const char *name;
    int client, origin;
    const char *text;
} terr_rows[TERR_COUNT] = {
#define X(name, client, origin, text) {#name, client, origin, text},
    TERR_TABLE(X)
#undef X
};

static unsigned
terr_row(int err)
{
    /* A count, or an errno, that was taken for an error. */
    tassert(err < 0 && err >= -(int)TERR_COUNT);
    return (unsigned)(-1 - err);
}

const char *
terr_name(int err)
{
    return err == 0 ? "OK" : terr_rows[terr_row(err)].name;
}

const char *
terr_text(int err)
{
    return err == 0 ? "no error" : terr_rows[terr_row(err)].text;
}

/* 0: such an error never reaches a client; the caller says what does. */
int
terr_http(int err, enum terr_side who_erred)
{
    unsigned row = terr_row(err);

    return who_erred == TERR_SIDE_CLIENT ? terr_rows[row].client : terr_rows[row].origin;
}

int
terr_from_errno(int negative_errno)
{
    switch (-negative_errno) {
    case 0:
        return TERR_OK;
    case ECONNREFUSED:
    case ENOENT: /* a Unix socket that is not there */
        return TERR_REFUSED;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
        return TERR_UNREACH;
    case ETIMEDOUT:
        return TERR_TIMEDOUT;
    case ENOMEM:
    case ENOBUFS:
        return TERR_NOMEM;
    /* A limit of the process, and no fault of the peer. */
    case EMFILE:
    case ENFILE:
        return TERR_LIMIT;
    case ECANCELED:
        return TERR_CANCELLED;
    case ECONNRESET:
    case EPIPE:
        return TERR_CLOSED;
    /* The log has the text of the errno, where that matters. */
    default:
        return TERR_IO;
    }
}
