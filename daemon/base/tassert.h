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

_Noreturn void tassert_fail(const char *file, int line, const char *func, const char *expr);

/* Called on the failing thread while it dies: may only write to stderr. */
typedef void tassert_describe_f(void);

/* Registers a describer for the life of the process; start-up only. */
void tassert_describe(tassert_describe_f *describe);

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
