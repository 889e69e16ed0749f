/* recoder.h -- what a process spends on shorter forms of what it has stored: one thread, and a budget.
 *
 * Brotli at its best takes seconds of a processor for a megabyte.  So it is for what is hit again and again, one
 * body at a time, on a thread of the least priority, and the thread rests in proportion to the time it took.
 *
 *   candidate   a response that was hit; it is worth the work when it is seen again
 *   barren      a body that did not become shorter: not tried again
 *
 * Threads: any worker; recoder_open() and recoder_close() the main thread's.
 */
#ifndef TARN_RECODER_H
#define TARN_RECODER_H

#include <stdbool.h>
#include <stdint.h>

struct dictionaries;
struct job;
struct recoder;
struct storage;

/* 0 or TERR_NOMEM.  Start-up: the thread runs when it returns.  A 32nd of `storage` (borrowed; its size: bytes) is for
 * dictionaries. */
int recoder_open(struct recoder **out, struct storage *storage, uint64_t bytes);
/* No worker has a job in it. */
void recoder_close(struct recoder **rp);

/* Borrowed, until it closes. */
struct dictionaries *recoder_dictionaries(struct recoder *r);

/* A hit of a response that has such a number, which its next version does not have.  True: it was seen before,
 * among few others, and is not barren. */
bool recoder_is_hot(struct recoder *r, uint64_t number);
bool recoder_is_barren(struct recoder *r, uint64_t number);
void recoder_set_barren(struct recoder *r, uint64_t number);

/* Takes the thread, if it has rested, until recoder_give(); `now_us`: monotonic. */
bool recoder_take(struct recoder *r, uint64_t now_us);
/* Its holder's; job->done is notified when it has run. */
void recoder_submit(struct recoder *r, struct job *j);
/* It took so much time of a processor, and `percent` of one may be spent; 0: none was. */
void recoder_give(struct recoder *r, uint64_t now_us, uint64_t cpu_us, unsigned percent);

#endif
