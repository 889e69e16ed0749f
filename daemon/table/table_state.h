/* table_state.h -- left and right: how a reader keeps its copy while the writer fills the other.
 *
 * Of the left-right technique of Ramalhete and Correia, "Left-Right: A Concurrency Control
 * Technique with Wait-Free Population Oblivious Reads" (2013), with one writer, which waits, and
 * readers, which never do.  What follows is the whole protocol; table_read.c and table_write.c add
 * files to it.
 *
 *   reader  R1  i = index(load version)
 *           R2  add 1 to readers[i]
 *           R3  i' = index(load version); i' == i: it may read copy i
 *           R4  else: add 1 to readers[i'] too; i = index(load version): it may read copy i, and
 *               takes its 1 back from the other
 *           R5  when it has read: take 1 from readers[i]
 *   writer  W1  o = the other index than version has
 *           W2  wait until readers[o] is seen to be 0
 *           W3  write copy o
 *           W4  store version, with index o
 *
 * All of these are sequentially consistent, so there is one order S of them all.
 *
 * Claim: while a reader reads copy i, the writer does not write it.  The reader's count on i comes
 * before the load that gave it i (R2 before R3, both additions before R4's load).  Call that
 * load L and the store that it read P.  A write of copy i belongs to a round of the writer in which
 * W1 found index 1-i, stored by some V.
 *
 *   V before L in S: as L did not read V or an older one, P is after V: P is W4 of this round or of
 *       a later one, so the write was over before P, and a reader that read P sees what it wrote.
 *   V after L in S: the count came before L, L before V, V before this round's W2, which
 *       therefore sees the count, unless it has been taken back (R5): it waits.
 *
 * R4 needs no third look: with counts on both sides the claim holds whichever index is loaded.  So
 * a reader takes at most three loads and two additions: it is wait-free.  Without R3 a writer that
 * passes between R1 and R2 has seen no reader and overwrites what is being read: the race of the
 * simpler protocol.  t/unit/table_model_test.c tries every order of these steps, and finds it.
 *
 * A reader that dies between R2 and R5 leaves its 1 for ever.  So W2 ends after a grace period, and
 * then the writer sets the count to 0 and adds 1 to the resets beside it, in one word.  A reader
 * that was only slow finds them changed at R5: it takes nothing back, as its 1 is gone and another
 * reader's may stand there, and knows that what it read may be of two versions.
 */
#ifndef TARN_TABLE_STATE_H
#define TARN_TABLE_STATE_H

#include <stdbool.h>

#include "daemon/table/table_format.h"

/* A reader's place: which copy it is counted on, and the resets when it came. */
struct table_place {
    unsigned index;
    uint32_t resets;
};

/* R5.  False: the writer has given up waiting for us. */
static inline bool
table_state_leave(struct table_state *s, struct table_place at)
{
    _Atomic uint64_t *word = &s->readers[at.index].word;
    uint64_t was = atomic_load_explicit(word, memory_order_relaxed);

    while (was >> 32 == at.resets && (uint32_t)was != 0)
        if (atomic_compare_exchange_weak(word, &was, was - 1))
            return true;
    return false;
}

/* R1 to R4; `at` is where to leave again.  Returns the version; its copy may be read. */
static inline uint64_t
table_state_enter(struct table_state *s, struct table_place *at)
{
    unsigned index = TABLE_VERSION_INDEX(atomic_load(&s->version));
    uint64_t was = atomic_fetch_add(&s->readers[index].word, 1);
    uint64_t version = atomic_load(&s->version);
    struct table_place other;

    *at = (struct table_place){index, (uint32_t)(was >> 32)};
    if (__builtin_expect(TABLE_VERSION_INDEX(version) == index, 1))
        return version;
    other.index = index ^ 1;
    other.resets = (uint32_t)(atomic_fetch_add(&s->readers[index ^ 1].word, 1) >> 32);
    version = atomic_load(&s->version);
    if (TABLE_VERSION_INDEX(version) == index) {
        table_state_leave(s, other);
    } else {
        table_state_leave(s, *at);
        *at = other;
    }
    return version;
}

/* W2, one look. */
static inline bool
table_state_is_free(struct table_state *s, unsigned index)
{
    return (uint32_t)atomic_load(&s->readers[index].word) == 0;
}

/* The grace period is over. */
static inline void
table_state_reset(struct table_state *s, unsigned index)
{
    _Atomic uint64_t *word = &s->readers[index].word;
    uint64_t was = atomic_load(word);

    while (!atomic_compare_exchange_weak(word, &was, ((was >> 32) + 1) << 32))
        ;
    atomic_fetch_add(&s->resets, 1);
}

/* W4. */
static inline void
table_state_publish(struct table_state *s, uint64_t version)
{
    atomic_store(&s->version, version);
}

#endif
