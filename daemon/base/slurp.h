/* slurp.h -- the whole of a file, for programs that an operator starts.
 *
 * Threads: any.  Blocks.
 */
#ifndef TARN_SLURP_H
#define TARN_SLURP_H

#include "daemon/base/span.h"

/* Of the file, or of standard input when the name is "-": memory that the caller frees.  0, or an
 * errno, and then *out is empty. */
int slurp_file(const char *name, struct span *out);

#endif
