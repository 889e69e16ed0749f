/* sandbox_priv.h -- what the files of the sandbox share. */
#ifndef TARN_SANDBOX_PRIV_H
#define TARN_SANDBOX_PRIV_H

struct conf;

/* sandbox_paths.c.  0; -1 and errno: the kernel has no Landlock, or refused. */
int sandbox_paths_restrict(const struct conf *conf);

#endif
