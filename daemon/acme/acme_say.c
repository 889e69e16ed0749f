/* acme_say.c -- what tarn-acme says, and why a step failed. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/acme/acme.h"

void
acme_fail_init(struct acme_fail *f)
{
    *f = (struct acme_fail){.retry_after_s = -1};
}

int
acme_fail(struct acme_fail *f, int err, const char *fmt, ...)
{
    va_list ap;

    if (f->text[0] != '\0')
        return err;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    return err;
}

void
acme_fail_in(struct acme_fail *f, const char *step)
{
    size_t len = strlen(step) + 2, had = strlen(f->text);

    if (len >= sizeof(f->text))
        return;
    if (had > sizeof(f->text) - 1 - len)
        had = sizeof(f->text) - 1 - len;
    memmove(f->text + len, f->text, had);
    memcpy(f->text, step, len - 2);
    memcpy(f->text + len - 2, ": ", 2);
    f->text[len + had] = '\0';
}

void
acme_say(const char *fmt, ...)
{
    va_list ap;

    fputs("tarn-acme: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void
acme_report(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

void
acme_printable(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (; *text != '\0' && n + 1 < size; text++)
        out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    out[n] = '\0';
}
