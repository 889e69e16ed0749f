/* tassert.h -- assertions that stay on, and how the process dies when one fails.
 *
 * tassert(e)       always compiled in; e has no side effects
 * tassert_slow(e)  walks and recounts: debug and sanitizer builds only
 * TUNREACHABLE(w)  a place that cannot be reached, and why
 * TODO_HANDLE(e)   a case not handled yet; scripts/check counts them, zero at release
 *
 * A failure prints file:line, the expression and what the registered describers
 * say about the thread's current work, then aborts (Varnish's panic).
 */
#ifndef TARN_TASSERT_H
#define TARN_TASSERT_H

#include <stddef.h>

_Noreturn void tassert_fail(const char *file, int line, const char *func, const char *expr);

/* Called on the failing thread while it dies: reads, and says lines.  No heap, no stdio, no locks. */
typedef void tassert_describe_f(void);

/* Registers a describer for the life of the process; start-up only. */
void tassert_describe(tassert_describe_f *describe);

/* For describers: a line on stderr, by one write(2); what is too long is cut. */
void tassert_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* WHAT "TEXT", where what is not printable ASCII is written as \x0a. */
void tassert_say_text(const char *what, const char *text, size_t text_len);

#define tassert(e)                                          \
    do {                                                    \
        if (__builtin_expect(!(e), 0))                      \
            tassert_fail(__FILE__, __LINE__, __func__, #e); \
    } while (0)

#if defined(TARN_SLOW_CHECKS)
#define tassert_slow(e) tassert(e)
#else
#define tassert_slow(e) \
    do {                \
        if (0)          \
            (void)(e);  \
    } while (0)
#endif

#define TUNREACHABLE(why) tassert_fail(__FILE__, __LINE__, __func__, "unreachable: " why)
#define TODO_HANDLE(e)    tassert(!(e))

#endif
