/* yaml_directors.h -- the directors that a configuration names.
 *
 * Threads: the management thread's.
 */
#ifndef TARN_YAML_DIRECTORS_H
#define TARN_YAML_DIRECTORS_H

struct conf;
struct director;

/* In the order of conf->directors, each with one hold, which is the caller's, as is the array.
 * `backends` are those of conf->backends; nothing of `conf` is needed later.  0; TERR_NOMEM;
 * TERR_LIMIT: too deep. */
int directors_make(
    struct director ***out, struct director *const *backends, const struct conf *conf);
/* Takes the array and the holds; `n`: conf->ndirectors.  What still is in use, as a member or by a
 * policy, stays until that goes.  Of NULL: nothing. */
void directors_free(struct director ***dp, unsigned n);

#endif
