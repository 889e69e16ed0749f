/* obj.h -- typed objects that know what they are.
 *
 * Every heap object starts with `uint32_t magic`, four readable letters, so a
 * core dump says "req." rather than 0x8f21.  Freed objects say "dead".
 */
#ifndef TARN_OBJ_H
#define TARN_OBJ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/base/tassert.h"

#define OBJ_TAG(a, b, c, d) \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define OBJ_DEAD OBJ_TAG('d', 'e', 'a', 'd')

/* OBJ_CHECK -- first line of every function that is handed an object.  One comparison: which kind of
 * wrong it is, is asked of what fails it.  NULL faults by itself. */
#define OBJ_CHECK(p, tag)                                                  \
    do {                                                                   \
        if (__builtin_expect((p)->magic != (tag), 0)) {                    \
            tassert((p)->magic != OBJ_DEAD); /* used after it was freed */ \
            tassert((p)->magic == (tag));    /* never was one */           \
        }                                                                  \
    } while (0)

/* OBJ_TAKE -- move ownership out of *pp and leave NULL behind. */
#define OBJ_TAKE(to, pp, tag)  \
    do {                       \
        tassert((pp) != NULL); \
        (to) = *(pp);          \
        *(pp) = NULL;          \
        tassert((to) != NULL); \
        OBJ_CHECK(to, tag);    \
    } while (0)

/* OBJ_BURY -- mark as dead what is about to be freed another way than free(). */
#define OBJ_BURY(p) (*(volatile uint32_t *)&(p)->magic = OBJ_DEAD)

#define OBJ_FREE(p)  \
    do {             \
        OBJ_BURY(p); \
        free(p);     \
        (p) = NULL;  \
    } while (0)

#ifndef container_of
#define container_of(ptr, type, member) ((type *)(void *)((char *)((ptr)) - offsetof(type, member)))
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
