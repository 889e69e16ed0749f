/* tassert.c -- the one way this process dies on a bug. */
#include "daemon/base/tassert.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DESCRIBERS_MAX = 16, /* one per module that has something to say */
    SAY_MAX = 1024,      /* bytes of a line */
};

static tassert_describe_f *tassert_describers[DESCRIBERS_MAX];
static unsigned tassert_ndescribers;

void
tassert_describe(tassert_describe_f *describe)
{
    /* At the start, before there are threads: no lock. */
    tassert(tassert_ndescribers < DESCRIBERS_MAX);
    tassert_describers[tassert_ndescribers++] = describe;
}

/* A line in one write(2): the heap and stdio may be what is broken. */
static void
tassert_write(char *line, size_t len)
{
    ssize_t n;

    line[len] = '\n';
    do
        n = write(STDERR_FILENO, line, len + 1);
    while (n < 0 && errno == EINTR);
}

void
tassert_say(const char *fmt, ...)
{
    char line[SAY_MAX + 1] = "tarnd:   ";
    size_t len = strlen(line);
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line + len, SAY_MAX - len, fmt, ap);
    va_end(ap);
    if (n > 0)
        len = len + (size_t)n < SAY_MAX ? len + (size_t)n : SAY_MAX - 1;
    tassert_write(line, len);
}

void
tassert_say_text(const char *what, const char *text, size_t text_len)
{
    static const char digits[] = "0123456789abcdef";
    char line[SAY_MAX + 1];
    size_t len = (size_t)snprintf(line, SAY_MAX / 2, "tarnd:     %s \"", what);

    for (size_t i = 0; i < text_len && len + 5 < SAY_MAX; i++) {
        unsigned char c = (unsigned char)text[i];

        /* What a terminal would obey does not reach it. */
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            line[len++] = (char)c;
            continue;
        }
        line[len++] = '\\';
        line[len++] = 'x';
        line[len++] = digits[c >> 4];
        line[len++] = digits[c & 15];
    }
    line[len++] = '"';
    tassert_write(line, len);
}

_Noreturn void
tassert_fail(const char *file, int line, const char *func, const char *expr)
{
    static _Thread_local bool dying; /* a describer that fails must not recurse */
    /* First: each call below may change it. */
    int err = errno;
    char text[SAY_MAX + 1];
    int n = snprintf(text, SAY_MAX, "tarnd: panic at %s:%d in %s(): %s (errno %d: %s)", file, line,
        func, expr, err, strerror(err));

    /* The place before the describers: one of them may fail, and it is what matters. */
    tassert_write(text, n < SAY_MAX ? (size_t)n : SAY_MAX - 1);
    if (!dying) {
        dying = true;
        for (unsigned i = 0; i < tassert_ndescribers; i++)
            tassert_describers[i]();
    }
    /* With a core: the stack that failed is still there. */
    abort();
}
