/* fleet_state.h -- a file of one line that outlives the process: which process had the node's name, and how far it was.
 *
 * So that a node that crashed takes its name back at once, and reads on from its place.  What was in memory is gone by
 * then, so it joins anew all the same.  It is locked while it is open: two processes never have one.  Written in place, in one call: a line that is torn all the same is no line.
 *
 * Threads: the management loop's.
 */
#ifndef TARN_FLEET_STATE_H
#define TARN_FLEET_STATE_H

#include <stddef.h>

#include "daemon/fleet/fleet_id.h"

struct conf_fleet;

enum {
    FLEET_STATE_EPOCH_MAX = 17, /* with its NUL */
};

struct fleet_state_line {
    char epoch[FLEET_STATE_EPOCH_MAX];
    struct fleet_id position;
};

/* A descriptor; *out is what the file says of this fleet and node, or "" and 0-0.  TERR_BUSY and the like, and `why`. */
int fleet_state_open(
    const struct conf_fleet *conf, struct fleet_state_line *out, char *why, size_t why_size);
/* 0 or a TERR_*. */
int fleet_state_write(int fd, const struct conf_fleet *conf, const struct fleet_state_line *line);

/* For a test: of the file's text. */
bool fleet_state_parse(
    struct slice text, const struct conf_fleet *conf, struct fleet_state_line *out);

#endif
