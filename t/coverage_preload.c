/* coverage_preload.c -- LD_PRELOAD=this for scripts/coverage: Landlock is not there.
 *
 * gcc's counts are written when a program ends, beside its object files, where a confined tarnd may not
 * write.  The parameter `sandbox` stays on, and the rest of it in force.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long
syscall(long number, ...)
{
    long (*next)(long number, ...), args[6];
    void *found = dlsym(RTLD_NEXT, "syscall");
    va_list ap;

    if (number == SYS_landlock_create_ruleset) {
        errno = ENOSYS;
        return -1;
    }
    va_start(ap, number);
    for (unsigned i = 0; i < 6; i++) /* all that a call can have, whether it has them or not */
        args[i] = va_arg(ap, long);
    va_end(ap);
    memcpy(&next, &found, sizeof(next));
    return next(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
