/* vcl_dump.h -- a policy's code as text, for developers of the compiler.
 *
 * Threads: as vcl.h's loading.
 */
#ifndef TARN_VCL_DUMP_H
#define TARN_VCL_DUMP_H

struct vcl;

/* `write` is called once a line, or more often. */
void vcl_dump(const struct vcl *v, void (*write)(void *ctx, const char *text), void *ctx);

#endif
