/* acme_say.c -- what tarn-acme says, and why a step failed.
 *
 * Standard error has what an operator must act on, standard output what is so: cron mails the first alone
 * with `>/dev/null`, and the journal has both. */
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

    /* Each level gives a reason, and the innermost knows most: so callers need not look whether there is one. */
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
    /* Cut at its end: which step it was, and the first words of the reason, say more than its last ones. */
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
    /* Into a pipe or the journal stdout is buffered: lines would come behind those of stderr, or never. */
    fflush(stdout);
}

/* ASCII alone: a terminal obeys control characters, those of UTF-8 too, and a line break would pass for a
 * line of ours in a log. */
void
acme_printable(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (; *text != '\0' && n + 1 < size; text++)
        out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    out[n] = '\0';
}
