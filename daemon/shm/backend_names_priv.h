/* backend_names_priv.h -- the bytes of the file of backends' names. */
#ifndef TARN_BACKEND_NAMES_PRIV_H
#define TARN_BACKEND_NAMES_PRIV_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/shm/backend_names_view.h"

#define BACKEND_NAMES_FILE_MAGIC UINT64_C(0x314e4b424e524154) /* "TARNBKN1" */

enum {
    BACKEND_NAMES_VERSION = 1,
    BACKEND_NAME_WORDS = BACKEND_NAME_MAX / 8,
};

/* A sequence lock.  The writer makes `turn` odd, stores the words (release), and makes it even; a
 * reader loads `turn`, the words (acquire) and `turn` again.  If it saw a word of a later turn, the
 * odd value was stored before that word, so its second look at `turn` sees the odd value or a later
 * one, and it drops what it has. */
struct backend_names_slot {
    _Atomic uint64_t turn;     /* 0: no name yet; odd: being written */
    _Atomic uint64_t since_ms; /* wall time; 0: the first name */
    _Atomic uint64_t text[BACKEND_NAME_WORDS];
};
_Static_assert(sizeof(struct backend_names_slot) == 128, "as README.md says");

struct backend_names_file {
    uint64_t magic;
    uint32_t version, slot_bytes, nslots, pid;
    uint64_t unused[5];
};
_Static_assert(sizeof(struct backend_names_file) == 64, "as README.md says");

#endif
