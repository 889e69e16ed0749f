/* vcl_writer.h -- bytes in, a policy out: what vcl_run_fuzz.c compiles and runs.
 *
 * Each choice takes one byte, so that what the fuzzer changes in one place changes one thing.
 * One thread, one policy at a time.
 */
#ifndef TARN_VCL_WRITER_H
#define TARN_VCL_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "vcl-lite/vcl_func_table.h"

/* What is left of the input; the world takes what the policy leaves. */
extern const uint8_t *writer_next, *writer_end;

/* 0 to sides - 1; 0 when the input is used up, which ends every choice. */
unsigned writer_pick(unsigned sides);
/* Writes one.  It lies in memory of the writer's until the next one; *sub is what has most of it. */
struct slice writer_policy(enum vcl_sub *sub);

#endif
